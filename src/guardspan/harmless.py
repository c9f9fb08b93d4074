r"""The one place where foreign text is made harmless.

Names, models, evidence, file names and variables were written by applications, models and strangers. A
terminal obeys escape sequences, terminals and browsers obey marks that turn the order of writing, and what
cannot be seen can carry hidden words or spoil a table. Every such character is shown as its number, like
``\u202e``; all other text stays as it is.
"""

from __future__ import annotations

import re
import unicodedata

MOST_MARKS = 5
"""Combining characters on one letter that are shown; Burmese needs five, and more hide the lines around."""
MAX_MESSAGE = 1_000
"""Characters of a message for the terminal."""
_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKS = {"Mn", "Me", "Mc"}
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Fillers, blanks and variation selectors: no control characters by their category, and yet unseen."""
_JOINING = re.compile("[\u1161-\u11ff\ud7b0-\ud7ff\U0001f3fb-\U0001f3ff]")
"""Korean vowels and finals written apart, and skin tones: they join what is before them, as marks do."""
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_SURROGATES = re.compile("[\ud800-\udfff]")
_BEYOND_ASCII = re.compile("[^\n -~]+")


def plain(text: str) -> str:
    """The text as one line in which nothing acts and nothing is hidden."""
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    # A mark at the beginning, or behind a number, has nothing of its own to stand on.
    marks, before = MOST_MARKS, ""
    for character in text:
        marks = _marks(character, before, marks)
        shown.append(character if marks <= MOST_MARKS else number(character))
        marks = min(marks, MOST_MARKS)
        before = character
    return "".join(shown)


def _marks(character: str, before: str, marks: int) -> int:
    """How many marks the latest letter has now; too many where the character must not be shown."""
    category = unicodedata.category(character)
    if category in _HARMFUL or _UNSEEN.match(character):
        return MOST_MARKS + 1
    if ord(character) in _SKIN_TONES and (marks or unicodedata.category(before) != "So"):
        return MOST_MARKS + 1
    return marks + 1 if category in _MARKS or _JOINING.match(character) else 0


def number(character: str) -> str:
    r"""A character as its number: ``\u202e``, ``\U000e0041``."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain_lines(text: str) -> list[str]:
    """The same for text of several lines."""
    return [plain(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n")]


def message(text: str) -> str:
    """One line for a terminal, harmless and of bounded length."""
    made = plain(text[: MAX_MESSAGE + 1])
    return made if len(made) <= MAX_MESSAGE else made[: MAX_MESSAGE - 1] + "…"


def whole(text: str) -> str:
    """The text with surrogates, which stand for bytes that are no UTF-8, as their numbers: UTF-8 has none."""
    return _SURROGATES.sub(lambda found: number(found[0]), text)


def ascii_json(document: str) -> str:
    """A JSON document, the same to a parser, in printable ASCII.

    JSON itself escapes only the control characters below 32: what else a terminal obeys would act when a
    person looks at it, and an encoding may lack the rest.
    """
    return _BEYOND_ASCII.sub(lambda found: _units(found[0]), document)


def _units(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
