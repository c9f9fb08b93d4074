"""What others do around a model: hooks of its own capabilities, and models behind one another."""

from __future__ import annotations

from typing import Any

import pytest
from agent_kit import WAYS, Script, desk, run
from outcome_kit import ASKING_AGAIN, EVERY_WAY, PASSED, RETRY, UNEXPECTED, erred, expected, outcomes, ran
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError, SkipModelRequest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.usage import RequestUsage
from recording import Recording
from spans import by_kind, everything

from guardspan import semconv

# --- capabilities ----------------------------------------------------------------------------------------


def kept_answer() -> ModelResponse:
    """An answer that no model was asked for now, with what it says of itself."""
    return ModelResponse(
        [TextPart("kept")], usage=RequestUsage(input_tokens=7, output_tokens=3), model_name="gpt-4o-mini"
    )


class SkipsBefore(AbstractCapability[Any]):
    """Gives the answer before the request is made."""

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """The answer comes as an exception."""
        raise SkipModelRequest(kept_answer())


class SkipsWithin(AbstractCapability[Any]):
    """Gives the answer in place of the request, by an exception."""

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """The answer comes as an exception."""
        raise SkipModelRequest(kept_answer())


class Answers(AbstractCapability[Any]):
    """Gives the answer in place of the request."""

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """The answer is returned."""
        return kept_answer()


class Recovers(AbstractCapability[Any]):
    """Gives an answer where the request raised."""

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> Any:
        """The error is handled."""
        return kept_answer()


class RejectsWithin(AbstractCapability[Any]):
    """Asks again for an answer with `bad` in it, around the request."""

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """The answer is seen, and rejected."""
        return rejected(await handler(request_context))


class RejectsAfter(AbstractCapability[Any]):
    """Asks again for an answer with `bad` in it, after the request."""

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """The answer is seen, and rejected."""
        return rejected(response)


def rejected(response: ModelResponse) -> ModelResponse:
    """The answer, unless it has `bad` in it."""
    if "bad" in repr(response.parts):
        raise ModelRetry("not that word")
    return response


REJECTING = (RejectsWithin, RejectsAfter)
MENDING = {
    SkipsBefore: "never asked for",
    SkipsWithin: "never asked for",
    Answers: "never asked for",
    Recovers: ModelHTTPError(500, "gpt-4o"),
}


MENDED = [
    (capability, way)
    for capability in MENDING
    for way in EVERY_WAY
    if not (capability is Recovers and way.startswith("run_stream"))
]
"""Capabilities by the ways that let them: whether a stream's error can be mended depends on the release."""


@pytest.mark.parametrize(("capability", "way"), MENDED)
def test_an_answer_of_a_capabilitys_own_is_the_iterations(
    recording: Recording, capability: type[AbstractCapability[Any]], way: str
) -> None:
    """Who gave it does not matter: it is one answer of this run, it passes, and it says what it has used."""
    agent = desk(Script(MENDING[capability]), capabilities=[capability()])
    assert ran(way, agent) == "kept"
    limit = " reasks.limit=1"  # not known where a release answers before it says that it asks
    assert outcomes(recording).replace(limit, "") == expected(PASSED, way).replace(limit, "")
    (iteration,) = by_kind(recording.spans, "iteration")
    told = (semconv.RESPONSE_MODEL, semconv.INPUT_TOKENS, semconv.OUTPUT_TOKENS)
    assert [iteration.attributes[name] for name in told] == ["gpt-4o-mini", 7, 3]


@pytest.mark.parametrize("way", ASKING_AGAIN)
@pytest.mark.parametrize("capability", REJECTING)
def test_an_answer_that_a_capability_rejects_is_asked_for_again(
    recording: Recording, capability: type[AbstractCapability[Any]], way: str
) -> None:
    """`ModelRetry` from a hook is a rejection like one from an output validator."""
    ran(way, desk(Script("bad", "fine"), capabilities=[capability()]))
    tree = """\
agent desk ENTRY x2 [pass] reasks.limit=1
  iteration 0 initial [fail] reask.reason=validation failure.class=validation failure.repeats=1
  iteration 1 reask [pass]"""
    assert outcomes(recording) == expected(tree, way)


@pytest.mark.parametrize("way", ASKING_AGAIN)
@pytest.mark.parametrize("capability", REJECTING)
def test_a_capability_can_use_up_the_retries(
    recording: Recording, capability: type[AbstractCapability[Any]], way: str
) -> None:
    """A hook that rejects every answer ends the Call as an output validator would."""
    ran(way, desk(Script("bad"), capabilities=[capability()]))
    tree = f"""\
agent desk ENTRY x2 [fail] ! {UNEXPECTED} reasks.limit=1 limit_reached=True failure.class=validation \
failure.cause={RETRY} error.type={UNEXPECTED}
  iteration 0 initial [fail] reask.reason=validation failure.class=validation failure.repeats=1
  iteration 1 reask [fail] failure.class=validation failure.repeats=2"""
    assert outcomes(recording) == expected(tree, way)


