"""The figures are true: compared exactly with sums done by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from guardspan.report import aggregate, figures
from guardspan.report.aggregate import Aggregator
from guardspan.report.model import Report
from guardspan.report.reading import SpanFiles, find_files
from report.span_files import NOON, Attempt, Call, Check, raw_span, report_of, span_line, writing


def totals(report: Report) -> dict[str, Any]:
    """The figures of all Calls, without durations."""
    return report.totals.model_dump(exclude={"durations", "failures"})


def groups(report: Report, *fields: str) -> dict[str, tuple[Any, ...]]:
    """Chosen fields of every group."""
    return {group.key: tuple(getattr(group, field) for field in fields) for group in report.groups}


def test_all_figures(desk: Path) -> None:
    """Every figure of a known set of Calls."""
    assert totals(report_of(desk)) == {
        "calls": 6,
        "statuses": {"passed": 3, "failed": 1, "error": 1, "not_run": 1, "unknown": 0},
        "iterations": 8,
        "spend_usd": 0.63,
        "wasted_usd": 0.23,
        "cost_per_passed_call_usd": 0.21,
        "tokens": {"input": 545, "output": 133, "cache_read": 40, "cache_creation": None, "reasoning": 10},
        "unpriced": 1,
        "without_tokens": 0,
        "llm_calls": 5,
        "reasked_calls": 2,
        "reask_rate": 0.4,
        "limit_reached": 1,
        "stuck": 1,
        "stuck_usd": 0.03,
        "abandoned": 1,
        "redactions": 3,
        "redaction_failures": 1,
    }


def test_failures_by_class_and_validator(desk: Path) -> None:
    """Attempts and Calls are told apart, and so are a check that failed and one that raised."""
    report = report_of(desk)
    assert [tuple(entry.model_dump().values()) for entry in report.totals.failures] == [
        ("parsing", 3, 1),
        ("provider", 1, 1),
        ("validation", 1, 0),
    ]
    assert [
        (entry.validator, entry.checks, entry.passed, entry.failed, entry.undecided)
        for entry in report.validators
    ] == [("ValidLength", 1, 0, 1, 0), ("RegexMatch", 1, 1, 0, 0), ("TwoWords", 1, 0, 0, 1)]
    assert report.validators[0].durations.max == pytest.approx(0.004)


def test_lists_and_days(desk: Path) -> None:
    """Spend by day, models without a price, and the Calls worth a look."""
    report = report_of(desk)
    assert [tuple(day.model_dump(mode="json").values()) for day in report.days] == [
        ("2025-11-30", 4, 0.4, 0.2, None),
        ("2025-12-01", 2, None, 0.03, None),
    ]
    assert [tuple(entry.model_dump().values()) for entry in report.unpriced_models] == [
        ("own-model", "local", 1)
    ]
    assert [call.call_id for call in report.stuck_calls] == ["bbbb0001"]
    assert [call.call_id for call in report.latest_failures] == ["bbbb0002", "bbbb0001"]
    assert report.first is not None
    assert report.first.isoformat() == "2025-11-30T12:00:00+00:00"
    assert report.sources.model_dump() | {"bytes": 0} == {
        "files": 1,
        "bytes": 0,
        "lines": 17,
        "spans": 17,
        "earlier_spans": 0,
        "duplicate_spans": 0,
        "other_spans": 0,
    }


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (
            "name",
            {
                "refund": (2, 3, 0.6, 0.2, 0.3, 1, 0),
                "order": (2, 4, 0.03, 0.03, None, 1, 1),
                "check": (2, 1, None, None, None, 0, 0),
            },
        ),
        (
            "model",
            {
                "gpt-4o-2024-08-06": (3, 6, 0.63, 0.23, 0.315, 2, 0),
                "own-model": (1, 1, None, None, None, 0, 1),
                "unknown": (2, 1, None, None, None, 0, 0),
            },
        ),
        (
            "team",
            {
                "support": (2, 3, 0.6, 0.2, 0.3, 1, 0),
                "none": (4, 5, 0.03, 0.03, 0.03, 1, 1),
            },
        ),
        (
            "status",
            {
                "pass": (3, 4, 0.6, 0.2, 0.2, 1, 0),
                "fail": (1, 3, 0.03, 0.03, None, 1, 0),
                "error": (1, 1, None, None, None, 0, 1),
                "not run": (1, 0, None, None, None, 0, 0),
            },
        ),
    ],
)
def test_groups_sum_up_to_the_totals(desk: Path, by: Any, expected: dict[str, tuple[Any, ...]]) -> None:
    """Every grouping has true rows; a Call stands in the row of the model that answered it."""
    fields = (
        "calls",
        "iterations",
        "spend_usd",
        "wasted_usd",
        "cost_per_passed_call_usd",
        "reasked_calls",
        "unpriced",
    )
    report = report_of(desk, by=by)
    assert groups(report, *fields) == expected
    assert totals(report) == totals(report_of(desk))
    for number in (0, 1, 5, 6):
        assert sum(row[number] for row in expected.values()) == getattr(report.totals, fields[number])


def test_absent_is_not_zero(folder: Path) -> None:
    """Without costs and tokens the amounts are null; what is known to be nothing is 0."""
    with writing(folder) as writer:
        writer.write(Call("plain", "a1", Attempt("pass")))
    report = report_of(folder)
    assert (report.totals.spend_usd, report.totals.wasted_usd, report.totals.stuck_usd) == (None, None, None)
    assert set(report.totals.tokens.model_dump().values()) == {None}
    with writing(folder) as writer:
        writer.write(Call("plain", "a2", Attempt("pass", cost=0.5, input=0)))
    report = report_of(folder)
    assert (report.totals.spend_usd, report.totals.wasted_usd) == (0.5, 0)
    assert report.totals.tokens.input == 0
    with writing(folder) as writer:
        writer.write(Call("plain", "a3", Attempt("fail", input=7)))
    assert report_of(folder).totals.wasted_usd is None


def test_money_adds_up_to_the_unit(folder: Path) -> None:
    """A thousand tenths of a cent are a dollar, in any order, and never 0.9999999999999999."""
    path = folder / "a.jsonl"
    folder.mkdir()
    costs = [0.1, 0.2, 1e-9, 123456.789] + [0.001] * 1000
    for seed in range(3):
        random.Random(seed).shuffle(costs)
        spans = [raw_span("iteration", n + 1, cost={"doubleValue": cost}) for n, cost in enumerate(costs)]
        path.write_text(span_line(*spans))
        assert report_of(path).totals.spend_usd == 123458.089000001


def test_iterations_without_their_call_still_count(folder: Path) -> None:
    """The part of a file with the Call is gone: what its Iterations cost is not."""
    with writing(folder) as writer:
        writer.write(Call("lost", "a1", Attempt("fail", cost=0.25, input=10), ends=False))
    for by, key in (("name", "lost"), ("status", "unknown")):
        report = report_of(folder, by=by)  # type: ignore[arg-type]
        assert (report.totals.calls, report.totals.iterations) == (0, 1)
        assert groups(report, "spend_usd", "wasted_usd") == {key: (0.25, 0.25)}
        assert report.totals.reask_rate is None


@pytest.mark.parametrize("by", ["name", "model", "team", "status"])
def test_the_order_of_spans_does_not_matter(desk: Path, tmp_path: Path, by: Any) -> None:
    """A collector may write a Call before its Iterations; totals and most rows stay the same."""
    lines = [line for path in desk.glob("*.jsonl") for line in path.read_text().splitlines()]
    expected = report_of(desk, by=by)
    for seed in range(5):
        random.Random(seed).shuffle(lines)
        mixed = tmp_path / f"{seed}.jsonl"
        mixed.write_text("\n".join(lines) + "\n")
        report = report_of(mixed, by=by)
        assert totals(report) == totals(expected)
        if by != "model":
            assert groups(report, "calls", "spend_usd", "reasked_calls") == groups(
                expected, "calls", "spend_usd", "reasked_calls"
            )


def test_team_of_the_resource_serves_where_the_span_has_none(folder: Path) -> None:
    """The span's own team comes first."""
    with writing(folder, team="platform") as writer:
        writer.write(Call("a", "a1", Attempt(cost=1.0)), Call("a", "a2", Attempt(cost=2.0), team="support"))
    assert groups(report_of(folder, by="team"), "calls", "spend_usd") == {
        "platform": (1, 1.0),
        "support": (1, 2.0),
    }


