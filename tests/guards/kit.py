"""Validators and LLMs for the tests. `bad` in a value fails; everything else passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from guardrails import Validator, register_validator
from guardrails.validator_base import FailResult, PassResult

MESSAGES = [{"role": "user", "content": "say something"}]


@register_validator("tests/no-bad", data_type="string")
class NoBad(Validator):
    """Fails on `bad`; its fix value is the text without it."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        if "bad" in value:
            return FailResult(error_message=f"{value!r} is bad", fix_value=value.replace("bad", "good"))
        return PassResult()


@register_validator("tests/unfixable", data_type="string")
class Unfixable(Validator):
    """Fails on `bad`, without a fix value."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        return FailResult(error_message=f"{value!r} is bad") if "bad" in value else PassResult()


@register_validator("tests/raises", data_type="string")
class Raises(Validator):
    """A validator with a fault of its own."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        raise LookupError(f"no verdict on {value}")


@register_validator("tests/needs-tenant", data_type="string")
class NeedsTenant(Validator):
    """Requires metadata."""

    required_metadata_keys: ClassVar[list[str]] = ["tenant"]

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        return PassResult()


class Script:
    """A custom LLM callable that gives its answers in turn; an exception among them is raised."""

    def __init__(self, answers: Iterable[Any]) -> None:
        self.answers = list(answers)
        self.calls = 0

    def next(self) -> Any:
        """The next answer, or the exception that stands in its place."""
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def sync(self, *args: Any, messages: Any = None, **kwargs: Any) -> Any:
        """For a ``Guard``."""
        return self.next()

    async def asynchronous(self, *args: Any, messages: Any = None, **kwargs: Any) -> Any:
        """For an ``AsyncGuard``."""
        return self.next()


class Stream:
    """A custom streaming LLM callable; an exception among its chunks is raised. Counts what is pulled."""

    def __init__(self, chunks: Iterable[Any]) -> None:
        self.chunks = list(chunks)
        self.pulled = 0
        self.calls = 0
        self.closed = False

    def _items(self) -> Iterator[Any]:
        for chunk in self.chunks:
            self.pulled += 1
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk

    def sync(self, *args: Any, messages: Any = None, **kwargs: Any) -> Iterator[Any]:
        """For a ``Guard``."""
        self.calls += 1
        return self._items()

    async def asynchronous(self, *args: Any, messages: Any = None, **kwargs: Any) -> Any:
        """For an ``AsyncGuard``, which wants an object with the stream in ``completion_stream``."""
        self.calls += 1

        async def items() -> Any:
            for chunk in self._items():
                yield chunk

        return type("Response", (), {"completion_stream": items()})()
