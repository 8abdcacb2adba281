"""Changes one table of a TOML configuration, and leaves every other line as it is."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast


def read(text: str) -> dict[str, Any]:
    """The value of a text. Raises `ValueError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is not valid TOML: {error}") from error
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """The text with a table at its end, which takes the place of one that was there."""
    import tomlkit

    newline = "\r\n" if "\r\n" in text else "\n"
    table: dict[str, Any] = dict(value)
    for key in reversed(path):
        table = {key: table}
    text = take(text, path)
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    # Behind the last line a table is right wherever its siblings are, and no line before it has to change.
    return text + gap + tomlkit.dumps(table).replace("\n", newline)


def take(text: str, path: Sequence[str]) -> str:
    """The text without a table and what is below it; comments above its neighbours stay."""
    if not _has(read(text), path):
        return text
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    heads = [at for at, line in enumerate(lines) if _HEAD.match(line)]
    spans = [
        (start, _end(lines, end))
        for start, end in itertools.pairwise([*heads, len(lines)])
        if _path(lines[start])[: len(path)] == list(path)
    ]
    if not spans:
        return _without_key(text, path)
    gone = {number for start, end in spans for number in range(start, end)}
    kept = [line for number, line in enumerate(lines) if number not in gone]
    return "".join(kept)


_HEAD = re.compile(r"[ \t]*\[\[?[^\[\]\r\n]*(?:\"[^\"\r\n]*\"[^\[\]\r\n]*)*\]\]?[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)")


def _path(line: str) -> list[str]:
    """The keys that a table's head names."""
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    keys: list[str] = []
    while isinstance(value, dict) and value:
        key, value = next(iter(cast("dict[str, Any]", value).items()))
        keys.append(key)
    return keys


def _end(lines: Sequence[str], end: int) -> int:
    """Where a table really ends: comments below its last line speak of the next one."""
    kept = end
    while kept > 0 and lines[kept - 1].lstrip().startswith("#"):
        kept -= 1
    return kept if end < len(lines) else end


def _without_key(text: str, path: Sequence[str]) -> str:
    """The text without a table that has no head of its own."""
    import tomlkit

    document: Any = tomlkit.parse(text)
    holder: Any = document
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return tomlkit.dumps(document)


def _has(value: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = cast("dict[str, Any]", value)[key]
    return True
