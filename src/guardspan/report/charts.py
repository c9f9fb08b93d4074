"""Charts as inline SVG, by pygal, without its scripts and styles: ``page.css`` has the colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

import pygal
from pygal.style import Style

from guardspan.harmless import plain
from guardspan.report import text
from guardspan.report.model import Day, Figures, Group, Report

MAX_BARS = 10
_MIN_BARS = 7
_MAX_DAYS = 62
_MAX_MONTHS = 36
_LEAST_HEIGHT = 250
_WIDE = 640
_NARROW = 460
_THIRD = 380
_LABEL_LENGTH = 22
_FONT = 13
_DROPPED = {"script", "style"}
_STYLE = Style(
    font_family="inherit",
    label_font_size=_FONT,
    major_label_font_size=_FONT,
    legend_font_size=_FONT,
    value_font_size=_FONT,
    value_colors=("inherit",) * 8,
    colors=("inherit",) * 8,
)
_OPTIONS: dict[str, Any] = {
    "css": (),
    "js": (),
    "style": _STYLE,
    "disable_xml_declaration": True,
    "margin": 4,
    "spacing": 8,
    "legend_at_bottom": True,
    "truncate_label": -1,
    "truncate_legend": -1,
    "max_scale": 6,
    "legend_box_size": 11,
    "rounded_bars": 2,
    "show_x_guides": False,
}

Series = tuple[str, Sequence[float | None]]


def spend_per_day(report: Report) -> str:
    """Used and wasted money, stacked; by month when there are many days. Empty without any."""
    days = [day for day in report.days if day.day is not None]
    if not any(_spent(day) for day in days):
        return ""
    labels, columns = _by_day(days) if _span(days) <= _MAX_DAYS else _by_month(days)
    names = ("used", "wasted", "outcome unknown")
    series: list[Series] = [
        (name, values) for name, values in zip(names, columns, strict=True) if any(values) or name != names[2]
    ]
    height = max(_bars_height(len(_most_called(report)), 1, True), _LEAST_HEIGHT)
    chart = _chart(pygal.StackedBar, "Spend per day", _WIDE, height, text.usd, _dollars)
    room = max(_MIN_BARS - len(labels), 0)
    # One day's bar must not fill the chart: room for later days follows it.
    chart.x_labels = [*labels, *[""] * room]
    series = [(name, [*values, *[None] * room]) for name, values in series]
    every = -(-len(labels) // 8)
    chart.x_labels_major = labels[::every]
    chart.show_minor_x_labels = False
    return _rendered(chart, series)


def _spent(day: Day) -> float:
    return (day.used_usd or 0) + (day.wasted_usd or 0) + (day.other_usd or 0)


def _span(days: Sequence[Day]) -> int:
    first, last = days[0].day, days[-1].day
    return (last - first).days + 1 if first and last else 0


Columns = tuple[list[str], list[list[float]]]


def _by_day(days: Sequence[Day]) -> Columns:
    """Every day from the first to the last, those without spans as well."""
    known = {day.day: day for day in days}
    last: date = max(day for day in known if day is not None)
    dates = [last - timedelta(days=number) for number in reversed(range(_span(days)))]
    return _columns([(each.strftime("%d %b"), [known[each]] if each in known else []) for each in dates])


def _by_month(days: Sequence[Day]) -> Columns:
    """Every month from the first to the last, the latest three years of them."""
    months: dict[int, list[Day]] = {}
    for day in days:
        if day.day is not None:
            months.setdefault(day.day.year * 12 + day.day.month - 1, []).append(day)
    numbers = range(max(min(months), max(months) - _MAX_MONTHS + 1), max(months) + 1)
    return _columns([(date(n // 12, n % 12 + 1, 1).strftime("%b %Y"), months.get(n, [])) for n in numbers])


def _columns(periods: Sequence[tuple[str, Sequence[Day]]]) -> Columns:
    fields = ("used_usd", "wasted_usd", "other_usd")
    sums = [[sum(getattr(day, field) or 0.0 for day in days) for _, days in periods] for field in fields]
    return [label for label, _ in periods], sums


def statuses(report: Report) -> str:
    """Calls by status for each of the groups with most Calls, stacked. Empty without Calls."""
    groups = _most_called(report)
    if not groups:
        return ""
    fields = (
        ("pass", "passed"),
        ("fail", "failed"),
        ("error", "error"),
        ("not run", "not_run"),
        ("unknown", "unknown"),
    )
    series = [(name, [getattr(group.statuses, field) for group in groups]) for name, field in fields]
    while len(series) > 3 and not any(series[-1][1]):
        series.pop()
    return _bars("Calls by status", [group.key for group in groups], series, stacked=True, width=_NARROW)


def _most_called(report: Report) -> list[Group]:
    groups = sorted(report.groups, key=lambda group: -group.calls)[:MAX_BARS]
    return [group for group in groups if group.calls]


def failure_classes(totals: Figures) -> str:
    """Iterations and Calls by failure class. Empty without failures."""
    failures = totals.failures[:MAX_BARS]
    series = [
        ("Iterations", [entry.iterations for entry in failures]),
        ("Calls", [entry.calls for entry in failures]),
    ]
    return _bars("Failures by class", [entry.failure_class for entry in failures], series)


def failed_validators(report: Report) -> str:
    """Failed checks by validator. Empty without failures."""
    failed = [entry for entry in report.validators if entry.failed][:MAX_BARS]
    series = [("failed checks", [entry.failed for entry in failed])]
    return _bars("Failures by validator", [entry.validator for entry in failed], series)


def tokens(totals: Figures) -> str:
    """Tokens by type. Empty when none are known."""
    known = [(name, number) for name, number in totals.tokens.named() if number is not None]
    return _bars("Tokens by type", [name for name, _ in known], [("tokens", [number for _, number in known])])


def _bars(
    title: str, labels: Sequence[str], series: Sequence[Series], stacked: bool = False, width: int = _THIRD
) -> str:
    if not labels:
        return ""
    kind = pygal.HorizontalStackedBar if stacked else pygal.HorizontalBar
    bars = 1 if stacked else len(series)
    legend = len(series) > 1
    height = _bars_height(len(labels), bars, legend)
    chart = _chart(kind, title, width, height, text.count, _whole)
    chart.show_legend = legend
    # pygal draws horizontal bars from the bottom up.
    chart.x_labels = [_label(label) for label in reversed(labels)]
    return _rendered(chart, [(name, list(reversed(values))) for name, values in series])


def _bars_height(rows: int, bars: int, legend: bool) -> int:
    return 44 + 30 * legend + rows * (14 + 18 * bars)


def _whole(number: float) -> str:
    """Ticks between whole numbers say nothing."""
    return text.short_count(int(number)) if number == int(number) else ""


def _dollars(amount: float) -> str:
    return f"${amount:,.4g}"


def _label(label: str) -> str:
    safe = plain(label)
    return safe if len(safe) <= _LABEL_LENGTH else safe[: _LABEL_LENGTH - 1] + "…"


Formatter = Callable[[Any], str]


def _chart(kind: Any, title: str, width: int, height: int, value: Formatter, tick: Formatter) -> Any:
    chart = kind(width=width, height=height, formatter=value, value_formatter=tick, **_OPTIONS)
    chart.add_xml_filter(lambda root: _bare(root, title))
    return chart


def _rendered(chart: Any, series: Sequence[Series]) -> str:
    chart.legend_at_bottom_columns = len(series)
    for name, values in series:
        chart.add(name, values)
    return str(chart.render(is_unicode=True))


def _bare(root: Any, title: str) -> Any:
    """Leave the drawing: no scripts, styles, ids; what the scripts would show on hovering becomes a title."""
    for element in list(root.iter()):
        for child in list(element):
            if (
                not isinstance(child.tag, str)
                or child.tag in _DROPPED
                or "tooltip" in child.get("class", "").split()
            ):
                element.remove(child)
        _describe(element)
        element.attrib.pop("id", None)
        if element.tag == "title" and element.text == "Pygal":
            element.text = title
    root.set("role", "img")
    return root


def _describe(element: Any) -> None:
    descriptions = [child for child in element if child.tag == "desc"]
    if not descriptions:
        return
    words = [
        child.text for child in descriptions if child.get("class") in ("x_label", "value") and child.text
    ]
    for child in descriptions:
        element.remove(child)
    title = element.makeelement("title", {})
    title.text = ": ".join(reversed(words))
    element.insert(0, title)
