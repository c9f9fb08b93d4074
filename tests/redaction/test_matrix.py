"""Generated keys in everything that people put keys into, and however that is encoded; near misses likewise.

Keys and passwords are drawn by lot from the form of their vendor, with a seed of each case's own.
"""

from __future__ import annotations

import html
import json
import random
import re
import string
import urllib.parse
from collections.abc import Callable

import pytest

from guardspan.redaction import Redactor

REDACTOR = Redactor()
LETTERS, DIGITS = string.ascii_letters, string.digits
ALPHABETS = {
    "a": LETTERS + DIGITS,
    "w": LETTERS + DIGITS + "_-",
    "l": LETTERS,
    "x": DIGITS + "abcdef",
    "u": string.ascii_uppercase + DIGITS,
    "d": DIGITS,
    "b": string.ascii_uppercase + "234567",
}

# A vendor's form: text as it is, and {alphabet,length} for what is drawn by lot.
VENDORS = {
    "openai": "sk-{a,20}T3BlbkFJ{a,20}",
    "openai project": "sk-proj-{w,120}",
    "openai project, no digit": "sk-proj-{l,48}",
    "openai service account": "sk-svcacct-{w,60}",
    "openai admin": "sk-admin-{w,60}",
    "anthropic": "sk-ant-api03-{w,93}AA",
    "anthropic admin": "sk-ant-admin01-{w,93}AA",
    "openrouter": "sk-or-v1-{x,64}",
    "google": "AIza{w,35}",
    "google oauth": "ya29.{w,60}",
    "google client": "GOCSPX-{w,28}",
    "aws": "AKIA{b,16}",
    "aws session": "ASIA{b,16}",
    "azure": "{a,3}8Q~{a,34}",
    "github": "ghp_{a,36}",
    "github server": "ghs_{a,36}",
    "github pat": "github_pat_{a,22}_{a,59}",
    "gitlab": "glpat-{w,20}",
    "slack bot": "xoxb-{d,11}-{d,12}-{a,24}",
    "slack user": "xoxp-{d,11}-{d,12}-{d,12}-{x,32}",
    "slack app": "xapp-1-A{u,10}-{d,13}-{x,64}",
    "stripe": "sk_live_{a,24}",
    "stripe restricted": "rk_live_{a,24}",
    "hugging face": "hf_{l,34}",
    "langfuse": "sk-lf-{x,8}-{x,4}-{x,4}-{x,4}-{x,12}",
    "langsmith": "lsv2_pt_{x,32}_{x,10}",
    "databricks": "dapi{x,32}",
    "databricks, rotated": "dapi{x,32}-2",
    "twilio": "SK{x,32}",
    "sendgrid": "SG.{w,22}.{w,43}",
    "npm": "npm_{a,36}",
    "pypi": "pypi-AgEIcHlwaS5vcmc{w,100}",
    "groq": "gsk_{a,52}",
    "xai": "xai-{a,80}",
    "perplexity": "pplx-{a,48}",
    "replicate": "r8_{a,37}",
    "digitalocean": "dop_v1_{x,64}",
    "shopify": "shpat_{x,32}",
    "vault": "hvs.{w,90}",
    "jwt": "eyJ{a,20}.eyJ{a,40}.{w,43}",
    "linear": "lin_api_{a,40}",
    "notion": "ntn_{a,46}",
    "grafana": "glsa_{a,32}_{x,8}",
    "sentry": "sntryu_{x,64}",
    "pinecone": "pcsk_{a,6}_{a,60}",
    "tavily": "tvly-{a,32}",
    "nvidia": "nvapi-{w,64}",
    "mailgun": "key-{x,32}",
    "mailchimp": "{x,32}-us12",
    "airtable": "pat{a,14}.{x,64}",
    "atlassian": "ATATT3xFfGF0{w,170}={u,8}",
    "figma": "figd_{w,40}",
    "supabase": "sbp_{x,40}",
    "new relic": "NRAK-{u,27}",
    "docker": "dckr_pat_{w,27}",
    "tailscale": "tskey-auth-{a,12}CNTRL-{a,32}",
    "terraform": "{a,14}.atlasv1.{w,67}",
    "e2b": "e2b_{x,40}",
    "age": "AGE-SECRET-KEY-1{u,58}",
}

