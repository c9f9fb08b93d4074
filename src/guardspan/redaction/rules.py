"""What is secret, as data: one rule each, with its reason and examples that must and must not match.

Patterns are in RE2 syntax over UTF-8 bytes. They are heads: short, bounded, just long enough to be sure;
``tail`` names the characters over which the match then goes on, so that the combined automaton stays small.
A ``check`` looks at a match only. ``(?P<secret>…)`` marks the part that goes where it is not the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

WORD = "A-Za-z0-9_-"
BEARER = "A-Za-z0-9_.~+/=-"
ALNUM = "A-Za-z0-9"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret.

    Attributes:
        id: what the mark says: ``[redacted:ID]``.
        reason: why it is secret, in a few words.
        pattern: RE2; see the module.
        tail: characters (inside of a class) over which a match goes on.
        check: name of a function in :mod:`guardspan.redaction.checks`, or None.
        matches: texts in which the rule must find something.
        misses: texts in which it must not.
    """

    id: str
    reason: str
    pattern: str
    tail: str = ""
    check: str | None = None
    matches: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()


_A20 = "a1B2c3D4e5F6g7H8i9J0"
_HEX = "0a1b2c3d4e5f6071"
_UPPER = "A1B2C3D4E5F6G7H8I9J0"


def _key(
    name: str, head: str, size: int, *, sample: str = "", characters: str = ALNUM, check: str | None = None
) -> Rule:
    """A vendor's key: a head that nobody else uses, then at least ``size`` characters.

    ``sample`` is the head of the example, where the head is more than plain text.
    """
    body = (_HEX if characters.startswith("a-f") else _UPPER if characters.startswith("0-9") else _A20) * 5
    plain = sample or head.replace("\\", "")
    return Rule(
        id=name,
        reason=f"a key of {name}",
        pattern=rf"\b{head}[{characters}]{{{size}}}",
        tail=characters,
        check=check,
        matches=(f"use {plain}{body[: size + 2]} now",),
        misses=(f"use {plain}{body[:4]} now",),
    )


