"""Texts that must not be found, each nested in what hypothesis chose, and remembered for the search.

A *word* is a text that looks like nothing: no content mode but `redacted` may show any part of it. A
*secret* is what the redactor promises to know. Neither is made of the characters of digests and ids.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import random
import re
import sys
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pydantic

LETTERS = "ghjkmnpqrstvwxzGHJKLMNPQRSTVWXZ"
LOOKS = LETTERS + "23456789"
PART = 6
"""So many characters of a sentinel in a row are as good as the whole."""
DIGITS = 10
"""Of a number: fewer come about by chance in times and ids."""
_MANY_DIGITS = re.compile(r"\d{4}")


class Sentinel(NamedTuple):
    """A text, the part of it that must not be found, and how many characters of that in a row count."""

    text: str
    core: str
    part: int = PART


Maker = Callable[[random.Random], Sentinel]


def some(source: random.Random, length: int) -> str:
    """Characters that look like a key: letters of both cases and digits, among the first 12 already."""
    while True:
        text = "".join(source.choices(LOOKS, k=length))
        mixed = all(any(map(test, text[1:12])) for test in (str.isdigit, str.isupper, str.islower))
        if mixed and not _MANY_DIGITS.search(text):  # times and ids are full of those
            return text


def word(source: random.Random) -> Sentinel:
    """A text that nothing gives away."""
    body = some(source, 24)
    return Sentinel(body, body)


def _prefixed(prefix: str, length: int) -> Maker:
    def make(source: random.Random) -> Sentinel:
        body = some(source, length)
        return Sentinel(prefix + body, body)

    return make


def _capitals(source: random.Random) -> Sentinel:
    body = "".join(source.choices("GHJKLMNPQRSTVWXZ234567", k=14)) + source.choice("23") + "K"
    return Sentinel(f"AKIA{body}", body)


def _jwt(source: random.Random) -> Sentinel:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    claims = json.dumps({"sub": some(source, 12), "name": some(source, 12)}).encode()
    body = base64.urlsafe_b64encode(claims).decode().rstrip("=")
    signature = some(source, 43)
    return Sentinel(f"{head}.{body}.{signature}", signature)


def _pem(source: random.Random) -> Sentinel:
    lines = [some(source, 64) for _ in range(4)]
    whole = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    return Sentinel(whole, "".join(lines))


def _url(source: random.Random) -> Sentinel:
    password = some(source, 20)
    return Sentinel(f"postgres://service:{password}@db.example.com/orders", password)


def _bearer(source: random.Random) -> Sentinel:
    token = some(source, 40)
    return Sentinel(f"Authorization: Bearer {token}", token)


def _basic(source: random.Random) -> Sentinel:
    password = some(source, 22)
    encoded = base64.b64encode(f"service:{password}".encode()).decode()
    return Sentinel(f"Authorization: Basic {encoded}", password)


def _email(source: random.Random) -> Sentinel:
    name = some(source, 14)
    return Sentinel(f"{name}@customers.example.com", name)


def _card(source: random.Random) -> Sentinel:
    number = "4" + "".join(source.choices("0123456789", k=14))
    total = sum(int(d) if i % 2 else sum(divmod(2 * int(d), 10)) for i, d in enumerate(number))
    number += str(-total % 10)
    return Sentinel(number, number, DIGITS)


SECRETS: dict[str, Maker] = {
    "openai": _prefixed("sk-proj-", 48),
    "anthropic": _prefixed("sk-ant-api03-", 80),
    "github": _prefixed("ghp_", 36),
    "aws": _capitals,
    "google": _prefixed("AIza", 35),
    "jwt": _jwt,
    "pem": _pem,
    "url": _url,
    "bearer": _bearer,
    "basic": _basic,
    "email": _email,
    "card": _card,
}
KEY_NAMES = ["password", "api_key", "clientSecret", "X-Api-Key", "db_password", "passphrase", "access_token"]
"""Names of keys whose values are secret, whatever they look like."""


# --- nesting ---------------------------------------------------------------------------------------


class Holder(pydantic.BaseModel):
    """A model of the application's own."""

    held: Any = None


@dataclasses.dataclass
class Record:
    """A dataclass of the application's own."""

    held: Any = None


class Opaque:
    """An object whose `repr` tells all."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __repr__(self) -> str:
        return f"Opaque(held={self.held!r})"


class Pair(NamedTuple):
    """A named tuple of the application's own."""

    held: Any
    other: int = 7


