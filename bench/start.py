"""What an application that never imports Guardrails pays at its start."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PASS = (sys.executable, "-c", "pass")
_INSTRUMENT = (str(Path(sys.executable).with_name("opentelemetry-instrument")), *_PASS)
_NO_EXPORT = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
_WITHOUT = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "guardrails_ai"}
_COMMANDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "python": (_PASS, {}),
    "opentelemetry-instrument, guardspan disabled": (_INSTRUMENT, {**_NO_EXPORT, **_WITHOUT}),
    "opentelemetry-instrument, guardspan": (_INSTRUMENT, _NO_EXPORT),
}


@dataclass(frozen=True)
class Start:
    """A process that does nothing: CPU time and time on the clock, ms, medians."""

    cpu: float
    wall: float


def starts(folder: Path, repeats: int) -> dict[str, Start]:
    """Times by command, each of ``repeats`` in turn with the others, run in ``folder``.

    Raises:
        subprocess.CalledProcessError: a command failed.
    """
    times: dict[str, list[Start]] = {name: [] for name in _COMMANDS}
    for number in range(repeats + 1):
        for name, (command, environment) in _COMMANDS.items():
            spent = _spent(command, environment, folder)
            if number:  # the first one reads the files from the disk
                times[name].append(spent)
    return {
        name: Start(statistics.median(s.cpu for s in spent), statistics.median(s.wall for s in spent))
        for name, spent in times.items()
    }


def _spent(command: tuple[str, ...], environment: Mapping[str, str], folder: Path) -> Start:
    before, begun = _children(), time.perf_counter()
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, **environment})
    return Start((_children() - before) * 1000, (time.perf_counter() - begun) * 1000)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
