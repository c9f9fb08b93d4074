"""Reads LiteLLM and OpenAI-style responses, whole or in chunks, into plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from guardspan.pricing import Usage, provider_name
from guardspan.views import Response, given_name

_MAX_REASONS = 16
_MAX_COUNT = 1 << 40
_MAX_USD = 1e9
"""A server can send any number, and one that an exporter cannot encode would lose a whole batch of spans."""


def read_response(response: Any) -> Response | None:
    """What a response says of itself, or None for something that is no response, such as a plain string."""
    if response is None or isinstance(response, str | bytes):
        return None
    hidden = _get(response, "_hidden_params")
    usage = _get(response, "usage") or _get(hidden, "usage")
    counts = read_usage(usage)
    return Response(
        model=given_name(_get(response, "model")),
        provider=_provider(hidden),
        response_id=given_name(_get(response, "id")),
        finish_reasons=_finish_reasons(_get(response, "choices")),
        usage=counts,
        cost_usd=_cost(usage, hidden, counts),
    )


def read_usage(usage: Any) -> Usage:
    """Token counts in OpenAI's forms (chat completions, responses) and in LiteLLM's Anthropic fields.

    LiteLLM writes 0 for what it was not told. No request has no input, and an answer without output has a
    total that says so; any other 0 is not known.
    """
    if usage is None:
        return Usage()
    read = _first(usage, "prompt_tokens_details", "input_tokens_details")
    written = _first(usage, "completion_tokens_details", "output_tokens_details")
    input_tokens = _count(_first(usage, "prompt_tokens", "input_tokens")) or None
    output_tokens = _count(_first(usage, "completion_tokens", "output_tokens"))
    if not output_tokens and (input_tokens is None or _get(usage, "total_tokens") != input_tokens):
        output_tokens = None
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=_either(_get(read, "cached_tokens"), _get(usage, "cache_read_input_tokens")),
        cache_creation_tokens=_either(
            _get(read, "cache_creation_tokens"), _get(usage, "cache_creation_input_tokens")
        ),
        reasoning_tokens=_count(_get(written, "reasoning_tokens")),
    )


def chunk_text(chunk: Any) -> str:
    """The text of a stream's chunk, as Guardrails itself takes it."""
    if isinstance(chunk, str):
        return chunk
    choices = _get(chunk, "choices")
    if not choices:
        return ""
    delta = _get(choices[0], "delta")
    text = _get(delta, "content") if delta is not None else _get(choices[0], "text")
    return text if isinstance(text, str) else ""


def merge(before: Response, chunk: Any) -> Response:
    """The response as known so far, with what a further chunk of the stream adds."""
    now = read_response(chunk)
    if now is None:
        return before
    return Response(
        model=before.model or now.model,
        provider=before.provider or now.provider,
        response_id=before.response_id or now.response_id,
        finish_reasons=now.finish_reasons or before.finish_reasons,
        usage=now.usage if now.usage != Usage() else before.usage,
        cost_usd=now.cost_usd if now.cost_usd is not None else before.cost_usd,
    )


def _get(holder: Any, name: str) -> Any:
    if holder is None:
        return None
    if isinstance(holder, dict):
        return holder.get(name)
    return getattr(holder, name, None)


def _first(holder: Any, *names: str) -> Any:
    for name in names:
        value = _get(holder, name)
        if value is not None:
            return value
    return None


def _count(value: Any) -> int | None:
    """A token count, or None for what cannot be one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
        return value
    return None


def _either(*values: Any) -> int | None:
    """The first count above 0, else the first known: LiteLLM fills one of two fields, the other with 0."""
    counts = [count for value in values if (count := _count(value)) is not None]
    return next((count for count in counts if count), counts[0] if counts else None)


def _provider(hidden: Any) -> str | None:
    name = given_name(_get(hidden, "custom_llm_provider"))
    return provider_name(name) if name else None


def _finish_reasons(choices: Any) -> tuple[str, ...]:
    if not isinstance(choices, Iterable) or isinstance(choices, str):
        return ()
    reasons = [given_name(_get(choice, "finish_reason")) for choice in choices]
    return tuple(reason for reason in reasons if reason)[:_MAX_REASONS]


def _cost(usage: Any, hidden: Any, counts: Usage) -> float | None:
    """The price that the response itself carries: the provider's in its usage, else LiteLLM's.

    LiteLLM's own bill, which it may write into the usage as well, holds only where all tokens are known.
    """
    told, billed = _get(usage, "cost"), _get(hidden, "response_cost")
    complete = counts.input_tokens is not None and counts.output_tokens is not None
    if _is_price(told) and (complete or told != billed):
        return float(told)
    return float(billed) if _is_price(billed) and complete else None


def _is_price(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= _MAX_USD
