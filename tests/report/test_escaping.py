"""Whatever stands in span files, names, variables and arguments is shown as text and never acts."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pydantic_core import from_json
from rich.console import Console

from guardspan import cli
from guardspan.harmless import plain
from guardspan.report import html, terminal
from guardspan.report.model import By, Report
from guardspan.report.reading import SpanFiles
from guardspan.report.records import CallSpan, IterationSpan, Span, ValidatorSpan
from report.payloads import HOSTILE, PLANT, UNCHANGED, assert_harmless, attacked_lines, cells, file_name
from report.span_files import Call, report_of, writing

HARMLESS = "harmless"
TRACE = f"{1:032x}"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
UNREADABLE = "\udcff"
"""How Python has a byte that is no UTF-8 in names of files, in variables and in arguments."""
VIEWS: list[tuple[By, int]] = [("name", 44), ("name", 80), ("model", 120), ("team", 200)]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run_once(*arguments: object, width: int = 80) -> tuple[int, str, str]:
        monkeypatch.setenv("COLUMNS", str(width))
        try:
            code = cli.main(list(map(str, arguments)))
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_once


def write(folder: Path, text: str) -> Path:
    """A span file with the text in every place, and in its name."""
    path = folder / f"{file_name(text)}.jsonl"
    path.write_text(attacked_lines(text), "utf-8")
    return path


@pytest.fixture(scope="module", params=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A text, and how what is shown of it begins."""
    return HOSTILE[request.param]


