"""Texts, planted in every place that an application can put one, and searched for in what gets out."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import random
import string
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import litellm
import pydantic
import pytest
from application import App, driven, put_away
from guardrails import Validator, register_validator
from guardrails.validator_base import FailResult
from kit import NeedsTenant, NoBad, Raises, Unfixable
from opentelemetry import baggage
from opentelemetry import context as otel_context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from recording import Recording
from spans import everything

import guardspan

LETTERS = string.ascii_letters + string.digits
PART = 12
"""So many characters of a planted text in a row are as good as the whole."""


# --- planting and searching ------------------------------------------------------------------------


Maker = Callable[[random.Random], tuple[str, str]]
"""Makes a text, and the part of it that must not be found."""


class Planted:
    """Texts by the place they were planted in, and the part of each that must not be found."""

    def __init__(self, makers: list[Maker]) -> None:
        self._random = random.Random(4711)
        self._makers = makers
        self.bodies: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        """A text for a place where nothing but itself tells what it is."""
        text, body = self._makers[len(self.bodies) % len(self._makers)](self._random)
        self._keep(place, body)
        return text

    def named(self, place: str) -> str:
        """A text for a place whose name says that it is a secret: it looks like nothing."""
        body = _some(self._random, 32)
        self._keep(place, body)
        return body

    def _keep(self, place: str, body: str) -> None:
        """Every text counts, also where several are planted in one place."""
        known = sum(name == place or name.startswith(f"{place} #") for name in self.bodies)
        self.bodies[f"{place} #{known + 1}" if known else place] = body

    def found_in(self, exported: str, part: int = PART) -> list[str]:
        """The places whose text got out, or a part of it."""
        parts = _parts(exported, part)
        return [place for place, body in self.bodies.items() if not parts.isdisjoint(_parts(body, part))]


def _parts(text: str, length: int) -> set[str]:
    return {text[start : start + length] for start in range(len(text) - length + 1)}


def _some(source: random.Random, length: int, alphabet: str = LETTERS) -> str:
    return "".join(source.choices(alphabet, k=length))


def word(source: random.Random) -> tuple[str, str]:
    word = "Zq7" + _some(source, 21)
    return word, word


def _prefixed(prefix: str, length: int, alphabet: str = LETTERS) -> Maker:
    def make(source: random.Random) -> tuple[str, str]:
        body = _some(source, length, alphabet)
        return prefix + body, body

    make.__name__ = prefix
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


def _bearer(source: random.Random) -> tuple[str, str]:
    token = _some(source, 40)
    return f"Authorization: Bearer {token}", token


def _basic(source: random.Random) -> tuple[str, str]:
    token = base64.b64encode(f"service:{_some(source, 22)}".encode()).decode()
    return f"Authorization: Basic {token}", token[12:]


SECRETS: list[Maker] = [
    _prefixed("sk-proj-", 48),
    _prefixed("sk-ant-api03-", 80),
    _prefixed("ghp_", 36),
    _prefixed("AKIA", 16, string.ascii_uppercase + "234567"),
    _prefixed("AIza", 35),
    _jwt,
    _pem,
    _url,
    _bearer,
    _basic,
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
        self.__notes__ = [str(args[-1])]  # what `add_note` makes, from Python 3.11 on


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


def litellm_answers(
    monkeypatch: pytest.MonkeyPatch, text: Callable[[], str], identity: str = "chatcmpl-1"
) -> None:
    """LiteLLM answers `text()`, and carries as much again in fields of its own."""

    def completion(*args: Any, **kwargs: Any) -> Any:
        message = SimpleNamespace(content=f"bad {text()}", role="assistant", reasoning_content=text())
        return SimpleNamespace(
            id=identity,
            model="gpt-4o-mini-2024-07-18",
            choices=[SimpleNamespace(message=message, finish_reason=identity, logprobs=text())],
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
