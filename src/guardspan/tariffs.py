"""What tokens cost: flat rates, and what genai-prices lists of a model.

Only the bundled prices of genai-prices are used: no download, and none of what an application may have set
through ``genai_prices.UpdatePrices``.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

Source = Literal["provider", "genai-prices", "custom"]
"""Who says what a response cost."""

MILLION = 1_000_000

# Names of LiteLLM and of OpenTelemetry, to ids of genai-prices; a name that is such an id needs no entry.
_GENAI_IDS = {
    "text-completion-openai": "openai",
    "azure": "azure",
    "azure_text": "azure",
    "azure_ai": "azure",
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "az.ai.openai": "azure",
    "az.ai.inference": "azure",
    "anthropic_text": "anthropic",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "aws.bedrock": "aws",
    "aws_bedrock": "aws",
    "vertex_ai": "google",
    "vertex_ai_beta": "google",
    "gemini": "google",
    "gcp.vertex_ai": "google",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "mistral_ai": "mistral",
    "cohere_chat": "cohere",
    "xai": "x-ai",
    "x_ai": "x-ai",
    "groq": "groq",
    "deepseek": "deepseek",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "moonshot": "moonshotai",
    "voyage": "voyageai",
}
# Whose models nobody else serves at a price of their own, so that a model's name alone tells its price.
_CLOSED = frozenset({"openai", "anthropic", "google", "x-ai"})
# Listed under OpenAI, which does not serve them: behind an OpenAI-compatible server they cost something else.
_OPEN_WEIGHTS = "gpt-oss"


@dataclass(frozen=True, slots=True)
class Usage:
    """The LLM's own counts; None means not known. Input includes its cached parts, output its reasoning."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None

    def any(self) -> bool:
        """Whether any tokens were used: a count is above 0."""
        return bool(
            self.input_tokens
            or self.output_tokens
            or self.cache_read_tokens
            or self.cache_creation_tokens
            or self.reasoning_tokens
        )


def genai_id(provider: str) -> str:
    """The id that genai-prices has for a provider, given as LiteLLM or OpenTelemetry call it."""
    name = provider.lower().strip()
    return _GENAI_IDS.get(name, name)


def identity_of(provider: str | None, model: str) -> tuple[str | None, tuple[str, ...]]:
    """The provider's id, and the names by which the model may be listed: as given, and without its prefix.

    A prefix stands in for a provider that is not known only if it is a router's name, not a mere
    organisation's as in ``moonshotai/Kimi-K2``: those weights may be served by anyone.
    """
    prefix, slash, rest = model.partition("/")
    of_prefix = genai_id(prefix)
    identity = genai_id(provider) if provider else None
    if not identity and slash and (prefix in _GENAI_IDS or of_prefix in _CLOSED):
        identity = of_prefix
    if rest and of_prefix == identity:
        return identity, (model, rest)
    return identity, (model,)


class Tariff(Protocol):
    """Something that knows what tokens cost."""

    @property
    def source(self) -> Source:
        """Whose price it is."""

    def cost(self, usage: Usage, at: datetime | None) -> float | None:
        """US dollars for what was used at a time (now when None); None when that cannot be priced rightly."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Flat rates in US dollars per million tokens; input or output is None where it has no rate."""

    source: Source
    input: float | None
    output: float | None
    cache_read: float
    cache_creation: float
    reasoning: float
    per_request: float = 0.0
    """US dollars for the request itself."""

    def cost(self, usage: Usage, at: datetime | None) -> float | None:
        """US dollars for what was used; None when that cannot be priced rightly."""
        counts = _counts(usage, self.input is not None, self.output is not None)
        if counts is None:
            return None
        taken, made, read, created, thought = counts
        return (
            (taken - read - created) * (self.input or 0.0)
            + read * self.cache_read
            + created * self.cache_creation
            + (made - thought) * (self.output or 0.0)
            + thought * self.reasoning
        ) / MILLION + self.per_request


def _counts(usage: Usage, input_rate: bool, output_rate: bool) -> tuple[int, int, int, int, int] | None:
    """Input, output, cache read, cache creation, reasoning; None where they cannot be priced rightly.

    That is: a count that is charged for is missing, one is there that has no rate, or parts exceed the whole.
    """
    taken, made = usage.input_tokens, usage.output_tokens
    if (taken is None or not input_rate) and (taken or input_rate):
        return None
    if (made is None or not output_rate) and (made or output_rate):
        return None
    taken, made = taken or 0, made or 0
    read, created = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    thought = usage.reasoning_tokens or 0
    if read < 0 or created < 0 or read + created > taken or not 0 <= thought <= made:
        return None
    return taken, made, read, created, thought


