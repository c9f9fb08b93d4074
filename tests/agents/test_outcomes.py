"""The span trees of what can become of an agent's answers, compared whole, for every way to run an agent."""

from __future__ import annotations

import re

import pytest
from agent_kit import Script, call, desk
from outcome_kit import (
    ADA,
    ADAS_TEXT,
    ASKING_AGAIN,
    EVERY_WAY,
    INVALID,
    MADE_UP,
    PASSED,
    REFUSED,
    RETRY,
    UNEXPECTED,
    WHOLE,
    Case,
    Person,
    check,
    each_way,
    erred,
    expected,
    no_bad,
    not_bad,
    of_age,
    outcomes,
    ran,
    with_tools,
)
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    NativeOutput,
    PromptedOutput,
    TextOutput,
    UsageLimits,
    exceptions,
)
from pydantic_ai.messages import ModelResponse, ThinkingPart, ToolCallPart
from recording import Recording
from spans import everything


def asked_again(name: str, failure_class: str = "validation", also: str | None = None) -> str:
    """The tree of an output that was rejected, then accepted."""
    before = f"{check(also)}\n" if also else ""
    return f"""\
agent desk ENTRY x2 [pass] reasks.limit=1 validators.failed={name}
  iteration 0 initial [fail] reask.reason={failure_class} validators.failed={name} \
failure.class={failure_class} failure.repeats=1
{before}{check(name, "fail")}
  iteration 1 reask [pass]
{before}{check(name)}"""


def tool_asked_again(tool: str, last: str = "", calls: int = 1) -> str:
    """The tree of a tool call that was to be made again, then of an answer that is `last`."""
    return f"""\
agent desk ENTRY x2 [pass] reasks.limit=1
  iteration 0 initial [fail] reask.reason=tool tool.name={tool} tool.calls={calls} tool.retries=1 \
failure.class=validation failure.repeats=1
  iteration 1 reask [pass]{last}"""


EMPTY_ONCE = """\
agent desk ENTRY x2 [pass] reasks.limit=1
  iteration 0 initial [fail] reask.reason=empty failure.class=provider failure.repeats=1
  iteration 1 reask [pass]"""

ACCEPTED: dict[str, Case] = {
    "text": Case(lambda: desk(Script("fine")), PASSED),
    "an output": Case(
        lambda: desk(Script(call("final_result", **ADA)), output_type=Person), f"{PASSED}\n{check('Person')}"
    ),
    "tools fine": Case(
        lambda: with_tools([call("look", number=1), call("look"), call("picky", number=2)], "fine"),
        """\
agent desk ENTRY x2 [pass] reasks.limit=1
  iteration 0 initial [pass] tool.name=look,picky tool.calls=3
  iteration 1 initial [pass]""",
    ),
    "a tool deferred": Case(
        lambda: with_tools(call("later"), output_type=[str, DeferredToolRequests]),
        f"{PASSED} tool.name=later tool.calls=1",
    ),
    "a tool that needs approval": Case(
        lambda: with_tools(call("dangerous"), output_type=[str, DeferredToolRequests]),
        f"{PASSED} tool.name=dangerous tool.calls=1",
    ),
    "one tool deferred, one done": Case(
        lambda: with_tools([call("look"), call("later")], output_type=[str, DeferredToolRequests]),
        f"{PASSED} tool.name=look,later tool.calls=2",
    ),
}

REJECTED: dict[str, Case] = {
    "output of a tool that does not fit": Case(
        lambda: desk(
            Script(call("final_result", name="Ada"), call("final_result", **ADA)), output_type=Person
        ),
        asked_again("Person"),
    ),
    "native output that does not fit": Case(
        lambda: desk(Script('{"name": "Ada"}', ADAS_TEXT), output_type=NativeOutput(Person)),
        asked_again("Person"),
    ),
    "prompted output that does not fit": Case(
        lambda: desk(Script('{"name": "Ada"}', ADAS_TEXT), output_type=PromptedOutput(Person)),
        asked_again("Person"),
    ),
    "native output that is no JSON": Case(
        lambda: desk(Script("prose", ADAS_TEXT), output_type=NativeOutput(Person)),
        asked_again("Person", "parsing"),
    ),
    "prompted output that is no JSON": Case(
        lambda: desk(Script("prose", ADAS_TEXT), output_type=PromptedOutput(Person)),
        asked_again("Person", "parsing"),
    ),
    "output of a tool that is no JSON": Case(
        lambda: desk(
            Script(ToolCallPart("final_result", '{"name":'), call("final_result", **ADA)), output_type=Person
        ),
        asked_again("Person", "parsing"),
    ),
    "an output validator asks again": Case(lambda: no_bad("bad", "fine"), asked_again("no_bad")),
    "an output function asks again": Case(
        lambda: desk(
            Script(call("final_result", name="Eve", age=1), call("final_result", **ADA)), output_type=of_age
        ),
        asked_again("of_age", also="str"),
    ),
    "a text function asks again": Case(
        lambda: desk(Script("bad", "fine"), output_type=TextOutput(not_bad)), asked_again("not_bad")
    ),
}

