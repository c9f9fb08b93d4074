"""The report as data: what ``guardspan report --json`` prints. ``docs/report-json.md`` describes it.

Absent is null, never 0: an amount is null when nothing of its kind is known, and 0 when it is known to be 0.
Amounts are US dollars, durations seconds, times ISO 8601 in UTC.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, Field

from guardspan.report.faults import Faults
from guardspan.report.reading import Sources

SCHEMA_VERSION = 1
By = Literal["name", "model", "team", "status"]
OTHER = "(other)"
"""The group that takes what is beyond the bound on the number of groups."""


class Statuses(BaseModel):
    """Calls by status."""

    passed: int = Field(0, description="status `pass`")
    failed: int = Field(0, description="status `fail`")
    error: int = Field(0, description="status `error`")
    not_run: int = Field(0, description="status `not run`")
    unknown: int = Field(0, description="no status on the span")


class Tokens(BaseModel):
    """Tokens by type, disjoint: their sum is the total. Null: no Iteration told."""

    input: int | None = Field(None, description="input without its cached parts")
    output: int | None = Field(None, description="output without reasoning")
    cache_read: int | None = Field(None, description="input read from a cache")
    cache_creation: int | None = Field(None, description="input written to a cache")
    reasoning: int | None = Field(None, description="output spent on reasoning")

    def named(self) -> list[tuple[str, int | None]]:
        """Names for people and counts, in the order in which people expect them."""
        return [
            ("input", self.input),
            ("cache read", self.cache_read),
            ("cache written", self.cache_creation),
            ("output", self.output),
            ("reasoning", self.reasoning),
        ]


class Durations(BaseModel):
    """How long something took, in seconds; the quantiles within 2.5 %."""

    mean: float = Field(description="arithmetic mean, seconds")
    p50: float = Field(description="half took no longer, seconds")
    p95: float = Field(description="95 % took no longer, seconds")
    max: float = Field(description="the longest, seconds")


class FailureCount(BaseModel):
    """How often one failure class was met."""

    failure_class: str = Field(description="the class; `(other)` beyond 100 of them")
    iterations: int = Field(description="Iterations that ended in it, retried or not")
    calls: int = Field(description="Calls that ended in it")


class Figures(BaseModel):
    """The figures of one group of Calls, or of all."""

    calls: int = Field(description="Calls")
    statuses: Statuses = Field(description="Calls by status")
    iterations: int = Field(description="Iterations")
    spend_usd: float | None = Field(description="what the priced Iterations cost")
    wasted_usd: float | None = Field(description="the part of it on Iterations whose outcome is `wasted`")
    cost_per_passed_call_usd: float | None = Field(
        description="`spend_usd` by the Calls that passed; too low if `unpriced` or `without_tokens` is not 0"
    )
    tokens: Tokens = Field(description="tokens by type")
    unpriced: int = Field(description="Iterations that used tokens and have no price: missing from the spend")
    without_tokens: int = Field(
        description="Iterations that asked an LLM and have no token counts: missing from tokens and spend"
    )
    llm_calls: int = Field(description="Calls that had an LLM to ask")
    reasked_calls: int = Field(description="Calls with at least one re-ask")
    reask_rate: float | None = Field(description="`reasked_calls` by `llm_calls`")
    limit_reached: int = Field(description="Calls that used up their re-asks without an accepted answer")
    stuck: int = Field(description="Calls with the same failure three or more times in a row")
    stuck_usd: float | None = Field(description="what those cost, by their own sums")
    abandoned: int = Field(description="Calls whose consumer left early")
    redactions: int = Field(description="substrings replaced, on Calls and Iterations")
    redaction_failures: int = Field(description="values dropped because their redaction failed")
    durations: Durations | None = Field(description="of the Calls")
    failures: list[FailureCount] = Field(description="by class, most frequent first")

    @property
    def spend_is_partial(self) -> bool:
        """Whether there is spend, and Iterations are known to be missing from it."""
        return self.spend_usd is not None and bool(self.unpriced or self.without_tokens)


class Group(Figures):
    """The figures of one name, model, team or status."""

    key: str = Field(description="the name, model, team or status; `(other)` beyond 2,000 of them")


class GuardDurations(Durations):
    """How long the Calls of one guard or agent took."""

    name: str = Field(description="the guard's or agent's name; `(other)` beyond 2,000 of them")
    calls: int = Field(description="Calls")


class ValidatorFigures(BaseModel):
    """The figures of one validator."""

    validator: str = Field(description="its name; `(other)` beyond 1,000 of them")
    checks: int = Field(description="Validator spans: one per validator, place and Iteration")
    passed: int = Field(description="checks that passed")
    failed: int = Field(description="checks that failed")
    undecided: int = Field(description="it raised, or never finished")
    durations: Durations = Field(description="of the checks")


class Day(BaseModel):
    """Calls begun and money spent in one day, UTC."""

    day: date | None = Field(description="null: all days beyond 3,660 of them")
    calls: int = Field(description="Calls begun on it")
    used_usd: float | None = Field(description="on Iterations that were used")
    wasted_usd: float | None = Field(description="on Iterations that were wasted")
    other_usd: float | None = Field(description="on Iterations that do not tell their outcome")


class UnpricedModel(BaseModel):
    """A model whose tokens could not be priced."""

    model: str = Field(description="the response's model, else the one asked for; `unknown`")
    provider: str = Field(description="the provider; `unknown`")
    iterations: int = Field(description="Iterations with tokens and no price")


class CallSummary(BaseModel):
    """One Call; `guardspan report --call CALL_ID` shows all of it."""

    call_id: str | None = Field(description="its id; null: the span has none")
    name: str = Field(description="the guard's or agent's name")
    started: datetime = Field(description="when it began")
    status: str = Field(description="`pass`, `fail`, `error`, `not run` or `unknown`")
    iterations: int | None = Field(description="how many Iterations ran")
    cost_usd: float | None = Field(description="what it cost, by its own sum")
    failure_class: str | None = Field(description="why it failed")
    last_failure_class: str | None = Field(description="class of its latest Iteration that has one")
    limit_reached: bool | None = Field(
        description="whether it used up its re-asks without an accepted answer"
    )
    failed_validators: list[str] = Field(description="validators that failed in it, each once")
    trace_id: str = Field(description="its trace")

    @property
    def shown_class(self) -> str | None:
        """The class for people: the Call's own, else what its Iterations failed of, else why it has none."""
        if self.failure_class or self.last_failure_class:
            return self.failure_class or self.last_failure_class
        return "passed with a fix" if self.status == "pass" and self.limit_reached else None


class Report(BaseModel):
    """Everything that `guardspan report` shows."""

    schema_version: Literal[1] = Field(1, description="raised when a field changes its meaning or goes")
    generated: datetime = Field(description="when the report was made")
    since: datetime | None = Field(description="spans that began earlier are left out; null: none")
    first: datetime | None = Field(description="begin of the earliest span; null: no span")
    last: datetime | None = Field(description="end of the latest span")
    sources: Sources = Field(description="what was read")
    faults: Faults = Field(description="what could not be read")
    totals: Figures = Field(description="the figures of all Calls")
    by: By = Field(description="what `groups` are made by")
    groups: list[Group] = Field(description="dearest first")
    slowest_guards: list[GuardDurations] = Field(description="guards and agents by p95, at most 20")
    validators: list[ValidatorFigures] = Field(description="most failures first")
    days: list[Day] = Field(description="oldest first; days without spans are left out")
    unpriced_models: list[UnpricedModel] = Field(description="most Iterations first, at most 100")
    stuck_calls: list[CallSummary] = Field(description="dearest first, at most 20")
    latest_failures: list[CallSummary] = Field(
        description="Calls that ended in `fail` or `error`, latest first, at most 10"
    )
