"""Scripted models, agents and ways to run them, for the tests of agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.run import AgentRunResultEvent
from pydantic_ai.usage import RequestUsage

Answer = str | ModelResponsePart | Sequence[ModelResponsePart] | ModelResponse | BaseException
"""A text, a part, several parts, a whole response, or an exception to raise."""

USAGE = RequestUsage(input_tokens=10, output_tokens=2)


def call(tool: str, /, **arguments: Any) -> ToolCallPart:
    """A tool call; `tool="final_result"` is the output of an agent with an output type."""
    return ToolCallPart(tool, arguments)


class Script:
    """A model that gives its answers in turn, the last one again and again; an exception is raised.

    Whole answers say `usage` (10 input and 2 output tokens unless told otherwise), that `gpt-4o` gave them,
    and that it stopped. Streams come word by word, with counts that the library estimates.
    """

    def __init__(self, *answers: Answer, usage: RequestUsage = USAGE) -> None:
        self.answers = list(answers)
        self.usage = usage
        self.requests: list[list[ModelMessage]] = []

    @property
    def model(self) -> FunctionModel:
        """A model of the library's own that follows the script."""
        return FunctionModel(self._whole, stream_function=self._streamed, model_name="gpt-4o")

    def _next(self, messages: list[ModelMessage]) -> Answer:
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(list(messages))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        answer = self._next(messages)
        await asyncio.sleep(0)
        if isinstance(answer, ModelResponse):
            return answer
        return ModelResponse(
            parts=_parts(answer), usage=self.usage, provider_name="openai", finish_reason="stop"
        )

    async def _streamed(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        answer = self._next(messages)
        for index, part in enumerate(answer.parts if isinstance(answer, ModelResponse) else _parts(answer)):
            if isinstance(part, ToolCallPart):
                yield {
                    index: DeltaToolCall(
                        part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id
                    )
                }
            elif isinstance(part, TextPart):
                for word in part.content.split(" "):
                    await asyncio.sleep(0)
                    yield f"{word} "


def _parts(answer: Any) -> list[ModelResponsePart]:
    if isinstance(answer, str):
        return [TextPart(answer)]
    return list(answer) if isinstance(answer, Sequence) else [answer]


# Ways to run an agent to its end: each takes the agent, a prompt and keywords, and returns the output.


async def run(agent: Any, prompt: Any = "hello", **options: Any) -> Any:
    """`await agent.run(…)`."""
    return (await agent.run(prompt, **options)).output


def run_sync(agent: Any, prompt: Any = "hello", **options: Any) -> Any:
    """`agent.run_sync(…)`."""
    return agent.run_sync(prompt, **options).output


async def run_stream(agent: Any, prompt: Any = "hello", **options: Any) -> Any:
    """`async with agent.run_stream(…)`, read to its end."""
    async with agent.run_stream(prompt, **options) as stream:
        async for _ in stream.stream_output(debounce_by=None):
            pass
        return await stream.get_output()


async def run_stream_events(agent: Any, prompt: Any = "hello", **options: Any) -> Any:
    """`async with agent.run_stream_events(…)`, read to its end."""
    output = None
    async with agent.run_stream_events(prompt, **options) as events:
        async for event in events:
            if isinstance(event, AgentRunResultEvent):
                output = event.result.output
    return output


async def iterate(agent: Any, prompt: Any = "hello", **options: Any) -> Any:
    """`async with agent.iter(…)`, with `async for`."""
    async with agent.iter(prompt, **options) as agent_run:
        async for _ in agent_run:
            pass
    return agent_run.result.output


async def wrapped(agent: Any, prompt: Any = "hello", **options: Any) -> Any:
    """`await WrapperAgent(agent).run(…)`."""
    return (await WrapperAgent(agent).run(prompt, **options)).output


Way = Callable[..., Awaitable[Any]]

WAYS: dict[str, Way] = {
    "run": run,
    "run_stream": run_stream,
    "run_stream_events": run_stream_events,
    "iter": iterate,
    "wrapper": wrapped,
}
"""The asynchronous ways, by name; `run_sync` needs a loop of its own."""


def desk(script: Script, **options: Any) -> Agent[Any, Any]:
    """An agent named `desk` that follows a script."""
    return Agent(script.model, name="desk", **options)
