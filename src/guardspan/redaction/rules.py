"""What is secret, as data: one rule each, with its reason and examples that must and must not match.

Patterns are in RE2 syntax over UTF-8 bytes. They are heads: short, bounded, just long enough to be sure;
``tail`` names the characters over which the match then goes on, so that the combined automaton stays small.
A ``check`` looks at a match only. ``(?P<secret>…)`` marks the part that goes where it is not the whole.
"""

from __future__ import annotations

from guardspan.redaction.persons import OPTIONAL_RULES, PERSON_RULES
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
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----"
        r"|---- BEGIN SSH2 [A-Z ]{0,20}PRIVATE KEY ----",
        matches=("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----",),
        misses=("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",),
    ),
    Rule(
        "bearer",
        "whoever bears the token has its rights",
        r"(?i:\bbearer)(?:\s{1,9}|\s?[:=]\s{0,3}|%20|\+)(?:(?i:token):?\s{1,3})?[<\[(\"']?"
        r"(?P<secret>[A-Za-z0-9._~+/-]{8})",
        tail=BEARER,
        check="bearer",
        matches=("send bearer " + _A20, "Bearer: " + _A20, f"Bearer <{_A20}>", f"Bearer token {_A20}"),
        misses=(
            "Bearer authentication is used",
            '"token_type": "Bearer", "expires"',
            'Bearer authorization_uri="https://login"',
        ),
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
        "a password in a database's URL, whatever its characters",
        r"(?i:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|clickhouse|smtps?)"
        r"(?:\+[a-z0-9]{1,12})?"
        r"://[^\s/?#@:\"'<>\\\[\]]{0,80}:(?P<secret>[^\s\"'<>\\\[\]]{1,120})@",
        check="database",
        matches=("postgresql://app:hunt/er#2@db/weather",),
        misses=("redis://cache:6379/a@b", "redis://app:${PASSWORD}@db"),
    ),
    Rule(
        "url-token",
        "a token in a URL, where the user's name is put",
        r"://(?P<secret>[A-Za-z0-9_-]{20,120}(?::[^\s/?#@\"'<>\\\[\]]{0,120})?)@",
        check="mixed",
        matches=(f"https://{_A20}@example.com/repo.git", f"https://{_A20}:@example.com"),
        misses=("https://a-rather-long-user-name@example.com",),
    ),
    Rule(
        "url",
        "a password in a URL",
        r"://[^\s/?#@:\"'<>\\\[\]]{0,80}:(?P<secret>[^\s/?#@\"'<>\\]{1,120})@",
        check="unmarked",
        matches=("postgresql://app:hunter2@db/weather", "https://ada:hunter2@example.com"),
        misses=("https://example.com:8080/a@b", "redis://app:${PASSWORD}@db"),
    ),
    Rule(
        "url-query",
        "a signature or a key in a URL's query",
        r"[?&;#](?i:sig|key|code|hmac|sas|ticket|x-amz-signature|x-amz-security-token"
        r"|x-goog-signature|signature)"
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
        "a password in SQL",
        r"(?i:\b(?:password(?: for [^\s;]{1,64} =)?|identified(?: with [a-z0-9_'\"]{1,40})? by|pwd))"
        r"\s{1,5}(?:(?i:password)\s?\(\s?)?[N]?[\"'](?P<secret>[^\"'\s\\]{1,100})[\"']",
        check="not_placeholder",
        matches=(
            "CREATE USER app WITH PASSWORD 'hunter2' VALID",
            "IDENTIFIED WITH mysql_native_password BY 'hunter2'",
            "SET PASSWORD FOR app = PASSWORD('hunter2')",
        ),
        misses=("password '${PASSWORD}'", 'identified by "${NAME}"'),
    ),
    Rule(
        "password",
        "a password in SQL, without quotes",
        r"(?i:\bidentified by)\s{1,5}(?P<secret>[^\"'\s;\\]{6,100})",
        check="strong",
        matches=("CREATE USER app IDENTIFIED BY Hunter2Hunter2;",),
        misses=("identified by number",),
    ),
    Rule(
        "password",
        "a password in .netrc",
        r"(?i:\b(?:machine|login))\s{1,5}[^\s\"\\]{1,80}\s{1,5}"
        r"(?:(?i:login|account)\s{1,5}[^\s\"\\]{1,80}\s{1,5}){0,2}"
        r"(?i:password)\s{1,5}\"?(?P<secret>[^\s\"\\]{1,100})",
        check="unmarked",
        matches=(
            "machine api.example.com login ada password hunter2",
            "default login ada password hunter2",
        ),
        misses=("login and password", "a login password against"),
    ),
    Rule(
        "password",
        "a password in .pgpass",
        r"(?:(?m:^)|[\"'`\s])[A-Za-z0-9./*_-]{1,100}:(?:\d{2,5}|\*):"
        r"[A-Za-z0-9_*-]{1,60}:[A-Za-z0-9_.*-]{1,60}:"
        r"(?P<secret>[^\s:\"'`\\]{4,100})(?:(?m:$)|[\"'`\s\\])",
        check="prose",
        matches=("db.internal:5432:weather:app:5GNVPKjCWlSdfX",),
        misses=("12:30:45:67:89", "a:b:c:d:e"),
    ),
    Rule(
        "password",
        "a user and a password on a command line",
        r"\s(?:-u|--user|--userpwd|--proxy-user|-U|-a|--auth|--creds)[ =]?[\"']?[A-Za-z0-9._@%+-]{1,64}:"
        r"(?P<secret>[^\s\"'\\]{4,100})",
        check="prose",
        matches=("curl -u ada:Hunter2x https://example.com",),
        misses=("docker run -u 1000:1000 app", "docker run --user root:root app"),
    ),
    Rule(
        "password",
        "the second string of a call that logs in",
        r"(?i:\bauth\s?=\s?\(|(?:basic_?auth|digest_?auth|credentials|login|sign_?in|authenticate)\()"
        r"\s?[\"'][^\"'\s]{1,64}[\"'],"
        r"\s{0,3}[\"'](?P<secret>[^\"'\s\\]{4,100})",
        check="prose",
        matches=("requests.get(url, auth=('ada', 'Hunter2xyz'))", "login('ada', 'Hunter2xyz')"),
        misses=("login('ada', 'admin')",),
    ),
    Rule(
        "cookie",
        "cookies on a command line",
        r"\s(?:-b|--cookie)[ =][\"']?(?P<secret>[^\s\"'\\]{8,200})",
        check="pairs",
        matches=("curl -b 'session=" + _A20 + "' https://example.com",),
        misses=("git checkout -b feature", "curl -b cookies.txt"),
    ),
    Rule(
        "password",
        "a password on a command line",
        r"(?:::add-mask::|\b(?:sshpass -p|redis-cli [^\r\n]{0,60}-a|"
        r"(?:docker|podman|helm registry) login [^\r\n]{0,80}-p|"
        r"mysql(?:dump|admin)? [^\r\n]{0,80}-p|htpasswd -[a-zA-Z]{0,4}b[a-zA-Z]{0,4} \S{1,60} \S{1,60}|"
        r"(?i:net use)\s[^\r\n]{1,80}/user:\S{1,60}|ldap[a-z]{1,8} [^\r\n]{0,80}-w|"
        r"(?i:convertto-securestring)(?: -String)?|"
        r"openssl [^\r\n]{0,80}-pass(?:in|out)? pass:)) ?[\"']?(?P<secret>[^\s\"'\\]{6,100})",
        check="strong",
        matches=(
            "sshpass -p Hunter2xyz ssh ada@10.0.0.1",
            "mysql -h db -u app -pHunter2xyz weather",
            "::add-mask::Hunter2xyz",
        ),
        misses=("mysql -u app -p weather", "docker login -p", "redis-cli ping"),
    ),
    Rule(
        "password",
        "a user and a password with a slash between",
        r"(?:(?i:jdbc:oracle:[a-z0-9]{1,8}:|sqlplus (?:-[A-Z] )?)[A-Za-z0-9_.$-]{1,60}/"
        r"|(?i:\b(?:log[io]n|user(?:name)?|account|user/pass(?:word)?|creds?|credentials))"
        r"(?:\s?[:=]\s{0,3}| )[A-Za-z0-9._@+-]{1,60}\s{0,2}[/|:]\s{0,2})(?P<secret>[^\s\"'\\@/,;]{6,100})",
        check="strong",
        matches=("jdbc:oracle:thin:app/Hunter2xyz@db:1521/w", "login: ada / Hunter2xyz"),
        misses=("login: ada / admin page", "user: ada/weather"),
    ),
    Rule(
        "code",
        "a code that lets in once, or a PIN",
        r"(?:\b(?:PIN|OTP|TAN|TOTP)(?i: code| number)?|(?i:\b(?:verification|security|confirmation|one-?time"
        r"|[2m]fa|two-factor|log-?in|sign-?in|access|authentication|sms|unlock)[ -](?:pass)?code))"
        r"(?i: (?:is|was|lautet))?[ :=]{1,3}\"?(?P<secret>\d{4,8}|\d{3}[ -]\d{3,4})\b",
        matches=("Your verification code is 482913", "2FA code: 482 913", "PIN 4821"),
        misses=("error code: 404404", "a spin 4821", "zip code 10115", "the PIN is 4 digits"),
    ),
    Rule(
        "seed-phrase",
        "the words that a wallet is restored from",
        r"(?i:\b(?:seed|recovery|mnemonic|backup|secret)[ _-]?(?:phrase|words))[\"']?"
        r"(?::| is:?|\s?=)\s{1,3}[\"']?(?P<secret>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b",
        matches=("seed phrase: " + " ".join(["abandon"] * 11) + " about",),
        misses=("recovery phrase: keep it in a safe place",),
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

RULES: tuple[Rule, ...] = (*SCHEME_RULES, *VENDOR_RULES, *TEXT_RULES, *PERSON_RULES, *OPTIONAL_RULES)
