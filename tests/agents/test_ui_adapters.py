"""Runs that a UI adapter makes of a request are Calls as any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from agent_kit import Script, call, desk
from pydantic_ai import Agent
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from recording import Recording
from spans import by_kind, everything
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

SENTINEL = "Zq7 sentinel of the user"
BODIES: dict[str, dict[str, Any]] = {
    "vercel": {
        "trigger": "submit-message",
        "id": "chat-1",
        "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": SENTINEL}]}],
    },
    "ag-ui": {
        "threadId": "thread-1",
        "runId": "run-1",
        "state": {},
        "messages": [{"id": "m1", "role": "user", "content": SENTINEL}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    },
}
ADAPTERS: dict[str, Any] = {"vercel": VercelAIAdapter, "ag-ui": AGUIAdapter}


def application(adapter: str, agent: Agent[Any, Any]) -> TestClient:
    """A web application that hands each request to an agent."""

    async def chat(request: Request) -> Response:
        return await ADAPTERS[adapter].dispatch_request(request, agent=agent)

    return TestClient(Starlette(routes=[Route("/", chat, methods=["POST"])]))


def answered(adapter: str, agent: Agent[Any, Any]) -> list[dict[str, Any]]:
    """The events that a request is answered with."""
    response = application(adapter, agent).post("/", json=BODIES[adapter])
    assert response.status_code == 200
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def made(script: Script) -> Agent[Any, Any]:
    agent = desk(script, retries=2)

    @agent.tool_plain
    async def look() -> str:
        return "seen"

    return agent


OUTCOMES: dict[str, tuple[Callable[[], Script], str, list[str]]] = {
    "text": (lambda: Script("one two"), "pass", ["pass"]),
    "tool": (lambda: Script(call("look"), "one two"), "pass", ["pass", "pass"]),
    "unknown tool": (lambda: Script(call("nothing"), "one two"), "pass", ["fail", "pass"]),
    "provider": (lambda: Script(ConnectionError("sentinel lost")), "error", ["error"]),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_request_is_one_call(recording: Recording, adapter: str, outcome: str) -> None:
    """One Call per request, which says what entry of the library it went through, with its Iterations."""
    script, status, statuses = OUTCOMES[outcome]
    answered(adapter, made(script()))
    (span,), iterations = by_kind(recording.spans, "call"), by_kind(recording.spans, "iteration")
    assert span.name == "agent desk"
    assert span.attributes["guardspan.status"] == status
    assert span.attributes["guardspan.entry"] == "run_stream_events"
    assert span.attributes["guardspan.stream"] is True
    assert [each.attributes["guardspan.status"] for each in iterations] == statuses
    assert {each.parent.span_id for each in iterations} == {span.context.span_id}
    assert "entinel" not in everything(recording.spans)


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_client_is_answered_as_without(recording: Recording, adapter: str, outcome: str) -> None:
    """The events are the same, in the same order, as in a bare run."""
    import guardspan

    def events() -> list[tuple[Any, ...]]:
        found = answered(adapter, made(OUTCOMES[outcome][0]()))
        kept = ("type", "delta", "toolName", "toolCallName", "output", "content", "errorText", "message")
        return [tuple(event.get(name) for name in kept) for event in found]

    instrumented = events()
    assert by_kind(recording.spans, "call")
    guardspan.uninstrument()
    assert instrumented == events()
    assert len(instrumented) >= 2


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_request_has_a_call_of_its_own(recording: Recording, adapter: str) -> None:
    """Ids are the runs' own, also when one client asks again."""
    agent = made(Script("one two"))
    client = application(adapter, agent)
    for _ in range(3):
        assert client.post("/", json=BODIES[adapter]).status_code == 200
    calls = by_kind(recording.spans, "call")
    assert len({span.attributes["guardspan.call.id"] for span in calls}) == len(calls) == 3
    assert {span.attributes["guardspan.iterations"] for span in calls} == {1}
