"""Reads Guardrails' objects of one execution into plain values, and says what they mean.

The rules are those of the contract, not the library's: its own ``Iteration.status`` reads ``pass`` after
failures that were tolerated, and its ``Call.status`` is neither cheap nor right for streams. Nothing
here dumps or serialises a live object (that would drain a stream), and ``guard.history`` is never read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from guardspan import failures, semconv
from guardspan.guardrails.guards import on_fail_name
from guardspan.semconv import FailureClass
from guardspan.views import CallResult, Failure, IterationResult, ValidatorView

_ITEM = re.compile(r"\.\d+(?=\.|$)")
_MAX_PARTS = 32


def actions_of(validation_map: Mapping[str, Sequence[Any]]) -> dict[int, str]:
    """The action on failure of each validator instance, which the library's logs do not hold."""
    return {id(v): on_fail_name(v) for validators in validation_map.values() for v in validators}


def read_validators(
    logs: Sequence[Any], actions: Mapping[int, str], error: BaseException | None = None
) -> list[ValidatorView]:
    """One view per validator and place, its runs over list items or chunks taken together.

    Args:
        logs: the Iteration's own ``ValidatorLogs``.
        actions: see :func:`actions_of`.
        error: what ended the Iteration; a validator that had begun and not ended is the one that raised it.
    """
    views: dict[tuple[int | None, str], ValidatorView] = {}
    ends: dict[tuple[int | None, str], datetime | None] = {}
    for log in logs:
        key = (log.instance_id, _ITEM.sub(".*", log.property_path))
        view = views.get(key)
        if view is None:
            view = views[key] = _view(log, key[1], actions)
        _add_run(view, log, error)
        ends[key] = log.end_time or ends.get(key)
    for key, view in views.items():
        view.ended_ns = _nanoseconds(ends[key]) or time.time_ns()
    return list(views.values())


def _view(log: Any, path: str, actions: Mapping[int, str]) -> ValidatorView:
    return ValidatorView(
        name=log.validator_name,
        registered_name=log.registered_name,
        path=path if path != "output" else "$",
        instance_id=log.instance_id or 0,
        on_fail=actions.get(log.instance_id),
        outcome=None,
        runs=0,
        started_ns=_nanoseconds(log.start_time),
        ended_ns=None,
    )


def _add_run(view: ValidatorView, log: Any, error: BaseException | None) -> None:
    view.runs += 1
    outcome = _outcome(log)
    if outcome == semconv.FAIL or view.outcome is None:
        view.outcome = outcome
    if log.end_time is None and error is not None and not failures.is_cancellation(error):
        view.error_type = failures.type_name(error)


def _outcome(log: Any) -> str | None:
    outcome = getattr(log.validation_result, "outcome", None)
    return None if outcome is None else str(getattr(outcome, "value", outcome))


def _nanoseconds(moment: datetime | None) -> int | None:
    """Guardrails' naive local time as Unix nanoseconds, exact to the microsecond."""
    if moment is None:
        return None
    seconds = int(moment.replace(microsecond=0).timestamp())
    return (seconds * 1_000_000 + moment.microsecond) * 1000


def words_of(logs: Sequence[Any]) -> tuple[str, ...]:
    """The failed validators' own words, one entry per failure, in a stable order, each once."""
    words = {
        f"{log.validator_name} at {log.property_path}: {log.validation_result.error_message}"
        for log in logs
        if _outcome(log) == semconv.FAIL
    }
    return tuple(sorted(words)[:_MAX_PARTS])


def accepted(log: Any, actions: Mapping[int, str]) -> bool:
    """Whether a failed validation was made good: by a fix value, or by the user's own function."""
    action = actions.get(log.instance_id)
    if action in {"fix", "fix_reask"}:
        return getattr(log.validation_result, "fix_value", None) is not None
    return action == "custom"


def unmended(logs: Sequence[Any], actions: Mapping[int, str]) -> list[Any]:
    """The failed validations whose action changed nothing for the better."""
    return [log for log in logs if _outcome(log) == semconv.FAIL and not accepted(log, actions)]


def seen_by_application(error: BaseException) -> BaseException:
    """The exception that leaves the guard: Guardrails unwraps some of its own, and only those, on the way."""
    if type(error).__module__.startswith("guardrails."):
        unwrapped = getattr(error, "original_exception", None)
        return unwrapped if isinstance(unwrapped, BaseException) else error
    return error


def classify(error: BaseException, *, from_llm: bool, began: bool, ambient: int | None) -> Failure:
    """The failure that an exception tells of.

    Args:
        error: as the runner saw it.
        from_llm: it came out of the LLM's own stream.
        began: the LLM had answered, or a validator had begun, when it was raised.
        ambient: see :func:`guardspan.failures.original`.
    """
    seen = seen_by_application(error)
    cause = failures.original(seen, ambient)
    if cause is error:
        cause = None
    return Failure(
        _failure_class(seen, cause, wrapped=seen is not error, from_llm=from_llm, began=began),
        error_type=failures.type_name(seen),
        cause=failures.type_name(cause) if cause is not None else None,
        parts=(f"{failures.type_name(seen)}: {failures.message(seen)}",),
    )


