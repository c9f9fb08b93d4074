"""Sums over spans. Each keeps a bounded amount, however many spans are added.

Money is summed as decimals made of each double's shortest text (0.1 counts as 0.1), with 50 digits: a sum
does not depend on the order, and agrees with a sum done by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Context, Decimal

from guardspan import semconv
from guardspan.report.model import OTHER, Durations, FailureCount, Figures, Statuses, Tokens
from guardspan.report.records import CallSpan, IterationSpan, Spent

_EXACT = Context(prec=50, traps=[])
_GROWTH = math.log(1.05)
_LEAST, _MOST = 1e-6, 1e7  # seconds; shorter and longer ones share the outermost buckets
_MAX_CLASSES = 100
_STATUS_FIELDS = {
    semconv.PASS: "passed",
    semconv.FAIL: "failed",
    semconv.ERROR: "error",
    semconv.NOT_RUN: "not_run",
}


class Money:
    """An exact sum of US dollars; None as long as nothing was added."""

    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum: Decimal | None = None

    def add(self, usd: float) -> None:
        """Add an amount."""
        self._sum = _EXACT.add(self._sum or Decimal(), Decimal(repr(usd)))

    @property
    def known(self) -> bool:
        """Whether any amount was added."""
        return self._sum is not None

    @property
    def usd(self) -> float | None:
        """The sum; None when nothing was added."""
        return None if self._sum is None else float(self._sum)

    def by(self, count: int) -> float | None:
        """The sum divided; None when there is no sum or nothing to divide by."""
        return None if self._sum is None or not count else float(_EXACT.divide(self._sum, Decimal(count)))


class Sketch:
    """Durations in buckets that grow by 5 %: quantiles within 2.5 %, at most 614 buckets."""

    __slots__ = ("_buckets", "count", "longest", "shortest", "total")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.longest = 0.0
        self.shortest = math.inf

    def add(self, seconds: float) -> None:
        """Add a duration."""
        bucket = math.ceil(math.log(min(max(seconds, _LEAST), _MOST)) / _GROWTH)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)
        self.shortest = min(self.shortest, seconds)

    def _quantile(self, percent: int) -> float:
        """By nearest rank: the least duration that so many per cent of all do not exceed."""
        rank = -(-percent * self.count // 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                middle = math.exp((bucket - 0.5) * _GROWTH)
                return min(max(middle, self.shortest), self.longest)
        return self.longest

    def durations(self) -> Durations | None:
        """Mean, quantiles and maximum; None when nothing was added."""
        if not self.count:
            return None
        return Durations(
            mean=self.total / self.count, p50=self._quantile(50), p95=self._quantile(95), max=self.longest
        )


@dataclass(slots=True)
class TokenSums:
    """Tokens by type, disjoint."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None
    reasoning: int | None = None

    def add(self, span: Spent) -> bool:
        """Add the tokens of a span; False when its parts are more than the whole, whose rest is then 0."""
        cached = (span.cache_read_tokens or 0) + (span.cache_creation_tokens or 0)
        reasoning = span.reasoning_tokens or 0
        fits = True
        if span.input_tokens is not None:
            fits = span.input_tokens >= cached
            self.input = (self.input or 0) + max(span.input_tokens - cached, 0)
        if span.output_tokens is not None:
            fits = fits and span.output_tokens >= reasoning
            self.output = (self.output or 0) + max(span.output_tokens - reasoning, 0)
        self.cache_read = _plus(self.cache_read, span.cache_read_tokens)
        self.cache_creation = _plus(self.cache_creation, span.cache_creation_tokens)
        self.reasoning = _plus(self.reasoning, span.reasoning_tokens)
        return fits

    def tokens(self) -> Tokens:
        """The sums as data."""
        return Tokens(
            input=self.input,
            output=self.output,
            cache_read=self.cache_read,
            cache_creation=self.cache_creation,
            reasoning=self.reasoning,
        )


