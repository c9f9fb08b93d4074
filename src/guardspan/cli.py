"""The ``guardspan`` command: ``report``, ``redact``, ``doctor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from guardspan import doctor, harmless, output
from guardspan.redaction import command as redact
from guardspan.report import command as report
from guardspan.telemetry import distribution_version

_UNUSABLE = 2


class _Parser(argparse.ArgumentParser):
    """Its own messages repeat arguments as they are; here they cannot command the terminal."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2 and the message."""
        super().error(harmless.message(message))


def parser() -> argparse.ArgumentParser:
    """The command's parser; each sub-command stores its own ``run`` in the namespace."""
    main_parser = _Parser(
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
    """Run the command; the exit code is 0, 1 for a finding, or 2 for input or output that cannot be used."""
    chosen = parser().parse_args(arguments)
    if sys.stdout is None:  # it was closed before the process began
        return _cannot_write(chosen.command, "it is closed")
    try:
        with output.reader_may_leave():
            code: int = chosen.run(chosen)
            return code
    except OSError as error:
        output.discard()
        return _cannot_write(chosen.command, error.strerror)
    return 0


def _cannot_write(command: str, why: str | None) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"guardspan {command}: cannot write the output: {why}\n")
    return _UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
