"""One Call as a tree of its steps, found again in span files after its process is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from guardspan import semconv
from guardspan.harmless import message, plain, plain_lines
from guardspan.report import text
from guardspan.report.aggregate import UNKNOWN, to_time
from guardspan.report.reading import Progress, SpanFiles, parents
from guardspan.report.records import CallSpan, IterationSpan, Span, Spent, ValidatorSpan
from guardspan.report.terminal import Hanging, foreign, status_text

MAX_LISTED = 20
MAX_SPANS = 20_000
UNDECIDED = "undecided"
"""The outcome of a check that raised or never finished."""
_MAX_EVIDENCE_LINES = 60
_MAX_DEPTH = 100


class CallNotFound(Exception):
    """No Call has the id, or several have it; the message says what to do."""


@dataclass(slots=True)
class _Matches:
    """Calls that an id can mean, by what of them it is; each list holds a bounded number."""

    call_id: list[CallSpan] = field(default_factory=list)
    trace_id: list[CallSpan] = field(default_factory=list)
    guardrails_id: list[CallSpan] = field(default_factory=list)
    part: list[CallSpan] = field(default_factory=list)

    def add(self, call: CallSpan, wanted: str) -> None:
        for found, matches in (
            (self.call_id, call.call_id == wanted),
            (self.trace_id, call.trace_id == wanted.lower()),
            (self.guardrails_id, call.guardrails_call_id == wanted),
            (self.part, _begins_or_ends_with(call.call_id or "", wanted)),
        ):
            if matches and len(found) <= MAX_LISTED:
                found.append(call)

    def best(self) -> list[CallSpan]:
        """Those that match most closely."""
        return self.call_id or self.trace_id or self.guardrails_id or self.part


def _begins_or_ends_with(call_id: str, wanted: str) -> bool:
    return call_id.startswith(wanted) or call_id.endswith(wanted)


@dataclass(slots=True)
class _Trace:
    """The spans of one trace: ours by id, and every span's parent, whoever made it."""

    ours: dict[str, Span] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)

    def owner(self, span: Span) -> str | None:
        """The nearest span of ours above; spans of other instrumentations may lie between."""
        above = span.parent_id
        for _ in range(_MAX_DEPTH):
            if above is None or above in self.ours:
                return above
            above = self.parents.get(above)
        return None

    def children(self) -> dict[str, list[Span]]:
        """The spans of ours below each span of ours, in the order in which they began."""
        found: dict[str, list[Span]] = {}
        for span in sorted(self.ours.values(), key=lambda span: (span.start_ns, span.span_id)):
            owner = self.owner(span)
            if owner is not None and owner != span.span_id:
                found.setdefault(owner, []).append(span)
        return found


def find_tree(files: Sequence[Path], wanted: str, progress: Progress | None = None) -> Tree:
    """The one Call that ``wanted`` names, as a tree to print.

    Args:
        files: where to look.
        wanted: the beginning or the end of a Call's id, a trace id, or Guardrails' own call id.
        progress: told how much has been read; everything is read twice.

    Raises:
        CallNotFound: there is none, or more than one.
    """
    call = _find(SpanFiles(files, progress=progress), wanted)
    trace = _read_trace(SpanFiles(files, progress=progress), call.trace_id)
    return _tree(call, trace.children())


def _find(files: SpanFiles, wanted: str) -> CallSpan:
    matches = _Matches()
    for span in files.spans():
        if isinstance(span, CallSpan):
            matches.add(span, wanted)
    found = matches.best()
    if found is matches.trace_id:
        found = _outermost(found)
    if not found:
        raise CallNotFound(
            f"no Call with the id {message(repr(wanted))} is in these files. A Call is written when it ends; "
            "guardspan report lists ids of stuck and failed ones"
        )
    if len(found) > 1:
        raise CallNotFound(_ambiguous(found, wanted))
    return found[0]


def _outermost(calls: Sequence[CallSpan]) -> list[CallSpan]:
    """The Calls of a trace within whose time no other one lies: nested guards are shown with theirs."""

    def within(inner: CallSpan, outer: CallSpan) -> bool:
        return outer is not inner and outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns

    return [call for call in calls if not any(within(call, other) for other in calls)]


