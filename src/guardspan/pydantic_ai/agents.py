"""What is known of an agent: its name, and the digest of the contract that a request was made under."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from guardspan import contract
from guardspan.evidence import sha256_hex
from guardspan.redaction import Redactor
from guardspan.safety import Quietly
from guardspan.views import given_name

UNNAMED = "agent"
_MAX_CONTRACTS = 8
"""Contracts kept of one agent: one whose runs change its tools or its output type has several."""

_digesting = Quietly("digest an agent's contract")


def name_of(agent: Any) -> str:
    """The agent's given name; ``agent`` where it has none."""
    return given_name(agent.name) or UNNAMED


def output_validators(agent: Any) -> Sequence[Any]:
    """The agent's own output validators, as functions.

    There is no public way to them. Where the field is missing, or holds something else, none are known.
    """
    kept = getattr(agent, "_output_validators", None)
    if not isinstance(kept, list):
        return ()
    return tuple(function for each in kept if callable(function := getattr(each, "function", None)))


class AgentRegistry:
    """Contract digests per agent, made anew only for a contract that it did not have before."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._lock = threading.Lock()
        self._agents: dict[int, tuple[weakref.ref[Any], OrderedDict[tuple[Any, ...], str]]] = {}

    def digest(self, agent: Any, parameters: Any, validators: Sequence[str]) -> str | None:
        """The digest of what a request promised; None when it could not be made.

        Args:
            agent: held weakly.
            parameters: the request's ``ModelRequestParameters``.
            validators: names of the output validators.
        """
        with _digesting:
            return self._digest(agent, parameters, validators)
        return None

    def _digest(self, agent: Any, parameters: Any, validators: Sequence[str]) -> str:
        known = self._known(agent)
        key = _key(parameters, validators)
        found = known.get(key)
        if found is None:
            found = contract.digest(self._describe(parameters, validators), self._redactor)
            with self._lock:
                known[key] = found
                if len(known) > _MAX_CONTRACTS:
                    known.popitem(last=False)
        return found

    def _known(self, agent: Any) -> OrderedDict[tuple[Any, ...], str]:
        key, agents = id(agent), self._agents
        entry = agents.get(key)
        if entry is None or entry[0]() is not agent:
            entry = agents[key] = (weakref.ref(agent, lambda _: agents.pop(key, None)), OrderedDict())
        return entry[1]

    def _describe(self, parameters: Any, validators: Sequence[str]) -> Mapping[str, Any]:
        output = parameters.output_object
        return {
            "library": "pydantic_ai",
            "output": {
                "mode": parameters.output_mode,
                "schema": output.json_schema if output is not None else None,
                "tools": {tool.name: tool.parameters_json_schema for tool in parameters.output_tools},
            },
            "validators": list(validators),
            "instructions": [
                sha256_hex(self._redactor.redact(text).text) for text in _instructions(parameters)
            ],
            "tools": sorted(tool.name for tool in parameters.function_tools),
        }


def _instructions(parameters: Any) -> list[str]:
    """The instructions that are the same in every run; those made by functions are not part of a contract."""
    return [part.content for part in parameters.instruction_parts or () if not part.dynamic]


def _key(parameters: Any, validators: Sequence[str]) -> tuple[Any, ...]:
    """What tells contracts apart, at a fraction of the digest's cost: the hash of each text and schema."""
    output = parameters.output_object
    return (
        parameters.output_mode,
        hash(repr(output.json_schema)) if output is not None else None,
        tuple((tool.name, hash(repr(tool.parameters_json_schema))) for tool in parameters.output_tools),
        tuple(validators),
        tuple(map(hash, _instructions(parameters))),
        tuple(tool.name for tool in parameters.function_tools),
    )
