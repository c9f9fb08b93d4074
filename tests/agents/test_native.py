"""With the library's own tracing on: one consistent tree, in which no token is told twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from agent_kit import WAYS, Script, call, desk, run
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Tracer
from outcome_kit import ADA, EVERY_WAY, Person, no_bad, ran, with_tools
from pydantic_ai import Agent, DeferredToolRequests, RunContext, UsageLimits, capture_run_messages
from pydantic_ai.agent import CallToolsNode, WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings, InstrumentedModel
from pydantic_ai.usage import RequestUsage
from recording import Recording
from spans import by_kind

import guardspan
from guardspan import semconv

Make = Callable[[], Agent[Any, Any]]
Switch = Callable[[Agent[Any, Any], InstrumentationSettings], Agent[Any, Any]]

# --- the ways to switch it on ----------------------------------------------------------------------------


def for_all_agents(agent: Agent[Any, Any], settings: InstrumentationSettings) -> Agent[Any, Any]:
    """`Agent.instrument_all(…)`."""
    Agent.instrument_all(settings)
    return agent


def for_one_agent(agent: Agent[Any, Any], settings: InstrumentationSettings) -> Agent[Any, Any]:
    """`agent.instrument = …`."""
    agent.instrument = settings
    return agent


def as_a_capability(agent: Any, settings: InstrumentationSettings) -> Any:
    """`capabilities=[Instrumentation(…)]`, for a run of its own."""
    return WithCapability(agent, Instrumentation(settings=settings))


def by_its_model(agent: Any, settings: InstrumentationSettings) -> Any:
    """`Agent(InstrumentedModel(…))`."""
    agent.model = InstrumentedModel(agent.model, settings)
    return agent


def twice(agent: Agent[Any, Any], settings: InstrumentationSettings) -> Agent[Any, Any]:
    """For all agents and by the model, as an application and its framework might do."""
    return by_its_model(for_all_agents(agent, settings), settings)


class WithCapability(WrapperAgent[Any, Any]):
    """An agent each of whose runs is given a capability."""

    def __init__(self, agent: Agent[Any, Any], capability: AbstractCapability[Any]) -> None:
        super().__init__(agent)
        self._capability = capability

    def iter(self, *args: Any, capabilities: Any = None, **options: Any) -> Any:
        """A run with one capability more."""
        return super().iter(*args, capabilities=[*(capabilities or ()), self._capability], **options)


SWITCHES: dict[str, Switch] = {
    "for all agents": for_all_agents,
    "for one agent": for_one_agent,
    "as a capability": as_a_capability,
    "by its model": by_its_model,
    "twice": twice,
}


@pytest.fixture(autouse=True)
def _off_again() -> Iterator[None]:
    """What is switched on for all agents is switched off after a test."""
    yield
    Agent.instrument_all(False)


def settings_for(recording: Recording) -> InstrumentationSettings:
    """The library's own tracing, on the same provider as ours."""
    return InstrumentationSettings(tracer_provider=recording.tracer_provider)


# --- reading the trace -----------------------------------------------------------------------------------


def skeleton(spans: Sequence[ReadableSpan]) -> str:
    """The names of the spans as a tree, children in the order of their start."""

    def lines(parent: int | None, depth: int) -> Iterator[str]:
        below = [s for s in spans if (s.parent.span_id if s.parent else None) == parent]
        for span in sorted(below, key=lambda span: span.start_time or 0):
            yield "  " * depth + span.name
            yield from lines(span.context.span_id, depth + 1)

    return "\n".join(lines(None, 0))


def summed(spans: Sequence[ReadableSpan], name: str) -> int:
    """What a back end makes of a trace that sums an attribute over all spans."""
    return sum(span.attributes.get(name, 0) for span in spans)


def own(spans: Sequence[ReadableSpan]) -> list[dict[str, Any]]:
    """The attributes of our spans, without the ids that each run has anew."""
    anew = {semconv.CALL_ID, semconv.CONVERSATION_ID, semconv.VALIDATOR_INSTANCE_ID}
    ours = [s for kind in ("call", "iteration", "validator") for s in by_kind(spans, kind)]
    return [
        {
            "name": span.name,
            "status": (span.status.status_code.name, span.status.description),
            **{name: value for name, value in span.attributes.items() if name not in anew},
        }
        for span in ours
    ]


