"""What watches an agent: nothing, the library's own tracing, guardspan, or the least possible work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

from bench.agent_minimum import minimum
from bench.variant import BARE, MINIMUM, Variant, guardspan_active, with_guardspan


def variants(unsampled: TracerProvider) -> list[Variant]:
    """All variants; ``unsampled`` is a provider that samples nothing."""
    return [
        Variant(BARE, _bare, records=False),
        Variant("the library's own", _native, iterations=False),
        Variant(MINIMUM, minimum),
        *with_guardspan(unsampled),
        Variant("guardspan and the library's own", _both),
    ]


@contextmanager
def _bare(provider: TracerProvider) -> Iterator[None]:
    yield


@contextmanager
def _native(provider: TracerProvider) -> Iterator[None]:
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider, include_content=False))
    try:
        yield
    finally:
        Agent.instrument_all(False)


@contextmanager
def _both(provider: TracerProvider) -> Iterator[None]:
    with _native(provider), guardspan_active(content="shape")(provider):
        yield
