"""Tokens, model, provider and cost of real HTTP answers, by LiteLLM and by the OpenAI client."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import litellm
import openai
import pytest
from guardrails import AsyncGuard, Guard
from kit import MESSAGES, NoBad, Script, Stream
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from packaging.version import Version
from recording import Recording
from spans import by_kind
from support_desk.server import Reply, ScriptedServer, usage

WHOLE = ("sync", "async")
STREAMS = ("sync stream", "async stream")
FLAVOURS = (*WHOLE, *STREAMS)

ASKED, ANSWERED = "openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18"
COUNTS = usage(1000, 50, cached=200, reasoning=32)
# gpt-4o-mini, dollars for a million tokens: 0.15 input, 0.075 of it cached, 0.60 output.
COST = (800 * 0.15 + 200 * 0.075 + 50 * 0.60) / 1e6
TOKENS = {
    "guardspan.usage.input_tokens": 1000,
    "guardspan.usage.output_tokens": 50,
    "guardspan.usage.cache_read.input_tokens": 200,
    "guardspan.usage.reasoning.output_tokens": 32,
}
# Before 0.10 Guardrails takes the provider's own async stream out of LiteLLM's: its chunks name the model in
# full and no provider, and it ends without an error when the connection is lost.
UNWRAPPED = {"async stream"} if Version(version("guardrails-ai")) < Version("0.10") else set()
CALLABLE_ERROR = "guardrails.classes.llm.prompt_callable.PromptCallableException"


class Desk:
    """A scripted server and the guard that asks it, in all flavours."""

    def __init__(self, server: ScriptedServer, replies: list[Reply]) -> None:
        self.server = server
        self.replies = replies

    def answers(self, *replies: Reply) -> None:
        """What the server answers in turn; the last one again after that."""
        self.replies[:] = replies

    def ask(self, flavour: str, *callables: Any, on_fail: Any = "noop", **options: Any) -> list[Any]:
        """Call a guard through LiteLLM; returns what came out of it, an exception last."""
        asked: dict[str, Any] = {
            "model": ASKED,
            "api_base": self.server.base_url,
            "api_key": "any",
            "max_retries": 0,
            "messages": MESSAGES,
        }
        if "stream" in flavour:
            asked = {**asked, "stream": True, "stream_options": {"include_usage": True}}
        return outcome(flavour, *callables, on_fail=on_fail, **{**asked, **options})


def outcome(flavour: str, *callables: Any, on_fail: Any = "noop", **options: Any) -> list[Any]:
    """Call a guard; returns the validated outputs, and last the exception if there was one."""
    options = {name: value for name, value in options.items() if value is not None}
    if flavour.startswith("async"):
        return asyncio.run(_async_outcome(callables, on_fail, options))
    guard = Guard(name="g").use(NoBad(on_fail=on_fail))
    items: list[Any] = []
    try:
        result = guard(*callables, **options)
        for item in result if "stream" in options else [result]:
            items.append(item.validated_output)
    except Exception as error:
        items.append(error)
    return items


async def _async_outcome(callables: tuple[Any, ...], on_fail: Any, options: dict[str, Any]) -> list[Any]:
    guard = AsyncGuard(name="g").use(NoBad(on_fail=on_fail))
    items: list[Any] = []
    try:
        result = await guard(*callables, **options)
        if "stream" not in options:
            return [result.validated_output]
        async for item in result:
            items.append(item.validated_output)
    except Exception as error:
        items.append(error)
    return items


def chunk(text: str | None, **more: Any) -> SimpleNamespace:
    """A chunk of a stream in OpenAI's form; without text the last one, which has no choices."""
    choice = SimpleNamespace(index=0, delta=SimpleNamespace(content=text), finish_reason=None)
    return SimpleNamespace(choices=[choice] if text else [], **more)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A server that has no answers yet."""
    monkeypatch.setattr(litellm, "suppress_debug_info", True)
    replies: list[Reply] = []
    with ScriptedServer(lambda _: replies.pop(0) if len(replies) > 1 else replies[0]) as server:
        yield Desk(server, replies)


def told(recording: Recording, kind: str, *prefixes: str) -> list[dict[str, Any]]:
    """Of each span of a kind, the attributes whose names begin so."""
    prefixes = prefixes or ("guardspan.usage.", "guardspan.cost.", "gen_ai.usage.")
    return [
        {name: value for name, value in (span.attributes or {}).items() if name.startswith(prefixes)}
        for span in by_kind(recording.spans, kind)
    ]


def failure(recording: Recording, kind: str) -> dict[str, Any]:
    """The failure on the only span of a kind, without its digests."""
    (found,) = told(recording, kind, "guardspan.status", "guardspan.failure.c", "error.type")
    return found


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_answer_tells_tokens_model_provider_and_cost(
    recording: Recording, desk: Desk, flavour: str
) -> None:
    """All that the response says of itself is on the Iteration, the sums are on the Call."""
    desk.answers(Reply("All is fine.", COUNTS, model=ANSWERED, response_id="chatcmpl-7"))
    assert "".join(desk.ask(flavour)) == "All is fine."
    (iteration,) = told(recording, "iteration", "guardspan.usage.", "guardspan.cost.usd", "gen_ai.")
    by_litellm = "stream" in flavour and flavour not in UNWRAPPED
    assert iteration == {
        "gen_ai.operation.name": "iteration",
        "gen_ai.request.model": ASKED,
        # LiteLLM's own chunks name the model that was asked for
        "gen_ai.response.model": "gpt-4o-mini" if by_litellm else ANSWERED,
        **({} if flavour in UNWRAPPED else {"gen_ai.provider.name": "openai"}),
        "gen_ai.response.id": "chatcmpl-7",
        "gen_ai.response.finish_reasons": ("stop",),
        **TOKENS,
        "guardspan.cost.usd": pytest.approx(COST),
    }
    assert told(recording, "call") == [{**TOKENS, "guardspan.cost.usd": pytest.approx(COST)}]


@pytest.mark.parametrize("flavour", STREAMS)
def test_a_stream_without_usage_has_no_tokens_and_asks_for_none(
    recording: Recording, desk: Desk, flavour: str
) -> None:
    """Tokens that no chunk tells are absent, not 0, and the request is sent as the application made it."""
    desk.answers(Reply("All is fine.", COUNTS))
    desk.ask(flavour, stream_options=None)
    assert "stream_options" not in desk.server.requests[0].body
    assert told(recording, "iteration") == told(recording, "call") == [{}]


@pytest.mark.parametrize("flavour", STREAMS)
def test_usage_that_a_provider_sends_unasked_is_read(recording: Recording, desk: Desk, flavour: str) -> None:
    """Some providers put the counts on their chunks although nobody asked; LiteLLM moves them aside."""
    desk.answers(Reply("All is fine.", model=ANSWERED, extra={"usage": usage(10, 5)}))
    desk.ask(flavour, stream_options=None)
    (call,) = told(recording, "call", "guardspan.usage.input", "guardspan.usage.output", "guardspan.cost.un")
    assert call == {"guardspan.usage.input_tokens": 10, "guardspan.usage.output_tokens": 5}


@pytest.mark.parametrize("flavour", WHOLE)
def test_a_call_sums_its_reasks(recording: Recording, desk: Desk, flavour: str) -> None:
    """What failed answers cost is part of what the Call cost, and marked as wasted."""
    desk.answers(
        Reply("That is bad.", usage(100, 10), model=ANSWERED), Reply("Fine.", COUNTS, model=ANSWERED)
    )
    desk.ask(flavour, on_fail="reask")
    first, second = told(recording, "iteration", "guardspan.usage.input", "guardspan.outcome")
    assert first == {"guardspan.outcome": "wasted", "guardspan.usage.input_tokens": 100}
    assert second == {"guardspan.outcome": "used", "guardspan.usage.input_tokens": 1000}
    assert told(recording, "call") == [
        {
            "guardspan.usage.input_tokens": 1100,
            "guardspan.usage.output_tokens": 60,
            "guardspan.usage.cache_read.input_tokens": 200,
            "guardspan.usage.reasoning.output_tokens": 32,
            "guardspan.cost.usd": pytest.approx(COST + (100 * 0.15 + 10 * 0.60) / 1e6),
        }
    ]


def test_only_the_reask_of_a_parse_uses_tokens(recording: Recording, desk: Desk) -> None:
    """The text that was handed in cost nothing here; the re-ask has the LLM's own counts."""
    desk.answers(Reply("Fine.", usage(20, 2), model=ANSWERED))
    guard = Guard(name="g").use(NoBad(on_fail="reask"))
    guard.parse(
        "bad", model=ASKED, api_base=desk.server.base_url, api_key="any", num_reasks=1, messages=MESSAGES
    )
    first, second = told(recording, "iteration", "guardspan.usage.input")
    assert first == {}
    assert second == {"guardspan.usage.input_tokens": 20}
    assert told(recording, "call", "guardspan.usage.input") == [{"guardspan.usage.input_tokens": 20}]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    ("status", "cause"),
    [(429, "litellm.exceptions.RateLimitError"), (500, "litellm.exceptions.InternalServerError")],
)
def test_a_providers_refusal_is_its_failure(
    recording: Recording, desk: Desk, flavour: str, status: int, cause: str
) -> None:
    """Class `provider`, the type that the application sees, and under it LiteLLM's own class."""
    desk.answers(Reply(status=status))
    (error,) = desk.ask(flavour)
    assert type(error).__name__ == "PromptCallableException"
    assert (
        failure(recording, "iteration")
        == failure(recording, "call")
        == {
            "guardspan.status": "error",
            "guardspan.failure.class": "provider",
            "guardspan.failure.cause": cause,
            "error.type": CALLABLE_ERROR,
        }
    )
    assert told(recording, "call") == [{}]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_slow_provider_is_a_timeout(recording: Recording, desk: Desk, flavour: str) -> None:
    """A time limit of the client's is told apart from a refusal."""
    desk.answers(Reply("late", hold=threading.Event()))
    desk.ask(flavour, timeout=0.05)
    assert (
        failure(recording, "iteration")
        == failure(recording, "call")
        == {
            "guardspan.status": "error",
            "guardspan.failure.class": "timeout",
            "guardspan.failure.cause": "litellm.exceptions.Timeout",
            "error.type": CALLABLE_ERROR,
        }
    )


