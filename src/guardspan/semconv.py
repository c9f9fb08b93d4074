"""Every name that guardspan emits, in one place.

The spans, the collector configuration, the dashboards and ``docs/emitted.md`` (generated from this
module by ``make docs``) all follow from here. Own spans never carry ``gen_ai.usage.*`` unless
``GUARDSPAN_GENAI_USAGE`` asks for it: those belong to the span of the LLM request itself, and a tool
that sums them would count each token twice.

Constants of the OpenTelemetry GenAI conventions are copied, since the ``_incubating`` package that
holds them moves between releases.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Status = Literal["pass", "fail", "error", "not run"]
"""The only values of ``guardspan.status``."""

PASS: Final = "pass"  # noqa: S105 - a status, no password
FAIL: Final = "fail"
ERROR: Final = "error"
NOT_RUN: Final = "not run"

FailureClass = Literal[
    "validation", "parsing", "provider", "timeout", "cancelled", "limit", "configuration", "policy"
]
"""The only values of ``guardspan.failure.class``."""


class Attribute(NamedTuple):
    """One span attribute: its name, the spans that carry it (``C``, ``I``, ``V``), its type and meaning."""

    name: str
    on: str
    type: str
    meaning: str


class Metric(NamedTuple):
    """One metric made in the process: its name, instrument, unit and meaning."""

    name: str
    instrument: str
    unit: str
    meaning: str


class Event(NamedTuple):
    """One event: its name, where it is recorded and when."""

    name: str
    on: str
    when: str


ATTRIBUTES: Final[list[Attribute]] = []
METRICS: Final[list[Metric]] = []
EVENTS: Final[list[Event]] = []


def _attribute(name: str, on: str, kind: str, meaning: str) -> str:
    ATTRIBUTES.append(Attribute(name, on, kind, meaning))
    return name


def _metric(name: str, instrument: str, unit: str, meaning: str) -> str:
    METRICS.append(Metric(name, instrument, unit, meaning))
    return name


def _event(name: str, on: str, when: str) -> str:
    EVENTS.append(Event(name, on, when))
    return name


# Identity and status: set before anything else.
KIND = _attribute("guardspan.kind", "C I V", "string", "`call`, `iteration` or `validator`")
LIBRARY = _attribute("guardspan.library", "C", "string", "`guardrails` or `pydantic_ai`")
NAME = _attribute(
    "guardspan.name", "C I V", "string", "the guard's or agent's given name, at most 64 characters"
)
ENTRY = _attribute(
    "guardspan.entry",
    "C",
    "string",
    "what the user called: `__call__`, `parse`, `validate`; `run`, `run_sync`, `run_stream`, `iter`, …",
)
CALL_ID = _attribute(
    "guardspan.call.id", "C I", "string", "unique id of this Call; of an agent, its `run_id`"
)
GUARDRAILS_CALL_ID = _attribute(
    "guardspan.guardrails.call_id",
    "C",
    "string",
    "Guardrails' own `Call.id`, as in `ValidationOutcome.call_id`",
)
STATUS = _attribute("guardspan.status", "C I", "string", "`pass`, `fail`, `error` or `not run`")
LIBRARY_STATUS = _attribute(
    "guardspan.library_status", "I", "string", "the library's own status, where it differs from ours"
)
STREAM = _attribute("guardspan.stream", "C I", "bool", "a streaming call")
ABANDONED = _attribute(
    "guardspan.abandoned", "C I", "bool", "the consumer left a stream or a run before its end"
)
ITERATIONS = _attribute("guardspan.iterations", "C", "int", "how many Iterations ran")
REASKS_LIMIT = _attribute(
    "guardspan.reasks.limit", "C", "int", "re-asks allowed; of an agent, retries of its output"
)
LIMIT_REACHED = _attribute(
    "guardspan.limit_reached",
    "C",
    "bool",
    "all allowed re-asks were used and the last answer failed; fix values may have taken its place",
)
ITERATION_INDEX = _attribute("guardspan.iteration.index", "I", "int", "zero-based")
ITERATION_STAGE = _attribute(
    "guardspan.iteration.stage",
    "I",
    "string",
    "`input` (validation of a message), `reask` (the answer before was rejected), else `initial`",
)
REASK_REASON = _attribute(
    "guardspan.reask.reason", "I", "string", "what made it re-ask: `validation`, `parsing`, `tool` or `empty`"
)

# Tools of an agent: counts and names; the spans of their execution belong to the framework.
TOOL_CALLS = _attribute("guardspan.tool.calls", "I", "int", "tool calls that the answer asked for")
TOOL_FAILURES = _attribute(
    "guardspan.tool.failures", "I", "int", "tool calls that raised, or said that they failed"
)
TOOL_RETRIES = _attribute(
    "guardspan.tool.retries", "I", "int", "tool calls that were rejected, to be made again"
)
FAILED_ATTEMPTS = _attribute(
    "guardspan.attempts.failed", "I", "int", "models that were tried before the one that answered"
)

# Tokens and cost.
INPUT_TOKENS = _attribute(
    "guardspan.usage.input_tokens",
    "C I",
    "int",
    "the LLM's own count, cached part included; the Call has the sum",
)
OUTPUT_TOKENS = _attribute(
    "guardspan.usage.output_tokens",
    "C I",
    "int",
    "the LLM's own count, reasoning included; the Call has the sum",
)
CACHE_READ_TOKENS = _attribute(
    "guardspan.usage.cache_read.input_tokens", "C I", "int", "the part of the input read from a cache"
)
CACHE_CREATION_TOKENS = _attribute(
    "guardspan.usage.cache_creation.input_tokens", "C I", "int", "the part of the input written to a cache"
)
REASONING_TOKENS = _attribute(
    "guardspan.usage.reasoning.output_tokens", "C I", "int", "the part of the output spent on reasoning"
)
COST_USD = _attribute(
    "guardspan.cost.usd", "C I", "double", "US dollars; on the Call the sum of its Iterations"
)
COST_SOURCE = _attribute("guardspan.cost.source", "I", "string", "`provider`, `genai-prices` or `custom`")
COST_UNPRICED = _attribute(
    "guardspan.cost.unpriced", "C", "int", "Iterations that used tokens and could not be priced"
)
OUTCOME = _attribute("guardspan.outcome", "I", "string", "`used` when the status is `pass`, else `wasted`")

# Why it failed.
CONTRACT_DIGEST = _attribute(
    "guardspan.contract.digest",
    "C I",
    "string",
    "sha-256 of the contract: a guard's schema, validators and actions; an agent's output, validators, fixed "
    "instructions and tools, as its first request has them",
)
VALIDATORS_FAILED = _attribute(
    "guardspan.validators.failed", "C I", "string[]", "names of the validators that failed, each once"
)
FAILURE_CLASS = _attribute(
    "guardspan.failure.class",
    "C I",
    "string",
    "`validation`, `parsing`, `provider`, `timeout`, `cancelled`, `limit`, `configuration` or `policy`",
)
FAILURE_CAUSE = _attribute(
    "guardspan.failure.cause", "C I", "string", "class of the original exception under a wrapping one"
)
FAILURE_DIGEST = _attribute(
    "guardspan.failure.digest", "C I", "string", "sha-256 of the normalised, redacted failure evidence"
)
FAILURE_REPEATS = _attribute(
    "guardspan.failure.repeats", "I", "int", "Iterations in a row, this one included, with the same digest"
)
STUCK = _attribute("guardspan.stuck", "C", "bool", "the same failure digest three or more times in a row")

# Validator spans.
VALIDATOR_NAME = _attribute(
    "guardspan.validator.name",
    "V",
    "string",
    "the validator's class; of an agent, the output type or function",
)
VALIDATOR_REGISTERED_NAME = _attribute(
    "guardspan.validator.registered_name",
    "V",
    "string",
    "the name that it is registered under; of an agent `output_type`, `output_function`, `output_validator`",
)
VALIDATOR_ON_FAIL = _attribute(
    "guardspan.validator.on_fail",
    "V",
    "string",
    "the action on failure; `custom` for a function of the user's",
)
VALIDATOR_PATH = _attribute(
    "guardspan.validator.path", "V", "string", "where in the output it ran: `$`, `$.field`, or `messages`"
)
VALIDATOR_OUTCOME = _attribute("guardspan.validator.outcome", "V", "string", "`pass` or `fail`")
VALIDATOR_INSTANCE_ID = _attribute(
    "guardspan.validator.instance_id", "V", "int", "which instance of the validator, within this process"
)
VALIDATOR_RUNS = _attribute("guardspan.validator.runs", "V", "int", "how often it ran; chunks when streaming")

# Content: last, so that a back end which cuts from the end cuts here.
REDACTIONS = _attribute("guardspan.redactions", "C I", "int", "how many substrings were replaced")
REDACTION_FAILURES = _attribute(
    "guardspan.redaction.failures", "C I", "int", "values dropped because redaction failed; only when above 0"
)
EVIDENCE_SHA256 = _attribute(
    "guardspan.evidence.sha256", "I", "string", "digest of the whole evidence after redaction"
)
EVIDENCE_TRUNCATED = _attribute("guardspan.evidence.truncated", "I", "bool", "the slice is cut")
EVIDENCE_VERSION = _attribute("guardspan.evidence.version", "I", "int", "version of the slicer")
EVIDENCE = _attribute(
    "guardspan.evidence", "I", "string", "the evidence slice, redacted; only when content is `redacted`"
)
INPUT_MESSAGES = _attribute(
    "guardspan.input.messages",
    "C I",
    "string",
    "messages as JSON, shape or redacted; of an agent's Iteration, its instructions and newest request",
)
INPUT_PROMPT_PARAMS = _attribute("guardspan.input.prompt_params", "C", "string", "prompt parameters as JSON")
INPUT_METADATA = _attribute(
    "guardspan.input.metadata", "C", "string", "metadata for the validators, or of the run, as JSON"
)
INPUT_ARGUMENTS = _attribute(
    "guardspan.input.arguments", "C", "string", "the remaining arguments of the call as JSON"
)
INPUT_TEXT = _attribute("guardspan.input.llm_output", "C I", "string", "the text handed in to be validated")
OUTPUT_RAW = _attribute("guardspan.output.raw", "I", "string", "the LLM's answer, shape or redacted")
OUTPUT_VALIDATED = _attribute("guardspan.output.validated", "C", "string", "the validated output as JSON")

HISTORY_REPAIR_KIND = "guardspan.history.repair.kind"
HISTORY_TOOL_CALL_ID = "guardspan.history.repair.tool_call_id"
HISTORY_MESSAGE_INDEX = "guardspan.history.repair.message_index"
TEAM = _attribute("team", "C I V", "string", "from baggage; a resource attribute of that name serves as well")

# OpenTelemetry GenAI conventions, verbatim.
OPERATION_NAME = _attribute(
    "gen_ai.operation.name", "C I V", "string", "`guard`, `agent_run`, `iteration` or `validate`"
)
REQUEST_MODEL = _attribute("gen_ai.request.model", "C I", "string", "the model that was asked for")
RESPONSE_MODEL = _attribute("gen_ai.response.model", "I", "string", "the model that answered")
PROVIDER_NAME = _attribute("gen_ai.provider.name", "I", "string", "who answered: `openai`, `anthropic`, …")
FINISH_REASONS = _attribute("gen_ai.response.finish_reasons", "I", "string[]", "why the LLM stopped")
RESPONSE_ID = _attribute("gen_ai.response.id", "I", "string", "the provider's id of the response")
CONVERSATION_ID = _attribute("gen_ai.conversation.id", "C", "string", "the conversation, where one is known")
AGENT_NAME = _attribute("gen_ai.agent.name", "C", "string", "the agent's name")
TOOL_NAME = _attribute("gen_ai.tool.name", "I", "string[]", "tools that were called")
ERROR_TYPE = _attribute("error.type", "C I V", "string", "the exception's fully qualified class")
SERVER_ADDRESS = _attribute("server.address", "C I", "string", "host of a Guardrails server or of the LLM")
GEN_AI_INPUT_TOKENS = _attribute(
    "gen_ai.usage.input_tokens", "I", "int", "only with `GUARDSPAN_GENAI_USAGE=true`"
)
GEN_AI_OUTPUT_TOKENS = _attribute(
    "gen_ai.usage.output_tokens", "I", "int", "only with `GUARDSPAN_GENAI_USAGE=true`"
)

# Metrics made in the process, because a call that never ends has no span.
CALLS_ACTIVE = _metric("guardspan.calls.active", "up-down counter", "{call}", "calls under way")
CALLS_OLDEST_AGE = _metric(
    "guardspan.calls.oldest_age",
    "observable gauge",
    "s",
    "age of the oldest call under way; 0 when there is none",
)

# Events.
EVENT_EVALUATION = _event(
    "gen_ai.evaluation.result", "log record", "a validator failed, and `GUARDSPAN_EVALUATION_EVENTS=true`"
)
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_LABEL = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"
EVENT_HISTORY_REPAIR = _event(
    "guardspan.history.repair",
    "Call",
    "a tool call or result of the given history has no counterpart: `orphan_result` (newer releases drop "
    "it), `dangling_call` (they make up a result), `synthesized_result` (one was made up before); with a "
    "keyed digest of the tool call id, and the index of the message: `guardspan.history.repair.kind`, "
    "`.tool_call_id`, `.message_index`",
)
