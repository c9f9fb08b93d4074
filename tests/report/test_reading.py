"""Files are read to their end whatever stands in them, and what cannot be read is told and left out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from guardspan.report import reading
from guardspan.report.faults import Faults
from guardspan.report.reading import PathMissing, SpanFiles, find_files
from guardspan.report.records import CallSpan, IterationSpan, Span, ValidatorSpan
from report.span_files import Attempt, Call, raw_span, report_of, span_line, writing

GOOD = span_line(raw_span("call", 1, status={"stringValue": "pass"}))


def read(path: Path, **options: Any) -> tuple[list[Span], Faults]:
    """All spans of a path, and the faults."""
    files = SpanFiles(find_files([path]), **options)
    return list(files.spans()), files.faults


def written(tmp_path: Path, *lines: str | bytes) -> Path:
    """A file of lines."""
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def told(faults: Faults) -> list[tuple[int | None, str]]:
    """Line and words of each fault."""
    return [(fault.line, fault.what) for fault in faults.told]


def test_records_hold_what_the_exporter_wrote(desk: Path) -> None:
    """Types, ids, times, service and team come back as they were."""
    spans, faults = read(desk)
    assert faults.count == 0
    kinds = [type(span) for span in spans]
    assert [kinds.count(kind) for kind in (CallSpan, IterationSpan, ValidatorSpan)] == [6, 8, 3]
    call = next(span for span in spans if isinstance(span, CallSpan) and span.call_id == "aaaa0002")
    assert (call.name, call.team, call.service) == ("refund", "support", "tests")
    assert (call.cost_usd, call.failed_validators, call.stuck, call.seconds) == (
        0.5,
        ("ValidLength",),
        None,
        1.0,
    )
    below = [span for span in spans if span.parent_id == call.span_id]
    assert {span.trace_id for span in below} == {call.trace_id}
    assert len(below) == 2


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (GOOD[: len(GOOD) // 2] + "\n", "no JSON"),
        ("not JSON at all\n", "no JSON"),
        (b"\xff\xfe\x00\n", "no JSON"),
        ("[" * 5000 + "\n", "no JSON"),
        ('{"a": "\\ud800"}\n', "no JSON"),
        ('{"name": "guardspan", "version": 1}\n', "no OTLP JSON"),
        ("[1, 2]\n", "no OTLP JSON"),
        ('{"resourceSpans": {"a": 1}}\n', "no OTLP JSON"),
    ],
)
def test_a_line_that_is_none_is_told_by_its_number(tmp_path: Path, bad: str | bytes, what: str) -> None:
    """The lines before and after it count."""
    other = span_line(raw_span("call", 2))
    path = written(tmp_path, GOOD, bad, other)
    spans, faults = read(path)
    assert len(spans) == 2
    assert (faults.lines, faults.count) == (1, 1)
    assert faults.told[0].model_dump() == {"file": str(path), "line": 2, "what": what}


def test_a_line_cut_off_at_the_end_is_told_as_such(tmp_path: Path) -> None:
    """A process that was killed, or writes at this moment, leaves one; the rest of the file counts."""
    spans, faults = read(written(tmp_path, GOOD, GOOD.replace("0001", "0002")[:-20]))
    assert len(spans) == 1
    assert told(faults) == [(2, "cut off: its writer was stopped, or is still writing")]


def test_a_whole_last_line_without_its_newline_counts(tmp_path: Path) -> None:
    """It is whole, so it is read."""
    spans, faults = read(written(tmp_path, GOOD.rstrip()))
    assert (len(spans), faults.count) == (1, 0)


def test_a_line_beyond_the_bound_is_passed_over_unread(tmp_path: Path) -> None:
    """Memory stays bounded; the next line counts, and the bytes are told to the progress bar all the same."""
    path = written(tmp_path, "x" * 5_000_000 + "\n", GOOD, "y" * 5_000_000)
    bytes_read: list[int] = []
    spans, faults = read(path, progress=bytes_read.append, max_line=1 << 20)
    assert len(spans) == 1
    assert [line for line, _ in told(faults)] == [1, 3]
    assert all("longer than 1 MiB" in what for _, what in told(faults))
    assert sum(bytes_read) == path.stat().st_size


@pytest.mark.parametrize("content", ["", "\n", "\n\n  \n"])
def test_an_empty_file_is_no_fault(tmp_path: Path, content: str) -> None:
    """Nothing in it, nothing told."""
    assert read(written(tmp_path, content)) == ([], Faults())


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\xef\xbb\xbf \n"])
def test_a_byte_order_mark_is_no_fault(tmp_path: Path, mark: bytes) -> None:
    """An editor may begin a file with it, and a joined file has it before any line."""
    path = tmp_path / "a.jsonl"
    lines = [span_line(raw_span("call", number)).encode() for number in (1, 2)]
    path.write_bytes(b"".join(mark + line for line in lines))
    report = report_of(path)
    assert (report.totals.calls, report.faults.count, report.sources.lines) == (2, 0, 2)


@pytest.mark.parametrize("signal", ["resourceMetrics", "resourceLogs"])
def test_other_signals_are_passed_over(tmp_path: Path, signal: str) -> None:
    """A collector may write metrics and logs into the same folder."""
    assert read(written(tmp_path, json.dumps({signal: []}) + "\n")) == ([], Faults())


def test_spans_of_others_are_passed_over(tmp_path: Path) -> None:
    """They are counted and nothing more, whatever they look like."""
    foreign = {
        "traceId": "none",
        "spanId": 5,
        "attributes": [{"key": "http.method", "value": {"stringValue": "GET"}}],
    }
    files = SpanFiles([written(tmp_path, span_line(foreign, raw_span("call")))])
    assert len(list(files.spans())) == 1
    assert files.sources.other_spans == 1
    assert files.faults.count == 0


def with_change(**change: Any) -> dict[str, Any]:
    """A span of ours with some of its fields changed."""
    return {**raw_span("call", 1), **change}


@pytest.mark.parametrize(
    "bad",
    [
        with_change(traceId="12"),
        with_change(traceId=12),
        with_change(traceId="g" * 32),
        with_change(spanId=None),
        with_change(spanId=" " * 16),
        with_change(startTimeUnixNano=None),
        with_change(startTimeUnixNano="soon"),
        with_change(startTimeUnixNano="0"),
        with_change(startTimeUnixNano=-5),
        with_change(startTimeUnixNano=True),
        with_change(endTimeUnixNano="5"),
        with_change(endTimeUnixNano=str(2**70)),
        raw_span("something new"),
        "a string",
        17,
        None,
    ],
)
def test_a_span_that_cannot_be_used_is_told_and_left_out(tmp_path: Path, bad: Any) -> None:
    """Its neighbours in the same line count."""
    path = written(tmp_path, span_line(raw_span("call", 2), bad, raw_span("call", 3)))
    spans, faults = read(path)
    assert [span.span_id[-1] for span in spans] == ["2", "3"]
    assert (faults.spans, faults.count) == (1, 1)


HOSTILE = {
    "cost": [
        {"doubleValue": -1.0},
        {"doubleValue": "NaN"},
        {"doubleValue": float("nan")},
        {"doubleValue": float("inf")},
        {"doubleValue": 1e300},
        {"doubleValue": None},
        {"doubleValue": [1]},
        {"doubleValue": True},
        {"stringValue": "0.5"},
        {},
        None,
        "0.5",
        5,
        [],
    ],
    "input": [
        {"intValue": "-1"},
        {"intValue": "many"},
        {"intValue": "1.5"},
        {"intValue": 1.5},
        {"intValue": True},
        {"intValue": None},
        {"intValue": str(2**80)},
        {"intValue": "9" * 5000},
        {"intValue": {}},
        {"doubleValue": 5.0},
        {"stringValue": "5"},
    ],
    "outcome": [{"stringValue": "USED"}, {"stringValue": 5}, {"intValue": "1"}],
    "status": [{"stringValue": "passed"}, {"stringValue": ["pass"]}, {"boolValue": True}],
    "failed": [
        {"arrayValue": None},
        {"arrayValue": {"values": 5}},
        {"arrayValue": {"values": [{"intValue": "1"}]}},
    ],
    "redactions": [{"intValue": "-3"}],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in HOSTILE.items() for value in values]
)
def test_a_hostile_value_spoils_no_sum(tmp_path: Path, name: str, value: Any) -> None:
    """It is left out and told; the span's other values and the other spans count."""
    bad = raw_span("iteration", 1, output={"intValue": "7"}, **{name: value})
    good = raw_span(
        "iteration", 2, cost={"doubleValue": 0.5}, input={"intValue": "10"}, output={"intValue": 3}
    )
    report = report_of(written(tmp_path, span_line(bad, good)))
    assert (report.totals.iterations, report.totals.spend_usd) == (2, 0.5)
    assert (report.totals.tokens.input, report.totals.tokens.output) == (10, 10)
    assert (report.faults.values, report.faults.count) == (1, 1)
    assert "that it cannot have" in report.faults.told[0].what


