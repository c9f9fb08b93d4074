"""Looks at a match that a pattern found: checksums, and whether a text can be a secret at all.

Every check is linear in the length of its match.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

_PLACEHOLDER = re.compile(
    r"""(?xi)
    ^\W*$ | ^[x*.•·-]+$ | ^\[redacted | ^<[^<>]*>$ | ^<(?:your|my|the|api|token|secret|redacted|hidden)
    | ^(?:\{\{|\$\{|\$\(|\#\{|@\{) | ^%\w{0,2}$ | ^%[A-Z_]+%$ | ^\{[\w.]*\}$ | ^`
    | ^\$(?:[A-Z_]+|\d|env:.*|(?-i:[A-Z][A-Z0-9_]*))$ | ^\$[a-z]\w*(?:->|\.|\[)
    | ^(?:your|my|the|some|an?|insert|enter|put|add|replace)[-_ ] | ^(?:change|replace)[-_ ]?me
    | \byour[-_ ]\w | [-_ ]here$ | x{6} | \*{4} | …$ | \.\.\.$
    | ^(?:os\.|process\.env|env\[|environ|getenv|config[\[.]|settings[\[.]|self\.|this\.|args\.|secrets\.|var\.
        |local\.|data\.|module\.|op://|vault:|arn:|ref\+|!)
    | ^(?:none|null|nil|undefined|true|false|yes|no|on|off|str|string|int|bool|bytes|any|optional|required
        |example|placeholder|dummy|todo|tbd|n/?a|empty|missing|hidden|masked|redacted|secret|password|token
        |same-origin|include|omit)$
    """
)
_MESSAGE = re.compile(
    r"(?i)^(?:this |please |field |value |input |is |are |was |must |should |cannot |can't |may |too |at least "
    r"|does |do |not |incorrect|invalid|missing |required|(?:the |your )?password |no )"
)
_PATH = re.compile(r"^(?:~?(?:/[a-z0-9._-]+){2,}/?|\.{1,2}/.*|~/.*|[A-Za-z]:\\.*|\\\\.*)$")
_NUMBER = re.compile(r"^[+-]?[\d][\d.,_]*(?:e[+-]?\d+)?%?$")
_DATED = re.compile(r"^v?\d+(?:[-.:T]\d+)+(?:[-.+Z].*)?$")
_FILE = re.compile(r"\.[a-z]{1,5}\d?$")
_STRONG_MARKS = frozenset("!$#%^&*@+=?~|")
COMMON = frozenset(
    "about above again allowed also always authentication authorization basic because been before being "
    "below bearer cannot case changed correct current default does encrypted entered entry error "
    "expired field forgotten from given here incorrect input invalid less longer login lost managed "
    "maximum minimum must name never not only option optional please policy protected provided reached "
    "required reset same send sent set should shown signin stored string supported that their then "
    "there this too type unknown unset updated used user valid value weak when which will with wrong "
    "you your".split()
)


def mixed(text: str) -> bool:
    """Whether a text mixes letters and digits as names hardly do."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def digits(text: str) -> bool:
    """Whether a text has a digit."""
    return any(c.isdigit() for c in text)


def not_placeholder(text: str) -> bool:
    """Whether a value stands for itself: no variable, type, sample word or mark."""
    return _PLACEHOLDER.search(text) is None


def message(text: str) -> bool:
    """Whether a text beside a key's name is a sentence about it, as in errors of a form."""
    return " " in text.strip() and _MESSAGE.match(text.strip()) is not None


def path(text: str) -> bool:
    """Whether a text is the path of a file."""
    return _PATH.match(text) is not None


def number(text: str) -> bool:
    """Whether a text is a plain number."""
    return _NUMBER.match(text) is not None


def password(text: str) -> bool:
    """Whether a word after a key's name may be a password: no placeholder, no call, no plain word."""
    if not not_placeholder(text) or any(c in text for c in "()[]{}") or path(text):
        return False
    word = text.strip(".,;:!?'\"`")
    if word.lower() in COMMON or len(word) < 4:
        return False
    return mixed(word) or any(not c.isalnum() for c in word.strip("-_'")) or _camel(word)


def prose(text: str) -> bool:
    """Whether a word after `password is` may be one: as above, and no word with a hyphen or a slash."""
    word = text.strip(".,;:!?'\"`-")
    return password(word) and not _DATED.match(word) and (mixed(word) or _camel(word) or _marked(word))


def strong(text: str) -> bool:
    """Whether a word looks like a secret with little around it that says so: long, and of several kinds."""
    word = text.rstrip(".,;:!?")
    if len(word) < 8 or not mixed(word) or not password(word) or "://" in word:
        return False
    if _DATED.match(word) or _FILE.search(word) or path(word):
        return False
    cases = any(c.isupper() for c in word) and any(c.islower() for c in word)
    return cases or _marked(word) or (len(word) >= 16 and sum(map(str.isdigit, word)) >= 4)


def random(text: str) -> bool:
    """Whether a text looks drawn by lot: long, of both cases and digits, without words or a path."""
    return (
        len(text) >= 20
        and sum(map(str.isdigit, text)) >= 2
        and any(c.isupper() for c in text)
        and any(c.islower() for c in text)
        and not any(c in text for c in ":{}()[]<>,")
        and text.count("/") <= 2
        and not_placeholder(text)
    )


def _marked(word: str) -> bool:
    return any(c in _STRONG_MARKS for c in word)


def _camel(word: str) -> bool:
    return len(word) >= 8 and any(c.isupper() for c in word[1:]) and any(c.islower() for c in word)


def bearer(text: str) -> bool:
    """Whether what follows `Bearer` is a token and not the next word of a sentence or a parameter."""
    if not not_placeholder(text) or re.match(r"[a-z_]+=+$", text):
        return False
    return digits(text) or len(text) >= 24 or any(c in text for c in "._~+/=")


def basic(text: str) -> bool:
    """Whether what follows `Basic` is base64 of a user and a password."""
    try:
        decoded = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded


def jwt(text: str) -> bool:
    """Whether a text has the parts of a signed or encrypted token."""
    return text.count(".") >= 2


def uuid(text: str) -> bool:
    """Whether a text ends in a UUID."""
    return re.search(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", text) is not None


def email(text: str) -> bool:
    """Whether a text is an address: a name before the @, and a top-level domain of letters."""
    name, _, domain = text.rpartition("@")
    if name == "git":
        return False  # a user of a server for code, not a person
    last = domain.rstrip(".-").rpartition(".")[2]
    return bool(name.strip(".")) and len(last) >= 2 and last.isalpha()


def luhn(number: str) -> bool:
    """Whether the digits satisfy Luhn's checksum (ISO/IEC 7812-1)."""
    total = 0
    for position, digit in enumerate(reversed(number)):
        value = int(digit) * (2 if position % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def card(text: str) -> bool:
    """Whether a number is a payment card's: an issuer's range and length, and Luhn's checksum."""
    number = re.sub(r"\D", "", text)
    return _issuer(number) and len(set(number)) > 1 and luhn(number)


def _issuer(number: str) -> bool:
    length, head = len(number), int(number[:4])
    if number[0] == "4":
        return length in {13, 16, 19}
    if number[:2] in {"34", "37"}:
        return length == 15
    if number[:2] in {"36", "38"} or 3000 <= head <= 3059:
        return length in {14, 16}
    master = 5100 <= head <= 5599 or 2221 <= head <= 2720
    other = number[:4] in {"6011"} or number[:2] in {"65", "62", "35", "50", "60"}
    return (master and length == 16) or (other and length in {16, 17, 18, 19})


def iban(text: str) -> bool:
    """Whether a text satisfies the checksum of ISO 13616."""
    compact = text.replace(" ", "")
    if not 15 <= len(compact) <= 34:
        return False
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def ssn(text: str) -> bool:
    """Whether a number may be a social security number of the United States."""
    area, group, serial = text.split("-")
    return area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"


def cpf(text: str) -> bool:
    """Whether a number satisfies the checksum of Brazil's CPF."""
    number = [int(c) for c in text if c.isdigit()]
    if len(set(number)) == 1:
        return False
    for length in (9, 10):
        total = sum(digit * (length + 1 - i) for i, digit in enumerate(number[:length]))
        if total * 10 % 11 % 10 != number[length]:
            return False
    return True


def dni(text: str) -> bool:
    """Whether a number satisfies the checksum of Spain's DNI or NIE."""
    compact = text.replace("-", "")
    number = int(compact[:-1].translate(str.maketrans("XYZ", "012")))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23] == compact[-1]


_ODD_VALUES = (
    *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21),
    *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
)
_ODD = dict(zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", _ODD_VALUES, strict=True))


def codice_fiscale(text: str) -> bool:
    """Whether a text satisfies the checksum of Italy's tax code (DM 23/12/1976)."""
    total = 0
    for position, character in enumerate(text[:15]):
        even = int(character) if character.isdigit() else ord(character) - 65
        total += even if position % 2 else _ODD[character]
    return chr(65 + total % 26) == text[15]


def phone(text: str) -> bool:
    """Whether a number may be a telephone's: between 9 and 15 digits (E.164), not all the same."""
    number = re.sub(r"\D", "", text)
    return 9 <= len(number) <= 15 and len(set(number)) > 2


CHECKS: dict[str, Callable[[str], bool]] = {
    check.__name__: check
    for check in (
        mixed,
        digits,
        not_placeholder,
        password,
        prose,
        strong,
        bearer,
        basic,
        jwt,
        uuid,
        email,
        card,
        iban,
        ssn,
        cpf,
        dni,
        codice_fiscale,
        phone,
    )
}
