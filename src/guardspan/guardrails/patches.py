"""Where Guardrails is patched. A patch finds the moment and hands over; it knows nothing of spans.

One set of patch points holds from 0.6 to 0.11. Arguments are read by name, results and exceptions go
through unchanged, and every hand-over is guarded: a fault of ours leaves the call as it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import wrapt
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import get_current_span

from guardspan import semconv
from guardspan.guardrails.execution import GuardExecution
from guardspan.guardrails.guards import GuardRegistry
from guardspan.lifecycle import current_owner
from guardspan.patching import Patches, Wrapper
from guardspan.safety import Quietly, detach
from guardspan.streams import Forwarding, Restoring, observe
from guardspan.telemetry import Telemetry
from guardspan.views import CallResult

if TYPE_CHECKING:
    ObjectProxy = wrapt.ObjectProxy[Any]
else:  # before wrapt 2 the class takes no parameters
    ObjectProxy = wrapt.ObjectProxy

ENTRIES = ("__call__", "parse", "validate")
_POSITIONAL = {"__call__": ("llm_api",), "parse": ("llm_output",), "validate": ("llm_output",)}
_FIRST_STEP_ARGUMENTS = ("index", "output_schema", "call_log")
_FIRST_STREAM_ARGUMENTS = (
    "index",
    "api",
    "messages",
    "prompt_params",
    "output_schema",
    "call_log",
    "output",
)

_DISABLED = 1
"""True, and yet not the `True` that an application sets itself, which has to stay when ours is undone."""

_following = Quietly("follow a guard's execution")


def patch_guardrails(patches: Patches, telemetry: Telemetry) -> None:
    """Patch the imported library.

    Raises:
        AttributeError, KeyError, ImportError: the library is not laid out as expected; call
            :meth:`Patches.undo` then.
    """
    from guardrails import llm_providers, validator_service
    from guardrails.async_guard import AsyncGuard
    from guardrails.guard import Guard
    from guardrails.run.async_runner import AsyncRunner
    from guardrails.run.async_stream_runner import AsyncStreamRunner
    from guardrails.run.runner import Runner
    from guardrails.run.stream_runner import StreamRunner
    from guardrails.settings import settings
    from guardrails.telemetry import open_inference
    from guardrails.validator_base import Validator

    opener = _Opener(telemetry)
    for entry in ENTRIES:
        patches.wrap(Guard, entry, _sync_entry(opener, entry))
        patches.wrap(AsyncGuard, entry, _async_entry(opener, entry))
    patches.wrap(Guard, "_execute", _entered)
    patches.wrap(AsyncGuard, "_execute", _entered)
    patches.wrap(Runner, "step", _sync_step)
    patches.wrap(AsyncRunner, "async_step", _async_step)
    patches.wrap(StreamRunner, "step", _stream_step)
    patches.wrap(AsyncStreamRunner, "async_step", _async_stream_step)
    patches.wrap(Runner, "validate_messages", _sync_inputs)
    patches.wrap(AsyncRunner, "validate_messages", _async_inputs)
    patches.wrap(validator_service, "validate", _input_validation)
    patches.wrap(validator_service, "async_validate", _input_validation)
    patches.wrap(Runner, "call", _sync_llm)
    patches.wrap(AsyncRunner, "async_call", _async_llm)
    patches.wrap(llm_providers, "trace_operation", _response)
    patches.wrap(open_inference, "get_span", _foreign_span)
    for name in ("async_validate", "async_validate_stream"):
        if name in vars(Validator):
            patches.wrap(Validator, name, _in_executor)
    if telemetry.settings.guardrails_tracing == "off":
        patches.put(settings, "disable_tracing", _DISABLED)


def _execution(call_log: Any = None, runner: Any = None) -> GuardExecution | None:
    """The execution of the current context, unless instrumentation is suppressed or the work is another's.

    Another's work: that of a guard which was called where instrumentation was suppressed, and whose stream
    is read within this execution.
    """
    owner = current_owner()
    if not isinstance(owner, GuardExecution) or not owner.recorder.recording:
        return None  # a Call that is not sampled needs no steps, only its end
    if not is_instrumentation_enabled():
        return None
    if call_log is not None and not owner.owns(call_log):
        return None
    if runner is not None and not owner.runs(runner):
        return None
    return owner


class _Telling:
    """A piece of an execution whose end is told, however it ends; a context given is current within it."""

    __slots__ = ("_context", "_ended", "_token")

    def __init__(self, ended: Callable[[BaseException | None], None], context: Context | None = None) -> None:
        self._ended = ended
        self._context = context

    def __enter__(self) -> None:
        self._token = otel_context.attach(self._context) if self._context is not None else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with _following:
                self._ended(error)
        finally:
            if self._token is not None:
                detach(self._token)


# --- entries -------------------------------------------------------------------------------------


class _Opener:
    """Begins an execution at the outermost entry: `validate` calls `parse`, which is one call and not two."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._registry = GuardRegistry(telemetry.content.redactor)

    def begin(
        self, guard: Any, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> GuardExecution | None:
        """The execution that begins here; None within an entry of the same call, or when suppressed."""
        with _following:
            if not is_instrumentation_enabled():
                return None
            outer = current_owner()
            if isinstance(outer, GuardExecution) and outer.guard_id == id(guard) and not outer.entered:
                return None
            arguments = {**dict(zip(_POSITIONAL[entry], args, strict=False)), **kwargs}
            return GuardExecution(self._telemetry, self._registry.facts(guard), guard, entry, arguments)
        return None


def _sync_entry(opener: _Opener, entry: str) -> Wrapper:
    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        execution = opener.begin(instance, entry, args, kwargs)
        if execution is None:
            return wrapped(*args, **kwargs)
        with _call(execution):
            result = wrapped(*args, **kwargs)
        return _returned(execution, result)

    return wrapper


def _async_entry(opener: _Opener, entry: str) -> Wrapper:
    async def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        execution = opener.begin(instance, entry, args, kwargs)
        if execution is None:
            return await wrapped(*args, **kwargs)
        with _call(execution):
            result = await wrapped(*args, **kwargs)
        return _returned(execution, result)

    return wrapper


def _call(execution: GuardExecution) -> _Telling:
    def ended(error: BaseException | None) -> None:
        if error is None:
            return
        with _following:
            execution.failed(error)
        execution.recorder.end(CallResult(semconv.ERROR))  # only where the line above could not

    return _Telling(ended, execution.recorder.context)


def _returned(execution: GuardExecution, result: Any) -> Any:
    """The result as the application gets it; a stream is handed out with the execution as its observer."""
    with _following:
        kind = type(result)
        if hasattr(kind, "__next__") or hasattr(kind, "__anext__"):
            return observe(_restoring(result), execution)
        execution.returned(result)
    if not execution.recorder.ended:  # a fault of ours kept it open
        passed = getattr(result, "validation_passed", False)
        execution.recorder.end(CallResult(semconv.PASS if passed else semconv.FAIL))
    return result


def _entered(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    owner = current_owner()
    if isinstance(owner, GuardExecution) and owner.guard_id == id(instance):
        owner.entered = True
    return wrapped(*args, **kwargs)


# --- steps ---------------------------------------------------------------------------------------


def _named(names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _sync_step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    named = _named(_FIRST_STEP_ARGUMENTS, args, kwargs)
    execution = _execution(named.get("call_log"))
    if execution is None:
        return wrapped(*args, **kwargs)
    with _Telling(execution.step_ends, execution.recorder.context):
        _step_begins(execution, instance, named)
        return wrapped(*args, **kwargs)


async def _async_step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    named = _named(_FIRST_STEP_ARGUMENTS, args, kwargs)
    execution = _execution(named.get("call_log"))
    if execution is None:
        return await wrapped(*args, **kwargs)
    with _Telling(execution.step_ends, execution.recorder.context):
        _step_begins(execution, instance, named)
        return await wrapped(*args, **kwargs)


def _stream_step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Only notes the step: a stream's own observer sees its beginning and end."""
    named = _named(_FIRST_STREAM_ARGUMENTS, args, kwargs)
    execution = _execution(named.get("call_log"))
    if execution is None:
        return wrapped(*args, **kwargs)
    _step_begins(execution, instance, named)
    stream = _restoring(wrapped(*args, **kwargs))
    if isinstance(stream, Restoring):
        execution.kept_stream = stream
    return stream


def _restoring(stream: Any) -> Any:
    """A sync stream within which Guardrails' own tracing may hold a span current."""
    from guardrails.settings import settings

    return stream if settings.disable_tracing or not hasattr(stream, "__next__") else Restoring(stream)


def _async_stream_step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    named = _named(_FIRST_STEP_ARGUMENTS, args, kwargs)
    execution = _execution(named.get("call_log"))
    if execution is not None:
        _step_begins(execution, instance, named)
    return wrapped(*args, **kwargs)


def _step_begins(execution: GuardExecution, runner: Any, named: Mapping[str, Any]) -> None:
    with _following:
        execution.step_begins(runner, named["call_log"], named["index"])


# --- validation of the messages ------------------------------------------------------------------


def _sync_inputs(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    execution = _execution(runner=instance)
    if execution is None:
        return wrapped(*args, **kwargs)
    with _Telling(execution.inputs_end):
        return wrapped(*args, **kwargs)


async def _async_inputs(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    execution = _execution(runner=instance)
    if execution is None:
        return await wrapped(*args, **kwargs)
    with _Telling(execution.inputs_end):
        return await wrapped(*args, **kwargs)


def _input_validation(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Sync and async alike: the call itself, or the coroutine's creation, comes right before the work."""
    if kwargs.get("path") == "messages":
        execution = _execution()
        if execution is not None:
            with _following:
                execution.input_begins(kwargs["iteration"])
    return wrapped(*args, **kwargs)


# --- the LLM -------------------------------------------------------------------------------------


def _sync_llm(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    response = wrapped(*args, **kwargs)
    execution = _execution(runner=instance)
    if execution is not None:
        with _following:
            if response.stream_output is not None:
                response.stream_output = _Chunks(response.stream_output, execution)
    return response


async def _async_llm(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    response = await wrapped(*args, **kwargs)
    execution = _execution(runner=instance)
    if execution is not None:
        with _following:
            if response.async_stream_output is not None:
                response.async_stream_output = _AsyncChunks(response.async_stream_output, execution)
    return response


class _Passing(Forwarding):
    """The provider's stream, each chunk shown to the execution as it passes."""

    __slots__ = ("_self_execution",)

    def __init__(self, wrapped: Any, execution: GuardExecution) -> None:
        super().__init__(wrapped)
        self._self_execution = execution

    def _self_shown(self, chunk: Any) -> Any:
        with _following:
            self._self_execution.chunk(chunk)
        return chunk


class _Chunks(_Passing):
    """A sync stream."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        try:
            chunk = next(self.__wrapped__)
        except StopIteration:
            raise
        except BaseException as error:
            self._self_execution.llm_failed(error)
            raise
        return self._self_shown(chunk)


class _AsyncChunks(_Passing):
    """An async stream."""

    __slots__ = ()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await self.__wrapped__.__anext__()
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self._self_execution.llm_failed(error)
            raise
        return self._self_shown(chunk)


def _response(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Guardrails traces a provider's raw answer here, in the Iteration's context, before it converts it."""
    if "output_value" in kwargs:
        execution = _execution()
        if execution is not None:
            with _following:
                execution.responded(kwargs["output_value"])
    return wrapped(*args, **kwargs)


def _foreign_span(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Guardrails writes prompts, answers and keys onto the current span; only one of its own may take them.

    With its tracing off no current span is its own. With it on, ours and the application's are still not.
    """
    from guardrails.settings import settings

    if settings.disable_tracing:
        return None
    span = wrapped(*args, **kwargs)
    scope = getattr(span, "instrumentation_scope", None)
    own = getattr(scope, "name", "").startswith("guardrails") and span is get_current_span()
    return span if own else None


# --- validators ----------------------------------------------------------------------------------


class _InContext(ObjectProxy):
    """A validator whose work is done by a thread of an executor, which has no context of its own."""

    def __init__(self, wrapped: Any) -> None:
        super().__init__(wrapped)
        self._self_context = otel_context.get_current()

    def validate(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_run(self.__wrapped__.validate, args, kwargs)

    def validate_stream(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_run(self.__wrapped__.validate_stream, args, kwargs)

    def _self_run(self, work: Any, args: Any, kwargs: Any) -> Any:
        token = otel_context.attach(self._self_context)
        try:
            return work(*args, **kwargs)
        finally:
            otel_context.detach(token)


def _in_executor(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not isinstance(current_owner(), GuardExecution) or not inspect.ismethod(wrapped):
        return wrapped(*args, **kwargs)
    return wrapped.__func__(_InContext(instance), *args, **kwargs)
