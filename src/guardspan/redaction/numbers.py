"""Looks at the numbers that stand for a person or an account: checksums, lengths, issuers, surroundings.

Checksums are those of python-stdnum, each imported at its first use. Own are the ranges of the issuers of
cards, the lengths of account numbers, and the forms of numbers that have no checksum. Every look is linear
in the length of its match, which the pattern bounds.
"""

from __future__ import annotations

import functools
import importlib
import ipaddress
import re
from collections.abc import Callable, Iterable

Span = tuple[int, int]
Place = Callable[[bytes, int, int, int], "Span | None"]
"""Where in a match a secret lies.

Takes the text, where the match starts, and where what may be secret starts and ends, in bytes. Gives start
and end of the secret, or None. An empty span says that up to there is none.
"""

_DIGITS = re.compile(rb"\d+")
_WORDS = re.compile(rb"[0-9A-Za-z]+")


@functools.cache
def _library(kind: str) -> Callable[[str], bool]:
    """The check of one kind of number in python-stdnum, by the name of its module."""
    check: Callable[[str], bool] = importlib.import_module(f"stdnum.{kind}").is_valid
    return check


# --- surroundings ------------------------------------------------------------------------------------

_WORD_BEFORE = re.compile(rb"[0-9A-Za-z_]{1,40}\Z")
_WORD_AFTER = re.compile(rb"-[0-9A-Za-z]{1,40}")


def _alone(data: bytes, start: int, end: int) -> bool:
    """Whether a number stands for itself: no part of a decimal, a version, a UUID or an identifier."""
    before, after = data[max(0, start - 2) : start], data[end : end + 2]
    if (before[-1:] == b"." and before[:1].isdigit()) or (after[:1] == b"." and after[1:].isdigit()):
        return False
    if before[-1:] == b"-":
        word = _WORD_BEFORE.search(data, max(0, start - 41), start - 1)
        if word and any(c in b"0123456789" for c in word.group()):
            return False
    tail = _WORD_AFTER.match(data, end, end + 41) if after[:1] == b"-" else None
    return tail is None or tail.group()[1:].isdigit() or tail.group()[1:].isalpha()


def _apart(data: bytes, start: int, end: int) -> bool:
    """Whether a number of fixed form is no part of a longer one: of a decimal, a path of dates, a serial."""
    before, after = data[max(0, start - 2) : start], data[end : end + 2]
    if before[-1:] in {b"-", b"+"} or (before[-1:] == b"." and before[:1].isdigit()):
        return False
    if data[start + 6 : start + 7] == b"/" and b"/" in (before[-1:], after[:1]):
        return False
    return re.match(rb"[-+]\w|\.\d", after) is None


# --- cards -------------------------------------------------------------------------------------------

# Many numbers joined by hyphens or dots: data, in which no card begins.
_CHAIN = re.compile(rb"(?:\d{1,19}[.-]){6,800}")
_LONGEST_CHAIN = 4096
_SEPARATORS = b" \t.-"
_SEPARATED = bytes.maketrans(_SEPARATORS, b"    ")
_GROUPS = {(4, 6, 5), (4, 6, 4), (8, 8), (4, 4, 8), (4, 8, 4), (8, 4, 4)}


