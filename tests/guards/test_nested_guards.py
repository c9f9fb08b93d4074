"""Guards within guards, and guards where instrumentation is suppressed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from guardrails import AsyncGuard, Guard, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult
from kit import MESSAGES, NoBad, Stream
from opentelemetry.instrumentation.utils import suppress_instrumentation
from recording import Recording


def inner(kind: Any = Guard, name: str = "inner") -> Any:
    return kind(name=name).use(NoBad(on_fail="noop"))


def call(name: str, depth: int, entry: str = "__call__") -> list[str]:
    """The lines of a Call with one Iteration that passed, without its Validators."""
    limit = 1 if entry == "__call__" else 0
    pad = "  " * depth
    return [f"{pad}guard {name} {entry} x1 [pass] reasks.limit={limit}", f"{pad}  iteration 0 initial [pass]"]


def ran(depth: int, name: str = "NoBad") -> str:
    return f"{'  ' * depth}validate {name} [pass] validator.path=$ validator.runs=1 validator.on_fail=noop"


@register_validator("tests/judge", data_type="string")
class Judge(Validator):
    """Asks another guard, in whatever thread it runs."""

    guard: Any = None

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        given = self.guard.validate(value)
        outcome = asyncio.run(given) if asyncio.iscoroutine(given) else given
        return PassResult() if outcome.validation_passed else FailResult(error_message="judged")


def judged(kind: Any, by: Any) -> Any:
    judge = Judge(on_fail="noop")
    judge.guard = by
    return kind(name="outer").use(judge)


def answering(answer: Callable[[], Any]) -> Callable[..., Any]:
    return lambda *args, messages=None, **kwargs: answer()


async def awaited(given: Any) -> Any:
    return (await given).validated_output


def recursive(kind: Any, deep: int) -> Any:
    """One guard that is called by its own LLM, so often."""
    guard = inner(kind, "outer")

    def ask(left: int) -> Any:
        if not left:
            return "fine" if kind is Guard else _text("fine")
        given = guard(answering(lambda: ask(left - 1)), messages=MESSAGES)
        return given.validated_output if kind is Guard else awaited(given)

    return lambda: guard(answering(lambda: ask(deep - 1)), messages=MESSAGES)


async def _text(text: str) -> str:
    return text


def outer_asks(kind: Any, answer: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: inner(kind, "outer")(answering(answer), messages=MESSAGES)


def inner_streams() -> str:
    stream = inner()(Stream(["one. "]).sync, messages=MESSAGES, stream=True)
    return "".join(item.validated_output for item in stream)


VALIDATED = [*call("inner", 2, "validate"), ran(4)]
NESTED: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "its LLM asks another": (
        outer_asks(Guard, lambda: inner().validate("fine").validated_output),
        [*call("outer", 0), *VALIDATED, ran(2)],
    ),
    "its async LLM asks another": (
        outer_asks(AsyncGuard, lambda: awaited(inner(AsyncGuard).validate("fine"))),
        [*call("outer", 0), *VALIDATED, ran(2)],
    ),
    "its async LLM asks a sync one": (
        outer_asks(AsyncGuard, lambda: _text(inner().validate("fine").validated_output)),
        [*call("outer", 0), *VALIDATED, ran(2)],
    ),
    "its async LLM asks one in a thread": (
        outer_asks(AsyncGuard, lambda: awaited(asyncio.to_thread(inner().validate, "fine"))),
        [*call("outer", 0), *VALIDATED, ran(2)],
    ),
    "its LLM reads another's stream": (
        outer_asks(Guard, inner_streams),
        [
            *call("outer", 0),
            call("inner", 2)[0].replace("limit=1", "limit=0"),
            call("inner", 2)[1],
            ran(4),
            ran(2),
        ],
    ),
    "its LLM asks the guard itself": (
        recursive(Guard, 3),
        [*call("outer", 0), *call("outer", 2), *call("outer", 4), ran(6), ran(4), ran(2)],
    ),
    "its async LLM asks the guard itself": (
        recursive(AsyncGuard, 3),
        [*call("outer", 0), *call("outer", 2), *call("outer", 4), ran(6), ran(4), ran(2)],
    ),
    "its validator asks another": (
        lambda: judged(Guard, inner()).validate("fine"),
        [*call("outer", 0, "validate"), ran(2, "Judge"), *VALIDATED],
    ),
    "its validator asks an async one": (
        lambda: judged(Guard, inner(AsyncGuard)).validate("fine"),
        [*call("outer", 0, "validate"), ran(2, "Judge"), *VALIDATED],
    ),
    "an async guard's validator asks another": (
        lambda: judged(AsyncGuard, inner()).validate("fine"),
        [*call("outer", 0, "validate"), ran(2, "Judge"), *VALIDATED],
    ),
    "a validator asks a guard whose validator asks": (
        lambda: judged(Guard, judged(Guard, inner())).validate("fine"),
        [
            *call("outer", 0, "validate"),
            ran(2, "Judge"),
            *call("outer", 2, "validate"),
            ran(4, "Judge"),
            *call("inner", 4, "validate"),
            ran(6),
        ],
    ),
}


@pytest.mark.parametrize("case", NESTED)
def test_guards_within_guards(recording: Recording, case: str) -> None:
    """One Call for each guard that was called, each in the Iteration that called it, and no other root."""
    run, expected = NESTED[case]
    given = run()
    outcome = asyncio.run(_finish(given)) if asyncio.iscoroutine(given) else given
    assert outcome.validation_passed
    assert recording.tree().split("\n") == expected


async def _finish(given: Any) -> Any:
    return await given


# --- suppression -----------------------------------------------------------------------------------


def chunk(text: str) -> Any:
    """A chunk with token counts, as a provider's last one has them."""
    choice = SimpleNamespace(delta=SimpleNamespace(content=text), finish_reason=None)
    return SimpleNamespace(
        choices=[choice], model="inner-model", usage=SimpleNamespace(prompt_tokens=5, completion_tokens=6)
    )


def suppressed_stream(guard: Any) -> str:
    """Made where instrumentation is suppressed, read where it no longer is."""
    with suppress_instrumentation():
        stream = guard(Stream([chunk("one. "), chunk("two.")]).sync, messages=MESSAGES, stream=True)
    return "".join(item.validated_output or "" for item in stream)


async def suppressed_async_stream(guard: Any) -> str:
    with suppress_instrumentation():
        llm = Stream([chunk("one. "), chunk("two.")]).asynchronous
        stream = await guard(llm, messages=MESSAGES, stream=True)
    return "".join([item.validated_output or "" async for item in stream])


@pytest.mark.parametrize("on", ["output", "messages"])
@pytest.mark.parametrize("kind", [Guard, AsyncGuard])
def test_a_suppressed_stream_is_no_part_of_the_call_that_reads_it(
    recording: Recording, kind: Any, on: str
) -> None:
    """Its tokens, its model and its validators are not written down for the guard whose LLM reads it."""
    silent = kind(name="silent").use(NoBad(on_fail="noop"), on=on)
    read = suppressed_stream if kind is Guard else suppressed_async_stream
    given = kind(name="outer")(answering(lambda: read(silent)), messages=MESSAGES)
    outcome = asyncio.run(_finish(given)) if asyncio.iscoroutine(given) else given
    assert outcome.validated_output in ("one. two.", "one.two.")
    assert recording.tree() == "guard outer __call__ x1 [pass] reasks.limit=1\n  iteration 0 initial [pass]"
