"""The suite on every Python at hand, with the lowest and the highest supported Guardrails.

    make test-versions
    .venv/bin/python tests/versions.py --pythons 3.10,3.13 --guardrails 0.6.8

Each pair has an environment of its own, `.venv-<python>-<guardrails>`, made by uv and kept for the next time.
The highest version is the one that `requirements/dev.txt` pins, together with all else that it pins. Any
other version gets what its own requirements allow, within `requirements/guardrails-<version>.txt` where
there is such a file.
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
from rich.console import Console
from rich.table import Table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PINNED = ROOT / "requirements" / "dev.txt"
NOT_FOR_TESTS = {"mypy", "ruff", "coverage"}

console = Console(highlight=False)


@dataclass(frozen=True)
class Pair:
    """One interpreter with one version of Guardrails."""

    python: str
    interpreter: Path
    guardrails: str

    @property
    def folder(self) -> Path:
        """The environment's folder."""
        return ROOT / f".venv-{self.python}-{self.guardrails}"

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


class NoEnvironment(Exception):
    """An environment could not be made."""


def project() -> dict[str, Any]:
    """What `pyproject.toml` says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def supported() -> Requirement:
    """The supported range of Guardrails."""
    found = [Requirement(line) for line in project()["project"]["optional-dependencies"]["instruments-any"]]
    return next(requirement for requirement in found if requirement.name == "guardrails-ai")


def lowest(requirement: Requirement) -> str:
    """The lower bound of a range."""
    return next(spec.version for spec in requirement.specifier if spec.operator == ">=")


def pinned() -> str:
    """The version that the development environment has."""
    found = re.search(r"^guardrails-ai==(\S+)", PINNED.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{PINNED.relative_to(ROOT)} pins no guardrails-ai; run `make lock`")
    return found[1]


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


def requirements(guardrails: str) -> list[str]:
    """What the suite needs, with one version of Guardrails."""
    package, groups = project()["project"], project()["dependency-groups"]
    tools = [line for line in groups["dev"] if Requirement(line).name not in NOT_FOR_TESTS]
    extras = package["optional-dependencies"]
    return [
        f"guardrails-ai=={guardrails}",
        *package["dependencies"],
        *extras["files"],
        *extras["report"],
        *tools,
        *groups["validators"],
    ]


def constraints(guardrails: str) -> list[str | Path]:
    """The pins that belong to a version of Guardrails, as options of uv."""
    own = ROOT / "requirements" / f"guardrails-{guardrails}.txt"
    if guardrails == pinned():
        return ["--constraints", PINNED]
    return ["--constraints", own] if own.exists() else []


def uv(*arguments: str | Path) -> None:
    """Run uv; its own words say what went wrong."""
    done = subprocess.run([UV, "--quiet", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoEnvironment(done.stderr.strip())


def make(pair: Pair) -> None:
    """Make the environment of a pair, or bring it up to date."""
    if not pair.executable.exists():
        uv("venv", "--clear", "--python", pair.interpreter, pair.folder)
    install = ["pip", "install", "--python", pair.executable]
    uv(*install, *constraints(pair.guardrails), *requirements(pair.guardrails))
    uv(*install, "--no-deps", "--editable", ROOT)


def suite() -> list[Path]:
    """The tests that need no particular version: guards, and each module of the package."""
    return [ROOT / "tests" / "guards", *sorted((ROOT / "tests").glob("test_*.py"))]


def test(pair: Pair) -> Outcome:
    """Make the environment of a pair and run the suite in it."""
    started = time.monotonic()
    report = pair.folder / "junit.xml"
    try:
        make(pair)
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
    return Outcome(ok, passed, failed, time.monotonic() - started, done.stdout + done.stderr)


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
    parser = argparse.ArgumentParser(description="The suite on several versions of Python and Guardrails.")
    parser.add_argument("--pythons", help="such as 3.10,3.13; every one at hand when left out")
    parser.add_argument("--guardrails", help="such as 0.6.8,0.9.3; the lowest and highest when left out")
    options = parser.parse_args(arguments)
    versions = _split(options.guardrails) or [lowest(supported()), pinned()]
    for version in versions:
        if not supported().specifier.contains(version):
            parser.error(f"--guardrails: {version} is not in the supported range, {supported().specifier}")
    wanted = _split(options.pythons)
    if not set(wanted) <= set(PYTHONS):
        parser.error(f"--pythons: the supported ones are {', '.join(PYTHONS)}")
    found = {python: find(python) for python in wanted or PYTHONS}
    missing = [python for python, interpreter in found.items() if interpreter is None]
    if wanted and missing:
        parser.error(f"--pythons: there is no Python {', '.join(missing)} on the path or in pyenv")
    return [
        Pair(python, interpreter, version)
        for python, interpreter in found.items()
        if interpreter is not None
        for version in versions
    ]


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Test all pairs and print a table; returns 0 only if every one passed, and there was one."""
    table = Table("Python", "Guardrails", "passed", "failed", "seconds", "", title="Versions")
    outcomes = []
    for pair in chosen(arguments):
        console.print(f"Python {pair.python}, Guardrails {pair.guardrails} …")
        outcome = test(pair)
        outcomes.append(outcome)
        if not outcome.ok:
            console.print(outcome.output, markup=False, soft_wrap=True)
        numbers = (str(outcome.passed), str(outcome.failed), f"{outcome.seconds:.0f}")
        mark = "[green]ok[/green]" if outcome.ok else "[red]failed[/red]"
        table.add_row(pair.python, pair.guardrails, *numbers, mark)
    console.print(table)
    return 0 if outcomes and all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
