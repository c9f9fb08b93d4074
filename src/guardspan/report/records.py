"""What the report keeps of a span: small typed records, made of OTLP JSON that anybody may have written.

A value of the wrong type is left out and told to ``tell_fault``, so that it cannot spoil a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from guardspan import semconv

MAX_NAME = 256
"""Characters kept of a name."""
MAX_TEXT = 65_536
"""Characters kept of an evidence slice."""
_MAX_COUNT = 2**53
_MAX_USD = 1e9
_MAX_NS = 2**63

TellFault = Callable[[str], None]
"""Called with what is wrong: words of our own, never a value that was read."""


class SpanFault(Exception):
    """A span without which the report does better; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What a resource says of its spans."""

    service: str | None = None
    team: str | None = None


@dataclass(slots=True)
class Span:
    """What all spans of ours have. Ids are lowercase hex, times Unix nanoseconds; None is not known."""

    trace_id: str
    span_id: str
    parent_id: str | None
    start_ns: int
    end_ns: int
    service: str | None = None
    name: str | None = None
    team: str | None = None
    error_type: str | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(slots=True)
class Spent(Span):
    """What Calls and Iterations have: the LLM's own counts (input includes its cached parts), US dollars."""

    call_id: str | None = None
    status: str | None = None
    stream: bool | None = None
    abandoned: bool | None = None
    request_model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    failed_validators: tuple[str, ...] = ()
    failure_class: str | None = None
    failure_cause: str | None = None
    redactions: int | None = None
    redaction_failures: int | None = None

    @property
    def has_tokens(self) -> bool:
        """Whether any token count is known."""
        return not (
            self.input_tokens is None
            and self.output_tokens is None
            and self.cache_read_tokens is None
            and self.cache_creation_tokens is None
            and self.reasoning_tokens is None
        )


@dataclass(slots=True)
class CallSpan(Spent):
    """A Call: one execution of a guard or an agent."""

    guardrails_call_id: str | None = None
    library: str | None = None
    entry: str | None = None
    iterations: int | None = None
    reasks_limit: int | None = None
    limit_reached: bool | None = None
    stuck: bool | None = None
    conversation_id: str | None = None
    history_repairs: tuple[str, ...] = ()
    unpriced: int | None = None


@dataclass(slots=True)
class IterationSpan(Spent):
    """An Iteration: one attempt of a Call."""

    index: int | None = None
    stage: str | None = None
    reask_reason: str | None = None
    library_status: str | None = None
    outcome: str | None = None
    response_model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    failure_repeats: int | None = None
    tools: tuple[str, ...] = ()
    tool_calls: int | None = None
    tool_failures: int | None = None
    tool_retries: int | None = None
    failed_attempts: int | None = None
    evidence: str | None = None

    @property
    def model(self) -> str | None:
        """The response's model, else the one asked for."""
        return self.response_model or self.request_model

    @property
    def may_lack_tokens(self) -> bool:
        """Whether it has no token count though it may have asked an LLM: nothing refused that."""
        refused = self.status == semconv.NOT_RUN and not self.abandoned
        return self.stage in ("initial", "reask") and not refused and not self.has_tokens

    @property
    def lacks_tokens(self) -> bool:
        """Whether it has no token count though it tells by itself that it asked an LLM."""
        answered = self.response_model or self.response_id or self.finish_reasons
        return self.may_lack_tokens and (self.stage == "reask" or bool(answered))


@dataclass(slots=True)
class ValidatorSpan(Span):
    """A validator's work within one Iteration."""

    validator: str | None = None
    on_fail: str | None = None
    path: str | None = None
    outcome: str | None = None
    runs: int | None = None


_Value = dict[str, Any]
_Reader = Callable[[_Value], Any]


def _text(limit: int) -> _Reader:
    def read(value: _Value) -> str:
        text = value["stringValue"]
        if not isinstance(text, str):
            raise TypeError
        return text if len(text) <= limit else text[:limit] + "…"

    return read


_name = _text(MAX_NAME)


def _one_of(*allowed: str) -> _Reader:
    def read(value: _Value) -> str:
        text = value["stringValue"]
        if text not in allowed:
            raise ValueError
        return str(text)

    return read


def _flag(value: _Value) -> bool:
    flag = value["boolValue"]
    if not isinstance(flag, bool):
        raise TypeError
    return flag


