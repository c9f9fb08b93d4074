"""The engine: one pass of one combined automaton over each view of a text, checks on its matches only.

google-re2 is linear by construction for one match. What follows a match is bounded here as well, so that
the whole is linear in the text, whatever the text.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import re2
from pydantic import BaseModel, SecretBytes, SecretStr

from guardspan.redaction.checks import CHECKS
from guardspan.redaction.decode import View, views
from guardspan.redaction.keys import KeyNames
from guardspan.redaction.rules import RULES, Rule
from guardspan.redaction.values import LONGEST, name_before, value_after

KEY_RULE = "key"
_MEMORY = 256 << 20
_MAX_DEPTH = 64
_LOCAL_PART = re.compile(rb"[A-Za-z0-9._%+'\x80-\xff-]{1,64}\Z")
_PEM_END = b"-----END"
_SECRET_ENTRY = re.compile(
    rb"(?m)^([ \t]{1,12})([\w.-]{1,80}):[ \t]{1,4}([A-Za-z0-9+/]{8,4096}={0,2})[ \t\r]*$"
)
_KUBERNETES_KIND = r"kind[\"']?:\s{0,3}[\"']?Secret\b"


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


class Finding(NamedTuple):
    """One secret: its place in the UTF-8 bytes of the text, its rule, the quote that a mark must bring."""

    start: int
    end: int
    rule: str
    reason: str
    quote: bytes


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


def _ascii(pattern: str) -> str:
    """A pattern in which characters beyond ASCII stand as the bytes of their UTF-8 form."""
    return "".join(
        c if c.isascii() else "(?:" + "".join(f"\\x{byte:02x}" for byte in c.encode()) + ")" for c in pattern
    )


class _Automaton:
    """The rules compiled: all together to find where, as a set to find which, one by one to find what."""

    def __init__(self, rules: Sequence[Rule], names: KeyNames) -> None:
        self.rules = rules
        stems = "|".join(_ascii(stem) for stem in names.stems())
        self.key = (
            rf"(?i:{stems})[A-Za-z0-9_.-]{{0,24}}[\"'`\]]{{0,3}}\s{{0,3}}(?:=>|:=|=|:|\xef\xbc[\x9a\x9d])"
        )
        patterns = [*(rule.pattern.replace("?P<secret>", "?:") for rule in rules), self.key, _KUBERNETES_KIND]
        options = _options()
        self.anywhere = re2.compile("|".join(f"(?:{p})" for p in patterns).encode("ascii"), options)
        self.which = re2.Set.FullMatchSet(options)
        for pattern in patterns:
            self.which.Add(pattern)
        self.which.Compile()
        self.single = [re2.compile(rule.pattern.encode("ascii"), options) for rule in rules]
        self.tails = [re.compile(f"[{rule.tail}]*".encode()) if rule.tail else None for rule in rules]


@functools.lru_cache(maxsize=8)
def _automaton(rules: tuple[Rule, ...], names: frozenset[str]) -> _Automaton:
    return _Automaton(rules, KeyNames(names))


class Redactor:
    """Replaces secrets by marks such as ``[redacted:github]``. Safe for threads; made once, kept.

    Args:
        extra_rules: further rules, tried before our own.
        extra_key_names: further names of keys whose values are secret.
    """

    def __init__(self, *, extra_rules: Sequence[Rule] = (), extra_key_names: Iterable[str] = ()) -> None:
        extra_names = frozenset(extra_key_names)
        self._names = KeyNames(extra_names)
        self._compiled = functools.partial(_automaton, (*extra_rules, *RULES), extra_names)

    def redact(self, text: str) -> Redacted:
        """The text with every secret replaced by a mark; JSON stays JSON.

        Raises:
            RedactionError: something within failed; the text must not be used then.
        """
        try:
            data = text.encode("utf-8", "surrogatepass")
            findings = self._findings(data)
            if not findings:
                return Redacted(text, 0)
            return Redacted(_replaced(data, findings).decode("utf-8", "surrogatepass"), len(findings))
        except Exception as error:
            raise RedactionError(f"a text could not be redacted ({type(error).__name__})") from None

    def explain(self, text: str) -> list[Finding]:
        """Every secret's place (in UTF-8 bytes) and rule, without the secret."""
        return self._findings(text.encode("utf-8", "surrogatepass"))

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

    def _findings(self, data: bytes) -> list[Finding]:
        compiled = self._compiled()
        found: list[Finding] = []
        for view in views(data):
            found += _Scan(compiled, self._names, view).findings()
        return _merged(found)

    # --- structures ----------------------------------------------------------------------------------

    def _walk(self, obj: Any, depth: int, above: set[int]) -> RedactedValue:
        if obj is None or isinstance(obj, bool | int | float):
            return RedactedValue(obj, 0)
        if isinstance(obj, str):
            return RedactedValue(*self.redact(obj))
        if isinstance(obj, SecretStr | SecretBytes):
            return RedactedValue(f"[redacted:{KEY_RULE}]", 1)
        if depth >= _MAX_DEPTH or id(obj) in above:
            return RedactedValue("…", 0)
        above.add(id(obj))
        try:
            return self._walk_container(obj, depth + 1, above)
        finally:
            above.discard(id(obj))

    def _walk_container(self, obj: Any, depth: int, above: set[int]) -> RedactedValue:
        items = _items(obj)
        if items is not None:
            return self._walk_items(items, depth, above)
        if isinstance(obj, list | tuple | set | frozenset):
            parts = [self._walk(item, depth, above) for item in obj]
            return RedactedValue([part.value for part in parts], sum(part.count for part in parts))
        if isinstance(obj, datetime.date | datetime.time):
            return RedactedValue(obj.isoformat(), 0)
        kind = type(obj)
        return RedactedValue(f"<{kind.__module__}.{kind.__qualname__}>", 0)

    def _walk_items(self, items: Iterable[tuple[Any, Any]], depth: int, above: set[int]) -> RedactedValue:
        plain: dict[str, Any] = {}
        total = 0
        for key, value in items:
            name, in_name = self.redact(
                str(key) if isinstance(key, str | int | float) else type(key).__name__
            )
            if value is None or isinstance(value, bool) or value == "" or not self._names.secret(name):
                done = self._walk(value, depth, above)
            elif isinstance(value, str) and value.startswith("[redacted:"):
                done = RedactedValue(value, 0)
            else:
                done = RedactedValue(f"[redacted:{KEY_RULE}]", 1)
            plain[name] = done.value
            total += done.count + in_name
        return RedactedValue(plain, total)


