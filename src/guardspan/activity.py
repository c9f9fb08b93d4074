"""Calls under way, through the metrics API: a call that never ends has no span that could tell of it.

Both instruments are observed: starting and ending a call touches two dictionaries and no lock, neither
ours nor the SDK's. A call may end inside the garbage collector, on a thread that holds such a lock.
"""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Callable, Iterable
from typing import cast

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from guardspan import semconv

MAX_NAMES = 1_000
"""How many (library, name) are told apart; those beyond share the name ``(other)``."""
OTHER = "(other)"

_Calls = dict[int, float]
"""Start of each call of one (library, name) that is under way, in seconds, by its number."""

_all: weakref.WeakSet[Activity] = weakref.WeakSet()


class Activity:
    """Reports how many calls are under way and how old the oldest is, per library and name.

    Args:
        meter: where the instruments are made.
        clock: seconds, monotonic.
    """

    def __init__(self, meter: Meter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._calls: dict[tuple[str, str], _Calls] = {}
        self._closed = False
        active, age = (_description(name) for name in (semconv.CALLS_ACTIVE, semconv.CALLS_OLDEST_AGE))
        meter.create_observable_up_down_counter(
            active.name, [self._observe_active], active.unit, active.meaning
        )
        meter.create_observable_gauge(age.name, [self._observe_age], age.unit, age.meaning)
        _all.add(self)

    def started(self, library: str, name: str) -> object:
        """Count a call in; returns the handle that :meth:`ended` takes."""
        calls = self._calls.get((library, name))
        if calls is None:
            calls = self._series(library, name)
        number = next(self._numbers)
        calls[number] = self._clock()
        return calls, number

    def ended(self, handle: object) -> None:
        """Count a call out. Harmless when repeated, after :meth:`close`, and in a forked child."""
        calls, number = cast(tuple[_Calls, int], handle)
        calls.pop(number, None)

    def close(self) -> None:
        """Stop reporting; the metrics API cannot take an instrument back, so ours fall silent."""
        self._closed = True
        self._calls = {}

    def _series(self, library: str, name: str) -> _Calls:
        key = (library, name) if len(self._calls) < MAX_NAMES else (library, OTHER)
        return self._calls.setdefault(key, {})

    def _observe_active(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(len(calls), attributes) for attributes, calls in self._reported()]

    def _observe_age(self, _: CallbackOptions) -> Iterable[Observation]:
        now = self._clock()
        return [
            Observation(max(now - min(starts), 0.0) if (starts := list(calls.values())) else 0.0, attributes)
            for attributes, calls in self._reported()
        ]

    def _reported(self) -> list[tuple[dict[str, str], _Calls]]:
        if self._closed:
            return []
        return [
            ({semconv.LIBRARY: library, semconv.NAME: name}, calls)
            for (library, name), calls in list(self._calls.items())
        ]

    def _forget(self) -> None:
        self._calls = {}


def _description(name: str) -> semconv.Metric:
    return next(metric for metric in semconv.METRICS if metric.name == name)


def _forget_the_parents_calls() -> None:
    for activity in list(_all):
        activity._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_parents_calls)
