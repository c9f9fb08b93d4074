"""What could not be read: counted, and the first ones told by file and line."""

from __future__ import annotations

from pydantic import BaseModel, Field

from guardspan.report.text import plural

MAX_TOLD = 50
MAX_TOLD_PER_FILE = 5


class Fault(BaseModel):
    """One thing that could not be read."""

    file: str = Field(description="the file")
    line: int | None = Field(description="the line, from 1; null when it is the whole file")
    what: str = Field(description="what is wrong, in words of guardspan's own")


class Faults(BaseModel):
    """Everything that could not be read."""

    files: int = Field(0, description="files that could not be opened or read to their end")
    lines: int = Field(0, description="lines that are no OTLP JSON: cut off, too long or foreign; skipped")
    spans: int = Field(0, description="spans of guardspan's without valid kind, ids or times; skipped")
    values: int = Field(0, description="attributes with a value that they cannot have; left out")
    told: list[Fault] = Field(
        default_factory=list,
        description=f"the first {MAX_TOLD} of them, at most {MAX_TOLD_PER_FILE} per file",
    )

    @property
    def count(self) -> int:
        """All of them."""
        return self.files + self.lines + self.spans + self.values

    @property
    def summary(self) -> str:
        """``1 file, 3 lines``: the counts that are not 0, for people."""
        counts = {"file": self.files, "line": self.lines, "span": self.spans, "value": self.values}
        return ", ".join(plural(number, what) for what, number in counts.items() if number)

    def tell(self, file: str, line: int | None, what: str) -> None:
        """Keep the words, unless there are enough already; the caller counts."""
        of_file = sum(fault.file == file for fault in self.told)
        if len(self.told) < MAX_TOLD and of_file < MAX_TOLD_PER_FILE:
            self.told.append(Fault(file=file, line=line, what=what))
