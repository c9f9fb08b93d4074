"""Inside a durable workflow a run passes through untouched; outside it is recorded as ever."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_kit import WAYS, Script, call, desk, run, run_sync
from dbos import DBOS
from pydantic_ai import Agent
from recording import Recording
from spans import by_kind
from sqlalchemy import event
from sqlalchemy.engine import Engine


def whole_seconds(connection: Any, cursor: Any, statement: str, values: Any, *rest: Any) -> tuple[str, Any]:
    """On Python 3.12 and later, DBOS counts on SQLite 3.42, where `unixepoch` knows fractions of a second."""
    if isinstance(values, tuple):
        values = tuple("now" if value == "subsec" else value for value in values)
    return statement.replace("unixepoch('subsec')", "unixepoch()"), values


@pytest.fixture
def dbos(tmp_path: Path) -> Iterator[Any]:
    """A DBOS of the test's own, in a database of the test's own."""
    event.listen(Engine, "before_cursor_execute", whole_seconds, retval=True)
    DBOS.destroy(destroy_registry=True)
    DBOS(
        config={
            "name": "tests",
            "system_database_url": f"sqlite:///{tmp_path / 'dbos.sqlite'}",
            "run_admin_server": False,
        }
    )
    yield DBOS
    DBOS.destroy(destroy_registry=True)
    event.remove(Engine, "before_cursor_execute", whole_seconds)


def agent_with_a_tool() -> Agent[Any, Any]:
    agent = desk(Script(call("look"), "fine"))

    @agent.tool_plain
    async def look() -> str:
        return "seen"

    return agent


async def test_within_a_dbos_workflow(recording: Recording, capabilities: list[Any], dbos: Any) -> None:
    """No span, no capability, and the workflow's result is right; before and after it a run is one Call."""

    @dbos.workflow()
    async def flow() -> str:
        return str(await run(agent_with_a_tool()))

    dbos.launch()
    assert await run(agent_with_a_tool()) == "fine"
    assert len(by_kind(recording.spans, "call")) == len(capabilities) == 1
    assert await flow() == "fine"
    assert len(by_kind(recording.spans, "call")) == len(capabilities) == 1
    assert await run(agent_with_a_tool()) == "fine"
    assert len(by_kind(recording.spans, "call")) == len(capabilities) == 2


def test_within_a_dbos_workflow_that_is_not_async(recording: Recording, dbos: Any) -> None:
    """`run_sync` as well."""

    @dbos.workflow()
    def flow() -> str:
        return str(run_sync(agent_with_a_tool()))

    dbos.launch()
    assert flow() == "fine"
    assert recording.spans == []


async def test_within_a_step_a_run_is_recorded(recording: Recording, dbos: Any) -> None:
    """A step's result is what the journal holds: what goes on in it is executed once, and may be watched."""

    @dbos.step()
    async def step() -> str:
        return str(await run(agent_with_a_tool()))

    @dbos.workflow()
    async def flow() -> str:
        return str(await step())

    dbos.launch()
    assert await flow() == "fine"
    (span,) = by_kind(recording.spans, "call")
    assert (span.attributes["guardspan.status"], span.attributes["guardspan.iterations"]) == ("pass", 2)


async def test_an_agent_made_durable(recording: Recording, capabilities: list[Any], dbos: Any) -> None:
    """The library's own wrapper for DBOS runs the agent in a workflow of its own: it works, untouched."""
    from pydantic_ai.durable_exec.dbos import DBOSAgent

    with pytest.warns() if _is_deprecated(DBOSAgent) else nullcontext():
        durable = DBOSAgent(agent_with_a_tool())
    dbos.launch()
    assert (await durable.run("hello")).output == "fine"
    assert recording.spans == []
    assert capabilities == []


def _is_deprecated(kind: Any) -> bool:
    """Newer releases have a capability instead, and say so."""
    return hasattr(kind, "__deprecated__")


def stand_in(engine: str, inside: bool) -> tuple[str, Any]:
    """The module that an engine's worker has imported, as far as it is asked whether a workflow runs here."""
    if engine == "temporal":
        return "temporalio.workflow", SimpleNamespace(in_workflow=lambda: inside)
    context = SimpleNamespace(get=lambda: object() if inside else None)
    return "prefect.context", SimpleNamespace(
        FlowRunContext=context, TaskRunContext=SimpleNamespace(get=lambda: None)
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["temporal", "prefect"])
@pytest.mark.parametrize("inside", [False, True])
async def test_within_another_engine(
    monkeypatch: pytest.MonkeyPatch,
    recording: Recording,
    capabilities: list[Any],
    engine: str,
    inside: bool,
    way: str,
) -> None:
    """A workflow of Temporal or a flow of Prefect, by what their own modules say."""
    name, module = stand_in(engine, inside)
    monkeypatch.setitem(sys.modules, name, module)
    assert (await WAYS[way](agent_with_a_tool())).strip() == "fine"
    assert len(by_kind(recording.spans, "call")) == len(capabilities) == (0 if inside else 1)


@pytest.mark.parametrize("engine", ["temporalio.workflow", "dbos", "prefect.context"])
async def test_an_engine_that_is_laid_out_otherwise_stops_no_run(
    monkeypatch: pytest.MonkeyPatch, recording: Recording, engine: str
) -> None:
    """Where it cannot be asked, the run passes through rather than being given what it might refuse."""
    monkeypatch.setitem(sys.modules, engine, SimpleNamespace())
    assert await run(agent_with_a_tool()) == "fine"
    assert recording.spans == []
