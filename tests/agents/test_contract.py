"""Ids of agent runs, and the digest of the contract that a run was made under."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pydantic_ai
import pytest
from agent_kit import WAYS, Script, call, desk
from pydantic_ai import Agent
from recording import Recording
from spans import by_kind

import guardspan
from processes import run_python

HERE = Path(__file__).parent
PATH = os.pathsep.join(map(str, (HERE, HERE.parent, Path(guardspan.__file__).parent.parent)))


class Shape(pydantic.BaseModel):
    value: str


@pytest.mark.parametrize("way", WAYS)
async def test_ids_are_the_librarys(recording: Recording, way: str) -> None:
    """`guardspan.call.id` is the run's id, on Call and Iterations; the conversation's id is the library's."""
    seen: list[Any] = []
    agent = desk(Script("fine"))

    @agent.instructions
    async def note(ctx: pydantic_ai.RunContext[Any]) -> str:
        seen.append((ctx.run_id, ctx.conversation_id))
        return "x"

    await WAYS[way](agent, conversation_id="conversation-7")
    await WAYS[way](agent)
    calls, iterations = by_kind(recording.spans, "call"), by_kind(recording.spans, "iteration")
    ids = [(s.attributes["guardspan.call.id"], s.attributes["gen_ai.conversation.id"]) for s in calls]
    assert ids == seen
    assert ids[0][1] == "conversation-7"
    assert [s.attributes["guardspan.call.id"] for s in iterations] == [run_id for run_id, _ in ids]


def contract(recording: Recording, agent: Any, prompt: str = "hello", **options: Any) -> str:
    """The digest of a run's contract, which its Call and all its Iterations carry."""
    recording.exporter.clear()
    agent.run_sync(prompt, **options)
    (found,) = {
        s.attributes.get("guardspan.contract.digest")
        for s in recording.spans
        if "guardspan.status" in s.attributes
    }
    assert isinstance(found, str)
    assert len(found) == 64
    return found


def _validated(agent: Agent[Any, Any], name: str = "polite") -> Agent[Any, Any]:
    async def check(output: Any) -> Any:
        return output

    check.__name__ = check.__qualname__ = name
    agent.output_validator(check)
    return agent


def _with_tool(agent: Agent[Any, Any], name: str) -> Agent[Any, Any]:
    agent.tool_plain(lambda: "x", name=name)
    return agent


def _dynamic(agent: Agent[Any, Any], text: str) -> Agent[Any, Any]:
    agent.instructions(lambda: text)
    return agent


def _plain(**options: Any) -> Agent[Any, Any]:
    return desk(Script("fine"), **{"instructions": "Be brief.", **options})


def _structured(kind: Any) -> Agent[Any, Any]:
    return desk(Script(call("final_result", value="x")), instructions="Be brief.", output_type=kind)


class Other(pydantic.BaseModel):
    value: str
    more: int = 0


CHANGED: dict[str, Callable[[], Agent[Any, Any]]] = {
    "output type": lambda: _structured(Shape),
    "another output type": lambda: _structured(Other),
    "tool": lambda: _with_tool(_plain(), "look"),
    "another tool": lambda: _with_tool(_plain(), "see"),
    "instructions": lambda: _plain(instructions="Be verbose."),
    "validator": lambda: _validated(_plain()),
    "another validator": lambda: _validated(_plain(), "kind"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_the_contract_changes_with_what_it_promises(recording: Recording, change: str) -> None:
    """Output type, tools, static instructions and validators; another agent that is equal has the same."""
    assert contract(recording, CHANGED[change]()) == contract(recording, CHANGED[change]())
    others = {name: contract(recording, made()) for name, made in CHANGED.items() if name != change}
    assert contract(recording, CHANGED[change]()) not in {*others.values(), contract(recording, _plain())}


SAME: dict[str, Callable[[Recording, Agent[Any, Any]], str]] = {
    "another run": contract,
    "another prompt": lambda recording, agent: contract(recording, agent, "something else"),
    "dynamic instructions": lambda recording, agent: contract(recording, _dynamic(agent, "today")),
    "deps": lambda recording, agent: contract(recording, agent, deps={"a": 1}),
    "model settings": lambda recording, agent: contract(
        recording, agent, model_settings={"temperature": 0.1}
    ),
    "another name": lambda recording, agent: contract(recording, _named(agent, "other")),
}


def _named(agent: Agent[Any, Any], name: str) -> Agent[Any, Any]:
    agent.name = name
    return agent


@pytest.mark.parametrize("same", SAME)
def test_the_contract_stays_with_what_is_a_runs_own(recording: Recording, same: str) -> None:
    """Prompts, dynamic instructions, dependencies and settings are no part of it."""
    assert SAME[same](recording, _plain()) == contract(recording, _plain())


def test_the_contract_follows_the_agent(recording: Recording) -> None:
    """What is added to an agent after a run counts from the next run on; taken back, it is as before."""
    agent = _plain()
    first = contract(recording, agent)
    with agent.override(instructions="Be rude."):
        assert contract(recording, agent) != first
    assert contract(recording, agent) == first
    assert contract(recording, agent, output_type=[str, Shape]) != first
    assert contract(recording, _with_tool(agent, "look")) == contract(recording, _with_tool(_plain(), "look"))
    assert contract(recording, _validated(agent)) != contract(recording, _with_tool(_plain(), "look"))


ELSEWHERE = """
from recording import Recording
recording = Recording()
from test_contract import CHANGED, contract
print(*(contract(recording, made()) for made in CHANGED.values()))
"""


def test_the_contract_is_the_same_in_every_process(recording: Recording, tmp_path: Path) -> None:
    """Whatever the hash seed: two replicas with one code base have one digest."""
    own = [contract(recording, made()) for made in CHANGED.values()]
    for seed in ("1", "2"):
        told = run_python(ELSEWHERE, tmp_path, PYTHONHASHSEED=seed, PYTHONPATH=PATH)
        assert told.stdout.split() == own
