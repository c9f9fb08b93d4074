"""The embedded exporter: spans as OTLP JSON lines in a folder, without a collector.

``OTEL_TRACES_EXPORTER=guardspan_file`` writes what ``guardspan report`` reads and what a collector's
``otlp_json_file`` receiver can replay later. Every process has files of its own, named by time, process
and a random part, so that many processes, forks and a process id that comes back never share one.

* A line is at most 1 MiB where spans can be parted (the receiver's own ``max_log_size``), and is written
  whole, by one call, onto a file opened for appending: a reader meanwhile sees whole lines.
* Past ``GUARDSPAN_FILE_LIMIT`` bytes a new file is begun. Before that, the oldest files are removed until
  the folder has room for it within ``GUARDSPAN_DIR_LIMIT``. A file that a process still writes is locked
  and stays, so the folder can exceed the limit by what other live processes write.
* Files and folder are for their owner only.

The receiver tells files apart by their first 1,000 bytes (``fingerprint_size``), and each of ours begins with
the resource: raise that setting where a resource has very many attributes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from guardspan.safety import report
from guardspan.settings import Settings

if sys.platform == "win32":

    def _hold(descriptor: int) -> bool:
        """An open file cannot be removed on Windows, which serves as well as a lock."""
        return True

else:
    import fcntl

    def _hold(descriptor: int) -> bool:
        """Lock a file for as long as its descriptor is open; False when another process holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


MAX_LINE = 1 << 20
"""Bytes; a batch whose line would be longer is parted, down to single spans."""

_SPANS_PER_LINE = 128
_PREFIX, _SUFFIX = "spans-", ".jsonl"
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_ESCAPES = re.compile(r"\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2})|.)")

_Export = Callable[[Sequence[ReadableSpan]], SpanExportResult]


class GuardspanFileExporter(SpanExporter):
    """Writes spans to files in a folder; the official OTLP JSON file exporter does the encoding.

    Args:
        directory: folder of the files; ``GUARDSPAN_DIR`` (``.guardspan``) when not given.
        file_limit: bytes per file; ``GUARDSPAN_FILE_LIMIT`` when not given.
        dir_limit: bytes in the folder; ``GUARDSPAN_DIR_LIMIT`` when not given.

    Raises:
        RuntimeError: the extra ``files`` is not installed.
        pydantic.ValidationError: a keyword's value cannot be used.
    """

    def __init__(
        self,
        *,
        directory: str | os.PathLike[str] | None = None,
        file_limit: int | None = None,
        dir_limit: int | None = None,
    ) -> None:
        settings = Settings.from_environment(dir=directory, file_limit=file_limit, dir_limit=dir_limit)
        self._folder = _Folder(settings.dir, settings.file_limit, settings.dir_limit)
        self._closed = False
        self._start()
        if hasattr(os, "register_at_fork"):
            restart = weakref.WeakMethod(self._restart_in_child)
            os.register_at_fork(after_in_child=lambda: _call(restart()))

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._writer = _Writer(self._folder)
        self._encode_and_write = _official_exporter(self._writer)

    def _restart_in_child(self) -> None:
        """A child has files of its own, and locks that no thread of the parent can have left held."""
        parents = self._writer
        self._start()
        parents.drop()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the spans; never raises. FAILURE when any could not be written, or after shutdown."""
        try:
            with self._lock:
                done = not self._closed and all([self._write(part) for part in _parts(spans)])
        except Exception as error:
            report("export spans to files", error)
            done = False
        return SpanExportResult.SUCCESS if done else SpanExportResult.FAILURE

    def _write(self, spans: Sequence[ReadableSpan]) -> bool:
        """One line, or the spans by halves when it would be too long."""
        writer = self._writer
        writer.longest = MAX_LINE if len(spans) > 1 else None
        writer.too_long = writer.failed = False
        written = self._encode_and_write(spans) is SpanExportResult.SUCCESS
        if writer.too_long:
            middle = len(spans) // 2
            return all([self._write(half) for half in (spans[:middle], spans[middle:])])
        return written and not writer.failed

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is held back: True."""
        return True

    def shutdown(self) -> None:
        """Close the file; later exports fail. May be called more than once."""
        with self._lock:
            self._closed = True
            self._writer.drop()


def _call(function: Callable[[], None] | None) -> None:
    if function is not None:
        function()


def _parts(spans: Sequence[ReadableSpan]) -> Iterator[Sequence[ReadableSpan]]:
    for start in range(0, len(spans), _SPANS_PER_LINE):
        yield spans[start : start + _SPANS_PER_LINE]


def _official_exporter(writer: _Writer) -> _Export:
    try:
        from opentelemetry.exporter.otlp.json.file import FileSpanExporter
    except ImportError as error:
        raise RuntimeError(
            "the exporter guardspan_file needs opentelemetry-exporter-otlp-json-file; "
            'install it with: pip install "guardspan[files]"'
        ) from error
    return FileSpanExporter(stream=cast("IO[str]", writer)).export


