"""The ordered pairing walk, and what a run tells of the history that it was given."""

from __future__ import annotations

from typing import Any

import pytest
from agent_kit import Script, desk, run
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from recording import Recording

from guardspan import semconv
from guardspan.pydantic_ai.pairing import MAX_FINDINGS, MAX_MESSAGES, SYNTHESIZED, walk

ASK = ModelRequest(parts=[UserPromptPart("what now?")])
SAY = ModelResponse(parts=[TextPart("this")])
SECRET_ID = "call-of-alice@example.org"


def calls(*ids: str) -> ModelResponse:
    """A response that calls a tool once for each id."""
    return ModelResponse(parts=[ToolCallPart("find", {"order": 1}, tool_call_id=each) for each in ids])


def results(*ids: str, metadata: Any = None) -> ModelRequest:
    """A request with a result for each id."""
    parts = [ToolReturnPart("find", "sent", tool_call_id=each, metadata=metadata) for each in ids]
    return ModelRequest(parts=parts)


def retry(tool: str | None, tool_call_id: str) -> ModelRequest:
    """A request that asks for another try of a call, or of the output where no tool is named."""
    return ModelRequest(parts=[RetryPromptPart("again", tool_name=tool, tool_call_id=tool_call_id)])


HISTORIES: dict[str, tuple[list[Any], list[tuple[str, str, int]]]] = {
    "nothing": ([], []),
    "no tools": ([ASK, SAY], []),
    "every call has its result": ([ASK, calls("a", "b"), results("b", "a"), SAY], []),
    "a retry is a result": ([ASK, calls("a"), retry("find", "a"), SAY], []),
    "a retry of the output answers no call": ([ASK, SAY, retry(None, "a"), SAY], []),
    "a result without a call": ([ASK, SAY, results("a"), SAY], [("orphan_result", "a", 2)]),
    "a result before its call": (
        [ASK, SAY, results("a"), calls("a"), results("a"), SAY],
        [("orphan_result", "a", 2)],
    ),
    "a result too many": ([ASK, calls("a"), results("a", "a"), SAY], [("orphan_result", "a", 2)]),
    "a call without a result": ([ASK, calls("a"), ASK, SAY], [("dangling_call", "a", 1)]),
    "a call that the next answer passes over": (
        [ASK, calls("a"), SAY, results("a"), SAY],
        [("dangling_call", "a", 1), ("orphan_result", "a", 3)],
    ),
    "equal ids, one result": ([ASK, calls("a", "a"), results("a"), SAY], [("dangling_call", "a", 1)]),
    "equal ids, two results": ([ASK, calls("a", "a"), results("a"), results("a"), SAY], []),
    "a result that was made up": (
        [ASK, calls("a"), results("a", metadata={SYNTHESIZED: True}), SAY],
        [("synthesized_result", "a", 2)],
    ),
    "a call at the end": ([ASK, calls("a", "b")], [("open_call", "a", 1), ("open_call", "b", 1)]),
    "a result at the end": ([ASK, calls("a", "b"), results("a")], [("dangling_call", "b", 1)]),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_calls_and_results_are_paired_in_order(case: str) -> None:
    """Each call is answered once, by a result after it and before the next answer; first in, first out."""
    history, expected = HISTORIES[case]
    assert [(each.kind, each.tool_call_id, each.message_index) for each in walk(history)] == expected


def test_the_walk_is_bounded_in_findings() -> None:
    """Of a history that is broken throughout, the first findings are told."""
    found = walk([ASK, *[calls("a", "b")] * 100, SAY])
    assert len(found) == MAX_FINDINGS
    assert {each.kind for each in found} == {"dangling_call"}


def test_the_walk_is_bounded_in_messages() -> None:
    """Only the newest messages are looked at, and a result whose call was cut off is no orphan."""
    newest = [results("a"), *[ASK, SAY] * (MAX_MESSAGES // 2 - 1), results("b")]
    assert len(newest) == MAX_MESSAGES
    assert [each.tool_call_id for each in walk(newest)] == ["a", "b"]
    assert [each.tool_call_id for each in walk([calls("a"), *newest])] == ["b"]


async def test_a_run_tells_what_its_history_lacks(recording: Recording) -> None:
    """One event for each, with its message and a keyed digest of the id, and no word of content."""
    await run(desk(Script("fine")), message_history=[ASK, SAY, results(SECRET_ID), calls("b"), ASK, SAY])
    (call,) = [span for span in recording.spans if span.attributes[semconv.KIND] == "call"]
    assert [event.name for event in call.events] == [semconv.EVENT_HISTORY_REPAIR] * 2
    first, second = [dict(event.attributes or {}) for event in call.events]
    assert first[semconv.HISTORY_REPAIR_KIND] == "orphan_result"
    assert first[semconv.HISTORY_MESSAGE_INDEX] == 2
    assert second[semconv.HISTORY_REPAIR_KIND] == "dangling_call"
    assert len(str(first[semconv.HISTORY_TOOL_CALL_ID])) == 16
    assert SECRET_ID not in repr((first, second))


async def test_a_sound_history_has_no_event(recording: Recording) -> None:
    """Neither a whole history nor the open calls that a run goes on with need mending."""
    agent = desk(Script("fine"))
    agent.tool_plain(name="find")(lambda order: "sent")
    await run(agent, message_history=[ASK, calls("a"), results("a"), SAY])
    await run(agent, None, message_history=[ASK, calls("a")])
    assert [span.events for span in recording.spans if span.events] == []


@pytest.mark.parametrize("history", [[object()], [None], "text", 7], ids=["object", "none", "text", "number"])
async def test_a_history_that_is_none_changes_nothing(recording: Recording, history: Any) -> None:
    """What the library says of an unusable history is what it says without us, and the Call ends."""

    async def failure(**options: Any) -> str:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whichever the library raises
            await run(desk(Script("fine")), message_history=history, **options)
        return repr(raised.value)

    watched = await failure()
    assert recording.tree().startswith("agent desk run x0 [error]")
    import guardspan

    guardspan.uninstrument()
    assert await failure() == watched
