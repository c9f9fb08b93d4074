"""Guards, used in every way, with something planted wherever an application or an LLM can put it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import litellm
import pydantic
import pytest
from guardrails import AsyncGuard, Guard, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult

from sweep.sentinels import Plant


class Order(pydantic.BaseModel):
    """What an answer is to be."""

    item: str
    tags: list[str] = []


class Current:
    """The plant of the example under way: validators are registered once, and LLMs patched once."""

    plant: Plant


@register_validator("tests/sweep-telling", data_type="string")
class Telling(Validator):
    """Fails, and tells all it can."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        plant = Current.plant
        return FailResult(
            error_message=f"{value!r} has {plant.text('error message')}",
            fix_value=plant.text("fix value"),
            metadata={plant.text("result metadata key"): plant.value("result metadata")},
        )


@register_validator("tests/sweep-echoing", data_type="string")
class Echoing(Validator):
    """Fails, and says what it saw: of a stream, one piece after the other."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        return FailResult(error_message=f"{value!r} will not do")


@register_validator("tests/sweep-breaking", data_type="string")
class Breaking(Validator):
    """Raises."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        raise Current.plant.error("exception of a validator")


@register_validator("tests/sweep-content", data_type="string")
class Contented(Validator):
    """Passes."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        return PassResult()


def arguments(plant: Plant) -> dict[str, Any]:
    """What a call is given, with something planted in all of it."""
    return {
        "messages": [
            {"role": "system", "content": plant.text("system message")},
            {
                "role": "user",
                "content": "say ${word} " + plant.text("message").replace("$", "$$"),
                "name": plant.text("name in a message"),
                plant.text("key in a message"): plant.value("under a key in a message"),
            },
        ],
        "prompt_params": {"word": plant.text("parameter"), "more": plant.value("deep parameter")},
        "metadata": metadata(plant),
        "api_key": plant.password("api_key"),
        "base_url": f"https://service:{plant.password('url')}@llm.example.com/v1?token={plant.password('url')}",
        "extra_headers": {
            "Authorization": f"Bearer {plant.password('authorization')}",
            "X-Api-Key": plant.password("x-api-key"),
            "X-Trace": plant.value("header"),
        },
        "extra_body": {"api_key": plant.password("api_key in a body"), "more": plant.value("body")},
        "user": plant.value("user"),
        "functions": [{"name": "look_up", "description": plant.value("function")}],
    }


def metadata(plant: Plant) -> dict[str, Any]:
    """Metadata for the validators."""
    return {
        plant.text("metadata key"): plant.value("metadata"),
        "password": plant.password("password"),
        "credentials": {"user": "x", "list": [plant.password("under credentials")]},
        "deep": [({"x": plant.value("deep metadata")},)],
        "exception": plant.error("exception in metadata"),
    }


class GuardUse:
    """Uses of guards of one kind, `Guard` or `AsyncGuard`."""

    def __init__(self, plant: Plant, kind: type) -> None:
        self.plant = plant
        self.kind = kind
        self.asynchronous = kind is AsyncGuard

    def guard(self, validator: type, action: Any, **where: Any) -> Any:
        made = self.kind(name="desk", description=self.plant.text("description"))
        return made.use(validator(on_fail=action, hint=self.plant.value("validator argument")), **where)

    def llm(self, *answers: Any) -> Any:
        """A callable that gives its answers in turn; an exception is raised, a list is a stream."""
        left = list(answers)

        def give() -> Any:
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, BaseException):
                raise answer
            return self._stream(answer) if isinstance(answer, list) else answer

        def sync(*args: Any, messages: Any = None, **kwargs: Any) -> Any:
            return give()

        async def asynchronous(*args: Any, messages: Any = None, **kwargs: Any) -> Any:
            return give()

        return asynchronous if self.asynchronous else sync

    def _stream(self, chunks: list[Any]) -> Any:
        def items() -> Iterator[Any]:
            for chunk in chunks:
                if isinstance(chunk, BaseException):
                    raise chunk
                yield chunk

        async def asynchronous() -> Any:
            for chunk in items():
                yield chunk

        return SimpleNamespace(completion_stream=asynchronous()) if self.asynchronous else items()

    async def enter(self, guard: Any, entry: str, *args: Any, most: int = 1_000, **kwargs: Any) -> None:
        """Call an entry, and read what is a stream; what it raises is the application's affair."""
        try:
            given = getattr(guard, entry)(*args, **kwargs)
            given = await given if inspect.isawaitable(given) else given
            await _read(given, most)
        except (NameError, AttributeError, AssertionError):
            raise
        except Exception:
            return

    # --- the uses ----------------------------------------------------------------------------------

    async def calls(self) -> None:
        plant = self.plant

        def raising(value: Any, result: Any) -> Any:
            raise plant.error("exception of an action")

        actions = ["fix", "reask", "exception", "noop", "filter", lambda v, r: plant.text("action"), raising]
        for validator in (Telling, Telling, Breaking):
            guard = self.guard(validator, plant.choice(*actions))
            llm = self.llm(plant.text("answer"), plant.text("second answer"))
            await self.enter(guard, "__call__", llm, **arguments(plant))
            await self.enter(guard, "parse", plant.text("output"), metadata=metadata(plant))
            await self.enter(guard, "validate", plant.text("output"), metadata=metadata(plant))

    async def failures(self) -> None:
        plant = self.plant
        odd = plant.choice({"a": plant.value("no text")}, None, "")
        for answer in (plant.error("exception of the LLM"), odd):
            await self.enter(self.guard(Contented, "noop"), "__call__", self.llm(answer), **arguments(plant))
        await self.enter(self.guard(Contented, "noop"), "__call__", None, **arguments(plant))
        action = plant.choice("exception", "fix", "noop", "reask")
        await self.enter(
            self.guard(Telling, action, on="messages"), "__call__", self.llm("fine"), **arguments(plant)
        )

    async def structured(self) -> None:
        plant = self.plant
        guard = self.kind.for_pydantic(Order, name="desk")
        for answers in (
            [json.dumps({"item": plant.text("field"), "tags": [plant.text("list item")]})],
            [json.dumps({plant.text("foreign field"): plant.text("under a foreign field")})],
            [f"prose, {plant.text('prose')}", "{" + plant.text("broken")],
            [json.dumps({"item": [plant.text("wrong type")], "tags": {plant.text("wrong key"): 1}})],
        ):
            await self.enter(guard, "__call__", self.llm(*answers), **arguments(plant))

    async def streams(self) -> None:
        plant = self.plant
        for most in (1_000, 1):
            text = f"one. {plant.text('streamed answer')}. end."
            guard = self.guard(Telling, plant.choice("noop", "fix", "exception"))
            await self.stream(guard, [*plant.pieces(text), " two."], most)
        guard = self.guard(Contented, "noop")
        await self.stream(guard, ["one. ", plant.text("never read"), " two."], 1)
        await self.stream(guard, [*plant.pieces(plant.text("before a break")), plant.error("break")])
        await self.stream(guard, ["one. ", {plant.text("no chunk"): 1}])

    async def stream(self, guard: Any, chunks: list[Any], most: int = 1_000) -> None:
        await self.enter(guard, "__call__", self.llm(chunks), most=most, stream=True, **arguments(self.plant))

    async def responses(self) -> None:
        """What LiteLLM answers, with all that a provider can put into it."""
        for stream in (False, True):
            guard = self.guard(Contented, "reask")
            await self.enter(
                guard, "__call__", model=self.plant.name("model"), stream=stream, **arguments(self.plant)
            )


