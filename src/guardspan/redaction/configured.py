"""The redactor that the settings describe."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from guardspan.redaction.engine import Redactor
from guardspan.redaction.rule import Finder
from guardspan.redaction.rulefile import OwnRules, load_rules
from guardspan.userfile import FileFault

if TYPE_CHECKING:
    from pathlib import Path

    from guardspan.settings import Settings


class RedactionSetupError(ValueError):
    """What the settings name cannot be used; the message says what, and what mends it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Redaction:
    """What the settings say of redaction, read once: files and models are loaded.

    Attributes:
        own: rules and names of keys of the user's own.
        options: our own rules that are used only when asked for.
        finders: callables that find what no rule can.
    """

    own: OwnRules = dataclasses.field(default_factory=OwnRules)
    options: tuple[str, ...] = ()
    finders: tuple[Finder, ...] = ()

    @classmethod
    def of(cls, settings: Settings, hook: Finder | None = None) -> Redaction:
        """Read what the settings name.

        Args:
            settings: the settings.
            hook: a finder of the application's own.

        Raises:
            RedactionSetupError: the file of rules, or the model, cannot be used.
        """
        finders = [hook] if hook is not None else []
        if settings.redact_presidio:
            finders.append(_presidio(settings.redact_presidio))
        options = ("ip",) if settings.redact_ip else ()
        return cls(own_rules(settings.redact_rules), options, tuple(finders))

    def redactor(self, digest: Callable[[str], str] | None = None) -> Redactor:
        """A redactor; with ``digest``, its marks tell equal secrets."""
        return Redactor(
            extra_rules=[rule.rule() for rule in self.own.rules],
            extra_key_names=self.own.keys,
            plain_key_names=self.own.plain_keys,
            options=self.options,
            finders=self.finders,
            digest=digest,
        )


def own_rules(path: Path | None) -> OwnRules:
    """The rules of the file, none when there is no file.

    Raises:
        RedactionSetupError: the file cannot be used; a line a fault, with the file, the field and the mend.
    """
    try:
        return load_rules(path) if path else OwnRules()
    except FileFault as error:
        raise RedactionSetupError(str(error)) from error.__cause__


@functools.lru_cache(maxsize=1)
def _presidio(model: str) -> Finder:
    """Of one model there is one finder, whichever library asks: it takes seconds to load, and much memory."""
    from guardspan.redaction.presidio import PresidioError, presidio_finder

    try:
        return presidio_finder(model)
    except PresidioError as error:
        raise RedactionSetupError(f"GUARDSPAN_REDACT_PRESIDIO: {error}") from error.__cause__
