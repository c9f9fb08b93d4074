"""Which names of keys say that their value is secret, in structures and in text.

A name is split into words (``clientSecret``, ``client-secret`` and ``CLIENT_SECRET`` are the same), so that
``tokenizer``, ``secretary`` and ``author`` are other words than ``token``, ``secret`` and ``auth``.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_FOREIGN_WORD = re.compile(r"[^\W\d_]+|\d+")
_INVISIBLE = re.compile("[\u00ad\u034f\u180e\u200b-\u200f\u2060\ufeff]")
# Between a label and its value in languages that put no space there.
_PARTICLES = "是为為はがも는은이가 "

# Labels of passwords in other scripts and with accents; a name that ends in one is secret.
FOREIGN: tuple[str, ...] = (
    *"contraseña contraseñas hasło hasła lösenord lösenordet jelszó jelszava jelszavam".split(),
    *"şifre şifreniz şifren şifresi parolă parolanız slaptažodis lykilorð κωδικός κωδικος".split(),
    *"пароль паролі парола лозинка секрет".split(),
    *"密码 密碼 口令 暗証番号 暗証 パスワード 비밀번호 암호 패스워드".split(),
    *"סיסמה סיסמא पासवर्ड รหัสผ่าน گذرواژه پسورد كلمة_المرور".split(),
    *("mật khẩu", "كلمة المرور", "كلمة السر", "رمز عبور", "κωδικός πρόσβασης"),
)
# Alone enough, wherever they stand in the name.
SECRET_WORDS = frozenset(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials authorization "
    "cookie cookies apikey privatekey secretkey accesskey authtoken jwt passwort kennwort geheimnis "
    "contrasena contrasenya clave senha wachtwoord haslo losenord salasana adgangskode passord parola sifre "
    "heslo jelszo mdp lozinka zaporka geslo katalaluan idtoken pgpassword motdepasse "
    "zugangscode kodeord parol pasahitza wagwoord".split()
) | {label for label in FOREIGN if " " not in label}
# Secret only as the last word: `db_pass`, and not `pass-through`.
_LAST_WORDS = frozenset(["pass", "rootpw", "pw", "passwort1", "pswd", "psw", "parole", "parool"])
# Secret only together with what qualifies them, or alone as the whole name.
_KEY_QUALIFIERS = frozenset(
    "api access private secret encryption signing master service account shared ssh subscription auth "
    "client storage deploy webhook session app application license consumer function host rsa pgp gpg "
    "hmac fernet aes cipher crypto bot backend admin root client openai anthropic azure "
    "google gemini groq mistral cohere stripe sendgrid twilio datadog sentry github gitlab slack "
    "huggingface hf pinecone langfuse langsmith tavily serper serpapi deepgram elevenlabs replicate mailgun "
    "mailchimp algolia cloudflare aws gcp".split()
)
_TOKEN_WORDS = frozenset(["token", "jeton"])
_SUFFIXES = ("password", "passwd", "passphrase", "apikey", "secretkey", "sessid", "sessionid")
_WHOLE_NAMES = frozenset(
    [
        *("auth", "signature", "sig", "otp", "totp", "csrf", "xsrf", "sessionid", "sid", "credentials"),
        *(
            "mot de passe",
            "kata sandi",
            "kata laluan",
            "parola d ordine",
            "palavra passe",
            "pass phrase",
            "pass word",
            "pass code",
        ),
        *("add mask", "pass", "passe", "cvv", "cvc", "pin", "pin code"),
    ]
)
# They say that the value is about a secret, and not one.
_ABOUT = frozenset(
    "name names id ids type types length policy reset field fields count counts limit limits expires "
    "expiry expiration expire ttl rotation required enabled disabled valid manager path paths url uri "
    "endpoint ref arn version age min max minimum maximum strength rules format algorithm method mode "
    "status updated created at attempts file usage budget per rate izer izers price cost prices bucket "
    "prefix suffix class index hint label placeholder prompt input output total used remaining size "
    "kind scope scopes issuer audience provider encoding generation validator policyname in out bias "
    "probs prob ts py js go rs java md yaml yml json txt html css consent banner domain samesite store "
    "header headers str color colour toggle pad eos bos unk sep cls mask special stop next image text".split()
)
_QUESTIONS = frozenset(["has", "is", "use", "show", "hide", "forgot", "no", "require", "requires"])
_OWN_KEYS = frozenset(f"{whose} key" for whose in ("my", "your", "our", "this", "new"))
_NUMERIC = frozenset(["otp", "totp", "pin", "cvv", "cvc"])


@functools.lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a key's name, in lower case."""
    if name.isascii():
        return tuple(word.lower() for word in _WORD.findall(name))
    spaced = []
    for previous, character in zip(" " + name, unicodedata.normalize("NFC", name), strict=False):
        spaced.append("_" if character.isupper() and previous.islower() else "")
        spaced.append("i" if character == "İ" else character)
    return tuple(word.lower() for word in _FOREIGN_WORD.findall("".join(spaced)))