ASKED_AGAIN: dict[str, Case] = {
    **{name: case._replace(ways=ASKING_AGAIN) for name, case in REJECTED.items()},
    "three times": Case(
        lambda: no_bad("bad", "bad too", "bad again", "fine", retries=3),
        "agent desk ENTRY x4 [pass] reasks.limit=3 validators.failed=no_bad stuck=True\n"
        + "".join(
            f"  iteration {index} {'reask' if index else 'initial'} [fail] reask.reason=validation "
            f"validators.failed=no_bad failure.class=validation failure.repeats={index + 1}\n"
            f"{check('no_bad', 'fail')}\n"
            for index in range(3)
        )
        + f"  iteration 3 reask [pass]\n{check('no_bad')}",
        ASKING_AGAIN,
    ),
    "arguments that do not fit": Case(
        lambda: with_tools(call("look", number="many"), "fine"), tool_asked_again("look")
    ),
    "arguments that are no JSON": Case(
        lambda: with_tools(ToolCallPart("look", '{"number":'), "fine"), tool_asked_again("look")
    ),
    "a tool asks again": Case(
        lambda: with_tools(call("picky", number=1), call("picky", number=2), "fine"),
        tool_asked_again("picky", " tool.name=picky tool.calls=1").replace("x2", "x3")
        + "\n  iteration 2 initial [pass]",
    ),
    "one of two tools asks again": Case(
        lambda: with_tools([call("look"), call("picky", number=1)], "fine"),
        tool_asked_again("look,picky", calls=2),
    ),
    "an unknown tool": Case(lambda: with_tools(call(MADE_UP, a=1), "fine"), tool_asked_again("(unknown)")),
    "an unknown tool of an agent without tools": Case(
        lambda: desk(Script(call(MADE_UP, a=1), "fine")), tool_asked_again("(unknown)")
    ),
    "no part at all": Case(lambda: desk(Script([], "fine")), EMPTY_ONCE, WHOLE),
    "an empty text": Case(lambda: desk(Script("", "fine")), EMPTY_ONCE, WHOLE),
    "only a thought": Case(lambda: desk(Script([ThinkingPart("hm")], "fine")), EMPTY_ONCE, WHOLE),
}


def used_up(first: str, last: str, failure: str, validator: str = "", call: str = "") -> str:
    """The tree of a Call whose retries were used up: `first` and `last` tell of its Iterations."""
    return f"""\
agent desk ENTRY x2 [fail] ! {UNEXPECTED} reasks.limit=1 limit_reached=True {failure} \
error.type={UNEXPECTED}{call}
  iteration 0 initial [fail] {first} failure.repeats=1{validator}
  iteration 1 reask [fail] {last} failure.repeats=2{validator}"""


def output_used_up(name: str, cause: str) -> str:
    """The tree of an output that was rejected until no retry was left."""
    said = f"validators.failed={name} failure.class=validation"
    return used_up(
        f"reask.reason=validation {said}",
        said,
        f"failure.class=validation failure.cause={cause}",
        f"\n{check(name, 'fail')}",
        f" validators.failed={name}",
    )


def tool_used_up(name: str, cause: str) -> str:
    """The tree of a tool call that was to be made again until no retry was left."""
    said = f"tool.name={name} tool.calls=1 tool.retries=1 failure.class=validation"
    return used_up(f"reask.reason=tool {said}", said, f"failure.class=validation failure.cause={cause}")


