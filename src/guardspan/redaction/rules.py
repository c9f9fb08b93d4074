"""What is secret, as data: one rule each, with its reason and examples that must and must not match.

Patterns are in RE2 syntax over UTF-8 bytes. They are heads: short, bounded, just long enough to be sure;
``tail`` names the characters over which the match then goes on, so that the combined automaton stays small.
A ``check`` looks at a match only. ``(?P<secret>…)`` marks the part that goes where it is not the whole.
"""

from __future__ import annotations

from guardspan.redaction.rule import Rule
from guardspan.redaction.vendors import VENDOR_RULES

WORD = "A-Za-z0-9_-"
BEARER = "A-Za-z0-9_.~+/=-"
_A20 = "a1B2c3D4e5F6g7H8i9J0"
_HEX = "0a1b2c3d4e5f6071"

SCHEME_RULES: tuple[Rule, ...] = (
    Rule(
        "jwt",
        "a signed token that carries rights",
        r"\beyJ[A-Za-z0-9_-]{8}",
        tail="A-Za-z0-9_.-",
        check="jwt",
        matches=("t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + _A20 * 2,),
        misses=("eyJhbGciOiJI alone", "eyJ"),
    ),
    Rule(
        "pem",
        "a private key",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----",
        matches=("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----",),
        misses=("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",),
    ),
    Rule(
        "bearer",
        "whoever bears the token has its rights",
        r"(?i:\bbearer)\s{1,9}(?P<secret>[A-Za-z0-9._~+/-]{8})",
        tail=BEARER,
        check="bearer",
        matches=("send bearer " + _A20,),
        misses=("Bearer authentication is used", '"token_type": "Bearer", "expires"'),
    ),
    Rule(
        "basic",
        "base64 of user and password",
        r"(?i:\bbasic)\s{1,9}(?P<secret>[A-Za-z0-9+/]{6})",
        tail="A-Za-z0-9+/=_-",
        check="basic",
        matches=("Basic YWRhOmh1bnRlcjI=",),
        misses=("basic knowledge", "Basic authentication"),
    ),
    Rule(
        "digest",
        "the answer to a digest challenge",
        r"(?i:\b(?:response|cnonce)=)\"?(?P<secret>[a-f0-9]{32})",
        tail="a-f0-9",
        matches=('Digest username="ada", response="' + _HEX * 2 + '"',),
        misses=('response="ok"',),
    ),
    Rule(
        "url",
        "a password in a URL",
        r"://[^\s/?#@:\"'<>\\]{0,80}:(?P<secret>[^\s/?#@\"'<>\\]{1,120})@",
        check="not_placeholder",
        matches=("postgresql://app:hunter2@db/weather",),
        misses=("https://example.com:8080/a@b", "redis://app:${PASSWORD}@db"),
    ),
    Rule(
        "url-token",
        "a token in a URL, where the user's name is put",
        r"://(?P<secret>[A-Za-z0-9_-]{20,120})@",
        check="mixed",
        matches=(f"https://{_A20}@example.com/repo.git",),
        misses=("https://a-rather-long-user-name@example.com",),
    ),
    Rule(
        "url-query",
        "a signature or a key in a URL's query",
        r"[?&;](?i:sig|key|code|hmac|x-amz-signature|x-amz-security-token|x-goog-signature|signature)"
        r"=(?P<secret>[A-Za-z0-9%._~+/-]{8})",
        tail="A-Za-z0-9%._~+/=-",
        check="mixed",
        matches=("https://x/c.csv?sp=r&sig=s1g9KcpTbtllD0oskk1C%3D&se=2026",),
        misses=("https://x/?key=weather-today", "?code=200"),
    ),
)

TEXT_RULES: tuple[Rule, ...] = (
    Rule(
        "password",
        "a password named in prose",
        r"(?i:\b(?:password|passphrase|passcode|passwort|kennwort|contrase\xc3\xb1a|senha|wachtwoord))"
        r"(?: [A-Za-z'-]{1,20}){0,6} (?i:is|was|ist|war|es|lautet|\xc3\xa9):? "
        r"[\"'`]?(?P<secret>[^\s\"'`,;]{6})",
        tail=r"^\s\"'`,;",
        check="password",
        matches=("The password for the staging box is 5GNVPKjCWlSdfX",),
        misses=("the password is required", "password for the box is unknown"),
    ),
    Rule(
        "password",
        "a password in SQL",
        r"(?i:\b(?:password|identified by|pwd))\s{1,5}'(?P<secret>[^'\s]{1,100})'",
        check="not_placeholder",
        matches=("CREATE USER app WITH PASSWORD 'hunter2' VALID",),
        misses=("password '${PASSWORD}'",),
    ),
    Rule(
        "password",
        "a password in .netrc",
        r"(?i:\blogin)\s{1,5}\S{1,80}\s{1,5}(?i:password)\s{1,5}(?P<secret>\S{1,100})",
        check="not_placeholder",
        matches=("machine api.example.com login ada password hunter2",),
        misses=("login and password",),
    ),
    Rule(
        "password",
        "a password in .pgpass",
        r"(?m:^)[A-Za-z0-9.*_-]{1,100}:(?:\d{2,5}|\*):[A-Za-z0-9_*-]{1,60}:[A-Za-z0-9_.*-]{1,60}:"
        r"(?P<secret>[^\s:]{4,100})(?m:$)",
        check="password",
        matches=("db.internal:5432:weather:app:5GNVPKjCWlSdfX",),
        misses=("12:30:45:67:89", "a:b:c:d:e"),
    ),
    Rule(
        "html",
        "a secret in an HTML attribute",
        r"(?i:(?:csrf|xsrf|authenticity|api|access|auth)[_-]?(?:token|key)|password|secret|token)[\"']"
        r"\s{1,5}(?i:content|value)\s?=\s?[\"'](?P<secret>[^\"'<>\s]{6})",
        tail=r"^\"'<>\s",
        check="not_placeholder",
        matches=('<meta name="csrf-token" content="4pzwVJ2rD8ctahJn">',),
        misses=('<meta name="description" content="weather">',),
    ),
)

PERSON_RULES: tuple[Rule, ...] = (
    Rule(
        "email",
        "an address of a person",
        r"@[A-Za-z0-9][A-Za-z0-9-]{0,62}\.[A-Za-z0-9]",
        tail="A-Za-z0-9.-",
        check="email",
        matches=("write to ada@example.org please",),
        misses=("@app.get('/x')", "a @ b", "user@host", "left-pad@1.3.0"),
    ),
    Rule(
        "card",
        "a payment card's number (Luhn)",
        r"\b\d{4}(?:[ -]{0,2}\d){9,15}\b",
        check="card",
        matches=("card 4111 1111 1111 1111 end", "5500-0000-0000-0004"),
        misses=("reference 4111111111111112", "at 1700000000000 ms"),
    ),
    Rule(
        "iban",
        "a bank account's number (checksum)",
        r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
        check="iban",
        matches=("IBAN DE89 3704 0044 0532 0130 00",),
        misses=("DE89 3704 0044 0532 0130 01",),
    ),
    Rule(
        "national-id",
        "a social security number",
        r"\b\d{3}-\d{2}-\d{4}\b",
        check="ssn",
        matches=("SSN 078-05-1120 on file",),
        misses=("000-12-3456", "part 987-65-4321"),
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
        r"\+[1-9](?:[ ().-]{0,2}\d){8,14}\b",
        check="phone",
        matches=("call +49 30 901820 00 now", "+1 (555) 010-9999"),
        misses=("+5 days", "1+2345"),
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

RULES: tuple[Rule, ...] = (*SCHEME_RULES, *VENDOR_RULES, *TEXT_RULES, *PERSON_RULES)
