"""What a rule is; the rules themselves are in :mod:`guardspan.redaction.rules`."""

from __future__ import annotations

from dataclasses import dataclass


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
