"""What is called: five uses of a guard, without a network."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from guardrails import Guard, OnFailAction, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult

CHUNKS = 50
THREADS = 8
_GOOD = "A short answer that nobody can object to."
_BAD = "A short answer that is bad."
_MESSAGES = [
    {"role": "system", "content": "You answer in one sentence."},
    {"role": "user", "content": "What is the capital of France, and why is it not Lyon?"},
]


@register_validator("bench/no-bad", data_type="string")
class NoBad(Validator):
    """Fails on `bad`."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        return FailResult(error_message=f"{value!r} is bad") if "bad" in value else PassResult()


@dataclass(frozen=True)
class Scenario:
    """One use of a guard.

    Attributes:
        name: as the table shows it.
        call: makes one call and returns its last outcome.
        passes: whether that outcome is a pass.
        iterations: how often the LLM's answer is looked at within a call.
        calls: calls per block, so that a block lasts some tens of milliseconds.
        threads: where to make them from, this thread when None.
    """

    name: str
    call: Callable[[], Any]
    passes: bool
    iterations: int
    calls: int
    threads: ThreadPoolExecutor | None = None

    def run(self, calls: int) -> None:
        """Make that many calls, from all threads at once and in equal parts where there are threads."""
        if self.threads is None:
            self._repeat(calls)
            return
        together = threading.Barrier(THREADS)
        parts = [self.threads.submit(self._repeat, calls // THREADS, together) for _ in range(THREADS)]
        for part in parts:
            part.result()

    def _repeat(self, calls: int, together: threading.Barrier | None = None) -> None:
        if together is not None:
            together.wait()
        for _ in range(calls):
            self.call()

    def warm_up(self) -> None:
        """Make the calls that pay for what is done once."""
        self.run(2 if self.threads is None else THREADS)


def scenarios(threads: ThreadPoolExecutor) -> list[Scenario]:
    """The scenarios, each with a guard of its own; the last one's is shared by all of ``threads``."""
    shared = _guard(OnFailAction.NOOP)
    return [
        Scenario("validate, one validator", _validation(_guard(OnFailAction.NOOP)), True, 1, 48),
        Scenario("call with one re-ask", _reasking(_guard(OnFailAction.REASK)), True, 2, 12),
        Scenario(f"stream of {CHUNKS} chunks", _streaming(_guard(OnFailAction.NOOP)), True, 1, 4),
        Scenario("parse that fails", _failing_parse(_guard(OnFailAction.NOOP)), False, 1, 48),
        Scenario(f"{THREADS} threads, one guard", _validation(shared), True, 1, 6 * THREADS, threads),
    ]


def _guard(on_fail: OnFailAction) -> Guard[Any]:
    return Guard(name="bench").use(NoBad(on_fail=on_fail))


def _validation(guard: Guard[Any]) -> Callable[[], Any]:
    return lambda: guard.validate(_GOOD)


def _failing_parse(guard: Guard[Any]) -> Callable[[], Any]:
    return lambda: guard.parse(_BAD)


def _reasking(guard: Guard[Any]) -> Callable[[], Any]:
    answers = itertools.cycle([_BAD, _GOOD])

    def llm(*args: Any, **kwargs: Any) -> str:
        return next(answers)

    return lambda: guard(llm, messages=_MESSAGES, num_reasks=1)


def _streaming(guard: Guard[Any]) -> Callable[[], Any]:
    def llm(*args: Any, **kwargs: Any) -> Iterator[str]:
        return (f"Chunk {number} says something. " for number in range(CHUNKS))

    def call() -> Any:
        return deque(guard(llm, messages=_MESSAGES, stream=True), maxlen=1).pop()

    return call
