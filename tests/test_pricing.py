"""Prices: right to the last digit where they are known, absent where they are not."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import genai_prices
import pytest
from genai_prices import data_snapshot
from genai_prices.data import providers
from genai_prices.types import ModelInfo, ModelPrice, TieredPrices
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import GenAiProviderNameValues

from guardspan import safety
from guardspan.pricing import Price, Pricer, Usage, provider_name

MOMENTS = (
    datetime(2025, 1, 15, 3, 30, tzinfo=timezone.utc),
    datetime(2026, 11, 2, 18, 0, tzinfo=timezone.utc),
)
USAGES = (
    Usage(1_000, 100, 200, 50, 30),
    Usage(150_000, 500, 140_000, 9_000, 0),
    Usage(1_200_000, 70_000, 600_000, 300_000, 69_000),
    Usage(1, 1),
    Usage(0, 0),
)


@pytest.fixture(scope="module")
def pricer() -> Pricer:
    return Pricer()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(safety, "_reported", set())
    caplog.set_level(logging.DEBUG, logger="guardspan")
    return caplog


def theirs(usage: Usage, model: str, provider: str | None, at: datetime | None = None) -> float | None:
    """The price by genai-prices' own front door; None when it has none."""
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_creation_tokens,
    }
    try:
        calculated = genai_prices.calc_price(
            genai_prices.Usage(**counts), model, provider_id=provider, genai_request_timestamp=at
        )
    except LookupError:
        return None
    if getattr(calculated.model_price, "output_reasoning_mtok", None) is not None:
        counts["output_reasoning_tokens"] = usage.reasoning_tokens
        calculated = genai_prices.calc_price(
            genai_prices.Usage(**counts), model, provider_id=provider, genai_request_timestamp=at
        )
    return float(calculated.total_price)


def rates(model: ModelInfo, at: datetime) -> tuple[bool, bool]:
    """Whether the model charges for input, and for output."""
    prices = model.get_prices(at)
    return tuple(getattr(prices, name, None) is not None for name in ("input_mtok", "output_mtok"))


def dollars(price: Price | None) -> float | None:
    return None if price is None else price.usd


def table(tmp_path: Path, *models: dict[str, object], **more: object) -> Path:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": models, **more}))
    return path


@pytest.mark.parametrize("provider", [provider.id for provider in providers])
def test_every_price_agrees_with_genai_prices(pricer: Pricer, provider: str) -> None:
    """For every model of the bundled data, at several times, rates kept here equal a full reckoning there."""
    for model in next(listed.models for listed in providers if listed.id == provider):
        for at in MOMENTS:
            for usage in USAGES:
                expected = theirs(usage, model.id, provider, at)
                found = pricer.price(usage, model=model.id, provider=provider, at=at)
                if found is not None and expected is not None:
                    assert found.source == "genai-prices"
                    assert math.isclose(found.usd, expected, rel_tol=1e-12, abs_tol=1e-18), (model.id, usage)


def test_nearly_all_models_priced_by_tokens_have_a_price(pricer: Pricer) -> None:
    """Whatever genai-prices charges by input and output tokens, and finds by its id, is priced here."""
    priced = 0
    for provider in providers:
        for model in provider.models:
            found = provider.find_model(model.id)
            if found is None or "gpt-oss" in model.id or rates(found, MOMENTS[1]) != (True, True):
                continue
            assert pricer.price(USAGES[0], model=model.id, provider=provider.id, at=MOMENTS[1]), model.id
            priced += 1
    assert priced > 500


TIERED = [
    (provider.id, model, tier.start)
    for provider in providers
    for model in provider.models
    for rate in vars(model.get_prices(MOMENTS[1])).values()
    if isinstance(rate, TieredPrices)
    for tier in rate.tiers
]


