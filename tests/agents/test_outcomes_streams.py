"""Runs that do not come to their end: streams that break or are left, cancellation, time limits."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from agent_kit import WAYS, Script, call, desk, run
from outcome_kit import check, erred, expected, no_bad, outcomes, ran, with_tools
from pydantic_ai import Agent
from pydantic_ai.agent import CallToolsNode, ModelRequestNode
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingCalls, DeltaThinkingPart, FunctionModel
from pydantic_graph import End
from recording import Recording
from spans import by_kind

from guardspan import semconv

CANCELLED = "asyncio.exceptions.CancelledError"
STREAMS = ("run_stream", "run_stream_events")


async def read(events: AsyncIterator[Any], count: int) -> None:
    """Read that many items, and no more."""
    for _ in range(count):
        await anext(events)


# --- left early ------------------------------------------------------------------------------------------


async def leave_run_stream(agent: Agent[Any, Any]) -> None:
    """Two words are enough."""
    async with agent.run_stream("hello") as stream:
        await read(aiter(stream.stream_text(delta=True, debounce_by=None)), 2)


async def leave_run_stream_unread(agent: Agent[Any, Any]) -> None:
    """The stream is opened, which takes its first word, and left."""
    async with agent.run_stream("hello"):
        pass


async def leave_run_stream_events(agent: Agent[Any, Any]) -> None:
    """A part begins, the library says that it is final, and the part's second word is enough."""
    async with agent.run_stream_events("hello") as events:
        await read(aiter(events), 3)


async def leave_a_nodes_stream(agent: Agent[Any, Any]) -> None:
    """A run by hand, with one event of the stream of its request."""
    async with agent.iter("hello") as agent_run:
        async for node in agent_run:
            if isinstance(node, ModelRequestNode):
                async with node.stream(agent_run.ctx) as stream:
                    await read(aiter(stream), 1)
                break


def leave_iter_at(kind: type, times: int = 1) -> Callable[[Agent[Any, Any]], Awaitable[None]]:
    """Leaves `iter` where it shows a node of a kind for so many times."""

    async def leave(agent: Agent[Any, Any]) -> None:
        seen = 0
        async with agent.iter("hello") as agent_run:
            async for node in agent_run:
                seen += isinstance(node, kind)
                if seen == times:
                    break

    return leave


async def leave_iter_at_once(agent: Agent[Any, Any]) -> None:
    """The run is never begun."""
    async with agent.iter("hello"):
        pass


WORDS = "one two three four"
ANSWERED = "request.model=gpt-4o response.model=gpt-4o"
WHOLE_ANSWER = f"{ANSWERED} provider.name=openai response.finish_reasons=stop"


def left(entry: str, usage: str, answer: str, tools: str = "") -> str:
    """The tree of a run that was left in its first Iteration."""
    return f"""\
agent desk {entry} x1 [not run] agent.name=desk reasks.limit=1 abandoned=True request.model=gpt-4o {usage}
  iteration 0 initial [not run] abandoned=True {answer} {tools}{usage} cost.source=genai-prices"""


def used(given: int, made: int) -> str:
    """What a tree tells of tokens, and of their cost by the list (2.50 and 10 dollars per million)."""
    cost = (given * 2.5 + made * 10) / 1e6
    return f"usage.input_tokens={given} usage.output_tokens={made} cost.usd={cost:.9g}"


