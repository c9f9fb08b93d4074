"""Finds the value that follows a secret key's name in a text: quoted, bare, in a block, or a header's line.

Works on UTF-8 bytes, bounded: a value is followed for at most :data:`LONGEST` bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from guardspan.redaction import checks
from guardspan.redaction.keys import numeric, words_of

LONGEST = 16_384
_JUDGED = 256
"""Bytes at its head by which a bare value is judged: more would cost as much again at each name in it."""
_BACK = 64

_NAME_BYTES = bytes(
    [*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), *b"_.-", *range(0x80, 0x100)]
)
_NAME = re.compile(rb"[A-Za-z0-9_. '\x80-\xff-]*")
_BLANK = re.compile(rb"(?:\*\*(?=[ \t]))?[ \t]{0,32}")
_OPENING = re.compile(
    rb"(?:\[\s{0,8}|(?:SecretStr|SecretBytes|Secret|str|bytes|String|Some|Buffer\.from)\(\s?)?"
    rb"(?:[bBfFrRuUN@$]{1,2}(?=[\"']))?(\"{3}(?=[^\"\s,}\]])|'{3}(?=[^'\s,}\]])|[\"'`])"
)
_WIDE_OPENING = re.compile(rb"\xe3\x80[\x8c\x8e]|\xe2\x80[\x9c\x9e\x98]|\xc2\xab ?")
_ANGLE = re.compile(rb"<([^\s<>\"'&=/]{8,200})>")
_BLOCK = re.compile(rb"[|>][+-]?\d?[+-]?[ \t]{0,8}\r?\n([ \t]{1,32})(?=\S)")
_LIST = re.compile(rb"\s{0,8}([\[{])|[ \t]{0,8}\r?\n[ \t]{0,24}- ")
_LIST_LINES = re.compile(rb"(?:[ \t]{0,8}\r?\n[ \t]{0,24}- [^\r\n]{1,256}){1,32}")
_LIST_LINE = re.compile(rb"\n[ \t]{0,24}- [\"']?([^\s\"':]{8,200})[\"']?")
_STRING = re.compile(rb"[:\[,]?\s{0,24}[\"']([^\"'\\\s]{8,1024})[\"']")
_NEXT_LINE = re.compile(
    rb"(?:[ \t]{0,8}\r?\n){1,2}[ \t]{0,16}([^\s\"'<>:={}\[\]]{8,200})[ \t]{0,8}(?:\r?\n|\Z)"
)
_BARE = re.compile(
    rb"(?:[^\s,;&\"'<>(){}\[\]|`\\]{1,4096}|\\(?![nrtbfu\"'\\/])"
    rb"|&(?!#?[A-Za-z0-9]{1,10};|[A-Za-z0-9_.%\[\]-]{1,40}=|&)){1,64}"
)
_LINE = re.compile(rb"[^\r\n\"'`\\]{0,4096}(?:\\(?![nrtu\"'\\/])[^\r\n\"'`\\]{0,4096}){0,8}")
_SCHEME = re.compile(rb"(?i)\s{0,9}([A-Za-z][A-Za-z0-9-]{1,30})\s{1,9}(?=\S)")
_WORD = re.compile(rb"\S{1,16384}")
_STOPS = re.compile(
    "[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000，。；、）」』】”“’»！？]|です|입니다|となります|$"
)
_ALGORITHM = re.compile(r"(?i)^[a-z]{1,7}[-_]?\d{1,5}$")
_COLOUR = re.compile(r"^#(?:[0-9a-fA-F]{3,4}){1,2}$")
_REFERENCE = re.compile(r"^[A-Za-z_]+(?:\.[A-Za-z_]+)+$")
_IDENTIFIER = re.compile(r"^[A-Za-z_]+$")
_VARIABLE = re.compile(
    r"(?i)^_?(?:[a-z]+_)+(?:key|token|password|passwd|pass|pwd|secret|id|str|value|val|auth|credentials?|header|cookie"
    r"|var|arg|param|name|func|fn|input|data|default|config|response|result|obj)$"
)
_SNAKE = re.compile(r"^[a-z]+(?:_[a-z]+)+$")
_SENTENCE = re.compile(rb"[ \t]+[A-Za-z0-9\x80-\xff]")
_CLOSED = re.compile(rb"[\"'`](?=[:,)\]};\s]|\Z)(?![\"'])")
_PASSWORD_WORDS = (
    *("pass", "pwd", "pw", "senha", "kennwort", "contrase", "wachtwoord", "mdp", "secret", "salasana"),
    *("adgangskode", "kodeord", "heslo", "haslo", "losenord", "sifre", "parol", "jelsz", "lozinka", "geslo"),
    *("zaporka", "pasahitza", "wagwoord", "kata sandi", "katalaluan"),
)
_LINES = frozenset({"authorization", "cookie"})
_WEAK = frozenset(["auth", "signature", "sig", "sid", "credentials", "clave", "parole", "passe", "jwt"])


class Value(NamedTuple):
    """Where a value lies, and whether it stands without quotes, which a mark in JSON must then bring."""

    start: int
    end: int
    bare: bool


def name_before(data: bytes, start: int, end: int) -> tuple[int, str]:
    """Where the whole name begins of which ``data[start:end]`` was recognised, and the name."""
    window = data[max(0, start - _BACK) : start]
    begin = start - (len(window) - len(window.rstrip(_NAME_BYTES)))
    found = _NAME.match(data, begin, end)
    name = found.group().decode("utf-8", "replace") if found else ""
    return begin, name.rstrip(" -.'：＝→").lstrip("'.-")


def value_after(data: bytes, position: int, name: str, quoted_name: bool) -> Value | None:
    """The secret value after a separator that ends at ``position``; None where none is."""
    blank = _BLANK.match(data, position)
    position = blank.end() if blank else position
    if data[position - 1 : position] not in (b" ", b"\t") and _CLOSED.match(data, position):
        return None  # the quote before the name ends here
    opening = _OPENING.match(data, position)
    last = words_of(name)[-1:] or ("",)
    if opening:
        return quoted(data, opening.end(), opening.group(1), name)
    if last[0] in _LINES:
        return _line(data, position, name, quoted_name)
    block = _BLOCK.match(data, position)
    if block:
        return _block(data, block.end(), block.group(1))
    angle = _ANGLE.match(data, position)
    if angle and checks.strong(angle.group(1).decode("utf-8", "replace")):
        return Value(*angle.span(1), False)
    wide = _WIDE_OPENING.match(data, position)
    return _bare(data, wide.end() if wide else position, name, quoted_name)


def element(data: bytes, position: int, name: str, sure: bool) -> Value | None:
    """The text of an XML or HTML element, up to the next tag; ``sure`` where the element has the name."""
    end = data.find(b"<", position, position + LONGEST)
    text = data[position : max(end, position)].decode("utf-8", "replace").strip()
    if end < 0 or not text or not checks.not_placeholder(text) or checks.message(text):
        return None
    likely = checks.password(text) or (for_password(name) and len(text) >= 8 and " " not in text)
    return Value(position, end, False) if likely and (sure or checks.mixed(text)) else None


def quoted(data: bytes, start: int, quote: bytes, name: str, strict: bool = False) -> Value | None:
    """A value between quotes; ``strict`` where little says that it belongs to the name."""
    end = _closing(data, start, quote)
    text = data[start:end].decode("utf-8", "replace")
    if not text.strip() or not checks.not_placeholder(text.strip()) or not plausible(name, text):
        return None
    if quote == b"`" and " " in text:
        return None  # a command of a shell
    words = words_of(name)
    if words and words[-1] == "authorization":
        found = _after_scheme(data, start, end)
        return found._replace(bare=False) if found else None
    likely = checks.strong(text) or (for_password(name) and checks.mixed(text) and checks.prose(text))
    if strict and not likely:
        return None
    return Value(start, end, False)


def listed(data: bytes, position: int) -> list[Value]:
    """The values of a list or an object after a secret name: strings that look like secrets."""
    opening = _LIST.match(data, position)
    if opening is None:
        return []
    if opening.group(1) is None:
        close = _LIST_LINES.match(data, position)
        found = _LIST_LINE.finditer(data, position, close.end() if close else position)
    else:
        close_at = data.find(b"]" if opening.group(1) == b"[" else b"}", opening.end(), opening.end() + 2048)
        found = _STRING.finditer(data, opening.end(), max(close_at, opening.end()))
    return [
        Value(*item.span(1), False)
        for item in found
        if checks.strong(item.group(1).decode("utf-8", "replace"))
    ]


def anything_after(data: bytes, position: int) -> Value | None:
    """Whatever follows the separator of a key that the user has named: quoted, or one word."""
    blank = _BLANK.match(data, position)
    position = blank.end() if blank else position
    opening = _OPENING.match(data, position)
    if opening:
        value = Value(opening.end(), _closing(data, opening.end(), opening.group(1)), False)
    else:
        bare = _BARE.match(data, position)
        value = Value(position, bare.end() if bare else position, True)
    text = data[value.start : value.end].decode("utf-8", "replace").strip()
    return value if text and text != "null" and checks.not_mark(text) else None


def plausible(name: str, text: str) -> bool:
    """Whether a text under a secret name is a secret, and no message, path, algorithm, or piece of a text."""
    words = words_of(name)
    if text.lower() == name.lower() or _REFERENCE.match(text):
        return False  # code
    if not for_password(name) and (
        _SNAKE.match(text) or (text.isalpha() and text.islower() and len(text) < 12)
    ):
        return False
    if text.startswith(("(?", "^")) or (words == ("sid",) and text.lower().startswith("stmt")):
        return False  # a pattern; the id of a statement in a policy
    if checks.message(text) or (words in {("pwd",), ("oldpwd",)} and text[:1] in "/~"):
        return False
    if words == ("token",) and len(text) < 8 and sum(map(str.isdigit, text)) < 4:
        return False  # a token of a text, as in the probabilities that a model returns
    if words == ("key",):
        return checks.random(text)
    if " ".join(words) in _WEAK and (len(text) < 6 or " " in text or not checks.digits(text)):
        return False
    if (_ALGORITHM.match(text) and words[-1:] in {("auth",), ("jwt",), ("sig",)}) or _COLOUR.match(text):
        return False
    if "signature" in words and (len(text) < 12 or " " in text or not checks.digits(text)):
        return False
    return not numeric(name) or bool(re.fullmatch(r"[\d -]{3,12}", text)) or checks.strong(text)


def for_password(name: str) -> bool:
    """Whether a key's name speaks of a password, which may be a plain word or a number."""
    lower = name.lower()
    return not name.isascii() or any(stem in lower for stem in _PASSWORD_WORDS)


