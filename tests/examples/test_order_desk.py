"""The agent of the example application: its tickets end as scripted, and the model gets what it should."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import demo
import pytest
from openai import APIStatusError, AsyncOpenAI
from pydantic_ai import ModelRetry
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior, UsageLimitExceeded
from support_desk.inbox import LETTERS
from support_desk.server import Reply, ScriptedServer, tool_call


@dataclass
class OrderDesk:
    """The application's agent at a scripted server, and whatever the server was asked."""

    server: ScriptedServer
    agent: ModuleType
    book: Any

    async def look_after(self, subject: str) -> Any:
        """The agent's report on the letter of that subject."""
        letter = next(letter for letter in LETTERS if letter.subject == subject)
        client = AsyncOpenAI(base_url=self.server.base_url, api_key="local", timeout=10, max_retries=0)
        async with client:
            return await self.agent.look_after(f"{subject}: {letter.text}\nAda", 1, self.book, client)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests so far."""
        return [received.body for received in self.server.requests]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OrderDesk]]:
    """Starts an order desk whose model is the application's own script, unless another one is given."""
    monkeypatch.syspath_prepend(demo.APPLICATION.parent)
    answers, agent, orders = map(importlib.import_module, ("answers", "order_desk", "orders"))
    servers = []

    def started(respond: Callable[[dict[str, Any]], Reply] | None = None) -> OrderDesk:
        server = ScriptedServer(respond or answers.ScriptedModel().respond).start()
        servers.append(server)
        return OrderDesk(server, agent, orders.OrderBook())

    yield started
    for server in servers:
        server.close()


@pytest.fixture
def desk(start: Callable[..., OrderDesk]) -> OrderDesk:
    """An order desk with the application's own script."""
    return start()


def heard(request: dict[str, Any]) -> list[str]:
    """What a request tells the model after the letter: words of the tools, and of whoever asks again."""
    asked = [message for message in request["messages"] if message["role"] in ("tool", "user")]
    return [message["content"] for message in asked[1:]]


@pytest.mark.parametrize(
    ("subject", "order", "next_step", "requests"),
    [
        ("Where is my parcel", "A-104502", "search", 2),
        ("Wrong chair", "A-104733", "pickup", 4),
        ("Parcel at a neighbour", "A-104811", "search", 4),
    ],
)
async def test_a_parcel_that_is_looked_after(desk: OrderDesk, subject, order, next_step, requests):
    """The report is about the customer's order, after as many requests as the script needs."""
    report = await desk.look_after(subject)
    assert (report.order, report.next_step) == (order, next_step)
    assert len(desk.requests) == requests


@pytest.mark.parametrize(
    ("subject", "error", "cause", "requests"),
    [
        ("When does my lamp arrive", UnexpectedModelBehavior, ModelRetry, 4),
        ("An order from the old shop", UnexpectedModelBehavior, ModelRetry, 3),
        ("All my parcels", UsageLimitExceeded, None, 5),
        ("Held at customs", ModelHTTPError, APIStatusError, 2),
    ],
)
async def test_a_parcel_for_a_person(desk: OrderDesk, subject, error, cause, requests):
    """The run raises once its retries or its requests are used up, or the provider fails."""
    with pytest.raises(error) as raised:
        await desk.look_after(subject)
    assert isinstance(raised.value.__cause__, cause) if cause else raised.value.__cause__ is None
    assert len(desk.requests) == requests


async def test_a_pickup_is_booked_and_only_its_day_may_be_named(desk: OrderDesk):
    """The tool changes the order book; the day that it gave passes, another one is sent back."""
    report = await desk.look_after("Wrong chair")
    assert desk.book.pickups == {"A-104733": "Tuesday"}
    assert "Tuesday" in report.message
    assert "No tool gave you Friday." in heard(desk.requests[-1])[-1]
    assert "Tuesday." not in heard(desk.requests[-1])[-1]


async def test_a_wrong_order_number_is_told_to_the_model(desk: OrderDesk):
    """The tool says what is wrong with the number, and finds the order by the right one."""
    await desk.look_after("Parcel at a neighbour")
    first, second, *_ = heard(desk.requests[-1])
    assert "'104 811' is no order number" in first
    assert second.startswith("A-104811, shelf")


async def test_an_unknown_order_number_is_told_to_the_model(start):
    """A number of the right form that no order has is sent back too."""
    desk = start(lambda request: Reply(tool_calls=[tool_call("find_order", number="A-999999")]))
    with pytest.raises(UnexpectedModelBehavior):
        await desk.look_after("Where is my parcel")
    assert "There is no order A-999999." in heard(desk.requests[1])[0]


async def test_the_model_is_offered_tools_and_a_form_for_its_answer(desk: OrderDesk):
    """Every request holds the instructions, both tools and the output's schema, and demands a call."""
    await desk.look_after("Parcel at a neighbour")
    for request in desk.requests:
        names = [tool["function"]["name"] for tool in request["tools"]]
        assert names == ["find_order", "book_pickup", "final_result"]
        assert request["tool_choice"] == "required"
        first = {"role": "system", "content": desk.agent.INSTRUCTIONS}
        assert request["messages"][0] == first


@pytest.mark.parametrize("subject", ["Wrong chair", "Parcel at a neighbour", "All my parcels"])
async def test_every_tool_call_is_answered_right_after_it(desk: OrderDesk, subject):
    """The conversation that goes back to the model is one that a real provider would take."""
    if subject == "All my parcels":
        with pytest.raises(UsageLimitExceeded):
            await desk.look_after(subject)
    else:
        await desk.look_after(subject)
    for request in desk.requests:
        messages = request["messages"]
        for place, message in enumerate(messages):
            calls = [call["id"] for call in message.get("tool_calls") or ()]
            answers = [answer.get("tool_call_id") for answer in messages[place + 1 : place + 1 + len(calls)]]
            assert answers == calls
