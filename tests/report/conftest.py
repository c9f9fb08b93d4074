"""Folders with span files."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.span_files import Attempt, Call, Check, writing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where span files go."""
    return tmp_path / "spans"


@pytest.fixture
def desk(folder: Path) -> Path:
    """A folder with one Call of every kind; its sums are told in `test_aggregate`."""
    gpt = {"asked": "gpt-4o", "model": "gpt-4o-2024-08-06", "provider": "openai"}
    own = {"asked": "own-model", "model": "own-model", "provider": "local"}
    with writing(folder) as writer:
        writer.write(
            Call(
                "refund",
                "aaaa0001",
                Attempt(
                    "pass", cost=0.1, input=100, cache_read=40, output=30, reasoning=10, redactions=2, **gpt
                ),
                seconds=2.0,
                asked="gpt-4o",
                cost=0.1,
                team="support",
                redactions=1,
            ),
            Call(
                "refund",
                "aaaa0002",
                Attempt(
                    "fail",
                    cost=0.2,
                    input=200,
                    output=50,
                    failure="validation",
                    failed=["ValidLength"],
                    checks=[Check("ValidLength", "fail", 0.004), Check("RegexMatch", "pass", 0.002)],
                    **gpt,
                ),
                Attempt("pass", stage="reask", reason="validation", cost=0.3, input=250, output=60, **gpt),
                at=10,
                asked="gpt-4o",
                cost=0.5,
                failed=["ValidLength"],
                team="support",
            ),
            Call(
                "order",
                "bbbb0001",
                *[
                    Attempt(
                        "fail",
                        stage="reask" if number else "initial",
                        cost=0.01,
                        input=10,
                        output=1,
                        failure="parsing",
                        **gpt,
                    )
                    for number in range(3)
                ],
                at=86_400,
                status="fail",
                failure="parsing",
                stuck=True,
                limit_reached=True,
                cost=0.03,
                asked="gpt-4o",
            ),
            Call(
                "order",
                "bbbb0002",
                Attempt("error", input=5, failure="provider", **own),
                at=86_500,
                status="error",
                failure="provider",
                unpriced=1,
                asked="own-model",
            ),
            Call("check", "cccc0001", Attempt("pass", checks=[Check("TwoWords", None)]), entry="validate"),
            Call("check", "cccc0002", status="not run", abandoned=True, stream=True, redaction_failures=1),
        )
    return folder
