"""Every way to run an agent gives the same tree, and says which way it was."""

from __future__ import annotations

import pytest
from agent_kit import WAYS, Script, call, desk, run_sync
from recording import Recording


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_is_one_call(recording: Recording, way: str) -> None:
    """One Call per run, named after what the application called, whatever goes on inside."""
    agent = desk(Script("fine"))
    await WAYS[way](agent)
    first = recording.tree().splitlines()[0]
    assert first.startswith(f"agent desk {'run' if way == 'wrapper' else way} x1 [pass]")


def test_run_sync(recording: Recording) -> None:
    """`run_sync` is told from the `run` inside it."""
    run_sync(desk(Script(call("final_result", response=1), "fine")))
    assert recording.tree().startswith("agent desk run_sync x")
