"""The report for a terminal, by rich.

Everything that was read goes through :func:`guardspan.report.text.plain` and into ``Text`` objects, in which
rich looks for no markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from guardspan.report import text
from guardspan.report.model import CallSummary, Figures, Report, Tokens

MAX_ROWS = 15
_FEW = 5
_WIDE = 110
_ID_LENGTH = 12
_STYLES = {"pass": "green", "fail": "yellow", "error": "red", "not run": "dim"}

Row = tuple[str, str, str]


def foreign(value: str, style: str = "") -> Text:
    """What was read, harmless."""
    return Text(text.plain(value), style=style, overflow="ellipsis", no_wrap=True)


def status_text(status: str) -> Text:
    """A status in its colour."""
    return foreign(status, _STYLES.get(status, "dim"))


def show(report: Report, console: Console) -> None:
    """Print the report; its width is the console's."""
    console.print(_header(report))
    if not report.sources.spans:
        _show_faults(report, console)
        return
    console.print(_key_figures(report.totals, console.width))
    for part in _parts(report, console.width):
        console.print(part)
    _show_faults(report, console)


def _header(report: Report) -> RenderableType:
    sources = report.sources
    facts = [
        text.plural(report.totals.calls, "Call"),
        f"{text.plural(sources.files, 'file')}, {text.size(sources.bytes)}",
    ]
    if report.first is not None:
        facts.insert(0, f"{text.moment(report.first)} to {text.moment(report.last)} UTC")
    if report.since is not None:
        facts.append(f"since {text.moment(report.since)} UTC")
    return Group(Rule(Text("guardspan report", style="bold")), Text(" · ".join(facts), justify="center"), "")


def _key_figures(totals: Figures, width: int) -> Table:
    grid = Table.grid(expand=True, padding=(0, 3))
    boxes = [
        _box("Calls", _call_rows(totals)),
        _box("Cost", _cost_rows(totals)),
        _box("Tokens", _token_rows(totals.tokens)),
    ]
    if width >= _WIDE:
        for _ in boxes:
            grid.add_column(ratio=1)
        grid.add_row(*boxes)
    else:
        grid.add_column(ratio=1)
        grid.add_column(ratio=1)
        grid.add_row(boxes[0], Group(boxes[1], "", boxes[2]))
    return grid