USED_UP: dict[str, Case] = {
    "output validator": Case(lambda: no_bad("bad"), output_used_up("no_bad", RETRY), ASKING_AGAIN),
    "schema": Case(
        lambda: desk(Script(call("final_result", name="Ada")), output_type=Person),
        output_used_up("Person", INVALID),
        ASKING_AGAIN,
    ),
    "native schema": Case(
        lambda: desk(Script('{"name": "Ada"}'), output_type=NativeOutput(Person)),
        output_used_up("Person", INVALID),
        ASKING_AGAIN,
    ),
    "tool": Case(lambda: with_tools(call("picky", number=1)), tool_used_up("picky", RETRY)),
    "arguments": Case(lambda: with_tools(call("look", number="many")), tool_used_up("look", INVALID)),
}

EMPTY = "failure.class=provider"

USED_UP_WITHOUT_A_CHECK: dict[str, Case] = {
    "unknown tool": Case(
        lambda: with_tools(call(MADE_UP, a=1)),
        tool_used_up("(unknown)", "").replace(" failure.cause=", ""),
    ),
    "empty": Case(
        lambda: desk(Script([])),
        used_up(f"reask.reason=empty {EMPTY}", EMPTY, EMPTY),
        WHOLE,
    ),
}


def refused(before: str = "", count: int = 1, stage: str = "initial", call: str = "") -> str:
    """The tree of a Call whose last request was refused by a limit."""
    error = f"failure.class=limit error.type={REFUSED}"
    known = " reasks.limit=1" if before else ""
    return f"""\
agent desk ENTRY x{count} [error] ! {REFUSED}{known} {error}{call}{before}
  iteration {count - 1} {stage} [not run] {error} failure.repeats=1"""


RAISED: dict[str, Case] = {
    "content filter": Case(
        lambda: desk(Script(ModelResponse([], finish_reason="content_filter"))),
        erred("pydantic_ai.exceptions.ContentFilterError", "policy"),
        WHOLE,
    ),
    "the provider's error": Case(
        lambda: desk(Script(exceptions.ModelHTTPError(500, "gpt-4o", "sorry"))),
        erred("pydantic_ai.exceptions.ModelHTTPError", "provider"),
    ),
    "the client's error": Case(
        lambda: desk(Script(ConnectionError("refused"))), erred("ConnectionError", "provider")
    ),
    "the client's time limit": Case(
        lambda: desk(Script(TimeoutError("too slow"))), erred("TimeoutError", "timeout")
    ),
    "a tool's exception": Case(
        lambda: with_tools(call("broken")),
        erred("LookupError", "configuration", " tool.name=broken tool.calls=1 tool.failures=1"),
    ),
    "a deferred tool that nobody asked for": Case(
        lambda: with_tools(call("later")),
        erred("pydantic_ai.exceptions.UserError", "configuration", " tool.name=later tool.calls=1"),
    ),
    "no model": Case(
        lambda: Agent(name="desk"),
        "agent desk ENTRY x0 [error] ! pydantic_ai.exceptions.UserError failure.class=configuration "
        "error.type=pydantic_ai.exceptions.UserError",
    ),
}

LIMITED: dict[str, Case] = {
    "before the first request": Case(
        lambda: desk(Script("fine")), refused(), options={"usage_limits": UsageLimits(request_limit=0)}
    ),
    "before the second request": Case(
        lambda: with_tools(call("look"), "fine"),
        refused("\n  iteration 0 initial [pass] tool.name=look tool.calls=1", 2),
        options={"usage_limits": UsageLimits(request_limit=1)},
    ),
    "before a re-ask": Case(
        lambda: no_bad("bad", "fine"),
        refused(
            "\n  iteration 0 initial [fail] reask.reason=validation validators.failed=no_bad "
            f"failure.class=validation failure.repeats=1\n{check('no_bad', 'fail')}",
            2,
            "reask",
            " validators.failed=no_bad",
        ),
        ASKING_AGAIN,
        {"usage_limits": UsageLimits(request_limit=1)},
    ),
    "before a tool is called again": Case(
        lambda: with_tools(call("picky", number=1), "fine"),
        refused(
            "\n  iteration 0 initial [fail] reask.reason=tool tool.name=picky tool.calls=1 tool.retries=1 "
            "failure.class=validation failure.repeats=1",
            2,
            "reask",
        ),
        options={"usage_limits": UsageLimits(request_limit=1)},
    ),
    "after a response": Case(
        lambda: desk(Script("one two three")),
        erred(REFUSED, "limit"),
        options={"usage_limits": UsageLimits(output_tokens_limit=1)},
    ),
    "of tool calls": Case(
        lambda: with_tools(call("look"), "fine"),
        erred(REFUSED, "limit", " tool.name=look tool.calls=1"),
        options={"usage_limits": UsageLimits(tool_calls_limit=0)},
    ),
}