@pytest.mark.parametrize(
    "bad",
    [
        {"resourceSpans": [5]},
        {"resourceSpans": [{"scopeSpans": 5}]},
        {"resourceSpans": [{"scopeSpans": [None]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": "x"}]}]},
        {"resourceSpans": [{"resource": 5, "scopeSpans": []}]},
        {"resourceSpans": [{"resource": {"attributes": 5}, "scopeSpans": []}]},
        {"resourceSpans": [{"resource": {"attributes": [5]}, "scopeSpans": []}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [with_change(attributes=["x"])]}]}]},
    ],
)
def test_a_document_of_another_shape_ends_nothing(tmp_path: Path, bad: Any) -> None:
    """Odd shapes are told where they hide something, and the next line counts."""
    spans, faults = read(written(tmp_path, json.dumps(bad) + "\n", GOOD))
    assert len(spans) == 1
    assert faults.count <= 1


def test_variants_that_the_format_allows_are_read(tmp_path: Path) -> None:
    """Integers as numbers, upper-case ids, whole costs as integers, doubles as strings."""
    span = raw_span("iteration", 10, input={"intValue": 10}, cost={"intValue": "2"})
    span |= {"traceId": f"{10:032X}", "spanId": f"{10:016X}"}
    span |= {name: int(span[name]) for name in ("startTimeUnixNano", "endTimeUnixNano")}
    other = raw_span("iteration", 11, cost={"doubleValue": "0.25"})
    spans, faults = read(written(tmp_path, span_line(span, other, team="billing")))
    assert faults.count == 0
    assert [span.span_id for span in spans] == [f"{10:016x}", f"{11:016x}"]
    assert [getattr(span, "cost_usd", None) for span in spans] == [2.0, 0.25]
    assert {span.team for span in spans} == {"billing"}


