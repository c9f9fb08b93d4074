"""Threads, tasks, streams in turns, guards within guards: every Call has what is its own, and no more."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import litellm
import pytest
from guardrails import AsyncGuard, Guard, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult
from kit import MESSAGES, NoBad, Script
from opentelemetry.sdk.trace import ReadableSpan
from recording import Recording
from spans import by_kind, tree

THREADS, CALLS, TASKS = 16, 12, 100
USAGE = "guardspan.usage."


@register_validator("tests/looks-up", data_type="string")
class LooksUp(Validator):
    """Fails on `bad`, and looks something up within a span, as a client library would."""

    tracer: Any = None

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        with self.tracer.start_as_current_span("look up"):
            return FailResult(error_message=f"{value} is bad") if "bad" in value else PassResult()


def looks_up(recording: Recording, on_fail: str = "reask") -> LooksUp:
    validator = LooksUp(on_fail=on_fail)
    validator.tracer = recording.tracer
    return validator


class Provider:
    """Stands for LiteLLM: each user has answers, re-asks, tokens and failures of their own."""

    def __init__(self, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tracer = recording.tracer
        self.asked: dict[str, itertools.count[int]] = defaultdict(itertools.count)
        monkeypatch.setattr(litellm, "completion", self.completion)
        monkeypatch.setattr(litellm, "acompletion", self.acompletion)

    def completion(self, *args: Any, user: str, **kwargs: Any) -> Any:
        attempt, number = next(self.asked[user]), int(user)
        with self.tracer.start_as_current_span("chat", record_exception=False, set_status_on_exception=False):
            if number % 7 == 6:
                raise ConnectionError(user)
            text = f"bad {user}" if attempt < number % 4 else f"fine {user}"
            return SimpleNamespace(
                id=f"{user}-{attempt}",
                model="gpt-4o-mini",
                choices=[SimpleNamespace(message=SimpleNamespace(content=text), finish_reason="stop")],
                usage=SimpleNamespace(prompt_tokens=1000 + number, completion_tokens=10 + attempt),
                _hidden_params={"custom_llm_provider": "openai"},
            )

    async def acompletion(self, *args: Any, user: str, **kwargs: Any) -> Any:
        await asyncio.sleep(0.001 * (int(user) % 3))
        return self.completion(*args, user=user, **kwargs)

    def arguments(self, number: int) -> dict[str, Any]:
        return {"model": "gpt-4o-mini", "messages": MESSAGES, "user": str(number), "num_reasks": 2}


def traces(recording: Recording) -> dict[str, list[ReadableSpan]]:
    """The spans that have ended, by the name of their trace's root."""
    found: dict[int, list[ReadableSpan]] = defaultdict(list)
    for span in recording.spans:
        found[span.context.trace_id].append(span)
    roots = {key: [span.name for span in spans if span.parent is None] for key, spans in found.items()}
    assert all(len(names) == 1 for names in roots.values()), "orphans"
    named = {roots[key][0]: spans for key, spans in found.items()}
    assert len(named) == len(found)
    return named


def trees(recording: Recording) -> dict[str, str]:
    """Each trace as lines, by the name of its root; what is recorded afterwards begins anew."""
    found = {name: tree(spans) for name, spans in traces(recording).items()}
    recording.exporter.clear()
    return found


def shape_of(text: str) -> list[str]:
    """The names of a tree's spans with their depth and status."""
    return [line.split("]")[0] for line in text.split("\n")]


ALONE = """\
1
  guard g __call__ x2 [pass
    iteration 0 initial [fail
      chat
      validate LooksUp [fail
      look up
    iteration 1 reask [pass
      chat
      validate LooksUp [pass
      look up"""


def assert_own_tokens(recording: Recording, calls: int) -> None:
    """Ids are unique, and each Call's tokens and Iterations are those of its user."""
    found = traces(recording)
    ids = set()
    for name, spans in found.items():
        (call,), iterations = by_kind(spans, "call"), by_kind(spans, "iteration")
        number = int(name)
        (own,) = {span.attributes["guardspan.call.id"] for span in [call, *iterations]}
        ids.add(own)
        expected = 1 if number % 7 == 6 else min(number % 4, 2) + 1
        assert call.attributes["guardspan.iterations"] == len(iterations) == expected
        if number % 7 != 6:
            assert call.attributes[f"{USAGE}input_tokens"] == expected * (1000 + number)
            assert call.attributes[f"{USAGE}output_tokens"] == sum(range(10, 10 + expected))
            answers = [span.attributes["gen_ai.response.id"] for span in iterations]
            assert answers == [f"{number}-{attempt}" for attempt in range(expected)]
    assert len(ids) == len(found) == calls


