"""The one guard between telemetry and the application: no fault of ours gets through."""

from __future__ import annotations

import logging
from contextvars import Token
from types import TracebackType

from opentelemetry import context as otel_context
from opentelemetry.context import Context

_log = logging.getLogger("guardspan")
_reported: set[tuple[str, str]] = set()


def report(what: str, error: BaseException) -> None:
    """Log a fault of our own, once per kind; the message of the fault is content and is left out."""
    kind = (what, _class_of(error))
    if kind in _reported:
        return
    _reported.add(kind)
    _log.error("guardspan could not %s (%s); the application is unaffected", *kind)


def _class_of(error: BaseException) -> str:
    """The name of a fault's class, redacted: an application's may be anything."""
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    try:
        from guardspan.redaction import Redactor

        return Redactor().redact(kind.__qualname__[:256]).text
    except Exception:  # the fault may be one of redaction's own
        return "an exception"


def tell(fault: str) -> None:
    """Log what is wrong with a setting or a file of the user's, once: each instrumentor reads them."""
    if ("", fault) not in _reported:
        _reported.add(("", fault))
        _log.error("guardspan: %s", fault)


def detach(token: Token[Context]) -> None:
    """Put back the OpenTelemetry context that was current before, from a coroutine or an async stream.

    One that is given up half-way is closed wherever the garbage collector runs. What was attached has gone
    with the ``contextvars.Context`` that it was attached in, and OpenTelemetry would log a traceback.
    """
    if not isinstance(token, Token):  # a runtime context of the deployment's own
        otel_context.detach(token)
        return
    try:
        token.var.reset(token)
    except ValueError:
        return  # another context, in which there is nothing to put back


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
