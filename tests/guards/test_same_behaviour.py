"""An application behaves the same with and without guardspan.

Each scenario is written once, for `Guard` and `AsyncGuard` alike, and run twice: bare (Guardrails' own tracing
off, as guardspan switches it) and instrumented. Everything that the application could notice is compared:
results, exceptions with their tracebacks, the order of events, what was pulled from the LLM at each point, the
current span, context variables, warnings, output, log records.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import io
import logging
import re
import sys
import threading
import types
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pydantic
import pytest
import wrapt
from faker import Faker
from guardrails import AsyncGuard, Guard, Validator, register_validator
from guardrails.settings import settings
from guardrails.validator_base import FailResult, PassResult
from kit import MESSAGES, NeedsTenant, NoBad, Raises, Unfixable
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import TracerProvider
from recording import Recording

import guardspan

OURS = tuple(str(Path(module.__file__ or "").parent) for module in (guardspan, wrapt))
LIBRARYS_TRACING = ("guardrails/telemetry/", "opentelemetry/")
ADDRESS = re.compile(r"0x[0-9a-f]+")
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("tests-variable", default="unset")
CHUNKS = ["one. ", "two. ", "three. ", "four."]

Scenario = Callable[["App"], Awaitable[Any]]


class Person(pydantic.BaseModel):
    name: str


class Odd(BaseException):
    """No `Exception`: nothing but a bare `except` catches it."""


class Mute(Exception):
    """An exception whose own text cannot be made."""

    def __str__(self) -> str:
        raise TypeError("no text")


# --- an application, in two flavours ---------------------------------------------------------------


class App:
    """What a scenario is written against: a guard of one flavour, its LLM, and a log of events in their order."""

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
            self.note("llm", args, sorted(kwargs), repr(kwargs.get("messages")), VARIABLE.get())
            VARIABLE.set("set by the llm")
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
        """An answer that is a stream; what is pulled of it is logged, an exception among its chunks is raised."""

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
        made = await self.enter(
            guard or self.guard(on_fail), "__call__", self.llm(self.source(*chunks)), messages=MESSAGES, stream=True
        )
        self.note("made")
        return made

    async def step(self, stream: Any, method: str = "next", *args: Any) -> Any:
        """One of a generator's methods (`next`, `send`, `throw`, `close`), or its async twin."""
        name = {"next": "__next__"}.get(method, method)
        if self.flavour == "async":
            name = {"next": "__anext__"}.get(method, f"a{method}")
        self.note_current_span(f"before {method}")
        given = getattr(stream, name)(*args)
        given = await given if self.flavour == "async" else given
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
    return type(error)(*error.args)


# --- observing it ----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A result in terms that can be compared; the library's call id is a memory address."""
    if isinstance(value, pydantic.BaseModel):
        return {name: item for name, item in value.model_dump().items() if name != "call_id"}
    if isinstance(value, str | int | float | type(None) | list | dict):
        return value
    return type(value).__name__


def told(error: BaseException, hidden: tuple[str, ...] = OURS, depth: int = 4) -> Any:
    """An exception as an application could tell it from another: class, message, frames, what is behind it."""
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
        self.found.append((record.name, ADDRESS.sub("0x", record.getMessage())))


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
            run = _driven(scenario(app)) if flavour == "sync" else loop.run_until_complete(_tidy(scenario(app)))
            app.note_current_span("at the end")
            app.note("at the end", VARIABLE.get())
    finally:
        VARIABLE.reset(token)
        loop.close()
        logging.getLogger().removeHandler(records)
    return {
        "result": plain(run),
        "log": app.log,
        "warnings": [
            (w.category, ADDRESS.sub("0x", str(w.message)), w.filename, w.lineno)
            for w in caught
            if w.category is not ResourceWarning
        ],
        "output": (out.getvalue(), err.getvalue()),
        "records": records.found,
    }


def _driven(scenario: Any) -> Any:
    """Run a scenario that never waits, without an event loop, which would change how `Guard` validates."""
    try:
        scenario.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a sync scenario waited")


async def _tidy(scenario: Awaitable[Any]) -> Any:
    try:
        return await scenario
    finally:
        await asyncio.get_running_loop().shutdown_asyncgens()
        await asyncio.get_running_loop().shutdown_default_executor()


def bare(monkeypatch: pytest.MonkeyPatch, flavour: str, scenario: Scenario, tracing_off: bool = True) -> Any:
    """The scenario without guardspan."""
    guardspan.uninstrument()
    with monkeypatch.context() as patch:
        patch.setattr(settings, "disable_tracing", tracing_off)
        return observe(flavour, scenario)


