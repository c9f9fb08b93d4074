"""One way to watch calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

import guardspan

BARE = "bare"
MINIMUM = "minimum, recording"


@dataclass(frozen=True)
class Variant:
    """One way to watch calls.

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


def with_guardspan(unsampled: TracerProvider) -> list[Variant]:
    """Guardspan in all content modes, not sampled, and without an SDK."""
    return [
        Variant("guardspan, shape", guardspan_active(content="shape")),
        Variant("guardspan, off", guardspan_active(content="off")),
        Variant("guardspan, redacted", guardspan_active(content="redacted")),
        Variant("guardspan, sampled out", guardspan_active(tracer_provider=unsampled), records=False),
        Variant("guardspan, no SDK", guardspan_active(tracer_provider=None), records=False),
    ]


def guardspan_active(**options: Any) -> Callable[[TracerProvider], AbstractContextManager[None]]:
    """guardspan, instrumented with options."""

    @contextmanager
    def active(provider: TracerProvider) -> Iterator[None]:
        guardspan.instrument(**{"tracer_provider": provider, **options})
        try:
            yield
        finally:
            guardspan.uninstrument()

    return active
