"""One execution of a guard: what the patches tell it, step by step, becomes recorders and results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from guardspan import failures, semconv
from guardspan.guardrails import reader, responses
from guardspan.guardrails.guards import GuardFacts, server_host
from guardspan.lifecycle import CallRecorder, CallStart, IterationRecorder
from guardspan.telemetry import Telemetry
from guardspan.views import NO_RESPONSE, CallResult, Failure, IterationResult, Response, given_name

_MAX_STREAMED = 1_000_000
"""Characters of a streamed answer that are kept for its description; tokens are counted to the end."""
_NOT_ARGUMENTS = frozenset({"messages", "prompt_params", "metadata", "llm_output", "llm_api"})


@dataclass(slots=True)
class Step:
    """The runner's step that is under way, with the Call object of this execution and of no other."""

    runner: Any
    call_log: Any
    index: int

    @property
    def reasks_left(self) -> bool:
        """Whether the runner may ask again after this step."""
        return bool(self.index < self.runner.num_reasks)

    @property
    def validates_input(self) -> bool:
        """Whether the messages are validated before the LLM is called."""
        return bool(self.runner.validation_map.get("messages")) and self.runner.output is None

    def last_iteration(self) -> Any:
        """The library's Iteration of this step: those of input validation are inserted at the front."""
        iterations = self.call_log.iterations
        return iterations[-1] if len(iterations) else None


