"""Instrumenting agents and putting back, settings, hooks, metrics, ids and contract digests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pydantic
import pydantic_ai
import pydantic_ai.capabilities
import pytest
from agent_kit import WAYS, Script, call, desk, run, run_sync
from opentelemetry import baggage
from opentelemetry import context as otel_context
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import NoOpTracerProvider
from pydantic_ai import Agent, ModelRetry
from recording import Recording, logged
from spans import by_kind, everything

import guardspan
from guardspan import telemetry
from guardspan.pydantic_ai import SUPPORTED, PydanticAIInstrumentor
from processes import run_python

pytestmark = pytest.mark.usefixtures("put_back", "fresh_log")


def the_call(recording: Recording) -> dict[str, Any]:
    """The attributes of the one Call."""
    (span,) = by_kind(recording.spans, "call")
    return dict(span.attributes or {})


# --- instrumenting and putting back ----------------------------------------------------------------------

STEPS: dict[str, Callable[[], None]] = {
    "i": lambda: guardspan.instrument(tracer_provider=NoOpTracerProvider()),
    "u": guardspan.uninstrument,
    "I": lambda: PydanticAIInstrumentor().instrument(tracer_provider=NoOpTracerProvider()),
    "U": lambda: PydanticAIInstrumentor().uninstrument(),
}


@pytest.mark.parametrize("order", ["iu", "iiu", "uiu", "iuu", "iuiu", "iIu", "IU", "IiUu", "uU"])
def test_iter_is_the_very_object_that_it_was(order: str) -> None:
    """In any order and however often, each by the package or its instrumentor: no trace is left."""
    before, others = Agent.iter, dict(vars(Agent))
    for step in order:
        STEPS[step]()
        if step in "iI":
            assert Agent.iter is not before
            assert vars(Agent)["iter"].__wrapped__ is before
            assert {name for name in others if vars(Agent)[name] is not others[name]} == {"iter"}
        else:
            assert Agent.iter is before
            assert dict(vars(Agent)) == others


async def test_instrumented_twice_a_run_is_one_call(recording: Recording) -> None:
    """A second time, without options, changes nothing; with some, they replace those of before."""
    seen: list[str] = []
    guardspan.instrument()
    await run(desk(Script("fine")))
    assert len(by_kind(recording.spans, "call")) == 1
    guardspan.instrument(
        tracer_provider=recording.tracer_provider, call_hook=lambda span, view: seen.append(view.status)
    )
    await run(desk(Script("fine")))
    assert len(by_kind(recording.spans, "call")) == 2
    assert seen == ["pass"]


@pytest.mark.parametrize("way", WAYS)
async def test_uninstrument_while_a_run_is_under_way(recording: Recording, way: str) -> None:
    """Its spans end then, the run goes on unwatched, and what is told afterwards goes nowhere."""
    agent, ended = desk(Script(call("stop"), "sentinel of the answer")), []

    @agent.tool_plain
    async def stop() -> str:
        guardspan.uninstrument()
        ended.extend(span.name for span in recording.spans)
        return "sentinel of the tool"

    assert (await WAYS[way](agent)).strip() == "sentinel of the answer"
    assert ended == ["iteration", "agent desk"]
    assert [span.attributes["guardspan.status"] for span in recording.spans] == ["not run", "not run"]
    assert "sentinel" not in everything(recording.spans)
    assert type(Agent.iter) is FunctionType


async def test_a_run_that_is_made_before_and_entered_after(record: Callable[..., Recording]) -> None:
    """A context manager that was made while instrumented works when it is entered afterwards."""
    recording = record()
    manager = desk(Script("fine")).iter("hello")
    guardspan.uninstrument()
    async with manager as agent_run:
        async for _ in agent_run:
            pass
    assert agent_run.result.output == "fine"
    assert {span.attributes["guardspan.status"] for span in recording.spans} <= {"pass"}


async def test_agents_that_existed_before_are_watched_too(record: Callable[..., Recording]) -> None:
    """The class is patched and not its instances: agents made at import time are no exception."""
    agent = desk(Script("fine"))
    recording = record()
    await run(agent)
    assert by_kind(recording.spans, "call")[0].name == "agent desk"


HERE = Path(__file__).parent
PATH = os.pathsep.join(map(str, (HERE.parent, HERE, Path(guardspan.__file__).parent.parent)))

LATER = """
import asyncio, sys
import guardspan
from recording import Recording

stale = Recording()
guardspan.uninstrument()
recording = Recording(content="redacted")
assert not {"pydantic_ai", "guardrails", "litellm"} & set(sys.modules)

from agent_kit import Script, desk, run
from pydantic_ai import Agent
own = vars(Agent)["iter"].__wrapped__
asyncio.run(run(desk(Script("fine"))))
assert stale.spans == []
print(recording.tree())
guardspan.uninstrument()
assert vars(Agent)["iter"] is own
assert "guardrails" not in sys.modules
"""

NEVER_WANTED = """
import asyncio, sys, types
import guardspan
from recording import Recording

