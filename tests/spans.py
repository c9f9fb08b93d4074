"""Exported spans as a tree of lines, so that tests compare whole trees and not single attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from guardspan import semconv

# Ids, digests and content differ from run to run or have tests of their own.
VOLATILE = {
    semconv.KIND,
    semconv.LIBRARY,
    semconv.NAME,
    semconv.OPERATION_NAME,
    semconv.CALL_ID,
    semconv.CONVERSATION_ID,
    semconv.GUARDRAILS_CALL_ID,
    semconv.CONTRACT_DIGEST,
    semconv.FAILURE_DIGEST,
    semconv.EVIDENCE,
    semconv.EVIDENCE_SHA256,
    semconv.EVIDENCE_TRUNCATED,
    semconv.EVIDENCE_VERSION,
    semconv.VALIDATOR_INSTANCE_ID,
    semconv.VALIDATOR_REGISTERED_NAME,
    semconv.ITERATION_INDEX,
    semconv.ITERATION_STAGE,
    semconv.STATUS,
    semconv.OUTCOME,
    semconv.STREAM,
    semconv.ENTRY,
    semconv.ITERATIONS,
    semconv.VALIDATOR_OUTCOME,
    semconv.VALIDATOR_NAME,
    semconv.REDACTIONS,
}


def tree(spans: Sequence[ReadableSpan]) -> str:
    """The spans of one or more traces, one line a span, children indented under their parents.

    A line is the span's name, what tells it from its siblings, its status in brackets, ``!`` when the
    span's own status is ERROR, and the remaining attributes in the order in which they were set.
    """
    known = {span.context.span_id for span in spans}
    children: dict[int | None, list[ReadableSpan]] = {}
    for span in spans:
        parent = span.parent.span_id if span.parent and span.parent.span_id in known else None
        children.setdefault(parent, []).append(span)
    return "\n".join(_lines(children, None, 0))


def _lines(children: dict[int | None, list[ReadableSpan]], parent: int | None, depth: int) -> Iterable[str]:
    for span in sorted(
        children.get(parent, []),
        key=lambda s: (s.start_time, s.attributes.get(semconv.ITERATION_INDEX, 0), s.name),
    ):
        yield "  " * depth + _line(span)
        yield from _lines(children, span.context.span_id, depth + 1)


def _line(span: ReadableSpan) -> str:
    attributes = dict(span.attributes or {})
    words = [span.name]
    kind = attributes.get(semconv.KIND)
    if kind == "call":
        words.append(f"{attributes[semconv.ENTRY]} x{attributes.get(semconv.ITERATIONS, '?')}")
    if kind == "iteration":
        words.append(f"{attributes[semconv.ITERATION_INDEX]} {attributes[semconv.ITERATION_STAGE]}")
    status = attributes.get(semconv.STATUS, attributes.get(semconv.VALIDATOR_OUTCOME))
    words.append(f"[{status}]" if kind else "")
    if span.status.status_code is StatusCode.ERROR:
        words.append(f"! {span.status.description}")
    words += [f"{_short(name)}={_value(value)}" for name, value in attributes.items() if _shown(name)]
    return " ".join(word for word in words if word)


def _shown(name: str) -> bool:
    return name not in VOLATILE and not name.startswith(("guardspan.input.", "guardspan.output."))


def _short(name: str) -> str:
    return name.removeprefix("guardspan.").removeprefix("gen_ai.")


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def by_kind(spans: Sequence[ReadableSpan], kind: str) -> list[ReadableSpan]:
    """The spans of one kind (`call`, `iteration`, `validator`), in the order of their start."""
    found = [span for span in spans if (span.attributes or {}).get(semconv.KIND) == kind]
    return sorted(found, key=lambda span: span.start_time or 0)


def everything(spans: Sequence[ReadableSpan]) -> str:
    """All that an exporter would see of the spans, as one text to search for what must not be there."""
    return "\n".join(
        repr(
            (
                s.name,
                dict(s.attributes or {}),
                s.status.description,
                s.status.status_code.name,
                [(e.name, dict(e.attributes or {})) for e in s.events],
                dict(s.resource.attributes),
                [dict(link.attributes or {}) for link in s.links],
            )
        )
        for s in spans
    )
