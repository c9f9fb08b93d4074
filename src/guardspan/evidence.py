"""What failed, in a few lines: slices, normal forms, digests, repeats. Pure functions on redacted text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import rfc8785

VERSION = 1


class Slice(NamedTuple):
    """A piece of evidence and whether anything was cut from it."""

    text: str
    truncated: bool


def slice_evidence(text: str, *, words: Sequence[str] = (), limit: int = 1600) -> Slice:
    """The lines around the failure's own words."""
    text = _encodable(text)
    return Slice(text[:limit], len(text) > limit)


def normalise(text: str) -> str:
    """What two runs of the same failure have in common."""
    return " ".join(_encodable(text).split())


def sha256_hex(text: str) -> str:
    """SHA-256 (64 hex digits) of the text as UTF-8, lone surrogates replaced."""
    return hashlib.sha256(_encodable(text).encode()).hexdigest()


def failure_digest(failure_class: str, parts: Sequence[str]) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of a failure's class and normalised words."""
    failure = {"class": failure_class, "parts": sorted(normalise(part) for part in parts)}
    return hashlib.sha256(rfc8785.dumps(failure)).hexdigest()


class Repeats:
    """Counts equal digests in a row within one Call."""

    __slots__ = ("_last", "_row", "_stuck")

    def __init__(self) -> None:
        self._last: str | None = None
        self._row = 0
        self._stuck = False

    def add(self, digest: str | None) -> int:
        """How often ``digest`` has now come in a row: 1 the first time; 0 for None, which ends the row."""
        self._row = 0 if digest is None else self._row + 1 if digest == self._last else 1
        self._last = digest
        self._stuck = self._stuck or self._row >= 3
        return self._row

    @property
    def stuck(self) -> bool:
        """Whether one digest ever came three times in a row."""
        return self._stuck


_SURROGATES = re.compile("[\ud800-\udfff]")


def _encodable(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text)
