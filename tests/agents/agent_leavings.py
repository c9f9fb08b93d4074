"""Runs that an application does not see through, or sees through in an odd order."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from agent_kit import Script, call
from agent_planting import World
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context


async def _stream_left(world: World, agent: Any) -> None:
    async with agent.run_stream("hello") as stream:
        async for output in stream.stream_output(debounce_by=None):
            world.note("chunk", output)
            break
    world.note("after")


async def _stream_unread(world: World, agent: Any) -> None:
    async with agent.run_stream("hello"):
        world.state("unread")


async def _stream_cancelled(world: World, agent: Any) -> None:
    async with agent.run_stream("hello") as stream:
        async for output in stream.stream_output(debounce_by=None):
            world.note("chunk", output)
            await stream.cancel()
        world.note(stream.cancelled)


async def _events_left(world: World, agent: Any) -> None:
    async with agent.run_stream_events("hello") as events:
        async for event in events:
            world.note("event", type(event))
            break


async def _iter_left(world: World, agent: Any) -> None:
    async with agent.iter("hello") as agent_run:
        async for node in agent_run:
            world.state("node", type(node))
            break
    world.note("result", agent_run.result)


async def _raising_in_iter(world: World, agent: Any) -> None:
    async with agent.iter("hello") as agent_run:
        async for node in agent_run:
            raise KeyError(type(node).__name__)


async def _raising_in_a_stream(world: World, agent: Any) -> None:
    async with agent.run_stream("hello") as stream:
        async for output in stream.stream_output(debounce_by=None):
            raise KeyError(output)


async def _given_up(world: World, agent: Any) -> None:
    begun = asyncio.Event()

    @agent.tool_plain
    async def wait() -> str:
        begun.set()
        try:
            return str(await asyncio.Event().wait())
        finally:
            world.state("cancelled in the tool")

    with agent.override(model=Script(call("wait")).model):
        task = asyncio.create_task(agent.run("hello"))
        await begun.wait()
        task.cancel("enough")
        await task


async def _never_entered(world: World, agent: Any) -> None:
    agent.iter("hello")
    gc.collect(0)


async def _entered_twice(world: World, agent: Any) -> None:
    manager = agent.iter("hello")
    async with manager:
        world.note("once")
    async with manager:
        world.note("twice")


async def _read_without_a_loop(world: World, agent: Any, most: int = 99) -> None:
    def read() -> None:
        with world.tracer.start_as_current_span("reading") as own:
            stream = agent.run_stream_sync("hello")
            for number, output in enumerate(stream.stream_output(debounce_by=None)):
                world.state("chunk", output)
                world.note(trace.get_current_span() is own)
                if number >= most:
                    return
            world.ended(stream)

    context = contextvars.copy_context()
    await asyncio.to_thread(context.run, read)


async def _overlapping(world: World, agent: Any) -> None:
    """A span that begins within the run and ends after it, as a framework's would."""
    manager = agent.iter("hello")
    agent_run = await manager.__aenter__()
    async with AsyncExitStack() as stack:
        own = stack.enter_context(world.tracer.start_as_current_span("own"))
        async for node in agent_run:
            world.note(type(node), trace.get_current_span() is own)
        await manager.__aexit__(None, None, None)
        world.note("after the run", trace.get_current_span() is own)


async def _attached_within(world: World, agent: Any) -> None:
    """Baggage that is set within the run is there after it."""
    async with agent.iter("hello") as agent_run:
        token = otel_context.attach(baggage.set_baggage("customer", "one"))
        async for _ in agent_run:
            pass
    world.note("customer", baggage.get_baggage("customer"))
    otel_context.detach(token)


LEAVINGS: dict[str, Callable[..., Awaitable[None]]] = {
    "stream left": _stream_left,
    "stream unread": _stream_unread,
    "stream cancelled": _stream_cancelled,
    "events left": _events_left,
    "iter left": _iter_left,
    "raising in iter": _raising_in_iter,
    "raising in a stream": _raising_in_a_stream,
    "given up": _given_up,
    "never entered": _never_entered,
    "entered twice": _entered_twice,
    "read without a loop": _read_without_a_loop,
    "left without a loop": lambda world, agent: _read_without_a_loop(world, agent, 0),
    "spans that overlap": _overlapping,
    "attached within": _attached_within,
}
