"""The user's own price table: what its entries mean, and what is said of a faulty one."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from guardspan import safety
from guardspan.pricing import Price, Pricer, PricesError, Usage, load_prices


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(safety, "_reported", set())
    caplog.set_level(logging.DEBUG, logger="guardspan")
    return caplog


def dollars(price: Price | None) -> float | None:
    return None if price is None else price.usd


def table(tmp_path: Path, *models: dict[str, object], **more: object) -> Path:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"models": models, **more}))
    return path


ACME = {"model": "acme-7b", "input": 2, "output": 4}


@pytest.mark.parametrize(
    ("entry", "usage", "expected"),
    [
        ({}, Usage(1_000_000, 500_000), 4.0),
        ({}, Usage(1_000_000, 0, 400_000, 100_000), 2.0),
        ({"cache_read": 0.5}, Usage(1_000_000, 0, 400_000, 100_000), 1.4),
        ({"cache_creation": 3}, Usage(1_000_000, 0, 400_000, 100_000), 2.1),
        ({"cache_read": 0}, Usage(1_000_000, 0, 1_000_000), 0.0),
        ({}, Usage(0, 1_000_000, None, None, 250_000), 4.0),
        ({"reasoning": 8}, Usage(0, 1_000_000, None, None, 250_000), 5.0),
    ],
)
def test_rates_of_the_table(tmp_path: Path, entry: dict[str, float], usage: Usage, expected: float) -> None:
    """Rates are per million tokens; cached input and reasoning cost as the rest where they have no rate."""
    found = Pricer(table(tmp_path, {**ACME, **entry})).price(usage, model="acme-7b", provider="acme")
    assert found == Price(pytest.approx(expected), "custom")


@pytest.mark.parametrize("per", [1, 1_000, 1_000_000])
def test_rates_may_be_per_any_number_of_tokens(tmp_path: Path, per: int) -> None:
    """`per` says how many tokens a rate is for."""
    found = Pricer(table(tmp_path, ACME, per=per)).price(Usage(3 * per, per), model="acme-7b", provider=None)
    assert dollars(found) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("acme", "acme-7b", 1.0),
        ("acme", "ACME-7B", 1.0),
        ("acme", "acme/acme-7b", 1.0),
        ("acme", "acme-8b", 2.0),
        (None, "acme-8b", 2.0),
        ("azure", "support", 3.0),
        ("azure.ai.openai", "azure/support", 3.0),
        ("openai", "support", 4.0),
        (None, "support", 4.0),
        ("acme", "other", None),
    ],
)
def test_the_first_entry_that_fits_counts(
    tmp_path: Path, provider: str | None, model: str, expected: float | None
) -> None:
    """Exact names, globs and providers are tried in the order of the file."""
    path = table(
        tmp_path,
        {"model": "acme-7b", "input": 1, "output": 0},
        {"model": "acme-*", "input": 2, "output": 0},
        {"model": "support", "provider": "azure", "input": 3, "output": 0},
        {"model": "support", "input": 4, "output": 0},
    )
    found = Pricer(path).price(Usage(1_000_000, 5), model=model, provider=provider)
    assert dollars(found) == expected


def test_a_free_model_costs_nothing_rather_than_unknown(tmp_path: Path) -> None:
    """Rates of 0 are prices."""
    path = table(tmp_path, {"model": "*", "provider": "ollama", "input": 0, "output": 0})
    assert Pricer(path).price(Usage(5, 5), model="llama3", provider="ollama") == Price(0.0, "custom")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    """A table saved by an editor that writes one is read like any other."""
    path = tmp_path / "prices.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"models": [ACME]}).encode())
    assert load_prices(path).models[0].model == "acme-7b"


FAULTS = {
    "unknown field": ({"models": [{**ACME, "inptu": 1}]}, "models[0].inptu", "remove it"),
    "negative": ({"models": [ACME, {"model": "b", "input": -1}]}, "models[1].input", "0 or more"),
    "text for a number": ({"models": [{"model": "b", "output": "3"}]}, "models[0].output", "a number"),
    "not finite": ('{"models": [{"model": "b", "input": NaN}]}', "models[0].input", "a number"),
    "too large": ('{"models": [{"model": "b", "input": 1e999}]}', "models[0].input", "a number"),
    "no model": ({"models": [{"input": 1}]}, "models[0].model", "add it"),
    "empty model": ({"models": [{"model": "", "input": 1}]}, "models[0].model", "give a name"),
    "no rate": ({"models": [{"model": "b"}]}, "models[0]", "give at least one"),
    "cache only": ({"models": [{"model": "b", "output": 1, "cache_read": 1}]}, "models[0]", "`input`"),
    "reasoning only": ({"models": [{"model": "b", "input": 1, "reasoning": 1}]}, "models[0]", "`output`"),
    "twice": ({"models": [ACME, {**ACME, "model": "Acme-7B"}]}, "models[1]", "remove one"),
    "no models": ({}, "models", "add it"),
    "models no list": ({"models": {"acme": 1}}, "models", "brackets"),
    "per nothing": ({"models": [], "per": 0}, "per", "above 0"),
    "a list": ([], "the file", "braces"),
    "no JSON": ('{"models": [', "line 1 column", "mend the JSON"),
    "not UTF-8": (b'{"models": [{"model": "\xff"}]}', "line 1 column", "mend the JSON"),
    "too deep": ("[" * 100_000, "line 1 column", "mend the JSON"),
    "escapes in a name": ({"models": [], "\x1b[31mred": 1}, r"'\x1b[31mred'", "remove it"),
}


@pytest.mark.parametrize(("content", "field", "mend"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_of_the_table_is_named(tmp_path: Path, content: object, field: str, mend: str) -> None:
    """The message of a table that cannot be used names the file, the field or line, and the mend."""
    path = tmp_path / "prices.json"
    raw = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    with pytest.raises(PricesError) as caught:
        load_prices(path)
    message = str(caught.value)
    assert str(path) in message
    assert field in message
    assert mend in message
    assert "\x1b" not in message


def test_many_faults_are_told_in_few_lines(tmp_path: Path) -> None:
    """A table of nothing but faults yields a message that can be read."""
    path = table(tmp_path, *({"model": f"m{number}", "input": -1} for number in range(500)))
    with pytest.raises(PricesError, match="and 480 more"):
        load_prices(path)


@pytest.mark.parametrize("kind", ["missing", "folder", "huge"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    """A file that is not there, is none, or is far too large for a price table is told by its name."""
    path = tmp_path / "prices.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.write_bytes(b" " * 10_000_001)
    with pytest.raises(PricesError, match=re.escape(str(path))):
        load_prices(path)


def test_a_bad_table_is_logged_once_and_left_out(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    """The application goes on with genai-prices, and with one error in its log."""
    pricer = Pricer(table(tmp_path, {"model": "gpt-4o", "input": "cheap"}))
    for _ in range(3):
        found = pricer.price(Usage(1_000, 100), model="gpt-4o", provider="openai")
        assert found is not None
        assert found.source == "genai-prices"
    assert [record.levelname for record in log.records] == ["ERROR"]
    assert "models[0].input" in log.text


def test_the_documented_table_is_a_table(tmp_path: Path) -> None:
    """The example of docs/prices.md can be used as it stands."""
    page = Path(__file__).parents[1] / "docs" / "prices.md"
    examples = re.findall(r"```json\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        path = tmp_path / "prices.json"
        path.write_text(example)
        assert load_prices(path).models
