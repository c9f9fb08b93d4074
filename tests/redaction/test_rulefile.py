"""The file of the user's own rules: what it may say, and what is said of a faulty one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardspan.redaction import Redactor
from guardspan.redaction.configured import Redaction, RedactionSetupError
from guardspan.redaction.rulefile import load_rules
from guardspan.settings import Settings
from guardspan.userfile import FileFault

BADGE = {
    "id": "badge",
    "pattern": r"\bBADGE-\d{6}\b",
    "matches": ["at BADGE-123456."],
    "misses": ["BADGE-12"],
}
TOML = r"""
keys = ["loyaltyNumber", "客户编号"]
plain_keys = ["token_hint"]

[[rules]]
id = "badge"
reason = "a staff badge"
pattern = '\bBADGE-\d{6}\b'
matches = ["at BADGE-123456."]
misses = ["BADGE-12"]

[[rules]]
id = "case"
pattern = '(?i:Vorgang|Geschäftszeichen) (?P<secret>[A-Z]{2})'
tail = "0-9/"
matches = ["GESCHÄFTSZEICHEN AB12/3"]
"""


def write(tmp_path: Path, content: object, name: str = "rules.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def redactor(tmp_path: Path) -> Redactor:
    return Redaction.of(Settings(redact_rules=write(tmp_path, TOML, "rules.toml"))).redactor()


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("BADGE-123456 and BADGE-1", "[redacted:badge] and BADGE-1"),
        ("Geschäftszeichen AB12/3, offen", "Geschäftszeichen [redacted:case], offen"),
        ("loyalty_number=77&x=1", "loyalty_number=[redacted:key]&x=1"),
        ('{"loyalty-number": 77, "n": 1}', '{"loyalty-number": "[redacted:key]", "n": 1}'),
        ("loyaltyNumber: gold member", "loyaltyNumber: [redacted:key] member"),
        ("客户编号: 9", "客户编号: [redacted:key]"),
        ("token_hint=a1B2c3D4e5F6", "token_hint=a1B2c3D4e5F6"),
        ("token=a1B2c3D4e5F6", "token=[redacted:key]"),
        ("token_hint=ghp_" + "a1B2c3D4e5" * 4, "token_hint=[redacted:github]"),
    ],
)
def test_own_rules_and_keys_take_part(redactor: Redactor, text: str, redacted: str) -> None:
    """In texts, beside our own; what a rule knows for a secret goes under a plain name, too."""
    assert redactor.redact(text).text == redacted
    assert redactor.redact(redacted) == (redacted, 0)


def test_own_keys_hide_any_value_of_a_structure(redactor: Redactor) -> None:
    """Short, numeric, nested: the user has said that it is secret."""
    hidden = "[redacted:key]"
    value = {
        "loyaltyNumber": 7,
        "loyalty number": [1, 2],
        "LOYALTY_NUMBER": "x",
        "token_hint": "a1B2c3D4e5F6",
    }
    assert redactor.redact_value(value).value == {
        "loyaltyNumber": hidden,
        "loyalty number": hidden,
        "LOYALTY_NUMBER": hidden,
        "token_hint": "a1B2c3D4e5F6",
    }


def test_json_says_the_same(tmp_path: Path) -> None:
    """TOML where the name ends so, JSON elsewhere."""
    own = load_rules(write(tmp_path, {"rules": [BADGE], "keys": ["loyaltyNumber"]}))
    assert (own.rules[0].id, own.keys) == ("badge", ("loyaltyNumber",))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"pattern": r"BADGE-\d+"},
            "rules[0].pattern: has a repeat without an upper bound (+ at character 9)",
        ),
        ({"pattern": r"BADGE-\d{2,}"}, "rules[0].pattern: has a repeat without an upper bound ({2,}"),
        ({"pattern": "(?=BADGE)B"}, "rules[0].pattern: is no pattern of RE2 (invalid perl operator: (?=)"),
        ({"pattern": "("}, "rules[0].pattern: is no pattern of RE2"),
        ({"pattern": "B{0,3}"}, "rules[0].pattern: matches where nothing is"),
        ({"pattern": "(?P<x>BADGE)"}, "rules[0].pattern: has a named group"),
        ({"pattern": "BADG[EÉ]"}, "rules[0].pattern: has a character beyond ASCII in brackets"),
        ({"pattern": "(?:a{1,50}){1,50}"}, "rules[0].pattern: is no pattern of RE2 (invalid repetition size"),
        ({"pattern": "(?:a{1,31}){1,31}" * 3}, "rules[0].pattern: is too large"),
        ({"pattern": r"\Q[\Ex+]"}, r"rules[0].pattern: has \Q"),
        ({"pattern": ""}, "rules[0].pattern: String should have at least 1 character"),
        ({"id": "pem"}, "rules[0].id: is a rule of ours"),
        ({"id": "My Badge"}, "rules[0].id: "),
        ({"tail": "]["}, "rules[0].tail: has a bracket"),
        ({"tail": "z-a"}, "rules[0].tail: is no inside of a class"),
        ({"matches": []}, "rules[0].matches: "),
        ({"matches": ["BADGE-123456", "none"]}, "rules[0]: matches[1] is not found by the pattern"),
        ({"misses": ["BADGE-123456"]}, "rules[0]: misses[0] is found by the pattern"),
        ({"extra": 1}, "rules[0].extra: Extra inputs are not permitted; remove it"),
    ],
)
def test_a_faulty_rule_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """The file, the field, and what is wrong with it."""
    path = write(tmp_path, {"rules": [{**BADGE, **change}]})
    with pytest.raises(FileFault) as caught:
        load_rules(path)
    assert str(caught.value).startswith(f"{path}: {told}")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("r.json", "{", ": the file: Invalid JSON"),
        ("r.json", "[]", ": the file: "),
        ("r.json", '{"keys": ["---"]}', ": keys: '---' is no name of a key"),
        ("r.json", '{"rules": {}}', ": rules: "),
        ("r.toml", "keys = [", ": "),
        ("r.toml", "rules = 1", ": rules: "),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, name: str, content: str, told: str) -> None:
    """No traceback, and no default in its place."""
    path = write(tmp_path, content, name)
    with pytest.raises(RedactionSetupError) as caught:
        Redaction.of(Settings(redact_rules=path))
    assert str(caught.value).startswith(f"{path}{told}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With the setting to correct."""
    with pytest.raises(RedactionSetupError, match=r"cannot be read .*GUARDSPAN_REDACT_RULES"):
        Redaction.of(Settings(redact_rules=tmp_path / "none.toml"))


