"""Secrets that prose, commands and tables name: `the password for staging is …`, `token …`, `--api-key …`.

A label is found by the automaton, the rest here: bounded, and strict, for little says that it is a secret.
"""

from __future__ import annotations

from typing import Any

import re2

from guardspan.redaction import checks
from guardspan.redaction.keys import FOREIGN
from guardspan.redaction.values import Value, for_password, trimmed

# What a label begins with; the whole name is judged as a key's.
LABELS: tuple[str, ...] = (
    *("passw(?:ord|d|ort|oord)", "passphrase", "passcode", "mot de passe", "mdp", "kennwort", "senha"),
    *(
        "clave",
        "wachtwoord",
        "haslo",
        "passord",
        "adgangskode",
        "kodeord",
        "pass[ -](?:phrase|word|code)",
        "salasana",
        "heslo",
        "sifre",
        "parola",
    ),
    *(
        "secret",
        "token",
        "credentials?",
        "(?:api|access|secret|private)[ _-]?keys?",
        "auth",
        "(?:my|your|our|this|new) key",
    ),
    *FOREIGN,
)
_VERBS = (
    r"(?i:is|was|are|ist|war|est|es|era|lautet|"
    r"\xc3\xa9|\xc3\xa8|\xc3\xa4r|=)(?: (?:now|set to|changed to|jetzt))?"
)
_PARTICLES = r"(?:\xe6\x98\xaf|\xe4\xb8\xba|\xe7\x82\xba|\xe3\x81\xaf|\xe3\x81\x8c|\xeb\x8a\x94|\xec\x9d\x80)"
_OPEN = r"(?:[\"'`<*]{1,2}|\xe3\x80[\x8c\x8e]|\xe2\x80[\x9c\x9e\x98]|\xc2\xab ?)?"
_CHARACTER = r"[^\s\"'`<>,;(){}\[\]\\]"
_VALUE = rf"(?P<secret>{_CHARACTER}{{4}}{_CHARACTER}*)"
_WORDS = r"(?:[ \t]{1,2}[\"'(]?[A-Za-z0-9_'\x80-\xff-]{1,20}[\"')]?)"


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern.encode("ascii"), options)


_SENTENCE = _compiled(rf"[\"'`*]{{0,2}}{_WORDS}{{0,6}}[ \t]{{1,2}}{_VERBS}[ \t]?:?[ \t]{_OPEN}{_VALUE}")
_SPACELESS = _compiled(
    rf"{_PARTICLES}(?::|\xef\xbc\x9a)?[ \t]?{_OPEN}(?P<secret>[!#-&*+./0-9:=?@A-Z^_a-z|~-]{{4,64}})"
)
_COLON = _compiled(
    rf"[\"'`*]{{0,2}}{_WORDS}{{0,6}}[ \t]{{0,2}}"
    rf"(?:[:=]|->|[-|]|\xe2\x86\x92|\xe2\x80[\x93\x94])[ \t]{_OPEN}{_VALUE}"
)
_BESIDE = _compiled(
    r"[\"'`*)]{0,2}(?:[ \t]{1,8}\[?|[ \t](?:to|er|on|se|til)[ \t]|[ \t]?\(|(?:\xe3\x80[\x8c\x8e]))"
    rf"(?:token )?\(?{_OPEN}{_VALUE}"
)


def value(data: bytes, position: int, name: str) -> Value | None:
    """The secret that a sentence or a command gives after its label, which ends at ``position``."""
    limit = min(len(data), position + 512)
    lenient = checks.prose if for_password(name) and "secret" not in name.lower() else checks.strong
    for pattern, check in (
        (_SENTENCE, lenient),
        (_SPACELESS, lenient),
        (_COLON, checks.strong),
        (_BESIDE, checks.strong),
    ):
        found = pattern.match(data, position, limit)
        if found is None:
            continue
        start, end = found.span(1)
        if data[end : end + 1] in (b"(", b"[") or (
            data[start - 1 : start] == b"(" and b"." in data[start:end]
        ):
            continue  # a call or an index, or what a class is derived from
        text = trimmed(data[start:end].decode("utf-8", "ignore"))
        if check(text):
            return Value(start, start + len(text.encode()), False)
    return None