@pytest.mark.parametrize("flavour", [flavour for flavour in STREAMS if flavour not in UNWRAPPED])
def test_a_connection_lost_in_mid_stream_is_the_providers_failure(
    recording: Recording, desk: Desk, flavour: str
) -> None:
    """What came before is delivered; Call and Iteration name the exception that the application sees."""
    desk.answers(Reply("One. Two. Three. Four.", COUNTS, break_after=3))
    *items, error = desk.ask(flavour)
    assert "One." in "".join(items)
    iteration, call = failure(recording, "iteration"), failure(recording, "call")
    assert iteration == call
    assert call["error.type"] == f"{type(error).__module__}.{type(error).__qualname__}"
    assert (call["guardspan.status"], call["guardspan.failure.class"]) == ("error", "provider")
    assert told(recording, "call") == [{}]


def test_tokens_that_were_told_before_a_stream_broke_are_kept(recording: Recording) -> None:
    """An error after the usage chunk does not make the call free of charge."""
    stream = Stream([chunk("One. "), chunk(None, usage=COUNTS, model=ANSWERED), ConnectionError("lost")])
    *_, error = outcome("sync stream", stream.sync, messages=MESSAGES, stream=True)
    assert isinstance(error, ConnectionError)
    assert told(recording, "call") == [{**TOKENS, "guardspan.cost.usd": pytest.approx(COST)}]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_unknown_model_is_counted_and_not_priced(recording: Recording, desk: Desk, flavour: str) -> None:
    """No price is made up; the Call says how many Iterations are missing from its cost."""
    desk.answers(Reply("Fine.", usage(10, 5)))
    desk.ask(flavour, model="openai/acme-9")
    assert [cost for cost in told(recording, "iteration", "guardspan.cost.") if cost] == []
    assert told(recording, "call", "guardspan.cost.") == [{"guardspan.cost.unpriced": 1}]