def test_a_pattern_may_look_at_what_is_before_it(tmp_path: Path) -> None:
    """A boundary before a sign holds in the text, not in the match alone."""
    rule = {"id": "case", "pattern": r"(?:\b#\d{6}|EMP-\d{6})\b", "matches": ["a#123456", "EMP-123456"]}
    own = Redaction.of(Settings(redact_rules=write(tmp_path, {"rules": [rule]}))).redactor()
    assert own.redact("see issue#123456 now").text == "see issue[redacted:case] now"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe that nobody writes to would be waited for, for ever."""
    make(tmp_path / "rules.toml")
    with pytest.raises(FileFault, match="is no file"):
        load_rules(tmp_path / "rules.toml")


@pytest.mark.parametrize("content", ["a=" + "[" * 20_000, "keys = " + "9" * 10_000])
def test_toml_that_python_cannot_take_is_told(tmp_path: Path, content: str) -> None:
    """No traceback."""
    with pytest.raises(FileFault, match=r"rules.toml: "):
        load_rules(write(tmp_path, content, "rules.toml"))


def test_rules_that_are_too_large_together_are_refused(tmp_path: Path) -> None:
    """One automaton has to hold them all."""
    rules = [{"id": f"r{n}", "pattern": f"[a-z]{{1,400}}-{n}", "matches": [f"a-{n}"]} for n in range(200)]
    with pytest.raises(FileFault, match="rules: are too large together"):
        load_rules(write(tmp_path, {"rules": rules}))