LEFT: dict[str, tuple[Callable[[], Agent[Any, Any]], Callable[[Agent[Any, Any]], Awaitable[None]], str]] = {
    "run_stream": (
        lambda: desk(Script(WORDS)),
        leave_run_stream,
        left("run_stream", used(50, 2), ANSWERED),
    ),
    "run_stream that nobody reads": (
        lambda: desk(Script(WORDS)),
        leave_run_stream_unread,
        left("run_stream", used(50, 1), ANSWERED),
    ),
    "run_stream_events": (
        lambda: desk(Script(WORDS)),
        leave_run_stream_events,
        left("run_stream_events", used(50, 2), ANSWERED),
    ),
    "a node's stream": (
        lambda: desk(Script(WORDS)),
        leave_a_nodes_stream,
        left("iter", used(50, 1), ANSWERED),
    ),
    "iter, with an answer": (
        lambda: with_tools(call("look"), "fine"),
        leave_iter_at(CallToolsNode),
        left("iter", used(10, 2), WHOLE_ANSWER, "tool.name=look tool.calls=1 "),
    ),
    "iter, before a request": (
        lambda: desk(Script("fine")),
        leave_iter_at(ModelRequestNode),
        "agent desk iter x0 [not run] agent.name=desk abandoned=True",
    ),
    "iter, at once": (
        lambda: desk(Script("fine")),
        leave_iter_at_once,
        "agent desk iter x0 [not run] agent.name=desk abandoned=True",
    ),
    "iter, after an output was rejected": (
        lambda: no_bad("bad", "fine"),
        leave_iter_at(ModelRequestNode, 2),
        f"""\
agent desk iter x1 [fail] agent.name=desk reasks.limit=1 abandoned=True request.model=gpt-4o {used(10, 2)} \
failure.class=validation validators.failed=no_bad
  iteration 0 initial [fail] abandoned=True {WHOLE_ANSWER} {used(10, 2)} cost.source=genai-prices \
validators.failed=no_bad failure.class=validation failure.repeats=1
{check("no_bad", "fail")}""",
    ),
}


@pytest.mark.parametrize("case", LEFT)
async def test_a_run_that_is_left_is_abandoned(recording: Recording, case: str) -> None:
    """Neither pass nor error: `not run` unless a check had failed, with the tokens of until then."""
    agent, leave, tree = LEFT[case]
    await leave(agent())
    assert recording.tree() == tree


async def test_a_second_run_is_not_taken_for_part_of_one_that_was_left(recording: Recording) -> None:
    """Where a stream is left, the context of before is current again."""
    agent = desk(Script(WORDS))
    await leave_run_stream(agent)
    await leave_run_stream_events(agent)
    await run(agent)
    calls = by_kind(recording.spans, "call")
    assert [span.parent for span in calls] == [None] * 3
    assert len({span.context.trace_id for span in calls}) == 3


# --- given up --------------------------------------------------------------------------------------------


class Waiting:
    """A model that says two words when it streams, a tool, or a validator that waits for ever."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def wait(self) -> str:
        """Say that it has come to this, and wait."""
        self.reached.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes it")

    async def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> Any:
        await self.wait()

    async def _streamed(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "one "
        yield "two "
        await self.wait()

    def model(self) -> Agent[Any, Any]:
        """An agent whose model waits."""
        model = FunctionModel(self._whole, stream_function=self._streamed, model_name="gpt-4o")
        return Agent(model, name="desk")

    def tool(self) -> Agent[Any, Any]:
        """An agent whose tool waits."""
        agent = desk(Script(call("wait"), "fine"))
        agent.tool_plain(self.wait)
        return agent


GIVEN_UP = {
    Waiting.model: erred(CANCELLED, "cancelled"),
    Waiting.tool: erred(CANCELLED, "cancelled", " tool.name=wait tool.calls=1"),
}


CANCELLABLE = [way for way in WAYS if way != "run_stream_events"]
"""Ways whose run is the caller's own task. Events come from another one, which ends alike in every case."""


@pytest.mark.parametrize("waits", GIVEN_UP, ids=lambda waits: waits.__name__)
@pytest.mark.parametrize("way", CANCELLABLE)
async def test_a_cancelled_run_is_an_error(
    recording: Recording, way: str, waits: Callable[[Waiting], Agent[Any, Any]]
) -> None:
    """Given up from outside is class `cancelled`; how a library waits inside is no cause of it."""
    waiting = Waiting()
    task = asyncio.ensure_future(WAYS[way](waits(waiting)))
    await waiting.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert outcomes(recording) == expected(GIVEN_UP[waits], way)


