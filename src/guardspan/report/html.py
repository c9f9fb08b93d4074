"""The report as one HTML page that loads nothing and runs nothing.

All that was read is put into elements, whose text the serialiser escapes; what it would be if that failed
could still not act, for the page's policy allows nothing but the one style sheet, by its hash.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from xml.etree.ElementTree import Element

from guardspan.report import charts, text
from guardspan.report.markup import Content, element, html, table
from guardspan.report.model import CallSummary, Durations, Figures, Report

MAX_ROWS = 100
_OFTEN_NOTHING = {"Failed", "Error", "Unpriced", "No tokens", "Stuck", "Limit", "Abandoned"}

Rows = list[list[Content]]


def write_page(report: Report, path: Path) -> None:
    """Write the page whole or not at all; only its owner may read it.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    page = render(report).encode("utf-8")
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with open(descriptor, "wb") as file:
            file.write(page)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def render(report: Report) -> str:
    """The page."""
    style = _packaged("page.css")
    return Template(_packaged("page.html")).substitute(
        style=style,
        style_hash=_hash(style),
        facts=html(*_facts(report)),
        body=_body(report) if report.sources.spans else html(_nothing()),
        faults=html(*_faults(report)),
        generated=html(element("time", text.moment(report.generated) + " UTC")),
    )


