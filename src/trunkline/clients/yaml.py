"""As much of YAML as clients' configurations use, with the lines that each entry takes; what is beyond is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast


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
    column: int = 0
    entries: list[Entry] = field(default_factory=list[Entry])
    start: int = 0
    end: int = 0
    """Where a value that is no block stands."""

    def entry(self, key: str) -> Entry | None:
        """The entry of a key; of a list, the item that is called so."""
        return next((entry for entry in self.entries if entry.key == key), None)


def parse(text: str) -> Node:
    """The whole document. Raises `ValueError` with the line it does not understand."""
    try:
        return _Reader(text).document()
    except RecursionError:
        raise ValueError("is nested too deeply") from None


_QUOTED = r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\''
_KEY = re.compile(
    rf"({_QUOTED}|(?:[^\s\-?:,\[\]{{}}#&*!|>'\"%@`]|[-?:](?=[^\s]))(?:[^:#\r\n]|:(?=[^\s])|(?<=[^\s])#)*?)"
    r"[ \t]*:(?=[ \t\r\n]|\Z)"
)
_PLAIN = re.compile(r"(?:[^#\r\n]|(?<=[^\s])#)*")
_QUOTED_VALUE = re.compile(_QUOTED, re.DOTALL)
_FLOW_WORD = re.compile(r"(?:[^,\[\]{}#:\r\n]|:(?=[^\s,\[\]{}])|(?<=[^\s])#)+")
_FLOW_SPACE = re.compile(r"(?:[ \t\r\n]|(?<=\s)#[^\r\n]*)*")
_SCALAR = re.compile(r"([|>])(?:([1-9])?([+-])?|([+-])([1-9]))[ \t]*(?:[ \t]#[^\r\n]*)?\r?(?:\n|\Z)")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [match.start() for match in re.finditer(r"^", text, re.MULTILINE)] if text else []
        if self.lines and self.lines[-1] == len(text):
            self.lines.pop()
        self.at = 0
        self.column = 0
        self.behind = 0
        """The line behind the last one that was read."""

    def document(self) -> Node:
        self._settle()
        if self._more() and self._rest().rstrip() == "---":
            self._next(self.at)
        if not self._more():
            return Node(None)
        node = self._block(0)
        if self._more():
            self._refuse("is indented in a way that is not understood here")
        return node

    # Lines.

    def _more(self) -> bool:
        return self.at < len(self.lines)

    def _line(self, number: int) -> str:
        end = self.lines[number + 1] if number + 1 < len(self.lines) else len(self.text)
        return self.text[self.lines[number] : end]

    def _rest(self) -> str:
        return self._line(self.at)[self.column :].rstrip("\r\n")

    def _settle(self) -> None:
        """Go on to the next line that says something."""
        while self._more():
            line = self._line(self.at)
            self.column = len(line) - len(line.lstrip(" "))
            bare = line.strip()
            if bare.startswith("#") or not bare:
                self.at += 1
                continue
            if line[self.column] == "\t":
                self._refuse("is indented with a tab")
            if self.column == 0 and (bare in ("...", "---") or bare.startswith(("%", "--- "))) and self.behind:
                self._refuse("begins another document")
            return

    def _next(self, number: int) -> None:
        """This line is read."""
        self.at = self.behind = number + 1
        self._settle()

    def _place(self) -> int:
        return self.lines[self.at] + self.column

    def _number(self, place: int) -> int:
        low, high = 0, len(self.lines)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.lines[middle] <= place else (low, middle)
        return low

    def _refuse(self, why: str) -> NoReturn:
        raise ValueError(f"cannot be read: line {self.at + 1} {why}")

    # Blocks.

    def _block(self, least: int) -> Node:
        """The value that begins here, if it is indented by so much."""
        if not self._more() or self.column < least:
            return Node(None)
        if _is_item(self._rest()):
            return self._list(self.column)
        if _KEY.match(self._rest()):
            return self._map(self.column)
        return self._value(self._place(), least - 1)

    def _map(self, column: int) -> Node:
        entries: list[Entry] = []
        while self._more() and self.column == column and not _is_item(self._rest()):
            found = _KEY.match(self._rest())
            if found is None:
                self._refuse("is neither a key nor an item")
            key, first = self._word(found[1]), self.at
            colon = self._place() + found.end()
            if key in (entry.key for entry in entries):
                self._refuse(f"has the key {key!r} a second time")
            node = self._behind_key(colon, column)
            entries.append(Entry(key, node, first, self.behind, colon))
        if self._more() and self.column > column:
            self._refuse("is indented in a way that is not understood here")
        return Node({entry.key: entry.node.value for entry in entries}, column, entries)

    def _behind_key(self, place: int, column: int) -> Node:
        rest = self.text[place : self.lines[self.at] + len(self._line(self.at))]
        if rest.strip() and not re.match(r"[ \t]+#", rest):
            return self._value(place + len(rest) - len(rest.lstrip(" \t")), column)
        self._next(self.at)
        if self._more() and self.column == column and _is_item(self._rest()):
            return self._list(column)
        return self._block(column + 1)

    def _list(self, column: int) -> Node:
        entries: list[Entry] = []
        while self._more() and self.column == column and _is_item(self._rest()):
            first, rest = self.at, self._rest()
            inside = rest[1:].lstrip(" ")
            if not inside or inside.startswith("#"):
                self._next(self.at)
                node = self._block(column + 1)
            else:
                self.column += len(rest) - len(inside)
                if _is_item(inside) or (_KEY.match(inside)):
                    node = self._block(column + 1)
                else:
                    node = self._value(self._place(), column)
            value: Any = node.value
            table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            entries.append(Entry(str(table.get("name") or ""), node, first, self.behind))
        if self._more() and self.column > column:
            self._refuse("is indented in a way that is not understood here")
        return Node([entry.node.value for entry in entries], column, entries)

    # Values.

    def _value(self, place: int, parent: int) -> Node:
        """A value that begins in the middle of a line, as part of something indented by `parent`."""
        mark = self.text[place]
        if mark in "&*!%@`":
            self._refuse(f"uses {mark!r}, which is not understood here")
        if mark in "|>":
            return self._scalar(place, parent)
        if mark in "\"'":
            found = _QUOTED_VALUE.match(self.text, place)
            if found is None:
                self._refuse("has a quote that does not end")
            return self._ended(Node(self._word(found[0]), start=place, end=found.end()))
        if mark in "[{":
            value, end = self._flow(place)
            return self._ended(Node(value, start=place, end=end))
        return self._plain(place, parent)

    def _ended(self, node: Node) -> Node:
        """What stands behind a value in its line can only be a comment."""
        last = self._number(node.end - 1)
        rest = self.text[node.end : self.lines[last] + len(self._line(last))]
        if rest.strip() and not re.match(r"[ \t]+#", rest):
            self._refuse("goes on behind its value")
        self._next(last)
        return node

    def _plain(self, place: int, parent: int) -> Node:
        found = _PLAIN.match(self.text, place)
        words = [(found[0] if found else "").strip()]
        end = place + len(words[0])
        self._next(self.at)
        while self._more() and self.column > parent and not words[0].endswith(":"):
            found = _PLAIN.match(self.text, self._place())
            words.append((found[0] if found else "").strip())
            end = self._place() + len(words[-1])
            self._next(self.at)
        text = " ".join(words)
        if ": " in text or text.endswith(":") or (text[:1] in ("?", ":", "-", ",") and text[1:2] in ("", " ")):
            self.at = self.behind - 1
            self._refuse("is not understood")
        return Node(text if len(words) > 1 else _typed(text), start=place, end=end)

    def _scalar(self, place: int, parent: int) -> Node:
        found = _SCALAR.match(self.text, place)
        if found is None:
            self._refuse("begins a text in a way that is not understood")
        chomp = found[3] or found[4] or ""
        given = found[2] or found[5]
        first = number = self.at + 1
        lines: list[str] = []
        column = max(parent, 0) + int(given) if given else -1
        last = self.at
        while number < len(self.lines):
            line = self._line(number).rstrip("\r\n")
            indent = len(line) - len(line.lstrip(" "))
            if line.strip():
                column = indent if column < 0 else column
                if indent <= parent or indent < column:
                    break
                last = number
            lines.append(line[column:] if column >= 0 else "")
            number += 1
        self._next(last)
        body = lines[: last - first + 1]
        text = "\n".join(body) if found[1] == "|" else re.sub(r"(?<=\S)\n(?=\S)", " ", "\n".join(body))
        end = "" if chomp == "-" or not body else "\n" + ("\n" * (len(lines) - len(body)) if chomp == "+" else "")
        return Node(text + end, start=place, end=self.lines[last] + len(self._line(last)))

    def _flow(self, place: int) -> tuple[Any, int]:
        """A value between brackets, as in JSON."""
        mark = self.text[place]
        if mark in "\"'":
            found = _QUOTED_VALUE.match(self.text, place)
            if found is None:
                self._refuse("has a quote that does not end")
            return self._word(found[0]), found.end()
        if mark not in "[{":
            word = _FLOW_WORD.match(self.text, place)
            if word is None or mark in "&*!%@`|>":
                self._refuse("has brackets that are not understood")
            return _typed(word[0].strip()), word.end()
        closing, here = "]" if mark == "[" else "}", self._space(place + 1)
        items: list[Any] = []
        members: dict[str, Any] = {}
        while self.text[here : here + 1] != closing:
            if not self.text[here : here + 1]:
                self._refuse("has brackets that do not close")
            value, here = self._flow(here)
            here = self._space(here)
            if mark == "{":
                if self.text[here : here + 1] != ":":
                    self._refuse("has brackets that are not understood")
                key, here = str(value), self._space(here + 1)
                members[key], here = self._flow(here) if self.text[here : here + 1] not in (",", "}") else (None, here)
                here = self._space(here)
            items.append(value)
            if self.text[here : here + 1] == ",":
                here = self._space(here + 1)
            elif self.text[here : here + 1] != closing:
                self._refuse("has brackets that are not understood")
        return (items if mark == "[" else members), here + 1

    def _space(self, place: int) -> int:
        found = _FLOW_SPACE.match(self.text, place)
        return found.end() if found else place

    def _word(self, text: str) -> str:
        if text[:1] == "'":
            return _folded(text[1:-1]).replace("''", "'")
        if text[:1] == '"':
            try:
                return _ESCAPE.sub(_unescaped, _folded(re.sub(r"\\\r?\n[ \t]*", "", text[1:-1])))
            except KeyError:
                self._refuse("has an escape that is not understood")
        return text


_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPES = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"},
    **{"e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}


def _unescaped(found: re.Match[str]) -> str:
    number = found[1] or found[2] or found[3]
    return chr(int(number, 16)) if number else _ESCAPES[found[4]]


def _folded(text: str) -> str:
    """Lines of one text: one break is a space, further ones are breaks."""
    return re.sub(r"[ \t]*(?:\r?\n[ \t]*)+", lambda found: "\n" * (found[0].count("\n") - 1) or " ", text)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _typed(word: str) -> Any:
    """What a bare word means. Numbers that would be written otherwise again stay as they are."""
    if word in ("null", "~", ""):
        return None
    if word in ("true", "True", "false", "False"):
        return word.lower() == "true"
    return int(word) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", word) else word
