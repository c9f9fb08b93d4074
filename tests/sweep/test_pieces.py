"""Answers that broke off, and failures that quote a piece of one: half a secret is no less of one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import litellm
import pytest
from agent_kit import Script as Answers
from guardrails import Guard
from hypothesis import given
from hypothesis import strategies as st
from kit import Script, Unfixable
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from recording import Recording
from spans import by_kind

from guardspan.attributes import without_broken_end
from sweep.guard_uses import Contented

KEY = "sk-proj-" + "q7Rw" * 12


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("it is sk-proj-q7Rwq7", "it is …"),
        ("call 4111 1111 11", "call …"),
        ("call 4111 1111 ", "call …"),
        ("a whole sentence. ", "a whole sentence. "),
        ("oneword", "…"),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14", "1 2 …"),
        ("", ""),
    ],
)
def test_the_broken_end_of_a_text_goes(text: str, shown: str) -> None:
    """Its last word, where that may go on, and the groups of a number before it; no more than that."""
    assert without_broken_end(text) == shown


@given(st.text("ab1 \n", max_size=60))
def test_a_broken_end_is_all_that_goes(text: str) -> None:
    """What is left is the text's beginning."""
    shown = without_broken_end(text)
    assert shown == text or (shown[-1] == "…" and text.startswith(shown[:-1]))


def _response(text: str) -> Any:
    usage = SimpleNamespace(prompt_tokens=3, completion_tokens=2)
    choice = SimpleNamespace(message=SimpleNamespace(content=text, role="assistant"), finish_reason="length")
    return SimpleNamespace(id="1", model="m", choices=[choice], usage=usage, _hidden_params={})


def test_an_answer_that_ran_out_of_tokens_shows_no_half_of_a_key(
    record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as the LLM gave it nor as it was validated, by a guard."""
    monkeypatch.setattr(litellm, "completion", lambda *args, **kwargs: _response(f"the key is {KEY[:30]}"))
    recording: Recording = record(content="redacted")
    Guard(name="g").use(Contented(on_fail="noop"))(
        model="gpt-4o", messages=[{"role": "user", "content": "x"}]
    )
    (call,) = by_kind(recording.spans, "call")
    (iteration,) = by_kind(recording.spans, "iteration")
    assert iteration.attributes["guardspan.output.raw"] == "the key is …"
    assert call.attributes["guardspan.output.validated"] == "the key is …"


async def test_an_agent_that_ran_out_of_tokens_shows_no_half_of_a_key(record: Any) -> None:
    """As for a guard."""
    recording: Recording = record(content="redacted")
    answer = ModelResponse(parts=[TextPart(f"the key is {KEY[:30]}")], finish_reason="length")
    await Agent(Answers(answer).model, name="desk").run("hello")
    assert by_kind(recording.spans, "iteration")[0].attributes["guardspan.output.raw"] == "the key is …"
    assert by_kind(recording.spans, "call")[0].attributes["guardspan.output.validated"] == "the key is …"


def test_a_whole_answer_is_shown_whole(record: Any) -> None:
    """The last word of an answer that came to its end stays."""
    recording: Recording = record(content="redacted")
    guard = Guard(name="g").use(Unfixable(on_fail="noop"))
    guard(Script(["bad 17"]).sync, messages=[{"role": "user", "content": "x"}])
    (iteration,) = by_kind(recording.spans, "iteration")
    assert iteration.attributes["guardspan.output.raw"] == "bad 17"
    assert "'bad 17' is bad" in iteration.attributes["guardspan.evidence"]
