"""An application with agents that does all there is to do, and notes whatever could be noticed of it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
import warnings
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pydantic
from agent_kit import Script, call
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, ModelRetry, RunContext, UsageLimits
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, Hooks
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("tests-agent-variable", default="unset")
CHANGING = re.compile(
    r"pyd_ai_\w+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0x[0-9a-f]+"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?|PT[\d.]+S|datetime\.datetime\(.*?tzinfo=[\w.]+\)"
)
"""What is another in every run: generated ids, addresses, times."""


class Answer(pydantic.BaseModel):
    value: int


class Odd(BaseException):
    """No `Exception`."""


class World:
    """One run of a scenario, and whatever could be noticed of it."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self.tracer = tracer
        self.log: list[str] = []

    def note(self, *facts: Any) -> None:
        self.log.append(repr(facts))

    def state(self, *where: Any) -> None:
        """What code of the application's own finds around it."""
        VARIABLE.set(f"{VARIABLE.get()}+")
        team = baggage.get_baggage("team")
        self.note(*where, VARIABLE.get(), team)

    def failed(self, error: BaseException | None) -> None:
        """An exception and all that hangs on it."""
        depth = 0
        while error is not None and depth < 9:
            facts = (type(error), str(error), error.args, getattr(error, "__notes__", None))
            self.note("error", depth, facts, error.__cause__ is not None, error.__suppress_context__)
            error, depth = error.__cause__ or error.__context__, depth + 1

    def ended(self, result: Any) -> None:
        """All of a result, or of a stream that has ended."""
        self.note("usage", result.usage)
        for name in ("all_messages", "new_messages"):
            self.note(name, ModelMessagesTypeAdapter.dump_python(getattr(result, name)(), mode="json"))
        self.note("result", *(getattr(result, name, None) for name in ("output", "run_id", "metadata")))

    async def attempt(self, use: Awaitable[Any]) -> None:
        """A use that may raise."""
        try:
            self.note("gave", type(await use))
        except BaseException as error:
            self.failed(error)
        self.state("afterwards")

    def told(self) -> list[str]:
        """The log, with what changes from run to run numbered in the order in which it came."""
        known: dict[str, str] = {}
        number = lambda match: known.setdefault(match[0], f"<{len(known)}>")  # noqa: E731
        return [CHANGING.sub(number, line) for line in self.log]


def capability(world: World, streaming: bool) -> Any:
    """A capability of the application's own that notes every hook there is."""

    def noting(name: str, base: Any) -> Any:
        async def hook(self: Any, ctx: Any, *args: Any, **kwargs: Any) -> Any:
            world.state(name, ctx.run_step, ctx.retry, ctx.partial_output, ctx.usage.requests, sorted(kwargs))
            try:
                return await base(self, ctx, *args, **kwargs)
            except BaseException as error:
                world.note(name, "raised", type(error))
                raise

        return hook

    names = [
        name for name in vars(AbstractCapability) if name.startswith(("before_", "after_", "wrap_", "on_"))
    ]
    hooks = {
        name: base for name in names if inspect.iscoroutinefunction(base := vars(AbstractCapability)[name])
    }
    if not streaming:  # these two turn every run into one that streams
        hooks = {
            name: base for name, base in hooks.items() if name not in ("wrap_run_event_stream", "on_event")
        }
    return type("Noting", (AbstractCapability,), {name: noting(name, base) for name, base in hooks.items()})()


@dataclass
class Copying(AbstractCapability[Any]):
    """State of each run's own, as the library's documentation has it."""

    world: World
    runs: int = 0

    async def for_run(self, ctx: Any) -> Copying:
        self.world.note("for_run", self.runs)
        return replace(self, runs=self.runs + 1)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        self.runs += 1
        self.world.note("copy", self.runs)
        return request_context


def equipped(world: World, script: Script, *, streaming: bool = False, **options: Any) -> Agent[Any, Any]:
    """An agent with a tool of each kind, all of which note what they see."""
    extra = options.pop("capabilities", [])
    agent = Agent(
        script.model,
        name="desk",
        capabilities=[capability(world, streaming), *extra],
        **{"retries": 2, **options},
    )

    @agent.tool_plain
    async def look_up(key: str) -> str:
        world.state("look_up", key)
        if key == "again":
            raise ModelRetry("another key, please")
        if key == "broken":
            raise LookupError("no such key")
        for _ in range(
            5 * (key == "b")
        ):  # of two that end at once, the library tells whichever it finds first
            await asyncio.sleep(0)
        return f"value of {key}"

    @agent.tool
    def work(ctx: RunContext[Any], amount: int) -> int:  # in a thread of its own
        world.state("work", amount, ctx.deps, ctx.retry, ctx.tool_name)
        return amount + 1

    @agent.instructions
    def today() -> str:
        world.state("instructions")
        return "today"

    return agent


