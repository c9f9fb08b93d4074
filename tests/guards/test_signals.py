"""What comes beside the spans: hooks, baggage, metrics of calls under way, log events; and suppression."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from guardrails import AsyncGuard, Guard
from kit import MESSAGES, NoBad, Script, Stream
from opentelemetry import baggage
from opentelemetry import context as otel_context
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from recording import Recording
from spans import by_kind

import guardspan
from guardspan import safety
from guardspan.views import CallView, IterationView

SECRET = "sk-proj-" + "a1B2c3D4" * 6


@pytest.fixture(autouse=True)
def fresh_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Faults are logged once in a process; every test is to see its own."""
    monkeypatch.setattr(safety, "_reported", set())
    caplog.set_level(logging.INFO, logger="guardspan")


def guard(on_fail: Any = "noop") -> Any:
    """A guard with one validator."""
    return Guard(name="g").use(NoBad(on_fail=on_fail))


def read_async(chunks: list[Any]) -> None:
    """Read an async guard's stream to its end."""

    async def main() -> None:
        stream = await AsyncGuard(name="g").use(NoBad(on_fail="noop"))(
            Stream(chunks).asynchronous, messages=MESSAGES, stream=True
        )
        async for _ in stream:
            continue

    asyncio.run(main())


CALLS: dict[str, Callable[[Any], Any]] = {
    "sync": lambda answer: guard()(Script([answer]).sync, messages=MESSAGES),
    "async": lambda answer: asyncio.run(
        AsyncGuard(name="g").use(NoBad(on_fail="noop"))(Script([answer]).asynchronous, messages=MESSAGES)
    ),
    "sync stream": lambda answer: list(guard()(Stream([answer]).sync, messages=MESSAGES, stream=True)),
    "async stream": lambda answer: read_async([answer]),
}


# --- hooks ---------------------------------------------------------------------------------------


class Seen:
    """Hooks that keep what they were given."""

    def __init__(self) -> None:
        self.calls: list[CallView] = []
        self.iterations: list[IterationView] = []

    def call(self, span: Any, view: CallView) -> None:
        """A `call_hook`."""
        span.set_attribute("application.call", True)
        self.calls.append(view)

    def iteration(self, span: Any, view: IterationView) -> None:
        """An `iteration_hook`."""
        span.set_attribute("application.iteration", view.index)
        self.iterations.append(view)


@pytest.mark.parametrize("flavour", CALLS)
@pytest.mark.parametrize("content", ["shape", "redacted"])
def test_hooks_get_plain_values_without_content(
    record: Callable[..., Recording], flavour: str, content: str
) -> None:
    """They see what happened, none of the texts, and may set attributes of their own."""
    seen = Seen()
    recording = record(content=content, call_hook=seen.call, iteration_hook=seen.iteration)
    CALLS[flavour]("something bad. then ")
    (call,), (iteration,) = seen.calls, seen.iterations
    assert (call.name, call.entry, call.status, call.iterations) == ("g", "__call__", "fail", 1)
    assert (call.failure_class, call.failed_validators) == ("validation", ("NoBad",))
    assert (iteration.index, iteration.stage, iteration.status) == (0, "initial", "fail")
    assert [(v.name, v.outcome, v.on_fail) for v in iteration.validators] == [("NoBad", "fail", "noop")]
    given = repr((dataclasses.asdict(call), dataclasses.asdict(iteration)))
    assert "something" not in given
    assert " object at " not in given
    (of_call,), (of_iteration,) = by_kind(recording.spans, "call"), by_kind(recording.spans, "iteration")
    assert of_call.attributes["application.call"] is True
    assert of_iteration.attributes["application.iteration"] == 0


