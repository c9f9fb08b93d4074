"""``guardspan doctor``: would it work here, and if not, what mends it."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from guardspan import output
from guardspan.guardrails import SUPPORTED as GUARDRAILS
from guardspan.harmless import ascii_json, message, whole
from guardspan.pricing import PricesError, load_prices
from guardspan.pydantic_ai import SUPPORTED as PYDANTIC_AI
from guardspan.redaction.configured import Redaction, RedactionSetupError
from guardspan.settings import Settings, environment_faults
from guardspan.telemetry import distribution_version

Level = Literal["ok", "note", "problem"]

_EXPORTERS = {"otlp", "otlp_proto_grpc", "otlp_proto_http", "console", "none"}
_DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
_LIBRARIES = {"guardrails_ai": GUARDRAILS, "pydantic_ai": PYDANTIC_AI}
"""Supported ranges by entry point."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``mend`` says what to do about a problem."""

    level: Level
    what: str
    found: str
    mend: str | None = None


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    added = commands.add_parser(
        "doctor",
        help="check this environment: would it work, and what would mend it",
        description="Checks what is installed and configured. Exit code 1 when something would not work.",
    )
    added.add_argument("--json", action="store_true", help="one JSON object a line, for scripts")


def run(arguments: argparse.Namespace) -> int:
    """Print every finding; 1 when one of them is a problem."""
    findings = list(examine())
    with output.reader_may_leave():
        for finding in findings:
            print_json(finding) if arguments.json else _print(finding)
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def examine() -> Iterator[Finding]:
    """Look at the environment of this process; nothing is imported that the check itself does not need."""
    settings = Settings.from_environment()
    yield from _own()
    yield from _report()
    yield from _libraries()
    yield from _settings(settings)
    yield from _prices(settings.prices)
    yield from _redaction(settings)
    yield from _exporters(settings.dir)
    yield from _guardrails_tracing(settings.guardrails_tracing)
    yield from _phone_home()


def _own() -> Iterator[Finding]:
    yield Finding("ok", "guardspan", distribution_version("guardspan") or "unknown version")
    for name, role in (("opentelemetry-sdk", "SDK"), ("opentelemetry-distro", "opentelemetry-instrument")):
        found = distribution_version(name)
        if found:
            yield Finding("ok", name, found)
        else:
            yield Finding("problem", name, f"not installed; {role} needs it", f"pip install {name}")


def _report() -> Iterator[Finding]:
    if _importable("rich") and _importable("pygal"):
        yield Finding("ok", "guardspan report", "its packages are installed")
    else:
        yield Finding("note", "guardspan report", 'only --json, until pip install "guardspan[report]"')


def _libraries() -> Iterator[Finding]:
    for entry_point, supported in _LIBRARIES.items():
        yield _library(entry_point, Requirement(supported))
    if all(distribution_version(Requirement(supported).name) is None for supported in _LIBRARIES.values()):
        yield Finding("note", "libraries", "none is installed: there is nothing to instrument")
    if distribution_version("openinference-instrumentation-guardrails"):
        yield Finding("note", "openinference-instrumentation-guardrails", "also installed")


def _library(entry_point: str, supported: Requirement) -> Finding:
    name = supported.name
    found = distribution_version(name)
    if found is None:
        return Finding("note", name, "not installed")
    if not supported.specifier.contains(found, prereleases=True):
        mend = f'pip install "{_LIBRARIES[entry_point].replace(" ", "")}"'
        return Finding("problem", name, f"{found} would not be patched", mend)
    if entry_point in _names(os.environ.get(_DISABLED, "")):
        return Finding(
            "problem", name, f"{found}, switched off by {_DISABLED}", f"remove {entry_point} from {_DISABLED}"
        )
    if not _registered("opentelemetry_instrumentor", entry_point):
        mend = "install guardspan again: its entry points are missing"
        return Finding("problem", name, f"{found}, but no instrumentor is registered", mend)
    return Finding("ok", name, f"{found}, supported; patched when it is imported")


def _settings(settings: Settings) -> Iterator[Finding]:
    for name, fault in environment_faults().items():
        field = Settings.model_fields[name.removeprefix("GUARDSPAN_").lower()]
        yield Finding("problem", name, f"{fault}; the default is used", f"{name} is {field.description}")
    known = {f"GUARDSPAN_{name.upper()}" for name in Settings.model_fields}
    for name in sorted(name for name in os.environ if name.startswith("GUARDSPAN_") and name not in known):
        yield Finding("problem", name, "no such setting", f"one of {', '.join(sorted(known))}")
    yield Finding("ok", "content", settings.content)
    key = "set" if settings.digest_key else "not set: digests of two processes cannot be compared"
    yield Finding("ok" if settings.digest_key else "note", "digest key", key)
    if settings.genai_usage:
        yield Finding("note", "GUARDSPAN_GENAI_USAGE", "on: leave off beside a provider's instrumentation")