async def test_a_cancelled_reader_of_events_has_left(recording: Recording) -> None:
    """The task that runs the agent is cancelled when its reader leaves, for whatever reason that does."""
    waiting = Waiting()
    task = asyncio.ensure_future(WAYS["run_stream_events"](waiting.model()))
    await waiting.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (call, iteration) = outcomes(recording).splitlines()
    assert call.startswith("agent desk run_stream_events x1 [not run]")
    assert iteration.startswith("  iteration 0 initial [not run] abandoned=True")


@pytest.mark.parametrize("way", CANCELLABLE)
async def test_a_run_beyond_the_applications_time_limit_is_an_error(recording: Recording, way: str) -> None:
    """`asyncio.wait_for` cancels the run, and a cancellation is all that a run can know of it."""
    with pytest.raises((TimeoutError, asyncio.TimeoutError)):
        await asyncio.wait_for(WAYS[way](Waiting().model()), 0.05)
    assert outcomes(recording) == expected(GIVEN_UP[Waiting.model], way)


@pytest.mark.parametrize("way", ["run", "run_stream", "run_stream_events", "iter"])
async def test_a_run_beyond_its_own_time_limit_is_a_timeout(recording: Recording, way: str) -> None:
    """Newer releases have a time limit of their own, and say so; in older ones the model's client has one."""
    own = "timeout" in inspect.signature(Agent.iter).parameters
    agent = Waiting().model() if own else desk(Script(TimeoutError("the client's")))
    with pytest.raises(TimeoutError):
        await WAYS[way](agent, **({"timeout": 0.05} if own else {}))
    for kind in ("call", "iteration"):
        (span,) = by_kind(recording.spans, kind)
        assert span.attributes[semconv.STATUS] == "error"
        assert span.attributes[semconv.FAILURE_CLASS] == "timeout"


async def test_a_cancelled_stream_keeps_its_tokens(recording: Recording) -> None:
    """What had been streamed is paid for, however the stream ends."""
    waiting = Waiting()
    task = asyncio.ensure_future(WAYS["run_stream"](waiting.model()))
    await waiting.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [span.attributes["guardspan.usage.output_tokens"] for span in recording.spans] == [2, 2]


# --- broken ----------------------------------------------------------------------------------------------


def breaking(error: Exception, *words: str) -> Agent[Any, Any]:
    """An agent whose model says words, then raises."""

    async def streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for word in words:
            yield f"{word} "
        raise error

    return Agent(FunctionModel(stream_function=streamed, model_name="gpt-4o"), name="desk")


BROKEN = {"provider": ConnectionError, "timeout": TimeoutError}


@pytest.mark.parametrize("way", STREAMS)
@pytest.mark.parametrize("words", [(), ("one", "two")], ids=len)
@pytest.mark.parametrize("failure_class", BROKEN)
def test_a_stream_that_breaks_is_the_models_failure(
    recording: Recording, way: str, words: tuple[str, ...], failure_class: str
) -> None:
    """Whether a word had come or not: the model raised it, and so it is told as when an answer is whole."""
    error = BROKEN[failure_class]("lost")
    assert ran(way, breaking(error, *words)) is error
    assert outcomes(recording) == expected(erred(type(error).__name__, failure_class), way)


@pytest.mark.parametrize("way", STREAMS)
def test_a_stream_that_breaks_keeps_its_tokens(recording: Recording, way: str) -> None:
    """An error after two words does not make them free of charge."""
    ran(way, breaking(ConnectionError("lost"), "one", "two"))
    assert [span.attributes["guardspan.usage.output_tokens"] for span in recording.spans] == [2, 2]