@pytest.mark.parametrize("flavour", CALLS)
def test_a_hooks_fault_stays_its_own(
    record: Callable[..., Recording], caplog: pytest.LogCaptureFixture, flavour: str
) -> None:
    """The call returns as ever, its spans are whole, and one line names the kind of the fault alone."""

    def faulty(span: Any, view: Any) -> None:
        raise ValueError(SECRET)

    bare, recording = record(), None
    CALLS[flavour]("fine")
    expected = bare.tree()
    recording = record(call_hook=faulty, iteration_hook=faulty)
    CALLS[flavour]("fine")
    assert recording.tree() == expected
    (line,) = [entry.getMessage() for entry in caplog.records if entry.name == "guardspan"]
    assert "hook" in line
    assert "ValueError" in line
    assert SECRET not in caplog.text


def test_a_hook_runs_for_a_call_that_raised_and_for_one_that_was_left(
    record: Callable[..., Recording],
) -> None:
    """Every Call that ends is told of, however it ended."""
    seen = Seen()
    record(call_hook=seen.call)
    with pytest.raises(Exception, match="bad"):
        guard("exception").validate("bad")
    guard()(Stream(["one. ", "two. "]).sync, messages=MESSAGES, stream=True).close()
    failed, left = seen.calls
    assert (failed.status, failed.error_type) == ("error", "guardrails.errors.ValidationError")
    assert (left.status, left.abandoned, left.iterations) == ("not run", True, 0)


@pytest.mark.parametrize("hook", ["call_hook", "iteration_hook"])
def test_a_hook_that_ends_the_program_ends_it(record: Callable[..., Recording], hook: str) -> None:
    """`sys.exit` in a hook, or Ctrl-C just then, is not swallowed, and both spans are there all the same."""

    def leave(span: Any, view: Any) -> None:
        raise SystemExit(7)

    recording = record(**{hook: leave})
    with pytest.raises(SystemExit, match="7"):
        guard().validate("fine")
    assert [span.name for span in recording.spans] == ["validate NoBad", "iteration", "guard g"]
    assert active(recording) == 0


# --- baggage -------------------------------------------------------------------------------------


