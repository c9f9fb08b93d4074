"""What an exception says of a failure without its message."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeout

_TIMEOUTS = (TimeoutError, asyncio.TimeoutError, FutureTimeout)
_CANCELLATIONS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


def type_name(error: BaseException | type[BaseException]) -> str:
    """The fully qualified class of an exception; a built-in one without its module.

    It is redacted, and cut, where it is emitted: cut before, half of a key might be left in it.
    """
    kind = error if isinstance(error, type) else type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def message(error: BaseException) -> str:
    """An exception's own text, content; nothing where that cannot be made."""
    try:
        return str(error)
    except Exception:
        return ""  # it still has a class


def original(error: BaseException, ambient: int | None = None) -> BaseException | None:
    """The exception under a wrapping one: its ``__cause__``, else its ``__context__``.

    Args:
        error: the wrapping exception.
        ambient: ``id`` of the exception that was already being handled when the call began; as a
            ``__context__`` it has nothing to do with this failure.
    """
    if error.__cause__ is not None:
        return error.__cause__
    context = error.__context__
    if context is None or error.__suppress_context__ or id(context) == ambient:
        return None
    return context


def is_cancellation(error: BaseException) -> bool:
    """Whether the work was given up from outside rather than failed."""
    return isinstance(error, _CANCELLATIONS)


def is_timeout(error: BaseException | None) -> bool:
    """Whether the exception tells of a time limit; client libraries name theirs so without a common base."""
    if error is None:
        return False
    if isinstance(error, _TIMEOUTS):
        return True
    return any("Timeout" in kind.__name__ for kind in type(error).__mro__)
