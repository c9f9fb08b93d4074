"""The span trees of all outcomes, compared whole, for `Guard` and `AsyncGuard` alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pydantic
import pytest
from guardrails import AsyncGuard, Guard
from kit import MESSAGES, NeedsTenant, NoBad, Raises, Script, Unfixable
from recording import Recording


class Person(pydantic.BaseModel):
    """A schema for guards that want JSON."""

    name: str


class Team(pydantic.BaseModel):
    """A schema whose list items are validated one by one."""

    names: list[str] = pydantic.Field(min_length=1)


def run(flavour: str, guard: Callable[[type], Any], answers: Iterable[Any], **kwargs: Any) -> Any:
    """Call a guard of the flavour with a scripted LLM; returns the outcome or the exception."""
    script = Script(answers)
    try:
        if flavour == "sync":
            return guard(Guard)(script.sync, messages=MESSAGES, **kwargs)
        return asyncio.run(guard(AsyncGuard)(script.asynchronous, messages=MESSAGES, **kwargs))
    except (Exception, KeyboardInterrupt) as error:
        return error


def no_bad(on_fail: Any) -> Callable[[type], Any]:
    """A guard with one fixable validator."""
    return lambda kind: kind(name="g").use(NoBad(on_fail=on_fail))


def unfixable(on_fail: Any) -> Callable[[type], Any]:
    """A guard with one validator that has no fix value."""
    return lambda kind: kind(name="g").use(Unfixable(on_fail=on_fail))


def person(kind: type) -> Any:
    """A guard that wants JSON."""
    return kind.for_pydantic(Person, name="g")


VALIDATION_ERROR = "guardrails.errors.ValidationError"
CALLABLE_ERROR = "guardrails.classes.llm.prompt_callable.PromptCallableException"


def failing(action: str, validator: str = "NoBad", outcome: str = "fail") -> str:
    """The line of a Validator span under an Iteration."""
    return (
        f"    validate {validator} [{outcome}] validator.path=$ validator.runs=1 validator.on_fail={action}"
    )


TOLERATED = """\
guard g __call__ x1 [fail] reasks.limit=1 failure.class=validation validators.failed=NoBad
  iteration 0 initial [fail] library_status=pass validators.failed=NoBad failure.class=validation \
failure.repeats=1
{validator}"""

CASES: dict[str, tuple[Callable[[type], Any], list[Any], dict[str, Any], str]] = {
    "passes": (
        no_bad("reask"),
        ["fine"],
        {},
        f"""\
guard g __call__ x1 [pass] reasks.limit=1
  iteration 0 initial [pass]
{failing("reask", outcome="pass")}""",
    ),
    "exception": (
        no_bad("exception"),
        ["bad"],
        {},
        f"""\
guard g __call__ x1 [error] ! {VALIDATION_ERROR} reasks.limit=1 failure.class=validation \
error.type={VALIDATION_ERROR} validators.failed=NoBad
  iteration 0 initial [error] ! {VALIDATION_ERROR} validators.failed=NoBad failure.class=validation \
error.type={VALIDATION_ERROR} failure.repeats=1
{failing("exception")}""",
    ),
    "noop": (no_bad("noop"), ["bad"], {}, TOLERATED.format(validator=failing("noop"))),
    "filter": (no_bad("filter"), ["bad"], {}, TOLERATED.format(validator=failing("filter"))),
    "refrain": (no_bad("refrain"), ["bad"], {}, TOLERATED.format(validator=failing("refrain"))),
    "fix": (
        no_bad("fix"),
        ["bad"],
        {},
        f"""\
guard g __call__ x1 [pass] reasks.limit=1 validators.failed=NoBad
  iteration 0 initial [pass] validators.failed=NoBad
{failing("fix")}""",
    ),
    "fix without a fix value": (
        unfixable("fix"),
        ["bad"],
        {},
        TOLERATED.format(validator=failing("fix", "Unfixable")).replace("NoBad", "Unfixable"),
    ),
    "custom": (
        no_bad(lambda value, result: "mended"),
        ["bad"],
        {},
        f"""\
guard g __call__ x1 [pass] reasks.limit=1 validators.failed=NoBad
  iteration 0 initial [pass] validators.failed=NoBad
{failing("custom")}""",
    ),
    "custom that gives nothing": (
        no_bad(lambda value, result: None),
        ["bad"],
        {},
        TOLERATED.format(validator=failing("custom")),
    ),
    "reask, then good": (
        no_bad("reask"),
        ["bad", "fine"],
        {},
        f"""\
guard g __call__ x2 [pass] reasks.limit=1 validators.failed=NoBad
  iteration 0 initial [fail] reask.reason=validation validators.failed=NoBad failure.class=validation \
failure.repeats=1
{failing("reask")}
  iteration 1 reask [pass]
{failing("reask", outcome="pass")}""",
    ),
    "reasks used up, a fix value is there": (
        no_bad("reask"),
        ["bad"],
        {},
        f"""\
