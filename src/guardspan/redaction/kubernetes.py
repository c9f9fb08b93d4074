"""The data of a Kubernetes secret, whatever the names of its keys: YAML and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardspan.redaction import checks

KIND = r"kind[\"']?:\s{0,3}[\"']?Secret\b"
_BLOCK = re.compile(rb"(?m)^([ \t]{0,12})(stringData|data):[ \t\r]{0,8}$")
_LINE = re.compile(rb"\r?\n([ \t]{0,24})([^\r\n]{0,16384})")
_ENTRY = re.compile(rb"[\w.\"'-]{1,80}:[ \t]{1,4}[\"']?([^\s\"'][^\r\n\"']{3,16384})")
_OBJECT = re.compile(rb"\"(stringData|data)\"\s{0,4}:\s{0,4}\{([^{}]{0,16384})\}")
_MEMBER = re.compile(rb"\"[^\"\\]{1,80}\"\s{0,4}:\s{0,4}\"([^\"\\]{4,16384})\"")
_ENCODED = re.compile(rb"[A-Za-z0-9+/]{4,}={0,2}\Z")


def secrets(data: bytes, begin: int, kind: int, limit: int) -> Iterator[tuple[int, int]]:
    """Where the values lie of a secret whose kind is named at ``kind``, within ``begin`` and ``limit``."""
    begin = max(begin, data.rfind(b"\n---", begin, kind))
    end = data.find(b"\n---", kind, limit)
    limit = end if end >= 0 else min(limit, len(data))
    for block in _BLOCK.finditer(data, begin, limit):
        yield from _entries(data, block, limit)
    for members in _OBJECT.finditer(data, begin, limit):
        for member in _MEMBER.finditer(data, *members.span(2)):
            if _secret(members.group(1), member.group(1)):
                yield member.span(1)


def _entries(data: bytes, block: re.Match[bytes], limit: int) -> Iterator[tuple[int, int]]:
    position = block.end()
    while (line := _LINE.match(data, position, limit)) is not None:
        if line.group(2).strip() and len(line.group(1)) <= len(block.group(1)):
            return
        entry = _ENTRY.match(data, line.start(2), line.end())
        if entry and _secret(block.group(2), entry.group(1).rstrip()):
            yield entry.start(1), entry.start(1) + len(entry.group(1).rstrip())
        position = line.end()


def _secret(block: bytes, value: bytes) -> bool:
    text = value.decode("utf-8", "replace")
    if block == b"data":
        return _ENCODED.match(value) is not None and checks.not_placeholder(text)
    return checks.password(text)
