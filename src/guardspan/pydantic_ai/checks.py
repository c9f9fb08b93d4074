"""The validators of one Iteration: the schema of the output type, the output function, the output validators.

The library tells when an output is validated and when it is processed, but not which function of several is
at work. Those that ran before one that failed have passed; the one that failed is found in the exception's
traceback. All functions of one output share the times of its processing.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from guardspan import failures, semconv
from guardspan.views import ValidatorView

_ON_FAIL = "reask"
_MAX_FRAMES = 200


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that an output has to pass.

    Attributes:
        name: of the type or function.
        role: ``output_type``, ``output_function`` or ``output_validator``.
        identity: an id that is the same for the same check in this process.
        function: what is called, where it is known; ``code`` is what it runs.
    """

    name: str
    role: str
    identity: int
    function: Callable[..., Any] | None = None
    code: CodeType | None = None


def schema_check(output_context: Any) -> Check:
    """The schema of the output type that an answer is parsed into."""
    kind, definition = output_context.output_type, output_context.object_def
    name = getattr(kind, "__name__", None) or getattr(definition, "name", None) or "output"
    return Check(_given(name), "output_type", id(kind))


def function_checks(output_context: Any, validators: Sequence[Callable[..., Any]]) -> list[Check]:
    """What an output is handed to once it has been parsed, in order."""
    checks = []
    if output_context.has_function:
        name = output_context.function_name or "output_function"
        checks.append(Check(_given(name), "output_function", hash(name)))
    return checks + [
        Check(validator_name(function), "output_validator", id(function), function, _code_of(function))
        for function in validators
    ]


def validator_name(function: Callable[..., Any]) -> str:
    """The name of an output validator: that of its function, or of its class."""
    unwrapped = _unwrapped(function)
    return _given(getattr(unwrapped, "__name__", None) or type(unwrapped).__name__)


def _given(name: Any) -> str:
    return str(name) or "validator"


def _unwrapped(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function)


def _code_of(function: Any) -> CodeType | None:
    unwrapped = _unwrapped(function)
    code = getattr(unwrapped, "__code__", None) or getattr(type(unwrapped).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class Checks:
    """What became of an Iteration's checks; several runs of one are taken together."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, int], ValidatorView] = {}

    def views(self) -> list[ValidatorView]:
        """One view per check that ran."""
        return list(self._views.values())

    @property
    def any_failed(self) -> bool:
        """Whether one of them has failed."""
        return any(view.outcome == semconv.FAIL for view in self._views.values())

    def ran(
        self, checks: Sequence[Check], started_ns: int, error: BaseException | None, rejected: bool
    ) -> Check | None:
        """Checks ran one after the other, until one of them raised; returns that one.

        Args:
            checks: in order.
            started_ns: Unix nanoseconds.
            error: what ended them, None when all passed.
            rejected: the error says that the output is not good enough, rather than that a check is broken.
        """
        ended_ns = time.time_ns()
        culprit = _culprit(checks, error) if error is not None else None
        for check in checks:
            view = self._view(check, started_ns, ended_ns)
            if check is not culprit:
                view.outcome = view.outcome or semconv.PASS
                continue
            if rejected:
                view.outcome = semconv.FAIL
            elif error is not None and not failures.is_cancellation(error):
                view.error_type = failures.type_name(error)
            break
        return culprit

    def _view(self, check: Check, started_ns: int, ended_ns: int) -> ValidatorView:
        key = (check.role, check.identity)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = ValidatorView(
                name=check.name,
                registered_name=check.role,
                path="$",
                instance_id=check.identity,
                on_fail=_ON_FAIL,
                outcome=None,
                runs=0,
                started_ns=started_ns,
                ended_ns=None,
            )
        view.runs += 1
        view.ended_ns = ended_ns
        return view


def _culprit(checks: Sequence[Check], error: BaseException) -> Check:
    """The check that raised: the outermost of them in the traceback, else the one whose code is not known."""
    trace = error.__traceback__
    for _ in range(_MAX_FRAMES):
        if trace is None:
            break
        found = _check_of(trace.tb_frame, checks)
        if found is not None:
            return found
        trace = trace.tb_next
    return next((check for check in checks if check.function is None), checks[-1])


def _check_of(frame: FrameType, checks: Sequence[Check]) -> Check | None:
    """The check that a frame calls, or whose code it runs.

    Functions of one code are told apart by the library's own frame, which holds one as ``self.function``.
    """
    held = getattr(frame.f_locals.get("self"), "function", None)
    by_function = (check for check in checks if check.function is not None and check.function is held)
    by_code = (check for check in checks if check.code is frame.f_code)
    return next(by_function, None) or next(by_code, None)