class Trouble(Exception):
    """An exception with more to it than a message."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.body = self.message = args[-1] if args else None


def _set(value: Any) -> Any:
    try:
        return {value}
    except TypeError:
        return (value,)


def _key(value: Any) -> Any:
    return {as_text(value): 1}


def _escaped(value: Any) -> str:
    return json.dumps(as_text(value), ensure_ascii=True).replace("k", "\\u006b").replace("g", "\\u0067")


def _noted(value: Any) -> BaseException:
    error = Trouble("it broke")
    error.__notes__ = [as_text(value)]  # what `add_note` makes, from Python 3.11 on
    return error


def _caused(value: Any) -> BaseException:
    error = Trouble("it broke", as_text(value))
    error.__cause__ = ValueError(value)
    return error


def _group(value: Any) -> BaseException:
    if sys.version_info < (3, 11):
        return _caused(value)
    return ExceptionGroup(as_text(value), [_noted(value), KeyError(value)])  # noqa: F821 - from 3.11 on


def _soft(value: Any) -> str:
    """Characters that nobody sees, in the middle of the text."""
    text = as_text(value)
    middle = len(text) // 2
    return f"{text[:middle]}\u00ad{text[middle:]}"


STRUCTURES: dict[str, Callable[[Any], Any]] = {
    "dict": lambda value: {"held": value, "count": 3},
    "list": lambda value: [1, value],
    "tuple": lambda value: (value, None),
    "set": _set,
    "deque": lambda value: deque([value]),
    "pair": Pair,
    "model": lambda value: Holder(held=value),
    "dataclass": Record,
    "opaque": Opaque,
    "enum": lambda value: enum.Enum("Choice", {"ONE": as_text(value)}).ONE,
    "text enum": lambda value: enum.Enum("Choice", {"ONE": as_text(value)}, type=str).ONE,
    "bytes": lambda value: as_text(value).encode("utf-8", "replace"),
    "hidden": lambda value: pydantic.SecretStr(as_text(value)),
    "key": _key,
    "noted": _noted,
    "caused": _caused,
    "group": _group,
}
TEXTS: dict[str, Callable[[Any], str]] = {
    "json": lambda value: json.dumps({"held": value}, default=as_text),
    "json string": lambda value: json.dumps(as_text(value)),
    "escaped": _escaped,
    "percent": lambda value: "x=" + urllib.parse.quote(as_text(value)),
    "prose": lambda value: f"it said {as_text(value)} and left",
    "lines": lambda value: f"first\n{as_text(value)}\nlast",
}
UNDONE_ONLY_IN_SHAPE: dict[str, Callable[[Any], str]] = {
    "base64": lambda value: base64.b64encode(as_text(value).encode("utf-8", "replace")).decode(),
    "hex": lambda value: as_text(value).encode("utf-8", "replace").hex(),
    "backwards": lambda value: as_text(value)[::-1],
    "soft hyphen": _soft,
}
"""Encodings that redaction does not promise to undo: a secret in them is told by nothing."""


def as_text(value: Any) -> str:
    """What becomes of a value where only a text can be."""
    if isinstance(value, BaseException):
        notes = "\n".join(getattr(value, "__notes__", ()))
        return f"{value!r}: {value}\n{notes}"
    return str.__str__(value) if isinstance(value, str) else repr(value)


Recipe = tuple[str, ...]
"""Names of wrappings, the innermost first."""


def wrapped(value: Any, recipe: Recipe) -> Any:
    """A value in all that a recipe names."""
    every = {**STRUCTURES, **TEXTS, **UNDONE_ONLY_IN_SHAPE}
    for name in recipe:
        value = every[name](value)
    return value


class Plant:
    """Plants a sentinel in each place that it is asked for, nested by the recipes in turn.

    Args:
        makers: of the sentinels of content: what must not be found.
        recipes: ways to nest them.
        seed: of all that is chosen.
    """

    def __init__(self, makers: list[Maker], recipes: list[Recipe], seed: int) -> None:
        self._random = random.Random(seed)
        self._makers = makers
        self._recipes = recipes or [()]
        self.planted: list[tuple[str, Sentinel]] = []

    def _new(self, place: str, makers: list[Maker]) -> str:
        made = makers[len(self.planted) % len(makers)](self._random)
        self.planted.append((place, made))
        return made.text

    def choice(self, *options: Any) -> Any:
        """One of several."""
        return self._random.choice(options)

    def some(self, options: Iterable[Any], count: int) -> list[Any]:
        """So many of several, each once."""
        return self._random.sample(list(options), count)

    def value(self, place: str) -> Any:
        """A nested value; every other time with a secret under a secret name, which looks like nothing."""
        recipe = self._recipes[len(self.planted) % len(self._recipes)]
        if len(self.planted) % 5 == 4:
            value: Any = {self._random.choice(KEY_NAMES): self.password(place)}
        else:
            value = self._new(place, self._makers)
        return wrapped(value, recipe)

    def text(self, place: str) -> str:
        """A nested value as a text."""
        return as_text(self.value(place))

    def plain(self, place: str) -> str:
        """The sentinel itself."""
        return self._new(place, self._makers)

    def password(self, place: str) -> str:
        """A secret that only the name of its place gives away."""
        made = word(self._random)
        self.planted.append((place, made))
        return made.text

    def name(self, place: str) -> str:
        """A name, which may be shown in every mode, with a secret in it, which may not."""
        return "n " + self._new(place, list(SECRETS.values()))

    def error(self, place: str) -> BaseException:
        """An exception that tells all it can."""
        value = self.value(place)
        error = value if isinstance(value, BaseException) else Trouble(self.text(place), value)
        error.__cause__ = ValueError(self.text(f"{place}, cause"))
        return error

    def pieces(self, text: str) -> list[str]:
        """A text in pieces, parted at random places."""
        cuts = sorted(self._random.choices(range(len(text) + 1), k=self._random.randint(0, 8)))
        return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
