"""What leads to a person or an account: numbers that are valid go wherever they stand, others stay."""

from __future__ import annotations

import importlib
import itertools
import json
import random
from collections.abc import Callable

import pytest
from stdnum import luhn
from stdnum.iso7064 import mod_97_10

from guardspan.redaction import Redactor, Rule
from guardspan.redaction.persons import OPTIONAL_RULES

REDACTOR = Redactor()
WITH_ADDRESSES = Redactor(extra_rules=OPTIONAL_RULES)

CONTEXTS: dict[str, Callable[[str, str], str]] = {
    "prose": lambda label, number: f"They gave {label} {number} to us.",
    "quoted": lambda label, number: f"{label}: '{number}'",
    "JSON": lambda label, number: json.dumps({label or "value": number, "n": 1}),
    "JSON in JSON": lambda label, number: json.dumps({"log": json.dumps({label or "value": number})}),
    "CSV": lambda label, number: f"7,ada,{label and label + ' '}{number},2024-05-01",
    "query": lambda label, number: f"https://x.example/y?{label or 'v'}={number.replace(' ', '%20')}&z=1",
    "log": lambda label, number: f"2026-11-30 10:00:00,123 INFO app {label or 'v'}={number} ok=1",
    "no-break spaces": lambda label, number: f"\u00bb{label} {number}\u00ab".replace(" ", "\u00a0"),
}
"""A label, or nothing, and a number: a text in which both stand."""

# Kinds that form and checksum tell: the module of python-stdnum, and the form; # is a digit by lot.
FORMS = [
    ("br.cpf", "###.###.###-##"),
    ("br.cnpj", "##.###.###/0001-##"),
    ("es.dni", "########Z"),
    ("es.nie", "X#######L"),
    ("it.codicefiscale", "RSSMRA8#T1#A562S"),
    ("fr.nir", "1 8# 12 7# 10# #01 ##"),
    ("fr.nir", "28#1175##1##1##"),
    ("be.nn", "8#.0#.1#-###.##"),
    ("se.personnummer", "8#0#1#-####"),
    ("se.personnummer", "198#0#1#-####"),
    ("fi.hetu", "1#0#8#-###T"),
    ("cz.rc", "8#0#1#/####"),
    ("lv.pvn", "1#0#8#-1####"),
    ("kr.rrn", "8#0#1#-10#####"),
    ("cn.ric", "11010119#00#1####X"),
    ("ch.ssn", "756.####.####.##"),
    ("ch.ssn", "756##########"),
    ("ar.cuit", "20-########-#"),
    ("cl.rut", "1#.###.###-#"),
    ("mx.curp", "BOXW8#08#0HNERXN0#"),
    ("us.itin", "9##-##-####"),
]

# Kinds that need their name beside them.
NAMED = [
    ("nhs", "gb.nhs", "### ### ####"),
    ("SIN", "ca.sin", "### ### ###"),
    ("cpf", "br.cpf", "###########"),
    ("cnpj", "br.cnpj", "##############"),
    ("Steuer-ID", "de.idnr", "###########"),
    ("bsn", "nl.bsn", "#########"),
    ("rijksregisternummer", "be.nn", "8#0#1######"),
    ("pesel", "pl.pesel", "8#0#1######"),
    ("personnummer", "se.personnummer", "8#0#1#####"),
    ("f\u00f8dselsnummer", "no.fodselsnummer", "1#0#8######"),
    ("CPR", "dk.cpr", "1#0#8# ####"),
    ("NIF", "pt.nif", "2########"),
    ("CNP", "ro.cnp", "18#0#1#400###"),
    ("rodn\u00e9 \u010d\u00edslo", "cz.rc", "8#0#1#####"),
    ("EGN", "bg.egn", "8#0#1#####"),
    ("\u0415\u0413\u041d", "bg.egn", "8#0#1#####"),
    ("isikukood", "ee.ik", "38#0#1#####"),
    ("asmens kodas", "lt.asmens", "38#0#1#####"),
    ("personas kods", "lv.pvn", "1#0#8#1####"),
    ("TC kimlik no", "tr.tckimlik", "1##########"),
    ("aadhaar", "in_.aadhaar", "#### #### ####"),
    ("tfn", "au.tfn", "### ### ###"),
    ("ID_number", "za.idnr", "8#0#1####008#"),
    ("CUIT", "ar.cuit", "20#########"),
    ("rut", "cl.rut", "1#######-#"),
    ("rrn", "kr.rrn", "8#0#1#10#####"),
    ("my_number", "jp.in_", "############"),
    ("\u500b\u4eba\u756a\u53f7", "jp.in_", "############"),
    ("AHV", "ch.ssn", "756 #### #### ##"),
    ("SVNR", "at.vnr", "#### 1#0#8#"),
    ("teudat_zehut", "il.idnr", "#########"),
    ("national_id", "pl.pesel", "8#0#1######"),
    ("OIB", "hr.oib", "###########"),
    ("kennitala", "is_.kennitala", "1#0#8####9"),
    ("PPS", "ie.pps", "#######T"),
]


