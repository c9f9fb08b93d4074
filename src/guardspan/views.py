"""Plain values that readers make of a library's objects, that recorders write, and that hooks are given.

A :class:`CallView` or :class:`IterationView` holds no content: hooks of the user's own get them. The
``*Result`` classes hold what a reader found, content included, and never leave guardspan.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from guardspan.pricing import Price, Usage
from guardspan.semconv import FailureClass, Status

_MAX_GIVEN = 2048
_CUT_SHORT = frozenset({"length", "max_tokens", "model_length", "MAX_TOKENS", "max_output_tokens"})


def given_name(value: object) -> str | None:
    """A name as somebody gave it, None for what is none; to be redacted where it is emitted.

    It is cut where nothing of it would be shown any more: sooner, half of a key might be left.
    """
    return value[:_MAX_GIVEN] if isinstance(value, str) and value else None


@dataclass(slots=True)
class ValidatorView:
    """One validator's work within one Iteration; all its runs (fields of a list, chunks) taken together.

    ``outcome`` is ``pass``, ``fail``, or None when it raised or never finished. Times are Unix nanoseconds.
    """

    name: str
    registered_name: str
    path: str
    instance_id: int
    on_fail: str | None
    outcome: str | None
    runs: int
    started_ns: int | None
    ended_ns: int | None
    error_type: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """What an LLM's response says of itself; every field is None where it says nothing."""

    model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    cost_computed: bool = False
    """``cost_usd`` is the library's own sum, from the prices that we have as well, unless it differs."""
    failed_attempts: tuple[Response, ...] = ()
    """Answers, or attempts without one, of models that the library moved on from; they are paid for too."""

    @property
    def cut_short(self) -> bool:
        """Whether the answer ended where no more tokens were allowed."""
        return not _CUT_SHORT.isdisjoint(self.finish_reasons)


NO_RESPONSE = Response()
"""What is known before an LLM has answered."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The tools that one answer called.

    Attributes:
        names: of the tools that exist, each once; a name that the model made up is content.
        calls: how many calls the answer held.
        failures: how many of them raised, or returned that they failed.
        retries: how many of them the model was asked to make again.
    """

    names: tuple[str, ...] = ()
    calls: int = 0
    failures: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something did not pass.

    Attributes:
        failure_class: one of the contract's classes.
        error_type: fully qualified class of the exception, as the application sees it.
        cause: class of the original exception under a wrapping one.
        parts: the failure's own words, one entry per failed check; content.
    """

    failure_class: FailureClass
    error_type: str | None = None
    cause: str | None = None
    parts: tuple[str, ...] = ()


@dataclass(slots=True)
class IterationResult:
    """What a reader found of one finished Iteration; ``messages`` and ``output`` are content."""

    status: Status
    library_status: str | None = None
    handled: bool = False
    """A re-ask follows: the failure is not the end of the matter, and the span's status stays unset."""
    abandoned: bool = False
    validators: list[ValidatorView] = field(default_factory=list)
    failure: Failure | None = None
    reask_reason: str | None = None
    tools: ToolCalls | None = None
    messages: object = None
    text: str | None = None
    output: str | None = None
    broken_off: bool = False
    """``output`` is the beginning of an answer, whose end never came."""


@dataclass(slots=True)
class CallResult:
    """What a reader found of one finished Call; ``output`` is content."""

    status: Status
    abandoned: bool = False
    severe: bool = False
    """A ``fail`` that nobody asked to tolerate: re-asks used up, or an exception asked for."""
    limit_reached: bool = False
    failure: Failure | None = None
    failed_validators: tuple[str, ...] = ()
    library_call_id: str | None = None
    """As it is emitted: one of the library's own making is no text of anybody's."""
    server_address: str | None = None
    agent_name: str | None = None
    conversation_id: str | None = None
    output: object = None


@dataclass(frozen=True, slots=True)
class IterationView:
    """An Iteration as a hook sees it: plain values, no content."""

    index: int
    stage: str
    status: Status
    model: str | None
    provider: str | None
    usage: Usage
    price: Price | None
    validators: tuple[ValidatorView, ...]
    failure_class: FailureClass | None
    error_type: str | None


@dataclass(frozen=True, slots=True)
class CallView:
    """A Call as a hook sees it: plain values, no content. Costs are US dollars, None where not known."""

    library: str
    name: str
    entry: str
    call_id: str
    status: Status
    stream: bool
    iterations: int
    usage: Usage
    cost_usd: float | None
    unpriced: int
    failed_validators: tuple[str, ...]
    failure_class: FailureClass | None
    error_type: str | None
    limit_reached: bool
    stuck: bool
    abandoned: bool
