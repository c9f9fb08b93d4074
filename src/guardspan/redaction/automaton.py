"""The rules and the names of secret keys, compiled into one automaton (google-re2).

It is linear by construction: it finds where a secret may be; what it is, is judged by :mod:`.scan`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import re2

from guardspan.redaction import kubernetes, prose
from guardspan.redaction.findings import MARK
from guardspan.redaction.keys import KeyNames
from guardspan.redaction.rule import Rule

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
_MEMORY = 256 << 20


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


def compiled(pattern: str) -> Any:
    """One pattern, as a regular expression over UTF-8 bytes.

    Raises:
        re2.error: it is none.
    """
    return re2.compile(_bytes_of(pattern).encode("ascii"), _options())


class Automaton:
    """The rules compiled: all together to find where, as a set to find which, one by one to find what."""

    def __init__(self, rules: Sequence[Rule], names: KeyNames) -> None:
        self.rules = rules
        stems = "(?i:" + "|".join(_bytes_of(stem) for stem in names.stems()) + ")"
        labels = "(?i:" + "|".join(_bytes_of(label) for label in prose.LABELS) + ")"
        patterns = [
            MARK.pattern,
            *(_bytes_of(rule.pattern).replace("?P<secret>", "?:") for rule in rules),
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
        self.single = [compiled(rule.pattern) for rule in rules]
        self.groups: list[int | None] = [single.groupindex.get(b"secret") for single in self.single]
        self.tails = [re.compile(f"[{rule.tail}]*".encode()) if rule.tail else None for rule in rules]


@functools.lru_cache(maxsize=8)
def automaton(rules: tuple[Rule, ...], names: frozenset[str]) -> Automaton:
    """The automaton of these rules and further names of secret keys, made once."""
    return Automaton(rules, KeyNames(names))
