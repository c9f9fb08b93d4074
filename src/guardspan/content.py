"""Inputs and outputs as ``shape`` or ``redacted`` values, within limits.

``shape`` shows what a call looked like without a word of it: roles, keys, types, lengths and a keyed
digest of each text. ``redacted`` is the text after redaction. There is no mode that records raw text.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import hmac
import json
import math
import re
import secrets
import string
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import to_json

from guardspan import semconv
from guardspan.redaction import Finder, Redactor
from guardspan.redaction.checks import changes_case
from guardspan.redaction.configured import Redaction, RedactionSetupError
from guardspan.redaction.structures import name_of
from guardspan.safety import Quietly, tell
from guardspan.settings import ContentMode, Settings

_MARGIN = 4096
"""Characters kept beyond the limit while redacting, so that a secret on the edge is not cut in two."""
_KEY_CHARACTERS = f"{string.ascii_letters}{string.digits}+/=_-.~:@%&?#\\"
"""What keys, tokens and addresses with credentials are written in."""
_ELEMENT = 2
"""Characters that an element of a list takes at least: without it, a list of empty lists would be free."""
_MAX_NAME = 256
_MAX_DEPTH = 12
_MAX_ITEMS = 64
_MAX_EXACT_DIGITS = 6
_MAX_PLAIN_KEYS = 1_000
"""Keys and names whose looks are kept, at most."""
_ROLES = frozenset({"system", "user", "assistant", "developer", "tool", "function"})
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z_-]{0,31}\d?")
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")

_redacting = Quietly("redact a value")
_naming = Quietly("redact a name")
_shaping = Quietly("describe a value")


def clean(text: str) -> str:
    """The text without what an exporter or a back end may choke on: NUL and lone surrogates become U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text) if _UNPRINTABLE.search(text) else text


def cut(text: str, limit: int) -> str:
    """The text, at most ``limit`` characters long, with a mark where it was cut."""
    if len(text) <= limit:
        return text
    mark = f"… [cut, {len(text)} characters]"
    return text[: max(limit - len(mark), 0)] + mark


def digest_key(settings: Settings) -> bytes | None:
    """The key of the digests, where one is set."""
    return settings.digest_key.get_secret_value().encode() if settings.digest_key else None


class Tally:
    """What became of the values of one span: attributes, replaced substrings, dropped values."""

    __slots__ = ("attributes", "failures", "redactions")

    def __init__(self) -> None:
        self.attributes: dict[str, str] = {}
        self.redactions = 0
        self.failures = 0

    def counts(self) -> dict[str, int]:
        """The counters that go onto the span, each only when above 0."""
        named = {semconv.REDACTIONS: self.redactions, semconv.REDACTION_FAILURES: self.failures}
        return {name: count for name, count in named.items() if count}


