"""Nothing planted gets out: in `shape` and `off` no part of any text, in `redacted` no part of a secret.

Hypothesis nests the sentinels; they are put wherever an application, a model or a provider can put something,
by every entry point of both libraries; every channel is searched: what is exported, logged, warned of,
printed, written to files, and shown of those by the commands.
"""

from __future__ import annotations

import base64
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from guardrails import AsyncGuard, Guard
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry._logs import LogRecord
from recording import Recording

import guardspan
from guardspan import safety
from guardspan.guardrails import GuardrailsInstrumentor
from sweep import agent_uses, guard_uses, named_uses
from sweep.channels import Channels
from sweep.searching import leaks
from sweep.sentinels import SECRETS, STRUCTURES, TEXTS, UNDONE_ONLY_IN_SHAPE, Maker, Plant, word, wrapped

MODES = ["shape", "off", "redacted"]
EXAMPLES = settings(
    max_examples=4,  # of each use
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # an example is a whole application: smaller ones tell no more
    suppress_health_check=list(HealthCheck),
)
Use = Callable[[Plant, str], None]


@pytest.fixture(autouse=True)
def _own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our log tells everything, also what it told before."""
    monkeypatch.setattr(safety, "_reported", set())


def plants(mode: str) -> st.SearchStrategy[Plant]:
    """What plants, in a content mode: sentinels, nested a few wrappings deep."""
    names = [*STRUCTURES, *TEXTS, *(UNDONE_ONLY_IN_SHAPE if mode != "redacted" else ())]
    recipe = st.lists(st.sampled_from(names), max_size=4).map(tuple)
    makers = list(SECRETS.values()) if mode == "redacted" else [word]
    return st.builds(Plant, st.just(makers), st.lists(recipe, min_size=6, max_size=12), st.integers(0, 2**32))


class Sweep:
    """Instrumented in one content mode; searches for what was planted after each example, and at the end."""

    def __init__(self, record: Callable[..., Recording], folder: Path, mode: str) -> None:
        self.channels = Channels(record, folder / "spans", content=mode)
        self.mode = mode
        self.planted: list[Any] = []
        self.seen: dict[str, set[Any]] = {}

    def all(self, use: Use, names: Iterable[str]) -> None:
        """Examples of each use."""

        @EXAMPLES
        @given(plants(self.mode))
        def examples(plant: Plant) -> None:
            self.example(use, plant, current)

        for current in names:  # noqa: B007 - the examples' own
            examples()

    def example(self, use: Use, plant: Plant, name: str) -> None:
        """One use, with the application's baggage; nothing that was planted is in what came out."""
        token = otel_context.attach(_baggage(plant))
        try:
            with self.channels.open():
                use(plant, name)
        finally:
            otel_context.detach(token)
        assert leaks(plant.planted, self.channels.exported()) == {}
        self.planted += plant.planted
        for span in self.channels.recording.spans:
            for key, value in (span.attributes or {}).items():
                self.seen.setdefault(key, set()).add(value)

    def end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nor is anything of all examples in what stays on disk, and in what is shown of that."""
        assert leaks(self.planted, self.channels.kept(monkeypatch)) == {}
        assert self.seen["guardspan.status"] == {"pass", "fail", "error", "not run"}
        assert {
            "user.id",
            "session",
            "api_key",
            "gen_ai.response.id",
            "gen_ai.provider.name",
        } <= self.seen.keys()
        assert ("guardspan.input.metadata" in self.seen) == (self.mode != "off")
        assert len(self.planted) > 2_000


def _baggage(plant: Plant) -> Any:
    context = baggage.set_baggage("user.id", plant.name("baggage"))
    context = baggage.set_baggage("session", plant.name("session in baggage"), context)
    context = baggage.set_baggage("api_key", plant.password("key in baggage"), context)
    return baggage.set_baggage("not asked for", plant.text("other baggage"), context)


@pytest.mark.parametrize("mode", MODES)
def test_guards_let_nothing_out(
    record: Callable[..., Recording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Calls, parses, validations, streams, re-asks, failures of every kind, sync and async."""
    sweep = Sweep(record, tmp_path, mode)
    guard_uses.answers_of_litellm(monkeypatch)
    sweep.all(guard_uses.use_guards, guard_uses.USES)
    sweep.end(monkeypatch)
    assert sweep.seen["guardspan.entry"] == {"__call__", "parse", "validate"}
    assert sweep.seen["guardspan.iteration.stage"] == {"initial", "reask", "input"}


