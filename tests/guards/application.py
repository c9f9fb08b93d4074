"""A small application in two flavours, whatever could be noticed of it, and how two runs differ."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import io
import logging
import re
import types
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pydantic
import wrapt
from faker import Faker
from guardrails import AsyncGuard, Guard
from kit import MESSAGES, NoBad
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider

import guardspan

OURS = tuple(str(Path(module.__file__ or "").parent) for module in (guardspan, wrapt))
ADDRESS = re.compile(r"0x[0-9a-f]+")
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("tests-variable", default="unset")
CHUNKS = ["one. ", "two. ", "three. ", "four."]

Scenario = Callable[["App"], Awaitable[Any]]


def _raising(value: Any, result: Any) -> Any:
    raise LookupError("the application's own action failed")


ACTIONS: dict[str, Any] = {
    **{name: name for name in ("exception", "noop", "fix", "filter", "refrain", "reask", "fix_reask")},
    "custom": lambda value, result: "mended",
    "custom that raises": _raising,
}


class Person(pydantic.BaseModel):
    name: str


class Usages(dict[str, tuple[list[str], Scenario]]):
    """Scenarios by name, each with the flavours that it makes sense for; a decorator fills it."""

    def __call__(self, name: str, flavours: str = "sync async") -> Callable[[Scenario], Scenario]:
        def keep(function: Scenario) -> Scenario:
            self[name] = (flavours.split(), function)
            return function

        return keep


class App:
    """What a scenario is written against: a guard of one flavour, its LLM, and a log of events in order."""

    def __init__(self, flavour: str) -> None:
        self.flavour = flavour
        self.log: list[Any] = []
        self.kind: type = Guard if flavour == "sync" else AsyncGuard
        self.tracer = TracerProvider().get_tracer("application")
        self.during_pull: Callable[[int], Any] = lambda number: None
        self.span: Any = None

    def note(self, *event: Any) -> None:
        self.log.append(event)

    def note_current_span(self, when: str) -> None:
        """Whose span is current: the application's own must be, whenever its own code runs."""
        self.note(when, "own span" if trace.get_current_span() is self.span else "another's span")

    def guard(self, on_fail: Any = "noop", validator: type = NoBad, **kwargs: Any) -> Any:
        return self.kind(name="g").use(validator(on_fail=on_fail), **kwargs)

    def llm(self, *answers: Any) -> Callable[..., Any]:
        """An LLM callable that gives its answers in turn, the last one for ever."""
        left = list(answers)

        def answer(args: Any, kwargs: Any) -> Any:
            self.note("llm", args, sorted(kwargs.items()), VARIABLE.get())
            VARIABLE.set("set by the llm")
            self.tracer.start_span("in the llm").end()
            given = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(given, BaseException):
                raise anew(given)
            return given(self) if callable(given) else given

        def sync(*args: Any, messages: Any = None, **kwargs: Any) -> Any:
            return answer(args, {"messages": messages, **kwargs})

        async def asynchronous(*args: Any, messages: Any = None, **kwargs: Any) -> Any:
            given = answer(args, {"messages": messages, **kwargs})
            return await given if inspect.isawaitable(given) else given

        return sync if self.flavour == "sync" else asynchronous

    def source(self, *chunks: Any) -> Callable[[App], Any]:
        """An answer that is a stream; what is pulled of it is logged, an exception among it is raised."""

        def items() -> Iterator[Any]:
            for number, chunk in enumerate(chunks):
                self.note("pulled", number, VARIABLE.get(), baggage.get_baggage("tenant"))
                self.during_pull(number)
                if isinstance(chunk, BaseException):
                    raise anew(chunk)
                yield chunk
            self.note("exhausted")

        async def asynchronous_items() -> AsyncIterator[Any]:
            for item in items():
                await asyncio.sleep(0)
                yield item

        if self.flavour == "sync":
            return lambda app: items()
        return lambda app: types.SimpleNamespace(completion_stream=asynchronous_items())

    async def enter(self, guard: Any, entry: str, *args: Any, **kwargs: Any) -> Any:
        """Call one of a guard's entries and wait for what it gives."""
        given = getattr(guard, entry)(*args, **kwargs)
        return await given if self.flavour == "async" else given

    async def stream(self, *chunks: Any, on_fail: Any = "noop", guard: Any = None) -> Any:
        llm = self.llm(self.source(*chunks))
        given = guard or self.guard(on_fail)
        made = await self.enter(given, "__call__", llm, messages=MESSAGES, stream=True)
        self.note("made")
        return made

    async def step(self, stream: Any, method: str = "next", *args: Any) -> Any:
        """One of a generator's methods (`next`, `send`, `throw`, `close`), or its async twin."""
        name = {"next": "__next__"}.get(method, method)
        if self.flavour == "async":
            name = {"next": "__anext__"}.get(method, f"a{method}")
        self.note_current_span(f"before {method}")
        try:
            given = getattr(stream, name)(*args)
            given = await given if self.flavour == "async" else given
        finally:
            del args, stream  # a thrown exception's traceback leads here: no circle of the test's own
        self.note_current_span(f"after {method}")
        self.note(method, plain(given))
        return given

    async def read(self, stream: Any, most: int = 1_000) -> None:
        """Read at most `most` items by a loop, and leave the loop."""
        if most == 0:
            return
        numbers = iter(range(1, most + 1))
        if self.flavour == "sync":
            for item in stream:
                self._consumed(item)
                if next(numbers) == most:
                    break
        else:
            async for item in stream:
                self._consumed(item)
                if next(numbers) == most:
                    break

    def _consumed(self, item: Any) -> None:
        self.note_current_span("consuming")
        self.note("consumed", plain(item), VARIABLE.get())

    async def read_stream(self, guard: Any, *chunks: Any) -> None:
        """Make a stream of the chunks and read it to its end."""
        await self.read(await self.stream(*chunks, guard=guard))

    async def attempt(self, awaited: Awaitable[Any]) -> Any:
        """What it gives, or what it raises; logged."""
        try:
            given = await awaited
        except BaseException as error:
            self.note("raised", told(error))
            self.note_current_span("after an exception")
            return error
        self.note("gave", plain(given))
        return given


