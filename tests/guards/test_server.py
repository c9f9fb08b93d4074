"""Guards behind a Guardrails server, as far as the client sees them: a Call, and no Iterations."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

import pytest
from guardrails import AsyncGuard, Guard
from guardrails.settings import settings
from packaging.version import Version
from recording import Recording
from spans import by_kind, everything

from guardspan import semconv

SECRET = "sk-proj-" + "a1B2" * 12
# Before 0.8 a server is a setting for all guards; before 0.10 its client tells less of a failure.
FOR_ALL = "use_server" not in inspect.signature(Guard.__init__).parameters
OLD = Version(version("guardrails-ai")) < Version("0.10")
PASSED = {"callId": "7", "validatedOutput": "fine", "validationPassed": True, "rawLlmOutput": "fine"}
FAILED = {
    **PASSED,
    "validatedOutput": None,
    "validationPassed": False,
    "validationSummaries": [
        {
            "validatorName": "NoBad",
            "validatorStatus": "fail",
            "propertyPath": "$",
            "failureReason": "it is bad",
        }
    ],
}


class Server:
    """A server that speaks the part of the Guardrails API that a guard calls."""

    def __init__(self) -> None:
        self.status = 200
        self.answers: list[dict[str, Any]] = [PASSED]
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(server.status, server.answers)

            def do_GET(self) -> None:
                """Older clients fetch their guard first."""
                self.answer(200, [{"id": "1", "name": "remote"}])

            def answer(self, status: int, answers: list[dict[str, Any]]) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                for answer in answers:
                    self.wfile.write(json.dumps(answer).encode() + b"\n")
                    self.wfile.flush()

            def log_message(self, *args: object) -> None:
                """Tests are quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server; again is harmless."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, whose histories nobody asks for."""
    monkeypatch.setenv("GUARD_HISTORY_ENABLED", "false")
    if FOR_ALL:
        monkeypatch.setattr(settings, "use_server", True)
    running = Server()
    yield running
    running.close()


def guard(kind: type, server: Server) -> Any:
    """A guard that runs on the server."""
    chosen = {} if FOR_ALL else {"use_server": True}
    return kind(name="remote", base_url=server.url, api_key=SECRET, **chosen)


def validate(remote: Any) -> Any:
    """Validate by the server; what the guard raises is given back."""
    try:
        result = remote.validate("some text")
        return asyncio.run(_awaited(result)) if asyncio.iscoroutine(result) else result
    except Exception as error:
        return error


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


HOST = "server.address=127.0.0.1"
ERROR = "guardrails.errors.ValidationError"
REFUSAL = "guardrails_api_client.exceptions.BadRequestException" if OLD else "httpx.HTTPStatusError"
BREAKDOWN = "guardrails_api_client.exceptions.ServiceException" if OLD else None
CASES: dict[str, tuple[int, dict[str, Any], str]] = {
    "passes": (200, PASSED, f"guard remote validate x0 [pass] {HOST}"),
    "fails": (
        200,
        FAILED,
        f"guard remote validate x0 [fail] {HOST} failure.class=validation"
        + ("" if OLD else " validators.failed=NoBad"),
    ),
    "refused": (
        400,
        {},
        f"guard remote validate x0 [error] ! {ERROR} {HOST} failure.class=validation "
        f"failure.cause={REFUSAL} error.type={ERROR}",
    ),
    "broken": (
        500,
        {},
        f"guard remote validate x0 [error] ! {BREAKDOWN} {HOST} failure.class=provider"
        + (f" error.type={BREAKDOWN}" if BREAKDOWN else ""),
    ),
}


@pytest.mark.parametrize("kind", [Guard, AsyncGuard])
@pytest.mark.parametrize("case", CASES)
def test_a_guard_on_a_server_is_a_call(recording: Recording, server: Server, kind: type, case: str) -> None:
    """Its status and failed validators are what the client was told; the host is named, the key is not."""
    server.status, answer, expected = CASES[case]
    server.answers = [answer]
    validate(guard(kind, server))
    assert recording.tree() == expected
    assert SECRET not in everything(recording.spans)


def test_a_server_that_is_not_there_is_a_provider_error(recording: Recording, server: Server) -> None:
    """The exception is the client library's own."""
    remote = guard(Guard, server)
    server.close()
    error = validate(remote)
    (call,) = by_kind(recording.spans, "call")
    attributes = dict(call.attributes or {})
    assert isinstance(error, Exception)
    assert attributes[semconv.STATUS] == "error"
    assert attributes[semconv.FAILURE_CLASS] == "provider"
    assert attributes[semconv.ERROR_TYPE] == f"{type(error).__module__}.{type(error).__qualname__}"


def _read_sync(server: Server, most: int) -> None:
    stream = guard(Guard, server)(messages=[{"role": "user", "content": "hi"}], model="m", stream=True)
    for number, _ in enumerate(stream, 1):
        if number == most:
            stream.close()
            return


def _read_async(server: Server, most: int) -> None:
    async def main() -> None:
        called = guard(AsyncGuard, server)(
            messages=[{"role": "user", "content": "hi"}], model="m", stream=True
        )
        stream = await called
        number = 0
        async for _ in stream:
            number += 1
            if number == most:
                await stream.aclose()
                return

    asyncio.run(main())


@pytest.mark.parametrize("read", [_read_sync, _read_async])
@pytest.mark.parametrize(
    ("answers", "most", "expected"),
    [
        ([PASSED], 99, "[pass]"),
        ([FAILED], 99, "[fail]"),
        ([PASSED], 1, "[not run]"),
    ],
    ids=["passes", "fails", "left"],
)
def test_a_stream_from_a_server(
    recording: Recording,
    server: Server,
    read: Callable[[Server, int], None],
    answers: list[dict[str, Any]],
    most: int,
    expected: str,
) -> None:
    """Its chunks are all that is known: one that failed makes the Call a failure."""
    server.answers = answers
    read(server, most)
    assert recording.tree().startswith(f"guard remote __call__ x0 {expected}")
