"""The suite on every Python at hand, with the lowest and the highest supported versions of the libraries.

    make test-versions
    .venv/bin/python tests/versions.py --pythons 3.10,3.13 --with lowest

Each pair has an environment of its own, `.venv-<python>-<lowest or highest>`, made by uv and kept for the
next time. The highest versions are those that `requirements/dev.txt` pins, together with all else that it
pins; the lowest are those that `requirements/lowest.in` names, with the pins in `requirements/lowest.txt`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.version import Version
from rich.console import Console
from rich.table import Table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PINS = {
    "lowest": ROOT / "requirements" / "lowest.txt",
    "highest": ROOT / "requirements" / "dev.txt",
}
NOT_FOR_TESTS = {"mypy", "ruff", "coverage"}

console = Console(highlight=False)


@dataclass(frozen=True)
class Pair:
    """One interpreter with the lowest or the highest versions."""

    python: str
    interpreter: Path
    end: str

    @property
    def folder(self) -> Path:
        """The environment's folder."""
        return ROOT / f".venv-{self.python}-{self.end}"

    @property
    def executable(self) -> Path:
        """The environment's Python."""
        return self.folder / "bin" / "python"


@dataclass(frozen=True)
class Outcome:
    """What came of the suite; ``ok`` only if tests ran and none failed."""

    ok: bool
    passed: int
    failed: int
    seconds: float
    output: str
    libraries: str = ""


class NoEnvironment(Exception):
    """An environment could not be made."""


def project() -> dict[str, Any]:
    """What `pyproject.toml` says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def libraries() -> list[Requirement]:
    """The instrumented libraries, with their supported ranges."""
    found = project()["project"]["optional-dependencies"]["instruments-any"]
    return [Requirement(line) for line in found]


def check_lowest() -> None:
    """Ends the program where the lowest versions that are tested are not the lowest supported ones."""
    tested = (ROOT / "requirements" / "lowest.in").read_text(encoding="utf-8").split()
    for library in libraries():
        lowest = next(spec.version for spec in library.specifier if spec.operator == ">=")
        named = next((line.partition("==")[2] for line in tested if line.startswith(f"{library.name}==")), "")
        if not named or Version(named) != Version(lowest):  # 2.0 is 2.0.0
            raise SystemExit(f"requirements/lowest.in: give {library.name}=={lowest}, then run `make lock`")


def interpreters(python: str) -> Iterator[Path]:
    """Places where a Python of that version may be."""
    on_path = shutil.which(f"python{python}")
    if on_path is not None:
        yield Path(on_path)
    pyenv = shutil.which("pyenv")
    if pyenv is not None:
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        yield from sorted(Path(root, "versions").glob(f"{python}*/bin/python"))


def runs(interpreter: Path, python: str) -> bool:
    """Whether an interpreter starts and is of that version: a shim of pyenv may be neither."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == python


def find(python: str) -> Path | None:
    """An interpreter of that version, None where there is none."""
    return next((found for found in interpreters(python) if runs(found, python)), None)


def requirements() -> list[str]:
    """What the suite needs."""
    package, groups = project()["project"], project()["dependency-groups"]
    tools = [line for line in groups["dev"] if Requirement(line).name not in NOT_FOR_TESTS]
    extras = package["optional-dependencies"]
    return [
        *package["dependencies"],
        *extras["instruments-any"],
        *extras["files"],
        *extras["report"],
        *extras["presidio"],
        *tools,
        *groups["validators"],
        *groups["agents"],
    ]


