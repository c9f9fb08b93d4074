"""``gen_ai.evaluation.result``: one log event per failed validator, when asked for."""

from __future__ import annotations

import time
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context

from guardspan import semconv
from guardspan.content import cut
from guardspan.telemetry import Telemetry
from guardspan.views import IterationResult


def emit_evaluations(
    telemetry: Telemetry, context: Context, result: IterationResult, explanation: str | None
) -> None:
    """Emit the events of one Iteration, in its context.

    Args:
        explanation: the failure's own words, redacted; recorded only when content is ``redacted``.
    """
    if telemetry.logger is None:
        return
    for validator in result.validators:
        if validator.outcome != semconv.FAIL:
            continue
        attributes: dict[str, Any] = {
            semconv.EVALUATION_NAME: validator.name,
            semconv.EVALUATION_LABEL: validator.outcome,
        }
        if explanation and telemetry.content.mode == "redacted":
            attributes[semconv.EVALUATION_EXPLANATION] = cut(explanation, telemetry.content.limit)
        telemetry.logger.emit(_record(attributes, context))


def _record(attributes: dict[str, Any], context: Context) -> LogRecord:
    now = time.time_ns()
    return LogRecord(
        timestamp=now,
        observed_timestamp=now,
        context=context,
        severity_number=SeverityNumber.INFO,
        attributes=attributes,
        event_name=semconv.EVENT_EVALUATION,
    )
