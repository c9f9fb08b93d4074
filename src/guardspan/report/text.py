"""Words and numbers for people."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guardspan.report.model import Figures, Report

NONE = "\N{EN DASH}"
"""What is not known."""
_ID_LENGTH = 12
_UUID_LENGTH = 36
_THIN = "\N{NARROW NO-BREAK SPACE}"
_SPACE = "\N{NO-BREAK SPACE}"


def header(report: Report) -> list[str]:
    """What a report is of: its period, its Calls, its files, and since when."""
    sources = report.sources
    facts = [plural(report.totals.calls, "Call"), f"{plural(sources.files, 'file')}, {size(sources.bytes)}"]
    if report.first is not None:
        facts.insert(0, period(report.first, report.last or report.first))
    if report.since is not None:
        facts.append(since(report.since))
    return facts


def short_id(name: str) -> str:
    """Enough of an id to find it by: its beginning, and of a UUID, which begins with the time, its end."""
    is_uuid = len(name) == _UUID_LENGTH and name.count("-") == 4
    return name[-_ID_LENGTH:] if is_uuid else name[:_ID_LENGTH]


def usd(amount: float | None) -> str:
    """Cents from a dollar on, below it three significant digits: $12.34, $0.0950, $0.000500."""
    if amount is None:
        return NONE
    if amount == 0:
        return "$0"
    if amount >= 1:
        return f"${amount:,.2f}"
    return f"${Decimal(f'{amount:.2e}'):f}"


def count(number: int | None) -> str:
    """A whole number, its thousands parted."""
    return NONE if number is None else f"{number:,}"


def short_count(number: int | None) -> str:
    """A whole number in four characters or so: 950, 1.2k, 34k, 5.6M."""
    if number is None:
        return NONE
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            value = number / size
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return str(number)


def total(*numbers: int | None) -> int | None:
    """The sum of what is known; None when nothing is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def share(part: float | None, whole: float | None) -> str:
    """A share in per cent, where it is known and there is a whole."""
    if part is None or not whole:
        return NONE
    return percent(part / whole)


def percent(rate: float | None) -> str:
    """A rate in per cent; 0 and 100 only where they are exact."""
    if rate is None:
        return NONE
    if rate in (0, 1):
        return f"{rate * 100:.0f}{_THIN}%"
    mark = "<" if rate < 0.001 else ">" if 0.999 < rate < 1 else ""
    return f"{mark}{min(max(rate, 0.001), 0.999) * 100:.1f}{_THIN}%"


def seconds(duration: float | None) -> str:
    """A duration: 850 µs, 12 ms, 1.25 s, 3 min 20 s, 2 h 5 min."""
    if duration is None:
        return NONE
    if duration < 0.001:
        return f"{duration * 1e6:.0f}{_THIN}µs"
    if duration < 0.9995:
        return f"{duration * 1e3:.3g}{_THIN}ms"
    if duration < 60:
        return f"{duration:.3g}{_THIN}s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes}{_THIN}min {rest}{_THIN}s"
    return f"{minutes // 60:,}{_THIN}h {minutes % 60}{_THIN}min"


def size(amount: int) -> str:
    """Bytes: 850 B, 1.2 kB, 64 MB."""
    value, unit = float(amount), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.3g}{_THIN}{unit}" if value < 1000 else f"{value:.0f}{_THIN}{unit}"


def moment(time: datetime | None, to_second: bool = False) -> str:
    """Date and time to the minute or the second; the zone is told once, in the header."""
    return NONE if time is None else time.strftime("%Y-%m-%d %H:%M" + ":%S" * to_second)


def period(first: datetime, last: datetime) -> str:
    """From when to when; to the second where both lie within a minute."""
    to_second = (last - first).total_seconds() < 60
    return f"{moment(first, to_second)} to {moment(last, to_second)} UTC"


def since(time: datetime) -> str:
    """From when on; its seconds where it has some."""
    return f"since {moment(time, bool(time.second))} UTC"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def unbroken(value: str) -> str:
    """The text with no space at which a browser breaks lines."""
    return value.replace(" ", _SPACE)


def missing(unpriced: int, without_tokens: int) -> str:
    """What is missing from the spend: ``at least; 59 Iterations without a price``; empty for nothing."""
    parts = []
    if unpriced:
        parts.append(f"{plural(unpriced, 'Iteration')} without a price")
    if without_tokens:
        parts.append(f"{without_tokens:,} without token counts")
    if without_tokens and not unpriced:
        parts = [f"{plural(without_tokens, 'Iteration')} without token counts"]
    return f"at least; {', '.join(parts)}" if parts else ""


def at_least(figures: Figures) -> str:
    """A mark before a cost per passed Call that is a lower bound; empty before others."""
    known = figures.cost_per_passed_call_usd is not None
    return "≥ " if known and figures.spend_is_partial else ""


def more(cut: int) -> str:
    """``and 3 more``; empty for none."""
    return f"and {cut:,} more" if cut > 0 else ""
