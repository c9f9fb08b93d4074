"""Which method of an agent the application called, though all of them end in ``Agent.iter``."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType

STREAMED = frozenset({"run_stream", "run_stream_sync", "run_stream_events"})
"""Methods whose caller reads the answer while it is made."""
_ENTRIES = STREAMED | {"run", "run_sync", "iter"}

_LIBRARY = ("pydantic_ai", "pydantic_graph")
_BETWEEN = ("guardspan.pydantic_ai", "contextlib", "wrapt", "asyncio", "uvloop")
_HELPERS = {"run_agent": "run_stream_events", "_hold_context_manager": "run_stream_sync"}
"""Functions of the library's own that start a run in a task: what they are part of."""
_MAX_FRAMES = 40


def entry_of_caller() -> str:
    """The outermost of the library's own methods on the way here; ``iter`` where there is none.

    Frames are followed outwards to the application's first one. Where a task begins, what is beyond belongs
    to it only if the library drives the event loop itself, and waits for this very task.
    """
    entry = "iter"
    frame: FrameType | None = sys._getframe(1)
    driven = False
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        module = frame.f_globals.get("__name__") or ""
        if frame.f_code.co_name == "run_until_complete":
            driven = driven or _waits_for_this_task(frame)
            if not driven:
                break
        if module.startswith(_LIBRARY):
            entry = _named(frame.f_code.co_name, entry)
        elif not module.startswith(_BETWEEN):
            break
        frame = frame.f_back
    return entry


def _named(function: str, known: str) -> str:
    function = _HELPERS.get(function, function)
    return function if function in _ENTRIES else known


def _waits_for_this_task(frame: FrameType) -> bool:
    task = asyncio.current_task()
    return task is not None and any(value is task for value in frame.f_locals.values())
