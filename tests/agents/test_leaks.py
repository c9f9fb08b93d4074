"""No content of an agent gets out: in `shape` and `off` none at all, in `redacted` no secret, by any channel.

A text is planted in every place that an application, a model or a provider can put one; all that is exported
is searched for it and for any part of it. Names that code gives (of agents, tools, types) are no content.
"""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
import pytest
from agent_kit import WAYS, Script, call, run_sync
from opentelemetry import baggage
from opentelemetry import context as otel_context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from planting import SECRETS, Channels, Planted, word
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, ToolReturn, UsageLimits
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelAPIError, ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    FilePart,
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
from pydantic_ai.output import NativeOutput, PromptedOutput
from recording import Recording
from spans import by_kind

from guardspan import safety


@pytest.fixture(autouse=True)
def own_records(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Our log tells everything, also what it told before."""
    monkeypatch.setattr(safety, "_reported", set())
    caplog.set_level(logging.DEBUG, logger="guardspan")


class Refused(Exception):
    """An exception with more to it than a message."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.body = self.message = args[-1]
        self.__notes__ = [str(args[-1])]


class Dependencies:
    """What tools work with, and the model must not see."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Order(pydantic.BaseModel):
    """An order."""

    model_config = pydantic.ConfigDict(extra="forbid")
    item: str
    count: Annotated[int, pydantic.Field(description="how many")] = 1
    tags: dict[str, int] = {}

    @pydantic.field_validator("item")
    @classmethod
    def _no_refusal(cls, item: str) -> str:
        if item.startswith("refuse "):
            raise ValueError(f"not {item}")
        return item


class Use:
    """One use of everything, in one way."""

    def __init__(self, plant: Planted, way: str) -> None:
        self.plant = plant
        self.way = way
        self.raised: set[str] = set()

    def agent(self, script: Any, **options: Any) -> Agent[Any, Any]:
        """An agent with a text in everything that can be set on it, and tools of all outcomes."""
        plant = self.plant
        agent: Agent[Any, Any] = Agent(
            script.model if isinstance(script, Script) else script,
            name="desk",
            **{
                "system_prompt": plant("system prompt"),
                "instructions": plant("instructions"),
                "model_settings": self.settings("agent"),
                "metadata": {"agent": plant("metadata of the agent")},
                "description": plant("description"),
                **options,
            },
        )
        agent.system_prompt(lambda: plant("dynamic system prompt"))
        agent.instructions(lambda: plant("dynamic instructions"))
        self.add_tools(agent)
        return agent

    def add_tools(self, agent: Agent[Any, Any]) -> None:
        plant = self.plant

        async def work(ctx: RunContext[Any], how: str, text: str = "") -> Any:
            outcomes: dict[str, Callable[[], Any]] = {
                "give": lambda: plant("tool result"),
                "give more": lambda: {"a": [plant("deep tool result")], plant("result key"): ctx.deps},
                "file": lambda: BinaryContent(plant("file of a tool").encode(), media_type="image/png"),
                "return": lambda: ToolReturn(
                    plant("return value"),
                    content=[plant("content")],
                    metadata={"a": plant("return metadata")},
                ),
            }
            raised: dict[str, Callable[[], BaseException]] = {
                "retry": lambda: ModelRetry(plant("retry")),
                "break": self.refused,
                "timeout": lambda: TimeoutError(plant("timeout")),
                "defer": lambda: CallDeferred(metadata={"a": plant("deferred metadata")}),
                "approve": lambda: ApprovalRequired(metadata={"a": plant("approval metadata")}),
            }
            if how in raised:
                raise raised[how]()
            return str(outcomes[how]()) if how == "give more" else outcomes[how]()

        agent.tool(work, description=plant("tool description"))

    def refused(self) -> BaseException:
        error = Refused(self.plant("exception"), {"body": self.plant("exception's argument")})
        error.__cause__ = ValueError(self.plant("cause"))
        return error

    def settings(self, whose: str) -> Any:
        plant = self.plant
        return {
            "temperature": 0.5,
            "extra_headers": {
                "Authorization": f"Bearer {plant.named(f'authorization of the {whose}')}",
                "X-Api-Key": plant.named(f"x-api-key of the {whose}"),
                "X-Trace": plant(f"header of the {whose}"),
            },
            "extra_body": {
                "api_key": plant.named(f"api_key of the {whose}"),
                "more": [plant(f"body, {whose}")],
            },
            "stop_sequences": [plant(f"stop sequence of the {whose}")],
        }

    def options(self, **more: Any) -> dict[str, Any]:
        """A text in every argument of a run."""
        plant = self.plant
        given = {
            "deps": Dependencies(plant("deps")),
            "metadata": {plant("metadata key"): plant("metadata"), "password": plant.named("password")},
            "model_settings": self.settings("run"),
            "instructions": plant("instructions of the run"),
            "message_history": self.history(),
            "conversation_id": plant.secret("conversation id"),
        }
        return {**given, **more}

    def prompt(self) -> list[Any]:
        plant = self.plant
        return [
            plant("prompt"),
            BinaryContent(plant("binary").encode(), media_type="image/png", identifier=plant("identifier")),
            ImageUrl(f"https://u:{plant.named('password of a url')}@example.com/{plant('image url')}"),
            DocumentUrl(f"https://example.com/d?token={plant.named('token of a url')}"),
        ]

    def history(self) -> list[Any]:
        plant = self.plant
        known, dangling = plant("id of a call"), plant("id of a dangling call")
        return [
            ModelRequest(
                parts=[SystemPromptPart(plant("system in history")), UserPromptPart(plant("asked"))]
            ),
            ModelResponse(
                parts=[
                    ThinkingPart(plant("thought in history"), signature=plant("signature in history")),
                    ToolCallPart("work", {"how": plant("arguments in history")}, known),
                    ToolCallPart(plant("tool in history"), plant("broken arguments"), dangling),
                ],
                provider_details={"a": plant("provider details in history")},
            ),
            ModelRequest(
                parts=[
                    ToolReturnPart("work", plant("result in history"), known, metadata=plant("its metadata")),
                    ToolReturnPart(plant("orphan"), plant("orphan's result"), plant("orphan's id")),
                    RetryPromptPart(plant("retry in history")),
                ]
            ),
            ModelResponse(parts=[TextPart(plant("answer in history"))]),
        ]

    async def attempt(self, agent: Agent[Any, Any], **more: Any) -> None:
        """Run it; what it raises is the application's affair, unless this test made a mistake."""
        options, way = self.options(**more), self.way
        try:
            if way == "run_sync":
                await asyncio.to_thread(run_sync, agent, self.prompt(), **options)
            else:
                await WAYS[way](agent, self.prompt(), **options)
        except (TypeError, AttributeError, NameError):
            raise
        except Exception as error:
            self.raised.add(type(error).__name__)

    # --- what a run can come to --------------------------------------------------------------------------

    def work(self, how: str) -> ToolCallPart:
        return ToolCallPart("work", {"how": how, "text": self.plant("argument")}, self.plant("tool call id"))

    async def tools(self) -> None:
        plant = self.plant
        calls: list[Any] = [self.work(how) for how in ("give", "give more", "file", "return", "retry")]
        unknown = ToolCallPart(plant("unknown tool"), {plant("its argument"): plant("its value")})
        wrong = ToolCallPart("work", {plant("wrong argument"): 1, "how": {"x": plant("wrong type")}})
        broken = ToolCallPart("work", "{" + plant("arguments that are no JSON"))
        for calls_made in (calls, [unknown], [wrong], [broken]):
            await self.attempt(self.agent(Script(calls_made, plant("answer")), retries=3))
            await self.attempt(self.agent(Script(calls_made), retries=1))
        for how in ("break", "timeout"):
            await self.attempt(self.agent(Script([self.work(how)])))
        for how in ("defer", "approve"):
            script = Script([self.work(how)])
            await self.attempt(self.agent(script, output_type=[str, DeferredToolRequests]))

    async def outputs(self) -> None:
        plant = self.plant
        answers: list[dict[str, Any]] = [
            {"item": plant("field")},
            {"item": f"refuse {plant('refused value')}"},
            {"item": "x", "count": plant("wrong value")},
            {"item": "x", plant("foreign field"): plant("foreign value")},
            {"item": "x", "tags": {plant("tag"): plant("wrong tag")}},
        ]
        for answer in answers:
            await self.attempt(self.agent(Script(call("final_result", **answer)), output_type=Order))
        for kind in (PromptedOutput(Order), NativeOutput(Order)):
            for text in (*map(json.dumps, answers), f"prose {plant('prose')}", "{" + plant("broken JSON")):
                await self.attempt(self.agent(Script(text), output_type=kind))
        await self.attempt(self.agent(Script(plant("text in place of an order")), output_type=Order))
        for outcome in ("retry", "break"):

            async def take(text: str, outcome: str = outcome) -> str:
                raise ModelRetry(f"{text} {plant('refusal')}") if outcome == "retry" else self.refused()

            await self.attempt(self.agent(Script(call("final_result", text=plant("x"))), output_type=take))

    async def validators(self) -> None:
        plant = self.plant
        for outcome in ("pass", "retry", "break", "value"):

            async def judge(output: str, outcome: str = outcome) -> str:
                if outcome == "retry":
                    raise ModelRetry(f"{output} is not {plant('wanted')}")
                if outcome == "break":
                    raise self.refused()
                if outcome == "value":
                    raise ValueError(f"{output}: {plant('value error')}")
                return plant("replaced output")

            for retries in (0, 2):
                agent = self.agent(Script(plant("judged answer")), retries=retries)
                agent.output_validator(judge)
                await self.attempt(agent)

    async def providers(self) -> None:
        plant = self.plant
        thoughts = [
            ThinkingPart(plant("thought"), id=plant("id of a thought"), signature=plant("signature")),
            FilePart(BinaryContent(plant("made file").encode(), media_type="image/png")),
            TextPart(plant("answer after a thought")),
        ]
        details = {"provider_details": {"a": plant("provider details")}, "metadata": {"a": plant("metadata")}}
        errors = [
            ModelHTTPError(
                500, "gpt-4o", {"error": {"message": plant("body"), "key": plant("key in a body")}}
            ),
            ModelHTTPError(401, "gpt-4o", plant("body as text")),
            ModelAPIError("gpt-4o", plant("API error")),
            ConnectionError(plant("connection")),
            asyncio.TimeoutError(plant("timeout of a request")),
            self.refused(),
        ]
        await self.attempt(self.agent(Script(ModelResponse(parts=thoughts, **details))))
        await self.attempt(self.agent(Script(ModelResponse(parts=thoughts[:1]))))
        filtered = ModelResponse(parts=thoughts[:1], finish_reason="content_filter", **details)
        await self.attempt(self.agent(Script(filtered)))
        for error in errors:
            await self.attempt(self.agent(Script(error)))
            for last in (error, plant("answer of the second")):
                models = [Script(errors[0]).model, Script(last).model]
                await self.attempt(self.agent(FallbackModel(models[0], models[1])))

    async def limits(self) -> None:
        for limits in (UsageLimits(request_limit=1), UsageLimits(output_tokens_limit=1)):
            script = Script([self.work("give")], self.plant("answer too late"))
            await self.attempt(self.agent(script), usage_limits=limits)

    async def left(self) -> None:
        """Streams and runs that are left after the first piece, with an error and without; cancelled runs."""
        for error in (None, self.refused()):
            for leave in (self._leave_stream, self._leave_iter, self._leave_events):
                agent = self.agent(Script(f"one {self.plant('streamed answer')} two three"))
                try:
                    await leave(agent, error)
                except Refused:
                    assert error is not None
        task = asyncio.ensure_future(self.agent(Script("never")).run("x", **self.options()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel(self.plant("cancel message"))
        with pytest.raises(asyncio.CancelledError):
            await task

    async def _leave_stream(self, agent: Any, error: BaseException | None) -> None:
        async with agent.run_stream(self.prompt(), **self.options()) as stream:
            await self._leave(stream.stream_output(debounce_by=None), error)

    async def _leave(self, pieces: Any, error: BaseException | None) -> None:
        async for _ in pieces:
            if error is not None:
                raise error
            break

    async def _leave_iter(self, agent: Any, error: BaseException | None) -> None:
        async with agent.iter(self.prompt(), **self.options()) as agent_run:
            await self._leave(agent_run, error)

    async def _leave_events(self, agent: Any, error: BaseException | None) -> None:
        async with agent.run_stream_events(self.prompt(), **self.options()) as events:
            await self._leave(events, error)

    async def everything(self) -> None:
        """All of it, with the application's baggage."""
        otel_context.attach(baggage.set_baggage("user.id", self.plant("baggage")))  # the test's own context
        for use in (self.tools, self.outputs, self.validators, self.providers, self.limits, self.left):
            await use()


class Plant(Planted):
    """Texts, each of which is remembered, and secrets also where a text that is no secret may show."""

    def __call__(self, place: str) -> str:
        key, text = f"{place} #{len(self.bodies)}", ""
        while not any(map(str.isdigit, text)):  # letters alone are no key to the redactor
            self.bodies.pop(key, None)
            text = super().__call__(key)
        return text

    def named(self, place: str) -> str:
        return super().named(f"{place} #{len(self.bodies)}")

    def secret(self, place: str) -> str:
        """A text that looks like a secret, for a place whose content is emitted on purpose."""
        text, self.bodies[place] = SECRETS[len(self.bodies) % 3](self._random)
        return text


@pytest.mark.parametrize("way", [*WAYS, "run_sync"])
@pytest.mark.parametrize("content", ["shape", "off", "redacted"])
async def test_no_content_gets_out(
    record: Callable[..., Recording], caplog: pytest.LogCaptureFixture, way: str, content: str
) -> None:
    """In `shape` and `off` nothing of any text; in `redacted` nothing of a secret."""
    plant = Plant(SECRETS if content == "redacted" else [word])
    channels = Channels(record, content=content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await Use(plant, way).everything()
    exported = channels.exported(caplog, caught)
    assert plant.found_in(exported) == []
    spans = channels.recording.spans
    statuses = {span.attributes["guardspan.status"] for span in by_kind(spans, "call")}
    assert statuses == {"pass", "fail", "error", "not run"}
    assert len(encode_spans(spans).resource_spans) == 1
    assert [record for record in caplog.records if record.name == "guardspan"] == []
    assert len(plant.bodies) > 2_000
    assert channels.logs.get_finished_logs()
    assert channels.views
    assert "guardspan.history.repair" in exported


async def test_ids_of_the_applications_own_hold_no_secret(record: Callable[..., Recording]) -> None:
    """Ids are emitted on purpose; who puts a secret into one is protected all the same."""
    takes_run_id = "run_id" in Agent.iter.__annotations__
    recording = record()
    plant = Plant([word])
    ids = {"run_id": plant.secret("run id")} if takes_run_id else {}
    agent = Agent(Script("fine").model, name="desk")
    await agent.run("hello", conversation_id=plant.secret("conversation id"), **ids)
    assert plant.found_in(str(encode_spans(recording.spans))) == []
    (span,) = by_kind(recording.spans, "call")
    assert "[" in span.attributes["gen_ai.conversation.id"]


@pytest.mark.parametrize("content", ["shape", "redacted"])
@pytest.mark.parametrize(
    "text", ["a\x00b", "a\ud800b\udfff", "a\x1b[2Jb\u202ec", "bad word " * 300_000], ids=len
)
async def test_a_text_that_breaks_things_breaks_no_export(
    record: Callable[..., Recording], text: str, content: str
) -> None:
    """The spans are encoded whole, within the limits, with identity, status and tokens."""
    recording = record(content=content, evaluation_events=True)
    answer = ModelResponse(
        parts=[ToolCallPart(text, {text[:40]: text}, text[:40])],
        model_name=text,
        provider_name=text,
        provider_response_id=text,
        usage=Script("x").usage,
    )
    error = type("Error", (RuntimeError,), {"__qualname__": text[:9_000]})(text)
    agent = Agent(Script(answer, "bad", error).model, name=f"g {text[:200]}", retries=3)

    @agent.output_validator
    async def judge(output: str) -> str:
        raise ModelRetry(text)

    with pytest.raises(RuntimeError):
        await agent.run(text, metadata={text[:40]: text}, conversation_id=text, instructions=text)
    spans = recording.spans
    encoded = [s for r in encode_spans(spans).resource_spans for scope in r.scope_spans for s in scope.spans]
    assert len(encoded) == len(spans) == 5
    for span in spans:
        assert len(span.attributes) < 64
        assert len(span.name) <= 80
        assert all(len(str(value)) <= 4096 for value in span.attributes.values())
        assert not {"\x00", "\ud800"} & set(repr(dict(span.attributes)) + span.name)
    assert by_kind(spans, "iteration")[0].attributes["guardspan.usage.input_tokens"] == 10
    assert by_kind(spans, "call")[0].attributes["guardspan.status"] == "error"