def first_difference(before: dict[str, Any], after: dict[str, Any]) -> Any:
    """Where two observations part; whole logs would drown it."""
    for name in before:
        pairs = zip_longest(before[name], after[name]) if name != "result" else [(before[name], after[name])]
        for number, (was, now) in enumerate(pairs):
            if was != now:
                return f"{name} {number}", was, now
    return None


def assert_same(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, scenario: Scenario
) -> Recording:
    """Compare a scenario's bare run with its instrumented one; gives the recording of the latter."""
    before = bare(monkeypatch, flavour, scenario)
    recording = record(content="redacted")
    after = observe(flavour, scenario)
    difference = first_difference(before, after)
    assert difference is None
    assert before["log"]
    assert recording.spans
    return recording


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- every entry, every action on failure ----------------------------------------------------------


def _raising(value: Any, result: Any) -> Any:
    raise LookupError("the application's own action failed")


ACTIONS: dict[str, Any] = {
    **{name: name for name in ("exception", "noop", "fix", "filter", "refrain", "reask", "fix_reask")},
    "custom": lambda value, result: "mended",
    "custom that raises": _raising,
}
ANSWERS: dict[str, tuple[Any, ...]] = {
    "good": ("fine",),
    "bad": ("bad",),
    "bad, then good": ("bad", "fine"),
    "empty": ("",),
    "none": (None,),
    "no text": ({"a": 1},),
    "LLM error": (ConnectionError("lost"),),
    "LLM error after a re-ask": ("bad", TimeoutError("slow")),
    "StopIteration": (StopIteration("done"),),
    "no Exception": (Odd("odd"),),
    "interrupted": (KeyboardInterrupt("stop"),),
    "exit": (SystemExit(3),),
}
STREAMS: dict[str, tuple[Any, ...]] = {
    "good": tuple(CHUNKS),
    "bad in the middle": ("one. ", "bad. ", "three."),
    "bad at the end": ("one. ", "bad."),
    "nothing": (),
    "a chunk that is no text": ("one. ", 7),
    "LLM error": ("one. ", ConnectionError("lost"), "three."),
    "interrupted": ("one. ", KeyboardInterrupt("stop")),
    "no Exception": ("one. ", "two. ", Odd("odd")),
    "StopIteration": ("one. ", StopIteration("done")),
}


async def enter_all(app: App, entry: str, action: Any) -> None:
    """Every answer in turn, each to a guard of its own, and what the library remembers of it."""
    for name, answers in (STREAMS if entry == "stream" else ANSWERS).items():
        app.note(name)
        guard = app.guard(action)
        if entry == "stream":
            await app.attempt(_read_stream(app, guard, answers))
        elif entry == "__call__":
            await app.attempt(app.enter(guard, entry, app.llm(*answers), messages=MESSAGES))
        elif isinstance(answers[0], str):
            asked = {"llm_api": app.llm(*answers[1:] or ("fine",)), "messages": MESSAGES, "num_reasks": 1}
            await app.attempt(app.enter(guard, entry, answers[0], **(asked if entry == "parse" else {})))
        app.note(history(guard))


async def _read_stream(app: App, guard: Any, chunks: tuple[Any, ...]) -> None:
    await app.read(await app.stream(*chunks, guard=guard))


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("entry", ["__call__", "parse", "validate", "stream"])
def test_every_entry_and_action(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, entry: str, action: str
) -> None:
    """Results, exceptions, tracebacks and the library's own history are those of the bare run."""
    assert_same(monkeypatch, record, flavour, lambda app: enter_all(app, entry, ACTIONS[action]))


@pytest.mark.parametrize("entry", ["__call__", "stream"])
@pytest.mark.parametrize("action", ["exception", "fix", "reask"])
def test_the_library_as_it_comes_gives_the_same(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, entry: str, action: str
) -> None:
    """Against a bare run with Guardrails' tracing on, its default: what is given and raised is the same."""

    def scenario(app: App) -> Any:
        return enter_all(app, entry, ACTIONS[action])

    def given(observed: dict[str, Any]) -> list[Any]:
        events = [event for event in observed["log"] if event[:1] in (("gave",), ("raised",), ("consumed",))]
        return [event[:2] if event[0] != "raised" else event[1][:2] for event in events]

    before = bare(monkeypatch, flavour, scenario, tracing_off=False)
    record()
    assert given(observe(flavour, scenario)) == given(before)


