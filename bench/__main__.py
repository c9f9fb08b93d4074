"""``python -m bench``: measure, show tables, and write them as JSON where asked."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from rich import box
from rich.console import Console
from rich.table import Table

from bench.environment import offline
from bench.start import Start, starts

if TYPE_CHECKING:
    from bench.measure import Cost, Export
    from bench.scenario import Scenario
    from bench.variant import Variant

_DISTRIBUTIONS = ("guardspan", "guardrails-ai", "pydantic-ai-slim", "opentelemetry-sdk", "wrapt")
_FULL_SECONDS, _QUICK_SECONDS = 27.0, 1.5
_FULL_STARTS, _QUICK_STARTS = 10, 1


class _Discard(SpanExporter):
    """Takes spans and does nothing with them."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        return None


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    fault = _fault(options.json)
    if fault:
        print(f"bench: --json {options.json}: {fault}", file=sys.stderr)
        return 2
    console = Console()
    with offline() as home:
        result = _result(console, home, quick=options.quick)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What guardspan costs.")
    parser.add_argument("--quick", action="store_true", help="under half a minute, and less sure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser


def _fault(file: Path | None) -> str | None:
    """What is wrong with the file to write, told before minutes are spent."""
    if file is None:
        return None
    if file.is_dir():
        return "is a folder; name a file"
    if not file.absolute().parent.is_dir():
        return "its folder is not there; make it first"
    if not os.access(file if file.exists() else file.absolute().parent, os.W_OK):
        return "cannot be written; name another file"
    return None


def _result(console: Console, home: Path, *, quick: bool) -> dict[str, Any]:
    """Everything that is measured, shown as it comes."""
    about = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "quick": quick,
        "versions": {name: version(name) for name in _DISTRIBUTIONS},
    }
    console.print(_heading(about))
    started = starts(home, _QUICK_STARTS if quick else _FULL_STARTS)
    console.print(_start_table(started))
    calls = _calls(console, _QUICK_SECONDS if quick else _FULL_SECONDS)
    return {**about, "start": _plain(started), "calls": calls}


def _calls(console: Console, seconds: float) -> dict[str, Any]:
    # Here, and not above: they import Guardrails, which reads its settings from the home.
    from bench import agent_scenarios, agent_variants, guard_scenarios, guard_variants
    from bench.scenario import THREADS

    provider, unsampled = TracerProvider(), TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(BatchSpanProcessor(_Discard()))
    results: dict[str, Any] = {}
    sizes = _table("\nWhat a call exports: OTLP protobuf messages", ("spans", "bytes", "encode µs"))
    with ThreadPoolExecutor(THREADS) as threads:
        for scenario in guard_scenarios.scenarios(threads):
            watchers = guard_variants.variants(unsampled)
            results[scenario.name] = _measured(console, sizes, scenario, watchers, provider, seconds)
    for scenario in agent_scenarios.scenarios():
        watchers = agent_variants.variants(unsampled)
        results[scenario.name] = _measured(console, sizes, scenario, watchers, provider, seconds)
    provider.shutdown()
    console.print(sizes)
    return results


def _measured(
    console: Console,
    sizes: Table,
    scenario: Scenario,
    watchers: Sequence[Variant],
    provider: TracerProvider,
    seconds: float,
) -> dict[str, Any]:
    from bench.measure import costs, exported, timed

    sent = {variant.name: exported(scenario, variant) for variant in watchers}
    means = timed(scenario, watchers, provider, seconds)
    spent = costs(means)
    rounds = len(next(iter(means.values())))
    console.print(_call_table(f"{scenario.name}: {rounds} blocks of {scenario.calls}", spent))
    _add_sizes(sizes, scenario.name, sent)
    return {
        "rounds": rounds,
        "calls_per_block": scenario.calls,
        "cpu_us": _plain(spent),
        "export": _plain(sent),
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: dataclasses.asdict(value) for name, value in values.items()}


def _heading(about: dict[str, Any]) -> str:
    libraries = ", ".join(f"{name} {found}" for name, found in about["versions"].items())
    return f"Python {about['python']}, {about['cores']} cores; {libraries}"


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table("", title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _call_table(title: str, spent: dict[str, Cost]) -> Table:
    table = _table(f"\n{title} calls, µs of CPU", ("median", "quiet", "added", "x bare", "x minimum"))
    for name, cost in spent.items():
        table.add_row(
            name,
            f"{cost.median:,.0f}",
            f"{cost.quiet:,.0f}",
            f"{cost.added:+,.0f}",
            f"{cost.to_bare:.2f}",
            f"{cost.to_minimum:.2f}",
        )
    return table


def _add_sizes(table: Table, scenario: str, sent: dict[str, Export]) -> None:
    table.add_row(f"[bold]{scenario}[/bold]")
    for name, export in sent.items():
        if export.spans:
            table.add_row(f"  {name}", str(export.spans), f"{export.bytes:,}", f"{export.encoding:,.0f}")


def _start_table(started: dict[str, Start]) -> Table:
    table = _table("\nStart of a process that does nothing", ("CPU ms", "clock ms"))
    for name, spent in started.items():
        table.add_row(name, f"{spent.cpu:,.0f}", f"{spent.wall:,.0f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
