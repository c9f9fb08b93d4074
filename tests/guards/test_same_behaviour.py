"""An application behaves the same with and without guardspan.

Each scenario is written once, for `Guard` and `AsyncGuard` alike, and run twice: bare (Guardrails' own
tracing off, as guardspan switches it) and instrumented. Everything that the application could notice is
compared: results, exceptions with their tracebacks, the order of events, what was pulled from the LLM at each
point, the current span, context variables, warnings, output, log records, and what is kept alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import random
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import call_usages
import pytest
import stream_usages
from application import (
    ACTIONS,
    CHUNKS,
    App,
    Scenario,
    driven,
    first_difference,
    history,
    observe,
    put_away,
)
from guardrails import AsyncGuard, Guard
from guardrails.settings import settings
from kit import MESSAGES, NoBad
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider
from recording import Recording

import guardspan


class Odd(BaseException):
    """No `Exception`: nothing but a bare `except` catches it."""


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


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def bare(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any], tracing_off: bool = True) -> Any:
    """A run without guardspan."""
    guardspan.uninstrument()
    with monkeypatch.context() as patch:
        patch.setattr(settings, "disable_tracing", tracing_off)
        return run()


def assert_same(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, scenario: Scenario
) -> Recording:
    """Compare a scenario's bare run with its instrumented one; gives the recording of the latter."""
    before = bare(monkeypatch, lambda: observe(flavour, scenario))
    recording = record(content="redacted")
    after = observe(flavour, scenario)
    difference = first_difference(before, after)
    assert difference is None
    assert before["log"]
    assert recording.spans
    return recording


# --- every entry, every action on failure ----------------------------------------------------------


async def enter_all(app: App, entry: str, action: Any) -> None:
    """Every answer in turn, each to a guard of its own, and what the library remembers of it."""
    for name, answers in (STREAMS if entry == "stream" else ANSWERS).items():
        app.note(name)
        guard = app.guard(action)
        if entry == "stream":
            await app.attempt(app.read_stream(guard, *answers))
        elif entry == "__call__":
            await app.attempt(app.enter(guard, entry, app.llm(*answers), messages=MESSAGES))
        elif isinstance(answers[0], str):
            asked = {"llm_api": app.llm(*answers[1:] or ("fine",)), "messages": MESSAGES, "num_reasks": 1}
            await app.attempt(app.enter(guard, entry, answers[0], **(asked if entry == "parse" else {})))
        app.note(history(guard))


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

    def given() -> list[Any]:
        log = observe(flavour, lambda app: enter_all(app, entry, ACTIONS[action]))["log"]
        events = [event for event in log if event[0] in ("gave", "raised", "consumed")]
        return [event[:2] if event[0] != "raised" else event[1][:2] for event in events]

    before = bare(monkeypatch, given, tracing_off=False)
    record()
    assert given() == before


USAGES = {**call_usages.usage, **stream_usages.usage}


@pytest.mark.parametrize(
    ("name", "flavour"), [(name, each) for name, (flavours, _) in USAGES.items() for each in flavours]
)
def test_whatever_an_application_does(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], name: str, flavour: str
) -> None:
    """Everything that could be noticed is as in the bare run."""
    assert_same(monkeypatch, record, flavour, USAGES[name][1])


@pytest.mark.parametrize(
    ("name", "flavour"), [(name, each) for name, (flavours, _) in USAGES.items() for each in flavours]
)
@pytest.mark.usefixtures("record")
def test_nor_does_it_where_nothing_is_sampled(
    monkeypatch: pytest.MonkeyPatch, name: str, flavour: str
) -> None:
    """Less is done for a Call that is not sampled; what is done is no more noticed."""
    scenario = USAGES[name][1]
    before = bare(monkeypatch, lambda: observe(flavour, scenario))
    guardspan.instrument(tracer_provider=TracerProvider(sampler=ALWAYS_OFF), content="redacted")
    difference = first_difference(before, observe(flavour, scenario))
    assert difference is None