def _prices(path: Path | None) -> Iterator[Finding]:
    if path is None:
        return
    try:
        load_prices(path)
    except PricesError as error:
        yield Finding("problem", "GUARDSPAN_PRICES", str(error), "correct the file that the variable names")
    else:
        yield Finding("ok", "GUARDSPAN_PRICES", str(path))


def _redaction(settings: Settings) -> Iterator[Finding]:
    """Whether what the settings name is there: rules are read and tested, a model is loaded."""
    named = [f"{settings.redact_rules}"] if settings.redact_rules else []
    named += [f"presidio with {settings.redact_presidio}"] if settings.redact_presidio else []
    if not named:
        return
    try:
        Redaction.of(settings)
    except RedactionSetupError as error:
        mend = "correct the file or the variable; until then no content is recorded"
        yield Finding("problem", "redaction", str(error), mend)
    else:
        yield Finding("ok", "redaction", f"our own rules, and {' and '.join(named)}")


def _exporters(folder: Path) -> Iterator[Finding]:
    for name in _names(os.environ.get("OTEL_TRACES_EXPORTER", "otlp")):
        if name == "guardspan_file":
            yield from _file_exporter(folder)
        elif name == "none":
            yield Finding("problem", "traces exporter", "none: no span leaves", "set OTEL_TRACES_EXPORTER")
        elif name in _EXPORTERS or _registered("opentelemetry_traces_exporter", name):
            yield Finding("ok", "traces exporter", name)
        else:
            yield Finding(
                "problem", "traces exporter", f"{name} is not installed", "correct OTEL_TRACES_EXPORTER"
            )
    if os.environ.get("OTEL_TRACES_SAMPLER") == "always_off":
        mend = "unset OTEL_TRACES_SAMPLER"
        yield Finding("problem", "OTEL_TRACES_SAMPLER", "always_off: nothing is recorded", mend)
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield Finding("problem", "OTEL_SDK_DISABLED", "true: nothing is recorded", "unset OTEL_SDK_DISABLED")


def _file_exporter(folder: Path) -> Iterator[Finding]:
    if not _importable("opentelemetry.exporter.otlp.json.file"):
        mend = 'pip install "guardspan[files]"'
        yield Finding("problem", "traces exporter", "guardspan_file needs a package that is missing", mend)
        return
    existing = next((p for p in (folder, *folder.absolute().parents) if os.path.exists(p)), folder)
    if _writable(existing):
        yield Finding("ok", "traces exporter", f"guardspan_file, into {folder}")
    else:
        mend = "set GUARDSPAN_DIR to a folder that can be written"
        yield Finding("problem", "traces exporter", f"guardspan_file cannot write into {folder}", mend)


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def _writable(folder: Path) -> bool:
    """Whether a file can be made there, which permissions alone do not tell."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _guardrails_tracing(tracing: str) -> Iterator[Finding]:
    if distribution_version("guardrails-ai") is None:
        return
    if tracing == "keep":
        yield Finding("note", "Guardrails' own tracing", "kept: it exports full content to your exporter")
    else:
        yield Finding("ok", "Guardrails' own tracing", "off while instrumented")


def _phone_home() -> Iterator[Finding]:
    """Guardrails reports usage to its makers unless its own file says otherwise; not ours to change."""
    if distribution_version("guardrails-ai") is None:
        return
    path = os.path.join(os.path.expanduser("~"), ".guardrailsrc")
    try:
        with open(path, encoding="utf-8") as file:
            off = "enable_metrics=false" in file.read().replace(" ", "").lower()
    except (OSError, UnicodeDecodeError):
        off = False
    if off:
        yield Finding("ok", "Guardrails' usage reports", "off in ~/.guardrailsrc")
    else:
        hint = "on: enable_metrics=false in ~/.guardrailsrc ends them"
        yield Finding("note", "Guardrails' usage reports", hint)


def _registered(group: str, name: str) -> bool:
    return any(point.name == name for point in entry_points(group=group))


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def print_json(finding: Finding) -> None:
    """One finding as one line of JSON: ``level``, ``what``, ``found``, ``mend``."""
    shown = {name: value and whole(value) for name, value in asdict(finding).items()}
    output.write(ascii_json(json.dumps(shown)) + "\n")


def _print(finding: Finding) -> None:
    sign = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}[finding.level]
    output.write(f"{sign}  {message(finding.what)}: {message(finding.found)}\n")
    if finding.mend:
        output.write(f"         mend: {message(finding.mend)}\n")