class GuardExecution:
    """Follows one Call from its entry to its end, over all kinds of entry.

    It is the :class:`~guardspan.streams.StreamObserver` of its own stream.
    """

    def __init__(
        self, telemetry: Telemetry, facts: GuardFacts, guard: Any, entry: str, arguments: Mapping[str, Any]
    ) -> None:
        self.guard_id = id(guard)
        self.entered = False
        self.consuming = False
        self._items = 0
        self.kept_stream: Any = None
        self.iteration: IterationRecorder | None = None
        self.step: Step | None = None
        self.last: IterationResult | None = None
        self._input: tuple[IterationRecorder, Any] | None = None
        self._actions: dict[int, str] | None = None
        self._text: list[str] = []
        self._text_length = 0
        self._working: tuple[object, Context, Context] | None = None
        self._llm_error: BaseException | None = None
        self._last_error: BaseException | None = None
        self._server = server_host(guard)
        self._server_failed = False
        ambient = sys.exc_info()[1]
        self._ambient = id(ambient) if ambient is not None else None
        self.recorder = CallRecorder(
            telemetry,
            CallStart(
                library="guardrails",
                operation="guard",
                noun="guard",
                name=facts.name,
                entry=entry,
                stream=bool(arguments.get("stream")),
                request_model=given_name(arguments.get("model")),
                contract_digest=facts.digest,
            ),
            owner=self,
            inputs=_inputs(arguments) if telemetry.content.mode != "off" else {},
        )

    # --- steps -------------------------------------------------------------------------------------

    def owns(self, call_log: Any) -> bool:
        """Whether a step belongs to this execution, and not to one that runs un-instrumented inside it."""
        return not self.recorder.ended and (self.step is None or self.step.call_log is call_log)

    def runs(self, runner: Any) -> bool:
        """Whether a runner is that of the step under way."""
        return self.step is not None and self.step.runner is runner

    def step_begins(self, runner: Any, call_log: Any, index: int) -> None:
        """A step begins: its Iteration opens now, unless messages are validated first or a stream waits."""
        self.step = Step(runner, call_log, index)
        recorder = self.recorder
        recorder.reasks_limit = 0 if self._streams() else runner.num_reasks
        if recorder.request_model is None:
            recorder.request_model = given_name(getattr(runner.api, "init_kwargs", {}).get("model"))
        if runner.api is not None:
            recorder.telemetry.pricer.warm_soon()
        if self._actions is None:
            self._actions = reader.actions_of(runner.validation_map)
        if not self.step.validates_input and (not self._streams() or self.consuming):
            self._make_current()

    def _streams(self) -> bool:
        return self.recorder.start.stream

    def _open_iteration(self) -> None:
        if self.iteration is None and self.step is not None:
            self.iteration = self.recorder.iteration("reask" if self.step.index else "initial")

    def _make_current(self) -> None:
        """Make the open Iteration current; the patch around the step, or the stream, puts back what was."""
        self._open_iteration()
        if self.iteration is not None:
            otel_context.attach(self.iteration.over(otel_context.get_current()))

    def step_ends(self, error: BaseException | None) -> None:
        """A step that is no stream has returned or raised."""
        self._close_input(error)
        step, iteration = self.step, self.iteration
        if step is None or iteration is None:
            self._last_error = error
            return
        found = step.last_iteration()
        result = self._result(found, error)
        if found is not None:
            result.messages = reader.sent_messages(found)
            info = found.outputs.llm_response_info
            if info is not None and not (step.index == 0 and step.runner.output is not None):
                result.output = info.output
        self._complete_usage(found)
        self._end_iteration(result)
        self._last_error = error

    def _complete_usage(self, found: Any) -> None:
        """Token counts that the library kept, where no response was seen."""
        info = getattr(getattr(found, "outputs", None), "llm_response_info", None)
        if info is None or self.iteration is None or self.iteration.response is not NO_RESPONSE:
            return
        if info.prompt_token_count is None and info.response_token_count is None:
            return
        usage = responses.read_usage(
            {"prompt_tokens": info.prompt_token_count, "completion_tokens": info.response_token_count}
        )
        self.iteration.response = Response(usage=usage)

    def _end_iteration(self, result: IterationResult) -> None:
        self.last = result
        if self.iteration is not None:
            self.iteration.end(result)
        self.iteration = None

    def _result(self, found: Any, error: BaseException | None) -> IterationResult:
        step, actions = self.step, self._actions or {}
        if error is None and found is not None and step is not None:
            return reader.read_iteration(
                found, actions, reasks_left=step.reasks_left and not self._streams(), streamed=self._streams()
            )
        logs = reader.logs_of(found)
        return IterationResult(
            status=semconv.ERROR,
            library_status=reader.library_status(found),
            validators=reader.read_validators(logs, actions, error),
            failure=self._failure(error, found, logs) if error is not None else None,
        )

    def _failure(self, error: BaseException, found: Any, logs: Any) -> Failure:
        began = bool(logs) or (found is not None and found.outputs.llm_response_info is not None)
        failure = reader.classify(
            error, from_llm=error is self._llm_error, began=began, ambient=self._ambient
        )
        words = reader.words_of(logs) if failure.failure_class == "validation" else ()
        return Failure(failure.failure_class, failure.error_type, failure.cause, words or failure.parts)

    # --- validation of the messages ----------------------------------------------------------------

    def input_begins(self, iteration: Any) -> None:
        """The validation of one message begins; the one before it was accepted. Not for another's message."""
        if self.step is None or not any(known is iteration for known in self.step.call_log.iterations):
            return
        self._close_input(None)
        opened = self.recorder.iteration("input")
        if opened is not None:
            self._input = (opened, iteration)
            otel_context.attach(opened.over(otel_context.get_current()))

    def inputs_end(self, error: BaseException | None) -> None:
        """All messages were accepted, or one was not."""
        self._close_input(error)
        if error is None:
            self._make_current()

    def _close_input(self, error: BaseException | None) -> None:
        if self._input is None:
            return
        (opened, found), self._input = self._input, None
        logs = found.outputs.validator_logs
        actions = self._actions or {}
        result = IterationResult(
            status=semconv.PASS,
            library_status=reader.library_status(found),
            validators=reader.read_validators(logs, actions, error),
            text=found.inputs.llm_output,
        )
        if error is not None:
            failure = self._failure(error, found, logs)
            blocked = failure.failure_class == "validation" and bool(reader.words_of(logs))
            result.status = semconv.FAIL if blocked else semconv.ERROR
            result.failure = _as_policy(failure) if blocked else failure
        elif reader.unmended(logs, actions):
            result.status = semconv.FAIL
            result.failure = Failure("policy", parts=reader.words_of(logs))
        opened.end(result)
        self.last = result

    # --- the LLM's response ------------------------------------------------------------------------

    def responded(self, response: Any) -> None:
        """The provider has answered; called also when the library cannot use the answer."""
        read = responses.read_response(response)
        if read is not None and self.iteration is not None:
            self.iteration.response = read

    def chunk(self, chunk: Any) -> None:
        """The provider has sent a piece of a stream."""
        if self.iteration is None:
            return
        if not isinstance(chunk, str):
            self.iteration.response = responses.merge(self.iteration.response, chunk)
        text = responses.chunk_text(chunk)
        if text and self._text_length < _MAX_STREAMED:
            self._text.append(text)
            self._text_length += len(text)

    def llm_failed(self, error: BaseException) -> None:
        """The provider's stream has raised."""
        self._llm_error = error

    # --- the end -----------------------------------------------------------------------------------

    def returned(self, outcome: Any) -> None:
        """The call has returned an outcome to the application."""
        self._end(reader.read_outcome(outcome, self.last, used_up=self._used_up()))

    def _end(self, result: CallResult) -> None:
        """End the Call, with what is known of it from here whatever became of it."""
        result.server_address = self._server
        if self._server is not None:  # it can answer any id
            result.library_call_id = self.recorder.telemetry.content.name(result.library_call_id)
        elif result.library_call_id is None and self.step is not None:
            result.library_call_id = str(self.step.call_log.id)
        self.recorder.end(result)
        self._forget()

    def _used_up(self) -> bool:
        """Whether the last answer asked for a re-ask and none was left."""
        step, last = self.step, self.last
        if step is None or last is None or last.status == semconv.PASS or step.reasks_left:
            return False
        found = step.last_iteration()
        return found is not None and bool(found.outputs.reasks)

    def failed(self, error: BaseException) -> None:
        """The call has raised to the application."""
        self._close_input(error)
        if self.iteration is not None:
            self.step_ends(error)
        self._end(CallResult(semconv.ERROR, failure=self._call_failure(error)))

    def _call_failure(self, error: BaseException) -> Failure:
        last, last_error = self.last, self._last_error
        same = last_error is not None and reader.seen_by_application(last_error) is error
        if same and last is not None and last.failure is not None:
            return last.failure
        if self._server is not None and type(error).__name__ != "ValidationError":
            cause = failures.original(error, self._ambient)
            return Failure(
                "timeout" if failures.is_timeout(error) else "provider",
                failures.type_name(error),
                failures.type_name(cause) if cause is not None else None,
            )
        return reader.classify(error, from_llm=False, began=last is not None, ambient=self._ambient)

    def _forget(self) -> None:
        """Drop the library's objects: a captured context may hold this execution for longer than the call."""
        self.step = self.last = self.iteration = self._input = None
        self._llm_error = self._last_error = self._working = None
        self._text.clear()
        kept, self.kept_stream = self.kept_stream, None
        if kept is not None:
            kept.close()  # now, while this context is current, and not when the collector finds it

    # --- a stream (StreamObserver) -----------------------------------------------------------------

    def working(self) -> Context:
        """The consumer's context, which the LLM sees in the bare run, with the open span in it.

        The first call begins the stream.
        """
        self.consuming = True
        if self.step is not None and self.iteration is None and not self.step.validates_input:
            self._open_iteration()
        recorder = self.iteration if self.iteration is not None else self.recorder
        current = otel_context.get_current()
        known = self._working
        if known is None or known[0] is not recorder or known[1] is not current:
            known = self._working = (recorder, current, recorder.over(current))
        return known[2]

    def item(self, value: Any) -> None:
        """A chunk is about to be handed out; all that is known of a server's stream are its chunks."""
        self._items += 1
        if self._server is not None and getattr(value, "validation_passed", None) is False:
            self._server_failed = True

    def finished(self, error: BaseException | None) -> None:
        """The stream was read to its end, or raised."""
        if self.recorder.ended:
            return
        if isinstance(error, GeneratorExit):
            self.left()
        elif error is not None:
            self._end_stream(error)
            self.failed(error)
        else:
            self._end_stream(None)
            self._stream_complete()

    def left(self) -> None:
        """The consumer closed or dropped the stream; nothing to do when it had ended."""
        if self.recorder.ended:
            return
        self._close_input(None)
        result = self._left_result()
        if self.iteration is not None:
            result.output, result.broken_off = self._streamed_text(), True
            self._end_iteration(result)
        self._end(CallResult(result.status, abandoned=True, failure=result.failure))

    def _left_result(self) -> IterationResult:
        found = self.step.last_iteration() if self.step is not None else None
        logs = reader.logs_of(found)
        failed = reader.unmended(logs, self._actions or {})
        return IterationResult(
            status=semconv.FAIL if failed else semconv.NOT_RUN,
            library_status=reader.library_status(found),
            abandoned=True,
            validators=reader.read_validators(logs, self._actions or {}),
            failure=Failure("validation", parts=reader.words_of(logs)) if failed else None,
        )

    def _end_stream(self, error: BaseException | None) -> None:
        self._close_input(error)
        self._last_error = error
        if self.iteration is None or self.step is None:
            return
        found = self.step.last_iteration()
        result = self._result(found, error)
        if found is not None:
            result.messages = reader.sent_messages(found)
        result.output = self._streamed_text()
        result.broken_off = error is not None or self._text_length >= _MAX_STREAMED
        if error is None and not self._items and result.status == semconv.PASS:
            self._nothing_came(result)
        self._end_iteration(result)

    def _nothing_came(self, result: IterationResult) -> None:
        """A stream that was read to its end and gave nothing: the answer was empty, or no JSON came of it."""
        blank = not (result.output or "").strip()
        result.status = semconv.ERROR
        result.failure = Failure("provider" if blank else "parsing", parts=("the stream gave nothing",))

    def _streamed_text(self) -> str | None:
        return "".join(self._text) if self._text else None

    def _stream_complete(self) -> None:
        last = self.last
        status = last.status if last is not None else self._server_stream_status()
        failure = last.failure if last is not None else None
        if failure is None and status == semconv.FAIL:
            failure = Failure("validation")
        self._end(CallResult(status, failure=failure))

    def _server_stream_status(self) -> semconv.Status:
        return semconv.FAIL if self._server_failed else semconv.PASS


def _as_policy(failure: Failure) -> Failure:
    """A blocked message is the deployment's policy at work, not a failed answer."""
    return Failure("policy", failure.error_type, failure.cause, failure.parts)


def _inputs(arguments: Mapping[str, Any]) -> dict[str, object]:
    """The call's own arguments by attribute; the library's record of them may be another call's."""
    rest = {name: value for name, value in arguments.items() if name not in _NOT_ARGUMENTS}
    return {
        semconv.INPUT_MESSAGES: arguments.get("messages"),
        semconv.INPUT_TEXT: arguments.get("llm_output"),
        semconv.INPUT_PROMPT_PARAMS: arguments.get("prompt_params") or None,
        semconv.INPUT_METADATA: arguments.get("metadata") or None,
        semconv.INPUT_ARGUMENTS: rest or None,
    }
