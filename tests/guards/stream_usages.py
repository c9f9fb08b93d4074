"""What an application may do with a guarded stream; each is run bare and instrumented."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import inspect
import itertools
import operator
import pickle
import re
import threading
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Container,
    Generator,
    Iterator,
    Reversible,
    Sized,
)
from typing import Any

import pytest
from application import ADDRESS, CHUNKS, VARIABLE, App, Person, Usages, driven, plain, told
from kit import MESSAGES
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context


class Mute(Exception):
    """An exception whose own text cannot be made."""

    def __str__(self) -> str:
        raise TypeError("no text")


usage = Usages()


@usage("read to its end, step by step")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for _ in range(len(CHUNKS) + 2):
        await app.attempt(app.step(stream))


@usage("closed after the first chunk, then asked for more")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for method in ("next", "close", "next", "close"):
        await app.attempt(app.step(stream, method))


@usage("closed before it began, then asked for more")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for method in ("close", "next"):
        await app.attempt(app.step(stream, method))


@usage("never begun")
async def _(app: App) -> None:
    await app.stream(*CHUNKS)


@usage("left by a break")
async def _(app: App) -> None:
    await app.read(await app.stream(*CHUNKS), most=2)


@usage("an exception thrown in")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.step(stream)
    await app.attempt(app.step(stream, "throw", ValueError("thrown in")))
    await app.attempt(app.step(stream))


@usage("an exception thrown in before it began")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.attempt(app.step(stream, "throw", ValueError("thrown in")))
    await app.attempt(app.step(stream))


@usage("odd exceptions thrown in")
async def _(app: App) -> None:
    for error in (GeneratorExit(), StopIteration(), StopAsyncIteration(), KeyboardInterrupt(), Mute()):
        stream = await app.stream(*CHUNKS)
        await app.step(stream)
        await app.attempt(app.step(stream, "throw", error))
        await app.attempt(app.step(stream))


@usage("values sent in, one of them too early")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.attempt(app.step(stream, "send", "too early"))
    for value in (None, "ignored", None, "ignored", None):
        await app.attempt(app.step(stream, "send", value))


_KINDS = (
    types.GeneratorType,
    types.AsyncGeneratorType,
    Generator,
    AsyncGenerator,
    Iterator,
    AsyncIterator,
    Sized,
    Container,
    Reversible,
    Callable,
    Awaitable,
    contextlib.AbstractContextManager,
    contextlib.AbstractAsyncContextManager,
    typing.SupportsInt,
)
_NAMES = (
    "__next__",
    "__anext__",
    "gi_frame",
    "ag_frame",
    "close",
    "__len__",
    "__enter__",
    "__copy__",
    "__add__",
)


@usage("what a stream is")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    app.note([isinstance(stream, kind) for kind in _KINDS])
    app.note([hasattr(stream, name) for name in _NAMES])
    app.note(inspect.isgenerator(stream), inspect.isasyncgen(stream), inspect.isawaitable(stream))
    app.note((iter(stream) if app.flavour == "sync" else aiter(stream)) is stream, bool(stream))
    app.note(stream.__name__, stream.__qualname__, {stream: 1}[stream], stream in [stream])
    app.note(ADDRESS.sub("0x", repr(stream)), operator.length_hint(stream, 3))
    for attempted in (
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        len,
        reversed,
        lambda it: it + 1,
        lambda it: it[0],
    ):
        with pytest.raises(TypeError) as refused:
            attempted(stream)
        app.note(str(refused.value) if attempted is copy.deepcopy else "refused")
    with pytest.raises(AttributeError):
        stream.own = 1
    if app.flavour == "sync":
        app.note(inspect.getgeneratorstate(stream))
        await app.step(stream)
        app.note(inspect.getgeneratorstate(stream))
    await app.attempt(app.step(stream, "close"))


@usage("asked for more while it works")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)

    def ask(number: int) -> None:
        if number == 1:
            try:
                next(stream) if app.flavour == "sync" else stream.__anext__().send(None)
            except (ValueError, RuntimeError) as error:
                app.note(told(error)[:2])

    app.during_pull = ask
    await app.read(stream)


@usage("delegated to, and passed through helpers", "sync")
async def _(app: App) -> None:
    def delegating(stream: Any) -> Iterator[Any]:
        result = yield from stream
        app.note("delegate gave", result)

    for item in delegating(await app.stream(*CHUNKS)):
        app.note(plain(item))
    with contextlib.closing(delegating(await app.stream(*CHUNKS))) as left:
        app.note(plain(next(left)))
    with contextlib.closing(delegating(await app.stream(*CHUNKS))) as left:
        app.note(plain(next(left)))
        with pytest.raises(ValueError, match="thrown in"):
            left.throw(ValueError("thrown in"))
    app.note(len(list(await app.stream(*CHUNKS))))


@usage("split in two by itertools", "sync")
async def _(app: App) -> None:
    one, other = itertools.tee(await app.stream(*CHUNKS))
    for first, second in zip(one, other, strict=True):
        app.note(plain(first), first is second)


_VOLATILE = re.compile(r"0x\w+|datetime\.datetime\([^)]*\)|\d{4}-\d\d-\d\dT[\d:.]+|\b\d{9,}\b")
"""Addresses, which are the library's ids as well, and times."""