# § is where the key stands; what is between ¦ and ¦ has to stay.
CONTEXTS = {
    "prose": "using § ¦for now¦",
    "sentence": "¦Please rotate¦ §, ¦it leaked!¦",
    "error": "Incorrect API key provided: §. ¦You can find your API key at https://platform.openai.com¦",
    "paste": "¦paste:¦ `§`, ¦thanks¦",
    "alone on its line": "¦x\n¦§¦\ny¦",
    "in quotes": '"§"',
    "in brackets": "¦(¦§¦)¦",
    "key=": "key=§",
    "token:": "token:§",
    "call": "¦Client(api_key=¦'§'¦, timeout=30)¦",
    "python": "headers = {'X-API-Key': '§', ¦'Accept': '*/*'¦}",
    "log line": "¦[2026-03-01T10:00:00Z] WARN retry with¦ § ¦after 429¦",
    "bearer": "¦Authorization: Bearer¦ §¦\nAccept: application/json¦",
    "header": "X-API-Key: §¦\r\nHost: api.example.com¦\r\n",
    "export": "export MY_SERVICE_KEY='§'¦  # rotate monthly¦",
    "dotenv": "OPENAI_API_KEY=§¦\nDEBUG=1¦",
    "set": "set API_TOKEN=§¦\r\necho ok\r\n¦",
    "dockerfile": "ENV API_KEY §¦\nRUN x¦",
    "yaml": "  api_key: §¦\n  region: eu¦",
    "toml": '[tool]\ntoken = "§"¦\nname = "x"¦',
    "json": '{"apiKey": "§", ¦"region": "eu-west-1"¦}',
    "json, in a text": '{"note": "the thing is § ¦ok", "n": 1¦}',
    "json, name and value": '{"env": [{¦"name": "API_KEY"¦, "value": "§"}]}',
    "xml": "¦<apiKey>¦§¦</apiKey><n>1</n>¦",
    "html": "¦see <b>¦§¦</b> ok¦",
    "csv": "¦name,api_key,city\nada,¦§¦,Oslo\n¦",
    "markdown": "¦| key | value |\n|---|---|\n| api_key | ¦§¦ |¦",
    "curl": "¦curl https://api.example.com/v1 -H¦ 'Authorization: Bearer §' ¦-d '{\"model\":\"gpt-4o\"}'¦",
    "docker": "docker run -e OPENAI_API_KEY=§ ¦-e LOG_LEVEL=info -p 8080:80 app:1.4.2¦",
    "option": "--api-key § ¦--verbose¦",
    "query": "¦https://api.example.com/v1?api_key=¦§¦&limit=10¦",
    "user of a URL": "https://§@¦host.example.com/x¦",
}


def json_string(text: str) -> str:
    return json.dumps({"body": text})


def each(text: str, key: str, encode: Callable[[str], str], which: Callable[[str], bool]) -> str:
    """The text with some of its key's characters encoded."""
    return text.replace(key, "".join(encode(c) if which(c) else c for c in key))


def odd(character: str) -> bool:
    return not character.isalnum()


ENCODINGS: dict[str, Callable[[str, str], str]] = {
    "json": lambda text, key: json_string(text),
    "json in json": lambda text, key: json_string(json_string(text)),
    "json thrice": lambda text, key: json_string(json_string(json_string(text))),
    r"\u of punctuation": lambda text, key: "".join(f"\\u{ord(c):04x}" if odd(c) else c for c in text),
    r"\u of the whole key": lambda text, key: each(text, key, lambda c: f"\\u{ord(c):04X}", bool),
    r"\x of punctuation": lambda text, key: each(text, key, lambda c: f"\\x{ord(c):02x}", odd),
    "percent": lambda text, key: urllib.parse.quote(text, safe=""),
    "percent twice": lambda text, key: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "html": lambda text, key: html.escape(text),
    "html, decimal": lambda text, key: each(text, key, lambda c: f"&#{ord(c)};", odd),
    "html, hexadecimal": lambda text, key: each(text, key, lambda c: f"&#x{ord(c):x};", str.isdigit),
    "soft hyphen": lambda text, key: text.replace(key, f"{key[:9]}\u00ad{key[9:14]}\u200b{key[14:]}"),
    "zero-width joiner": lambda text, key: text.replace(key, f"{key[:3]}\u200d{key[3:]}"),
    "byte order mark": lambda text, key: text.replace(key, f"{key[:12]}\ufeff{key[12:]}"),
    "no-break spaces": lambda text, key: text.replace(" ", "\u00a0"),
    "full width": lambda text, key: text.replace(": ", "：").replace("=", "＝"),
    "quoted-printable": lambda text, key: text.replace("=", "=3D"),
}


def drawn(form: str, chooser: random.Random) -> str:
    """A key of a form."""
    parts = form.replace("{", "\0").replace("}", "\0").split("\0")
    for index in range(1, len(parts), 2):
        alphabet, length = parts[index].split(",")
        parts[index] = "".join(chooser.choice(ALPHABETS[alphabet]) for _ in range(int(length)))
    return "".join(parts)


def keys(*seed: object) -> list[tuple[str, str]]:
    chooser = random.Random(repr(seed))
    return [(vendor, drawn(form, chooser)) for vendor, form in VENDORS.items()]


def undone(text: str) -> str:
    """The text as a reader sees it: encodings undone, invisible characters gone."""
    for _ in range(3):
        text = html.unescape(urllib.parse.unquote(text.replace("=3D", "=")))
        text = text.replace('\\"', '"').replace("\\\\", "\\")
        text = text.translate(dict.fromkeys(map(ord, "\u00ad\u200b\u200d\ufeff")))
    return text


def left(redacted: str, key: str) -> bool:
    """Whether ten characters or more of a key are left, as they are or for whoever undoes encodings."""
    return any(key[i : i + 10] in seen for i in range(len(key) - 9) for seen in (redacted, undone(redacted)))