def drawn(kind: str, form: str, seed: int, *, right: bool) -> str:
    """A number of a kind by lot, its checksum right or not."""
    chooser = random.Random(f"{kind} {form} {seed}")
    is_valid = importlib.import_module(f"stdnum.{kind}").is_valid
    for _ in range(1_000_000):
        number = "".join(chooser.choice("0123456789") if c == "#" else c for c in form)
        if is_valid(number.replace(" ", "")) == right and len(set(number)) > 4:
            return number
    raise AssertionError(f"no such number: {kind} {form}")


def rules(text: str) -> list[str]:
    """The ids of the rules that find something."""
    return [finding.rule for finding in REDACTOR.explain(text)]


def gone(text: str, number: str) -> bool:
    """Whether a number, however its spaces are written, went, and JSON stayed JSON."""
    redacted = REDACTOR.redact(text).text
    if text.startswith("{"):
        json.loads(redacted)
    return all(part not in redacted for part in number.split() if len(part) > 3)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_ids_that_their_form_tells_go(kind: str, form: str, context: str) -> None:
    """A national id with a form of its own goes without a label."""
    for seed in range(3):
        number = drawn(kind, form, seed, right=True)
        text = CONTEXTS[context]("", number)
        assert rules(text) == ["national-id"], text
        assert gone(text, number), text


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_ids_with_a_wrong_checksum_stay(kind: str, form: str) -> None:
    """What has the form of a national id and not its checksum is something else."""
    for seed in range(5):
        text = CONTEXTS["prose"]("", drawn(kind, form, seed, right=False))
        if (kind, form[-5]) == ("se.personnummer", "-") and rules(text):
            continue  # another country's, of the same form
        assert "national-id" not in rules(text), text


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(("label", "kind", "form"), NAMED)
def test_named_ids_go(label: str, kind: str, form: str, context: str) -> None:
    """A national id of mere digits goes where its name stands beside it."""
    for seed in range(3):
        number = drawn(kind, form, seed, right=True)
        text = CONTEXTS[context](label, number)
        assert "national-id" in rules(text), text
        assert gone(text, number), text


@pytest.mark.parametrize(("label", "kind", "form"), [case for case in NAMED if case[1] not in {"dk.cpr"}])
def test_ids_without_their_name_stay(label: str, kind: str, form: str) -> None:
    """Mere digits are an amount, an order, a count: one in ten has some checksum."""
    number = drawn(kind, form, 1, right=True).replace(" ", "").replace("-", "")
    if not number.startswith("756"):
        assert "national-id" not in rules(f"order {number} shipped, {{'n': {number}}}")


def test_a_named_id_that_is_a_number_in_json_goes() -> None:
    """JSON stays JSON where a number has no quotes."""
    assert json.loads(REDACTOR.redact('{"bsn": 111222333, "n": 1}').text) == {
        "bsn": "[redacted:national-id]",
        "n": 1,
    }


# --- cards and accounts ------------------------------------------------------------------------------

BRANDS = [
    ("4", 16),
    ("4", 13),
    ("4", 19),
    ("51", 16),
    ("2221", 16),
    ("37", 15),
    ("6011", 16),
    ("62", 17),
    ("36", 14),
    ("3528", 16),
    ("5018", 18),
]
SEPARATORS = ["", " ", "  ", "-", ".", "\u00a0", "\u2009", "\u2007", "\u202f", "\u2011"]


def card(head: str, length: int, seed: int) -> str:
    """A card's number by lot, of which no shorter part is one."""
    chooser = random.Random(f"{head} {length} {seed}")
    while True:
        number = head + "".join(chooser.choice("0123456789") for _ in range(length - len(head) - 1))
        if length <= 16 or not luhn.is_valid(number[:16]):
            return number + luhn.calc_check_digit(number)


