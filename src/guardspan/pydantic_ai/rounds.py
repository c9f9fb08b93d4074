"""What is known of the Iteration under way, and what became of it.

The hooks tell what was rejected of an answer. What they do not see (an empty answer, a tool that does not
exist) shows in the answer itself, and in the parts of the request that follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardspan import failures, semconv
from guardspan.lifecycle import IterationRecorder
from guardspan.pydantic_ai import reader
from guardspan.pydantic_ai.checks import Check, Checks
from guardspan.pydantic_ai.outcomes import (
    EMPTY,
    INVALID,
    INVALID_TOOL_CALL,
    UNPARSABLE,
    Rejection,
    cause_of,
    classify,
    raised_in_model,
    rejection_in,
)
from guardspan.views import Failure, IterationResult, ToolCalls

_NOT_FAILURES = frozenset({"CallDeferred", "ApprovalRequired", "SkipToolExecution", "SkipToolValidation"})


@dataclass(slots=True)
class Round:
    """One model request with what follows from it.

    Attributes:
        recorder: of its Iteration.
        request: the newest ``ModelRequest``; content.
        seen: how many messages the run had when it began.
        tools: names of the tools that could be called; ``output_tools``, of those that stand for the output.
        response: the ``ModelResponse``, None until it is there, unfinished where a stream broke; content.
        model_error: what the request raised.
        checks: of the output.
    """

    recorder: IterationRecorder
    request: Any
    seen: int
    tools: frozenset[str]
    output_tools: frozenset[str]
    response: Any = None
    model_error: BaseException | None = None
    checks: Checks = field(default_factory=Checks)
    _rejection: Rejection | None = None
    _words: list[str] = field(default_factory=list)
    _retried_tools: int = 0
    _failed_tools: int = 0
    _answered: bool = False
    _check_broke: bool = False
    _raised_within: BaseException | None = None

    @property
    def rejected(self) -> bool:
        """Whether a hook was told that something of the answer was not accepted."""
        return self._rejection is not None

    @property
    def broken_off(self) -> bool:
        """Whether the answer is only the beginning of one: a stream was left, or broke."""
        if self.response is None or not self.recorder.call.start.stream:
            return not self._answered
        return not self._answered or not reader.is_whole(self.response)

    def raised_within(self, error: BaseException) -> bool:
        """Whether a tool or a check raised it, such as one that asks another agent."""
        return self._raised_within is error

    def reject(self, rejection: Rejection, words: str) -> None:
        """Note that something of the answer was not accepted; why the first time counts."""
        self._rejection = self._rejection or rejection
        self._words.append(words)

    def answered(self, response: Any) -> None:
        """The answer is there."""
        self._answered = True
        self._take(response)

    def _take(self, response: Any) -> None:
        self.response = response
        self.recorder.response = reader.read_response(response)

    def look_for_answer(self, messages: Sequence[Any]) -> None:
        """Of a stream that was left, or a request that a capability mended, the messages hold the answer."""
        if self.response is not None:
            return
        answer = reader.newest_response(messages[self.seen :])
        if answer is not None:
            self._take(answer)

    def checked(
        self,
        checks: Sequence[Check],
        started_ns: int,
        error: BaseException | None,
        unparsable: bool = False,
    ) -> None:
        """The output was checked, until ``error`` ended that; ``unparsable`` output is no JSON at all."""
        rejection = rejection_in(error) if error is not None else None
        self._check_broke = error is not None and rejection is None
        self._raised_within = error
        culprit = self.checks.ran(checks, started_ns, error, rejection is not None) if checks else None
        if rejection is not None:
            words = reader.words_of(rejection)
            self.reject(
                UNPARSABLE if unparsable else INVALID,
                f"{culprit.name}: {words}" if culprit is not None else words,
            )

    def tool_raised(self, tool: str, error: BaseException) -> None:
        """The arguments of a tool call were not accepted, or the tool raised."""
        self._raised_within = error
        rejection = rejection_in(error)
        if rejection is not None:
            self._retried_tools += 1
            self.reject(INVALID_TOOL_CALL, f"{tool}: {reader.words_of(rejection)}")
        elif type(error).__name__ not in _NOT_FAILURES and not failures.is_cancellation(error):
            self._failed_tools += 1

    def tool_calls(self) -> ToolCalls | None:
        """The answer's tool calls, None where there are none."""
        if self.response is None:
            return None
        names, calls = reader.tool_names(self.response, self.tools, self.output_tools)
        return ToolCalls(names, calls, self._failed_tools, self._retried_tools) if calls else None

    def followed_by(self, parts: Sequence[Any]) -> IterationResult:
        """What became of it, by the parts of the request that follows."""
        retries = reader.retries_in(parts)
        self._failed_tools = max(self._failed_tools, reader.failed_tools(parts))
        if not retries and not self._is_empty():  # older releases say nothing when they ask again
            return IterationResult(semconv.PASS)
        result = self._asked_again(map(reader.words_of_part, retries))
        if result.reask_reason == INVALID_TOOL_CALL.reason:
            asked_again = sum(getattr(part, "tool_name", None) is not None for part in retries)
            self._retried_tools = max(self._retried_tools, asked_again)
        return result

    def unfollowed(self) -> IterationResult:
        """What became of it, where the request that would have followed was refused."""
        if self._rejection is None and not self._is_empty():
            return IterationResult(semconv.PASS)
        return self._asked_again(())

    def _asked_again(self, told: Iterable[str]) -> IterationResult:
        rejection, words = self._why(told)
        failure = Failure(rejection.failure_class, parts=words)
        return IterationResult(semconv.FAIL, handled=True, failure=failure, reask_reason=rejection.reason)

    def broken_by(self, error: BaseException) -> Failure:
        """Why it ended in an error: the model's, a check's, or another one."""
        from_model = not self._answered and (self.model_error is error or raised_in_model(error))
        if not self._answered:
            attempts = reader.read_failed_attempts(error)
            if attempts:
                self.recorder.response = replace(self.recorder.response, failed_attempts=attempts)
        return classify(error, from_model=from_model, from_check=self._check_broke)

    def used_up_by(self, error: BaseException) -> Failure:
        """Why the answer was rejected, where no retry was left and ``error`` says so."""
        rejection, words = self._why([reader.words_of(rejection_in(error) or error)])
        return Failure(rejection.failure_class, failures.type_name(error), cause_of(error), words)

    def left(self) -> IterationResult:
        """What became of it, where the application left the run."""
        if self._rejection is None:
            return IterationResult(semconv.NOT_RUN, abandoned=True)
        failure = Failure(self._rejection.failure_class, parts=tuple(self._words))
        return IterationResult(semconv.FAIL, abandoned=True, failure=failure)

    def _is_empty(self) -> bool:
        return self.response is not None and reader.is_empty(self.response)

    def _why(self, told: Iterable[str]) -> tuple[Rejection, tuple[str, ...]]:
        """Why the answer was rejected, and in which words: the hooks', else the library's (``told``)."""
        if self._rejection is not None:
            return self._rejection, tuple(dict.fromkeys(self._words))
        if self._is_empty():
            return EMPTY, ("the answer was empty",)
        words = tuple(dict.fromkeys(told))
        known = self.tools | self.output_tools
        if self.response is not None and reader.calls_unknown_tool(self.response, known):
            self._retried_tools = max(self._retried_tools, 1)
            return INVALID_TOOL_CALL, words
        return INVALID, words
