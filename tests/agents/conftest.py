"""Fixtures for the tests of agents."""

from __future__ import annotations

from typing import Any

import pytest

from guardspan.pydantic_ai.capability import GuardspanCapability


@pytest.fixture
def capabilities(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The capabilities of ours that were made."""
    made: list[Any] = []
    original = GuardspanCapability.__init__

    def init(self: Any, *args: Any) -> None:
        made.append(type(self))
        original(self, *args)

    monkeypatch.setattr(GuardspanCapability, "__init__", init)
    return made
