"""Calls under way, as the metrics SDK reports them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, InMemoryMetricReader, Sum

from guardspan import semconv
from guardspan.activity import MAX_NAMES, OTHER, Activity

Series = dict[tuple[str, str], float]


@dataclass
class Clock:
    """A clock that is moved by hand, in seconds."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """A meter provider of its own, and what its reader sees."""

    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def activity(self) -> Activity:
        return Activity(self.provider.get_meter("guardspan", "1"), clock=self.clock)

    def seen(self, name: str) -> Series:
        """The points of a metric by (library, name); each appears once."""
        points: Series = {}
        for metric in self.metrics():
            if metric.name == name:
                for point in metric.data.data_points:
                    key = (point.attributes["guardspan.library"], point.attributes["guardspan.name"])
                    assert key not in points
                    assert len(point.attributes) == 2
                    points[key] = point.value
        return points

    def metrics(self) -> list:
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        return [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]

    def active(self) -> Series:
        return self.seen("guardspan.calls.active")

    def ages(self) -> Series:
        return self.seen("guardspan.calls.oldest_age")


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.provider.shutdown()


def test_calls_are_counted_and_the_oldest_is_timed(bench: Bench) -> None:
    """Per library and name: how many are under way, and how long the oldest of them has been."""
    activity = bench.activity()
    first = activity.started("guardrails", "support")
    bench.clock.now += 5
    activity.started("guardrails", "support")
    activity.started("pydantic_ai", "agent")
    bench.clock.now += 2.5
    assert bench.active() == {("guardrails", "support"): 2, ("pydantic_ai", "agent"): 1}
    assert bench.ages() == {("guardrails", "support"): 7.5, ("pydantic_ai", "agent"): 2.5}
    activity.ended(first)
    assert bench.active() == {("guardrails", "support"): 1, ("pydantic_ai", "agent"): 1}
    assert bench.ages() == {("guardrails", "support"): 2.5, ("pydantic_ai", "agent"): 2.5}


def test_the_oldest_need_not_be_the_first_to_end(bench: Bench) -> None:
    """A younger call that ends leaves the age of the oldest alone."""
    activity = bench.activity()
    activity.started("guardrails", "support")
    bench.clock.now += 5
    activity.ended(activity.started("guardrails", "support"))
    assert bench.ages() == {("guardrails", "support"): 5.0}


def test_what_was_seen_is_reported_as_none_under_way(bench: Bench) -> None:
    """After its last call a (library, name) reads 0 in both metrics, rather than vanish."""
    activity = bench.activity()
    activity.ended(activity.started("guardrails", "support"))
    assert bench.active() == {("guardrails", "support"): 0}
    assert bench.ages() == {("guardrails", "support"): 0.0}


def test_nothing_is_reported_before_the_first_call(bench: Bench) -> None:
    """An application that guards nothing has no series."""
    bench.activity()
    assert bench.active() == bench.ages() == {}


def test_ending_twice_counts_once(bench: Bench) -> None:
    """A handle ended again takes no other call away."""
    activity = bench.activity()
    handle = activity.started("guardrails", "support")
    activity.started("guardrails", "support")
    for _ in range(3):
        activity.ended(handle)
    assert bench.active() == {("guardrails", "support"): 1}


def test_the_metrics_are_the_contract_s(bench: Bench) -> None:
    """Names, units and kinds: a sum that may fall, and a gauge in seconds."""
    bench.activity().started("guardrails", "support")
    found = {metric.name: metric for metric in bench.metrics()}
    assert found.keys() == {semconv.CALLS_ACTIVE, semconv.CALLS_OLDEST_AGE}
    active, age = found[semconv.CALLS_ACTIVE], found[semconv.CALLS_OLDEST_AGE]
    assert (active.unit, age.unit) == ("{call}", "s")
    assert isinstance(active.data, Sum)
    assert not active.data.is_monotonic
    assert isinstance(age.data, Gauge)


def test_after_close_nothing_is_reported(bench: Bench) -> None:
    """Neither series nor late ends are left when the instrumentation has gone."""
    activity = bench.activity()
    handle = activity.started("guardrails", "support")
    assert bench.active()
    activity.close()
    activity.close()
    assert bench.active() == bench.ages() == {}
    activity.ended(handle)
    activity.ended(activity.started("guardrails", "support"))
    assert bench.active() == bench.ages() == {}


def test_the_next_activity_on_a_meter_reports_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Instrumenting again after uninstrumenting reports anew, once, and without a complaint of the SDK."""
    for number in range(1, 4):
        activity = bench.activity()
        for _ in range(number):
            activity.started("guardrails", "support")
        assert bench.active() == {("guardrails", "support"): number}
        activity.close()
    assert not caplog.records


def test_two_activities_on_one_meter_are_reported_together(bench: Bench) -> None:
    """Two instrumentors side by side share the metrics; what both have adds up."""
    one, other = bench.activity(), bench.activity()
    one.started("guardrails", "support")
    bench.clock.now += 3
    other.started("pydantic_ai", "agent")
    other.started("guardrails", "support")
    assert bench.active() == {("guardrails", "support"): 2, ("pydantic_ai", "agent"): 1}
    assert bench.ages() == {("guardrails", "support"): 3.0, ("pydantic_ai", "agent"): 0.0}
    one.close()
    assert bench.active() == {("guardrails", "support"): 1, ("pydantic_ai", "agent"): 1}


def test_activities_of_two_providers_are_apart(bench: Bench) -> None:
    """Each meter reports its own calls only."""
    second = Bench()
    bench.activity().started("guardrails", "one")
    second.activity().started("guardrails", "two")
    assert bench.active() == {("guardrails", "one"): 1}
    assert second.active() == {("guardrails", "two"): 1}
    second.provider.shutdown()


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "already" not in done.stderr
    return done.stdout


