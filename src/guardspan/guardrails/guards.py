"""What is known of a guard before it runs: its name and its contract digest, kept per guard."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from guardspan import contract
from guardspan.redaction import Redactor
from guardspan.safety import Quietly
from guardspan.views import given_name

_digesting = Quietly("digest a guard's contract")


def on_fail_name(validator: Any) -> str:
    """The action on failure as the contract names it; `custom` for a function of the user's."""
    action = getattr(validator, "on_fail_descriptor", None)
    return str(getattr(action, "value", action))


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """A guard's name as given, and its contract digest (None when it could not be made)."""

    name: str
    digest: str | None


class _Entry:
    """Facts with what they were made from, held weakly: a guard that changed is seen, none is kept alive."""

    __slots__ = ("facts", "given_name", "guard", "schema", "validators")

    def __init__(self, guard: Any, facts: GuardFacts, forget: Any) -> None:
        self.guard: weakref.ref[Any] = weakref.ref(guard, forget)
        self.facts = facts
        self.given_name = guard.name
        self.schema = weakref.ref(guard.output_schema)
        self.validators = [
            (path, weakref.ref(validator), on_fail_name(validator)) for path, validator in _validators(guard)
        ]

    def holds_for(self, guard: Any) -> bool:
        same_guard = self.guard() is guard
        if not same_guard or self.schema() is not guard.output_schema or self.given_name != guard.name:
            return False
        now = _validators(guard)
        return len(now) == len(self.validators) and all(
            path == kept_path and kept() is validator and kept_action == on_fail_name(validator)
            for (path, validator), (kept_path, kept, kept_action) in zip(now, self.validators, strict=True)
        )


class GuardRegistry:
    """Facts per guard, made anew only when the guard changes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._entries: dict[int, _Entry] = {}

    def facts(self, guard: Any) -> GuardFacts:
        """The facts of a guard; never raises."""
        with _digesting:
            entry = self._entries.get(id(guard))
            if entry is None or not entry.holds_for(guard):
                entry = self._remember(guard)
            return entry.facts
        return GuardFacts("guard", None)

    def _remember(self, guard: Any) -> _Entry:
        digest: str | None = None
        with _digesting:
            digest = contract.digest(describe(guard), self._redactor)
        key, entries = id(guard), self._entries
        entry = _Entry(guard, GuardFacts(_name(guard, digest), digest), lambda _: entries.pop(key, None))
        entries[key] = entry
        return entry


def describe(guard: Any) -> dict[str, Any]:
    """A guard's contract as plain values: output schema, validators with arguments and actions, sorted."""
    schema = guard.output_schema
    checks = [_check(path, validator) for path, validator in _validators(guard)]
    if not checks:
        checks = [_referenced_check(reference) for reference in guard.validators or []]
    return {
        "output_schema": schema.model_dump(exclude_none=True, by_alias=True) if schema else None,
        "validators": sorted(checks, key=repr),
    }


def server_host(guard: Any) -> str | None:
    """Host of the Guardrails server that a guard runs on, None for a guard that runs here."""
    from guardrails.settings import settings

    client = getattr(guard, "_api_client", None)
    used = getattr(guard, "_use_server", settings.use_server)  # before 0.8 it is a setting for all guards
    if client is None or not used:
        return None
    return urlsplit(str(getattr(client, "base_url", ""))).hostname


def _validators(guard: Any) -> list[tuple[str, Any]]:
    return [(path, validator) for path, listed in guard._validator_map.items() for validator in listed]


def _check(path: str, validator: Any) -> dict[str, Any]:
    check = {
        "path": path,
        "registered_name": validator.rail_alias,
        "arguments": validator.get_args() or {},
        "on_fail": on_fail_name(validator),
    }
    function = getattr(validator, "on_fail_method", None)
    return {**check, "function": function} if function is not None else check


def _referenced_check(reference: Any) -> dict[str, Any]:
    """A validator of a guard that was loaded and has not run yet: it exists only as a reference."""
    action = reference.on_fail
    return {
        "path": reference.on,
        "registered_name": reference.id,
        "arguments": reference.kwargs or {},
        "on_fail": str(getattr(action, "value", action) or "noop"),
    }


def _name(guard: Any, digest: str | None) -> str:
    """The given name; an unnamed guard is named after its contract, since Guardrails names it at random."""
    given = guard.name
    if given and given != f"gr-{guard.id}":
        return given_name(str(given)) or "guard"
    return f"guard-{digest[:8]}" if digest else "guard"