def test_a_span_met_twice_counts_once(desk: Path, tmp_path: Path) -> None:
    """A copied file and a line exported again change no figure."""
    once = report_of(desk)
    copy = tmp_path / "copy.jsonl"
    copy.write_text("".join(path.read_text() * 2 for path in desk.glob("*.jsonl")))
    twice = report_of(desk, copy)
    assert twice.totals == once.totals
    assert twice.sources.duplicate_spans == 2 * once.sources.spans


def test_what_is_remembered_against_duplicates_is_bounded() -> None:
    """The latest keys are remembered, and no more than two generations of them."""
    seen = reading._Seen(generation=10)
    spans = [Span(f"{n:032x}", f"{n:016x}", None, 1, 2) for n in range(100)]
    for number, span in enumerate(spans):
        assert seen.add(span)
        assert not seen.add(spans[max(number - 9, 0)])
        assert len(seen._newer) + len(seen._older) <= 20
    assert seen.add(spans[0])


def test_a_file_named_twice_is_read_once(desk: Path, tmp_path: Path) -> None:
    """By its folder, by itself and by a link: it is one file."""
    (path,) = desk.glob("*.jsonl")
    link = tmp_path / "link.jsonl"
    os.link(path, link)
    assert find_files([desk, path, link]) == [path]


def test_folders_are_searched_and_foreign_files_in_them_are_not_read(desk: Path) -> None:
    """Only `*.jsonl` and `*.json`, in folders below as well; a file that is named is always read."""
    deep = desk / "a" / "b"
    deep.mkdir(parents=True)
    for name in ("x.json", "y.jsonl", "z.txt"):
        (deep / name).write_text("")
    assert [path.name for path in find_files([desk])][:2] == ["x.json", "y.jsonl"]
    assert find_files([deep / "z.txt"]) == [deep / "z.txt"]


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    """The message says which, and what to do."""
    with pytest.raises(PathMissing, match=r"nowhere does not exist .*; name a span file or a folder"):
        find_files([tmp_path / "nowhere"])


def test_a_file_that_vanishes_is_told_and_passed_over(desk: Path) -> None:
    """Rotation may remove a file between the search and the reading."""
    files = SpanFiles([desk / "gone.jsonl", *find_files([desk])])
    assert len(list(files.spans())) == 17
    assert files.faults.files == 1
    assert files.faults.told[0].line is None


def test_faults_told_are_bounded(tmp_path: Path) -> None:
    """A folder full of foreign files is counted to the last line, and told in a few."""
    for number in range(30):
        (tmp_path / f"{number:02}.jsonl").write_text("nonsense\n" * 100)
    _, faults = read(tmp_path)
    assert faults.lines == 3000
    assert len(faults.told) == 50
    assert [fault.file for fault in faults.told].count(str(tmp_path / "00.jsonl")) == 5


def test_long_names_are_cut(folder: Path) -> None:
    """A hostile producer's name of a megabyte does not stay in memory."""
    with writing(folder) as writer:
        writer.write(Call("n" * 1_000_000, "a1", Attempt(evidence="e" * 1_000_000)))
    spans, faults = read(folder)
    assert faults.count == 0
    assert [len(span.name or "") for span in spans] == [257, 257]
    assert isinstance(spans[0], IterationSpan)
    assert len(spans[0].evidence or "") == 65_537
