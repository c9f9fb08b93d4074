"""Run the support desk with its guards and its agent recorded, then show what calls cost and why they failed.

    python examples/demo.py [--folder DIR] [--tickets N]

The application does not know about any of this: `opentelemetry-instrument` starts it, and the environment
below says where its spans go. Nothing leaves this machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPLICATION = ROOT / "examples" / "support_desk" / "app.py"
COMMANDS = Path(sys.executable).parent

RECORDING = {
    "OTEL_TRACES_EXPORTER": "guardspan_file",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "OTEL_SERVICE_NAME": "support-desk",
    "OTEL_RESOURCE_ATTRIBUTES": "team=support",
}
# Guardrails looks for this file in the user's home; without it, it sends metrics to its makers.
GUARDRAILS_SETTINGS = "id=demo\nenable_metrics=false\nuse_remote_inferencing=false\n"


class StepFailed(Exception):
    """A step of the demo that ended with an error; the message says which, and how."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0, or 1 with a message on standard error when a step failed."""
    options = _options(arguments)
    try:
        _demonstrate(options.folder.resolve(), options.tickets)
    except StepFailed as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    return 0


def _demonstrate(folder: Path, tickets: int) -> None:
    data, page = folder / ".guardspan" / "demo", folder / "report.html"
    _title("The support desk answers its mail, under opentelemetry-instrument")
    record(data, ["--tickets", str(tickets)])
    _title("What the calls cost, and why they failed")
    run("guardspan", "report", _shown(data), "--html", _shown(page))
    _title("Next")
    print(f"the same as a page          {_shown(page)}")
    print(f"one call, step by step      {_shown(COMMANDS / 'guardspan')} report {_shown(data)} --call ID")


def record(data: Path, arguments: Sequence[str]) -> None:
    """Run the application and leave its spans in the folder `data`, alone. Raises StepFailed."""
    shutil.rmtree(data, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="guardspan-demo-") as home:
        Path(home, ".guardrailsrc").write_text(GUARDRAILS_SETTINGS, encoding="utf-8")
        environment = application_environment(Path(home), data)
        run("opentelemetry-instrument", sys.executable, str(APPLICATION), *arguments, environment=environment)
    if not any(data.rglob("*.jsonl")):
        raise StepFailed(f"the application ran, but no spans came to {_shown(data)}; try: guardspan doctor")


def application_environment(home: Path, data: Path) -> dict[str, str]:
    """The environment of the application: its spans go to `data`, and nothing goes to the internet.

    GUARDSPAN_* variables of the caller stay, so that the demo also shows other settings; OTEL_* do not.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    offline = {"HOME": str(home), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return inherited | offline | RECORDING | {"GUARDSPAN_DIR": str(data)}


def run(command: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    """Run a command that is installed beside this Python. Raises StepFailed if it is absent or fails."""
    sys.stdout.flush()
    try:
        ended = subprocess.run([str(COMMANDS / command), *arguments], cwd=ROOT, env=environment, check=False)
    except OSError as error:
        raise StepFailed(
            f"cannot start {command} ({error.strerror}); make the environment: make env"
        ) from error
    if ended.returncode:
        raise StepFailed(f"{command} ended with exit code {ended.returncode}; its own message is above")


def _title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def _shown(path: Path) -> str:
    """The path as a person at the root of the repository types it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the support desk, recorded, and show the report.")
    parser.add_argument("--folder", type=Path, default=ROOT, help="where data and page go (the repository)")
    parser.add_argument("--tickets", type=_count, default=60, metavar="N", help="how many tickets (60)")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