def count(spans: Sequence[ReadableSpan], prefix: str) -> int:
    """How many spans have a name that begins so."""
    return sum(span.name.startswith(prefix) for span in spans)


every_switch = pytest.mark.parametrize("switch", SWITCHES)
every_way = pytest.mark.parametrize("way", EVERY_WAY)

# --- one tree --------------------------------------------------------------------------------------------

TREE = """\
agent desk
  invoke_agent desk
    iteration
      chat gpt-4o
      execute_tool look
    iteration
      chat gpt-4o
      execute_tool picky
    iteration
      chat gpt-4o"""


@every_switch
@every_way
def test_the_librarys_spans_and_ours_are_one_tree(recording: Recording, switch: str, way: str) -> None:
    """The library's spans lie within the Iteration that they are part of, however it was switched on."""
    agent = with_tools(call("look"), call("picky", number=1), "fine")
    ran(way, SWITCHES[switch](agent, settings_for(recording)))
    assert skeleton(recording.spans) == TREE


@every_switch
@every_way
def test_a_backend_that_sums_the_tokens_has_the_true_total(
    recording: Recording, switch: str, way: str
) -> None:
    """`gen_ai.usage.*` is on the library's span of each request, and nowhere else; ours carry none."""
    agent = SWITCHES[switch](with_tools(call("look"), "fine"), settings_for(recording))
    with capture_run_messages() as messages:
        ran(way, agent)
    usages = [message.usage for message in messages if message.kind == "response"]
    assert len(usages) == 2
    assert summed(recording.spans, "gen_ai.usage.input_tokens") == sum(u.input_tokens for u in usages)
    assert summed(recording.spans, "gen_ai.usage.output_tokens") == sum(u.output_tokens for u in usages)
    ours = [span for span in recording.spans if semconv.KIND in span.attributes]
    assert not [name for span in ours for name in span.attributes if name.startswith("gen_ai.usage.")]


class Delegating:
    """An agent that asks another one within its tool, both of them traced."""

    def __init__(self, switch: Switch, settings: InstrumentationSettings) -> None:
        usage = RequestUsage(input_tokens=1000, output_tokens=100)
        delegate: Agent[Any, Any] = Agent(Script("fine", usage=usage).model, name="delegate")
        self.delegate = switch(delegate, settings)
        agent = desk(Script(call("ask"), "fine"))
        agent.tool(self.ask)
        self.agent = switch(agent, settings)

    async def ask(self, context: RunContext[Any]) -> str:
        """Ask the other agent, on the same account."""
        return str((await self.delegate.run("hello", usage=context.usage)).output)


@every_switch
async def test_a_delegates_tree_is_within_the_tool_that_asks_it(recording: Recording, switch: str) -> None:
    """One trace for both runs, in which each token is on one span, though they share an account."""
    await Delegating(SWITCHES[switch], settings_for(recording)).agent.run("hello")
    assert (
        skeleton(recording.spans)
        == """\
agent desk
  invoke_agent desk
    iteration
      chat gpt-4o
      execute_tool ask
        agent delegate
          invoke_agent delegate
            iteration
              chat gpt-4o
    iteration
      chat gpt-4o"""
    )
    assert summed(recording.spans, "gen_ai.usage.input_tokens") == 1020
    calls = [span.attributes[semconv.INPUT_TOKENS] for span in by_kind(recording.spans, "call")]
    assert calls == [20, 1000]


# --- the same Calls and Iterations -----------------------------------------------------------------------


def of_fallback() -> Agent[Any, Any]:
    """An agent whose first model is down."""
    models = [Script(ModelHTTPError(500, "gpt-4o")).model, Script("fine").model]
    return Agent(FallbackModel(*models), name="desk")


