"""The order desk: an agent that looks after parcels, with tools on the order book and rules for answers."""

from __future__ import annotations

import re
from typing import Literal

from openai import AsyncOpenAI
from orders import ORDER_NUMBER, Order, OrderBook
from pydantic import BaseModel, Field
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

INSTRUCTIONS = (
    "You look after parcels for the support desk of Acme. Look up the order before you answer. Have a parcel "
    "picked up only if the customer wants it. Name no day of the week that no tool gave you."
)
LIMITS = UsageLimits(request_limit=5)  # a parcel that takes more requests is one for a person
DAYS = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b")

Workday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]


class ParcelReport(BaseModel):
    """What became of a parcel, and what happens next."""

    order: str = Field(pattern=f"^{ORDER_NUMBER.pattern}$")
    next_step: Literal["wait", "search", "pickup"]
    message: str = Field(max_length=200, description="one or two sentences for the customer")


order_desk = Agent(
    name="order-desk",
    deps_type=OrderBook,
    output_type=ParcelReport,
    instructions=INSTRUCTIONS,
    retries=2,
)


@order_desk.tool
def find_order(context: RunContext[OrderBook], number: str) -> str:
    """What was ordered and where it is.

    Args:
        number: the order's number, such as A-104417.
    """
    order = _order(context.deps, number)
    return f"{order.number}, {order.item}: {order.state}"


@order_desk.tool
def book_pickup(context: RunContext[OrderBook], number: str, day: Workday) -> str:
    """Have a parcel picked up at the customer's door.

    Args:
        number: the order's number, such as A-104417.
        day: when the courier comes.
    """
    order = _order(context.deps, number)
    context.deps.pickups[order.number] = day
    return f"The courier picks up {order.number} on {day}."


@order_desk.output_validator
def promises_no_day(context: RunContext[OrderBook], report: ParcelReport) -> ParcelReport:
    """The day of a pickup may be named; any other would be a promise."""
    promised = set(DAYS.findall(report.message)) - {context.deps.pickups.get(report.order)}
    if promised:
        raise ModelRetry(f"No tool gave you {', '.join(sorted(promised))}. Leave the day out.")
    return report


def _order(book: OrderBook, number: str) -> Order:
    if not ORDER_NUMBER.fullmatch(number):
        raise ModelRetry(f"{number!r} is no order number. One is written like A-104417.")
    order = book.find(number)
    if order is None:
        raise ModelRetry(f"There is no order {number}. Look at the letter again.")
    return order


async def look_after(letter: str, ticket: int, book: OrderBook, client: AsyncOpenAI) -> ParcelReport:
    """The agent's report on the letter of a ticket. Raises what a run of an agent raises."""
    result = await order_desk.run(
        letter,
        deps=book,
        model=OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client)),
        model_settings=OpenAIChatModelSettings(openai_user=f"{order_desk.name}/{ticket}"),
        usage_limits=LIMITS,
    )
    return result.output