class _Listed:
    """A price of genai-prices whose rates may depend on how many input tokens were used.

    Between two tiers it is flat. Those rates are measured, by what genai-prices makes of some counts, and
    checked; where they do not hold, genai-prices itself works out every price.
    """

    source: Source = "genai-prices"

    def __init__(self, prices: ModelPrice, starts: list[int]) -> None:
        self._prices = prices
        self._starts = starts
        self._rates: list[Rates | None] = [
            _measured(prices, low + 1, high)
            for low, high in itertools.pairwise([0, *starts, max(starts, default=0) + MILLION])
        ]

    def cost(self, usage: Usage, at: datetime | None) -> float | None:
        rates = self._rates[bisect.bisect_left(self._starts, usage.input_tokens or 0)]
        if rates is not None:
            return rates.cost(usage, at)
        counts = _counts(usage, _charges(self._prices, "input"), _charges(self._prices, "output"))
        return None if counts is None else float(_total(self._prices, *counts))


class _Dated:
    """A model of genai-prices whose price depends on the date or the time of day."""

    source: Source = "genai-prices"

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._last: tuple[ModelPrice, Tariff | None] | None = None

    def cost(self, usage: Usage, at: datetime | None) -> float | None:
        prices = self._model.get_prices(at or datetime.now(timezone.utc))
        last = self._last
        if last is None or last[0] is not prices:
            last = self._last = (prices, _tariff(prices))
        return last[1].cost(usage, at) if last[1] is not None else None


def listed(provider: str | None, names: tuple[str, ...]) -> Tariff | None:
    """What genai-prices lists of a model; None when it does not list it."""
    model = next(_found(provider, names), None)
    if model is None:
        return None
    prices = model.prices
    return _Dated(model) if isinstance(prices, list) else _tariff(prices)


def _found(provider: str | None, names: tuple[str, ...]) -> Iterator[ModelInfo]:
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    if provider is not None and all(listed.id != provider for listed in providers):
        return
    if provider is None and "/" in names[0]:
        return
    for name in names:
        try:
            # A snapshot of its own each time, since it keeps whatever name it was ever asked for.
            snapshot = DataSnapshot(providers=providers, from_auto_update=False)
            listed, model = snapshot.find_provider_model(name, None, provider, None)
        except LookupError:
            continue
        if listed.id == "openai" and _OPEN_WEIGHTS in name:
            continue
        if provider is not None or listed.id in _CLOSED:
            yield model


def _tariff(prices: ModelPrice) -> Tariff | None:
    """What a price of genai-prices comes to; None when it has no rate for tokens."""
    from genai_prices.types import TieredPrices

    if not _charges(prices, "input") and not _charges(prices, "output"):
        return None
    tiered = [rate for rate in vars(prices).values() if isinstance(rate, TieredPrices)]
    starts = {tier.start for rate in tiered for tier in rate.tiers}
    flat = None if starts else _measured(prices, 1, MILLION)
    return flat or _Listed(prices, sorted(starts))


def _measured(prices: ModelPrice, low: int, high: int) -> Rates | None:
    """The flat rates of a price from ``low`` to ``high`` input tokens; None when it is not flat there."""
    if low >= high:
        return None
    base = _total(prices, low)

    def per_million(count: int, *counts: int) -> Decimal:
        return (_total(prices, *counts) - base) * MILLION / count

    taken = per_million(high - low, high)
    rates = Rates(
        "genai-prices",
        input=float(taken) if _charges(prices, "input") else None,
        output=float(per_million(MILLION, low, MILLION)) if _charges(prices, "output") else None,
        cache_read=float(taken + per_million(low, low, 0, low)),
        cache_creation=float(taken + per_million(low, low, 0, 0, low)),
        reasoning=float(per_million(MILLION, low, MILLION, 0, 0, MILLION)),
        per_request=float(base - taken * low / MILLION),
    )
    return rates if _hold(rates, prices, low, high) else None


def _hold(rates: Rates, prices: ModelPrice, low: int, high: int) -> bool:
    """Whether rates agree with genai-prices between ``low`` and ``high``, for few and many of every kind."""
    middle = (low + high) // 2
    for taken, made, read, created, thought in (
        (low, MILLION, low // 2, low // 3, 0),
        (middle, 1_000, 0, 0, 500),
        (middle, MILLION, middle, 0, MILLION),
        (high, 1_000, 0, high, 0),
        (high, MILLION, high // 2, high // 3, 1_000),
    ):
        counts = (taken, made, read, created, thought)
        if rates.output is None:
            counts = (taken, 0, read, created, 0)
        cost = rates.cost(Usage(*counts), None)
        if cost is None or not math.isclose(cost, _total(prices, *counts), rel_tol=1e-12, abs_tol=1e-18):
            return False
    return True


def _charges(prices: ModelPrice, direction: Literal["input", "output"]) -> bool:
    return getattr(prices, f"{direction}_mtok", None) is not None


def _total(
    prices: ModelPrice, taken: int = 0, made: int = 0, read: int = 0, created: int = 0, thought: int = 0
) -> Decimal:
    """US dollars by genai-prices' own reckoning."""
    from genai_prices import Usage as GenaiUsage

    counts = {"input_tokens": taken, "output_tokens": made}
    counts |= {"cache_read_tokens": read, "cache_write_tokens": created}
    if getattr(prices, "output_reasoning_mtok", None) is not None:
        counts["output_reasoning_tokens"] = thought
    total: Decimal = prices.calc_price(GenaiUsage(**counts))["total_price"]
    return total
