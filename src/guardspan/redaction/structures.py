"""Structures, redacted: walked, and not printed and searched.

So values under secret names go whole, and JSON stays JSON.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import itertools
import pathlib
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, ValuesView
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr

from guardspan.redaction import checks
from guardspan.redaction.findings import KEY_RULE, MARK
from guardspan.redaction.keys import KeyNames
from guardspan.redaction.values import for_password, plausible

_MAX_DEPTH = 64
_MAX_VALUES = 200_000
"""Values in a structure, at most: a list that holds another twice, and so on, is large without bound."""
_LONGEST_NUMBER = 40
_NUMBER = re.compile(r"\+?[A-Z]{0,2} ?[\d(][\d ()/.-]{3,}[A-Za-z]?")
"""What a number of a person looks like: digits, separators, letters at its ends."""

Walked = tuple[Any, int]
"""A plain JSON value, and how many substrings or values in it were replaced."""


class Walk:
    """One walk over a structure.

    Args:
        redact: redacts a text.
        names: which keys are secret.
        mark: makes the mark of a rule for a secret.
        any_number: whether short numbers may be secrets, too, by rules that are not ours.
    """

    def __init__(
        self,
        redact: Callable[[str], tuple[str, int]],
        names: KeyNames,
        mark: Callable[[str, Any], str],
        any_number: bool,
    ) -> None:
        self._redact = redact
        self._names = names
        self._mark = mark
        self._any_number = any_number
        self._above: set[int] = set()
        self._left = _MAX_VALUES

    def value(self, obj: Any, depth: int = 0) -> Walked:
        """The value as plain JSON values, redacted.

        Raises:
            ValueError: it is too large; what is shared within it counts each time.
        """
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {_MAX_VALUES} values")
        if obj is None or isinstance(obj, bool | int | float):
            return self._number(obj)
        if isinstance(obj, str):
            return self._redact(str.__str__(obj))
        if isinstance(obj, SecretStr | SecretBytes):
            return self._hidden(obj)
        if depth >= _MAX_DEPTH or id(obj) in self._above:
            return "…", 0
        self._above.add(id(obj))
        try:
            return self._container(obj, depth + 1)
        finally:
            self._above.discard(id(obj))

    def _hidden(self, secret: Any) -> Walked:
        return self._mark(KEY_RULE, secret), 1

    def _number(self, obj: float | None) -> Walked:
        """A number as it is, unless its digits are a secret, as those of a card are."""
        if obj is None or isinstance(obj, bool) or not self._may_be_secret(obj):
            return obj, 0
        found = self._redact(str(int(obj) if obj == int(obj) else obj))
        return found if found[1] else (obj, 0)

    def _may_be_secret(self, obj: float) -> bool:
        if self._any_number:
            return abs(obj) < 1e40
        return 1e8 < abs(obj) < 1e40 and obj == int(obj)

    def _container(self, obj: Any, depth: int) -> Walked:
        items = _items(obj)
        if items is not None:
            return self._mapping(_named(items, self._names), depth)
        if isinstance(obj, list | tuple | set | frozenset | collections.deque | ValuesView):
            return self._sequence(list(obj), depth)
        plain = _plain(obj)
        if plain is not None:
            return self.value(plain, depth)
        kind = type(obj)
        return f"<{kind.__module__}.{kind.__qualname__}>", 0

    def _sequence(self, items: list[Any], depth: int) -> Walked:
        parts = [self.value(item, depth) for item in items]
        for index, (name, text) in enumerate(itertools.pairwise(parts), 1):
            # The header of a client that gives pairs, or an option of a command and its value.
            if isinstance(name[0], str) and (len(items) == 2 or name[0].startswith("-")):
                known = isinstance(text[0], str) and not text[1] and self._names.secret(name[0])
                if known and (self._names.own(name[0]) or _likely(name[0], text[0])):
                    parts[index] = self._hidden(text[0])
        return [value for value, _ in parts], sum(count for _, count in parts)

    def _mapping(self, items: Iterable[tuple[Any, Any]], depth: int) -> Walked:
        plain: dict[str, Any] = {}
        times: dict[str, int] = {}
        total = 0
        for key, value in items:
            original = name_of(key)
            name, in_name = self._redact(original)
            done, count = (
                self._member(original, value, depth) if self._open(original, value) else self._hidden(value)
            )
            plain[_free(name, plain, times)] = done
            total += count + in_name
        return plain, total

    def _member(self, name: str, value: Any, depth: int) -> Walked:
        """A value under a key; a number, as text or not, may be one of a person's by its key's name alone."""
        done = self.value(value, depth)
        if done[1] or isinstance(value, bool) or not isinstance(value, str | int):
            return done
        text = str(value)
        if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
            return done
        head = f"{name}: "
        labelled, count = self._redact(head + text)
        known = count == 1 and labelled.startswith(head)
        return (labelled[len(head) :], count) if known else done

    def _open(self, name: str, value: Any) -> bool:
        """Whether the value under a name is walked, and not replaced whole."""
        if value is None or isinstance(value, bool) or value == "":
            return True
        if self._names.own(name) and self._names.secret(name):
            return isinstance(value, str) and MARK.fullmatch(value) is not None
        if isinstance(value, str) and name.lower() == "key":
            return not plausible(name, value)
        if not self._names.secret(name):
            return True
        if isinstance(value, str):
            return _TEMPLATE.match(value) is not None or not plausible(name, value)
        return isinstance(value, Mapping) and _is_schema(value)


_TEMPLATE = re.compile(MARK.pattern + r"$|\$\{[^}]*\}$|\{\{[^}]*\}\}$|<[a-z _-]{1,40}>$")
_SCHEMA_WORDS = frozenset(
    "type title description format minLength maxLength pattern anyOf allOf oneOf $ref nullable writeOnly "
    "readOnly deprecated items properties required additionalProperties".split()
)
_TYPES = frozenset(["string", "integer", "number", "boolean", "object", "array", "null"])


def _is_schema(value: Mapping[Any, Any]) -> bool:
    """Whether a value describes a field of this name (JSON Schema), and is none."""
    return value.keys() <= _SCHEMA_WORDS and (
        value.get("type") in _TYPES or "$ref" in value or "anyOf" in value
    )


def _likely(name: str, text: str) -> bool:
    """Whether the second of two strings is the value of the first, and not the next of a list."""
    if not checks.unmarked(text) or not plausible(name, text):
        return False
    return checks.strong(text) or " " in text.strip() or (for_password(name) and checks.mixed(text))


def _free(name: str, taken: dict[str, Any], times: dict[str, int]) -> str:
    """The name, numbered where another key has become the same."""
    free = name
    while free in taken:
        times[name] = times.get(name, 1) + 1
        free = f"{name} ({times[name]})"
    return free


def plain_text(secret: Any) -> str | None:
    """A hidden value as text, for its digest; None for a structure."""
    if isinstance(secret, SecretStr | SecretBytes):
        secret = secret.get_secret_value()
    if isinstance(secret, bool | int | float | str):
        return str(secret)
    plain = _plain(secret)
    return str(plain) if plain is not None else None


def _named(items: Iterable[tuple[Any, Any]], names: KeyNames) -> Iterable[tuple[Any, Any]]:
    """The items; in `{"name": "API_KEY", "value": …}` the value is hidden when the name is secret."""
    plain = list(items)
    by_key = {key.lower(): value for key, value in plain if isinstance(key, str)}
    said = next((by_key[key] for key in ("name", "key", "header", "field") if key in by_key), None)
    if not isinstance(said, str) or not names.secret(said):
        return plain
    return [
        (
            key,
            SecretStr(value if isinstance(value, str) else "")
            if _is_value(key) and _hidden(said, value)
            else value,
        )
        for key, value in plain
    ]


def _hidden(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return bool(value) and _TEMPLATE.match(value) is None and plausible(name, value)
    return value is not None and not isinstance(value, bool)


def _is_value(key: Any) -> bool:
    return isinstance(key, str) and key.lower() in {"value", "val", "content", "default"}


def name_of(key: Any) -> str:
    """A key as text: what it holds where it is one, else the name of its type."""
    if isinstance(key, bytes):
        return key.decode("utf-8", "replace")
    if isinstance(key, enum.Enum):
        return str(key.value)
    return str(key) if isinstance(key, str | int | float) or key is None else type(key).__name__


def _plain(obj: Any) -> Any:
    """A value of a well-known type as text, or what it stands for; None for any other."""
    if isinstance(obj, enum.Enum):
        return obj.value
    if isinstance(obj, bytes | bytearray | memoryview):
        return bytes(obj).decode("utf-8", "replace")
    if isinstance(obj, datetime.date | datetime.time):
        return obj.isoformat()
    if isinstance(obj, decimal.Decimal | uuid.UUID | pathlib.PurePath | datetime.timedelta):
        return str(obj)
    return None


def _items(obj: Any) -> Iterable[tuple[Any, Any]] | None:
    if isinstance(obj, Mapping):
        return obj.items()
    if isinstance(obj, BaseModel):
        return iter(obj)
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return [(field.name, getattr(obj, field.name, None)) for field in dataclasses.fields(obj)]
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return list(zip(obj._fields, obj, strict=False))
    return None