def _items(obj: Any) -> Iterable[tuple[Any, Any]] | None:
    if isinstance(obj, Mapping):
        return obj.items()
    if isinstance(obj, BaseModel):
        return iter(obj)
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return [(field.name, getattr(obj, field.name, None)) for field in dataclasses.fields(obj)]
    return None


class _Scan:
    """One pass over one view."""

    def __init__(self, compiled: _Automaton, names: KeyNames, view: View) -> None:
        self._compiled = compiled
        self._names = names
        self._view = view
        self._data = view.data

    def findings(self) -> list[Finding]:
        """Every secret of this view, placed in the original text."""
        found: list[Finding] = []
        position, data, search = 0, self._data, self._compiled.anywhere.search
        while (match := search(data, position)) is not None:
            start, end = match.span()
            finding, position = self._judge(start, end, position)
            if isinstance(finding, list):
                found += finding
            elif finding is not None:
                found.append(finding)
            position = max(position, start + 1)
        return found

    def _judge(self, start: int, end: int, floor: int) -> tuple[Finding | list[Finding] | None, int]:
        """What a match is, and where to go on; nothing before ``floor`` is looked at again."""
        rules = self._compiled.rules
        for index in sorted(self._compiled.which.Match(self._data[start:end])):
            if index == len(rules):
                return self._key(start, end)
            if index > len(rules):
                return self._kubernetes(end), end
            span = self._span(index, start, end, floor)
            if span is not None:
                return self._place(*span, rules[index].id, rules[index].reason), span[1]
        return None, start + 1

    def _span(self, index: int, start: int, end: int, floor: int) -> tuple[int, int] | None:
        """The secret within a rule's match: grown over its tail, then checked."""
        rule, data = self._compiled.rules[index], self._data
        if "?P<secret>" in rule.pattern:
            inner = self._compiled.single[index].match(data, start)
            if inner is None:
                return None
            start, end = inner.span(1)
        tail = self._compiled.tails[index]
        if tail is not None:
            grown = tail.match(data, end, min(len(data), end + LONGEST))
            end = grown.end() if grown else end
        if rule.id == "email":
            before = _LOCAL_PART.search(data, max(floor, start - 64), start)
            start = before.start() if before else start
            end = start + len(data[start:end].rstrip(b".-"))
        if rule.id == "pem":
            end = self._end_of_pem(end)
        if rule.check and not CHECKS[rule.check](data[start:end].decode("utf-8", "replace")):
            return None
        return start, end

    def _end_of_pem(self, start: int) -> int:
        """A key's block ends at its own mark; one that was cut ends with the text, or at the bound."""
        limit = min(len(self._data), start + 4 * LONGEST)
        end = self._data.find(_PEM_END, start, limit)
        if end < 0:
            return limit
        close = self._data.find(b"-----", end + len(_PEM_END), end + 80)
        return close + 5 if close >= 0 else end

    def _key(self, start: int, end: int) -> tuple[Finding | None, int]:
        data = self._data
        name = name_before(data, start, end)
        if not self._names.secret(name):
            return None, end
        separator = data[start:end].rstrip(b":=> \t\r\n")
        quoted = separator[-1:] in (b'"', b"'")
        value = value_after(data, end, name, quoted)
        if value is None:
            return None, end
        quote = b""
        if value.bare and quoted and data[end - 1 : end] == b":":
            quote = self._source_of(start + len(separator) - 1)
        return self._place(value.start, value.end, KEY_RULE, f"the value of {KEY_RULE!r}", quote), value.end

    def _kubernetes(self, end: int) -> list[Finding]:
        """The data of a Kubernetes secret, whatever the names of its keys."""
        window_start = max(0, end - 2 * LONGEST)
        window = self._data[window_start : end + LONGEST]
        found = []
        for match in re.finditer(rb"(?m)^[ \t]*(?:stringData|data):[ \t\r]*$", window):
            for entry in _SECRET_ENTRY.finditer(window, match.end()):
                start, stop = entry.span(3)
                found.append(
                    self._place(window_start + start, window_start + stop, KEY_RULE, "a Kubernetes secret")
                )
            break
        return found

    def _source_of(self, position: int) -> bytes:
        """How one character of this view is written in the original text."""
        start, end = self._view.original(position, position + 1)
        base = self._view
        while base.under is not None:
            base = base.under
        return base.data[start:end]

    def _place(self, start: int, end: int, rule: str, reason: str, quote: bytes = b"") -> Finding:
        first, last = self._view.original(start, end)
        return Finding(first, last, rule, reason, quote)


def _merged(found: list[Finding]) -> list[Finding]:
    """Findings in order, none within or across another."""
    merged: list[Finding] = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        if merged and finding.start < merged[-1].end:
            last = merged[-1]
            if (last.rule, finding.rule) == ("url", "email"):
                continue  # the host behind a URL's user and password
            merged[-1] = last._replace(end=max(last.end, finding.end), quote=last.quote or finding.quote)
        elif finding.end > finding.start:
            merged.append(finding)
    return merged


def _replaced(data: bytes, findings: list[Finding]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for finding in findings:
        parts.append(data[position : finding.start])
        parts.append(finding.quote + f"[redacted:{finding.rule}]".encode() + finding.quote)
        position = finding.end
    parts.append(data[position:])
    return b"".join(parts)
