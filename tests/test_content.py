"""Content: what each mode records, and what it never does."""

from __future__ import annotations

import enum
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardspan.content import Content, Tally, clean, cut

SECRET = "sk-proj-" + "Zq3" * 16
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)


def capture(content: Content, value: object) -> tuple[str | None, Tally]:
    """The attribute that becomes of a value, and the tally."""
    tally = Tally()
    content.capture(tally, "name", value)
    return tally.attributes.get("name"), tally


def test_shape_shows_structure_and_no_word() -> None:
    """Roles, keys, lengths and scalars stay readable; a text becomes its length and a keyed digest."""
    content = Content("shape", key=b"key")
    messages = [{"role": "user", "content": "my name is Ada"}, {"role": "nobody knows", "n": 3, "t": 0.5}]
    recorded, _ = capture(content, messages)
    assert recorded is not None
    first, second = json.loads(recorded)
    assert first == {"role": "user", "content": {"chars": 14, "hmac": content.digest("my name is Ada")}}
    assert second["role"] == {"chars": 12, "hmac": content.digest("nobody knows")}
    assert (second["n"], second["t"]) == (3, 0.5)


@pytest.mark.parametrize(
    "key",
    [
        "ada@example.org",
        "a key with spaces",
        "4111111111111111",
        "ghp_" + "a1" * 18,
        "sk_live_" + "abcdefghijkl" * 2,
    ],
)
def test_shape_does_not_show_a_key_that_is_data(key: str) -> None:
    """Keys are structure only where they look like names; others are digested."""
    recorded, _ = capture(Content("shape"), {key: 1})
    assert recorded is not None
    assert key not in recorded
    assert json.loads(recorded)


def test_shape_does_not_show_a_long_number() -> None:
    """A number with many digits may be a card, a phone or an account."""
    recorded, _ = capture(Content("shape"), {"amount": 12, "card": 4111111111111111})
    assert recorded is not None
    assert json.loads(recorded) == {"amount": 12, "card": {"digits": 16}}


def test_digests_agree_under_one_key_and_differ_under_another() -> None:
    """Equal texts can be matched within a deployment, and not guessed from outside."""
    assert Content(key=b"one").digest("x") == Content(key=b"one").digest("x")
    assert Content(key=b"one").digest("x") != Content(key=b"two").digest("x")
    assert Content().digest("x") != Content().digest("x")


def test_off_records_nothing() -> None:
    """`off` is off, whatever the value."""
    assert capture(Content("off"), {"a": "b"})[0] is None


def test_redacted_keeps_the_text_and_drops_the_secret() -> None:
    """The text stays readable, a secret becomes a mark and is counted."""
    recorded, tally = capture(Content("redacted"), [{"role": "user", "content": f"use {SECRET} please"}])
    assert recorded is not None
    assert SECRET not in recorded
    assert "please" in recorded
    assert tally.redactions == 1
    assert json.loads(recorded)


def test_a_secret_on_the_edge_of_the_limit_is_not_cut_in_two() -> None:
    """What lies across the limit is redacted before it is cut."""
    content = Content("redacted", limit=100)
    recorded, _ = capture(content, "x" * 80 + " " + SECRET)
    assert recorded is not None
    assert len(recorded) <= 100
    assert SECRET[:16] not in recorded


def test_redaction_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that cannot be redacted is dropped and counted."""
    content = Content("redacted")

    def broken(_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(content.redactor, "redact", broken)
    recorded, tally = capture(content, "text")
    assert recorded is None
    assert (tally.failures, tally.redactions) == (1, 0)


@pytest.mark.parametrize("mode", ["shape", "redacted"])
@given(value=JSON)
def test_any_value_is_recorded_within_the_limit(mode: Any, value: Any) -> None:
    """Whatever the value, the attribute can be encoded, is within the limit, and nothing is dropped."""
    recorded, tally = capture(Content(mode, limit=200), value)
    assert tally.failures == 0
    if value is not None:
        assert recorded is not None
        assert len(recorded) <= 200
        recorded.encode("utf-8")
        assert "\x00" not in recorded


@pytest.mark.parametrize("mode", ["shape", "redacted"])
def test_a_huge_or_circular_value_costs_no_more_than_the_limit(mode: Any) -> None:
    """Walking stops when the budget is spent, and a circle ends."""
    circle: dict[str, Any] = {"text": "x" * 5_000_000}
    circle["itself"] = circle
    recorded, tally = capture(Content(mode, limit=500), [circle] * 10_000)
    assert tally.failures == 0
    assert recorded is not None
    assert len(recorded) <= 500


def test_an_object_becomes_its_type_and_is_not_asked() -> None:
    """No repr, no property, no iteration: reading an application's object may have effects."""

    class Touchy(dict[str, str]):
        pass

    class Object:
        def __repr__(self) -> str:
            raise AssertionError("asked")

        __str__ = __iter__ = __repr__

    for mode in ("shape", "redacted"):
        recorded, tally = capture(Content(mode), {"object": Object(), "mapping": Touchy(a="b")})
        assert tally.failures == 0
        assert recorded is not None
        assert "Object" in recorded