def test_the_users_own_prices_are_for_models_that_nobody_lists(
    record: Callable[..., Recording], desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`GUARDSPAN_PRICES` prices what the response and genai-prices do not."""
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"models": [{"model": "acme-9", "input": 2.0, "output": 10.0}]}))
    monkeypatch.setenv("GUARDSPAN_PRICES", str(table))
    recording = record()
    desk.answers(Reply("Fine.", usage(1000, 100)))
    desk.ask("sync", model="openai/acme-9")
    assert told(recording, "iteration", "guardspan.cost.") == [
        {"guardspan.cost.usd": pytest.approx(0.003), "guardspan.cost.source": "custom"}
    ]
    assert told(recording, "call", "guardspan.cost.") == [{"guardspan.cost.usd": pytest.approx(0.003)}]


@pytest.mark.parametrize("flavour", WHOLE)
def test_a_price_that_the_provider_tells_is_taken(recording: Recording, desk: Desk, flavour: str) -> None:
    """A router that charges something else than the list says it in its usage, and is believed."""
    desk.answers(Reply("Fine.", {**usage(10, 5), "cost": 0.25}, model=ANSWERED))
    desk.ask(flavour)
    assert told(recording, "iteration", "guardspan.cost.") == [
        {"guardspan.cost.usd": 0.25, "guardspan.cost.source": "provider"}
    ]


@pytest.mark.parametrize(
    "hidden", [{"response_cost": 0.25}, {"response_cost": 0.5, "custom_llm_provider": "openai"}, {}, None]
)
def test_a_price_in_the_last_chunk_of_a_stream_is_taken(recording: Recording, hidden: Any) -> None:
    """The provider's own figure in the usage comes first, then LiteLLM's bill."""
    told_cost = {"cost": 0.25} if "custom_llm_provider" in (hidden or {}) or not hidden else {}
    last = chunk(None, usage={**usage(10, 5), **told_cost}, model=ANSWERED, _hidden_params=hidden)
    outcome("sync stream", Stream([chunk("Fine. "), last]).sync, messages=MESSAGES, stream=True)
    assert told(recording, "iteration", "guardspan.cost.") == [
        {"guardspan.cost.usd": 0.25, "guardspan.cost.source": "provider"}
    ]


PARTIAL: dict[str, tuple[Any, dict[str, int]]] = {
    "none at all": (None, {}),
    "only the input": ({"prompt_tokens": 10}, {"input": 10}),
    "only the output": ({"completion_tokens": 5}, {"output": 5}),
    "no output, as the total says": (
        {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10},
        {"input": 10, "output": 0},
    ),
    "no details": (
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        {"input": 10, "output": 5},
    ),
}


@pytest.mark.parametrize("flavour", WHOLE)
@pytest.mark.parametrize("case", PARTIAL)
def test_a_count_that_was_not_told_is_absent(
    recording: Recording, desk: Desk, flavour: str, case: str
) -> None:
    """LiteLLM writes 0 for what is missing; a made-up 0, or a bill made of it, goes on no span."""
    counts, expected = PARTIAL[case]
    desk.answers(Reply("Fine.", counts, model=ANSWERED))
    desk.ask(flavour)
    assert told(recording, "call", "guardspan.usage.") == [
        {f"guardspan.usage.{name}_tokens": count for name, count in expected.items()}
    ]
    (cost,) = told(recording, "iteration", "guardspan.cost.")
    assert bool(cost) == (len(expected) == 2)


HOSTILE = [-5, "12", "many", 1.5, float("nan"), float("inf"), 10**30, 1e308, [], {"a": 1}, True, None]


@pytest.mark.parametrize("flavour", ["sync", "sync stream"])
@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_hostile_count_breaks_no_span(
    recording: Recording, desk: Desk, flavour: str, value: object
) -> None:
    """Whatever number a server sends, both spans have their status and can be encoded for export."""
    desk.answers(
        Reply("Fine.", {**usage(10, 5), "prompt_tokens": value, "cost": value, "total_tokens": value})
    )
    desk.ask(flavour)
    encode_spans(recording.spans)
    statuses = told(recording, "call", "guardspan.status") + told(recording, "iteration", "guardspan.status")
    assert len(statuses) == 2
    assert all(status for status in statuses)
    (call,) = told(recording, "call", "guardspan.usage.input", "guardspan.cost.usd")
    counted = call.get("guardspan.usage.input_tokens", 0)
    assert 0 <= counted <= 12  # the client takes True for 1, reads a numeral, and may count by itself
    assert 0 <= call.get("guardspan.cost.usd", 0.0) < 1e-5


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_hostile_count_that_no_client_has_checked_breaks_no_span(
    recording: Recording, value: object
) -> None:
    """The same for chunks of a callable of the user's own, which nobody has looked at before us."""
    stream = Stream(
        [chunk("Fine. "), chunk(None, usage={"prompt_tokens": value, "cost": value}, model=value, id=value)]
    )
    outcome("sync stream", stream.sync, messages=MESSAGES, stream=True)
    encode_spans(recording.spans)
    assert told(recording, "call", "guardspan.status") == [{"guardspan.status": "pass"}]
    assert told(recording, "call", "guardspan.usage.") == [{}]


def test_openais_own_client_streams_with_its_counts(recording: Recording, desk: Desk) -> None:
    """No LiteLLM, so the answering model is told in full and genai-prices gives the price."""
    desk.answers(Reply("All is fine.", COUNTS, model=ANSWERED))
    with openai.OpenAI(base_url=desk.server.base_url, api_key="any", max_retries=0) as client:
        items = outcome(
            "sync stream",
            client.chat.completions.create,
            model="gpt-4o-mini",
            messages=MESSAGES,
            stream=True,
            stream_options={"include_usage": True},
        )
    assert "".join(items) == "All is fine."
    assert told(recording, "iteration", "guardspan.usage.", "guardspan.cost.", "gen_ai.response.model") == [
        {
            "gen_ai.response.model": ANSWERED,
            **TOKENS,
            "guardspan.cost.usd": pytest.approx(COST),
            "guardspan.cost.source": "genai-prices",
        }
    ]


@pytest.mark.parametrize("flavour", STREAMS)
def test_a_router_of_litellms_is_read_like_litellm(recording: Recording, desk: Desk, flavour: str) -> None:
    """Behind an alias, the model that answered is told, and so it has a price."""
    desk.answers(Reply("All is fine.", COUNTS, model=ANSWERED))
    deployment = {"model": ASKED, "api_base": desk.server.base_url, "api_key": "any"}
    router = litellm.Router(model_list=[{"model_name": "fast", "litellm_params": deployment}])
    complete = router.acompletion if flavour.startswith("async") else router.completion
    outcome(
        flavour,
        complete,
        model="fast",
        messages=MESSAGES,
        stream=True,
        stream_options={"include_usage": True},
    )
    (iteration,) = told(recording, "iteration", "gen_ai.request.model", "gen_ai.response.model")
    assert iteration == {
        "gen_ai.request.model": "fast",
        "gen_ai.response.model": "gpt-4o-mini",
    }
    assert told(recording, "call") == [{**TOKENS, "guardspan.cost.usd": pytest.approx(COST)}]


@pytest.mark.parametrize("flavour", WHOLE)
def test_an_answer_that_guardrails_cannot_use_has_cost_all_the_same(
    recording: Recording, flavour: str
) -> None:
    """A callable that returns the whole response object fails in Guardrails, after the tokens were used."""
    answer = SimpleNamespace(choices=[], usage=COUNTS, model=ANSWERED, id="r-1")
    script = Script([answer])
    called = script.asynchronous if flavour == "async" else script.sync
    (error,) = outcome(flavour, called, messages=MESSAGES)
    assert type(error).__name__ == "PromptCallableException"
    assert told(recording, "call") == [{**TOKENS, "guardspan.cost.usd": pytest.approx(COST)}]
    assert failure(recording, "call")["guardspan.failure.class"] == "provider"


@pytest.mark.parametrize("flavour", WHOLE)
def test_a_callable_that_returns_text_tells_no_tokens(recording: Recording, flavour: str) -> None:
    """Nothing is known of a plain string, so nothing is said, not even that a price is missing."""
    script = Script(["Fine."])
    outcome(flavour, script.asynchronous if flavour == "async" else script.sync, messages=MESSAGES)
    assert told(recording, "iteration", "guardspan.usage.", "guardspan.cost.", "gen_ai.") == [
        {"gen_ai.operation.name": "iteration"}
    ]
    assert told(recording, "call") == [{}]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_gen_ai_usage_is_written_only_when_asked_for(
    record: Callable[..., Recording], desk: Desk, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`GUARDSPAN_GENAI_USAGE` is for back ends that read nothing else: on Iterations, never on the sum."""
    monkeypatch.setenv("GUARDSPAN_GENAI_USAGE", "true")
    recording = record()
    desk.answers(Reply("Fine.", COUNTS))
    desk.ask(flavour)
    assert told(recording, "iteration", "gen_ai.usage.") == [
        {"gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 50}
    ]
    assert told(recording, "call", "gen_ai.usage.") == [{}]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_the_reason_why_an_llm_stopped_is_told(recording: Recording, desk: Desk, reason: str) -> None:
    """An answer that was cut off can be told from one that was complete."""
    desk.answers(Reply("Fine.", COUNTS, finish_reason=reason))
    desk.ask("sync")
    assert told(recording, "iteration", "gen_ai.response.finish_reasons") == [
        {"gen_ai.response.finish_reasons": (reason,)}
    ]
