"""Call, Iteration and Validator recorders: opened, enriched, and ended exactly once.

A recorder only writes spans. Patches tell it the moment, readers give it plain values. Sync and async
calls and both kinds of stream use the same recorders.

State travels in the OpenTelemetry context: Guardrails runs its body in an empty ``contextvars.Context``
and re-attaches only that one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextvars import Token
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, StatusCode, get_current_span, set_span_in_context

from guardspan import evidence, semconv
from guardspan.attributes import (
    Answer,
    Evidence,
    name_validator,
    named_all,
    named_failure,
    named_id,
    put,
    put_failure,
    put_response,
    put_tools,
    put_usage,
    sum_of,
    without_broken_end,
)
from guardspan.content import Tally
from guardspan.events import emit_evaluations
from guardspan.pricing import Price, Usage
from guardspan.safety import Quietly, detach
from guardspan.telemetry import Telemetry
from guardspan.views import (
    NO_RESPONSE,
    CallResult,
    CallView,
    Failure,
    IterationResult,
    IterationView,
    Response,
    ValidatorView,
)

_CALL_KEY = otel_context.create_key("guardspan-call")
(_SPAN_KEY,) = set_span_in_context(INVALID_SPAN, Context())
MAX_NAME = 64

_opening = Quietly("open a span")
_writing = Quietly("write a span")
_evidencing = Quietly("describe a failure's evidence")
_ending = Quietly("end a span")
_hooking = Quietly("run a hook of the application's own")


def current_owner() -> object:
    """The owner of the Call under way in the current OpenTelemetry context, None when there is none."""
    return otel_context.get_value(_CALL_KEY)


@dataclass(frozen=True, slots=True)
class CallStart:
    """What is known when a Call begins."""

    library: str
    operation: str
    noun: str
    """What the span's name begins with: `guard` or `agent`."""
    name: str
    entry: str
    stream: bool = False
    request_model: str | None = None
    contract_digest: str | None = None