def put(context: str, key: str) -> tuple[str, list[str]]:
    """The key in its context, and what has to stay."""
    template = CONTEXTS[context]
    return template.replace("¦", "").replace("§", key), template.split("¦")[1::2]


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_key_goes_and_what_is_around_it_stays(context: str) -> None:
    """In every context, for every vendor; what was JSON stays JSON, and nothing is left to be found."""
    for vendor, key in keys(context):
        text, kept = put(context, key)
        redacted, count = REDACTOR.redact(text)
        assert count, (vendor, text)
        assert not left(redacted, key), (vendor, redacted)
        assert all(part in redacted for part in kept), (vendor, redacted)
        assert REDACTOR.redact(redacted) == (redacted, 0)
        if context.startswith("json"):
            json.loads(redacted)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_key_goes_however_it_is_encoded(encoding: str) -> None:
    """In three contexts for each vendor."""
    chooser = random.Random(encoding)
    for vendor, key in keys(encoding):
        for context in chooser.sample(list(CONTEXTS), 3):
            text = ENCODINGS[encoding](put(context, key)[0], key)
            redacted, count = REDACTOR.redact(text)
            assert count, (vendor, context, text)
            assert not left(redacted, key), (vendor, context, redacted)
            assert REDACTOR.redact(redacted) == (redacted, 0)
            if encoding.startswith("json"):
                json.loads(redacted)


LABELS = (
    "password passwd passphrase Passwort Kennwort contraseña mot_de_passe senha wachtwoord hasło lösenord "
    "salasana adgangskode kodeord passord heslo jelszó şifre parolă пароль 密码 パスワード 비밀번호 סיסמה "
    "DB_PASSWORD dbPassword db-password smtp_pass client_secret secret"
).split()
FORMS = {
    "label: ": "{label}: {secret}",
    "label=": "{label}={secret}",
    "quoted": '{label} = "{secret}"',
    "json": '{{"{label}": "{secret}", "n": 1}}',
    "query": "https://x.example.com/?{label}={secret}&n=1",
    "yaml": "db:\n  {label}: {secret}\n  port: 5432",
    "full width": "{label}：{secret}，ok",
    "xml": "<{label}>{secret}</{label}>",
}
PASSWORDS = ("{a,14}", "{l,6}{d,4}!", "Correct-{d,2}-Horse", "{a,5}&{a,5}", "{d,8}")


@pytest.mark.parametrize("form", FORMS)
def test_a_password_goes_by_its_label(form: str) -> None:
    """In many languages, for passwords of different strength."""
    chooser = random.Random(form)
    for label in LABELS:
        for pattern in PASSWORDS:
            secret = drawn(pattern, chooser)
            if "&" in secret and form in {"query", "xml"}:
                continue  # ends the value there
            text = FORMS[form].format(label=label, secret=secret)
            redacted, count = REDACTOR.redact(text)
            assert count, text
            assert secret not in redacted, text
            assert label in redacted, text


NEAR_MISSES = {
    "counts": "prompt_tokens=<n> completion_tokens=<n> max_tokens: <n>, token_budget=<n>",
    "usage": '{"usage": {"total_tokens": <n>, "input_tokens": <n>}, "finish_reason": "stop"}',
    "digests": "sha256:<x64> commit <x40> etag W/<x32>",
    "uuids": "request <x8>-<x4>-4<x3>-a<x3>-<x12> took <n> ms",
    "times": "2026-12-01T10:<m>:<m>Z INFO took <n>.<m> s",
    "versions": "foo==<m>.<m>.<m> and bar@<m>.<m>.<m>-rc.<m>",
    "hosts": "listening on 127.0.0.1:<n> and [::1]:<n>, host-<m>.internal:<n>",
    "paths": "/srv/app-<m>/keys/token_cache_<m>.py s3://bucket-<m>/secrets/part-<n>.parquet",
    "placeholders": "api_key=${KEY_<m>} password=<your-password-<m>> token={{ token_<m> }}",
    "code": "token_<m> = get_token(key_<m>); if password_<m> == other_<m>: return key_<m>",
    "coordinates": "lat 52.<n><m>, lon 13.<n><m>, total <n>.<m> EUR",
    "metrics": 'sum(rate(guard_calls_total{status="fail", key="a<m>"}[5m])) by (guard)',
}
NUMBER = re.compile(r"<([nmx])(\d*)>")


def number(kind: str, length: str, chooser: random.Random) -> str:
    if kind == "x":
        return "".join(chooser.choice(ALPHABETS["x"]) for _ in range(int(length)))
    return str(chooser.randrange(1_000, 9_999) if kind == "n" else chooser.randrange(10, 59))


@pytest.mark.parametrize("kind", NEAR_MISSES)
def test_what_only_looks_like_a_secret_stays(kind: str) -> None:
    """A hundred times each, with other numbers."""
    chooser = random.Random(kind)
    for _ in range(100):
        text = NUMBER.sub(lambda found: number(found[1], found[2], chooser), NEAR_MISSES[kind])
        assert REDACTOR.redact(text) == (text, 0)