def test_since_leaves_out_what_began_earlier(desk: Path) -> None:
    """Each span by its own start; what was left out is counted."""
    report = report_of(desk, since_ns=(NOON + 3600) * 10**9)
    assert (report.totals.calls, report.totals.iterations, report.totals.spend_usd) == (2, 4, 0.03)
    assert report.sources.earlier_spans == 11
    assert report.since is not None
    assert report.since.isoformat() == "2025-11-30T13:00:00+00:00"


def test_quantiles_are_within_their_bound() -> None:
    """p50 and p95 differ from the true ones by 2.5 % at most; mean and maximum are exact."""
    rng = random.Random(1)
    durations = sorted(rng.lognormvariate(0, 2) for _ in range(20_001))
    sketch = figures.Sketch()
    for duration in durations:
        sketch.add(duration)
    made = sketch.durations()
    assert made is not None
    assert made.p50 == pytest.approx(durations[10_000], rel=0.025)
    assert made.p95 == pytest.approx(durations[19_000], rel=0.025)
    assert made.max == durations[-1]
    assert made.mean == pytest.approx(sum(durations) / len(durations))


@pytest.mark.parametrize(
    ("durations", "p50", "p95"),
    [
        ([0.010] * 9 + [9.0], 0.010, 9.0),
        ([0.0019, 0.0049, 0.0555], 0.0049, 0.0555),
        ([1.0, 9.0], 1.0, 9.0),
        ([1.0] * 19 + [9.0], 1.0, 1.0),
        ([1.0] * 18 + [9.0] * 2, 1.0, 9.0),
    ],
)
def test_quantiles_of_few_durations_are_of_the_nearest_rank(
    durations: list[float], p50: float, p95: float
) -> None:
    """95 % of all take no longer than p95: one slow Call in ten is not hidden by nine quick ones."""
    sketch = figures.Sketch()
    for duration in durations:
        sketch.add(duration)
    made = sketch.durations()
    assert made is not None
    assert made.p50 == pytest.approx(p50, rel=0.025)
    assert made.p95 == pytest.approx(p95, rel=0.025)


