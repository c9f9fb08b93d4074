"""Plain values as span attributes: what is not known is left out, and failures are told in redacted words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from guardspan import evidence, semconv
from guardspan.content import Content, Tally
from guardspan.pricing import Usage
from guardspan.redaction.findings import mark
from guardspan.safety import Quietly
from guardspan.telemetry import Telemetry
from guardspan.views import Failure, Response, ToolCalls, ValidatorView

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
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ELIDED = re.compile(r", input_value=.{0,200}?, (?=input_type=)")
"""A value as pydantic quotes it, its middle left out: half of a key could not be told for one."""

UNNAMED_VALIDATOR = "validator"
"""Stands for the name of a validator that has none, or one that cannot be redacted."""

_PIECE = 6
"""So many characters of a secret in a row are as good as the whole."""
_PIECE_MARK = mark("piece")
_evidencing = Quietly("digest a failure's evidence")


class Answer(NamedTuple):
    """An answer of which a piece may be quoted; ``broken_off`` where its end never came."""

    text: str
    broken_off: bool = False

    def pieces_of_secrets(self, content: Content) -> frozenset[str]:
        """Every six characters in a row of the secrets in it, which no rule would know in a piece of it.

        Raises:
            guardspan.redaction.RedactionError: the text could not be looked through.
        """
        data = self.text.encode("utf-8", "surrogatepass")
        found = content.redactor.explain(self.text)
        secrets = [data[each.start : each.end].decode("utf-8", "replace") for each in found]
        if self.broken_off:
            secrets.append(self.text[_end_of_whole(self.text) :])
        return frozenset(
            secret[start : start + _PIECE] for secret in secrets for start in range(len(secret) - _PIECE + 1)
        )


def _without(text: str, pieces: frozenset[str]) -> str:
    """A text with a mark in the place of all that is made of the pieces."""
    parts: list[str] = []
    end = shown = 0
    for start in range(len(text) - _PIECE + 1):
        if text[start : start + _PIECE] in pieces:
            if start > end or not parts:
                parts += [text[shown:start], _PIECE_MARK]
            shown = end = start + _PIECE
    return "".join([*parts, text[shown:]])


class Evidence:
    """The redacted words of one failure (``text``) and their digest (``failure_digest``)."""

    __slots__ = ("failure_digest", "text")

    def __init__(self, failure_class: str, parts: list[str]) -> None:
        self.text = "\n".join(parts)
        self.failure_digest = evidence.failure_digest(failure_class, parts)

    @classmethod
    def of(
        cls, telemetry: Telemetry, tally: Tally, failure: Failure | None, answer: Answer | None = None
    ) -> Evidence | None:
        """The failure's own words, redacted first: everything made of them is made of that text.

        Args:
            telemetry: the instrumentor's tools.
            tally: counts what was replaced.
            failure: None where nothing failed.
            answer: one of which the words may quote a piece.
        """
        if failure is None:
            return None
        parts = [telemetry.content.redact(tally, _ELIDED.sub(", ", part)) for part in failure.parts]
        if any(part is None for part in parts):
            return None
        with _evidencing:
            words = [part for part in parts if part is not None]
            hidden = answer.pieces_of_secrets(telemetry.content) if answer is not None and words else None
            return cls(failure.failure_class, [_without(part, hidden) for part in words] if hidden else words)
        return None


def put(attributes: dict[str, Any], name: str, value: Any) -> None:
    """Absent beats invented: a value that is not known is left out."""
    if value is not None:
        attributes[name] = value


def put_usage(attributes: dict[str, Any], usage: Usage) -> None:
    """Token counts, each where it is known."""
    for name, field_name in zip(_USAGE_ATTRIBUTES, _SUM_FIELDS, strict=True):
        put(attributes, name, getattr(usage, field_name))


def put_tools(attributes: dict[str, Any], tools: ToolCalls, content: Content) -> None:
    """The tools that an answer called: their names, how many calls, and what became of those."""
    put(attributes, semconv.TOOL_NAME, named_all(content, tools.names))
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


def put_response(attributes: dict[str, Any], response: Response, content: Content) -> None:
    """What a response says of itself: a provider can write anything there."""
    put(attributes, semconv.RESPONSE_MODEL, content.name(response.model))
    put(attributes, semconv.PROVIDER_NAME, content.name(response.provider))
    put(attributes, semconv.RESPONSE_ID, named_id(content, response.response_id))
    put(attributes, semconv.FINISH_REASONS, named_all(content, response.finish_reasons))


_MAX_GROUPS = 12
"""Groups of digits or the like that one number is written in, at most."""


def without_broken_end(text: str) -> str:
    """A text that broke off, without its last word, nor the groups of a number there, and with a mark.

    Half a key or number is none that a rule would know, and the half is as good as the whole.
    """
    end = _end_of_whole(text)
    return text if end == len(text) else f"{text[:end]}…"


def _end_of_whole(text: str) -> int:
    """Where the last words begin that may go on beyond the text's end."""
    words = text.rsplit(None, _MAX_GROUPS)[-_MAX_GROUPS:]
    end, last = len(text), not text[-1:].isspace()
    for word in reversed(words):
        if not last and not any(map(str.isdigit, word)):
            break
        end, last = text.rindex(word, 0, end), False
    return end


# --- names: given by code, by a model or by a provider, and redacted whoever gave them ---------------------


def named_all(content: Content, names: Iterable[str]) -> tuple[str, ...] | None:
    """Names as they are emitted, each once; None when none is left."""
    return tuple(dict.fromkeys(named for name in names if (named := content.name(name)))) or None


def named_id(content: Content, given: str | None) -> str | None:
    """An id as it is emitted: one that somebody chose may be anybody's name, or a key; a UUID is neither."""
    return given if given is not None and _UUID.fullmatch(given) else content.name(given)


def named_failure(content: Content, failure: Failure | None) -> Failure | None:
    """The failure, the names of its classes as they are emitted."""
    if failure is None:
        return None
    error_type, cause = content.name(failure.error_type), content.name(failure.cause)
    if error_type == failure.error_type and cause == failure.cause:
        return failure
    return replace(failure, error_type=error_type, cause=cause)


def name_validator(content: Content, validator: ValidatorView) -> None:
    """Put the names of a validator as they are emitted in the place of those that the library gave."""
    validator.name = content.name(validator.name) or UNNAMED_VALIDATOR
    validator.registered_name = content.name(validator.registered_name) or UNNAMED_VALIDATOR
    validator.path = content.name(validator.path) or "$"
    validator.on_fail = content.name(validator.on_fail)
    validator.error_type = content.name(validator.error_type)


def sum_of(usages: list[Usage]) -> Usage:
    """The sum of what is known; a count that no Iteration knows stays unknown."""
    sums: dict[str, int | None] = {}
    for field_name in _SUM_FIELDS:
        known = [count for usage in usages if (count := getattr(usage, field_name)) is not None]
        sums[field_name] = sum(known) if known else None
    return Usage(**sums)