def _ambiguous(calls: Sequence[CallSpan], wanted: str) -> str:
    lines = [
        "  " + message(f"{call.call_id or '(no id)'}  {_began(call)}  {call.name}  {call.status}")
        for call in calls[:MAX_LISTED]
    ]
    if len(calls) > MAX_LISTED:
        lines.append("  and more")
    return "\n".join([f"{message(repr(wanted))} is the id of more than one Call; name one of these:", *lines])


def _began(call: CallSpan) -> str:
    return text.moment(to_time(call.start_ns))


def _read_trace(files: SpanFiles, trace_id: str) -> _Trace:
    trace = _Trace()
    for name, number, document in files.documents():
        for span in files.spans_of(name, number, document):
            if span.trace_id == trace_id and len(trace.ours) < MAX_SPANS:
                trace.ours[span.span_id] = span
        for span_id, parent_id in parents(document, trace_id):
            if len(trace.parents) < MAX_SPANS:
                trace.parents[span_id] = parent_id
    return trace


def _tree(call: CallSpan, children: dict[str, list[Span]]) -> Tree:
    tree = Tree(_label(call), guide_style="dim")
    _grow(tree, call, children, 0)
    return tree


def _grow(tree: Tree, span: Span, children: dict[str, list[Span]], depth: int) -> None:
    """Each span's children are taken once, so that a circle of parents ends."""
    for child in children.pop(span.span_id, []):
        branch = tree.add(_label(child))
        if depth < _MAX_DEPTH:
            _grow(branch, child, children, depth + 1)


def _label(span: Span) -> RenderableType:
    if isinstance(span, CallSpan):
        return _call_label(span)
    if isinstance(span, IterationSpan):
        return _iteration_label(span)
    return _validator_label(span) if isinstance(span, ValidatorSpan) else Text()


_REPAIRS = {
    "orphan_result": "a result without a call",
    "dangling_call": "a call without a result",
    "synthesized_result": "a result that was made up",
}


def _history(call: CallSpan) -> str:
    """What the message history of a run lacked, each kind with how often; strange files may have many."""
    counts = Counter(_REPAIRS.get(kind, kind) for kind in call.history_repairs)
    told = [f"{count}x {what}" for what, count in list(counts.items())[:MAX_LISTED]]
    rest = sum(list(counts.values())[MAX_LISTED:])
    return "its message history has " + ", ".join(told + [f"{rest}x other"] * bool(rest))


def _call_label(call: CallSpan) -> RenderableType:
    kind = "agent" if call.library == "pydantic_ai" else "guard"
    iterations = None if call.iterations is None else text.plural(call.iterations, "Iteration")
    facts = iterations, *_spent(call), text.seconds(call.seconds)
    head = _Line(_head(f"{kind} ", call.name, call.status), facts)
    lines: list[Text | _Line] = [head, *_failure(call), _dim(", ".join(_marks(call)))]
    if call.history_repairs:
        lines.append(_dim(_history(call)))
    for name, value in (
        ("call", call.call_id),
        ("trace", call.trace_id),
        ("Guardrails' call id", call.guardrails_call_id),
        ("conversation", call.conversation_id),
        ("entry", call.entry),
        ("model asked for", call.request_model),
        ("service", call.service),
        ("team", call.team),
        ("began", _began(call) + " UTC"),
    ):
        if value:
            lines.append(_dim(f"{name} {value}"))
    return _lines(lines)


def _marks(call: CallSpan) -> list[str]:
    """What is special about a Call. Guardrails passes fix values when the re-asks are used up."""
    with_fix = "re-asks used up, passed with fix values"
    marks = (
        ("streaming", call.stream),
        (with_fix if call.status == semconv.PASS else "re-asks used up", call.limit_reached),
        ("stuck", call.stuck),
        ("abandoned", call.abandoned),
    )
    return [name for name, value in marks if value]


