"""Interim redactor."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple


class RedactionError(Exception):
    """A value could not be redacted."""


class Redacted(NamedTuple):
    """A text after redaction."""

    text: str
    count: int


class RedactedValue(NamedTuple):
    """A value after redaction."""

    value: Any
    count: int


_RULES = re.compile(
    r"sk-[A-Za-z0-9_-]{16,200}|AKIA[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{20,200}|AIza[0-9A-Za-z_-]{30,40}"
    r"|eyJ[A-Za-z0-9_-]{5,2000}\.[A-Za-z0-9_-]{5,2000}\.[A-Za-z0-9_-]{5,2000}"
    r"|(?i:bearer|basic)\s{1,5}[A-Za-z0-9._~+/=-]{8,2000}|(?<=://)[^\s/@:]{1,100}:[^\s/@]{1,200}(?=@)"
    r"|[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,100}\.[A-Za-z]{2,10}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----[^-]{0,5000}(?:-----END[^-]{0,60}-----)?"
)
_KEY = re.compile(r"(?i)api_?-?key|authorization|password|secret|^token$|access_?token|cookie|credential")


class Redactor:
    """Interim."""

    def redact(self, text: str) -> Redacted:
        """Redact a text."""
        return Redacted(*_RULES.subn("[redacted:interim]", text))

    def redact_value(self, obj: Any) -> RedactedValue:
        """Redact a structure."""
        if isinstance(obj, str):
            return RedactedValue(*self.redact(obj))
        if isinstance(obj, dict):
            out, total = {}, 0
            for key, value in obj.items():
                done = (
                    RedactedValue("[redacted:key]", 1) if _KEY.search(str(key)) else self.redact_value(value)
                )
                out[self.redact(str(key)).text] = done.value
                total += done.count
            return RedactedValue(out, total)
        if isinstance(obj, list | tuple):
            parts = [self.redact_value(item) for item in obj]
            return RedactedValue([p.value for p in parts], sum(p.count for p in parts))
        return RedactedValue(obj, 0)
