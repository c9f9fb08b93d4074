"""The engine: structures, encodings, hostile inputs, failures."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import hashlib
import json
import pathlib
import re
import urllib.parse
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardspan.redaction import RedactionError, Redactor, Rule
from guardspan.redaction.findings import KEY_RULE

REDACTOR = Redactor()
SECRET = "ghp_" + "a1B2c3D4e5" * 4
MARK = f"[redacted:{KEY_RULE}]"
TEXTS = st.text(max_size=40)
NESTED = st.recursive(
    st.just(SECRET) | TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@dataclasses.dataclass
class Login:
    """A dataclass with a secret field."""

    user: str
    password: str


class Settings(pydantic.BaseModel):
    """A model with secret fields."""

    region: str
    api_key: pydantic.SecretStr
    client_secret: str


def test_structures_are_walked() -> None:
    """Dictionaries, lists, sets, models and dataclasses; values under secret names go whole."""
    value = {
        "login": Login("ada", "hunter2"),
        "settings": Settings(region="eu", api_key=pydantic.SecretStr("k"), client_secret="s"),
        "headers": [{"Authorization": "Bearer x", "Accept": "json"}],
        "tags": {SECRET},
        "password": {"nested": ["anything"]},
        "usage": {"prompt_tokens": 12, "max_tokens": 100, "token_type": "Bearer"},
    }
    redacted, count = REDACTOR.redact_value(value)
    assert redacted == {
        "login": {"user": "ada", "password": MARK},
        "settings": {"region": "eu", "api_key": MARK, "client_secret": MARK},
        "headers": [{"Authorization": MARK, "Accept": "json"}],
        "tags": ["[redacted:github]"],
        "password": MARK,
        "usage": {"prompt_tokens": 12, "max_tokens": 100, "token_type": "Bearer"},
    }
    assert count == 6


class Signin(NamedTuple):
    """A tuple whose second part has a secret name."""

    user: str
    password: str


class Colour(enum.Enum):
    """An enumeration whose value is a secret."""

    RED = SECRET


VALUES: list[tuple[Any, Any]] = [
    (SECRET.encode(), "[redacted:github]"),
    (Signin("ada", "Hunter2xyz"), {"user": "ada", "password": MARK}),
    (Colour.RED, "[redacted:github]"),
    ({SECRET.encode(): 1, Colour.RED: 2}, {"[redacted:github]": 1, "[redacted:github] (2)": 2}),
    ({"card": 4111111111111111, "ms": 1700000000123}, {"card": "[redacted:card]", "ms": 1700000000123}),
    (decimal.Decimal("4111111111111111"), "[redacted:card]"),
    (pathlib.PurePosixPath("/x") / SECRET, "/x/[redacted:github]"),
    (collections.deque([SECRET]), ["[redacted:github]"]),
    ([["x-api-key", "Hunter2xyz"], ["accept", "json"]], [["x-api-key", MARK], ["accept", "json"]]),
    ({"name": "API_KEY", "value": "Hunter2xyz"}, {"name": "API_KEY", "value": MARK}),
    ({"name": "city", "value": "Oslo"}, {"name": "city", "value": "Oslo"}),
    (["tool", "--password", "Hunter2xyz", "-v"], ["tool", "--password", MARK, "-v"]),
    (["password", "token", "reset"], ["password", "token", "reset"]),
    ({"password": {"type": "string", "minLength": 8}}, {"password": {"type": "string", "minLength": 8}}),
    ({"token": "Hello", "logprob": -0.1}, {"token": "Hello", "logprob": -0.1}),
    ({"pass\u00adword": "Hunter2xyz"}, {"pass\u00adword": MARK}),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=lambda part: type(part).__name__)
def test_values_of_every_type(value: Any, expected: Any) -> None:
    """What well-known types hold is found, and pairs are judged by their names; twice is as once."""
    redacted = REDACTOR.redact_value(value).value
    assert redacted == expected
    assert REDACTOR.redact_value(redacted) == (redacted, 0)


def test_json_that_a_mark_would_break_is_walked() -> None:
    """Numbers in lists have no key that says that they are values; the text is JSON all the same."""
    text = json.dumps({"cards": [4111111111111111, 2], "note": "[4111111111111111, 1]"})
    redacted, _ = REDACTOR.redact(text)
    assert json.loads(redacted) == {"cards": ["[redacted:card]", 2], "note": '["[redacted:card]", 1]'}
    assert REDACTOR.redact(redacted) == (redacted, 0)


FRAGMENTS = st.sampled_from(
    [
        *(
            "password",
            "token",
            "api_key",
            "пароль",
            "密码",
            ":",
            "=",
            " is ",
            '"',
            "'",
            "`",
            '\\"',
            "\\n",
            "\n",
            " ",
        ),
        *(
            "{",
            "}",
            "[",
            "]",
            "<",
            ">",
            ",",
            "&",
            "%22",
            "\\u003d",
            "Bearer ",
            SECRET,
            "Tr0ub4dor3xyz",
            "12345678",
        ),
        *("4111111111111111", "ada@example.org", "://u:", "@h/", "name=", "value=", "kind: Secret", "data:"),
        *(
            "[redacted:key]",
            "-----BEGIN PRIVATE KEY-----",
            "\x1b[1m",
            "至",
            "1e5",
            "null",
            "$",
            "identified by ",
        ),
    ]
)


@settings(deadline=None)
@given(parts=st.lists(FRAGMENTS, max_size=14), depth=st.integers(1, 3))
def test_json_stays_json_whatever_it_says(parts: list[str], depth: int) -> None:
    """Fragments of what the rules look for, in strings of JSON in strings of JSON."""
    text = "".join(parts)
    for _ in range(depth):
        text = json.dumps({"body": text, "n": 1})
    once = REDACTOR.redact(text)
    json.loads(once.text)
    assert REDACTOR.redact(once.text) == (once.text, 0)


def test_what_cannot_be_walked_becomes_its_type() -> None:
    """Circles and depths end, objects are not asked for their repr."""
    circle: list[Any] = []
    circle.append(circle)
    assert REDACTOR.redact_value(circle).value == ["…"]
    deep: Any = SECRET
    for _ in range(5_000):
        deep = [deep]
    assert SECRET not in json.dumps(REDACTOR.redact_value(deep).value)
    assert REDACTOR.redact_value(object()).value == "<builtins.object>"


def encodings(text: str) -> dict[str, str]:
    """A text as others write it."""
    once = json.dumps({"body": text})
    twice = json.dumps({"body": once})
    return {
        "json": once,
        "json in json": twice,
        "json thrice": json.dumps([twice]),
        "unicode escapes": "".join(f"\\u{ord(c):04x}" if not c.isalnum() else c for c in text),
        "percent": urllib.parse.quote(text, safe=""),
        "html": text.replace("&", "&amp;").replace('"', "&quot;").replace("=", "&#61;"),
        "soft hyphens": text[:10] + "\u00ad" + text[10:14] + "\u200b" + text[14:],
        "non-breaking": text.replace(" ", "\u00a0"),
    }


@pytest.mark.parametrize("encoding", encodings(""))
@pytest.mark.parametrize(
    ("text", "secret"),
    [(f"use {SECRET} now", SECRET), ('{"password": "hunter2hunter2"}', "hunter2hunter2")],
)
def test_an_encoded_secret_is_found(encoding: str, text: str, secret: str) -> None:
    """However it is written, whole or in parts."""
    encoded = encodings(text)[encoding]
    redacted, count = REDACTOR.redact(encoded)
    assert count == 1
    assert secret not in redacted
    assert secret[-6:] not in redacted
    if encoding.startswith("json"):
        json.loads(redacted)


@given(value=NESTED)
def test_a_key_is_found_wherever_it_is_nested(value: Any) -> None:
    """In any structure, and in its JSON as a text; what comes out is JSON again, and stays as it is."""
    walked = json.dumps(REDACTOR.redact_value(value).value)
    text = REDACTOR.redact(json.dumps(value)).text
    assert SECRET not in walked
    assert SECRET not in text
    json.loads(text)
    assert REDACTOR.redact(text) == (text, 0)


@given(text=st.text(alphabet=st.characters(exclude_categories=[]), max_size=300))
def test_any_text_can_be_redacted(text: str) -> None:
    """Surrogates, NUL, controls: no text raises, and a second pass changes nothing."""
    once = REDACTOR.redact(text)
    assert REDACTOR.redact(once.text) == (once.text, 0)


HOSTILE = {
    "digits and dots": "1.1.1." * 50_000,
    "card-like": "1111-" * 20_000,
    "addresses": "a@a@" * 50_000,
    "one character": "a" * 1_000_000,
    "keys without values": "password= " * 10_000,
    "quotes": '"token":"' * 10_000,
    "backslashes": "\\" * 100_000,
    "percent": "%25" * 50_000,
    "surrogates": "\ud800" * 50_000,
    "begin": "-----BEGIN PRIVATE KEY-----" * 5_000,
    "deep": "[" * 100_000,
    "secrets of Kubernetes": "kind: Secret\n" * 20_000,
    "labels": "the password for the " * 10_000,
    "elements": "<token " * 20_000,
    "lists": "api_keys: [ " * 10_000,
    "headers": "authorization: a " * 10_000,
    "labels without spaces": "密码是" * 10_000,
    "commands": "mysql -u " * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_redacted_all_the_same(name: str) -> None:
    """A secret at its end is found. How long it takes is measured in `bench`."""
    assert SECRET not in REDACTOR.redact(HOSTILE[name] + " " + SECRET + " end").text


def test_rules_and_names_of_the_users_own() -> None:
    """Further rules and key names take part in the same pass."""
    rule = Rule("badge", "a staff badge", r"\bBADGE-\d{6}\b")
    redactor = Redactor(extra_rules=[rule], extra_key_names=["loyaltyNumber"])
    assert redactor.redact("BADGE-123456").text == "[redacted:badge]"
    assert redactor.redact_value({"loyalty_number": "77"}).value == {"loyalty_number": MARK}
    assert REDACTOR.redact("BADGE-123456").count == 0


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("bsn", "111222333", "national-id"),
        ("tax_id", 123456789, "national-id"),
        ("phone", "030 901820", "phone"),
        ("mobile", "07700 900123", "phone"),
        ("order", "030 901820", None),
        ("bsn", "111222334", None),
        ("amount", "1234.50", None),
        ("max_tokens", 123456789, None),
    ],
)
def test_a_key_is_the_label_of_its_number(key: str, value: object, rule: str | None) -> None:
    """In a structure as in a text: `bsn: 111222333`."""
    expected = f"[redacted:{rule}]" if rule else value
    assert REDACTOR.redact_value({key: value, "n": 1}).value == {key: expected, "n": 1}


def by_digest(**options: Any) -> Redactor:
    """A redactor whose marks tell equal secrets."""
    return Redactor(digest=lambda secret: hashlib.sha256(secret.encode()).hexdigest()[:16], **options)


def test_marks_tell_equal_secrets() -> None:
    """The same secret has the same mark in a text, encoded, under a key, in a structure."""
    redactor = by_digest()
    quoted = json.dumps({"body": json.dumps({"key": SECRET})})
    escaped = SECRET.replace("_", "\\u005f")
    for rule, values in {
        "github": [f"use {SECRET}", f"token={SECRET}", quoted, f"q={SECRET.replace('_', '%5f')}", escaped],
        "key": [
            {"password": "hunter2 hunter2"},
            '{"password": "hunter2 hunter2"}',
            [("password", "hunter2 hunter2")],
        ],
        "card": [4111111111111111, "card 4111111111111111 now", '{"n": 4111111111111111}'],
    }.items():
        done = [json.dumps(redactor.redact_value(value).value) for value in values]
        marks = {mark for text in done for mark in re.findall(r"\[redacted:[^\]]*\]", text)}
        assert len(marks) == 1, marks
        assert re.fullmatch(rf"\[redacted:{rule}#[0-9a-f]{{16}}\]", marks.pop())
    assert redactor.redact(SECRET).text != redactor.redact(SECRET + "x").text


@given(value=NESTED)
def test_marks_with_digests_stay_as_they_are(value: Any) -> None:
    """Redacted again, with digests or without, nothing changes: a mark holds no secret."""
    once = by_digest().redact(json.dumps(value)).text
    assert by_digest().redact(once) == (once, 0)
    assert REDACTOR.redact(once) == (once, 0)


@pytest.mark.parametrize("digest", ["4111111111111111", "0000000000000000", "e" * 16, "1234567890123456"])
def test_a_digest_is_taken_for_nothing_else(digest: str) -> None:
    """Its digits may look like a card's."""
    text = f"password=[redacted:key#{digest}] [redacted:openai#{digest}]"
    assert REDACTOR.redact(text) == (text, 0)