guard g __call__ x2 [pass] reasks.limit=1 limit_reached=True validators.failed=NoBad
  iteration 0 initial [fail] reask.reason=validation validators.failed=NoBad failure.class=validation \
failure.repeats=1
{failing("reask")}
  iteration 1 reask [fail] validators.failed=NoBad failure.class=validation failure.repeats=2
{failing("reask")}""",
    ),
    "reasks used up, and stuck": (
        unfixable("reask"),
        ["bad"],
        {"num_reasks": 2},
        f"""\
guard g __call__ x3 [fail] ! None reasks.limit=2 limit_reached=True failure.class=validation \
validators.failed=Unfixable stuck=True
  iteration 0 initial [fail] reask.reason=validation validators.failed=Unfixable \
failure.class=validation failure.repeats=1
{failing("reask", "Unfixable")}
  iteration 1 reask [fail] reask.reason=validation validators.failed=Unfixable \
failure.class=validation failure.repeats=2
{failing("reask", "Unfixable")}
  iteration 2 reask [fail] validators.failed=Unfixable failure.class=validation failure.repeats=3
{failing("reask", "Unfixable")}""",
    ),
    "fix_reask": (
        no_bad("fix_reask"),
        ["bad"],
        {},
        f"""\
guard g __call__ x1 [pass] reasks.limit=1 validators.failed=NoBad
  iteration 0 initial [pass] validators.failed=NoBad
{failing("fix_reask")}""",
    ),
    "prose for JSON, no re-ask left": (
        person,
        ["prose"],
        {},
        """\
guard g __call__ x2 [error] ! json.decoder.JSONDecodeError reasks.limit=1 limit_reached=True \
failure.class=parsing error.type=json.decoder.JSONDecodeError
  iteration 0 initial [error] reask.reason=parsing failure.class=parsing failure.repeats=1
  iteration 1 reask [error] ! json.decoder.JSONDecodeError failure.class=parsing \
error.type=json.decoder.JSONDecodeError failure.repeats=2""",
    ),
    "prose first, JSON after": (
        person,
        ["prose", '{"name": "Ada"}'],
        {},
        """\
guard g __call__ x2 [pass] reasks.limit=1
  iteration 0 initial [error] reask.reason=parsing failure.class=parsing failure.repeats=1
  iteration 1 reask [pass]""",
    ),
    "JSON that does not fit the schema": (
        person,
        ['{"title": "Dr"}', '{"name": "Ada"}'],
        {},
        """\
guard g __call__ x2 [pass] reasks.limit=1
  iteration 0 initial [fail] reask.reason=validation failure.class=validation failure.repeats=1
  iteration 1 reask [pass]""",
    ),
    "empty answer": (
        no_bad("noop"),
        [""],
        {},
        f"""\
guard g __call__ x1 [error] ! None reasks.limit=1 failure.class=provider
  iteration 0 initial [error] ! None failure.class=provider failure.repeats=1
{failing("noop", outcome="pass")}""",
    ),
    "empty answer for JSON": (
        person,
        ["", '{"name": "Ada"}'],
        {},
        """\
guard g __call__ x2 [pass] reasks.limit=1
  iteration 0 initial [error] reask.reason=empty failure.class=provider failure.repeats=1
  iteration 1 reask [pass]""",
    ),
    "LLM raises": (
        no_bad("noop"),
        [ConnectionError("refused")],
        {},
        f"""\
guard g __call__ x1 [error] ! {CALLABLE_ERROR} reasks.limit=1 failure.class=provider \
failure.cause=ConnectionError error.type={CALLABLE_ERROR}
  iteration 0 initial [error] ! {CALLABLE_ERROR} failure.class=provider failure.cause=ConnectionError \
error.type={CALLABLE_ERROR} failure.repeats=1""",
    ),
    "LLM times out": (
        no_bad("noop"),
        [TimeoutError("too slow")],
        {},
        f"""\
guard g __call__ x1 [error] ! {CALLABLE_ERROR} reasks.limit=1 failure.class=timeout \
failure.cause=TimeoutError error.type={CALLABLE_ERROR}
  iteration 0 initial [error] ! {CALLABLE_ERROR} failure.class=timeout failure.cause=TimeoutError \
error.type={CALLABLE_ERROR} failure.repeats=1""",
    ),
    "KeyboardInterrupt in the LLM": (
        no_bad("noop"),
        [KeyboardInterrupt()],
        {},
        """\
guard g __call__ x1 [error] ! KeyboardInterrupt reasks.limit=1 failure.class=cancelled \
error.type=KeyboardInterrupt
  iteration 0 initial [error] ! KeyboardInterrupt library_status=not run failure.class=cancelled \
error.type=KeyboardInterrupt failure.repeats=1""",
    ),
    "validator raises": (
        lambda kind: kind(name="g").use(Raises(on_fail="noop")),
        ["x"],
        {},
        """\
guard g __call__ x1 [error] ! LookupError reasks.limit=1 failure.class=validation error.type=LookupError
  iteration 0 initial [error] ! LookupError failure.class=validation error.type=LookupError \
