"""The report for a terminal, by rich.

Everything that was read goes through :func:`guardspan.harmless.plain` and into ``Text`` objects, in
which rich looks for no markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from guardspan.harmless import plain
from guardspan.report import text
from guardspan.report.model import CallSummary, Figures, Report, Tokens

MAX_ROWS = 15
_FEW = 5
_MOST_CALLS = 10
_WIDE = 110
_NARROW = 64
_SLIM = 50
_GAP = 4
_BETWEEN = 2
_HANGING = 6
_KEY_WIDTH = 20
"""A longer name is cut where there is no room; up to here other columns make room for it."""
_STYLES = {"pass": "green", "fail": "yellow", "error": "red", "not run": "dim"}

Row = tuple[str, str, str]


def foreign(value: str, style: str = "") -> Text:
    """What was read, harmless."""
    return Text(plain(value), style=style, overflow="ellipsis", no_wrap=True)


class Hanging:
    """A line that goes on indented where it wraps: no part of what was read looks like a line of ours."""

    def __init__(self, line: Text) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._line.cell_len <= options.max_width:
            yield self._line
            return
        first, *more = self._line.wrap(console, max(options.max_width - _HANGING, 1))
        yield first
        for line in more:
            yield Text.assemble(" " * _HANGING, line)


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
    facts = text.header(report)
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
    elif width < _NARROW:
        grid.add_row(Group(boxes[0], "", boxes[1], "", boxes[2]))
    else:
        grid.add_column(ratio=1)
        grid.add_column(ratio=1)
        grid.add_row(boxes[0], Group(boxes[1], "", boxes[2]))
    return grid


def _box(title: str, rows: Iterable[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(title, header_style="bold cyan")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", style="dim", min_width=6, no_wrap=True)
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
    if totals.spend_is_partial and totals.cost_per_passed_call_usd is not None:
        rows[-1] = (*rows[-1][:2], "or more")
    if totals.stuck:
        rows.append(("on stuck Calls", text.usd(totals.stuck_usd), ""))
    rows.append(("Iterations", text.count(totals.iterations), ""))
    if totals.unpriced:
        rows.append(
            ("without a price", text.count(totals.unpriced), text.share(totals.unpriced, totals.iterations))
        )
    if totals.without_tokens:
        share = text.share(totals.without_tokens, totals.iterations)
        rows.append(("without token counts", text.count(totals.without_tokens), share))
    return rows


def _token_rows(tokens: Tokens) -> list[Row]:
    rows = tokens.named()
    total = text.total(*(number for _, number in rows))
    shown = [(name, text.count(number), text.share(number, total)) for name, number in rows]
    return [*shown, ("all", text.count(total), "")]


def _parts(report: Report, width: int) -> Iterable[RenderableType]:
    yield _groups(report, width)
    yield from _side_by_side(list(_small_tables(report, width)), width)
    totals = report.totals
    if report.stuck_calls:
        title = "Stuck Calls: the same failure three or more times in a row"
        yield from _calls(title, report.stuck_calls, totals.stuck, width)
    if report.latest_failures:
        failed = totals.statuses.failed + totals.statuses.error
        yield from _calls("Latest failures", report.latest_failures, failed, width)
        yield Text("\nguardspan report --call ID shows a Call as a tree.", style="dim")


def _small_tables(report: Report, width: int) -> Iterable[RenderableType]:
    if width >= _WIDE:
        width = (width - 2 * _GAP) // 2
    if report.totals.failures:
        yield _failure_classes(report, width)
    if report.validators:
        yield _validators(report, width)
    if report.slowest_guards:
        yield _slowest(report, width)
    if report.unpriced_models:
        yield _unpriced(report)


def _side_by_side(parts: Sequence[RenderableType], width: int) -> Iterable[RenderableType]:
    """Two in a row where there is room."""
    if width < _WIDE:
        yield from parts
        return
    for start in range(0, len(parts), 2):
        grid = Table.grid(expand=True, padding=(0, _GAP, 0, 0))
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


def _fitted(
    title: str,
    first: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    width: int,
    least_needed: Sequence[str],
) -> Table:
    """A table of names and figures, without as many of the least needed columns as there is no room for."""
    needs = [
        max([len(head), *(len(cells[n]) for _, cells in rows)]) + _BETWEEN for n, head in enumerate(heads)
    ]
    kept = _kept(dict(zip(heads, needs, strict=True)), [name for name, _ in rows], width, least_needed)
    table = _table(title, first, kept)
    for name, cells in rows:
        table.add_row(foreign(name), *(cells[n] for n, head in enumerate(heads) if head in kept))
    return table


def _kept(needs: dict[str, int], names: Iterable[str], width: int, least_needed: Sequence[str]) -> list[str]:
    """The columns for which there is room beside the names."""
    kept = dict(needs)
    room = width - min(max(cell_len(plain(name)) for name in names), _KEY_WIDTH)
    for head in least_needed:
        if sum(kept.values()) > room:
            kept.pop(head, None)
    return list(kept)


def _groups(report: Report, width: int) -> RenderableType:
    wide = width >= _WIDE
    heads = ["Calls", "passed", "spend", "wasted", "$/passed", "re-asked", "p95"]
    if wide:
        heads += ["tokens in", "tokens out", "unpriced", "stuck"]
    least_needed = ("stuck", "tokens in", "tokens out", "p95", "re-asked", "wasted", "$/passed", "passed")
    groups = report.groups[:MAX_ROWS]
    rows = [(group.key, _group_cells(group, wide)) for group in groups]
    table = _fitted(f"By {report.by}", report.by, heads, rows, width, ("unpriced", *least_needed))
    parts: list[RenderableType] = [_with_rest(table, len(report.groups))]
    if any(column.header == "$/passed" for column in table.columns) and any(map(text.at_least, groups)):
        parts.append(Text("≥ at least: Iterations without a price or token counts are missing", style="dim"))
    return Group(*parts)


def _group_cells(group: Figures, wide: bool) -> list[str]:
    cells = [
        text.count(group.calls),
        text.share(group.statuses.passed, group.calls),
        text.usd(group.spend_usd),
        text.usd(group.wasted_usd),
        text.at_least(group) + text.usd(group.cost_per_passed_call_usd),
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


def _failure_classes(report: Report, width: int) -> RenderableType:
    calls = "Calls" if width < _SLIM else "Calls that ended so"
    table = _table("Failures by class", "class", ["Iterations", calls])
    for entry in report.totals.failures[:MAX_ROWS]:
        table.add_row(foreign(entry.failure_class), text.count(entry.iterations), text.count(entry.calls))
    return _with_rest(table, len(report.totals.failures))


def _validators(report: Report, width: int) -> RenderableType:
    heads = ["checks", "failed", "rate", "undecided", "p95"]
    rows = [
        (
            entry.validator,
            [
                text.count(entry.checks),
                text.count(entry.failed),
                text.share(entry.failed, entry.checks),
                text.count(entry.undecided),
                text.seconds(entry.durations.p95),
            ],
        )
        for entry in report.validators[:MAX_ROWS]
    ]
    table = _fitted("Validators", "validator", heads, rows, width, ("p95", "undecided", "rate"))
    return _with_rest(table, len(report.validators))


def _slowest(report: Report, width: int) -> RenderableType:
    heads = ["Calls", "mean", "p50", "p95", "max"]
    rows = [
        (
            guard.name,
            [text.count(guard.calls), *map(text.seconds, (guard.mean, guard.p50, guard.p95, guard.max))],
        )
        for guard in report.slowest_guards[:_FEW]
    ]
    return _fitted("Slowest guards and agents", "name", heads, rows, width, ("mean", "p50", "max", "Calls"))


def _unpriced(report: Report) -> RenderableType:
    table = _table(
        "Models without a price (GUARDSPAN_PRICES takes your own)", "model", ["provider", "Iterations"]
    )
    for entry in report.unpriced_models[:_FEW]:
        table.add_row(foreign(entry.model), foreign(entry.provider), text.count(entry.iterations))
    return table


def _calls(title: str, calls: Sequence[CallSummary], all_calls: int, width: int) -> Iterable[RenderableType]:
    shown = calls[:_MOST_CALLS]
    cells = [_call_cells(call) for call in shown]
    heads = list(cells[0])
    needs = {head: max(len(head), *(cell_len(str(row[head])) for row in cells)) + _BETWEEN for head in heads}
    if width < _WIDE:
        needs.pop("failed validators")
    needs["class"] = min(needs["class"], _KEY_WIDTH)
    needs.pop("name")
    names = [call.name for call in shown]
    long, short = needs.pop("began (UTC)"), needs.pop("began")
    kept = _kept({**needs, "began (UTC)": long}, names, width, ("began (UTC)",))
    if "began (UTC)" not in kept:
        kept = _kept({**needs, "began": short}, names, width, ("began", "class"))
    table = _calls_table(title, [head for head in heads if head in (*kept, "name")])
    for row in cells:
        table.add_row(*(row[str(column.header)] for column in table.columns))
    yield table
    if all_calls > len(shown):
        yield Text(text.more(all_calls - len(shown)), style="dim")


def _calls_table(title: str, heads: Sequence[str]) -> Table:
    table = _table(title, heads[0], heads[1:], ratio=None)
    for column in table.columns:
        if column.header in ("name", "status", "class", "failed validators"):
            column.justify = "left"
        if column.header in ("name", "failed validators"):
            column.ratio, column.overflow = 1, "ellipsis"
        if column.header == "class":
            column.max_width, column.overflow = _KEY_WIDTH - 1, "ellipsis"
    return table


def _call_cells(call: CallSummary) -> dict[str, RenderableType]:
    return {
        "Call": foreign(text.short_id(call.call_id or call.trace_id)),
        "began (UTC)": text.moment(call.started),
        "began": text.moment(call.started)[5:],
        "name": foreign(call.name),
        "status": status_text(call.status),
        "class": foreign(call.shown_class or text.NONE),
        "cost": text.usd(call.cost_usd),
        "failed validators": foreign(", ".join(call.failed_validators) or text.NONE),
    }


def _show_faults(report: Report, console: Console) -> None:
    faults = report.faults
    if not faults.count:
        return
    summary = f"Left out, since it could not be read: {faults.summary}"
    lines: list[RenderableType] = [Text(summary, style="yellow")]
    for fault in faults.told[:MAX_ROWS]:
        place = plain(fault.file) + (f":{fault.line}" if fault.line else "")
        lines.append(Hanging(Text(f"  {place}: {plain(fault.what)}", style="dim")))
    console.print(Padding(Group(*lines), (1, 0, 0, 0)))
