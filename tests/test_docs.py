"""Docs say what is true today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from guardspan import semconv
from guardspan.settings import Settings

ROOT = Path(__file__).parent.parent


def test_generated_pages_agree_with_the_code() -> None:
    """`make docs` has been run since the last change of a name or a setting."""
    checked = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_every_emitted_name_is_named_once() -> None:
    """No attribute is declared twice, and no own span carries `gen_ai.usage.*` by default."""
    names = [attribute.name for attribute in semconv.ATTRIBUTES]
    assert len(names) == len(set(names))
    assert {a.on for a in semconv.ATTRIBUTES} <= {"C", "I", "V", "C I", "C I V"}


def test_the_readme_names_no_setting_or_target_that_does_not_exist() -> None:
    """Variables and make targets in the README and the docs are real."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    settings = {f"GUARDSPAN_{name.upper()}" for name in Settings.model_fields}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"`make ([a-z-]+)`", text)) <= targets, page.name
        assert set(re.findall(r"GUARDSPAN_[A-Z_]+", text)) <= settings, page.name


def test_links_within_the_docs_lead_somewhere() -> None:
    """No link to a file that is not there."""
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
