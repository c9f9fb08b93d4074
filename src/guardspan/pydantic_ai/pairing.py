"""The ordered pairing walk: which tool calls of a message history have their results, and which do not.

Before it is sent, the framework (2.21 and later) silently mends a history: a result without a call is
dropped, a call without a result gets one made up. The walk runs on the history as it was given, and tells
what will be mended. It reads public fields only, touches no content, and looks at the newest
:data:`MAX_MESSAGES` messages at most.
"""

from __future__ import annotations

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
    start = max(len(messages) - MAX_MESSAGES, 0)
    pairing = _Pairing(asked=start == 0)
    kind = None
    for index in range(start, len(messages)):
        message = messages[index]
        kind = message.kind
        if kind == "response":
            pairing.response(index, message.parts)
        else:
            pairing.request(index, message.parts)
        if len(pairing.found) >= MAX_FINDINGS:
            break
    pairing.left("open_call" if kind == "response" else "dangling_call")
    return pairing.found[:MAX_FINDINGS]


class _Pairing:
    """Calls of the last response that have no result yet; of equal ids, the first is answered first.

    Args:
        asked: results may be looked at. In a history that was cut, those before the first response belong to
            calls that were cut off.
    """

    def __init__(self, asked: bool) -> None:
        self.found: list[Finding] = []
        self._asked = asked
        self._index = 0
        self._open: dict[str, int] = {}

    def response(self, index: int, parts: Iterable[Any]) -> None:
        """A response: calls that are still open stay so, and its own are open."""
        if self._open:
            self.left("dangling_call")
        self._asked, self._index = True, index
        for part in parts:
            if part.part_kind == "tool-call":
                self._open[part.tool_call_id] = self._open.get(part.tool_call_id, 0) + 1

    def request(self, index: int, parts: Iterable[Any]) -> None:
        """A request: its results answer calls. A retry prompt without a tool answers none."""
        for part in parts:
            kind = part.part_kind
            if self._asked and (
                kind == "tool-return" or (kind == "retry-prompt" and part.tool_name is not None)
            ):
                self._result(index, part)

    def left(self, kind: Kind) -> None:
        """The calls that are still open will not be answered any more."""
        for tool_call_id, count in self._open.items():
            self.found += [Finding(kind, tool_call_id, self._index)] * count
        self._open = {}

    def _result(self, index: int, part: Any) -> None:
        count = self._open.get(part.tool_call_id, 0)
        if not count:
            self.found.append(Finding("orphan_result", part.tool_call_id, index))
            return
        self._open[part.tool_call_id] = count - 1
        if _is_synthesized(part):
            self.found.append(Finding("synthesized_result", part.tool_call_id, index))


def _is_synthesized(part: Any) -> bool:
    metadata = getattr(part, "metadata", None)
    return isinstance(metadata, dict) and SYNTHESIZED in metadata