async def _read(given: Any, most: int) -> None:
    count = 0
    if hasattr(given, "__anext__"):
        async for _ in given:
            count += 1
            if count >= most:
                await given.aclose()
                return
    elif hasattr(given, "__next__"):
        for _ in given:
            count += 1
            if count >= most:
                given.close()
                return


USES: dict[str, Callable[[GuardUse], Awaitable[None]]] = {
    "calls": GuardUse.calls,
    "failures": GuardUse.failures,
    "structured": GuardUse.structured,
    "streams": GuardUse.streams,
    "responses": GuardUse.responses,
}


def use_guards(plant: Plant, name: str) -> None:
    """One of the uses, of guards of both kinds."""
    Current.plant = plant
    driven(USES[name](GuardUse(plant, Guard)))
    asyncio.run(USES[name](GuardUse(plant, AsyncGuard)))


def driven(coroutine: Any) -> None:
    """Run what never waits, without an event loop, which would change how `Guard` validates."""
    with contextlib.suppress(StopIteration):
        coroutine.send(None)
        raise AssertionError("a sync use waited")


def answers_of_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM answers with something planted in every field, names among them."""

    def response(**more: Any) -> Any:
        plant = Current.plant
        return SimpleNamespace(
            id=plant.name("response id"),
            model=plant.name("model of a response"),
            usage=SimpleNamespace(prompt_tokens=3, completion_tokens=2, **{"details": plant.value("usage")}),
            system_fingerprint=plant.value("fingerprint"),
            _hidden_params={
                "custom_llm_provider": plant.name("provider"),
                "api_base": plant.value("api base"),
                "headers": {"x": plant.value("header of a response")},
            },
            **more,
        )

    def completion(*args: Any, stream: bool = False, **kwargs: Any) -> Any:
        plant = Current.plant
        reason = plant.name("finish reason")
        if stream:
            pieces = plant.pieces(plant.text("LiteLLM's stream"))
            deltas = [SimpleNamespace(delta=SimpleNamespace(content=p), finish_reason=reason) for p in pieces]
            return (response(choices=[delta]) for delta in deltas)
        message = SimpleNamespace(
            content=plant.text("LiteLLM"), role="assistant", reasoning_content=plant.value("thought")
        )
        choice = SimpleNamespace(message=message, finish_reason=reason, logprobs=plant.value("logprobs"))
        return response(choices=[choice])

    async def acompletion(*args: Any, stream: bool = False, **kwargs: Any) -> Any:
        given = completion(stream=stream)
        return _asynchronous(given) if stream else given

    monkeypatch.setattr(litellm, "completion", completion)
    monkeypatch.setattr(litellm, "acompletion", acompletion)


async def _asynchronous(items: Any) -> Any:
    for item in items:
        yield item