def grouped(number: str, separator: str) -> str:
    """In groups as they are printed: 4-6-5 of fifteen digits, fours otherwise."""
    cuts = [0, 4, 10, 15] if len(number) == 15 else [*range(0, len(number), 4), len(number)]
    return separator.join(number[a:b] for a, b in itertools.pairwise(cuts))


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize(("head", "length"), BRANDS)
def test_cards_go_and_neighbours_stay(head: str, length: int, separator: str) -> None:
    """A card's number goes whatever parts it; one digit off, it stays."""
    for seed, context in enumerate(CONTEXTS.values()):
        number = card(head, length, seed)
        text = context("card", grouped(number, separator))
        assert rules(text) == ["card"], text
        wrong = number[:-1] + str((int(number[-1]) + 1 + seed % 8) % 10)
        text = context("card", grouped(wrong, separator))
        assert "card" not in rules(text), text


IBANS = [
    "DE" + "#" * 20,
    "NL##ABNA##########",
    "GB##NWBK##############",
    "NO#############",
    "FR" + "#" * 25,
]


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("form", IBANS)
def test_accounts_go_and_neighbours_stay(form: str, separator: str) -> None:
    """An account's number goes in either case and whatever parts it; with a wrong checksum it stays."""
    for seed, context in enumerate(CONTEXTS.values()):
        chooser = random.Random(f"{form} {seed}")
        body = "".join(chooser.choice("0123456789") if c == "#" else c for c in form[4:])
        for shift, wanted in ((0, True), (1, False)):
            digits = (int(mod_97_10.calc_check_digits(body + form[:2])) + shift - 2) % 97 + 2
            whole = f"{form[:2]}{digits:02}{body}"
            number = separator.join(whole[i : i + 4] for i in range(0, len(whole), 4))
            text = context("account", number.lower() if seed % 2 else number)
            assert ("iban" in rules(text)) == wanted, text


# --- by hand -----------------------------------------------------------------------------------------

GO = """
card     2024 4111 1111 1111 1111|4111 1111
card     session_key=4111111111111111|4111
card     key: 4111 1111 1111 1111|4111
card     17,4111111111111111,2024|4111
card     4111111111111111-12/27|4111
card     3782-822463-10005|822463
card     {"n": 4111111111111111}|4111
iban     IBAN: gb82west12345698765432.|12345698765432
email    ada+news@example.org|ada
email    <ada@example.org>|ada
email    {"ada@example.org":"x"}|ada
email    {"mail":"\\"ada l\\"@example.org"}|ada
email    "ada lovelace"@example.org|lovelace
email    ada[at]example.org|ada
email    ada (at) example (dot) org|ada
email    ada at example dot org|ada
email    user=ada%40example.org&x=1|ada
email    ada&#64;example.org|ada
email    mailto:ada@b\u00fccher.example|cher
email    \u7528\u6237@\u4f8b\u5b50.\u6d4b\u8bd5|\u6d4b\u8bd5
phone    +49 30 901820|901820
phone    +1 (555) 010-9999|9999
phone    +44 20 7946 0958 x123|0958
phone    +49 30 901820 2024-05-01|901820
phone    Tel 030 901820 2024-05-01|901820
phone    0044 20 7946 0958|0958
phone    (555) 010-9999|9999
phone    1-800-555-0199|0199
phone    tel:+15550109999|15550109999
phone    Tel 030 901820|901820
phone    Tel. (030) 90 18 20|90 18 20
phone    Telefon: 030/901820|901820
phone    T\u00c9L\u00c9PHONE 06.12.34.56.78|12.34.56.78
phone    t\u00e9l. : 06 12 34 56 78|12 34 56 78
phone    mobile 07700 900123|900123
phone    call me on 07700 900123|900123
phone    customerPhone: "07700900123"|900123
phone    home_phone=2125550199|2125550199
phone    {"phone": 2125550199}|2125550199
phone    Telefonnummer: 0171 1234567|1234567
phone    Handy 0171 1234567|1234567
phone    \u7535\u8bdd\uff1a010-62345678|62345678
phone    phone number is 555 010 9999|9999
national-id SSN 078-05-1120|1120
national-id ssn: 078 05 1120|1120
national-id GET /users/078-05-1120/orders|1120
national-id https://x.example/cpf/529.982.247-25/view|247
national-id social security number is 078051120|078051120
national-id session_key=078-05-1120|1120
national-id 912-55-1234 is no ITIN, ITIN: 912551234 is|912551234
national-id NINO: QQ123456C|123456
national-id AB 12 34 56 C|34
national-id pan: AABCP1234A|AABCP
national-id <bsn>111222333</bsn>|111222333
national-id <SIN>046 454 286</SIN>|454
national-id tax id 123-45-6789|6789
"""

