"""What an application may do with a guard's calls; each is run bare and instrumented."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from application import ACTIONS, VARIABLE, App, Person, Usages, history, plain
from guardrails import Guard, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult
from kit import MESSAGES, NeedsTenant, Raises, Unfixable

usage = Usages()


@usage("variables around a call")
async def _(app: App) -> None:
    await app.attempt(app.enter(app.guard(), "__call__", app.llm("fine"), messages=MESSAGES))
    app.note(VARIABLE.get())


@usage("an exception of the validator's is handed on as it is")
async def _(app: App) -> None:
    kept = LookupError("kept")
    kept.__notes__ = ["a note"]  # what `add_note` makes, from Python 3.11 on
    guard = app.guard(lambda value, result: (_ for _ in ()).throw(kept))
    raised = await app.attempt(app.enter(guard, "validate", "bad"))
    app.note(raised is kept, kept.args, kept.__notes__, kept.__context__, kept.__cause__)


@usage("a call while an exception is handled")
async def _(app: App) -> None:
    try:
        raise KeyError("the application's own")
    except KeyError as own:
        raised = await app.attempt(app.enter(app.guard("exception"), "validate", "bad"))
        app.note(sys.exc_info()[1] is own, raised.__context__ is own)


@usage("set-ups that cannot work")
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


@usage("JSON, prose, and JSON that does not fit")
async def _(app: App) -> None:
    for answers in (['{"name": "Ann"}'], ["prose"], ["prose", '{"name": "Ann"}'], ['{"age": 3}'], ["[1"]):
        guard = app.kind.for_pydantic(Person)
        await app.attempt(app.enter(guard, "__call__", app.llm(*answers), messages=MESSAGES))
        app.note(history(guard))


@usage("messages that are validated")
async def _(app: App) -> None:
    for name, action in ACTIONS.items():
        messages = [{"role": "system", "content": "fine"}, {"role": "user", "content": "bad ${word}"}]
        guard = app.guard(action, on="messages")
        await app.attempt(
            app.enter(guard, "__call__", app.llm("fine"), messages=messages, prompt_params={"word": "x"})
        )
        app.note(name, messages, history(guard))


@usage("arguments are left as they are")
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


@usage("a guard within a guard")
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
        return (
            FailResult(error_message="no")
            if "bad" in value
            else await super().async_validate(value, metadata)
        )

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        metadata["note"]("in a thread", type(self), self.rail_alias)
        return PassResult()


@usage("validators are themselves, and where they were")
async def _(app: App) -> None:
    for kind in (SelfAware, Awaiting):
        validator = kind(on_fail="noop")
        guard = app.kind(name="g").use(validator)
        for text in ("fine", "bad"):
            metadata = {"note": app.note, "validator": [validator]}
            await app.attempt(app.enter(guard, "validate", text, metadata=metadata))
            app.note(getattr(validator, "seen", None))


@usage("a sync guard in a running loop", "async")
async def _(app: App) -> None:
    outcome = Guard(name="g").use(Unfixable(on_fail="noop")).validate("bad")
    app.note(plain(outcome))


@usage("cancelled in the LLM", "async")
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


@usage("called and never awaited", "async")
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


@usage("the event loop works on while a validator waits", "async")
async def _(app: App) -> None:
    loop, waiting, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    metadata = {"waiting": lambda: loop.call_soon_threadsafe(waiting.set), "go": go}
    guard = app.guard(validator=NeedsTheLoop)
    task = asyncio.create_task(app.enter(guard, "validate", "fine", metadata=metadata))
    await asyncio.wait_for(waiting.wait(), 5)
    go.set()
    app.note(plain(await task))


@usage("given up half-way, in another context", "async")
async def _(app: App) -> None:
    async def wait(_: App) -> None:
        await _Once()

    called = app.guard()(app.llm(wait), messages=MESSAGES)
    contextvars.Context().run(called.send, None)
    app.note_current_span("while it waits")
    called.close()
    app.note_current_span("when it is closed")


class _Once:
    """Waits for whoever drives the coroutine, without an event loop."""

    def __await__(self) -> Any:
        return (yield)


@usage("called by other threads")
async def _(app: App) -> None:
    guard = app.guard("fix")
    if app.flavour == "async":
        app.note(plain(await asyncio.to_thread(Guard(name="g").validate, "bad")))
        given = await asyncio.to_thread(asyncio.run, guard.validate("bad"))
    else:
        with ThreadPoolExecutor(1) as pool:
            given = pool.submit(guard.validate, "bad").result()
    app.note(plain(given), history(guard))


@usage("validators run in the calling thread", "sync")
async def _(app: App) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GUARDRAILS_RUN_SYNC", "true")
        validator = SelfAware(on_fail="noop")
        metadata = {"note": app.note, "validator": [validator]}
        guard = app.kind(name="g").use(validator)
        await app.attempt(app.enter(guard, "validate", "fine", metadata=metadata))
