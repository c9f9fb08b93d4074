"""Many runs at once, agents and guards within each other: every Call has what is its own, and no more."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agent_kit import WAYS, Script, call, desk, run
from guardrails import AsyncGuard, Guard, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult
from kit import NoBad
from opentelemetry.sdk.trace import ReadableSpan
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage, RunUsage
from recording import Recording
from spans import by_kind, tree

TASKS, THREADS, CALLS = 100, 16, 10
USAGE = "guardspan.usage."
KINDS = 6
"""What a run comes to, by its number modulo this: text, a tool, a retry of a tool, a rejected output, a tool
that breaks, a provider that is down."""


def number_of(messages: list[ModelMessage]) -> int:
    """Which run asks: its prompt says."""
    (prompt,) = [p.content for p in messages[0].parts if isinstance(p, UserPromptPart)][:1]
    return int(str(prompt))


def answer(number: int, step: int) -> list[Any]:
    """What the model says to a run's request of that number."""
    kind = number % KINDS
    if kind == 5:
        raise ConnectionError(str(number))
    if kind == 3 and step < 2:
        return [TextPart(f"bad {number}")]
    if kind in (1, 2, 4) and step < kind:
        key = {1: "ok", 2: "again" if step == 0 else "ok", 4: "broken"}[kind]
        return [call("look_up", key=key, number=number)]
    return [TextPart(f"fine {number}")]


class Crowd:
    """One agent for many runs: each has answers, tokens, tools and failures of its own."""

    def __init__(self, recording: Recording) -> None:
        self.tracer = recording.tracer
        self.asked: dict[int, int] = defaultdict(int)
        model = FunctionModel(self._whole, stream_function=self._streamed, model_name="gpt-4o")
        self.agent: Agent[Any, Any] = Agent(model, name="crowd", retries=3)
        self.agent.tool_plain(self.look_up)
        self.agent.output_validator(self.polite)

    async def look_up(self, key: str, number: int) -> str:
        """A tool that opens a span, as a client library would."""
        with self.tracer.start_as_current_span(f"look up {number}", record_exception=False):
            await asyncio.sleep(0)
            if key == "again":
                raise ModelRetry("again")
            if key == "broken":
                raise LookupError(number)
            return key

    async def polite(self, ctx: RunContext[Any], output: str) -> str:
        with self.tracer.start_as_current_span(f"polite {output.split()[1]}", record_exception=False):
            await asyncio.sleep(0)
            if output.startswith("bad") and not ctx.partial_output:
                raise ModelRetry(f"{output} is bad")
            return output

    def _next(self, messages: list[ModelMessage]) -> tuple[int, int, list[Any]]:
        number = number_of(messages)
        step = self.asked[number]
        self.asked[number] += 1
        with self.tracer.start_as_current_span(f"chat {number}", record_exception=False):
            return number, step, answer(number, step)

    async def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(0.001 * (number_of(messages) % 3))
        number, step, parts = self._next(messages)
        usage = RequestUsage(input_tokens=1000 + number, output_tokens=10 + step)
        return ModelResponse(parts=parts, usage=usage, provider_response_id=f"{number}-{step}")

    async def _streamed(self, messages: list[ModelMessage], info: AgentInfo) -> Any:
        _, _, parts = self._next(messages)
        for index, part in enumerate(parts):
            await asyncio.sleep(0)
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str())}


EXPECTED: dict[int, tuple[str, list[str]]] = {
    0: ("pass", ["pass"]),
    1: ("pass", ["pass", "pass"]),
    2: ("pass", ["fail", "pass", "pass"]),
    3: ("pass", ["fail", "fail", "pass"]),
    4: ("error", ["error"]),
    5: ("error", ["error"]),
}
"""The Call's status and its Iterations', by kind; `again` and `ok` of kind 2 are two requests."""


def traces(recording: Recording) -> dict[int, list[ReadableSpan]]:
    """The spans by the number of the run whose trace they are in; no span is without its trace's root."""
    found: dict[int, list[ReadableSpan]] = defaultdict(list)
    for span in recording.spans:
        found[span.context.trace_id].append(span)
    roots = {trace: [span.name for span in spans if span.parent is None] for trace, spans in found.items()}
    assert all(len(names) == 1 for names in roots.values()), "orphans"
    return {int(roots[trace][0]): spans for trace, spans in found.items()}


def assert_own(recording: Recording, count: int, *, whole: bool = True) -> None:
    """Each run's Call, Iterations, tokens and the application's own spans are its own."""
    found = traces(recording)
    assert sorted(found) == list(range(count))
    ids = set()
    for number, spans in found.items():
        status, statuses = EXPECTED[number % KINDS]
        (made,), iterations = by_kind(spans, "call"), by_kind(spans, "iteration")
        assert made.attributes["guardspan.status"] == status, number
        assert [span.attributes["guardspan.status"] for span in iterations] == statuses, number
        assert [span.attributes["guardspan.iteration.index"] for span in iterations] == [
            *range(len(statuses))
        ]
        assert {span.parent.span_id for span in iterations} == {made.context.span_id}
        (own,) = {span.attributes["guardspan.call.id"] for span in [made, *iterations]}
        ids.add(own)
        assert_inside(spans, iterations, number)
        if whole and status == "pass":
            total = [made.attributes[f"{USAGE}{kind}_tokens"] for kind in ("input", "output")]
            steps = range(len(statuses))
            assert total == [(1000 + number) * len(steps), sum(10 + step for step in steps)]
            answers = [span.attributes["gen_ai.response.id"] for span in iterations]
            assert answers == [f"{number}-{step}" for step in steps]
    assert len(ids) == count


