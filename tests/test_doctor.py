"""`guardspan doctor` and the command around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardspan import cli, doctor, telemetry


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """The tests' own environment has nothing of guardspan or OpenTelemetry in it."""
    monkeypatch.setenv("HOME", str(home))


def run(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and findings by what was looked at."""
    code = cli.main(["doctor", "--json"])
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {finding["what"]: finding for finding in findings}


def test_a_sound_set_up_has_no_problem(capsys: pytest.CaptureFixture[str]) -> None:
    """Versions, content mode, exporter, Guardrails' own tracing and its reports are told; exit code 0."""
    code, found = run(capsys)
    assert code == 0
    assert {"guardspan", "opentelemetry-sdk", "guardrails-ai", "content", "digest key"} <= set(found)
    assert found["content"]["found"] == "shape"
    assert found["digest key"]["level"] == "note"
    assert found["Guardrails' own tracing"]["found"] == "off while instrumented"
    assert found["Guardrails' usage reports"]["level"] == "ok"
    assert all(finding["level"] != "problem" for finding in found.values())


PROBLEMS: dict[str, tuple[dict[str, str], str]] = {
    "a setting that cannot be used": ({"GUARDSPAN_CONTENT": "raw"}, "GUARDSPAN_CONTENT"),
    "a setting that does not exist": ({"GUARDSPAN_CONTNET": "off"}, "GUARDSPAN_CONTNET"),
    "a price table that is missing": ({"GUARDSPAN_PRICES": "missing.json"}, "GUARDSPAN_PRICES"),
    "rules that are missing": ({"GUARDSPAN_REDACT_RULES": "missing.toml"}, "redaction"),
    "a model that is missing": ({"GUARDSPAN_REDACT_PRESIDIO": "no_such_model"}, "redaction"),
    "no exporter": ({"OTEL_TRACES_EXPORTER": "none"}, "traces exporter"),
    "an unknown exporter": ({"OTEL_TRACES_EXPORTER": "guardspan_files"}, "traces exporter"),
    "nothing is sampled": ({"OTEL_TRACES_SAMPLER": "always_off"}, "OTEL_TRACES_SAMPLER"),
    "the SDK switched off": ({"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED"),
    "switched off by name": (
        {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "httpx, guardrails_ai"},
        "guardrails-ai",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_would_not_work_is_told_with_its_mend(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and each problem says what mends it."""
    variables, what = PROBLEMS[case]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, found = run(capsys)
    assert code == 1
    assert found[what]["level"] == "problem"
    assert found[what]["mend"]


def test_a_faulty_value_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value may be a secret that landed in the wrong variable."""
    monkeypatch.setenv("GUARDSPAN_CONTENT_LIMIT", "sentinel-value")
    cli.main(["doctor"])
    told = capsys.readouterr()
    assert "GUARDSPAN_CONTENT_LIMIT" in told.out
    assert "sentinel-value" not in told.out + told.err


def test_an_unsupported_version_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the range that would be patched; a missing library is none."""
    versions = {"guardrails-ai": "0.5.15"}
    real = telemetry.distribution_version
    monkeypatch.setattr(doctor, "distribution_version", lambda name: versions.get(name, real(name)))
    code, found = run(capsys)
    assert code == 1
    assert "0.5.15" in found["guardrails-ai"]["found"]
    assert "guardrails-ai>=" in found["guardrails-ai"]["mend"]
    monkeypatch.setattr(
        doctor, "distribution_version", lambda name: None if name == "guardrails-ai" else real(name)
    )
    code, found = run(capsys)
    assert (code, found["guardrails-ai"]["level"]) == (0, "note")


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file exporter needs a folder."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "guardspan_file")
    monkeypatch.setenv("GUARDSPAN_DIR", str(tmp_path / "file" / "below"))
    code, found = run(capsys)
    assert (code, found["traces exporter"]["level"]) == (1, "problem")
    monkeypatch.setenv("GUARDSPAN_DIR", str(tmp_path / "new"))
    code, found = run(capsys)
    assert (code, found["traces exporter"]["level"]) == (0, "ok")
    assert not (tmp_path / "new").exists()


def test_a_package_that_is_missing_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The case that the doctor is for: the exporter is chosen and its extra is not installed."""

    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}")

    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "guardspan_file")
    monkeypatch.setattr(doctor, "find_spec", missing)
    code, found = run(capsys)
    assert code == 1
    assert found["traces exporter"]["mend"] == 'pip install "guardspan[files]"'
    assert found["guardspan report"]["level"] == "note"


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["report", "--by", "colour"]])
def test_bad_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With a word on what is possible."""
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: guardspan" in capsys.readouterr().err


def test_rules_of_the_users_own_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is read and whose rules do what their examples say is told."""
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"id": "badge", "pattern": "BADGE", "matches": ["BADGE"]}]}')
    monkeypatch.setenv("GUARDSPAN_REDACT_RULES", str(rules))
    code, found = run(capsys)
    assert code == 0
    assert found["redaction"]["found"] == f"our own rules, and {rules}"
