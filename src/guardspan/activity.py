"""Calls under way, through the metrics API: a call that never ends has no span that could tell of it.

Both instruments are observed: starting or ending a call touches two dictionaries and no lock, neither ours
nor the SDK's. A call may end in the garbage collector, on a thread that holds such a lock.
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
"""How many (library, name) are told apart; those beyond share the name :data:`OTHER` of their library."""
OTHER = "(other)"

_Calls = dict[int, float]
"""The start, in seconds, of each call under way of one (library, name), by the call's number."""


class Activity:
    """Reports how many calls are under way and how old the oldest is, per library and name.

    A (library, name) seen once is reported until :meth:`close`, with 0 when nothing of it is under way.
    In a forked child it starts from nothing: the parent's calls are not the child's.

    Args:
        meter: where the instruments are made; several Activities on one meter share them.
        clock: seconds, monotonic.
    """

    def __init__(self, meter: Meter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._calls: dict[tuple[str, str], _Calls] = {}
        _everyone.add(self)
        self._observer = _observer_of(meter)
        self._observer.activities[id(self)] = self

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
        """Stop reporting."""
        self._observer.activities.pop(id(self), None)
        self._calls = {}

    def ages(self) -> dict[tuple[str, str], list[float]]:
        """The ages, in seconds, of the calls under way by (library, name); empty where there are none now."""
        now = self._clock()
        # Copies of a dictionary are made in one step, whatever other threads do to it.
        return {
            key: [max(now - start, 0.0) for start in calls.copy().values()]
            for key, calls in self._calls.copy().items()
        }

    def forget(self) -> None:
        """Start from nothing."""
        self._calls = {}

    def _series(self, library: str, name: str) -> _Calls:
        key = (library, name) if len(self._calls) < MAX_NAMES else (library, OTHER)
        return self._calls.setdefault(key, {})


class _Observer:
    """The two instruments of one meter. The metrics API takes no instrument back, so they outlive Activities.

    Nor does the SDK take the callbacks of a second instrument of the same name: Activities that follow one
    another on a meter, or stand side by side, must share the first one's.
    """

    def __init__(self, meter: Meter) -> None:
        self.activities: dict[int, Activity] = {}
        self.meter = weakref.ref(meter)
        described = {metric.name: metric for metric in semconv.METRICS}
        active, age = described[semconv.CALLS_ACTIVE], described[semconv.CALLS_OLDEST_AGE]
        meter.create_observable_up_down_counter(
            active.name, [self._observe_active], active.unit, active.meaning
        )
        meter.create_observable_gauge(age.name, [self._observe_age], age.unit, age.meaning)

    def _observe_active(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(len(ages), _attributes(key)) for key, ages in self._ages().items()]

    def _observe_age(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(max(ages, default=0.0), _attributes(key)) for key, ages in self._ages().items()]

    def _ages(self) -> dict[tuple[str, str], list[float]]:
        merged: dict[tuple[str, str], list[float]] = {}
        for activity in self.activities.copy().values():
            for key, ages in activity.ages().items():
                merged.setdefault(key, []).extend(ages)
        return merged


_everyone: weakref.WeakSet[Activity] = weakref.WeakSet()
_observers: weakref.WeakSet[_Observer] = weakref.WeakSet()
"""Kept alive by the instruments that call them back, and so by their meters."""


def _observer_of(meter: Meter) -> _Observer:
    real = _real(meter)
    for observer in list(_observers):
        known = observer.meter()
        if known is not None and _real(known) is real:
            return observer
    observer = _Observer(meter)
    _observers.add(observer)
    return observer


def _real(meter: Meter) -> object:
    """The meter behind the API's stand-in; those made before a provider is set all become the same one."""
    if not hasattr(meter, "_real_meter"):
        return meter
    return meter._real_meter or type(meter)


def _attributes(key: tuple[str, str]) -> dict[str, str]:
    library, name = key
    return {semconv.LIBRARY: library, semconv.NAME: name}


def _forget_the_parents_calls() -> None:
    for activity in list(_everyone):
        activity.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_parents_calls)