def test_a_provider_that_is_set_later_sees_every_activity() -> None:
    """Activities made before the application sets its meter provider, and after, are all reported, once."""
    assert run("""
from opentelemetry.metrics import get_meter, set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from guardspan.activity import Activity
gone = Activity(get_meter("guardspan", "1"))
gone.started("guardrails", "gone")
gone.close()
Activity(get_meter("guardspan", "1")).started("guardrails", "before")
reader = InMemoryMetricReader()
set_meter_provider(MeterProvider([reader]))
Activity(get_meter("guardspan", "1")).started("guardrails", "after")
for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
    print(metric.name, sorted(point.attributes["guardspan.name"] for point in metric.data.data_points))
""").splitlines() == [
        "guardspan.calls.active ['after', 'before']",
        "guardspan.calls.oldest_age ['after', 'before']",
    ]


def test_names_are_bounded(bench: Bench) -> None:
    """Names beyond the bound share one series of their library, and are still counted."""
    activity = bench.activity()
    handles = [activity.started("guardrails", f"guard-{number}") for number in range(MAX_NAMES + 50)]
    active = bench.active()
    assert len(active) == MAX_NAMES + 1
    assert active["guardrails", OTHER] == 50
    assert sum(active.values()) == MAX_NAMES + 50
    for handle in handles:
        activity.ended(handle)
    assert set(bench.active().values()) == {0}
    activity.started("guardrails", "guard-0")
    assert bench.active()["guardrails", "guard-0"] == 1


def test_a_clock_that_stands_still_or_falls_yields_no_negative_age(bench: Bench) -> None:
    """Ages are never below 0."""
    activity = bench.activity()
    activity.started("guardrails", "support")
    bench.clock.now -= 1
    assert bench.ages() == {("guardrails", "support"): 0.0}


def test_threads_and_a_reader_at_once_lose_no_call(bench: Bench) -> None:
    """While four threads start and end calls, reading never fails, and in the end nothing is miscounted."""
    activity = bench.activity()
    left: list[object] = []

    def work(number: int) -> None:
        for turn in range(2_000):
            handle = activity.started("guardrails", f"guard-{turn % 50}")
            if turn % 500 == number:
                left.append(handle)
            else:
                activity.ended(handle)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert all(count >= 0 for count in bench.active().values())
        assert all(age >= 0 for age in bench.ages().values())
    assert sum(bench.active().values()) == len(left) == 16
    for handle in left:
        activity.ended(handle)
    assert set(bench.active().values()) == {0}


def test_a_call_may_end_in_the_garbage_collector_while_metrics_are_read(bench: Bench) -> None:
    """A finaliser that ends and starts calls in the midst of a collection deadlocks nothing."""
    activity = bench.activity()

    class Stream:
        """An abandoned stream in a reference cycle: only the garbage collector finds it."""

        def __init__(self) -> None:
            self.itself = self
            self.handle = activity.started("guardrails", "stream")

        def __del__(self) -> None:
            activity.ended(self.handle)
            activity.ended(activity.started("guardrails", f"late-{id(self) % 7}"))

    def collect() -> float:
        Stream()
        gc.collect()
        return bench.clock.now

    observed = Activity(bench.provider.get_meter("guardspan", "1"), clock=collect)
    observed.started("guardrails", "observed")
    worker = threading.Thread(target=bench.active, daemon=True)
    worker.start()
    worker.join(timeout=30)
    assert not worker.is_alive()
    assert bench.active()["guardrails", "stream"] == 0


def test_a_forked_child_starts_from_nothing() -> None:
    """A child reports its own calls only, ends its parent's without effect, and leaves the parent's alone."""
    lines = run("""
import os
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from guardspan.activity import Activity
reader = InMemoryMetricReader()
activity = Activity(MeterProvider([reader]).get_meter("guardspan", "1"))
handle = activity.started("guardrails", "parent")
def show(who):
    data = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else []
    points = [(metric.name[10:], point) for metric in metrics for point in metric.data.data_points]
    print(who, [(name, p.attributes["guardspan.name"], p.value > 0) for name, p in points], flush=True)
child = os.fork()
if not child:
    show("child")
    activity.ended(handle)
    activity.started("guardrails", "own")
    show("child")
    os._exit(0)
os.waitpid(child, 0)
show("parent")
""").splitlines()
    assert lines == [
        "child []",
        "child [('calls.active', 'own', True), ('calls.oldest_age', 'own', True)]",
        "parent [('calls.active', 'parent', True), ('calls.oldest_age', 'parent', True)]",
    ]


def test_without_an_sdk_calls_leave_nothing_behind() -> None:
    """With the API alone everything works, and a thousand calls that ended hold no memory."""
    activity = Activity(NoOpMeterProvider().get_meter("guardspan"))
    for _ in range(1_000):
        activity.ended(activity.started("guardrails", "support"))
    assert activity.ages() == {("guardrails", "support"): []}


def test_an_activity_holds_no_object_of_the_application(bench: Bench) -> None:
    """A handle is made of small values; the recorder that keeps it can be collected."""
    activity = bench.activity()

    class Recorder:
        finalised = False

        def __init__(self) -> None:
            self.handle = activity.started("guardrails", "support")

        def __del__(self) -> None:
            Recorder.finalised = True

    recorder = Recorder()
    del recorder
    gc.collect()
    assert Recorder.finalised
    assert bench.active() == {("guardrails", "support"): 1}
