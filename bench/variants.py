"""What watches the calls: nothing, Guardrails itself, guardspan, or the least possible work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from guardrails.settings import settings
from opentelemetry.sdk.trace import TracerProvider

import guardspan
from bench.minimum import minimum

BARE = "bare"
MINIMUM = "minimum, recording"


@dataclass(frozen=True)
class Variant:
    """One way to watch a guard.

    Attributes:
        name: as the table shows it.
        active: a context within which the calls are watched, given a provider that records.
        records: whether spans reach that provider.
        iterations: whether one of them per Iteration is named so, as guardspan and the minimum do.
    """

    name: str
    active: Callable[[TracerProvider], AbstractContextManager[None]]
    records: bool = True
    iterations: bool = True


def variants(unsampled: TracerProvider) -> list[Variant]:
    """All variants; ``unsampled`` is a provider that samples nothing."""
    return [
        Variant(BARE, _bare, records=False),
        Variant("stock, no SDK", _stock, records=False),
        Variant("stock, recording", _stock_recording, iterations=False),
        Variant(MINIMUM, minimum),
        Variant("guardspan, shape", _guardspan(content="shape")),
        Variant("guardspan, off", _guardspan(content="off")),
        Variant("guardspan, redacted", _guardspan(content="redacted")),
        Variant("guardspan, sampled out", _guardspan(tracer_provider=unsampled), records=False),
        Variant("guardspan, no SDK", _guardspan(tracer_provider=None), records=False),
    ]


@contextmanager
def _bare(provider: TracerProvider) -> Iterator[None]:
    with patch.object(settings, "disable_tracing", True):
        yield


@contextmanager
def _stock(provider: TracerProvider) -> Iterator[None]:
    yield


@contextmanager
def _stock_recording(provider: TracerProvider) -> Iterator[None]:
    """Guardrails asks for the global provider on every call; this one is global only in here."""
    with patch("opentelemetry.trace.get_tracer_provider", lambda: provider):
        yield


def _guardspan(**options: Any) -> Callable[[TracerProvider], AbstractContextManager[None]]:
    @contextmanager
    def active(provider: TracerProvider) -> Iterator[None]:
        guardspan.instrument(**{"tracer_provider": provider, **options})
        try:
            yield
        finally:
            guardspan.uninstrument()

    return active