def _box(title: str, rows: Iterable[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(title, header_style="bold cyan")
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim", min_width=6)
    for row in rows:
        table.add_row(*row)
    return table


def _call_rows(totals: Figures) -> list[Row]:
    calls, statuses = totals.calls, totals.statuses
    rows = [("all", text.count(calls), "")]
    for name, number, always in (
        ("passed", statuses.passed, True),
        ("failed", statuses.failed, True),
        ("error", statuses.error, True),
        ("not run", statuses.not_run, False),
        ("status unknown", statuses.unknown, False),
        ("limit reached", totals.limit_reached, False),
        ("stuck", totals.stuck, False),
        ("abandoned", totals.abandoned, False),
    ):
        if always or number:
            rows.append((name, text.count(number), text.share(number, calls)))
    rows.append(("re-asked", text.count(totals.reasked_calls), text.percent(totals.reask_rate)))
    if totals.redactions or totals.redaction_failures:
        rows.append(("redactions", text.count(totals.redactions), ""))
    if totals.redaction_failures:
        rows.append(("values dropped", text.count(totals.redaction_failures), ""))
    return rows


def _cost_rows(totals: Figures) -> list[Row]:
    rows = [
        ("spend", text.usd(totals.spend_usd), ""),
        ("wasted", text.usd(totals.wasted_usd), text.share(totals.wasted_usd, totals.spend_usd)),
        ("per passed Call", text.usd(totals.cost_per_passed_call_usd), ""),
    ]
    if totals.stuck:
        rows.append(("on stuck Calls", text.usd(totals.stuck_usd), ""))
    rows.append(("Iterations", text.count(totals.iterations), ""))
    if totals.unpriced:
        rows.append(
            ("without a price", text.count(totals.unpriced), text.share(totals.unpriced, totals.iterations))
        )
    return rows


def _token_rows(tokens: Tokens) -> list[Row]:
    rows = tokens.named()
    total = text.total(*(number for _, number in rows))
    shown = [(name, text.count(number), text.share(number, total)) for name, number in rows]
    return [*shown, ("all", text.count(total), "")]


def _parts(report: Report, width: int) -> Iterable[RenderableType]:
    yield _groups(report, width)
    yield from _side_by_side(list(_small_tables(report)), width)
    if report.stuck_calls:
        yield _calls("Stuck Calls: the same failure three or more times in a row", report.stuck_calls, width)
    if report.latest_failures:
        yield _calls("Latest failures", report.latest_failures, width)
        yield Text("\nguardspan report --call ID shows a Call as a tree.", style="dim")


def _small_tables(report: Report) -> Iterable[RenderableType]:
    if report.totals.failures:
        yield _failure_classes(report)
    if report.validators:
        yield _validators(report)
    if report.slowest_guards:
        yield _slowest(report)
    if report.unpriced_models:
        yield _unpriced(report)


def _side_by_side(parts: Sequence[RenderableType], width: int) -> Iterable[RenderableType]:
    """Two in a row where there is room."""
    if width < _WIDE:
        yield from parts
        return
    for start in range(0, len(parts), 2):
        grid = Table.grid(expand=True, padding=(0, 4, 0, 0))
        grid.add_column(ratio=1)
        grid.add_column(ratio=1)
        grid.add_row(*parts[start : start + 2])
        yield grid


def _table(title: str, first: str, columns: Sequence[str], ratio: int | None = 1) -> Table:
    table = Table(
        title=Text("\n" + title, style="bold cyan"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        expand=True,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column(first, ratio=ratio, no_wrap=True, overflow="ellipsis")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _groups(report: Report, width: int) -> RenderableType:
    wide = width >= _WIDE
    columns = ["Calls", "passed", "spend", "wasted", "$/passed", "re-asked", "p95"]
    if wide:
        columns += ["tokens in", "tokens out", "unpriced", "stuck"]
    table = _table(f"By {report.by}", report.by, columns)
    for group in report.groups[:MAX_ROWS]:
        table.add_row(foreign(group.key), *_group_cells(group, wide))
    return _with_rest(table, len(report.groups))


def _group_cells(group: Figures, wide: bool) -> list[str]:
    cells = [
        text.count(group.calls),
        text.share(group.statuses.passed, group.calls),
        text.usd(group.spend_usd),
        text.usd(group.wasted_usd),
        text.usd(group.cost_per_passed_call_usd),
        text.percent(group.reask_rate),
        text.seconds(group.durations.p95 if group.durations else None),
    ]
    if wide:
        tokens = group.tokens
        inputs = text.total(tokens.input, tokens.cache_read, tokens.cache_creation)
        outputs = text.total(tokens.output, tokens.reasoning)
        cells += [text.short_count(inputs), text.short_count(outputs)]
        cells += [text.count(group.unpriced), text.count(group.stuck)]
    return cells


def _with_rest(table: Table, rows: int) -> RenderableType:
    if rows <= MAX_ROWS:
        return table
    return Group(table, Text(f"and {rows - MAX_ROWS:,} more; --json has all of them", style="dim"))


def _failure_classes(report: Report) -> RenderableType:
    table = _table("Failures by class", "class", ["Iterations", "Calls that ended so"])
    for entry in report.totals.failures[:MAX_ROWS]:
        table.add_row(foreign(entry.failure_class), text.count(entry.iterations), text.count(entry.calls))
    return _with_rest(table, len(report.totals.failures))


def _validators(report: Report) -> RenderableType:
    table = _table("Validators", "validator", ["checks", "failed", "rate", "undecided", "p95"])
    for entry in report.validators[:MAX_ROWS]:
        table.add_row(
            foreign(entry.validator),
            text.count(entry.checks),
            text.count(entry.failed),
            text.share(entry.failed, entry.checks),
            text.count(entry.undecided),
            text.seconds(entry.durations.p95),
        )
    return _with_rest(table, len(report.validators))


def _slowest(report: Report) -> RenderableType:
    table = _table("Slowest guards", "name", ["Calls", "mean", "p50", "p95", "max"])
    for guard in report.slowest_guards[:_FEW]:
        durations = (guard.mean, guard.p50, guard.p95, guard.max)
        table.add_row(foreign(guard.name), text.count(guard.calls), *map(text.seconds, durations))
    return table


def _unpriced(report: Report) -> RenderableType:
    table = _table(
        "Models without a price (GUARDSPAN_PRICES takes your own)", "model", ["provider", "Iterations"]
    )
    for entry in report.unpriced_models[:_FEW]:
        table.add_row(foreign(entry.model), foreign(entry.provider), text.count(entry.iterations))
    return table


def _calls(title: str, calls: Sequence[CallSummary], width: int) -> RenderableType:
    table = _table(title, "Call", ["began (UTC)", "name", "status", "class", "cost"], ratio=None)
    for column in table.columns[2:4]:
        column.justify = "left"
    table.columns[2].ratio = 1
    if width >= _WIDE:
        table.add_column("failed validators", ratio=1, no_wrap=True, overflow="ellipsis")
    for call in calls[:_FEW]:
        table.add_row(*_call_cells(call, width))
    return table


def _call_cells(call: CallSummary, width: int) -> list[RenderableType]:
    cells: list[RenderableType] = [
        foreign((call.call_id or call.trace_id)[:_ID_LENGTH]),
        text.moment(call.started),
        foreign(call.name),
        status_text(call.status),
        foreign(call.failure_class or text.NONE),
        text.usd(call.cost_usd),
    ]
    if width >= _WIDE:
        cells.append(foreign(", ".join(call.failed_validators) or text.NONE))
    return cells


def _show_faults(report: Report, console: Console) -> None:
    faults = report.faults
    if not faults.count:
        return
    lines = [Text(f"Left out, since it could not be read: {faults.summary}", style="yellow")]
    for fault in faults.told[:MAX_ROWS]:
        place = text.plain(fault.file) + (f":{fault.line}" if fault.line else "")
        lines.append(Text(f"  {place}: {text.plain(fault.what)}", style="dim"))
    console.print(Padding(Group(*lines), (1, 0, 0, 0)))