SCENES: dict[str, tuple[Make, dict[str, Any]]] = {
    "text": (lambda: desk(Script("fine")), {}),
    "tools, one of which asks again": (
        lambda: with_tools([call("look"), call("picky", number=1)], "fine"),
        {},
    ),
    "a tool's exception": (lambda: with_tools(call("broken")), {}),
    "a deferred tool": (
        lambda: with_tools(ToolCallPart("later", {}, "one"), output_type=[str, DeferredToolRequests]),
        {},
    ),
    "an output that is rejected": (
        lambda: desk(
            Script(call("final_result", name="Ada"), call("final_result", **ADA)), output_type=Person
        ),
        {},
    ),
    "a validator that asks again": (lambda: no_bad("bad", "fine"), {}),
    "retries used up": (lambda: no_bad("bad"), {}),
    "an unknown tool": (lambda: with_tools(call("made_up"), "fine"), {}),
    "the provider's error": (lambda: desk(Script(ModelHTTPError(500, "gpt-4o"))), {}),
    "a request that is refused": (
        lambda: with_tools(call("look"), "fine"),
        {"usage_limits": UsageLimits(request_limit=1)},
    ),
    "an answer that is too much": (
        lambda: desk(Script("one two three")),
        {"usage_limits": UsageLimits(output_tokens_limit=1)},
    ),
    "a fallback": (of_fallback, {}),
}


@pytest.mark.parametrize("scene", SCENES)
@every_switch
@pytest.mark.parametrize("way", ["run", "run_stream", "iter"])
def test_calls_and_iterations_are_the_same_with_it_and_without(
    recording: Recording, way: str, switch: str, scene: str
) -> None:
    """Each attribute and status of our spans is what it is when the library's own tracing is off."""
    make, options = SCENES[scene]
    without = type(ran(way, make(), **options))
    expected = own(recording.spans)
    recording.exporter.clear()
    assert type(ran(way, SWITCHES[switch](make(), settings_for(recording)), **options)) is without
    assert own(recording.spans) == expected


@pytest.mark.parametrize("scene", SCENES)
@every_switch
def test_a_request_is_one_chat_and_a_run_one_invocation(
    recording: Recording, switch: str, scene: str
) -> None:
    """The library's own spans are as many as they would be without us, and as true."""
    make, options = SCENES[scene]
    agent = SWITCHES[switch](make(), settings_for(recording))
    ran("run", agent, **options)
    made = [s for s in by_kind(recording.spans, "iteration") if s.attributes[semconv.STATUS] != "not run"]
    assert count(recording.spans, "invoke_agent") == 1
    assert count(recording.spans, "chat") == len(made)
    chats = {span.parent.span_id for span in recording.spans if span.name.startswith("chat")}
    assert chats == {span.context.span_id for span in made}


class Copied(AbstractCapability[Any]):
    """A capability that each run has a copy of."""

    async def for_run(self, ctx: Any) -> AbstractCapability[Any]:
        """A copy."""
        return type(self)()


@every_switch
async def test_a_capability_that_is_copied_doubles_nothing(recording: Recording, switch: str) -> None:
    """The library's spans are as many as without us, also where it doubles them itself.

    Newer releases do that for an `InstrumentedModel` with a capability that is another one in each run.
    """

    async def names() -> list[str]:
        recording.exporter.clear()
        agent = SWITCHES[switch](desk(Script("fine"), capabilities=[Copied()]), settings_for(recording))
        await run(agent)
        return [span.name for span in recording.spans if semconv.KIND not in span.attributes]

    with_us = await names()
    guardspan.uninstrument()
    assert with_us == await names()
    assert len(with_us) >= 2


# --- what is current -------------------------------------------------------------------------------------


