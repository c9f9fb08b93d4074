"""Validator spans of agents: what each output had to pass, which of it ran, and what became of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pydantic
import pytest
from agent_kit import WAYS, Script, call, desk, run
from outcome_kit import ADA, ASKING_AGAIN, Person, check, erred, expected, outcomes, ran
from pydantic_ai import Agent, ModelRetry, NativeOutput, RunContext, TextOutput, ToolOutput
from recording import Recording
from spans import by_kind

from guardspan import semconv

Validator = Callable[..., Any]


def refuse_bad(output: Any) -> Any:
    """The output, unless it has `bad` in it."""
    if "bad" in str(output):
        raise ModelRetry("not that word")
    return output


def checked_by(*validators: Validator, answers: Sequence[Any] = ("bad", "fine"), **options: Any) -> Any:
    """An agent whose answers are checked by validators in turn."""
    agent: Agent[Any, Any] = desk(Script(*answers), **options)
    for validator in validators:
        agent.output_validator(validator)
    return agent


def checks(recording: Recording) -> list[list[str]]:
    """Of each Iteration, its Validator spans in the order of their making: name, outcome, and runs."""
    spans = [span for span in recording.spans if span.attributes[semconv.KIND] == "validator"]
    return [
        [
            f"{span.attributes[semconv.VALIDATOR_NAME]} {span.attributes.get(semconv.VALIDATOR_OUTCOME)} "
            f"x{span.attributes[semconv.VALIDATOR_RUNS]}"
            for span in spans
            if span.parent.span_id == iteration.context.span_id
        ]
        for iteration in by_kind(recording.spans, "iteration")
    ]


# --- whichever way a validator is written ----------------------------------------------------------------


def plain(output: str) -> str:
    """A function of the output alone."""
    return refuse_bad(output)


def with_context(context: RunContext[Any], output: str) -> str:
    """A function of the run's context as well."""
    return refuse_bad(output)


async def asynchronous(output: str) -> str:
    """An async function."""
    return refuse_bad(output)


async def asynchronous_with_context(context: RunContext[Any], output: str) -> str:
    """An async function of the run's context as well."""
    return refuse_bad(output)


class Callable_:
    """An object that can be called, and has no name."""

    def __call__(self, output: str) -> str:
        """Check an output."""
        return refuse_bad(output)

    def method(self, output: str) -> str:
        """Check an output."""
        return refuse_bad(output)


class AsyncCallable:
    """An object that can be called and awaited."""

    async def __call__(self, output: str) -> str:
        """Check an output."""
        return refuse_bad(output)


def takes_words(words: Sequence[str], output: str) -> str:
    """A function that a partial fills in."""
    if any(word in output for word in words):
        raise ModelRetry("not those words")
    return output


def logged(function: Validator) -> Validator:
    """A decorator as many applications have one."""

    @functools.wraps(function)
    def wrapper(output: str) -> Any:
        return function(output)

    return wrapper


@logged
def decorated(output: str) -> str:
    """A function behind a decorator."""
    return refuse_bad(output)


VALIDATORS: dict[str, Validator] = {
    "plain": plain,
    "with_context": with_context,
    "asynchronous": asynchronous,
    "asynchronous_with_context": asynchronous_with_context,
    "Callable_": Callable_(),
    "AsyncCallable": AsyncCallable(),
    "method": Callable_().method,
    "takes_words": functools.partial(takes_words, ["bad"]),
    "decorated": decorated,
    "<lambda>": lambda output: refuse_bad(output) and output,
}


@pytest.mark.parametrize("name", VALIDATORS)
@pytest.mark.parametrize("way", ASKING_AGAIN)
def test_a_validator_is_named_however_it_is_written(recording: Recording, way: str, name: str) -> None:
    """A span per validator and Iteration, named after its function or class; the Call lists who failed."""
    ran(way, checked_by(VALIDATORS[name]))
    assert checks(recording) == [[f"{name} fail x1"], [f"{name} pass x1"]]
    failed = [span.attributes[semconv.VALIDATORS_FAILED] for span in by_kind(recording.spans, "call")]
    assert failed == [(name,)]


@pytest.mark.parametrize("name", VALIDATORS)
async def test_a_validator_is_the_one_that_failed_however_it_is_written(
    recording: Recording, name: str
) -> None:
    """Between two that pass it is told from both: the first has passed, the last has not run."""

    def before(output: str) -> str:
        return output

    def after(output: str) -> str:
        return output

    await run(checked_by(before, VALIDATORS[name], after))
    assert checks(recording) == [
        ["before pass x1", f"{name} fail x1"],
        ["before pass x1", f"{name} pass x1", "after pass x1"],
    ]


