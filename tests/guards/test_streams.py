"""Streams of both kinds: read to their end, failing, left early, never begun."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from guardrails import AsyncGuard, Guard
from kit import MESSAGES, NoBad, Stream
from opentelemetry import trace
from recording import Recording

ERROR = "guardrails.errors.ValidationError"


class Answer(pydantic.BaseModel):
    """A schema."""

    text: str


def read(flavour: str, chunks: list[Any], on_fail: Any, most: int | None = None) -> list[Any]:
    """Read a guarded stream, at most `most` items, then leave it; returns items and the exception, if any."""
    source = Stream(chunks)
    if flavour == "sync":
        return _read_sync(source, on_fail, most)
    return asyncio.run(_read_async(source, on_fail, most))


def _read_sync(source: Stream, on_fail: Any, most: int | None) -> list[Any]:
    items: list[Any] = []
    stream = Guard(name="g").use(NoBad(on_fail=on_fail))(source.sync, messages=MESSAGES, stream=True)
    if most == 0:
        return items
    try:
        for item in stream:
            items.append(item.validated_output)
            if len(items) == most:
                stream.close()
                break
    except Exception as error:
        items.append(error)
    return items


async def _read_async(source: Stream, on_fail: Any, most: int | None) -> list[Any]:
    items: list[Any] = []
    guard = AsyncGuard(name="g").use(NoBad(on_fail=on_fail))
    stream = await guard(source.asynchronous, messages=MESSAGES, stream=True)
    if most == 0:
        return items
    try:
        async for item in stream:
            items.append(item.validated_output)
            if len(items) == most:
                await stream.aclose()
                break
    except Exception as error:
        items.append(error)
    return items


def line(outcome: str, runs: int, action: str = "noop") -> str:
    """The line of the one Validator span, whatever the number of chunks."""
    return f"    validate NoBad [{outcome}] validator.path=$ validator.runs={runs} validator.on_fail={action}"


THREE = ["one. ", "two. ", "three."]
BAD = ["one. ", "bad. ", "three."]
CASES: dict[str, tuple[list[Any], str, int | None, str]] = {
    "read to its end": (
        THREE,
        "noop",
        None,
        f"""\
guard g __call__ x1 [pass] reasks.limit=0
  iteration 0 initial [pass]
{line("pass", 3)}""",
    ),
    "a chunk fails under noop": (
        BAD,
        "noop",
        None,
        f"""\
guard g __call__ x1 [fail] reasks.limit=0 failure.class=validation validators.failed=NoBad
  iteration 0 initial [fail] library_status=pass validators.failed=NoBad failure.class=validation \
failure.repeats=1
{line("fail", 3)}""",
    ),
    "a chunk is fixed": (
        BAD,
        "fix",
        None,
        f"""\
guard g __call__ x1 [pass] reasks.limit=0 validators.failed=NoBad
  iteration 0 initial [pass] validators.failed=NoBad
{line("fail", 3, "fix")}""",
    ),
    "an exception is asked for": (
        BAD,
        "exception",
        None,
        f"""\
guard g __call__ x1 [error] ! {ERROR} reasks.limit=0 failure.class=validation error.type={ERROR} \
validators.failed=NoBad
  iteration 0 initial [error] ! {ERROR} library_status=pass validators.failed=NoBad \
failure.class=validation error.type={ERROR} failure.repeats=1
{line("fail", 2, "exception")}""",
    ),
    "left after the first chunk": (
        THREE,
        "noop",
        1,
        f"""\