# --- everything else an application may do ---------------------------------------------------------

SCENARIOS: dict[str, tuple[str, Scenario]] = {}


def scenario(name: str, flavours: str = "sync async") -> Callable[[Scenario], Scenario]:
    def keep(function: Scenario) -> Scenario:
        SCENARIOS[name] = (flavours, function)
        return function

    return keep


@scenario("read to its end, step by step")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for _ in range(len(CHUNKS) + 2):
        await app.attempt(app.step(stream))


@scenario("closed after the first chunk, then asked for more")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for method in ("next", "close", "next", "close"):
        await app.attempt(app.step(stream, method))


@scenario("closed before it began, then asked for more")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for method in ("close", "next"):
        await app.attempt(app.step(stream, method))


@scenario("never begun")
async def _(app: App) -> None:
    await app.stream(*CHUNKS)


@scenario("left by a break")
async def _(app: App) -> None:
    await app.read(await app.stream(*CHUNKS), most=2)


@scenario("an exception thrown in")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.step(stream)
    await app.attempt(app.step(stream, "throw", ValueError("thrown in")))
    await app.attempt(app.step(stream))


@scenario("an exception thrown in before it began")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.attempt(app.step(stream, "throw", ValueError("thrown in")))
    await app.attempt(app.step(stream))


@scenario("odd exceptions thrown in")
async def _(app: App) -> None:
    for error in (GeneratorExit(), StopIteration(), StopAsyncIteration(), KeyboardInterrupt(), Mute()):
        stream = await app.stream(*CHUNKS)
        await app.step(stream)
        await app.attempt(app.step(stream, "throw", error))
        await app.attempt(app.step(stream))


@scenario("values sent in, one of them too early")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.attempt(app.step(stream, "send", "too early"))
    for value in (None, "ignored", None, "ignored", None):
        await app.attempt(app.step(stream, "send", value))


@scenario("what a stream is")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    kinds = (types.GeneratorType, types.AsyncGeneratorType, Generator, AsyncGenerator, Iterator, AsyncIterator)
    app.note([isinstance(stream, kind) for kind in kinds])
    app.note(inspect.isgenerator(stream), inspect.isasyncgen(stream), inspect.isawaitable(stream))
    app.note((iter(stream) if app.flavour == "sync" else aiter(stream)) is stream, bool(stream))
    app.note([hasattr(stream, name) for name in ("__next__", "__anext__", "gi_frame", "ag_frame", "model_dump")])
    app.note(stream.__name__, hash(stream) == hash(stream), stream == stream)  # noqa: PLR0124
    if app.flavour == "sync":
        app.note(inspect.getgeneratorstate(stream))
        await app.step(stream)
        app.note(inspect.getgeneratorstate(stream))
    await app.attempt(app.step(stream, "close"))


@scenario("asked for more while it works")
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


@scenario("delegated to, and passed through helpers", "sync")
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


@scenario("closed by a helper", "async")
async def _(app: App) -> None:
    async with contextlib.aclosing(await app.stream(*CHUNKS)) as stream:
        await app.read(stream, most=1)


@scenario("read by another thread", "sync")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)

    def read() -> None:
        app.note("thread", trace.get_current_span() is trace.INVALID_SPAN)
        _driven(app.read(stream, most=2))
        app.note("thread", trace.get_current_span() is trace.INVALID_SPAN, VARIABLE.get())

    await app.step(stream)
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    await app.read(stream)


@scenario("each chunk read by a task of its own", "async")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    for _ in range(len(CHUNKS) + 1):
        await app.attempt(asyncio.create_task(app.step(stream)))
    app.note(VARIABLE.get())


@scenario("two streams in turns")
async def _(app: App) -> None:
    one, two = await app.stream(*CHUNKS), await app.stream("uno. ", "dos.")
    for _ in range(len(CHUNKS) + 1):
        await app.attempt(app.step(one))
        await app.attempt(app.step(two))


@scenario("variables and baggage set while a stream is read")
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


@scenario("a span of the application's that ends between two chunks")
async def _(app: App) -> None:
    stream = await app.stream(*CHUNKS)
    await app.step(stream)
    token = otel_context.attach(trace.set_span_in_context(app.tracer.start_span("one"), otel_context.Context()))
    await app.step(stream)
    app.note(trace.get_current_span().name)
    otel_context.detach(token)
    app.note_current_span("detached")
    await app.read(stream)


