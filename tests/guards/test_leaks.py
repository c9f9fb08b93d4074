"""No content gets out: in `shape` and `off` none at all, in `redacted` no secret, by whatever channel.

A text is planted in every place that an application can put one; what is exported (spans as OTLP, metrics,
log events, hooks' views, our log, our warnings) is searched for it and for any part of it.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import random
import ssl
import string
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import litellm
import pydantic
import pytest
from application import App, driven, one_ssl_context, put_away
from guardrails import Guard, Validator, register_validator
from guardrails.settings import settings
from guardrails.validator_base import FailResult
from kit import NeedsTenant, NoBad, Raises, Unfixable
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from recording import Recording
from spans import by_kind, everything

import guardspan
from guardspan import safety

LETTERS = string.ascii_letters + string.digits
PART = 12
"""So many characters of a planted text in a row are as good as the whole."""


# --- planting and searching ------------------------------------------------------------------------


class Planted:
    """Texts by the place they were planted in, and the part of each that must not be found."""

    def __init__(self, makers: list[Callable[[random.Random], tuple[str, str]]]) -> None:
        self._random = random.Random(4711)
        self._makers = makers
        self.bodies: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        """A text for a place where nothing but itself tells what it is."""
        text, self.bodies[place] = self._makers[len(self.bodies) % len(self._makers)](self._random)
        return text

    def named(self, place: str) -> str:
        """A text for a place whose name says that it is a secret: it looks like nothing."""
        self.bodies[place] = _some(self._random, 32)
        return self.bodies[place]

    def found_in(self, exported: str, part: int = PART) -> list[str]:
        """The places whose text got out, or a part of it."""
        return [
            place
            for place, body in self.bodies.items()
            if any(body[start : start + part] in exported for start in range(len(body) - part + 1))
        ]


def _some(source: random.Random, length: int, alphabet: str = LETTERS) -> str:
    return "".join(source.choices(alphabet, k=length))


def _word(source: random.Random) -> tuple[str, str]:
    word = "Zq7" + _some(source, 21)
    return word, word


def _prefixed(
    prefix: str, length: int, alphabet: str = LETTERS
) -> Callable[[random.Random], tuple[str, str]]:
    def make(source: random.Random) -> tuple[str, str]:
        body = _some(source, length, alphabet)
        return prefix + body, body

    return make


def _jwt(source: random.Random) -> tuple[str, str]:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": _some(source, 12), "name": _some(source, 12)}]
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    signature = _some(source, 43)
    return f"{head}.{body}.{signature}", body + signature


def _pem(source: random.Random) -> tuple[str, str]:
    lines = [_some(source, 64) for _ in range(4)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"]), lines[2]


def _url(source: random.Random) -> tuple[str, str]:
    password = _some(source, 20)
    return f"postgres://service:{password}@db.example.com/orders", password


def _header(scheme: str) -> Callable[[random.Random], tuple[str, str]]:
    def make(source: random.Random) -> tuple[str, str]:
        token = base64.b64encode(_some(source, 30).encode()).decode()
        return f"Authorization: {scheme} {token}", token

    return make


SECRETS = [
    _prefixed("sk-proj-", 48),
    _prefixed("sk-ant-api03-", 80),
    _prefixed("ghp_", 36),
    _prefixed("AKIA", 16, string.ascii_uppercase + "234567"),
    _prefixed("AIza", 35),
    _jwt,
    _pem,
    _url,
    _header("Bearer"),
    _header("Basic"),
]


class Channels:
    """Every channel that guardspan could let something out by."""

    def __init__(self, record: Callable[..., Recording], **options: Any) -> None:
        self.views: list[str] = []
        self.logs = InMemoryLogRecordExporter()
        provider = LoggerProvider()
        provider.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        self.recording = record(
            logger_provider=provider,
            evaluation_events=True,
            call_hook=self.hook,
            iteration_hook=self.hook,
            **options,
        )

    def hook(self, span: Any, view: Any) -> None:
        self.views.append(repr(view))

    def exported(self, caplog: pytest.LogCaptureFixture, caught: list[warnings.WarningMessage]) -> str:
        spans = self.recording.spans
        own = str(Path(guardspan.__file__).parent)
        metrics = self.recording.metrics.get_metrics_data()
        return "\n".join(
            [
                everything(spans),
                str(encode_spans(spans)),
                metrics.to_json() if metrics else "",
                *(log.to_json() for log in self.logs.get_finished_logs()),
                *self.views,
                *(logging.Formatter().format(r) for r in caplog.records if r.name.startswith("guardspan")),
                *(str(w.message) for w in caught if w.filename.startswith(own)),
            ]
        )


# --- an application that puts a text everywhere ----------------------------------------------------


class Shy(pydantic.BaseModel):
    """Cannot be looked into; says why."""

    words: str

    def __iter__(self) -> Any:
        raise RuntimeError(self.words)


class Refused(Exception):
    """An exception with more to it than a message."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.body = args[-1]
        self.add_note(str(args[-1]))


