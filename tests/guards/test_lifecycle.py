"""Instrumenting and putting back: nothing of it stays, and no library that does not fit is touched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import guardrails
import pydantic
import pytest
from guardrails import AsyncGuard, Guard, llm_providers, validator_service
from guardrails.run.async_runner import AsyncRunner
from guardrails.run.async_stream_runner import AsyncStreamRunner
from guardrails.run.runner import Runner
from guardrails.run.stream_runner import StreamRunner
from guardrails.settings import settings
from guardrails.telemetry import open_inference
from guardrails.validator_base import Validator
from kit import MESSAGES, NoBad, Script
from opentelemetry import baggage
from opentelemetry import context as otel_context
from opentelemetry.trace import NoOpTracerProvider
from recording import Recording, logged
from spans import by_kind
from spans import everything as exported

import guardspan
from guardspan import telemetry
from guardspan.guardrails import SUPPORTED, GuardrailsInstrumentor
from processes import run_python

pytestmark = pytest.mark.usefixtures("put_back", "fresh_log")

OWNERS: tuple[Any, ...] = (
    *(Guard, AsyncGuard, Runner, AsyncRunner, StreamRunner, AsyncStreamRunner, Validator),
    *(validator_service, llm_providers, open_inference, settings),
)


def everything() -> dict[tuple[str, str], object]:
    """Every attribute of all that is patched."""
    return {(str(owner), name): value for owner in OWNERS for name, value in vars(owner).items()}


def changed(before: dict[tuple[str, str], object]) -> list[str]:
    """Names of the attributes that are not the very objects that they were."""
    now = everything()
    gone = [name for name in before if name not in now]
    return sorted(name for _, name in [*gone, *(key for key in now if now[key] is not before.get(key))])


def instrument() -> None:
    """Instrument without an exporter."""
    guardspan.instrument(tracer_provider=NoOpTracerProvider())


STEPS: dict[str, Callable[[], None]] = {
    "i": instrument,
    "u": guardspan.uninstrument,
    "I": lambda: GuardrailsInstrumentor().instrument(tracer_provider=NoOpTracerProvider()),
    "U": lambda: GuardrailsInstrumentor().uninstrument(),
}


@pytest.mark.parametrize("order", ["iu", "iiu", "uiu", "iuu", "iuiu", "iIu", "IU", "IiUu", "uU"])
def test_every_patched_name_is_the_object_that_it_was(order: str) -> None:
    """In any order and however often, each by the package or its instrumentor: no trace is left."""
    before = everything()
    for step in order:
        STEPS[step]()
        if step in "iI":
            assert {"__call__", "parse", "validate", "_execute", "step", "call"} <= set(changed(before))
        else:
            assert changed(before) == []


def test_a_name_is_wrapped_once_however_often_it_is_instrumented(caplog: pytest.LogCaptureFixture) -> None:
    """Instrumenting twice does not give every span twice, and is no reason to complain."""
    before = vars(Guard)["parse"]
    instrument()
    instrument()
    assert vars(Guard)["parse"].__wrapped__ is before
    guardspan.uninstrument()
    guardspan.uninstrument()
    assert caplog.records == []


def test_a_wrapper_of_somebody_elses_stays_and_goes_without_spans(recording: Recording) -> None:
    """What was wrapped around ours is not torn out; ours in it does nothing any more."""
    ours = vars(Guard)["parse"]
    seen: list[str] = []

    def theirs(guard: Any, output: str, **kwargs: Any) -> Any:
        seen.append(output)
        return ours.__get__(guard, type(guard))(output, **kwargs)

    Guard.parse = theirs
    try:
        guardspan.uninstrument()
        assert vars(Guard)["parse"] is theirs
        assert Guard(name="g").parse("text").validated_output == "text"
    finally:
        Guard.parse = ours.__wrapped__
    assert seen == ["text"]
    assert recording.spans == []


def test_instrumenting_anew_takes_the_new_options(record: Callable[..., Recording]) -> None:
    """The providers and options of the last time count, and nothing goes to those before."""
    first = record(content="off")
    Guard(name="one").validate("text")
    second = record(content="redacted")
    Guard(name="two").validate("text")
    assert [span.name for span in first.spans if span.name.startswith("guard")] == ["guard one"]
    (call,) = [span for span in second.spans if span.name.startswith("guard")]
    assert call.attributes["guardspan.input.llm_output"] == "text"
    assert "guardspan.input.llm_output" not in first.spans[-1].attributes


def test_a_call_under_way_ends_with_uninstrument(recording: Recording) -> None:
    """Its spans end then: Guardrails' writers, which are put back, would fill an open one with text."""
    ended: list[str] = []

    def llm(*args: Any, messages: Any = None, **kwargs: Any) -> str:
        guardspan.uninstrument()
        ended.extend(span.name for span in recording.spans)
        return "sentinel of the answer"

    outcome = Guard(name="g").use(NoBad(on_fail="noop"))(llm, messages=MESSAGES)
    assert outcome.validated_output == "sentinel of the answer"
    assert ended == ["iteration", "guard g"]
    assert [span.attributes["guardspan.status"] for span in recording.spans] == ["not run", "not run"]
    assert "sentinel" not in exported(recording.spans)


