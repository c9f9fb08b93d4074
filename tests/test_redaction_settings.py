"""The settings of redaction, from the variable to the span: rules, hook, digests, options, and faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
from guardrails import Guard
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from recording import Recording, logged
from spans import by_kind

import guardspan

RULES = r"""
keys = ["loyaltyNumber"]
[[rules]]
id = "badge"
pattern = '\bBADGE-\d{6}\b'
matches = ["BADGE-123456"]
"""
TEXT = 'BADGE-123456 of Ada at 203.0.113.9, "loyaltyNumber": 77'


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


def of_a_guard(recording: Recording) -> str:
    """What is recorded of the text as a guard's input."""
    Guard(name="desk").validate(TEXT)
    (call,) = by_kind(recording.spans, "call")
    return str(call.attributes.get("guardspan.input.llm_output"))


def of_an_agent(recording: Recording) -> str:
    """What is recorded of the text as an agent's input."""
    Agent(TestModel(), name="desk").run_sync(TEXT)
    (call,) = by_kind(recording.spans, "call")
    return str(call.attributes.get("guardspan.input.messages"))


LIBRARIES = pytest.mark.parametrize("recorded", [of_a_guard, of_an_agent])


def find_ada(text: str) -> list[tuple[int, int, str]]:
    at = text.find("Ada")
    return [(at, at + 3, "person")] if at >= 0 else []


@LIBRARIES
def test_each_setting_has_its_effect(
    record: Callable[..., Recording], rules: Path, recorded: Callable[[Recording], str]
) -> None:
    """Rules, key names, the hook and addresses: on both libraries."""
    plain = recorded(record(content="redacted"))
    assert all(word in plain for word in ("BADGE-123456", "Ada", "203.0.113.9", "77"))
    options = {"redact_rules": rules, "redact_hook": find_ada, "redact_ip": True, "redact_digests": True}
    done = recorded(record(content="redacted", **options))
    for mark in ("[redacted:badge#", "[redacted:person#", "[redacted:ip#", "[redacted:key#"):
        assert mark in done
    left = re.sub(r"#[0-9a-f]{16}", "", done)  # the digits of a digest are any
    assert not any(word in left for word in ("BADGE-123456", "Ada", "203.0.113.9", "77"))


def test_variables_say_the_same(
    record: Callable[..., Recording], rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a line of code."""
    for name, value in {"CONTENT": "redacted", "REDACT_RULES": str(rules), "REDACT_IP": "true"}.items():
        monkeypatch.setenv(f"GUARDSPAN_{name}", value)
    done = of_a_guard(record())
    assert "[redacted:badge]" in done
    assert "[redacted:ip]" in done


def test_digests_are_keyed(record: Callable[..., Recording]) -> None:
    """With one key equal secrets are equal in two processes; with another, or none, they are not."""
    options = {"content": "redacted", "redact_digests": True, "redact_hook": find_ada}
    one, same, other, unkeyed = (
        of_a_guard(record(**options, **key))
        for key in ({"digest_key": "k"}, {"digest_key": "k"}, {"digest_key": "l"}, {})
    )
    assert one == same
    assert len({one, other, unkeyed}) == 3


def test_evidence_keeps_to_plain_marks(record: Callable[..., Recording]) -> None:
    """The digest of a failure must be the same in every process, and for another secret in its words."""
    digests = set()
    for secret in ("ghp_" + "a1B2c3D4e5" * 4, "ghp_" + "f6G7h8I9j0" * 4):
        recording = record(content="redacted", redact_digests=True)

        def broken(messages: Any, secret: str = secret, **_: Any) -> str:
            raise ValueError(f"refused {secret}")

        with pytest.raises(Exception, match="refused"):
            Guard(name="desk")(broken, messages=[{"role": "user", "content": "x"}])
        (call,) = by_kind(recording.spans, "call")
        digests.add(call.attributes["guardspan.failure.digest"])
    assert len(digests) == 1


@pytest.mark.usefixtures("fresh_log")
@pytest.mark.parametrize("content", ["pattern = '('", "rules = 1", None])
def test_rules_that_cannot_be_used_end_the_recording_of_content(
    record: Callable[..., Recording],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    content: str | None,
) -> None:
    """Closed: what they were to hide would show. The application goes on, and so do status and tokens."""
    path = tmp_path / "rules.toml"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GUARDSPAN_CONTENT", "redacted")
    monkeypatch.setenv("GUARDSPAN_REDACT_RULES", str(path))
    recording = record()
    assert of_a_guard(recording) == "None"
    (call,) = by_kind(recording.spans, "call")
    assert call.attributes["guardspan.status"] == "pass"
    assert TEXT not in str([dict(span.attributes or {}) for span in recording.spans])
    told = [line for line in logged(caplog) if "no content is recorded" in line]
    assert told
    assert str(path) in told[0]


@pytest.mark.usefixtures("put_back")
def test_a_keyword_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    """The author of the code is there to mend it."""
    with pytest.raises(ValueError, match=r"cannot be read .*GUARDSPAN_REDACT_RULES"):
        guardspan.instrument(redact_rules=tmp_path / "none.toml")
    with pytest.raises(TypeError, match="redact_hook must be callable"):
        guardspan.instrument(redact_hook="find")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A spaCy pipeline that knows one name and one place."""
    pipeline = spacy.blank("en")
    known = [{"label": "PERSON", "pattern": "Ada"}, {"label": "GPE", "pattern": "London"}]
    pipeline.add_pipe("entity_ruler").add_patterns(known)
    pipeline.to_disk(tmp_path / "model")
    return tmp_path / "model"


@LIBRARIES
def test_presidio_finds_names(
    record: Callable[..., Recording],
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: Callable[[Recording], str],
) -> None:
    """With the model that the variable names."""
    monkeypatch.setenv("GUARDSPAN_REDACT_PRESIDIO", str(model))
    done = recorded(record(content="redacted"))
    assert "[redacted:person]" in done
    assert "Ada" not in done


@pytest.mark.usefixtures("fresh_log")
def test_a_model_that_is_not_there_ends_the_recording_of_content(
    record: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Closed, with the mend in the log, once for both libraries."""
    monkeypatch.setenv("GUARDSPAN_REDACT_PRESIDIO", "no_such_model")
    assert of_a_guard(record(content="redacted")) == "None"
    (told,) = [line for line in logged(caplog) if "no content is recorded" in line]
    assert "python -m spacy download no_such_model" in told


@LIBRARIES
@pytest.mark.parametrize("answer", [LookupError(TEXT), None, [(0, 10_000, "x")]])
def test_a_hook_that_fails_fails_closed(
    record: Callable[..., Recording], recorded: Callable[[Recording], str], answer: Any
) -> None:
    """Nothing of the text is recorded, the failure is counted, and the application sees none of it."""

    def hook(text: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    recording = record(content="redacted", redact_hook=hook)
    assert recorded(recording) == "None"
    (call,) = by_kind(recording.spans, "call")
    assert call.attributes["guardspan.redaction.failures"] >= 1
    assert call.attributes["guardspan.status"] == "pass"
    assert "BADGE" not in json.dumps([dict(span.attributes or {}) for span in recording.spans])


@pytest.mark.usefixtures("fresh_log")
def test_a_variable_of_redaction_that_cannot_be_used_ends_the_recording_of_content(
    record: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wrote `ja` wanted addresses redacted; without, they would show."""
    monkeypatch.setenv("GUARDSPAN_CONTENT", "REDACTED")
    monkeypatch.setenv("GUARDSPAN_REDACT_IP", "ja")
    assert of_a_guard(record()) == "None"