@scenario("JSON in a stream")
async def _(app: App) -> None:
    guard = app.kind.for_pydantic(Person)
    await app.attempt(_read_stream(app, guard, ('{"na', 'me": "A', 'nn"}')))
    await app.attempt(_read_stream(app, guard, ('{"name": ', "prose")))


@scenario("an LLM whose stream is none")
async def _(app: App) -> None:
    for answer in (None, "text", 7, ["one. ", "two."]):
        given = types.SimpleNamespace(completion_stream=answer) if app.flavour == "async" else answer
        stream = await app.enter(app.guard(), "__call__", app.llm(given), messages=MESSAGES, stream=True)
        await app.attempt(app.read(stream))


@scenario("a text to validate, and yet a stream")
async def _(app: App) -> None:
    await app.attempt(app.read(await app.enter(app.guard(), "parse", "fine", stream=True)))


@scenario("an LLM that fails before its stream begins")
async def _(app: App) -> None:
    llm = app.llm(ConnectionError("refused"))
    stream = await app.enter(app.guard(), "__call__", llm, messages=MESSAGES, stream=True)
    await app.attempt(app.read(stream))


@scenario("variables around a call")
async def _(app: App) -> None:
    await app.attempt(app.enter(app.guard(), "__call__", app.llm("fine"), messages=MESSAGES))
    app.note(VARIABLE.get())


@scenario("an exception of the validator's is handed on as it is")
async def _(app: App) -> None:
    kept = LookupError("kept")
    kept.add_note("a note")
    guard = app.guard(lambda value, result: (_ for _ in ()).throw(kept))
    raised = await app.attempt(app.enter(guard, "validate", "bad"))
    app.note(raised is kept, kept.args, kept.__notes__, kept.__context__, kept.__cause__)


@scenario("a call while an exception is handled")
async def _(app: App) -> None:
    try:
        raise KeyError("the application's own")
    except KeyError as own:
        raised = await app.attempt(app.enter(app.guard("exception"), "validate", "bad"))
        app.note(sys.exc_info()[1] is own, raised.__context__ is own)


@scenario("set-ups that cannot work")
async def _(app: App) -> None:
    llm = app.llm("fine")
    bad: list[tuple[Any, str, tuple[Any, ...], dict[str, Any]]] = [
        (app.guard(validator=NeedsTenant), "__call__", (llm,), {"messages": MESSAGES}),
        (app.guard(), "__call__", (llm,), {}),
        (app.guard(), "__call__", (lambda messages: "x",), {"messages": MESSAGES}),
        (app.guard(), "__call__", (), {"messages": MESSAGES}),
        (app.guard(), "parse", (None,), {}),
        (app.guard(), "parse", (), {}),
        (app.guard(), "validate", (7,), {}),
        (app.guard(), "__call__", (llm,), {"messages": "no list"}),
        (app.guard(), "__call__", (llm,), {"messages": [{"role": "user"}]}),
        (app.guard(validator=Raises), "validate", ("fine",), {}),
    ]
    for guard, entry, args, kwargs in bad:
        await app.attempt(app.enter(guard, entry, *args, **kwargs))
        app.note(history(guard))


@scenario("JSON, prose, and JSON that does not fit")
async def _(app: App) -> None:
    for answers in (['{"name": "Ann"}'], ["prose"], ["prose", '{"name": "Ann"}'], ['{"age": 3}'], ["[1"]):
        guard = app.kind.for_pydantic(Person)
        await app.attempt(app.enter(guard, "__call__", app.llm(*answers), messages=MESSAGES))
        app.note(history(guard))


@scenario("messages that are validated")
async def _(app: App) -> None:
    for name, action in ACTIONS.items():
        messages = [{"role": "system", "content": "fine"}, {"role": "user", "content": "bad ${word}"}]
        guard = app.guard(action, on="messages")
        await app.attempt(
            app.enter(guard, "__call__", app.llm("fine"), messages=messages, prompt_params={"word": "x"})
        )
        app.note(name, messages, history(guard))


@scenario("messages that are validated, of a stream")
async def _(app: App) -> None:
    for action in ("exception", "noop", "fix"):
        guard = app.guard(action, on="messages")
        app.note(action)
        await app.attempt(_blocked_stream(app, guard))


async def _blocked_stream(app: App, guard: Any) -> None:
    messages = [{"role": "user", "content": "bad"}]
    llm = app.llm(app.source(*CHUNKS))
    await app.read(await app.enter(guard, "__call__", llm, messages=messages, stream=True))