# --- Guardrails' own tracing ---------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, False, True])
def test_guardrails_own_tracing_is_off_meanwhile(
    monkeypatch: pytest.MonkeyPatch, before: bool | None
) -> None:
    """Its setting comes back as it was, also when it was none."""
    monkeypatch.setattr(settings, "disable_tracing", before)
    instrument()
    assert settings.disable_tracing
    guardspan.uninstrument()
    assert settings.disable_tracing is before


@pytest.mark.parametrize("meanwhile", [None, False, True])
def test_what_the_application_sets_meanwhile_stays(
    monkeypatch: pytest.MonkeyPatch, meanwhile: bool | None
) -> None:
    """The application's later word counts, also when it says the same as ours."""
    monkeypatch.setattr(settings, "disable_tracing", None)
    instrument()
    settings.disable_tracing = meanwhile
    guardspan.uninstrument()
    assert settings.disable_tracing is meanwhile


def test_guardrails_own_tracing_is_kept_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`GUARDSPAN_GUARDRAILS_TRACING=keep` leaves the setting alone."""
    monkeypatch.setenv("GUARDSPAN_GUARDRAILS_TRACING", "keep")
    before = settings.disable_tracing
    instrument()
    assert settings.disable_tracing is before


# --- a library that does not fit -----------------------------------------------------------------


def pretend(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    """Let guardrails-ai have another version."""
    real = telemetry.distribution_version
    monkeypatch.setattr(
        telemetry, "distribution_version", lambda name: version if name == "guardrails-ai" else real(name)
    )


@pytest.mark.parametrize("version", ["0.4.5", "0.6.7", "0.10.1", "0.12.0", "1.0.0", "unknown", ""])
def test_an_unsupported_version_is_one_line_and_no_patch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    """The line says which version was found and which are supported; the library stays untouched."""
    pretend(monkeypatch, version)
    before = everything()
    recording = Recording()
    assert changed(before) == []
    assert Guard(name="g").validate("text").validation_passed
    assert recording.spans == []
    (line,) = logged(caplog)
    assert version in line
    assert SUPPORTED in line


@pytest.mark.parametrize("version", ["0.6.8", "0.9.3", "0.11.0", "0.11.1rc1", "0.11.0.post1", None])
def test_a_supported_version_is_patched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str | None
) -> None:
    """Also a pre-release, and a copy of the library that has no metadata at all."""
    pretend(monkeypatch, version)
    before = everything()
    instrument()
    assert "parse" in changed(before)
    assert logged(caplog) == []


LAYOUTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a method is missing": lambda patch: patch.delattr(Runner, "validate_messages"),
    "a method is inherited now": lambda patch: patch.delattr(AsyncRunner, "validate_messages"),
    "a module is missing": lambda patch: patch.setitem(
        sys.modules, "guardrails.run.async_stream_runner", None
    ),
    "a class is missing": lambda patch: patch.delattr(
        sys.modules["guardrails.run.async_stream_runner"], "AsyncStreamRunner"
    ),
    "a setting is missing": lambda patch: patch.delattr(sys.modules["guardrails.settings"], "settings"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_library_that_is_laid_out_otherwise_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, layout: str
) -> None:
    """Half a set of patches would be worse than none: one line, nothing patched, and the guard works."""
    LAYOUTS[layout](monkeypatch)
    before = everything()
    recording = Recording()
    assert changed(before) == []
    assert len(logged(caplog)) == 1
    assert "could not instrument Guardrails" in logged(caplog)[0]
    assert Guard(name="g").validate("text").validated_output == "text"
    assert recording.spans == []


def test_after_a_failure_it_can_be_instrumented_again(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording]
) -> None:
    """A failed attempt leaves nothing in the way of the next one."""
    with monkeypatch.context() as broken:
        broken.delattr(Runner, "validate_messages")
        record()
    recording = record()
    Guard(name="g").validate("text")
    assert recording.spans[-1].name == "guard g"


# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"contents": "shape"}, {"content": "raw"}, {"content_limit": 1}, {"prices": 7}, {"baggage_keys": 3}],
    ids=str,
)
def test_a_keyword_that_cannot_be_used_is_told_at_once(options: dict[str, Any]) -> None:
    """Code with a mistake hears of it, nothing is patched, and the next attempt works."""
    before = everything()
    with pytest.raises(pydantic.ValidationError) as told:
        guardspan.instrument(**options)
    assert next(iter(options)) in str(told.value)
    assert changed(before) == []
    instrument()
    assert "parse" in changed(before)


SENTINEL = "sk-not-for-the-log"


@pytest.mark.parametrize(
    "name",
    ["CONTENT", "CONTENT_LIMIT", "EVALUATION_EVENTS", "GENAI_USAGE", "GUARDRAILS_TRACING", "FILE_LIMIT"],
)
def test_a_variable_that_cannot_be_used_is_logged_without_its_value(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: Callable[..., Recording],
    name: str,
) -> None:
    """A typing mistake in the environment does not end a process: its default is used, and a line says so."""
    monkeypatch.setenv(f"GUARDSPAN_{name}", SENTINEL)
    recording = record()
    Guard(name="g").validate("text")
    (line,) = logged(caplog)
    assert f"GUARDSPAN_{name}" in line
    assert SENTINEL not in line
    assert '"chars":4' in recording.spans[-1].attributes["guardspan.input.llm_output"]


def test_a_keyword_wins_over_its_variable(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording]
) -> None:
    """What code says is meant for this process; the environment may be many processes'."""
    monkeypatch.setenv("GUARDSPAN_CONTENT", "redacted")
    recording = record(content="off")
    Guard(name="g").validate("text")
    assert not [name for name in recording.spans[-1].attributes if name.startswith("guardspan.input.")]


