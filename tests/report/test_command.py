"""`guardspan report` as people and scripts use it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pydantic
import pytest

from guardspan import cli
from guardspan.report import command
from guardspan.report.model import Report
from guardspan.report.period import parse_since
from report.span_files import NOON, Attempt, Call, writing

CLI = [sys.executable, "-m", "guardspan.cli"]
COMMAND = [*CLI, "report"]
PAGE = Path(__file__).parent.parent.parent / "docs" / "report-json.md"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run_once(*arguments: object) -> tuple[int, str, str]:
        try:
            code = cli.main(["report", *map(str, arguments)])
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_once


def test_tables_by_default(desk: Path, run: Run) -> None:
    """Tables on standard output, nothing on standard error."""
    code, out, err = run(desk)
    assert (code, err) == (0, "")
    assert "By name" in out


@pytest.mark.parametrize("source", ["argument", "variable", "default"])
def test_the_folder_read(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """PATH, else GUARDSPAN_DIR, else .guardspan."""
    place = Path(".guardspan") if source == "default" else folder
    with writing(place) as writer:
        writer.write(Call("found", "a1"))
    if source == "variable":
        monkeypatch.setenv("GUARDSPAN_DIR", str(folder))
    assert "found" in run(*([folder] if source == "argument" else []))[1]


def test_json_is_the_documented_report(desk: Path, run: Run) -> None:
    """It can be read back into the model of it."""
    code, out, err = run(desk, "--json", "--by", "team")
    assert (code, err) == (0, "")
    report = Report.model_validate_json(out)
    assert set(json.loads(out)) == set(Report.model_fields)
    assert (report.schema_version, report.by, report.totals.spend_usd) == (1, "team", 0.63)
    assert json.loads(out)["totals"]["tokens"]["cache_creation"] is None


def test_json_needs_neither_rich_nor_pygal(desk: Path) -> None:
    """A script's machine has the plain package only."""
    code = (
        "import sys; sys.modules['rich'] = sys.modules['pygal'] = None;"
        "from guardspan.report import command; import argparse;"
        "parser = argparse.ArgumentParser(); command.add_parser(parser.add_subparsers());"
        "sys.exit(command.run(parser.parse_args(['report', '--json', sys.argv[1]])))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(desk)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["totals"]["calls"] == 6


@pytest.mark.parametrize(
    ("missing", "arguments"), [("rich", []), ("pygal", ["--html", "page.html", "--json"])]
)
def test_a_missing_extra_is_named(
    desk: Path, run: Run, monkeypatch: pytest.MonkeyPatch, missing: str, arguments: list[str]
) -> None:
    """Before anything is read or written."""
    find = importlib_find(missing)
    monkeypatch.setattr("importlib.util.find_spec", find)
    code, out, err = run(desk, *arguments)
    assert (code, out) == (2, "")
    assert f"{missing} is not installed" in err
    assert 'pip install "guardspan[report]"' in err
    assert not Path("page.html").exists()


def importlib_find(missing: str) -> Callable[[str], Any]:
    """A `find_spec` that does not find one module."""
    return lambda name: None if name == missing else object()


def test_html_is_written_beside_the_tables(desk: Path, run: Run) -> None:
    """Both views at once, and the place of the page."""
    code, out, err = run(desk, "--html", "page.html")
    assert code == 0
    assert "By name" in out
    assert err == "HTML page: page.html\n"
    assert "<svg" in Path("page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere does not exist"),
        ([".", "--html", "no/such/page.html"], "no folder that may be written to"),
        ([".", "--html", "."], "is a folder; name a file in it"),
        ([".", "--since", "soon"], "is neither a time like 30m, 24h, 7d, 2w nor a date"),
        ([".", "--since", "999999w"], "argument --since"),
        ([".", "--by", "weather"], "argument --by"),
        ([".", "--call", "zz"], "no Call with the id 'zz'"),
        ([".", "--call", "zz", "--json"], "--call goes with PATH only"),
    ],
)
def test_bad_input_is_told_with_its_mend(run: Run, arguments: list[str], words: str) -> None:
    """Exit code 2, a message on standard error, nothing on standard output and nothing written."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert list(Path().iterdir()) == []


def test_messages_cannot_command_the_terminal(run: Run) -> None:
    """Even a path or an id with escape sequences is shown harmless."""
    for arguments in (["\x1b[31mx"], [".", "--call", "\x1b]0;x\x07"], [".", "--since", "\x1b[5m"]):
        assert "\x1b" not in run(*arguments)[2]


@pytest.mark.parametrize("arguments", [[], ["."], ["--json"], ["--html", "page.html"]])
def test_no_spans_is_an_empty_report_and_a_hint(run: Run, arguments: list[str]) -> None:
    """How to record some is told on standard error, so that scripts still get their JSON."""
    code, out, err = run(*arguments)
    assert code == 0
    assert "OTEL_TRACES_EXPORTER=guardspan_file" in err
    if "--json" in arguments:
        assert json.loads(out)["totals"]["calls"] == 0


def test_since_before_everything_is_told(desk: Path, run: Run) -> None:
    """Nothing is left by --since: the hint is to leave it out."""
    code, _, err = run(desk, "--since", "2026-06-01")
    assert code == 0
    assert "17 are older" in err


def test_a_call_is_printed_as_a_tree(desk: Path, run: Run) -> None:
    """By the id that the tables list."""
    code, out, err = run(desk, "--call", "bbbb0001")
    assert (code, err) == (0, "")
    assert out.startswith("guard order  fail  3 Iterations")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("30m", NOON - 1800),
        ("24h", NOON - 86_400),
        ("7d", NOON - 7 * 86_400),
        ("2w", NOON - 14 * 86_400),
        ("2025-11-30", NOON - 12 * 3600),
        ("2025-11-30T12:00:00Z", NOON),
        ("2025-11-30T12:00", NOON),
        ("2025-11-30T12:00:00+02:00", NOON - 7200),
    ],
)
def test_times_that_since_takes(value: str, expected: int) -> None:
    """Ago from now, or a date or time, UTC unless it has a zone."""
    assert parse_since(value, datetime.fromtimestamp(NOON, timezone.utc)) == expected * 10**9


COMMANDS = [["report"], ["report", "--json"], ["doctor"]]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command_line", COMMANDS, ids=" ".join)
def test_a_reader_that_leaves_early_is_no_fault(desk: Path, command_line: list[str], unbuffered: str) -> None:
    """`guardspan report | head -1` ends quietly; the doctor's exit code still tells of a problem."""
    read, write = os.pipe()
    os.close(read)
    variables = {"GUARDSPAN_DIR": str(desk), "PYTHONUNBUFFERED": unbuffered, "OTEL_SDK_DISABLED": "true"}
    done = subprocess.run(
        [*CLI, *command_line],
        check=False,
        stdout=write,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1 if "doctor" in command_line else 0, b"")


