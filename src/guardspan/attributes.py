"""Plain values as span attributes: what is not known is left out, and failures are told in redacted words."""

from __future__ import annotations

import re
from typing import Any

from guardspan import evidence, semconv
from guardspan.content import Tally
from guardspan.pricing import Usage
from guardspan.safety import Quietly
from guardspan.telemetry import Telemetry
from guardspan.views import Failure, ToolCalls

_SUM_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
)
_USAGE_ATTRIBUTES = (
    semconv.INPUT_TOKENS,
    semconv.OUTPUT_TOKENS,
    semconv.CACHE_READ_TOKENS,
    semconv.CACHE_CREATION_TOKENS,
    semconv.REASONING_TOKENS,
)
_ELIDED = re.compile(r", input_value=.{0,200}?, (?=input_type=)")
"""A value as pydantic quotes it, its middle left out: half of a key could not be told for one."""

_evidencing = Quietly("digest a failure's evidence")


class Evidence:
    """The redacted words of one failure (``text``) and their digest (``failure_digest``)."""

    __slots__ = ("failure_digest", "text")

    def __init__(self, failure_class: str, parts: list[str]) -> None:
        self.text = "\n".join(parts)
        self.failure_digest = evidence.failure_digest(failure_class, parts)

    @classmethod
    def of(cls, telemetry: Telemetry, tally: Tally, failure: Failure | None) -> Evidence | None:
        """The failure's own words, redacted first: everything made of them is made of that text."""
        if failure is None:
            return None
        parts = [telemetry.content.redact(tally, _ELIDED.sub(", ", part)) for part in failure.parts]
        if any(part is None for part in parts):
            return None
        with _evidencing:
            return cls(failure.failure_class, [part for part in parts if part is not None])
        return None


def put(attributes: dict[str, Any], name: str, value: Any) -> None:
    """Absent beats invented: a value that is not known is left out."""
    if value is not None:
        attributes[name] = value


def put_usage(attributes: dict[str, Any], usage: Usage) -> None:
    """Token counts, each where it is known."""
    for name, field_name in zip(_USAGE_ATTRIBUTES, _SUM_FIELDS, strict=True):
        put(attributes, name, getattr(usage, field_name))


def put_tools(attributes: dict[str, Any], tools: ToolCalls) -> None:
    """The tools that an answer called: their names, how many calls, and what became of those."""
    put(attributes, semconv.TOOL_NAME, tools.names or None)
    put(attributes, semconv.TOOL_CALLS, tools.calls or None)
    put(attributes, semconv.TOOL_FAILURES, tools.failures or None)
    put(attributes, semconv.TOOL_RETRIES, tools.retries or None)


def put_failure(attributes: dict[str, Any], failure: Failure | None, with_type: bool = True) -> None:
    """A failure's class, its cause's class and, unless it was handled, the exception's class."""
    if failure is None:
        return
    attributes[semconv.FAILURE_CLASS] = failure.failure_class
    put(attributes, semconv.FAILURE_CAUSE, failure.cause)
    if with_type:
        put(attributes, semconv.ERROR_TYPE, failure.error_type)


def sum_of(usages: list[Usage]) -> Usage:
    """The sum of what is known; a count that no Iteration knows stays unknown."""
    sums: dict[str, int | None] = {}
    for field_name in _SUM_FIELDS:
        known = [count for usage in usages if (count := getattr(usage, field_name)) is not None]
        sums[field_name] = sum(known) if known else None
    return Usage(**sums)
