"""Hostile texts, each with what a reader sees of it, and span files that have them in every place."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from guardspan import semconv
from report.span_files import NOON

PLANT = "document.title='planted'"
"""What a script would do; the browser's test looks for it."""
LONG = 3_000
"""Characters: more than is kept of any name."""
HOSTILE: dict[str, tuple[str, str]] = {
    # What a browser obeys: it stays as it is, as text.
    "script": (f"<script>{PLANT}</script>", f"<script>{PLANT}</script>"),
    "image": (f'"><img src=x onerror="{PLANT}">', '"><img src=x onerror='),
    "quotes": (f"' onmouseover='{PLANT}' x=\"", "' onmouseover='"),
    "style": ("</style><style>*{display:none}</style>", "</style><style>*{display:none}"),
    "title": (f"</title></svg><script>{PLANT}</script>", "</title></svg><script>"),
    "table": ("</td></tr></table><h1>planted</h1>", "</td></tr></table><h1>planted"),
    "comment": (f"--><!--<script>{PLANT}</script><![CDATA[", "--><!--<script>"),
    "raw text": (f"<noscript><p title='</noscript><img src=x onerror={PLANT}>'>", "<noscript><p title="),
    "foreign content": (
        f"<math><mtext><table><mglyph><style><img src=x onerror={PLANT}>",
        "<math><mtext><table>",
    ),
    "drawing": (f"<svg onload={PLANT}><use href='data:x'/><text>]]>", f"<svg onload={PLANT}>"),
    "frame": (f"<iframe srcdoc='<script>{PLANT}</script>'></iframe>", "<iframe srcdoc="),
    "link": (f"javascript:{PLANT}//https://evil.example/", "javascript:"),
    "policy": (
        '<meta http-equiv="refresh" content="0;url=//evil.example"><base href=//evil.example>',
        "<meta",
    ),
    "style rule": (
        "color:red;background:url(//evil.example)\\3c\\73 }*{x:expression(1)",
        "color:red;background:",
    ),
    "entities": ("&lt;script&gt;&amp;lt;b&amp;gt;&#60;i&#62;&#x202e;", "&lt;script&gt;&amp;lt;b"),
    "template": ("{{7*7}} ${title} $body %s %(message)s {0} {self}", "{{7*7}} ${title} $bod"),
    "json": ('"},{"planted":true}</script>\\u003c', '"},{"planted":true}</'),
    "spreadsheet": ("=cmd|' /C calc'!A0", "=cmd|' /C calc'!A0"),
    # What a terminal obeys, or rich would.
    "colour": ("\x1b[31mred\x1b[0m", r"\u001b[31mred\u001b["),
    "clear": ("\x1b[2J\x1b[H\x1bcx", r"\u001b[2J\u001b[H"),
    "hyperlink": ("\x1b]8;;https://evil.example\x1b\\x\x1b]8;;\x1b\\", r"\u001b]8;;https://"),
    "clipboard": ("\x1b]52;c;cGxhbnRlZA==\x07", r"\u001b]52;c;cGxhbnR"),
    "window title": ("\x1b]0;planted\x07", r"\u001b]0;planted\u0007"),
    "device control": ("\x1bP1$r\x1b\\\x1b_x\x1b\\\x1b^x\x1b\\", r"\u001bP1$r\u001b\u001b"[:12]),
    "short control": ("\x9b31m\x9d0;x\x9c\x90\x85x", r"\u009b31m\u009d0;x"),
    "bell and backspace": ("\x07pass\x08\x08\x08\x08fail", r"\u0007pass\u0008\u0008"),
    "return": ("order 99\rall is well", r"order 99\u000dall is"),
    "tab": ("a\t100\t$0.00", r"a\u0009100\u0009$0.00"),
    "row": ("good\nevil    1  100 %  $0", r"good\u000aevil    1  1"),
    "other rows": ("a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i", r"a\u000bb\u000cc\u001c"),
    "nothing": ("a\x00b\x7fc", r"a\u0000b\u007fc"),
    "markup": ("[red]x[/red][link=https://evil.example]y[/link][/]", "[red]x[/red][link="),
    "emoji code": (":smile: :warning:", ":smile: :warning:"),
    # What turns or hides text.
    "override": ("abc\u202edcba\u202c", r"abc\u202edcba\u202c"),
    "embedding": ("\u202aa\u202bb\u202dc\u202c", r"\u202aa\u202bb\u202d"),
    "isolate": ("\u2066a\u2067b\u2068c\u2069", r"\u2066a\u2067b\u2068"),
    "direction": ("\u200ea\u200fb\u061cc", r"\u200ea\u200fb\u061cc"),
    "zero width": ("a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg", r"a\u200bb\u200cc\u200d"),
    "tag characters": ("a\U000e0001\U000e0041\U000e007f", r"a\U000e0001\U000e004"),
    "variations": ("a\ufe0fb\ufe00c\U000e0100d\u180be", r"a\ufe0fb\ufe00c"),
    "fillers": ("a\u3164b\u115fc\u1160d\uffa0e\u2800f\u034fg\u17b4h", r"a\u3164b\u115fc\u11"),
    "marks": ("z" + "\u0335\u0310" * 500, "z" + "\u0335\u0310" * 2 + "\u0335" + r"\u0310\u0335"[:12]),
    "marks first": ("\u0301\u20ddx", r"\u0301\u20ddx"),
    "mark behind a number": ("\x1b\u0301x", r"\u001b\u0301x"),
    "skin tones": ("a\U0001f3fd\U0001f3fdb", r"a\U0001f3fd\U0001f3f"),
    "private": ("a\ue000b\U000f0000c", r"a\ue000b\U000f0000c"),
    "no characters": ("a\ufffeb\uffffc\u0378d\ufff9e", r"a\ufffeb\uffffc\u037"),
    "wide": ("\u65e5\u672c\u8a9e\uff21\U0001f600" * 20, "\u65e5\u672c\u8a9e\uff21\U0001f600" * 1),
    "long": ("x" * LONG, "x" * 15),
    "long and turned": ("\u202e" * LONG, r"\u202e\u202e"),
    "long and marked": ("e" + "\u0301" * LONG, "e" + "\u0301" * 5 + r"\u0301"),
}
"""By name: the text, and how what is shown of it begins."""