class Order(pydantic.BaseModel):
    item: str
    tags: list[str] = []


@register_validator("tests/talkative", data_type="string")
class Talkative(Validator):
    """Puts a text into every field of a failed result."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        with metadata["app"].tracer.start_as_current_span("in the validator"):
            plant = metadata["plant"]
            return FailResult(
                error_message=f"{value!r} has {plant('error message')}",
                fix_value=plant("fix value"),
                metadata={plant("result metadata key"): plant("result metadata")},
            )


class Use:
    """One use of everything."""

    def __init__(self, app: App, plant: Planted) -> None:
        self.app = app
        self.plant = plant

    def arguments(self, prefix: str) -> dict[str, Any]:
        plant = self.plant
        return {
            "messages": [
                {"role": "system", "content": plant(f"{prefix} system message")},
                {
                    "role": "user",
                    "content": "say ${word} with " + plant(f"{prefix} message"),
                    "name": plant(f"{prefix} message name"),
                    plant(f"{prefix} message key"): plant(f"{prefix} under a message key"),
                },
            ],
            "prompt_params": {
                "word": plant(f"{prefix} parameter"),
                "more": [plant(f"{prefix} deep parameter")],
            },
            "metadata": {
                "app": self.app,
                "plant": plant,
                plant(f"{prefix} metadata key"): plant(f"{prefix} metadata"),
                "deep": {
                    "password": plant.named(f"{prefix} password"),
                    "list": ({"x": plant(f"{prefix} deep")},),
                },
                "hidden": pydantic.SecretStr(plant(f"{prefix} hidden")),
            },
            "api_key": plant.named(f"{prefix} api_key"),
            "base_url": f"https://service:{plant.named(f'{prefix} url password')}@llm.example.com/v1",
            "extra_headers": {
                "Authorization": f"Bearer {plant.named(f'{prefix} authorization')}",
                "X-Api-Key": plant.named(f"{prefix} x-api-key"),
                "X-Trace": plant(f"{prefix} header"),
            },
            "user": plant(f"{prefix} user"),
            "functions": [{"name": "look_up", "description": plant(f"{prefix} function")}],
        }

    def guard(self, validator: type, action: Any, **kwargs: Any) -> Any:
        made = self.app.kind(name="g", description=self.plant("description"))
        return made.use(validator(on_fail=action, hint=self.plant("validator argument")), **kwargs)

    async def calls(self) -> None:
        """What a call can come to."""
        bad = f"bad {self.plant('answer')}"
        for validator, action in (
            (Talkative, "fix"),
            (Talkative, "reask"),
            (Talkative, "exception"),
            (Unfixable, "noop"),
            (NoBad, lambda value, result: self.plant("custom action")),
            (Raises, "noop"),
            (NeedsTenant, "noop"),
        ):
            guard = self.guard(validator, action)
            await self.attempt(guard, "__call__", self.app.llm(bad), **self.arguments("call"))
            await self.attempt(guard, "parse", bad, metadata=self.arguments("parse")["metadata"])
            await self.attempt(guard, "validate", bad, **self.arguments("validate"))
        shy = Shy(words=self.plant("shy"))
        await self.attempt(
            guard, "validate", bad, metadata={"tenant": shy}, prompt_params={"x": self.refused()}
        )

    async def failures(self) -> None:
        """What can go wrong."""
        for answer in (
            self.refused(),
            KeyError(self.plant("KeyError")),
            {"a": self.plant("no text")},
            None,
            "",
        ):
            guard = self.guard(NoBad, "noop")
            await self.attempt(guard, "__call__", self.app.llm(answer), **self.arguments("failing call"))
        await self.attempt(
            self.guard(NoBad, "noop"), "__call__", lambda messages: "", **self.arguments("no keywords")
        )
        await self.attempt(self.guard(NoBad, "noop"), "__call__", None, **self.arguments("no LLM"))
        await self.attempt(self.guard(NoBad, "noop"), "parse", None, **self.arguments("no output"))
        blocked = self.guard(Talkative, "exception", on="messages")
        await self.attempt(blocked, "__call__", self.app.llm("fine"), **self.arguments("blocked"))

    def refused(self) -> BaseException:
        error = Refused(self.plant("exception"), {"body": self.plant("exception's argument")})
        error.__cause__ = ValueError(self.plant("cause"))
        return error

    async def structured(self) -> None:
        """Answers that are to be JSON."""
        plant = self.plant
        guard = self.app.kind.for_pydantic(Order, name="g")
        for answers in (
            [json.dumps({"item": plant("field"), "tags": [plant("list item")]})],
            [json.dumps({plant("foreign field"): plant("under a foreign field")})],
            [f"prose, {plant('prose')}"],
            [json.dumps({"item": "x", "tags": {plant("wrong shape"): 1}}), "{" + plant("broken")],
        ):
            await self.attempt(guard, "__call__", self.app.llm(*answers), **self.arguments("structured"))

    async def streams(self) -> None:
        """Streams of all ends."""
        plant = self.plant
        for number, action in enumerate(("noop", "fix", "exception")):
            whole = plant(f"chunk {number}")
            chunks = ["one. ", f"bad {whole[:9]}", f"{whole[9:]}. ", "bad. ", "end."]
            for most in (0, 1, 1_000):
                await self.stream(self.guard(NoBad, action), chunks, most)
            await self.stream(self.guard(Talkative, action), chunks, 1_000)
        await self.stream(self.guard(NoBad, "noop"), ["one. ", self.refused()], 1_000)
        await self.stream(self.guard(NoBad, "noop"), ["one. ", {plant("no chunk"): 1}], 1_000)
        await self.stream(self.guard(Talkative, "exception", on="messages"), ["one. "], 1_000)

    async def stream(self, guard: Any, chunks: list[Any], most: int) -> None:
        async def read() -> None:
            llm = self.app.llm(self.app.source(*chunks))
            arguments = self.arguments("stream")
            stream = await self.app.enter(guard, "__call__", llm, stream=True, **arguments)
            await self.app.read(stream, most)

        await self.app.attempt(read())

    async def litellm(self) -> None:
        """An answer that LiteLLM gives, with all that it carries."""
        for _ in range(2):
            await self.attempt(
                self.guard(NoBad, "reask"), "__call__", model="gpt-4o-mini", **self.arguments("litellm")
            )

    async def attempt(self, guard: Any, entry: str, *args: Any, **kwargs: Any) -> None:
        await self.app.attempt(self.app.enter(guard, entry, *args, **kwargs))

    async def everything(self) -> None:
        """All of it, within a span of the application's and with its baggage."""
        token = otel_context.attach(baggage.set_baggage("user.id", self.plant("baggage")))
        with self.app.tracer.start_as_current_span(
            "application", record_exception=False, set_status_on_exception=False
        ) as self.app.span:
            for part in (self.calls, self.failures, self.structured, self.streams, self.litellm):
                await part()
        otel_context.detach(token)


