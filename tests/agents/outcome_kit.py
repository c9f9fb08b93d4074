"""Agents whose answers come to every kind of end, and the lines of the trees that show it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pydantic
import pytest
from agent_kit import WAYS, Script, desk, run_sync
from pydantic_ai import Agent, ApprovalRequired, CallDeferred, ModelRetry
from recording import Recording

EVERY_WAY = (*WAYS, "run_sync")
WHOLE = ("run", "iter", "wrapper", "run_sync")
"""Ways that get an answer as a whole: a FunctionModel cannot stream an answer without content."""
ASKING_AGAIN = tuple(way for way in EVERY_WAY if way != "run_stream")
"""Ways that ask again for an output: `run_stream` has handed it to its reader by then."""

_TOLD_ELSEWHERE = re.compile(
    r" (?:(?:usage|cost|request|response|provider|agent)\.|system=|model_request_parameters=)\S+"
)
"""What an answer says of itself has tests of its own (`test_tokens.py`, `test_outcomes_models.py`)."""

UNEXPECTED = "pydantic_ai.exceptions.UnexpectedModelBehavior"
REFUSED = "pydantic_ai.exceptions.UsageLimitExceeded"
RETRY = "pydantic_ai.exceptions.ModelRetry"
INVALID = "pydantic_core._pydantic_core.ValidationError"

MADE_UP = "made_up_by_the_model"


class Person(pydantic.BaseModel):
    """An output type."""

    name: str
    age: int


ADA = {"name": "Ada", "age": 36}
ADAS_TEXT = '{"name": "Ada", "age": 36}'


class Case(NamedTuple):
    """An agent, the tree of its run with ENTRY for the way it ran, the ways, and options of the run."""

    agent: Callable[[], Agent[Any, Any]]
    tree: str
    ways: tuple[str, ...] = EVERY_WAY
    options: Mapping[str, Any] = {}


def ran(way: str, agent: Agent[Any, Any], **options: Any) -> Any:
    """What running an agent gives: its output, or the exception."""

    async def main() -> Any:
        return await WAYS[way](agent, **options)

    try:
        return run_sync(agent, **options) if way == "run_sync" else asyncio.run(main())
    except Exception as error:
        return error


def outcomes(recording: Recording) -> str:
    """The tree, without what an answer says of itself."""
    return _TOLD_ELSEWHERE.sub("", recording.tree())


def expected(tree: str, way: str) -> str:
    """A tree for one way to run an agent."""
    return tree.replace("ENTRY", {"wrapper": "run"}.get(way, way), 1)


def each_way(cases: Mapping[str, Case]) -> Any:
    """Parametrises a test with each case in each of its ways."""
    pairs = [(name, way) for name, case in cases.items() for way in case.ways]
    return pytest.mark.parametrize(("name", "way"), pairs)


def with_tools(*answers: Any, **options: Any) -> Agent[Any, Any]:
    """An agent with tools of every kind."""
    agent = desk(Script(*answers), **options)

    @agent.tool_plain
    def look(number: int = 1) -> str:
        return "found"

    @agent.tool_plain
    def picky(number: int = 1) -> str:
        if number < 2:
            raise ModelRetry("a larger number, please")
        return "fine"

    @agent.tool_plain
    def broken() -> str:
        raise LookupError("no such order")

    @agent.tool_plain
    def later() -> str:
        raise CallDeferred

    @agent.tool_plain
    def dangerous() -> str:
        raise ApprovalRequired

    return agent


def no_bad(*answers: Any, **options: Any) -> Agent[Any, Any]:
    """An agent that takes no answer with `bad` in it."""
    agent = desk(Script(*answers), **options)

    @agent.output_validator
    def no_bad(output: str) -> str:
        if "bad" in output:
            raise ModelRetry("not that word")
        return output

    return agent


def of_age(name: str, age: int) -> str:
    """An output function that asks again."""
    if age < 18:
        raise ModelRetry("somebody older")
    return name


def not_bad(text: str) -> str:
    """An output function for text that asks again."""
    if "bad" in text:
        raise ModelRetry("not that word")
    return text


def check(name: str, outcome: str = "pass") -> str:
    """The line of a Validator span under an Iteration."""
    return f"    validate {name} [{outcome}] validator.path=$ validator.runs=1 validator.on_fail=reask"


PASSED = """\
agent desk ENTRY x1 [pass] reasks.limit=1
  iteration 0 initial [pass]"""
"""The tree of one answer that was accepted."""


def erred(kind: str, failure_class: str, iteration: str = "", call: str = "") -> str:
    """The tree of a Call whose only Iteration raised; `iteration` and `call` are what else they say."""
    error = f"failure.class={failure_class} error.type={kind}"
    return f"""\
agent desk ENTRY x1 [error] ! {kind} reasks.limit=1 {error}{call}
  iteration 0 initial [error] ! {kind}{iteration} {error} failure.repeats=1"""
