r"""Views of a text with one layer of encodings taken off, and the way back to the original's bytes.

A layer is what JSON strings, URLs and HTML write for other characters, plus characters that one does not
see: ``\uXXXX`` and ``\"``, ``%40``, ``&quot;``, soft hyphens, zero-width and non-breaking spaces.
"""

from __future__ import annotations

import bisect
import functools
import html
import re

MAX_LAYERS = 6

_TOKEN = re.compile(
    rb"\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[\"\\/'bfnrt]|%[0-9A-Fa-f]{2}|&(?:[a-z]{2,6}|\#\d{1,6}|\#x[0-9A-Fa-f]{1,5});"
    rb"|\xc2[\xa0\xad]|\xe2\x80[\x80-\x93\xaf]|\xe2\x81\xa0|\xef\xbb\xbf|\xe3\x80\x80|\xcd\x8f|\xe1\xa0\x8e"
    rb"|=3D|\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e]|\x1b\[[0-9;]{0,12}m"
)
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_SPACES = {
    b"\xc2\xa0",
    b"\xe2\x80\xaf",
    b"\xe3\x80\x80",
    *(bytes([0xE2, 0x80, i]) for i in range(0x80, 0x8B)),
}
_HYPHENS = {bytes([0xE2, 0x80, i]) for i in range(0x90, 0x94)}


_ASCII_HEADS = (b"\\", b"%", b"&", b"\x1b", b"=3D")
_OTHER_HEADS = tuple(bytes([head]) for head in b"\xc2\xe2\xef\xe3\xcd\xe1")
"""What tokens begin with: most texts have none, which is quicker to tell so."""


class View:
    """A text (UTF-8) as it reads, with spans mapped back to the text that it was made from."""

    __slots__ = ("_ends", "_sources", "_starts", "data", "under")

    def __init__(self, data: bytes, under: View | None = None) -> None:
        self.data = data
        self.under = under
        self._starts: list[int] = []
        self._sources: list[int] = []
        self._ends: list[int] = []

    def decoded(self) -> View | None:
        """The view with a further layer taken off; None when there is none."""
        heads = _ASCII_HEADS if self.data.isascii() else _ASCII_HEADS + _OTHER_HEADS
        if not any(head in self.data for head in heads):
            return None
        return View(_TOKEN.sub(_replacement, self.data), self)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """A span of this view as a span of the first text; an encoded character is never cut in two."""
        view: View | None = self
        while view is not None and view.under is not None:
            start, end = view._source(start, False), view._source(end, True)
            view = view.under
        return start, end

    def _map(self, under: bytes) -> None:
        """Where each piece of this view lies in the text below; made only where something was found."""
        length = position = 0
        for token in _TOKEN.finditer(under):
            begin, end = token.span()
            if begin > position:
                self._add(length, position, -1)
                length += begin - position
            self._add(length, begin, end)
            length += len(_plain(token.group()))
            position = end
        self._add(length, position, -1)

    def _add(self, start: int, source: int, end: int) -> None:
        self._starts.append(start)
        self._sources.append(source)
        self._ends.append(end)

    def _source(self, offset: int, is_end: bool) -> int:
        """Where a byte lies in the text below; for an end, where the byte before it ends."""
        if not self._starts and self.under is not None:
            self._map(self.under.data)
        at = offset - 1 if is_end and offset > 0 else offset
        piece = bisect.bisect_right(self._starts, at) - 1
        if self._ends[piece] >= 0:
            return self._ends[piece] if is_end else self._sources[piece]
        return self._sources[piece] + offset - self._starts[piece]


@functools.lru_cache(maxsize=4096)
def _plain(token: bytes) -> bytes:
    head = token[:1]
    if head == b"\\":
        if token[1:2] == b"u":
            return chr(int(token[2:], 16)).encode("utf-8", "surrogatepass")
        if token[1:2] == b"x":
            return bytes([int(token[2:], 16)])
        return _ESCAPES.get(token[1:2], token[1:2])
    if head == b"%":
        return bytes([int(token[1:], 16)])
    if head == b"&":
        text = token.decode("ascii")
        plain = html.unescape(text)
        return b" " if plain == "\xa0" else b"" if plain == "\xad" else plain.encode("utf-8", "surrogatepass")
    if head == b"=":  # quoted-printable
        return b"="
    if token in _HYPHENS:
        return b"-"
    if head == b"\xef" and token != b"\xef\xbb\xbf":  # the wide form of an ASCII character
        return bytes([ord(token.decode()) - 0xFEE0])
    return b" " if token in _SPACES or head == b"\x1b" else b""


def _replacement(token: re.Match[bytes]) -> bytes:
    return _plain(token.group())


def views(data: bytes) -> list[View]:
    """The text as it is, then with one layer after the other taken off."""
    found = [View(data)]
    while len(found) <= MAX_LAYERS:
        further = found[-1].decoded()
        if further is None or further.data == found[-1].data:
            break
        found.append(further)
    return found