class Client:
    """A model that makes a span of its own, as an instrumented HTTP client does."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """A request that is answered as a whole."""
        with self._tracer.start_as_current_span("POST"):
            await asyncio.sleep(0)
        return ModelResponse([TextPart("fine")], usage=RequestUsage(input_tokens=10, output_tokens=2))

    async def streamed(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        """A request whose answer is streamed: the span is that of the request."""
        with self._tracer.start_as_current_span("POST"):
            await asyncio.sleep(0)
        yield "fine"

    def agent(self) -> Agent[Any, Any]:
        """An agent of this model."""
        model = FunctionModel(self.whole, stream_function=self.streamed, model_name="gpt-4o")
        return Agent(model, name="desk")


@every_way
def test_a_clients_span_is_within_the_iteration(recording: Recording, way: str) -> None:
    """With the library's own tracing off, the Iteration is what is current while the model is asked."""
    ran(way, Client(recording.tracer).agent())
    assert skeleton(recording.spans) == "agent desk\n  iteration\n    POST"


@every_switch
@every_way
def test_a_clients_span_is_within_the_chat(recording: Recording, switch: str, way: str) -> None:
    """With it on, the library's span is."""
    ran(way, SWITCHES[switch](Client(recording.tracer).agent(), settings_for(recording)))
    assert (
        skeleton(recording.spans)
        == """\
agent desk
  invoke_agent desk
    iteration
      chat gpt-4o
        POST"""
    )


@every_switch
async def test_runs_at_once_have_a_tree_each(recording: Recording, switch: str) -> None:
    """Ten of one agent: ten traces that look alike, and no span of one in another."""
    agent = SWITCHES[switch](with_tools(call("look"), "fine"), settings_for(recording))
    alone = await run(agent)
    expected = skeleton(recording.spans)
    recording.exporter.clear()
    agents = [SWITCHES[switch](with_tools(call("look"), "fine"), settings_for(recording)) for _ in range(10)]
    assert await asyncio.gather(*map(run, agents)) == [alone] * 10
    traces: dict[int, list[ReadableSpan]] = {}
    for span in recording.spans:
        traces.setdefault(span.context.trace_id, []).append(span)
    assert [skeleton(spans) for spans in traces.values()] == [expected] * 10


# --- runs that are left ----------------------------------------------------------------------------------


async def leave_run_stream(agent: Agent[Any, Any]) -> None:
    """Two words are enough."""
    async with agent.run_stream("hello") as stream:
        words = aiter(stream.stream_text(delta=True, debounce_by=None))
        await anext(words)
        await anext(words)


async def leave_run_stream_events(agent: Agent[Any, Any]) -> None:
    """Three events are enough, with the second word in the last of them."""
    async with agent.run_stream_events("hello") as events:
        for _ in range(3):
            await anext(aiter(events))


async def leave_iter(agent: Agent[Any, Any]) -> None:
    """The answer is enough."""
    async with agent.iter("hello") as agent_run:
        async for node in agent_run:
            if isinstance(node, CallToolsNode):
                break


LEAVING = (leave_run_stream, leave_run_stream_events, leave_iter)


@every_switch
@pytest.mark.parametrize("leave", LEAVING, ids=lambda leave: leave.__name__)
async def test_a_run_that_is_left_is_told_the_same(recording: Recording, switch: str, leave: Any) -> None:
    """Abandoned, with the tokens of until then, and every span has ended and is where it belongs."""
    await leave(desk(Script("one two three four")))
    expected = own(recording.spans)
    recording.exporter.clear()
    await leave(SWITCHES[switch](desk(Script("one two three four")), settings_for(recording)))
    assert own(recording.spans) == expected
    assert (
        skeleton(recording.spans)
        == """\
agent desk
  invoke_agent desk
    iteration
      chat gpt-4o"""
    )


@every_switch
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_current_is_what_was_before(recording: Recording, switch: str, way: str) -> None:
    """A run leaves nothing behind in the context of whoever called it."""
    agent = SWITCHES[switch](with_tools(call("look"), "fine"), settings_for(recording))
    with recording.tracer.start_as_current_span("request"):
        await WAYS[way](agent)
        with recording.tracer.start_as_current_span("after"):
            pass
    (after,) = [span for span in recording.spans if span.name == "after"]
    (request,) = [span for span in recording.spans if span.name == "request"]
    assert after.parent is not None
    assert after.parent.span_id == request.context.span_id
