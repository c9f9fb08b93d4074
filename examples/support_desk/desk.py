"""What the desk does with a ticket: in each step a model is asked, through a guard or by an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cases import Case, NoAnswer
from guardrails import AsyncGuard, Guard
from inbox import HOUSEKEEPING, Ticket
from openai import AsyncOpenAI
from order_desk import look_after
from orders import OrderBook

import guards

HANDBOOK = Path(__file__).with_name("handbook.md").read_text(encoding="utf-8")
TRIAGE = "Sort this ticket for the support desk of Acme.\n${gr.complete_json_suffix_v3}"
TRANSLATION = "Translate this letter to Acme into English. Keep order numbers as they are."
REFUND = f"Decide about this refund. Answer with one of: {', '.join(guards.REFUND_DECISIONS)}."
OFFER = "Write one sentence that offers this customer a discount for staying."
HELP_PAGE = f"Which page helps this customer? Answer with one of: {'; '.join(guards.HELP_PAGES)}."
HANDOVER = "Write one line for our technicians about this ticket."
SURVEY = "Invite this customer to a survey if one fits, and name its number."
CHAT = "You answer customers of Acme in the live chat. Be friendly and short."
TAG = "Name the topic of this ticket in two words."
HINT = "Give the colleague who takes over this ticket three short hints."

MAX_DISCOUNT = {"free": 20, "pro": 40}  # percent
URGENT = 4  # tickets of this priority and above are handed over to a person
TAG_SECONDS = 2.0
CHAT_THREADS = 4
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
CANNED_REPLIES = (
    "We have received your letter.\nAcme Support",
    "Thank you, you will hear from us tomorrow.",
    "Please click <a onclick='track()'>here</a>.\nAcme Support",
)


class Desk:
    """The guards of the desk, its order book and its line to the model.

    `connection` holds the keyword arguments that every request to the model gets: address, key, time limit.
    """

    def __init__(self, connection: dict[str, Any]) -> None:
        self._connection = connection
        self._orders = OrderBook()
        self._triage = guards.ticket_triage()
        self._translation = guards.translation()
        self._reply = guards.customer_reply()
        self._refund = guards.refund_decision()
        self._offer = guards.retention_offer()
        self._help_page = guards.help_page()
        self._handover = guards.handover_note()
        self._survey = guards.survey_invitation()
        self._tag = guards.topic_tag()

    def check_canned_replies(self) -> Case:
        """Check the texts that colleagues wrote by hand. No model is asked."""
        guard, case = guards.canned_reply(), Case(HOUSEKEEPING)
        for text in CANNED_REPLIES:
            case.run("canned reply", lambda text=text: _checked(guard, text))
        return case

    def handle(self, tickets: Iterable[Ticket]) -> list[Case]:
        """Work through some tickets: the mails one by one, the chats and the rest side by side."""
        cases = [Case(ticket) for ticket in tickets]
        for case in cases:
            if case.letter.channel == "mail":
                self._answer_mail(case)
        with ThreadPoolExecutor(CHAT_THREADS) as threads:
            list(threads.map(self._answer_chat, (case for case in cases if case.letter.channel == "chat")))
        asyncio.run(self._follow_up(cases))
        return cases

    def _answer_mail(self, case: Case) -> None:
        """Triage, what the category asks for, and a reply. Without a triage there is nothing to go on."""
        if case.letter.language != "en":
            text = case.run("translate", lambda: self._ask(self._translation, case, TRANSLATION))
            if text is None:
                return
            case.text = text
        triage = case.run("triage", lambda: self._ask(self._triage, case, TRIAGE, num_reasks=2))
        if triage is None:
            return
        self._follow_category(case, triage["category"])
        if triage["priority"] >= URGENT:
            case.urgent = True
            case.run("handover", lambda: self._ask(self._handover, case, HANDOVER))
        case.run("reply", lambda: self._ask(self._reply, case, HANDBOOK, model="gpt-4o"))

    def _follow_category(self, case: Case, category: str) -> None:
        steps: dict[str, tuple[str, Callable[[], str]]] = {
            "refund": ("refund", lambda: self._decide_refund(case)),
            "cancellation": ("offer", lambda: self._make_offer(case)),
            "how-to": ("help page", lambda: self._ask(self._help_page, case, HELP_PAGE)),
            "feedback": ("survey", lambda: self._ask(self._survey, case, SURVEY)),
        }
        case.about_parcel = category == "shipping"
        if category in steps:
            case.run(*steps[category])

    def _decide_refund(self, case: Case) -> str:
        return self._ask(self._refund, case, REFUND, model="gpt-5-mini", num_reasks=3)

    def _make_offer(self, case: Case) -> str:
        """An offer needs the limit of the customer's plan; accounts from the old shop have no plan."""
        plan = case.letter.plan
        limit = {"max_discount": MAX_DISCOUNT[plan]} if plan else {}
        return self._ask(self._offer, case, OFFER, model="gpt-4o", metadata=limit)

    def _answer_chat(self, case: Case) -> None:
        case.run("chat", lambda: self._stream_chat(case))

    def _stream_chat(self, case: Case) -> str:
        """Show the answer sentence by sentence, until the customer closes the window.

        A validator keeps the chunks that it has not yet judged, so each stream has a guard of its own.
        """
        guard = guards.live_chat()
        stream = guard(**self._request(guard, case, CHAT), **STREAM)
        sentences = []
        for part in stream:
            sentences.append(str(part.validated_output))
            if len(sentences) == case.letter.leaves_after:
                stream.close()
                raise NoAnswer("left", f"after {len(sentences)} sentences")
        return "".join(sentences)

    async def _follow_up(self, cases: list[Case]) -> None:
        """Tag every ticket and stream hints for the urgent ones, all at once; then look after all parcels."""
        tags = [case.run_async("tag", self._tag_one(case)) for case in cases]
        hints = [case.run_async("hint", self._stream_hint(case)) for case in cases if case.urgent]
        await asyncio.gather(*tags, *hints)
        await self._look_after_parcels([case for case in cases if case.about_parcel])

    async def _tag_one(self, case: Case) -> str:
        """A tag for the statistics. It is worth only a short wait."""
        request = self._request(self._tag, case, TAG, model="openai/acme-support-7b")
        answer: Awaitable[Any] = self._tag(**request, allowed_openai_params=["user"], num_reasks=0)
        return _accepted(await asyncio.wait_for(answer, TAG_SECONDS))

    async def _stream_hint(self, case: Case) -> str:
        guard = guards.agent_hint()
        stream = await guard(**self._request(guard, case, HINT), **STREAM)
        return "".join([str(part.validated_output) async for part in stream])

    async def _look_after_parcels(self, cases: list[Case]) -> None:
        """The agent sees to each order. Its client belongs to the event loop that it was first used in."""
        line = self._connection
        async with AsyncOpenAI(
            base_url=line["api_base"], api_key=line["api_key"], timeout=line["timeout"], max_retries=0
        ) as client:
            work = [look_after(case.text, case.number, self._orders, client) for case in cases]
            steps = [case.run_async("order desk", each) for case, each in zip(cases, work, strict=True)]
            await asyncio.gather(*steps)

    def _ask(self, guard: Guard, case: Case, system: str, model: str = "gpt-4o-mini", **options: Any) -> Any:
        """The guard's accepted value for this ticket. Raises NoAnswer when there is none."""
        return _accepted(guard(**self._request(guard, case, system, model), **options))

    def _request(
        self, guard: Guard | AsyncGuard, case: Case, system: str, model: str = "gpt-4o-mini"
    ) -> dict[str, Any]:
        return {
            "model": model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": "${letter}"}],
            "prompt_params": {"letter": case.text},
            "user": f"{guard.name}/{case.number}",
            **self._connection,
        }


def _accepted(outcome: Any) -> Any:
    if outcome.error:
        raise NoAnswer("FAILED", "no usable answer")
    if outcome.validated_output is None:
        raise NoAnswer("FAILED" if outcome.reask else "dropped", "no valid answer")
    return outcome.validated_output


def _checked(guard: Guard, text: str) -> str:
    if not guard.validate(text).validation_passed:
        raise NoAnswer("dropped", "not signed")
    return text