@usage("the library's own record is dumped")
async def _(app: App) -> None:
    guard = app.guard()
    stream = await app.stream(*CHUNKS, guard=guard)
    await app.step(stream)
    for _ in range(2):
        call = guard.history.last
        iteration = call.iterations.last
        for dump in (call.model_dump, iteration.outputs.model_dump, iteration.model_dump_json):
            try:
                app.note(_VOLATILE.sub("", str(dump())))
            except Exception as error:
                app.note(type(error), _VOLATILE.sub("", str(error)))
        app.note(call.status, iteration.status)
        await app.read(stream)


@usage("closed by a helper", "async")
async def _(app: App) -> None:
    async with contextlib.aclosing(await app.stream(*CHUNKS)) as stream:
        await app.read(stream, most=1)


@usage("read by another thread", "sync")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)

    def read() -> None:
        app.note("thread", trace.get_current_span() is trace.INVALID_SPAN)
        driven(app.read(stream, most=2))
        app.note("thread", trace.get_current_span() is trace.INVALID_SPAN, VARIABLE.get())

    await app.step(stream)
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    await app.read(stream)


@usage("each chunk read by a task of its own", "async")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for _ in range(len(CHUNKS) + 1):
        await app.attempt(asyncio.create_task(app.step(stream)))
    app.note(VARIABLE.get())


@usage("two streams in turns")
async def _(app: App) -> None:
    one, two = await app.stream(*CHUNKS), await app.stream("uno. ", "dos.")
    for _ in range(len(CHUNKS) + 1):
        await app.attempt(app.step(one))
        await app.attempt(app.step(two))


@usage("variables and baggage set while a stream is read")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    token = otel_context.attach(baggage.set_baggage("tenant", "acme"))
    VARIABLE.set("set after it was made")
    await app.step(stream)
    otel_context.detach(token)
    VARIABLE.set("set between chunks")
    app.during_pull = lambda number: VARIABLE.set(f"set by pull {number}")
    await app.step(stream)
    app.note(VARIABLE.get())
    with app.tracer.start_as_current_span("work") as work:
        await app.step(stream)
        app.note(trace.get_current_span() is work)
    await app.read(stream)


@usage("a span of the application's that ends between two chunks")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.step(stream)
    token = otel_context.attach(
        trace.set_span_in_context(app.tracer.start_span("one"), otel_context.Context())
    )
    await app.step(stream)
    app.note(trace.get_current_span().name)
    otel_context.detach(token)
    app.note_current_span("detached")
    await app.read(stream)


@usage("JSON in a stream")
async def _(app: App) -> None:
    guard = app.kind.for_pydantic(Person)
    await app.attempt(app.read_stream(guard, '{"na', 'me": "A', 'nn"}'))
    await app.attempt(app.read_stream(guard, '{"name": ', "prose"))


@usage("an LLM whose stream is none")
async def _(app: App) -> None:
    for answer in (None, "text", 7, ["one. ", "two."]):
        given = types.SimpleNamespace(completion_stream=answer) if app.flavour == "async" else answer
        stream = await app.enter(app.guard(), "__call__", app.llm(given), messages=MESSAGES, stream=True)
        await app.attempt(app.read(stream))


@usage("a text to validate, and yet a stream")
async def _(app: App) -> None:
    await app.attempt(app.read(await app.enter(app.guard(), "parse", "fine", stream=True)))


@usage("an LLM that fails before its stream begins")
async def _(app: App) -> None:
    llm = app.llm(ConnectionError("refused"))
    stream = await app.enter(app.guard(), "__call__", llm, messages=MESSAGES, stream=True)
    await app.attempt(app.read(stream))


@usage("messages that are validated, of a stream")
async def _(app: App) -> None:
    for action in ("exception", "noop", "fix"):
        guard = app.guard(action, on="messages")
        app.note(action)
        await app.attempt(_blocked_stream(app, guard))


async def _blocked_stream(app: App, guard: Any) -> None:
    messages = [{"role": "user", "content": "bad"}]
    llm = app.llm(app.source(*CHUNKS))
    await app.read(await app.enter(guard, "__call__", llm, messages=messages, stream=True))


@usage("cancelled in a stream", "async")
async def _(app: App) -> None:
    for cancel in ("cancel", "timeout"):
        reached = asyncio.Event()

        async def items(reached: asyncio.Event = reached) -> AsyncIterator[str]:
            try:
                yield "one. "
                reached.set()
                await asyncio.Event().wait()
            finally:
                app.note("the LLM's stream was ended")

        given = types.SimpleNamespace(completion_stream=items())
        stream = await app.enter(app.guard(), "__call__", app.llm(given), messages=MESSAGES, stream=True)
        await app.step(stream)
        task = asyncio.create_task(asyncio.wait_for(app.step(stream), 0.01 if cancel == "timeout" else None))
        await reached.wait()
        if cancel == "cancel":
            task.cancel("no longer wanted")
        await app.attempt(task)
        await app.attempt(app.step(stream))


@usage("a stream given up half-way, in another context", "async")
async def _(app: App) -> None:
    async def items() -> AsyncIterator[str]:
        yield "one. "
        await asyncio.get_running_loop().create_future()

    given = types.SimpleNamespace(completion_stream=items())
    stream = await app.enter(app.kind(), "__call__", app.llm(given), messages=MESSAGES, stream=True)
    await app.step(stream)
    asked = aiter(stream).__anext__()
    contextvars.Context().run(asked.send, None)
    app.note_current_span("while it waits")
    asked.close()
    app.note_current_span("when it is closed")


@usage("left by an exception of the consumer's own")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)

    async def consume() -> None:
        await app.step(stream)
        raise ZeroDivisionError("the application's own")

    await app.attempt(consume())
    await app.read(stream)