class _Writer:
    """The stream that the official exporter writes lines to.

    It never raises, since that exporter logs each fault with its trace; ``failed`` and ``too_long`` tell.
    """

    closed = False

    def __init__(self, folder: _Folder) -> None:
        self._folder = folder
        self._file: _SpanFile | None = None
        self.longest: int | None = None
        self.too_long = False
        self.failed = False

    def write(self, line: str) -> int:
        """Append one line, ASCII, its newline included."""
        if self.longest is not None and len(line) > self.longest:
            self.too_long = True
            return 0
        try:
            self._append(_well_formed(line).encode("ascii"))
        except OSError as error:
            self.failed = True
            reason = os.strerror(error.errno) if error.errno else "refused"
            report(f"write spans to {self._folder.path} ({reason})", error)
        return len(line)

    def _append(self, data: bytes) -> None:
        file = self._file
        if (
            file is None
            or not file.usable()
            or (file.size and file.size + len(data) > self._folder.file_limit)
        ):
            self.drop()
            file = self._file = self._folder.new_file()
        try:
            file.append(data)
        except OSError:
            if file.broken:
                self.drop()
            raise

    def flush(self) -> None:
        """Nothing is held back."""

    def drop(self) -> None:
        """Close the file, if one is open; the next line begins a new one."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


class _SpanFile:
    """One file, held by this process as long as it is open."""

    __slots__ = ("_descriptor", "_identity", "broken", "size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _identity(os.fstat(descriptor))
        self.size = 0
        self.broken = False

    def append(self, data: bytes) -> None:
        """Write all of it, or none: after a fault the part that got through is cut off again."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            self._cut_back()
            raise
        self.size += len(data)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            self.broken = True

    def usable(self) -> bool:
        """False when somebody has removed the file, or closed its descriptor, as daemons do with all."""
        try:
            found = os.fstat(self._descriptor)
        except OSError:
            return False
        return _identity(found) == self._identity and found.st_nlink > 0

    def close(self) -> None:
        """Close the descriptor, unless its number has come to mean something else."""
        with contextlib.suppress(OSError):
            if _identity(os.fstat(self._descriptor)) == self._identity:
                os.close(self._descriptor)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


class _Folder:
    """The folder of the files, and the limits that hold in it."""

    def __init__(self, path: Path, file_limit: int, dir_limit: int) -> None:
        self.path = _absolute(path)
        self.file_limit = min(file_limit, dir_limit // 2)
        self._dir_limit = dir_limit

    def new_file(self) -> _SpanFile:
        """Make room, then create a file that nobody else has."""
        self._create()
        self._make_room()
        name = f"{_PREFIX}{_timestamp()}-{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _FLAGS
        descriptor = os.open(self.path / name, flags, 0o600)
        try:
            _hold(descriptor)
        except OSError as error:
            report("lock a file of spans", error)
        return _SpanFile(descriptor)

    def _create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            return
        descriptor = os.open(self.path / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
        with open(descriptor, "wb") as ignore:
            ignore.write(b"*\n")

    def _make_room(self) -> None:
        """Remove the oldest files, by name, until one more of full size fits in."""
        files = sorted(self._files())
        excess = sum(size for _, size in files) + self.file_limit - self._dir_limit
        for name, size in files:
            if excess <= 0:
                return
            if self._remove(name):
                excess -= size

    def _files(self) -> Iterator[tuple[str, int]]:
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX):
                    size = _size(entry)
                    if size is not None:
                        yield entry.name, size

    def _remove(self, name: str) -> bool:
        """Remove a file unless a live process holds it; True when it is gone, whoever removed it."""
        path = self.path / name
        try:
            if not _is_free(path):
                return False
            path.unlink(missing_ok=True)
        except FileNotFoundError:
            return True
        except OSError as error:
            report("remove an old file of spans", error)
            return False
        return True


def _is_free(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR | _FLAGS)
    try:
        return _hold(descriptor)
    finally:
        os.close(descriptor)


def _size(entry: os.DirEntry[str]) -> int | None:
    """Bytes of a regular file; None for anything else, or when it has just been removed."""
    try:
        return entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None


def _absolute(path: Path) -> Path:
    """Fixed now, since an application may change its working directory."""
    try:
        return path.absolute()
    except OSError:
        return path


def _timestamp() -> str:
    now = time.time_ns()
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now // 10**9))}.{now % 10**9 // 1000:06d}Z"


def _well_formed(line: str) -> str:
    """A lone surrogate is no text: readers refuse it, and with it the whole line."""
    return _ESCAPES.sub(_mend, line) if "\\ud" in line else line


def _mend(escape: re.Match[str]) -> str:
    return json.dumps("�")[1:-1] if escape[1] else escape[0]