def _count(value: _Value) -> int:
    """OTLP JSON writes 64-bit integers as strings; some writers use numbers."""
    count = _integer(value["intValue"])
    if not 0 <= count <= _MAX_COUNT:
        raise ValueError
    return count


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    return int(value)


def _usd(value: _Value) -> float:
    number = value["doubleValue"] if "doubleValue" in value else value["intValue"]
    if isinstance(number, bool):
        raise TypeError
    usd = float(number)
    if not (math.isfinite(usd) and 0 <= usd <= _MAX_USD):
        raise ValueError
    return usd


def _names(value: _Value) -> tuple[str, ...]:
    return tuple(_name(entry) for entry in value["arrayValue"].get("values", ())[:64])


_Fields = dict[str, tuple[str, _Reader]]

_SPAN: _Fields = {
    semconv.NAME: ("name", _name),
    semconv.TEAM: ("team", _name),
    semconv.ERROR_TYPE: ("error_type", _name),
}
_SPENT: _Fields = {
    **_SPAN,
    semconv.CALL_ID: ("call_id", _name),
    semconv.STATUS: ("status", _one_of(semconv.PASS, semconv.FAIL, semconv.ERROR, semconv.NOT_RUN)),
    semconv.STREAM: ("stream", _flag),
    semconv.ABANDONED: ("abandoned", _flag),
    semconv.REQUEST_MODEL: ("request_model", _name),
    semconv.INPUT_TOKENS: ("input_tokens", _count),
    semconv.OUTPUT_TOKENS: ("output_tokens", _count),
    semconv.CACHE_READ_TOKENS: ("cache_read_tokens", _count),
    semconv.CACHE_CREATION_TOKENS: ("cache_creation_tokens", _count),
    semconv.REASONING_TOKENS: ("reasoning_tokens", _count),
    semconv.COST_USD: ("cost_usd", _usd),
    semconv.VALIDATORS_FAILED: ("failed_validators", _names),
    semconv.FAILURE_CLASS: ("failure_class", _name),
    semconv.FAILURE_CAUSE: ("failure_cause", _name),
    semconv.REDACTIONS: ("redactions", _count),
    semconv.REDACTION_FAILURES: ("redaction_failures", _count),
}
_CALL: _Fields = {
    **_SPENT,
    semconv.GUARDRAILS_CALL_ID: ("guardrails_call_id", _name),
    semconv.LIBRARY: ("library", _name),
    semconv.ENTRY: ("entry", _name),
    semconv.ITERATIONS: ("iterations", _count),
    semconv.REASKS_LIMIT: ("reasks_limit", _count),
    semconv.LIMIT_REACHED: ("limit_reached", _flag),
    semconv.STUCK: ("stuck", _flag),
    semconv.CONVERSATION_ID: ("conversation_id", _name),
    semconv.COST_UNPRICED: ("unpriced", _count),
}
_ITERATION: _Fields = {
    **_SPENT,
    semconv.ITERATION_INDEX: ("index", _count),
    semconv.ITERATION_STAGE: ("stage", _name),
    semconv.REASK_REASON: ("reask_reason", _name),
    semconv.LIBRARY_STATUS: ("library_status", _name),
    semconv.OUTCOME: ("outcome", _one_of("used", "wasted")),
    semconv.RESPONSE_MODEL: ("response_model", _name),
    semconv.PROVIDER_NAME: ("provider", _name),
    semconv.RESPONSE_ID: ("response_id", _name),
    semconv.FINISH_REASONS: ("finish_reasons", _names),
    semconv.FAILURE_REPEATS: ("failure_repeats", _count),
    semconv.TOOL_NAME: ("tools", _names),
    semconv.TOOL_CALLS: ("tool_calls", _count),
    semconv.TOOL_FAILURES: ("tool_failures", _count),
    semconv.TOOL_RETRIES: ("tool_retries", _count),
    semconv.FAILED_ATTEMPTS: ("failed_attempts", _count),
    semconv.EVIDENCE: ("evidence", _text(MAX_TEXT)),
}
_VALIDATOR: _Fields = {
    **_SPAN,
    semconv.VALIDATOR_NAME: ("validator", _name),
    semconv.VALIDATOR_ON_FAIL: ("on_fail", _name),
    semconv.VALIDATOR_PATH: ("path", _name),
    semconv.VALIDATOR_OUTCOME: ("outcome", _one_of(semconv.PASS, semconv.FAIL)),
    semconv.VALIDATOR_RUNS: ("runs", _count),
}
_KINDS: dict[str, tuple[type[Span], _Fields]] = {
    "call": (CallSpan, _CALL),
    "iteration": (IterationSpan, _ITERATION),
    "validator": (ValidatorSpan, _VALIDATOR),
}
_REPAIR: _Fields = {semconv.HISTORY_REPAIR_KIND: ("kind", _name)}
_RESOURCE: _Fields = {"service.name": ("service", _name), semconv.TEAM: ("team", _name)}


