"""One pass over the spans of ours, and the report of them.

Spend, waste, tokens and unpriced come from Iterations, statuses and durations from Calls, checks from
Validators; nothing is counted at two levels. An Iteration whose Call is missing still counts.

Groups, by ``--by``:

* ``name``, ``team``: each span by its own.
* ``model``: an Iteration by its response's model, else the one asked for. A Call by the model of its last
  Iteration that has one, so that Calls and what they cost stand in one row; else by the model asked for.
* ``status``: a Call by its own, an Iteration by its Call's, so that the row tells what such Calls cost.

The last two, and the re-ask rate, need a Call and its Iterations together. Iterations end first, so
what they tell is kept until their Call comes: for 50,000 Calls at most, with 64 Iterations each where
they must wait for a status; beyond, they count as ``unknown``.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Generic, TypeVar

from guardspan import semconv
from guardspan.report.faults import Faults
from guardspan.report.figures import GroupSums, Money, Sketch
from guardspan.report.model import (
    OTHER,
    By,
    CallSummary,
    Day,
    Durations,
    Group,
    GuardDurations,
    Report,
    UnpricedModel,
    ValidatorFigures,
)
from guardspan.report.reading import Sources, SpanFiles
from guardspan.report.records import CallSpan, IterationSpan, Span, ValidatorSpan

UNKNOWN = "unknown"
NO_TEAM = "none"
MAX_GROUPS = 2_000
MAX_VALIDATORS = 1_000
MAX_DAYS = 3_660
_MAX_CALLS_KEPT = 50_000
_MAX_WAITING = 64
_MAX_MODELS = 100
_MOST_GUARDS = 20
_MOST_STUCK = 20
_MOST_FAILURES = 10
_OTHER_DAYS = 10**6
_DAY_NS = 86_400 * 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WITHOUT_LLM = {"parse", "validate"}

K = TypeVar("K")
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """A dictionary that makes missing entries, up to a bound; beyond it, all share the entry ``other``."""

    def __init__(self, make: type[V], bound: int, other: K) -> None:
        self._make = make
        self._bound = bound
        self._other = other
        self.entries: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        found = self.entries.get(key)
        if found is None:
            if len(self.entries) >= self._bound:
                key = self._other
            found = self.entries.setdefault(key, self._make())
        return found


@dataclass(slots=True)
class _Checks:
    passed: int = 0
    failed: int = 0
    undecided: int = 0
    durations: Sketch = field(default_factory=Sketch)


@dataclass(slots=True)
class _DaySums:
    calls: int = 0
    used: Money = field(default_factory=Money)
    wasted: Money = field(default_factory=Money)
    other: Money = field(default_factory=Money)


@dataclass(slots=True)
class _Count:
    count: int = 0


@dataclass(slots=True)
class _Joined:
    """What a Call and its Iterations tell each other."""

    group: GroupSums | None = None
    """Where the Call was counted; None until it comes."""
    model: str | None = None
    llm: bool = False
    asked_llm: bool = False
    """Whether the Call was entered where the library asks an LLM, not given a text."""
    reasked: bool = False
    lacking: list[GroupSums | None] = field(default_factory=list)
    """Groups of the Iterations without token counts that asked an LLM if the Call did; None: the Call's."""
    last_failure: tuple[int, str] | None = None
    """When its latest Iteration with a failure class began, and the class."""
    waiting: list[IterationSpan] = field(default_factory=list)


