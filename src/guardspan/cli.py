"""The ``guardspan`` command: ``report``, ``redact``, ``doctor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from guardspan import doctor
from guardspan.redaction import command as redact
from guardspan.report import command as report
from guardspan.telemetry import distribution_version


def parser() -> argparse.ArgumentParser:
    """The command's parser; each sub-command stores its own ``run`` in the namespace."""
    main_parser = argparse.ArgumentParser(
        prog="guardspan",
        description="What guarded LLM calls and agent runs cost, and why they fail.",
    )
    main_parser.add_argument(
        "--version", action="version", version=f"guardspan {distribution_version('guardspan')}"
    )
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in {"report": report, "redact": redact, "doctor": doctor}.items():
        module.add_parser(commands)
        commands.choices[name].set_defaults(run=module.run)
    return main_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0, 1 for a finding, or 2 for input that cannot be used."""
    chosen = parser().parse_args(arguments)
    try:
        code: int = chosen.run(chosen)
    except OSError as error:
        sys.stderr.write(f"guardspan {chosen.command}: cannot write the output: {error.strerror}\n")
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
