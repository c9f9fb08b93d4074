"""The example application: runs to its end, alone and recorded, and stays an ordinary application."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import demo
import pytest
from support_desk.inbox import LETTERS, inbox

FOLDER = demo.APPLICATION.parent
# One round of all letters, whatever their order.
SUMMARY = "29 tickets, 106 steps: 86 ok, 4 dropped, 2 blocked, 1 left, 13 FAILED"
ENDINGS = {
    "Canned replies": "1 ok, canned reply dropped (not signed), canned reply blocked (not allowed)",
    "Charged twice in March": "3 ok",
    "Where is my parcel": "4 ok",
    "Wrong chair": "4 ok",
    "Parcel at a neighbour": "4 ok",
    "When does my lamp arrive": "3 ok, order desk FAILED (no valid answer)",
    "An order from the old shop": "3 ok, order desk FAILED (no valid answer)",
    "All my parcels": "3 ok, order desk FAILED (too many requests)",
    "Held at customs": "3 ok, order desk FAILED (provider error)",
    "Refund for a broken lamp": "3 ok, refund FAILED (no valid answer)",
    "Refund for the wrong size": "4 ok",
    "How do I reset my password": "4 ok",
    "How do I export my data": "3 ok, help page dropped (no valid answer)",
    "App crashes on start": "5 ok",
    "Cannot log in": "3 ok",
    "I want to cancel": "4 ok",
    "Please close my old account": "3 ok, offer FAILED (ValueError)",
    "Rechnung fehlt": "4 ok",
    "Karte belastet": "1 ok, translate blocked (not allowed)",
    "Is my order on its way?": "2 ok",
    "Discount code does not work": "2 ok",
    "Hello? Anybody there?": "1 ok, chat left (after 2 sentences)",
    "Question about the warranty": "1 ok, chat FAILED (provider error)",
    "API returns an error": "5 ok",
    "asdf qwer": "1 ok, triage FAILED (no usable answer)",
    "Change the invoice address": "2 ok, reply FAILED (provider error)",
    "Lamp offline after maintenance": "0 ok, triage FAILED (provider error), tag FAILED (too slow)",
    "Complaint about the courier": "2 ok, survey dropped (no valid answer), reply FAILED (too slow)",
    "A wish: dark mode": "5 ok, reply FAILED (no usable answer)",
    "Thank you!": "3 ok, survey dropped (no valid answer)",
}
# What the report says of the agent: runs, how they ended, and the failures of Iterations by class.
AGENT = {
    "calls": 7,
    "statuses": {"passed": 3, "failed": 2, "error": 2},
    "failures": {"validation": 9, "parsing": 1, "limit": 1, "provider": 1},
}
# Python reads this module at its start: it notes every address that the process looks up or connects to.
WATCH = """
import os, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        place = arguments[1] if event == "socket.connect" else arguments[0]
        host = place[0] if isinstance(place, tuple) else place
        with open(os.environ["WATCHED"], "a", encoding="utf-8") as watched:
            watched.write(f"{host}\\n")

sys.addaudithook(watch)
"""


def endings(output: str) -> dict[str, str]:
    """What the application printed: how it went, by subject."""
    lines = re.findall(r"^(?:ticket +\d+|desk +)  (.{32})(.*)$", output, re.MULTILINE)
    return {subject.strip(): ending for subject, ending in lines}


def agent_in(report: dict[str, Any]) -> dict[str, Any]:
    """What the report's JSON says of the agent."""
    (row,) = [group for group in report["groups"] if group["key"] == "order-desk"]
    return {
        "calls": row["calls"],
        "statuses": {status: count for status, count in row["statuses"].items() if count},
        "failures": {each["failure_class"]: each["iterations"] for each in row["failures"]},
    }


@pytest.fixture
def terminal() -> Iterator[tuple[int, Callable[[], str]]]:
    """A terminal for a process to write to, and what stands there once the process has ended."""
    screen, end = os.openpty()

    def shown() -> str:
        os.set_blocking(screen, False)
        try:
            return os.read(screen, 100_000).decode()
        except OSError:  # nothing there
            return ""

    yield end, shown
    os.close(screen)
    os.close(end)


