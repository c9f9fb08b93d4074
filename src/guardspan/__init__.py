"""What guarded LLM calls and agent runs cost, and why they fail, without a prompt leaving the process.

``opentelemetry-instrument python app.py`` needs no line of code. In code::

    import guardspan

    guardspan.instrument(content="redacted")

Importing this package imports nothing heavy, and never the libraries that it instruments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guardspan.settings import Settings

__all__ = ["Settings", "instrument", "uninstrument"]


def instrument(**options: Any) -> None:
    """Instrument every supported library, now or when it is imported.

    Again, it does nothing without options; with some, as under ``opentelemetry-instrument``, they replace
    those of before. Spans go to the tracer provider that the application or ``opentelemetry-instrument``
    has set up; none is set up here.

    Args:
        options: ``tracer_provider``, ``meter_provider``, ``logger_provider`` (the global ones by default),
            ``call_hook(span, view)``, ``iteration_hook(span, view)``, ``redact_hook(text)``, which gives
            ``(start, end, rule)`` for each further secret of a text, and any field of :class:`Settings`,
            which wins over its ``GUARDSPAN_*`` variable.

    Raises:
        ValueError: an option is no setting, or its value (a file of rules, too) cannot be used.
        TypeError: a hook cannot be called.
    """
    from guardspan.guardrails import GuardrailsInstrumentor
    from guardspan.pydantic_ai import PydanticAIInstrumentor

    GuardrailsInstrumentor().instrument(**options)
    PydanticAIInstrumentor().instrument(**options)


def uninstrument() -> None:
    """Put back every object that was patched; harmless when nothing is."""
    from guardspan.guardrails import GuardrailsInstrumentor
    from guardspan.pydantic_ai import PydanticAIInstrumentor

    GuardrailsInstrumentor().uninstrument()
    PydanticAIInstrumentor().uninstrument()


def __getattr__(name: str) -> Any:
    if name == "Settings":
        from guardspan.settings import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
