"""One pass over one view of a text: one automaton finds where a secret may be, the rest judges its matches.

google-re2 is linear by construction for one match. What follows a match is bounded here as well, so that
the whole is linear in the text, whatever the text.
"""

from __future__ import annotations

import re

from guardspan.redaction import checks, kubernetes, numbers, prose, tables
from guardspan.redaction.automaton import Automaton
from guardspan.redaction.decode import View
from guardspan.redaction.findings import KEY_RULE, Digest, Finding
from guardspan.redaction.keys import KeyNames
from guardspan.redaction.rule import Rule
from guardspan.redaction.values import (
    LONGEST,
    Value,
    anything_after,
    element,
    listed,
    name_before,
    plausible,
    quoted,
    value_after,
)

PROSE_RULE = "password"
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


def _hash_under_key(data: bytes, end: int, name: str, head: bytes) -> Value | None:
    found = _HASH.match(data, end) if head.endswith(b"=") and name.lower() == "key" else None
    return Value(*found.span(), True) if found else None


class Scan:
    """One pass over one view."""

    def __init__(self, compiled: Automaton, names: KeyNames, view: View, digest: Digest | None) -> None:
        self._compiled = compiled
        self._names = names
        self._view = view
        self._digest = digest
        self._data = view.data
        self._lacking: dict[int, int] = {}
        self._kubernetes_floor = 0
        self._table = (0, 0)  # the rows of the last one
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
        for place in self._which(start, end):
            index = place - 1
            if index < 0:
                return [], end  # a mark
            if index >= len(rules):
                return self._others[index - len(rules)](start, end)
            span = self._span(index, start, end, floor)
            if span is not None:
                if span[0] == span[1]:
                    return [], max(span[1], start + 1)  # there is nothing up to there
                quote = self._quote_for_number(*span)
                return [self._place(*span, rules[index].id, rules[index].reason, quote)], span[1]
        return [], start + 1

    def _which(self, start: int, end: int) -> list[int]:
        """The patterns that match there, the first that counts first.

        The set sees the match alone. A pattern that looks at what is before it, as with a boundary before a
        space, may match in the text only: then each is asked there.
        """
        found = self._compiled.which.Match(self._data[start:end])
        if found:
            return sorted(found)
        single = self._compiled.single
        return [index + 1 for index, one in enumerate(single) if one.match(self._data, start) is not None]

    def _told_by_itself(self, start: int, end: int) -> Rule | None:
        """The rule that knows a value whole without its key's name, as those of vendors do."""
        match = self._compiled.anywhere.match(self._data, start, end)
        if match is None:
            return None
        for place in self._which(start, match.end()):
            if not 0 < place <= len(self._compiled.rules):
                return None
            rule: Rule = self._compiled.rules[place - 1]
            if self._span(place - 1, start, match.end(), start) == (start, end):
                return rule
        return None

    def _span(self, index: int, start: int, end: int, floor: int) -> tuple[int, int] | None:
        """The secret within a rule's match: grown over its tail, then checked."""
        rule, data, begin = self._compiled.rules[index], self._data, start
        if start < self._lacking.get(index, 0):
            return None  # what a run of characters lacks, each part of it lacks
        group = self._compiled.groups[index]
        if group is not None:
            inner = self._compiled.single[index].match(data, start)
            if inner is None or inner.start(group) < 0:
                return None
            start, end = inner.span(group)
        end = self._grown(index, start, end)
        if rule.id == "email":
            before = _LOCAL_PART.search(data, max(floor, start - 64), start)
            start = before.start() if before else start
            end = start + len(data[start:end].partition(b"---")[0].rstrip(b".-"))
        if rule.id == "pem":
            end = self._end_of_pem(end)
        place = numbers.PLACES.get(rule.check or "")
        if place is not None:
            return place(data, begin, start, end)
        if rule.check and not checks.CHECKS[rule.check](data[start:end].decode("utf-8", "replace")):
            if rule.tail and rule.check in checks.OF_THE_WHOLE:
                self._lacking[index] = end
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
        if head.endswith(b"==") and data[end : end + 8].lstrip()[:1] not in (b'"', b"'"):
            return [], end  # a comparison, or the version of a package
        separator = head.rstrip(b":=> \t\r\n")
        in_quotes = separator[-1:] in (b'"', b"'")
        value = self._value(name, end, in_quotes, head)
        if value is None or data[end : end + 8].lstrip()[:1] == b"[":
            several = listed(data, end)
            if several:
                return [f for item in several for f in self._of_key(item, end)[0]], several[-1].end
        quote = b""
        if value is not None and value.bare and in_quotes and head.endswith(b":"):
            quote = self._source_of(start + len(separator) - 1)
        return self._of_key(value, end, quote)

    def _value(self, name: str, end: int, in_quotes: bool, head: bytes) -> Value | None:
        if self._names.own(name):
            return anything_after(self._data, end)
        value = value_after(self._data, end, name, in_quotes)
        return value or _hash_under_key(self._data, end, name, head)

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
            return self._column(begin, begin + len(name.encode()), name), end
        found = self._named(value.start, value.end, PROSE_RULE, "a secret named in prose")
        return [found], value.end

    def _column(self, begin: int, end: int, name: str) -> list[Finding]:
        """The cells of a table's column that is named so; no line is looked at twice."""
        if self._table[0] <= begin < self._table[1]:
            return []
        column = tables.column(self._data, begin, end, name)
        if column is None:
            return []
        self._table = (column.head, column.end)
        return [self._named(*cell, KEY_RULE, "its column's name says so") for cell in column.cells]

    # --- places --------------------------------------------------------------------------------------

    def _of_key(self, value: Value | None, otherwise: int, quote: bytes = b"") -> tuple[list[Finding], int]:
        if value is None:
            return [], otherwise
        return [self._named(value.start, value.end, KEY_RULE, "its key's name says so", quote)], value.end

    def _named(self, start: int, end: int, rule: str, reason: str, quote: bytes = b"") -> Finding:
        """A value that its name gave away; the mark says more where the value tells its kind itself."""
        kind = self._told_by_itself(start, end)
        return self._place(start, end, kind.id if kind else rule, kind.reason if kind else reason, quote)

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
        while end < len(self._data) and self._data[end] & 0xC0 == 0x80:
            end += 1  # no character is cut in two
        first, last = self._view.original(start, end)
        digest = self._digest(self._data[start:end]) if self._digest else ""
        return Finding(first, last, rule, reason, quote, digest)
