"""Reads Pydantic AI's public objects into plain values.

Nothing here decides what became of a run; nothing calls into the application, and nothing is serialised that
could be drained, loaded or changed by reading it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic_core import from_json

from guardspan import failures
from guardspan.pricing import Usage, provider_name
from guardspan.views import Response, given_name

_MAX_COUNT = 1 << 40
_MAX_USD = 1e9
"""A server can send any number, and one that an exporter cannot encode would lose a whole batch of spans."""
_MAX_PRICEABLE = 1_000
_PRICEABLE: dict[tuple[Any, Any], bool] = {}
"""Whether the library can price the answers of a provider's model; looked up once for each."""
_MAX_TOOL_NAMES = 32
_MAX_PARTS = 32
_MAX_ATTEMPTS = 16

_MAX_JSON = 1_000_000
"""Characters of an output that is parsed once more, to tell why it was rejected."""
_INVALID_JSON = "INVALID_JSON"
"""Key under which the library keeps arguments of a tool call that are no JSON (a documented name)."""

UNKNOWN_TOOL = "(unknown)"
"""Stands for every tool that does not exist: its name is what the model made up, and so is content."""

_ROLES = {"system-prompt": "system", "tool-return": "tool", "retry-prompt": "user", "retry-feedback": "user"}


# --- responses -------------------------------------------------------------------------------------------


def read_response(response: Any) -> Response:
    """What a ``ModelResponse`` says of itself, and the attempts that came before it."""
    reason = given_name(response.finish_reason)
    return Response(
        model=given_name(response.model_name),
        provider=_provider(response.provider_name),
        response_id=given_name(response.provider_response_id),
        finish_reasons=(reason,) if reason else (),
        usage=read_usage(response.usage),
        cost_usd=_cost(response.usage),
        cost_computed=_can_price(response),
        failed_attempts=_attempts(getattr(response, "failed_attempts", None)),
    )


def _provider(name: Any) -> str | None:
    short = given_name(name)
    return provider_name(short) if short else None


def read_usage(usage: Any) -> Usage:
    """The counts of a ``RequestUsage``, which holds 0 for what it was not told.

    No request has no input: without one nothing is known, save what is above 0. The parts of a count are
    known only when they are above 0.
    """
    read, written = _count(usage.cache_read_tokens), _count(usage.cache_write_tokens)
    given, made = _count(usage.input_tokens), _count(usage.output_tokens)
    return Usage(
        input_tokens=given or None,
        output_tokens=made if given else made or None,
        cache_read_tokens=read or None,
        cache_creation_tokens=written or None,
        reasoning_tokens=_reasoning(usage) or None,
    )


def _reasoning(usage: Any) -> int:
    """Reasoning tokens have a field of their own in newer releases only."""
    own = _count(getattr(usage, "output_reasoning_tokens", None))
    details = usage.details
    return own or (_count(details.get("reasoning_tokens")) if isinstance(details, Mapping) else 0)


def _count(value: Any) -> int:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_COUNT
    return int(value) if known else 0


def _cost(usage: Any) -> float | None:
    """US dollars, where the library has them (2.23 and later)."""
    cost = getattr(usage, "cost", None)
    if not isinstance(cost, Decimal | int | float) or isinstance(cost, bool):
        return None
    usd = float(cost)
    return usd if 0 <= usd <= _MAX_USD else None


def _can_price(response: Any) -> bool:
    """Whether the library prices such a response itself: its figure need not be the provider's then."""
    if _cost(response.usage) is None:
        return True
    key = (response.provider_name, response.model_name)
    known = _PRICEABLE.get(key)
    if known is None:
        try:
            response.cost()
            known = True
        except (LookupError, ValueError, AssertionError):  # as its documentation has it
            known = False
        if len(_PRICEABLE) < _MAX_PRICEABLE:
            _PRICEABLE[key] = known
    return known


def _attempts(attempts: Any) -> tuple[Response, ...]:
    if not isinstance(attempts, Sequence) or isinstance(attempts, str):
        return ()
    return tuple(_attempt(attempt) for attempt in attempts[:_MAX_ATTEMPTS])


def _attempt(attempt: Any) -> Response:
    model, provider = given_name(attempt.model_name), _provider(attempt.provider_name)
    if attempt.usage is None:
        return Response(model=model, provider=provider)
    usage, cost = read_usage(attempt.usage), _cost(attempt.usage)
    return Response(model=model, provider=provider, usage=usage, cost_usd=cost, cost_computed=True)


def read_failed_attempts(error: BaseException) -> tuple[Response, ...]:
    """What was tried when every model failed, as far as the exception tells."""
    return _attempts(getattr(error, "attempts", None))


def newest_response(messages: Sequence[Any]) -> Any:
    """The last ``ModelResponse`` of some messages, None where there is none."""
    return next((message for message in reversed(messages) if message.kind == "response"), None)


def names_of(tools: Iterable[Any]) -> frozenset[str]:
    """The names of tools, given by their definitions."""
    return frozenset(tool.name for tool in tools)


