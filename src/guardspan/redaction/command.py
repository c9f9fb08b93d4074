"""``guardspan redact``: what redaction makes of a text, and, with ``--explain``, why."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from guardspan import harmless
from guardspan.content import Content, digest_key
from guardspan.redaction.configured import Redaction, RedactionSetupError
from guardspan.redaction.engine import RedactionError, Redactor
from guardspan.settings import Settings, environment_faults

_UNUSABLE = 2


class _BadInput(Exception):
    """Input that cannot be used; the message says where, what is wrong, and the mend."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    added = commands.add_parser(
        "redact",
        help="read standard input and write it redacted",
        description="Reads standard input and writes it redacted. The whole input is one text; "
        "with --input jsonl each line is one. The GUARDSPAN_REDACT_* settings apply.",
    )
    added.add_argument(
        "--rules",
        metavar="FILE",
        help="rules of your own, instead of those that GUARDSPAN_REDACT_RULES names",
    )
    added.add_argument(
        "--input",
        choices=("text", "jsonl"),
        default="text",
        help='jsonl: one {"text": ...} a line; a line that is none ends the run with exit code 2',
    )
    output = added.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help='write one {"text", "count"} a line')
    output.add_argument(
        "--explain",
        action="store_true",
        help="instead of the text, write a line for each secret: place, rule, reason; never the secret",
    )


def run(arguments: argparse.Namespace) -> int:
    """Redact standard input; 2, with a message on standard error, when something cannot be used."""
    if sys.stdin is None:
        sys.stderr.write("guardspan redact: standard input is closed; give it the text\n")
        return _UNUSABLE
    source = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="surrogateescape", newline="")
    target = io.TextIOWrapper(
        sys.stdout.buffer, encoding="utf-8", errors="surrogateescape", newline="", write_through=True
    )
    try:
        _copy(arguments, _redactor(arguments.rules), source, target)
    except (_BadInput, RedactionSetupError, RedactionError) as fault:
        lines = str(fault).split("\n")
        sys.stderr.write("".join(f"guardspan redact: {harmless.message(line)}\n" for line in lines))
        return _UNUSABLE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        target.detach()
        source.detach()
    return 0


def _redactor(rules: str | None) -> Redactor:
    """The redactor that an application in this environment would have."""
    for name, fault in environment_faults().items():
        if name.startswith("GUARDSPAN_REDACT_") and not (rules and name == "GUARDSPAN_REDACT_RULES"):
            raise _BadInput(f"{name}: {fault}; correct the variable, or unset it")
    settings = Settings.from_environment(redact_rules=rules)
    digest = Content(key=digest_key(settings)).digest if settings.redact_digests else None
    return Redaction.of(settings).redactor(digest)


def _copy(arguments: argparse.Namespace, redactor: Redactor, source: TextIO, target: TextIO) -> None:
    lines = arguments.input == "jsonl"
    texts = _records(source) if lines else iter([(1, source.read())])
    for number, text in texts:
        if arguments.explain:
            target.write(_explained(redactor, text, number if lines else None))
            continue
        done = redactor.redact(text)
        if arguments.json or lines:
            record: dict[str, Any] = {"text": done.text}
            if arguments.json:
                record["count"] = done.count
            target.write(json.dumps(record) + "\n")
        else:
            target.write(done.text)


def _records(source: TextIO) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source, 1):
        if line.strip():
            yield number, _text_of(number, line)


def _text_of(number: int, line: str) -> str:
    where = f"standard input, line {number}"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise _BadInput(f'{where}: no JSON; give one {{"text": "..."}} a line') from None
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise _BadInput(f'{where}: field "text" is missing or no string; give one {{"text": "..."}} a line')
    return text


def _explained(redactor: Redactor, text: str, line: int | None) -> str:
    place = f"line {line}, " if line is not None else ""
    return "".join(
        f"{place}bytes {found.start} to {found.end}: {found.rule} ({harmless.plain(found.reason)})\n"
        for found in redactor.explain(text)
    )
