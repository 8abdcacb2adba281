"""Changes one entry of a YAML configuration, and leaves every other line as it is; PyYAML reads."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import yaml
from yaml import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

LARGEST = 2**20
"""Characters that a text may have: PyYAML takes seconds for so many, and a minute where its C library is not."""
DEEPEST = 64


def read(text: str) -> Any:
    """The value of a text; one without any is an empty mapping. Raises `ValueError`."""
    return _root(text).value or {}


def put(text: str, path: Sequence[str], value: Mapping[str, Any], *, listed: bool = False) -> str:
    """The text with an entry under a top-level key: a member of a mapping, or an item of a list by its `name`."""
    (container, key), newline = path, "\r\n" if "\r\n" in text else "\n"
    root = _root(text)
    holder = root.entry(container)
    if holder is None:
        gap = "" if not text or text.endswith("\n") else newline
        return text + gap + newline.join([f"{container}:", *_dumped(key, value, 2, listed=listed), ""])
    node = holder.node
    if node.value not in (None, {}, []) and (not node.entries or isinstance(node.value, list) is not listed):
        raise ValueError(f"has {container!r} in a form that is not changed here")
    starts = _starts(text)
    found = node.entry(key)
    column = node.column if node.entries else root.column + 2
    lines = [line + newline for line in _dumped(key, value, column, listed=listed)]
    if found is not None:
        return text[: starts[found.first]] + "".join(lines) + text[starts[found.behind] :]
    if node.entries:
        return _inserted(text, starts[node.behind], lines, newline)
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


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value, or an item of a list, and the lines that it takes."""

    key: str
    node: Node
    first: int
    behind: int
    """The line behind its last one."""
    colon: int = 0
    """The place behind the key's colon."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value; one that is written as a block has its entries, and the column they begin in."""

    value: Any
    behind: int = 0
    """The line behind its last one."""
    column: int = 0
    entries: list[Entry] = field(default_factory=list[Entry])
    start: int = 0
    end: int = 0
    """Where a value that is no block stands."""

    def entry(self, key: str) -> Entry | None:
        """The entry of a key; of a list, the item that is called so."""
        return next((entry for entry in self.entries if entry.key == key), None)


def parse(text: str) -> Node:
    """The whole document. Raises `ValueError` with the line that is wrong, or says more than a client writes."""
    if len(text) > LARGEST:
        raise ValueError(f"has more than {LARGEST // 2**20} MiB")
    reader = _Reader(text)
    illegal = _ILLEGAL.search(text)
    if illegal:
        reader.refuse(illegal.start(), "has a character that YAML does not allow")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Events instead of values: depth, tags and aliases are seen before anything is made of them.
        return reader.document(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(f"cannot be read: line {mark.line + 1 if mark else 1}: {error.problem}") from error


_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_COLON = re.compile(r"[ \t]*:")


class _Reader:
    """Makes nodes of PyYAML's events."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = _starts(text)

    def document(self, events: Iterator[Event]) -> Node:
        """The only document of a text."""
        node: Node | None = None
        for event in events:
            place, _ = _span(event)
            if isinstance(event, DocumentStartEvent):
                if node is not None:
                    self.refuse(place, "begins another document")
                if event.version or event.tags:
                    self.refuse(place, "has a directive, which is not understood here")
                node = self._node(next(events), events, DEEPEST)
            elif isinstance(event, DocumentEndEvent) and event.explicit:
                self.refuse(place, "ends the document in a way that is not understood here")
        return node or Node(None)

    def refuse(self, place: int, why: str) -> NoReturn:
        """Say what is wrong with the line of a place."""
        raise ValueError(f"cannot be read: line {self._line(place) + 1} {why}")

    def _line(self, place: int) -> int:
        return bisect_right(self.starts, place) - 1

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        start, _ = _span(event)
        if depth == 0:
            raise ValueError("is nested too deeply")
        if mark := _mark(event):
            self.refuse(start, f"uses {mark!r}, which is not understood here")
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        assert isinstance(event, CollectionStartEvent)
        if isinstance(event, MappingStartEvent):
            entries, end = self._members(events, depth)
            value: Any = {entry.key: entry.node.value for entry in entries}
        else:
            entries, end = self._items(start, events, depth)
            value = [entry.node.value for entry in entries]
        if event.flow_style:
            return Node(value, self._line(end - 1) + 1, start=start, end=end)
        return Node(value, entries[-1].behind, start - self.starts[self._line(start)], entries)

    def _scalar(self, event: ScalarEvent) -> Node:
        start, end = _span(event)
        # Blank lines behind a text of several lines are not its own.
        last = start + len(self.text[start:end].rstrip()) - 1
        value = event.value if event.style else _typed(event.value)
        return Node(value, self._line(max(start - 1, last, 0)) + 1, start=start, end=end)

    def _members(self, events: Iterator[Event], depth: int) -> tuple[list[Entry], int]:
        """The members of a mapping, and where it ends."""
        entries: dict[str, Entry] = {}
        for event in events:
            start, end = _span(event)
            if isinstance(event, MappingEndEvent):
                return list(entries.values()), end
            colon = _COLON.match(self.text, end)
            if not isinstance(event, ScalarEvent) or _mark(event) or start == end or colon is None:
                self.refuse(start, "has a key that is not understood here")
            if event.value in entries:
                self.refuse(start, f"has the key {event.value!r} a second time")
            node = self._node(next(events), events, depth - 1)
            entries[event.value] = Entry(event.value, node, self._line(start), node.behind, colon.end())
        raise AssertionError("PyYAML ends what it begins")

    def _items(self, start: int, events: Iterator[Event], depth: int) -> tuple[list[Entry], int]:
        """The items of a list, and where it ends."""
        entries: list[Entry] = []
        first = self._line(start)
        for event in events:
            if isinstance(event, SequenceEndEvent):
                return entries, _span(event)[1]
            node = self._node(event, events, depth - 1)
            value: Any = node.value
            name = cast("dict[str, Any]", value).get("name") if isinstance(value, dict) else ""
            entries.append(Entry(str(name or ""), node, first, node.behind))
            first = self._next_line(node.behind)
        raise AssertionError("PyYAML ends what it begins")

    def _next_line(self, number: int) -> int:
        """The next line that says something."""
        while number < len(self.starts) - 1:
            line = self.text[self.starts[number] : self.starts[number + 1]].strip()
            if line and not line.startswith("#"):
                break
            number += 1
        return number


def _span(event: Event) -> tuple[int, int]:
    """Where an event begins and ends in the text."""
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


def _mark(event: Event) -> str:
    """The sign of an alias, an anchor or a tag, if the event is or has one."""
    if isinstance(event, AliasEvent):
        return "*"
    if isinstance(event, NodeEvent) and event.anchor is not None:
        return "&"
    return "!" if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag is not None else ""


def _typed(word: str) -> Any:
    """What a bare word means. Numbers that would be written otherwise again stay as they are."""
    if word in ("null", "~", ""):
        return None
    if word in ("true", "True", "false", "False"):
        return word.lower() == "true"
    return int(word) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", word) else word


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
    word = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in word)


_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
"""Words that are more than words to some reader of YAML."""