def test_tiers_begin_where_genai_prices_has_them_begin(pricer: Pricer) -> None:
    """One token below, at and above the start of a tier, the price is that of genai-prices."""
    assert TIERED
    for provider, model, start in TIERED:
        made = 1_000 if rates(model, MOMENTS[1])[1] else 0
        for taken in (start - 1, start, start + 1, 3 * start):
            usage = Usage(taken, made, taken // 2, taken // 4)
            expected = theirs(usage, model.id, provider, MOMENTS[1])
            found = dollars(pricer.price(usage, model=model.id, provider=provider, at=MOMENTS[1]))
            assert expected is None or found == pytest.approx(expected, rel=1e-12), (model.id, taken)


class WithMinimum(ModelPrice):
    """A price that is not in proportion to the tokens: at least a cent."""

    def calc_price(self, usage: object) -> dict[str, Decimal]:
        total = max(super().calc_price(usage)["total_price"], Decimal("0.01"))
        return {"input_price": total, "output_price": Decimal(0), "total_price": total}


@pytest.mark.parametrize(
    "usage", [Usage(1, 1), Usage(1_000_000, 1_000), Usage(2_000, 10, 500, 100, 5), Usage(0, 0)]
)
def test_a_price_that_is_not_in_proportion_is_left_to_genai_prices(
    monkeypatch: pytest.MonkeyPatch, usage: Usage
) -> None:
    """Rates are kept only where they hold; a price with a rule of its own is reckoned in full each time."""
    model = next(p for p in providers if p.id == "openai").find_model("gpt-4o")
    assert model is not None
    monkeypatch.setattr(model, "prices", WithMinimum(input_mtok=Decimal(2), output_mtok=Decimal(8)))
    expected = theirs(usage, "gpt-4o", "openai")
    pricer = Pricer()
    for _ in range(2):
        assert dollars(pricer.price(usage, model="gpt-4o", provider="openai")) == pytest.approx(expected)
    assert pricer.price(Usage(10, None), model="gpt-4o", provider="openai") is None


def test_a_price_follows_the_date_and_the_time_of_day(pricer: Pricer) -> None:
    """One model asked for at many moments, to and fro, always has the price of that moment."""
    dated = [(p.id, m.id) for p in providers for m in p.models if isinstance(m.prices, list)]
    moments = [
        datetime(2025, month, 20, hour, 45, tzinfo=timezone.utc) for month in (1, 9) for hour in (2, 12)
    ]
    assert dated
    for provider, model in dated[:40]:
        for at in (*moments, *reversed(moments)):
            expected = theirs(USAGES[0], model, provider, at)
            found = dollars(pricer.price(USAGES[0], model=model, provider=provider, at=at))
            assert found is None or expected is None or found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("own", [0.0, 0.25, 3])
def test_the_response_s_own_cost_comes_first(tmp_path: Path, own: float) -> None:
    """A cost that the response carries is taken as it is, whatever the tables say."""
    pricer = Pricer(table(tmp_path, {"model": "gpt-4o", "input": 1, "output": 1}))
    found = pricer.price(Usage(1, 1), model="gpt-4o", provider="openai", own_cost=own)
    assert found == Price(own, "provider")


@pytest.mark.parametrize("own", [math.nan, math.inf, -math.inf, -0.01, None])
def test_an_impossible_own_cost_is_passed_over(pricer: Pricer, own: float | None) -> None:
    """A cost that cannot be one does not keep the price list from being asked."""
    found = pricer.price(Usage(1_000, 100), model="gpt-4o", provider="openai", own_cost=own)
    assert found == Price(pytest.approx(0.0035), "genai-prices")


def test_the_user_s_table_comes_before_genai_prices(tmp_path: Path, pricer: Pricer) -> None:
    """A model of the user's table has its price from there, every other one from genai-prices."""
    custom = Pricer(table(tmp_path, {"model": "gpt-4o", "input": 1, "output": 2}))
    usage = Usage(1_000_000, 500_000)
    assert custom.price(usage, model="gpt-4o", provider="openai") == Price(2.0, "custom")
    other = custom.price(usage, model="gpt-4o-mini", provider="openai")
    assert other == pricer.price(usage, model="gpt-4o-mini", provider="openai")
    assert other is not None


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=10),
        Usage(output_tokens=10),
        Usage(10, 10, cache_read_tokens=11),
        Usage(10, 10, cache_read_tokens=6, cache_creation_tokens=5),
        Usage(10, 10, reasoning_tokens=11),
        Usage(-1, 10),
        Usage(10, -1),
        Usage(10, 10, cache_read_tokens=-1),
    ],
)
def test_counts_that_do_not_add_up_have_no_price(pricer: Pricer, tmp_path: Path, usage: Usage) -> None:
    """A missing count that is charged for, and parts that exceed the whole, leave a response unpriced."""
    custom = Pricer(table(tmp_path, {"model": "gpt-4o", "input": 1, "output": 2}))
    for each in (pricer, custom):
        assert each.price(usage, model="gpt-4o", provider="openai") is None