def uv(*arguments: str | Path) -> str:
    """Run uv and return what it said; its own words say what went wrong."""
    done = subprocess.run([UV, "--quiet", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoEnvironment(done.stderr.strip())
    return done.stdout


def make(pair: Pair) -> None:
    """Make the environment of a pair, or bring it up to date."""
    if not pair.executable.exists():
        uv("venv", "--clear", "--python", pair.interpreter, pair.folder)
    install = ["pip", "install", "--python", pair.executable]
    uv(*install, "--constraints", PINS[pair.end], *requirements())
    uv(*install, "--no-deps", "--editable", ROOT)


def installed(pair: Pair) -> str:
    """The versions of the instrumented libraries in the environment of a pair."""
    found = uv("pip", "freeze", "--python", pair.executable)
    names = "|".join(re.escape(library.name) for library in libraries())
    return ", ".join(re.findall(rf"^(?:{names})==(\S+)", found, re.MULTILINE))


def suite() -> list[Path]:
    """The tests that need no particular version: guards, agents, redaction, the sweep, and each module.

    Those of a provider's client do: the lowest Guardrails and the lowest Pydantic AI do not agree on one.
    """
    tests = ROOT / "tests"
    folders = [tests / name for name in ("guards", "agents", "redaction", "sweep")]
    return [*folders, *sorted(tests.glob("test_*.py"))]


def test(pair: Pair) -> Outcome:
    """Make the environment of a pair and run the suite in it."""
    started = time.monotonic()
    report = pair.folder / "junit.xml"
    try:
        make(pair)
        libraries_there = installed(pair)
    except NoEnvironment as error:
        return Outcome(False, 0, 0, time.monotonic() - started, str(error))
    report.unlink(missing_ok=True)
    options = ["-m", "not slow", "-n", "auto", "-p", "no:cacheprovider", "--disable-warnings"]
    done = subprocess.run(
        [pair.executable, "-m", "pytest", *options, f"--junitxml={report}", *suite()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    passed, failed = counts(report)
    ok = done.returncode == 0 and passed > 0
    return Outcome(ok, passed, failed, time.monotonic() - started, done.stdout + done.stderr, libraries_there)


def counts(report: Path) -> tuple[int, int]:
    """How many tests passed and failed, of a JUnit report; none where there is no report."""
    if not report.exists():
        return 0, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    failed = sum(int(suite.get(name, 0)) for suite in suites for name in ("failures", "errors"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in suites)
    return sum(int(suite.get("tests", 0)) for suite in suites) - failed - skipped, failed


def chosen(arguments: Sequence[str] | None) -> list[Pair]:
    """The pairs that the command line asks for."""
    parser = argparse.ArgumentParser(description="The suite on several versions of Python and the libraries.")
    parser.add_argument("--pythons", help="such as 3.10,3.13; every one at hand when left out")
    parser.add_argument("--with", dest="ends", choices=PINS, help="lowest or highest; both when left out")
    options = parser.parse_args(arguments)
    wanted = [part.strip() for part in (options.pythons or "").split(",") if part.strip()]
    if not set(wanted) <= set(PYTHONS):
        parser.error(f"--pythons: the supported ones are {', '.join(PYTHONS)}")
    found = {python: find(python) for python in wanted or PYTHONS}
    missing = [python for python, interpreter in found.items() if interpreter is None]
    if wanted and missing:
        parser.error(f"--pythons: there is no Python {', '.join(missing)} on the path or in pyenv")
    return [
        Pair(python, interpreter, end)
        for python, interpreter in found.items()
        if interpreter is not None
        for end in ([options.ends] if options.ends else PINS)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Test all pairs and print a table; returns 0 only if every one passed, and there was one."""
    check_lowest()
    names = " and ".join(library.name for library in libraries())
    table = Table("Python", names, "passed", "failed", "seconds", "", title="Versions")
    outcomes = []
    for pair in chosen(arguments):
        console.print(f"Python {pair.python}, {pair.end} versions …")
        outcome = test(pair)
        outcomes.append(outcome)
        if not outcome.ok:
            console.print(outcome.output, markup=False, soft_wrap=True)
        numbers = (str(outcome.passed), str(outcome.failed), f"{outcome.seconds:.0f}")
        mark = "[green]ok[/green]" if outcome.ok else "[red]failed[/red]"
        table.add_row(pair.python, outcome.libraries or pair.end, *numbers, mark)
    console.print(table)
    return 0 if outcomes and all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