class Aggregator:
    """Sums over spans, added one by one in any order."""

    def __init__(self, by: By = "name", calls_kept: int = _MAX_CALLS_KEPT) -> None:
        self.by = by
        self.token_faults = 0
        self._calls_kept = calls_kept
        self._first_ns: int | None = None
        self._last_ns = 0
        self._totals = GroupSums()
        self._groups: Bounded[str, GroupSums] = Bounded(GroupSums, MAX_GROUPS, OTHER)
        self._guards: Bounded[str, Sketch] = Bounded(Sketch, MAX_GROUPS, OTHER)
        self._validators: Bounded[str, _Checks] = Bounded(_Checks, MAX_VALIDATORS, OTHER)
        self._days: Bounded[int, _DaySums] = Bounded(_DaySums, MAX_DAYS, _OTHER_DAYS)
        self._unpriced: Bounded[tuple[str, str], _Count] = Bounded(_Count, _MAX_MODELS, (OTHER, OTHER))
        self._joined: OrderedDict[str, _Joined] = OrderedDict()
        self._stuck = _Top(_MOST_STUCK)
        self._failures = _Top(_MOST_FAILURES)

    def add(self, span: Span) -> None:
        """Add a span."""
        if self._first_ns is None or span.start_ns < self._first_ns:
            self._first_ns = span.start_ns
        self._last_ns = max(self._last_ns, span.end_ns)
        if isinstance(span, CallSpan):
            self._add_call(span)
        elif isinstance(span, IterationSpan):
            self._add_iteration(span)
        elif isinstance(span, ValidatorSpan):
            self._add_validator(span)

    def _add_validator(self, span: ValidatorSpan) -> None:
        checks = self._validators[span.validator or UNKNOWN]
        checks.durations.add(span.seconds)
        checks.passed += span.outcome == semconv.PASS
        checks.failed += span.outcome == semconv.FAIL
        checks.undecided += span.outcome is None

    def _add_iteration(self, span: IterationSpan) -> None:
        if not self._totals.add_iteration(span):
            self.token_faults += 1
        self._add_day(span)
        if span.cost_usd is None and span.has_tokens:
            self._unpriced[span.model or UNKNOWN, span.provider or UNKNOWN].count += 1
        joined = self._join(span.call_id)
        self._add_to_group(span, joined)
        if joined is not None:
            self._tell_call(span, joined)

    def _add_day(self, span: IterationSpan) -> None:
        if span.cost_usd is not None:
            day = self._days[span.start_ns // _DAY_NS]
            sums = {"used": day.used, "wasted": day.wasted}.get(span.outcome or "", day.other)
            sums.add(span.cost_usd)

    def _add_lacking(self, span: IterationSpan, joined: _Joined) -> None:
        if span.may_lack_tokens and not span.lacks_tokens and len(joined.lacking) < _MAX_WAITING:
            joined.lacking.append(None if self.by == "status" else self._groups[self._key(span)])
            if joined.group is not None:
                self._count_lacking(joined)

    def _count_lacking(self, joined: _Joined) -> None:
        """Count those that waited for their Call; it has come."""
        if joined.asked_llm:
            for group in joined.lacking:
                for sums in (self._totals, group or joined.group):
                    if sums is not None:
                        sums.without_tokens += 1
        joined.lacking = []

    def _add_to_group(self, span: IterationSpan, joined: _Joined | None) -> None:
        if self.by != "status":
            self._groups[self._key(span)].add_iteration(span)
        elif joined is None:
            self._groups[UNKNOWN].add_iteration(span)
        elif joined.group is not None:
            joined.group.add_iteration(span)
        else:
            joined.waiting.append(span)
            if len(joined.waiting) >= _MAX_WAITING:
                self._stop_waiting(joined)

    def _tell_call(self, span: IterationSpan, joined: _Joined) -> None:
        joined.model = span.model or joined.model
        if span.failure_class is not None:
            failure = span.start_ns, span.failure_class
            joined.last_failure = max(joined.last_failure or failure, failure)
        self._add_lacking(span, joined)
        reasked = span.stage == "reask"
        self._mark(joined, reasked or _asked_llm(span), reasked)

    def _mark(self, joined: _Joined, llm: bool, reasked: bool) -> None:
        """Count a Call's LLM and re-asks once each, whichever of its spans comes first."""
        group = joined.group
        if group is not None:
            for sums in (self._totals, group):
                sums.llm_calls += llm and not joined.llm
                sums.reasked_calls += reasked and not joined.reasked
        joined.llm = joined.llm or llm
        joined.reasked = joined.reasked or reasked

    def _add_call(self, span: CallSpan) -> None:
        joined = self._join(span.call_id) or _Joined()
        group = self._groups[self._key(span, joined)]
        for sums in (self._totals, group):
            sums.add_call(span)
        llm, reasked = joined.llm, joined.reasked
        joined.group, joined.llm, joined.reasked = group, False, False
        self._mark(joined, llm or _has_llm(span), reasked)
        for iteration in joined.waiting:
            group.add_iteration(iteration)
        joined.waiting = []
        joined.asked_llm = span.entry is not None and span.entry not in _WITHOUT_LLM
        self._count_lacking(joined)
        self._days[span.start_ns // _DAY_NS].calls += 1
        self._guards[span.name or UNKNOWN].add(span.seconds)
        self._keep(span, joined)

    def _keep(self, span: CallSpan, joined: _Joined) -> None:
        if span.stuck:
            self._stuck.add(span.cost_usd or 0.0, span, joined)
        if span.status in (semconv.FAIL, semconv.ERROR):
            self._failures.add(span.start_ns, span, joined)

    def _key(self, span: CallSpan | IterationSpan, joined: _Joined | None = None) -> str:
        if self.by == "name":
            return span.name or UNKNOWN
        if self.by == "team":
            return span.team or NO_TEAM
        if self.by == "status":
            return span.status or UNKNOWN
        own = span.model if isinstance(span, IterationSpan) else span.request_model
        return (joined.model if joined else None) or own or UNKNOWN

    def _join(self, call_id: str | None) -> _Joined | None:
        if call_id is None:
            return None
        joined = self._joined.get(call_id)
        if joined is None:
            joined = self._joined[call_id] = _Joined()
            if len(self._joined) > self._calls_kept:
                _, oldest = self._joined.popitem(last=False)
                self._stop_waiting(oldest)
        return joined

    def _stop_waiting(self, joined: _Joined) -> None:
        for iteration in joined.waiting:
            self._groups[UNKNOWN].add_iteration(iteration)
        joined.waiting = []

    def report(self, sources: Sources, faults: Faults, since_ns: int = 0) -> Report:
        """The report of all spans added so far."""
        for joined in self._joined.values():
            self._stop_waiting(joined)
        return Report(
            generated=datetime.now(timezone.utc).replace(microsecond=0),
            since=to_time(since_ns) if since_ns else None,
            first=None if self._first_ns is None else to_time(self._first_ns),
            last=None if self._first_ns is None else to_time(self._last_ns),
            sources=sources,
            faults=faults,
            totals=self._totals.figures(),
            by=self.by,
            groups=self._made_groups(),
            slowest_guards=self._slowest(),
            validators=self._made_validators(),
            days=self._made_days(),
            unpriced_models=self._made_unpriced(),
            stuck_calls=self._stuck.summaries(),
            latest_failures=self._failures.summaries(),
        )

    def _made_groups(self) -> list[Group]:
        groups = [Group(key=key, **dict(sums.figures())) for key, sums in self._groups.entries.items()]
        return sorted(groups, key=lambda group: (-(group.spend_usd or 0), -group.calls, group.key))

    def _slowest(self) -> list[GuardDurations]:
        guards = [
            GuardDurations(name=name, calls=sketch.count, **dict(durations))
            for name, sketch in self._guards.entries.items()
            if (durations := sketch.durations()) is not None
        ]
        return sorted(guards, key=lambda guard: (-guard.p95, guard.name))[:_MOST_GUARDS]

    def _made_validators(self) -> list[ValidatorFigures]:
        figures = [
            ValidatorFigures(
                validator=name,
                checks=checks.durations.count,
                passed=checks.passed,
                failed=checks.failed,
                undecided=checks.undecided,
                durations=checks.durations.durations() or Durations(mean=0, p50=0, p95=0, max=0),
            )
            for name, checks in self._validators.entries.items()
        ]
        return sorted(figures, key=lambda entry: (-entry.failed, -entry.checks, entry.validator))

    def _made_days(self) -> list[Day]:
        return [
            Day(
                day=_day(number),
                calls=sums.calls,
                used_usd=sums.used.usd,
                wasted_usd=sums.wasted.usd,
                other_usd=sums.other.usd,
            )
            for number, sums in sorted(self._days.entries.items())
        ]

    def _made_unpriced(self) -> list[UnpricedModel]:
        models = [
            UnpricedModel(model=model, provider=provider, iterations=entry.count)
            for (model, provider), entry in self._unpriced.entries.items()
        ]
        return sorted(models, key=lambda entry: (-entry.iterations, entry.model, entry.provider))


class _Top:
    """The Calls with the highest ranks."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._added = 0
        self._heap: list[tuple[float, str, int, CallSpan, _Joined]] = []

    def add(self, rank: float, call: CallSpan, joined: _Joined) -> None:
        self._added += 1
        heapq.heappush(self._heap, (rank, call.span_id, self._added, call, joined))
        if len(self._heap) > self._most:
            heapq.heappop(self._heap)

    def summaries(self) -> list[CallSummary]:
        """Highest rank first."""
        return [_summary(call, joined) for *_, call, joined in sorted(self._heap, reverse=True)]


def _asked_llm(span: IterationSpan) -> bool:
    return span.model is not None or span.has_tokens or span.cost_usd is not None


def _has_llm(span: CallSpan) -> bool:
    """`parse` and `validate` are given a text; every other entry asks an LLM."""
    return span.request_model is not None or span.has_tokens or span.entry not in _WITHOUT_LLM


def _summary(call: CallSpan, joined: _Joined) -> CallSummary:
    return CallSummary(
        call_id=call.call_id,
        name=call.name or UNKNOWN,
        started=to_time(call.start_ns),
        status=call.status or UNKNOWN,
        iterations=call.iterations,
        cost_usd=call.cost_usd,
        failure_class=call.failure_class,
        last_failure_class=joined.last_failure[1] if joined.last_failure else None,
        limit_reached=call.limit_reached,
        failed_validators=list(call.failed_validators),
        trace_id=call.trace_id,
    )


def to_time(ns: int) -> datetime:
    """UTC of Unix nanoseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


def _day(number: int) -> date | None:
    return None if number == _OTHER_DAYS else (_EPOCH + timedelta(days=number)).date()


def make_report(files: SpanFiles, by: By = "name") -> Report:
    """Read all spans and report them."""
    aggregator = Aggregator(by)
    for span in files.spans():
        aggregator.add(span)
    if aggregator.token_faults:
        files.faults.values += aggregator.token_faults
        files.faults.tell("(all files)", None, "cached or reasoning tokens above the whole they are part of")
    return aggregator.report(files.sources, files.faults, files.since_ns)
