"""Finds the value that follows a secret key's name in a text: quoted, bare, or to the end of a header line.

Works on UTF-8 bytes, bounded: a value is followed for at most :data:`LONGEST` bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from guardspan.redaction import checks
from guardspan.redaction.keys import words_of

LONGEST = 16_384
_BACK = 64

_NAME_BEFORE = re.compile(rb"[A-Za-z0-9_.\x80-\xff-]{0,64}\Z")
_BLANK = re.compile(rb"[ \t]{0,32}")
_OPENING = re.compile(rb"(?:[bBfFrRuU]{1,2}(?=[\"']))?([\"'`])")
_BARE = re.compile(rb"[^\s,;&\"'<>(){}\[\]|`\\]{1,4096}")
_LINE = re.compile(rb"[^\r\n\"'`]{0,16384}")
_SCHEME = re.compile(rb"(?i)\s{0,9}([A-Za-z][A-Za-z0-9-]{1,30})\s{1,9}(?=\S)")
_PASSWORD_WORDS = ("pass", "pwd", "senha", "kennwort", "contrase", "wachtwoord")
_LINES = frozenset({"authorization", "cookie"})


class Value(NamedTuple):
    """Where a value lies, and whether it stands without quotes, which a mark in JSON must then bring."""

    start: int
    end: int
    bare: bool


def name_before(data: bytes, start: int, end: int) -> str:
    """The whole name of a key of which ``data[start:end]`` was recognised."""
    before = _NAME_BEFORE.search(data, max(0, start - _BACK), start)
    begin = before.start() if before else start
    return data[begin:end].decode("utf-8", "replace").strip(" \t\"'`]:=>\\")


def value_after(data: bytes, position: int, name: str, quoted_name: bool) -> Value | None:
    """The secret value after a separator that ends at ``position``; None where none is."""
    blank = _BLANK.match(data, position)
    position = blank.end() if blank else position
    opening = _OPENING.match(data, position)
    last = words_of(name)[-1:] or ("",)
    if opening:
        return _quoted(data, opening.end(), opening.group(1), name)
    if last[0] in _LINES or last[0] == "cookies":
        return _line(data, position, last[0])
    return _bare(data, position, name, quoted_name)


def _quoted(data: bytes, start: int, quote: bytes, name: str) -> Value | None:
    end = _closing(data, start, quote)
    text = data[start:end].decode("utf-8", "replace")
    if not text.strip() or not checks.not_placeholder(text.strip()):
        return None
    words = words_of(name)
    if words and words[-1] == "token" and len(text) < 8 and not checks.digits(text):
        return None  # a token of a text, as in the probabilities that a model returns
    if words and words[-1] == "authorization":
        return _after_scheme(data, start, end)
    return Value(start, end, False)


def _closing(data: bytes, start: int, quote: bytes) -> int:
    """Where a quoted value ends: its closing quote, else its line, else the bound."""
    limit = min(len(data), start + LONGEST)
    position = start
    while True:
        end = data.find(quote, position, limit)
        if end < 0:
            line = data.find(b"\n", start, limit)
            return line if line >= 0 else limit
        if not _escaped(data, start, end):
            return end
        position = end + 1


def _escaped(data: bytes, start: int, position: int) -> bool:
    count = 0
    while position - 1 - count >= start and data[position - 1 - count] == 0x5C and count < 64:
        count += 1
    return count % 2 == 1


def _line(data: bytes, position: int, kind: str) -> Value | None:
    line = _LINE.match(data, position)
    if line is None or not line.group().strip():
        return None
    end = line.start() + len(line.group().rstrip())
    if kind == "authorization":
        return _after_scheme(data, position, end)
    text = data[position:end].decode("utf-8", "replace")
    return Value(position, end, True) if checks.not_placeholder(text) else None


def _after_scheme(data: bytes, start: int, end: int) -> Value | None:
    """An authorization's credentials; those of a digest have a rule of their own, for one part is secret."""
    scheme = _SCHEME.match(data, start, end)
    if scheme is None:
        text = data[start:end].decode("utf-8", "replace")
        return Value(start, end, True) if checks.not_placeholder(text) and len(text) >= 6 else None
    if scheme.group(1).lower() == b"digest":
        return None
    text = data[scheme.end() : end].decode("utf-8", "replace")
    if not checks.not_placeholder(text) or " " in text.strip():
        return None
    return Value(scheme.end(), end, True)


def _bare(data: bytes, position: int, name: str, quoted_name: bool) -> Value | None:
    found = _BARE.match(data, position)
    if found is None:
        return None
    text = found.group().decode("utf-8", "replace").rstrip(".:!?")
    end = found.start() + len(text.encode("utf-8", "replace"))
    if end < len(data) and data[end : end + 1] in (b"(", b"["):
        return None  # a call or an index: code that gets a secret, not the secret
    for_password = any(stem in name.lower() for stem in _PASSWORD_WORDS)
    if text.isdigit():
        return Value(found.start(), end, True) if for_password and len(text) >= 4 else None
    if quoted_name and text in {"true", "false", "null"}:
        return None
    plain = for_password and len(text) >= 8 and text.lower() not in checks.COMMON and text.isalpha()
    if checks.password(text) or (plain and checks.not_placeholder(text)):
        return Value(found.start(), end, True)
    return None
