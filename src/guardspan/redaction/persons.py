"""The rules for what leads to a person: addresses, telephone numbers, accounts, national ids.

One pattern for each form, not for each country: what a number is, is told by :mod:`.numbers`.
"""

from __future__ import annotations

from guardspan.redaction.numbers import LABELS
from guardspan.redaction.rule import Rule

_NUMBER = r"n(?:u|\xc3\xba)m(?:ber|mer|ero)|num\xc3\xa9ro|nr|no|n\xc2[\xb0\xba]"
_IS = r"\.?(?:[\"'*`]{0,3}[\s:=#>]{0,4}(?:(?:is|est|ist|es|er|lautet)[ :])?[\"'*`]{0,3}|\xef\xbc\x9a)"
_ASCII = "|".join(label for label, _ in LABELS if not label.startswith(r"\x"))
_OTHER = "|".join(label for label, _ in LABELS if label.startswith(r"\x"))
_NAMED_ID = rf"(?:(?:\b|_)(?i:{_ASCII})|(?i:{_OTHER}))(?i:(?:[ _-]?(?:{_NUMBER}|id|code|card))?{_IS})(?: \()?"
_ACUTE_E = r"(?:e|\xc3[\xa9\x89])"
_TELEPHONE = (
    r"(?:(?:\b|_)(?i:(?:tele|mobil|handy|ruf|fax)(?:fon|phone|foon|f)?-?(?:nummer|nr)"
    rf"|t{_ACUTE_E}l{_ACUTE_E}(?:ph|f)(?:one|ono|oon|on)|t{_ACUTE_E}l|(?:cell|mobile)?[ _-]?phone|mobile?"
    r"|handy|m\xc3\xb3vil|celular|cell|cellulare|portable|gsm|puhelin|whatsapp|fax|contact[ _-]number)"
    # 电话, 手机, 電話, телефон, 전화
    r"|[a-z](?:Phone|Mobile|Tel)|\xe7\x94\xb5\xe8\xaf\x9d|\xe6\x89\x8b\xe6\x9c\xba|\xe9\x9b\xbb\xe8\xa9\xb1"
    r"|(?i:\xd1\x82|\xd0\xa2)\xd0\xb5\xd0\xbb(?:\xd0\xb5\xd1\x84\xd0\xbe\xd0\xbd)?|\xec\xa0\x84\xed\x99\x94)"
    rf"(?i:(?:[ _-]?(?:{_NUMBER}))?{_IS})"
)
_DIAL = r"\b(?i:call|ring|dial|text|phone|reach|sms)(?: (?:me|us|him|her|them))?(?: (?:at|on|to|under))? "
_EXTENSION = r"(?:,? ?(?:(?i:ext(?:ension)?|durchwahl|poste)\.?|[x#]) ?\d{1,6})?"
_DOMAIN = r"[A-Za-z0-9\x80-\xf4][A-Za-z0-9\x80-\xf4-]{0,62}"
_LETTERS = r"(?:[\xc3-\xf4][\x80-\xbf]{1,3})"

ADDRESS_RULES: tuple[Rule, ...] = (
    Rule(
        "email",
        "an address of a person",
        rf"\"?@{_DOMAIN}\.[A-Za-z0-9]",
        tail="A-Za-z0-9.-",
        check="mail",
        matches=(
            "write to ada@example.org please",
            "mailto:ada.l+news@mail.example.co.uk?subject=x",
            "Ada <ada@example.org>",
            '{"ada@example.org": 1}',
            "ada%40example.org",
            "ada&#64;example.org",
            "ada@b\u00fccher.example",
            'mail to "ada lovelace"@example.org',
            "ada@xn--bcher-kva.xn--p1ai",
        ),
        misses=(
            "@app.get('/x')",
            '{"ada": "@example.org"}',
            "a @ b",
            "user@host",
            "left-pad@1.3.0",
            "@scope/pkg@1.2.3",
            "pkg@1.2.3-next.beta",
            "git@github.com:ada/engine.git",
            "image@sha256:0a1b2c3d.tar",
            "y = w@x.T",
            "icon@2x.png",
            "user@1000.service",
        ),
    ),
    Rule(
        "email",
        "an address of a person, in a script of its own",
        rf"@(?:{_DOMAIN}\.){{1,3}}{_LETTERS}{{2,20}}",
        check="mail",
        matches=("\u7528\u6237@\u4f8b\u5b50.\u6d4b\u8bd5",),
        misses=("@\u4f8b\u5b50", "a@b. \u00e4"),
    ),
    Rule(
        "email",
        "an address of a person, spelled",
        r"(?:\s?[\[({<] ?(?i:at) ?[\])}>]\s?[A-Za-z0-9-]{1,40}"
        r"(?:(?:\.|\s?[\[({<] ?(?i:dot) ?[\])}>]\s?)[A-Za-z0-9-]{2,20}){1,3}"
        r"| (?i:at) [A-Za-z0-9-]{1,40}(?: (?i:dot) [A-Za-z0-9-]{2,20}){0,2}"
        r" (?i:dot (?:com|org|net|edu|de|io|uk)\b))",
        check="mail_spelled",
        matches=("ada (at) example.org", "ada [at] example [dot] org", "ada at example dot org"),
        misses=("look (at) this", "(at) 10.30", "look at this dot com bubble"),
    ),
)

