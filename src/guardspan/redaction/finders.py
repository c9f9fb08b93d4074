"""Runs finders, the callables that find what no rule can, and checks what they say."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence

from guardspan.redaction.decode import View
from guardspan.redaction.findings import Digest, Finding
from guardspan.redaction.rule import Finder

_SURROGATE = re.compile("[\ud800-\udfff]")
_RULE_ID = re.compile(r"[A-Za-z0-9_.-]{1,40}")


class FinderError(ValueError):
    """A finder gave what is no span of the text; the message holds nothing of the text."""


def findings(finders: Sequence[Finder], view: View, digest: Digest | None) -> list[Finding]:
    """What the finders find in one view of a text, placed in the original.

    They are given U+FFFD for what is no character, so that they may encode the text.

    Raises:
        FinderError: a finder gave no ``(start, end, rule)`` within the text.
        FinderError: a finder raised; only what ends the process is let through.
    """
    text = view.data.decode("utf-8", "surrogateescape")
    given = _SURROGATE.sub("\ufffd", text)
    spans = sorted(span for finder in finders for span in _asked(finder, given))
    found: list[Finding] = []
    characters = position = 0
    for start, end, rule in spans:
        position += _size(text[characters:start])
        characters = start
        last = position + _size(text[start:end])
        secret = digest(view.data[position:last]) if digest else ""
        found.append(Finding(*view.original(position, last), rule, "a finder says so", b"", secret))
    return found


def _asked(finder: Finder, text: str) -> list[tuple[int, int, str]]:
    try:
        return list(_checked(finder(text), len(text)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a CancelledError of its own would cancel the application's task
        raise FinderError(f"a finder failed ({type(error).__name__})") from None


def _checked(spans: Iterable[tuple[int, int, str]], length: int) -> Iterator[tuple[int, int, str]]:
    for first, last, rule in spans:
        start, end = operator.index(first), operator.index(last)
        if not 0 <= start < end <= length or not isinstance(rule, str) or not _RULE_ID.fullmatch(rule):
            raise FinderError("a finder gave no (start, end, rule) within the text")
        yield start, end, rule


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