def litellm_answers(monkeypatch: pytest.MonkeyPatch, text: Callable[[], str]) -> None:
    """LiteLLM answers `text()`, and carries as much again in fields of its own."""

    def completion(*args: Any, **kwargs: Any) -> Any:
        message = SimpleNamespace(content=f"bad {text()}", role="assistant", reasoning_content=text())
        return SimpleNamespace(
            id="chatcmpl-1",
            model="gpt-4o-mini-2024-07-18",
            choices=[SimpleNamespace(message=message, finish_reason="stop", logprobs=text())],
            usage=SimpleNamespace(prompt_tokens=30, completion_tokens=7),
            system_fingerprint=text(),
            _hidden_params={"custom_llm_provider": "openai", "api_base": text(), "headers": {"x": text()}},
        )

    async def acompletion(*args: Any, **kwargs: Any) -> Any:
        return completion(*args, **kwargs)

    monkeypatch.setattr(litellm, "completion", completion)
    monkeypatch.setattr(litellm, "acompletion", acompletion)


def run(flavour: str, plant: Planted, recording: Recording) -> None:
    """Use everything once."""
    app = App(flavour)
    app.tracer = recording.tracer
    drive(flavour, Use(app, plant).everything())


def drive(flavour: str, use: Any) -> None:
    """Run a use of guards, and let go of what it left."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    driven(use) if flavour == "sync" else loop.run_until_complete(use)
    gc.collect(0)
    put_away(loop)


@pytest.fixture(autouse=True)
def own_records(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Certificates are read once; our log tells everything, also what it told before."""
    monkeypatch.setattr(ssl, "create_default_context", one_ssl_context)
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
    plant = Planted(SECRETS if content == "redacted" else [_word])
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
    plant = Planted([_word])
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


@pytest.mark.parametrize("maker", SECRETS, ids=lambda maker: maker.__qualname__)
def test_secrets_where_a_text_is_cut_are_not_cut_in_two(record: Callable[..., Recording], maker: Any) -> None:
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
    """Its writers put prompt, answer and keys onto the current span, which may be ours or the application's."""
    plant = Planted([_word])
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


@pytest.mark.parametrize("method", ["read", "leave", "close", "throw", "never begin"])
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
    litellm_answers(monkeypatch, lambda: text)
    recording = record(content=content, evaluation_events=True)
    app = App(flavour)

    async def use() -> None:
        messages = [{"role": "user", "content": text}, {"role": text[:100], "content": "x", text[:100]: text}]
        arguments = {"metadata": {text[:50]: text}, "api_key": text, "messages": messages, "user": [text]}
        guard = app.kind(name=f"g {text[:200]}").use(Unfixable(on_fail="noop"))
        await app.attempt(app.enter(guard, "__call__", model="gpt-4o-mini", **arguments))
        await app.attempt(app.enter(guard, "__call__", app.llm(RuntimeError(text)), model=text, **arguments))
        await app.attempt(app.enter(guard, "parse", text, metadata={"x": text}))
        await app.attempt(app.read_stream(app.kind(name="s"), text, "", text[:1000]))

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
