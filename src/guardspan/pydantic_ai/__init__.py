"""OpenTelemetry instrumentation of Pydantic AI.

Usage::

    from guardspan.pydantic_ai import PydanticAIInstrumentor

    PydanticAIInstrumentor().instrument()

or, with nothing to change in the application, ``opentelemetry-instrument python app.py``. One method is
patched, ``Agent.iter``, through which every run goes; all else is seen by a capability that each run gets.
The library's own tracing stays as the application has set it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from guardspan.instrumentor import LibraryInstrumentor

if TYPE_CHECKING:
    from guardspan.patching import Patches
    from guardspan.telemetry import Telemetry

SUPPORTED = "pydantic-ai-slim >= 2.0, < 3"
"""The range that the whole test suite is run against, at both ends."""


class PydanticAIInstrumentor(LibraryInstrumentor):
    """Patches ``Agent.iter``, lazily."""

    title: ClassVar[str] = "Pydantic AI"
    module: ClassVar[str] = "pydantic_ai"
    supported: ClassVar[str] = SUPPORTED

    def patch(self, patches: Patches, telemetry: Telemetry) -> None:
        """Patch the imported library."""
        from guardspan.pydantic_ai.patches import patch_pydantic_ai

        patch_pydantic_ai(patches, telemetry)
