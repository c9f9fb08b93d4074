"""Five uses of a guard, without a network."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from guardrails import Guard, OnFailAction, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult

from bench.scenario import THREADS, Scenario

CHUNKS = 50
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


def scenarios(threads: ThreadPoolExecutor) -> list[Scenario]:
    """The scenarios, each with a guard of its own; the last one's is shared by all of ``threads``."""
    shared = _guard(OnFailAction.NOOP)
    return [
        Scenario("validate, one validator", _validation(_guard(OnFailAction.NOOP)), _passes, 1, 48),
        Scenario("call with one re-ask", _reasking(_guard(OnFailAction.REASK)), _passes, 2, 12),
        Scenario(f"stream of {CHUNKS} chunks", _streaming(_guard(OnFailAction.NOOP)), _passes, 1, 4),
        Scenario("parse that fails", _failing_parse(_guard(OnFailAction.NOOP)), _fails, 1, 48),
        Scenario(f"{THREADS} threads, one guard", _validation(shared), _passes, 1, 6 * THREADS, threads),
    ]


def _passes(outcome: Any) -> bool:
    return outcome.validation_passed is True


def _fails(outcome: Any) -> bool:
    return outcome.validation_passed is False


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