def _packaged(name: str) -> str:
    return files("guardspan.report").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """As a Content-Security-Policy names what it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _facts(report: Report) -> list[Element]:
    return [element("li", fact) for fact in text.header(report)]


def _nothing() -> Element:
    return element(
        "section",
        element("h2", "Nothing recorded yet"),
        element("p", "No spans of guardspan's were found. Run your application with"),
        element("pre", "OTEL_TRACES_EXPORTER=guardspan_file opentelemetry-instrument python app.py"),
        element("p", "and make this page again in the same folder."),
        classes="panel empty",
    )


def _body(report: Report) -> str:
    totals = report.totals
    return "".join(
        [
            html(_cards(report)),
            '<div class="grid">',
            _chart("Spend per day", "money wide", charts.spend_per_day(report), "No Iteration has a price."),
            _chart(f"Calls by status and {report.by}", "status", charts.statuses(report), "No Calls."),
            _chart("Failures by class", "failure", charts.failure_classes(totals), "Nothing failed."),
            _chart(
                "Failures by validator", "validator", charts.failed_validators(report), "No check failed."
            ),
            _tokens(totals),
            "</div>",
            html(*_tables(report)),
        ]
    )


def _tokens(totals: Figures) -> str:
    """The chart with its figures below."""
    named = totals.tokens.named()
    total = text.total(*(number for _, number in named))
    rows: Rows = [[name, text.count(number), text.share(number, total)] for name, number in named]
    below = html(table(["Type", "Tokens", "Share"], rows)) if total else ""
    return _chart("Tokens by type", "tokens", charts.tokens(totals), "No Iteration told its tokens.", below)


def _chart(title: str, classes: str, svg: str, otherwise: str, below: str = "") -> str:
    """Only what the charting library made is put in as it is; it escapes its labels itself."""
    body = f'<div class="drawing">{svg}</div>' if svg else html(element("p", otherwise, classes="quiet"))
    return f'<section class="panel chart {classes}">{html(element("h2", title))}{body}{below}</section>'


def _cards(report: Report) -> Element:
    totals = report.totals
    tokens = text.total(*(number for _, number in totals.tokens.named()))
    passed = totals.statuses.passed
    cards = [
        _card("Spend", text.usd(totals.spend_usd), text.plural(totals.iterations, "Iteration")),
        _card(
            "Wasted", text.usd(totals.wasted_usd), _of(totals.wasted_usd, totals.spend_usd, "of the spend")
        ),
        _card(
            "Cost per passed Call",
            text.usd(totals.cost_per_passed_call_usd),
            text.missing(totals.unpriced, totals.without_tokens) or "all spend by Calls that passed",
        ),
        _card("Calls passed", text.share(passed, totals.calls), f"{passed:,} of {totals.calls:,}"),
        _card("Re-asked", text.percent(totals.reask_rate), _reasked(totals)),
        _card("Tokens", text.short_count(tokens), "of all types"),
        _card("Stuck Calls", text.count(totals.stuck), _costing(totals)),
        _card("Without a price", text.count(totals.unpriced), "Iterations missing from the spend"),
        _card("Without token counts", text.count(totals.without_tokens), "Iterations that asked an LLM"),
        _card("Re-asks used up", text.count(totals.limit_reached), "Calls without an accepted answer"),
    ]
    return element("div", *cards, classes="cards")


def _reasked(totals: Figures) -> str:
    return f"{totals.reasked_calls:,} of {totals.llm_calls:,} with an LLM"


def _of(part: float | None, whole: float | None, words: str) -> str:
    known = text.share(part, whole)
    return words if known == text.NONE else f"{known} {words}"


def _costing(totals: Figures) -> str:
    return (
        "the same failure three times in a row"
        if not totals.stuck
        else f"they cost {text.usd(totals.stuck_usd)}"
    )


def _card(name: str, value: str, note: str) -> Element:
    return element(
        "div",
        element("div", name, classes="name"),
        element("div", value, classes="value"),
        element("div", note, classes="note"),
        classes="card",
    )


def _tables(report: Report) -> list[Element]:
    panels = [_groups(report)]
    halves = [make(report) for make, rows in _HALVES if rows(report)]
    panels.append(element("div", *halves, classes="grid halves"))
    if report.stuck_calls:
        note = "The same failure three or more times in a row: re-asking did not help."
        panels.append(_calls("Stuck Calls", note, report.stuck_calls, report.totals.stuck))
    if report.latest_failures:
        note = "guardspan report --call ID shows one as a tree."
        statuses = report.totals.statuses
        failed = statuses.failed + statuses.error
        panels.append(_calls("Latest failures", note, report.latest_failures, failed))
    return panels


def _panel(title: str, note: str, *contents: Content) -> Element:
    notes = [element("p", note, classes="quiet")] if note else []
    return element("section", element("h2", title), *notes, *contents, classes="panel")


def _groups(report: Report) -> Element:
    """Columns in which every row has 0 are left out: there is little room."""
    groups = report.groups[:MAX_ROWS]
    cells = [_group_cells(group) for group in groups]
    shown = [
        head
        for head in (cells[0] if cells else {})
        if head not in _OFTEN_NOTHING or any(row[head] != "0" for row in cells)
    ]
    rows: Rows = [
        [_name(group.key), *(row[head] for head in shown)] for group, row in zip(groups, cells, strict=True)
    ]
    rest = len(report.groups) - len(rows)
    notes = [f"{rest:,} more are in the output of --json."] if rest > 0 else []
    if any(map(text.at_least, groups)):
        notes.append("≥ at least: Iterations without a price or token counts are missing.")
    panel = _panel(f"By {report.by}", " ".join(notes), table([report.by.capitalize(), *shown], rows))
    panel.set("class", "panel groups")
    return panel


def _name(name: str, classes: str = "foreign") -> Element:
    return element("span", name, title=name, classes=classes)


def _group_cells(group: Figures) -> dict[str, str]:
    tokens, statuses, durations = group.tokens, group.statuses, group.durations
    inputs = text.total(tokens.input, tokens.cache_read, tokens.cache_creation)
    return {
        "Calls": text.count(group.calls),
        "Passed": text.share(statuses.passed, group.calls),
        "Failed": text.count(statuses.failed),
        "Error": text.count(statuses.error),
        "Spend": text.usd(group.spend_usd),
        "Wasted": text.usd(group.wasted_usd),
        "$ / passed": text.unbroken(text.at_least(group) + text.usd(group.cost_per_passed_call_usd)),
        "Re-asked": text.percent(group.reask_rate),
        "p95": text.seconds(durations.p95 if durations else None),
        "Tokens in": text.short_count(inputs),
        "Tokens out": text.short_count(text.total(tokens.output, tokens.reasoning)),
        "Unpriced": text.count(group.unpriced),
        "No tokens": text.count(group.without_tokens),
        "Stuck": text.count(group.stuck),
        "Limit": text.count(group.limit_reached),
        "Abandoned": text.count(group.abandoned),
    }


def _durations(durations: Durations) -> list[str]:
    return [text.seconds(each) for each in (durations.mean, durations.p50, durations.p95, durations.max)]


def _slowest(report: Report) -> Element:
    rows: Rows = [
        [_name(guard.name), text.count(guard.calls), *_durations(guard)] for guard in report.slowest_guards
    ]
    return _panel(
        "Slowest guards and agents", "", table(["Name", "Calls", "Mean", "p50", "p95", "Longest"], rows)
    )


def _validators(report: Report) -> Element:
    rows: Rows = [
        [
            _name(entry.validator),
            text.count(entry.checks),
            text.count(entry.failed),
            text.share(entry.failed, entry.checks),
            text.count(entry.undecided),
            *_durations(entry.durations)[1:],
        ]
        for entry in report.validators[:MAX_ROWS]
    ]
    heads = ["Validator", "Checks", "Failed", "Rate", "Undecided", "p50", "p95", "Longest"]
    return _panel("Validators", "", table(heads, rows))


def _unpriced(report: Report) -> Element:
    rows: Rows = [
        [_name(entry.model), _name(entry.provider), text.count(entry.iterations)]
        for entry in report.unpriced_models
    ]
    note = "Their tokens count, their cost is missing. GUARDSPAN_PRICES takes a price table of your own."
    return _panel("Models without a price", note, table(["Model", "Provider", "Iterations"], rows, words=2))


def _calls(title: str, note: str, calls: Sequence[CallSummary], all_calls: int) -> Element:
    heads = ["Call", "Began (UTC)", "Name", "Status", "Class", "Failed validators", "Iterations", "Cost"]
    contents: list[Content] = [table(heads, [_call_cells(call) for call in calls], words=6)]
    if all_calls > len(calls):
        contents.append(element("p", text.more(all_calls - len(calls)), classes="quiet rest"))
    return _panel(title, note, *contents)


def _call_cells(call: CallSummary) -> list[Content]:
    return [
        element("code", text.short_id(call.call_id or call.trace_id)),
        text.moment(call.started),
        _name(call.name),
        element("span", call.status, classes="badge " + call.status.replace(" ", "-")),
        _name(call.shown_class or text.NONE),
        _name(", ".join(call.failed_validators) or text.NONE, "foreign long"),
        text.count(call.iterations),
        text.usd(call.cost_usd),
    ]


def _faults(report: Report) -> list[Element]:
    faults = report.faults
    if not faults.count:
        return []
    rows: Rows = [[_name(fault.file), text.count(fault.line), fault.what] for fault in faults.told]
    note = f"Could not be read, and is in no figure above: {faults.summary}. The first of them:"
    return [_panel("Left out", note, table(["File", "Line", "What is wrong"], rows, words=3))]


_HALVES: list[tuple[Callable[[Report], Element], Callable[[Report], Sequence[object]]]] = [
    (_slowest, lambda report: report.slowest_guards),
    (_validators, lambda report: report.validators),
    (_unpriced, lambda report: report.unpriced_models),
]
