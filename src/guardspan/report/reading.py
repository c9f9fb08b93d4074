"""Reading span files: OTLP JSON, one document a line, in bounded memory.

Memory is bounded by the longest line (64 MiB are allowed) and by what is remembered against duplicates: a
span met twice, because a file was copied or an exporter tried again, counts once as long as fewer than one
million other spans lie between (two sets of up to one million 64-bit keys, 150 MB at most).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, Field
from pydantic_core import from_json

from guardspan.harmless import message, whole
from guardspan.report.faults import Faults
from guardspan.report.records import Resource, Span, SpanFault, TellFault, read_ids, read_resource, read_span

MAX_LINE = 64 << 20
"""Bytes; a longer line is a fault."""
_CHUNK = 1 << 20
_GENERATION = 1_000_000
_SUFFIXES = (".jsonl", ".json")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some editors begin a file with it, and files that were joined have it before any line."""
_OTHER_SIGNALS = ("resourceMetrics", "resourceLogs", "resourceProfiles")

Progress = Callable[[int], None]
"""Called with the number of bytes just read."""


class PathMissing(Exception):
    """A path that was asked for does not exist; the message names it and the mend."""


class Sources(BaseModel):
    """What was read."""

    files: int = Field(0, description="files")
    bytes: int = Field(0, description="bytes")
    lines: int = Field(0, description="lines, empty ones not counted")
    spans: int = Field(0, description="spans of guardspan's that count in this report")
    earlier_spans: int = Field(0, description="spans of guardspan's that began before `since`")
    duplicate_spans: int = Field(0, description="spans of guardspan's that had been met before")
    other_spans: int = Field(0, description="spans of other instrumentations")


def find_files(paths: Iterable[Path]) -> list[Path]:
    """Every file to read, each once: files as given, folders searched for ``*.jsonl`` and ``*.json``.

    Sorted by folder and name, since names of span files begin with their time.

    Raises:
        PathMissing: a path does not exist.
    """
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        if not os.path.exists(path):
            name = message(str(path))
            mend = "name a span file or a folder of them"
            raise PathMissing(f"{name} does not exist or may not be read; {mend}")
        for file in sorted(_files_in(path)) if path.is_dir() else [path]:
            try:
                status = file.stat()
            except OSError:
                continue
            found.setdefault((status.st_dev, status.st_ino), file)
    return list(found.values())


