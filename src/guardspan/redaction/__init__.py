"""Redaction: what is secret in a text or a structure becomes a mark, and is counted.

``Redactor().redact(text)`` gives ``Redacted(text, count)``, ``.redact_value(obj)`` the same for structures.
Rules are data (:mod:`guardspan.redaction.rules`); the engine is linear in its input.
"""

from __future__ import annotations

from guardspan.redaction.engine import Redacted, RedactedValue, RedactionError, Redactor
from guardspan.redaction.findings import Finding
from guardspan.redaction.rule import Finder, Rule

__all__ = ["Finder", "Finding", "Redacted", "RedactedValue", "RedactionError", "Redactor", "Rule"]
