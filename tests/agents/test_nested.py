"""What a delegate does to the run that asked it, and what the library's own tracing does to content."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from agent_kit import Script, call, desk, run
from pydantic_ai import Agent, RunContext, UsageLimitExceeded, UsageLimits
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings
from recording import Recording, logged
from spans import by_kind

from guardspan import semconv
from guardspan.pydantic_ai import execution


def in_a_tool(inner: Callable[[], Any]) -> Agent[Any, Any]:
    """An agent whose tool asks another one."""
    agent = desk(Script(call("ask"), "fine"))

    @agent.tool
    async def ask(ctx: RunContext[Any]) -> str:
        return str(await inner())

    return agent


def in_a_check(inner: Callable[[], Any]) -> Agent[Any, Any]:
    """An agent whose output validator asks another one."""
    agent = desk(Script("fine"))

    @agent.output_validator
    async def ask(output: str) -> str:
        return str(await inner())

    return agent


@pytest.mark.parametrize("outer", [in_a_tool, in_a_check])
async def test_a_delegates_limit_refuses_no_request_of_its_caller(
    recording: Recording, outer: Callable[[Callable[[], Any]], Agent[Any, Any]]
) -> None:
    """The caller's one Iteration ends in an error of class `limit`; none is made up that never began."""
    inner = Agent(Script("fine").model, name="inner")
    agent = outer(lambda: run(inner, usage_limits=UsageLimits(request_limit=0)))
    with pytest.raises(UsageLimitExceeded):
        await run(agent)
    told = [
        (
            span.attributes[semconv.NAME],
            span.attributes[semconv.STATUS],
            span.attributes[semconv.FAILURE_CLASS],
        )
        for span in by_kind(recording.spans, "iteration")
    ]
    assert told == [("desk", "error", "limit"), ("inner", "not run", "limit")]


@pytest.fixture
def not_yet_told() -> None:
    """The warning comes once in a process; this test is to see its own."""
    execution._tell_of_content.cache_clear()


@pytest.mark.usefixtures("not_yet_told")
@pytest.mark.parametrize("content", [True, False])
async def test_content_in_the_librarys_own_tracing_is_warned_of(
    recording: Recording, caplog: pytest.LogCaptureFixture, content: bool
) -> None:
    """Once, where it is on with content: it exports that through the application's own exporter."""
    caplog.set_level(logging.WARNING, logger="guardspan")
    settings = InstrumentationSettings(tracer_provider=recording.tracer_provider, include_content=content)
    for _ in range(2):
        await run(desk(Script("fine"), capabilities=[Instrumentation(settings=settings)]))
    assert len(logged(caplog)) == content
    assert all("include_content=False" in line for line in logged(caplog))
