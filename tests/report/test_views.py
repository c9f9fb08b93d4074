"""The terminal and the page show the same true figures, and nothing that was read can do harm in them."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from guardspan.harmless import plain
from guardspan.report import html, text
from guardspan.report.model import By, Report
from guardspan.report.terminal import show
from report.span_files import Attempt, Call, Check, raw_span, report_of, span_line, writing

SCRIPT = "<script>alert(1)</script>"
ATTACKS = [
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "</svg></style><script>alert(1)</script>",
    "]]>&lt;b&gt;${x}$title",
    "[red]bold[/red] [link=http://evil]x[/link]",
    "\x1b[31mred\x1b]8;;http://evil\x07link\x1b]0;title\x07",
    "\x9b31m\x85",
    "abc\u202edcba\u202c \u2066x\u2069 \u200f\u061c",
    "new\nline\rreturn\ttab\u2028\u2029",
    "nul\x00 \x7f \ufeff\u200b",
]
HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def shown(report: Report, width: int = 80) -> str:
    """What the terminal view prints."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    show(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def row(printed: str, first: str) -> list[str]:
    """The cells of the first line that begins with a word."""
    line = next(line for line in printed.splitlines() if line.startswith(first))
    return re.split(r"\s{2,}", line.strip())


class Page(HTMLParser):
    """Tags, attributes and words of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def attacked(folder: Path) -> Path:
    """Every attack in every name there is."""
    with writing(folder) as writer:
        for n, attack in enumerate(ATTACKS):
            writer.write(
                Call(
                    attack,
                    f"{n}{attack}",
                    Attempt(
                        "fail",
                        input=5,
                        model=attack,
                        provider=attack,
                        failure=attack,
                        failed=[attack],
                        evidence=attack,
                        checks=[Check(attack, "fail")],
                    ),
                    team=attack,
                    status="fail",
                    failure=attack,
                    failed=[attack],
                    stuck=True,
                )
            )
    (folder / f"z{SCRIPT.replace('/', '')}\x1b[31m.jsonl").write_text("nonsense\n")
    return folder


def test_the_terminal_shows_the_figures(desk: Path) -> None:
    """Amounts, rates and rows as in the report."""
    printed = shown(report_of(desk))
    assert "2025-11-30 12:00 to 2025-12-01 12:01 UTC" in printed
    assert re.search(r"spend +\$0\.630", printed)
    assert re.search(r"wasted +\$0\.230 +36\.5\s%", printed)
    assert re.search(r"per passed Call +\$0\.210", printed)
    assert re.search(r"re-asked +2 +40\.0\s%", printed)
    assert row(printed, "refund")[:5] == ["refund", "2", "100\u202f%", "$0.600", "$0.200"]
    assert row(printed, "check")[3:5] == [text.NONE, text.NONE]
    assert row(printed, "ValidLength")[:4] == ["ValidLength", "1", "1", "100\u202f%"]
    assert row(printed, "own-model") == ["own-model", "local", "1"]
    assert row(printed, "bbbb0001")[1:] == ["2025-12-01 12:00", "order", "fail", "parsing", "$0.0300"]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("by", ["name", "model", "team", "status"])
def test_no_line_is_wider_than_the_terminal(desk: Path, width: int, by: By) -> None:
    """Nothing wraps into a mess at 80 columns, and figures are whole at any width from there."""
    printed = shown(report_of(desk, by=by), width)
    assert max(map(len, printed.splitlines())) <= width
    if width >= 80:
        assert "…" not in "".join(line for line in printed.splitlines() if "$" in line)


@pytest.fixture
def many(folder: Path) -> Path:
    """Guards with names of twenty characters, figures of every width, more failures than are listed."""
    with writing(folder) as writer:
        for n in range(14):
            name = f"guard-with-name-{n:04}"
            attempt = Attempt("fail", cost=0.0000123 * 7**n, input=10**n, failure="configuration")
            lacking = Attempt("fail", stage="reask", failure="validation")
            checks = Attempt(input=5, checks=[Check(f"Validator{n}", "fail", 0.0123)])
            writer.write(Call(name, f"id{n:010}", attempt, lacking, cost=0.0000123 * 7**n, status="fail"))
            writer.write(Call(name, f"ok{n:010}", checks, at=n, seconds=0.0123 * (n + 1)))
    return folder


@pytest.mark.parametrize("width", [44, 50, 60, 70, 80, 90, 110, 120, 150])
def test_names_and_numbers_are_whole_in_narrow_terminals(many: Path, width: int) -> None:
    """Columns that matter less make room for the names, and no number is cut at any width."""
    printed = shown(report_of(many), width)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= width
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("By name")) + 1 :][:16]
    for n in range(14):
        (line,) = [line for line in table if line.startswith(f"guard-with-name-{n:04} ")]
        assert text.usd(0.0000123 * 7**n) in line
    numbers = [line for line in lines if re.search(r"\d…", line)]
    assert [line for line in numbers if "guard-" not in line] == []


def test_columns_go_in_their_order(many: Path) -> None:
    """p95 first, then the share re-asked, then what was wasted."""
    heads = []
    for width in (100, 90, 80, 70, 60, 50):
        printed = shown(report_of(many), width)
        line = printed.splitlines()[printed.splitlines().index("By name".ljust(width)) + 1]
        heads.append(set(line.split()))
    order = ["p95", "re-asked", "wasted", "$/passed"]
    for found in heads:
        gone = [head for head in order if head not in found]
        assert gone == order[: len(gone)]
    assert {"name", "Calls", "spend"} <= heads[-1] < heads[0]


def test_what_is_missing_from_the_spend_stands_beside_it(many: Path) -> None:
    """The cost per passed Call is a lower bound where Iterations have no price or no token counts."""
    report = report_of(many)
    assert (report.totals.unpriced, report.totals.without_tokens) == (14, 14)
    printed = shown(report, 150)
    assert re.search(r"per passed Call +\$[\d.,]+ +or more", printed)
    assert re.search(r"without a price +14 ", printed)
    assert re.search(r"without token counts +14 ", printed)
    assert "≥ $" in printed
    assert "≥ at least: Iterations without a price or token counts are missing" in printed


def test_a_whole_spend_is_no_lower_bound(folder: Path) -> None:
    """Nothing is missing: no mark says so."""
    with writing(folder) as writer:
        writer.write(Call("g", "a1", Attempt(cost=0.5, input=1)))
    printed = shown(report_of(folder))
    assert "or more" not in printed
    assert "≥" not in printed


def test_failures_that_are_not_listed_are_counted(many: Path) -> None:
    """Ten are listed, as on the page, and the others are told."""
    printed = shown(report_of(many), 120)
    listed = printed[printed.index("Latest failures") :]
    assert len(re.findall(r"^id\d{10}", listed, re.MULTILINE)) == 10
    assert "and 4 more" in listed


def test_a_stuck_call_that_passed_has_a_class(folder: Path) -> None:
    """What its Iterations failed of, else that a fix made it pass."""
    with writing(folder) as writer:
        known = {"stuck": True, "limit_reached": True}
        writer.write(Call("told", "a1", Attempt("fail", failure="validation"), **known))
        writer.write(Call("untold", "a2", Attempt("fail"), **known))
    report = report_of(folder)
    printed = shown(report)
    assert row(printed, "a1")[2:5] == ["told", "pass", "validation"]
    assert row(printed, "a2")[2:5] == ["untold", "pass", "passed with a fix"]


def test_the_header_tells_seconds_where_minutes_say_nothing(folder: Path, desk: Path) -> None:
    """A run of some seconds, and a --since with seconds."""
    since_ns = 1_764_504_005 * 10**9
    assert "since 2025-11-30 12:00:05 UTC" in shown(report_of(desk, since_ns=since_ns), 120)
    assert "since 2025-11-30 12:00 UTC" in shown(report_of(desk, since_ns=since_ns - 5 * 10**9), 120)
    short = folder.parent / "short"
    with writing(short) as writer:
        writer.write(Call("g", "a1", at=1, seconds=2))
    report = report_of(short)
    assert "2025-11-30 12:00:01 to 2025-11-30 12:00:03 UTC" in shown(report)


def test_colours_only_where_they_are_wanted(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets some; NO_COLOR and files get none."""
    report = report_of(desk)
    made = {}
    for name, value in (("plain", "1"), ("coloured", "")):
        monkeypatch.setenv("NO_COLOR", value)
        console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system="standard")
        show(report, console)
        assert isinstance(console.file, io.StringIO)
        made[name] = console.file.getvalue()
    assert "\x1b[36m" in made["coloured"] or "\x1b[1;36m" in made["coloured"]
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", made["plain"])


