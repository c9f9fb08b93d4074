"""What a response cost: its own figure, else the user's table, else genai-prices, else nothing.

A wrong price is worse than none. So there is no price when a count that is charged for is not known, when
the parts exceed the whole (a provider that counts cached tokens apart from the input), when tokens were
used in a direction that the price list has no rate for, and when a provider that genai-prices does not know
serves a model of another's. A missing output count is no hindrance where output costs nothing (embeddings).

genai-prices takes up to half a second to import and 65 µs or more to price: it is imported when the first
priced response is seen (or by :meth:`Pricer.warm`), and its rates are looked up once per provider and model.
Python's own import lock keeps that import from happening twice at once.
"""

from __future__ import annotations

import fnmatch
import importlib
import math
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from guardspan import userfile
from guardspan.safety import Quietly, report, tell
from guardspan.tariffs import MILLION, Rates, Source, Tariff, Usage, genai_id, identity_of, listed

__all__ = (
    "ModelRates",
    "Price",
    "PriceTable",
    "Pricer",
    "PricesError",
    "Source",
    "Usage",
    "load_prices",
    "provider_name",
)

_warming = Quietly("load the prices")

_MAX_RESOLVED = 1_000
_UNRESOLVED: Any = object()

_DOLLARS = "give US dollars as a number, 0 or more"
_MENDS = {
    "float_type": _DOLLARS,
    "finite_number": _DOLLARS,
    "greater_than_equal": _DOLLARS,
    "greater_than": "give a whole number above 0",
    "int_type": "give a whole number above 0",
    "string_too_short": "give a name",
    "tuple_type": "give a list of models in brackets",
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
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "google-cloud": "gcp.vertex_ai",
    "grok": "x_ai",
    "cohere_chat": "cohere",
    "mistral": "mistral_ai",
    "codestral": "mistral_ai",
    "text-completion-codestral": "mistral_ai",
    "xai": "x_ai",
    "watsonx": "ibm.watsonx.ai",
    "watsonx_text": "ibm.watsonx.ai",
}


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

    def fits(self, provider: str | None, names: tuple[str, ...]) -> bool:
        """Whether this entry is for one of a model's ``names`` at ``provider`` (an id of genai-prices)."""
        if self.provider is not None and genai_id(self.provider) != provider:
            return False
        wanted = self.model.lower()
        return wanted in names or any(fnmatch.fnmatchcase(name, wanted) for name in names)


class PriceTable(BaseModel):
    """A user's own prices; of several entries that fit a model, the first one counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[ModelRates, ...] = Field(max_length=10_000)
    per: Annotated[int, Field(gt=0, strict=True)] = Field(MILLION, description="tokens that a rate is for")

    @model_validator(mode="after")
    def _names_each_model_once(self) -> PriceTable:
        first: dict[tuple[str, str | None], int] = {}
        for index, entry in enumerate(self.models):
            key = (entry.model.lower(), genai_id(entry.provider) if entry.provider else None)
            if key in first:
                raise ValueError(
                    f"models[{index}] is for the same as models[{first[key]}]; remove one of them"
                )
            first[key] = index
        return self

    def tariff(self, provider: str | None, names: tuple[str, ...]) -> Rates | None:
        """The rates of the first entry that fits."""
        entry = next((entry for entry in self.models if entry.fits(provider, names)), None)
        if entry is None:
            return None
        return Rates(
            "custom",
            input=self._per_million(entry.input),
            output=self._per_million(entry.output),
            cache_read=self._per_million(_either(entry.cache_read, entry.input)) or 0.0,
            cache_creation=self._per_million(_either(entry.cache_creation, entry.input)) or 0.0,
            reasoning=self._per_million(_either(entry.reasoning, entry.output)) or 0.0,
        )

    def _per_million(self, rate: float | None) -> float | None:
        return None if rate is None else rate * (MILLION / self.per)


def _either(first: float | None, second: float | None) -> float | None:
    return second if first is None else first


def load_prices(path: Path) -> PriceTable:
    """Read a user's price table, JSON or TOML.

    Raises:
        PricesError: the file cannot be read or breaks the form; one line per fault.
    """
    try:
        return userfile.load(path, PriceTable, variable="GUARDSPAN_PRICES", mends=_MENDS)
    except userfile.FileFault as error:
        raise PricesError(str(error)) from error.__cause__


class Pricer:
    """Prices responses. Shared by threads; :meth:`price` never raises.

    Args:
        prices_file: a price table of the user's own (``docs/prices.md``). One that cannot be used is
            logged, and left out.
    """

    def __init__(self, prices_file: Path | None = None) -> None:
        self._table: PriceTable | None = None
        self._resolved: dict[tuple[str | None, str], Tariff | None] = {}
        self._warming = False
        if prices_file is not None:
            try:
                self._table = load_prices(prices_file)
            except PricesError as error:
                tell(f"going on without the price table: {error}")

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
        try:
            if own_cost is not None and math.isfinite(own_cost) and own_cost >= 0:
                return Price(float(own_cost), "provider")
            if not model:
                return None
            tariff = self._resolved.get((provider, model), _UNRESOLVED)
            if tariff is _UNRESOLVED:
                tariff = self._resolve(provider, model)
            usd = tariff.cost(usage, at) if tariff is not None else None
            return Price(usd, tariff.source) if usd is not None else None
        except Exception as error:
            report("price a response", error)
            return None

    def warm_soon(self) -> None:
        """Import genai-prices on a thread of its own, once: while the LLM works, not when it has answered."""
        if not self._warming:
            self._warming = True
            threading.Thread(target=self.warm, name="guardspan-prices", daemon=True).start()

    def warm(self) -> None:
        """Import genai-prices now, so that no response has to wait for it; takes up to a second once."""
        with _warming:
            importlib.import_module("genai_prices.data")

    def _resolve(self, provider: str | None, model: str) -> Tariff | None:
        identity, names = identity_of(provider, model.lower())
        tariff: Tariff | None = None
        if self._table is not None:
            tariff = self._table.tariff(identity, names)
        if tariff is None:
            tariff = listed(identity, names)
        if len(self._resolved) >= _MAX_RESOLVED:
            self._resolved = {}
        self._resolved[(provider, model)] = tariff
        return tariff


def provider_name(library_name: str) -> str:
    """A library's name of a provider as OpenTelemetry's ``gen_ai.provider.name``; an unknown one stays."""
    return _OTEL_NAMES.get(library_name, library_name)