@pytest.mark.parametrize("made", [None, 0])
def test_embeddings_need_no_output_count(pricer: Pricer, made: int | None) -> None:
    """Where output costs nothing, a response without an output count is priced."""
    found = pricer.price(Usage(1_000_000, made), model="text-embedding-3-small", provider="openai")
    assert found == Price(pytest.approx(0.02), "genai-prices")


def test_output_without_a_rate_has_no_price(pricer: Pricer) -> None:
    """Tokens in a direction that has no rate are not taken as free."""
    assert pricer.price(Usage(10, 1), model="text-embedding-3-small", provider="openai") is None


def test_a_model_that_is_not_priced_by_tokens_has_no_price(pricer: Pricer) -> None:
    """Where genai-prices would reckon 0 for want of any rate for tokens, there is no price."""
    unpriced = [
        (provider.id, model.id)
        for provider in providers
        for model in provider.models
        if rates(model, MOMENTS[1]) == (False, False) and provider.find_model(model.id) is model
    ]
    assert unpriced
    for provider, model in unpriced:
        assert pricer.price(USAGES[0], model=model, provider=provider, at=MOMENTS[1]) is None


@pytest.mark.parametrize(
    ("provider", "model", "listed"),
    [
        ("openai", "gpt-4o", ("openai", "gpt-4o")),
        ("openai", "openai/gpt-4o", ("openai", "gpt-4o")),
        ("openai", "gpt-4o-2024-08-06", ("openai", "gpt-4o-2024-08-06")),
        ("OpenAI", "GPT-4o", ("openai", "gpt-4o")),
        ("text-completion-openai", "gpt-4o", ("openai", "gpt-4o")),
        ("azure", "azure/gpt-4o", ("azure", "gpt-4o")),
        ("azure.ai.openai", "azure/gpt-4o-mini", ("azure", "gpt-4o-mini")),
        ("azure_ai", "gpt-4o", ("azure", "gpt-4o")),
        ("anthropic", "claude-3-5-haiku-20241022", ("anthropic", "claude-3-5-haiku-20241022")),
        ("anthropic", "anthropic/claude-3-5-haiku-latest", ("anthropic", "claude-3-5-haiku-latest")),
        (
            "bedrock",
            "us.anthropic.claude-3-haiku-20240307-v1:0",
            ("aws", "anthropic.claude-3-haiku-20240307-v1:0"),
        ),
        ("aws.bedrock", "bedrock/amazon.nova-lite-v1:0", ("aws", "amazon.nova-lite-v1:0")),
        ("vertex_ai", "gemini-2.0-flash", ("google", "gemini-2.0-flash")),
        ("gcp.vertex_ai", "vertex_ai/gemini-2.0-flash", ("google", "gemini-2.0-flash")),
        ("gemini", "gemini/gemini-2.0-flash", ("google", "gemini-2.0-flash")),
        ("gcp.gemini", "gemini-2.0-flash", ("google", "gemini-2.0-flash")),
        ("mistral_ai", "mistral/mistral-large-latest", ("mistral", "mistral-large-latest")),
        ("groq", "groq/llama-3.1-8b-instant", ("groq", "llama-3.1-8b-instant")),
        ("cohere_chat", "command-r-plus", ("cohere", "command-r-plus")),
        ("deepseek", "deepseek-chat", ("deepseek", "deepseek-chat")),
        ("x_ai", "xai/grok-3", ("x-ai", "grok-3")),
        ("openrouter", "openrouter/openai/gpt-4o", ("openrouter", "openai/gpt-4o")),
        ("openrouter", "openai/gpt-4o", ("openrouter", "openai/gpt-4o")),
        (None, "gpt-4o", ("openai", "gpt-4o")),
        (None, "gemini-2.0-flash", ("google", "gemini-2.0-flash")),
        (None, "anthropic/claude-3-5-haiku-latest", ("anthropic", "claude-3-5-haiku-latest")),
        (None, "groq/llama-3.1-8b-instant", ("groq", "llama-3.1-8b-instant")),
        ("", "gpt-4o", ("openai", "gpt-4o")),
    ],
)
def test_providers_and_prefixes_find_their_model(
    pricer: Pricer, provider: str | None, model: str, listed: tuple[str, str]
) -> None:
    """Names of LiteLLM and of OpenTelemetry, and models with a prefix or a date, find the entry meant."""
    usage, at = Usage(1_000, 100, 10), MOMENTS[1]
    expected = theirs(usage, listed[1], listed[0], at)
    assert expected or listed[0] in {"azure", "aws"}, "older price data lists less of these two"
    assert dollars(pricer.price(usage, model=model, provider=provider, at=at)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("ollama", "gpt-4o"),
        ("hosted_vllm", "deepseek-chat"),
        ("my-own-proxy", "claude-3-5-haiku-latest"),
        ("litellm_proxy", "gpt-4o"),
        ("sagemaker", "claude-3-5-haiku-latest"),
        ("openai", "claude-3-5-haiku-latest"),
        ("openai", "anthropic/claude-3-5-haiku-latest"),
        ("openai", "openai/gpt-oss-120b"),
        ("openai", "no-such-model"),
        (None, "gpt-oss-120b"),
        (None, "deepseek-r1"),
        (None, "ollama/llama3"),
        (None, "moonshotai/kimi-k2"),
        (None, "acme/claude-3-5-haiku-latest"),
        (None, "llama-3.1-8b-instant"),
        ("openai", None),
        ("openai", ""),
    ],
)
def test_another_s_price_is_never_taken(pricer: Pricer, provider: str | None, model: str | None) -> None:
    """Neither a provider that is not listed or lacks the model has a price, nor have open weights alone."""
    assert pricer.price(Usage(10, 10), model=model, provider=provider) is None


