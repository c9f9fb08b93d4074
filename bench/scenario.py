"""One use of what is measured, and how calls of it are made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

THREADS = 8


@dataclass(frozen=True)
class Scenario:
    """One use of a guard or an agent.

    Attributes:
        name: as the table shows it.
        call: makes one call and returns what came of it.
        ends_as_it_should: whether that is what the scenario is about.
        iterations: how often the LLM's answer is looked at within a call.
        calls: calls per block, so that a block lasts some tens of milliseconds.
        threads: where to make them from, this thread when None.
    """

    name: str
    call: Callable[[], Any]
    ends_as_it_should: Callable[[Any], bool]
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
