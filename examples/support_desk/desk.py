"""What the desk does with a ticket: each step asks the model through a guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guards
from guardrails import AsyncGuard, Guard
from guardrails.errors import ValidationError
from inbox import Ticket
from litellm.exceptions import APIError, Timeout
from openai import OpenAIError

HANDBOOK = Path(__file__).with_name("handbook.md").read_text(encoding="utf-8")
TRIAGE = "Sort this ticket for the support desk of Acme.\n${gr.complete_json_suffix_v3}"
MAX_DISCOUNT = {"free": 20, "pro": 40}
URGENT = 4  # priorities from here on are handed over to a person
TAG_SECONDS = 1.5
CHAT_THREADS = 4
CANNED_REPLIES = (
    "We have received your letter.\nAcme Support",
    "Thank you, you will hear from us tomorrow.",
    "Please click <a onclick='track()'>here</a>.\nAcme Support",
)


@dataclass(frozen=True)
class Step:
    """One step of a ticket and how it ended: `ok`, `blocked`, `dropped`, `left` or `FAILED`."""

    ticket: int
    name: str
    ending: str
    note: str = ""


class StepFailed(Exception):
    """A step that yields nothing to work with. Carries the step's ending and a note."""

    def __init__(self, ending: str, note: str) -> None:
        super().__init__(note)
        self.ending = ending
        self.note = note


class Desk:
    """The guards of the desk and its line to the model.

    `connection` holds the keyword arguments of every request to the model: address, key, time limit.
    """

    def __init__(self, connection: dict[str, Any]) -> None:
        self._connection = connection
        self._triage = guards.ticket_triage()
        self._translation = guards.translation()
        self._reply = guards.customer_reply()
        self._chat = guards.live_chat()
        self._refund = guards.refund_decision()
        self._offer = guards.retention_offer()
        self._help_page = guards.help_page()
        self._handover = guards.handover_note()
        self._survey = guards.survey_invitation()
        self._tag = guards.topic_tag()
        self._hint = guards.agent_hint()

    def check_canned_replies(self) -> list[Step]:
        """Check the texts that colleagues wrote by hand. No model is asked."""
        guard = guards.canned_reply()

        def check(text: str) -> str:
            if not guard.validate(text).validation_passed:
                raise StepFailed("dropped", "not signed")
            return "into the collection"

        return [_attempt(0, "canned", lambda text=text: check(text)) for text in CANNED_REPLIES]

    def handle(self, tickets: Iterable[Ticket]) -> list[Step]:
        """Work through some tickets; the steps come back in the order of the tickets."""
        tickets = list(tickets)
        steps = [step for ticket in tickets if ticket.letter.channel == "mail" for step in self._mail(ticket)]
        chats = [ticket for ticket in tickets if ticket.letter.channel == "chat"]
        with ThreadPoolExecutor(CHAT_THREADS) as threads:
            steps += threads.map(self._answer_chat, chats)
        urgent = {step.ticket for step in steps if step.name == "handover"}
        steps += asyncio.run(self._tags_and_hints(tickets, urgent))
        return sorted(steps, key=lambda step: step.ticket)

    def _mail(self, ticket: Ticket) -> Iterable[Step]:
        """The steps of a ticket that came by mail. The first one that fails is the last."""
        text = f"{ticket.letter.subject}: {ticket.letter.text}"
        work: list[Callable[[], Step]] = []
        if ticket.letter.language != "en":
            translated, text = self._step(ticket, "translate", self._translation, "gpt-4o-mini", "Translate.", text)
            yield translated
        ...