ACCOUNT_RULES: tuple[Rule, ...] = (
    Rule(
        "national-id",
        "a number of a person: a long one, known by its form and checksum",
        r"\b(?:[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}"
        r"|[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])\d{5}[\dXx]|756\d{10})\b",
        check="national",
        matches=("1 85 12 75 108 001 23", "440308199901101512", "7569217076985"),
        misses=("1 85 12 75 108 001 24", "440308199901101513", "7569217076984"),
    ),
    Rule(
        "card",
        "a payment card's number (Luhn)",
        r"\b[2-6]\d{3}(?:[ .\t-]{0,3}\d){9,15}\b",
        check="card",
        matches=(
            "card 4111 1111 1111 1111 end",
            "5500-0000-0000-0004",
            "3782  822463  10005",
            "4111.1111.1111.1111",
            "4111\u00a01111\u20091111\u20071111",
            "4111 1111 1111 1111 12/29 123",
        ),
        misses=(
            "reference 4111111111111112",
            "at 1700000000000 ms",
            "4111-1111-" * 6,
            "4111111111111111" * 2,
            "id_4111111111111111",
        ),
    ),
    Rule(
        "iban",
        "a bank account's number (checksum)",
        r"\b(?i:[A-Z]{2}\d{2}(?:[ .-]{0,2}[A-Z0-9]{4}){2,7}(?:[ .-]{0,2}[A-Z0-9]{1,3})?)\b",
        check="iban",
        matches=(
            "IBAN DE89 3704 0044 0532 0130 00",
            "gb29 nwbk 6016 1331 9268 19",
            "NL91-ABNA-0417-1643-00",
            "NO93\u00a08601\u00a01117\u00a0947",
        ),
        misses=("DE89 3704 0044 0532 0130 01", "XX89 3704 0044 0532 0130 00"),
    ),
)

NATIONAL_RULES: tuple[Rule, ...] = (
    Rule(
        "national-id",
        "a number of a person, parted by hyphens or dots as its form wants",
        r"\b(?:\d{3}-\d{2}-\d{4}|\d{2}-\d{8}-\d|756(?:\.\d{4}){2}\.\d{2}"
        r"|\d{1,3}(?:\.\d{2,3}){2}(?:/\d{4})?-(?:\d{1,3}(?:\.\d{2})?|[A-Za-z]))\b",
        check="national",
        matches=(
            "SSN 078-05-1120 on file",
            "ITIN 912-70-1234",
            "CPF 529.982.247-25",
            "11.222.333/0001-81",
            "20-26756539-3",
            "12.531.909-2",
            "85.07.30-033.28",
            "756.9217.0769.85",
        ),
        misses=(
            "000-12-3456",
            "part 987-65-4321",
            "529.982.247-26",
            "11.222.333/0001-82",
            "20-26756539-4",
            "12.531.909-3",
            "85.07.30-033.29",
            "756.9217.0769.86",
        ),
    ),
    Rule(
        "national-id",
        "a number of a person, that begins with the date of birth",
        r"\b(?:\d\d)?\d{6}[+/A-FU-Y-]\d{3}(?:\d{1,4}|[A-Y])\b",
        check="national",
        matches=(
            "131052-308T",
            "880320-0016",
            "19880320-0016",
            "211062-5629",
            "710319/2745",
            "971013-9019902",
        ),
        misses=("131052-308U", "880320-0018", "20240115-1234", "710319/2746", "971013-9019903", "240115/12"),
    ),
    Rule(
        "national-id",
        "a number of a person, with letters",
        r"\b(?:[XYZ0-9]\d{7}-?[A-HJ-NP-TV-Z]|[A-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]|[A-Z]{3}P[A-Z]\d{4}[A-Z]"
        r"|(?i:[A-Z]{6}[0-9L-V]{2}[A-EHLMPRST][0-9L-V]{2}[A-Z][0-9L-V]{3}[A-Z]"
        r"|[A-Z]{4}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d))\b",
        check="national",
        matches=(
            "DNI 12345678Z",
            "NIE X2482300W",
            "NINO AB 12 34 56 C",
            "AAAPZ1234C",
            "RSSMRA85T10A562S",
            "BOXW310820HNERXN09",
        ),
        misses=(
            "12345678A",
            "X2482300A",
            "BG123456C",
            "AAABZ1234C",
            "RSSMRA85T10A562T",
            "BOXW310820HNERXN08",
        ),
    ),
    Rule(
        "national-id",
        "a number of a person, named as one",
        rf"{_NAMED_ID}(?P<secret>[A-Z]{{5}}\d{{4}}[A-Z]"
        r"|[A-Za-z]{0,2}\d(?:[ ./-]?\d){5,17}(?:-?[A-Za-z]{1,2})?)\b",
        check="national_named",
        matches=(
            "SSN: 078051120",
            "SIN 046 454 286",
            '"ssn": "078 05 1120"',
            "CPF 52998224725",
            "BSN 111222333",
            '{"pesel": "44051401359"}',
            "Steuer-ID: 36 574 261 809",
            "NHS number 943 476 5919",
        ),
        misses=(
            "ssn: 000123457",
            "ssn 12",
            "CPF 52998224726",
            "BSN 666123452",
            '{"pesel": "44051401358"}',
            "Steuer-ID: 36574261890",
            "NHS number 943 476 5918",
            "number 111222333",
        ),
    ),
)

