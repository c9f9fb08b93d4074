"""Fixtures for the tests of guards."""

from __future__ import annotations

import functools
import ssl

import pytest

_one_ssl_context = functools.cache(ssl.create_default_context)


@pytest.fixture(autouse=True)
def _certificates_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `Guard()` makes two HTTP clients, and each client reads all certificates: 40 ms a guard."""
    monkeypatch.setattr(ssl, "create_default_context", _one_ssl_context)
