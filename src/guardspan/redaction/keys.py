"""Which names of keys say that their value is secret, in structures and in text.

A name is split into words (``clientSecret``, ``client-secret`` and ``CLIENT_SECRET`` are the same), so that
``tokenizer``, ``secretary`` and ``author`` are other words than ``token``, ``secret`` and ``auth``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

# Alone enough, wherever they stand in the name.
SECRET_WORDS = frozenset(
    "password passwd passphrase passcode pwd pass secret secrets credential credentials authorization "
    "cookie cookies apikey privatekey secretkey accesskey jwt passwort kennwort geheimnis contraseña "
    "contrasena clave senha wachtwoord hasło haslo lösenord salasana adgangskode passord parola şifre "
    "sifre heslo jelszó пароль секрет 密码 密碼 口令 パスワード 비밀번호 암호 كلمة_المرور".split()
)
# Secret only together with what qualifies them, or alone as the whole name.
_KEY_QUALIFIERS = frozenset(
    "api access private secret encryption signing master service account shared ssh subscription auth "
    "client storage deploy webhook session app application license consumer function host rsa pgp gpg "
    "hmac x".split()
)
_TOKEN_WORDS = frozenset(["token", "jeton"])
_WHOLE_NAMES = frozenset(
    ["auth", "signature", "sig", "otp", "csrf", "xsrf", "sessionid", "sid", "credentials", "mot de passe"]
)
# They say that the value is about a secret, and not one.
_ABOUT = frozenset(
    "name names id ids type types length policy reset field fields count counts limit limits expires "
    "expiry expiration expire ttl rotation required enabled disabled valid manager path paths url uri "
    "endpoint ref arn version age min max minimum maximum strength rules format algorithm method mode "
    "status updated created at attempts file usage budget per rate izer izers price cost prices bucket "
    "prefix suffix class index hint label placeholder prompt input output total used remaining size "
    "kind scope scopes issuer audience provider encoding generation validator policyname in out bias "
    "probs prob".split()
)


@functools.lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a key's name, in lower case."""
    return tuple(word.lower() for word in _WORD.findall(name))


@functools.lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a key of this name holds a secret."""
    words = words_of(name)
    if not words:
        return False
    if " ".join(words) in _WHOLE_NAMES or "".join(words) in SECRET_WORDS:
        return True
    if words[-1] in _ABOUT or (
        words[0] in _ABOUT and words[-1] in {"password", "token", "secret"} and len(words) > 2
    ):
        return False
    if any(word in SECRET_WORDS for word in words):
        return not ({"has", "is", "use", "show", "forgot"} & set(words[:1]))
    if any(word in _TOKEN_WORDS for word in words):
        return not (_ABOUT & set(words))
    if words[-1] in {"key", "keys"}:
        return any(word in _KEY_QUALIFIERS for word in words[:-1])
    return len(words) > 1 and words[-1] == "id" and words[0] == "session"


class KeyNames:
    """The names above, and further ones of the user's own (compared without case, separators and digits)."""

    def __init__(self, extra: Iterable[str] = ()) -> None:
        self._extra = frozenset("".join(words_of(name)) for name in extra)

    def secret(self, name: str) -> bool:
        """Whether a key of this name holds a secret."""
        return is_secret(name) or (bool(self._extra) and "".join(words_of(name)) in self._extra)

    def stems(self) -> tuple[str, ...]:
        """What a text must contain for a key of this kind to be in it."""
        return (*STEMS, *sorted(self._extra))


# What a key's name in a text is recognised by; the whole name is judged afterwards.
STEMS: tuple[str, ...] = (
    "passw",
    "passphrase",
    "passcode",
    "passord",
    "pwd",
    "pass",
    "secret",
    "token",
    "jeton",
    "credential",
    "authorization",
    "auth",
    "cookie",
    "key",
    "jwt",
    "kennwort",
    "contrase",
    "senha",
    "wachtwoord",
    "mot de passe",
    "has[lł]o",
    "lösenord",
    "salasana",
    "adgangskode",
    "parola",
    "[sş]ifre",
    "heslo",
    "jelsz",
    "clave",
    "signature",
    "csrf",
    "xsrf",
    "sessionid",
    "session_id",
    "sid",
    "otp",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "секрет",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "암호",
)
