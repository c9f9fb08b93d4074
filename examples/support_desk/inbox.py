"""The desk's inbox: tickets drawn from a fixed set of subjects, the same ones for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

CUSTOMERS = ("Ada", "Boris", "Chiara", "Dagmar", "Emeka", "Farah", "Goran", "Hana", "Ines", "Jonas")


@dataclass(frozen=True)
class Letter:
    """What customers write about, and how often relative to the others (0: once)."""

    subject: str
    text: str
    weight: int = 1
    channel: str = "mail"
    language: str = "en"
    plan: str | None = "free"
    leaves_after: int | None = None  # sentences of the answer that the customer waits for


@dataclass(frozen=True)
class Ticket:
    """One letter from one customer."""

    number: int
    customer: str
    letter: Letter


LETTERS = (
    Letter(
        "Charged twice in March", "My card shows two charges of $89.00 for order A-104417.", 6, plan="pro"
    ),
    Letter("Where is my parcel", "Order A-104502 has not moved since last Monday. Where is it?", 7),
    Letter("Wrong chair", "Order A-104733: please pick up the second chair on Tuesday.", 3),
    Letter("Parcel at a neighbour", "Your courier left 104 811 with a neighbour. With whom?", 3),
    Letter("When does my lamp arrive", "I need A-104925 by the weekend, please tell me a day.", 0),
    Letter("An order from the old shop", "What became of order 7731? I paid in May.", 0),
    Letter("All my parcels", "Where are all the things I ordered this year?", 0),
    Letter("Held at customs", "Order A-104960 is at customs. What do they want?", 0),
    Letter(
        "Refund for a broken lamp", "The lamp arrived in pieces. I paid $240 and want it back.", 2, plan="pro"
    ),
    Letter("Refund for the wrong size", "I ordered the wide shelf and got the narrow one.", 6),
    Letter("How do I reset my password", "I cannot find where to set a new password.", 8),
    Letter("How do I export my data", "Is there a way to download all my invoices at once?", 4),
    Letter("App crashes on start", "Since the update the app closes at once. My shop depends on it!", 4),
    Letter("Cannot log in", "The app says that my access key is not valid any more.", 4, plan="pro"),
    Letter("I want to cancel", "Please cancel my subscription, it is too expensive for me.", 4, plan="pro"),
    Letter("Please close my old account", "I have not used the account for years.", 1, plan=None),
    Letter("Rechnung fehlt", "Guten Tag, zu Bestellung A-104611 fehlt die Rechnung.", 4, language="de"),
    Letter("Karte belastet", "Bitte prüfen: Karte 4111 1111 1111 1111 wurde belastet.", 1, language="de"),
    Letter("Is my order on its way?", "Hi, did order A-104733 leave the warehouse?", 7, channel="chat"),
    Letter("Discount code does not work", "Code SPRING gives an error.", 3, channel="chat"),
    Letter("Hello? Anybody there?", "I wait for twenty minutes now.", 2, channel="chat", leaves_after=2),
    Letter("Question about the warranty", "How long is the warranty of a chair?", 1, channel="chat"),
    Letter("API returns an error", "The lamp API answers 403 since this morning.", 3, plan="pro"),
    Letter("asdf qwer", "asdf asdf asdf", 1),
    Letter("Change the invoice address", "Please put my company's address on invoice 20931.", 2),
    Letter("Lamp offline after maintenance", "All my lamps went offline last night.", 0, plan="pro"),
    Letter("Complaint about the courier", "The courier threw the parcel over the fence.", 0),
    Letter("A wish: dark mode", "Your app is too bright at night.", 3),
    Letter("Thank you!", "The new chair is great, and so was your help.", 4),
)

# The desk's own work, which no customer asked for.
HOUSEKEEPING = Ticket(0, "", Letter("Canned replies", ""))


def inbox(count: int, seed: int) -> list[Ticket]:
    """`count` tickets: each letter once, in a shuffled order, then letters drawn by their weight."""
    draw = random.Random(seed)
    letters = draw.sample(LETTERS, len(LETTERS))
    more = max(0, count - len(letters))
    letters += draw.choices(LETTERS, [letter.weight for letter in LETTERS], k=more)
    return [
        Ticket(number, draw.choice(CUSTOMERS), letter)
        for number, letter in enumerate(letters[:count], start=1)
    ]
