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
_MAX_FRAMES = 1_000
_USED_UP = "UnexpectedModelBehavior"
_POLICY = "ContentFilterError"
_CANCELLED = "RunCancelled"
_LIMITS = frozenset(
    {"UsageLimitExceeded", "ConcurrencyLimitExceeded", "OutputTokenLimitExceeded", "IncompleteToolCall"}
)
_PROVIDER = frozenset({"ModelAPIError", "FallbackExceptionGroup", _USED_UP, "SuspendedResponseExpired"})


def rejection_in(error: BaseException) -> BaseException | None:
    """The rejection that an exception is, or that it says was one too many; None where it is neither."""
    if not _names(error).isdisjoint(_REJECTIONS):
        return error
    cause = error.__cause__
    one_too_many = type(error).__name__ == _USED_UP and cause is not None
    return cause if one_too_many and cause is not None and not _names(cause).isdisjoint(_REJECTIONS) else None


def cause_of(error: BaseException) -> str | None:
    """The class of the original exception under a wrapping one, of which a rejection can have two."""
    if failures.is_cancellation(error):
        return None  # the library's own waiting, which it broke off
    cause = failures.original(error)
    if cause is not None and type(cause).__name__ == "ToolRetryError":
        cause = failures.original(cause) or cause
    return failures.type_name(cause) if cause is not None else None


def is_used_up(error: BaseException, rejected: bool) -> bool:
    """Whether an answer was rejected, and no retry was left, or allowed in the first place.

    Args:
        error: as the application sees it.
        rejected: a hook was told of the rejection; of an empty answer or an unknown tool none is.
    """
    names = _names(error)
    if _USED_UP not in names or _POLICY in names or not names.isdisjoint(_LIMITS):
        return False
    return rejected or tells_limit(error)


def tells_limit(error: BaseException) -> bool:
    """Whether an exception says that the retries were used up; a stream is not asked for again at all."""
    return "exceeded max" in failures.message(error).lower()


def is_refusal(error: BaseException, requesting: bool) -> bool:
    """Whether a limit refused a request before it was made.

    Args:
        error: as the application sees it.
        requesting: a request was to be made next.
    """
    if type(error).__name__ != "UsageLimitExceeded":
        return False
    return requesting or failures.message(error).startswith("The next request")


def raised_in_model(error: BaseException) -> bool:
    """Whether an exception comes out of a model, and not from whoever reads its stream."""
    trace = error.__traceback__
    for _ in range(_MAX_FRAMES):
        if trace is None:
            return False
        if str(trace.tb_frame.f_globals.get("__name__")).startswith("pydantic_ai.models"):
            return True
        trace = trace.tb_next
    return False


def classify(error: BaseException, *, from_model: bool = False, from_check: bool = False) -> Failure:
    """The failure that an exception tells of.

    Args:
        error: as the application sees it.
        from_model: the model raised it.
        from_check: an output type, an output function or an output validator raised it.
    """
    cause = failures.original(error)
    return Failure(
        _failure_class(error, cause, from_model, from_check),
        error_type=failures.type_name(error),
        cause=cause_of(error),
        parts=(f"{failures.type_name(error)}: {failures.message(error)}",),
    )


def _failure_class(
    error: BaseException, cause: BaseException | None, from_model: bool, from_check: bool
) -> FailureClass:
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
    if from_model or not names.isdisjoint(_PROVIDER):
        return "timeout" if failures.is_timeout(cause) else "provider"
    return "validation" if from_check else "configuration"


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}
