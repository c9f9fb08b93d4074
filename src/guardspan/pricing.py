"""What a response cost: its own figure, else the user's table, else genai-prices, else nothing.

A wrong price is worse than none. So there is no price when a count that is charged for is not known, when
the parts exceed the whole (a provider that counts cached tokens apart from the input), when tokens were
used in a direction that the price list has no rate for, and when a provider that genai-prices does not know
serves a model of another's. A missing output count is no hindrance where output costs nothing (embeddings).

genai-prices takes half a second to import and 65 µs or more to price: it is imported when the first priced
response is seen (or by :meth:`Pricer.warm`), and its rates are looked up once per provider and model.
Python's own import lock keeps that import from happening twice at once. Only its bundled prices are used:
no download, and none of what an application may have set through ``genai_prices.UpdatePrices``.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from guardspan.safety import Quietly

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

_log = logging.getLogger("guardspan")
_pricing = Quietly("price a response")
_warming = Quietly("load the prices")

Source = Literal["provider", "genai-prices", "custom"]

_MILLION = 1_000_000
_MAX_RESOLVED = 1_000
_MAX_FILE_BYTES = 10_000_000
_UNRESOLVED: Any = object()

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
    "github_copilot": "github-copilot",
}
_OTEL_NAMES = {
    "text-completion-openai": "openai",
    "azure": "azure.ai.openai",
    "azure_text": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "anthropic_text": "anthropic",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "bedrock_mantle": "aws.bedrock",
    "vertex_ai": "gcp.vertex_ai",
    "vertex_ai_beta": "gcp.vertex_ai",
    "gemini": "gcp.gemini",
    "cohere_chat": "cohere",
    "mistral": "mistral_ai",
    "codestral": "mistral_ai",
    "text-completion-codestral": "mistral_ai",
    "xai": "x_ai",
    "watsonx": "ibm.watsonx.ai",
    "watsonx_text": "ibm.watsonx.ai",
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


@dataclass(frozen=True, slots=True)
class Price:
    """What a response cost in US dollars, and who says so."""

    usd: float
    source: Source


class PricesError(ValueError):
    """A price table that cannot be used; the message names the file, the field and the mend."""


Rate = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class ModelRates(BaseModel):
    """One entry of a user's price table; rates in US dollars per ``PriceTable.per`` tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1, max_length=256, description="a model's name, or a glob such as `acme-*`")
    provider: str | None = Field(None, min_length=1, max_length=64, description="any provider when left out")
    input: Rate | None = Field(None, description="input tokens")
    output: Rate | None = Field(None, description="output tokens; left out for embeddings")
    cache_read: Rate | None = Field(None, description="input read from a cache; as `input` when left out")
    cache_creation: Rate | None = Field(
        None, description="input written to a cache; as `input` when left out"
    )
    reasoning: Rate | None = Field(None, description="output spent on reasoning; as `output` when left out")

    @model_validator(mode="after")
    def _charges_for_something(self) -> ModelRates:
        if self.input is None and self.output is None:
            raise ValueError("has neither `input` nor `output`; give at least one")
        if self.input is None and (self.cache_read is not None or self.cache_creation is not None):
            raise ValueError("has a cache price but no `input`; give it")
        if self.output is None and self.reasoning is not None:
            raise ValueError("has `reasoning` but no `output`; give it")
        return self

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(fnmatch.translate(self.model.lower()))

    def fits(self, provider: str | None, names: tuple[str, ...]) -> bool:
        """Whether this entry is for one of a model's ``names`` at ``provider`` (an id of genai-prices)."""
        if self.provider is not None and _genai_id(self.provider) != provider:
            return False
        return any(self._pattern.match(name) for name in names)