def test_prices_that_the_application_loaded_are_left_alone(pricer: Pricer) -> None:
    """Only the bundled data counts, even while the application has set a snapshot of its own."""
    data_snapshot.set_custom_snapshot(data_snapshot.DataSnapshot(providers=[], from_auto_update=True))
    try:
        assert theirs(Usage(1, 1), "gpt-4o", "openai") is None
        assert Pricer().price(Usage(1_000, 100), model="gpt-4o", provider="openai") is not None
    finally:
        data_snapshot.set_custom_snapshot(None)


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_genai_prices_is_imported_when_a_price_is_first_looked_up() -> None:
    """Neither importing guardspan nor a response's own cost loads genai-prices; a look-up does."""
    output = run("""
import sys, threading
from guardspan.pricing import Pricer, Usage
pricer = Pricer()
print("genai_prices" in sys.modules)
pricer.price(Usage(1, 1), model="gpt-4o", provider="openai", own_cost=1.0)
pricer.price(Usage(1, 1), model=None, provider="openai")
print("genai_prices" in sys.modules)
pricer.warm()
print("genai_prices.data" in sys.modules, threading.active_count())
""")
    assert output.split() == ["False", "False", "True", "1"]


def test_threads_that_price_first_at_once_all_get_the_price_of_one_import() -> None:
    """Eight threads start together in a fresh process: every one gets the price, the data is loaded once."""
    output = run("""
import sys, threading
from guardspan.pricing import Pricer, Usage
loads = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "genai_prices.data":
            loads.append(name)
sys.meta_path.insert(0, Watch())
pricer, gate, prices = Pricer(), threading.Barrier(8), []
def work():
    gate.wait()
    prices.append(pricer.price(Usage(1_000_000, 0), model="gpt-4o", provider="openai"))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(prices), {price.usd for price in prices}, len(loads))
""")
    assert output.strip() == "8 {2.5} 1"