def _plus(total: int | None, count: int | None) -> int | None:
    return total if count is None else (total or 0) + count


@dataclass(slots=True)
class GroupSums:
    """The sums of one group of Calls and Iterations."""

    calls: int = 0
    iterations: int = 0
    unpriced: int = 0
    unpriced_wasted: int = 0
    without_tokens: int = 0
    llm_calls: int = 0
    reasked_calls: int = 0
    limit_reached: int = 0
    stuck: int = 0
    abandoned: int = 0
    redactions: int = 0
    redaction_failures: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    spend: Money = field(default_factory=Money)
    wasted: Money = field(default_factory=Money)
    stuck_cost: Money = field(default_factory=Money)
    tokens: TokenSums = field(default_factory=TokenSums)
    durations: Sketch = field(default_factory=Sketch)
    failures: dict[str, list[int]] = field(default_factory=dict)

    def add_call(self, call: CallSpan) -> None:
        """Add a Call. What it cost comes from its Iterations, so that nothing counts twice."""
        self.calls += 1
        status = _STATUS_FIELDS.get(call.status or "", "unknown")
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.durations.add(call.seconds)
        self.limit_reached += call.limit_reached is True
        self.abandoned += call.abandoned is True
        if call.stuck:
            self.stuck += 1
            if call.cost_usd is not None:
                self.stuck_cost.add(call.cost_usd)
        self._add_common(call, 1)

    def add_iteration(self, iteration: IterationSpan) -> bool:
        """Add an Iteration; False when its token counts do not fit together."""
        self.iterations += 1
        wasted = iteration.outcome == "wasted"
        if iteration.cost_usd is not None:
            self.spend.add(iteration.cost_usd)
            if wasted:
                self.wasted.add(iteration.cost_usd)
        elif iteration.has_tokens:
            self.unpriced += 1
            self.unpriced_wasted += wasted
        self.without_tokens += iteration.lacks_tokens
        self._add_common(iteration, 0)
        return self.tokens.add(iteration)

    def _add_common(self, span: Spent, column: int) -> None:
        self.redactions += span.redactions or 0
        self.redaction_failures += span.redaction_failures or 0
        if span.failure_class is not None:
            name = span.failure_class
            if name not in self.failures and len(self.failures) >= _MAX_CLASSES:
                name = OTHER
            self.failures.setdefault(name, [0, 0])[column] += 1

    def _wasted_usd(self) -> float | None:
        """0 is told only where it is known: money was spent, and none of what was wasted lacks a price."""
        if self.wasted.known or not self.spend.known or self.unpriced_wasted:
            return self.wasted.usd
        return 0.0

    def figures(self) -> Figures:
        """The sums as data."""
        return Figures(
            calls=self.calls,
            statuses=Statuses(**self.statuses),
            iterations=self.iterations,
            spend_usd=self.spend.usd,
            wasted_usd=self._wasted_usd(),
            cost_per_passed_call_usd=self.spend.by(self.statuses.get("passed", 0)),
            tokens=self.tokens.tokens(),
            unpriced=self.unpriced,
            without_tokens=self.without_tokens,
            llm_calls=self.llm_calls,
            reasked_calls=self.reasked_calls,
            reask_rate=self.reasked_calls / self.llm_calls if self.llm_calls else None,
            limit_reached=self.limit_reached,
            stuck=self.stuck,
            stuck_usd=self.stuck_cost.usd,
            abandoned=self.abandoned,
            redactions=self.redactions,
            redaction_failures=self.redaction_failures,
            durations=self.durations.durations(),
            failures=self._failures(),
        )

    def _failures(self) -> list[FailureCount]:
        counts = [
            FailureCount(failure_class=name, iterations=iterations, calls=calls)
            for name, (iterations, calls) in self.failures.items()
        ]
        return sorted(counts, key=lambda entry: (-entry.iterations, -entry.calls, entry.failure_class))
