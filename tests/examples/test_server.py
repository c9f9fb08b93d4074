"""The scripted server speaks the protocol that OpenAI-style clients expect, whole and streamed."""

from __future__ import annotations

import concurrent.futures
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import litellm
import openai
import pytest
from support_desk.server import Reply, ScriptedServer, tool_call, usage

TEXT = "Hello there,\n\nyour parcel left."
COUNTS = usage(1200, 40, cached=1024, reasoning=16)
MESSAGES = [{"role": "user", "content": "Where is my parcel?"}]
CALLS = [
    tool_call("find", number="A-1", fast=True),
    tool_call("look up", call_id="call_mine", name="two  words"),
]
CALLED = [("find", {"number": "A-1", "fast": True}), ("look up", {"name": "two  words"})]

Ask = Callable[..., Any]


def by_openai(server: ScriptedServer, **options: Any) -> Any:
    """Ask through the openai package."""
    client = openai.OpenAI(base_url=server.base_url, api_key="key", max_retries=0, timeout=10)
    return client.chat.completions.create(model="gpt-4o", messages=MESSAGES, **options)


def by_litellm(server: ScriptedServer, **options: Any) -> Any:
    """Ask through LiteLLM."""
    return litellm.completion(
        "gpt-4o",
        MESSAGES,
        api_base=server.base_url,
        api_key="key",
        num_retries=0,
        max_retries=0,
        timeout=10,
        **options,
    )


@pytest.fixture(params=[by_openai, by_litellm])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Each of the clients in turn."""
    return request.param


@pytest.fixture
def serve() -> Iterator[Callable[[Reply], ScriptedServer]]:
    """Makes servers that give one reply to everything, and closes them."""
    servers: list[ScriptedServer] = []

    def start(reply: Reply) -> ScriptedServer:
        servers.append(ScriptedServer(lambda request: reply).start())
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def texts(chunks: Any) -> list[str]:
    """The pieces of text in a stream, without the empty ones."""
    return [
        chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content
    ]


def reasons(chunks: Any) -> list[str]:
    """The finish reasons in a stream."""
    return [
        chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason
    ]


def called(calls: Any) -> list[tuple[str, Any]]:
    """Tool calls as a client has read them: names and arguments."""
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


def joined_calls(chunks: Any) -> list[tuple[str, str, Any]]:
    """The tool calls in a stream, put together as clients do: ids, names and arguments."""
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        for delta in (chunk.choices and chunk.choices[0].delta.tool_calls) or ():
            call = calls.setdefault(delta.index, ["", "", ""])
            call[0] += delta.id or ""
            call[1] += delta.function.name or ""
            call[2] += delta.function.arguments or ""
    return [(call_id, name, json.loads(arguments)) for call_id, name, arguments in calls.values()]


def post(server: ScriptedServer, path: str, body: bytes) -> httpx.Response:
    """A request without any client's help."""
    return httpx.post(server.base_url.removesuffix("/v1") + path, content=body, timeout=10)


def test_a_whole_answer_carries_text_usage_model_id_and_finish_reason(ask, serve):
    """What the reply says arrives in the client's own fields."""
    server = serve(
        Reply(TEXT, usage=COUNTS, model="gpt-4o-2024-08-06", finish_reason="length", response_id="chatcmpl-x")
    )
    answer = ask(server)
    assert answer.choices[0].message.content == TEXT
    assert (answer.id, answer.model) == ("chatcmpl-x", "gpt-4o-2024-08-06")
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (1200, 40)
    assert answer.usage.prompt_tokens_details.cached_tokens == 1024
    assert answer.usage.completion_tokens_details.reasoning_tokens == 16


def test_model_and_id_default_to_the_request_and_to_a_new_number(serve):
    """A reply that names neither gets the model asked for, and no two responses share an id."""
    server = serve(Reply(TEXT))
    answers = [by_openai(server), by_openai(server)]
    assert {answer.model for answer in answers} == {"gpt-4o"}
    assert len({answer.id for answer in answers}) == 2
    assert answers[0].usage is None


