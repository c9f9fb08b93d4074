"""The least possible work for a guard: a span per call and one per round, by hand, without any reading.

Both carry twelve attributes, eight at the start and four at the end, since a status is not known before.
Guardrails' own tracing is switched off, and its writers find no span, as under guardspan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from guardrails.guard import Guard
from guardrails.run.runner import Runner
from guardrails.run.stream_runner import StreamRunner
from guardrails.settings import settings
from guardrails.telemetry import open_inference
from opentelemetry.context import attach, detach
from opentelemetry.trace import Span, StatusCode, Tracer, TracerProvider, set_span_in_context

_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
CALL_START: dict[str, Any] = {
    "bench.kind": "call",
    "bench.library": "guardrails",
    "bench.name": "bench",
    "bench.entry": "validate",
    "bench.operation": "guard",
    "bench.call.id": _DIGEST[:32],
    "bench.stream": False,
    "bench.contract.digest": _DIGEST,
}
CALL_END: dict[str, Any] = {
    "bench.status": "pass",
    "bench.iterations": 1,
    "bench.reasks.limit": 0,
    "bench.output": '{"chars":12,"hmac":"9f86d081884c7d65"}',
}
ITERATION_START: dict[str, Any] = {
    "bench.kind": "iteration",
    "bench.name": "bench",
    "bench.operation": "iteration",
    "bench.call.id": _DIGEST[:32],
    "bench.index": 0,
    "bench.stage": "initial",
    "bench.stream": False,
    "bench.contract.digest": _DIGEST,
}
ITERATION_END: dict[str, Any] = {
    "bench.status": "pass",
    "bench.outcome": "used",
    "bench.input": '[{"role":"user","content":{"chars":13,"hmac":"9f86d081884c7d65"}}]',
    "bench.output": '{"chars":12,"hmac":"9f86d081884c7d65"}',
}


@contextmanager
def minimum(provider: TracerProvider) -> Iterator[None]:
    """Guardrails with the two kinds of span, recorded by ``provider``."""
    tracer = provider.get_tracer("bench")
    with ExitStack() as patches:
        # `validate` calls `parse`.
        for entry in ("__call__", "parse"):
            patches.enter_context(patch.object(Guard, entry, _call(tracer, vars(Guard)[entry])))
        patches.enter_context(patch.object(Runner, "step", _step(tracer, vars(Runner)["step"])))
        stream_step = _stream_step(tracer, vars(StreamRunner)["step"])
        patches.enter_context(patch.object(StreamRunner, "step", stream_step))
        patches.enter_context(patch.object(settings, "disable_tracing", True))
        patches.enter_context(patch.object(open_inference, "get_span", _no_span))
        yield


def _no_span(span: Span | None = None) -> None:
    return None


def _call(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(guard: Guard[Any], *args: Any, **kwargs: Any) -> Any:
        span = tracer.start_span("guard bench", attributes=CALL_START)
        token = attach(set_span_in_context(span))
        try:
            result = original(guard, *args, **kwargs)
        except BaseException:
            _fail(span)
            raise
        finally:
            detach(token)
        if hasattr(result, "__next__"):
            return _ending(span, result, CALL_END)
        _end(span, CALL_END)
        return result

    return call


def _step(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    def step(runner: Runner, *args: Any, **kwargs: Any) -> Any:
        span = tracer.start_span("iteration", attributes=ITERATION_START)
        token = attach(set_span_in_context(span))
        try:
            result = original(runner, *args, **kwargs)
        except BaseException:
            _fail(span)
            raise
        finally:
            detach(token)
        _end(span, ITERATION_END)
        return result

    return step


def _stream_step(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    def step(runner: StreamRunner, *args: Any, **kwargs: Any) -> Any:
        span = tracer.start_span("iteration", attributes=ITERATION_START)
        return _ending(span, original(runner, *args, **kwargs), ITERATION_END)

    return step


def _ending(span: Span, stream: Iterator[Any], attributes: dict[str, Any]) -> Iterator[Any]:
    try:
        yield from stream
    except BaseException:
        _fail(span)
        raise
    _end(span, attributes)


def _end(span: Span, attributes: dict[str, Any]) -> None:
    span.set_attributes(attributes)
    span.end()


def _fail(span: Span) -> None:
    span.set_status(StatusCode.ERROR)
    span.end()
