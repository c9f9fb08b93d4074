"""Tokens and cost of agents: what each answer says of itself, and totals that are the run's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from agent_kit import Script, call, desk, run
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from outcome_kit import EVERY_WAY, WHOLE, no_bad, ran, with_tools
from pydantic_ai import Agent, RunContext, capture_run_messages
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, RunUsage
from recording import Recording
from spans import by_kind

FIELDS = RequestUsage.__dataclass_fields__
"""Newer releases have fields of their own for cost and for reasoning tokens."""

PRICED = "gpt-4o"
UNLISTED = "acme-9"
TOKENS = ("guardspan.usage.",)
MONEY = ("guardspan.cost.",)


def told(
    recording: Recording, kind: str, prefixes: Sequence[str] = (*TOKENS, *MONEY)
) -> list[dict[str, Any]]:
    """What the spans of a kind say of tokens and cost, without the prefix, in the order of their start."""
    return [
        {
            name.removeprefix("guardspan.").removeprefix("usage."): value
            for name, value in span.attributes.items()
            if name.startswith(tuple(prefixes))
        }
        for span in by_kind(recording.spans, kind)
    ]


def of_agent(recording: Recording, name: str) -> list[dict[str, Any]]:
    """What the Calls of an agent of that name say of tokens."""
    calls = [span for span in by_kind(recording.spans, "call") if span.name == f"agent {name}"]
    return [
        {
            key.removeprefix("guardspan.usage."): value
            for key, value in span.attributes.items()
            if key.startswith(TOKENS)
        }
        for span in calls
    ]


def tokens(given: int, made: int) -> dict[str, int]:
    """Counts as a span tells them."""
    return {"input_tokens": given, "output_tokens": made}


def model(*answers: Any, name: str = PRICED, **usage: Any) -> FunctionModel:
    """A model of a name, whose answers say that usage."""
    script = Script(*answers, usage=RequestUsage(**usage))
    return FunctionModel(script._whole, stream_function=script._streamed, model_name=name)


class Answers(AbstractCapability[Any]):
    """Gives an answer in place of the model: a FunctionModel estimates what its answers do not say."""

    def __init__(self, **usage: Any) -> None:
        self.id = None
        self.description = None
        self.defer_loading = False
        self._usage = usage

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """The answer, with nothing estimated."""
        return ModelResponse([TextPart("fine")], usage=RequestUsage(**self._usage), model_name=PRICED)


# --- what an answer says ---------------------------------------------------------------------------------

# By the list, gpt-4o takes 2.50 dollars per million of input, 1.25 of cached input, and 10 of output.
EVERYTHING = {"input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 200, "cache_write_tokens": 50}
REASONING: dict[str, dict[str, Any]] = {
    "among the details": {"details": {"reasoning_tokens": 40}},
    **({"in a field": {"output_reasoning_tokens": 40}} if "output_reasoning_tokens" in FIELDS else {}),
}


@pytest.mark.parametrize("way", WHOLE)
@pytest.mark.parametrize("reasoning", REASONING)
def test_all_counts_are_on_iteration_and_call(recording: Recording, way: str, reasoning: str) -> None:
    """Input includes what was cached, output what was reasoned; the parts are told as well, and priced so."""
    ran(way, Agent(model("fine", **EVERYTHING, **REASONING[reasoning]), name="desk"))
    counts = {
        **tokens(1000, 100),
        "cache_read.input_tokens": 200,
        "cache_creation.input_tokens": 50,
        "reasoning.output_tokens": 40,
        "cost.usd": pytest.approx((800 * 2.5 + 200 * 1.25 + 100 * 10) / 1e6),
    }
    assert told(recording, "call") == [counts]
    assert told(recording, "iteration") == [{**counts, "cost.source": "genai-prices"}]


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_call_sums_its_iterations(recording: Recording, way: str) -> None:
    """Two tools, a call that is asked for again, and an end: three answers, of which each has its own."""
    agent = with_tools([call("look"), call("look")], call("picky", number=1), "fine")
    with capture_run_messages() as messages:
        ran(way, agent)
    usages = [message.usage for message in messages if message.kind == "response"]
    assert told(recording, "iteration", TOKENS) == [tokens(u.input_tokens, u.output_tokens) for u in usages]
    total = tokens(sum(u.input_tokens for u in usages), sum(u.output_tokens for u in usages))
    (sums,) = told(recording, "call")
    assert sums.pop("cost.usd") == pytest.approx(
        (total["input_tokens"] * 2.5 + total["output_tokens"] * 10) / 1e6
    )
    assert sums == total


async def test_what_was_wasted_is_told(recording: Recording) -> None:
    """Answers that were rejected are paid for, and told apart from the one that was used."""
    await run(no_bad("bad", "fine"))
    outcome = [span.attributes["guardspan.outcome"] for span in by_kind(recording.spans, "iteration")]
    assert outcome == ["wasted", "used"]


NOTHING: dict[str, Any] = {"nothing": {}, "zeros": {"input_tokens": 0, "output_tokens": 0}}


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("usage", NOTHING)
def test_an_answer_that_says_nothing_is_told_without(recording: Recording, way: str, usage: str) -> None:
    """Zero stands for not known: no count, no cost, and no missing price."""
    ran(way, desk(Script("never asked for"), capabilities=[Answers(**NOTHING[usage])]))
    assert told(recording, "call") == told(recording, "iteration") == [{}]


HOSTILE = [-5, 10**30, True, 1.5, "many", None]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_hostile_count_breaks_no_span(recording: Recording, value: Any) -> None:
    """Whatever a server sends, and the library lets through, both spans can be exported."""
    ran("run", desk(Script("never asked for"), capabilities=[Answers(input_tokens=10, output_tokens=value)]))
    encode_spans(recording.spans)
    assert [span.attributes["guardspan.kind"] for span in recording.spans] == ["iteration", "call"]
    (counts,) = told(recording, "iteration", TOKENS)
    assert counts.get("input_tokens", 10) == 10
    assert counts.get("output_tokens", 0) in (0, 1)


# --- cost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WHOLE)
@pytest.mark.parametrize("name", [PRICED, UNLISTED])
def test_an_answers_own_cost_is_taken(recording: Recording, way: str, name: str) -> None:
    """A router that charges something else than the list is believed, and needs no list.

    Older releases have no field for it: then the list is what there is, or nothing.
    """
    own = {"cost": Decimal("0.25")} if "cost" in FIELDS else {}
    ran(way, Agent(model("fine", name=name, input_tokens=10, output_tokens=2, **own), name="desk"))
    if own:
        priced = {"cost.usd": 0.25, "cost.source": "provider"}
    elif name == PRICED:
        priced = {"cost.usd": pytest.approx(45e-6), "cost.source": "genai-prices"}
    else:
        priced = {}
    assert told(recording, "iteration", MONEY) == [priced]
    assert told(recording, "call", MONEY) == [
        {"cost.usd": priced["cost.usd"]} if priced else {"cost.unpriced": 1}
    ]


def test_the_librarys_own_sum_is_no_providers(recording: Recording) -> None:
    """It prices open weights at whoever serves them, as the list has them: that is told as what it is."""
    answer = model("fine", name="gpt-oss-120b", input_tokens=100, output_tokens=10)
    ran("run", Agent(answer, name="desk"))
    (money,) = told(recording, "iteration", MONEY)
    assert money.get("cost.source", "genai-prices") == "genai-prices"


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "-1", "1e300"])
def test_a_cost_that_cannot_be_is_not_taken(recording: Recording, cost: str) -> None:
    """An unlisted model with a senseless cost has none; where there is no field for it, neither."""
    own = {"cost": Decimal(cost)} if "cost" in FIELDS else {}
    agent = desk(Script("never asked for"), capabilities=[Answers(input_tokens=10, output_tokens=2, **own)])
    ran("run", agent)
    encode_spans(recording.spans)
    (money,) = told(recording, "iteration", MONEY)
    assert 0 <= money.get("cost.usd", 0) < 1


@pytest.mark.parametrize("way", EVERY_WAY)
def test_an_unlisted_model_is_counted_and_not_priced(recording: Recording, way: str) -> None:
    """No price is made up: the Call says of how many Iterations it does not know what they cost."""
    agent = Agent(model(call("look"), "fine", name=UNLISTED, input_tokens=10, output_tokens=2), name="desk")
    agent.tool_plain(lambda: "found", name="look")
    ran(way, agent)
    assert told(recording, "iteration", MONEY) == [{}, {}]
    assert told(recording, "call", MONEY) == [{"cost.unpriced": 2}]


def price_table(folder: Path) -> Path:
    """The user's own prices: for a model that nobody lists, and other ones for one that is listed."""
    rates = {"input": 2000.0, "output": 10000.0}
    table = folder / "prices.json"
    table.write_text(json.dumps({"models": [{"model": name, **rates} for name in (PRICED, UNLISTED)]}))
    return table


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("name", [PRICED, UNLISTED])
def test_the_users_own_prices_come_before_the_list(
    record: Callable[..., Recording], tmp_path: Path, way: str, name: str
) -> None:
    """`prices=` is for what one has agreed on, and for models that nobody lists."""
    recording = record(prices=price_table(tmp_path))
    ran(way, Agent(model("fine", name=name, input_tokens=1000, output_tokens=100), name="desk"))
    (counts,) = told(recording, "call", TOKENS)
    cost = (counts["input_tokens"] * 2000 + counts["output_tokens"] * 10000) / 1e6
    assert told(recording, "iteration", MONEY) == [{"cost.usd": pytest.approx(cost), "cost.source": "custom"}]
    assert told(recording, "call", MONEY) == [{"cost.usd": pytest.approx(cost)}]