VENDOR_RULES: tuple[Rule, ...] = (
    _key("anthropic", "sk-ant-", 20, characters=WORD),
    _key("openrouter", "sk-or-", 20, characters=WORD),
    _key("langfuse", "(?:sk|pk)-lf-", 20, sample="sk-lf-", characters=WORD),
    _key("openai", "sk-", 20, characters=WORD, check="mixed"),
    _key("stripe", "(?:sk|rk|pk)_(?:live|test)_", 10, sample="sk_live_"),
    _key("stripe-webhook", "whsec_", 20, characters="A-Za-z0-9+/="),
    _key("elevenlabs", "sk_", 40, characters="a-f0-9"),
    _key("google", "AIza", 30, characters=WORD),
    _key("google-oauth", r"ya29\.", 20, characters=WORD),
    _key("google-client", "GOCSPX-", 20, characters=WORD),
    _key("google-refresh", "1//0", 30, characters=WORD, check="mixed"),
    Rule(
        "aws",
        "an access key id of AWS",
        r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA|ANVA)[A-Z0-9]{16}\b",
        matches=("id AKIA" + "Q7" * 8 + ".",),
        misses=("AKIAQ7Q7", "ASIANINFLUENCES"),
    ),
    Rule(
        "azure",
        "a client secret of Azure",
        r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31}",
        tail="A-Za-z0-9_~.-",
        matches=("x abc8Q~" + "a1B2" * 8,),
        misses=("8Q~short",),
    ),
    _key("github", "gh[pousr]_", 20, sample="ghp_"),
    _key("github-pat", "github_pat_", 20, characters="A-Za-z0-9_"),
    _key(
        "gitlab",
        "gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-",
        20,
        sample="glpat-",
        characters="A-Za-z0-9_.-",
    ),
    _key("slack", "xox[abeoprs]-", 10, sample="xoxb-", characters=WORD, check="digits"),
    _key("slack-app", "xapp-", 10, characters=WORD, check="digits"),
    Rule(
        "slack-webhook",
        "whoever has the address may post",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]{6,14}/[A-Z0-9]{6,14}/(?P<secret>[A-Za-z0-9]{8})",
        tail=ALNUM,
        matches=("https://hooks.slack.com/services/T00000000/B00000000/" + _A20,),
        misses=("https://hooks.slack.com/services/about",),
    ),
    Rule(
        "discord-webhook",
        "whoever has the address may post",
        r"discord(?:app)?\.com/api/webhooks/\d{15,22}/(?P<secret>[A-Za-z0-9_-]{20})",
        tail=WORD,
        matches=("https://discord.com/api/webhooks/123456789012345678/" + _A20 * 3,),
        misses=("https://discord.com/api/webhooks/docs",),
    ),
    Rule(
        "telegram",
        "a bot's token of Telegram",
        r"\b\d{8,10}:AA[A-Za-z0-9_-]{30}",
        tail=WORD,
        matches=("123456789:AA" + _A20 * 2,),
        misses=("12345678:AAPL",),
    ),
    _key("huggingface", "hf_", 20),
    _key("langsmith", "lsv2_(?:pt|sk)_", 20, sample="lsv2_pt_", characters="A-Za-z0-9_"),
    _key("langsmith-legacy", "ls__", 20),
    _key("databricks", "dapi", 32, characters="a-f0-9"),
    _key("twilio", "SK", 32, characters="a-f0-9"),
    Rule(
        "sendgrid",
        "a key of SendGrid",
        r"\bSG\.[A-Za-z0-9_-]{10,40}\.[A-Za-z0-9_-]{10}",
        tail=WORD,
        matches=(f"SG.{_A20}.{_A20}{_A20}",),
        misses=("SG.de",),
    ),
    _key("mailgun", "key-", 32, characters="a-f0-9"),
    Rule(
        "mailchimp",
        "a key of Mailchimp",
        r"\b[a-f0-9]{32}-us\d{1,2}\b",
        matches=(_HEX * 2 + "-us12",),
        misses=(_HEX * 2,),
    ),
    _key("npm", "npm_", 30),
    _key("pypi", "pypi-AgE", 40, characters=WORD),
    _key("rubygems", "rubygems_", 30, characters="a-f0-9"),
    _key("docker", "dckr_(?:pat|oat)_", 20, sample="dckr_pat_", characters=WORD),
    _key("digitalocean", "do[opr]_v1_", 40, sample="dop_v1_", characters="a-f0-9"),
    _key("shopify", "shp(?:at|ca|pa|ss)_", 30, sample="shpat_", characters="a-fA-F0-9"),
    _key("linear", "lin_(?:api|oauth)_", 30, sample="lin_api_"),
    _key("notion", "ntn_", 30),
    _key("figma", "fig[dou]_", 30, sample="figd_", characters=WORD),
    _key("atlassian", "AT[AC]TT3", 40, sample="ATATT3", characters="A-Za-z0-9_=-"),
    _key("grafana", "gl(?:sa|c)_", 30, sample="glsa_", characters="A-Za-z0-9_+/="),
    _key("newrelic", "NRA[KAI]-", 20, sample="NRAK-"),
    _key("sentry", "sntry[su]_", 30, sample="sntrys_", characters="A-Za-z0-9_+/="),
    _key("vault", r"hv[sbr]\.", 20, sample="hvs.", characters=WORD),
    Rule(
        "terraform",
        "a token of Terraform Cloud",
        r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40}",
        tail=WORD,
        matches=("a1B2c3D4e5F6g7.atlasv1." + _A20 * 3,),
        misses=("atlasv1.",),
    ),
    _key("groq", "gsk_", 20),
    _key("xai", "xai-", 20, check="mixed"),
    _key("perplexity", "pplx-", 20, check="mixed"),
    _key("replicate", "r8_", 30),
    _key("fireworks", "fw_", 20, check="mixed"),
    _key("together", "tgp_v1_", 20, characters=WORD),
    _key("nvidia", "nvapi-", 20, characters=WORD),
    _key("cerebras", "csk-", 30),
    _key("e2b", "e2b_", 30, characters="a-f0-9"),
    _key("tavily", "tvly-", 20, characters=WORD, check="mixed"),
    _key("pinecone", "pcsk_", 20, characters="A-Za-z0-9_"),
    _key("age", "AGE-SECRET-KEY-1", 20, characters="0-9A-Z"),
    _key("supabase", "sb(?:p|_secret)_", 20, sample="sbp_", characters="A-Za-z0-9_", check="mixed"),
    _key("planetscale", "pscale_(?:tkn|pw|oauth)_", 20, sample="pscale_tkn_", characters="A-Za-z0-9_.-"),
    _key(
        "doppler",
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.",
        30,
        sample="dp.pt.",
        characters="A-Za-z0-9.",
        check="mixed",
    ),
    _key("postman", "PMAK-", 20, characters="a-f0-9-"),
    _key("square", "sq0[a-z]{3}-", 20, sample="sq0atp-", characters=WORD),
    _key("tailscale", "tskey-[a-z]{2,12}-", 20, sample="tskey-auth-", characters=WORD),
    _key("posthog", "ph[cx]_", 30, sample="phx_"),
    Rule(
        "airtable",
        "a token of Airtable",
        r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{40}",
        tail="a-f0-9",
        matches=("pata1B2c3D4e5F6g7." + _HEX * 4,),
        misses=("pattern.html",),
    ),
)

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