@pytest.mark.parametrize("by", ["name", "model", "team"])
def test_nothing_read_can_command_the_terminal(attacked: Path, by: By) -> None:
    """No escape sequence, no turned order of writing, no markup gets through; the text stays visible."""
    printed = shown(report_of(attacked, by=by), 200)
    assert not HARMFUL.search(printed)
    assert r"\u001b[31mred" in printed
    assert r"abc\u202edcba" in printed
    assert "[red]bold[/red]" in printed
    assert "http://evil" not in re.sub(r"[^\n]*\[link=http://evil\][^\n]*|[^\n]*u001b[^\n]*", "", printed)


@pytest.mark.parametrize("by", ["name", "model", "team"])
def test_nothing_read_becomes_markup(attacked: Path, by: By) -> None:
    """The page has the tags of its own and no others, no handlers, no links, and no marks of direction."""
    page = html.render(report_of(attacked, by=by))
    parsed = Page(page)
    tags = {tag for tag, _ in parsed.tags}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form", "a", "b"}
    names = {name for _, attributes in parsed.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or "href" in name or name == "src"}
    assert not HARMFUL.search(page)
    assert page.count("<style") == 1
    assert SCRIPT in "".join(parsed.words)


def test_the_page_loads_and_runs_nothing(desk: Path) -> None:
    """One file: a strict policy, no scripts, no address outside it."""
    page = html.render(report_of(desk))
    parsed = Page(page)
    (policy,) = [each for tag, each in parsed.tags if each.get("http-equiv") == "Content-Security-Policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    allowed = "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy["content"] == (
        f"default-src 'none'; style-src '{allowed}'; base-uri 'none'; form-action 'none'"
    )
    assert "script" not in {tag for tag, _ in parsed.tags}
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "url(" not in page
    assert "@import" not in page


def test_the_page_shows_the_figures(desk: Path) -> None:
    """The cards, all five charts with their values, and the tables."""
    page = html.render(report_of(desk))
    words = " ".join(Page(page).words)
    for figure in (
        "$0.630",
        "36.5\u202f% of the spend",
        "$0.210",
        "3 of 6",
        "2 of 5 with an LLM",
        "they cost $0.0300",
    ):
        assert figure in words
    assert page.count("<svg") == 5
    for value in ("30 Nov: $0.400", "refund: 2", "validation: 1", "ValidLength: 1", "input: 545"):
        assert f"<title>{value}</title>" in page
    for name in ("refund", "order", "check", "own-model", "bbbb0001"):
        assert name in words


def test_a_page_without_spans_says_how_to_get_some(tmp_path: Path) -> None:
    """No empty charts: what to do instead."""
    page = html.render(report_of(tmp_path))
    assert "Nothing recorded yet" in page
    assert "OTEL_TRACES_EXPORTER=guardspan_file" in page
    assert "<svg" not in page


def test_calls_that_cost_nothing_known_have_words_for_charts(folder: Path) -> None:
    """A guard that only validates has no spend, no tokens and no failures to draw."""
    with writing(folder) as writer:
        writer.write(Call("plain", "a1"))
    page = html.render(report_of(folder))
    for words in (
        "No Iteration has a price.",
        "Nothing failed.",
        "No check failed.",
        "No Iteration told its tokens.",
    ):
        assert words in page
    assert page.count("<svg") == 1


@pytest.mark.parametrize(
    ("days", "periods", "last"),
    [(1, 7, "01 Dec"), (61, 62, "30 Jan"), (400, 15, "Jan 2027"), (3000, 36, "Feb 2034")],
)
def test_many_days_are_drawn_by_month(folder: Path, days: int, periods: int, last: str) -> None:
    """Days without spans keep their place, and years of days do not become hairlines."""
    with writing(folder) as writer:
        for day in (0, days):
            writer.write(Call("g", f"a{day}", Attempt(cost=1.0), at=day * 86_400))
    page = html.render(report_of(folder))
    spend = page[page.index("Spend per day") : page.index("Calls by status")]
    used_and_wasted = 2
    assert spend.count('class="bar"') == used_and_wasted * periods
    assert f"<title>{last}: $1.00</title>" in spend


def test_the_first_day_drawn_has_data(folder: Path) -> None:
    """No empty days before it: a phone shows the left end of the chart first."""
    with writing(folder) as writer:
        writer.write(Call("g", "a1", Attempt(cost=1.0)))
    page = html.render(report_of(folder))
    spend = page[page.index("Spend per day") : page.index("Calls by status")]
    days = re.findall(r">(\d\d \w\w\w)<", spend)
    assert days == ["30 Nov"]
    bars = spend[spend.index('class="bar"') :]
    assert re.findall(r"<title>(.*?)</title>", bars)[0] == "30 Nov: $1.00"


def test_the_page_tells_what_is_missing_from_the_spend(many: Path) -> None:
    """Beside the cost per passed Call, and in each row of which it is true."""
    words = " ".join(Page(html.render(report_of(many))).words)
    assert "at least; 14 Iterations without a price, 14 without token counts" in words
    assert "≥\u00a0$" in words
    assert "≥ at least" in words
    assert "and 4 more" in words


@pytest.mark.parametrize(
    ("unpriced", "without_tokens", "words"),
    [
        (0, 0, ""),
        (59, 0, "at least; 59 Iterations without a price"),
        (0, 1, "at least; 1 Iteration without token counts"),
        (1, 2, "at least; 1 Iteration without a price, 2 without token counts"),
    ],
)
def test_words_for_what_is_missing(unpriced: int, without_tokens: int, words: str) -> None:
    """Nothing is said where nothing is missing."""
    assert text.missing(unpriced, without_tokens) == words


def test_the_page_without_lxml_is_as_safe(attacked: Path, tmp_path: Path) -> None:
    """Pygal uses lxml where it finds it; users need not have it."""
    target = tmp_path / "page.html"
    code = (
        "import sys; from pathlib import Path; from report.span_files import report_of;"
        "from guardspan.report.html import write_page;"
        "write_page(report_of(Path(sys.argv[1])), Path(sys.argv[2]))"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(attacked), str(target)],
        check=True,
        env={"NO_LXML": "1", "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    page = target.read_text("utf-8")
    assert "script" not in {tag for tag, _ in Page(page).tags}
    assert page.count("<svg") == 4


def test_a_page_is_written_whole_or_not_at_all(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault while writing leaves the old page as it was and no part of the new one."""
    target = tmp_path / "out" / "page.html"
    target.parent.mkdir()
    target.write_text("the old page")

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(html.os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            html.write_page(report_of(desk), target)
    assert target.read_text() == "the old page"
    assert list(target.parent.iterdir()) == [target]
    html.write_page(report_of(desk), target)
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert list(target.parent.iterdir()) == [target]


def test_faults_are_told_in_both_views(tmp_path: Path) -> None:
    """By file and line, with the counts."""
    path = tmp_path / "a.jsonl"
    path.write_text(
        span_line(raw_span("call", 1), raw_span("iteration", 2, cost={"doubleValue": -1})) + "nonsense\n"
    )
    report = report_of(path)
    printed = shown(report, 200)
    assert "1 line, 1 value" in printed
    assert f"{path}:2: no JSON" in printed
    page = html.render(report)
    assert "in no figure above: 1 line, 1 value." in page
    assert "guardspan.cost.usd has a value that it cannot have" in page


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (text.usd(0), "$0"),
        (text.usd(1234.5), "$1,234.50"),
        (text.usd(0.0299), "$0.0299"),
        (text.usd(0.00123456), "$0.00123"),
        (text.usd(0.0000004), "$0.000000400"),
        (text.usd(0.095), "$0.0950"),
        (text.usd(0.0005), "$0.000500"),
        (text.usd(0.9999), "$1.00"),
        (text.usd(None), "\N{EN DASH}"),
        (text.percent(0), "0\u202f%"),
        (text.percent(1), "100\u202f%"),
        (text.percent(0.99999), ">99.9\u202f%"),
        (text.percent(0.00001), "<0.1\u202f%"),
        (text.seconds(0.0000012), "1\u202fµs"),
        (text.seconds(0.0123), "12.3\u202fms"),
        (text.seconds(0.99999), "1\u202fs"),
        (text.seconds(59.2), "59.2\u202fs"),
        (text.seconds(119.6), "2\u202fmin 0\u202fs"),
        (text.seconds(7500), "2\u202fh 5\u202fmin"),
        (text.size(0), "0\u202fB"),
        (text.size(64_000_000), "64\u202fMB"),
        (text.size(12_345_000_000_000), "12345\u202fGB"),
        (text.short_count(999), "999"),
        (text.short_count(1_250), "1.2k"),
        (text.short_count(5_000_000_000), "5.0G"),
        (text.plural(1, "file"), "1 file"),
        (text.plural(1200, "file"), "1,200 files"),
        (plain("Grüße 日本 😀"), "Grüße 日本 😀"),
        (plain("a\u202eb\U000e0001"), r"a\u202eb\U000e0001"),
    ],
)
def test_numbers_and_words_for_people(made: str, expected: str) -> None:
    """Short, and never rounded to what is not so."""
    assert made == expected