@pytest.mark.slow
def test_the_application_runs_alone_to_its_end_without_the_internet(
    tmp_path: Path, home: Path, terminal: tuple[int, Callable[[], str]]
):
    """Started by hand it handles every letter as the README says, says nothing else, and stays at home."""
    (tmp_path / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
    watched = tmp_path / "hosts"
    ended = subprocess.run(
        [sys.executable, demo.APPLICATION, "--tickets", str(len(LETTERS)), "--seed", "5"],
        env={"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": str(tmp_path), "WATCHED": str(watched)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=terminal[0],
        text=True,
        timeout=240,
        check=False,
    )
    assert (ended.returncode, terminal[1]()) == (0, "")
    assert endings(ended.stdout) == ENDINGS
    assert ended.stdout.splitlines()[-1] == SUMMARY
    assert set(watched.read_text(encoding="utf-8").split()) == {"127.0.0.1"}


@pytest.mark.slow
def test_the_demo_records_the_same_run_and_shows_its_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """Recorded, every ticket ends as it does alone; then come the report, its page, the way to a call."""
    code = demo.main(["--folder", str(tmp_path), "--tickets", str(len(LETTERS))])
    output, errors = capfd.readouterr()
    assert code == 0
    assert [line for line in errors.splitlines() if "report.html" not in line] == []
    assert endings(output) == ENDINGS
    assert SUMMARY in output
    assert {"customer-reply", "order-desk"} <= set(output.partition(SUMMARY)[2].split())
    assert f"report {tmp_path / '.guardspan' / 'demo'} --call ID" in output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "customer-reply" in page
    assert "order-desk" in page
    demo.run("guardspan", "report", str(tmp_path / ".guardspan" / "demo"), "--json")
    assert agent_in(json.loads(capfd.readouterr().out)) == AGENT


@pytest.mark.parametrize("arguments", [["--tickets", "0"], ["--tickets", "many"], ["--what"]])
def test_a_wrong_option_is_refused_at_once(arguments: list[str]):
    """The demo names the mistake and does nothing, with exit code 2."""
    with pytest.raises(SystemExit) as end:
        demo.main(arguments)
    assert end.value.code == 2


def test_a_command_that_fails_ends_the_demo(monkeypatch, tmp_path, capsys):
    """The message names the command and its exit code, and nothing after it runs."""
    failing = tmp_path / "opentelemetry-instrument"
    failing.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    failing.chmod(0o755)
    monkeypatch.setattr(demo, "COMMANDS", tmp_path)
    assert demo.main(["--folder", str(tmp_path)]) == 1
    assert "opentelemetry-instrument ended with exit code 3" in capsys.readouterr().err


def test_a_command_that_is_absent_ends_the_demo_with_the_mend(monkeypatch, tmp_path, capsys):
    """An environment that was never made is named, with the target that makes it."""
    monkeypatch.setattr(demo, "COMMANDS", tmp_path)
    assert demo.main(["--folder", str(tmp_path)]) == 1
    assert "make env" in capsys.readouterr().err


def test_a_run_without_spans_ends_the_demo_with_the_mend(monkeypatch, tmp_path, capsys):
    """An application that leaves no spans is no empty report but an error, and old data does not hide it."""
    idle = tmp_path / "opentelemetry-instrument"
    idle.write_text("#!/bin/sh\n", encoding="utf-8")
    idle.chmod(0o755)
    old = tmp_path / ".guardspan" / "demo" / "spans-old.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("{}\n", encoding="utf-8")
    monkeypatch.setattr(demo, "COMMANDS", tmp_path)
    assert demo.main(["--folder", str(tmp_path)]) == 1
    assert "guardspan doctor" in capsys.readouterr().err


def test_the_demo_decides_where_spans_go(monkeypatch, tmp_path):
    """The caller's OTEL_* variables do not send the demo's spans elsewhere; GUARDSPAN_* ones stay."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "another")
    monkeypatch.setenv("GUARDSPAN_CONTENT", "redacted")
    environment = demo.application_environment(tmp_path / "home", tmp_path / "data")
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" not in environment
    assert environment["OTEL_SERVICE_NAME"] == "support-desk"
    assert environment["GUARDSPAN_CONTENT"] == "redacted"
    assert environment["GUARDSPAN_DIR"] == str(tmp_path / "data")


def test_the_application_knows_nothing_of_its_observer():
    """Not a line of it names guardspan or OpenTelemetry."""
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert len(files) >= 9
    named = [p.name for p in files if re.search("guardspan|opentelemetry|otel", p.read_text("utf-8"), re.I)]
    assert named == []


def test_the_application_uses_real_validators():
    """At least six validators come from packages of their own."""
    assert len(set(re.findall(r"from guardrails_ai\.(\w+)", (FOLDER / "guards.py").read_text("utf-8")))) >= 6


def test_whatever_asks_a_model_has_scripted_answers():
    """The script's tasks are the names of the guards and the agent; only the canned replies ask nobody."""
    tasks = json.loads((FOLDER / "answers.json").read_text("utf-8"))["answers"]
    names = re.findall(
        r'Guard\(name="([\w-]+)"\)|name="([\w-]+)"\)$', (FOLDER / "guards.py").read_text("utf-8"), re.M
    )
    agents = re.findall(r'^    name="([\w-]+)",$', (FOLDER / "order_desk.py").read_text("utf-8"), re.M)
    assert set(tasks) == {first or second for first, second in names} - {"canned-reply"} | set(agents)
    assert agents == ["order-desk"]


@pytest.mark.parametrize("seed", [1, 2, 77])
def test_one_round_holds_every_letter_once(seed: int):
    """Whatever the seed, the first tickets are all letters, each once."""
    assert {ticket.letter for ticket in inbox(len(LETTERS), seed)} == set(LETTERS)


def test_the_same_seed_gives_the_same_tickets():
    """A run can be repeated; another seed is another run; fewer tickets are the first ones."""
    assert inbox(60, 1) == inbox(60, 1)
    assert inbox(60, 1) != inbox(60, 2)
    assert [ticket.letter for ticket in inbox(10, 1)] == [ticket.letter for ticket in inbox(60, 1)][:10]