def read_resource(raw: Any, tell_fault: TellFault) -> Resource:
    """The service and the team of one ``resource`` object, which may be missing."""
    return Resource(**_read(_attributes(raw or {}, tell_fault), _RESOURCE, tell_fault))


def read_span(raw: Any, resource: Resource, tell_fault: TellFault) -> Span | None:
    """The record of one OTLP JSON span; None when it is not one of ours.

    Raises:
        SpanFault: it is one of ours, and its kind, ids or times cannot be used.
    """
    attributes = _attributes(raw, tell_fault)
    kind = attributes.get(semconv.KIND)
    if kind is None:
        return None
    made = _KINDS.get(_kind(kind))
    if made is None:
        raise SpanFault(f"{semconv.KIND} is not call, iteration or validator")
    record, fields = made
    start_ns, end_ns = _times(raw)
    values = _read(attributes, fields, tell_fault)
    values.setdefault("team", resource.team)
    if record is CallSpan and raw.get("events"):
        values["history_repairs"] = tuple(_repairs(raw["events"], tell_fault))
    return record(*read_ids(raw), start_ns, end_ns, resource.service, **values)


def _repairs(events: Any, tell_fault: TellFault) -> Iterator[str]:
    """What the history of a Call lacked, in its order."""
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == semconv.EVENT_HISTORY_REPAIR:
            yield from _read(_attributes(event, tell_fault), _REPAIR, tell_fault).values()


def _kind(value: object) -> str:
    kind = value.get("stringValue") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def read_ids(raw: Any) -> tuple[str, str, str | None]:
    """Trace id, span id and parent's span id of any OTLP JSON span.

    Raises:
        SpanFault: the trace id or the span id is no hex of its length.
    """
    trace_id = _hex(raw.get("traceId"), 32)
    span_id = _hex(raw.get("spanId"), 16)
    if trace_id is None or span_id is None:
        raise SpanFault("a span without valid traceId and spanId")
    return trace_id, span_id, _hex(raw.get("parentSpanId"), 16)


def _hex(value: object, length: int) -> str | None:
    if not isinstance(value, str) or len(value) != length:
        return None
    try:
        return value.lower() if len(bytes.fromhex(value)) * 2 == length else None
    except ValueError:
        return None


def _times(raw: Any) -> tuple[int, int]:
    try:
        start, end = _integer(raw.get("startTimeUnixNano")), _integer(raw.get("endTimeUnixNano"))
    except (TypeError, ValueError):
        raise SpanFault("a span without valid startTimeUnixNano and endTimeUnixNano") from None
    if not 0 < start <= end < _MAX_NS:
        raise SpanFault("a span whose end is before its start, or whose times are out of range")
    return start, end


def _attributes(raw: Any, tell_fault: TellFault) -> dict[str, Any]:
    """Attributes by key; an entry that is none is left out."""
    entries = raw.get("attributes") or ()
    try:
        return {entry["key"]: entry["value"] for entry in entries}
    except (KeyError, TypeError):
        return dict(_careful(entries, tell_fault))


def _careful(entries: Any, tell_fault: TellFault) -> list[tuple[str, Any]]:
    found = []
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict) and isinstance(entry.get("key"), str) and "value" in entry:
            found.append((entry["key"], entry["value"]))
        else:
            tell_fault("an attribute that is no key with a value")
    return found


def _read(attributes: dict[str, Any], fields: _Fields, tell_fault: TellFault) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in attributes.items():
        field = fields.get(key)
        if field is None:
            continue
        name, read = field
        try:
            values[name] = read(value)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            tell_fault(f"{key} has a value that it cannot have")
    return values
