"""The shop's orders, as far as the desk may see and change them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ORDER_NUMBER = re.compile(r"A-\d{6}")


@dataclass(frozen=True)
class Order:
    """What was ordered, and where it is."""

    number: str
    item: str
    state: str


ORDERS = (
    Order("A-104502", "desk lamp", "no scan since Monday; a search is under way"),
    Order("A-104733", "two chairs", "delivered; one chair is to go back"),
    Order("A-104811", "shelf", "left with a neighbour, name unreadable"),
    Order("A-104925", "floor lamp", "waits for a part, no date known"),
    Order("A-104960", "smart bulbs", "held at customs"),
)


@dataclass
class OrderBook:
    """The orders by number, and the days on which parcels are picked up."""

    orders: dict[str, Order] = field(default_factory=lambda: {order.number: order for order in ORDERS})
    pickups: dict[str, str] = field(default_factory=dict)

    def find(self, number: str) -> Order | None:
        """The order of that number, None where there is none."""
        return self.orders.get(number)
