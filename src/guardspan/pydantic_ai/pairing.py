"""The ordered pairing walk: which tool calls of a message history have their results, and which do not.

Before it is sent, the framework (2.21 and later) silently mends a history: a result without a call is
dropped, a call without a result gets one made up. The walk runs on the history as it was given, and tells
what will be mended. It reads public fields only, touches no content, and looks at the newest
:data:`MAX_MESSAGES` messages at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MAX_MESSAGES = 5_000
"""Messages that are looked at, the newest; a walk over them takes a few milliseconds at most."""
MAX_FINDINGS = 16
"""Findings that are told; of a history that is broken throughout, more would say no more."""
SYNTHESIZED = "pydantic_ai_synthesized_tool_return"
"""Key by which the framework marks, in a part's metadata, a result that it made up (a documented name)."""

Kind = Literal["orphan_result", "dangling_call", "synthesized_result", "open_call"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One tool call or result without its counterpart.

    Attributes:
        kind: ``orphan_result`` (no call before it; dropped), ``dangling_call`` (no result after it; one is
            made up), ``synthesized_result`` (made up by the framework in an earlier run), ``open_call`` (of
            the last response: a run may still go on with it).
        tool_call_id: the call's id; content, since it may be anybody's text.
        message_index: which message of the given history, from 0.
    """

    kind: Kind
    tool_call_id: str
    message_index: int


def walk(messages: Sequence[Any]) -> list[Finding]:
    """The findings of a history as it is handed to a run, in its order, at most :data:`MAX_FINDINGS`."""
    found: list[Finding] = []
    calls = _OpenCalls()
    start = max(len(messages) - MAX_MESSAGES, 0)
    for index in range(start, len(messages)):
        message = messages[index]
        if len(found) >= MAX_FINDINGS:
            break
        if getattr(message, "kind", None) == "response":
            found += calls.left("dangling_call")
            calls = _OpenCalls(index, message.parts)
        elif start == 0 or calls.index is not None:  # in a cut history, the first results' calls were cut off
            found += _results(calls, index, getattr(message, "parts", ()))
    asked_on = bool(messages) and getattr(messages[-1], "kind", None) != "response"
    found += calls.left("dangling_call" if asked_on else "open_call")
    return found[:MAX_FINDINGS]


class _OpenCalls:
    """The calls of one response that have no result yet; of equal ids, the first is answered first."""

    def __init__(self, index: int | None = None, parts: Iterable[Any] = ()) -> None:
        self.index = index
        self._open = Counter(part.tool_call_id for part in parts if part.part_kind == "tool-call")

    def answered(self, tool_call_id: str) -> bool:
        if self._open[tool_call_id] <= 0:
            return False
        self._open[tool_call_id] -= 1
        return True

    def left(self, kind: Kind) -> list[Finding]:
        return [Finding(kind, call, self.index or 0) for call in self._open.elements()]


def _results(calls: _OpenCalls, index: int, parts: Iterable[Any]) -> list[Finding]:
    found = []
    for part in parts:
        if not _is_result(part):
            continue
        if not calls.answered(part.tool_call_id):
            found.append(Finding("orphan_result", part.tool_call_id, index))
        elif _is_synthesized(part):
            found.append(Finding("synthesized_result", part.tool_call_id, index))
    return found


def _is_result(part: Any) -> bool:
    """A tool's result, or the retry that took its place; a retry prompt without a tool answers no call."""
    kind = part.part_kind
    return kind == "tool-return" or (kind == "retry-prompt" and part.tool_name is not None)


def _is_synthesized(part: Any) -> bool:
    metadata = getattr(part, "metadata", None)
    return isinstance(metadata, dict) and SYNTHESIZED in metadata