@pytest.fixture
def with_baggage() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Sets baggage in the current context until the test is over."""
    tokens: list[Any] = []

    def attach(entries: dict[str, Any]) -> None:
        context = otel_context.get_current()
        for name, value in entries.items():
            context = baggage.set_baggage(name, value, context)
        tokens.append(otel_context.attach(context))

    yield attach
    for token in reversed(tokens):
        otel_context.detach(token)


def copied(recording: Recording, *names: str) -> list[dict[str, Any]]:
    """For each span, those of the attributes that it has."""
    return [{n: s.attributes[n] for n in names if n in s.attributes} for s in recording.spans]


@pytest.mark.parametrize("flavour", CALLS)
def test_team_and_the_chosen_baggage_are_on_all_three_kinds(
    record: Callable[..., Recording],
    with_baggage: Callable[[dict[str, Any]], None],
    monkeypatch: pytest.MonkeyPatch,
    flavour: str,
) -> None:
    """`team` always, others by `GUARDSPAN_BAGGAGE_KEYS`, and no entry that nobody has named."""
    monkeypatch.setenv("GUARDSPAN_BAGGAGE_KEYS", "tenant, region")
    with_baggage({"team": "payments", "tenant": "acme", "region": "eu", "user": "ada"})
    recording = record()
    CALLS[flavour]("fine")
    expected = {"team": "payments", "tenant": "acme", "region": "eu"}
    assert copied(recording, "team", "tenant", "region", "user") == [expected] * 3


def test_baggage_is_redacted_and_cut(
    record: Callable[..., Recording], with_baggage: Callable[[dict[str, Any]], None]
) -> None:
    """Baggage comes over the network from anyone: no secret, no length and no character gets through."""
    with_baggage({"team": f"key {SECRET}", "tenant": "x" * 5000, "region": "a\ud800b\x00c"})
    recording = record(baggage_keys=("tenant", "region"))
    guard().validate("fine")
    for attributes in copied(recording, "team", "tenant", "region"):
        assert attributes["team"].startswith("key ")
        assert SECRET not in attributes["team"]
        assert len(attributes["tenant"]) <= 256
        assert attributes["region"].encode()
        assert "\x00" not in attributes["region"]


def test_baggage_writes_over_nothing_of_ours(
    record: Callable[..., Recording], with_baggage: Callable[[dict[str, Any]], None]
) -> None:
    """An entry named like one of our attributes is left out, as is one that is no text."""
    with_baggage({"guardspan.status": "pass", "gen_ai.operation.name": "chat", "error.type": "x", "team": 7})
    recording = record(baggage_keys=("guardspan.status", "gen_ai.operation.name", "error.type"))
    guard().validate("bad")
    call = by_kind(recording.spans, "call")[0].attributes
    assert call["guardspan.status"] == "fail"
    assert call["gen_ai.operation.name"] == "guard"
    assert "team" not in call
    assert "error.type" not in call


# --- metrics of the calls under way --------------------------------------------------------------


def metric(recording: Recording, name: str) -> dict[str, float]:
    """The current value of a metric by guard."""
    data = recording.metrics.get_metrics_data()
    found: dict[str, float] = {}
    for resource in data.resource_metrics if data else []:
        for scope in resource.scope_metrics:
            for measured in scope.metrics:
                if measured.name == name:
                    found |= {
                        point.attributes["guardspan.name"]: point.value for point in measured.data.data_points
                    }
    return found


def active(recording: Recording) -> float | None:
    """How many calls of the guard `g` are under way, None before there was any."""
    return metric(recording, "guardspan.calls.active").get("g")


def oldest(recording: Recording) -> float | None:
    """The age of the oldest call of the guard `g`."""
    return metric(recording, "guardspan.calls.oldest_age").get("g")


@pytest.mark.parametrize("error", [None, ConnectionError("lost"), KeyboardInterrupt()], ids=repr)
def test_a_call_is_active_while_it_runs(recording: Recording, error: BaseException | None) -> None:
    """The gauges go up with a call and down with its end, however it ends."""
    during: list[tuple[float | None, float | None]] = []

    def llm(*args: Any, messages: Any = None, **kwargs: Any) -> str:
        during.append((active(recording), oldest(recording)))
        if error is not None:
            raise error
        return "fine"

    assert active(recording) is None
    try:
        guard()(llm, messages=MESSAGES)
    except (Exception, KeyboardInterrupt):
        assert error is not None
    ((count, age),) = during
    assert count == 1
    assert age is not None
    assert age > 0
    assert (active(recording), oldest(recording)) == (0, 0)


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "never begun"])
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "dropped"])
def test_a_stream_is_active_until_it_is_left(recording: Recording, begun: bool, closed: bool) -> None:
    """A stream that nobody reads on ends when it is closed or dropped, and is not active for ever."""
    stream = guard()(Stream(["one. ", "two. "]).sync, messages=MESSAGES, stream=True)
    if begun:
        next(stream)
    assert active(recording) == 1
    if closed:
        stream.close()
    else:
        del stream
        gc.collect()
    assert (active(recording), oldest(recording)) == (0, 0)


def test_calls_are_counted_by_guard_and_the_oldest_counts(recording: Recording) -> None:
    """Several calls at once add up; the age is that of the one that began first."""
    streams = [guard()(Stream(["x"]).sync, messages=MESSAGES, stream=True) for _ in range(3)]
    other = Guard(name="other")(Stream(["x"]).sync, messages=MESSAGES, stream=True)
    assert metric(recording, "guardspan.calls.active") == {"g": 3, "other": 1}
    before = oldest(recording)
    streams[2].close()
    assert before is not None
    assert (oldest(recording) or 0) > before
    streams[0].close()
    streams[1].close()
    assert metric(recording, "guardspan.calls.active") == {"g": 0, "other": 1}
    other.close()


def test_nothing_is_reported_after_uninstrument(recording: Recording) -> None:
    """Gauges that nobody feeds any more would be read as a healthy silence."""
    guard().validate("fine")
    assert active(recording) == 0
    guardspan.uninstrument()
    assert active(recording) is None


# --- log events ----------------------------------------------------------------------------------


class Events:
    """A logger provider whose records stay in memory."""

    def __init__(self) -> None:
        self.exporter = InMemoryLogRecordExporter()
        self.provider = LoggerProvider()
        self.provider.add_log_record_processor(SimpleLogRecordProcessor(self.exporter))

    @property
    def records(self) -> list[Any]:
        """Every record that was emitted."""
        return [entry.log_record for entry in self.exporter.get_finished_logs()]


@pytest.mark.parametrize("flavour", CALLS)
def test_a_failed_validator_is_one_event_when_asked_for(
    record: Callable[..., Recording], flavour: str
) -> None:
    """In the Iteration's context, with a name and a label, and without a word of content in `shape`."""
    events = Events()
    recording = record(logger_provider=events.provider, evaluation_events=True)
    CALLS[flavour]("fine")
    assert events.records == []
    CALLS[flavour]("something bad. then ")
    (event,) = events.records
    assert event.event_name == "gen_ai.evaluation.result"
    assert dict(event.attributes) == {
        "gen_ai.evaluation.name": "NoBad",
        "gen_ai.evaluation.score.label": "fail",
    }
    assert not event.body
    iteration = by_kind(recording.spans, "iteration")[-1]
    assert (event.trace_id, event.span_id) == (iteration.context.trace_id, iteration.context.span_id)


