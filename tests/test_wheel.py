"""The wheel as a user gets it: built, looked into, installed into an empty environment, and at work there."""

from __future__ import annotations

import os
import pwd
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import PathDistribution
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from processes import TESTS, run
from test_autoinstrumentation import SIGNALS, names

pytestmark = pytest.mark.slow

ROOT = TESTS.parent
APPLICATION = """
from guardrails import Guard, Validator, register_validator
from guardrails.validator_base import FailResult, PassResult

@register_validator("app/short", data_type="string")
class Short(Validator):
    def _validate(self, value, metadata):
        return PassResult() if len(value) < 5 else FailResult(error_message="too long", fix_value=value[:4])

print(Guard(name="summary").use(Short(on_fail="fix")).validate("too long a text").validated_output)
"""


def uv(*arguments: str | Path) -> CompletedProcess[str]:
    """Run uv with the tester's own cache, so that nothing is downloaded twice."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    return run(
        [Path(sys.executable).with_name("uv"), "--quiet", *arguments], ROOT, environment={"HOME": home}
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--out-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


class Empty:
    """An environment that holds the wheel, what it needs, and what is added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        uv("venv", "--python", sys.executable, folder / "venv")

    def install(self, *requirements: str) -> None:
        """Install in the versions that the development environment has."""
        uv(
            *("pip", "install", "--python", self.bin / "python"),
            *("--constraints", ROOT / "requirements" / "dev.txt", *requirements),
        )

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> CompletedProcess[str]:
        """Run a program of the environment, found on the path as in an activated one."""
        path = {"PATH": f"{self.bin}:{os.environ['PATH']}", "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
        return run(
            [self.bin / command[0], *command[1:]],
            self.folder,
            environment={**SIGNALS, **path, **(environment or {})},
        )


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every file of the package, types and licence among them, and no test, example or cache."""
    source = ROOT / "src"
    expected = {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    inside = set(zipfile.ZipFile(wheel).namelist())
    metadata = {name for name in inside if ".dist-info/" in name}
    assert inside - metadata == expected
    assert "guardspan/py.typed" in inside
    assert [name for name in metadata if name.endswith("/licenses/LICENSE")]


def test_the_wheels_metadata_names_the_entry_points(wheel: Path) -> None:
    """What OpenTelemetry looks for is there, and what pip shows is right."""
    (folder,) = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in name}
    found = PathDistribution(zipfile.Path(wheel, f"{folder}/"))
    assert {(entry.group, entry.name): entry.value for entry in found.entry_points} == {
        ("console_scripts", "guardspan"): "guardspan.cli:main",
        ("opentelemetry_instrumentor", "guardrails_ai"): "guardspan.guardrails:GuardrailsInstrumentor",
        ("opentelemetry_instrumentor", "pydantic_ai"): "guardspan.pydantic_ai:PydanticAIInstrumentor",
        ("opentelemetry_traces_exporter", "guardspan_file"): "guardspan.files:GuardspanFileExporter",
    }
    assert found.metadata["Name"] == "guardspan"
    assert found.metadata["License-Expression"] == "Apache-2.0"
    assert set(found.metadata["Requires-Python"].split(",")) == {">=3.10", "<3.14"}
    assert {"files", "report", "all", "instruments-any"} <= set(found.metadata.get_all("Provides-Extra"))


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """`opentelemetry-instrument` and the wheel are enough: silent without Guardrails, spans with it."""
    environment = Empty(tmp_path)
    environment.install(f"guardspan[files] @ {wheel.as_uri()}")
    silent = environment.run("opentelemetry-instrument", "python", "-c", "pass")
    assert (silent.stdout, silent.stderr) == ("", "")
    assert "guardrails-ai" in environment.run("guardspan", "doctor").stdout

    environment.install("guardrails-ai")
    (tmp_path / "app.py").write_text(APPLICATION, encoding="utf-8")
    exporter = {"OTEL_TRACES_EXPORTER": "guardspan_file", "GUARDSPAN_DIR": str(tmp_path / "spans")}
    done = environment.run("opentelemetry-instrument", "python", "app.py", environment=exporter)
    assert done.stdout == "too \n"
    assert names(tmp_path) == ["validate Short", "iteration", "guard summary"]

    console = {"OTEL_TRACES_EXPORTER": "console"}
    printed = environment.run("opentelemetry-instrument", "python", "app.py", environment=console).stdout
    assert '"name": "guard summary"' in printed
    assert "too long a text" not in printed