SCRIPTS: dict[str, tuple[Any, ...]] = {
    "text": ("fine",),
    "tools": ([call("look_up", key="a"), call("look_up", key="b")], call("work", amount=1), "fine"),
    "tool asks again": (call("look_up", key="again"), call("look_up", key="b"), "fine"),
    "tool breaks": (call("look_up", key="broken"), "fine"),
    "arguments of a wrong type": (call("work", amount="many"), call("work", amount=2), "fine"),
    "unknown tool": (call("nothing", a=1), "fine"),
    "empty": (ModelResponse(parts=[]), "fine"),
    "empty to the end": (ModelResponse(parts=[]),),
    "validator asks again": ("bad", "fine"),
    "validator asks to the end": ("bad",),
    "validator breaks": ("worse",),
    "provider": (ModelHTTPError(500, "gpt-4o", {"error": "down"}),),
    "timeout": (call("look_up", key="a"), TimeoutError("slow")),
    "filtered": (ModelResponse(parts=[], finish_reason="content_filter"),),
    "no exception": (Odd("odd"),),
    "cancelled": (asyncio.CancelledError("given up"),),
}


async def run(world: World, agent: Any, **options: Any) -> None:
    world.ended(await agent.run("hello", **options))


async def run_sync(world: World, agent: Any, **options: Any) -> None:
    context = contextvars.copy_context()
    result = await asyncio.to_thread(lambda: context.run(agent.run_sync, "hello", **options))
    world.ended(result)


async def run_stream(world: World, agent: Any, **options: Any) -> None:
    async with agent.run_stream("hello", **options) as stream:
        with world.tracer.start_as_current_span("reading") as own:
            async for output in stream.stream_output(debounce_by=None):
                world.state("chunk", output)
                world.note(trace.get_current_span() is own)
        world.ended(stream)


async def run_stream_events(world: World, agent: Any, **options: Any) -> None:
    async with agent.run_stream_events("hello", **options) as events:
        async for event in events:
            world.note(type(event), str(event) if not hasattr(event, "result") else "")
            if hasattr(event, "result") and hasattr(event.result, "all_messages"):
                world.ended(event.result)


async def run_with_handler(world: World, agent: Any, **options: Any) -> None:
    async def handler(ctx: Any, events: AsyncIterable[Any]) -> None:
        async for event in events:
            world.state("handler", type(event), str(event))

    world.ended(await agent.run("hello", event_stream_handler=handler, **options))


async def iterate(world: World, agent: Any, **options: Any) -> None:
    async with agent.iter("hello", **options) as agent_run:
        async for node in agent_run:
            world.state("node", type(node))
        world.ended(agent_run.result)


async def iterate_by_hand(world: World, agent: Any, **options: Any) -> None:
    async with agent.iter("hello", **options) as agent_run:
        node, count = agent_run.next_node, 0
        while not Agent.is_end_node(node):
            count += 1
            with world.tracer.start_as_current_span(f"step {count}") as own:
                node = await agent_run.next(node)
                world.state("node", type(node))
                world.note(trace.get_current_span() is own)
        world.ended(agent_run.result)


async def wrapped(world: World, agent: Any, **options: Any) -> None:
    await run(world, WrapperAgent(agent), **options)


USES: dict[str, Callable[..., Awaitable[None]]] = {
    each.__name__: each
    for each in (
        *(run, run_sync, run_stream, run_stream_events),
        *(run_with_handler, iterate, iterate_by_hand, wrapped),
    )
}


def validated(world: World, agent: Agent[Any, Any]) -> Agent[Any, Any]:
    """The agent with two output validators."""

    @agent.output_validator
    async def polite(ctx: RunContext[Any], output: Any) -> Any:
        world.state("polite", output, ctx.partial_output)
        if str(output).startswith("bad"):
            raise ModelRetry("be polite")
        if str(output).startswith("worse"):
            raise LookupError("no verdict")
        return output

    @agent.output_validator
    async def shouted(output: Any) -> Any:
        world.state("shouted")
        return output.upper() if isinstance(output, str) else output

    return agent


def mended(world: World) -> Any:
    """Hooks that make good a run, a request, a tool and an output that failed."""
    hooks: Any = Hooks()

    @hooks.on.run_error
    async def run_error(ctx: Any, *, error: Any) -> Any:
        from pydantic_ai import AgentRunResult

        world.note("mending", type(error))
        return AgentRunResult("mended")

    @hooks.on.tool_execute_error
    async def tool_error(ctx: Any, *, call: Any, tool_def: Any, args: Any, error: Any) -> Any:
        world.note("mending", call.tool_name, type(error))
        return "instead"

    return hooks


class Recovering(AbstractCapability[Any]):
    """Gives a result of its own when the run has failed."""

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        from pydantic_ai import AgentRunResult

        try:
            return await handler()
        except Exception:
            return AgentRunResult("recovered")