@pytest.mark.parametrize("mode", MODES)
def test_agents_let_nothing_out(
    record: Callable[..., Recording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Runs of every kind, tools, outputs, validators, providers' faults, agents and guards within tools."""
    sweep = Sweep(record, tmp_path, mode)
    sweep.all(agent_uses.use_agents, agent_uses.USES)
    sweep.end(monkeypatch)
    runs = {"run", "run_sync", "run_stream", "run_stream_sync", "run_stream_events", "iter"}
    assert sweep.seen["guardspan.entry"] == runs | {"validate"}
    assert ("(unknown)",) in sweep.seen["gen_ai.tool.name"]


# --- names: they show in every mode, and no secret in them does ---------------------------------------


@pytest.mark.parametrize("use", [named_uses.guards, named_uses.agents])
@pytest.mark.parametrize("mode", MODES)
def test_no_secret_in_a_name_gets_out(
    record: Callable[..., Recording],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    use: Callable[[Plant, int], None],
) -> None:
    """Of guards, agents, tools, types, functions, classes, models, ids: also where a long one is cut."""
    channels = Channels(record, tmp_path / "spans", content=mode)
    plant = Plant(list(SECRETS.values()), [()], 11)
    with channels.open():
        for padding in (0, 30, 60, 215, 230, 240, 250, 1000, 1015, 2020, 2040):
            use(plant, padding)
    assert leaks(plant.planted, channels.exported()) == {}
    assert leaks(plant.planted, channels.kept(monkeypatch)) == {}
    assert "[redacted:" in channels.exported()["spans"]


# --- numbers -------------------------------------------------------------------------------------------


@EXAMPLES
@given(
    name=st.sampled_from(["pin", "otp", "cvv", "password", "db_password", "passcode", "totp", "pinCode"]),
    number=st.integers(1_000, 99_999_999),
    floating=st.booleans(),
    recipe=st.lists(st.sampled_from(["dict", "list", "tuple", "model", "dataclass"]), max_size=4).map(tuple),
)
@pytest.mark.parametrize("mode", ["shape", "redacted"])
def test_numbers_under_secret_names_are_not_shown(
    record: Callable[..., Recording], mode: str, name: str, number: int, floating: bool, recipe: Any
) -> None:
    """Neither of a guard's parameters nor of an agent's metadata, however short."""
    recording = record(content=mode)
    planted = wrapped({name: float(number) if floating else number}, recipe)
    named_uses.with_metadata({"planted": planted, "shown": 77})
    texts = [str(s.attributes.get(key)) for s in recording.spans for key in CONTENT if key in s.attributes]
    assert sum('"shown":77' in text for text in texts) == 2
    assert not any(re.search(rf"(?<![0-9a-f]){number}(?![0-9a-f])", text) for text in texts)


CONTENT = ["guardspan.input.metadata", "guardspan.input.prompt_params", "guardspan.input.arguments"]


# --- streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", SECRETS.values(), ids=SECRETS.keys())
def test_a_secret_in_pieces_is_still_one(
    record: Callable[..., Recording], tmp_path: Path, maker: Maker
) -> None:
    """By one or by seven characters; read to the end, left, or broken after some of them."""
    channels = Channels(record, tmp_path / "spans", content="redacted")
    for size, most in ((1, 1_000), (1, 2), (7, 9)):
        plant = Plant([maker], [()], size * most)
        with channels.open():
            named_uses.streams(plant, size, most)
        assert leaks(plant.planted, channels.exported()) == {}


# --- a guard behind a server ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Guard, AsyncGuard])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_server_lets_nothing_out(
    record: Callable[..., Recording],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    kind: type,
    status: int,
) -> None:
    """Whatever a Guardrails server answers: names and ids, outputs, reasons, faults."""
    channels = Channels(record, tmp_path / "spans", content=mode)
    plant = Plant(list(SECRETS.values()) if mode == "redacted" else [word], [("dict",), ("json",), ()], 5)
    with named_uses.server(monkeypatch, plant, status) as running, channels.open():
        named_uses.ask_server(running, kind, plant)
    assert leaks(plant.planted, channels.exported()) == {}
    assert channels.recording.spans


# --- the search itself ---------------------------------------------------------------------------------

PUT: dict[str, Callable[[Channels, Any, str], object]] = {
    "attribute": lambda channels, span, text: span.set_attribute("a", ["x", text]),
    "key of an attribute": lambda channels, span, text: span.set_attribute(text, 1),
    "name": lambda channels, span, text: span.update_name(text),
    "event": lambda channels, span, text: span.add_event("e", {"a": text}),
    "name of an event": lambda channels, span, text: span.add_event(text),
    "link": lambda channels, span, text: span.add_link(span.get_span_context(), {"a": text}),
    "status": lambda channels, span, text: span.set_status(trace.StatusCode.ERROR, text),
    "exception": lambda channels, span, text: span.record_exception(ValueError(text)),
    "scope": lambda channels, span, text: (
        channels.recording.tracer_provider.get_tracer(text).start_span("s").end()
    ),
    "log": lambda channels, span, text: logging.getLogger("guardspan").debug("%s", text),
    "log of OpenTelemetry": lambda channels, span, text: logging.getLogger("opentelemetry.sdk").info(text),
    "warning": lambda channels, span, text: warnings.warn_explicit(text, UserWarning, guardspan.__file__, 1),
    "view": lambda channels, span, text: channels.hook(None, text),
    "label": lambda channels, span, text: _counter(channels, "c").add(1, {"a": text}),
    "output": lambda channels, span, text: sys.stdout.write(text),
    "error output": lambda channels, span, text: sys.stderr.write(text),
    "log event": lambda channels, span, text: _log_event(channels, text),
    "object": lambda channels, span, text: setattr(GuardrailsInstrumentor(), "_swept", text),
}


def _counter(channels: Channels, name: str) -> Any:
    return channels.recording.meter_provider.get_meter("m").create_counter(name)


def _log_event(channels: Channels, text: str) -> None:
    channels.logger_provider.get_logger("l").emit(LogRecord(attributes={"a": text}))


CLOTHES: dict[str, Callable[[str], str]] = {
    "a piece": lambda core: core[7:13],
    "base64": lambda core: base64.b64encode(f"user:{core}".encode()).decode(),
    "hex": lambda core: core.encode().hex(),
    "percent": lambda core: "".join(f"%{ord(c):02X}" for c in core),
    "JSON": lambda core: "".join(f"\\u{ord(c):04x}" for c in core),
    "backwards": lambda core: core[::-1],
}


@pytest.mark.parametrize("clothes", CLOTHES)
def test_the_search_sees_through_clothes(clothes: str) -> None:
    """All above is worth nothing if it could not see: a piece, or the whole in other clothes, is found."""
    plant = Plant([word], [()], 3)
    core = plant.plain("somewhere")
    assert leaks(plant.planted, {"a": f"before {CLOTHES[clothes](core)} after", "b": core[:5]}).keys() == {
        "somewhere -> a"
    }


@pytest.mark.parametrize("channel", PUT)
def test_the_search_sees_every_channel(
    record: Callable[..., Recording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channel: str
) -> None:
    """A piece of a sentinel is found, whatever it comes out by."""
    plant = Plant([word], [()], 3)
    piece = plant.plain("somewhere")[7:13]
    channels = Channels(record, tmp_path / "spans")
    monkeypatch.setattr(GuardrailsInstrumentor(), "_swept", "", raising=False)
    with channels.open():
        span = channels.recording.tracer.start_span("s")
        PUT[channel](channels, span, piece)
        span.end()
    assert leaks(plant.planted, channels.exported()) != {}


def test_the_search_sees_what_is_kept(
    record: Callable[..., Recording], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In files and their names, and in all that the commands show: tables, JSON, page, tree, doctor."""
    plant = Plant([word], [()], 3)
    piece = plant.plain("somewhere")[7:13]
    channels = Channels(record, tmp_path / "spans")
    with channels.open():
        Guard(name="desk").use(guard_uses.Contented()).validate("fine")
    for path in channels.folder.glob("*.jsonl"):
        path.write_text(path.read_text("utf-8").replace('"desk"', f'"{piece}"'), "utf-8")
        path.rename(path.with_name(f"spans-{piece}.jsonl"))
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", piece)
    found = {each.removeprefix("somewhere -> ") for each in leaks(plant.planted, channels.kept(monkeypatch))}
    shown = {"files", "names of files", "page", "tree", "doctor", "doctor --json"}
    tables = {f"report{json} at {width}" for json in ("", " --json") for width in (40, 80, 200)}
    assert found >= shown | tables
