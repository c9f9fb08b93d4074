"""One agent run: which Iteration is under way, and what became of the run.

An Iteration is one model request with what follows from it: its tool calls and the validation of its output.
So it ends where the next request begins, or with the run.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from guardspan import semconv
from guardspan.content import clean
from guardspan.lifecycle import CallRecorder, CallStart
from guardspan.pydantic_ai import agents, pairing, reader
from guardspan.pydantic_ai.agents import AgentRegistry
from guardspan.pydantic_ai.checks import function_checks, schema_check, validator_name
from guardspan.pydantic_ai.entry import STREAMED
from guardspan.pydantic_ai.outcomes import INVALID, classify, is_refusal, is_used_up, tells_limit
from guardspan.pydantic_ai.rounds import Round
from guardspan.telemetry import Telemetry
from guardspan.views import CallResult, Failure, IterationResult, given_name

_log = logging.getLogger("guardspan")
_ARGUMENTS = ("instructions", "model_settings", "retries")
"""Arguments that are described; never the dependencies, which hold what the model must not see."""


class AgentExecution:
    """One run of an agent.

    Args:
        telemetry: the instrumentor's tools.
        registry: contract digests of agents.
        agent: the agent.
        entry: what the application called.
        arguments: the run's arguments by name.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        registry: AgentRegistry,
        agent: Any,
        entry: str,
        arguments: Mapping[str, Any],
    ) -> None:
        self._registry = registry
        self._agent = agent
        self._name = given_name(agent.name)
        self._entry = entry
        self._validators: Sequence[Callable[..., Any]] = agents.output_validators(agent)
        self._round: Round | None = None
        self._reask = False
        self._parent: Context | None = None
        self._messages: Sequence[Any] = ()
        self._requesting, self._seen = False, 0
        self._result_known = False
        self._conversation: str | None = None
        self.recorder = CallRecorder(
            telemetry,
            CallStart(
                library="pydantic_ai",
                operation="agent_run",
                noun="agent",
                name=agents.name_of(agent),
                entry=entry,
                stream=entry in STREAMED,
            ),
            owner=self,
            inputs=_inputs(arguments) if telemetry.content.mode != "off" else {},
        )

    @property
    def live(self) -> bool:
        """Whether the Call is still open: an uninstrument ends it while the run goes on."""
        return not self.recorder.ended

    # --- the run -----------------------------------------------------------------------------------------

    def tell_of_history(self, arguments: Mapping[str, Any]) -> None:
        """Walk the history that the run was given, and tell what it lacks; raises on one that is none."""
        conversation = arguments.get("conversation")  # of newer releases, in place of a history
        history = arguments.get("message_history") or getattr(conversation, "messages", None)
        if not self.recorder.recording or not isinstance(history, Sequence) or not history:
            return
        for finding in pairing.walk(history):
            if finding.kind == "open_call":  # the run goes on with it, or is refused
                continue
            call = self.recorder.telemetry.content.digest(clean(str(finding.tool_call_id)))
            self.recorder.event(
                semconv.EVENT_HISTORY_REPAIR,
                {
                    semconv.HISTORY_REPAIR_KIND: finding.kind,
                    semconv.HISTORY_TOOL_CALL_ID: call,
                    semconv.HISTORY_MESSAGE_INDEX: finding.message_index,
                },
            )

    def begins(self, run_context: Any) -> None:
        """The run is set up; its ids are known."""
        self._messages, self._seen = run_context.messages, len(run_context.messages)
        self._conversation = given_name(run_context.conversation_id)
        if reader.traces_content(run_context):
            _tell_of_content()
        run_id = given_name(run_context.run_id)
        if run_id is not None:
            self.recorder.identify(run_id)

    def began(self) -> None:
        """What wraps the run, such as the library's own span, is in place: it is the Iterations' parent."""
        self._parent = otel_context.get_current()

    def current(self) -> Context | None:
        """The current context with the open Iteration's span in it, None when there is none."""
        under_way = self._round
        return under_way.recorder.over(otel_context.get_current()) if under_way is not None else None

    # --- a request ---------------------------------------------------------------------------------------

    def request_is_next(self, run_context: Any, request: Any) -> None:
        """A node is about to make a request; limits may still refuse it."""
        self._messages = run_context.messages
        self._settle(request.parts)
        self._requesting, self._seen = True, len(self._messages)

    def request_begins(self, run_context: Any, request_context: Any) -> None:
        """A request begins: the Iteration before it ends, and its own opens."""
        messages, parameters = request_context.messages, request_context.model_request_parameters
        request = messages[-1] if messages else None
        self._settle(getattr(request, "parts", ()))
        recorder = self.recorder
        recorder.reasks_limit = run_context.max_retries
        if recorder.contract_digest is None:
            names = [validator_name(function) for function in self._validators]
            recorder.contract_digest = self._registry.digest(self._agent, parameters, names)
        recorder.telemetry.pricer.warm_soon()
        self._messages = run_context.messages
        self._open(request, parameters, given_name(getattr(request_context.model, "model_name", None)))

    def _open(self, request: Any, parameters: Any, model: str | None) -> None:
        # A fallback looks for a span with its own name, to write on it: ours has it only at its end.
        self.recorder.request_model = None if model and model.startswith("fallback:") else model
        opened = self.recorder.iteration("reask" if self._reask else "initial", self._parent)
        self.recorder.request_model = model
        self._requesting, self._seen = False, len(self._messages)
        if opened is not None:
            self._round = Round(
                opened,
                request,
                seen=self._seen,
                tools=reader.names_of(getattr(parameters, "function_tools", ())),
                output_tools=reader.names_of(getattr(parameters, "output_tools", ())),
            )

    def responded(self, response: Any) -> None:
        """The model has answered."""
        if self._round is not None and response is not None:
            self._round.answered(response)
            if self._result_known:
                self._settle(None)

    def request_raised(self, error: BaseException) -> None:
        """A request raised. A capability may have given the answer itself, or asked for another one."""
        name = type(error).__name__
        if name == "SkipModelRequest":
            self.responded(getattr(error, "response", None))
        elif name == "ModelRetry" and self._round is not None:
            self._round.reject(INVALID, reader.words_of(error))
        elif self._round is not None:
            self._round.model_error = error

    # --- what follows from an answer ---------------------------------------------------------------------

    def schema_checked(
        self, output_context: Any, output: Any, started_ns: int, error: BaseException | None
    ) -> None:
        """An output was parsed into its type, or could not be; ``output`` is what the model said."""
        if self._round is not None:
            unparsable = error is not None and reader.is_unparsable(output)
            self._round.checked([schema_check(output_context)], started_ns, error, unparsable)

    def processed(self, output_context: Any, started_ns: int, error: BaseException | None) -> None:
        """An output went through its function and the output validators."""
        if self._round is not None:
            self._round.checked(function_checks(output_context, self._validators), started_ns, error)

    def tool_raised(self, tool: str, error: BaseException) -> None:
        """The arguments of a tool call were not accepted, or the tool raised."""
        if self._round is not None:
            self._round.tool_raised(tool, error)

    def result_is_known(self, run_context: Any) -> None:
        """The run has its result; of a stream, the answer may still be on its way."""
        self._messages, self._result_known = run_context.messages, True
        if self._round is not None and self._round.response is not None:
            self._settle(None)

    # --- the end of an Iteration -------------------------------------------------------------------------

    def _settle(self, following: Sequence[Any] | None) -> None:
        """End the open Iteration; ``following`` are the parts of the next request, None when none comes."""
        self._look_for_skipped()
        under_way = self._round
        if under_way is None:
            return
        under_way.look_for_answer(self._messages)
        result = IterationResult(semconv.PASS) if following is None else under_way.followed_by(following)
        self._end_iteration(result)

    def _look_for_skipped(self) -> None:
        """In older releases a capability can answer in the model's place before the request begins."""
        if self._round is None and (self._requesting or not self.recorder.iterations):
            answer = reader.newest_response(self._messages[self._seen :])
            if answer is not None:
                self._open(None, None, self.recorder.request_model)
                self.responded(answer)

    def _end_iteration(self, result: IterationResult) -> None:
        under_way, self._round = self._round, None
        if under_way is None:
            return
        recorder = self.recorder
        result.validators = under_way.checks.views()
        result.tools = under_way.tool_calls()
        if recorder.recording and recorder.telemetry.content.mode != "off":
            result.messages = reader.request_messages(under_way.request)
            result.output = reader.answer_text(under_way.response)
            result.broken_off = under_way.broken_off
        self._reask = result.handled
        under_way.recorder.end(result)

    # --- the end of the run ------------------------------------------------------------------------------

    def finished(
        self, output: Any, messages: Sequence[Any] = (), mended: BaseException | None = None
    ) -> None:
        """The run has a result, though ``mended`` had ended it before a capability gave one in its place."""
        self._messages = messages or self._messages
        under_way = self._round
        if mended is not None and under_way is not None:
            failure = under_way.broken_by(mended)
            self._end_iteration(IterationResult(semconv.ERROR, handled=True, failure=failure))
        self._settle(None)
        self._end(CallResult(semconv.PASS, output=output))

    def dropped(self) -> None:
        """Nobody holds the run any longer, and it was never left."""
        if self._result_known:
            self.finished(None)
        else:
            self.left()

    def left(self) -> None:
        """The application left the run before its end; nothing went wrong."""
        under_way, failure = self._round, None
        if under_way is not None:
            under_way.look_for_answer(self._messages)
            result = under_way.left()
            failure = result.failure
            self._end_iteration(result)
        status: semconv.Status = semconv.FAIL if failure is not None else semconv.NOT_RUN
        self._end(CallResult(status, abandoned=True, failure=failure))

    def failed(self, error: BaseException) -> None:
        """The run raised to the application."""
        if self._reader_left(error):
            self.left()
            return
        under_way = self._round
        if under_way is not None:
            under_way.look_for_answer(self._messages)
        if under_way is not None and under_way.response is not None and is_used_up(error, under_way.rejected):
            failure = under_way.used_up_by(error)
            rejected = Failure(failure.failure_class, parts=failure.parts)
            self._end_iteration(IterationResult(semconv.FAIL, failure=rejected))
            self._end(
                CallResult(semconv.FAIL, severe=True, limit_reached=tells_limit(error), failure=failure)
            )
            return
        self._end(CallResult(semconv.ERROR, failure=self._errs(under_way, error)))

    def _errs(self, under_way: Round | None, error: BaseException) -> Failure:
        """End the Iteration that the error came from, if it came from one."""
        failure = under_way.broken_by(error) if under_way is not None else classify(error)
        within = under_way is not None and under_way.raised_within(error)
        if is_refusal(error, self._requesting) and not within:
            if under_way is not None:
                self._end_iteration(under_way.unfollowed())
            refused = self.recorder.iteration("reask" if self._reask else "initial", self._parent)
            if refused is not None:
                refused.end(IterationResult(semconv.NOT_RUN, failure=failure))
        elif under_way is not None:
            self._end_iteration(IterationResult(semconv.ERROR, failure=failure))
        return failure

    def _reader_left(self, error: BaseException) -> bool:
        """The generator that holds the run was closed, or the task behind ``run_stream_events`` cancelled."""
        if isinstance(error, GeneratorExit):
            return True
        return isinstance(error, asyncio.CancelledError) and self._entry == "run_stream_events"

    def _end(self, result: CallResult) -> None:
        result.conversation_id = self._conversation
        result.agent_name = self._name
        self.recorder.end(result)
        self._forget()

    def _forget(self) -> None:
        """Drop the library's objects: whoever holds the run's result holds its capabilities as well."""
        self._agent = self._round = self._parent = None
        self._messages = self._validators = ()


@functools.cache
def _tell_of_content() -> None:
    """Say once that the library's own tracing exports content, which who chose guardspan may not expect."""
    _log.warning(
        "guardspan: Pydantic AI's own tracing is on and exports prompts and answers in full; "
        "InstrumentationSettings(include_content=False) ends that"
    )


def _inputs(arguments: Mapping[str, Any]) -> dict[str, object]:
    """What the application gave, by attribute."""
    prompt = arguments.get("user_prompt")
    chosen = {name: arguments[name] for name in _ARGUMENTS if arguments.get(name) is not None}
    return {
        semconv.INPUT_MESSAGES: [{"role": "user", "content": prompt}] if prompt is not None else None,
        semconv.INPUT_METADATA: arguments.get("metadata") or None,
        semconv.INPUT_ARGUMENTS: chosen or None,
    }
