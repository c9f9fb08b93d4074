"""The engine: texts and structures, redacted."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import itertools
import json
import pathlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence, ValuesView
from typing import Any, NamedTuple

from pydantic import BaseModel, SecretBytes, SecretStr

from guardspan.redaction import checks
from guardspan.redaction.decode import View, views
from guardspan.redaction.keys import KeyNames
from guardspan.redaction.rule import Rule
from guardspan.redaction.rules import RULES
from guardspan.redaction.scan import KEY_RULE, Finding, Scan, automaton, merged, replaced
from guardspan.redaction.values import for_password, plausible

_MAX_DEPTH = 64
# A mark may part what hid a further secret; the last pass finds nothing.
_MAX_PASSES = 4


class RedactionError(Exception):
    """A value could not be redacted; the message holds nothing of it."""


class Redacted(NamedTuple):
    """A text after redaction, and how many substrings were replaced."""

    text: str
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody needs here


class RedactedValue(NamedTuple):
    """A value after redaction, as plain JSON values, and how many of them were replaced or changed."""

    value: Any
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody needs here


class Redactor:
    """Replaces secrets by marks such as ``[redacted:github]``. Safe for threads; made once, kept.

    Args:
        extra_rules: further rules, tried before our own.
        extra_key_names: further names of keys whose values are secret.
    """

    def __init__(self, *, extra_rules: Sequence[Rule] = (), extra_key_names: Iterable[str] = ()) -> None:
        extra_names = frozenset(extra_key_names)
        self._names = KeyNames(extra_names)
        # Made at the first use; found again without a look at the rules, which would cost more than a scan.
        self._compiled = functools.cache(functools.partial(automaton, (*extra_rules, *RULES), extra_names))

    def redact(self, text: str) -> Redacted:
        """The text with every secret replaced by a mark; JSON stays JSON.

        Raises:
            RedactionError: something within failed; the text must not be used then.
        """
        try:
            done, count = text, 0
            for _ in range(_MAX_PASSES):
                data = done.encode("utf-8", "surrogatepass")
                layers = views(data)
                findings = self._findings(layers)
                if findings:
                    count += len(findings)
                    done = replaced(data, findings).decode("utf-8", "surrogatepass")
                if not findings or len(layers) == 1:
                    break
            return Redacted(done, count) if not count or not _broken(text, done) else self._as_json(text)
        except Exception as error:
            raise RedactionError(f"a text could not be redacted ({type(error).__name__})") from None

    def _as_json(self, text: str) -> Redacted:
        """JSON that marks would break, walked as a structure."""
        value, count = self._walk(json.loads(text), 0, set())
        return Redacted(json.dumps(value, ensure_ascii=False), count)

    def explain(self, text: str) -> list[Finding]:
        """Every secret's place (in UTF-8 bytes) and rule, without the secret."""
        return self._findings(views(text.encode("utf-8", "surrogatepass")))

    def redact_value(self, obj: Any) -> RedactedValue:
        """A structure as plain JSON values, its texts redacted, values under secret names replaced whole.

        Dictionaries, sequences, sets, pydantic models and dataclasses are walked; any other object becomes
        the name of its type.

        Raises:
            RedactionError: something within failed; the value must not be used then.
        """
        try:
            return self._walk(obj, 0, set())
        except RedactionError:
            raise
        except Exception as error:
            raise RedactionError(f"a value could not be redacted ({type(error).__name__})") from None

    # --- texts ---------------------------------------------------------------------------------------

    def _findings(self, layers: list[View]) -> list[Finding]:
        compiled = self._compiled()
        found: list[Finding] = []
        for view in layers:
            found += Scan(compiled, self._names, view).findings()
        return merged(found)

    # --- structures ----------------------------------------------------------------------------------

    def _walk(self, obj: Any, depth: int, above: set[int]) -> RedactedValue:
        if obj is None or isinstance(obj, bool | int | float):
            return self._walk_number(obj)
        if isinstance(obj, str):
            return RedactedValue(*self.redact(str.__str__(obj)))
        if isinstance(obj, SecretStr | SecretBytes):
            return RedactedValue(f"[redacted:{KEY_RULE}]", 1)
        if depth >= _MAX_DEPTH or id(obj) in above:
            return RedactedValue("…", 0)
        above.add(id(obj))
        try:
            return self._walk_container(obj, depth + 1, above)
        finally:
            above.discard(id(obj))

    def _walk_number(self, obj: float | None) -> RedactedValue:
        """A number as it is, unless its digits are a secret, as those of a card are."""
        whole = isinstance(obj, int | float) and not isinstance(obj, bool) and 1e8 < abs(obj) < 1e40
        if not whole or obj is None or obj != int(obj):
            return RedactedValue(obj, 0)
        found = self.redact(str(int(obj)))
        return RedactedValue(*found) if found.count else RedactedValue(obj, 0)

    def _walk_container(self, obj: Any, depth: int, above: set[int]) -> RedactedValue:
        items = _items(obj)
        if items is not None:
            return self._walk_items(_named(items, self._names), depth, above)
        if isinstance(obj, list | tuple | set | frozenset | collections.deque | ValuesView):
            return self._walk_sequence(list(obj), depth, above)
        plain = _plain(obj)
        if plain is not None:
            return self._walk(plain, depth, above)
        kind = type(obj)
        return RedactedValue(f"<{kind.__module__}.{kind.__qualname__}>", 0)

    def _walk_sequence(self, items: list[Any], depth: int, above: set[int]) -> RedactedValue:
        parts = [self._walk(item, depth, above) for item in items]
        for index, (name, text) in enumerate(itertools.pairwise(parts), 1):
            # The header of a client that gives pairs, or an option of a command and its value.
            if isinstance(name.value, str) and (len(items) == 2 or name.value.startswith("-")):
                known = isinstance(text.value, str) and not text.count and self._names.secret(name.value)
                if known and _likely(name.value, text.value):
                    parts[index] = RedactedValue(f"[redacted:{KEY_RULE}]", 1)
        return RedactedValue([part.value for part in parts], sum(part.count for part in parts))

    def _walk_items(self, items: Iterable[tuple[Any, Any]], depth: int, above: set[int]) -> RedactedValue:
        plain: dict[str, Any] = {}
        total = 0
        for key, value in items:
            name, in_name = self.redact(_name_of(key))
            if self._open(name, value):
                done = self._walk(value, depth, above)
            else:
                done = RedactedValue(f"[redacted:{KEY_RULE}]", 1)
            while name in plain:
                name += " (again)"
            plain[name] = done.value
            total += done.count + in_name
        return RedactedValue(plain, total)

    def _open(self, name: str, value: Any) -> bool:
        """Whether the value under a name is walked, and not replaced whole."""
        if value is None or isinstance(value, bool) or value == "":
            return True
        if isinstance(value, str) and name.lower() == "key":
            return not plausible(name, value)
        if not self._names.secret(name):
            return True
        if isinstance(value, str):
            return _TEMPLATE.match(value) is not None or not plausible(name, value)
        return isinstance(value, Mapping) and _is_schema(value)


