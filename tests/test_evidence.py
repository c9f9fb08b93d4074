"""Evidence: the few lines that tell a failure, and the digest that two runs of it share."""

from __future__ import annotations

import hashlib
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardspan import evidence
from guardspan.evidence import Repeats, Slice, failure_digest, normalise, sha256_hex, slice_evidence
from tool_outputs import OUTPUTS


@pytest.mark.parametrize(("output", "telling"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_the_telling_lines_survive(output: str, telling: list[str]) -> None:
    """Of a tool's long output, the lines that say what failed are kept within the limit, in their order."""
    found = slice_evidence(output, limit=1_000)
    assert len(output) > 3_000
    assert len(found.text) <= 1_000
    assert found.truncated
    places = [found.text.find(line) for line in telling]
    assert -1 not in places, found.text
    assert "lines cut …]" in found.text


def test_marks_count_what_is_cut() -> None:
    """The lines kept and the lines that the marks speak of are together all lines."""
    for output, _ in OUTPUTS.values():
        found = slice_evidence(output, limit=700).text
        cut = sum(int(count) for count in re.findall(r"^\[… (\d+) lines? cut …\]$", found, re.MULTILINE))
        kept = [line for line in found.split("\n") if not line.startswith("[… ")]
        assert cut + len(kept) == len(output.strip("\n").split("\n"))


def test_the_failure_s_own_words_come_first() -> None:
    """Lines with the given words win over lines that merely look like failures."""
    noise = "\n".join(f"error: nothing of importance {n} {'x' * 60}" for n in range(100))
    text = f"{noise}\nthe price must be below 100\n{noise}"
    found = slice_evidence(text, words=["Price MUST be"], limit=300)
    assert "the price must be below 100" in found.text
    assert "the price must be below 100" not in slice_evidence(text, limit=300).text


@pytest.mark.parametrize("words", [[], [""], ["("], ["\\", "*"], ["\udc80"], ["x" * 10_000], ["a"] * 1_000])
def test_any_words_will_do(words: list[str]) -> None:
    """Words are text, not patterns, however odd or many."""
    assert "error: boom" in slice_evidence("fine\n" * 500 + "error: boom\n" + "ok\n" * 500, words=words).text


def test_without_any_sign_the_end_and_the_beginning_are_kept() -> None:
    """An output that shows no failure keeps its last lines, and its first."""
    text = "\n".join(f"row {n}" for n in range(1_000))
    found = slice_evidence(text, limit=200).text.split("\n")
    assert found[0] == "row 0"
    assert found[-1] == "row 999"
    assert sum(1 for line in found if line.startswith("row 9")) > sum(
        1 for line in found if re.match(r"row \d$", line)
    )


def test_a_short_text_stays_whole() -> None:
    """What fits is not cut, whatever its words."""
    text = "Value must be at most 100.\n  got: 250"
    assert slice_evidence(text) == Slice(text, False)
    assert slice_evidence("") == Slice("", False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m and \x1b[1;38;5;196mbold\x1b[m", "red and bold"),
        ("\x1b]0;a title\x07text \x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "text link"),
        ("\x9b31mred \x1b(Bset \x1b7saved", "red set saved"),
        ("nul\x00 bell\x07 back\x08space", "nul bell backspace"),
        ("10%\r20%\rdone\r\nnext", "10%\n20%\ndone\nnext"),
        ("a\n\n\n \t\n\nb", "a\n\nb"),
        ("\n\n  kept indent\n\n", "  kept indent"),
        ("trailing   \t\nspace ", "trailing\nspace"),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_terminal_codes_and_blank_lines_go(text: str, expected: str) -> None:
    """What a terminal would act upon, and what only fills it, is not evidence."""
    assert slice_evidence(text).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ada/project/x.py:3", "~/project/x.py:3"),
        ("/Users/ada/x.py, /root/y.py", "~/x.py, ~/y.py"),
        ("(/home/ada)", "(~)"),
        ("file:///home/ada/x", "file://~/x"),
        ("/mnt/c/Users/ada/x", "~/x"),
        (r"C:\Users\ada\x.py", r"~\x.py"),
        (r"C:\Users\Ada Lovelace\x.py", r"~\x.py"),
        (r"C:\\Users\\ada\\x.py", r"~\\x.py"),
        ("C:/Users/ada/x.py", "~/x.py"),
        ("/srv/home/ada/x and ./home/ada/x", "/srv/home/ada/x and ./home/ada/x"),
        ("https://host/home/ada", "https://host/home/ada"),
        ("/usr/lib/python3/x.py", "/usr/lib/python3/x.py"),
        ("/rooted/x", "/rooted/x"),
    ],
)
def test_folders_of_users_become_relative(text: str, expected: str) -> None:
    """Nobody's name stands in evidence for the sake of a path; other paths stay."""
    assert slice_evidence(text).text == expected
    assert normalise(text) == expected


def test_repeated_lines_and_frames_are_folded() -> None:
    """A line or a group of lines that repeats is shown once, with how often it came again."""
    frame = '  File "x.py", line 3, in f\n    return f(n + 1)\n'
    found = slice_evidence(f"start\n{frame * 990}end\n" + "warning: again and again\n" * 5)
    assert found == Slice(
        f"start\n{frame}[… 2 lines repeated 989 more times …]\nend\n"
        "warning: again and again\n[… repeated 4 more times …]",
        False,
    )


def test_short_lines_that_repeat_stay() -> None:
    """Two closing braces are two closing braces."""
    assert slice_evidence("{\n  {\n  }\n  }\n}\n}").text == "{\n  {\n  }\n  }\n}\n}"


def test_one_long_line_is_cut_around_its_failure() -> None:
    """Of a line longer than the limit, the part around the failure's words is kept, with counts."""
    text = "x" * 50_000 + " TypeError: no price " + "y" * 50_000
    found = slice_evidence(text, limit=400)
    assert "TypeError: no price" in found.text
    assert len(found.text) <= 400
    before, after = (int(count) for count in re.findall(r"\[… (\d+) characters cut …\]", found.text))
    kept = re.sub(r"\[….*?…\]", "", found.text)
    assert before + len(kept) + after == len(text)


@pytest.mark.parametrize("unit", ["e\u0301", "👩\u200d🔬", "☂\ufe0f"])
def test_no_cut_parts_a_character(unit: str) -> None:
    """Cuts fall between characters as a reader sees them, not before their combining marks."""
    for limit in range(120, 160):
        kept = re.sub(r"\[….*?…\]", "", slice_evidence(unit * 500, limit=limit).text)
        assert kept == unit * (len(kept) // len(unit))


PIECES = st.sampled_from(
    [
        "error: boom\n",
        "FAILED a\n",
        "ok\n" * 9,
        "x" * 300,
        "\n",
        " ",
        "\r\n",
        "\x1b[31m",
        "\x1b",
        "\x9b",
        "\x90",
        "[",
        "\ud83d",
        "\ude00",
        "e\u0301" * 40,
        "/tmp/a/b.txt",
        "/tmp/",
        "/home/ada",
        "/root/x",
        "C:\\Users\\ada",
        "\\AppData\\Local\\Temp\\x",
        "12:33:44",
        "2026-10-01T12:33:44Z",
        "Oct 10 ",
        "10/Oct/2000:",
        "0x7fffdeadbeef",
        "at 0x",
        "@deadbeef",
        "==12==",
        "pid 5",
        "123456789abcdef",
        "123e4567-e89b-12d3-a456-426614174000",
        "5 ms",
        "1m30s",
        "req_abcdefghijkl1",
        "gw1",
        "<*>",
        "~",
        ">",
        ".",
        ":",
        "-",
        "/",
        "\\",
        "+",
        "0200",
        "s",
        "5",
        "a",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=25).map("".join)


@settings(deadline=None, database=None)
@given(TEXTS, st.integers(-5, 600), st.lists(st.text(max_size=4), max_size=3))
def test_a_slice_keeps_its_limit(text: str, limit: int, words: list[str]) -> None:
    """Whatever the text, limit and words: never longer, UTF-8, free of controls, the same each time."""
    found = slice_evidence(text, limit=limit, words=words)
    assert len(found.text) <= max(limit, 0)
    found.text.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", found.text)
    assert slice_evidence(text, limit=limit, words=words) == found


@settings(deadline=None, max_examples=400, database=None)
@given(TEXTS)
def test_normalising_twice_changes_nothing(text: str) -> None:
    """A normal form is its own normal form, one line, and UTF-8."""
    once = normalise(text)
    assert normalise(once) == once
    assert once == " ".join(once.split())
    once.encode()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<Foo at 0x7f8a2c3d4e50>", "<Foo at 0x7f11aa3d4e50>"),
        ("object 0x00007ffdeadbeef0", "object 0x00007ffdeadbef10"),
        ("java.lang.Object@1b6d3586", "java.lang.Object@4554617c"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 9b2e4567-E89B-12d3-a456-426614174abc"),
        ("at 2026-10-01T12:33:44.123Z: no", "at 2026-10-02T01:03:04.9+02:00: no"),
        ("2026-10-01 12:33:44,123 no", "2026-10-02 01:03:04,001 no"),
        ("[10/Oct/2026:13:55:36 -0700] no", "[11/Nov/2026:01:02:03 -0700] no"),
        ("Oct 10 13:55:36 no", "Nov 9 01:02:03 no"),
        ("12:33:44 no", "1:03:04 no"),
        ("1 failed in 0.12s", "1 failed in 31.07s"),
        ("took 12 ms", "took 9 ms"),
        ("took 3 seconds (5µs)", "took 14 seconds (71µs)"),
        ("waited 1m30s", "waited 12m 3.5s"),
        ("/tmp/pytest-of-ada/pytest-3/test_a0/c.json: no", "/tmp/pytest-of-ada/pytest-4/test_a0/c.json: no"),
        ("in /tmp/tmpab12cd34", "in /tmp/tmpzz99yy88"),
        ("/var/folders/ab/x1/T/tmpabc/c.json", "/private/var/folders/zz/y2/T/tmpdef/c.json"),
        (r"C:\Users\ada\AppData\Local\Temp\tmp1\c.json", r"C:\Users\bob\AppData\Local\Temp\tmp2\c.json"),
        ("/home/ada/shop/x.py: no", "/home/bob/shop/x.py: no"),
        ("pid 1234 died", "pid 77 died"),
        ("Process 1234 died, thread 5", "Process 77 died, thread 9"),
        ("goroutine 18 [running]", "goroutine 7 [running]"),
        ("==4242== Invalid read", "==17== Invalid read"),
        ("[gw0] no", "[gw3] no"),
        ("commit 9f86d081884c7d659a2f no", "commit 0b822cd15d6c15b0f00a no"),
        ("request req_011CSHoEeqs5C35K2UUqR7Fy", "request req_099CSHoEeqs5C35K2UUqR7Xx"),
        ("a  b\n\tc", "a b c"),
        ("\x1b[31mno\x1b[0m", "no"),
    ],
)
def test_two_runs_of_one_failure_are_alike(one: str, other: str) -> None:
    """What differs from run to run does not differ in the normal form."""
    assert normalise(one) == normalise(other)
    assert failure_digest("validation", [one]) == failure_digest("validation", [other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("assert 150 == 135", "assert 150 == 136"),
        ("x.py:12: no", "x.py:13: no"),
        ("x.py:12:33:44", "x.py:12:33:45"),
        ("error[E0308]", "error[E0309]"),
        ("exit code 1", "exit code 2"),
        ("HRESULT 0x80070005", "HRESULT 0x80070002"),
        ("order 123456789012345 unknown", "order 123456789012346 unknown"),
        ("KeyError: 'price'", "KeyError: 'cost'"),
        ("born 2026-10-01", "born 2026-10-02"),
        ("version 1.2.3", "version 1.2.4"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20"),
        ("/tmp/a/input.json", "/tmp/a/output.json"),
        ("/srv/tmp/a", "/srv/tmp/b"),
        ("Case", "case"),
        ("at most 100 items", "at most 101 items"),
        ("costs 5 m", "costs 6 m"),
        ("deadbeef", "deadbee0"),
    ],
)
def test_two_failures_stay_two(one: str, other: str) -> None:
    """What tells two failures apart is still there in the normal form."""
    assert normalise(one) != normalise(other)
    assert failure_digest("validation", [one]) != failure_digest("validation", [other])


def test_the_digest_is_of_canonical_json() -> None:
    """It can be computed by anyone: SHA-256 of the RFC 8785 form of class and sorted normal forms."""
    expected = '{"class":"validation","parts":["a b","too \\"long\\" é"]}'
    parts = ['too "long"\n é', "a  b"]
    assert failure_digest("validation", parts) == hashlib.sha256(expected.encode()).hexdigest()


def test_the_order_of_checks_does_not_matter_their_number_and_class_do() -> None:
    """Checks may run side by side; one failure fewer, or one of another class, is another failure."""
    base = failure_digest("validation", ["a", "b", "b"])
    assert base == failure_digest("validation", ["b", "a", "b"])
    others = {
        failure_digest("validation", ["a", "b"]),
        failure_digest("validation", ["ab", "b"]),
        failure_digest("parsing", ["a", "b", "b"]),
        failure_digest("validation", []),
    }
    assert len(others) == 4
    assert base not in others


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ude00\ud83d"])
def test_lone_surrogates_have_a_digest(text: str) -> None:
    """Text that is no valid Unicode is digested with U+FFFD in its place, and never raises."""
    replaced = re.sub("[\ud800-\udfff]", "\ufffd", text)
    assert sha256_hex(text) == hashlib.sha256(replaced.encode()).hexdigest()
    assert failure_digest("parsing", [text]) == failure_digest("parsing", [replaced])


def test_halves_of_a_surrogate_pair_are_one_character() -> None:
    """A pair that came in two halves, as JSON escapes leave it, is the character that it stands for."""
    assert slice_evidence("\ud83d\ude00 boom").text == normalise("\ud83d\ude00 boom") == "😀 boom"
    assert sha256_hex("\ud83d\ude00") == sha256_hex("😀")


@pytest.mark.parametrize(
    ("digests", "rows", "stuck"),
    [
        (["a"], [1], False),
        (["a", "a", "a"], [1, 2, 3], True),
        (["a", "a", "b", "a"], [1, 2, 1, 1], False),
        (["a", "a", None, "a"], [1, 2, 0, 1], False),
        ([None, None, None], [0, 0, 0], False),
        (["a", "a", "a", "b", None], [1, 2, 3, 1, 0], True),
        ([], [], False),
    ],
)
def test_repeats_are_counted_in_a_row(digests: list[str | None], rows: list[int], stuck: bool) -> None:
    """Equal digests in a row count up, another or none ends the row; three in a row are stuck for good."""
    repeats = Repeats()
    assert [repeats.add(digest) for digest in digests] == rows
    assert repeats.stuck is stuck


TEN_MEGABYTES = {
    "lines": "\n".join(f"line {n} is fine" for n in range(500_000)),
    "errors": "\n".join(f"error: {n}" for n in range(700_000)),
    "one line": "x" * 10_000_000,
    "one line with a failure": "x " * 2_500_000 + "error: boom" + " y" * 2_500_000,
    "line feeds": "a" + "\n" * 10_000_000 + "b",
    "short lines": "a\n" * 5_000_000,
    "terminal codes": "\x1b[31m" * 2_000_000,
    "open terminal codes": "\x1b]" * 5_000_000,
    "open control strings": "\x90" * 10_000_000,
    "spaces": ("\n" + " " * 1_000) * 10_000,
    "digits": "1." * 5_000_000 + " 12:33:44",
    "hexadecimal": "0" * 5_000_000 + "a" * 5_000_000 + "g 12:33:44",
    "paths": "/tmp/" * 2_000_000,
    "homes": "/home/" * 1_600_000,
}


@pytest.mark.parametrize("text", TEN_MEGABYTES.values(), ids=TEN_MEGABYTES.keys())
def test_ten_megabytes_take_linear_time(text: str) -> None:
    """No form of a very long output makes either function look at it more than a few times over."""
    begun = time.process_time()
    found = slice_evidence(text)
    normalise(text)
    assert time.process_time() - begun < 30
    assert len(found.text) <= 1_600


def test_very_many_lines_keep_the_failure_in_their_midst() -> None:
    """Of a million lines, the one that failed is kept, and the count of those cut is right."""
    lines = [f"line {n} is fine" for n in range(1_000_000)]
    lines[543_210] = "ValueError: no price"
    found = slice_evidence("\n".join(lines), limit=500).text
    assert "ValueError: no price" in found
    cut = sum(int(count) for count in re.findall(r"\[… (\d+) lines cut …\]", found))
    assert cut + sum(1 for line in found.split("\n") if not line.startswith("[… ")) == 1_000_000


def test_the_slicer_s_version_pins_what_it_makes() -> None:
    """Another slice of the same output needs another version number, since spans carry it."""
    made = "\n".join(slice_evidence(output, limit=800).text for output, _ in OUTPUTS.values())
    pinned = {1: "91b85839afae6800accf96bd8c1014dc23367468ca128147df44bf72763c2e47"}
    assert sha256_hex(made) == pinned[evidence.VERSION]
