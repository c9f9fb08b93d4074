"""The surroundings of a measurement: no network, no settings of the person who runs it."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

_GUARDRAILS_SETTINGS = "id=bench\nenable_metrics=false\nuse_remote_inferencing=false\n"


@contextmanager
def offline() -> Iterator[Path]:
    """A home folder of its own with Guardrails' metrics off; enter it before Guardrails is imported."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GUARDSPAN_", "GUARDRAILS_", "OTEL_"))
    }
    with tempfile.TemporaryDirectory(prefix="guardspan-bench-") as home:
        Path(home, ".guardrailsrc").write_text(_GUARDRAILS_SETTINGS, encoding="utf-8")
        surroundings = {**kept, "HOME": home, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with patch.dict(os.environ, surroundings, clear=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield Path(home)
