"""The two proxies that keep a recorder open while a stream is read.

A proxy stays lazy: nothing runs before the consumer asks for the first item. The recorder's context is
current only while the inner stream works, so the consumer's own spans keep their parent, and a stream
may be read by another thread than the one that made it. A stream that is left, or never begun, ends its
recorder when it is closed or dropped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any, Protocol

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from guardspan.safety import Quietly, detach

_observing = Quietly("observe a stream")


class Forwarding:
    """Stands for another object: of its class, and with its attributes, save for what a subclass does itself.

    None of wrapt's proxies: they have every special method there is, so that a stream would seem to have a
    length and to be a context manager, and could neither be given to ``itertools.tee`` nor be dumped.
    """

    __slots__ = ("__weakref__", "__wrapped__")

    def __init__(self, wrapped: Any) -> None:
        self.__wrapped__ = wrapped

    @property  # type: ignore[misc]  # nobody may set it
    def __class__(self) -> Any:
        return self.__wrapped__.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __bool__(self) -> bool:
        return bool(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__wrapped__.__reduce_ex__(protocol)


class Restoring(Forwarding):
    """A generator that may hold a span current over its yields, as Guardrails' own tracing does.

    Closed or dropped, it would make current what was so when it began; what is current now stays instead.
    """

    __slots__ = ()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self.__wrapped__)

    def close(self) -> None:
        """As a generator's own ``close``."""
        current = otel_context.get_current()
        try:
            self.__wrapped__.close()
        finally:
            if otel_context.get_current() is not current:
                otel_context.attach(current)

    def __del__(self) -> None:
        self.close()


class StreamObserver(Protocol):
    """What a proxy tells of its stream. No method may raise, save for faults of our own."""

    def working(self) -> Context:
        """The context in which the stream works; called before each item, first of all before the first."""
        ...

    def item(self, value: Any) -> None:
        """An item is about to be handed to the consumer."""
        ...

    def finished(self, error: BaseException | None) -> None:
        """The stream was read to its end, or raised."""
        ...

    def left(self) -> None:
        """The consumer closed or dropped the stream; also called after :meth:`finished`."""
        ...


class _Proxy(Forwarding):
    """What both kinds share: which context the stream works in, and how it ends."""

    __slots__ = ("_self_begun", "_self_observer")

    def __init__(self, wrapped: Any, observer: StreamObserver) -> None:
        super().__init__(wrapped)
        self._self_observer = observer
        self._self_begun = False

    def _self_enter(self) -> Any:
        self._self_begun = True
        with _observing:
            return otel_context.attach(self._self_observer.working())
        return None

    def _self_leave(self, token: Any) -> None:
        if token is not None:
            detach(token)

    def _self_item(self, value: Any) -> None:
        with _observing:
            self._self_observer.item(value)

    def _self_end(self, error: BaseException | None) -> None:
        with _observing:
            self._self_observer.finished(error)

    def _self_raised(self, error: BaseException) -> None:
        """Only what ended the stream is its end: asking it for more while it works, say, raises as well."""
        wrapped = self.__wrapped__
        if getattr(wrapped, "gi_frame", None) is None and getattr(wrapped, "ag_frame", None) is None:
            self._self_end(error)

    def _self_closed(self, running: str) -> None:
        """A stream that is working refuses to be closed, and goes on."""
        if not getattr(self.__wrapped__, running, False):
            self._self_left()

    def _self_left(self) -> None:
        with _observing:
            self._self_observer.left()

    def __del__(self) -> None:
        self._self_left()


class SyncStream(_Proxy):
    """A generator, observed."""

    __slots__ = ()

    def __iter__(self) -> SyncStream:
        return self

    def __next__(self) -> Any:
        return self._self_advance(self.__wrapped__.__next__)

    def send(self, value: Any) -> Any:
        """As a generator's own ``send``."""
        return self._self_advance(self.__wrapped__.send, value)

    def throw(self, *error: Any) -> Any:
        """As a generator's own ``throw``."""
        try:
            return self._self_advance(self.__wrapped__.throw, *error)
        finally:
            del error  # its traceback leads here: a circle that would keep the stream

    def _self_advance(self, step: Any, *arguments: Any) -> Any:
        token = self._self_enter()
        try:
            value = step(*arguments)
        except StopIteration:
            self._self_end(None)
            raise
        except BaseException as error:
            self._self_raised(error)
            raise
        finally:
            self._self_leave(token)
            del arguments  # as in `throw`
        self._self_item(value)
        return value

    def close(self) -> None:
        """As a generator's own ``close``."""
        token = self._self_enter() if self._self_begun else None
        try:
            self.__wrapped__.close()
        finally:
            self._self_leave(token)
            self._self_closed("gi_running")


class AsyncStream(_Proxy):
    """An async generator, observed."""

    __slots__ = ()

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Any:
        return await self._self_advance(self.__wrapped__.__anext__)

    async def asend(self, value: Any) -> Any:
        """As an async generator's own ``asend``."""
        return await self._self_advance(self.__wrapped__.asend, value)

    async def athrow(self, *error: Any) -> Any:
        """As an async generator's own ``athrow``."""
        try:
            return await self._self_advance(self.__wrapped__.athrow, *error)
        finally:
            del error  # its traceback leads here: a circle that would keep the stream

    async def _self_advance(self, step: Any, *arguments: Any) -> Any:
        token = self._self_enter()
        try:
            value = await step(*arguments)
        except StopAsyncIteration:
            self._self_end(None)
            raise
        except BaseException as error:
            self._self_raised(error)
            raise
        finally:
            self._self_leave(token)
            del arguments  # as in `throw`
        self._self_item(value)
        return value

    async def aclose(self) -> None:
        """As an async generator's own ``aclose``."""
        token = self._self_enter() if self._self_begun else None
        try:
            await self.__wrapped__.aclose()
        finally:
            self._self_leave(token)
            self._self_closed("ag_running")


def observe(stream: Any, observer: StreamObserver) -> Generator[Any, Any, Any] | AsyncGenerator[Any, Any]:
    """The stream with an observer, of the same kind as it was."""
    proxy = AsyncStream if hasattr(stream, "__anext__") else SyncStream
    return proxy(stream, observer)