STAY = """
sin(123456782) using 123456782
550e8400-e29b-41d4-a716-446655440000
411111111111111111111111111111
id_4111111111111111 req4111111111111111
deadbeef4111111111111111
1700000000000000 20240501123000123
@decorator.name
@scope/pkg@1.2.3
npm i @types/node@18.11.9
git@github.com:ada/x.git
ssh user@host uptime
ssh root@10.0.0.1
name@sha256:0a1b2c
y = x @ w.T + z@b.T
getty@tty1.service
foo@1.0.0-next.beta
golang.org/x/tools@v0.1.0-deprecated.beta
icon@2x.png
{"ada": "@example"}
look at this dot com bubble
2024-05-01T10:00:00+02:00
2024-05-01 10:00:00 +0200
Mon May 1 10:00:00 2024 +1000 2024-05-01
127.0.0.1:8080 and [::1]:4318
48.856614, 2.352222
order 1234567890
9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
phone 2020-2024
from $1,299.00 to mobile 1299.00
iPhone 15 2024
mobile: 12.0.1
tel: 192.168.10.20
phone book 2024-05-01
call 12345678
1 + 234567890123
20240115-1234
build 20240115-12345
run 123456785
pan 20 degrees, tin 12345678
12345-67-8901 and 123-45-67890
ISBN 978-3-16-148410-0 or 9783161484100
zip 12345-6789
{"created": 1700000000, "phone": null}
{"total_tokens": 1234567890123}
"""


@pytest.mark.parametrize("line", GO.strip().splitlines())
def test_what_leads_to_a_person_goes(line: str) -> None:
    """Cases by hand: what is behind the bar goes."""
    rule, _, rest = line.partition(" ")
    text, _, secret = rest.strip().rpartition("|")
    redacted = REDACTOR.redact(text).text
    assert f"[redacted:{rule}]" in redacted
    assert secret not in redacted


@pytest.mark.parametrize("text", STAY.strip().splitlines())
def test_what_leads_to_nobody_stays(text: str) -> None:
    """Near misses by hand: code, versions, times, amounts."""
    assert REDACTOR.redact(text) == (text, 0)


@pytest.mark.parametrize("rule", OPTIONAL_RULES, ids=lambda rule: rule.reason)
def test_addresses_of_machines_go_where_asked_for(rule: Rule) -> None:
    """The option's own examples are true, and without it they stay."""
    for text in rule.matches:
        assert "[redacted:ip]" in WITH_ADDRESSES.redact(text).text, text
        assert REDACTOR.redact(text) == (text, 0)
    for text in rule.misses:
        assert WITH_ADDRESSES.redact(text) == (text, 0)


# --- surroundings ------------------------------------------------------------------------------------

ALONE = """
x = 0.4111111111111111 + 1
4111111111111111.5
a1b2-4111-1111-1111-1111
550e8400-4111-1111-1111-111111111111
4111-1111-1111-1111-4111-1111-1111-1111
+48.8566140, +2.3522219
x = 5+1234567890
1-078-05-1120
7.123-45-6789
/data/240115/1234/850101/1236/x
BSN 111222334
SIN 046 454 287
self.w@x.mean()
"""


@pytest.mark.parametrize("text", ALONE.strip().splitlines())
def test_what_stands_beside_a_number_counts(text: str) -> None:
    """Decimals, UUIDs, chains of numbers, calls, and ids whose own label asks for another checksum."""
    assert REDACTOR.redact(text) == (text, 0)


@pytest.mark.parametrize(("label", "kind", "form"), [case for case in NAMED if case[0] != "national_id"])
def test_named_ids_with_a_wrong_checksum_stay(label: str, kind: str, form: str) -> None:
    """The label tells which checksum counts."""
    for seed in range(3):
        text = CONTEXTS["prose"](label, drawn(kind, form, seed, right=False))
        assert "national-id" not in rules(text), text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("4111 1111 1111 1111 12/29 123", "[redacted:card] 12/29 123"),
        ("BSN 111222333 4 items", "BSN [redacted:national-id] 4 items"),
        ('mail "ada l"@example.org.', "mail [redacted:email]."),
    ],
)
def test_no_more_than_the_number_goes(text: str, kept: str) -> None:
    """What follows a number in the same breath stays."""
    assert REDACTOR.redact(text).text == kept


@pytest.mark.parametrize(
    "text", ["version 1.2.3.4", '{"v": "1.2.3.4"}', "1.3.6.1.4.1", "1.2.3.4.5", "1.2.3.4-beta", "255.255.0.0"]
)
def test_versions_and_masks_are_no_addresses(text: str) -> None:
    """Four numbers with dots are an address only where nothing says otherwise."""
    assert WITH_ADDRESSES.redact(text) == (text, 0)
