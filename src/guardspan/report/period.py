"""``--since``: a span of time until now, or a date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,6})([smhdw])")


def parse_since(text: str, now: datetime | None = None) -> int:
    """Unix nanoseconds of ``30m``, ``24h``, ``7d``, ``2w`` before now, or of an ISO 8601 date or time (UTC).

    Raises:
        ValueError: the text is neither, or lies before 1970; the message names the mend.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago:
        moment = (now or datetime.now(timezone.utc)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    else:
        moment = _date(text.strip())
    since_ns = int(moment.timestamp()) * 10**9
    if since_ns < 0:
        raise ValueError("is before 1970")
    return since_ns


def _date(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("is neither a time like 30m, 24h, 7d, 2w nor a date like 2025-11-30") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
