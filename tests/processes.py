"""Programs run in processes of their own, with the tests' environment and nothing of the tester's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).parent


def run(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    status: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; fails with its output when it does not end with the status."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def run_python(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that can import the tests' own modules."""
    command = [sys.executable, "-W", "ignore", "-c", program]
    return run(command, folder, environment={"PYTHONPATH": str(TESTS), **environment})
