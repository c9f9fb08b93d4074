"""The one guard between telemetry and the application: no fault of ours gets through."""

from __future__ import annotations

import logging
from types import TracebackType

_log = logging.getLogger("guardspan")
_reported: set[tuple[str, str]] = set()


def report(what: str, error: BaseException) -> None:
    """Log a fault of our own, once per kind; the message of the fault is content and is left out."""
    kind = (what, type(error).__qualname__)
    if kind in _reported:
        return
    _reported.add(kind)
    _log.error("guardspan could not %s (%s); the application is unaffected", *kind)


class Quietly:
    """A context manager that keeps faults of our own to ourselves, save those that end the process.

    Reusable and stateless; make one per kind of work and keep it.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        report(self._what, error)
        return True
