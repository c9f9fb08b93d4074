"""The guards of the support desk: what an answer must look like before anybody sees it."""

from __future__ import annotations

import re
import warnings
from typing import Any

from guardrails import AsyncGuard, Guard, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult, ValidationResult
from guardrails_ai.contains_string import ContainsString
from guardrails_ai.lowercase import LowerCase
from guardrails_ai.one_line import OneLine
from guardrails_ai.regex_match import RegexMatch
from guardrails_ai.secrets_present import SecretsPresent
from guardrails_ai.two_words import TwoWords
from guardrails_ai.valid_choices import ValidChoices
from guardrails_ai.valid_length import ValidLength
from guardrails_ai.valid_range import ValidRange
from guardrails_ai.web_sanitization import WebSanitization
from pydantic import BaseModel, Field

CATEGORIES = ["billing", "shipping", "refund", "how-to", "technical", "cancellation", "feedback"]
REFUND_DECISIONS = ["approve", "deny", "ask the manager"]
HELP_PAGES = ["Account, Security", "Account, Invoices", "Orders, Returns"]
SIGNATURE = "Acme Support"


# The validator prefers code of several lines and says so at every text of one line.
warnings.filterwarnings("ignore", message="The DetectSecrets validator", category=UserWarning)

CARD_NUMBER = re.compile(r"\b\d(?:[ -]?\d){12,18}\b")


@register_validator(name="support-desk/no-card-number", data_type="string")
class NoCardNumber(Validator):
    """Fails on anything that looks like a payment card number."""

    def validate(self, value: Any, metadata: dict[str, Any]) -> ValidationResult:
        if CARD_NUMBER.search(value):
            masked = CARD_NUMBER.sub("****", value)
            return FailResult(error_message="The message holds a card number.", fix_value=masked)
        return PassResult()


@register_validator(name="support-desk/discount-limit", data_type="string")
class DiscountLimit(Validator):
    """Fails on an offer above the limit of the customer's plan, given as metadata (percent)."""

    required_metadata_keys = ["max_discount"]  # noqa: RUF012 (Guardrails' own interface)

    def validate(self, value: Any, metadata: dict[str, Any]) -> ValidationResult:
        limit = metadata["max_discount"]
        if any(int(percent) > limit for percent in re.findall(r"(\d+) percent", value)):
            return FailResult(error_message=f"The discount must not be above {limit} percent.")
        return PassResult()


def join_lines(value: Any, fail_result: FailResult) -> str:
    """An on-fail action: the same text in one line."""
    return " ".join(value.split())


class Triage(BaseModel):
    """What a ticket is about."""

    category: str = Field(json_schema_extra={"validators": [ValidChoices(CATEGORIES, on_fail="reask")]})
    priority: int = Field(json_schema_extra={"validators": [ValidRange(1, 5, on_fail="fix")]})
    summary: str = Field(json_schema_extra={"validators": [ValidLength(8, 80, on_fail="reask")]})


def ticket_triage() -> Guard:
    """Category, priority and summary of a ticket as JSON."""
    return Guard.for_pydantic(Triage, name="ticket-triage")


def translation() -> Guard:
    """Translates a letter; one that holds a card number must not leave the house."""
    guard = Guard(name="translation")
    guard.use(NoCardNumber(on_fail="exception"), on="messages")
    return guard.use(OneLine(on_fail=join_lines))


def customer_reply() -> Guard:
    """An answer by mail: no secrets, no markup, signed and short."""
    return Guard(name="customer-reply").use(
        SecretsPresent(on_fail="fix"),
        WebSanitization(on_fail="fix"),
        ContainsString(SIGNATURE, on_fail="reask"),
        ValidLength(20, 600, on_fail="reask"),
    )


def live_chat() -> Guard:
    """An answer in the chat, checked sentence by sentence while it streams."""
    return Guard(name="live-chat").use(WebSanitization(on_fail="fix"), NoCardNumber(on_fail="fix"))


def refund_decision() -> Guard:
    """One of three decisions, word for word."""
    return Guard(name="refund-decision").use(ValidChoices(REFUND_DECISIONS, on_fail="reask"))


def retention_offer() -> Guard:
    """An offer to stay, within the limit of the customer's plan."""
    return Guard(name="retention-offer").use(DiscountLimit(on_fail="reask"), OneLine(on_fail="fix"))


def help_page() -> Guard:
    """A page of the help centre; a page that does not exist is dropped."""
    return Guard(name="help-page").use(ValidChoices(HELP_PAGES, on_fail="filter"))


def handover_note() -> Guard:
    """A short note for the technicians, who can live with a longer one."""
    return Guard(name="handover-note").use(OneLine(on_fail="noop"), ValidLength(8, 60, on_fail="noop"))


def survey_invitation() -> Guard:
    """An invitation with the survey's code, or none at all."""
    return Guard(name="survey-invitation").use(RegexMatch(r"survey \d{4}", "search", on_fail="refrain"))


def topic_tag() -> AsyncGuard:
    """A tag of two words in lower case for the statistics."""
    return AsyncGuard(name="topic-tag").use(TwoWords(on_fail="fix"), LowerCase(on_fail="fix"))


def agent_hint() -> AsyncGuard:
    """A hint that streams onto the screen of the person who takes over an urgent ticket."""
    return AsyncGuard(name="agent-hint").use(WebSanitization(on_fail="fix"))


def canned_reply() -> Guard:
    """A text that a colleague wrote by hand, checked before it goes into the collection."""
    return Guard(name="canned-reply").use(
        WebSanitization(on_fail="exception"),
        ContainsString(SIGNATURE, on_fail="noop"),
    )