def test_an_event_explains_itself_only_where_content_is_redacted(record: Callable[..., Recording]) -> None:
    """The validator's own words are content: redacted they may go, and no secret with them."""
    events = Events()
    record(logger_provider=events.provider, evaluation_events=True, content="redacted")
    guard().validate(f"bad {SECRET}")
    (event,) = events.records
    explanation = event.attributes["gen_ai.evaluation.explanation"]
    assert "is bad" in explanation
    assert SECRET not in explanation


def test_there_are_no_events_unless_asked_for(record: Callable[..., Recording]) -> None:
    """A logger provider alone is no wish for events."""
    events = Events()
    record(logger_provider=events.provider)
    guard().validate("bad")
    assert events.records == []


# --- suppression ---------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", CALLS)
def test_a_suppressed_call_has_no_spans_and_no_metrics(recording: Recording, flavour: str) -> None:
    """OpenTelemetry's own way to switch instrumentation off for a while is honoured."""
    with suppress_instrumentation():
        CALLS[flavour]("fine")
    assert recording.spans == []
    assert active(recording) is None
    CALLS[flavour]("fine")
    assert len(recording.spans) == 3


def test_a_guard_within_a_call_can_be_suppressed(recording: Recording) -> None:
    """Only the inner one is left out; the outer one goes on as if it were not there."""

    def llm(*args: Any, messages: Any = None, **kwargs: Any) -> str:
        with suppress_instrumentation():
            return str(Guard(name="inner").validate("fine").validated_output)

    guard()(llm, messages=MESSAGES)
    assert recording.tree().split("\n")[0] == "guard g __call__ x1 [pass] reasks.limit=1"
    assert [span.name for span in recording.spans] == ["validate NoBad", "iteration", "guard g"]


def test_a_stream_that_was_made_suppressed_stays_so(recording: Recording) -> None:
    """Reading it later, outside, does not begin half a Call."""
    with suppress_instrumentation():
        stream = guard()(Stream(["one. ", "two. "]).sync, messages=MESSAGES, stream=True)
    assert "".join(item.validated_output for item in stream) == "one. two. "
    assert recording.spans == []


def test_a_stream_that_is_read_suppressed_ends_all_the_same(recording: Recording) -> None:
    """The Call began before, and its end is part of it."""
    stream = guard()(Stream(["one. ", "two. "]).sync, messages=MESSAGES, stream=True)
    with suppress_instrumentation():
        assert "".join(item.validated_output for item in stream) == "one. two. "
    assert recording.tree().split("\n")[0] == "guard g __call__ x1 [pass] reasks.limit=0"
