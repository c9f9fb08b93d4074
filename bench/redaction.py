"""How fast redaction is: ``python -m bench.redaction``. One core, the best of several runs."""

from __future__ import annotations

import json
import random
import time

from guardspan.redaction import Redactor
from guardspan.redaction.automaton import automaton
from guardspan.redaction.rules import RULES

REDACTOR = Redactor()
WORDS = (
    "the support desk answers its mail under load and every guard is recorded while the model replies "
    "slowly to users in many places"
).split()
NEAR_MISSES = (
    "4111-1111-1111-1112 ada@host sk-short Bearer of news password: required DE89 3704 0045 "
    "eyJhbGci.x https://example.com:8080/a@b key=weather AKIA-1 ghp_x 1.2.3.4 token=get_token() "
)
HOSTILE = {
    "near misses": NEAR_MISSES,
    "digits and dots": "1.1.1.",
    "card-like": "1111-",
    "addresses": "a@a@",
    "one character": "a",
    "spaces": " ",
    "keys without values": "password= ",
    "keys as values": "key=",
    "comparisons": "===secret",
    "beginnings of keys": "sk-",
    "labels in a script without spaces": "密码",
    "quotes": '"token":"',
    "labels": "the password for the ",
    "backslashes": "\\",
    "percent": "%25",
    "long keys": "sk-aaaaaaaaaaaaaaaaaaaaaa ",
    "beginnings of PEM": "-----BEGIN PRIVATE KEY-----",
    "deep nesting": "[",
    "deep objects": '{"a":',
    "lone surrogates": "\ud800",
}


def prose(size: int) -> str:
    """Clean text."""
    chooser = random.Random(1)
    return " ".join(chooser.choice(WORDS) for _ in range(size // 4))[:size]


def with_secrets(text: str, count: int) -> str:
    """The text with secrets strewn in."""
    chooser = random.Random(2)
    secrets = [
        f"sk-proj-{chooser.getrandbits(160):x}",
        "ada@example.org",
        "4111 1111 1111 1111",
        "Bearer abcdef0123456789",
        "password=hunter2xyz",
        "ghp_" + "a1B2c3D4" * 4,
    ]
    size = len(text) // count
    return "".join(f"{text[i * size : (i + 1) * size]} {chooser.choice(secrets)} " for i in range(count))


def seconds(text: str, runs: int) -> float:
    """The least time that a run took."""
    best = float("inf")
    for _ in range(runs):
        begun = time.perf_counter()
        REDACTOR.redact(text)
        best = min(best, time.perf_counter() - begun)
    return best


def least(text: str, runs: int) -> float:
    """The least that any redaction with these rules has to do: encode the text, and look at it once."""
    search, best = automaton(RULES, frozenset()).anywhere.search, float("inf")
    for _ in range(runs):
        begun = time.perf_counter()
        search(text.encode("utf-8", "surrogatepass"))
        best = min(best, time.perf_counter() - begun)
    return best


def main() -> None:
    """Print the tables."""
    clean = prose(1_000_000)
    lines = [{"role": "user", "content": clean[i : i + 300] + '\n"quoted"'} for i in range(0, 700_000, 300)]
    looked = {"clean, 1 MB": least(clean, 9), "clean, 1 kB": least(clean[:1000], 500)}
    for name, text, runs in (
        ("clean, 1 MB", clean, 9),
        ("clean, 1 kB", clean[:1000], 500),
        ("JSON with escapes, 0.8 MB", json.dumps(lines), 9),
        ("1,400 secrets in 1 MB", with_secrets(clean, 1_400), 9),
    ):
        took = seconds(text, runs)
        ratio = f"{took / looked[name]:6.2f} times one look" if name in looked else ""
        print(f"{name:28} {len(text) / 1e6 / took:8.1f} MB/s {took * 1e6:12.1f} µs {ratio}")
    print("\nhostile, 0.5 MB and 1 MB: a ratio of 2 is linear")
    for name, piece in HOSTILE.items():
        half, whole = (seconds(piece * (size // len(piece)), 3) for size in (500_000, 1_000_000))
        print(f"{name:28} {half:8.3f} s {whole:8.3f} s   {whole / half:4.1f}")
    half, whole = (seconds("a" * size, 3) for size in (5_000_000, 10_000_000))
    print(f"{'one character, 5 and 10 MB':28} {half:8.3f} s {whole:8.3f} s   {whole / half:4.1f}")


if __name__ == "__main__":
    main()