def card(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """A payment card's number: an issuer's range and length, groups, and Luhn's checksum.

    Groups after it that are none of it, such as a date of expiry, are left.
    """
    chain = _CHAIN.match(data, start, start + _LONGEST_CHAIN)
    if chain is not None:
        return chain.end(), chain.end()
    text = data[start:end]
    number = text.translate(None, _SEPARATORS).decode()
    sizes = tuple(map(len, text.translate(_SEPARATED).split()))
    for count in range(1, len(sizes) + 1):
        length = sum(sizes[:count])
        if length > 12 and _is_card(number[:length], sizes[:count]):
            last = [group.end() for group in _DIGITS.finditer(data, start, end)][count - 1]
            if _alone(data, start, last):
                return start, last
    return None


def _is_card(number: str, groups: tuple[int, ...]) -> bool:
    fours = all(size == 4 for size in groups[:-1]) and groups[-1] <= 4
    grouped = len(groups) == 1 or fours or groups in _GROUPS
    return grouped and _issuer(number) and len(set(number)) > 1 and _library("luhn")(number)


def _issuer(number: str) -> bool:
    length, head = len(number), int(number[:4])
    if number[0] == "4":
        return length in {13, 16, 19}
    if number[:2] in {"34", "37"}:
        return length == 15
    if number[:2] in {"36", "38", "39"} or 3000 <= head <= 3059 or head == 3095:
        return length in {14, 16}
    sixteen = 5100 <= head <= 5599 or 2221 <= head <= 2720 or 2200 <= head <= 2204
    other = number[:2] in {"65", "62", "64", "35", "50", "60", "56", "57", "58", "67", "63"}
    return (sixteen and length == 16) or (other and length in {16, 17, 18, 19})


# --- accounts ----------------------------------------------------------------------------------------

_IBAN_COUNTRIES = """
    15 NO 16 BE 18 DK FI FK FO GL NL SD 19 MK SI 20 AT BA EE KZ LT LU MN XK 21 CH HR LI LV
    22 BG BH CR DE GB GE IE ME RS VA 23 AE GI IL IQ OM SO TL 24 AD CZ ES MD PK RO SA SE SK TN VG
    25 AO CV GW LY MZ PT ST 26 DZ IR IS TR 27 BI CF CG CM DJ FR GA GQ GR IT KM MC MG MR SM TD
    28 AL AZ BF BJ BY CI CY DO GT HN HU LB MA ML NE NI PL SN SV TG 29 BR EG PS QA UA 30 JO KW MU YE
    31 MT SC 32 LC 33 RU
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


def iban(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """An account's number: its country's length, and the checksum of ISO 13616.

    The bank's part is not looked at, as the library would by default: a number with a checksum that is right
    leads to an account too often to be shown.
    """
    text = data[start:end].decode("ascii", "replace")
    if text[:2].upper() not in _IBAN_LENGTHS:
        return None
    text = text[: iban_length(text)]
    end = start + len(text)
    compact = re.sub(r"[^0-9A-Z]", "", text.upper())
    if len(compact) != _IBAN_LENGTHS[compact[:2]] or data[end : end + 1].isalnum():
        return None
    return (start, end) if _library("iso7064.mod_97_10")(compact[4:] + compact[:4]) else None


# --- national ids: kinds -----------------------------------------------------------------------------

_SSN = re.compile(r"(?!000|666|9)\d{3}-?(?!00)\d{2}-?(?!0000)\d{4}|9\d{2}(?:5\d|6[0-5])\d{4}")
_NINO = re.compile(r"(?:QQ|(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z])\d{6}[A-D]")


def _united_states(number: str) -> bool:
    """A social security number has a form only; the library leaves out those that were printed in public.

    A taxpayer's number (ITIN) of the newer groups, 50 to 65, counts without hyphens only: where it is named.
    """
    return _SSN.fullmatch(number) is not None or _library("us.itin")(number)


def _national_insurance(number: str) -> bool:
    return _NINO.fullmatch(number.replace(" ", "")) is not None


def _denmark(number: str) -> bool:
    """With the checksum that numbers had until 2007; the library looks at the date only."""
    check = importlib.import_module("stdnum.dk.cpr")
    return bool(check.is_valid(number)) and check.checksum(check.compact(number)) == 0


def _israel(number: str) -> bool:
    return len(number) == 9 and _library("il.idnr")(number)


def _canada(number: str) -> bool:
    """The library leaves out what begins with 0, as examples in print do."""
    return len(number) == 9 and _library("luhn")(number)


_OWN: dict[str, Callable[[str], bool]] = {
    "us": _united_states,
    "nino": _national_insurance,
    "dk": _denmark,
    "il": _israel,
    "sin": _canada,
}


def _is_one_of(kinds: Iterable[str], number: str) -> bool:
    return len(set(number)) > 2 and any((_OWN.get(kind) or _library(kind))(number) for kind in kinds)


# --- national ids: known by their form -----------------------------------------------------------------

_FORMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"\d{3}-\d{2}-\d{4}", ("us",)),
    (r"\d{2}-\d{8}-\d", ("ar.cuit",)),
    (r"\d{3}\.\d{3}\.\d{3}-\d{2}", ("br.cpf",)),
    (r"\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}", ("br.cnpj",)),
    (r"\d{1,2}\.\d{3}\.\d{3}-[\dKk]", ("cl.rut",)),
    (r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}", ("be.nn", "be.bis")),
    (r"756\.\d{4}\.\d{4}\.\d{2}|756\d{10}", ("ch.ssn",)),
    (r"\d{6}[-+]\d{4}", ("se.personnummer", "dk", "fi.hetu", "is_.kennitala")),
    (r"\d{6}[-+A-FU-Y]\d{3}[0-9A-Y]", ("fi.hetu",)),
    # A later year would be that of a file or a ticket, named by its date.
    (r"(?:19\d{2}|200\d)\d{4}[-+]\d{4}", ("se.personnummer",)),
    (r"[0-3]\d{5}-\d{5}", ("lv.pvn",)),
    (r"\d{6}-\d{7}", ("kr.rrn",)),
    (r"\d{6}/\d{4}", ("cz.rc",)),
    (r"[XYZ]\d{7}-?[A-Z]", ("es.nie",)),
    (r"\d{8}-?[A-Z]|\d{2}\.\d{3}\.\d{3}-[A-Z]", ("es.dni",)),
    (r"[A-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]", ("nino",)),
    (r"[A-Z]{3}P[A-Z]\d{4}[A-Z]", ("in_.pan",)),
    (r"(?i:[A-Z]{6}[0-9L-V]{2}[A-T][0-9L-V]{2}[A-Z][0-9L-V]{3}[A-Z])", ("it.codicefiscale",)),
    (r"(?i:[A-Z]{4}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d)", ("mx.curp",)),
    (r"[12][ \d]{3,}(?:2[AB])?[ \d]{8,}", ("fr.nir",)),
    (r"\d{17}[\dXx]", ("cn.ric",)),
)
_FORM = re.compile("|".join(f"({form})" for form, _ in _FORMS))


def national(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """A national id that its form and its checksum tell."""
    text = data[start:end].decode("ascii", "replace")
    found = _FORM.fullmatch(text)
    if found is None or not found.lastindex or not _apart(data, start, end):
        return None
    return (start, end) if _is_one_of(_FORMS[found.lastindex - 1][1], text) else None


# --- national ids: known by a label --------------------------------------------------------------------

# Patterns of bytes (UTF-8), for RE2 and for re, without regard to case.
_O, _E, _I = r"(?:o|\xc3[\xb8\x98\xb6\x96]|oe)", r"(?:e|\xc3[\xa9\x89])", r"(?:i|\xc3[\xad\x8d])"
LABELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"ssn|itin|social[ _-]?security", ("us",)),
    (r"nhs", ("gb.nhs",)),
    (r"social[ _-]?insurance|sin|nas", ("sin",)),
    (r"cpf", ("br.cpf",)),
    (r"cnpj", ("br.cnpj",)),
    (r"nif", ("pt.nif", "es.dni", "es.nie")),
    (r"dni|nie", ("es.dni", "es.nie")),
    (rf"nir|insee|s{_E}curit{_E} sociale", ("fr.nir",)),
    (r"steuer-?id(?:ent(?:ifikations)?(?:nummer|nr))?|steuerliche identifikationsnummer|idnr", ("de.idnr",)),
    (r"bsn|burgerservicenummer|sofi-?nummer", ("nl.bsn",)),
    (r"rijksregisternummer|registre national|insz|niss", ("be.nn", "be.bis")),
    (r"pesel", ("pl.pesel",)),
    (r"person-?n(?:ummer|r)|samordningsnummer", ("se.personnummer", "no.fodselsnummer")),
    (rf"f{_O}dselsn(?:umme)?r|fnr|d-nummer", ("no.fodselsnummer",)),
    (r"cpr", ("dk.cpr",)),
    (r"cnp|cod numeric personal", ("ro.cnp",)),
    (rf"rodn{_E} (?:c|\xc4[\x8c\x8d]){_I}slo|birth number", ("cz.rc",)),
    (r"egn", ("bg.egn",)),
    (r"\xd0[\x95\xb5]\xd0[\x93\xb3]\xd0[\x9d\xbd]", ("bg.egn",)),
    (r"isikukood|asmens kodas", ("ee.ik", "lt.asmens")),
    (r"personas kods", ("lv.pvn",)),
    (r"(?:t\.?c\.? ?)?kimlik|tckn", ("tr.tckimlik",)),
    (r"aadhaa?r|uidai", ("in_.aadhaar",)),
    (r"pan", ("in_.pan",)),
    (r"tfn|tax[ _-]?file", ("au.tfn",)),
    (r"(?:sa|rsa|south african|israeli)[ _-]?id|id[ _-]?(?:number|no)|teudat[ _-]?zehut", ("za.idnr", "il")),
    (r"cui[tl]", ("ar.cuit",)),
    (r"rut", ("cl.rut",)),
    (r"rrn|resident registration", ("kr.rrn",)),
    (r"\xec\xa3\xbc\xeb\xaf\xbc\xeb\x93\xb1\xeb\xa1\x9d\xeb\xb2\x88\xed\x98\xb8", ("kr.rrn",)),
    (r"my[ _-]?number", ("jp.in_",)),
    (
        r"\xe3\x83\x9e\xe3\x82\xa4\xe3\x83\x8a\xe3\x83\xb3\xe3\x83\x90\xe3\x83\xbc"
        r"|\xe5\x80\x8b\xe4\xba\xba\xe7\x95\xaa\xe5\x8f\xb7",
        ("jp.in_",),
    ),
    (r"ahv|avs", ("ch.ssn",)),
    (r"svnr|sv-?nummer|(?:sozial)?versicherungsnummer", ("at.vnr",)),
    (r"\xd7\xaa\.?\xd7\x96|\xd7\x96\xd7\x94\xd7\x95\xd7\xaa", ("il",)),
    (r"oib", ("hr.oib",)),
    (r"amka", ("gr.amka",)),
    (r"kennitala", ("is_.kennitala",)),
    (r"jmbg|em(?:s|\xc5[\xa1\xa0])o", ("si.emso",)),
    (r"ppsn?", ("ie.pps",)),
    (r"national[ _-]?(?:id(?:entity|entification)?|number)", ()),
    (r"tax[ _-]?(?:payer|id|number)|tin|personal[ _-]?(?:id|code)", ()),
)
_LABEL = re.compile("|".join(f"({label})" for label, _ in LABELS).encode(), re.I)
# What a label that names no country may stand for, by the count of characters.
_ANY: dict[int, tuple[str, ...]] = {
    8: ("au.tfn", "cl.rut", "ie.pps"),
    9: ("us", "nl.bsn", "sin", "pt.nif", "au.tfn", "il", "es.dni", "es.nie", "cl.rut", "ie.pps"),
    10: (
        "gb.nhs",
        "bg.egn",
        "at.vnr",
        "se.personnummer",
        "dk",
        "cz.rc",
        "is_.kennitala",
        "fi.hetu",
        "in_.pan",
    ),
    11: (
        *(
            "de.idnr",
            "pl.pesel",
            "br.cpf",
            "be.nn",
            "be.bis",
            "no.fodselsnummer",
            "ee.ik",
            "lt.asmens",
            "lv.pvn",
        ),
        *("tr.tckimlik", "ar.cuit", "hr.oib", "gr.amka"),
    ),
    12: ("in_.aadhaar", "jp.in_", "se.personnummer"),
    13: ("za.idnr", "ro.cnp", "kr.rrn", "ch.ssn", "si.emso"),
    14: ("br.cnpj",),
    15: ("fr.nir",),
    18: ("cn.ric",),
}


def national_named(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """A national id beside its name, which says what checksum it has; what follows it is left."""
    label = _LABEL.search(data, begin, start)
    kinds = LABELS[label.lastindex - 1][1] if label and label.lastindex else ()
    for last in reversed([word.end() for word in _WORDS.finditer(data, start, end)]):
        number = re.sub(r"[^0-9A-Z]", "", data[start:last].decode("ascii", "replace").upper())
        if len(number) >= 8 and _is_one_of(kinds or _ANY.get(len(number), ()), number):
            return start, last
    return None


# --- telephones --------------------------------------------------------------------------------------

_NO_PHONE = re.compile(
    r"(?:19|20)\d\d ?[-/] ?(?:19|20)\d\d$"  # years
    r"|(?:\+?\d{0,4} )?(?:19|20)\d\d[-./]\d\d?[-./]\d\d?\b|\d\d?[-./]\d\d?[-./](?:19|20)\d\d\b"  # a day
    r"|(?:19|20)\d\d(?:0[1-9]|1[0-2])[0-3]\d$"
    # An address, a version, a decimal.
    r"|\d{1,3}(?:\.\d{1,3}){3}(?![.\d])|\d{1,2}(?:\.\d{1,2}){1,2}$|\d+\.\d+$"
)
_COORDINATES = re.compile(rb"[,; ]{1,2}[+-]?\d{1,3}\.\d")


_EXTENSION = re.compile(r"[A-Za-z#,].*")


def _phone(data: bytes, start: int, end: int, fewest: int) -> Span | None:
    """The longest number in a match that may be a telephone's; a date or a serial behind it is left."""
    if _NO_PHONE.match(data[start:end].decode("ascii", "replace")):
        return None
    for last in (end, *reversed([group.end() for group in _DIGITS.finditer(data, start, end)])):
        number = re.sub(r"\D", "", _EXTENSION.sub("", data[start:last].decode("ascii", "replace")))
        goes_on = re.match(rb"\.\d|-\w|:\d|%", data[last : last + 2])
        if fewest <= len(number) <= 15 and len(set(number)) > 2 and not goes_on:
            return start, last
    return None


def phone(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """A telephone's number by its form: 9 to 15 digits (E.164), no sum, no coordinates, no date."""
    before = data[max(0, start - 1) : start]
    if before.isalnum() or before in {b"_", b")", b"."}:
        return None
    if before == b"-" and data[max(0, start - 2) : start - 1].isalnum():
        return None
    if data[start : start + 4].count(b".") and _COORDINATES.match(data, end, end + 8):
        return None
    return _phone(data, start, end, 9)


def phone_named(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """A telephone's number beside a word that says so: 7 to 15 digits."""
    return _phone(data, start, end, 7)


# --- addresses of mail and of machines -----------------------------------------------------------------

# Ends of files, units of systemd, attributes of arrays: what follows an @ in code and logs, and is no domain.
_NO_DOMAIN = frozenset(
    "service socket timer target mount slice scope png jpg jpeg gif webp svg avif whl exe dll values shape "
    "transpose mean conj".split()
)
_VERSION = re.compile(r"v?\d+\.\d+(?:[.-]|$)|v?\d+(?:\.\d+)?x\.")
_QUOTED_NAME = re.compile(rb'"[A-Za-z0-9](?:[A-Za-z0-9 ._+-]{0,62}[A-Za-z0-9])?"\Z')


def mail(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """An address of mail: a name before the @, and a domain that is no version, file or attribute."""
    at = data.rfind(b"@", start, end)
    quoted = _QUOTED_NAME.search(data, max(0, at - 66), at) if data[at - 1 : at] == b'"' and at else None
    start = quoted.start() if quoted else start
    end = _end_of_domain(data, at + 1, end)
    name, _, domain = data[start:end].decode("utf-8", "replace").rpartition("@")
    last = domain.rstrip(".-").rpartition(".")[2]
    if name == "git" or not name.strip('."') or len(last) < 2 or not last.replace("-", "").isalnum():
        return None
    plain = last.isalpha() or last.lower().startswith("xn--")
    if not plain or last.lower() in _NO_DOMAIN or _VERSION.match(domain) or data[end : end + 1] == b"(":
        return None
    return start, end


def _end_of_domain(data: bytes, start: int, end: int) -> int:
    """Without single letters behind it, as where the next sentence begins without a space."""
    while data[end - 2 : end - 1] == b"." and b"." in data[start : end - 2]:
        end -= 2
    return end


_NO_HOST = re.compile(r"(?i)(?:the|this|that|an?|any|our|my|its?)\b")
_AT = re.compile(r"\s?[\[({<] ?at ?[\])}>]\s?| at ", re.I)


def mail_spelled(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """An address of mail with `(at)` for the @."""
    name, _, domain = _AT.sub("@", data[start:end].decode("utf-8", "replace")).partition("@")
    last = re.split(r"[.\])}>\s]+", domain)[-1]
    named = name.strip() and len(last) >= 2 and last.isalpha() and not _NO_HOST.match(domain)
    return (start, end) if named else None


# More parts than an address has.
_PARTS = re.compile(rb"(?:\d{1,3}\.){5,2000}|(?:[0-9A-Fa-f]{0,4}:){9,2000}")
_VERSION_BEFORE = re.compile(rb"(?i)(?:version|release|build|ver|v)[\"']?[\s:=.]{0,3}[\"']?\Z")


def ip(data: bytes, begin: int, start: int, end: int) -> Span | None:
    """The address of a machine other than itself: no loopback, netmask or version."""
    chain = _PARTS.match(data, start, start + _LONGEST_CHAIN)
    if chain is not None:
        return chain.end(), chain.end()
    text = data[start:end].decode("ascii", "replace")
    before = data[max(0, start - 14) : start]
    if before[-1:] in {b".", b"-"} or re.match(rb"\.\d|:?\w*-?[A-Za-z]", data[end : end + 2]):
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.version == 6 and (len(text) < 6 or not any(c.isdigit() for c in text)):
        return None  # names with :: between, as in code
    kept = address.is_loopback or address.is_unspecified or _mask(address) or _VERSION_BEFORE.search(before)
    return None if kept else (start, end)


def _mask(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is the mask of a network of 2**24 hosts or fewer."""
    hosts = int(address) ^ 0xFFFFFFFF
    return address.version == 4 and hosts <= 0xFFFFFF and hosts & (hosts + 1) == 0


PLACES: dict[str, Place] = {
    place.__name__: place
    for place in (card, iban, national, national_named, phone, phone_named, mail, mail_spelled, ip)
}


def _as_check(place: Place) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        data = text.encode()
        span = place(data, 0, 0, len(data))
        return span is not None and span[0] < span[1]

    return check


NUMBER_CHECKS: dict[str, Callable[[str], bool]] = {name: _as_check(place) for name, place in PLACES.items()}
