"""An agent on a real provider's client, over HTTP: what its answers say, and where its spans lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from agent_kit import WAYS, iterate, run_stream
from opentelemetry.instrumentation import httpx as instrumentation
from opentelemetry.trace import SpanKind
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from recording import Recording
from spans import by_kind
from support_desk.server import Reply, ScriptedServer, usage

from guardspan import semconv

CLIENTS = {"httpx": "HTTPXClientInstrumentor", "httpx2": "HTTPX2ClientInstrumentor"}
"""The HTTP libraries that the provider's client may use, by release."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Says four words, and what they took."""
    with ScriptedServer(lambda _: Reply("one two three four", usage=usage(12, 4, cached=5))) as started:
        yield started


@pytest.fixture
def http_recording(recording: Recording) -> Iterator[Recording]:
    """HTTP requests are recorded beside the runs."""
    names = [name for library, name in CLIENTS.items() if find_spec(library) is not None]
    instrumentors = [getattr(instrumentation, name)() for name in names]
    for instrumentor in instrumentors:
        instrumentor.instrument(tracer_provider=recording.tracer_provider, skip_dep_check=True)
    yield recording
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


def agent_of(server: ScriptedServer, **options: Any) -> Agent[Any, Any]:
    """An agent that asks the server; made after the HTTP library is instrumented."""
    provider = OpenAIProvider(base_url=server.base_url, api_key="local")
    return Agent(OpenAIChatModel("gpt-4o", provider=provider), name="desk", **options)


async def stream_of_node(agent: Agent[Any, Any]) -> None:
    """`async with agent.iter(…)`, whose request is streamed by hand."""
    async with agent.iter("hello") as agent_run:
        async for node in agent_run:
            if Agent.is_model_request_node(node):
                async with node.stream(agent_run.ctx) as stream:
                    async for _ in stream:
                        pass


async def left_stream(agent: Agent[Any, Any]) -> None:
    """`run_stream`, left after its first words."""
    async with agent.run_stream("hello") as stream:
        async for _ in stream.stream_text(debounce_by=None):
            break


ALL_WAYS: dict[str, Callable[..., Any]] = {
    **WAYS,
    "stream of a node": stream_of_node,
    "a stream that is left": left_stream,
}


@pytest.mark.parametrize("native", [False, True], ids=["ours alone", "with the library's own tracing"])
@pytest.mark.parametrize("way", ALL_WAYS)
async def test_the_request_lies_under_its_iteration(
    http_recording: Recording, server: ScriptedServer, way: str, native: bool
) -> None:
    """`agent > iteration > HTTP`, and with the library's own tracing `… > iteration > chat > HTTP`."""
    settings = InstrumentationSettings(tracer_provider=http_recording.tracer_provider)
    watching = [Instrumentation(settings=settings)] if native else []
    await ALL_WAYS[way](agent_of(server, capabilities=watching))
    spans = {span.context.span_id: span for span in http_recording.spans}
    (request,) = [span for span in spans.values() if span.kind is SpanKind.CLIENT and span.name == "POST"]
    path = []
    above = request.parent
    while above is not None:
        path.append(spans[above.span_id].name)
        above = spans[above.span_id].parent
    ours, others = ["iteration", "agent desk"], ["chat gpt-4o", "invoke_agent desk"]
    assert path == ([others[0], ours[0], others[1], ours[1]] if native else ours)


@pytest.mark.parametrize("way", [iterate, run_stream])
async def test_the_providers_own_words_are_read(
    recording: Recording, server: ScriptedServer, way: Callable[..., Any]
) -> None:
    """Tokens with their cached part, price, model, provider, reason to stop; streamed as well as whole."""
    await way(agent_of(server))
    (iteration,) = by_kind(recording.spans, "iteration")
    found = dict(iteration.attributes or {})
    assert found[semconv.INPUT_TOKENS] == 12
    assert found[semconv.OUTPUT_TOKENS] == 4
    assert found[semconv.CACHE_READ_TOKENS] == 5
    assert found[semconv.COST_USD] == pytest.approx((7 * 2.5 + 5 * 1.25 + 4 * 10) / 1_000_000)
    assert found[semconv.COST_SOURCE] == "genai-prices"
    assert found[semconv.RESPONSE_MODEL] == "gpt-4o"
    assert found[semconv.PROVIDER_NAME] == "openai"
    assert found[semconv.FINISH_REASONS] == ("stop",)
    assert str(found[semconv.RESPONSE_ID]).startswith("chatcmpl-")
