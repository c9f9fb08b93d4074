"""Reads files of the user's own, as prices and rules are, and says what is wrong with one.

Every fault is one line: the file, the field, what is wrong, and the mend. Nothing of a value is in it.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same, for Python 3.10

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MAX_BYTES = 10_000_000
_MAX_FAULTS = 20
_MENDS = {
    "missing": "add it",
    "extra_forbidden": "remove it, or mend its spelling",
    "json_invalid": "mend the JSON there",
    "string_type": "give a text in quotes",
    "string_too_short": "give a text that is not empty",
    "model_type": "give an object in braces",
    "model_attributes_type": "give an object in braces",
    "tuple_type": "give a list in brackets",
}

Model = TypeVar("Model", bound=BaseModel)


class FileFault(ValueError):
    """A file that cannot be used; the message names the file, the field and the mend, a line a fault."""


def load(path: Path, model: type[Model], *, variable: str, mends: Mapping[str, str] | None = None) -> Model:
    """Read a file into a model: TOML where its name ends in ``.toml``, else JSON.

    Args:
        path: the file; at most 10 MB are read.
        model: what it holds.
        variable: the setting that named the file, for the message.
        mends: what to do about faults, by pydantic's names for them, beside the usual ones.

    Raises:
        FileFault: the file cannot be read, is no JSON or TOML, or breaks the form.
    """
    content = _read(path, variable)
    try:
        if path.suffix.lower() == ".toml":
            return model.model_validate(_toml(path, content))
        return model.model_validate_json(content)
    except ValidationError as error:
        known = {**_MENDS, **(mends or {})}
        found = error.errors(include_input=False, include_url=False)
        faults = [_fault(path, fault, known) for fault in found]
        more = [f"{path}: and {len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
        raise FileFault("\n".join(faults[:_MAX_FAULTS] + more)) from None


def _read(path: Path, variable: str) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise FileFault(f"{path}: is no file; correct {variable}")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise FileFault(f"{path}: cannot be read ({error.strerror}); correct {variable}") from error
    if len(content) > _MAX_BYTES:
        raise FileFault(f"{path}: is larger than {_MAX_BYTES} bytes; is it the file that {variable} means?")
    return content.removeprefix(codecs.BOM_UTF8)


def _toml(path: Path, content: bytes) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(content.decode())
        return table
    except UnicodeDecodeError as error:
        raise FileFault(f"{path}: byte {error.start} is no UTF-8; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise FileFault(f"{path}: {error}; mend the TOML there") from None
    except (RecursionError, ValueError):
        raise FileFault(f"{path}: nests too deep, or has a number too long; make it simpler") from None


def _fault(path: Path, fault: ErrorDetails, mends: Mapping[str, str]) -> str:
    """One line: the file, the field, what is wrong and the mend."""
    message = fault["msg"].removeprefix("Value error, ")
    mend = mends.get(fault["type"])
    return f"{path}: {_place(fault['loc'])}: {message}" + (f"; {mend}" if mend else "")


def _place(location: tuple[int | str, ...]) -> str:
    """``models[0].input``; a key of the user's own that is no plain name is quoted and escaped."""
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            place += f".{part}" if part.isidentifier() and part.isascii() else f".{ascii(part)[:64]}"
    return place.lstrip(".") or "the file"