def assert_inside(spans: list[ReadableSpan], iterations: list[ReadableSpan], number: int) -> None:
    """The application's own spans carry the run's number, and lie within one of its Iterations."""
    own = [span for span in spans if span.name.startswith(("chat", "look up", "polite"))]
    inside = {span.context.span_id for span in iterations}
    assert {span.name.rsplit(" ")[-1] for span in own} == {str(number)}
    assert {span.parent.span_id for span in own} <= inside
    assert sum(span.name.startswith("chat") for span in own) == len(iterations)


# --- many at once ----------------------------------------------------------------------------------------


async def one(recording: Recording, crowd: Crowd, way: str, number: int) -> None:
    """One run, in a trace of its own."""
    failing = contextlib.suppress(LookupError, ConnectionError)
    with recording.tracer.start_as_current_span(str(number)), failing:
        assert (await WAYS[way](crowd.agent, str(number))).strip() == f"fine {number}"


@pytest.mark.parametrize("way", ["run", "iter", "wrapper", "run_stream_events"])
async def test_tasks_share_an_agent(recording: Recording, way: str) -> None:
    """100 tasks on one agent, with tools, retries and failures: each has its own Iterations and tokens."""
    crowd = Crowd(recording)
    await asyncio.gather(*(one(recording, crowd, way, number) for number in range(TASKS)))
    assert_own(recording, TASKS, whole=way != "run_stream_events")


async def test_each_tree_is_what_it_is_alone(recording: Recording) -> None:
    """Line by line, and with 100 others around it."""
    crowd = Crowd(recording)
    for number in range(KINDS):
        await one(recording, crowd, "run", number)
    alone = {number: tree(spans) for number, spans in traces(recording).items()}
    recording.exporter.clear()
    crowd.asked.clear()
    await asyncio.gather(*(one(recording, crowd, "run", number) for number in range(TASKS)))
    together = {number: tree(spans) for number, spans in traces(recording).items()}
    assert {number: together[number] for number in alone} == alone
    assert len({text.count("\n") for text in alone.values()}) > 2


def test_threads_share_an_agent(recording: Recording) -> None:
    """16 threads with `run_sync`: as above."""
    crowd = Crowd(recording)
    together = threading.Barrier(THREADS)

    def work(first: int) -> None:
        together.wait()
        asyncio.set_event_loop(asyncio.new_event_loop())
        for number in range(first, THREADS * CALLS, THREADS):
            with (
                recording.tracer.start_as_current_span(str(number)),
                contextlib.suppress(LookupError, ConnectionError),
            ):
                assert crowd.agent.run_sync(str(number)).output == f"fine {number}"
        asyncio.get_event_loop().close()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert_own(recording, THREADS * CALLS)
    assert {span.attributes["guardspan.entry"] for span in by_kind(recording.spans, "call")} == {"run_sync"}


async def test_callers_share_one_usage_object(recording: Recording) -> None:
    """Totals are each run's own; the shared object has the sum, as the library has it."""
    crowd, usage = Crowd(recording), RunUsage()
    numbers = [number * KINDS + 1 for number in range(20)]
    await asyncio.gather(*(crowd.agent.run(str(number), usage=usage) for number in numbers))
    totals = [span.attributes[f"{USAGE}input_tokens"] for span in by_kind(recording.spans, "call")]
    assert sorted(totals) == [2 * (1000 + number) for number in numbers]
    assert usage.input_tokens == sum(totals)


# --- agents and guards within each other -------------------------------------------------------------------


def stepwise(name: str, *answers: Any) -> Agent[Any, Any]:
    """An agent whose answer depends on nothing but how many it has given in this run."""

    async def give(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(0)
        given = answers[sum(message.kind == "response" for message in messages)]
        parts = [TextPart(given)] if isinstance(given, str) else [call(tool) for tool in given]
        return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=10, output_tokens=2))

    return Agent(FunctionModel(give, model_name="gpt-4o"), name=name)


def delegates(agent: Agent[Any, Any], other: Agent[Any, Any]) -> None:
    """Give an agent a tool that asks another one."""

    @agent.tool
    async def ask(ctx: RunContext[Any]) -> str:
        return str((await other.run("inner", usage=ctx.usage)).output)


def outline(recording: Recording) -> list[str]:
    """The tree's lines, each with its name, number and status."""
    return [line.split("]")[0] + "]" for line in recording.tree().split("\n")]