def test_a_stream_ends_with_its_usage_when_asked(ask, serve):
    """With `include_usage` the last chunk carries the counts, and the pieces join to the text."""
    server = serve(Reply(TEXT, usage=COUNTS))
    chunks = list(ask(server, stream=True, stream_options={"include_usage": True}))
    assert "".join(texts(chunks)) == TEXT
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 1024
    assert reasons(chunks) == ["stop"]


def test_a_stream_has_no_usage_unless_asked(serve):
    """Without `include_usage` no chunk carries counts, as with OpenAI."""
    server = serve(Reply(TEXT, usage=COUNTS))
    assert not [chunk for chunk in by_openai(server, stream=True) if chunk.usage]


@pytest.mark.parametrize("text", ["", " ", "one", "  two  words\n", "línea\n\n• ü 👋🏽 end"])
def test_a_streamed_text_loses_nothing(serve, text):
    """The pieces of any text join to that text."""
    assert "".join(texts(by_openai(serve(Reply(text)), stream=True))) == text


def test_the_pieces_of_a_stream_can_be_given(serve):
    """`chunks` are sent one by one, as they are."""
    assert texts(by_openai(serve(Reply(chunks=["a", "bc", " d"])), stream=True)) == ["a", "bc", " d"]


def test_a_whole_answer_can_be_tool_calls(ask, serve):
    """They arrive in order, with a finish reason that says so, and without a text."""
    choice = ask(serve(Reply(tool_calls=CALLS))).choices[0]
    assert called(choice.message.tool_calls) == CALLED
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None


def test_a_stream_can_be_tool_calls(ask, serve):
    """The deltas join to the calls, and the finish reason says so."""
    chunks = list(ask(serve(Reply(tool_calls=CALLS)), stream=True))
    assert [(name, given) for _, name, given in joined_calls(chunks)] == CALLED
    assert reasons(chunks) == ["tool_calls"]
    assert texts(chunks) == []


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_can_follow_a_text(serve, stream):
    """An answer may say what it does, and another finish reason may be given."""
    answer = by_openai(serve(Reply(TEXT, tool_calls=CALLS, finish_reason="length")), stream=stream)
    if stream:
        chunks = list(answer)
        found = "".join(texts(chunks)), [call[1:] for call in joined_calls(chunks)]
        reason = chunks[-1].choices[0].finish_reason
    else:
        message, reason = answer.choices[0].message, answer.choices[0].finish_reason
        found = message.content, called(message.tool_calls)
    assert (*found, reason) == (TEXT, CALLED, "length")


@pytest.mark.parametrize("stream", [False, True])
def test_every_tool_call_has_an_id_of_its_own(serve, stream):
    """A call keeps the id that it was given; the others get one that no other call has."""
    server = serve(Reply(tool_calls=[CALLS[0], CALLS[0], CALLS[1]]))
    ids = []
    for answer in (by_openai(server, stream=stream), by_openai(server, stream=stream)):
        if stream:
            ids.append([call_id for call_id, *_ in joined_calls(answer)])
        else:
            ids.append([call.id for call in answer.choices[0].message.tool_calls])
    assert [given[2] for given in ids] == ["call_mine", "call_mine"]
    assert len({call_id for given in ids for call_id in given[:2]}) == 4


def test_a_stream_can_break_within_a_tool_call(serve):
    """The client gets the call's name and a part of its arguments, then sees a lost connection."""
    stream = by_openai(serve(Reply(tool_calls=CALLS, break_after=2)), stream=True)
    arrived = []
    with pytest.raises(httpx.RemoteProtocolError):
        arrived.extend(chunk.choices[0].delta.tool_calls for chunk in stream)
    functions = [calls[0].function for calls in arrived if calls]
    assert [(function.name, function.arguments) for function in functions] == [
        ("find", ""),
        (None, '{"number":'),
    ]


