"""Finders, the hooks that find what no rule can: what they say becomes a mark, what fails fails closed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardspan.redaction import Finder, RedactionError, Redactor

SECRET = "ghp_" + "a1B2c3D4e5" * 4


def words(*known: str) -> Finder:
    """A finder of these words, wherever they stand."""
    pattern = re.compile("|".join(map(re.escape, known)))
    return lambda text: [(*found.span(), "person") for found in pattern.finditer(text)]


ADA = Redactor(finders=[words("Ada Lovelace", "Ünal", "李明")])


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("ask Ada Lovelace today", "ask [redacted:person] today"),
        ("😀 é Ünal, 李明!", "😀 é [redacted:person], [redacted:person]!"),
        ("\ud800 Ünal", "\ud800 [redacted:person]"),
        ('{"who": "\\u00dcnal"}', '{"who": "[redacted:person]"}'),
        ("q=Ada%20Lovelace&x=%fe", "q=[redacted:person]&x=%fe"),
        (f"Ünal has {SECRET}", "[redacted:person] has [redacted:github]"),
        ("nobody", "nobody"),
    ],
)
def test_what_a_finder_finds_becomes_a_mark(text: str, redacted: str) -> None:
    """In characters of the text, beyond ASCII and in encodings, too; beside what our own rules find."""
    assert ADA.redact(text).text == redacted


def test_a_finder_sees_keys_texts_and_numbers_of_a_structure() -> None:
    """Wherever a name may stand."""
    by_number = Redactor(finders=[words("1234", "Ada")])
    found = by_number.redact_value({"Ada": 1, "n": [1234, 12.5, True], "t": ("Ada",)})
    assert found.value == {
        "[redacted:person]": 1,
        "n": ["[redacted:person]", 12.5, True],
        "t": ["[redacted:person]"],
    }
    assert found.count == 3


@given(cuts=st.lists(st.integers(0, 40), min_size=2, max_size=8), text=st.text(min_size=40, max_size=40))
def test_json_stays_json_whatever_a_finder_says(cuts: list[int], text: str) -> None:
    """A finder may take a quote or a brace with it: the structure is walked then."""
    source = json.dumps({"a": text, "b": [text]}, ensure_ascii=False)

    def finder(given: str) -> Iterable[tuple[int, int, str]]:
        return [(cut, min(cut + 9, len(given)), "x") for cut in cuts if cut < len(given)]

    json.loads(Redactor(finders=[finder]).redact(source).text)


def raising(text: str) -> Any:
    raise LookupError(text)


class Odd(BaseException):
    """No `Exception`."""


def cancelling(text: str) -> Any:
    raise asyncio.CancelledError(text)


def panicking(text: str) -> Any:
    raise Odd(text)


@pytest.mark.parametrize(
    "finder",
    [
        raising,
        cancelling,
        panicking,
        lambda text: None,
        lambda text: text,
        lambda text: [(0, len(text) + 1, "x")],
        lambda text: [(3, 2, "x")],
        lambda text: [(-1, 2, "x")],
        lambda text: [(0, 2)],
        lambda text: [(0, 2, text)],
        lambda text: [("0", 2, "x")],
        lambda text: [(0, 2, None)],
    ],
)
def test_a_finder_that_fails_fails_the_redaction(finder: Any) -> None:
    """Closed: the text is not to be had, and the error holds nothing of it."""
    redactor = Redactor(finders=[finder])
    for use in (redactor.redact, redactor.redact_value, redactor.explain):
        with pytest.raises(RedactionError) as caught:
            use(f"a text with {SECRET} in it")
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_finder_is_explained() -> None:
    """As every other rule is, by its place in bytes."""
    found = ADA.explain("é Ünal")
    assert [(f.start, f.end, f.rule, f.reason) for f in found] == [(3, 8, "person", "a finder says so")]