OUTPUTS = {"&-": "it is closed"}
if os.path.exists("/dev/full"):  # Linux
    OUTPUTS["/dev/full"] = "No space left on device"


@pytest.mark.parametrize("target", OUTPUTS)
@pytest.mark.parametrize("command_line", COMMANDS, ids=" ".join)
def test_an_output_that_cannot_be_written_is_told(desk: Path, command_line: list[str], target: str) -> None:
    """Closed or full: exit code 2, one line, and no word from Python."""
    done = subprocess.run(
        ["bash", "-c", f'"$@" >{target}', "bash", *CLI, *command_line],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "GUARDSPAN_DIR": str(desk), "PYTHONUNBUFFERED": ""},
    )
    message = f"guardspan {command_line[0]}: cannot write the output: {OUTPUTS[target]}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_an_interrupted_report_ends_quietly(desk: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C while reading: the shell's code for it, and no trace."""

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "make_report", interrupt)
    assert run(desk) == (130, "", "")


def test_an_output_that_lacks_characters_gets_others(desk: Path) -> None:
    """A log in ASCII is no reason to end with an exception."""
    done = subprocess.run(
        [*COMMAND, str(desk)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert "$0.630" in done.stdout


def test_a_person_sees_a_progress_bar(desk: Path) -> None:
    """On standard error and only there, so that what is piped stays clean."""
    master, slave = pty.openpty()
    done = subprocess.run(
        [*COMMAND, str(desk), "--json"],
        stdout=subprocess.PIPE,
        stderr=slave,
        check=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(slave)
    drawn = os.read(master, 100_000).decode()
    os.close(master)
    assert "reading" in drawn
    assert json.loads(done.stdout)["totals"]["calls"] == 6


def test_every_field_is_documented() -> None:
    """`docs/report-json.md` has every field of the report with its meaning, and none that there is not."""
    fields: set[tuple[str, str | None]] = set()

    def collect(model: type[pydantic.BaseModel]) -> None:
        for name, field in model.model_fields.items():
            fields.add((name, field.description))
            for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
                if isinstance(inner, type) and issubclass(inner, pydantic.BaseModel):
                    collect(inner)

    collect(Report)
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(rows) == fields


def test_a_report_of_many_processes(folder: Path, run: Run) -> None:
    """Each process has files of its own; the report is of all of them."""
    for number in range(3):
        with writing(folder) as writer:
            writer.write(Call("g", f"a{number}", Attempt(cost=0.5)))
    out = run(folder, "--json")[1]
    report = json.loads(out)
    assert (report["sources"]["files"], report["totals"]["spend_usd"]) == (3, 1.5)
