"""A ticket under way: its text, the steps done so far, and how each of them ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from guardrails.errors import ValidationError
from inbox import Ticket
from litellm.exceptions import Timeout
from openai import OpenAIError
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded

Result = TypeVar("Result")


ENDINGS = ("ok", "dropped", "blocked", "left", "FAILED")
# What an error means for the desk, by the first of these that is it or stands behind it.
MEANINGS: tuple[tuple[tuple[type[Exception], ...], tuple[str, str]], ...] = (
    ((Timeout, asyncio.TimeoutError), ("FAILED", "too slow")),
    ((OpenAIError,), ("FAILED", "provider error")),
    ((ValidationError,), ("blocked", "not allowed")),
    ((UsageLimitExceeded,), ("FAILED", "too many requests")),
    ((UnexpectedModelBehavior,), ("FAILED", "no valid answer")),
)


@dataclass(frozen=True)
class Step:
    """One step, its ending (one of `ENDINGS`) and, if that is not `ok`, the reason."""

    name: str
    ending: str = "ok"
    reason: str = ""


class NoAnswer(Exception):
    """A step that yields nothing to work with; it knows its ending and why."""

    def __init__(self, ending: str, reason: str) -> None:
        super().__init__(reason)
        self.ending = ending
        self.reason = reason


class Case:
    """One ticket on its way through the desk."""

    def __init__(self, ticket: Ticket) -> None:
        self.number = ticket.number
        self.letter = ticket.letter
        self.text = f"{ticket.letter.subject}: {ticket.letter.text}\n{ticket.customer}"
        self.urgent = False
        self.about_parcel = False
        self.steps: list[Step] = []

    def run(self, name: str, work: Callable[[], Result]) -> Result | None:
        """Do one step and note how it ended. Returns its result, or None when it yielded nothing."""
        try:
            result = work()
        except Exception as error:
            self._note(name, error)
            return None
        self._note(name)
        return result

    async def run_async(self, name: str, work: Awaitable[Any]) -> None:
        """Do one step of which only the ending matters."""
        try:
            await work
        except Exception as error:
            self._note(name, error)
        else:
            self._note(name)

    def _note(self, name: str, error: Exception | None = None) -> None:
        self.steps.append(Step(name, *explain(error)) if error else Step(name))


def explain(error: BaseException) -> tuple[str, str]:
    """The ending and the reason that an error means for the desk, without the error's own words."""
    if isinstance(error, NoAnswer):
        return error.ending, error.reason
    causes = list(_chain(error))
    for kinds, meaning in MEANINGS:
        if any(isinstance(cause, kinds) for cause in causes):
            return meaning
    return "FAILED", type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and those behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
