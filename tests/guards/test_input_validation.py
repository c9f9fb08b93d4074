"""Validation of the messages: Iterations of stage `input`, in the order in which it ran."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from guardrails import AsyncGuard, Guard
from kit import NoBad, Script, Stream, Unfixable
from recording import Recording

TWO = [{"role": "system", "content": "fine"}, {"role": "user", "content": "bad"}]
ERROR = "guardrails.errors.ValidationError"


def line(outcome: str, action: str) -> str:
    """The line of a Validator span of the messages."""
    return (
        f"    validate NoBad [{outcome}] validator.path=messages validator.runs=1 validator.on_fail={action}"
    )


def blocked(action: str, library: str) -> str:
    """The tree of a call whose second message was blocked."""
    return f"""\
guard g __call__ x2 [error] ! {ERROR} reasks.limit=1 failure.class=policy error.type={ERROR} \
validators.failed=NoBad
  iteration 0 input [pass]
{line("pass", action)}
  iteration 1 input [fail] {library}validators.failed=NoBad failure.class=policy \
error.type={ERROR} failure.repeats=1
{line("fail", action)}"""


CASES = {
    "exception": blocked("exception", "library_status=pass "),
    "refrain": blocked("refrain", "library_status=pass "),
    "reask": blocked("reask", ""),
    "noop": f"""\
guard g __call__ x3 [pass] reasks.limit=1 validators.failed=NoBad
  iteration 0 input [pass]
{line("pass", "noop")}
  iteration 1 input [fail] library_status=pass validators.failed=NoBad failure.class=policy failure.repeats=1
{line("fail", "noop")}
  iteration 2 initial [pass]""",
    "fix": f"""\
guard g __call__ x3 [pass] reasks.limit=1 validators.failed=NoBad
  iteration 0 input [pass]
{line("pass", "fix")}
  iteration 1 input [pass] validators.failed=NoBad
{line("fail", "fix")}
  iteration 2 initial [pass]""",
}


def attempt(flavour: str, action: str, script: Script) -> Any:
    """Call a guard that validates messages; a blocked one raises."""
    try:
        if flavour == "sync":
            return Guard(name="g").use(NoBad(on_fail=action), on="messages")(script.sync, messages=TWO)
        guard = AsyncGuard(name="g").use(NoBad(on_fail=action), on="messages")
        return asyncio.run(guard(script.asynchronous, messages=TWO))
    except Exception as error:
        return error


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("action", CASES)
def test_each_message_is_an_iteration_of_stage_input(recording: Recording, flavour: str, action: str) -> None:
    """The library inserts them at the front, reversed; the spans have the order in which they ran."""
    script = Script(["answer"])
    attempt(flavour, action, script)
    assert recording.tree() == CASES[action]
    assert script.calls == (0 if "[error]" in CASES[action] else 1)


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_the_llms_own_spans_nest_under_the_initial_iteration(recording: Recording, flavour: str) -> None:
    """The Iteration that opens after the messages were accepted is current while the LLM is called."""

    class Tracing(Script):
        def next(self) -> Any:
            with recording.tracer.start_as_current_span("provider"):
                return super().next()

    attempt(flavour, "fix", Tracing(["answer"]))
    assert recording.tree().endswith("  iteration 2 initial [pass]\n    provider")


def test_a_stream_whose_messages_are_validated(recording: Recording) -> None:
    """The same order holds for a stream, which validates its messages when it is first read."""
    guard = Guard(name="g").use(NoBad(on_fail="fix"), on="messages")
    stream = guard(Stream(["one. ", "two."]).sync, messages=TWO, stream=True)
    assert recording.spans == []
    list(stream)
    assert recording.tree() == CASES["fix"].replace("reasks.limit=1", "reasks.limit=0")


def test_an_async_stream_whose_messages_are_blocked(recording: Recording) -> None:
    """A blocked message ends an async stream before the LLM is called."""

    async def main(stream: Stream) -> None:
        guard = AsyncGuard(name="g").use(NoBad(on_fail="exception"), on="messages")
        with pytest.raises(Exception, match="bad"):
            async for _ in await guard(stream.asynchronous, messages=TWO, stream=True):
                pass

    source = Stream(["one."])
    asyncio.run(main(source))
    assert source.calls == 0
    assert recording.tree() == CASES["exception"].replace("reasks.limit=1", "reasks.limit=0")


def test_a_loop_is_stuck_though_messages_are_validated_in_between(recording: Recording) -> None:
    """The validation of a message lies between two answers and does not part their row."""
    guard = Guard(name="g").use(NoBad(on_fail="noop"), on="messages").use(Unfixable(on_fail="reask"))
    guard(Script(["bad"]).sync, messages=TWO[:1], num_reasks=2)
    assert "[fail] ! None" in recording.tree().split("\n")[0]
    assert "stuck=True" in recording.tree()
    assert "failure.repeats=3" in recording.tree()