def test_clean_and_cut() -> None:
    """NUL and lone surrogates are replaced; a cut text says so and keeps to the limit."""
    assert clean("a\x00b\ud800c") == "a\ufffdb\ufffdc"
    assert clean("a😀b") == "a😀b"
    assert cut("abc", 3) == "abc"
    shortened = cut("a" * 500, 100)
    assert len(shortened) <= 100
    assert "[cut, 500 characters]" in shortened


@pytest.mark.parametrize("mode", ["shape", "redacted"])
@pytest.mark.parametrize("element", [[], 1, 0.5, None, True, [[]]], ids=repr)
def test_a_list_of_little_things_spends_the_budget(mode: Any, element: Any) -> None:
    """Elements that write next to nothing count as well, so that the walk ends with the limit."""
    seen = 0

    class Counting(list[Any]):
        def __iter__(self) -> Any:
            nonlocal seen
            for _ in range(100_000):
                seen += 1
                yield element

    recorded, tally = capture(Content(mode, limit=400), Counting())
    assert tally.failures == 0
    assert recorded is not None
    assert seen < 5_000


@pytest.mark.parametrize("key", ["pin", "otp", "password", "cvv", "api_key"])
@pytest.mark.parametrize("value", [4821, 0, 12.5, [4, 8, 2, 1], {"digits": 4821}])
def test_shape_hides_numbers_under_a_secret_name(key: str, value: object) -> None:
    """A number of few digits stays readable, but not where it is the secret itself."""
    recorded, _ = capture(Content("shape"), {key: value, "n": 4821})
    assert recorded is not None
    assert json.loads(recorded) == {key: {"type": type(value).__name__}, "n": 4821}


@pytest.mark.parametrize("name", ["max_tokens", "total_tokens", "primary_key", "author", "n"])
def test_shape_shows_numbers_under_a_name_that_only_sounds_secret(name: str) -> None:
    """Counts stay readable."""
    assert capture(Content("shape"), {name: 4821})[0] == f'{{"{name}":4821}}'


@pytest.mark.parametrize("mode", ["shape", "redacted", "off"])
def test_a_name_is_redacted_and_cut_in_every_mode(mode: Any) -> None:
    """A name of a model or a tool comes from outside, too; what is none is absent."""
    content = Content(mode)
    for _ in range(2):  # found, then remembered
        assert content.name("gpt-4o-mini") == "gpt-4o-mini"
        assert content.name(f"model {SECRET}") == "model [redacted:openai]"
        assert content.name("a\x00\ud800") == "a\ufffd\ufffd"
        assert len(content.name("x y " * 5_000) or "") == 256
        assert content.name("") is content.name(None) is content.name(7) is None


def test_names_without_end_do_not_fill_the_memory() -> None:
    """A response id is another one each time."""
    content = Content("shape")
    for number in range(3_000):
        assert content.name(f"id-{number}") == f"id-{number}"
    assert len(content._names) <= 1_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.7, 0.7),
        (0.87345678901, 0.873457),
        (4111111111111111.0, {"digits": 16}),
        (-12.5, -12.5),
        (1e300, {"digits": 100}),
    ],
)
def test_shape_shows_no_more_of_a_fraction_than_of_a_number(value: float, shown: object) -> None:
    """Six digits: a card may come as a fraction, too."""
    recorded, _ = capture(Content("shape"), {"n": value})
    assert recorded is not None
    assert json.loads(recorded) == {"n": shown}


def test_shape_shows_no_name_that_is_a_secret() -> None:
    """Neither a class's nor a key's that looks drawn by lot."""
    secret = type("ghp_" + "a1B2c3D4e5" * 4, (), {})
    recorded, _ = capture(Content("shape"), {"vxnJvZSvWGQptpWLpzqrNJk": secret(), "plainKeyOfCode": 1})
    assert recorded is not None
    assert "ghp_" not in recorded
    assert "vxnJvZ" not in recorded
    assert "plainKeyOfCode" in recorded


class Name(enum.Enum):
    PASSWORD = "password"


@pytest.mark.parametrize("key", [b"password", Name.PASSWORD])
@pytest.mark.parametrize("mode", ["redacted", "shape"])
def test_a_secret_name_need_be_no_string(key: object, mode: Any) -> None:
    """Keys in bytes, and of an enumeration."""
    for value in ("Hunter2xyz", 4821):
        recorded, _ = capture(Content(mode), {key: value})
        assert recorded is not None
        assert str(value) not in recorded


def test_a_key_is_cut_as_a_value_is() -> None:
    """A model may answer an object whose key is a megabyte."""
    recorded, _ = capture(Content("redacted"), {"%41" * 1_000_000: 1, "x": 2})
    assert recorded is not None
    assert len(recorded) <= 4096