def test_a_failure_says_nothing_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be redacted raises, and neither message nor cause holds the text."""

    def broken(_: object) -> object:
        raise ValueError(SECRET)

    monkeypatch.setattr(REDACTOR, "_compiled", broken)
    for call in (REDACTOR.redact, REDACTOR.redact_value):
        with pytest.raises(RedactionError) as caught:
            call(SECRET)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


def test_what_grows_without_bound_is_refused() -> None:
    """A list that holds another twice, sixty times over: no text is worth that."""
    value: Any = ["a"]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(RedactionError):
        REDACTOR.redact_value(value)


def test_many_keys_may_become_the_same() -> None:
    """Each is kept, numbered, and it takes no longer the more there are (`bench` measures)."""
    done = REDACTOR.redact_value({f"a{number}@example.org": number for number in range(5_000)}).value
    assert list(done)[:3] == ["[redacted:email]", "[redacted:email] (2)", "[redacted:email] (3)"]
    assert list(done.values()) == list(range(5_000))


@pytest.mark.parametrize("value", ["[redacted:x] Hunter2xyz", "[redacted: no] Hunter2xyz"])
def test_what_only_begins_like_a_mark_is_hidden(value: str) -> None:
    """A value under a secret name stays only where it is a mark whole."""
    assert REDACTOR.redact_value({"password": value}).value == {"password": MARK}
    assert REDACTOR.redact_value({"password": MARK}) == ({"password": MARK}, 0)
