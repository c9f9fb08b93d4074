"""No content gets out: in `shape` and `off` none at all, in `redacted` no secret, by whatever channel.

A text is planted in every place that an application can put one; what is exported (spans as OTLP, metrics,
log events, hooks' views, our log, our warnings) is searched for it and for any part of it.
"""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Callable

import pytest
from application import App
from guardrails import Guard
from guardrails.settings import settings
from kit import NoBad, Unfixable
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from planting import SECRETS, Channels, Maker, Planted, drive, litellm_answers, run, word
from recording import Recording
from spans import by_kind, everything

import guardspan
from guardspan import safety


@pytest.fixture(autouse=True)
def own_records(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Our log tells everything, also what it told before."""
    monkeypatch.setattr(safety, "_reported", set())
    caplog.set_level(logging.DEBUG, logger="guardspan")


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("content", ["shape", "off", "redacted"])
def test_no_content_gets_out(
    monkeypatch: pytest.MonkeyPatch,
    record: Callable[..., Recording],
    caplog: pytest.LogCaptureFixture,
    flavour: str,
    content: str,
) -> None:
    """In `shape` and `off` nothing of any text; in `redacted` nothing of a secret."""
    plant = Planted(SECRETS if content == "redacted" else [word])
    channels = Channels(record, content=content)
    litellm_answers(monkeypatch, lambda: plant("litellm"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(flavour, plant, channels.recording)
    assert plant.found_in(channels.exported(caplog, caught)) == []
    statuses = {span.attributes["guardspan.status"] for span in by_kind(channels.recording.spans, "call")}
    assert statuses == {"pass", "fail", "error", "not run"}
    assert len(plant.bodies) > 100
    assert channels.logs.get_finished_logs()
    assert channels.views


@pytest.mark.parametrize(
    "channel", ["attribute", "name", "event", "status", "log", "warning", "hook", "metric"]
)
def test_the_search_finds_what_is_there(
    record: Callable[..., Recording], caplog: pytest.LogCaptureFixture, channel: str
) -> None:
    """The test above is worth nothing if it could not see: half a text, in any channel, is found."""
    plant = Planted([word])
    half = plant("somewhere")[6:-3]
    channels = Channels(record)
    recording = channels.recording
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        span = recording.tracer.start_span(half if channel == "name" else "s")
        {
            "attribute": lambda: span.set_attribute("a", ["x", half]),
            "name": lambda: None,
            "event": lambda: span.add_event("e", {"a": half}),
            "status": lambda: span.set_status(trace.StatusCode.ERROR, half),
            "log": lambda: logging.getLogger("guardspan").debug("%s", half),
            "warning": lambda: warnings.warn_explicit(half, UserWarning, guardspan.__file__, 1),
            "hook": lambda: channels.hook(None, half),
            "metric": lambda: recording.meter_provider.get_meter("m").create_counter("c").add(1, {"a": half}),
        }[channel]()
        span.end()
    assert plant.found_in(channels.exported(caplog, caught)) == ["somewhere"]


@pytest.mark.parametrize("maker", SECRETS, ids=lambda maker: maker.__name__)
def test_secrets_where_a_text_is_cut_are_not_cut_in_two(
    record: Callable[..., Recording], maker: Maker
) -> None:
    """Of a text that holds nothing but secrets, longer than is looked at, no end of a secret is left over."""
    guard = Guard(name="g").use(NoBad(on_fail="noop"))
    recording = record(content="redacted", content_limit=2000)
    plant = Planted([maker])
    for shift in range(0, 60, 5):
        guard.validate("x" * shift + " " + " ".join(plant(f"{shift} {n}") for n in range(120)))
    assert plant.found_in(everything(recording.spans), part=9) == []


# --- Guardrails' own writers -----------------------------------------------------------------------


@pytest.mark.parametrize("tracing", ["switched off by the application", "kept"])
def test_guardrails_writes_on_no_span_but_its_own(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, tracing: str
) -> None:
    """Its writers put prompt, answer and keys onto whatever span is current: ours, or the application's."""
    plant = Planted([word])
    litellm_answers(monkeypatch, lambda: plant("litellm"))
    if tracing == "kept":
        recording = record(guardrails_tracing="keep")
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", recording.tracer_provider)
    else:
        monkeypatch.setattr(settings, "disable_tracing", True)
        recording = record()
    run(flavour, plant, recording)
    own = [s for s in recording.spans if (s.instrumentation_scope.name or "").startswith("guardrails")]
    others = [s for s in recording.spans if s not in own]
    assert plant.found_in(everything(others)) == []
    assert {"application", "in the validator", "in the llm", "iteration"} <= {span.name for span in others}
    assert bool(plant.found_in(everything(own))) == (tracing == "kept")


LEAVING = [
    (each, method) for each in ("sync", "async") for method in ("read", "leave", "close", "never begin")
]


# An async stream that is thrown into leaves generators of Guardrails' own to the garbage collector.
@pytest.mark.parametrize(("flavour", "method"), [*LEAVING, ("sync", "throw")])
def test_kept_tracing_leaves_the_consumers_span_alone(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, method: str
) -> None:
    """Guardrails' streams hold a span current between two chunks; with guardspan the consumer's stays so."""
    recording = record(guardrails_tracing="keep")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", recording.tracer_provider)
    app = App(flavour)

    async def use() -> None:
        with recording.tracer.start_as_current_span("application") as app.span:
            stream = await app.stream("one. ", "two. ", "three. ")
            await app.read(stream, {"read": 9, "leave": 1, "never begin": 0}.get(method, 2))
            if method in ("close", "throw"):
                await app.attempt(app.step(stream, method, *([ValueError("x")] if method == "throw" else [])))
            del stream
            gc.collect(0)
            app.note_current_span("afterwards")

    drive(flavour, use())
    assert [event for event in app.log if "another's span" in event] == []
    assert ("afterwards", "own span") in app.log


# --- texts that break things -----------------------------------------------------------------------

HOSTILE = {
    "NUL": "a\x00b",
    "lone surrogates": "a\ud800b\udfff",
    "controls and bidi": "a\x1b[2Jb\u202ec\u2028",
    "astral": "\U0001f600" * 5_000,
    "5 MB": "bad word " * 600_000,
    "5 MB without a space": "b" * 5_000_000,
    "deep JSON": "[" * 5_000,
}


@pytest.mark.parametrize("content", ["shape", "redacted"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_that_breaks_things_breaks_no_export(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, name: str, content: str
) -> None:
    """The spans are encoded whole, within the limits, with identity, status and tokens."""
    text = HOSTILE[name]
    litellm_answers(monkeypatch, lambda: text, identity=text)
    recording = record(content=content, evaluation_events=True)
    error = type("Error", (RuntimeError,), {"__qualname__": text[:9_000]})(text)
    app = App(flavour)

    async def use() -> None:
        messages = [{"role": "user", "content": text}, {"role": text[:100], "content": "x", text[:100]: text}]
        arguments = {"metadata": {text[:50]: text}, "api_key": text, "messages": messages, "user": [text]}
        guard = app.kind(name=f"g {text[:200]}").use(Unfixable(on_fail="noop"))
        await app.attempt(app.enter(guard, "__call__", model="gpt-4o-mini", **arguments))
        await app.attempt(app.enter(guard, "__call__", app.llm(error), model=text, **arguments))
        await app.attempt(app.enter(guard, "parse", text, metadata={"x": text}))
        await app.attempt(app.read_stream(app.kind(name="s"), text, "", text[:1000], error))

    drive(flavour, use())
    assert_exported_whole(recording, 4)


@pytest.mark.parametrize("content", ["shape", "redacted"])
def test_a_long_conversation_hides_nothing_else(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], flavour: str, content: str
) -> None:
    """300 messages, 300 parameters and as much metadata hide neither identity nor status nor tokens."""
    litellm_answers(monkeypatch, lambda: "fine")
    recording = record(content=content)
    app = App(flavour)
    roles = ("user", "assistant")
    many = {f"key{n}": f"value {n}" for n in range(300)}
    arguments = {
        "messages": [{"role": roles[n % 2], "content": f"message {n} of many"} for n in range(300)],
        "prompt_params": many,
        "metadata": many,
        "tools": [{"type": "function", "function": many}] * 20,
    }
    guard = app.kind(name="g").use(NoBad(on_fail="reask"))
    drive(flavour, app.enter(guard, "__call__", model="gpt-4o-mini", num_reasks=9, **arguments))
    assert_exported_whole(recording, 1)


def assert_exported_whole(recording: Recording, calls: int) -> None:
    """Every span as the collector would get it, and the first call's tokens."""
    spans = recording.spans
    encoded = [s for r in encode_spans(spans).resource_spans for scope in r.scope_spans for s in scope.spans]
    assert len(encoded) == len(spans)
    for sent, span in zip(encoded, spans, strict=True):
        assert [a.key for a in sent.attributes] == list(span.attributes)
        assert len(sent.attributes) < 64
        assert len(sent.name) <= 80
        assert all(len(str(value)) <= 4096 for value in span.attributes.values())
        assert not {"\x00", "\ud800"} & set(repr(dict(span.attributes)) + span.name)
        assert {"guardspan.kind", "guardspan.name", "gen_ai.operation.name"} <= set(span.attributes)
    found = by_kind(spans, "call")
    assert len(found) == calls
    assert all({"guardspan.status", "guardspan.call.id"} <= set(s.attributes) for s in found)
    assert all("guardspan.status" in s.attributes for s in by_kind(spans, "iteration"))
    iterations = found[0].attributes["guardspan.iterations"]
    assert found[0].attributes["guardspan.usage.input_tokens"] == 30 * iterations
    assert found[0].attributes["guardspan.usage.output_tokens"] == 7 * iterations
    assert found[0].attributes["guardspan.cost.usd"] > 0