class CallRecorder:
    """One Call span and the sums over its Iterations.

    Args:
        telemetry: the instrumentor's tools.
        start: what is known when it begins.
        owner: what :func:`current_owner` finds in the Call's context.
        inputs: content by attribute name, described when the Call ends.
    """

    def __init__(
        self, telemetry: Telemetry, start: CallStart, owner: object, inputs: Mapping[str, object]
    ) -> None:
        self.telemetry = telemetry
        self.start = start
        self.name = (telemetry.content.name(start.name) or start.noun)[:MAX_NAME]
        self._inputs = inputs
        self.call_id = os.urandom(16).hex()  # not from `random`: an application may seed it, and counts on it
        self.reasks_limit: int | None = None
        self.request_model = start.request_model
        self.contract_digest = start.contract_digest
        self.failed_validators: dict[str, None] = {}
        self.last_digest: str | None = None
        self.broken_off = False
        self.iterations = 0
        self._usages: list[Usage] = []
        self._costs: list[float] = []
        self._unpriced = 0
        self._repeats = evidence.Repeats()
        self._input_repeats = evidence.Repeats()
        self._open_iteration: IterationRecorder | None = None
        parent = otel_context.get_current()
        self.shared = telemetry.baggage(parent)
        self.span = telemetry.tracer.start_span(
            f"{start.noun} {self.name}", context=parent, attributes=self._start_attributes()
        )
        self.context = otel_context.set_value(_CALL_KEY, owner, set_span_in_context(self.span, parent))
        self.recording = self.span.is_recording()
        self._span_ids = {self.span.get_span_context().span_id}
        self._entered: tuple[Token[Context], Context, Context] | None = None
        self._ended = [False]
        self._handle = telemetry.activity.started(start.library, self.name)
        telemetry.open_calls[id(self)] = self

    def _start_attributes(self) -> dict[str, Any]:
        start = self.start
        attributes: dict[str, Any] = {
            semconv.KIND: "call",
            semconv.LIBRARY: start.library,
            semconv.NAME: self.name,
            semconv.ENTRY: start.entry,
            semconv.OPERATION_NAME: start.operation,
            semconv.CALL_ID: self.call_id,
            semconv.STREAM: start.stream,
            **self.shared,
        }
        put(attributes, semconv.REQUEST_MODEL, self.telemetry.content.name(start.request_model))
        put(attributes, semconv.CONTRACT_DIGEST, start.contract_digest)
        return attributes

    def identify(self, call_id: str) -> None:
        """Take the library's own id of this Call, known only after it began and before any Iteration."""
        with _writing:
            self.call_id = named_id(self.telemetry.content, call_id) or self.call_id
            self.span.set_attribute(semconv.CALL_ID, self.call_id)

    def event(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Add a span event, which must be free of content."""
        with _writing:
            self.span.add_event(name, attributes)

    def iteration(self, stage: str, parent: Context | None = None) -> IterationRecorder | None:
        """Open the next Iteration; None when that failed, which never stops the Call.

        Args:
            stage: `input`, `initial` or `reask`.
            parent: a context within this Call's whose span is the parent; the Call's own when None.
        """
        with _opening:
            opened = IterationRecorder(
                self, self.iterations, stage, self.context if parent is None else parent
            )
            self.iterations += 1
            self._open_iteration = opened
            self._span_ids.add(opened.span.get_span_context().span_id)
            return opened
        return None

    def enter(self) -> None:
        """Make the Call current until :meth:`leave`, while code of the application's own runs."""
        outer, context = otel_context.get_current(), self.context
        self._entered = (otel_context.attach(context), context, outer)

    def leave(self) -> None:
        """Make current what was so before :meth:`enter`, without taking away what came on top of it.

        An application that attached a context of its own meanwhile keeps it, without our span, and gets ours
        back when it detaches that one, whenever it does. So ours, which nobody else may change, becomes the
        outer one from now on.
        """
        if self._entered is None:
            return
        (token, entered, outer), self._entered = self._entered, None
        current = otel_context.get_current()
        if current is entered or self._is_ours(current, outer):
            detach(token)
        else:
            otel_context.attach(self._without_us(current, outer))
        dict.update(entered, outer)
        for key in entered.keys() - outer.keys():
            dict.pop(entered, key)

    def _is_ours(self, current: Context, outer: Context) -> bool:
        """Whether a context differs from the one outside by nothing but our own values."""
        names = (current.keys() | outer.keys()) - {_SPAN_KEY, _CALL_KEY}
        return self._has_our_span(current) and all(current.get(name) is outer.get(name) for name in names)

    def _has_our_span(self, context: Context) -> bool:
        return get_current_span(context).get_span_context().span_id in self._span_ids

    def _without_us(self, current: Context, outer: Context) -> Context:
        if self._has_our_span(current):
            current = set_span_in_context(get_current_span(outer), current)
        return otel_context.set_value(_CALL_KEY, outer.get(_CALL_KEY), current)

    @property
    def open_iteration(self) -> IterationRecorder | None:
        """The Iteration that has begun and not ended, if any."""
        return self._open_iteration

    def iteration_ended(
        self, usage: Usage, price: Price | None, failure_digest: str | None, *, counted: bool = True
    ) -> int:
        """Add an ended Iteration to the sums; returns how often its failure has now come in a row.

        The validation of a message (not ``counted``) lies between two answers and does not part their row.
        """
        self._open_iteration = None
        self._usages.append(usage)
        if price is not None:
            self._costs.append(price.usd)
        elif usage.any():
            self._unpriced += 1
        self.last_digest = failure_digest
        return self._repeats.add(failure_digest) if counted else self._input_repeats.add(failure_digest)

    def end(self, result: CallResult) -> None:
        """End the span; only the first of several calls has an effect."""
        try:
            self._ended.pop()
        except IndexError:
            return
        self.telemetry.open_calls.pop(id(self), None)
        try:
            with _writing:
                if self._open_iteration is not None:  # a fault of ours kept it from an end of its own
                    self._open_iteration.end(IterationResult(result.status))
            with _writing:
                if self.recording:
                    self._write(result)
        finally:
            with _ending:
                self.telemetry.activity.ended(self._handle)
            with _ending:
                self.span.end()
        # Whoever captured the context holds this for longer: nothing of the call, and no circle.
        self._open_iteration = None
        self._inputs = {}
        self.context = Context()

    @property
    def ended(self) -> bool:
        """Whether :meth:`end` has been called."""
        return not self._ended

    def over(self, context: Context) -> Context:
        """``context`` with this Call and its span in it; what else the application keeps there stays."""
        owner = otel_context.get_value(_CALL_KEY, self.context)
        return otel_context.set_value(_CALL_KEY, owner, set_span_in_context(self.span, context))

    def _write(self, result: CallResult) -> None:
        tally = Tally()
        content = self.telemetry.content
        result.failure = named_failure(content, result.failure)
        for name, value in self._inputs.items():
            content.capture(tally, name, value)
        content.capture(tally, semconv.OUTPUT_VALIDATED, self.shown(result.output, self.broken_off))
        failure = result.failure
        usage = sum_of(self._usages)
        attributes = self._identity(result)
        put_usage(attributes, usage)
        put(attributes, semconv.COST_USD, self._cost())
        put(attributes, semconv.COST_UNPRICED, self._unpriced or None)
        put_failure(attributes, failure)
        if failure is not None:
            put(attributes, semconv.FAILURE_DIGEST, self._failure_digest(tally, failure))
        for name in named_all(content, result.failed_validators) or ():
            self.failed_validators[name] = None
        put(attributes, semconv.VALIDATORS_FAILED, tuple(self.failed_validators) or None)
        put(attributes, semconv.STUCK, self._repeats.stuck or None)
        self.span.set_attributes({**attributes, **tally.counts(), **tally.attributes})
        if result.status == semconv.ERROR or (result.status == semconv.FAIL and result.severe):
            self.span.set_status(StatusCode.ERROR, failure.error_type if failure else None)
        self._run_hook(result, usage)

    def shown(self, output: object, broken_off: bool) -> object:
        """An answer as it is described: of one that broke off, a text to be shown lacks its broken end."""
        if broken_off and isinstance(output, str) and self.telemetry.content.mode == "redacted":
            return without_broken_end(output)
        return output

    def _identity(self, result: CallResult) -> dict[str, Any]:
        attributes: dict[str, Any] = {semconv.STATUS: result.status, semconv.ITERATIONS: self.iterations}
        name = self.telemetry.content.name
        put(attributes, semconv.GUARDRAILS_CALL_ID, result.library_call_id)
        put(attributes, semconv.AGENT_NAME, name(result.agent_name))
        put(attributes, semconv.CONVERSATION_ID, named_id(self.telemetry.content, result.conversation_id))
        put(attributes, semconv.REASKS_LIMIT, self.reasks_limit)
        put(attributes, semconv.LIMIT_REACHED, result.limit_reached or None)
        put(attributes, semconv.ABANDONED, result.abandoned or None)
        put(attributes, semconv.REQUEST_MODEL, name(self.request_model))
        put(attributes, semconv.CONTRACT_DIGEST, self.contract_digest)
        put(attributes, semconv.SERVER_ADDRESS, name(result.server_address))
        return attributes

    def _failure_digest(self, tally: Tally, failure: Failure) -> str | None:
        """The last Iteration's digest; a Call that failed without an Iteration has one of its own words."""
        if self.last_digest is not None or self.iterations:
            return self.last_digest
        found = Evidence.of(self.telemetry, tally, failure)
        return found.failure_digest if found else None

    def _cost(self) -> float | None:
        return math.fsum(self._costs) if self._costs else None

    def _run_hook(self, result: CallResult, usage: Usage) -> None:
        hook = self.telemetry.call_hook
        if hook is None:
            return
        failure = result.failure
        with _hooking:
            view = CallView(
                library=self.start.library,
                name=self.name,
                entry=self.start.entry,
                call_id=self.call_id,
                status=result.status,
                stream=self.start.stream,
                iterations=self.iterations,
                usage=usage,
                cost_usd=self._cost(),
                unpriced=self._unpriced,
                failed_validators=tuple(self.failed_validators),
                failure_class=failure.failure_class if failure else None,
                error_type=failure.error_type if failure else None,
                limit_reached=result.limit_reached,
                stuck=self._repeats.stuck,
                abandoned=result.abandoned,
            )
            hook(self.span, view)


class IterationRecorder:
    """One Iteration span, the current span while the LLM is called, and its Validator spans."""

    def __init__(self, call: CallRecorder, index: int, stage: str, parent: Context) -> None:
        self.call = call
        self.index = index
        self.stage = stage
        self.response = NO_RESPONSE
        attributes: dict[str, Any] = {
            semconv.KIND: "iteration",
            semconv.NAME: call.name,
            semconv.CALL_ID: call.call_id,
            semconv.OPERATION_NAME: "iteration",
            semconv.ITERATION_INDEX: index,
            semconv.ITERATION_STAGE: stage,
            semconv.STREAM: call.start.stream,
            **call.shared,
        }
        put(attributes, semconv.REQUEST_MODEL, call.telemetry.content.name(call.request_model))
        put(attributes, semconv.CONTRACT_DIGEST, call.contract_digest)
        self.span = call.telemetry.tracer.start_span("iteration", context=parent, attributes=attributes)
        self.context: Context = set_span_in_context(self.span, parent)
        self.recording = self.span.is_recording()
        self._ended = [False]

    def end(self, result: IterationResult) -> None:
        """End the span and its Validator spans; only the first of several calls has an effect."""
        try:
            self._ended.pop()
        except IndexError:
            return
        try:
            with _writing:
                self._settle(result)
        finally:
            with _ending:
                self.span.end()
        if self.call.open_iteration is self:
            self.call.iteration_ended(Usage(), None, None)

    def over(self, context: Context) -> Context:
        """As :meth:`CallRecorder.over`, with the Iteration's span as the current one."""
        owner = otel_context.get_value(_CALL_KEY, self.context)
        return otel_context.set_value(_CALL_KEY, owner, set_span_in_context(self.span, context))

    def _settle(self, result: IterationResult) -> None:
        call = self.call
        content = call.telemetry.content
        call.broken_off = result.broken_off = result.broken_off or self.response.cut_short
        result.failure = named_failure(content, result.failure)
        for validator in result.validators:
            name_validator(content, validator)
            if validator.outcome == semconv.FAIL:
                call.failed_validators[validator.name] = None
        price = self._price()
        tally = Tally()
        found = self._found(tally, result) if self.recording else None
        digest = found.failure_digest if found else None
        counted = self.stage != "input"
        usage = self._usage()
        repeats = call.iteration_ended(usage, price, digest, counted=counted)
        if self.recording:
            self._write(result, usage, price, tally, found, repeats)

    def _found(self, tally: Tally, result: IterationResult) -> Evidence | None:
        quoted = result.output if self.call.start.stream or result.broken_off else None
        answer = Answer(quoted, result.broken_off) if quoted else None
        return Evidence.of(self.call.telemetry, tally, result.failure, answer)

    def _price(self) -> Price | None:
        """The price of the answer and of the attempts before it; None as soon as one of them is not known."""
        prices = [
            self._price_of(response)
            for response in (self.response, *self.response.failed_attempts)
            if response.cost_usd is not None or response.usage.any()
        ]
        known = [price for price in prices if price is not None]
        if not known or len(known) < len(prices):
            return None
        return (
            known[0] if len(known) == 1 else Price(math.fsum(price.usd for price in known), known[0].source)
        )

    def _price_of(self, response: Response) -> Price | None:
        pricer = self.call.telemetry.pricer
        model, provider = response.model or self.call.request_model, response.provider
        if not response.cost_computed:
            return pricer.price(response.usage, model=model, provider=provider, own_cost=response.cost_usd)
        price = pricer.price(response.usage, model=model, provider=provider)
        own = response.cost_usd
        if own is None or (price is not None and (price.source == "custom" or math.isclose(price.usd, own))):
            return price
        if price is None:
            return Price(own, "genai-prices")
        return pricer.price(response.usage, model=model, provider=provider, own_cost=own) or price

    def _usage(self) -> Usage:
        response = self.response
        if not response.failed_attempts:
            return response.usage
        return sum_of([response.usage, *(attempt.usage for attempt in response.failed_attempts)])

    def _write(
        self,
        result: IterationResult,
        usage: Usage,
        price: Price | None,
        tally: Tally,
        found: Evidence | None,
        repeats: int,
    ) -> None:
        attributes = self._identity(result, usage)
        put_usage(attributes, usage)
        if price is not None:
            attributes[semconv.COST_USD] = price.usd
            attributes[semconv.COST_SOURCE] = price.source
        self._put_failure(attributes, result, found, repeats)
        self._capture(tally, result, found, attributes)
        self.span.set_attributes({**attributes, **tally.counts(), **tally.attributes})
        failure = result.failure
        if result.status == semconv.ERROR and not result.handled:
            self.span.set_status(StatusCode.ERROR, failure.error_type if failure else None)
        for validator in result.validators:
            self._validator(validator)
        if self.call.telemetry.logger is not None:
            emit_evaluations(self.call.telemetry, self.context, result, found.text if found else None)
        self._run_hook(result, price)

    def _identity(self, result: IterationResult, usage: Usage) -> dict[str, Any]:
        response, content = self.response, self.call.telemetry.content
        attributes: dict[str, Any] = {
            semconv.STATUS: result.status,
            semconv.OUTCOME: "used" if result.status == semconv.PASS else "wasted",
        }
        if result.library_status != result.status:
            put(attributes, semconv.LIBRARY_STATUS, content.name(result.library_status))
        put(attributes, semconv.ABANDONED, result.abandoned or None)
        put(attributes, semconv.REASK_REASON, result.reask_reason)
        put(attributes, semconv.REQUEST_MODEL, content.name(self.call.request_model))
        put_response(attributes, response, content)
        if result.tools is not None:
            put_tools(attributes, result.tools, content)
        put(attributes, semconv.FAILED_ATTEMPTS, len(response.failed_attempts) or None)
        if self.call.telemetry.settings.genai_usage:
            put(attributes, semconv.GEN_AI_INPUT_TOKENS, usage.input_tokens)
            put(attributes, semconv.GEN_AI_OUTPUT_TOKENS, usage.output_tokens)
        return attributes

    def _put_failure(
        self, attributes: dict[str, Any], result: IterationResult, found: Evidence | None, repeats: int
    ) -> None:
        failed = dict.fromkeys(v.name for v in result.validators if v.outcome == semconv.FAIL)
        put(attributes, semconv.VALIDATORS_FAILED, tuple(failed) or None)
        put_failure(attributes, result.failure, with_type=not result.handled)
        if found is not None:
            attributes[semconv.FAILURE_DIGEST] = found.failure_digest
            attributes[semconv.FAILURE_REPEATS] = repeats

    def _capture(
        self, tally: Tally, result: IterationResult, found: Evidence | None, attributes: dict[str, Any]
    ) -> None:
        content = self.call.telemetry.content
        if found is not None and found.text and content.mode != "off":
            with _evidencing:
                piece = evidence.slice_evidence(found.text, limit=content.limit)
                attributes[semconv.EVIDENCE_SHA256] = evidence.sha256_hex(found.text)
                attributes[semconv.EVIDENCE_TRUNCATED] = piece.truncated
                attributes[semconv.EVIDENCE_VERSION] = evidence.VERSION
                if content.mode == "redacted":
                    tally.attributes[semconv.EVIDENCE] = piece.text
        content.capture(tally, semconv.INPUT_MESSAGES, result.messages)
        content.capture(tally, semconv.INPUT_TEXT, result.text)
        content.capture(tally, semconv.OUTPUT_RAW, self.call.shown(result.output, result.broken_off))

    def _validator(self, validator: ValidatorView) -> None:
        attributes: dict[str, Any] = {
            semconv.KIND: "validator",
            semconv.NAME: self.call.name,
            semconv.OPERATION_NAME: "validate",
            semconv.VALIDATOR_NAME: validator.name,
            semconv.VALIDATOR_REGISTERED_NAME: validator.registered_name,
            semconv.VALIDATOR_PATH: validator.path,
            semconv.VALIDATOR_INSTANCE_ID: validator.instance_id,
            semconv.VALIDATOR_RUNS: validator.runs,
            **self.call.shared,
        }
        put(attributes, semconv.VALIDATOR_ON_FAIL, validator.on_fail)
        put(attributes, semconv.VALIDATOR_OUTCOME, validator.outcome)
        put(attributes, semconv.ERROR_TYPE, validator.error_type)
        span = self.call.telemetry.tracer.start_span(
            f"validate {validator.name}"[: MAX_NAME + 9],
            context=self.context,
            attributes=attributes,
            start_time=validator.started_ns,
        )
        if validator.error_type is not None:
            span.set_status(StatusCode.ERROR, validator.error_type)
        span.end(validator.ended_ns)

    def _run_hook(self, result: IterationResult, price: Price | None) -> None:
        hook = self.call.telemetry.iteration_hook
        if hook is None:
            return
        failure = result.failure
        name = self.call.telemetry.content.name
        with _hooking:
            view = IterationView(
                index=self.index,
                stage=self.stage,
                status=result.status,
                model=name(self.response.model or self.call.request_model),
                provider=name(self.response.provider),
                usage=self._usage(),
                price=price,
                validators=tuple(result.validators),
                failure_class=failure.failure_class if failure else None,
                error_type=failure.error_type if failure else None,
            )
            hook(self.span, view)
