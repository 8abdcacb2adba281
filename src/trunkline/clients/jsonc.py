"""JSON as editors keep it, with comments and last commas: read, and changed in one place, the rest left as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trunkline.config.jsonc import COMMENT, loads, without_comments, without_last_commas


def read(text: str) -> Any:
    """The value of a text; one without any is an empty object. Raises `ValueError`."""
    return _Text(text).value


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with a value at a path of keys, whose last is replaced or comes last in its object."""
    parsed = _Text(text)
    if parsed.empty:
        gap = "" if not text or text.endswith(("\n", "\r")) else parsed.newline
        return text + gap + parsed.dumped(_nested(path, value), "", parsed.unit) + parsed.newline
    at = parsed.start
    for depth, key in enumerate(path):
        found = parsed.object_at(at, path[:depth])
        member = found.member(key)
        if member is None:
            return _with_member(parsed, found, key, _nested(path[depth + 1 :], value))
        at = member.value
        if depth == len(path) - 1:
            dumped = parsed.dumped(value, parsed.indent_at(member.start), parsed.unit)
            return text[:at] + dumped + text[member.end :]
    raise ValueError("names no key to write to")


def take(text: str, path: Sequence[str]) -> str:
    """The text without the member at a path of keys; what `put` added new is taken back to the byte."""
    parsed = _Text(text)
    at = parsed.start
    for depth, key in enumerate(path):
        found = parsed.object_at(at, path[:depth])
        member = found.member(key)
        if member is None:
            return text
        if depth == len(path) - 1:
            return _without_member(parsed, found, member)
        at = member.value
    return text


_COMMENTS = re.compile(COMMENT, re.DOTALL)
_COMMENTS_OF_THE_LINE = re.compile(rf"(?:[ \t]*(?:{COMMENT}))*", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"[ \t]*")
_LINE_END = re.compile(r"[ \t]*[\r\n]")


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    value: int
    end: int
    comma: int
    """Where its own comma is; -1 when there is none."""


@dataclass(frozen=True, slots=True)
class _Object:
    start: int
    end: int
    """Where its closing brace is."""
    members: list[_Member]

    def member(self, key: str) -> _Member | None:
        """The one that counts: of equal keys, the last."""
        return next((member for member in reversed(self.members) if member.key == key), None)


@dataclass(frozen=True)
class _Text:
    text: str

    @cached_property
    def marks(self) -> str:
        """The text with spaces in the place of comments, so that every place stays where it is."""
        return without_comments(self.text)

    @cached_property
    def plain(self) -> str:
        """The same without commas behind the last member of something: plain JSON."""
        return without_last_commas(self.marks)

    @cached_property
    def value(self) -> Any:
        try:
            return {} if self.empty else loads(self.text)
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"is not valid JSON: {error.msg}, in line {error.lineno}") from error

    @property
    def empty(self) -> bool:
        return not self.marks.strip(" \t\r\n")

    @property
    def start(self) -> int:
        return self._behind_space(0)

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @cached_property
    def unit(self) -> str:
        """What a level is indented by in this file."""
        found = re.search(r"^([ \t]+)\"", self.text, re.MULTILINE)
        return found[1] if found else "  "

    def object_at(self, at: int, path: Sequence[str]) -> _Object:
        """The object that begins here, with its members."""
        _ = self.value  # whatever is wrong anywhere in the file is said before anything is looked for
        if self.plain[at : at + 1] != "{":
            raise ValueError(f"has no object at {'.'.join(path)!r}" if path else "is not a JSON object")
        members: list[_Member] = []
        here = self._behind_space(at + 1)
        while self.plain[here] != "}":
            key, colon = _DECODER.raw_decode(self.plain, here)
            value = self._behind_space(self._behind_space(colon) + 1)
            _, end = _DECODER.raw_decode(self.plain, value)
            comma = self._behind_space(end, self.marks)
            own = comma if self.marks[comma] == "," else -1
            members.append(_Member(key, here, value, end, own))
            here = self._behind_space(own + 1 if own >= 0 else end)
        return _Object(at, here, members)

    def indent_at(self, at: int) -> str:
        """The space that the line of this place begins with."""
        found = _INDENT.match(self.text, self._line(at))
        return found[0] if found else ""

    def begins_line(self, at: int) -> bool:
        """Whether only space stands before this place in its line, which is not the first one."""
        line = self._line(at)
        return line > 0 and line + len(self.indent_at(at)) == at

    def dumped(self, value: Any, indent: str, unit: str) -> str:
        """A value as JSON over several lines, the first of which is begun already."""
        lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
        return (self.newline + indent).join(lines)

    def _line(self, at: int) -> int:
        return max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1

    def _behind_space(self, at: int, text: str = "") -> int:
        found = _SPACE.match(text or self.plain, at)
        return found.end() if found else at