# --- faults of our own ---------------------------------------------------------------------------

PARTS = [
    *("evidence.slice_evidence", "evidence.failure_digest", "contract.digest", "lifecycle.emit_evaluations"),
    *("content._plain", "redaction.Redactor.redact", "redaction.Redactor.redact_value"),
    *("pricing.Pricer._resolve", "telemetry.Telemetry._chosen", "lifecycle.CallRecorder._run_hook"),
    *("lifecycle.IterationRecorder._settle", "guardrails.reader.read_iteration"),
    *("guardrails.reader.read_outcome", "guardrails.responses.read_response"),
]


@pytest.mark.parametrize("part", PARTS)
def test_a_fault_of_ours_costs_the_call_nothing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: Callable[..., Recording],
    part: str,
) -> None:
    """The application gets its result, both spans end, the Call has its status, and a line tells the kind."""

    def fault(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError(SENTINEL)

    monkeypatch.setattr(f"guardspan.{part}", fault)
    recording = record(content="redacted", evaluation_events=True)
    with_team = otel_context.attach(baggage.set_baggage("team", "payments"))
    answer = SimpleNamespace(usage={"prompt_tokens": 1, "completion_tokens": 1}, model="gpt-4o", choices=[])
    try:
        with pytest.raises(Exception, match="LLMResponse"):
            Guard(name="g")(Script([answer]).sync, messages=MESSAGES)
        outcome = Guard(name="g").use(NoBad(on_fail="noop"))(Script(["bad"]).sync, messages=MESSAGES)
    finally:
        otel_context.detach(with_team)
    assert (outcome.validated_output, outcome.validation_passed) == ("bad", False)
    first, second = by_kind(recording.spans, "call")
    assert first.attributes["guardspan.status"] == "error"
    assert second.attributes["guardspan.status"] == "fail"
    assert len(by_kind(recording.spans, "iteration")) == 2
    assert any("ZeroDivisionError" in line for line in logged(caplog))
    assert SENTINEL not in caplog.text


# --- the library comes later ---------------------------------------------------------------------

LATER = """
import sys
from recording import Recording
import guardspan

stale = Recording()
guardspan.uninstrument()
recording = Recording(content="redacted")
assert "guardrails" not in sys.modules

from guardrails import Guard
own = vars(Guard)["parse"].__wrapped__
Guard(name="g").validate("text")
assert stale.spans == []
assert recording.spans[-1].attributes["guardspan.input.llm_output"] == "text"
print(recording.tree())
guardspan.uninstrument()
assert vars(Guard)["parse"] is own
"""

NEVER_WANTED = """
import sys
import guardspan
from recording import Recording

recording = Recording()
guardspan.uninstrument()
assert not {"guardrails", "litellm", "pydantic_ai"} & set(sys.modules)

import guardrails, types
from guardrails.run.runner import Runner
assert type(vars(guardrails.Guard)["parse"]) is types.FunctionType
assert type(vars(Runner)["step"]) is types.FunctionType
assert guardrails.settings.disable_tracing is None
assert guardrails.Guard(name="g").validate("text").validated_output == "text"
print(len(recording.spans))
"""


def test_a_library_that_is_imported_later_is_patched_then(tmp_path: Path) -> None:
    """By the options of the last `instrument()`; the hook of an earlier one does nothing."""
    assert run_python(LATER, tmp_path).stdout.split("\n")[0] == ("guard g validate x1 [pass] reasks.limit=0")


def test_a_library_that_is_imported_after_uninstrument_is_left_alone(tmp_path: Path) -> None:
    """An import hook cannot be taken back, so it has to do nothing."""
    assert run_python(NEVER_WANTED, tmp_path).stdout == "0\n"


def test_a_guard_that_existed_before_is_followed_too(record: Callable[..., Recording]) -> None:
    """Classes are patched and not instances: guards made at import time are no exception."""
    guard = guardrails.Guard(name="early")
    recording = record()
    guard(Script(["fine"]).sync, messages=MESSAGES)
    assert recording.spans[-1].name == "guard early"


def test_a_further_instrument_with_options_replaces_those_of_before(
    record: Callable[..., Recording],
) -> None:
    """Also under `opentelemetry-instrument`, which has instrumented without any; without options, no."""
    recording = record()
    seen: list[Any] = []
    guardspan.instrument()
    guardspan.instrument(
        tracer_provider=recording.tracer_provider,
        content="off",
        call_hook=lambda span, call: seen.append(call.status),
    )
    Guard(name="g").validate("fine")
    (call,) = [span for span in recording.spans if span.name == "guard g"]
    assert seen == ["pass"]
    assert not [name for name in call.attributes or {} if name.startswith("guardspan.input.")]


@pytest.mark.parametrize("options", [{"call_hook": "no function"}, {"content": "raw"}, {"contnt": "off"}])
def test_a_bad_option_changes_nothing(record: Callable[..., Recording], options: dict[str, Any]) -> None:
    """It raises, and what was in force stays."""
    recording = record()
    with pytest.raises((TypeError, ValueError)):
        guardspan.instrument(**options)
    Guard(name="g").validate("fine")
    assert [span.name for span in recording.spans if span.name == "guard g"] == ["guard g"]
