"""The capability that each run is given: the library's public hooks, handed on to the run's execution.

It wraps all other capabilities, the library's own tracing included, so that what it sees is what becomes of
the run. It adds nothing to a request, and takes nothing from an answer. Hooks that would switch a run to
streaming, or the running of its nodes to another path, are left alone.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry import context as otel_context
from pydantic_ai import ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, Instrumentation
from pydantic_graph import End

from guardspan.pydantic_ai.execution import AgentExecution
from guardspan.safety import Quietly, detach

_following = Quietly("follow an agent's run")

Handler = Callable[..., Awaitable[Any]]


class GuardspanCapability(AbstractCapability[Any]):
    """Watches one run.

    Args:
        execution: the run.
    """

    def __init__(self, execution: AgentExecution) -> None:
        self._execution = execution
        self.id = None
        self.description = None
        self.defer_loading = False

    def get_ordering(self) -> CapabilityOrdering:
        """Outside of everything, the library's own tracing included."""
        return CapabilityOrdering(position="outermost", wraps=[Instrumentation])

    async def wrap_run(self, ctx: Any, *, handler: Handler) -> Any:
        """The run begins; how it ends is seen where the application sees it."""
        with _following:
            if self._execution.live:
                self._execution.begins(ctx)
        return await handler()

    async def before_run(self, ctx: Any) -> None:
        """All that wraps the run is in place."""
        with _following:
            self._execution.began()

    async def before_node_run(self, ctx: Any, *, node: Any) -> Any:
        """A request is about to be made."""
        with _following:
            if isinstance(node, ModelRequestNode) and self._execution.live:
                self._execution.request_is_next(ctx, node.request)
        return node

    async def after_node_run(self, ctx: Any, *, node: Any, result: Any) -> Any:
        """The run may have its result."""
        with _following:
            if isinstance(result, End) and self._execution.live:
                self._execution.result_is_known(ctx)
        return result

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Handler) -> Any:
        """One request, with the Iteration current."""
        execution = self._execution
        with _following:
            if execution.live:
                execution.request_begins(ctx, request_context)
        with _Within(execution):
            try:
                response = await handler(request_context)
            except BaseException as error:
                with _following:
                    execution.request_raised(error)
                raise
        with _following:
            execution.responded(response)
        return response

    async def wrap_tool_validate(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Handler
    ) -> Any:
        """The arguments of a tool call are checked."""
        return await self._tool(tool_def.name, handler, args)

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Handler
    ) -> Any:
        """A tool runs."""
        return await self._tool(tool_def.name, handler, args)

    async def _tool(self, name: str, handler: Handler, arguments: Any) -> Any:
        with _Within(self._execution):
            try:
                return await handler(arguments)
            except BaseException as error:
                with _following:
                    self._execution.tool_raised(name, error)
                raise

    async def wrap_output_validate(
        self, ctx: Any, *, output_context: Any, output: Any, handler: Handler
    ) -> Any:
        """An output is parsed into its type."""
        if ctx.partial_output:
            return await handler(output)

        def tell(started_ns: int, error: BaseException | None) -> None:
            self._execution.schema_checked(output_context, output, started_ns, error)

        return await self._output(output, handler, tell)

    async def wrap_output_process(
        self, ctx: Any, *, output_context: Any, output: Any, handler: Handler
    ) -> Any:
        """An output goes through its function and the output validators."""
        if ctx.partial_output:
            return await handler(output)

        def tell(started_ns: int, error: BaseException | None) -> None:
            self._execution.processed(output_context, started_ns, error)

        return await self._output(output, handler, tell)

    async def _output(
        self, output: Any, handler: Handler, tell: Callable[[int, BaseException | None], None]
    ) -> Any:
        started_ns = time.time_ns()
        with _Within(self._execution):
            try:
                result = await handler(output)
            except BaseException as error:
                with _following:
                    tell(started_ns, error)
                raise
        with _following:
            tell(started_ns, None)
        return result


class _Within:
    """The open Iteration is current; afterwards, what was."""

    __slots__ = ("_execution", "_token")

    def __init__(self, execution: AgentExecution) -> None:
        self._execution = execution
        self._token: Any = None

    def __enter__(self) -> None:
        with _following:
            context = self._execution.current()
            if context is not None:
                self._token = otel_context.attach(context)

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            detach(self._token)
