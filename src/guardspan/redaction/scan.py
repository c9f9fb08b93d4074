"""One pass over one view of a text: one automaton finds where a secret may be, the rest judges its matches.

google-re2 is linear by construction for one match. What follows a match is bounded here as well, so that
the whole is linear in the text, whatever the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import re2

from guardspan.redaction import checks, kubernetes, numbers, prose
from guardspan.redaction.decode import View
from guardspan.redaction.keys import KeyNames
from guardspan.redaction.rule import Rule
from guardspan.redaction.values import (
    LONGEST,
    Value,
    element,
    listed,
    name_before,
    plausible,
    quoted,
    value_after,
)

KEY_RULE = "key"
PROSE_RULE = "password"
_MEMORY = 256 << 20
_LOCAL_PART = re.compile(rb"[A-Za-z0-9._%+'\x80-\xff-]{1,64}\Z")
_PEM_END = re.compile(rb"----[- ]END[A-Z0-9 ]{0,60}----[- ]?-?")
_ESCAPE = re.compile(rb"\\[\"'nrtu\\]")
_ASKED = re.compile(rb"(?i)(?:unexpected|invalid|illegal|missing|per|next|bad|each|every) \Z")
_HASH = re.compile(rb"[0-9a-f]{32,128}\b|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_STYLED = re.compile(rb"(?:class|for|style|href|src|content)\s?=\s?[\"'][^\"']{0,48}\Z")
_GETTERS = ("get", "find", "load", "read", "fetch", "require", "has", "is", "check", "validate", "delete")
_REVERSED = re.compile(
    rb"(?i)value[\"']?\s?[:=]\s?([\"'])([^\"'<>]{4,120}?)\\?[\"'].*?([\w.-]{1,40})\\?[\"']\Z", re.S
)
# Letters of any script, without its punctuation.
_TAIL = (
    r"(?:[A-Za-z0-9_.-]|[\xc3-\xdf][\x80-\xbf]|[\xe0\xe1\xe4-\xed][\x80-\xbf]{2}|\xe3[\x81-\xbf][\x80-\xbf])"
    r"{0,24}"
)
_ATTRIBUTE = r"(?:[\s,]{1,8}[\"']?[A-Za-z]{1,16}[\"']?\s?[:=]\s?[\"']?[A-Za-z0-9_.#/-]{0,32}[\"']?)"
_SEPARATOR = (
    r"(?:\s{0,24}(?:=>|:=|->|<-|\xe2\x86\x92|===?|"
    r":\s?(?:string|str|String|SecretStr)\s?=|=|:|\xef\xbc[\x9a\x9d])"
    r"|[\"'],\s{0,3}[\"']|\(\s?[\"']|[\"']\s?>|</key>\s{0,12}<string>)"
)
_VALUE_NAME = r"(?:[\s,]{1,24}-?|\s?:\s?\{\s{0,20})[\"']?(?i:value|content|val)[\"']?\s{0,2}[:=]"
# The head of a part of a form, up to its value.
_PART = r"[\"']\r?\n(?:[A-Za-z-]{1,30}: [^\r\n]{1,60}\r?\n){0,2}\r?\n"


def _hash_under_key(data: bytes, end: int, name: str, head: bytes) -> Value | None:
    found = _HASH.match(data, end) if head.endswith(b"=") and name.lower() == "key" else None
    return Value(*found.span(), True) if found else None


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


def _bytes_of(pattern: str) -> str:
    """A pattern in which characters beyond ASCII stand as the bytes of their UTF-8 form, in both cases."""
    return "".join(c if c.isascii() else _both_cases(c) for c in pattern)


def _both_cases(character: str) -> str:
    forms = {c for c in (character, character.lower(), character.upper()) if len(c) == 1}
    return "(?:" + "|".join("".join(f"\\x{b:02x}" for b in c.encode()) for c in sorted(forms)) + ")"


class Automaton:
    """The rules compiled: all together to find where, as a set to find which, one by one to find what."""

    def __init__(self, rules: Sequence[Rule], names: KeyNames) -> None:
        self.rules = rules
        stems = "(?i:" + "|".join(_bytes_of(stem) for stem in names.stems()) + ")"
        labels = "(?i:" + "|".join(_bytes_of(label) for label in prose.LABELS) + ")"
        patterns = [
            *(rule.pattern.replace("?P<secret>", "?:") for rule in rules),
            rf"{stems}{_TAIL}(?:{_PART}|[\"']?(?:{_ATTRIBUTE}{{0,2}}{_VALUE_NAME}|\s?\{{\s{{0,12}}default\s{{0,12}}=))",
            rf"{stems}{_TAIL}[\"'`\]*]{{0,3}}{_SEPARATOR}",
            r"(?i:\bvalue)[\"']?\s?[:=]\s?[\"'][^\"'<>]{4,120}[\"'],?\s{1,20}[\"']?"
            r"(?i:name|key|id)[\"']?\s?[:=]\s?[\"'][A-Za-z0-9_.-]{1,40}[\"']",
            rf"<(?:[A-Za-z0-9]{{1,16}}:)?[A-Za-z0-9_.-]{{0,24}}{stems}{_TAIL}[\s>]",
            kubernetes.KIND,
            rf"{labels}[A-Za-z0-9_]{{0,24}}",
        ]
        options = _options()
        self.anywhere = re2.compile("|".join(f"(?:{p})" for p in patterns).encode("ascii"), options)
        self.labels = re2.compile(labels.encode("ascii"), options)
        self.which = re2.Set.FullMatchSet(options)
        for pattern in patterns:
            self.which.Add(pattern)
        self.which.Compile()
        self.single = [re2.compile(rule.pattern.encode("ascii"), options) for rule in rules]
        self.tails = [re.compile(f"[{rule.tail}]*".encode()) if rule.tail else None for rule in rules]


@functools.lru_cache(maxsize=8)
def automaton(rules: tuple[Rule, ...], names: frozenset[str]) -> Automaton:
    """The automaton of these rules and further names of keys, made once."""
    return Automaton(rules, KeyNames(names))


class Scan:
    """One pass over one view."""

    def __init__(self, compiled: Automaton, names: KeyNames, view: View) -> None:
        self._compiled = compiled
        self._names = names
        self._view = view
        self._data = view.data
        self._kubernetes_floor = 0
        self._others = (self._pair, self._key, self._reversed, self._element, self._kubernetes, self._prose)

    def findings(self) -> list[Finding]:
        """Every secret of this view, placed in the original text."""
        found: list[Finding] = []
        position, data, search = 0, self._data, self._compiled.anywhere.search
        while (match := search(data, position)) is not None:
            start, end = match.span()
            findings, position = self._judge(start, end, position)
            found += findings
            position = max(position, start + 1)
        return found

    def _judge(self, start: int, end: int, floor: int) -> tuple[list[Finding], int]:
        """What a match is, and where to go on; nothing before ``floor`` is looked at again."""
        rules = self._compiled.rules
        for index in sorted(self._compiled.which.Match(self._data[start:end])):
            if index >= len(rules):
                return self._others[index - len(rules)](start, end)
            span = self._span(index, start, end, floor)
            if span is not None:
                quote = self._quote_for_number(*span)
                return [self._place(*span, rules[index].id, rules[index].reason, quote)], span[1]
        return [], start + 1

    def _span(self, index: int, start: int, end: int, floor: int) -> tuple[int, int] | None:
        """The secret within a rule's match: grown over its tail, then checked."""
        rule, data = self._compiled.rules[index], self._data
        if "?P<secret>" in rule.pattern:
            inner = self._compiled.single[index].match(data, start)
            if inner is None:
                return None
            start, end = inner.span(1)
        end = self._grown(index, start, end)
        if rule.id == "email":
            before = _LOCAL_PART.search(data, max(floor, start - 64), start)
            start = before.start() if before else start
            end = start + len(data[start:end].partition(b"---")[0].rstrip(b".-"))
        if rule.id == "iban":
            end = start + numbers.iban_length(data[start:end].decode("ascii"))
            if data[end : end + 1].isalnum():
                return None
        if rule.id == "pem":
            end = self._end_of_pem(end)
        if rule.check and not checks.CHECKS[rule.check](data[start:end].decode("utf-8", "replace")):
            return None
        return start, end

    def _grown(self, index: int, start: int, end: int) -> int:
        """Where a match ends that goes on over its tail, before any escape of a JSON string."""
        data, tail = self._data, self._compiled.tails[index]
        if tail is None:
            return end
        grown = tail.match(data, end, min(len(data), end + LONGEST))
        end = grown.end() if grown else end
        escape = _ESCAPE.search(data, start, min(len(data), end + 1))
        return escape.start() if escape and escape.start() > start else end

    def _end_of_pem(self, start: int) -> int:
        """A key's block ends at its own mark; one that was cut ends with the text, or at the bound."""
        limit = min(len(self._data), start + 4 * LONGEST)
        close = _PEM_END.search(self._data, start, limit)
        return close.end() if close else limit

    # --- keys and their values -----------------------------------------------------------------------

    def _key(self, start: int, end: int) -> tuple[list[Finding], int]:
        data = self._data
        begin, name = name_before(data, start, end)
        if not (self._names.secret(name) or name.lower() == "key") or self._no_label(begin, end):
            return self._glued(start, end)
        head = data[start:end]
        if head.endswith((b'"', b"'")):
            return self._called(name, end), end
        if head.endswith(b">") and not head.endswith((b"=>", b"->")):
            styled = _STYLED.search(data, max(0, begin - 64), begin)
            return self._of_key(None if styled else element(data, end, name, False), end)
        separator = head.rstrip(b":=> \t\r\n")
        in_quotes = separator[-1:] in (b'"', b"'")
        value = value_after(data, end, name, in_quotes) or _hash_under_key(data, end, name, head)
        if head.endswith(b"==") and (value is None or value.bare):
            return [], end  # a comparison, or the version of a package
        if value is None or data[end : end + 8].lstrip()[:1] == b"[":
            several = listed(data, end)
            if several:
                return [f for item in several for f in self._of_key(item, end)[0]], several[-1].end
        quote = b""
        if value is not None and value.bare and in_quotes and head.endswith(b":"):
            quote = self._source_of(start + len(separator) - 1)
        return self._of_key(value, end, quote)

    def _glued(self, start: int, end: int) -> tuple[list[Finding], int]:
        """A label in a script without spaces, and what is written right behind it."""
        if self._data[start] < 0x80:
            return [], end
        label = self._compiled.labels.match(self._data, start, end)
        return self._prose(start, label.end()) if label else ([], end)

    def _no_label(self, begin: int, end: int) -> bool:
        """Whether a name is part of a path or of a message of a parser."""
        data = self._data
        if data[max(0, begin - 10) : begin] == b"[redacted:":
            return True
        if data[begin - 1 : begin] in (b":", b"/", b"\\") and data[end - 1 : end] == b":" and begin:
            if data[begin - 2 : begin - 1].isspace() and begin > 1:
                return False  # an option of a command of Windows: /password:…
            return not data[end : end + 1].isspace() and data[end : end + 1] not in (b'"', b"'")
        return _ASKED.search(data, max(0, begin - 12), begin) is not None

    def _called(self, name: str, end: int) -> list[Finding]:
        """The second of a pair of strings, or the string that a function of this name is given."""
        if name.lower().lstrip("_").startswith(_GETTERS):
            return []
        value = quoted(self._data, end, self._data[end - 1 : end], name, strict=True)
        return self._of_key(value, end)[0]

    def _pair(self, start: int, end: int) -> tuple[list[Finding], int]:
        """`name=password value=…`, `{"name": "API_KEY", "value": …}`."""
        begin, name = name_before(self._data, start, end)
        name = name.split(" ")[0]
        named = self._names.secret(name) and not _STYLED.search(self._data, max(0, begin - 64), begin)
        value = value_after(self._data, end, name, False) if named else None
        return self._of_key(value, start + 1)

    def _reversed(self, start: int, end: int) -> tuple[list[Finding], int]:
        """`value=… name=password`."""
        parts = _REVERSED.match(self._data[start:end])
        if parts is None or not self._names.secret(parts.group(3).decode()):
            return [], start + 1
        text = parts.group(2).decode("utf-8", "replace")
        secret = checks.not_placeholder(text) and plausible(parts.group(3).decode(), text)
        first, last = parts.span(2)
        return self._of_key(Value(start + first, start + last, False) if secret else None, start + 1)

    def _element(self, start: int, end: int) -> tuple[list[Finding], int]:
        """`<password>…</password>`."""
        data = self._data
        close = data.find(b">", end - 1, end + 200)
        name = data[start + 1 : end - 1].decode("utf-8", "replace").rpartition(":")[2]
        if close < 0 or data[close - 1 : close] == b"/" or not self._names.secret(name):
            return [], start + 1
        return self._of_key(element(data, close + 1, name, True), start + 1)

    def _kubernetes(self, start: int, end: int) -> tuple[list[Finding], int]:
        if end <= self._kubernetes_floor:
            return [], end
        begin = max(self._kubernetes_floor, start - 2 * LONGEST)
        self._kubernetes_floor = end + LONGEST
        spans = kubernetes.secrets(self._data, begin, start, end + LONGEST)
        return [self._place(*span, KEY_RULE, "a Kubernetes secret") for span in spans], end

    def _prose(self, start: int, end: int) -> tuple[list[Finding], int]:
        begin, name = name_before(self._data, start, end)
        if not self._names.secret(name) or _ASKED.search(self._data, max(0, begin - 12), begin):
            return [], end
        value = prose.value(self._data, end, name)
        if value is None:
            return [], end
        found = self._place(value.start, value.end, PROSE_RULE, "a secret named in prose")
        return [found], value.end

    # --- places --------------------------------------------------------------------------------------

    def _of_key(self, value: Value | None, otherwise: int, quote: bytes = b"") -> tuple[list[Finding], int]:
        if value is None:
            return [], otherwise
        return [self._place(value.start, value.end, KEY_RULE, "its key's name says so", quote)], value.end

    def _quote_for_number(self, start: int, end: int) -> bytes:
        """The quote that a mark needs in the place of a number that is the value of a key in JSON."""
        data = self._data
        if not data[start:end].isdigit() or data[end : end + 1].strip() not in (b"", b",", b"}"):
            return b""
        before = data[max(0, start - 16) : start].rstrip()
        if (
            not before.endswith(b":")
            or before[:-1].rstrip()[-1:] != b'"'
            or before[:-1].rstrip()[-2:-1] == b"\\"
        ):
            return b""
        return self._source_of(data.rindex(b'"', 0, start))

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


def merged(found: list[Finding]) -> list[Finding]:
    """Findings in order, none within or across another."""
    kept: list[Finding] = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        if kept and finding.start < kept[-1].end:
            last = kept[-1]
            if (last.rule, finding.rule) == ("url", "email"):
                continue  # the host behind a URL's user and password
            kept[-1] = last._replace(end=max(last.end, finding.end), quote=last.quote or finding.quote)
        elif finding.end > finding.start:
            kept.append(finding)
    return kept


def replaced(data: bytes, findings: list[Finding]) -> bytes:
    """The text with a mark in the place of each finding."""
    parts: list[bytes] = []
    position = 0
    for finding in findings:
        parts.append(data[position : finding.start])
        parts.append(finding.quote + f"[redacted:{finding.rule}]".encode() + finding.quote)
        position = finding.end
    parts.append(data[position:])
    return b"".join(parts)