class Content:
    """Turns values into attributes according to the content mode.

    Args:
        mode: ``shape``, ``redacted`` or ``off``.
        limit: characters per attribute, at most.
        key: key of the digests; a random one when None, so that digests of two processes differ.
        redactor: replaces secrets; a default one when None.
        marking: replaces them in recorded content by marks that tell equal ones; ``redactor`` when None.
            Evidence keeps to plain marks, for its digests must agree between processes.
    """

    def __init__(
        self,
        mode: ContentMode = "shape",
        limit: int = 4096,
        key: bytes | None = None,
        redactor: Redactor | None = None,
        marking: Redactor | None = None,
    ) -> None:
        self.mode: ContentMode = mode
        self._plain_keys: dict[str, bool] = {}
        self._names: dict[str, str] = {}
        self.limit = limit
        self._keyed = hmac.new(key or secrets.token_bytes(32), digestmod=hashlib.sha256)
        self.redactor = redactor or Redactor()
        self._marking = marking or self.redactor

    @classmethod
    def of(cls, settings: Settings, hook: Finder | None = None) -> Content:
        """The content path that the settings describe; ``hook`` finds further secrets.

        Rules, or a model, that cannot be used are logged, and then no content is recorded: what they were to
        find would show.
        """
        try:
            redaction, mode = Redaction.of(settings, hook), settings.content
            redaction.redactor().warm()
        except Exception as error:
            told = error if isinstance(error, RedactionSetupError) else type(error).__qualname__
            tell(f"no content is recorded, for it could not be redacted: {told}")
            redaction, mode = Redaction(), "off"
        content = cls(mode, settings.content_limit, digest_key(settings), redaction.redactor())
        if settings.redact_digests:
            content._marking = redaction.redactor(content.digest)
        content.redactor.warm()
        return content

    def capture(self, tally: Tally, name: str, value: object) -> None:
        """Add ``value`` as attribute ``name`` to the tally; nothing for None or in ``off``.

        A value that cannot be redacted or described is dropped and counted, never recorded as it is.
        """
        if value is None or self.mode == "off":
            return
        recorded = self._redacted(tally, value) if self.mode == "redacted" else self._shape_text(value)
        if recorded is None:
            tally.failures += 1
        else:
            tally.attributes[name] = recorded

    def redact(self, tally: Tally, text: str) -> str | None:
        """``text`` after redaction, whole and cleaned; None, counted as a failure, where that failed."""
        with _redacting:
            done = self.redactor.redact(clean(text))
            tally.redactions += done.count
            return done.text
        tally.failures += 1
        return None

    def name(self, value: object) -> str | None:
        """A name as it is emitted: cleaned, redacted, cut to 256 characters; None for what is none.

        Names come from responses and requests, too, and may be anything. They repeat: what became of one is
        kept.
        """
        if not isinstance(value, str) or not value:
            return None
        known = self._names.get(value) if len(value) <= _MAX_NAME else None
        return known if known is not None else self._new_name(value)

    def _new_name(self, value: str) -> str | None:
        with _naming:
            text = self.redactor.redact(clean(_beginning(value, 4 * _MAX_NAME))).text
            name = cut(text, _MAX_NAME)
            if len(self._names) >= _MAX_PLAIN_KEYS:
                self._names = {}  # ids, of which each is another
            if len(value) <= _MAX_NAME:
                self._names[value] = name
            return name
        return None

    def digest(self, text: str) -> str:
        """Keyed digest of a text: 16 hex digits of HMAC-SHA-256."""
        keyed = self._keyed.copy()
        keyed.update(text.encode("utf-8", "replace"))
        return keyed.hexdigest()[:16]

    def _redacted(self, tally: Tally, value: object) -> str | None:
        with _redacting:
            budget = _Budget(self.limit + _MARGIN)
            plain = _plain(value, budget, _MAX_DEPTH)
            if isinstance(plain, str):
                text, count = self._marking.redact(plain)
            else:
                redacted, count = self._marking.redact_value(plain)
                text = clean(json.dumps(redacted, ensure_ascii=False, separators=(",", ":")))
            tally.redactions += count
            return cut(text, self.limit)
        return None

    def _shape_text(self, value: object) -> str | None:
        with _shaping:
            budget = _Budget(self.limit)
            shape = self._shape(value, budget, _MAX_DEPTH)
            return cut(to_json(shape).decode(), self.limit)
        return None

    def _shape(self, value: object, budget: _Budget, depth: int) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._shape_of_text(value, budget)
        if isinstance(value, int | float):
            return _shape_of_number(value)
        if depth <= 0 or budget.spent:
            return "…"
        items = _items(value)
        if items is not None:
            return self._shape_of_mapping(items, budget, depth - 1)
        if isinstance(value, list | tuple | set | frozenset):
            return self._shape_of_sequence(value, budget, depth - 1)
        return self._shape_of_type(value)

    def _shape_of_type(self, value: object) -> dict[str, object]:
        return {"type": self.name(_type_name(value))}

    def _shape_of_text(self, text: str, budget: _Budget) -> dict[str, object]:
        budget.take(48)
        return {"chars": len(text), "hmac": self.digest(text)}

    def _shape_of_mapping(
        self, items: Iterable[tuple[object, object]], budget: _Budget, depth: int
    ) -> dict[str, object]:
        shape: dict[str, object] = {}
        for count, (key, value) in enumerate(items):
            if budget.spent or count >= _MAX_ITEMS:
                shape["…"] = "more"
                break
            name = self._shape_of_key(key)
            budget.take(len(name) + 4)
            shape[name] = self._shape_of_member(key, value, budget, depth)
        return shape

    def _shape_of_member(self, key: object, value: object, budget: _Budget, depth: int) -> object:
        """The shape of a value under a key; under a secret name, numbers are secrets as texts are."""
        if isinstance(value, str):
            return value if key == "role" and value in _ROLES else self._shape_of_text(value, budget)
        name = _key_text(key)
        if value is None or isinstance(value, bool) or name is None:
            return self._shape(value, budget, depth)
        if self.redactor.secret_name(name[:_MAX_NAME]):
            return self._shape_of_type(value)
        return self._shape(value, budget, depth)

    def _shape_of_key(self, key: object) -> str:
        text = _key_text(key) or type(key).__name__
        return text if self._is_plain(text) else f"key:{self.digest(text)}"

    def _is_plain(self, key: str) -> bool:
        """Whether a key is a plain name, and nothing that redaction knows for a secret."""
        plain = self._plain_keys.get(key)
        if plain is None:
            named = _PLAIN_KEY.fullmatch(key) and not changes_case(key)
            plain = bool(named) and not self.redactor.redact(key).count
            if len(self._plain_keys) < _MAX_PLAIN_KEYS:
                self._plain_keys[key] = plain
        return plain

    def _shape_of_sequence(self, values: Iterable[object], budget: _Budget, depth: int) -> list[object]:
        return _each(values, budget, lambda value: self._shape(value, budget, depth))