def test_quantiles_of_one_duration_are_that_duration(folder: Path) -> None:
    """A report of a single Call tells no p95 that is not its own."""
    with writing(folder) as writer:
        writer.write(Call("once", "a1", seconds=1.0))
    assert set(report_of(folder).slowest_guards[0].model_dump(exclude={"name", "calls"}).values()) == {1.0}


def test_slowest_guards_come_first(folder: Path) -> None:
    """By p95, whatever the rows are grouped by."""
    with writing(folder) as writer:
        for number, (name, seconds) in enumerate([("quick", 0.1), ("slow", 9.0), ("middle", 2.0)]):
            writer.write(Call(name, f"a{number}", seconds=seconds))
    assert [guard.name for guard in report_of(folder, by="team").slowest_guards] == [
        "slow",
        "middle",
        "quick",
    ]


@pytest.mark.parametrize("by", ["name", "model", "team", "status"])
@pytest.mark.parametrize(
    ("entry", "attempt", "count"),
    [
        ("__call__", {}, 1),
        ("run", {}, 1),
        ("__call__", {"input": 0}, 0),
        ("__call__", {"stage": "input"}, 0),
        ("parse", {}, 0),
        ("validate", {}, 0),
        ("parse", {"stage": "reask"}, 1),
        ("parse", {"model": "gpt-4o"}, 1),
        ("parse", {"response_id": "r1"}, 1),
        ("parse", {"finish_reasons": ["stop"]}, 1),
        ("parse", {"asked": "gpt-4o"}, 0),
        ("parse", {"stage": "input", "model": "gpt-4o"}, 0),
        (None, {}, 0),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_rounds_without_token_counts_are_told(
    folder: Path, tmp_path: Path, entry: str | None, attempt: dict[str, Any], count: int, by: Any, order: int
) -> None:
    """An Iteration that asked an LLM and tells no tokens is counted, whichever of its spans comes first."""
    with writing(folder) as writer:
        writer.write(Call("g", "a1", Attempt(**attempt), entry=entry))
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    ordered = tmp_path / "ordered.jsonl"
    ordered.write_text("\n".join(lines[::order]) + "\n")
    report = report_of(ordered, by=by)
    assert report.totals.without_tokens == count
    assert sum(group.without_tokens for group in report.groups) == count


def test_a_stuck_call_that_passed_tells_its_last_failure(folder: Path) -> None:
    """Guardrails put fix values in place: the Call has no class of its own, its Iterations have."""
    attempts = [Attempt("fail", failure=name) for name in ("parsing", "validation")]
    with writing(folder) as writer:
        writer.write(Call("g", "a1", *attempts, stuck=True, limit_reached=True))
    (call,) = report_of(folder).stuck_calls
    assert (call.status, call.failure_class, call.last_failure_class) == ("pass", None, "validation")
    assert call.limit_reached is True


def test_spans_of_one_id_in_two_traces_are_both_kept(folder: Path) -> None:
    """Ids of spans are unique within a trace only."""
    spans = [raw_span("call", number, status={"stringValue": "fail"}) for number in (1, 2)]
    for span in spans:
        span["spanId"] = f"{7:016x}"
    folder.mkdir()
    (folder / "a.jsonl").write_text(span_line(*spans))
    assert len(report_of(folder).latest_failures) == 2


def test_token_parts_above_their_whole_are_a_fault(folder: Path) -> None:
    """A cached part above the input spoils no sum: it is told, and nothing gets negative."""
    with writing(folder) as writer:
        writer.write(Call("a", "a1", Attempt(input=10, cache_read=30, output=5, reasoning=9)))
    report = report_of(folder)
    assert report.totals.tokens.model_dump(exclude={"cache_creation"}) == {
        "input": 0,
        "output": 0,
        "cache_read": 30,
        "reasoning": 9,
    }
    assert report.faults.values == 1


@pytest.mark.parametrize("what", ["groups", "validators", "days", "models", "classes"])
def test_nothing_grows_without_a_bound(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Names beyond the bound share one row, and no figure is lost."""
    monkeypatch.setattr(aggregate, "MAX_GROUPS", 10)
    monkeypatch.setattr(aggregate, "MAX_VALIDATORS", 10)
    monkeypatch.setattr(aggregate, "MAX_DAYS", 10)
    monkeypatch.setattr(aggregate, "_MAX_MODELS", 10)
    monkeypatch.setattr(figures, "_MAX_CLASSES", 10)
    with writing(folder) as writer:
        for n in range(25):
            attempt = Attempt("fail", input=1, model=f"m{n}", failure=f"c{n}", checks=[Check(f"v{n}")])
            paid = Attempt(cost=0.5)
            writer.write(Call(f"g{n:02}", f"id{n}", attempt, paid, at=n * 86_400))
    report = report_of(folder)
    rows: list[Any] = {
        "groups": report.groups,
        "validators": report.validators,
        "days": report.days,
        "models": report.unpriced_models,
        "classes": report.totals.failures,
    }[what]
    counts = {
        "groups": "calls",
        "validators": "checks",
        "days": "calls",
        "models": "iterations",
        "classes": "iterations",
    }
    assert len(rows) == 11
    assert sum(getattr(row, counts[what]) for row in rows) == 25
    assert "(other)" in json.dumps([row.model_dump(mode="json") for row in rows]) or rows[-1].day is None


def test_calls_beyond_the_bound_are_unknown_and_not_lost(folder: Path) -> None:
    """Iterations that wait too long for their Call's status count as unknown."""
    with writing(folder) as writer:
        writer.write(*(Call("g", f"id{n}", Attempt(cost=0.5), ends=False) for n in range(20)))
        writer.write(Call("g", "id0", Attempt(cost=0.25), status="fail"))
    aggregator = Aggregator("status", calls_kept=5)
    files = SpanFiles(find_files([folder]))
    for span in files.spans():
        aggregator.add(span)
    report = aggregator.report(files.sources, files.faults)
    assert groups(report, "calls", "spend_usd") == {"unknown": (0, 10.0), "fail": (1, 0.25)}
