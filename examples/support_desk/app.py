"""The support desk of Acme: sorts and answers tickets with an LLM, through Guardrails and Pydantic AI.

    python examples/support_desk/app.py [--tickets N] [--seed S]

The LLM is a scripted server that this program starts on a free port of this machine, so no prompt leaves it.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else LiteLLM looks for a newer list online
os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # else its first run in a terminal shows a greeting

import litellm
from answers import ScriptedModel
from cases import ENDINGS, Case
from desk import Desk
from inbox import Ticket, inbox
from server import ScriptedServer

BATCH = 12
TIME_LIMIT = 3.0  # seconds for one answer of the model


def main() -> None:
    """Handle the inbox, print how each ticket went, and at the end how many steps ended how."""
    options = _options()
    litellm.suppress_debug_info = True
    endings: Counter[str] = Counter()
    with ScriptedServer(ScriptedModel().respond) as server:
        for case in _cases(Desk(_connection(server.base_url)), inbox(options.tickets, options.seed)):
            endings.update(step.ending for step in case.steps)
            print(_line(case), flush=True)
    counts = ", ".join(f"{endings[ending]} {ending}" for ending in ENDINGS)
    print(f"{options.tickets} tickets, {sum(endings.values())} steps: {counts}")


def _cases(desk: Desk, tickets: list[Ticket]) -> Iterator[Case]:
    yield desk.check_canned_replies()
    for start in range(0, len(tickets), BATCH):
        yield from desk.handle(tickets[start : start + BATCH])


def _connection(base_url: str) -> dict[str, object]:
    return {
        "api_base": base_url,
        "api_key": "local",
        "timeout": TIME_LIMIT,
        "num_retries": 0,
        "max_retries": 0,
    }


def _line(case: Case) -> str:
    good = sum(step.ending == "ok" for step in case.steps)
    rest = [f"{step.name} {step.ending} ({step.reason})" for step in case.steps if step.ending != "ok"]
    where = f"ticket {case.number:>3}" if case.number else "desk      "
    return f"{where}  {case.letter.subject:<32}" + ", ".join([f"{good} ok", *rest])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The support desk of Acme, with a scripted LLM.")
    parser.add_argument("--tickets", type=_count, default=60, metavar="N", help="how many tickets (60)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which tickets, in which order (1)")
    return parser.parse_args()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    main()