# --- totals are the run's own ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WHOLE)
def test_usage_that_was_there_before_is_not_counted(recording: Recording, way: str) -> None:
    """Callers hand in what they have used so far; the Call tells what this run has used."""
    usage = RunUsage(input_tokens=5000, output_tokens=700, requests=3)
    ran(way, desk(Script("fine")), usage=usage)
    assert usage.input_tokens == 5010
    assert told(recording, "call", TOKENS) == [tokens(10, 2)]


async def test_runs_that_share_one_usage_have_their_own(recording: Recording) -> None:
    """One after the other, and at once: the shared sum grows, the Calls' are each their own."""
    usage = RunUsage()
    agent = with_tools(call("look"), "fine")
    await run(agent, usage=usage)
    await asyncio.gather(*(run(desk(Script("fine")), usage=usage) for _ in range(5)))
    assert usage.input_tokens == 70
    assert told(recording, "call", TOKENS) == [tokens(20, 4)] + [tokens(10, 2)] * 5


async def test_a_history_is_not_paid_for_again(recording: Recording) -> None:
    """The answers of earlier runs that are handed in belong to those."""
    agent = desk(Script("fine"))
    first = await agent.run("hello")
    await agent.run("and now?", message_history=first.all_messages())
    assert told(recording, "call", TOKENS) == [tokens(10, 2)] * 2


