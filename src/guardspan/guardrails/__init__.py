"""OpenTelemetry instrumentation of Guardrails AI.

Usage::

    from guardspan.guardrails import GuardrailsInstrumentor

    GuardrailsInstrumentor().instrument()

or, with nothing to change in the application, ``opentelemetry-instrument python app.py``. The library is
patched when, and only if, the application imports it; importing this module imports neither the library
nor anything heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from guardspan.instrumentor import LibraryInstrumentor

if TYPE_CHECKING:
    from guardspan.patching import Patches
    from guardspan.telemetry import Telemetry

SUPPORTED = "guardrails-ai >= 0.6.8, != 0.10.1, < 0.12"
"""The range that the whole test suite is run against, at both ends. 0.10.1 was a malicious upload."""


class GuardrailsInstrumentor(LibraryInstrumentor):
    """Patches ``Guard`` and ``AsyncGuard``, lazily."""

    title: ClassVar[str] = "Guardrails"
    module: ClassVar[str] = "guardrails"
    supported: ClassVar[str] = SUPPORTED

    def patch(self, patches: Patches, telemetry: Telemetry) -> None:
        """Patch the imported library."""
        from guardspan.guardrails.patches import patch_guardrails

        patch_guardrails(patches, telemetry)