@each_way(ACCEPTED)
def test_an_answer_that_is_accepted_passes(recording: Recording, name: str, way: str) -> None:
    """A final result passes, and so does an answer whose tools are done or handed to somebody else."""
    ran(way, ACCEPTED[name].agent())
    assert outcomes(recording) == expected(ACCEPTED[name].tree, way)


@each_way(ASKED_AGAIN)
def test_an_answer_that_is_asked_for_again_fails_and_the_call_passes(
    recording: Recording, name: str, way: str
) -> None:
    """What was rejected is told on its Iteration, with why; span statuses stay unset: nothing is broken."""
    ran(way, ASKED_AGAIN[name].agent())
    assert outcomes(recording) == expected(ASKED_AGAIN[name].tree, way)


@each_way(USED_UP)
def test_retries_that_are_used_up_fail_the_call(recording: Recording, name: str, way: str) -> None:
    """The Call fails with span status ERROR, the limit is told, and each Iteration keeps its own failure."""
    assert type(ran(way, USED_UP[name].agent())).__name__ == "UnexpectedModelBehavior"
    assert outcomes(recording) == expected(USED_UP[name].tree, way)


@each_way(USED_UP_WITHOUT_A_CHECK)
def test_retries_for_what_no_check_sees_are_used_up_as_well(
    recording: Recording, name: str, way: str
) -> None:
    """Empty answers and unknown tools count like rejected ones. Releases differ in the cause they give."""
    assert type(ran(way, USED_UP_WITHOUT_A_CHECK[name].agent())).__name__ == "UnexpectedModelBehavior"
    tree = re.sub(r" failure\.cause=\S+", "", outcomes(recording))
    assert tree == expected(USED_UP_WITHOUT_A_CHECK[name].tree, way)


@each_way({**RAISED, **LIMITED})
def test_what_is_raised_to_the_application_is_an_error(recording: Recording, name: str, way: str) -> None:
    """Call and Iteration name the exception and its class; a request that was refused is one `not run`."""
    case = {**RAISED, **LIMITED}[name]
    error = ran(way, case.agent(), **case.options)
    assert isinstance(error, Exception)
    assert outcomes(recording) == expected(case.tree, way)


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("answers", [1, 2])
def test_a_tool_name_that_the_model_made_up_is_content(recording: Recording, way: str, answers: int) -> None:
    """It appears nowhere, be the retries used up or not: a name is where a model would put a secret, too."""
    ran(way, with_tools(*[call(MADE_UP, a=1)] * answers, "fine"))
    assert MADE_UP not in everything(recording.spans)


@pytest.mark.parametrize("name", REJECTED)
def test_run_stream_fails_at_the_first_rejection(recording: Recording, name: str) -> None:
    """The output is in the reader's hands, so none is asked for again: the Call fails."""
    case = REJECTED[name]
    error = ran("run_stream", case.agent())
    assert type(error).__name__ == "UnexpectedModelBehavior"
    call, *iteration = outcomes(recording).splitlines()
    first = case.tree.splitlines()[1 : case.tree.splitlines().index("  iteration 1 reask [pass]")]
    assert iteration == [re.sub(r" reask\.reason=\S+", "", line) for line in first]
    failure_class = "parsing" if "failure.class=parsing" in case.tree else "validation"
    assert call.startswith(f"agent desk run_stream x1 [fail] ! {UNEXPECTED} ")
    assert f" failure.class={failure_class} " in call
    assert "limit_reached" not in call


FAILING_TOOL = getattr(exceptions, "ToolFailed", None)
"""Newer releases let a tool say that it failed, without asking for it again."""


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_tool_that_says_that_it_failed_is_counted(recording: Recording, way: str) -> None:
    """The model goes on with what the tool says. Releases without `ToolFailed` can only raise."""
    agent = desk(Script(call("fails"), "fine"))

    @agent.tool_plain
    def fails() -> str:
        raise (FAILING_TOOL or LookupError)("out of order")

    ran(way, agent)
    tools = " tool.name=fails tool.calls=1 tool.failures=1"
    told = f"""\
agent desk ENTRY x2 [pass] reasks.limit=1
  iteration 0 initial [pass]{tools}
  iteration 1 initial [pass]"""
    if FAILING_TOOL is None:
        told = erred("LookupError", "configuration", tools)
    assert outcomes(recording) == expected(told, way)
