"""One Call is found again and shown step by step."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from agent_kit import Script, call, desk, run
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart
from rich.console import Console

import guardspan
from guardspan.files import GuardspanFileExporter
from guardspan.report import text
from guardspan.report.reading import SpanFiles, find_files
from guardspan.report.tree import CallNotFound, find_tree
from report.span_files import Attempt, Call, Check, raw_span, span_line, writing


def shown(folder: Path, wanted: str, width: int = 200) -> list[str]:
    """The lines of the tree, without space at their ends."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, emoji=False)
    console.print(find_tree(find_files([folder]), wanted))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip().replace("\u202f", " ") for line in console.file.getvalue().splitlines()]


@pytest.fixture
def nested(folder: Path) -> Path:
    """A Call whose Iteration calls another guard, through a span of another instrumentation."""
    inner = Call("inner", "cccc0001", Attempt(input=3), through=True, at=0.1, seconds=0.2)
    with writing(folder) as writer:
        writer.write(
            Call(
                "outer",
                "bbbb0001",
                Attempt(
                    "fail",
                    model="gpt-4o",
                    input=1200,
                    cache_read=200,
                    output=30,
                    reasoning=10,
                    cost=0.01,
                    failure="validation",
                    failed=["ValidLength"],
                    reason="validation",
                    evidence="first line\n\x1b[31msecond\u202e line",
                    repeats=2,
                    library_status="pass",
                    checks=[
                        Check("ValidLength", "fail", 0.002, {"on_fail": "reask", "path": "$.name", "runs": 3})
                    ],
                ),
                Attempt("pass", stage="reask", calls=[inner]),
                guardrails_id="140001",
                team="support",
                asked="gpt-4o",
                library="guardrails",
                cost=0.01,
                limit_reached=True,
            ),
            Call("other", "bbbb0002", Attempt(), guardrails_id="140001", at=60),
        )
    return folder


TREE = """
guard outer  pass  2 Iterations · $0.0100 · 1 s
re-asks used up, passed with fix values
call bbbb0001
trace TRACE
Guardrails' call id 140001
entry __call__
model asked for gpt-4o
service tests
team support
began 2025-11-30 12:00 UTC
├── Iteration 0 initial  fail  gpt-4o · 1,200 in (200 from cache) · 30 out (10 reasoning) · $0.0100 · 500 ms
│   validation · failed: ValidLength
│   asked again because of validation
│   the same failure 2 times in a row
│   the library's own status: pass
│   evidence:
│     first line
│     \\u001b[31msecond\\u202e line
│   └── ValidLength  fail  $.name · on fail: reask · 3 runs · 2 ms
└── Iteration 1 reask  pass  500 ms
    └── guard inner  pass  1 Iteration · 200 ms
        call cccc0001
        trace TRACE
        entry __call__
        service tests
        began 2025-11-30 12:00 UTC
        └── Iteration 0 initial  pass  3 in · no price · 500 ms
"""


@pytest.mark.parametrize("wanted", ["bbbb0001", "trace", "TRACE"])
def test_a_call_is_a_tree_of_its_steps(nested: Path, wanted: str) -> None:
    """Call, Iterations, Validators, the evidence made harmless, and the guard called within."""
    trace = next(
        span["traceId"]
        for path in nested.glob("*.jsonl")
        for line in path.open()
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        if span["name"] == "guard outer"
    )
    named = {"trace": trace, "TRACE": trace.upper()}.get(wanted, wanted)
    assert shown(nested, named) == TREE.replace("TRACE", trace).strip().splitlines()


def test_the_beginning_of_an_id_is_enough(nested: Path) -> None:
    """A guard called within another one can be asked for by itself."""
    assert shown(nested, "cc")[0] == "guard inner  pass  1 Iteration · 200 ms"


@pytest.mark.parametrize("width", range(40, 110, 5))
def test_no_number_is_parted_from_its_unit(nested: Path, width: int) -> None:
    """In a narrow terminal lines break between facts."""
    lines = shown(nested, "bbbb0001", width)
    for fact in ("2 Iterations", "1,200 in (200 from cache)", "30 out (10 reasoning)", "500 ms", "3 runs"):
        assert any(fact in line for line in lines)
    assert max(map(len, lines)) <= max(width, len("├── 1,200 in (200 from cache)"))


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_used_up_reasks_of_a_call_that_passed(folder: Path, status: str) -> None:
    """Fix values are told where they are what passed, and only there."""
    with writing(folder) as writer:
        writer.write(Call("g", "a1", Attempt("fail"), status=status, limit_reached=True))
    told = "re-asks used up" + (", passed with fix values" if status == "pass" else "")
    assert told in shown(folder, "a1")