INNERMOST = ["agent innermost run x1 [pass]", "  iteration 0 initial [pass]"]
MIDDLE = [
    "agent middle run x2 [pass]",
    "  iteration 0 initial [pass]",
    *("    " + line for line in INNERMOST),
    "  iteration 1 initial [pass]",
]
OUTER = [
    "agent outer run x3 [pass]",
    "  iteration 0 initial [pass]",
    *("    " + line for line in sorted([*MIDDLE, *MIDDLE], key=MIDDLE.index)),
    "  iteration 1 initial [pass]",
    *("    " + line for line in MIDDLE),
    "  iteration 2 initial [pass]",
]


async def test_delegates_are_under_the_iteration_that_called_them(recording: Recording) -> None:
    """Two levels, two at once; one usage object is shared all the way, each Call's tokens are its own."""
    innermost, middle = stepwise("innermost", "deep"), stepwise("middle", ["ask"], "middle")
    outer = stepwise("outer", ["ask", "ask"], ["ask"], "outer")
    delegates(middle, innermost)
    delegates(outer, middle)
    result = await outer.run("hello")
    lines = outline(recording)
    assert sorted(lines) == sorted(OUTER)
    assert lines[:3] == OUTER[:3]
    assert lines[-7:] == OUTER[-7:]
    calls = by_kind(recording.spans, "call")
    tokens = [(span.attributes["guardspan.name"], span.attributes[f"{USAGE}input_tokens"]) for span in calls]
    assert sorted(tokens) == [("innermost", 10)] * 3 + [("middle", 20)] * 3 + [("outer", 30)]
    assert result.usage.input_tokens == sum(count for _, count in tokens)


async def test_an_agent_may_call_itself(recording: Recording) -> None:
    """A run within a run of the same agent is a Call of its own."""
    agent = stepwise("desk", ["again"], "fine")
    depth = 0

    @agent.tool_plain
    async def again() -> str:
        nonlocal depth
        depth += 1
        return "enough" if depth > 2 else str((await agent.run("hello")).output)

    await agent.run("hello")
    lines = outline(recording)
    assert [line for line in lines if "agent" in line] == [
        "agent desk run x2 [pass]",
        "    agent desk run x2 [pass]",
        "        agent desk run x2 [pass]",
    ]
    assert len(lines) == 9


WHERE = ["tool", "tool in a thread", "output validator"]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("way", ["run", "iter", "run_stream_events"])
async def test_a_guard_within_an_agent(recording: Recording, where: str, way: str) -> None:
    """Called in a tool or an output validator, it is a Call under the Iteration that made it."""
    guards = {"sync": Guard(name="inner").use(NoBad(on_fail="noop"))}
    guard = AsyncGuard(name="inner").use(NoBad(on_fail="noop"))
    agent = desk(Script(call("look"), "bad answer", "fine answer"), retries=2)

    async def check(text: str) -> str:
        outcome = await guard.validate(text)
        if not outcome.validation_passed:
            raise ModelRetry("be good")
        return text

    async def look() -> str:
        return await check("fine") if where == "tool" else "seen"

    def look_in_a_thread() -> str:
        return str(guards["sync"].validate("fine").validated_output)

    async def good(ctx: RunContext[Any], output: str) -> str:
        return output if ctx.partial_output or where != "output validator" else await check(output)

    agent.tool_plain(look_in_a_thread if where == "tool in a thread" else look, name="look")
    agent.output_validator(good)
    await WAYS[way](agent)
    inner = [
        "    guard inner validate x1 [{}]",
        "      iteration 0 initial [{}]",
        "        validate NoBad [{}]",
    ]
    passed, failed = ([line.format(word) for line in inner] for word in ("pass", "fail"))
    lines = [line for line in outline(recording) if "validate good" not in line]
    if where == "output validator":
        assert lines == [
            f"agent desk {way} x3 [pass]",
            "  iteration 0 initial [pass]",
            "  iteration 1 initial [fail]",
            *failed,
            "  iteration 2 reask [pass]",
            *passed,
        ]
    else:
        assert lines == [
            f"agent desk {way} x2 [pass]",
            "  iteration 0 initial [pass]",
            *passed,
            "  iteration 1 initial [pass]",
        ]


@register_validator("tests/asks-an-agent", data_type="string")
class AsksAnAgent(Validator):
    """Has an agent judge; what it says to `bad` is no."""

    judge: Any = None

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        loop = asyncio.new_event_loop()
        try:
            verdict = loop.run_until_complete(run(self.judge, value))
        finally:
            loop.close()
        return FailResult(error_message="no") if verdict == "no" else PassResult()


def test_an_agent_within_a_guard(recording: Recording) -> None:
    """An agent that judges within a validator is a Call under the guard's Iteration, by its own name."""
    validator = AsksAnAgent(on_fail="noop")
    validator.judge = desk(Script("no", "yes"))
    guard = Guard(name="outer").use(validator)
    for word in ("fail", "pass"):
        recording.exporter.clear()
        guard.validate("text")
        lines = outline(recording)
        assert lines[:2] == [f"guard outer validate x1 [{word}]", f"  iteration 0 initial [{word}]"]
        assert sorted(line for line in lines[2:] if "validate" not in line) == [
            "      iteration 0 initial [pass]",
            "    agent desk run x1 [pass]",
        ]
