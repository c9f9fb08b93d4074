"""What an exception says of an answer, and of a run. Classes go by name: nothing is imported for them."""

from __future__ import annotations

from typing import Final, NamedTuple

from guardspan import failures
from guardspan.semconv import FailureClass
from guardspan.views import Failure


class Rejection(NamedTuple):
    """Why an answer was rejected: its failure's class, and what made the agent ask again."""

    failure_class: FailureClass
    reason: str


INVALID: Final = Rejection("validation", "validation")
UNPARSABLE: Final = Rejection("parsing", "parsing")
INVALID_TOOL_CALL: Final = Rejection("validation", "tool")
EMPTY: Final = Rejection("provider", "empty")

_REJECTIONS = frozenset({"ModelRetry", "ToolRetryError", "ValidationError"})
_USED_UP = "UnexpectedModelBehavior"
_POLICY = "ContentFilterError"
_CANCELLED = "RunCancelled"
_LIMITS = frozenset(
    {"UsageLimitExceeded", "ConcurrencyLimitExceeded", "OutputTokenLimitExceeded", "IncompleteToolCall"}
)
_PROVIDER = frozenset({"ModelAPIError", "FallbackExceptionGroup", _USED_UP, "SuspendedResponseExpired"})


def rejection_in(error: BaseException) -> BaseException | None:
    """The rejection that an exception is, or that it says was one too many; None where it is neither."""
    if type(error).__name__ in _REJECTIONS:
        return error
    cause = error.__cause__
    one_too_many = type(error).__name__ == _USED_UP and cause is not None
    return cause if one_too_many and type(cause).__name__ in _REJECTIONS else None


def cause_of(error: BaseException) -> str | None:
    """The class of the original exception under a wrapping one, of which a rejection can have two."""
    cause = failures.original(error)
    if cause is not None and type(cause).__name__ == "ToolRetryError":
        cause = failures.original(cause) or cause
    return failures.type_name(cause) if cause is not None else None


def is_used_up(error: BaseException, rejected: bool) -> bool:
    """Whether an answer was rejected, and no retry was left.

    Args:
        error: as the application sees it.
        rejected: a hook was told of the rejection; of an empty answer or an unknown tool none is.
    """
    names = _names(error)
    if _USED_UP not in names or _POLICY in names or not names.isdisjoint(_LIMITS):
        return False
    return rejected or "exceeded max" in failures.message(error).lower()


def is_refusal(error: BaseException, requesting: bool) -> bool:
    """Whether a limit refused a request before it was made.

    Args:
        error: as the application sees it.
        requesting: a request was to be made next.
    """
    if type(error).__name__ != "UsageLimitExceeded":
        return False
    return requesting or failures.message(error).startswith("The next request")


def classify(error: BaseException, *, requested: bool) -> Failure:
    """The failure that an exception tells of.

    Args:
        error: as the application sees it.
        requested: a request had been made, and no answer had come.
    """
    cause = failures.original(error)
    return Failure(
        _failure_class(error, cause, requested),
        error_type=failures.type_name(error),
        cause=cause_of(error),
        parts=(f"{failures.type_name(error)}: {failures.message(error)}",),
    )


def _failure_class(error: BaseException, cause: BaseException | None, requested: bool) -> FailureClass:
    names = _names(error)
    if failures.is_timeout(error):
        return "timeout"
    if failures.is_cancellation(error) or _CANCELLED in names:
        return "cancelled"
    if _POLICY in names:
        return "policy"
    if not names.isdisjoint(_LIMITS):
        return "limit"
    if "UserError" in names:
        return "configuration"
    if requested or not names.isdisjoint(_PROVIDER):
        return "timeout" if failures.is_timeout(cause) else "provider"
    return "configuration"


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}
