"""Fixtures for the tests of guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from recording import Recording

import guardspan


@pytest.fixture
def record() -> Iterator[Callable[..., Recording]]:
    """Instruments with options of the test's own; everything is put back afterwards."""
    yield Recording
    guardspan.uninstrument()


@pytest.fixture
def recording(record: Callable[..., Recording]) -> Recording:
    """Instrumented with the defaults."""
    return record()