def trimmed(text: str) -> str:
    """A bare value without the punctuation, of any script, that follows it."""
    if not text.isascii():
        stop = _STOPS.search(text)
        text = text[: stop.start()] if stop else text
    return text.rstrip(".:!?*")


def _closing(data: bytes, start: int, quote: bytes) -> int:
    """Where a quoted value ends: its closing quote, else its line, else the bound."""
    limit = min(len(data), start + LONGEST)
    position = start
    while True:
        end = data.find(quote, position, limit)
        if end < 0:
            line = data.find(b"\n", start, limit)
            return line if line >= 0 else limit
        if not _escaped(data, start, end):
            return end
        position = end + 1


def _escaped(data: bytes, start: int, position: int) -> bool:
    count = 0
    while position - 1 - count >= start and data[position - 1 - count] == 0x5C and count < 64:
        count += 1
    return count % 2 == 1


def _line(data: bytes, position: int, name: str, quoted_name: bool) -> Value | None:
    line = _LINE.match(data, position)
    if line is None or not line.group().strip():
        return None
    end = line.start() + len(line.group().rstrip())
    if words_of(name)[-1] == "authorization":
        return _after_scheme(data, position, end)
    text = data[position:end].decode("utf-8", "replace").strip()
    pairs = text.split(" ", 1)[0].partition("=")
    if not pairs[1] or not pairs[2] or not checks.not_placeholder(text):
        return _bare(data, position, name, quoted_name)
    return Value(position, end, True)


