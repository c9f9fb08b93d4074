"""Writes what is generated from the code: docs/emitted.md and docs/configuration.md.

``make docs`` writes them; with ``--check`` nothing is written and the exit code says whether they agree.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from guardspan import semconv
from guardspan.settings import Settings

FOLDER = Path(__file__).parent
ON = {"C": "Call", "I": "Iteration", "V": "Validator"}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def emitted() -> str:
    """The page of all emitted names."""
    attributes = [
        (f"`{a.name}`", ", ".join(ON[letter] for letter in a.on.split()), a.type, a.meaning)
        for a in semconv.ATTRIBUTES
    ]
    metrics = [(f"`{m.name}`", m.instrument, f"`{m.unit}`", m.meaning) for m in semconv.METRICS]
    events = [(f"`{e.name}`", e.on, e.when) for e in semconv.EVENTS]
    return f"""\
# What is emitted

Generated from `src/guardspan/semconv.py` by `make docs`. Absent means not known; nothing is invented.

## Spans

| span | name | parent |
| --- | --- | --- |
| Call | `guard {{name}}` or `agent {{name}}` | the caller's current span |
| Iteration | `iteration` | its Call, with Pydantic AI's `invoke_agent` in between where that is on |
| Validator | `validate {{validator}}` | its Iteration |

The Iteration is current while the LLM is called, and while an agent's tools and checks run.
All are of kind INTERNAL. `error` sets the span status to ERROR, with the exception's class as its
description and nothing else. A `fail` sets it only on a Call whose re-asks were used up.

## Span attributes

{table(("attribute", "on", "type", "meaning"), attributes)}

## Metrics made in the process

{table(("metric", "instrument", "unit", "meaning"), metrics)}

## Events

{table(("event", "on", "when"), events)}
"""


def configuration() -> str:
    """The page of all settings."""
    rows = [
        (f"`GUARDSPAN_{name.upper()}`", _default(field), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    return f"""\
# Configuration

Generated from `src/guardspan/settings.py` by `make docs`. Every setting is also a keyword of
`guardspan.instrument()`, which wins over the variable. A variable that cannot be used is logged and its
default taken; `guardspan doctor` lists such faults. Rules or a model for redaction that cannot be used are
logged, and then the content mode is `off`.

{table(("variable", "default", "meaning"), rows)}

`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` set to `SPAN_ONLY` or `SPAN_AND_EVENT` means
`GUARDSPAN_CONTENT=redacted` when that variable is not set.
"""


def _default(field: Any) -> str:
    value = field.get_default()
    if value is None or value == ():
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def main() -> int:
    """Write the pages, or compare them."""
    stale = []
    for name, text in {"emitted.md": emitted(), "configuration.md": configuration()}.items():
        path = FOLDER / name
        if "--check" in sys.argv:
            stale += [name] if not path.exists() or path.read_text(encoding="utf-8") != text else []
        else:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/{name} does not agree with the code: run `make docs`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
