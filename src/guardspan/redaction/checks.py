"""Looks at a match that a pattern found: checksums, and whether a text can be a secret at all.

Every check is linear in the length of its match.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Callable

from guardspan.redaction.numbers import NUMBER_CHECKS

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
_UNPRONOUNCEABLE = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{5}")
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


def drawn(text: str) -> bool:
    """Whether a text looks drawn by lot: it mixes letters and digits, or its cases as no words do."""
    return mixed(text) or changes_case(text)


def changes_case(text: str) -> bool:
    """Whether capitals and small letters come in no order, without words that one could pronounce."""
    pairs = list(itertools.pairwise(text))
    rises = sum(one.islower() and two.isupper() for one, two in pairs)
    capitals = sum(one.isupper() and two.isupper() for one, two in pairs)
    odd = (capitals >= 3 and 4 * capitals >= rises) or _UNPRONOUNCEABLE.search(text) is not None
    return len(text) >= 20 and rises >= 3 and odd


def digits(text: str) -> bool:
    """Whether a text has a digit."""
    return any(c.isdigit() for c in text)


def not_placeholder(text: str) -> bool:
    """Whether a value stands for itself: no variable, type, sample word or mark."""
    return _PLACEHOLDER.search(text) is None


def not_mark(text: str) -> bool:
    """Whether a text is no mark of ours."""
    return not text.startswith("[redacted:")


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


OF_THE_WHOLE = frozenset(["mixed", "drawn", "digits"])
"""Checks that no part of a text passes where the whole does not."""

CHECKS: dict[str, Callable[[str], bool]] = {
    **NUMBER_CHECKS,
    **{
        check.__name__: check
        for check in (
            mixed,
            drawn,
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
        )
    },
}