_DECODER = json.JSONDecoder()


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _with_member(parsed: _Text, found: _Object, key: str, value: Any) -> str:
    text, name = parsed.text, json.dumps(key, ensure_ascii=False)
    if not found.members:
        return _with_first_member(parsed, found, name, value)
    outer = parsed.indent_at(found.start)
    first, last = found.members[0], found.members[-1]
    own_line = parsed.begins_line(first.start)
    indent = parsed.indent_at(first.start) if own_line else outer + parsed.unit
    behind = last.comma + 1 if last.comma >= 0 else last.end
    if own_line or "\n" in text[behind : found.end] or "\r" in text[behind : found.end]:
        unit = indent[len(outer) :] if own_line and indent.startswith(outer) and indent != outer else parsed.unit
        member = f"{parsed.newline}{indent}{name}: {parsed.dumped(value, indent, unit)}"
    else:
        member = f" {name}: {json.dumps(value, ensure_ascii=False)}"
    # A comment behind the last member speaks of that member, so it stays in its line.
    comments = _COMMENTS_OF_THE_LINE.match(text, behind)
    here = comments.end() if comments else behind
    if last.comma >= 0:
        return f"{text[:here]}{member},{text[here:]}"
    return f"{text[:behind]},{text[behind:here]}{member}{text[here:]}"


def _with_first_member(parsed: _Text, found: _Object, name: str, value: Any) -> str:
    text, outer = parsed.text, parsed.indent_at(found.start)
    indent = outer + parsed.unit
    member = f"{name}: {parsed.dumped(value, indent, parsed.unit)}"
    here = _behind_comments(text, found.start + 1, found.end)
    rest = text[here : found.end]
    if found.end == found.start + 1:
        return f"{text[:here]}{parsed.newline}{indent}{member}{parsed.newline}{outer}{text[here:]}"
    closing = here == found.start + 1 and rest in (f"\n{outer}", f"\r\n{outer}")
    if closing or not ("\n" in rest or "\r" in rest):
        # Written so that taking it out again tells this from an object without anything inside.
        return f"{text[:here]} {name}: {json.dumps(value, ensure_ascii=False)}{text[here:]}"
    return f"{text[:here]}{parsed.newline}{indent}{member}{text[here:]}"


def _without_member(parsed: _Text, found: _Object, member: _Member) -> str:
    text, index = parsed.text, found.members.index(member)
    before = found.members[index - 1] if index else None
    outer = parsed.indent_at(found.start)
    lead, rest = text[found.start + 1 : member.start], text[member.end : found.end]
    if (
        len(found.members) == 1
        and not lead.strip(" \t\r\n")
        and "\n" in lead
        and rest in (f"\n{outer}", f"\r\n{outer}")
    ):
        return text[: found.start + 1] + text[found.end :]
    behind = before.end if before else found.start + 1
    start = max(_behind_comments(text, behind, member.start), before.comma + 1 if before else 0)
    end = member.comma + 1 if member.comma >= 0 else member.end
    comments = _COMMENTS_OF_THE_LINE.match(text, end)
    if comments and _LINE_END.match(text, comments.end()):
        end = comments.end()
    kept = text[:start]
    if member.comma < 0 and before is not None:
        kept = text[: before.comma] + text[before.comma + 1 : start]
    # A comment to the end of its line must not swallow what comes now.
    comment = [found for found in _COMMENTS.finditer(text, behind, start) if found.end() == start]
    swallows = bool(comment) and comment[0][0].startswith("//") and not _LINE_END.match(text, end)
    return kept + (parsed.newline if swallows else "") + text[end:]


def _behind_comments(text: str, start: int, end: int) -> int:
    """Behind the last comment between two places, which have nothing but comments and commas between them."""
    last = start
    for found in _COMMENTS.finditer(text, start, end):
        last = found.end()
    return last