PHONE_RULES: tuple[Rule, ...] = (
    Rule(
        "phone",
        "a telephone number, named as one",
        rf"{_TELEPHONE}(?P<secret>[+(]{{0,2}}\d(?:[ ()./-]{{0,2}}\d){{6,17}}{_EXTENSION})\b",
        check="phone_named",
        matches=(
            "Tel.: 030 901820",
            "Telefon (030) 90 18 20",
            "mobile: 07700 900123",
            "t\u00e9l\u00e9phone 06 12 34 56 78",
            '{"phone_number": "2125550199"}',
            "tel:+49-30-901820;ext=2",
            "phone 555-0199 ext. 12",
        ),
        misses=(
            "phone 2020-2024",
            "mobile 12.0.1",
            "tel: 192.168.10.20",
            "phone: 2024-05-01",
            "mobile 1299.00",
            "phone_id: 12345678",
            "fax 20240501",
        ),
    ),
    Rule(
        "phone",
        "a telephone number to call",
        rf"{_DIAL}(?P<secret>\(?0\d(?:[ ()./-]{{0,2}}\d){{6,13}}{_EXTENSION})\b",
        check="phone_named",
        matches=("call 07700 900123", "reach me at (030) 90 18 20"),
        misses=("call 0.123456789", "call 01.02.2024"),
    ),
    Rule(
        "phone",
        "a telephone number",
        rf"(?:\+[1-9]|(?:^|[\s:(])00[1-9]\d{{0,2}}[ /-])(?:[ ()./-]{{0,2}}\d){{8,14}}{_EXTENSION}\b",
        check="phone",
        matches=(
            "call +49 30 901820 00 now",
            "+1 (555) 010-9999",
            "0049 30 901820",
            "+1 555 010 9999 ext. 12",
        ),
        misses=("+5 days", "1+2345", "0012345678901"),
    ),
    Rule(
        "phone",
        "a telephone number",
        rf"(?:\b1[-. ])?(?:\(\d{{3}}\) ?|\b\d{{3}}[-.])\d{{3}}[-.]\d{{4}}{_EXTENSION}\b",
        check="phone",
        matches=("call (555) 010-9999", "call 555-010-9999", "1-800-555-0199 x12"),
        misses=("555-010-99991", "2024-05-01"),
    ),
)

OPTIONAL_RULES: tuple[Rule, ...] = (
    Rule(
        "ip",
        "a machine's address (IPv4)",
        r"\b\d{1,3}(?:\.\d{1,3}){3}\b",
        check="ip",
        matches=("from 10.0.0.1", "203.0.113.7:443", '{"ip": "192.168.1.20"}'),
        misses=("127.0.0.1:4317", "0.0.0.0:80", "255.255.255.0", "v1.2.3.4", "999.1.1.1"),
        option="ip",
    ),
    Rule(
        "ip",
        "a machine's address (IPv6)",
        r"(?:\b[0-9A-Fa-f]{1,4}|::?[0-9A-Fa-f]{1,4})(?:::?[0-9A-Fa-f]{1,4}){1,7}(?:::|(?:\.\d{1,3}){3}\b|\b)"
        r"|\b[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){1,6}::",
        check="ip",
        matches=("from 2001:db8::1", "[fe80::1ff:fe23:4567:890a]:443", "::ffff:192.0.2.128"),
        misses=("[::1]:4318", "12:30:45", "aa:bb:cc:dd:ee:ff", "std::abc", "abc::def"),
        option="ip",
    ),
)

PERSON_RULES: tuple[Rule, ...] = (*ADDRESS_RULES, *ACCOUNT_RULES, *NATIONAL_RULES, *PHONE_RULES)