class _Budget:
    """How many characters may still be written; keeps the work linear in the limit, not in the input."""

    __slots__ = ("left",)

    def __init__(self, characters: int) -> None:
        self.left = characters

    @property
    def spent(self) -> bool:
        return self.left <= 0

    def take(self, characters: int) -> None:
        self.left -= characters


def _shape_of_number(value: float) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, float) and abs(value) < 10**_MAX_EXACT_DIGITS:
        return float(f"{value:.{_MAX_EXACT_DIGITS}g}")
    if abs(value) < 10**_MAX_EXACT_DIGITS:
        return value
    return {"digits": len(str(abs(int(value)))) if abs(value) < 10**100 else 100}


def _plain(value: object, budget: _Budget, depth: int) -> Any:
    """``value`` as plain JSON values, cut to the budget; an object becomes its type's name."""
    if isinstance(value, str):
        text = clean(_beginning(value, max(budget.left, 0)))
        budget.take(len(text))
        return text
    if value is None or isinstance(value, bool | int):
        budget.take(4)
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth <= 0 or budget.spent:
        return "…"
    items = _items(value)
    if items is not None:
        return _plain_mapping(items, budget, depth - 1)
    if isinstance(value, list | tuple | set | frozenset):
        return _plain_sequence(value, budget, depth - 1)
    return f"<{_type_name(value)}>"


def _beginning(text: str, length: int) -> str:
    """The text, or its beginning and a mark; half of a key, which no rule would know for one, goes too."""
    return text if len(text) <= length else text[:length].rstrip(_KEY_CHARACTERS) + "…"


def _key_text(key: object) -> str | None:
    """A key as text, None for what is none."""
    return name_of(key) if isinstance(key, str | bytes | enum.Enum) else None


def _plain_mapping(items: Iterable[tuple[object, object]], budget: _Budget, depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in items:
        if budget.spent:
            plain["…"] = "more"
            break
        text = _key_text(key)
        name = f"<{_type_name(key)}>" if text is None else clean(_beginning(text, max(budget.left, 0)))
        budget.take(len(name) + 4)
        plain[name] = _plain(value, budget, depth)
    return plain


def _plain_sequence(values: Iterable[object], budget: _Budget, depth: int) -> list[Any]:
    return _each(values, budget, lambda value: _plain(value, budget, depth))


def _each(values: Iterable[object], budget: _Budget, describe: Callable[[object], Any]) -> list[Any]:
    """Each element described, until the budget is spent."""
    described: list[Any] = []
    for value in values:
        if budget.spent:
            described.append("… more")
            break
        budget.take(_ELEMENT)
        described.append(describe(value))
    return described


def _items(value: object) -> Iterable[tuple[object, object]] | None:
    """The key-value pairs of a structure, or None where it is none.

    Only types whose reading has no side effects: a mapping of the user's own may load or count.
    """
    if isinstance(value, SecretStr | SecretBytes):
        return None
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, BaseModel):
        return iter(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    return None


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