# --- many at once ----------------------------------------------------------------------------------


def test_threads_share_a_guard(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 threads on one guard: each call's tree is the one that it has when it runs alone."""
    provider = Provider(recording, monkeypatch)
    guard = Guard(name="g").use(looks_up(recording))

    def call(number: int) -> None:
        with recording.tracer.start_as_current_span(str(number)), contextlib.suppress(Exception):
            guard(**provider.arguments(number))

    for number in range(28):
        call(number)
    alone = trees(recording)
    assert shape_of(alone["1"]) == ALONE.split("\n")
    provider.asked.clear()
    together = threading.Barrier(THREADS)

    def work(first: int) -> None:
        together.wait()
        for number in range(first, THREADS * CALLS, THREADS):
            call(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert_own_tokens(recording, THREADS * CALLS)
    at_once = trees(recording)
    assert {name: at_once[name] for name in alone} == alone


def test_tasks_share_a_guard(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 tasks on one guard: each call's tree is the one that it has when it runs alone."""
    provider = Provider(recording, monkeypatch)
    guard = AsyncGuard(name="g").use(looks_up(recording))

    async def call(number: int) -> None:
        with recording.tracer.start_as_current_span(str(number)), contextlib.suppress(Exception):
            await guard(**provider.arguments(number))

    async def each_alone() -> None:
        for number in range(28):
            await call(number)

    async def all_at_once() -> None:
        await asyncio.gather(*map(call, range(TASKS)))

    asyncio.run(each_alone())
    alone = trees(recording)
    assert shape_of(alone["1"]) == ALONE.split("\n")
    provider.asked.clear()
    asyncio.run(all_at_once())
    assert_own_tokens(recording, TASKS)
    at_once = trees(recording)
    assert {name: at_once[name] for name in alone} == alone


def test_threads_make_guards_of_their_own(recording: Recording) -> None:
    """Names and contract digests are each guard's own, however many are made and dropped at once."""

    def work(number: int) -> None:
        for turn in range(10):
            guard = Guard(name=f"g{number}-{turn}").use(NoBad(on_fail=("noop", "fix")[turn % 2], of=number))
            assert guard.validate("fine").validation_passed

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    found = {span.attributes["guardspan.name"]: span.attributes for span in by_kind(recording.spans, "call")}
    assert set(found) == {f"g{number}-{turn}" for number in range(THREADS) for turn in range(10)}
    digests = {(name.split("-")[0], int(name[-1]) % 2): set() for name in found}
    for name, attributes in found.items():
        digests[name.split("-")[0], int(name[-1]) % 2].add(attributes["guardspan.contract.digest"])
    assert all(len(each) == 1 for each in digests.values())
    assert len(set.union(*digests.values())) == 2 * THREADS


# --- streams in turns ------------------------------------------------------------------------------


def streamed(recording: Recording, number: int) -> tuple[Any, Any]:
    """A guard for a stream, and its LLM, which makes a span for the request and one for each chunk."""
    guard = {"sync": Guard, "async": AsyncGuard}
    chunks = [f"{word} {number}. " for word in ("one", "bad" if number % 2 else "two", "three")]

    def items() -> Iterator[str]:
        for chunk in chunks:
            with recording.tracer.start_as_current_span("receive"):
                pass
            yield chunk

    def sync(*args: Any, messages: Any = None, **kwargs: Any) -> Iterator[str]:
        with recording.tracer.start_as_current_span("chat"):
            return items()

    async def asynchronous(*args: Any, messages: Any = None, **kwargs: Any) -> Any:
        async def async_items() -> AsyncIterator[str]:
            for item in items():
                await asyncio.sleep(0)
                yield item

        with recording.tracer.start_as_current_span("chat"):
            return SimpleNamespace(completion_stream=async_items())

    def made(flavour: str) -> Any:
        return guard[flavour](name="g").use(looks_up(recording, "noop"))

    return made, {"sync": sync, "async": asynchronous}


def sync_stream(recording: Recording, number: int) -> Any:
    """A stream made within a span of its own, which has ended when it is read."""
    made, llms = streamed(recording, number)
    with recording.tracer.start_as_current_span(str(number)):
        return made("sync")(llms["sync"], messages=MESSAGES, stream=True)


async def read_async_stream(recording: Recording, number: int) -> None:
    """As above, and read to its end."""
    made, llms = streamed(recording, number)
    with recording.tracer.start_as_current_span(str(number)):
        stream = await made("async")(llms["async"], messages=MESSAGES, stream=True)
    async for _ in stream:
        await asyncio.sleep(0)


def stream_tree(number: int, status: str = "pass", outcome: str = "pass") -> str:
    """What such a stream's trace is to be: all that its LLM and its validator do is in its Iteration."""
    failed = outcome == "fail"
    of_call = " failure.class=validation validators.failed=LooksUp" if failed else ""
    of_iteration = (
        " library_status=pass validators.failed=LooksUp failure.class=validation failure.repeats=1"
        if failed
        else ""
    )
    return f"""\
{number}
  guard g __call__ x1 [{status}] reasks.limit=0{of_call}
    iteration 0 initial [{status}]{of_iteration}
      chat
      receive
      receive
      receive
      validate LooksUp [{outcome}] validator.path=$ validator.runs=3 validator.on_fail=noop"""


def without_look_ups(found: dict[str, str]) -> dict[str, str]:
    """How often a chunk is looked at is the library's affair; where, is ours, and is checked here."""
    kept = {}
    for name, text in found.items():
        lines = text.split("\n")
        assert {line for line in lines if "look up" in line} == {"      look up"}
        order = sorted(
            (line for line in lines if "look up" not in line), key=lambda line: line.startswith("      ")
        )
        kept[name] = "\n".join(order[:3] + sorted(order[3:]))
    return kept


def expected_streams(count: int) -> dict[str, str]:
    return {str(n): stream_tree(n, *(("fail", "fail") if n % 2 else ())) for n in range(count)}


def test_streams_in_turns_in_one_thread(recording: Recording) -> None:
    """Whose turn it is, its spans are made in; the consumer's own are in none of them."""
    open_streams = {number: sync_stream(recording, number) for number in range(6)}
    with recording.tracer.start_as_current_span("consumer"):
        while open_streams:
            for number, stream in list(open_streams.items()):
                with recording.tracer.start_as_current_span("work"):
                    pass
                if next(stream, None) is None:
                    del open_streams[number]
    found = trees(recording)
    assert set(found.pop("consumer").split("\n")) == {"consumer", "  work"}
    assert without_look_ups(found) == expected_streams(6)


def test_streams_read_by_threads(recording: Recording) -> None:
    """Made here, begun there, read to their ends elsewhere."""
    streams = [sync_stream(recording, number) for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(next, streams))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(list, streams))
    assert without_look_ups(trees(recording)) == expected_streams(12)


def test_async_streams_gathered(recording: Recording) -> None:
    """Twenty tasks, each with a stream of its own."""

    async def main() -> None:
        await asyncio.gather(*(read_async_stream(recording, number) for number in range(20)))

    asyncio.run(main())
    assert without_look_ups(trees(recording)) == expected_streams(20)


@pytest.mark.parametrize("odd", ["asked while it works", "sent a value too early", "asked after its end"])
def test_what_raises_and_is_not_the_end_does_not_end_the_call(recording: Recording, odd: str) -> None:
    """A stream that refuses a request goes on, and so does its Call."""
    asked: list[BaseException] = []

    def chunks() -> Iterator[str]:
        yield "one. "
        if odd == "asked while it works":
            with pytest.raises(ValueError, match="already executing") as error:
                next(stream)
            asked.append(error.value)
        yield "two."

    stream = Guard(name="g")(Script([chunks()]).sync, messages=MESSAGES, stream=True)
    if odd == "sent a value too early":
        with pytest.raises(TypeError, match="just-started"):
            stream.send("x")
    assert [item.validated_output for item in stream] == ["one. ", "two."]
    if odd == "asked after its end":
        assert next(stream, "end") == "end"
    assert bool(asked) == (odd == "asked while it works")
    assert recording.tree() == "guard g __call__ x1 [pass] reasks.limit=0\n  iteration 0 initial [pass]"