def test_a_check_that_raised_is_undecided(folder: Path) -> None:
    """The tree has the word of the table of validators."""
    with writing(folder) as writer:
        writer.write(Call("g", "a1", Attempt("error", checks=[Check("TwoWords", None)])))
    assert "TwoWords  undecided  1 ms" in shown(folder, "a1")[-1]


def test_an_exact_id_is_preferred_to_one_that_begins_so(folder: Path) -> None:
    """An id that another one begins with can still be asked for."""
    with writing(folder) as writer:
        writer.write(Call("short", "abc"), Call("long", "abcd"))
    assert shown(folder, "abc")[0].startswith("guard short")


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [("bbbb", ["bbbb0001", "bbbb0002"]), ("140001", ["bbbb0001", "bbbb0002"])],
)
def test_an_ambiguous_id_lists_what_it_can_mean(nested: Path, wanted: str, listed: list[str]) -> None:
    """Guardrails uses its ids again; each candidate is told with time, name and status."""
    with pytest.raises(CallNotFound) as caught:
        shown(nested, wanted)
    lines = str(caught.value).splitlines()
    assert [line.split()[0] for line in lines[1:]] == listed
    assert lines[1].split() == ["bbbb0001", "2025-11-30", "12:00", "outer", "pass"]


def test_an_unknown_id_is_told(nested: Path) -> None:
    """With what to do."""
    with pytest.raises(CallNotFound, match=r"no Call with the id 'zz'.*lists ids"):
        shown(nested, "zz")


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    """A hostile file whose spans are each other's parents is shown and does not run for ever."""
    spans = [raw_span(kind, number) for number, kind in ((1, "call"), (2, "iteration"), (3, "iteration"))]
    for span, parent in zip(spans, (3, 1, 2), strict=True):
        span |= {"traceId": f"{1:032x}", "parentSpanId": f"{parent:016x}"}
    path = tmp_path / "circle.jsonl"
    path.write_text(span_line(*spans))
    assert len([line for line in shown(path, f"{1:032x}") if "Iteration" in line]) == 2


def test_a_deep_nesting_ends(tmp_path: Path) -> None:
    """Thousands of guards within each other do not exhaust the stack."""
    spans = [raw_span("call", number) for number in range(1, 3000)]
    for number, span in enumerate(spans, 1):
        span |= {"traceId": f"{1:032x}", "parentSpanId": f"{number - 1:016x}"}
        span["attributes"].append({"key": "guardspan.call.id", "value": {"stringValue": f"id{number}"}})
    path = tmp_path / "deep.jsonl"
    path.write_text(span_line(*spans))
    assert shown(path, "id1", width=1000)[0].startswith("guard unknown")


def test_the_end_of_a_uuid_is_enough(folder: Path) -> None:
    """Ids that begin with the time differ in their ends."""
    first, second = (f"01a22ff8-a3e5-7567-bed3-2c7419ce840{digit}" for digit in "de")
    with writing(folder) as writer:
        writer.write(Call("one", first, Attempt()), Call("two", second, Attempt(), at=5))
    assert shown(folder, "2c7419ce840e")[0].startswith("guard two")
    assert text.short_id(second) == "2c7419ce840e"


async def test_an_agents_run_is_a_tree_of_its_steps(folder: Path) -> None:
    """Its tools, what it was asked again for, and what its message history lacked."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(GuardspanFileExporter(directory=folder)))
    guardspan.instrument(tracer_provider=provider)
    agent = desk(Script([call("find"), call("made_up_by_the_model")], "fine"))
    agent.tool_plain(lambda: "found", name="find")
    orphan = ModelRequest(parts=[ToolReturnPart("find", "found", "nobody's call")])
    history = [ModelRequest(parts=[UserPromptPart("hello")]), ModelResponse(parts=[TextPart("hi")]), orphan]
    await run(agent, message_history=history)
    guardspan.uninstrument()
    provider.shutdown()
    (line,) = list(SpanFiles(find_files([folder])).spans())[-1:]
    told = "\n".join(shown(folder, line.call_id or ""))
    assert told.startswith("agent desk  pass  2 Iterations")
    assert "its message history has 1x a result without a call" in told
    assert "tools find, (unknown): 2 asked for, 1 rejected" in told
    assert "asked again because of tool" in told
    assert "made_up_by_the_model" not in told