@scenario("arguments are left as they are")
async def _(app: App) -> None:
    messages = [{"role": "user", "content": "say ${word}"}]
    metadata, params = {"tenant": ["a"]}, {"word": "x"}
    await app.enter(
        app.guard("reask"),
        "__call__",
        app.llm("bad", "fine"),
        messages=messages,
        metadata=metadata,
        prompt_params=params,
        temperature=0.5,
        api_key="k",
    )
    app.note(messages, metadata, params)


@scenario("a guard within a guard")
async def _(app: App) -> None:
    inner, guard = app.guard("fix"), app.guard("noop")

    def ask(_: App) -> Any:
        given = inner.validate("bad")
        if app.flavour == "sync":
            return given.validated_output
        return _validated(given)

    await app.attempt(app.enter(guard, "__call__", app.llm(ask), messages=MESSAGES))
    app.note(history(inner), history(guard))


async def _validated(given: Awaitable[Any]) -> Any:
    return (await given).validated_output


@register_validator("tests/self-aware", data_type="string")
class SelfAware(Validator):
    """Notes what it is, where it runs, and that it keeps state."""

    seen: Any = None

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        main = threading.current_thread() is threading.main_thread()
        metadata["note"](type(self), self is metadata["validator"][0], main, VARIABLE.get(), self.seen)
        self.seen = value
        return PassResult()


@register_validator("tests/awaiting", data_type="string")
class Awaiting(Validator):
    """Validates in the event loop, as an application may override it to."""

    async def async_validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        metadata["note"]("in the loop", type(self), VARIABLE.get())
        return FailResult(error_message="no") if "bad" in value else await super().async_validate(value, metadata)

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        metadata["note"]("in a thread", type(self), self.rail_alias)
        return PassResult()


@scenario("validators are themselves, and where they were")
async def _(app: App) -> None:
    for kind in (SelfAware, Awaiting):
        validator = kind(on_fail="noop")
        guard = app.kind(name="g").use(validator)
        for text in ("fine", "bad"):
            metadata = {"note": app.note, "validator": [validator]}
            await app.attempt(app.enter(guard, "validate", text, metadata=metadata))
            app.note(getattr(validator, "seen", None))


@scenario("a sync guard in a running loop", "async")
async def _(app: App) -> None:
    outcome = Guard(name="g").use(Unfixable(on_fail="noop")).validate("bad")
    app.note(plain(outcome))


@scenario("cancelled in the LLM", "async")
async def _(app: App) -> None:
    for cancel in ("cancel", "timeout"):
        asked = asyncio.Event()

        async def wait(_: App, asked: asyncio.Event = asked) -> str:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                app.note("the LLM was cancelled")
                raise
            return "never"

        calling = app.enter(app.guard(), "__call__", app.llm(wait), messages=MESSAGES)
        task = asyncio.create_task(asyncio.wait_for(calling, 0.01 if cancel == "timeout" else None))
        await asked.wait()
        if cancel == "cancel":
            task.cancel("no longer wanted")
        await app.attempt(task)
        app.note(task.cancelled())


@scenario("cancelled in a stream", "async")
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


@scenario("called and never awaited", "async")
async def _(app: App) -> None:
    called = app.guard()(app.llm("fine"), messages=MESSAGES)
    app.note(inspect.iscoroutine(called), inspect.isawaitable(called), asyncio.iscoroutine(called))
    called.close()
    await app.attempt(called)
    await app.enter(app.guard(), "validate", "fine")


@register_validator("tests/needs-the-loop", data_type="string")
class NeedsTheLoop(Validator):
    """Waits in its thread until the event loop has done something else."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        metadata["waiting"]()
        return PassResult() if metadata["go"].wait(5) else FailResult(error_message="the loop was blocked")


@scenario("the event loop works on while a validator waits", "async")
async def _(app: App) -> None:
    loop, waiting, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    metadata = {"waiting": lambda: loop.call_soon_threadsafe(waiting.set), "go": go}
    guard = app.guard(validator=NeedsTheLoop)
    task = asyncio.create_task(app.enter(guard, "validate", "fine", metadata=metadata))
    await asyncio.wait_for(waiting.wait(), 5)
    go.set()
    app.note(plain(await task))


@pytest.mark.parametrize(
    ("name", "flavour"), [(name, f) for name, (flavours, _) in SCENARIOS.items() for f in flavours.split()]
)
def test_whatever_an_application_does(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], name: str, flavour: str
) -> None:
    """Everything that could be noticed is as in the bare run."""
    assert_same(monkeypatch, record, flavour, SCENARIOS[name][1])
