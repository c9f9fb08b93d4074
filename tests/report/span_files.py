"""Span files for the report's tests: written by the real SDK and exporter, with the contract's attributes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Span, set_span_in_context

from guardspan import semconv
from guardspan.files import GuardspanFileExporter
from guardspan.report.aggregate import make_report
from guardspan.report.model import By, Report
from guardspan.report.reading import SpanFiles, find_files

NOON = 1_764_504_000
"""2025-11-30 12:00 UTC, Unix seconds."""

_NAMES = {
    "status": semconv.STATUS,
    "cost": semconv.COST_USD,
    "input": semconv.INPUT_TOKENS,
    "output": semconv.OUTPUT_TOKENS,
    "cache_read": semconv.CACHE_READ_TOKENS,
    "cache_creation": semconv.CACHE_CREATION_TOKENS,
    "reasoning": semconv.REASONING_TOKENS,
    "outcome": semconv.OUTCOME,
    "stage": semconv.ITERATION_STAGE,
    "index": semconv.ITERATION_INDEX,
    "reason": semconv.REASK_REASON,
    "asked": semconv.REQUEST_MODEL,
    "model": semconv.RESPONSE_MODEL,
    "provider": semconv.PROVIDER_NAME,
    "response_id": semconv.RESPONSE_ID,
    "finish_reasons": semconv.FINISH_REASONS,
    "failure": semconv.FAILURE_CLASS,
    "failed": semconv.VALIDATORS_FAILED,
    "error": semconv.ERROR_TYPE,
    "cause": semconv.FAILURE_CAUSE,
    "evidence": semconv.EVIDENCE,
    "redactions": semconv.REDACTIONS,
    "redaction_failures": semconv.REDACTION_FAILURES,
    "team": semconv.TEAM,
    "entry": semconv.ENTRY,
    "library": semconv.LIBRARY,
    "iterations": semconv.ITERATIONS,
    "guardrails_id": semconv.GUARDRAILS_CALL_ID,
    "stuck": semconv.STUCK,
    "limit_reached": semconv.LIMIT_REACHED,
    "abandoned": semconv.ABANDONED,
    "unpriced": semconv.COST_UNPRICED,
    "stream": semconv.STREAM,
    "on_fail": semconv.VALIDATOR_ON_FAIL,
    "path": semconv.VALIDATOR_PATH,
    "runs": semconv.VALIDATOR_RUNS,
    "repeats": semconv.FAILURE_REPEATS,
    "library_status": semconv.LIBRARY_STATUS,
}


def attributes(kind: str, name: str | None, **known: Any) -> dict[str, Any]:
    """The contract's attributes by the short names above; what is None is left out."""
    made = {semconv.KIND: kind, semconv.NAME: name}
    made.update({_NAMES[key]: value for key, value in known.items()})
    return {key: value for key, value in made.items() if value is not None}


@dataclass
class Check:
    """A Validator span to write."""

    validator: str
    outcome: str | None = "pass"
    seconds: float = 0.001
    known: dict[str, Any] = field(default_factory=dict)


class Attempt:
    """An Iteration span to write, with its checks and the Calls below it."""

    def __init__(
        self, status: str = "pass", *, checks: Sequence[Check] = (), calls: Sequence[Call] = (), **known: Any
    ) -> None:
        self.checks = checks
        self.calls = calls
        self.seconds = known.pop("seconds", 0.5)
        stage = known.pop("stage", "initial")
        outcome = known.pop("outcome", "used" if status == "pass" else "wasted")
        self.known = {"status": status, "stage": stage, "outcome": outcome, **known}


class Call:
    """A Call span to write, with its attempts; `at` is seconds after noon."""

    def __init__(
        self,
        name: str | None,
        call_id: str | None,
        *attempts: Attempt,
        at: float = 0,
        seconds: float = 1.0,
        ends: bool = True,
        through: bool = False,
        **known: Any,
    ) -> None:
        self.name, self.call_id, self.attempts = name, call_id, attempts
        self.at, self.seconds, self.ends, self.through = at, seconds, ends, through
        known.setdefault("status", "pass")
        known.setdefault("entry", "__call__")
        known.setdefault("iterations", len(attempts))
        self.known = known


