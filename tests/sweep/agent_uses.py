"""Agents, used in every way, with something planted wherever an application, a model or a provider can."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pydantic
from agent_kit import WAYS, Script, call
from application import put_away
from guardrails import AsyncGuard
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, ToolReturn, UsageLimits
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelAPIError, ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.output import NativeOutput, PromptedOutput
from pydantic_ai.usage import RequestUsage

from sweep.guard_uses import Current, Telling, driven
from sweep.sentinels import Opaque, Plant, Trouble


class Order(pydantic.BaseModel):
    """What an answer is to be."""

    model_config = pydantic.ConfigDict(extra="forbid")
    item: str
    count: int = 1
    tags: dict[str, int] = {}

    @pydantic.field_validator("item")
    @classmethod
    def _no_refusal(cls, item: str) -> str:
        if item.startswith("refuse "):
            raise ValueError(f"not {item}")
        return item


class Pieces(Script):
    """A model that gives its answers in turn; streams come in random pieces, arguments of tools, too."""

    def __init__(self, plant: Plant, *answers: Any) -> None:
        super().__init__(*answers)
        self.plant = plant

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._whole, stream_function=self._in_pieces, model_name="gpt-4o")

    async def _in_pieces(self, messages: Any, info: AgentInfo) -> AsyncIterator[Any]:
        answer: Any = self._next(messages)
        parts = answer.parts if isinstance(answer, ModelResponse) else answer
        parts = [TextPart(parts)] if isinstance(parts, str) else parts if isinstance(parts, list) else [parts]
        for index, part in enumerate(parts):
            if isinstance(part, ToolCallPart):
                name, pieces = part.tool_name, self.plant.pieces(part.args_as_json_str())
                for piece in pieces:
                    yield {index: DeltaToolCall(name, piece, tool_call_id=part.tool_call_id)}
                    name = None
            elif isinstance(part, TextPart):
                for piece in self.plant.pieces(part.content):
                    await asyncio.sleep(0)
                    yield piece


class AgentUse:
    """Uses of agents by one of the ways to run one."""

    def __init__(self, plant: Plant, way: str) -> None:
        self.plant = plant
        self.way = way

    def agent(self, *answers: Any, model: Any = None, **options: Any) -> Agent[Any, Any]:
        """An agent with something planted in all that can be set on it, and tools of all outcomes."""
        plant = self.plant
        agent: Agent[Any, Any] = Agent(
            model or Pieces(plant, *answers).model,
            **{
                "name": "desk",
                "system_prompt": plant.text("system prompt"),
                "instructions": plant.text("instructions"),
                "model_settings": self.settings("agent"),
                "metadata": {"agent": plant.value("metadata of the agent")},
                "description": plant.text("description"),
                **options,
            },
        )
        agent.system_prompt(lambda: plant.text("dynamic system prompt"))
        agent.instructions(lambda: plant.text("dynamic instructions"))
        agent.tool(self.work, description=plant.text("description of a tool"))
        return agent

    async def work(self, ctx: RunContext[Any], how: str, text: str = "") -> Any:
        """A tool with any outcome."""
        plant = self.plant
        raised: dict[str, Callable[[], BaseException]] = {
            "retry": lambda: ModelRetry(plant.text("retry of a tool")),
            "break": lambda: plant.error("exception of a tool"),
            "defer": lambda: CallDeferred(metadata={"a": plant.value("deferred")}),
            "approve": lambda: ApprovalRequired(metadata={"a": plant.value("approval")}),
        }
        if how in raised:
            raise raised[how]()
        if how == "return":
            return ToolReturn(plant.text("return value"), content=[plant.text("content of a return")])
        if how == "ask":
            return await self.ask_others()
        return {
            "a": plant.text("result of a tool"),
            plant.text("key of a result"): [plant.text("deep result")],
        }

    async def ask_others(self) -> str:
        """An agent and a guard within a tool."""
        plant = self.plant
        inner = Agent(Script(plant.text("answer of another agent")).model, name="inner")
        output = (await inner.run(plant.text("prompt for another agent"))).output
        guard = AsyncGuard(name="inner guard").use(Telling(on_fail="noop"))
        await guard.validate(output, metadata={"a": plant.value("metadata of an inner guard")})
        return str(output)

    def settings(self, whose: str) -> Any:
        plant = self.plant
        return {
            "temperature": 0.5,
            "extra_headers": {
                "Authorization": f"Bearer {plant.password(f'authorization, {whose}')}",
                "X-Api-Key": plant.password(f"x-api-key, {whose}"),
                "X-Trace": plant.text(f"header, {whose}"),
            },
            "extra_body": {
                "api_key": plant.password(f"api_key, {whose}"),
                "a": plant.value(f"body, {whose}"),
            },
            "stop_sequences": [plant.text(f"stop sequence, {whose}")],
        }

    def options(self) -> dict[str, Any]:
        """Something planted in every argument of a run."""
        plant = self.plant
        return {
            "deps": Opaque(plant.text("dependencies")),
            "metadata": {
                plant.text("metadata key"): plant.value("metadata"),
                "password": plant.password("pw"),
            },
            "model_settings": self.settings("run"),
            "instructions": plant.text("instructions of the run"),
            "message_history": self.history(),
            "conversation_id": plant.name("conversation id"),
        }

    def prompt(self) -> list[Any]:
        plant = self.plant
        return [
            plant.text("prompt"),
            BinaryContent(
                plant.plain("binary").encode(), media_type="image/png", identifier=plant.text("id")
            ),
            ImageUrl(f"https://u:{plant.password('url')}@example.com/{plant.plain('path of a url')}"),
        ]

    def history(self) -> list[Any]:
        plant = self.plant
        known, dangling = plant.text("id of a call"), plant.text("id of a dangling call")
        return [
            ModelRequest(
                parts=[SystemPromptPart(plant.text("system, before")), UserPromptPart(plant.text("asked"))]
            ),
            ModelResponse(
                parts=[
                    ThinkingPart(plant.text("thought, before"), signature=plant.text("signature, before")),
                    ToolCallPart("work", {"how": plant.text("arguments, before")}, known),
                    ToolCallPart(plant.text("tool, before"), plant.text("broken arguments"), dangling),
                ],
                provider_details={"a": plant.value("provider details, before")},
            ),
            ModelRequest(
                parts=[
                    ToolReturnPart("work", plant.text("result, before"), known),
                    ToolReturnPart(plant.text("orphan"), plant.text("orphan's"), plant.text("orphan's id")),
                    RetryPromptPart(plant.text("retry, before")),
                ]
            ),
            ModelResponse(parts=[TextPart(plant.text("answer, before"))]),
        ]

    async def attempt(self, agent: Any, **more: Any) -> None:
        """Run it; what it raises is the application's affair, unless this test made a mistake."""
        options = {**self.options(), **more}
        try:
            await WAYS_TO_RUN[self.way](agent, self.prompt(), **options)
        except (AttributeError, NameError, TypeError, AssertionError):
            raise
        except Exception:
            return

    # --- what a run can come to ---------------------------------------------------------------------

    def called(self, how: str) -> ToolCallPart:
        plant = self.plant
        return ToolCallPart(
            "work", {"how": how, "text": plant.text("argument")}, plant.text("id of a tool call")
        )

    async def tools(self) -> None:
        plant = self.plant
        made = [self.called(how) for how in ("give", "return", "retry", "ask")]
        unknown = ToolCallPart(plant.text("invented tool"), {plant.text("its key"): plant.text("its value")})
        wrong = ToolCallPart("work", {plant.text("wrong key"): 1, "how": {"x": plant.text("wrong type")}})
        broken = ToolCallPart("work", "{" + plant.text("arguments that are no JSON"))
        await self.attempt(self.agent(made, [unknown, wrong], [broken], plant.text("answer"), retries=5))
        await self.attempt(self.agent([plant.choice(unknown, wrong, broken)], retries=1))
        await self.attempt(self.agent([self.called("break")]))
        deferred = self.called(plant.choice("defer", "approve"))
        await self.attempt(self.agent([deferred], output_type=[str, DeferredToolRequests]))

    async def outputs(self) -> None:
        plant = self.plant
        answer = plant.choice(
            {"item": plant.text("field")},
            {"item": f"refuse {plant.text('refused value')}"},
            {"item": "x", "count": plant.text("wrong value")},
            {"item": "x", plant.text("foreign field"): plant.text("foreign value")},
            {"item": "x", "tags": {plant.text("tag"): plant.text("wrong tag")}},
        )
        await self.attempt(self.agent(call("final_result", **answer), output_type=Order))
        kind = plant.choice(PromptedOutput(Order), NativeOutput(Order))
        text = plant.choice(json.dumps(answer), f"prose {plant.text('prose')}", "{" + plant.text("broken"))
        await self.attempt(self.agent(text, output_type=kind))

        async def take(text: str) -> str:
            raise plant.choice(
                ModelRetry(f"{text} {plant.text('refusal')}"), plant.error("exception of output")
            )

        await self.attempt(self.agent(call("final_result", text=plant.text("x")), output_type=take))

    async def validators(self) -> None:
        plant = self.plant
        for retries in (0, 2):
            agent = self.agent(plant.text("judged answer"), retries=retries)

            @agent.output_validator
            async def judge(output: str) -> str:
                raised = [
                    ModelRetry(f"{output} is not {plant.text('wanted')}"),
                    plant.error("exception of a validator"),
                    ValueError(f"{output}: {plant.text('value error')}"),
                    None,
                ]
                error = plant.choice(*raised)
                if error is None:
                    return plant.text("replaced output")
                raise error

            await self.attempt(agent)

    async def providers(self) -> None:
        plant = self.plant
        error = plant.choice(
            ModelHTTPError(
                500, "gpt-4o", {"error": {"message": plant.text("body"), "k": plant.text("in a body")}}
            ),
            ModelHTTPError(401, "gpt-4o", plant.text("body as text")),
            ModelAPIError("gpt-4o", plant.text("API error")),
            ConnectionError(plant.text("connection")),
            plant.error("exception of a model"),
        )
        await self.attempt(self.agent(error))
        second = plant.choice(error, self.response())
        await self.attempt(self.agent(model=FallbackModel(Script(error).model, Script(second).model)))
        await self.attempt(self.agent(self.response()), **self._limits())

    def _limits(self) -> dict[str, Any]:
        return self.plant.choice({}, {"usage_limits": UsageLimits(output_tokens_limit=1)})

    def response(self) -> ModelResponse:
        """A response with something planted in every field, names among them."""
        plant = self.plant
        response = ModelResponse(
            parts=[
                ThinkingPart(
                    plant.text("thought"), id=plant.text("id of a thought"), signature=plant.text("sign")
                ),
                TextPart(plant.text("answer after a thought")),
            ],
            usage=RequestUsage(input_tokens=9, output_tokens=3, details={plant.text("usage key"): 3}),
            model_name=plant.name("model of a response"),
            provider_name=plant.name("provider"),
            provider_response_id=plant.name("response id"),
            provider_details={"a": plant.value("provider details")},
            metadata={"a": plant.value("metadata of a response")},
        )
        return replace(response, finish_reason=plant.name("finish reason"))

    async def left(self) -> None:
        """Streams and runs that are left after a few pieces, with an error and without; a cancelled run."""
        plant = self.plant
        error = plant.choice(None, plant.error("exception of a reader"))
        if not isinstance(error, Trouble | None):
            error = None
        for leave in (self._leave_stream, self._leave_iter, self._leave_events):
            agent = self.agent(f"one {plant.text('streamed answer')} {plant.text('its end')}")
            with contextlib.suppress(Trouble):
                await leave(agent, error)
        task = asyncio.ensure_future(self.agent("never").run("x", **self.options()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel(plant.text("message of a cancellation"))
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _leave_stream(self, agent: Any, error: BaseException | None) -> None:
        async with agent.run_stream(self.prompt(), **self.options()) as stream:
            await self._leave(stream.stream_output(debounce_by=None), error)

    async def _leave(self, pieces: Any, error: BaseException | None) -> None:
        left = self.plant.choice(1, 2, 3)
        async for _ in pieces:
            left -= 1
            if left:
                continue
            if error is not None:
                raise error
            return

    async def _leave_iter(self, agent: Any, error: BaseException | None) -> None:
        async with agent.iter(self.prompt(), **self.options()) as agent_run:
            await self._leave(agent_run, error)

    async def _leave_events(self, agent: Any, error: BaseException | None) -> None:
        async with agent.run_stream_events(self.prompt(), **self.options()) as events:
            await self._leave(events, error)


async def _overridden(agent: Any, prompt: Any, **options: Any) -> None:
    with agent.override(
        model=agent.model, instructions=Current.plant.text("instructions in place of others")
    ):
        await agent.run(prompt, **options)


async def _run_sync(agent: Any, prompt: Any, **options: Any) -> None:
    agent.run_sync(prompt, **options)


async def _run_stream_sync(agent: Any, prompt: Any, instructions: Any = None, **options: Any) -> None:
    made = agent.run_stream_sync(prompt, **options)
    with made if hasattr(made, "__exit__") else contextlib.nullcontext(made) as stream:
        for _ in stream.stream_output(debounce_by=None):
            pass


SYNC = {"run_sync": _run_sync, "run_stream_sync": _run_stream_sync}
"""Ways without a loop of the application's own."""
WAYS_TO_RUN: dict[str, Callable[..., Awaitable[Any]]] = {**WAYS, "override": _overridden, **SYNC}
USES: dict[str, Callable[[AgentUse], Awaitable[None]]] = {
    "tools": AgentUse.tools,
    "outputs": AgentUse.outputs,
    "validators": AgentUse.validators,
    "providers": AgentUse.providers,
    "left": AgentUse.left,
}


def use_agents(plant: Plant, name: str) -> None:
    """One of the uses, by three ways to run an agent."""
    Current.plant = plant
    ways = ["run"] if name == "left" else plant.some(WAYS_TO_RUN, 3)

    async def all_ways() -> None:
        for way in [way for way in ways if way not in SYNC]:
            await USES[name](AgentUse(plant, way))

    asyncio.run(all_ways())
    for way in [way for way in ways if way in SYNC]:
        _without_loop(USES[name](AgentUse(plant, way)))


def _without_loop(use: Any) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    driven(use)
    put_away(loop)