def _after_scheme(data: bytes, start: int, end: int) -> Value | None:
    """An authorization's credentials; those of a digest have a rule of their own, for one part is secret."""
    scheme = _SCHEME.match(data, start, end)
    if scheme is None:
        if b" " in data[start:end].strip():
            return None
        text = data[start:end].decode("utf-8", "replace")
        enough = (
            len(text) >= 6 and (checks.digits(text) or len(text) >= 20) and not set(text) & set(" [](){}")
        )
        enough = enough and not _IDENTIFIER.match(text)
        return Value(start, end, True) if enough and checks.not_placeholder(text) else None
    if scheme.group(1).lower() in {b"digest", b"aws4-hmac-sha256"}:
        return None
    word = _WORD.match(data, scheme.end(), end)
    text = word.group().decode("utf-8", "replace") if word else ""
    alone = word is not None and word.end() == end
    if not checks.not_placeholder(text) or re.match(r"[A-Za-z_]+=|\{", text) or "(" in text:
        return None
    if not (checks.strong(text) if not alone else (len(text) >= 4 and not text.isalpha()) or len(text) >= 16):
        return None
    return Value(scheme.end(), word.end() if word else end, True)


def _block(data: bytes, position: int, indent: bytes) -> Value | None:
    """A YAML block scalar: all lines that are indented as its first."""
    limit = min(len(data), position + LONGEST)
    end = position
    while True:
        line = data.find(b"\n", end, limit)
        end = line if line >= 0 else limit
        if line < 0 or not data.startswith(indent, line + 1):
            break
        end = line + 1
    text = data[position:end].decode("utf-8", "replace").strip()
    if not text or not checks.not_placeholder(text) or text.startswith("$ANSIBLE_VAULT"):
        return None
    return Value(position, position + len(data[position:end].rstrip()), False)