def _ns(seconds: float) -> int:
    return NOON * 10**9 + round(seconds * 10**9)


class Writer:
    """Writes Calls into a folder."""

    def __init__(self, folder: Path, **resource: str) -> None:
        self.exporter = GuardspanFileExporter(directory=folder)
        self.provider = TracerProvider(resource=Resource({"service.name": "tests", **resource}))
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")

    def write(self, *calls: Call) -> None:
        """Write Calls, each a trace of its own."""
        for call in calls:
            self._call(call, Context())

    def _call(self, call: Call, parent: Context) -> None:
        if call.through:
            between = self.tracer.start_span("POST", context=parent, start_time=_ns(call.at))
            parent = set_span_in_context(between)
        known = attributes("call", call.name, **call.known)
        if call.call_id is not None:
            known[semconv.CALL_ID] = call.call_id
        span = self.tracer.start_span(f"guard {call.name}", parent, attributes=known, start_time=_ns(call.at))
        for number, attempt in enumerate(call.attempts):
            self._attempt(call, number, attempt, span)
        if call.ends:
            span.end(_ns(call.at + call.seconds))
        if call.through:
            between.end(_ns(call.at + call.seconds))

    def _attempt(self, call: Call, number: int, attempt: Attempt, parent: Span) -> None:
        start = call.at + number * 0.01
        known = attributes("iteration", call.name, index=number, **attempt.known)
        if call.call_id is not None:
            known[semconv.CALL_ID] = call.call_id
        if "team" in call.known:
            known[semconv.TEAM] = call.known["team"]
        context = set_span_in_context(parent)
        span = self.tracer.start_span("iteration", context, attributes=known, start_time=_ns(start))
        for check in attempt.checks:
            self._check(call, check, start, span)
        for nested in attempt.calls:
            self._call(nested, set_span_in_context(span))
        span.end(_ns(start + attempt.seconds))

    def _check(self, call: Call, check: Check, start: float, parent: Span) -> None:
        known = attributes("validator", call.name, **check.known)
        known[semconv.VALIDATOR_NAME] = check.validator
        if check.outcome is not None:
            known[semconv.VALIDATOR_OUTCOME] = check.outcome
        context = set_span_in_context(parent)
        span = self.tracer.start_span(
            f"validate {check.validator}", context, attributes=known, start_time=_ns(start)
        )
        span.end(_ns(start + check.seconds))


@contextmanager
def writing(folder: Path, **resource: str) -> Iterator[Writer]:
    """A writer that is shut down at the end."""
    writer = Writer(folder, **resource)
    yield writer
    writer.provider.shutdown()


def report_of(*paths: Path, by: By = "name", since_ns: int = 0) -> Report:
    """The report of files or folders."""
    return make_report(SpanFiles(find_files(paths), since_ns), by)


def span_line(*spans: dict[str, Any], **resource: str) -> str:
    """One OTLP JSON line of raw spans, as some other producer might write it."""
    entries = [{"key": key, "value": {"stringValue": value}} for key, value in resource.items()]
    scopes = [{"scope": {}, "spans": list(spans)}]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": entries}, "scopeSpans": scopes}]}) + "\n"


def raw_span(kind: str, number: int = 1, **values: Any) -> dict[str, Any]:
    """One raw OTLP JSON span; `values` are OTLP values by the short names of attributes."""
    known = {semconv.KIND: {"stringValue": kind}, **{_NAMES[key]: value for key, value in values.items()}}
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": kind,
        "kind": 1,
        "startTimeUnixNano": str(_ns(0)),
        "endTimeUnixNano": str(_ns(1)),
        "attributes": [{"key": key, "value": value} for key, value in known.items()],
    }