failure.repeats=1
    validate Raises [None] ! LookupError validator.path=$ validator.runs=1 validator.on_fail=noop \
error.type=LookupError""",
    ),
    "list items are one Validator span": (
        lambda kind: kind.for_pydantic(Team, name="g").use(NoBad(on_fail="fix"), on="$.names.*"),
        ['{"names": ["bad", "fine", "bad"]}'],
        {},
        """\
guard g __call__ x1 [pass] reasks.limit=1 validators.failed=NoBad
  iteration 0 initial [pass] validators.failed=NoBad
    validate NoBad [fail] validator.path=$.names.* validator.runs=3 validator.on_fail=fix""",
    ),
}


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("case", CASES)
def test_every_outcome_has_its_tree(recording: Recording, flavour: str, case: str) -> None:
    """Status, failure and validators say what happened in this execution, whatever the library says."""
    guard, answers, kwargs, expected = CASES[case]
    run(flavour, guard, answers, **kwargs)
    assert recording.tree() == expected


CONFIGURATION_CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "required metadata is missing": (
        lambda: Guard(name="g").use(NeedsTenant(on_fail="noop"))(Script(["x"]).sync, messages=MESSAGES),
        "guard g __call__ x0 [error] ! ValueError failure.class=configuration error.type=ValueError",
    ),
    "no messages": (
        lambda: Guard(name="g")(Script(["x"]).sync),
        "guard g __call__ x0 [error] ! RuntimeError failure.class=configuration error.type=RuntimeError",
    ),
    "the callable takes no keywords": (
        lambda: Guard(name="g")(lambda messages: "x", messages=MESSAGES),
        "guard g __call__ x0 [error] ! ValueError failure.class=configuration error.type=ValueError",
    ),
    "no LLM and no output": (
        lambda: Guard(name="g").parse(None),
        """\
guard g parse x1 [error] ! ValueError reasks.limit=0 failure.class=configuration error.type=ValueError
  iteration 0 initial [error] ! ValueError library_status=pass failure.class=configuration \
error.type=ValueError failure.repeats=1""",
    ),
}


@pytest.mark.parametrize("case", CONFIGURATION_CASES)
def test_a_call_that_cannot_begin_is_a_call_all_the_same(recording: Recording, case: str) -> None:
    """A guard that is set up wrongly is a Call of class `configuration`, with nothing of another call."""
    call, expected = CONFIGURATION_CASES[case]
    with pytest.raises((ValueError, RuntimeError)):
        call()
    assert recording.tree() == expected


ENTRIES: dict[str, tuple[Callable[[type], Any], str]] = {
    "__call__": (
        lambda guard: guard(
            Script(["fine"]).sync if type(guard) is Guard else Script(["fine"]).asynchronous,
            messages=MESSAGES,
        ),
        "x1 [pass] reasks.limit=1",
    ),
    "parse": (lambda guard: guard.parse("fine"), "x1 [pass] reasks.limit=0"),
    "validate": (lambda guard: guard.validate("fine"), "x1 [pass] reasks.limit=0"),
}


@pytest.mark.parametrize("kind", [Guard, AsyncGuard])
@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_is_one_call_named_as_the_user_called_it(
    recording: Recording, kind: type, entry: str
) -> None:
    """`validate` calls `parse`, which calls more: one Call comes of it, with what the user called."""
    call, expected = ENTRIES[entry]
    result = call(kind(name="g").use(NoBad(on_fail="noop")))
    if asyncio.iscoroutine(result):
        asyncio.run(_awaited(result))
    assert (
        recording.tree()
        == f"""\
guard g {entry} {expected}
  iteration 0 initial [pass]
{failing("noop", outcome="pass")}"""
    )


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


def test_a_cancelled_call_is_an_error_of_class_cancelled(recording: Recording) -> None:
    """The library calls it a pass; the wrapper saw the cancellation, and so says the tree."""

    async def main() -> None:
        called = asyncio.Event()

        async def llm(*args: Any, messages: Any = None, **kwargs: Any) -> str:
            called.set()
            await asyncio.Event().wait()
            return "never"

        task = asyncio.create_task(AsyncGuard(name="g").use(NoBad(on_fail="noop"))(llm, messages=MESSAGES))
        await called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    cancelled = "asyncio.exceptions.CancelledError"
    assert (
        recording.tree()
        == f"""\
guard g __call__ x1 [error] ! {cancelled} reasks.limit=1 failure.class=cancelled error.type={cancelled}
  iteration 0 initial [error] ! {cancelled} library_status=not run failure.class=cancelled \
error.type={cancelled} failure.repeats=1"""
    )


def test_the_reasons_of_an_unrelated_exception_are_not_taken_for_the_cause(recording: Recording) -> None:
    """A call made while the application handles an exception of its own does not name that as its cause."""
    guard = Guard(name="g").use(NoBad(on_fail="exception"))
    try:
        raise KeyError("the application's own")
    except KeyError:
        with pytest.raises(Exception, match="bad"):
            guard.validate("bad")
    assert "failure.cause" not in recording.tree()
