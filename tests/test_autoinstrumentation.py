"""`opentelemetry-instrument`: a program without guards pays nothing, one with guards is followed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from processes import run

INSTRUMENT = Path(sys.executable).with_name("opentelemetry-instrument")
SIGNALS = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def instrumented(program: str, folder: Path, status: int = 0, **environment: str) -> CompletedProcess[str]:
    """Run a program as a user would, its spans into files in `spans` of the folder."""
    (folder / "app.py").write_text(program, encoding="utf-8")
    exporter = {"OTEL_TRACES_EXPORTER": "guardspan_file", "GUARDSPAN_DIR": str(folder / "spans")}
    return run(
        [INSTRUMENT, sys.executable, "-W", "ignore", "app.py"],
        folder,
        environment={**SIGNALS, **exporter, **environment},
        status=status,
    )


def names(folder: Path) -> list[str]:
    """Names of the spans in the files of a folder, in the order in which they were written."""
    lines = [line for file in sorted(folder.glob("spans/*.jsonl")) for line in file.open(encoding="utf-8")]
    return [
        span["name"]
        for line in lines
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


HEAVY = "import sys; print(sorted({'guardrails', 'pydantic_ai', 'litellm', 'pydantic'} & set(sys.modules)))"


def test_a_program_without_guards_imports_nothing_heavy(tmp_path: Path) -> None:
    """Every process under `opentelemetry-instrument` pays for what is imported; here that is nothing."""
    done = instrumented(HEAVY, tmp_path, OTEL_TRACES_EXPORTER="none")
    assert (done.stdout, done.stderr) == ("[]\n", "")


USE = """
outcome = Guard(name="g").validate("fine")
print(outcome.validated_output)
"""
STYLES = {
    "a package's name": f"from guardrails import Guard\n{USE}\nraise SystemExit(3)",
    "a module's name, in a function": f"""
def main():
    from guardrails.guard import Guard
    {USE.replace(chr(10), chr(10) + "    ")}

main()
raise SystemExit(3)
""",
    "the package, in a thread": f"""
import sys, threading

def work():
    import guardrails
    Guard = guardrails.Guard
    {USE.replace(chr(10), chr(10) + "    ")}

thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.exit(3)
""",
    "importlib": f"""
import importlib
Guard = importlib.import_module("guardrails.async_guard").Guard
{USE}
exit(3)
""",
}


@pytest.mark.parametrize("style", STYLES)
def test_a_program_that_uses_guards_is_followed_whatever_its_import_style(tmp_path: Path, style: str) -> None:
    """Its output and exit code are its own, and the spans of its one call are there after it is gone."""
    done = instrumented(STYLES[style], tmp_path, status=3)
    assert done.stdout == "fine\n"
    assert names(tmp_path) == ["iteration", "guard g"]


def test_a_faulty_environment_ends_no_program(tmp_path: Path) -> None:
    """Mistakes in our variables are told by name, without the values, and the call is still followed."""
    secret = "sk-not-for-the-log"
    faulty = {
        "GUARDSPAN_CONTENT": secret,
        "GUARDSPAN_CONTENT_LIMIT": secret,
        "GUARDSPAN_PRICES": str(tmp_path / "missing.json"),
    }
    done = instrumented(STYLES["a package's name"], tmp_path, status=3, **faulty)
    assert done.stdout == "fine\n"
    assert names(tmp_path) == ["iteration", "guard g"]
    assert secret not in done.stderr
    assert all(name in done.stderr for name in faulty)
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_ends_no_program(tmp_path: Path) -> None:
    """No place for the spans is the spans' misfortune alone."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    done = instrumented("print('fine')", tmp_path, GUARDSPAN_DIR=str(tmp_path / "file" / "spans"))
    assert done.stdout == "fine\n"


def test_an_unsupported_version_is_left_alone(tmp_path: Path) -> None:
    """One line says so, and the program runs as it would without."""
    metadata = tmp_path / "guardrails_ai-0.5.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: guardrails-ai\nVersion: 0.5.0\n", encoding="utf-8")
    done = instrumented(STYLES["importlib"], tmp_path, status=3, PYTHONPATH=str(tmp_path))
    assert done.stdout == "fine\n"
    assert names(tmp_path) == ["call", "step", "guard"]  # Guardrails' own, which it exports when left alone
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    assert "guardrails-ai" in line
    assert "0.5.0" in line