def _iteration_label(span: IterationSpan) -> RenderableType:
    index = "" if span.index is None else f" {span.index}"
    facts = span.model, *_spent(span), text.seconds(span.seconds)
    lines: list[Text | _Line] = [
        _Line(_head(f"Iteration{index} ", span.stage, span.status), facts),
        *_failure(span),
    ]
    if span.tool_calls:
        lines.append(_dim(_tools(span)))
    if span.failed_attempts:
        lines.append(_dim(f"{text.plural(span.failed_attempts, 'model')} tried before this one"))
    if span.reask_reason:
        lines.append(_dim(f"asked again because of {span.reask_reason}"))
    if span.failure_repeats and span.failure_repeats > 1:
        lines.append(_dim(f"the same failure {span.failure_repeats} times in a row"))
    if span.library_status:
        lines.append(_dim(f"the library's own status: {span.library_status}"))
    return Group(_lines(lines), *_evidence(span.evidence))


def _tools(span: IterationSpan) -> str:
    counts = (
        (span.tool_calls, "asked for"),
        (span.tool_retries, "rejected"),
        (span.tool_failures, "failed"),
    )
    return f"tools {', '.join(span.tools)}: " + ", ".join(
        f"{count} {word}" for count, word in counts if count
    )


def _validator_label(span: ValidatorSpan) -> RenderableType:
    on_fail = f"on fail: {span.on_fail}" if span.on_fail else None
    runs = text.plural(span.runs, "run") if span.runs and span.runs > 1 else None
    facts = span.path, on_fail, runs, text.seconds(span.seconds), span.error_type
    return _Line(_head("", span.validator, span.outcome or UNDECIDED), facts)


def _head(kind: str, name: str | None, status: str | None) -> Text:
    return Text.assemble(kind, foreign(name or UNKNOWN, "bold"), "  ", status_text(status or UNKNOWN))


class _Line:
    """A head and facts. Lines break between facts only, so that no number is parted from its unit.

    Rich breaks at no-break spaces as well.
    """

    def __init__(self, head: Text, facts: Iterable[str | None]) -> None:
        self._head = head
        self._facts = [plain(fact) for fact in facts if fact]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line, separator = self._head.copy(), "  "
        for fact in self._facts:
            if line.cell_len + cell_len(separator + fact) > options.max_width:
                yield Hanging(line)
                line, separator = Text(), "  "
            line.append(separator + fact)
            separator = " · "
        yield Hanging(line)


def _spent(span: Spent) -> list[str | None]:
    cached = (span.cache_read_tokens, "from cache"), (span.cache_creation_tokens, "to cache")
    inputs = _tokens(span.input_tokens, "in", *cached)
    outputs = _tokens(span.output_tokens, "out", (span.reasoning_tokens, "reasoning"))
    cost = text.usd(span.cost_usd) if span.cost_usd is not None else None
    if cost is None and span.has_tokens:
        cost = "no price"
    return [inputs, outputs, cost]


def _tokens(number: int | None, way: str, *parts: tuple[int | None, str]) -> str | None:
    if number is None:
        return None
    known = ", ".join(f"{part:,} {name}" for part, name in parts if part)
    return f"{number:,} {way}" + (f" ({known})" if known else "")


def _failure(span: Spent) -> list[Text]:
    words = [span.failure_class, span.error_type]
    if span.failure_cause:
        words.append(f"caused by {span.failure_cause}")
    if span.failed_validators:
        words.append(f"failed: {', '.join(span.failed_validators)}")
    return [Text(plain(" · ".join(word for word in words if word)), style="yellow")]


def _dim(value: str) -> Text:
    return Text(plain(value), style="dim")


def _lines(lines: Iterable[Text | _Line]) -> Group:
    shown = (line if isinstance(line, _Line) else Hanging(line) for line in lines if line)
    return Group(*shown)


def _evidence(evidence: str | None) -> list[RenderableType]:
    if not evidence:
        return []
    lines = plain_lines(evidence)
    shown = [Text(line) for line in lines[:_MAX_EVIDENCE_LINES]]
    if len(lines) > len(shown):
        shown.append(_dim(f"and {text.plural(len(lines) - len(shown), 'more line', 'more lines')}"))
    return [_dim("evidence:"), Padding(Group(*shown), (0, 0, 0, 2))]
