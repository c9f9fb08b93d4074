"""Providers of a test's own, with exporters in memory, and guardspan instrumented on them."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from spans import tree

import guardspan


class Recording:
    """Providers with exporters in memory, and guardspan instrumented on them."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.metrics = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self.metrics])
        guardspan.uninstrument()
        guardspan.instrument(
            tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **options
        )
        self.tracer = self.tracer_provider.get_tracer("application")

    @property
    def spans(self) -> list[ReadableSpan]:
        """Every span that has ended, in the order of their ends."""
        return list(self.exporter.get_finished_spans())

    def tree(self) -> str:
        """The spans that have ended, as lines."""
        return tree(self.spans)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What guardspan has logged."""
    return [record.getMessage() for record in caplog.records if record.name == "guardspan"]
