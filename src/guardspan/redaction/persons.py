"""The rules for what leads to a person: addresses, telephone numbers, accounts, national ids."""

from __future__ import annotations

from guardspan.redaction.rule import Rule

PERSON_RULES: tuple[Rule, ...] = (
    Rule(
        "email",
        "an address of a person",
        r"@[A-Za-z0-9\x80-\xf4][A-Za-z0-9\x80-\xf4-]{0,62}\.[A-Za-z0-9]",
        tail="A-Za-z0-9.-",
        check="email",
        matches=("write to ada@example.org please",),
        misses=("@app.get('/x')", "a @ b", "user@host", "left-pad@1.3.0"),
    ),
    Rule(
        "email",
        "an address of a person, spelled",
        r"\s?[\[(] ?(?:at|AT|At) ?[\])]\s?[A-Za-z0-9-]{1,40}"
        r"(?:(?:\.|\s?[\[(] ?(?:dot|DOT|Dot) ?[\])]\s?)[A-Za-z0-9-]{2,20}){1,3}",
        check="spelled_email",
        matches=("ada (at) example.org", "ada [at] example [dot] org"),
        misses=("look (at) this", "(at) 10.30"),
    ),
    Rule(
        "card",
        "a payment card's number (Luhn)",
        r"\b\d{4}(?:[ .\t-]{0,3}\d){9,15}\b",
        check="card",
        matches=("card 4111 1111 1111 1111 end", "5500-0000-0000-0004"),
        misses=("reference 4111111111111112", "at 1700000000000 ms"),
    ),
    Rule(
        "iban",
        "a bank account's number (checksum)",
        r"\b(?:[A-Z]{2}\d{2}(?:[ .-]{0,2}[A-Z0-9]{4}){2,7}(?:[ .-]{0,2}[A-Z0-9]{1,3})?"
        r"|[a-z]{2}\d{2}(?:[ .-]{0,2}[0-9]{4}){3,7}(?:[ .-]{0,2}[0-9]{1,3})?)\b",
        check="iban",
        matches=("IBAN DE89 3704 0044 0532 0130 00",),
        misses=("DE89 3704 0044 0532 0130 01",),
    ),
    Rule(
        "national-id",
        "a social security number",
        r"(?:^|[^\w-])(?P<secret>\d{3}-\d{2}-\d{4})(?:[^\w-]|$)",
        check="ssn",
        matches=("SSN 078-05-1120 on file",),
        misses=("000-12-3456", "part 987-65-4321"),
    ),
    Rule(
        "national-id",
        "a social security number, named as one",
        r"(?i:\bssn|\bsocial security(?: (?:number|no\.?))?)[\"']?[\s:=#]{0,4}[\"']?"
        r"(?P<secret>\d{3}[ .-]?\d{2}[ .-]?\d{4})\b",
        check="ssn",
        matches=("SSN: 078051120", '"ssn": "078 05 1120"'),
        misses=("ssn: 000123456", "ssn 12"),
    ),
    Rule(
        "national-id",
        "a taxpayer's number of Brazil (checksum), named as one",
        r"(?i:\bcpf)[\"']?[\s:=#]{0,4}[\"']?(?P<secret>\d{11})\b",
        check="cpf",
        matches=("CPF 52998224725",),
        misses=("CPF 52998224726",),
    ),
    Rule(
        "national-id",
        "a taxpayer's number of Brazil (checksum)",
        r"\b\d{3}\.\d{3}\.\d{3}-\d{2}\b",
        check="cpf",
        matches=("CPF 529.982.247-25",),
        misses=("529.982.247-26",),
    ),
    Rule(
        "national-id",
        "an identity number of Spain (checksum)",
        r"\b[XYZ0-9]\d{7}-?[A-HJ-NP-TV-Z]\b",
        check="dni",
        matches=("DNI 12345678Z",),
        misses=("12345678A",),
    ),
    Rule(
        "national-id",
        "a tax code of Italy (checksum)",
        r"\b[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b",
        check="codice_fiscale",
        matches=("RSSMRA85T10A562S",),
        misses=("RSSMRA85T10A562T",),
    ),
    Rule(
        "phone",
        "a telephone number",
        r"(?:\+[1-9]|(?:^|[\s:(])00[1-9]\d{0,2}[ /-])(?:[ ()./-]{0,2}\d){8,14}\b",
        check="phone",
        matches=("call +49 30 901820 00 now", "+1 (555) 010-9999"),
        misses=("+5 days", "1+2345", "0012345678901"),
    ),
    Rule(
        "phone",
        "a telephone number",
        r"(?:\(\d{3}\) ?|\b\d{3}[-.])\d{3}[-.]\d{4}\b",
        check="phone",
        matches=("call (555) 010-9999", "call 555-010-9999"),
        misses=("555-010-99991",),
    ),
)