# --- which of several ------------------------------------------------------------------------------------


def without(word: str) -> Validator:
    """A validator made by a function: all of its kind are the same code."""

    def check(output: str) -> str:
        return takes_words([word], output)

    return check


class Without:
    """Validators of one class: all of them are the same code."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, output: str) -> str:
        """Check an output."""
        return takes_words([self.word], output)


ALIKE: dict[str, Callable[[str], Validator]] = {
    "check": without,
    "Without": Without,
    "takes_words": lambda word: functools.partial(takes_words, [word]),
    "__call__": lambda word: Without(word).__call__,
}


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("way", ["run", "run_stream_events"])
async def test_validators_of_the_same_code_are_told_apart(
    recording: Recording, way: str, name: str, failing: int
) -> None:
    """Those before the one that failed have passed, those after it have not run."""
    words = ["bad", "worse", "worst"]
    await WAYS[way](checked_by(*map(ALIKE[name], words), answers=(words[failing], "fine")))
    assert checks(recording) == [
        [f"{name} pass x1"] * failing + [f"{name} fail x1"],
        [f"{name} pass x1"] * 3,
    ]


async def test_a_validator_that_calls_another_is_told_from_it(recording: Recording) -> None:
    """The second uses the first as a function, too: it is the second that rejects what the first let pass."""

    def lenient(output: str) -> str:
        if "worst" in output:
            raise ModelRetry("not that word")
        return output

    def strict(output: str) -> str:
        lenient(output.replace("bad", "worst"))
        return output

    await run(checked_by(lenient, strict))
    assert checks(recording) == [
        ["lenient pass x1", "strict fail x1"],
        ["lenient pass x1", "strict pass x1"],
    ]


# --- the output type and its function --------------------------------------------------------------------


def named(name: str, age: int) -> str:
    """An output function that takes everybody."""
    return name


def no_bad_text(text: str) -> str:
    """An output function for text."""
    return refuse_bad(text)


UNFIT = call("final_result", name="Ada")
SCHEMAS: dict[str, tuple[Any, Sequence[Any], list[list[str]]]] = {
    "schema": (Person, [UNFIT, call("final_result", **ADA)], [["Person fail x1"], ["Person pass x1"]]),
    "schema, and a validator": (
        Person,
        [call("final_result", name="bad", age=1), call("final_result", **ADA)],
        [["Person pass x1", "refuse_bad fail x1"], ["Person pass x1", "refuse_bad pass x1"]],
    ),
    "schema of a named tool": (
        ToolOutput(Person, name="give"),
        [call("give", name="Ada"), call("give", **ADA)],
        [["Person fail x1"], ["Person pass x1", "refuse_bad pass x1"]],
    ),
    "schema of an output function": (
        named,
        [UNFIT, call("final_result", name="bad", age=1), call("final_result", **ADA)],
        [
            ["str fail x1"],
            ["str pass x1", "named pass x1", "refuse_bad fail x1"],
            ["str pass x1", "named pass x1", "refuse_bad pass x1"],
        ],
    ),
    "function for text": (
        TextOutput(no_bad_text),
        ["bad", "fine"],
        [["no_bad_text fail x1"], ["no_bad_text pass x1", "refuse_bad pass x1"]],
    ),
    "one of several": (
        [Person, int],
        [call("final_result_Person", name="Ada"), call("final_result_int", response=1)],
        [["Person fail x1"], ["int pass x1", "refuse_bad pass x1"]],
    ),
    "native": (
        NativeOutput(Person),
        ['{"name": "Ada"}', '{"name": "Ada", "age": 36}'],
        [["Person fail x1"], ["Person pass x1", "refuse_bad pass x1"]],
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("way", ASKING_AGAIN)
def test_an_output_passes_its_schema_its_function_and_its_validators(
    recording: Recording, way: str, name: str
) -> None:
    """In this order, and no further than the one that fails."""
    kind, answers, told = SCHEMAS[name]
    validators = () if name == "schema" else (refuse_bad,)
    ran(way, checked_by(*validators, answers=answers, output_type=kind, retries=2))
    assert checks(recording) == told


async def test_text_has_no_schema(recording: Recording) -> None:
    """An agent that is content with any text checks nothing, so no Validator span says that it passed."""
    await run(desk(Script("fine")))
    assert checks(recording) == [[]]


@pytest.mark.parametrize("kind", [bool, int, float, list[int]], ids=str)
@pytest.mark.parametrize("way", ASKING_AGAIN)
def test_json_of_the_wrong_type_is_no_fault_of_parsing(recording: Recording, way: str, kind: Any) -> None:
    """`parsing` is for what is no JSON, be the library's second try at a scalar one at JSON within a text."""
    right = [1] if kind == list[int] else 1
    answers = [call("final_result", response="many"), call("final_result", response=right)]
    ran(way, checked_by(answers=answers, output_type=kind))
    first, _ = by_kind(recording.spans, "iteration")
    told = (semconv.REASK_REASON, semconv.FAILURE_CLASS)
    assert [first.attributes[name] for name in told] == ["validation", "validation"]


