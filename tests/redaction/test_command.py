"""`guardspan redact`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "ghp_" + "a1B2c3D4e5" * 4


def redact(*options: str, data: bytes, **settings: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "guardspan.cli", "redact", *options],
        input=data,
        capture_output=True,
        check=False,
        env={**os.environ, **settings},
    )


def test_text_goes_through_byte_for_byte() -> None:
    """All but the secret stays as it is: line ends, invalid UTF-8, no newline at the end."""
    done = redact(data=b"a\r\n\xff " + SECRET.encode() + b" z")
    assert (done.returncode, done.stdout) == (0, b"a\r\n\xff [redacted:github] z")


def test_json_lines_in_and_out() -> None:
    """One record a line, with the count when asked for."""
    lines = [{"text": SECRET}, {"text": "clean \ud800"}]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    done = redact("--input", "jsonl", "--json", data=data)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"text": "[redacted:github]", "count": 1},
        {"text": "clean \ud800", "count": 0},
    ]


@pytest.mark.parametrize("line", ["{", "[]", '{"texts": "x"}', '{"text": 1}', "[" * 5000])
def test_a_bad_line_is_named(line: str) -> None:
    """The line before it is written whole, nothing of it, and the exit code is 2."""
    done = redact("--input", "jsonl", data=f'{{"text": "fine"}}\n{line}\n'.encode())
    assert done.returncode == 2
    assert done.stdout == b'{"text": "fine"}\n'
    assert b"standard input, line 2" in done.stderr


def test_explain_tells_the_rule_and_not_the_secret() -> None:
    """Place, rule and reason."""
    done = redact("--explain", data=f"use {SECRET}".encode())
    assert done.stdout.decode() == f"bytes 4 to {4 + len(SECRET)}: github (a key of github)\n"


RULES = r"""
[[rules]]
id = "badge"
pattern = '\bBADGE-\d{6}\b'
matches = ["BADGE-123456"]
"""


@pytest.mark.parametrize("given", ["option", "variable"])
def test_own_rules_apply(tmp_path: Path, given: str) -> None:
    """Those of the option, or those that an application in this environment would have."""
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    options = ["--rules", str(path)] if given == "option" else []
    settings = {} if given == "option" else {"GUARDSPAN_REDACT_RULES": str(path)}
    done = redact(*options, data=b"BADGE-123456", **settings)
    assert (done.returncode, done.stdout) == (0, b"[redacted:badge]")


def test_digests_tell_equal_secrets() -> None:
    """As the settings say, with the key of the application."""
    settings = {"GUARDSPAN_REDACT_DIGESTS": "true", "GUARDSPAN_DIGEST_KEY": "k"}
    one, two = (redact(data=SECRET.encode(), **settings).stdout for _ in range(2))
    assert one == two
    assert one.startswith(b"[redacted:github#")


@pytest.mark.parametrize(
    ("options", "settings", "told"),
    [
        (["--rules", "none.toml"], {}, b"none.toml: cannot be read"),
        ([], {"GUARDSPAN_REDACT_RULES": "none.toml"}, b"none.toml: cannot be read"),
        ([], {"GUARDSPAN_REDACT_DIGESTS": "perhaps"}, b"GUARDSPAN_REDACT_DIGESTS: "),
    ],
)
def test_what_cannot_be_used_ends_the_run(options: list[str], settings: dict[str, str], told: bytes) -> None:
    """Nothing is written: without the rules it would not be redacted."""
    done = redact(*options, data=SECRET.encode(), **settings)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr
    assert SECRET.encode() not in done.stderr


def test_a_message_acts_in_no_terminal(tmp_path: Path) -> None:
    """A name of a file, or a rule's reason, may hold what a terminal obeys."""
    path = tmp_path / "rules.json"
    rule = {"id": "badge", "reason": "red \x1b[31m", "pattern": "BADGE", "matches": ["BADGE"]}
    path.write_text(json.dumps({"rules": [rule]}))
    explained = redact("--rules", str(path), "--explain", data=b"BADGE").stdout
    assert explained == b"bytes 0 to 5: badge (red \\u001b[31m)\n"
    assert b"\x1b" not in redact("--rules", "\x1b[31m", data=b"").stderr


def test_a_closed_standard_input_is_told() -> None:
    """No traceback."""
    command = f"{sys.executable} -m guardspan.cli redact <&-"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"guardspan redact: standard input is closed")
