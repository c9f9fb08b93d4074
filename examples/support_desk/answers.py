"""The model behind the local server: scripted answers, chosen by task, ticket and attempt.

`answers.json` holds for each task (the name of a guard or an agent) the answers by the subject of the
ticket; `*` stands for any other subject. The nth request about a ticket gets the nth answer, and the last
one again after that. An answer is a text, or an object with `json` (sent as JSON text), with `calls` (tool
calls: the arguments by the tool's name), or with the fields of `Reply`.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from server import JsonObject, Reply, tool_call, usage

CHARACTERS_PER_TOKEN = 4
CACHED_FROM, CACHE_STEP = 1024, 128  # tokens: how OpenAI caches the start of prompts
ANSWERS = Path(__file__).with_name("answers.json")


class ScriptedModel:
    """Answers requests as `answers.json` says, with token counts taken from the texts.

    Requests must carry `user="TASK/TICKET"`, since re-asks do not repeat the ticket. Safe to call from
    several threads at once.
    """

    def __init__(self) -> None:
        script = json.loads(ANSWERS.read_text(encoding="utf-8"))
        self._dated: dict[str, str] = script["models"]
        self._reasoning: dict[str, int] = script["reasoning_tokens"]
        self._answers: dict[str, dict[str, list[Any]]] = script["answers"]
        self._attempts: Counter[str] = Counter()
        self._subjects: dict[str, str] = {}
        self._seen_starts: set[str] = set()
        self._lock = threading.Lock()

    def respond(self, request: JsonObject) -> Reply:
        """The reply to one chat request."""
        conversation = request["user"]
        task = conversation.partition("/")[0]
        with self._lock:
            attempt = self._attempts[conversation]
            self._attempts[conversation] += 1
            subject = self._subjects.setdefault(conversation, self._subject(task, request))
            cached = self._cached_tokens(request)
        answers = self._answers[task][subject]
        fields = _reply_fields(answers[min(attempt, len(answers) - 1)])
        counts = self._usage(task, request, fields, cached)
        return Reply(usage=counts, model=self._dated.get(request["model"]), **fields)

    def _subject(self, task: str, request: JsonObject) -> str:
        text = request["messages"][-1]["content"]
        return next((subject for subject in self._answers[task] if subject in text), "*")

    def _cached_tokens(self, request: JsonObject) -> int:
        """Tokens of the prompt's start that an earlier request has left in the cache."""
        start = request["messages"][0]["content"]
        known = start in self._seen_starts
        self._seen_starts.add(start)
        tokens = _tokens(start)
        return tokens - tokens % CACHE_STEP if known and tokens >= CACHED_FROM else 0

    def _usage(self, task: str, request: JsonObject, answer: JsonObject, cached: int) -> JsonObject:
        prompt = sum(_tokens(_words(message)) + 4 for message in request["messages"])
        tools = _tokens(json.dumps(request["tools"])) if "tools" in request else 0
        reasoning = self._reasoning.get(task, 0)
        return usage(prompt + tools, _tokens(_words(answer)) + reasoning, cached=cached, reasoning=reasoning)


def _reply_fields(answer: Any) -> dict[str, Any]:
    if isinstance(answer, str):
        return {"text": answer}
    if "json" in answer:
        return {"text": json.dumps(answer["json"])}
    if "calls" in answer:
        return {"tool_calls": [tool_call(name, **given) for name, given in answer["calls"].items()]}
    return dict(answer)


def _words(message: JsonObject) -> str:
    """What counts of a message or an answer: its text, and the tool calls in it."""
    called = [
        f"{call['function']['name']}{call['function']['arguments']}" for call in message.get("tool_calls", ())
    ]
    return "".join([message.get("content") or message.get("text") or "", *called])


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)
