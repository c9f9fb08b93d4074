"""What failed, in a few lines: slices, normal forms, digests, repeats.

Pure functions of text that has been redacted already. All are linear in the text's length: their patterns
run in re2, which does not backtrack, or cannot begin twice within what they might backtrack over.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import re2
import rfc8785

VERSION = 1
"""Version of :func:`slice_evidence`: what it makes of a text changes only together with this number."""

_MAX_WORDS = 32
_MAX_ANCHORS = 64
_MANY_LINES = 4_000
_EDGE_LINES = 1_000
_NEAR_LINES = 12
_LINES_BEFORE = 4
_LAST_CHARACTERS = 65_536
_MAX_PERIOD = 6
_MAIN_ANCHORS = 6
_LEAST_ROOM = 48
_MAX_COMBINING = 16
_JOINER = "\u200d"


class Slice(NamedTuple):
    """A piece of evidence, and whether anything was cut from it."""

    text: str
    truncated: bool


class _Row(NamedTuple):
    """A line and its number from 0, or the mark that stands for ``lines`` repeated ones from ``line`` on."""

    text: str
    line: int
    lines: int
    repeats: bool


def slice_evidence(text: str, *, words: Sequence[str] = (), limit: int = 1600) -> Slice:
    """The lines around a failure's own words, with marks such as ``[… 12 lines cut …]`` between them.

    Terminal codes go, folders of a user become ``~``, blank lines and repeated lines are folded; a text that
    then fits is kept whole. Otherwise lines with ``words`` come first, then lines with the signs of a failure
    that compilers, test runners and tracebacks write, then those with weaker ones, each from both ends
    of the text inwards, then the lines around them; without any sign, the text's end and its beginning.

    Args:
        text: redacted output, of any length.
        words: the failure's own words, where known; compared without regard to case.
        limit: characters, marks included.
    """
    text = _relative(_clean(text))
    if len(text) > _MANY_LINES and len(lines := text.split("\n")) > max(_MANY_LINES, limit):
        anchors = _anchors(text, words)
        return Slice(_cut(_near(lines, anchors), anchors, limit), True)
    rows = _fold(text.split("\n"))
    whole = "\n".join(row.text for row in rows)
    if len(whole) <= limit:
        return Slice(whole, False)
    return Slice(_cut(rows, _anchors(text, words), limit), True)


def normalise(text: str) -> str:
    """What two runs of the same failure have in common.

    White space is folded, terminal codes go, a user's folder becomes ``~``; points in time, durations,
    addresses, UUIDs, long hexadecimal numbers, ids of requests, processes and threads become ``<*>``, and a
    temporary path ``<*>`` and its file's name. Everything else stays: names, messages, lines, quantities.
    ``normalise(normalise(text)) == normalise(text)``.
    """
    folded = " ".join(_encodable(text).split())
    if not folded.isprintable():
        folded = " ".join(_CONTROLS.sub("", folded).split())
    folded = _relative(folded)
    return _without_volatile(folded) if _VOLATILE_AT_ALL.search(folded) else folded


def sha256_hex(text: str) -> str:
    """SHA-256 (64 hex digits) of the text as UTF-8; a lone surrogate counts as U+FFFD."""
    return hashlib.sha256(_encodable(text).encode()).hexdigest()


def failure_digest(failure_class: str, parts: Sequence[str]) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON (RFC 8785) of a failure's class and normalised words.

    Args:
        failure_class: one of the contract's classes.
        parts: the failure's own words, one entry per failed check, redacted; their order does not matter,
            since checks may run side by side.
    """
    failure = {"class": failure_class, "parts": sorted(map(normalise, parts))}
    return hashlib.sha256(rfc8785.dumps(failure)).hexdigest()