def asking(delegate: Agent[Any, Any], asks: int, shared: bool) -> Agent[Any, Any]:
    """An agent that asks another one within its tool, at once for each of its calls."""
    agent = desk(Script([call("ask") for _ in range(asks)], "fine"))

    @agent.tool
    async def ask(context: RunContext[Any]) -> str:
        result = await delegate.run("hello", **({"usage": context.usage} if shared else {}))
        return str(result.output)

    return agent


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("asks", [1, 3])
@pytest.mark.parametrize("way", EVERY_WAY)
def test_what_a_delegate_used_is_its_own(recording: Recording, way: str, asks: int, shared: bool) -> None:
    """Whether or not it is given the usage of the run that asked, no token is on two Calls."""
    delegate = Agent(model("fine", input_tokens=1000, output_tokens=100), name="delegate")
    ran(way, asking(delegate, asks, shared))
    assert of_agent(recording, "delegate") == [tokens(1000, 100)] * asks
    iterations = [
        span for span in by_kind(recording.spans, "iteration") if span.attributes["guardspan.name"] == "desk"
    ]
    assert of_agent(recording, "desk") == [
        tokens(
            sum(span.attributes["guardspan.usage.input_tokens"] for span in iterations),
            sum(span.attributes["guardspan.usage.output_tokens"] for span in iterations),
        )
    ]
    assert of_agent(recording, "desk")[0]["input_tokens"] < 1000
    parents = {span.parent.span_id for span in by_kind(recording.spans, "call") if span.parent is not None}
    assert parents == {iterations[0].context.span_id}


async def _costs_what_it_says(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls a tool, then answers; each time as many tokens as the prompt says."""
    (prompt,) = [part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]
    await asyncio.sleep(0)
    usage = RequestUsage(input_tokens=int(str(prompt)), output_tokens=1)
    part = TextPart(f"{prompt}") if len(messages) > 1 else ToolCallPart("look", {})
    return ModelResponse([part], usage=usage)


async def test_concurrent_runs_of_one_agent_have_their_own(recording: Recording) -> None:
    """Forty at once, that take turns at every step: each Call has two Iterations, and the sum of those."""
    agent = Agent(FunctionModel(_costs_what_it_says, model_name=PRICED), name="desk")

    @agent.tool_plain
    async def look() -> str:
        await asyncio.sleep(0)
        return "found"

    outputs = await asyncio.gather(*(run(agent, str(number)) for number in range(1, 41)))
    assert outputs == [str(number) for number in range(1, 41)]
    assert told(recording, "call", TOKENS) == [tokens(2 * number, 2) for number in range(1, 41)]
    for span in by_kind(recording.spans, "call"):
        own = [
            each for each in recording.spans if each.parent and each.parent.span_id == span.context.span_id
        ]
        assert [each.attributes["guardspan.usage.input_tokens"] * 2 for each in own] == [
            span.attributes["guardspan.usage.input_tokens"]
        ] * 2


# --- gen_ai.usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked_for", [False, True])
@pytest.mark.parametrize("way", WHOLE)
def test_gen_ai_usage_is_written_only_when_asked_for(
    record: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch, way: str, asked_for: bool
) -> None:
    """`GUARDSPAN_GENAI_USAGE` is for back ends that read nothing else: on Iterations, never on the sum."""
    monkeypatch.setenv("GUARDSPAN_GENAI_USAGE", str(asked_for).lower())
    recording = record()
    ran(way, desk(Script("fine")))
    written = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2} if asked_for else {}
    assert told(recording, "iteration", ["gen_ai.usage."]) == [written]
    assert told(recording, "call", ["gen_ai.usage."]) == [{}]