def _bare(data: bytes, position: int, name: str, quoted_name: bool) -> Value | None:
    found = _BARE.match(data, position, position + _JUDGED)
    if found is None:
        return _next_line(data, position, name)
    text = trimmed(found.group().decode("utf-8", "replace"))
    end = position + len(text.encode("utf-8", "replace"))
    after = data[end : end + 1] if found.end() < position + _JUDGED else b""
    if after in (b"(", b"[") or (after in (b'"', b"'") and text.endswith("+")):
        return None  # a call or an index: code that gets a secret, not the secret
    if quoted_name and text in {"true", "false", "null"}:
        return None
    secret = (
        _number(name, text) if checks.number(text) else _word(name, text, bool(_SENTENCE.match(data, end)))
    )
    if secret and found.end() == position + _JUDGED:
        whole = _BARE.match(data, position, position + LONGEST)
        end = whole.end() if whole else end
    return Value(position, end, True) if secret else None


def _number(name: str, text: str) -> bool:
    size = sum(map(str.isdigit, text))
    if text.endswith("%") or (words_of(name)[-1] in {"pass", "pw"} and (size < 6 or size < len(text))):
        return False
    if numeric(name):
        return size == len(text) and 3 <= size <= 10
    return (for_password(name) and len(text) >= 4) or (text.isdigit() and size >= 20)


def _word(name: str, text: str, in_sentence: bool) -> bool:
    if not plausible(name, text) or (_VARIABLE.match(text) and not name.isupper()):
        return False
    if _IDENTIFIER.match(text) and len(text) < 24 and not (name.isupper() and "_" in text):
        plain = for_password(name) and text.isalpha() and len(text) >= 8 and not in_sentence
        return plain and text.lower() not in checks.COMMON and checks.not_placeholder(text)
    return checks.password(text)


def _next_line(data: bytes, position: int, name: str) -> Value | None:
    """A value alone on the line below its label."""
    found = _NEXT_LINE.match(data, position)
    if found is None or not checks.strong(found.group(1).decode("utf-8", "replace")):
        return None
    return Value(*found.span(1), True) if words_of(name) != ("key",) else None