_TEMPLATE = re.compile(r"\[redacted:|\$\{[^}]*\}$|\{\{[^}]*\}\}$|<[a-z _-]{1,40}>$")
_SCHEMA_WORDS = frozenset(
    "type title description format minLength maxLength pattern anyOf allOf oneOf $ref nullable writeOnly "
    "readOnly deprecated items properties required additionalProperties".split()
)
_TYPES = frozenset(["string", "integer", "number", "boolean", "object", "array", "null"])


def _broken(before: str, after: str) -> bool:
    """Whether a text was JSON and is none any more."""
    return before.lstrip()[:1] in {"{", "[", '"'} and not _is_json(after) and _is_json(before)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


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


def _named(items: Iterable[tuple[Any, Any]], names: KeyNames) -> Iterable[tuple[Any, Any]]:
    """The items; in `{"name": "API_KEY", "value": …}` the value is hidden when the name is secret."""
    plain = list(items)
    by_key = {key.lower(): value for key, value in plain if isinstance(key, str)}
    said = next((by_key[key] for key in ("name", "key", "header", "field") if key in by_key), None)
    if not isinstance(said, str) or not names.secret(said):
        return plain
    return [
        (key, SecretStr("") if _is_value(key) and _hidden(said, value) else value) for key, value in plain
    ]


def _hidden(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return bool(value) and _TEMPLATE.match(value) is None and plausible(name, value)
    return value is not None and not isinstance(value, bool)


def _is_value(key: Any) -> bool:
    return isinstance(key, str) and key.lower() in {"value", "val", "content", "default"}


def _name_of(key: Any) -> str:
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
