"""Searches texts for sentinels: for a piece of one, plain, and for the whole in other clothes."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from sweep.sentinels import Sentinel

_CLOTHES = 12
"""Characters of an encoded form that are looked for, from its middle."""


def leaks(planted: Iterable[tuple[str, Sentinel]], texts: dict[str, str]) -> dict[str, str]:
    """What surrounds it, by `place -> channel`, for each sentinel of which something is in a channel."""
    tables = _tables(planted)
    return {
        f"{place} -> {channel}": _around(text, piece)
        for channel, text in texts.items()
        for length, table in tables.items()
        for piece, place in _found(text, length, table)
    }


def _around(text: str, piece: str) -> str:
    place = text.index(piece)
    return text[max(place - 100, 0) : place + 60]


def _tables(planted: Iterable[tuple[str, Sentinel]]) -> dict[int, dict[str, str]]:
    """What to look for, by its length, and the place where each was planted."""
    tables: dict[int, dict[str, str]] = {}
    for place, sentinel in planted:
        core, part = sentinel.core, sentinel.part
        for start in range(len(core) - part + 1):
            tables.setdefault(part, {})[core[start : start + part]] = place
        for form in _forms(core):
            middle = (len(form) - _CLOTHES) // 2
            tables.setdefault(_CLOTHES, {})[form[middle : middle + _CLOTHES]] = place
    return tables


def _forms(core: str) -> list[str]:
    data = core.encode()
    return [
        *(base64.b64encode(b"-" * offset + data).decode()[4:-4] for offset in range(3)),
        data.hex(),
        data.hex().upper(),
        "".join(f"%{byte:02x}" for byte in data),
        "".join(f"%{byte:02X}" for byte in data),
        "".join(f"\\u{byte:04x}" for byte in data),
        "".join(f"\\x{byte:02x}" for byte in data),
        "".join(f"&#{byte};" for byte in data),
        core[::-1],
    ]


def _found(text: str, length: int, table: dict[str, str]) -> list[tuple[str, str]]:
    pieces = {text[start : start + length] for start in range(len(text) - length + 1)} & table.keys()
    return [(piece, table[piece]) for piece in pieces]