def test_a_stream_is_sent_while_it_is_made(serve):
    """A piece arrives before the next one exists."""
    go_on = threading.Event()

    def pieces() -> Iterator[str]:
        yield "first"
        assert go_on.wait(10)
        yield "second"

    stream = by_openai(serve(Reply(chunks=pieces())), stream=True)
    arrived = (chunk.choices[0].delta.content for chunk in stream)
    assert next(text for text in arrived if text) == "first"
    go_on.set()
    assert next(text for text in arrived if text) == "second"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_an_error_status_raises_the_clients_own_error(ask, serve, status, error, stream):
    """Each status is the error that the same status of OpenAI would be, with the message given."""
    with pytest.raises(error, match="not today"):
        ask(serve(Reply(status=status, error="not today")), stream=stream)


def test_a_stream_can_break_in_the_middle(serve):
    """The pieces before the break arrive, then the client sees a lost connection."""
    stream = by_openai(serve(Reply("one two three", break_after=2)), stream=True)
    arrived = []
    with pytest.raises(httpx.RemoteProtocolError):
        arrived.extend(chunk.choices[0].delta.content for chunk in stream)
    assert [text for text in arrived if text] == ["one", " two"]


def test_a_whole_answer_can_break_too(serve):
    """A connection closed without an answer is a connection error."""
    with pytest.raises(openai.APIConnectionError):
        by_openai(serve(Reply(TEXT, break_after=0)))


def test_an_answer_waits_for_its_hold(serve):
    """Nothing is answered before the event is set."""
    hold = threading.Event()
    server = serve(Reply(TEXT, hold=hold))
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(by_openai, server)
        with pytest.raises(concurrent.futures.TimeoutError):
            answer.result(0.1)
        hold.set()
        assert answer.result(10).choices[0].message.content == TEXT


@pytest.mark.parametrize("reply", [Reply(delay=600), Reply(hold=threading.Event())])
def test_closing_ends_answers_that_still_wait(reply):
    """A slow answer keeps neither the server nor its client."""
    asked = threading.Event()

    def respond(request: dict[str, Any]) -> Reply:
        asked.set()
        return reply

    with ThreadPoolExecutor(1) as threads:
        with ScriptedServer(respond) as server:
            answer = threads.submit(by_openai, server)
            assert asked.wait(10)
        assert answer.exception(10) is None or isinstance(answer.exception(10), openai.APIConnectionError)


def test_every_request_is_kept_with_headers_and_body(serve):
    """A test can look at what a client really sent."""
    server = serve(Reply(TEXT))
    by_openai(server, extra_headers={"X-Team": "support"}, user="ticket-7")
    (received,) = server.requests
    assert received.path == "/v1/chat/completions"
    assert (received.headers["authorization"], received.headers["x-team"]) == ("Bearer key", "support")
    assert received.body == {"model": "gpt-4o", "messages": MESSAGES, "user": "ticket-7"}


def test_a_fault_of_the_script_is_an_answer_that_names_it():
    """A mistake in `respond` shows where the test looks, not in a hanging client."""

    def respond(request: dict[str, Any]) -> Reply:
        raise KeyError("no such ticket")

    with (
        ScriptedServer(respond) as server,
        pytest.raises(openai.InternalServerError, match="KeyError"),
    ):
        by_openai(server)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/embeddings", b"{}", 404),
        ("/v1/chat/completions", b"no json", 400),
        ("/v1/chat/completions", b"[]", 400),
        ("/v1/chat/completions", b"{}", 400),
    ],
)
def test_what_is_no_chat_request_gets_an_error(serve, path, body, status):
    """Anything else is refused in OpenAI's form of an error, and is not kept."""
    server = serve(Reply(TEXT))
    answer = post(server, path, body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    assert server.requests == []


def test_clients_at_the_same_time_get_their_own_answers():
    """Twenty threads at once: each reads what was meant for it."""
    with ScriptedServer(lambda request: Reply(f"for {request['user']}")) as server:
        with ThreadPoolExecutor(20) as threads:
            answers = list(threads.map(lambda number: by_openai(server, user=str(number)), range(40)))
        assert len(server.requests) == 40
    assert [answer.choices[0].message.content for answer in answers] == [f"for {n}" for n in range(40)]
