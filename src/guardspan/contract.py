"""The contract digest: which promises a guard (or an agent) was checked against.

Plain SHA-256 over canonical JSON (RFC 8785), since it must agree between processes. It covers redacted
text only, so that a secret among a validator's arguments cannot be guessed back from it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

from guardspan.redaction import Redactor

_MAX_SAFE_INTEGER = 2**53 - 1


def digest(contract: Mapping[str, Any], redactor: Redactor) -> str:
    """SHA-256 (64 hex digits) of a contract given as plain values.

    Raises:
        guardspan.redaction.RedactionError: the contract could not be redacted.
    """
    plain = redactor.redact_value(_canonical(contract)).value
    return hashlib.sha256(rfc8785.dumps(plain)).hexdigest()


def _canonical(value: Any) -> Any:
    """``value`` in the terms that RFC 8785 can write: sets sorted, objects as the name of their type."""
    if value is None or isinstance(value, bool | str):
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
    if isinstance(value, int):
        return value if abs(value) <= _MAX_SAFE_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_canonical(str(key)): _canonical(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_canonical(item) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return _name(value)


def _name(value: object) -> str:
    """A function's or type's own name, else the name of the value's type; never an address."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"