def test_a_fault_of_the_price_list_is_no_fault_of_the_application(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in genai-prices leaves the response unpriced, is logged once and without content, and heals."""

    def fails(*_: object) -> None:
        raise RuntimeError("secret words")

    pricer = Pricer()
    with monkeypatch.context() as broken:
        broken.setattr(data_snapshot.DataSnapshot, "find_provider_model", fails)
        assert [pricer.price(Usage(1, 1), model="gpt-4o", provider="openai") for _ in range(3)] == [None] * 3
    assert [record.name for record in log.records] == ["guardspan"]
    assert "RuntimeError" in log.text
    assert "secret" not in log.text
    assert pricer.price(Usage(1, 1), model="gpt-4o", provider="openai") is not None


@pytest.mark.parametrize(
    "given",
    [
        {"usage": Usage("many", "few"), "model": "gpt-4o", "provider": "openai"},  # type: ignore[arg-type]
        {"usage": Usage(1, 1), "model": 7, "provider": "openai"},
        {"usage": Usage(1, 1), "model": "gpt-4o", "provider": ["openai"]},
        {"usage": None, "model": "gpt-4o", "provider": "openai"},
        {"usage": Usage(1, 1), "model": "gpt-4o", "provider": "openai", "own_cost": "cheap"},
        {"usage": Usage(10**400, 1), "model": "gpt-4o", "provider": "openai"},
    ],
)
def test_price_never_raises(pricer: Pricer, log: pytest.LogCaptureFixture, given: dict[str, object]) -> None:
    """Whatever a response holds in place of numbers and names, there is no exception and no price."""
    assert pricer.price(**given) is None  # type: ignore[arg-type]


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    """An endless row of model names, found or not, does not grow the process."""
    pricer = Pricer(table(tmp_path, {"model": "mine-*", "input": 1, "output": 1}))
    for number in range(2_500):
        name = f"mine-{number}" if number % 2 else f"nobody-{number}"
        found = pricer.price(Usage(1, 1), model=name, provider="ollama")
        assert (found is not None) == bool(number % 2)
    assert len(pricer._resolved) <= 1_000


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        (Usage(), False),
        (Usage(0, 0, 0, 0, 0), False),
        (Usage(input_tokens=1), True),
        (Usage(0, 5), True),
        (Usage(cache_creation_tokens=2), True),
        (Usage(reasoning_tokens=3), True),
    ],
)
def test_usage_knows_whether_tokens_were_used(usage: Usage, known: bool) -> None:
    """`any` is true as soon as one count is above 0; a count of 0 used nothing."""
    assert usage.any() is known


@pytest.mark.parametrize(
    ("litellm", "expected"),
    [
        ("openai", "openai"),
        ("text-completion-openai", "openai"),
        ("azure", "azure.ai.openai"),
        ("azure_ai", "azure.ai.inference"),
        ("anthropic", "anthropic"),
        ("bedrock", "aws.bedrock"),
        ("vertex_ai", "gcp.vertex_ai"),
        ("vertex_ai_beta", "gcp.vertex_ai"),
        ("gemini", "gcp.gemini"),
        ("cohere_chat", "cohere"),
        ("mistral", "mistral_ai"),
        ("xai", "x_ai"),
        ("watsonx", "ibm.watsonx.ai"),
        ("groq", "groq"),
        ("deepseek", "deepseek"),
        ("perplexity", "perplexity"),
    ],
)
def test_litellm_s_providers_have_their_opentelemetry_names(litellm: str, expected: str) -> None:
    """A provider with a well-known name in the conventions gets that name."""
    assert provider_name(litellm) == expected
    assert expected in {value.value for value in GenAiProviderNameValues}


@pytest.mark.parametrize("name", ["ollama", "hosted_vllm", "openrouter", "aws.bedrock", ""])
def test_other_providers_keep_their_name(name: str) -> None:
    """A provider without a well-known name, or with it already, passes unchanged."""
    assert provider_name(name) == name
