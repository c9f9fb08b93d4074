"""Findings: where secrets lie in a text, and the marks that take their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

KEY_RULE = "key"
"""The mark of what its key's name gives away."""

MARK = re.compile(r"\[redacted:[A-Za-z0-9_.-]{1,40}(?:#[0-9a-f]{1,64})?\]")
"""A mark, with a digest or without."""

Digest = Callable[[bytes], str]
"""The keyed digest of a secret, in hex digits."""


class Finding(NamedTuple):
    """One secret: its place in the UTF-8 bytes of the text, its rule, the quote that a mark must bring.

    ``digest`` tells equal secrets, where that was asked for, and is empty elsewhere.
    """

    start: int
    end: int
    rule: str
    reason: str
    quote: bytes = b""
    digest: str = ""


def mark(rule: str, digest: str = "") -> str:
    """What stands in the place of a secret: ``[redacted:RULE]`` or ``[redacted:RULE#DIGEST]``."""
    return f"[redacted:{rule}#{digest}]" if digest else f"[redacted:{rule}]"


def merged(found: list[Finding]) -> list[Finding]:
    """Findings in order, none within or across another."""
    kept: list[Finding] = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        if kept and finding.start < kept[-1].end:
            last = kept[-1]
            if (last.rule, finding.rule) == ("url", "email"):
                continue  # the host behind a URL's user and password
            kept[-1] = _joined(last, finding)
        elif finding.end > finding.start:
            kept.append(finding)
    return kept


def _joined(one: Finding, other: Finding) -> Finding:
    """Two findings that overlap; of one secret, the digest is that of its plainest form, which comes last."""
    end = max(one.end, other.end)
    digest = other.digest if (other.start, other.end) == (one.start, end) else one.digest
    return one._replace(end=end, quote=one.quote or other.quote, digest=digest)


def replaced(data: bytes, findings: list[Finding]) -> bytes:
    """The text with a mark in the place of each finding."""
    parts: list[bytes] = []
    position = 0
    for finding in findings:
        parts.append(data[position : finding.start])
        parts.append(finding.quote + mark(finding.rule, finding.digest).encode() + finding.quote)
        position = finding.end
    parts.append(data[position:])
    return b"".join(parts)
