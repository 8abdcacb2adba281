"""Changes one entry of a YAML configuration, and leaves every other line as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from trunkline.clients.yaml import Entry, Node, parse


def read(text: str) -> Any:
    """The value of a text; one without any is an empty mapping. Raises `ValueError`."""
    return _root(text).value or {}


def put(text: str, path: Sequence[str], value: Mapping[str, Any], *, listed: bool) -> str:
    """The text with an entry under a top-level key: a member of a mapping, or an item of a list by its `name`."""
    (container, key), newline = path, "\r\n" if "\r\n" in text else "\n"
    holder = _root(text).entry(container)
    if holder is None:
        gap = "" if not text or text.endswith("\n") else newline
        return text + gap + newline.join([f"{container}:", *_dumped(key, value, 2, listed=listed), ""])
    node = holder.node
    if node.value not in (None, {}, []) and (not node.entries or isinstance(node.value, list) is not listed):
        raise ValueError(f"has {container!r} in a form that is not changed here")
    starts = _starts(text)
    found = node.entry(key)
    column = node.column if node.entries else holder_column(text, holder) + 2
    lines = [line + newline for line in _dumped(key, value, column, listed=listed)]
    if found is not None:
        return text[: starts[found.first]] + "".join(lines) + text[starts[found.behind] :]
    if node.entries:
        return _inserted(text, starts[node.entries[-1].behind], lines, newline)
    if node.value is not None:  # an empty pair of brackets makes room for a block
        rest = text[node.end :]
        text = text[: node.start].rstrip(" ") + (rest if re.match(r"\s", rest) or not rest else " " + rest)
        starts = _starts(text)
    return _inserted(text, starts[holder.first + 1], lines, newline)


def take(text: str, path: Sequence[str]) -> str:
    """The text without the lines of an entry; comments above it stay."""
    container, key = path
    holder = _root(text).entry(container)
    found = holder.node.entry(key) if holder else None
    if holder is None or found is None:
        return text
    starts = _starts(text)
    left = text[: starts[found.first]] + text[starts[found.behind] :]
    if len(holder.node.entries) == 1:
        empty = " []" if isinstance(holder.node.value, list) else " {}"
        return left[: holder.colon] + empty + left[holder.colon :]
    return left


def holder_column(text: str, holder: Entry) -> int:
    """Where a key begins in its line."""
    line = text[_starts(text)[holder.first] :]
    return len(line) - len(line.lstrip(" "))


def _root(text: str) -> Node:
    root = parse(text)
    if root.value is not None and (not isinstance(root.value, dict) or not root.entries):
        raise ValueError("is not a YAML mapping")
    return root


def _starts(text: str) -> list[int]:
    """Where each line begins, and where the text ends."""
    starts = [found.start() for found in re.finditer(r"^", text, re.MULTILINE)]
    return starts if starts and starts[-1] == len(text) else [*starts, len(text)]


def _inserted(text: str, place: int, lines: list[str], newline: str) -> str:
    new = "".join(lines)
    if place and not text[:place].endswith("\n"):  # the last line has no end, and keeps it so
        new = newline + new.removesuffix(newline)
    return text[:place] + new + text[place:]


def _dumped(key: str, value: Mapping[str, Any], column: int, *, listed: bool) -> list[str]:
    pad = " " * column
    if not listed:
        return [f"{pad}{_word(key)}:", *_block(value, column + 2)]
    first, *others = _block(value, column + 2)
    return [f"{pad}- {first.lstrip(' ')}", *others]


def _block(value: Mapping[str, Any], column: int) -> list[str]:
    lines: list[str] = []
    for key, item in value.items():
        start = f"{' ' * column}{_word(key)}:"
        if isinstance(item, dict) and item:
            lines += [start, *_block(cast("dict[str, Any]", item), column + 2)]
        elif isinstance(item, list | tuple) and item:
            lines += [start, *(f"{' ' * (column + 2)}- {_word(one)}" for one in cast("list[Any]", item))]
        else:
            lines.append(f"{start} {_word(item)}")
    return lines


def _word(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/_][A-Za-z0-9/_.@+-]*(?::[0-9A-Za-z/_.-]+)*", value):
        return value if value.lower() not in _WORDS else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
"""Words that are more than words to some reader of YAML."""
