"""Shared fixtures. The environment is set before any library is imported: no test needs the internet."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_home = tempfile.TemporaryDirectory(prefix="guardspan-home-")
Path(_home.name, ".guardrailsrc").write_text(
    "id=tests\nenable_metrics=false\nuse_remote_inferencing=false\n", encoding="utf-8"
)
os.environ["HOME"] = _home.name
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
for _name in [name for name in os.environ if name.startswith(("GUARDSPAN_", "OTEL_"))]:
    del os.environ[_name]

warnings.filterwarnings("ignore", module="guardrails")


@pytest.fixture
def home() -> Path:
    """The folder that stands for the user's home, with Guardrails' own metrics switched off."""
    return Path(_home.name)


@pytest.fixture
def record() -> Iterator[Callable[..., Any]]:
    """Instruments with options of the test's own (a `Recording`); everything is put back afterwards."""
    from recording import Recording

    import guardspan

    yield Recording
    guardspan.uninstrument()


@pytest.fixture
def recording(record: Callable[..., Any]) -> Any:
    """Instrumented with the defaults."""
    return record()


@pytest.fixture
def put_back() -> Iterator[None]:
    """Whatever a test leaves instrumented is put back."""
    import guardspan

    yield
    guardspan.uninstrument()


@pytest.fixture
def fresh_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Faults are logged once in a process; every test is to see its own."""
    from guardspan import safety

    monkeypatch.setattr(safety, "_reported", set())
    caplog.set_level(logging.INFO, logger="guardspan")