def anew(error: BaseException) -> BaseException:
    """A fresh exception like a given one, which would carry the traceback of the run before."""
    fresh = type(error)(*error.args)
    fresh.__cause__ = error.__cause__
    return fresh


# --- observing it ----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A result in terms that can be compared; the library's call id is a memory address."""
    if isinstance(value, pydantic.BaseModel):
        return {name: item for name, item in value.model_dump().items() if name != "call_id"}
    if isinstance(value, str | int | float | type(None) | list | dict):
        return value
    return type(value).__name__


def told(error: BaseException, hidden: tuple[str, ...] = OURS, depth: int = 4) -> Any:
    """An exception as an application could tell it from another: class, message, frames, causes."""
    try:
        message = ADDRESS.sub("0x", str(error))
    except TypeError:
        message = "(none)"
    behind = [
        told(other, hidden, depth - 1) if other is not None and depth else None
        for other in (error.__cause__, error.__context__)
    ]
    return type(error), message, frames(error.__traceback__, hidden), behind, error.__suppress_context__


def frames(trace_: types.TracebackType | None, hidden: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """The frames of a traceback, outermost first, without ours."""
    found = []
    while trace_ is not None:
        code = trace_.tb_frame.f_code
        if not any(part in code.co_filename for part in hidden):
            found.append((code.co_filename, code.co_name, trace_.tb_lineno))
        trace_ = trace_.tb_next
    return found


def history(guard: Any) -> list[Any]:
    """The library's own record of a guard's calls."""
    return [
        (
            call.exception and type(call.exception),
            [
                (i.index, i.status, i.raw_output, ADDRESS.sub("0x", str(i.error)), len(i.validator_logs))
                for i in call.iterations
            ],
        )
        for call in guard.history
    ]


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = ADDRESS.sub("0x", record.getMessage())
        if "asynchronous generator is already running" not in message:  # when, is up to the garbage collector
            self.found.append((record.name, message))


def observe(flavour: str, scenario: Scenario) -> dict[str, Any]:
    """Run a scenario; all that could be noticed of it."""
    app = App(flavour)
    records = _Records()
    logging.getLogger().addHandler(records)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    token = VARIABLE.set("set by the application")
    Faker.seed(0)  # Guardrails makes up the examples of its prompts
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
            app.tracer.start_as_current_span("application", record_exception=False) as app.span,
        ):
            warnings.simplefilter("always")
            given = driven(scenario(app)) if flavour == "sync" else loop.run_until_complete(scenario(app))
            app.note_current_span("at the end")
            app.note("at the end", VARIABLE.get())
    finally:
        VARIABLE.reset(token)
        put_away(loop)
        logging.getLogger().removeHandler(records)
    return {
        "result": plain(given),
        "log": app.log,
        "warnings": [
            (w.category, ADDRESS.sub("0x", str(w.message)), w.filename, w.lineno)
            for w in caught
            if w.category is not ResourceWarning
        ],
        "output": (out.getvalue(), err.getvalue()),
        "records": records.found,
    }


def driven(scenario: Any) -> Any:
    """Run a scenario that never waits, without an event loop, which would change how `Guard` validates."""
    try:
        scenario.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a sync scenario waited")


def put_away(loop: asyncio.AbstractEventLoop) -> None:
    """Close an event loop and what is left over in it."""
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    asyncio.set_event_loop(None)
    loop.close()


def first_difference(before: dict[str, Any], after: dict[str, Any]) -> Any:
    """Where two observations part; whole logs would drown it."""
    for name, was in before.items():
        pairs = zip_longest(was, after[name]) if isinstance(was, list) else [(was, after[name])]
        for number, (one, other) in enumerate(pairs):
            if one != other:
                return f"{name} {number}", one, other
    return None
