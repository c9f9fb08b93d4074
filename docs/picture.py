"""Makes docs/images/report.png: the demo's HTML report, as headless Chromium draws it.

Run by ``make picture`` after ``make demo``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "report.html"
PICTURE = ROOT / "docs" / "images" / "report.png"
SIZE = "1280,1400"


def main() -> int:
    """Draw the page. Returns 2, with a word on what is missing, when it cannot be drawn."""
    browser = next(
        (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
    )
    if browser is None:
        print("docs/picture.py: no chromium on PATH; install it first", file=sys.stderr)
        return 2
    if not PAGE.exists():
        print("docs/picture.py: report.html is missing; run `make demo` first", file=sys.stderr)
        return 2
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                f"--window-size={SIZE}",
                f"--screenshot={PICTURE}",
                PAGE.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
    print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
