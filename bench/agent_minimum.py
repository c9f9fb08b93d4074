"""The least possible work for an agent: a span per run and one per request, by hand, without any reading.

Both carry twelve attributes, as those for a guard do. No capability is added, which no instrumentation that
sees retries and validations can do without.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import patch

from opentelemetry.context import attach, detach
from opentelemetry.trace import Span, StatusCode, Tracer, TracerProvider, set_span_in_context
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel

from bench.guard_minimum import CALL_END, CALL_START, ITERATION_END, ITERATION_START


@contextmanager
def minimum(provider: TracerProvider) -> Iterator[None]:
    """Pydantic AI with the two kinds of span, recorded by ``provider``."""
    tracer = provider.get_tracer("bench")
    with ExitStack() as patches:
        patches.enter_context(patch.object(Agent, "iter", _run(tracer, vars(Agent)["iter"])))
        request, stream = vars(FunctionModel)["request"], vars(FunctionModel)["request_stream"]
        patches.enter_context(patch.object(FunctionModel, "request", _request(tracer, request)))
        patches.enter_context(patch.object(FunctionModel, "request_stream", _stream(tracer, stream)))
        yield


def _run(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    @asynccontextmanager
    async def run(agent: Agent[Any, Any], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with _current(tracer.start_span("agent bench", attributes=CALL_START), CALL_END):
            async with original(agent, *args, **kwargs) as agent_run:
                yield agent_run

    return run


def _request(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    async def request(model: FunctionModel, *args: Any, **kwargs: Any) -> Any:
        with _current(tracer.start_span("iteration", attributes=ITERATION_START), ITERATION_END):
            return await original(model, *args, **kwargs)

    return request


def _stream(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    @asynccontextmanager
    async def stream(model: FunctionModel, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with _current(tracer.start_span("iteration", attributes=ITERATION_START), ITERATION_END):
            async with original(model, *args, **kwargs) as response:
                yield response

    return stream


@contextmanager
def _current(span: Span, attributes: dict[str, Any]) -> Iterator[None]:
    token = attach(set_span_in_context(span))
    try:
        yield
    except BaseException:
        span.set_status(StatusCode.ERROR)
        raise
    finally:
        detach(token)
        span.set_attributes(attributes)
        span.end()
