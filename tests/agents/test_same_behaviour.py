"""An application runs its agents the same with and without guardspan.

Each scenario is run twice, bare and instrumented, and all that the application could notice is compared:
results, messages, usage, exceptions with their chains, the order of events, hooks, tools and validators, what
the model was sent, context variables, the current span, warnings, and what is kept alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import inspect
import logging
import pickle
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_kit import WAYS, Script, call, run_sync
from agent_leavings import LEAVINGS
from agent_planting import CASES, SCRIPTS, USES, World, equipped, observe, validated
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from pydantic_ai import Agent
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import BinaryContent, ModelMessagesTypeAdapter, ModelRequest, UserPromptPart
from pydantic_ai.toolsets import FunctionToolset
from recording import Recording
from spans import by_kind

import guardspan
from guardspan import safety

Scenario = Callable[[World], Awaitable[Any]]


async def bare(scenario: Scenario) -> list[str]:
    """What is noticed without guardspan."""
    guardspan.uninstrument()
    found = await observe(TracerProvider().get_tracer("application"), scenario)
    assert "('current', True, True)" in found
    assert len(found) > 3
    return found


async def assert_same(record: Callable[..., Recording], scenario: Scenario, **options: Any) -> Recording:
    """Compare a scenario's bare run with its instrumented one; gives the recording of the latter."""
    before = await bare(scenario)
    recording = record(**{"content": "redacted", "evaluation_events": True, **options})
    assert await observe(recording.tracer, scenario) == before
    return recording


async def use_tools(world: World, use: str, script: str) -> None:
    """An agent with everything follows a script."""
    asked = Script(*copy.deepcopy(SCRIPTS[script]))
    agent = validated(world, equipped(world, asked))
    try:
        await USES[use](world, agent, deps="deps", metadata={"a": 1})
    finally:
        world.note("sent", [ModelMessagesTypeAdapter.dump_python(r, mode="json") for r in asked.requests])


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_every_way_and_script(record: Callable[..., Recording], use: str, script: str) -> None:
    """Results, messages, usage, exceptions, hooks, what the model was sent: all is that of the bare run."""
    recording = await assert_same(record, lambda world: use_tools(world, use, script))
    assert len(by_kind(recording.spans, "call")) == 1


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("case", CASES)
async def test_whatever_an_application_does(record: Callable[..., Recording], use: str, case: str) -> None:
    """Overrides, delegates, capabilities that mend, limits, bad arguments: all is as in the bare run."""
    await assert_same(record, lambda world: CASES[case](world, USES[use]))


async def leave(world: World, leaving: str) -> None:
    """An agent's run that is not seen through."""
    script = Script(call("look_up", key="a"), "one two three four")
    await LEAVINGS[leaving](world, equipped(world, script))


@pytest.mark.parametrize("leaving", LEAVINGS)
async def test_however_it_leaves(record: Callable[..., Recording], leaving: str) -> None:
    """Streams and runs that are left, cancelled or never begun, and the current context afterwards."""
    await assert_same(record, lambda world: leave(world, leaving))


@pytest.mark.parametrize("use", [*USES, *LEAVINGS])
@pytest.mark.usefixtures("record")
async def test_nor_is_anything_noticed_where_nothing_is_sampled(use: str) -> None:
    """Less is done for a run that is not sampled, and no capability is added; nothing breaks."""

    async def scenario(world: World) -> None:
        await (leave(world, use) if use in LEAVINGS else use_tools(world, use, "tool asks again"))

    before = await bare(scenario)
    provider = TracerProvider(sampler=ALWAYS_OFF)
    guardspan.instrument(tracer_provider=provider, content="redacted")
    assert await observe(provider.get_tracer("application"), scenario) == before


# --- faults of our own, and of hooks ---------------------------------------------------------------------

PARTS = [
    *(f"execution.AgentExecution.{name}" for name in ("__init__", "begins", "began", "current", "finished")),
    *(f"execution.AgentExecution.{name}" for name in ("request_is_next", "request_begins", "responded")),
    *(f"execution.AgentExecution.{name}" for name in ("tool_raised", "processed", "result_is_known", "left")),
    *(f"execution.AgentExecution.{name}" for name in ("request_raised", "schema_checked", "failed", "live")),
    *("rounds.Round.answered", "rounds.Round.checked", "rounds.Round.followed_by", "reader.read_response"),
    *("agents.AgentRegistry.digest", "agents.name_of", "agents.output_validators", "pairing.walk"),
    *("patches.in_durable_workflow", "patches.entry_of_caller", "patches.AgentExecution"),
    "capability.GuardspanCapability.__init__",
]