def _files_in(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if name.endswith(_SUFFIXES) and path.is_file():
                yield path


class SpanFiles:
    """The spans of files, one after another.

    Args:
        files: what to read.
        since_ns: leave out spans that began earlier, Unix nanoseconds.
        progress: told how much has been read.
        max_line: bytes; a longer line is a fault.
    """

    def __init__(
        self,
        files: Sequence[Path],
        since_ns: int = 0,
        progress: Progress | None = None,
        max_line: int = MAX_LINE,
    ) -> None:
        self._files = files
        self.since_ns = since_ns
        self._progress = progress
        self._max_line = max_line
        self._seen = _Seen()
        self.sources = Sources()
        self.faults = Faults()

    def spans(self) -> Iterator[Span]:
        """Every span of ours, once; what cannot be read is counted in ``faults``."""
        for name, number, document in self.documents():
            yield from self.spans_of(name, number, document)

    def spans_of(self, name: str, number: int, document: dict[str, Any]) -> Iterator[Span]:
        """The spans of ours in one document that have not been met before."""
        tell = self._teller(name, number)
        for resource, raw in raw_spans(document, tell):
            span = self._span(raw, resource, tell)
            if span is not None and self._counts(span):
                yield span

    def documents(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Every line that is an OTLP JSON document of traces: file, line, document."""
        for path in self._files:
            name = whole(str(path))
            self.sources.files += 1
            try:
                with path.open("rb") as file:
                    yield from self._documents_of(name, file)
            except OSError as error:
                self.faults.files += 1
                self.faults.tell(name, None, error.strerror or "cannot be read")

    def _documents_of(self, name: str, file: BinaryIO) -> Iterator[tuple[str, int, dict[str, Any]]]:
        number = 0
        while line := file.readline(self._max_line + 1):
            number += 1
            self._read(len(line))
            if len(line) > self._max_line and not line.endswith(b"\n"):
                self._skip_line(file)
                self._line_fault(name, number, f"longer than {self._max_line >> 20} MiB")
            elif (rest := line.removeprefix(_BYTE_ORDER_MARK)) and not rest.isspace():
                self.sources.lines += 1
                document = self._parse(name, number, rest)
                if document is not None:
                    yield name, number, document

    def _read(self, count: int) -> None:
        self.sources.bytes += count
        if self._progress is not None:
            self._progress(count)

    def _skip_line(self, file: BinaryIO) -> None:
        while rest := file.readline(_CHUNK):
            self._read(len(rest))
            if rest.endswith(b"\n"):
                return

    def _parse(self, name: str, number: int, line: bytes) -> dict[str, Any] | None:
        try:
            document = from_json(line)
        except ValueError:
            what = (
                "no JSON" if line.endswith(b"\n") else "cut off: its writer was stopped, or is still writing"
            )
            self._line_fault(name, number, what)
            return None
        if isinstance(document, dict):
            if isinstance(document.get("resourceSpans"), list):
                return document
            if any(signal in document for signal in _OTHER_SIGNALS):
                return None
        self._line_fault(name, number, "no OTLP JSON")
        return None

    def _line_fault(self, name: str, number: int, what: str) -> None:
        self.faults.lines += 1
        self.faults.tell(name, number, what)

    def _teller(self, name: str, number: int) -> TellFault:
        def tell(what: str) -> None:
            self.faults.values += 1
            self.faults.tell(name, number, what)

        return tell

    def _span(self, raw: Any, resource: Resource, tell: TellFault) -> Span | None:
        try:
            span = read_span(raw, resource, tell)
        except SpanFault as fault:
            self._span_fault(tell, str(fault))
            return None
        except (AttributeError, TypeError):
            self._span_fault(tell, "a span that is none")
            return None
        if span is None:
            self.sources.other_spans += 1
        return span

    def _span_fault(self, tell: TellFault, what: str) -> None:
        tell(what)
        self.faults.values -= 1
        self.faults.spans += 1

    def _counts(self, span: Span) -> bool:
        if not self._seen.add(span):
            self.sources.duplicate_spans += 1
            return False
        if span.start_ns < self.since_ns:
            self.sources.earlier_spans += 1
            return False
        self.sources.spans += 1
        return True


def raw_spans(document: dict[str, Any], tell: TellFault) -> Iterator[tuple[Resource, Any]]:
    """Every span of a document as it stands there, with its resource."""
    for group in _dicts(document["resourceSpans"], tell):
        resource = _resource(group.get("resource"), tell)
        for scope in _dicts(group.get("scopeSpans", []), tell):
            spans = scope.get("spans", [])
            for raw in spans if isinstance(spans, list) else [spans]:
                yield resource, raw


def _dicts(values: Any, tell: TellFault) -> Iterator[dict[str, Any]]:
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, dict):
            yield value
        else:
            tell("resourceSpans or scopeSpans with something else in it")


def _resource(raw: Any, tell: TellFault) -> Resource:
    try:
        return read_resource(raw, tell)
    except (AttributeError, TypeError):
        tell("a resource that is none")
        return Resource()


def parents(document: dict[str, Any], trace_id: str) -> Iterator[tuple[str, str | None]]:
    """Span id and parent's span id of every span of a trace, whoever made it."""
    for _, raw in raw_spans(document, lambda what: None):
        try:
            found, span_id, parent_id = read_ids(raw)
        except (AttributeError, SpanFault):
            continue
        if found == trace_id:
            yield span_id, parent_id


class _Seen:
    """Keys of the latest spans: two generations, the older of which is dropped when the newer is full."""

    def __init__(self, generation: int = _GENERATION) -> None:
        self._generation = generation
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def add(self, span: Span) -> bool:
        """False when the span is among them already."""
        key = hash(span.trace_id + span.span_id)
        if key in self._newer or key in self._older:
            return False
        self._newer.add(key)
        if len(self._newer) >= self._generation:
            self._older, self._newer = self._newer, set()
        return True
