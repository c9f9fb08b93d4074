"""`guardspan redact`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SECRET = "ghp_" + "a1B2c3D4e5" * 4


def redact(*options: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "guardspan.cli", "redact", *options],
        input=data,
        capture_output=True,
        check=False,
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
