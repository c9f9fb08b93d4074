"""Attributes of a library, replaced by wrappers and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wrapt

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
"""What wrapt calls: the wrapped function, its instance, positional arguments, keywords."""


class Patches:
    """Replaces attributes by wrappers and puts the very same objects back."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self._enabled = True

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Wrap ``owner.name``, which must be the owner's own and not inherited."""
        original = vars(owner)[name]
        wrapped = wrapt.FunctionWrapper(original, wrapper, enabled=self._is_enabled)
        setattr(owner, name, wrapped)
        self._undo.append((owner, name, original, wrapped))

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set ``owner.name`` until the patches are undone; what the application sets meanwhile stays."""
        self._undo.append((owner, name, getattr(owner, name), value))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back; a wrapper that somebody has wrapped again stays, without effect."""
        self._enabled = False
        while self._undo:
            owner, name, original, ours = self._undo.pop()
            current = vars(owner).get(name, getattr(owner, name, None))
            if current is ours:
                setattr(owner, name, original)

    def _is_enabled(self) -> bool:
        return self._enabled