@pytest.fixture(scope="module")
def attacked(hostile: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its file."""
    return write(tmp_path_factory.mktemp("attacked"), hostile[0])


class Twin:
    """What is made of the same file with harmless text: an attack must not change the build of it."""

    def __init__(self, folder: Path) -> None:
        self.path = write(folder, HARMLESS)
        self.page = html.render(report_of(self.path))
        self.heights = {
            (by, width): len(tables(printed(report_of(self.path, by=by), width))) for by, width in VIEWS
        }


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    """Made once."""
    return Twin(tmp_path_factory.mktemp("twin"))


def printed(report: Report, width: int, coloured: bool = False) -> str:
    """The tables, in a terminal with colours or without."""
    file = io.StringIO()
    system = "truecolor" if coloured else None
    terminal.show(report, Console(file=file, width=width, force_terminal=coloured, color_system=system))
    return file.getvalue()


def tables(shown: str) -> list[str]:
    """The lines of the tables; names of files, which follow them, may wrap."""
    return shown.partition("\nLeft out")[0].split("\n")


def test_every_text_that_is_read_is_attacked(tmp_path: Path) -> None:
    """The files of these tests have the text in each field of the report's records that can have any text."""
    made: dict[type[Span], Span] = {
        type(span): span for span in SpanFiles([write(tmp_path, "<any>")]).spans()
    }
    closed = {"trace_id", "span_id", "parent_id", "status", "outcome"}
    for kind in (CallSpan, IterationSpan, ValidatorSpan):
        for field in dataclasses.fields(kind):
            if field.name not in closed and "str" in str(field.type):
                value = getattr(made[kind], field.name)
                shown = {*value} if isinstance(value, tuple) else {value}
                assert shown in ({"<any>"}, {()}), (kind, field.name)


@pytest.mark.parametrize("text", UNCHANGED, ids=range(len(UNCHANGED)))
def test_text_of_people_stays_as_it_is(text: str, folder: Path) -> None:
    """In any script, with the marks that it needs."""
    assert plain(text) == text
    with writing(folder) as writer:
        writer.write(Call(text, "a1"))
    report = report_of(folder)
    assert text in printed(report, 200)
    assert text in words(html.render(report))
    assert_harmless(printed(report, 200))


def test_tables_show_it_as_text(attacked: Path, twin: Twin, hostile: tuple[str, str]) -> None:
    """At any width, by any key: nothing acts, no row is forged, columns are aligned, and it can be seen."""
    for by, width in VIEWS:
        shown = printed(report_of(attacked, by=by), width)
        assert_harmless(shown)
        lines = tables(shown)
        assert len(lines) == twin.heights[by, width]
        assert {cells(line) for line in lines} <= {*range(width + 1)}
        rows = [line for line in lines if line.startswith(hostile[1][:8])]
        assert rows
        assert {cells(row) for row in rows} == {width}
        assert width < 200 or hostile[1] in shown


def test_colours_are_the_reports_own(attacked: Path) -> None:
    """In a terminal that has them, and no other sequence is written."""
    shown = printed(report_of(attacked), 120, coloured=True)
    assert "\x1b[" in shown
    assert_harmless(re.sub(r"\x1b\[[0-9;]*m", "", shown))


def test_the_tree_shows_it_as_text(attacked: Path, twin: Twin, hostile: tuple[str, str], run: Run) -> None:
    """Evidence has lines of its own, within the tree; no other text makes one."""
    for width in (44, 80, 100_000):
        code, shown, err = run("report", attacked, "--call", TRACE, width=width)
        assert (code, err) == (0, "")
        assert_harmless(shown)
    lines = shown.splitlines()
    assert lines[0].startswith(f"guard {hostile[1]}")
    evidence = min(hostile[0].count("\n"), 60)
    expected = run("report", twin.path, "--call", TRACE, width=width)[1].splitlines()
    assert len(lines) - evidence == len(expected)


def test_evidence_cannot_leave_its_place(tmp_path: Path, run: Run) -> None:
    """Each of its lines stands under the word that tells what they are, and the steps do not."""
    forged = "x\n└── Iteration 1 initial  pass\n\r\nguard refund  pass"
    path = write(tmp_path, forged)
    shown = [line.rstrip() for line in run("report", path, "--call", TRACE, width=200)[1].splitlines()]
    places = [line.index("└── Iteration 1 initial  pass") for line in shown if line.endswith("initial  pass")]
    steps = [line for line in shown if line.startswith(("├── ", "└── "))]
    assert places
    assert min(places) > 4
    assert len(steps) == 1


@pytest.mark.parametrize("length", range(1, 100, 7))
def test_text_that_wraps_makes_no_line_of_ours(tmp_path: Path, run: Run, length: int) -> None:
    """Wherever the edge is: neither steps of a tree nor files with faults are forged by filling a line."""
    forged = f"{'x' * length} └── Iteration 9 initial  pass{' ' * length}forged.jsonl:9: no JSON"
    path = write(tmp_path, forged)
    tree = run("report", path, "--call", TRACE, width=80)[1]
    tables = run("report", path, width=80)[1]
    assert "└── Iteration 9" in tree
    assert not re.search("^└── Iteration 9", tree, re.MULTILINE)
    faults = re.findall(r"^ {0,2}\S.*", tables.partition("\nLeft out")[2], re.MULTILINE)
    assert not [line for line in faults if line.strip().startswith("forged")]


def test_json_is_ascii_and_the_same_text(attacked: Path, hostile: tuple[str, str], run: Run) -> None:
    """A parser gets what was read; a person who looks at it gets nothing that acts."""
    code, out, _ = run("report", attacked, "--json")
    assert code == 0
    assert out.isascii()
    assert all(line.isprintable() for line in out.split("\n"))
    text = hostile[0] if len(hostile[0]) <= 256 else hostile[0][:256] + "…"
    report = json.loads(out)
    assert report["groups"][0]["key"] == text
    assert report["validators"][0]["validator"] == text
    assert report["unpriced_models"][0] == {"model": text, "provider": text, "iterations": 1}
    assert report["faults"]["told"][0]["file"] == str(attacked)
    assert Report.model_validate_json(out).groups[0].key == text


class Build(HTMLParser):
    """The build of a page: its tags with the names of their attributes, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.words: list[str] = []
        self.titles: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *sorted(name for name, _ in attrs), dict(attrs).get("class") or ""))
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.tags.append(("comment", data))

    def handle_pi(self, data: str) -> None:
        self.tags.append(("instruction", data))


def words(page: str) -> str:
    """What a page shows."""
    return " ".join(Build(page).words)


def test_the_page_is_built_as_without_it(attacked: Path, twin: Twin, hostile: tuple[str, str]) -> None:
    """Not an element, attribute or comment more or less than with harmless text; and it can be read."""
    page = html.render(report_of(attacked))
    assert_harmless(page)
    build = Build(page)
    assert build.tags == Build(twin.page).tags
    assert hostile[1] in " ".join(build.words)
    assert any(title.startswith(hostile[1]) for title in build.titles)


def test_a_page_has_a_language_a_character_set_and_no_addresses(attacked: Path) -> None:
    """Nothing in it can be followed, loaded, sent or run."""
    page = html.render(report_of(attacked))
    assert page.startswith(
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv'
    )
    tags = Build(page).tags
    assert {tag for tag, *_ in tags}.isdisjoint(
        "a area base embed form iframe image img input link object script use foreignObject".split()
    )
    names = {name for _, *others, _ in tags for name in others}
    assert not {name for name in names if name.startswith("on")}
    assert names.isdisjoint({"href", "xlink:href", "src", "srcset", "style", "action", "id"})


def joined(pages: list[str]) -> str:
    """One page with what several have in their bodies."""
    head, foot = pages[0].partition("<main>")[0], pages[0].partition("</main>")[2]
    bodies = [page.partition("<main>")[2].partition("</main>")[0] for page in pages]
    return f"{head}<main>{''.join(bodies)}</main>{foot}"


def browse(page: str, folder: Path) -> str:
    """The document that Chromium makes of a page, after its scripts have run."""
    assert BROWSER
    (folder / "page.html").write_text(page, "utf-8")
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --dump-dom".split()
    )
    options += [
        "--disable-background-networking",
        "--virtual-time-budget=2000",
        f"--user-data-dir={folder}/user",
    ]
    address = (folder / "page.html").as_uri()
    done = subprocess.run([BROWSER, *options, address], capture_output=True, check=True, timeout=120)
    return done.stdout.decode("utf-8")


# Chromium is not among what CI installs: these are there where it is, and nothing is skipped where it is not.
if BROWSER:

    def test_a_browser_builds_it_as_without_them(tmp_path: Path, twin: Twin) -> None:
        """Chromium, with all texts in one page: the document of harmless texts, and no script has run."""
        pages = [html.render(report_of(write(tmp_path, text))) for text, _ in HOSTILE.values()]
        document = browse(joined(pages), tmp_path)
        build, expected = Build(document), Build(browse(joined([twin.page] * len(pages)), tmp_path))
        assert build.tags == expected.tags
        assert "<title>guardspan report</title>" in document
        shown = " ".join(build.words)
        assert [name for name, (_, begin) in HOSTILE.items() if begin not in shown] == []

    def test_what_came_into_the_page_would_not_act(desk: Path, tmp_path: Path) -> None:
        """Were escaping to fail, the page's policy would still stop scripts and handlers."""
        plant = f'<script>{PLANT}</script><img src="x" onerror="{PLANT}"><p style="color:red">'
        page = html.render(report_of(desk)).replace("<main>", f"<main>{plant}")
        assert "<title>guardspan report</title>" in browse(page, tmp_path)
        unprotected = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        assert "<title>planted</title>" in browse(unprotected, tmp_path)


def hostile_words() -> list[str]:
    """Every text that a name of a file, a variable or an argument can be; and what only those can be."""
    return [text.replace("\x00", "") for text, _ in HOSTILE.values()] + [f"a{UNREADABLE}b\x9b{UNREADABLE}"]


@pytest.mark.parametrize("json_too", [False, True])
def test_names_of_files_and_folders_are_text(tmp_path: Path, run: Run, json_too: bool) -> None:
    """Even those that are no UTF-8, in tables, page, JSON and messages."""
    for number, text in enumerate(hostile_words()):
        folder = tmp_path / str(number) / file_name(text)
        folder.mkdir(parents=True)
        (folder / f"{file_name(text)}.jsonl").write_text("nonsense\n")
        page = folder / f"{file_name(text)}.html"
        code, out, err = run("report", folder, "--html", page, *["--json"] * json_too)
        assert code == 0
        assert_harmless(out)
        assert_harmless(err)
        assert_harmless(page.read_text("utf-8"))
        assert len(err.splitlines()) == len(["hint"] * 4 + ["page"])
        if json_too:
            assert out.isascii()
            assert Report.model_validate_json(out).faults.lines == 1


ARGUMENTS: dict[str, Callable[[str], list[str]]] = {
    "command": lambda text: [text],
    "option": lambda text: ["report", f"--{text}"],
    "more": lambda text: ["doctor", text],
    "path": lambda text: ["report", f"missing{text}"],
    "page": lambda text: ["report", "--html", f"missing/{text}/x"],
    "call": lambda text: ["report", "--call", f"missing{text}"],
    "since": lambda text: ["report", "--since", f"x{text}"],
    "by": lambda text: ["report", "--by", f"x{text}"],
}


@pytest.mark.parametrize("place", ARGUMENTS)
def test_messages_show_arguments_as_text(place: str, run: Run) -> None:
    """Exit code 2 and one short line behind the usage: nothing acts, and no second line is forged."""
    for text in hostile_words():
        code, out, err = run(*ARGUMENTS[place](text))
        assert (code, out) == (2, ""), ascii(text[:50])
        assert_harmless(err)
        lines = re.sub(r"\Ausage: (.*\n)(?:  .*\n)*", "", err).splitlines()
        assert len(lines) == 1
        assert len(lines[0]) < 3000


def test_the_list_of_what_an_id_can_mean_is_text(tmp_path: Path, run: Run) -> None:
    """One line for each Call, whatever its id and its name."""
    for text, _ in HOSTILE.values():
        path = tmp_path / "two.jsonl"
        first = attacked_lines(text[:200])
        path.write_text(first + first.replace(f"{1:016x}", f"{9:016x}"), "utf-8")
        code, out, err = run("report", path, f"--call={text[:200]}")
        assert (code, out) == (2, "")
        assert_harmless(err)
        assert len(err.splitlines()) == 3


@pytest.mark.parametrize("json_too", [False, True])
def test_the_doctor_shows_variables_as_text(
    run: Run, monkeypatch: pytest.MonkeyPatch, home: Path, json_too: bool
) -> None:
    """Names and values: nothing acts, and no finding is forged."""
    monkeypatch.setenv("HOME", str(home))

    def examine(text: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            patch.setenv("OTEL_TRACES_EXPORTER", f"{text.replace(',', '')},guardspan_file")
            patch.setenv("GUARDSPAN_DIR", text)
            patch.setenv("GUARDSPAN_PRICES", text)
            patch.setenv("GUARDSPAN_CONTENT", text)
            patch.setenv(f"GUARDSPAN_X{text.replace('=', '')}", text)
            return run("doctor", *["--json"] * json_too)

    expected = len(examine(HARMLESS)[1].splitlines())
    for text in hostile_words():
        code, out, err = examine(text)
        assert (code, err) == (1, "")
        assert_harmless(out)
        assert len(out.splitlines()) == expected
        assert max(map(len, out.splitlines())) < 1200 or json_too
        if json_too:
            assert out.isascii()
            assert all(from_json(line) for line in out.splitlines())


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"resourceSpans": [{"a": "\ud800"}]}).encode(),
        b'{"resourceSpans": ["\xff\xfe"]}',
        b'{"resourceSpans": ' + b"[" * 100_000,
    ],
)
def test_lines_that_are_no_text_are_faults(tmp_path: Path, run: Run, line: bytes) -> None:
    """Lone surrogates, bytes that are no UTF-8, nesting without end: counted, and the report goes on."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(line + b"\n" + attacked_lines(HARMLESS).encode())
    code, out, _ = run("report", path, "--json")
    report = json.loads(out)
    assert (code, report["faults"]["lines"], report["totals"]["calls"]) == (0, 3, 1)


def test_what_is_shown_is_bounded(tmp_path: Path, run: Run) -> None:
    """A megabyte in every place there is makes no megabyte in any output."""
    text = "\u202e" * 1_000_000
    path = tmp_path / "long.jsonl"
    path.write_text(attacked_lines("x").replace('"stringValue": "x"', f'"stringValue": "{text}"', 4), "utf-8")
    page = tmp_path / "page.html"
    assert len(run("report", path, "--html", page)[1]) < 20_000
    assert page.stat().st_size < 250_000
    assert len(run("report", path, "--json")[1]) < 100_000