class PriceTable(BaseModel):
    """A user's own prices; of several entries that fit a model, the first one counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[ModelRates, ...] = Field(max_length=10_000)
    per: Annotated[int, Field(gt=0, strict=True)] = Field(_MILLION, description="tokens that a rate is for")

    def tariff(self, provider: str | None, names: tuple[str, ...]) -> _Rates | None:
        """The rates of the first entry that fits."""
        entry = next((entry for entry in self.models if entry.fits(provider, names)), None)
        if entry is None:
            return None
        return _Rates(
            "custom",
            input=self._per_token(entry.input),
            output=self._per_token(entry.output),
            cache_read=self._per_token(_either(entry.cache_read, entry.input)) or 0.0,
            cache_creation=self._per_token(_either(entry.cache_creation, entry.input)) or 0.0,
            reasoning=self._per_token(_either(entry.reasoning, entry.output)) or 0.0,
        )

    def _per_token(self, rate: float | None) -> float | None:
        return None if rate is None else rate / self.per


def _either(first: float | None, second: float | None) -> float | None:
    return second if first is None else first


def load_prices(path: Path) -> PriceTable:
    """Read a user's price table.

    Raises:
        PricesError: the file cannot be read, is no JSON, or breaks the form; one line per fault.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PricesError(f"{path}: cannot be read ({error.strerror}); mend GUARDSPAN_PRICES") from error
    if len(content) > _MAX_FILE_BYTES:
        raise PricesError(f"{path}: is larger than {_MAX_FILE_BYTES} bytes; is it a price table?")
    try:
        return PriceTable.model_validate(json.loads(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise PricesError(f"{path}: is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise PricesError(f"{path}: is no JSON at {place} ({error.msg}); mend it there") from error
    except ValidationError as error:
        faults = [f"{path}: {_place(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise PricesError("\n".join(faults)) from error
    except RecursionError as error:
        raise PricesError(f"{path}: is nested too deeply; is it a price table?") from error


def _place(location: tuple[int | str, ...]) -> str:
    """``models[0].input``; a key of the user's own that is no plain name is quoted and escaped."""
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            place += f".{part}" if part.isidentifier() and part.isascii() else f".{ascii(part)[:64]}"
    return place.lstrip(".") or "the whole"


class Pricer:
    """Prices responses. Shared by threads; :meth:`price` never raises.

    Args:
        prices_file: a price table of the user's own (``docs/prices.md``). One that cannot be used is
            logged, and left out.
    """

    def __init__(self, prices_file: Path | None = None) -> None:
        self._table: PriceTable | None = None
        self._resolved: dict[tuple[str | None, str], _Tariff | None] = {}
        if prices_file is not None:
            try:
                self._table = load_prices(prices_file)
            except PricesError as error:
                _log.error("going on without the price table: %s", error)

    def price(
        self,
        usage: Usage,
        *,
        model: str | None,
        provider: str | None,
        own_cost: float | None = None,
        at: datetime | None = None,
    ) -> Price | None:
        """The price of one response, None when it cannot be known.

        Args:
            usage: what it used.
            model: the model's name, with or without a prefix such as ``openai/``.
            provider: who served it, as LiteLLM or OpenTelemetry call it; None when not known.
            own_cost: US dollars, where the response itself tells.
            at: when it was asked for (now when None): some prices depend on the date or the time of day.
        """
        with _pricing:
            if own_cost is not None and math.isfinite(own_cost) and own_cost >= 0:
                return Price(float(own_cost), "provider")
            if not model:
                return None
            tariff = self._resolved.get((provider, model), _UNRESOLVED)
            if tariff is _UNRESOLVED:
                tariff = self._resolve(provider, model)
            usd = tariff.cost(usage, at) if tariff is not None else None
            return Price(usd, tariff.source) if usd is not None else None
        return None

    def warm(self) -> None:
        """Import genai-prices now, so that no response has to wait for it; takes up to a second once."""
        with _warming:
            from genai_prices import data as _  # noqa: F401

    def _resolve(self, provider: str | None, model: str) -> _Tariff | None:
        identity, names = _identity(provider, model.lower())
        tariff: _Tariff | None = None
        if self._table is not None:
            tariff = self._table.tariff(identity, names)
        if tariff is None:
            tariff = _listed(identity, names)
        if len(self._resolved) >= _MAX_RESOLVED:
            self._resolved = {}
        self._resolved[(provider, model)] = tariff
        return tariff


def provider_name(litellm_name: str) -> str:
    """LiteLLM's name of a provider as an OpenTelemetry ``gen_ai.provider.name``; an unknown one unchanged."""
    return _OTEL_NAMES.get(litellm_name, litellm_name)


def _genai_id(provider: str) -> str:
    name = provider.lower().strip()
    return _GENAI_IDS.get(name, name)


def _identity(provider: str | None, model: str) -> tuple[str | None, tuple[str, ...]]:
    """The provider's id, and the names by which the model may be listed: as given, and without its prefix.

    A prefix stands in for a provider that is not known only if it is a router's name, not a mere
    organisation's as in ``moonshotai/Kimi-K2``: those weights may be served by anyone.
    """
    prefix, slash, rest = model.partition("/")
    identity = _genai_id(provider) if provider else None
    of_prefix = _genai_id(prefix)
    if identity is None and slash and (prefix in _GENAI_IDS or of_prefix in _CLOSED):
        identity = of_prefix
    if rest and of_prefix == identity:
        return identity, (model, rest)
    return identity, (model,)


class _Tariff(Protocol):
    """Something that knows what tokens cost."""

    @property
    def source(self) -> Source: ...

    def cost(self, usage: Usage, at: datetime | None) -> float | None: ...


@dataclass(frozen=True, slots=True)
class _Rates:
    """Flat rates in US dollars per token, and per request; input or output is None where it has no rate."""

    source: Source
    input: float | None
    output: float | None
    cache_read: float
    cache_creation: float
    reasoning: float
    request: float = 0.0

    def cost(self, usage: Usage, at: datetime | None) -> float | None:
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
            + self.request
        )


def _counts(usage: Usage, input_rate: bool, output_rate: bool) -> tuple[int, int, int, int, int] | None:
    """Input, output, cache read, cache creation, reasoning; None where they cannot be priced rightly."""
    taken, made = usage.input_tokens, usage.output_tokens
    if (taken is None and input_rate) or (made is None and output_rate):
        return None
    taken, made = taken or 0, made or 0
    read, created = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    thought = usage.reasoning_tokens or 0
    if read + created > taken or thought > made or min(read, created, thought) < 0:
        return None
    if (taken and not input_rate) or (made and not output_rate):
        return None
    return taken, made, read, created, thought


class _Tiered:
    """A price of genai-prices that depends on how many tokens were used; genai-prices itself works it out."""

    source: Source = "genai-prices"

    def __init__(self, prices: ModelPrice) -> None:
        self._prices = prices

    def cost(self, usage: Usage, at: datetime | None) -> float | None:
        counts = _counts(usage, _charges(self._prices, "input"), _charges(self._prices, "output"))
        return None if counts is None else float(_total(self._prices, *counts))


class _Dated:
    """A model of genai-prices whose price depends on the date or the time of day."""

    source: Source = "genai-prices"

    def __init__(self, model: ModelInfo) -> None:
        self._model = model
        self._last: tuple[ModelPrice, _Tariff | None] | None = None

    def cost(self, usage: Usage, at: datetime | None) -> float | None:
        prices = self._model.get_prices(at or datetime.now(timezone.utc))
        last = self._last
        if last is None or last[0] is not prices:
            last = self._last = (prices, _tariff(prices))
        return last[1].cost(usage, at) if last[1] is not None else None


def _listed(provider: str | None, names: tuple[str, ...]) -> _Tariff | None:
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
    for name in names:
        try:
            # A snapshot of its own each time, since it keeps whatever name it was ever asked for.
            snapshot = DataSnapshot(providers=providers, from_auto_update=False)
            listed, model = snapshot.find_provider_model(name, None, provider, None)
        except LookupError:
            continue
        if listed.id == "openai" and name.startswith(_OPEN_WEIGHTS):
            continue
        if provider is not None or listed.id in _CLOSED:
            yield model


def _tariff(prices: ModelPrice) -> _Tariff | None:
    """Rates of a price, measured by what genai-prices makes of a million tokens of each kind."""
    from genai_prices.types import TieredPrices

    charges_input, charges_output = _charges(prices, "input"), _charges(prices, "output")
    if not charges_input and not charges_output:
        return None
    if any(isinstance(rate, TieredPrices) for rate in vars(prices).values()):
        return _Tiered(prices)
    request = _total(prices)

    def per_token(*counts: int) -> float:
        return float((_total(prices, *counts) - request) / _MILLION)

    return _Rates(
        "genai-prices",
        input=per_token(_MILLION) if charges_input else None,
        output=per_token(0, _MILLION) if charges_output else None,
        cache_read=per_token(_MILLION, 0, _MILLION),
        cache_creation=per_token(_MILLION, 0, 0, _MILLION),
        reasoning=per_token(0, _MILLION, 0, 0, _MILLION),
        request=float(request),
    )


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
