"""Where Pydantic AI is patched: ``Agent.iter``, through which every run goes.

The arguments go through as they came, with one capability more; the context manager that comes back is the
library's own, behind one that begins and ends the Call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from guardspan import semconv
from guardspan.patching import Patches, Wrapper
from guardspan.pydantic_ai.agents import AgentRegistry
from guardspan.pydantic_ai.durable import in_durable_workflow
from guardspan.pydantic_ai.entry import entry_of_caller
from guardspan.pydantic_ai.execution import AgentExecution
from guardspan.safety import Quietly
from guardspan.telemetry import Telemetry
from guardspan.views import CallResult

_beginning = Quietly("begin an agent's run")
_walking = Quietly("walk a message history")
_ending = Quietly("end an agent's run")


def patch_pydantic_ai(patches: Patches, telemetry: Telemetry) -> None:
    """Patch the imported library.

    Raises:
        KeyError, ImportError: the library is not laid out as expected.
    """
    from pydantic_ai import Agent

    from guardspan.pydantic_ai import capability  # noqa: F401 - a hook that is missing shows now, not in a run

    patches.wrap(Agent, "iter", _iter(telemetry, AgentRegistry(telemetry.content.redactor)))


def _iter(telemetry: Telemetry, registry: AgentRegistry) -> Wrapper:
    def iter_(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watched = False
        with _beginning:
            usual = isinstance(kwargs.get("capabilities") or (), Sequence)
            watched = usual and is_instrumentation_enabled() and not in_durable_workflow()
        if watched:
            return WatchedRun(telemetry, registry, wrapped, instance, args, kwargs)
        return wrapped(*args, **kwargs)

    return iter_


def _entry() -> str:
    with _beginning:
        return entry_of_caller()
    return "iter"


class WatchedRun(AbstractAsyncContextManager[Any]):
    """The library's context manager of a run, which begins a Call when entered and ends it when left."""

    def __init__(
        self,
        telemetry: Telemetry,
        registry: AgentRegistry,
        wrapped: Any,
        agent: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._start: tuple[Any, ...] = (telemetry, registry, agent, _entry())
        self._arguments = {"user_prompt": args[0], **kwargs} if args else kwargs
        self._capabilities = list(kwargs.get("capabilities") or ())  # ours joins them once the Call has begun
        self._manager = wrapped(*args, **{**kwargs, "capabilities": self._capabilities})
        self._execution: AgentExecution | None = None
        self._run: Any = None

    async def __aenter__(self) -> Any:
        """Begin the Call, then the run."""
        self._begin()
        try:
            self._run = await self._manager.__aenter__()
        except BaseException as error:
            self._end(error)
            raise
        return self._run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        """End the run, then the Call, with what the application sees."""
        try:
            suppressed = await self._manager.__aexit__(kind, error, trace)
        except BaseException as raised:
            self._end(raised)
            raise
        self._end(None if suppressed else error, mended=error)
        return suppressed

    def __del__(self) -> None:
        """A run that was never left, such as a stream that was dropped, ends with the last reference."""
        with _ending:
            if self._execution is not None and self._execution.live:
                self._execution.dropped()

    def _begin(self) -> None:
        with _beginning:
            from guardspan.pydantic_ai.capability import GuardspanCapability

            telemetry, registry, agent, entry = self._start
            execution = AgentExecution(telemetry, registry, agent, entry, self._arguments)
            self._execution = execution
            execution.recorder.enter()
            if execution.recorder.recording:
                self._capabilities.append(GuardspanCapability(execution))
        with _walking:
            if self._execution is not None:
                self._execution.tell_of_history(self._arguments)
        self._start, self._arguments = (), {}

    def _end(self, error: BaseException | None, mended: BaseException | None = None) -> None:
        """End the Call and put the context back; the run is let go of."""
        with _ending:
            self._tell(error, mended)
        with _ending:
            if self._execution is not None and self._execution.live:  # a fault of ours kept it from its end
                self._execution.recorder.end(CallResult(semconv.PASS if error is None else semconv.ERROR))
        with _ending:
            if self._execution is not None:
                self._execution.recorder.leave()
        self._execution = self._run = None

    def _tell(self, error: BaseException | None, mended: BaseException | None) -> None:
        execution = self._execution
        if execution is None or not execution.live:
            return
        result = getattr(self._run, "result", None)
        if error is not None:
            execution.failed(error)
        elif result is not None:
            execution.finished(result.output, self._run.all_messages(), mended)
        else:
            execution.left()