guard g __call__ x1 [not run] reasks.limit=0 abandoned=True
  iteration 0 initial [not run] library_status=pass abandoned=True
{line("pass", 1)}""",
    ),
    "never begun": (THREE, "noop", 0, "guard g __call__ x0 [not run] reasks.limit=0 abandoned=True"),
}


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("case", CASES)
def test_every_end_of_a_stream_has_its_tree(recording: Recording, flavour: str, case: str) -> None:
    """A stream's status comes from its chunks and from how it ended, which the library does not record."""
    chunks, on_fail, most, expected = CASES[case]
    read(flavour, chunks, on_fail, most)
    gc.collect()
    if case == "never begun" and flavour == "async":
        expected = expected.replace(" reasks.limit=0", "")  # the step that tells it has not run
    assert recording.tree() == expected


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_an_llm_error_in_mid_stream(recording: Recording, flavour: str) -> None:
    """Chunks read so far are delivered, then the error; its class is the provider's."""
    items = read(flavour, ["one. ", "two. ", ConnectionError("lost")], "noop")
    assert isinstance(items[-1], ConnectionError)
    assert "one." in "".join(items[:-1])
    first, second, _ = recording.tree().split("\n")
    assert first == (
        "guard g __call__ x1 [error] ! ConnectionError reasks.limit=0 failure.class=provider "
        "error.type=ConnectionError"
    )
    assert second == (
        "  iteration 0 initial [error] ! ConnectionError library_status=pass failure.class=provider "
        "error.type=ConnectionError failure.repeats=1"
    )


def test_a_stream_is_lazy_and_leaves_the_consumers_span_alone(recording: Recording) -> None:
    """Nothing runs before the first item, and the consumer's own span stays current and un-parented."""
    source = Stream(THREE)
    with recording.tracer.start_as_current_span("consumer") as consumer:
        stream = Guard(name="g").use(NoBad(on_fail="noop"))(source.sync, messages=MESSAGES, stream=True)
        assert source.calls == 0
        for _ in stream:
            assert trace.get_current_span() is consumer
            with recording.tracer.start_as_current_span("work"):
                pass
        assert trace.get_current_span() is consumer
    work = [span for span in recording.spans if span.name == "work"]
    assert work
    assert {span.parent.span_id for span in work if span.parent} == {consumer.get_span_context().span_id}


@pytest.mark.parametrize("leave", [lambda s: s.close(), lambda s: None], ids=["closed", "dropped"])
def test_a_stream_that_was_never_begun_ends_when_it_goes(
    recording: Recording, leave: Callable[[Any], None]
) -> None:
    """No span stays open for ever because nobody read the stream."""
    stream = Guard(name="g")(Stream(THREE).sync, messages=MESSAGES, stream=True)
    assert recording.spans == []
    leave(stream)
    del stream
    gc.collect()
    assert recording.tree() == "guard g __call__ x0 [not run] reasks.limit=0 abandoned=True"


def test_a_stream_left_early_is_not_drained(recording: Recording) -> None:
    """Closing after the first chunk pulls no more from the LLM."""
    source = Stream(["one. ", "two. "] * 500)
    stream = Guard(name="g").use(NoBad(on_fail="noop"))(source.sync, messages=MESSAGES, stream=True)
    next(stream)
    pulled = source.pulled
    stream.close()
    assert source.pulled == pulled


def test_a_failure_before_a_stream_was_left_is_a_failure(recording: Recording) -> None:
    """Left early after a chunk had failed: `fail`, and abandoned."""
    stream = Guard(name="g").use(NoBad(on_fail="noop"))(
        Stream(["bad. ", "two. ", "three. "]).sync, messages=MESSAGES, stream=True
    )
    next(stream)
    stream.close()
    assert recording.tree().startswith("guard g __call__ x1 [fail] reasks.limit=0 abandoned=True")


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize(
    ("chunks", "kind"), [(["pro", "se"], "parsing"), ([], "provider")], ids=["prose", "nothing"]
)
def test_a_stream_that_gives_nothing_is_an_error(
    recording: Recording, flavour: str, chunks: list[Any], kind: str
) -> None:
    """The library sets no error in streams: prose for JSON, or no answer at all, would read as a pass."""
    guards = {"sync": Guard, "async": AsyncGuard}
    guard = guards[flavour].for_pydantic(Answer, name="g")
    source = Stream(chunks)
    if flavour == "sync":
        assert list(guard(source.sync, messages=MESSAGES, stream=True)) == []
    else:
        assert asyncio.run(_all(guard, source)) == []
    call, iteration = recording.tree().split("\n")
    assert call.startswith("guard g __call__ x1 [error] !")
    assert f"failure.class={kind}" in call
    assert iteration.startswith("  iteration 0 initial [error] !")


async def _all(guard: Any, source: Stream) -> list[Any]:
    stream = await guard(source.asynchronous, messages=MESSAGES, stream=True)
    return [item async for item in stream]
