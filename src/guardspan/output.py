"""Writing to standard output, which may lack characters, be full, or have a reader that leaves early."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator


def write(text: str) -> None:
    """Write, with what the encoding of standard output lacks replaced."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.stdout.write(text)


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """``guardspan report | head -1`` is no fault: what nobody reads is not written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard()


def discard() -> None:
    """Let what waits to be written go nowhere; Python would try, and complain, once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    finally:
        os.close(null)
