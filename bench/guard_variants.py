"""What watches a guard: nothing, Guardrails itself, guardspan, or the least possible work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from guardrails.settings import settings
from opentelemetry.sdk.trace import TracerProvider

from bench.guard_minimum import minimum
from bench.variant import BARE, MINIMUM, Variant, with_guardspan


def variants(unsampled: TracerProvider) -> list[Variant]:
    """All variants; ``unsampled`` is a provider that samples nothing."""
    return [
        Variant(BARE, _bare, records=False),
        Variant("stock, no SDK", _stock, records=False),
        Variant("stock, recording", _stock_recording, iterations=False),
        Variant(MINIMUM, minimum),
        *with_guardspan(unsampled),
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
