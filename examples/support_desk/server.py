"""A scripted, OpenAI-compatible chat server on a free loopback port.

It speaks `POST /v1/chat/completions`, whole or streamed (server-sent events), so that any OpenAI-style
client works against it unchanged:

    def respond(request: dict) -> Reply:
        return Reply("Hello.", usage=usage(12, 3), model="gpt-4o-2024-08-06")

    with ScriptedServer(respond) as server:
        litellm.completion("gpt-4o", messages, api_base=server.base_url, api_key="any")
        assert server.requests[0].body["model"] == "gpt-4o"

`respond` gets the request's JSON body. It is called in the connection's own thread, so it may run many
times at once. An exception in it becomes a 500 answer that names the exception.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

CHAT_PATH = "/v1/chat/completions"

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the server answers to one request.

    `text` is the whole answer. In a stream it is sent word by word, unless `chunks` gives the pieces; an
    iterator that waits between its pieces sets the stream's pace. `usage` is sent as it is, and left out
    when None; see `usage()`. `model` and `response_id` default to the request's model and a running number,
    `finish_reason` to what OpenAI says: `tool_calls` where there are any, else `stop`.

    `tool_calls` are calls in OpenAI's form; see `tool_call()`. A call without an id gets a new one. In a
    stream each call follows the text: its name first, then its arguments piece by piece.

    A `status` of 400 and above makes an error answer, with `error` as its message. Before anything is sent
    the server waits `delay` seconds, and until `hold` is set. `break_after=N` closes the connection after N
    pieces of a stream, or at once (N=0) when the request asked for no stream. `headers` are sent too, and
    `extra` is merged into the top level of the body (of every chunk in a stream).
    """

    text: str | None = ""
    usage: Mapping[str, Any] | None = None
    model: str | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    status: int = 200
    error: str = "The server had an error while processing your request."
    delay: float = 0.0
    hold: threading.Event | None = None
    chunks: Iterable[str] | None = None
    break_after: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def pieces(self) -> Iterable[str]:
        """The pieces of a stream: `chunks`, or else the words of `text` with the space before them."""
        if self.chunks is not None:
            return self.chunks
        return _words(self.text or "")

    @property
    def ending(self) -> str:
        """The finish reason that is sent."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")


@dataclass(frozen=True)
class Received:
    """One request as it came in: its path, its headers (names in lower case) and its JSON body."""

    path: str
    headers: Mapping[str, str]
    body: JsonObject


Respond = Callable[[JsonObject], Reply]


def usage(prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0) -> JsonObject:
    """Token counts in OpenAI's form: `prompt` includes the cached ones, `completion` the reasoning ones."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
    }


def tool_call(name: str, /, *, call_id: str | None = None, **arguments: Any) -> JsonObject:
    """A call of a function tool in OpenAI's form, as it stands in `Reply.tool_calls`."""
    call = {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"id": call_id, **call} if call_id else call


class ScriptedServer:
    """Serves what `respond` says, from `start()` or `with` until `close()`.

    `requests` holds every request received, in the order of arrival. `close()` also ends answers that
    still wait or stream.
    """

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.requests: list[Received] = []
        self.closing = threading.Event()
        self._numbers = itertools.count(1)
        self._http = _HttpServer(("127.0.0.1", 0), _Handler)
        self._http.script = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        """What a client takes as its API base, e.g. `http://127.0.0.1:40123/v1`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def start(self) -> ScriptedServer:
        """Begin to serve, in a thread of its own."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving, close every connection and free the port."""
        self.closing.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.close_connections()
        self._http.server_close()

    def __enter__(self) -> ScriptedServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reply_to(self, received: Received) -> Reply:
        """Note the request, ask the script, and wait as long as its reply wants."""
        self.requests.append(received)
        try:
            reply = self.respond(received.body)
        except Exception as fault:
            return Reply(status=500, error=f"The script failed: {type(fault).__name__}: {fault}")
        self.closing.wait(reply.delay)
        while reply.hold and not reply.hold.wait(0.02) and not self.closing.is_set():
            continue
        return reply

    def next_id(self) -> str:
        """A response id that no other response of this server has."""
        return f"chatcmpl-{self._next_number()}"

    def next_call_id(self) -> str:
        """An id of a tool call that no other call of this server has."""
        return f"call_{self._next_number()}"

    def _next_number(self) -> str:
        return f"{next(self._numbers):08d}"