@pytest.mark.parametrize("way", ["run", "run_sync", "wrapper"])
def test_an_event_handler_that_raises_is_an_error(recording: Recording, way: str) -> None:
    """A handler of the application's own that reads the stream is not the model."""

    async def handler(context: Any, events: AsyncIterator[Any]) -> None:
        async for _ in events:
            raise LookupError("no such window")

    assert isinstance(ran(way, desk(Script(WORDS)), event_stream_handler=handler), LookupError)
    assert outcomes(recording) == expected(erred("LookupError", "configuration"), way)


@pytest.mark.parametrize("way", ["run", "run_sync", "wrapper"])
def test_an_event_handler_makes_no_difference(recording: Recording, way: str) -> None:
    """With a handler the answer is streamed to it, and the Call is the one of a run without."""

    async def handler(context: Any, events: AsyncIterator[Any]) -> None:
        async for _ in events:
            pass

    ran(way, with_tools(call("picky", number=1), "fine"), event_stream_handler=handler)
    with_handler = outcomes(recording)
    recording.exporter.clear()
    ran(way, with_tools(call("picky", number=1), "fine"))
    assert with_handler == outcomes(recording)


async def _thoughts_first(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaThinkingCalls]:
    if len(messages) == 1:
        yield {0: DeltaThinkingPart(content="hm")}
    else:
        yield "fine"


@pytest.mark.parametrize("way", STREAMS)
def test_a_streamed_answer_of_thoughts_alone_is_empty(recording: Recording, way: str) -> None:
    """A thought is no output: the model is asked again, and the Iteration says why."""
    ran(way, Agent(FunctionModel(stream_function=_thoughts_first, model_name="gpt-4o"), name="desk"))
    tree = """\
agent desk ENTRY x2 [pass] reasks.limit=1
  iteration 0 initial [fail] reask.reason=empty failure.class=provider failure.repeats=1
  iteration 1 reask [pass]"""
    assert outcomes(recording) == expected(tree, way)


# --- raised by the application ---------------------------------------------------------------------------


async def raise_within_iter(agent: Agent[Any, Any]) -> None:
    """The application raises when it sees an answer."""
    async with agent.iter("hello") as agent_run:
        async for node in agent_run:
            if isinstance(node, CallToolsNode):
                raise LookupError("no such order")


async def raise_within_run_stream(agent: Agent[Any, Any]) -> None:
    """The application raises where it would read."""
    async with agent.run_stream("hello"):
        raise LookupError("no such window")


@pytest.mark.parametrize(
    ("use", "way"), [(raise_within_iter, "iter"), (raise_within_run_stream, "run_stream")]
)
async def test_an_exception_of_the_applications_own_is_an_error(
    recording: Recording, use: Callable[[Agent[Any, Any]], Awaitable[None]], way: str
) -> None:
    """The run ends by it, so Call and open Iteration name it; it reaches the application as it was."""
    with pytest.raises(LookupError, match="no such"):
        await use(desk(Script("fine")))
    assert outcomes(recording) == expected(erred("LookupError", "configuration"), way)


async def raise_after_the_result(agent: Agent[Any, Any]) -> None:
    """The application raises when all is done."""
    async with agent.iter("hello") as agent_run:
        node = agent_run.next_node
        while not isinstance(node, End):
            node = await agent_run.next(node)
        raise LookupError("no such order")


async def test_an_exception_after_the_result_is_the_calls_alone(recording: Recording) -> None:
    """Every answer was accepted, so every Iteration has passed, whatever the application does with it."""
    with pytest.raises(LookupError, match="no such"):
        await raise_after_the_result(with_tools(call("look"), "fine"))
    assert (
        outcomes(recording)
        == """\
agent desk iter x2 [error] ! LookupError reasks.limit=1 failure.class=configuration error.type=LookupError
  iteration 0 initial [pass] tool.name=look tool.calls=1
  iteration 1 initial [pass]"""
    )
