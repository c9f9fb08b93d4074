"""Columns of tables whose head names a secret: CSV, tab-separated and Markdown, all bounded."""

from __future__ import annotations

import re
from typing import NamedTuple

from guardspan.redaction import checks
from guardspan.redaction.values import for_password

_LONGEST_LINE = 2048
_LONGEST_TABLE = 16_384
_MAX_COLUMNS = 64
_BESIDE = re.compile(rb"[\"' ]{0,3}([,;\t|]|\r?\n|\Z)")
_BEFORE = re.compile(rb"([,;\t|]|\n|\A)[\"' ]{0,3}\Z")
_CELL = re.compile(rb"\s*(?:\"([^\"]*)\"|'([^']*)'|(.*?))\s*\Z", re.S)


class Column(NamedTuple):
    """The secret cells below a head, where its line ends, and where the table ends."""

    cells: list[tuple[int, int]]
    head: int
    end: int


def column(data: bytes, begin: int, end: int, name: str) -> Column | None:
    """The cells under the head ``data[begin:end]``; None where that is the head of no column."""
    after = _BESIDE.match(data, end, end + 8)
    before = _BEFORE.search(data, max(0, begin - 4), begin)
    if after is None or before is None or (begin > 4 and before.group(1) == b""):
        return None
    separator = _separator(before.group(1), after.group(1))
    if separator is None:
        return None
    start = data.rfind(b"\n", max(0, begin - _LONGEST_LINE), begin) + 1
    line = data.find(b"\n", end, end + _LONGEST_LINE)
    if line < 0 or begin - start > _LONGEST_LINE:
        return None
    place = data.count(separator, start, begin)
    columns = data.count(separator, start, line)
    if columns > _MAX_COLUMNS or columns == 0:
        return None
    return _below(data, line + 1, separator, place, columns, name)


def _separator(before: bytes, after: bytes) -> bytes | None:
    """What parts the cells; None where the sides differ, or nothing parts them."""
    sides = {side for side in (before, after) if side in (b",", b";", b"\t", b"|")}
    return sides.pop() if len(sides) == 1 else None


def _below(data: bytes, position: int, separator: bytes, place: int, columns: int, name: str) -> Column:
    cells: list[tuple[int, int]] = []
    head = position
    limit = min(len(data), position + _LONGEST_TABLE)
    while position < limit:
        line = data.find(b"\n", position, limit)
        end = line if line >= 0 else limit
        if data.count(separator, position, end) != columns:
            break
        cell = _cell(data, position, end, separator, place)
        if _secret(data[slice(*cell)].decode("utf-8", "replace"), name):
            cells.append(cell)
        position = end + 1
    return Column(cells, head, position)


def _cell(data: bytes, start: int, end: int, separator: bytes, place: int) -> tuple[int, int]:
    """Where the content of a line's cell lies, without quotes and blanks."""
    for _ in range(place):
        start = data.find(separator, start, end) + 1
    last = data.find(separator, start, end)
    found = _CELL.match(data, start, last if last >= 0 else end)
    return found.span(found.lastindex or 0) if found else (start, start)


def _secret(text: str, name: str) -> bool:
    if not text or " " in text or not checks.not_placeholder(text):
        return False
    return checks.password(text) if for_password(name) else checks.strong(text)