class _HttpServer(ThreadingHTTPServer):
    """Knows its open connections, so that they can be closed with it."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    script: ScriptedServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self._open):
            _shut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no news."""


class _Handler(BaseHTTPRequestHandler):
    """One connection: reads requests, writes answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer
    statuses: ClassVar[dict[int, str]] = {
        400: "invalid_request_error",
        401: "authentication_error",
        429: "rate_limit_exceeded",
    }

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != CHAT_PATH:
            return self._send_error(Reply(status=404, error=f"Unknown path; there is only {CHAT_PATH}."))
        try:
            body = json.loads(raw)
            model = body["model"]
        except (ValueError, KeyError, TypeError):
            return self._send_error(Reply(status=400, error="The body must be a JSON object with a model."))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.script.reply_to(Received(self.path, headers, body))
        return self._answer(reply, body, reply.model or model)

    def _answer(self, reply: Reply, body: JsonObject, model: str) -> None:
        if reply.status >= 400:
            return self._send_error(reply)
        if body.get("stream"):
            include_usage = (body.get("stream_options") or {}).get("include_usage", False)
            return self._stream(
                _Envelope(self.server.script, reply, model, "chat.completion.chunk"), include_usage
            )
        if reply.break_after is not None:
            return self._break()
        return self._send_whole(_Envelope(self.server.script, reply, model, "chat.completion"))

    def _send_whole(self, envelope: _Envelope) -> None:
        reply = envelope.reply
        choice = {"index": 0, "message": envelope.message(), "logprobs": None, "finish_reason": reply.ending}
        body = envelope.wrap([choice])
        if reply.usage is not None:
            body["usage"] = dict(reply.usage)
        self._send_json(200, body, reply.headers)

    def _send_error(self, reply: Reply) -> None:
        kind = self.statuses.get(reply.status, "server_error")
        body = {"error": {"message": reply.error, "type": kind, "param": None, "code": kind}}
        self._send_json(reply.status, body, reply.headers)

    def _send_json(self, status: int, body: JsonObject, headers: Mapping[str, str]) -> None:
        data = json.dumps(body).encode()
        self._start(status, {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers})
        self.wfile.write(data)

    def _stream(self, envelope: _Envelope, include_usage: bool) -> None:
        reply = envelope.reply
        self._start(
            200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **reply.headers}
        )
        self._send_event(envelope.delta({"role": "assistant", "content": ""}))
        for number, delta in enumerate(envelope.pieces()):
            if number == reply.break_after or self.server.script.closing.is_set():
                return self._break()
            self._send_event(envelope.delta(delta))
        self._send_event(envelope.delta({}, reply.ending))
        if include_usage and reply.usage is not None:
            self._send_event({**envelope.wrap([]), "usage": dict(reply.usage)})
        self._send_data(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _send_event(self, event: JsonObject) -> None:
        self._send_data(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _send_data(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _break(self) -> None:
        """Close the connection in the middle, as a provider that goes down does."""
        self.close_connection = True
        _shut(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the terminal belongs to the application."""


class _Envelope:
    """What every object of one answer shares: its id, its time, its model."""

    def __init__(self, script: ScriptedServer, reply: Reply, model: str, kind: str) -> None:
        self.reply = reply
        self._calls = [{"id": script.next_call_id(), **call} for call in reply.tool_calls]
        self._shared = {
            "id": reply.response_id or script.next_id(),
            "object": kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": "fp_support",
            **reply.extra,
        }

    def wrap(self, choices: list[JsonObject]) -> JsonObject:
        return {**self._shared, "choices": choices}

    def message(self) -> JsonObject:
        """The whole answer; where there are only tool calls, its text is null, as with OpenAI."""
        message = {"role": "assistant", "content": self.reply.text, "refusal": None}
        if not self._calls:
            return message
        return {**message, "content": self.reply.text or None, "tool_calls": self._calls}

    def pieces(self) -> Iterator[JsonObject]:
        """What the deltas of a stream hold, in order."""
        for piece in self.reply.pieces():
            yield {"content": piece}
        for index, call in enumerate(self._calls):
            function = call["function"]
            start = {**call, "function": {**function, "arguments": ""}}
            yield {"tool_calls": [{"index": index, **start}]}
            for piece in _words(function["arguments"]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def delta(self, delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
        return self.wrap([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}])


def _words(text: str) -> list[str]:
    """The words of a text, each with the space before it; joined, they are the text."""
    return re.findall(r"\s*\S+|\s+", text)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was first
