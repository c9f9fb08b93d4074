"""How it is measured: short blocks of calls, the variants in turn, in one process.

The clock is the CPU time of the whole process: Guardrails hands a validator's work to a thread of its
event loop's executor, which the caller's own clock would not see.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bench.scenario import Scenario
from bench.variant import BARE, MINIMUM, Variant

_LEAST_ROUNDS = 3
_ENCODINGS = 50


@dataclass(frozen=True)
class Cost:
    """CPU time of a call under one variant, µs; differences and ratios are taken round by round.

    Attributes:
        median: of the blocks' means.
        quiet: their lower quartile.
        added: to the bare call of the same round, median.
        to_bare: ratio to the bare call of the same round, median.
        to_minimum: ratio to the minimum's call of the same round, median.
    """

    median: float
    quiet: float
    added: float
    to_bare: float
    to_minimum: float


@dataclass(frozen=True)
class Export:
    """What one call sends: spans, bytes of their OTLP protobuf messages, µs of CPU to encode them."""

    spans: int
    bytes: int
    encoding: float


def timed(
    scenario: Scenario, variants: Sequence[Variant], provider: TracerProvider, seconds: float
) -> dict[str, list[float]]:
    """Means of blocks, µs a call, in the order of the rounds, by variant; a round has a block of each.

    Args:
        scenario: what is called.
        variants: what watches; their order within a round is another every time.
        provider: records, for the variants that do.
        seconds: after which no further round begins.
    """
    means: dict[str, list[float]] = {variant.name: [] for variant in variants}
    order = random.Random(0)
    scenario.run(scenario.calls)
    gc.collect()
    gc.freeze()
    until = time.monotonic() + seconds
    while len(means[BARE]) < _LEAST_ROUNDS or time.monotonic() < until:
        for variant in order.sample(variants, len(variants)):
            means[variant.name].append(_block(scenario, variant, provider))
    return means


def _block(scenario: Scenario, variant: Variant, provider: TracerProvider) -> float:
    with variant.active(provider):
        scenario.warm_up()
        provider.force_flush()
        gc.collect()
        begun = time.process_time_ns()
        scenario.run(scenario.calls)
        spent = time.process_time_ns() - begun
    provider.force_flush()
    return spent / scenario.calls / 1000


def costs(means: Mapping[str, Sequence[float]]) -> dict[str, Cost]:
    """Costs by variant, of block means as :func:`timed` gives them."""
    bare, least = means[BARE], means[MINIMUM]
    return {
        name: Cost(
            median=statistics.median(blocks),
            quiet=statistics.quantiles(blocks, n=4)[0],
            added=statistics.median(mean - base for mean, base in zip(blocks, bare, strict=True)),
            to_bare=statistics.median(mean / base for mean, base in zip(blocks, bare, strict=True)),
            to_minimum=statistics.median(mean / base for mean, base in zip(blocks, least, strict=True)),
        )
        for name, blocks in means.items()
    }


def exported(scenario: Scenario, variant: Variant) -> Export:
    """What one call sends under a variant.

    Raises:
        RuntimeError: the call's outcome or its spans are not what the scenario says; there is nothing
            to measure then.
    """
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with variant.active(provider):
        outcome = scenario.call()
    spans = exporter.get_finished_spans()
    if not scenario.ends_as_it_should(outcome):
        raise RuntimeError(f"{scenario.name}, {variant.name}: ended with {outcome!r}")
    iterations = sum(span.name == "iteration" for span in spans)
    if bool(spans) is not variant.records or (
        variant.records and variant.iterations and iterations != scenario.iterations
    ):
        raise RuntimeError(f"{scenario.name}, {variant.name}: {len(spans)} spans, {iterations} Iterations")
    request = encode_spans(spans)
    size = sum(
        span.ByteSize()
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )
    times = []
    for _ in range(_ENCODINGS if spans else 0):
        begun = time.process_time_ns()
        encode_spans(spans).SerializeToString()
        times.append((time.process_time_ns() - begun) / 1000)
    return Export(len(spans), size, statistics.median(times) if times else 0.0)
