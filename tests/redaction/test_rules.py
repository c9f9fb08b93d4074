"""Each rule finds what it is for, and leaves its near misses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardspan.redaction import Redactor, Rule
from guardspan.redaction.rules import RULES

REDACTOR = Redactor()
ALL_RULES = Redactor(options={rule.option for rule in RULES})
CASES = [
    json.loads(line)
    for name in ("cases.jsonl", "own_cases.jsonl")
    for line in (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
]


def names(text: str) -> set[str]:
    """The rules that find something in a text."""
    return {finding.rule for finding in ALL_RULES.explain(text)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_matches_its_examples_and_not_its_near_misses(rule: Rule) -> None:
    """A rule's own examples are true."""
    assert rule.matches
    for text in rule.matches:
        assert rule.id in names(text), text
    for text in rule.misses:
        assert rule.id not in names(text), text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["kind"])
def test_secrets_go_and_the_rest_stays(case: dict[str, Any]) -> None:
    """No secret of the case is left, nothing that must stay is lost, JSON stays JSON, twice is as once."""
    text, count = REDACTOR.redact(case["text"])
    for secret in case["secrets"]:
        assert secret not in text
    for kept in case["keep"]:
        assert kept in text
    assert bool(count) == bool(case["secrets"])
    if case.get("json"):
        json.loads(text)
    assert REDACTOR.redact(text) == (text, 0)