@functools.lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a key of this name holds a secret."""
    name = name if name.isascii() else _INVISIBLE.sub("", name)
    if not name.isascii() and _plain(name).endswith(FOREIGN):
        return True
    words = words_of(name)
    if not words:
        return False
    if name.lower() in _OWN_KEYS:
        return True
    if " ".join(words) in _WHOLE_NAMES or "".join(words) in SECRET_WORDS or words[-1] in _LAST_WORDS:
        return True
    if words[-2:] == ("session", "id"):
        return True
    if words[-1] in _ABOUT or (
        words[0] in _ABOUT and words[-1] in {"password", "token", "secret"} and len(words) > 2
    ):
        return False
    if any(word in SECRET_WORDS or word.endswith(_SUFFIXES) for word in words):
        return words[0] not in _QUESTIONS
    if any(word in _TOKEN_WORDS or word.endswith("token") for word in words):
        return not (_ABOUT & set(words))
    return _key_or_session(words)


def _key_or_session(words: tuple[str, ...]) -> bool:
    if words[-1] in {"key", "keys"} or (words[-1].isdigit() and "key" in words):
        return any(word in _KEY_QUALIFIERS for word in words[:-1])
    return "signature" in words or words[-2:] in {
        ("key", "data"),
        ("connect", "sid"),
        ("laravel", "session"),
    }


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).replace("İ", "i").lower().rstrip(_PARTICLES)


def numeric(name: str) -> bool:
    """Whether the value of a key of this name is a short number by nature (`otp`, `pin`)."""
    return bool(_NUMERIC & set(words_of(name)))


class KeyNames:
    """The names above, and the user's own (compared without case, separators and digits).

    Args:
        secret: further names whose values are secret, whatever they look like.
        plain: names whose values are none, which win over all others.
    """

    def __init__(self, secret: Iterable[str] = (), plain: Iterable[str] = ()) -> None:
        self._own = {"".join(words_of(name)): words_of(name) for name in secret}
        self._plain = frozenset("".join(words_of(name)) for name in plain)

    def secret(self, name: str) -> bool:
        """Whether a key of this name holds a secret."""
        if self._plain and "".join(words_of(name)) in self._plain:
            return False
        return is_secret(name) or self.own(name)

    def own(self, name: str) -> bool:
        """Whether a key of this name is one of the user's own, whose every value is secret."""
        return bool(self._own) and "".join(words_of(name)) in self._own

    def stems(self) -> tuple[str, ...]:
        """What a text must contain for a key of this kind to be in it, as patterns."""
        return (*STEMS, *(r"[ _.-]?".join(words) for _, words in sorted(self._own.items())))


# What a key's name in a text is recognised by; the whole name is judged afterwards.
STEMS: tuple[str, ...] = (
    *("passw", "passphrase", "passcode", "passord", "pwd", "pass", "secret", "token", "jeton"),
    *("credential", "authorization", "auth", "cookie", "key", "jwt", "pw", "psw", "pswd", "kennwort"),
    "(?:api|app|access|secret|private|signing|encryption|master|license|account|service)[ _-]?keys?",
    "(?:my|your|our|this|new) key",
    *("geheimnis", "zugangscode", "contrase", "senha", "wachtwoord", "mot de passe", "mdp", "haslo"),
    *(
        "losenord",
        "salasana",
        "adgangskode",
        "kodeord",
        "pasahitza",
        "wagwoord",
        "parol",
        "pass[ -](?:phrase|word|code)",
        "parola d'ordine",
        "parola",
        "parole",
        "parool",
        "sifre",
    ),
    *("şİfre", "heslo", "jelsz", "clave", "lozinka", "zaporka", "geslo", "katalaluan"),
    *(
        "kata sandi",
        "kata laluan",
        "signature",
        "csrf",
        "xsrf",
        "sessionid",
        "session_id",
        "sid",
        "otp",
        "phpsessid",
    ),
    *("laravel_session", "sess"),
    *("add-mask:", "pin", "cvv", "cvc"),
    *FOREIGN,
)
