"""The user's own rules: the file that ``GUARDSPAN_REDACT_RULES`` names (``docs/security.md``).

A rule is tested by its own examples when the file is read: one that does not find what it is for is worse
than none, for everybody would rely on it.
"""

from __future__ import annotations

import re
from pathlib import Path

import re2
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from guardspan import userfile
from guardspan.redaction.automaton import Automaton, compiled
from guardspan.redaction.decode import views
from guardspan.redaction.keys import KeyNames, words_of
from guardspan.redaction.rule import Rule
from guardspan.redaction.scan import Scan

_MAX_RULES = 500
_MAX_KEYS = 1_000
_MAX_PROGRAMS = 100_000
_MAX_PROGRAM = 2_000
"""Instructions of a compiled pattern. All rules are one automaton, which a large one would slow down."""
_OURS = frozenset(["email", "pem"])
_MENDS = {
    "string_pattern_mismatch": "give small letters, digits and hyphens",
    "too_short": "give one at least",
    "string_too_long": "make it shorter",
    "too_long": "remove some",
}
_UNBOUNDED = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|(?P<unbounded>[*+]|\{\d+,\})", re.S)
_CLASS_BEYOND_ASCII = re.compile(r"\[[^\]]*[^\x00-\x7f][^\]]*\]")


def _told_by_re2(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)


class OwnRule(BaseModel):
    """One rule of the user's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", description="what the mark says: `[redacted:ID]`")
    reason: str = Field("", max_length=200, description="why it is secret, for `--explain`")
    pattern: str = Field(
        min_length=1,
        max_length=1_000,
        description="RE2 syntax; every repeat has an upper bound; `(?P<secret>…)` marks a part",
    )
    tail: str = Field("", max_length=100, description="characters, as in a class, over which a match goes on")
    matches: tuple[str, ...] = Field(min_length=1, description="texts in which it must find something")
    misses: tuple[str, ...] = Field((), description="texts in which it must not")

    @field_validator("id")
    @classmethod
    def _is_no_name_of_ours(cls, name: str) -> str:
        if name in _OURS:
            raise ValueError(f"is a rule of ours, which works in its own way; take another, as my-{name}")
        return name

    @field_validator("pattern")
    @classmethod
    def _can_be_part_of_the_automaton(cls, pattern: str) -> str:
        for found in _UNBOUNDED.finditer(pattern):
            if found["unbounded"]:
                where = f"{found['unbounded']} at character {found.start() + 1}"
                raise ValueError(
                    f"has a repeat without an upper bound ({where}); write {{1,64}}, or use tail"
                )
        if r"\Q" in pattern:
            raise ValueError(r"has \Q; write a backslash before each character instead")
        if _CLASS_BEYOND_ASCII.search(pattern):
            raise ValueError("has a character beyond ASCII in brackets; write (?:ä|ö) instead of [äö]")
        try:
            done = compiled(pattern)
        except re2.error as error:
            raise ValueError(f"is no pattern of RE2 ({_told_by_re2(error)}); see its syntax page") from None
        if done.programsize > _MAX_PROGRAM:
            raise ValueError(f"is too large ({done.programsize} of {_MAX_PROGRAM}); use smaller repeats")
        if set(done.groupindex) - {b"secret"}:
            raise ValueError("has a named group; only (?P<secret>…) may be one")
        if done.match(b""):
            raise ValueError("matches where nothing is; it must ask for one character at least")
        return pattern

    @field_validator("tail")
    @classmethod
    def _is_the_inside_of_a_class(cls, tail: str) -> str:
        try:
            re.compile(f"[{tail}]*".encode("ascii") if tail else b"")
        except (re.error, UnicodeEncodeError):
            raise ValueError("is no inside of a class of ASCII characters, such as A-Za-z0-9_-") from None
        if "[" in tail or "]" in tail:
            raise ValueError("has a bracket; give the inside of a class, such as A-Za-z0-9_-")
        return tail

    @model_validator(mode="after")
    def _does_what_its_examples_say(self) -> OwnRule:
        rule, names = self.rule(), KeyNames()
        alone = Automaton((rule,), names)

        def found(text: str) -> bool:
            layers = views(text.encode("utf-8", "surrogatepass"))
            return any(
                finding.rule == rule.id
                for view in layers
                for finding in Scan(alone, names, view, None).findings()
            )

        for field, texts, wanted in (("matches", self.matches, True), ("misses", self.misses, False)):
            for index, text in enumerate(texts):
                if found(text) is not wanted:
                    what = "is not found by" if wanted else "is found by"
                    raise ValueError(f"{field}[{index}] {what} the pattern; mend one of the two")
        return self

    def rule(self) -> Rule:
        """As the engine takes it."""
        return Rule(
            self.id,
            self.reason or f"a rule of your own: {self.id}",
            self.pattern,
            tail=self.tail,
            matches=self.matches,
            misses=self.misses,
        )


class OwnRules(BaseModel):
    """What the file holds: rules, and names of keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: tuple[OwnRule, ...] = Field((), max_length=_MAX_RULES)
    keys: tuple[str, ...] = Field(
        (), max_length=_MAX_KEYS, description="names of keys whose values are always secret"
    )
    plain_keys: tuple[str, ...] = Field(
        (), max_length=_MAX_KEYS, description="names of keys whose values are no secrets"
    )

    @field_validator("rules")
    @classmethod
    def _fit_into_one_automaton(cls, rules: tuple[OwnRule, ...]) -> tuple[OwnRule, ...]:
        size = sum(compiled(rule.pattern).programsize for rule in rules)
        if size > _MAX_PROGRAMS:
            raise ValueError(f"are too large together ({size} of {_MAX_PROGRAMS}); use smaller repeats")
        return rules

    @field_validator("keys", "plain_keys")
    @classmethod
    def _are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not words_of(name) or len(name) > 100:
                raise ValueError(f"{ascii(name)[:100]} is no name of a key; give one such as loyaltyNumber")
        return names


def load_rules(path: Path) -> OwnRules:
    """Read a file of the user's own rules, TOML or JSON.

    Raises:
        FileFault: the file cannot be read or breaks the form, or a rule breaks its own examples; one line
            per fault, with the file, the field and the mend.
    """
    return userfile.load(path, OwnRules, variable="GUARDSPAN_REDACT_RULES or --rules", mends=_MENDS)
