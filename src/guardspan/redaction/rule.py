"""What a rule is, and a finder; the rules themselves are in :mod:`guardspan.redaction.rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Finder = Callable[[str], Iterable[tuple[int, int, str]]]
"""Finds what no rule can: of a text, the start and end of each secret in characters, and the id for its mark.

Called on the application's threads, for each text that is recorded. Whatever it raises drops that text.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret.

    Attributes:
        id: what the mark says: ``[redacted:ID]``.
        reason: why it is secret, in a few words.
        pattern: RE2; see the module.
        tail: characters (inside of a class) over which a match goes on.
        check: name of a function in :mod:`guardspan.redaction.checks`, or None.
        matches: texts in which the rule must find something.
        misses: texts in which it must not.
        option: name of the option without which the rule is not used, or empty: always used.
    """

    id: str
    reason: str
    pattern: str
    tail: str = ""
    check: str | None = None
    matches: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    option: str = ""
