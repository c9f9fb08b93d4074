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
    | ^(?:\{\{|\$\{|\$\(|\#\{|@\{) | ^%\w{0,2}$ | ^%[A-Z_]+%?$ | ^(?-i:\W?[A-Z_]+%)$ | ^\{[\w.]*\}$ | ^`
    | ^\$(?:[A-Z_]+|\d|env:.*|(?-i:[A-Z][A-Z0-9_]*))$ | ^\$[a-z]\w*(?:->|\.|\[)
    | ^(?:your|insert|enter|replace)[-_ ]
    | ^(?:my|the|some|an?|put|add)[-_ ][^\d]*$ | ^(?:change|replace)[-_ ]?me
    | \byour[-_ ]\w | [-_ ]here$ | x{6} | \*{4} | …$ | \.\.\.$
    | ^(?:os\.|process\.env|env\[|environ|getenv|config[\[.]|settings[\[.]|self\.|this\.|args\.|secrets\.
        |var\.|local\.|data\.|module\.|op://|vault:|arn:|ref\+|!(?:ref|sub|getatt|vault|secret|env|reference)\b)
    | ^(?:none|null|nil|undefined|true|false|yes|no|on|off|str|string|int|bool|bytes|any|optional|required
        |example|placeholder|dummy|todo|tbd|n/?a|empty|missing|hidden|masked|redacted|secret|password|token
        |same-origin|include|omit|oauth\d?
        |(?:fake|dummy|test|sample)[-_]?(?:key|token|secret|password)|secretstr|secretbytes)$ | ^S-1-\d
    """
)
_MESSAGE = re.compile(
    r"(?i)^(?:this |please |field |value |input |is |are |was |must |should |cannot |can't |may |too "
    r"|at least |does |do |not |incorrect|invalid|missing |required|(?:the |your )?password |no )"
)
_PATH = re.compile(r"^(?:~?(?:/[a-z0-9._-]+){2,}/?|\.{1,2}/.*|~/.*|[A-Za-z]:\\.*|\\\\.*)$")
_NUMBER = re.compile(r"^[+-]?[\d][\d.,_]*(?:e[+-]?\d+)?%?$")
_DATED = re.compile(r"^v?\d+(?:[-.:T]\d+)+(?:[-.+Z].*)?$")
_FILE = re.compile(r"\.[a-z]{1,5}\d?$")
_CODE = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)+$|[a-z]+(?:_[a-z]+\d{0,3})+$")
_ARGUMENT = re.compile(r"[A-Za-z_]{1,24}=[^=]")
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


def unmarked(text: str) -> bool:
    """Whether a URL's password is no placeholder, and has no mark in it."""
    return not_placeholder(text) and "[redacted:" not in text


def password(text: str) -> bool:
    """Whether a word after a key's name may be a password: no placeholder, no call, no plain word."""
    if not not_placeholder(text) or any(c in text for c in "()[]{}") or path(text):
        return False
    word = text.strip(".,;:!?'\"`")
    if word.lower() in COMMON or len(word) < 4 or _words_of_east_asia(word):
        return False
    return mixed(word) or any(not c.isalnum() for c in word.strip("-_'")) or _camel(word)


def _words_of_east_asia(word: str) -> bool:
    """Whether a word is of a script without spaces, with a digit in it at most: a sentence."""
    return not word.isascii() and any(c >= "\u2e80" for c in word) and sum(map(str.isascii, word)) < 6


def prose(text: str) -> bool:
    """Whether a word after `password is` may be one: as above, and no word with a hyphen or a slash."""
    word = text.strip(".,;:!?'\"`-")
    return password(word) and not _DATED.match(word) and (mixed(word) or _camel(word) or _marked(word))


def strong(text: str) -> bool:
    """Whether a word looks like a secret with little around it that says so: long, and of several kinds."""
    word = text.rstrip(".,;:!?")
    if len(word) < 8 or not mixed(word) or not password(word) or "://" in word:
        return False
    if _CODE.match(word) or _DATED.match(word) or _FILE.search(word) or path(word) or _ARGUMENT.match(word):
        return False
    cases = any(c.isupper() for c in word) and any(c.islower() for c in word)
    return cases or _marked(word) or (len(word) >= 16 and sum(map(str.isdigit, word)) >= 4)


def random(text: str) -> bool:
    """Whether a text looks drawn by lot: long, of both cases and digits, without words or a path."""
    size = sum(map(str.isdigit, text))
    cases = any(c.isupper() for c in text) and any(c.islower() for c in text)
    return (
        ((len(text) >= 20 and size >= 1 and cases) or (len(text) >= 32 and size >= 6 and text.isalnum()))
        and not re.fullmatch(r"[0-9a-f]+", text)
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
    if re.fullmatch(r"[A-Za-z]+(?:[._/-][A-Za-z]*)*", text) and (
        len(text) < 24 or "_" in text or text.islower()
    ):
        return False  # words
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


def email(text: str) -> bool:
    """Whether a text is an address: a name before the @, and a top-level domain of letters."""
    name, _, domain = text.rpartition("@")
    if name == "git":
        return False  # a user of a server for code, not a person
    last = domain.rstrip(".-").rpartition(".")[2]
    return bool(name.strip(".")) and len(last) >= 2 and last.isalpha()


def spelled_email(text: str) -> bool:
    """Whether a text is an address with `(at)` for the @."""
    name, _, domain = re.sub(r"\s?[\[(] ?(?:at|AT|At) ?[\])]\s?", "@", text).partition("@")
    last = re.split(r"[.\])\s]+", domain)[-1]
    return bool(name.strip()) and len(last) >= 2 and last.isalpha()


def database(text: str) -> bool:
    """Whether what stands between the user and the host of a database's URL is a password, and no port."""
    return unmarked(text) and not re.match(r"\d{1,5}[/?]", text)


def pairs(text: str) -> bool:
    """Whether a text holds cookies: names and values."""
    return "=" in text[1:] and not_placeholder(text)


def luhn(number: str) -> bool:
    """Whether the digits satisfy Luhn's checksum (ISO/IEC 7812-1)."""
    total = 0
    for position, digit in enumerate(reversed(number)):
        value = int(digit) * (2 if position % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def card(text: str) -> bool:
    """Whether a number is a payment card's: an issuer's range and length, groups, and Luhn's checksum."""
    number = re.sub(r"\D", "", text)
    groups = tuple(map(len, re.findall(r"\d+", text)))
    fours = all(size == 4 for size in groups[:-1]) and groups[-1] <= 4
    grouped = (
        len(groups) == 1 or fours or groups in {(4, 6, 5), (4, 6, 4), (8, 8), (4, 4, 8), (4, 8, 4), (8, 4, 4)}
    )
    return grouped and _issuer(number) and len(set(number)) > 1 and luhn(number)


def _issuer(number: str) -> bool:
    length, head = len(number), int(number[:4])
    if number[0] == "4":
        return length in {13, 16, 19}
    if number[:2] in {"34", "37"}:
        return length == 15
    if number[:2] in {"36", "38"} or 3000 <= head <= 3059:
        return length in {14, 16}
    master = 5100 <= head <= 5599 or 2221 <= head <= 2720
    other = number[:2] in {"65", "62", "64", "35", "50", "60", "56", "57", "58", "67", "63"}
    return (master and length == 16) or (other and length in {16, 17, 18, 19})


_IBAN_COUNTRIES = """
    15 NO 16 BE 18 DK FI FO GL NL SD 19 MK SI 20 AT BA EE KZ LT LU XK 21 CH HR LI LV
    22 BG BH CR DE GB GE IE ME RS VA 23 AE GI IL IQ OM SO TL 24 AD CZ ES MD PK RO SA SE SK TN VG
    25 LY PT ST 26 IS TR 27 BI DJ FR GR IT MC MR SM 28 AL AZ BY CY DO GT HN HU LB NI PL SV
    29 BR EG PS QA UA 30 JO KW MU YE 31 MT SC 32 LC 33 RU
"""


def _lengths(table: str) -> dict[str, int]:
    lengths, length = {}, 0
    for word in table.split():
        if word.isdigit():
            length = int(word)
        else:
            lengths[word] = length
    return lengths


_IBAN_LENGTHS = _lengths(_IBAN_COUNTRIES)


def iban_length(text: str) -> int:
    """How many characters at the start of a text are an account number of its country."""
    wanted = _IBAN_LENGTHS.get(text[:2].upper(), 34)
    for position, character in enumerate(text):
        wanted -= character.isalnum()
        if wanted == 0:
            return position + 1
    return len(text)


def iban(text: str) -> bool:
    """Whether a text satisfies the checksum of ISO 13616."""
    compact = re.sub(r"[ .-]", "", text).upper()
    if _IBAN_LENGTHS.get(compact[:2], len(compact)) != len(compact) or not 15 <= len(compact) <= 34:
        return False
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def ssn(text: str) -> bool:
    """Whether a number may be a social security number of the United States."""
    number = re.sub(r"\D", "", text)
    area, group, serial = number[:3], number[3:5], number[5:]
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
        unmarked,
        password,
        prose,
        strong,
        bearer,
        basic,
        jwt,
        email,
        spelled_email,
        database,
        pairs,
        card,
        iban,
        ssn,
        cpf,
        dni,
        codice_fiscale,
        phone,
    )
}