def is_empty(response: Any) -> bool:
    """Whether an answer holds neither text nor a call: nothing that the agent could go on with."""
    return all(
        part.part_kind == "thinking" or (part.part_kind == "text" and not part.content)
        for part in response.parts
    )


def is_whole(response: Any) -> bool:
    """Whether a streamed answer came to its end; older releases tell only by its reason, if at all."""
    state = getattr(response, "state", None)
    return response.finish_reason is not None if state is None else bool(state == "complete")


def tool_names(response: Any, known: frozenset[str], outputs: frozenset[str]) -> tuple[tuple[str, ...], int]:
    """The names of the tools that an answer called, each once, and how many calls there were.

    Args:
        response: the answer.
        known: the names of the tools that it could call.
        outputs: the names that stand for the output itself; calling one is no tool call.
    """
    called = [
        p.tool_name for p in response.parts if p.part_kind == "tool-call" and p.tool_name not in outputs
    ]
    names = dict.fromkeys(name if name in known else UNKNOWN_TOOL for name in called)
    return tuple(given_name(name) or UNKNOWN_TOOL for name in names)[:_MAX_TOOL_NAMES], len(called)


def calls_unknown_tool(response: Any, known: frozenset[str]) -> bool:
    """Whether an answer calls a tool that does not exist."""
    return any(part.part_kind == "tool-call" and part.tool_name not in known for part in response.parts)


def answer_text(response: Any) -> str | None:
    """An answer's text, or its parts as JSON where it is more than text; content."""
    if response is None:
        return None
    parts = [
        _answer_part(part) for part in response.parts[:_MAX_PARTS] if part.part_kind in ("text", "tool-call")
    ]
    if not parts:
        return None
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return json.dumps(parts, ensure_ascii=False, default=lambda value: f"<{type(value).__qualname__}>")


def _answer_part(part: Any) -> Any:
    if part.part_kind == "text":
        return part.content
    return {"tool": part.tool_name, "args": part.args if isinstance(part.args, str | dict) else None}


# --- requests --------------------------------------------------------------------------------------------


def request_messages(request: Any) -> list[dict[str, Any]] | None:
    """What a ``ModelRequest`` adds to the conversation, as messages with roles; content."""
    if request is None:
        return None
    messages: list[dict[str, Any]] = []
    if isinstance(request.instructions, str):
        messages.append({"role": "system", "content": request.instructions})
    for part in request.parts[:_MAX_PARTS]:
        message = {"role": _ROLES.get(part.part_kind, "user"), "content": getattr(part, "content", None)}
        name = getattr(part, "tool_name", None)
        messages.append({**message, "name": name} if name else message)
    return messages or None


def retries_in(parts: Iterable[Any]) -> list[Any]:
    """The parts of a request that ask the model to mend what it said."""
    return [
        part
        for part in parts
        if part.part_kind in ("retry-prompt", "retry-feedback") or getattr(part, "outcome", None) == "retried"
    ]


def failed_tools(parts: Iterable[Any]) -> int:
    """How many results in a request say that their tool failed."""
    return sum(part.part_kind == "tool-return" and part.outcome == "failed" for part in parts)


def words_of_part(part: Any) -> str:
    """The words of a part that asks for a retry; content."""
    content = part.content
    if isinstance(content, list):
        return words_of_errors(content)
    return content if isinstance(content, str) else ""


def traces_content(run_context: Any) -> bool:
    """Whether the library's own tracing is on, with content.

    Older releases do not say so in the context where a capability switched it on.
    """
    settings = (getattr(each, "settings", None) for each in run_context.capabilities.values())
    return bool(run_context.trace_include_content) or any(
        getattr(each, "include_content", False) is True for each in settings
    )


# --- exceptions ------------------------------------------------------------------------------------------


def words_of(error: BaseException) -> str:
    """The words of a rejection; content, though without the rejected value where that can be left out."""
    errors = getattr(error, "errors", None)
    if callable(errors) and hasattr(error, "error_count"):  # pydantic's ValidationError, of whatever release
        return words_of_errors(errors(include_url=False, include_context=False, include_input=False))
    retry = getattr(error, "tool_retry", None)
    if retry is not None:
        return words_of_part(retry)
    message = getattr(error, "message", None)
    return message if isinstance(message, str) else failures.message(error)


def words_of_errors(errors: Iterable[Mapping[str, Any]]) -> str:
    """Validation errors, one a line, each with its place."""
    lines = [f"{'.'.join(map(str, error.get('loc', ()))) or '$'}: {error.get('msg', '')}" for error in errors]
    return "\n".join(lines[:_MAX_PARTS])


def is_unparsable(output: Any) -> bool:
    """Whether an output, as the model gave it, is no JSON at all rather than JSON of a wrong form."""
    if isinstance(output, dict):
        return _INVALID_JSON in output
    if not isinstance(output, str) or len(output) > _MAX_JSON:
        return False
    try:
        parsed = from_json(output)
    except ValueError:
        return True
    return isinstance(parsed, dict) and _INVALID_JSON in parsed