@pytest.mark.parametrize("capability", REJECTING)
def test_run_stream_fails_where_a_capability_rejects(
    recording: Recording, capability: type[AbstractCapability[Any]]
) -> None:
    """Newer releases raise, as the answer is in the reader's hands; with older ones it passes."""
    output = ran("run_stream", desk(Script("bad"), capabilities=[capability()]))
    call, iteration = outcomes(recording).splitlines()
    if not isinstance(output, Exception):
        assert [call, iteration] == expected(PASSED, "run_stream").splitlines()
        return
    assert call.startswith(f"agent desk run_stream x1 [fail] ! {UNEXPECTED} ")
    assert iteration == "  iteration 0 initial [fail] failure.class=validation failure.repeats=1"


# --- models behind one another ---------------------------------------------------------------------------

REPORTED = "failed_attempts" in ModelResponse.__dataclass_fields__
"""Newer releases say on a response, and on the exception, which models were tried before."""
GROUP = "pydantic_ai.exceptions.FallbackExceptionGroup"
SENTINEL = "the-parrot-is-only-resting"


def down() -> Script:
    """A model whose provider is out of order."""
    return Script(ModelHTTPError(500, "gpt-4o"))


def fallback(*scripts: Script, fallback_on: Any = (ModelHTTPError,), **options: Any) -> Agent[Any, Any]:
    """An agent whose models are tried in turn."""
    models = [script.model for script in scripts]
    return Agent(FallbackModel(*models, fallback_on=fallback_on), name="desk", **options)


def refuses(response: ModelResponse) -> bool:
    """Whether a model has refused."""
    return "no" in repr(response.parts)


def failed(attempts: int) -> str:
    """What an Iteration tells of the attempts that failed, where the library reports them."""
    return f" attempts.failed={attempts}" if REPORTED else ""


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("downs", [1, 2])
def test_a_fallback_that_moved_on_passes(recording: Recording, way: str, downs: int) -> None:
    """One Iteration, with the answer of the model that gave one, and how many were tried before it."""
    ran(way, fallback(*[down() for _ in range(downs)], Script("fine")))
    assert outcomes(recording) == expected(PASSED + failed(downs), way)


@pytest.mark.parametrize("way", ["run", "iter", "wrapper", "run_sync"])
def test_an_answer_that_a_fallback_refused_is_paid_for(recording: Recording, way: str) -> None:
    """It was given and used tokens: where the library reports it, they are part of the Iteration's."""
    ran(way, fallback(Script("no"), Script("fine"), fallback_on=[refuses]))
    assert outcomes(recording) == expected(PASSED + failed(1), way)
    expected_tokens = 20 if REPORTED else 10
    assert [span.attributes[semconv.INPUT_TOKENS] for span in recording.spans] == [expected_tokens] * 2


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_fallback_of_which_all_models_fail_is_an_error(recording: Recording, way: str) -> None:
    """The providers' failure, with how many were tried, streamed or not."""
    ran(way, fallback(down(), down()))
    assert outcomes(recording) == expected(erred(GROUP, "provider", failed(2)), way)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_fallback_whose_answers_are_all_refused_is_an_error(recording: Recording, way: str) -> None:
    """No answer was good enough for the application's own check of answers; streams are not checked so."""
    ran(way, fallback(Script("no"), Script("no"), fallback_on=[refuses]))
    tree = erred(GROUP, "provider", failed(2))
    if way in ("run_stream", "run_stream_events"):
        tree = PASSED
    assert outcomes(recording) == expected(tree, way)


@pytest.mark.parametrize("way", WAYS)
async def test_a_fallback_writes_nothing_on_the_iteration(recording: Recording, way: str) -> None:
    """The library's FallbackModel writes on the current span, if that has its model's name: not on ours.

    It would be the instructions and the description of each tool, and names that are not in the contract.
    """
    agent = fallback(down(), Script("fine"), instructions=SENTINEL)

    @agent.tool_plain(description=SENTINEL)
    def look() -> str:
        return "found"

    await WAYS[way](agent)
    assert SENTINEL not in everything(recording.spans)
    names = {name for span in recording.spans for name in span.attributes}
    assert {name for name in names if not name.startswith("guardspan.")} <= OWN


OWN = {
    value
    for name, value in vars(semconv).items()
    if name.isupper() and isinstance(value, str) and value.startswith(("gen_ai.", "error.", "server."))
}
"""The descriptive names of the contract, among which `gen_ai.system` and the like are not."""


@pytest.mark.parametrize("tried", [1, 2])
async def test_the_model_that_answered_is_named(recording: Recording, tried: int) -> None:
    """The request went to the models in turn, and one has answered: the names are told apart."""
    await run(fallback(*[down() for _ in range(tried - 1)], Script("fine"), Script("spare")))
    (iteration,) = by_kind(recording.spans, "iteration")
    names = ",".join(["gpt-4o"] * (tried + 1))
    assert iteration.attributes[semconv.REQUEST_MODEL] == f"fallback:{names}"
    assert iteration.attributes[semconv.RESPONSE_MODEL] == "gpt-4o"
    assert iteration.attributes[semconv.PROVIDER_NAME] == "openai"