class Subclass(Agent[Any, Any]):
    """An agent that has an `iter` of its own."""

    @asynccontextmanager
    async def iter(self, *args: Any, **kwargs: Any) -> Any:
        async with super().iter(*args, **kwargs) as agent_run:
            yield agent_run


def fallback(world: World) -> FallbackModel:
    return FallbackModel(Script(ModelHTTPError(503, "first")).model, Script("from the second").model)


async def _override(world: World, agent: Agent[Any, Any], use: Any) -> None:
    options: dict[str, Any] = {"model": Script("other").model, "deps": "other", "instructions": "others"}
    with agent.override(**options):
        await use(world, agent)
    await use(world, agent)


async def _nested(world: World, agent: Agent[Any, Any], use: Any) -> None:
    inner = equipped(world, Script(call("look_up", key="again"), "inner"))

    @agent.tool
    async def delegate(ctx: RunContext[Any]) -> str:
        return str((await inner.run("inner", usage=ctx.usage)).output)

    await use(world, agent)


CASES: dict[str, Callable[[World, Any], Awaitable[None]]] = {
    "override": lambda w, use: _override(w, equipped(w, Script(call("work", amount=1), "fine")), use),
    "delegate": lambda w, use: _nested(w, equipped(w, Script(call("delegate"), "fine")), use),
    "structured": lambda w, use: use(
        w,
        equipped(
            w,
            Script(call("final_result", value="x"), "prose", call("final_result", value=3)),
            output_type=Answer,
            streaming=True,
        ),
    ),
    "deferred": lambda w, use: use(w, _deferring(w)),
    "usage limit before": lambda w, use: use(
        w, equipped(w, Script(call("work", amount=1))), usage_limits=UsageLimits(request_limit=1)
    ),
    "usage limit after": lambda w, use: use(
        w, equipped(w, Script("long long long")), usage_limits=UsageLimits(output_tokens_limit=1)
    ),
    "fallback": lambda w, use: use(w, equipped(w, Script("fine")), model=fallback(w)),
    "mended": lambda w, use: use(
        w, equipped(w, Script(call("look_up", key="broken"), OSError("lost")), capabilities=[mended(w)])
    ),
    "recovered": lambda w, use: use(w, equipped(w, Script(OSError("lost")), capabilities=[Recovering()])),
    "capabilities of the run's own": lambda w, use: use(
        w, equipped(w, Script("fine")), capabilities=[Copying(w), capability(w, True)]
    ),
    "capabilities that cannot be": lambda w, use: use(w, equipped(w, Script("fine")), capabilities=7),
    "arguments that cannot be": lambda w, use: use(w, equipped(w, Script("fine")), nonsense=1),
    "no model": lambda w, use: use(w, Agent(name="desk")),
    "history": lambda w, use: use(w, equipped(w, Script("fine")), message_history=_history()),
    "history with an open call": lambda w, use: use(
        w, equipped(w, Script("fine")), message_history=[ModelResponse(parts=[call("look_up", key="x")])]
    ),
    "native instrumentation": lambda w, use: use(w, _native(equipped(w, Script("fine")))),
    "own iter": lambda w, use: use(w, Subclass(Script("fine").model, name="own")),
}


def _history() -> list[Any]:
    """A result that belongs to no call, and a call that has no result."""
    return [
        ModelRequest(parts=[ToolReturnPart("look_up", "x", "nobody")]),
        ModelResponse(parts=[call("look_up", key="x")]),
        ModelRequest(parts=[UserPromptPart("and?")]),
        ModelResponse(parts=[TextPart("well")]),
    ]


def _native(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    agent.instrument = True
    return agent


def _deferring(world: World) -> Agent[Any, Any]:
    agent = equipped(world, Script(call("ask_human")), output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def ask_human() -> str:
        raise CallDeferred

    return agent


# --- bare and instrumented -------------------------------------------------------------------------------


async def observe(tracer: trace.Tracer, scenario: Callable[[World], Awaitable[Any]]) -> list[str]:
    """Run a scenario in a context of its own and tell what could be noticed."""
    world = World(tracer)

    async def within() -> None:
        VARIABLE.set("set")
        otel_context.attach(baggage.set_baggage("team", "payments"))
        with tracer.start_as_current_span("application") as span:
            before = otel_context.get_current()
            await world.attempt(scenario(world))
            world.note("current", trace.get_current_span() is span, otel_context.get_current() == before)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # These two come when the collector finds what it is about, in this run or in a later one.
        warnings.filterwarnings("ignore", category=ResourceWarning)
        warnings.filterwarnings("ignore", message=".* was never awaited", category=RuntimeWarning)
        await asyncio.create_task(within())
        await asyncio.sleep(0)
    world.note(
        "warnings",
        sorted({(each.category.__name__, str(each.message)) for each in caught}),
    )
    return world.told()
