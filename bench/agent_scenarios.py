"""Four uses of an agent, without a network: the model is a function."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from bench.scenario import Scenario

CHUNKS = 50
_PROMPT = "What is the capital of France, and why is it not Lyon?"
_GOOD = "A short answer that nobody can object to."
_BAD = "A short answer that is bad."
_USAGE = RequestUsage(input_tokens=40, output_tokens=10)

Run = Callable[[], Coroutine[Any, Any, str]]


def scenarios() -> list[Scenario]:
    """The scenarios, each with an agent of its own."""
    loop = asyncio.new_event_loop()

    def on_loop(run: Run) -> Callable[[], str]:
        return lambda: loop.run_until_complete(run())

    return [
        Scenario("agent run", on_loop(_running(_agent(_GOOD))), _is_good, 1, 12),
        Scenario("agent run with a tool", on_loop(_running(_with_tool())), _is_good, 2, 8),
        Scenario("agent run with one retry", on_loop(_running(_agent(_BAD, _GOOD))), _is_good, 2, 8),
        Scenario(f"agent stream of {CHUNKS} chunks", on_loop(_streaming(_agent(_GOOD))), _is_long, 1, 4),
    ]


def _is_good(output: str) -> bool:
    return output == _GOOD


def _is_long(output: str) -> bool:
    return output.count("something") == CHUNKS


def _agent(*answers: str | ToolCallPart) -> Agent[None, str]:
    """An agent whose model gives the answers in turn, and whose output validator rejects `bad`."""
    parts = itertools.cycle([TextPart(answer) if isinstance(answer, str) else answer for answer in answers])

    async def whole(messages: Any, info: Any) -> ModelResponse:
        return ModelResponse(parts=[next(parts)], usage=_USAGE)

    async def streamed(messages: Any, info: Any) -> AsyncIterator[str]:
        for number in range(CHUNKS):
            yield f"Chunk {number} says something. "

    agent = Agent(
        FunctionModel(whole, stream_function=streamed),
        name="bench",
        instructions="You answer in one sentence.",
    )

    @agent.output_validator
    async def no_bad(output: str) -> str:
        if "bad" in output:
            raise ModelRetry("that is bad")
        return output

    return agent


def _with_tool() -> Agent[None, str]:
    agent = _agent(ToolCallPart("capital", {"country": "France"}), _GOOD)

    @agent.tool_plain
    async def capital(country: str) -> str:
        return "Paris"

    return agent


def _running(agent: Agent[None, str]) -> Run:
    async def run() -> str:
        return (await agent.run(_PROMPT)).output

    return run


def _streaming(agent: Agent[None, str]) -> Run:
    async def run() -> str:
        async with agent.run_stream(_PROMPT) as stream:
            async for _ in stream.stream_text(debounce_by=None):
                pass
            return await stream.get_output()

    return run