recording = Recording()
guardspan.uninstrument()
assert "pydantic_ai" not in sys.modules
from agent_kit import Script, desk, run
from pydantic_ai import Agent
assert type(vars(Agent)["iter"]) is types.FunctionType
assert asyncio.run(run(desk(Script("fine")))) == "fine"
print(len(recording.spans))
"""


def test_a_library_that_is_imported_later_is_patched_then(tmp_path: Path) -> None:
    """By the options of the last `instrument()`; until then neither library has been imported."""
    assert run_python(LATER, tmp_path, PYTHONPATH=PATH).stdout.startswith("agent desk run x1 [pass]")


def test_a_library_that_is_imported_after_uninstrument_is_left_alone(tmp_path: Path) -> None:
    """An import hook cannot be taken back, so it has to do nothing."""
    assert run_python(NEVER_WANTED, tmp_path, PYTHONPATH=PATH).stdout == "0\n"


def pretend(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    real = telemetry.distribution_version
    monkeypatch.setattr(
        telemetry, "distribution_version", lambda name: version if name == "pydantic-ai-slim" else real(name)
    )


@pytest.mark.parametrize("version", ["1.107.10", "1.99", "3.0.0", "4.1", "unknown", ""])
def test_an_unsupported_version_is_one_line_and_no_patch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    """The line says which version was found and which are supported; the library stays untouched."""
    pretend(monkeypatch, version)
    before = Agent.iter
    recording = Recording()
    assert Agent.iter is before
    assert run_sync(desk(Script("fine"))) == "fine"
    assert recording.spans == []
    (line,) = logged(caplog)
    assert version in line
    assert SUPPORTED.partition(" ")[0] in line


@pytest.mark.parametrize("version", ["2.0.0", "2.68.0", "2.999", "2.70.0rc1", None])
def test_a_supported_version_is_patched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str | None
) -> None:
    """Also a pre-release, and a copy of the library that has no metadata at all."""
    pretend(monkeypatch, version)
    before = Agent.iter
    STEPS["i"]()
    assert Agent.iter is not before
    assert logged(caplog) == []


LAYOUTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a class is missing": lambda patch: patch.delattr(pydantic_ai, "ModelRequestNode"),
    "a capability is missing": lambda patch: patch.delattr(pydantic_ai.capabilities, "Instrumentation"),
    "iter is missing": lambda patch: patch.delattr(Agent, "iter"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_library_that_is_laid_out_otherwise_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, layout: str
) -> None:
    """One line, nothing patched, and it can be instrumented later on."""
    before = Agent.iter
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "guardspan.pydantic_ai.capability")
        patch.delattr("guardspan.pydantic_ai.capability")
        LAYOUTS[layout](patch)
        STEPS["i"]()
    assert Agent.iter is before
    assert len(logged(caplog)) == 1
    assert "could not instrument Pydantic AI" in logged(caplog)[0]
    guardspan.uninstrument()
    STEPS["i"]()
    assert Agent.iter is not before


# --- suppressed, and not sampled -------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_suppressed_run_passes_through(
    recording: Recording, capabilities: list[Any], way: str
) -> None:
    """Within `suppress_instrumentation` there is no span, and no capability of ours."""
    agent = desk(Script("fine"))
    with suppress_instrumentation():
        assert (await WAYS[way](agent)).strip() == "fine"
    assert recording.spans == []
    assert capabilities == []
    await WAYS[way](agent)
    assert len(by_kind(recording.spans, "call")) == 1
    assert len(capabilities) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_that_is_not_sampled_gets_no_capability(capabilities: list[Any], way: str) -> None:
    """It costs nothing more, and what was the current context is so again."""
    guardspan.instrument(tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    before = otel_context.get_current()
    assert (await WAYS[way](desk(Script("fine")))).strip() == "fine"
    assert otel_context.get_current() is before
    assert capabilities == []


class Asked(Sampler):
    """Keeps what it is asked with."""

    def __init__(self) -> None:
        self.attributes: list[dict[str, Any]] = []

    def should_sample(self, *args: Any, attributes: Any = None, **kwargs: Any) -> SamplingResult:
        self.attributes.append(dict(attributes or (args[4] if len(args) > 4 else {})))
        return SamplingResult(Decision.RECORD_AND_SAMPLE)

    def get_description(self) -> str:
        return "asked"


async def test_a_sampler_sees_what_the_call_is() -> None:
    """Kind, library, name, entry and stream are there at the start of the span."""
    sampler = Asked()
    guardspan.instrument(tracer_provider=TracerProvider(sampler=sampler))
    await WAYS["run_stream"](desk(Script("fine")))
    asked = {name.removeprefix("guardspan."): value for name, value in sampler.attributes[0].items()}
    wanted = {"kind": "call", "library": "pydantic_ai", "name": "desk", "entry": "run_stream", "stream": True}
    assert wanted.items() <= asked.items()
    assert sampler.attributes[1]["guardspan.kind"] == "iteration"


# --- hooks, baggage, settings, metrics -------------------------------------------------------------------


async def test_hooks_see_plain_values(record: Callable[..., Recording]) -> None:
    """Each Iteration in turn, then the Call: what the spans have, without a word of content."""
    views: list[Any] = []

    def hook(span: Any, view: Any) -> None:
        span.set_attribute("own", len(views))
        views.append(view)

    recording = record(call_hook=hook, iteration_hook=hook)
    agent = desk(Script("sentinel bad", "sentinel fine"))

    @agent.output_validator
    async def polite(output: str) -> str:
        if "bad" in output:
            raise ModelRetry(f"{output}: sentinel")
        return output

    await run(agent, "sentinel")
    first, second, whole = views
    assert [(v.index, v.stage, v.status) for v in (first, second)] == [
        (0, "initial", "fail"),
        (1, "reask", "pass"),
    ]
    assert [(v.model, v.provider, v.usage.input_tokens) for v in (first, second)] == [
        ("gpt-4o", "openai", 10)
    ] * 2
    assert [(v.name, v.outcome) for v in first.validators] == [("polite", "fail")]
    assert (first.failure_class, second.failure_class) == ("validation", None)
    assert (whole.library, whole.name, whole.entry) == ("pydantic_ai", "desk", "run")
    assert (whole.status, whole.iterations, whole.usage.output_tokens) == ("pass", 2, 4)
    assert whole.cost_usd == pytest.approx(first.price.usd + second.price.usd)
    assert whole.call_id == the_call(recording)["guardspan.call.id"]
    assert whole.failed_validators == ("polite",)
    assert "sentinel" not in repr(views)
    assert the_call(recording)["own"] == 2


async def test_baggage_is_copied_onto_every_span(record: Callable[..., Recording]) -> None:
    """`team` always, others when the settings name them, and no more."""
    recording = record(baggage_keys=("tenant",))
    context = otel_context.get_current()
    for key in ("team", "tenant", "user"):
        context = baggage.set_baggage(key, f"the {key}", context)
    token = otel_context.attach(context)
    try:
        await run(
            desk(Script(call("final_result", value=1), call("final_result", value="x")), output_type=Shape)
        )
    finally:
        otel_context.detach(token)
    assert len(recording.spans) >= 4
    for span in recording.spans:
        assert (span.attributes["team"], span.attributes["tenant"]) == ("the team", "the tenant")
        assert "user" not in span.attributes


class Shape(pydantic.BaseModel):
    value: str


@pytest.mark.parametrize("content", ["shape", "off", "redacted"])
async def test_the_content_setting_holds_for_agents(
    monkeypatch: pytest.MonkeyPatch, record: Callable[..., Recording], content: str
) -> None:
    """From the environment as well as by keyword; inputs and outputs are there as the mode says."""
    monkeypatch.setenv("GUARDSPAN_CONTENT", content)
    recording = record()
    await run(desk(Script("an answer")), "a question")
    found = {
        k: v for s in recording.spans for k, v in s.attributes.items() if ".input." in k or ".output." in k
    }
    found = {
        name: value
        for name, value in found.items()
        if name.startswith(("guardspan.input", "guardspan.output"))
    }
    assert bool(found) == (content != "off")
    assert ("a question" in str(found)) == ("an answer" in str(found)) == (content == "redacted")
    assert ("hmac" in str(found)) == (content == "shape")


async def test_genai_usage_is_written_on_request(record: Callable[..., Recording]) -> None:
    """`GUARDSPAN_GENAI_USAGE` writes it on Iterations; without it no span of ours carries it."""
    for wanted in (False, True):
        recording = record(genai_usage=wanted)
        await run(desk(Script("fine")))
        (iteration,) = by_kind(recording.spans, "iteration")
        assert iteration.attributes.get("gen_ai.usage.input_tokens") == (10 if wanted else None)
        assert not any(name.startswith("gen_ai.usage.") for name in the_call(recording))


def measured(recording: Recording) -> dict[str, list[tuple[Any, float]]]:
    """The metrics' points: name of the agent and value, by metric."""
    data = json.loads(recording.metrics.get_metrics_data().to_json())
    return {
        metric["name"]: [(p["attributes"], p["value"]) for p in metric["data"]["data_points"]]
        for resource in data["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
    }


@pytest.mark.parametrize("way", WAYS)
async def test_runs_under_way_are_counted(recording: Recording, way: str) -> None:
    """While a run goes on it is active and has an age; afterwards there is none."""
    agent, during = desk(Script(call("look"), "fine")), {}

    @agent.tool_plain
    async def look() -> str:
        await asyncio.sleep(0)
        during.update(measured(recording))
        return "seen"

    await WAYS[way](agent)
    labels = {"guardspan.library": "pydantic_ai", "guardspan.name": "desk"}
    assert during["guardspan.calls.active"] == [(labels, 1)]
    ((found, age),) = during["guardspan.calls.oldest_age"]
    assert found == labels
    assert 0 < age < 60
    after = measured(recording)
    assert after["guardspan.calls.active"] == after["guardspan.calls.oldest_age"] == [(labels, 0)]