def _failure_class(
    seen: BaseException, cause: BaseException | None, *, wrapped: bool, from_llm: bool, began: bool
) -> FailureClass:
    if failures.is_cancellation(seen):
        return "cancelled"
    name = type(seen).__name__
    called = from_llm or name == "PromptCallableException"
    if called:
        return "timeout" if failures.is_timeout(seen) or failures.is_timeout(cause) else "provider"
    if name == "ValidationError" and type(seen).__module__.startswith("guardrails"):
        return "validation"
    if failures.is_timeout(seen):
        return "timeout"
    return "configuration" if wrapped or not began else "validation"


def read_iteration(
    iteration: Any, actions: Mapping[int, str], *, reasks_left: bool, streamed: bool = False
) -> IterationResult:
    """What became of an Iteration that no exception ended.

    Args:
        iteration: the library's Iteration.
        actions: see :func:`actions_of`.
        reasks_left: a further re-ask is allowed.
        streamed: it was a stream, read to its end; the library sets no error and no re-asks then.
    """
    outputs = iteration.outputs
    logs = outputs.validator_logs
    validators = read_validators(logs, actions)
    wants_reask = bool(outputs.reasks)
    retried = wants_reask and reasks_left
    result = IterationResult(
        status=semconv.PASS,
        library_status=library_status(iteration),
        handled=retried,
        validators=validators,
    )
    if outputs.error and not streamed:
        result.status = semconv.ERROR
        result.failure = _unusable(outputs)
        result.reask_reason = "parsing" if outputs.llm_response_info.output.strip() else "empty"
    elif wants_reask or unmended(logs, actions) or _nothing_left(outputs, validators, streamed):
        result.status = semconv.FAIL
        result.failure = Failure("validation", parts=words_of(logs) or _schema_words(outputs.reasks))
        result.reask_reason = "validation"
    if not retried:
        result.reask_reason = None
    return result


def _nothing_left(outputs: Any, validators: Sequence[ValidatorView], streamed: bool) -> bool:
    """Whether a validator failed and what its action gave in place of the value was nothing."""
    failed = any(view.outcome == semconv.FAIL for view in validators)
    return failed and not streamed and outputs.guarded_output is None


def _unusable(outputs: Any) -> Failure:
    """The failure of an answer that was empty or could not be parsed."""
    error = outputs.exception
    empty = not outputs.llm_response_info.output.strip()
    kind = failures.type_name(error) if error is not None and not empty else None
    return Failure("provider" if empty else "parsing", error_type=kind, parts=(str(outputs.error),))


def _schema_words(reasks: Sequence[Any]) -> tuple[str, ...]:
    """The words of failures that no validator's log holds, such as an answer that does not fit the schema."""
    words = {str(f.error_message) for reask in reasks for f in reask.fail_results or []}
    return tuple(sorted(words)[:_MAX_PARTS])


def logs_of(iteration: Any) -> Sequence[Any]:
    """The validators' logs of the library's Iteration; none of an Iteration that was never made."""
    return () if iteration is None else iteration.outputs.validator_logs


def library_status(iteration: Any) -> str | None:
    """The library's own status of an Iteration; cheap, but it can raise on unusual outputs."""
    if iteration is None:
        return None
    try:
        return str(iteration.status)
    except Exception:
        return None  # a status that the library itself cannot tell is not known


def read_outcome(outcome: Any, last: IterationResult | None, *, used_up: bool) -> CallResult:
    """What became of a Call that returned a ``ValidationOutcome``.

    Args:
        outcome: what the application gets.
        last: the last Iteration's result, None where none ran here (a Guardrails server).
        used_up: the last answer asked for a re-ask and none was left.
    """
    if outcome.validation_passed:
        status: semconv.Status = semconv.PASS
    else:
        status = semconv.ERROR if outcome.error else semconv.FAIL
    names = [summary.validator_name for summary in outcome.validation_summaries or []]
    failure = None
    if status != semconv.PASS:
        failure = last.failure if last else None
        failure = failure or Failure("validation" if status == semconv.FAIL else "provider")
    return CallResult(
        status=status,
        limit_reached=used_up,
        severe=used_up,
        failure=failure,
        failed_validators=tuple(dict.fromkeys(names)),
        library_call_id=str(outcome.call_id),
        output=outcome.validated_output,
    )


def sent_messages(iteration: Any) -> list[dict[str, Any]] | None:
    """The messages of an Iteration as plain text: prompts are objects that hold theirs in ``source``."""
    messages = iteration.inputs.messages
    if not messages:
        return None
    return [{**message, "content": _source(message.get("content"))} for message in messages]


def _source(content: Any) -> Any:
    return getattr(content, "source", content)
