"""The embedded exporter: whole lines, files of one process each, limits kept, and no fault that gets out."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto_json.collector.trace.v1.trace_service import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from guardspan import files, safety
from guardspan.files import MAX_LINE, GuardspanFileExporter

Make = Callable[..., GuardspanFileExporter]
SECRET = "sentinel-in-content"


def spans(*names: str, **attributes: Any) -> list[ReadableSpan]:
    """Ended spans of the real SDK."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for name in names:
        provider.get_tracer("tests").start_span(name, attributes=attributes).end()
    return list(memory.get_finished_spans())


def lines(folder: Path) -> list[dict[str, Any]]:
    """Every line in the folder; one that is no JSON fails the test."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.open("rb")]


def names(folder: Path) -> list[str]:
    """Names of all spans in the folder."""
    return [
        span["name"]
        for line in lines(folder)
        for group in line["resourceSpans"]
        for scope in group["scopeSpans"]
        for span in scope["spans"]
    ]


def texts(folder: Path) -> list[str]:
    """Values of the attribute `text` in the folder."""
    return [
        attribute["value"]["stringValue"]
        for line in lines(folder)
        for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]
        for attribute in span["attributes"]
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "spans"


@pytest.fixture
def make(folder: Path) -> Iterator[Make]:
    """Makes exporters and shuts them down."""
    made: list[GuardspanFileExporter] = []

    def make_one(**limits: Any) -> GuardspanFileExporter:
        made.append(GuardspanFileExporter(directory=folder, **limits))
        return made[-1]

    yield make_one
    for exporter in made:
        exporter.shutdown()


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the `guardspan` logger has been told since the test began."""
    monkeypatch.setattr(safety, "_reported", set())
    caplog.set_level(logging.DEBUG)
    return lambda: [record.getMessage() for record in caplog.records if record.name == "guardspan"]


