"""``guardspan report``: its arguments, and what it does with them."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardspan import output
from guardspan.harmless import ascii_json, message, plain_lines
from guardspan.report.aggregate import make_report
from guardspan.report.model import Report
from guardspan.report.period import parse_since
from guardspan.report.reading import PathMissing, Progress, SpanFiles, find_files
from guardspan.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

COMMAND = "report"
_PROGRESS_STEP = 1 << 20
HOW_TO_RECORD = (
    "No spans of guardspan's were found. Record some by running your application with\n"
    '  pip install "guardspan[files]"\n'
    "  OTEL_TRACES_EXPORTER=guardspan_file opentelemetry-instrument python app.py\n"
    "which writes to .guardspan (or GUARDSPAN_DIR), then run guardspan report in the same folder."
)


class CommandFault(Exception):
    """Why the command cannot be carried out, with the mend; who raises it makes foreign words harmless."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the sub-command ``report``; ``arguments.run(arguments)`` then returns the exit code."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        COMMAND,
        help="what the calls cost and why they failed",
        description="Cost and failure views of the files that the exporter guardspan_file wrote.",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="files or folders (default: GUARDSPAN_DIR or .guardspan)",
    )
    parser.add_argument(
        "--since",
        type=_since,
        default=0,
        metavar="WHEN",
        help="30m, 24h, 7d, 2w, or an ISO date or time (UTC)",
    )
    parser.add_argument(
        "--by",
        choices=("name", "model", "team", "status"),
        default="name",
        help="group by this (default: name)",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write one self-contained HTML page")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts instead of tables")
    parser.add_argument(
        "--call",
        metavar="ID",
        help="print one Call as a tree: its id, the beginning or the end of it, or a trace id",
    )
    parser.set_defaults(run=run)
    return parser


def _since(value: str) -> int:
    try:
        return parse_since(value)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{message(value)!r} {error}") from None


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``guardspan report``; the exit code is 0, 2 with a message on standard error, or 130."""
    try:
        _check(arguments)
        with _without_cycle_collection(), output.reader_may_leave():
            _run_report(arguments) if arguments.call is None else _run_call(arguments)
    except (CommandFault, PathMissing) as fault:
        _say("guardspan report: " + "\n".join(plain_lines(str(fault))))
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Find faults before anything is read."""
    if arguments.call is not None and (arguments.json or arguments.html or arguments.since):
        raise CommandFault("--call goes with PATH only; leave out --json, --html and --since")
    if arguments.html is not None:
        _need("pygal")
        _check_target(arguments.html)
    if not arguments.json:
        _need("rich")


def _need(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise CommandFault(f'{module} is not installed; install it with: pip install "guardspan[report]"')


def _check_target(path: Path) -> None:
    folder = path.absolute().parent
    name = message(str(path))
    if os.path.isdir(path):
        raise CommandFault(f"--html {name} is a folder; name a file in it")
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise CommandFault(f"--html {name} is a link or a device, which a page would replace; name a file")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        where = message(str(folder))
        raise CommandFault(f"--html {name}: {where} is no folder that may be written to; name another one")


@contextlib.contextmanager
def _without_cycle_collection() -> Iterator[None]:
    """What is read holds no cycles, and looking for some takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _files(arguments: argparse.Namespace) -> list[Path]:
    """The files to read; without PATH a folder that is not there yet is an empty one."""
    if arguments.paths:
        return find_files(arguments.paths)
    folder = Settings.from_environment().dir
    return find_files([folder]) if os.path.exists(folder) else []


def _run_report(arguments: argparse.Namespace) -> None:
    found = _files(arguments)
    with _progress(found) as progress:
        report = make_report(SpanFiles(found, arguments.since, progress), arguments.by)
    if arguments.html is not None:
        _write_html(report, arguments.html)
    if arguments.json:
        sys.stdout.write(ascii_json(report.model_dump_json(indent=2)) + "\n")
    else:
        _show(report)
    if not report.sources.spans:
        _say(_why_nothing(report))
    if arguments.html is not None:
        _say(f"HTML page: {message(str(arguments.html))}")


def _why_nothing(report: Report) -> str:
    if report.sources.earlier_spans:
        earlier = report.sources.earlier_spans
        return f"No spans of guardspan's since then; {earlier:,} are older. Leave out --since to see them."
    return HOW_TO_RECORD


def _write_html(report: Report, path: Path) -> None:
    from guardspan.report.html import write_page

    try:
        write_page(report, path)
    except OSError as error:
        name = message(str(path))
        raise CommandFault(f"{name} cannot be written ({error.strerror}); name another file") from None


def _show(report: Report) -> None:
    from guardspan.report.terminal import show

    _print(lambda console: show(report, console))


def _run_call(arguments: argparse.Namespace) -> None:
    from guardspan.report.tree import CallNotFound, find_tree

    found = _files(arguments)
    try:
        with _progress(found, times=2) as progress:
            tree = find_tree(found, arguments.call, progress)
    except CallNotFound as fault:
        raise CommandFault(str(fault)) from None
    _print(lambda console: console.print(tree))


def _print(show: Callable[[Console], None]) -> None:
    """Print by rich; what it makes is written here, since it ends the process when a reader has left."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    with console.capture() as capture:
        show(console)
    output.write(capture.get())


@contextlib.contextmanager
def _progress(files: Sequence[Path], times: int = 1) -> Iterator[Progress | None]:
    """A bar on standard error when a person is watching it."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    total = times * sum(map(_size, files))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        waiting = 0

        def advance(count: int) -> None:
            """Moving the bar takes longer than reading a short line."""
            nonlocal waiting
            waiting += count
            if waiting >= _PROGRESS_STEP:
                bar.advance(task, waiting)
                waiting = 0

        yield advance


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _say(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201