@pytest.mark.parametrize("use", ["run", "run_stream", "iterate_by_hand"])
@pytest.mark.parametrize("part", PARTS)
async def test_a_fault_of_ours_costs_the_application_nothing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: Callable[..., Recording],
    part: str,
    use: str,
) -> None:
    """Whatever part of ours raises, results and exceptions are those of the bare run, and a line says so."""

    def fault(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("sentinel of our own")

    async def scenario(world: World) -> None:
        for script in ("tool asks again", "validator asks again", "provider", "arguments of a wrong type"):
            await world.attempt(use_tools(world, use, script))
        await world.attempt(CASES["structured"](world, USES[use]))
        await world.attempt(CASES["history"](world, USES[use]))
        await world.attempt(leave(world, "iter left"))

    before = await bare(scenario)
    caplog.set_level(logging.INFO, logger="guardspan")
    monkeypatch.setattr(safety, "_reported", set())
    whole = f"guardspan.pydantic_ai.{part}"
    monkeypatch.setattr(whole, property(fault) if part.endswith(".live") else fault)
    recording = record(content="redacted")
    assert await observe(recording.tracer, scenario) == before
    lines = [each.getMessage() for each in caplog.records if each.name == "guardspan"]
    assert any("RuntimeError" in line for line in lines)
    assert "sentinel" not in caplog.text


@pytest.mark.parametrize("use", USES)
async def test_hooks_that_raise_cost_the_application_nothing(
    record: Callable[..., Recording], use: str
) -> None:
    """A hook of the user's own that fails is told in the log; the run goes on, and the spans are whole."""
    called: list[Any] = []

    def hook(span: Any, view: Any) -> None:
        called.append(view)
        raise LookupError("in the hook")

    options: dict[str, Any] = {"call_hook": hook, "iteration_hook": hook}
    recording = await assert_same(record, lambda world: use_tools(world, use, "tool asks again"), **options)
    assert len(called) == 4
    assert len(by_kind(recording.spans, "iteration")) == 3


# --- names and arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [*WAYS, "run_sync"])
async def test_the_name_is_inferred_as_ever(record: Callable[..., Recording], way: str) -> None:
    """An agent without a name gets that of the caller's variable, or none, and its Call has the same."""

    async def name() -> str | None:
        nameless: Agent[Any, Any] = Agent(Script("fine").model)
        if way == "run_sync":
            await asyncio.to_thread(run_sync, nameless)
        else:
            await WAYS[way](nameless)
        return nameless.name

    guardspan.uninstrument()
    before = await name()
    recording = record()
    assert await name() == before
    assert [span.name for span in by_kind(recording.spans, "call")] == [f"agent {before or 'agent'}"]


BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "unknown": ((), {"nonsense": 1}),
    "too many": (("hello", "more"), {}),
    "twice": (("hello",), {"user_prompt": "again"}),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_arguments_are_told_at_the_same_moment(record: Callable[..., Recording], bad: str) -> None:
    """`Agent.iter` refuses them when it is called, before it is entered; no Call begins."""
    args, kwargs = BAD[bad]

    def told() -> str:
        with pytest.raises(TypeError) as error:
            Agent(Script("fine").model).iter(*args, **kwargs)
        return str(error.value).split(" but ")[0]  # how many were given counts our keyword

    guardspan.uninstrument()
    before = told()
    recording = record()
    assert told() == before
    assert recording.spans == []


def described() -> dict[str, Any]:
    """What an application, or a framework that inspects callables, can find out about `iter`."""
    function, bound = Agent.iter, Agent(Script("fine").model, name="desk").iter
    checks = (inspect.isfunction, inspect.isroutine, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    told: dict[str, Any] = {}
    for kind, thing in (("function", function), ("bound", bound)):
        told |= {f"{kind} {check.__name__}": check(thing) for check in (*checks, callable, inspect.ismethod)}
        told |= {
            f"{kind} {name}": getattr(thing, name) for name in ("__name__", "__qualname__", "__module__")
        }
        told |= {f"{kind} {name}": getattr(thing, name) for name in ("__doc__", "__annotations__")}
        told |= {f"{kind} {check.__name__}": check(thing) for check in (inspect.signature, inspect.getsource)}
    return told | {"unwrapped": inspect.unwrap(function).__code__, "self": type(bound.__self__)}


def test_iter_looks_as_it_did(record: Callable[..., Recording]) -> None:
    """Frameworks that inspect it find the same: name, signature, source, documentation, what it is."""
    guardspan.uninstrument()
    before = described()
    record()
    assert described() == before


@pytest.mark.parametrize("duplicate", [copy.copy, WrapperAgent])
async def test_copies_of_an_agent_work(recording: Recording, duplicate: Callable[[Any], Any]) -> None:
    """Nothing of ours hangs on the agent; a copy of one that has run is as good as it."""
    original: Agent[Any, Any] = Agent(Script("fine").model, name="desk")
    before = set(vars(original))
    await original.run("hello")
    assert set(vars(original)) == before
    assert (await duplicate(original).run("hello")).output == "fine"
    assert [span.name for span in by_kind(recording.spans, "call")] == ["agent desk"] * 2


class Portable(Agent[Any, Any]):
    """An agent that says how it is pickled; the library's own are not made for it."""

    def __reduce__(self) -> Any:
        return (_portable, (self.name,))


def _portable(name: str) -> Portable:
    return Portable(Script("fine").model, name=name)


async def test_an_agent_that_can_be_pickled_still_can(recording: Recording) -> None:
    """Also after a run, and what comes back is watched as well."""
    agent = _portable("desk")
    await agent.run("hello")
    again = pickle.loads(pickle.dumps(agent))
    assert (await again.run("hello")).output == "fine"
    assert len(by_kind(recording.spans, "call")) == 2


# --- what is kept alive ----------------------------------------------------------------------------------


class Words(str):
    """A text that can be referred to weakly."""


class Thing(dict[str, Any]):
    """An object that can be referred to weakly."""


async def lifetimes(use: str, script: str, keep: str) -> dict[str, bool]:
    """Which of a run's objects are alive when the application has let go of all but what it keeps."""
    watched: dict[str, Any] = {}
    kept: list[Any] = []

    def watch(name: str, thing: Any) -> Any:
        watched[name] = weakref.ref(thing)
        return thing

    async def within() -> None:
        world = World(trace.NoOpTracer())
        toolset = watch("toolset", FunctionToolset())

        @toolset.tool_plain
        async def look() -> str:  # in a thread, that would hold it until the next tool
            if keep == "context":
                kept.append(contextvars.copy_context())
            return watch("tool result", Words("seen"))

        asked = watch("script", Script(*([call("look"), *copy.deepcopy(SCRIPTS[script])])))
        agent = watch(
            "agent", validated(world, Agent(asked.model, name="desk", toolsets=[toolset], retries=1))
        )
        picture = watch("picture", BinaryContent(b"1", media_type="image/png"))
        history = [watch("history", ModelRequest(parts=[UserPromptPart("before")]))]
        with agent.override(instructions=[watch("instructions", Words("do"))]):
            options = {"deps": watch("deps", Thing()), "metadata": watch("metadata", Thing(a=1))}
            if use in ("run", "run_stream"):
                world.ended = kept.append if keep == "result" else lambda result: None  # type: ignore[method-assign]
            await world.attempt(
                USES[use](world, Prompted(agent, [picture]), message_history=history, **options)
            )

    gc.freeze()
    await asyncio.create_task(within())
    gc.collect()
    gc.unfreeze()
    kept_some = {"kept": bool(kept)}
    return kept_some | {name: reference() is not None for name, reference in watched.items()}


class Prompted(WrapperAgent[Any, Any]):
    """An agent whose prompt is replaced."""

    def __init__(self, agent: Any, prompt: list[Any]) -> None:
        super().__init__(agent)
        self.prompt = prompt

    def iter(self, user_prompt: Any = None, **kwargs: Any) -> Any:
        return super().iter(self.prompt, **kwargs)


@pytest.mark.parametrize("keep", ["nothing", "context", "result"])
@pytest.mark.parametrize("use", ["run", "run_stream"])
@pytest.mark.parametrize("script", ["text", "validator asks again", "provider"])
async def test_nothing_is_kept_alive(
    record: Callable[..., Recording], use: str, script: str, keep: str
) -> None:
    """What a run was given and gave goes when it goes in the bare run, whoever kept context or result."""
    guardspan.uninstrument()
    before = await lifetimes(use, script, keep)
    recording = record(content="redacted")
    assert await lifetimes(use, script, keep) == before
    assert len(before) >= 9
    assert before["kept"] or keep != "context"
    assert recording.spans