@pytest.mark.usefixtures("record")
def test_the_applications_own_chance_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that seeds `random` gets the numbers that it counts on."""

    def numbers() -> list[float]:
        random.seed(1)
        for text in ("fine", "bad"):
            Guard(name="g").use(NoBad(on_fail="fix")).validate(text)
        return [random.random() for _ in range(3)]

    before = bare(monkeypatch, numbers)
    guardspan.instrument(tracer_provider=NoOpTracerProvider(), content="redacted")
    assert numbers() == before


def test_ids_are_unique_whatever_the_application_seeds(recording: Recording) -> None:
    """Two replicas that begin with the same seed do not share the ids of their calls."""
    guard = Guard(name="g")
    for _ in range(3):
        random.seed(1)
        guard.validate("fine")
    assert len({span.attributes["guardspan.call.id"] for span in recording.spans}) == 3


# --- what is kept alive ----------------------------------------------------------------------------


class Map(dict[str, Any]):
    """A dictionary that can be referred to weakly."""


class Sequence(list[Any]):
    """A list that can be referred to weakly."""


class Lost(ConnectionError):
    """An exception that can be referred to weakly."""


class Life:
    """One use of a guard, whose objects are watched; what the LLM callable captures outlives the call."""

    def __init__(self, app: App, captures: bool) -> None:
        self.app = app
        self.captures = captures
        self.kept: list[contextvars.Context] = []
        self.watched: dict[str, Any] = {}

    def watch(self, name: str, thing: Any) -> Any:
        self.watched[name] = weakref.ref(thing)
        return thing

    def llm(self, answer: Callable[[], Any]) -> Callable[..., Any]:
        """An LLM callable; as a client library with a background task would, it may keep its context."""
        captures, kept = self.captures, self.kept

        def ask(*args: Any, messages: Any = None, **kwargs: Any) -> Any:
            if captures:
                kept.append(contextvars.copy_context())
            return answer()

        async def ask_async(*args: Any, messages: Any = None, **kwargs: Any) -> Any:
            return ask()

        return self.watch("llm", ask if self.app.flavour == "sync" else ask_async)

    def items(self, *chunks: Any) -> Any:
        def make() -> Iterator[Any]:
            for chunk in chunks:
                if chunk is Lost:
                    raise self.watch("error", Lost("lost"))
                yield chunk

        async def make_async() -> AsyncIterator[Any]:
            for chunk in make():
                yield chunk

        if self.app.flavour == "sync":
            return self.watch("llm stream", make())
        return type("Response", (), {"completion_stream": self.watch("llm stream", make_async())})()

    async def call(self, answer: Callable[[], Any], **kwargs: Any) -> Any:
        guard = self.watch("guard", self.app.guard("reask"))
        messages = self.watch("messages", Sequence([self.watch("message", Map(MESSAGES[0]))]))
        metadata = self.watch("metadata", Map(tenant="t", deep=self.watch("deep", Map())))
        given = await self.app.enter(
            guard, "__call__", self.llm(answer), messages=messages, metadata=metadata, **kwargs
        )
        return self.watch("given", given)


_MOST = {"stream never begun": 0, "stream left": 1, "stream closed": 1}


async def _use(life: Life, way: str) -> None:
    if way in ("fine", "bad"):
        await life.call(lambda: way)
    elif way == "error":
        await life.app.attempt(life.call(lambda: life.items(Lost)))
    else:
        given = life.items(*CHUNKS, *([Lost] if way == "stream that fails" else []))
        stream = await life.call(lambda: given, stream=True)
        if way == "stream that fails":
            await life.app.attempt(life.app.read(stream))
        else:
            await life.app.read(
                stream, {"stream never begun": 0, "stream left": 1, "stream closed": 1}.get(way, 9)
            )
        if way == "stream closed":
            await life.app.step(stream, "close")


def lifetimes(flavour: str, way: str, captures: bool) -> dict[str, bool]:
    """Which of the objects are still alive when the application has let go of them."""
    gc.freeze()  # what is already there is not looked at, which would take a second
    life = Life(App(flavour), captures)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    driven(_use(life, way)) if flavour == "sync" else loop.run_until_complete(_use(life, way))
    put_away(loop)
    life.app.log.clear()
    gc.collect()
    gc.unfreeze()
    assert bool(life.kept) == (captures and way != "stream never begun")
    return {name: reference() is not None for name, reference in life.watched.items()}


@pytest.mark.parametrize("captures", [False, True], ids=["", "context captured"])
@pytest.mark.parametrize(
    "way",
    [
        "fine",
        "bad",
        "error",
        "stream",
        "stream left",
        "stream closed",
        "stream never begun",
        "stream that fails",
    ],
)
def test_nothing_is_kept_alive(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, way: str, captures: bool
) -> None:
    """Guards, messages, streams and outcomes go when they go in the bare run, whoever kept our context."""
    before = bare(monkeypatch, lambda: lifetimes(flavour, way, captures))
    recording = record(content="redacted")
    assert lifetimes(flavour, way, captures) == before
    assert len(before) >= 5
    assert recording.spans


# --- what the entries are --------------------------------------------------------------------------


def described(kind: type, entry: str) -> dict[str, Any]:
    """What an application, or a framework that inspects callables, can find out about an entry."""
    function, bound = getattr(kind, entry), getattr(kind(), entry)
    told: dict[str, Any] = {}
    for name, thing in (("function", function), ("bound", bound)):
        told |= {f"{name} {check.__name__}": check(thing) for check in _CHECKS}
        told |= {f"{name}.{attribute}": getattr(thing, attribute) for attribute in _ATTRIBUTES}
    return told | {"self": type(bound.__self__), "unwrapped": inspect.unwrap(function).__code__}


_CHECKS: list[Callable[[Any], Any]] = [
    inspect.iscoroutinefunction,
    asyncio.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
    inspect.isfunction,
    inspect.ismethod,
    inspect.isroutine,
    callable,
    inspect.signature,
    inspect.getsource,
]
_ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__")


@pytest.mark.parametrize("kind", [Guard, AsyncGuard])
@pytest.mark.parametrize("entry", ["__call__", "parse", "validate"])
def test_an_entry_looks_as_it_did(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], kind: type, entry: str
) -> None:
    """Frameworks that inspect a callable find the same: a coroutine function is one, signatures hold."""
    before = bare(monkeypatch, lambda: described(kind, entry))
    record()
    assert described(kind, entry) == before


def test_a_subclass_and_a_double_of_the_applications_own_work(record: Callable[..., Recording]) -> None:
    """Overriding an entry, and replacing it for a test, work on top of what is patched, and come undone."""

    class Own(Guard):
        def validate(self, *args: Any, **kwargs: Any) -> Any:
            return super().validate(*args, **kwargs)

    recording = record()
    assert Own(name="own").validate("fine").validation_passed
    assert [span.name for span in recording.spans if span.parent is None] == ["guard own"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Guard, "validate", lambda self, text: "double")
        assert Guard().validate("fine") == "double"
    assert Guard(name="g").validate("fine").validation_passed
    assert [span.name for span in recording.spans if span.parent is None] == ["guard own", "guard g"]