UNCHANGED = [
    "Grüße, señor! naïve café — “x” ‘y’ € ½ 10\u202f% a\u00a0b",
    "e\u0301 a\u0308 Vie\u0323\u0302t",
    "\u65e5\u672c\u8a9e \u4e2d\u6587 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\u1100\u1173\u11af \uff21\u3000",
    "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22\u0e17\u0e35\u0e48",
    "\u1019\u103c\u103d\u103e\u1031\u1038 \u0f67\u0f71\u0f74\u0f83",
    "\U0001f600 \U0001f44d\U0001f3fd \u261d\U0001f3ff \U0001f1e9\U0001f1ea \u26a0 \u2713",
    "<b> &amp; \"x\" 'y' \\u202e \\x1b {x} $y %s [red] :smile:",
]
"""Text of people, scripts with marks among it, that stays as it is."""

ACTING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
"""No output has one of these, but for the newlines at the end of its lines."""
_MARKS = re.compile("[\u0300-\u036f\u20d0-\u20ff]{6}")


def assert_harmless(output: str) -> None:
    """Nothing in it acts or is hidden, and no letter carries a tower of marks."""
    found = ACTING.search(output) or _MARKS.search(output)
    assert not found, ascii(output[max(found.start() - 60, 0) : found.end() + 20])


def cells(line: str) -> int:
    """How many columns of a terminal a line takes."""
    return sum(_cells(character) for character in line)


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": value}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _span(number: int, parent: int, values: dict[str, Any], text: str) -> dict[str, Any]:
    attributes = {text: text, "tenant.id": text, **values}
    event = {semconv.HISTORY_REPAIR_KIND: text, text: text}
    return {
        "traceId": f"{1:032x}",
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "traceState": text,
        "name": text,
        "kind": 1,
        "startTimeUnixNano": str(NOON * 10**9 + number),
        "endTimeUnixNano": str((NOON + 1) * 10**9),
        "attributes": _attributes(attributes),
        "events": [
            {"name": semconv.EVENT_HISTORY_REPAIR, "attributes": _attributes(event)},
            {"name": text, "attributes": _attributes(event)},
        ],
        "status": {"code": 2, "message": text},
    }


def attacked_lines(text: str) -> str:
    """A Call, its Iteration and its check with the text in every place; and spans and lines with faults."""
    common = {semconv.NAME: text, semconv.TEAM: text, semconv.ERROR_TYPE: text}
    spent = {
        **common,
        semconv.CALL_ID: text,
        semconv.STATUS: "fail",
        semconv.REQUEST_MODEL: text,
        semconv.VALIDATORS_FAILED: [text, text],
        semconv.FAILURE_CLASS: text,
        semconv.FAILURE_CAUSE: text,
        semconv.INPUT_TOKENS: 5,
    }
    call = {
        **spent,
        semconv.KIND: "call",
        semconv.GUARDRAILS_CALL_ID: text,
        semconv.LIBRARY: text,
        semconv.ENTRY: text,
        semconv.CONVERSATION_ID: text,
        semconv.STUCK: True,
        semconv.ITERATIONS: 1,
    }
    iteration = {
        **spent,
        semconv.KIND: "iteration",
        semconv.ITERATION_STAGE: text,
        semconv.REASK_REASON: text,
        semconv.LIBRARY_STATUS: text,
        semconv.OUTCOME: "wasted",
        semconv.RESPONSE_MODEL: text,
        semconv.PROVIDER_NAME: text,
        semconv.RESPONSE_ID: text,
        semconv.FINISH_REASONS: [text],
        semconv.TOOL_NAME: [text, text],
        semconv.TOOL_CALLS: 1,
        semconv.FAILURE_REPEATS: 3,
        semconv.EVIDENCE: text,
    }
    check = {
        **common,
        semconv.KIND: "validator",
        semconv.VALIDATOR_NAME: text,
        semconv.VALIDATOR_ON_FAIL: text,
        semconv.VALIDATOR_PATH: text,
        semconv.VALIDATOR_OUTCOME: "fail",
    }
    spans = [_span(1, 0, call, text), _span(2, 1, iteration, text), _span(3, 2, check, text)]
    faulty = {**_span(4, 0, {**call, semconv.KIND: text}, text), "traceId": text}
    wrong = _span(5, 2, {**check, semconv.VALIDATOR_OUTCOME: text, semconv.VALIDATOR_RUNS: text}, text)
    resource = {"service.name": text, semconv.TEAM: text, "tenant.id": text, text: text}
    scope = {"scope": {"name": text, "version": text}, "spans": [*spans, faulty, wrong], "schemaUrl": text}
    group = {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}
    documents = [{"resourceSpans": [group]}, {text: text}, text]
    return "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)


def file_name(text: str) -> str:
    """The text as a file's name: without what a name cannot have, and no longer than one may be."""
    name = re.sub("[/\x00]", "", text).encode("utf-8", "surrogateescape")[:200]
    return name.decode("utf-8", "ignore" if not text.endswith("\udcff") else "surrogateescape")