class Repeats:
    """Counts equal digests in a row within one Call."""

    __slots__ = ("_last", "_row", "_stuck")

    def __init__(self) -> None:
        self._last: str | None = None
        self._row = 0
        self._stuck = False

    def add(self, digest: str | None) -> int:
        """How often ``digest`` has now come in a row: 1 the first time; 0 for None, which ends the row."""
        self._row = 0 if digest is None else self._row + 1 if digest == self._last else 1
        self._last = digest
        self._stuck = self._stuck or self._row >= 3
        return self._row

    @property
    def stuck(self) -> bool:
        """Whether one digest came three times in a row, ever."""
        return self._stuck


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


# Terminal codes (ECMA-48 sequences, also in their 8-bit forms), then every control that is left of them.
_CONTROLS = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]{0,4096}(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_BLANK_LINES = re.compile(r"\n\s*\n")
_NAME = r"[^\s/\\~:;,\"'`<>()\[\]{}|*?]+"
_HOME = re.compile(rf"/(?<![\w.~>-]/)(?:(?:home|(?:mnt/[a-z]/)?Users)/{_NAME}|root(?=/))")
_WINDOWS_HOME = re.compile(rf"\b[A-Za-z]:(\\\\?|/)Users\1{_NAME}(?:(?: {_NAME}){{1,3}}(?=\1))?")
_X = "[0-9a-fA-F]"
_MONTH = "[JFMASONDjfmasond](?:an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec)[a-z]{0,6}"
_CLOCK = r"[0-9]\d?:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|z|UTC|GMT|[+-]\d\d:?\d\d))?(?: [AaPp][Mm])?"
_UNIT = "(?:[num\u00b5\u03bc]?s|secs?|mins?|(?:milli|micro|nano)?seconds?|minutes?|hours?)"
# No flag for either case, and a set of characters at the head of each branch: `re` then skips most of them.
_VOLATILE = re.compile(
    r"\b(?:[0-9](?:"
    rf"{_X}{{7}}-{_X}{{4}}-{_X}{{4}}-{_X}{{4}}-{_X}{{12}}"
    rf"|\d{{3}}[-/]\d\d[-/]\d\d[Tt ]{_CLOCK}|\d{{7}}T\d{{6}}Z?|\d?[ /-]{_MONTH}[ /-]\d{{4}}[ :]{_CLOCK}"
    rf"|[xX]{_X}{{9,16}}|{_X}{{11,}})"
    rf"|([0-9]\d*(?:m ?\d+(?:\.\d+)?s|h ?\d+m(?: ?\d+s)?|(?:\.\d+)?(?:e[+-]?\d+)? ?{_UNIT})|{_CLOCK})"
    rf"|[a-fA-F](?:{_X}{{7}}-{_X}{{4}}-{_X}{{4}}-{_X}{{4}}-{_X}{{12}}|{_X}{{11,}})"
    rf"|{_MONTH} \d{{1,2}} {_CLOCK}(?: \d{{4}})?"
    rf"|at 0x{_X}{{6,16}}"
    r"|[cmrst](?:all|hatcmpl|eq|esp|sg|un|oolu|race|pan)[_-][0-9A-Za-z]{12,}|gw\d{1,3}"
    r"|([Pp](?:id|ID|rocess)(?: [Ii][Dd])?(?:: |[ :=#])|[Tt](?:id|ID|hread)(?:: |[ :=#])|[Gg]oroutine )\d+"
    r")\b"
    r"|==\d+==|@[0-9a-f]{6,8}\b"
    r"|/(?:private/)?(?:tmp|var/tmp|var/folders|dev/shm)/[^\s\"'`<>()\[\]{},;:|]+"
    r"|~\\{1,2}AppData\\{1,2}Local\\{1,2}Temp\\{1,2}[^\s\"'`<>()\[\]{},;:|]+",
    re.ASCII,
)
_VOLATILE_AT_ALL = _compiled(_VOLATILE.pattern)
"""The same pattern in re2, many times as fast where it finds nothing, and much slower where it does."""
_RANDOM_NAME = re.compile(r"tmp\.?\w{6,12}(?:\.\w{1,8})?\Z|pytest-")
# What compilers, test runners and tracebacks write where something failed.
_STRONG = _compiled(
    r"(?m)^E {1,8}\S|^(?:FAILED|ERROR|FAIL|FATAL)\b|--- FAIL|^[ \t]*(?:●|✕|✗|✘|×)"
    r"|\b[Ee]rror(?:\[\w+\]| TS\d+)?:"
    r"|\w(?:Error|Exception|Failure|Exit|Interrupt)\b|\bException\b|\bpanic(?:ked)?\b|^Traceback|^Caused by"
    r"|\bassert(?:ion)?\b.{0,40}\bfailed|\b[Ee]xpected\b|\b[Aa]ctual\b|\b[Rr]eceived:|^[ \t]*(?:left|right): "
)
_WEAK = _compiled(
    r"(?i)error|fail|exception|assert|invalid|unexpected|cannot|could not|denied|refused|missing|mismatch"
    r"|not found|undefined|unknown|timed? ?out|abort|fatal|killed|segmentation|warning|must\b|required"
)


def _encodable(text: str) -> str:
    """The text with halves of surrogate pairs joined, and lone ones as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _clean(text: str) -> str:
    """The text without terminal codes and other controls, its lines ended by a line feed."""
    text = _encodable(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.replace("\n", "").isprintable():
        text = _CONTROLS.sub("", text)
    return _BLANK_LINES.sub("\n\n", text.strip("\n"))


def _relative(text: str) -> str:
    """The text with a user's folder as ``~``, whoever that is."""
    if ":\\" in text or ":/Users/" in text:
        text = _WINDOWS_HOME.sub("~", text)
    if "/home/" in text or "/Users/" in text or "/root/" in text:
        text = _HOME.sub("~", text)
    return text


def _without_volatile(text: str) -> str:
    constant = _VOLATILE.sub(_constant, text)
    # The name that is left of a temporary path may make something volatile with what follows it.
    while "<*>/" in constant and constant != text:
        text, constant = constant, _VOLATILE.sub(_constant, constant)
    return constant


def _constant(match: re.Match[str]) -> str:
    """What stands for something that is another in every run; its surroundings may show that it is not."""
    found = match[0]
    start = match.start()
    before = match.string[start - 1] if start else " "
    if (match[1] is not None and before in ".:-") or found.isdigit():
        return found
    if match[2] is not None:
        return f"{match[2]}<*>"
    if found[0] == "/" and (before.isalnum() or before in "_.~->"):
        return found
    if found[0] in "/~":
        return _temporary(found)
    return "<*>"


def _temporary(path: str) -> str:
    """A temporary path: the name of the file tells failures apart, its folders and random names do not."""
    name = re.split(r"[/\\]", path)[-1]
    folders = path.count("/") + path.count("\\")
    if not name or folders < 3 or _RANDOM_NAME.match(name):
        return "<*>"
    return f"<*>/{name}"


class _Anchor(NamedTuple):
    """Where a failure shows: the line, counted from 0, and the place within it."""

    line: int
    column: int


def _anchors(text: str, words: Sequence[str]) -> list[_Anchor]:
    """The lines that matter, the most telling first, each once."""
    own = [_encodable(word)[:200] for word in itertools.islice(filter(None, words), _MAX_WORDS)]
    patterns = [_compiled("(?i)" + "|".join(map(re2.escape, own)))] if own else []
    anchors: dict[int, _Anchor] = {}
    for pattern in (*patterns, _STRONG, _WEAK):
        for anchor in _inwards(list(_found(pattern, text))):
            anchors.setdefault(anchor.line, anchor)
    return list(anchors.values())


def _found(pattern: Any, text: str) -> Iterator[_Anchor]:
    """The first matches in the text, and the last ones in its last part."""
    first = list(itertools.islice(pattern.finditer(text), _MAX_ANCHORS))
    last_part = max(len(text) - _LAST_CHARACTERS, first[-1].end() if first else len(text))
    last = list(pattern.finditer(text, last_part))[-_MAX_ANCHORS:] if len(first) == _MAX_ANCHORS else []
    line = position = 0
    for start in sorted(match.start() for match in (*first, *last)):
        line += text.count("\n", position, start)
        position = start
        yield _Anchor(line, start - (text.rfind("\n", 0, start) + 1))


def _inwards(anchors: list[_Anchor]) -> Iterator[_Anchor]:
    """First, last, second, last but one, …: the first failure is often the cause, the last the summary."""
    middle = (len(anchors) + 1) // 2
    pairs = itertools.zip_longest(anchors[:middle], reversed(anchors[middle:]))
    return (anchor for pair in pairs for anchor in pair if anchor is not None)


def _near(lines: list[str], anchors: list[_Anchor]) -> list[_Row]:
    """Of very many lines, the rows of those at both ends and near an anchor."""
    kept = set(range(_EDGE_LINES)) | set(range(len(lines) - _EDGE_LINES, len(lines)))
    for anchor in anchors:
        kept.update(range(max(anchor.line - _NEAR_LINES, 0), anchor.line + _NEAR_LINES + 1))
    numbers = sorted(number for number in kept if number < len(lines))
    rows: list[_Row] = []
    for _, run in itertools.groupby(enumerate(numbers), lambda placed: placed[1] - placed[0]):
        together = [number for _, number in run]
        rows += _fold(lines[together[0] : together[-1] + 1], together[0])
    return rows


def _fold(texts: list[str], first: int = 0) -> list[_Row]:
    """Rows of lines numbered from ``first`` on; those that repeat become one and a mark."""
    texts = [text.rstrip() for text in texts]
    rows: list[_Row] = []
    position = 0
    while position < len(texts):
        period, repeats = _repeated(texts, position)
        after = position + period
        rows += [_Row(texts[place], first + place, 1, False) for place in range(position, after)]
        if repeats:
            rows.append(_Row(_repeat_mark(period, repeats), first + after, period * repeats, True))
        position = after + period * repeats
    return rows


def _repeated(texts: list[str], position: int) -> tuple[int, int]:
    """How many lines from here come again at once, and how many more times; (1, 0) when none do.

    Only where the mark is shorter than what it stands for: two closing braces stay two.
    """
    for period in range(1, _MAX_PERIOD + 1):
        end = position
        while end + period < len(texts) and texts[end] == texts[end + period]:
            end += 1
        repeats = (end - position) // period
        saved = sum(len(text) + 1 for text in texts[position : position + period]) * repeats
        if repeats and saved > len(_repeat_mark(period, repeats)) + 1:
            return period, repeats
    return 1, 0


def _repeat_mark(period: int, repeats: int) -> str:
    what = "" if period == 1 else f"{period} lines "
    return f"[… {what}repeated {repeats} more time{'' if repeats == 1 else 's'} …]"


def _cut_mark(count: int, what: str) -> str:
    return f"[… {count} {what}{'' if count == 1 else 's'} cut …]"


def _cut(rows: list[_Row], anchors: list[_Anchor], limit: int) -> str:
    """The rows that fit, taken in the order of their worth, and written in their own."""
    positions = {row.line: position for position, row in enumerate(rows) if not row.repeats}
    columns = {positions[a.line]: a.column for a in anchors if a.line in positions}
    selection = _Selection(rows, columns, max(limit, 0))
    for position in _by_worth(list(columns), len(rows)):
        selection.add(position)
    selection.close_gaps()
    return selection.text(next(iter(columns), 0))


def _by_worth(anchors: list[int], count: int) -> Iterator[int]:
    """Positions, the most telling first; some come more than once."""
    if not anchors:
        last, first = iter(range(count - 1, -1, -1)), iter(range(count))
        for position in first:
            yield from (next(last, 0), next(last, 0), position)
    for anchor in anchors[:_MAIN_ANCHORS]:
        yield from (anchor, anchor + 1, anchor - 1, anchor + 2)
    yield from anchors
    for radius in range(1, _NEAR_LINES + 1):
        for anchor in anchors:
            yield anchor + radius
            if radius <= _LINES_BEFORE:
                yield anchor - radius


class _Selection:
    """The rows chosen so far, and the room that is left beside them and the marks between them."""

    def __init__(self, rows: list[_Row], columns: dict[int, int], limit: int) -> None:
        self._rows = rows
        self._columns = columns
        self._limit = limit
        self._chosen: dict[int, str] = {}
        self._mark = len(_cut_mark(self._end(len(rows) - 1), "line")) + 1
        self._room = limit + 1 - self._mark
        self._width = limit if len(rows) == 1 else max(limit // min(len(rows), 4) - self._mark, 0)

    def add(self, position: int) -> None:
        """Choose a row, if there is one at ``position`` and it fits."""
        if position in self._chosen or not 0 <= position < len(self._rows):
            return
        text = self._clipped(position, self._width)
        # It was in one gap; now there may be one on either side of it.
        gaps = self._gap(position - 1, position) + self._gap(position + 1, position) - 1
        room = self._room - len(text) - 1 - gaps * self._mark
        if room >= 0:
            self._chosen[position] = text
            self._room = room

    def close_gaps(self) -> None:
        """Choose single rows between chosen ones: many are no longer than the mark in their place."""
        for position in range(len(self._rows)):
            if not self._gap(position - 1, position) and not self._gap(position + 1, position):
                self.add(position)

    def text(self, first: int) -> str:
        """What is chosen, with marks for what is not; of the row ``first`` what fits, where nothing did."""
        if not self._chosen:
            return self._clipped(first, self._limit)
        pieces: list[str] = []
        end = 0
        for position in sorted(self._chosen):
            if self._rows[position].line > end:
                pieces.append(_cut_mark(self._rows[position].line - end, "line"))
            pieces.append(self._chosen[position])
            end = self._end(position)
        rest = self._end(len(self._rows) - 1) - end
        return "\n".join([*pieces, _cut_mark(rest, "line")] if rest else pieces)

    def _clipped(self, position: int, width: int) -> str:
        return _clip(self._rows[position].text, self._columns.get(position, 0), width)

    def _gap(self, neighbour: int, position: int) -> bool:
        """Whether a mark is needed between a row and its neighbour."""
        if not 0 <= neighbour < len(self._rows):
            return False
        first, second = sorted((neighbour, position))
        return neighbour not in self._chosen or self._end(first) != self._rows[second].line

    def _end(self, position: int) -> int:
        return self._rows[position].line + self._rows[position].lines


def _clip(line: str, column: int, width: int) -> str:
    """The part of a line around ``column``, at most ``width`` characters long, with marks where it is cut."""
    if len(line) <= width:
        return line
    room = width - 2 * len(_cut_mark(len(line), "character"))
    if room < _LEAST_ROOM:
        return line[: _boundary(line, max(width, 0), -1)]
    start = max(min(column - room // 3, len(line) - room), 0)
    end = _boundary(line, start + room, -1)
    start = _boundary(line, start, 1)
    before = _cut_mark(start, "character") if start else ""
    after = _cut_mark(len(line) - end, "character") if end < len(line) else ""
    return before + line[start:end] + after


def _boundary(line: str, place: int, step: int) -> int:
    """The nearest place, at or beyond ``place``, that does not part a character from its combining marks."""
    for _ in range(_MAX_COMBINING):
        if not 0 < place < len(line) or not (_combines(line[place]) or line[place - 1] == _JOINER):
            break
        place += step
    return place


def _combines(character: str) -> bool:
    return character > "\u02ff" and (
        unicodedata.category(character) in {"Mn", "Mc", "Me"} or character == _JOINER
    )
