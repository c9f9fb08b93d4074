"""The contract digest: the same for the same promises, another when they change, made once."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pydantic
import pytest
from guardrails import AsyncGuard, Guard
from kit import NoBad, Unfixable
from recording import Recording
from spans import by_kind

from guardspan import contract, semconv
from guardspan.guardrails.guards import GuardRegistry, describe
from guardspan.redaction import Redactor


class Person(pydantic.BaseModel):
    """A schema."""

    name: str


def digest(guard: Any) -> str | None:
    """The digest of a guard, by a registry of its own."""
    return GuardRegistry(Redactor()).facts(guard).digest


def using(guard: Any, *validators: Any) -> Any:
    """A guard with several validators, which older versions take by a method of its own."""
    return getattr(guard, "use_many", guard.use)(*validators)


def test_equal_contracts_have_equal_digests() -> None:
    """Name, kind of guard and the order of validators do not count; processes agree."""
    one = using(Guard(name="one"), NoBad(on_fail="fix"), Unfixable(on_fail="noop"))
    two = using(AsyncGuard(name="two"), Unfixable(on_fail="noop"), NoBad(on_fail="fix"))
    assert digest(one) == digest(two)
    assert digest(one) == contract.digest(describe(one), Redactor())
    assert len(digest(one) or "") == 64


@pytest.mark.parametrize(
    "other",
    [
        Guard().use(NoBad(on_fail="noop")),
        Guard().use(NoBad(on_fail="fix"), on="messages"),
        Guard().use(Unfixable(on_fail="fix")),
        Guard().use(NoBad(on_fail="fix", threshold=2)),
        Guard().use(NoBad(on_fail=lambda value, result: value)),
        Guard.for_pydantic(Person).use(NoBad(on_fail="fix")),
        Guard(),
    ],
    ids=["action", "place", "validator", "argument", "function", "schema", "none"],
)
def test_another_promise_has_another_digest(other: Any) -> None:
    """Each part of the contract counts."""
    assert digest(Guard().use(NoBad(on_fail="fix"))) != digest(other)


def test_a_secret_among_the_arguments_cannot_be_guessed_back() -> None:
    """The digest covers redacted text only, so two secrets give one digest."""
    first = Guard().use(NoBad(on_fail="fix", api_key="sk-proj-" + "a1B2" * 12))
    second = Guard().use(NoBad(on_fail="fix", api_key="sk-proj-" + "c3D4" * 12))
    assert digest(first) == digest(second)


def test_facts_are_made_once_and_anew_when_the_guard_changes() -> None:
    """The same facts object serves until `use` or a change of action."""
    registry = GuardRegistry(Redactor())
    validator = NoBad(on_fail="fix")
    guard = Guard(name="g").use(validator)
    first = registry.facts(guard)
    assert registry.facts(guard) is first
    guard.use(Unfixable(on_fail="noop"))
    assert registry.facts(guard).digest != first.digest
    assert registry.facts(Guard(name="g").use(validator)).digest == first.digest


def test_no_guard_is_kept_alive() -> None:
    """The registry forgets a guard that is dropped, and does not take a new one for it."""
    registry = GuardRegistry(Redactor())
    guard = Guard(name="g").use(NoBad(on_fail="fix"))
    registry.facts(guard)
    gone = weakref.ref(guard)
    del guard
    gc.collect()
    assert gone() is None
    assert registry._entries == {}


def test_an_unnamed_guard_is_named_after_its_contract(recording: Recording) -> None:
    """Guardrails' random name would be a new label value in every process."""
    guard = Guard().use(NoBad(on_fail="noop"))
    guard.validate("fine")
    (call,) = by_kind(recording.spans, "call")
    attributes = dict(call.attributes or {})
    assert attributes[semconv.NAME] == f"guard-{str(attributes[semconv.CONTRACT_DIGEST])[:8]}"
    assert call.name == f"guard {attributes[semconv.NAME]}"


def test_a_long_name_is_cut(recording: Recording) -> None:
    """At most 64 characters."""
    Guard(name="n" * 100).validate("fine")
    (call,) = by_kind(recording.spans, "call")
    assert (call.attributes or {})[semconv.NAME] == "n" * 64