def test_the_sdk_makes_it_by_its_name_and_without_arguments(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`OTEL_TRACES_EXPORTER=guardspan_file` needs nothing else, and `GUARDSPAN_DIR` says where."""
    monkeypatch.setenv("GUARDSPAN_DIR", str(folder))
    (entry,) = entry_points(group="opentelemetry_traces_exporter", name="guardspan_file")
    exporter = entry.load()()
    assert exporter.export(spans("a")) is SpanExportResult.SUCCESS
    assert exporter.force_flush()
    exporter.shutdown()
    assert names(folder) == ["a"]


def test_lines_are_what_the_official_codec_reads(folder: Path, make: Make) -> None:
    """A line is one OTLP JSON request, with 64-bit integers as strings, as collectors expect."""
    (span,) = spans("a", whole=1, part=0.25, yes=True, many=("x", "y"))
    make().export([span])
    (path,) = folder.glob("*.jsonl")
    (scope,) = ExportTraceServiceRequest.from_json(path.read_text("utf-8")).resource_spans[0].scope_spans
    (read,) = scope.spans
    assert read.trace_id == span.context.trace_id.to_bytes(16, "big")
    assert read.start_time_unix_nano == span.start_time
    assert (read.attributes[0].key, read.attributes[0].value.int_value) == ("whole", 1)
    assert lines(folder)[0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"][0]["value"] == {
        "intValue": "1"
    }


def test_files_and_folder_are_for_their_owner_only(folder: Path, make: Make) -> None:
    """Nobody else on the machine can read what was recorded, and it does not get into a repository."""
    make().export(spans("a"))
    (path,) = folder.glob("*.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / ".gitignore").read_text() == "*\n"
    assert f"-{os.getpid()}-" in path.name


def test_a_folder_of_the_users_own_is_left_as_it_is(folder: Path, make: Make) -> None:
    """No `.gitignore` appears in a folder that was there before."""
    folder.mkdir(mode=0o755)
    make().export(spans("a"))
    assert not (folder / ".gitignore").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_process_without_spans_leaves_no_file(folder: Path, make: Make) -> None:
    """Making and closing an exporter writes nothing."""
    make().shutdown()
    assert not folder.exists()


def test_the_folder_stays_the_same_when_the_application_changes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative folder means the working directory at the start."""
    monkeypatch.chdir(tmp_path)
    exporter = GuardspanFileExporter(directory="here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    exporter.export(spans("a"))
    exporter.shutdown()
    assert names(tmp_path / "here") == ["a"]


def test_a_new_file_is_begun_before_the_limit(folder: Path, make: Make) -> None:
    """No file grows past its limit, and no span is lost by rotation."""
    exporter = make(file_limit=4096)
    for number in range(30):
        assert exporter.export(spans(f"s{number}", text="x" * 500)) is SpanExportResult.SUCCESS
    sizes = [path.stat().st_size for path in folder.glob("*.jsonl")]
    assert len(sizes) > 3
    assert max(sizes) <= 4096
    assert sorted(names(folder)) == sorted(f"s{number}" for number in range(30))


def test_the_oldest_files_go_and_the_newest_spans_stay(folder: Path, make: Make) -> None:
    """The folder keeps its limit; what is in it is the latest."""
    exporter = make(file_limit=4096, dir_limit=16_384)
    for number in range(100):
        exporter.export(spans(f"s{number:02}", text="x" * 900))
        assert sum(path.stat().st_size for path in folder.glob("*.jsonl")) <= 16_384
    kept = sorted(names(folder))
    assert len(kept) >= 5
    assert kept == [f"s{number:02}" for number in range(100 - len(kept), 100)]


def test_a_file_that_a_live_process_writes_stays(folder: Path, make: Make) -> None:
    """Only closed files make room; those of others in the folder are no concern of ours."""
    first = make(file_limit=4096, dir_limit=8192)
    first.export(spans("held"))
    (folder / "notes.jsonl").write_text('{"mine": 1}\n')
    second = make(file_limit=4096, dir_limit=8192)
    for number in range(40):
        second.export(spans(f"s{number}", text="x" * 900))
    assert (folder / "notes.jsonl").exists()
    (folder / "notes.jsonl").unlink()
    assert "held" in names(folder)
    first.shutdown()
    for number in range(40):
        second.export(spans(f"t{number}", text="x" * 900))
    assert "held" not in names(folder)


@pytest.mark.parametrize("remove", [lambda folder: next(folder.glob("*.jsonl")).unlink(), shutil.rmtree])
def test_a_file_that_vanishes_is_begun_anew(folder: Path, make: Make, remove: Callable[[Path], None]) -> None:
    """Somebody tidies up while the application runs: the next spans are in a new file."""
    exporter = make()
    exporter.export(spans("before"))
    remove(folder)
    assert exporter.export(spans("after")) is SpanExportResult.SUCCESS
    assert names(folder) == ["after"]


def test_a_descriptor_that_means_another_file_is_not_written_to(
    folder: Path, tmp_path: Path, make: Make
) -> None:
    """A daemon closes all descriptors and opens its own: its file stays as it is."""
    exporter = make()
    exporter.export(spans("before"))
    ours = next(
        int(number)
        for number in os.listdir("/proc/self/fd")
        if os.path.realpath(f"/proc/self/fd/{number}").startswith(str(folder))
    )
    theirs = os.open(tmp_path / "theirs", os.O_WRONLY | os.O_CREAT)
    os.dup2(theirs, ours)
    assert exporter.export(spans("after")) is SpanExportResult.SUCCESS
    assert (tmp_path / "theirs").read_bytes() == b""
    assert os.path.realpath(f"/proc/self/fd/{ours}") == str(tmp_path / "theirs")
    os.close(theirs)
    os.close(ours)
    assert sorted(names(folder)) == ["after", "before"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("low first \udc00\ud800", "low first \ufffd\ufffd"),
        ("emoji \U0001f600 stays", "emoji \U0001f600 stays"),
        ("\U0001f600\ud83d", "\U0001f600\ufffd"),
        (r"words \ud800 stay", r"words \ud800 stay"),
        ("\\\ud800", "\\\ufffd"),
        ("nul \x00 stays", "nul \x00 stays"),
    ],
)
def test_text_that_is_none_is_mended(folder: Path, make: Make, text: str, written: str) -> None:
    """A lone surrogate becomes U+FFFD, in which form every reader takes the line; all else stays."""
    assert make().export(spans("a", text=text)) is SpanExportResult.SUCCESS
    assert texts(folder) == [written]
    (path,) = folder.glob("*.jsonl")
    assert path.read_bytes().isascii()


def test_lines_stay_within_what_a_collector_reads(folder: Path, make: Make) -> None:
    """A large batch is parted, so that no line passes 1 MiB unless a single span does."""
    batch = spans(*(f"s{number}" for number in range(100)), text="x" * 40_000)
    huge = spans("huge", text="x" * (MAX_LINE + 1))
    assert make().export([*batch, *huge]) is SpanExportResult.SUCCESS
    (path,) = folder.glob("*.jsonl")
    lengths = [len(line) for line in path.open("rb")]
    assert [length > MAX_LINE for length in lengths].count(True) == 1
    assert sorted(names(folder)) == sorted([*(f"s{number}" for number in range(100)), "huge"])


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Without the official exporter the message says what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.json.file", None)
    with pytest.raises(RuntimeError, match=r'pip install "guardspan\[files\]"'):
        GuardspanFileExporter(directory=folder)


def test_nothing_is_written_after_shutdown(folder: Path, make: Make) -> None:
    """Late spans fail, and shutting down twice is no fault."""
    exporter = make()
    exporter.export(spans("a"))
    exporter.shutdown()
    exporter.shutdown()
    assert exporter.export(spans("b")) is SpanExportResult.FAILURE
    assert names(folder) == ["a"]


def test_a_folder_that_cannot_be_is_a_failure_told_once(
    folder: Path, make: Make, faults: Callable[[], list[str]]
) -> None:
    """The application goes on; the log says where and why, once, and holds no content."""
    folder.write_text("a file stands where the folder should be")
    exporter = make()
    for _ in range(3):
        assert exporter.export(spans("a", text=SECRET)) is SpanExportResult.FAILURE
    (told,) = faults()
    assert str(folder) in told
    assert SECRET not in told
    folder.unlink()
    assert exporter.export(spans("later")) is SpanExportResult.SUCCESS


def test_a_fault_of_our_own_does_not_get_out(
    make: Make,
    faults: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever breaks inside, the SDK gets FAILURE and no exception."""
    exporter = make()
    monkeypatch.setattr(files, "_parts", lambda given: 1 / 0)
    assert exporter.export(spans("a")) is SpanExportResult.FAILURE
    assert len(faults()) == 1


FULL_DISK = """
import logging, resource, sys
from opentelemetry.sdk.trace.export import SpanExportResult
from guardspan.files import GuardspanFileExporter
sys.path.insert(0, sys.argv[2])
from test_files import spans, SECRET
logging.basicConfig(stream=sys.stdout, format="%(name)s|%(message)s")
exporter = GuardspanFileExporter(directory=sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
results = [exporter.export(spans(f"s{number}", text=SECRET + "x" * 3000)) for number in range(6)]
print([result is SpanExportResult.SUCCESS for result in results])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(exporter.export(spans("later")) is SpanExportResult.SUCCESS)
"""


def test_a_full_disk_leaves_whole_lines(folder: Path) -> None:
    """What was cut in the middle is taken back: FAILURE, one log line, and it goes on when there is room."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    told, outcomes, later = done.stdout.splitlines()
    assert told.startswith("guardspan|")
    assert outcomes == str([True, True, False, False, False, False])
    assert later == "True"
    assert SECRET not in told + done.stderr
    assert names(folder) == ["s0", "s1", "later"]


def in_child(work: Callable[[], None]) -> None:
    """Fork, do the work in the child, and fail when it does; a child that hangs is ended by its own alarm."""
    with warnings.catch_warnings():
        # Forking a process with threads is what these tests are about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_gets_a_file_of_its_own(folder: Path, make: Make) -> None:
    """Parent and child never share a file, and the parent's goes on after the child has ended."""
    exporter = make()
    exporter.export(spans("parent 1"))

    def work() -> None:
        assert exporter.export(spans("child")) is SpanExportResult.SUCCESS
        exporter.shutdown()

    in_child(work)
    exporter.export(spans("parent 2"))
    assert sorted(names(folder)) == ["child", "parent 1", "parent 2"]
    assert len(list(folder.glob("*.jsonl"))) == 2


def test_a_lock_held_while_forking_does_not_stop_the_child(folder: Path, make: Make) -> None:
    """Another thread may be writing at that moment; the child has locks of its own."""
    exporter = make()
    with exporter._lock:
        in_child(lambda: _assert_written(exporter))
    assert names(folder) == ["child"]


def _assert_written(exporter: GuardspanFileExporter) -> None:
    assert exporter.export(spans("child")) is SpanExportResult.SUCCESS


def test_spans_that_wait_are_written_once(folder: Path, make: Make) -> None:
    """What the parent's batch processor holds while forking is written by the parent alone."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(make(), schedule_delay_millis=60_000))
    tracer = provider.get_tracer("tests")
    tracer.start_span("parent").end()

    def work() -> None:
        tracer.start_span("child").end()
        provider.shutdown()

    in_child(work)
    provider.shutdown()
    assert sorted(names(folder)) == ["child", "parent"]


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from test_files import spans
from guardspan.files import GuardspanFileExporter
exporter = GuardspanFileExporter(directory=sys.argv[1], file_limit=20_000)
for number in range(50):
    exporter.export(spans(f"{sys.argv[3]}.{number}", text="x" * 300))
"""


def test_many_processes_write_at_once(folder: Path) -> None:
    """Every span of every process is there once, in whole lines."""
    arguments = [sys.executable, "-c", WRITER, str(folder), str(Path(__file__).parent)]
    writers = [subprocess.Popen([*arguments, str(number)]) for number in range(5)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 5
    assert sorted(names(folder)) == sorted(
        f"{writer}.{number}" for writer in range(5) for number in range(50)
    )
