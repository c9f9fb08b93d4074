"""What every recorder of one instrumentor shares: tracer, content path, prices, activity, hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from opentelemetry import baggage
from opentelemetry._logs import Logger, LoggerProvider, get_logger
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, Tracer, TracerProvider, get_tracer

from guardspan import semconv
from guardspan.activity import Activity
from guardspan.content import Content
from guardspan.pricing import Pricer
from guardspan.redaction import Finder
from guardspan.redaction.findings import KEY_RULE, mark
from guardspan.safety import Quietly
from guardspan.settings import Settings
from guardspan.views import CallView, IterationView

CallHook = Callable[[Span, CallView], None]
IterationHook = Callable[[Span, IterationView], None]

_MAX_BAGGAGE_KEYS = 16
_OWN_PREFIXES = ("guardspan.", "gen_ai.")
_OWN_NAMES = frozenset(attribute.name for attribute in semconv.ATTRIBUTES) - {semconv.TEAM}
_HIDDEN = mark(KEY_RULE)
"""In the place of a value whose key says that it is a secret."""
_copying = Quietly("copy baggage")


def distribution_version(name: str) -> str | None:
    """The installed version of a distribution, or None when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The tools of an instrumentor, made once when it instruments."""

    tracer: Tracer
    logger: Logger | None
    content: Content
    pricer: Pricer
    activity: Activity
    settings: Settings
    call_hook: CallHook | None = None
    iteration_hook: IterationHook | None = None
    open_calls: dict[int, Any] = field(default_factory=dict)
    """Recorders that have not ended, by id: what is still open when uninstrumenting ends then."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        call_hook: CallHook | None = None,
        iteration_hook: IterationHook | None = None,
        redact_hook: Finder | None = None,
    ) -> Telemetry:
        """Tools on the given providers, or on the global ones."""
        own_version = distribution_version("guardspan") or ""
        events = settings.evaluation_events
        return cls(
            tracer=get_tracer("guardspan", own_version, tracer_provider),
            logger=get_logger("guardspan", own_version, logger_provider) if events else None,
            content=Content.of(settings, redact_hook),
            pricer=Pricer(settings.prices),
            activity=Activity(get_meter("guardspan", own_version, meter_provider)),
            settings=settings,
            call_hook=call_hook,
            iteration_hook=iteration_hook,
        )

    def baggage(self, context: Context | None) -> dict[str, Any]:
        """The baggage entries to copy onto the spans, redacted; `team` and those that the settings name."""
        entries = baggage.get_all(context)
        if not entries:
            return {}
        with _copying:
            return self._chosen(entries)
        return {}

    def _chosen(self, entries: Any) -> dict[str, str]:
        chosen: dict[str, str] = {}
        for key in (semconv.TEAM, *self.settings.baggage_keys)[:_MAX_BAGGAGE_KEYS]:
            value = entries.get(key)
            if isinstance(value, str) and not key.startswith(_OWN_PREFIXES) and key not in _OWN_NAMES:
                name = _HIDDEN if self.content.redactor.secret_name(key) else self.content.name(value)
                if name is not None:
                    chosen[key] = name
        return chosen
