"""Looks at the numbers that stand for a person or an account: checksums, lengths, issuers.

Every check is linear in the length of its match.
"""

from __future__ import annotations

import re
from collections.abc import Callable


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


NUMBER_CHECKS: dict[str, Callable[[str], bool]] = {
    check.__name__: check for check in (card, iban, ssn, cpf, dni, codice_fiscale, phone)
}
