"""What the instrumentors of all libraries have in common; importing it imports nothing heavy.

A library is patched when, and only if, the application imports it. A post-import hook cannot be taken back:
a generation number makes one of before an uninstrument do nothing.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

import wrapt
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from guardspan.safety import report

if TYPE_CHECKING:
    from guardspan.patching import Patches
    from guardspan.telemetry import Telemetry

_log = logging.getLogger("guardspan")

_BASE_KEYWORDS = ("skip_dep_check", "raise_exception_on_conflict")
_HOOKS = ("call_hook", "iteration_hook", "redact_hook")
_PROVIDERS_AND_HOOKS = ("tracer_provider", "meter_provider", "logger_provider", *_HOOKS)


class LibraryInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Patches one library, lazily; a singleton, as every instrumentor is.

    Keywords of ``instrument()``: ``tracer_provider``, ``meter_provider``, ``logger_provider``,
    ``call_hook(span, CallView)``, ``iteration_hook(span, IterationView)``, ``redact_hook(text)`` (a
    :data:`guardspan.redaction.Finder`), and every field of :class:`guardspan.Settings`, such as
    ``content="redacted"``.

    Attributes:
        title: the library's name.
        module: the library's module, whose import is waited for.
        supported: the library's distribution and the range of its versions, as a requirement.
    """

    title: ClassVar[str]
    module: ClassVar[str]
    supported: ClassVar[str]

    _generation = 0
    _patches: Any = None
    _telemetry: Any = None
    _options: dict[str, Any] | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """The supported range of the library."""
        return (self.supported,)

    def instrument(self, **kwargs: Any) -> None:
        """Instrument now, or when the library is imported. Never raises over the library.

        Again, it does nothing without keywords; with some, they replace those of before.

        Raises:
            ValueError: a keyword is no setting, or its value (a file of rules, too) cannot be used.
            TypeError: a hook cannot be called.
        """
        options = {name: value for name, value in kwargs.items() if name not in _BASE_KEYWORDS}
        _check(options)
        if self.is_instrumented_by_opentelemetry:
            if not options:
                return
            self.uninstrument()
        super().instrument(**options, skip_dep_check=True)

    def uninstrument(self, **kwargs: Any) -> None:
        """Put every patched object back; nothing to do when not instrumented."""
        if self.is_instrumented_by_opentelemetry:
            super().uninstrument(**kwargs)

    @abstractmethod
    def patch(self, patches: Patches, telemetry: Telemetry) -> None:
        """Patch the imported library.

        Raises:
            Exception: the library is not laid out as expected; what was patched until then is undone.
        """

    def _instrument(self, **kwargs: Any) -> None:
        self._options = kwargs
        self._generation += 1
        generation = self._generation
        if self.module in sys.modules:
            self._patch(generation)
        else:
            wrapt.register_post_import_hook(lambda _: self._patch(generation), self.module)

    def _patch(self, generation: int) -> None:
        """Patch the library that has been imported; a hook of an earlier generation does nothing."""
        if generation != self._generation or self._options is None or self._patches is not None:
            return
        try:
            if _is_supported(self.supported):
                self._apply(self._options)
        except Exception as error:
            report(f"instrument {self.title}", error)

    def _apply(self, options: dict[str, Any]) -> None:
        from guardspan.patching import Patches
        from guardspan.telemetry import Telemetry

        chosen = {name: options.get(name) for name in _PROVIDERS_AND_HOOKS}
        telemetry = Telemetry.of(_settings_of(options), **chosen)
        patches = Patches()
        try:
            self.patch(patches, telemetry)
        except Exception:
            patches.undo()
            telemetry.activity.close()
            raise
        self._patches, self._telemetry = patches, telemetry

    def _uninstrument(self, **kwargs: Any) -> None:
        self._generation += 1
        self._options = None
        if self._patches is not None:
            _end_open_calls(self._telemetry)
            self._patches.undo()
            self._telemetry.activity.close()
        self._patches = self._telemetry = None


def _end_open_calls(telemetry: Any) -> None:
    """End the spans of calls under way: Guardrails may soon write raw content onto whatever is current."""
    from guardspan import semconv
    from guardspan.views import CallResult

    for recorder in list(telemetry.open_calls.values()):
        recorder.end(CallResult(semconv.NOT_RUN, abandoned=True))


def _check(options: dict[str, Any]) -> None:
    """Tell a keyword that cannot be used to its author at once."""
    for name in _HOOKS:
        hook = options.get(name)
        if hook is not None and not callable(hook):
            raise TypeError(f"{name} must be callable, not {type(hook).__name__}")
        if inspect.iscoroutinefunction(hook):
            raise TypeError(f"{name} must be a plain function, not an async one")
    if any(name not in _PROVIDERS_AND_HOOKS for name in options):
        settings = _settings_of(options)
        if "redact_rules" in options:
            from guardspan.redaction.configured import own_rules

            own_rules(settings.redact_rules)


def _settings_of(options: dict[str, Any]) -> Any:
    from guardspan.settings import Settings

    return Settings.from_environment(
        **{name: value for name, value in options.items() if name not in _PROVIDERS_AND_HOOKS}
    )


def _is_supported(supported: str) -> bool:
    """Whether the installed version is in the range; one line is logged when it is not."""
    from packaging.requirements import Requirement
    from packaging.version import InvalidVersion

    from guardspan.telemetry import distribution_version

    requirement = Requirement(supported)
    found = distribution_version(requirement.name)
    with contextlib.suppress(InvalidVersion):  # newer releases of packaging answer no instead
        if found is None or requirement.specifier.contains(found, prereleases=True):
            return True
    _log.warning(
        "guardspan: %s %s is not instrumented: the supported range is %s", requirement.name, found, supported
    )
    return False