# --- broken checks ---------------------------------------------------------------------------------------


def broken(output: Any) -> Any:
    """A validator with a fault of its own."""
    raise LookupError("no such table")


def broken_function(name: str, age: int) -> str:
    """An output function with a fault of its own."""
    raise LookupError("no such table")


class Broken(pydantic.BaseModel):
    """An output type with a fault of its own."""

    name: str

    @pydantic.field_validator("name")
    @classmethod
    def look_up(cls, value: str) -> str:
        """Check a name."""
        raise LookupError("no such table")


def raised(name: str) -> str:
    """The line of a Validator span whose check raised: it has no outcome."""
    return (
        f"    validate {name} [None] ! LookupError validator.path=$ validator.runs=1 validator.on_fail=reask "
        "error.type=LookupError"
    )


BROKEN: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a validator": (
        lambda: checked_by(plain, broken, refuse_bad, answers=["fine"]),
        [raised("broken"), check("plain")],  # they start together, so by name
    ),
    "an output function": (
        lambda: checked_by(answers=[call("final_result", **ADA)], output_type=broken_function),
        [check("str"), raised("broken_function")],
    ),
    "an output type": (
        lambda: checked_by(answers=[call("final_result", name="Ada")], output_type=Broken),
        [raised("Broken")],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("way", ASKING_AGAIN)
def test_a_check_that_raises_has_no_outcome(recording: Recording, way: str, name: str) -> None:
    """It neither passed nor failed: its exception ends the run, of class `validation` as with guards."""
    agent, spans = BROKEN[name]
    assert isinstance(ran(way, agent()), LookupError)
    tree = "\n".join([erred("LookupError", "validation"), *spans])
    assert outcomes(recording) == expected(tree, way)


# --- streams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "answer", "outcome"),
    [
        ("run_stream", "one two three", "pass"),
        ("run_stream", "one two bad", "fail"),
        ("run_stream_events", "one two three", "pass"),
    ],
)
def test_a_partial_output_is_not_counted(recording: Recording, way: str, answer: str, outcome: str) -> None:
    """A validator sees each piece of a stream; only the whole output is what it has to judge."""
    partial: list[bool] = []

    def watch(context: RunContext[Any], output: str) -> str:
        partial.append(context.partial_output)
        return refuse_bad(output)

    ran(way, checked_by(watch, answers=[answer]))
    assert partial.count(False) == 1
    assert (way == "run_stream") == (True in partial)
    assert checks(recording) == [[f"watch {outcome} x1"]]


def test_what_is_raised_for_a_partial_output_alone_leaves_no_validator_span(recording: Recording) -> None:
    """The run ends by it, but no output was judged: the exception is told by Call and Iteration."""
    error = ran("run_stream", checked_by(broken, answers=["one two"]))
    assert isinstance(error, LookupError)
    assert checks(recording) == [[]]
    iteration, called = recording.spans
    assert iteration.attributes[semconv.ERROR_TYPE] == called.attributes[semconv.ERROR_TYPE] == "LookupError"


async def test_the_checks_of_two_runs_are_of_the_same_validators(recording: Recording) -> None:
    """An id that is the same for the same validator, and another for another."""
    agent = checked_by(plain, without("worse"), without("worst"), answers=["fine"])
    await run(agent)
    await run(agent)
    ids = [span.attributes[semconv.VALIDATOR_INSTANCE_ID] for span in by_kind(recording.spans, "validator")]
    assert len(ids) == 6
    assert len(set(ids)) == 3
