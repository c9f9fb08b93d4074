"""Uses whose names hold secrets, or whose texts come in pieces, or from a server."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
import test_server
from agent_kit import Script, call
from guardrails import AsyncGuard, Guard, Validator, register_validator
from guardrails.settings import settings
from guardrails.validator_base import FailResult
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart

from sweep.agent_uses import Pieces
from sweep.guard_uses import Echoing, GuardUse, Order, driven
from sweep.sentinels import Plant

MESSAGES = [{"role": "user", "content": "hello"}]


class Names:
    """Names with a secret in each, behind so many other characters."""

    def __init__(self, plant: Plant, padding: int) -> None:
        self.plant = plant
        self.padding = "x " * (padding // 2)

    def __call__(self, place: str) -> str:
        return self.padding + self.plant.name(place)


def _error(named: Names, place: str) -> BaseException:
    """An exception of a class whose name and cause tell a secret."""
    inner = type(named(f"class of a cause, {place}"), (ValueError,), {"__module__": "desk"})("x")
    error = type(named(f"class, {place}"), (RuntimeError,), {"__module__": "desk"})("x")
    error.__cause__ = inner
    return error


def guards(plant: Plant, padding: int) -> None:
    """A guard, its validator, its model and its exceptions."""
    named = Names(plant, padding)

    def judge(self: Any, value: Any, metadata: Any) -> Any:
        if value == "broken":
            raise _error(named, "validator")
        return FailResult(error_message="no")

    made = type(named("class of a validator"), (Validator,), {"_validate": judge, "__module__": "x"})
    validator = register_validator(named("registered name"), data_type="string")(made)
    guard = Guard(name=named("guard")).use(validator(on_fail="noop"))
    for value in ("fine", "broken"):
        with contextlib.suppress(Exception):
            guard.validate(value)

    def llm(*args: Any, **kwargs: Any) -> str:
        raise _error(named, "LLM")

    with contextlib.suppress(Exception):
        guard(llm, messages=MESSAGES, model=named("requested model"))


def agents(plant: Plant, padding: int) -> None:
    """An agent, its tools, types, functions, validators, its model's answers and exceptions."""
    named = Names(plant, padding)
    tool = named("tool")
    output = type(named("output type"), (pydantic.BaseModel,), {"__annotations__": {"item": str}})

    async def look_up() -> str:
        return "found"

    async def judge(output: Any) -> Any:
        raise ModelRetry("no")

    judge.__name__ = named("output validator")
    response = ModelResponse(
        parts=[call(tool), call(named("invented tool"))],
        model_name=named("model"),
        provider_name=named("provider"),
        provider_response_id=named("response id"),
    )
    for answers in ((response, call("final_result", item="x")), (_error(named, "model"),)):
        agent: Agent[Any, Any] = Agent(
            Script(*answers).model, name=named("agent"), output_type=output, retries=1
        )
        agent.tool_plain(look_up, name=tool)
        agent.output_validator(judge)
        with contextlib.suppress(Exception):
            asyncio.run(agent.run("hello", conversation_id=named("conversation")))


def with_metadata(metadata: dict[str, Any]) -> None:
    """A guard and an agent that are given some metadata."""
    Guard(name="desk").validate("fine", metadata=metadata)
    asyncio.run(Agent(Script("fine").model, name="desk").run("hello", metadata=metadata))


def streams(plant: Plant, size: int, most: int) -> None:
    """Guards and agents whose answers come in pieces of a size, and are read to the end, left, or broken."""

    def pieces(text: str) -> list[str]:
        return [text[start : start + size] for start in range(0, len(text), size)]

    plant.pieces = pieces  # type: ignore[method-assign]
    for kind in (Guard, AsyncGuard):
        use = GuardUse(plant, kind)
        for broken in (False, True):
            text = f"one. {plant.plain('first')} and {plant.plain('second')}. end."
            chunks = [*pieces(text)[: most * 9 if broken else None], *([OSError("lost")] if broken else [])]
            guard = kind(name="desk").use(Echoing(on_fail="noop"))
            entered = use.enter(guard, "__call__", use.llm(chunks), most=most, stream=True, messages=MESSAGES)
            asyncio.run(entered) if use.asynchronous else driven(entered)
    asyncio.run(_agents_stream(plant, most))


async def _agents_stream(plant: Plant, most: int) -> None:
    parts = [TextPart(f"one. {plant.plain('text')} end.")]
    tool = call("final_result", item=f"one. {plant.plain('argument')} end.")
    for answer, options in ((ModelResponse(parts=parts), {}), (tool, {"output_type": Order})):
        agent: Agent[Any, Any] = Agent(Pieces(plant, answer).model, name="desk", **options)
        async with agent.run_stream("hello") as stream:
            await _first(stream.stream_output(debounce_by=None), most)
        async with agent.run_stream_events("hello") as events:
            await _first(events, most)


async def _first(items: Any, most: int) -> None:
    count = 0
    async for _ in items:
        count += 1
        if count == most:
            return


# --- a server ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def server(monkeypatch: pytest.MonkeyPatch, plant: Plant, status: int) -> Iterator[Any]:
    """A Guardrails server that answers something planted in every field."""
    monkeypatch.setenv("GUARD_HISTORY_ENABLED", "false")
    if test_server.FOR_ALL:
        monkeypatch.setattr(settings, "use_server", True)
    running = test_server.Server()
    running.status = status
    summary = {
        "validatorName": plant.name("validator of a server"),
        "validatorStatus": "fail",
        "propertyPath": plant.name("path of a server"),
        "failureReason": plant.text("reason of a server"),
    }
    running.answers = [
        {
            "callId": plant.name("call id of a server"),
            "validatedOutput": plant.text("output of a server"),
            "validationPassed": False,
            "rawLlmOutput": plant.text("raw output of a server"),
            "error": plant.text("error of a server"),
            "detail": plant.text("detail of a server"),
            "message": plant.text("message of a server"),
            "validationSummaries": [summary],
        }
    ]
    yield running
    running.close()


def ask_server(running: Any, kind: type, plant: Plant) -> None:
    """Validate, and read a stream, by a guard with a key in all that it knows of the server."""

    async def ask() -> None:
        remote = test_server.guard(kind, running)
        for entry, options in (
            ("validate", {"llm_output": plant.text("validated text")}),
            (
                "__call__",
                {"messages": MESSAGES, "model": "m", "stream": True, "api_key": plant.password("key")},
            ),
        ):
            with contextlib.suppress(Exception):
                given = getattr(remote, entry)(**options)
                given = await given if inspect.isawaitable(given) else given
                if hasattr(given, "__anext__"):
                    await _first(given, 99)
                elif hasattr(given, "__next__"):
                    list(given)

    asyncio.run(ask())
