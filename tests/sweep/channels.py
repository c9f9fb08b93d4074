"""All that guardspan lets out, by the channel that it comes out by."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from recording import Recording
from spans import everything

import guardspan
from guardspan import cli
from guardspan.files import GuardspanFileExporter
from guardspan.guardrails import GuardrailsInstrumentor
from guardspan.pydantic_ai import PydanticAIInstrumentor
from guardspan.redaction import Redactor

_LOGGERS = ("guardspan", "opentelemetry")
OWN = str(Path(guardspan.__file__).parent)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))  # with the traceback, where one is logged


class Channels:
    """Instrumented, with an exporter at every end.

    Args:
        record: the fixture.
        folder: of the files.
        options: further settings.
    """

    def __init__(self, record: Callable[..., Recording], folder: Path, **options: Any) -> None:
        self.folder = folder
        self.views: list[str] = []
        self.logs = InMemoryLogRecordExporter()
        self.records = _Lines()
        self.warned: list[str] = []
        self.output = ""
        self.logger_provider = LoggerProvider()
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        with self._listening():
            self.recording = record(
                logger_provider=self.logger_provider,
                evaluation_events=True,
                call_hook=self.hook,
                iteration_hook=self.hook,
                baggage_keys="user.id,session,api_key",
                **options,
            )
        self._files = GuardspanFileExporter(directory=folder)
        self.recording.tracer_provider.add_span_processor(SimpleSpanProcessor(self._files))

    def hook(self, span: Any, view: Any) -> None:
        """What a hook of the application's own is given."""
        self.views.append(repr(view))

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.addHandler(self.records)
            logger.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.removeHandler(self.records)
                logger.setLevel(level)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Listen to what is logged, warned of and printed meanwhile; what came before is let go of."""
        self.recording.exporter.clear()
        self.logs.clear()
        self.views.clear()
        self.records.lines.clear()
        self.warned.clear()
        out = io.StringIO()
        with (
            self._listening(),
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            yield
        self.warned += [str(each.message) for each in caught if each.filename.startswith(OWN)]
        self.output = out.getvalue()

    def exported(self) -> dict[str, str]:
        """What came out since :meth:`open`, by channel."""
        spans = self.recording.spans
        metrics = self.recording.metrics.get_metrics_data()
        return {
            "spans": everything(spans),
            "scopes": "\n".join(repr(span.instrumentation_scope) for span in spans),
            "OTLP": encode_spans(spans).SerializeToString().decode("utf-8", "replace"),
            "metrics": metrics.to_json() if metrics else "",
            "log events": "\n".join(log.to_json() for log in self.logs.get_finished_logs()),
            "views": "\n".join(self.views),
            "log": "\n".join(self.records.lines),
            "warnings": "\n".join(self.warned),
            "output": self.output,
            "objects": _objects(),
        }

    def kept(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
        """What stays on disk, and what the commands show of it."""
        files = sorted(path for path in self.folder.iterdir() if path.is_file())
        shown = {
            "names of files": "\n".join(map(str, files)),
            "files": "\n".join(path.read_text("utf-8") for path in files),
        }
        page = self.folder.parent / "page.html"
        commands = [[*REPORT, str(self.folder)] for REPORT in REPORTS]
        for width in (40, 80, 200):
            monkeypatch.setenv("COLUMNS", str(width))
            shown |= {f"{' '.join(c[:-1])} at {width}": command(*c) for c in commands}
        shown["page"] = command("report", str(self.folder), "--html", str(page)) + page.read_text("utf-8")
        call = _some_call(shown["files"])
        shown["tree"] = command("report", "--call", call, str(self.folder))
        for arguments in (["doctor"], ["doctor", "--json"]):
            shown[" ".join(arguments)] = command(*arguments)
        return shown


REPORTS = [
    ["report"],
    ["report", "--by", "model"],
    ["report", "--by", "team"],
    ["report", "--by", "status"],
    ["report", "--json"],
]


def command(*arguments: str) -> str:
    """Both outputs of a `guardspan` command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        cli.main(arguments)
    return out.getvalue()


def _some_call(files: str) -> str:
    """The id of a Call in the files."""
    after = files.partition('"guardspan.call.id"')[2].partition("stringValue")[2]
    return after.split('"')[2]


def _objects() -> str:
    """What the objects that an application holds show of themselves."""
    instrumentors = (GuardrailsInstrumentor(), PydanticAIInstrumentor())
    settings = [each._telemetry.settings for each in instrumentors if each._telemetry is not None]
    return repr([*instrumentors, *map(vars, instrumentors), Redactor(), guardspan, *settings])
