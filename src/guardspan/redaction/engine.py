"""The engine: texts and structures, redacted."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from guardspan.redaction import finders
from guardspan.redaction.automaton import automaton
from guardspan.redaction.decode import View, views
from guardspan.redaction.findings import Finding, mark, merged, replaced
from guardspan.redaction.keys import KeyNames
from guardspan.redaction.rule import Finder, Rule
from guardspan.redaction.rules import RULES
from guardspan.redaction.scan import Scan
from guardspan.redaction.structures import Walk, plain_text

# A mark may part what hid a further secret; the last pass finds nothing.
_MAX_PASSES = 4


class RedactionError(Exception):
    """A value could not be redacted; the message holds nothing of it."""


class Redacted(NamedTuple):
    """A text after redaction, and how many substrings were replaced."""

    text: str
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody needs here


class RedactedValue(NamedTuple):
    """A value after redaction, as plain JSON values, and how many of them were replaced or changed."""

    value: Any
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody needs here


class Redactor:
    """Replaces secrets by marks such as ``[redacted:github]``. Safe for threads; made once, kept.

    Args:
        extra_rules: further rules, tried before our own.
        extra_key_names: further names of keys, whose values are secret whatever they are.
        plain_key_names: names of keys whose values are no secrets; they win over all other names. What a
            rule finds in such a value goes all the same.
        options: our own rules that are used only when asked for: ``ip``.
        finders: find what no rule can. One that raises, or gives what is no span of the text, fails the
            redaction.
        digest: the keyed digest of a secret, in hex digits; it becomes part of the mark
            (``[redacted:github#9f2c…]``), so that equal secrets can be matched. None: no digests.
    """

    def __init__(
        self,
        *,
        extra_rules: Sequence[Rule] = (),
        extra_key_names: Iterable[str] = (),
        plain_key_names: Iterable[str] = (),
        options: Iterable[str] = (),
        finders: Sequence[Finder] = (),
        digest: Callable[[str], str] | None = None,
    ) -> None:
        secret_names, chosen = frozenset(extra_key_names), {"", *options}
        self._names = KeyNames(secret_names, plain_key_names)
        self._finders = tuple(finders)
        self._digest = digest
        self._any_number = bool(extra_rules or finders)
        rules = (*extra_rules, *(rule for rule in RULES if rule.option in chosen))
        # Made at the first use; found again without a look at the rules, which would cost more than a scan.
        self._compiled = functools.cache(functools.partial(automaton, rules, secret_names))

    def warm(self) -> None:
        """Compile the rules now, so that the first text does not wait for that; takes about 0.1 s once."""
        self._compiled()

    def redact(self, text: str) -> Redacted:
        """The text with every secret replaced by a mark; JSON stays JSON.

        Raises:
            RedactionError: something within failed; the text must not be used then.
        """
        try:
            return self._redact(text)
        except Exception as error:
            raise RedactionError(f"a text could not be redacted ({type(error).__name__})") from None

    def explain(self, text: str) -> list[Finding]:
        """Every secret's place (in UTF-8 bytes) and rule, without the secret.

        Raises:
            RedactionError: something within failed.
        """
        try:
            return self._findings(views(text.encode("utf-8", "surrogatepass")), self._finders)
        except Exception as error:
            raise RedactionError(f"a text could not be redacted ({type(error).__name__})") from None

    def redact_value(self, obj: Any) -> RedactedValue:
        """A structure as plain JSON values, its texts redacted, values under secret names replaced whole.

        Dictionaries, sequences, sets, pydantic models and dataclasses are walked; any other object becomes
        the name of its type.

        Raises:
            RedactionError: something within failed; the value must not be used then.
        """
        try:
            return RedactedValue(*self._walk(obj))
        except Exception as error:
            raise RedactionError(f"a value could not be redacted ({type(error).__name__})") from None

    def secret_name(self, name: str) -> bool:
        """Whether a key of this name holds a secret, whatever its value looks like."""
        return self._names.secret(name)

    def _walk(self, obj: Any) -> tuple[Any, int]:
        return Walk(self._redact, self._names, self._mark, self._any_number).value(obj)

    def _redact(self, text: str) -> Redacted:
        done, count, finders = text, 0, self._finders
        for _ in range(_MAX_PASSES):
            data = done.encode("utf-8", "surrogatepass")
            layers = views(data)
            findings = self._findings(layers, finders)
            if findings:
                count += len(findings)
                done = replaced(data, findings).decode("utf-8", "surrogatepass")
            if not findings or len(layers) == 1:
                break
            finders = ()  # they have seen every view; our own marks are not theirs to judge
        return Redacted(done, count) if not count or not _broken(text, done) else self._as_json(text)

    def _as_json(self, text: str) -> Redacted:
        """JSON that marks would break, walked as a structure."""
        value, count = self._walk(json.loads(text))
        return Redacted(json.dumps(value, ensure_ascii=False), count)

    def _findings(self, layers: list[View], further: Sequence[Finder]) -> list[Finding]:
        compiled = self._compiled()
        digest = self._digest_of if self._digest else None
        found: list[Finding] = []
        for view in layers:
            found += Scan(compiled, self._names, view, digest).findings()
            if further:
                found += finders.findings(further, view, digest)
        return merged(found)

    def _digest_of(self, secret: bytes) -> str:
        return self._digest(secret.decode("utf-8", "replace")) if self._digest else ""

    def _mark(self, rule: str, secret: Any) -> str:
        text = plain_text(secret) if self._digest else None
        return mark(rule, self._digest(text) if self._digest and text else "")


def _broken(before: str, after: str) -> bool:
    """Whether a text was JSON and is none any more."""
    return before.lstrip()[:1] in {"{", "[", '"'} and not _is_json(after) and _is_json(before)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
