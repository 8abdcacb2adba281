"""Reading a result that was kept aside: a part of it, where something stands in it, what a path leads to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple

import msgspec

from trunkline.call.results import preview
from trunkline.call.results.json_path import parse
from trunkline.call.results.json_text import PIECE, Text, elements_of, kind_of, members_of, string_of
from trunkline.call.results.query import find, projected
from trunkline.errors import InvalidArgumentsError
from trunkline.tools import patterns
from trunkline.tools.tokens import estimated
from trunkline.wire.members import encode

Answer = dict[str, Any]

MOST_FOUND = 100
LINE = 500
"""Letters of a line that are shown."""
LEAST = 200
"""Tokens of the smallest answer that says something."""
_FRAME = 60
"""Tokens of an answer beside what was read."""


def read_json(document: bytes, path: str, start: int, count: int, budget: int) -> Answer:
    """What stands at a path: of an array or object the parts from `start` on, of a string the letters."""
    found = find(parse(path), document)
    if not found:
        raise InvalidArgumentsError(f"Nothing stands at {path!r}.", hint="The preview shows the structure.")
    value, answer = found[0], Answer(path=path or "$")
    if len(found) > 1:
        answer["note"] = f"The path leads to {len(found):,} values; this is the first."
    kind = kind_of(value)
    answer["kind"] = kind
    if kind == "array":
        elements = elements_of(value)
        return _part(answer, "items", elements, len(elements), start, count, budget)
    if kind == "object":
        members = members_of(value)
        pairs = [encode(name) + b":" + bytes(one) for name, one in islice(members.items(), start, None)]
        shown, cut = _fitting(pairs, count, budget, lambda pair: _shortened_pair(pair, budget))
        answer |= {"count": len(members), "start": start, "members": msgspec.Raw(b"{" + b",".join(shown) + b"}")}
        return _further(answer, start, len(shown), len(members), cut=cut)
    if kind == "string":
        text = string_of(value)
        shown_text = preview.fitting(text[start : start + min(count or budget * 4, budget * 4)], budget)
        answer |= {"count": len(text), "start": start, "text": shown_text}
        return _further(answer, start, len(shown_text), len(text), cut=False)
    return answer | {"value": msgspec.Raw(bytes(value))}


def query_json(document: bytes, path: str, fields: Sequence[str], start: int, count: int, budget: int) -> Answer:
    """All that a path leads to, from `start` on; of objects only some members, where `fields` names them."""
    found = find(parse(path), document)
    shown = (projected(value, fields) for value in islice(found, start, None)) if fields else islice(found, start, None)
    return _part({"query": path}, "values", shown, len(found), start, count, budget, counted="matched", skipped=True)


def read_text(text: bytes, start: int, column: int, count: int, budget: int) -> Answer:
    """The lines from `start` on, the first of them from a letter of it on."""
    total = _lines_in(text)
    answer = Answer(lines=total, start=start)
    shown: list[str] = []
    left = budget - _FRAME
    for number, line in enumerate(islice(_lines(text, start), count or None), start):
        words = line[column:] if number == start else line
        taken = estimated(words[: left * 8]) + 1
        if taken > left or len(words) > left * 8:
            if not shown or len(words) > budget * 2:  # a line that fits no answer is read in parts
                part = preview.fitting(words[: left * 8], left)
                if part:
                    shown.append(part)
                    behind = (column if number == start else 0) + len(part)
                    answer["next"] = {"start": number, "column": behind}
                    return answer | {"text": "\n".join(shown)}
            answer["next"] = {"start": number}
            return answer | {"text": "\n".join(shown)}
        left -= taken
        shown.append(words)
    if start + len(shown) <= total:
        answer["next"] = {"start": start + len(shown)}
    return answer | {"text": "\n".join(shown)}


def search_text(text: bytes, wanted: str, start: int, count: int, budget: int, *, regex: bool) -> Answer:
    """The lines that have a text in them, or fit a pattern, from line `start` on; upper and lower case are one."""
    fits = _fits(wanted, regex=regex)
    shown: list[bytes] = []
    left, further = budget - _FRAME, 0
    for number, line in _fitting_lines(text, wanted, start, fits, regex=regex):
        found = encode({"line": number, "text": _around(line, wanted)})
        left -= estimated(found) + 1
        if left < 0 or len(shown) >= (count or MOST_FOUND):
            further = number
            break
        shown.append(found)
    answer = Answer(lines=_lines_in(text), found=msgspec.Raw(b"[" + b",".join(shown) + b"]"))
    return answer | ({"next": {"start": further}} if further else {})


def search_json(document: bytes, wanted: str, start: int, count: int, budget: int) -> Answer:
    """Where in a document a text stands, as paths; upper and lower case are one."""
    places = list(_occurrences(document, _spellings(wanted)))
    finder = _Finder(document)
    shown: list[bytes] = []
    left, seen, at = budget - _FRAME, set[str](), start
    for at in range(start, len(places)):
        path, value = finder.place_of(places[at])
        if path in seen:
            continue
        seen.add(path)
        found = encode({"path": path, "text": _around(value.decode("utf-8", "replace"), wanted)})
        left -= estimated(found) + 1
        if left < 0 or len(shown) >= (count or MOST_FOUND):
            break
        shown.append(found)
    else:
        at = len(places)
    answer = Answer(occurrences=len(places), found=msgspec.Raw(b"[" + b",".join(shown) + b"]"))
    return answer | ({"next": {"start": at}} if at < len(places) else {})


# What fits into an answer.


def _part(
    answer: Answer,
    name: str,
    values: Iterable[Text],
    total: int,
    start: int,
    count: int,
    budget: int,
    *,
    counted: str = "count",
    skipped: bool = False,
) -> Answer:
    rest = values if skipped else islice(values, start, None)
    shown, cut = _fitting(rest, count, budget, lambda value: _shortened(value, budget))
    answer |= {counted: total, "start": start, name: msgspec.Raw(b"[" + b",".join(shown) + b"]")}
    return _further(answer, start, len(shown), total, cut=cut)


def _further(answer: Answer, start: int, shown: int, total: int, *, cut: bool) -> Answer:
    if cut:
        answer["shortened"] = "The first part is too large to be shown whole: read it by a longer path."
    return answer | ({"next": {"start": start + shown}} if 0 < shown < total - start else {})


def _fitting(
    values: Iterable[Text], count: int, budget: int, shorten: Callable[[Text], bytes]
) -> tuple[list[bytes], bool]:
    """As many as fit; one that alone is too large is shortened."""
    shown: list[bytes] = []
    left = budget - _FRAME
    for value in islice(values, count or None):
        taken = estimated(bytes(value)) + 1 if len(value) <= left * 8 else left + 1
        if taken > left:
            return ([shorten(value)], True) if not shown else (shown, False)
        left -= taken
        shown.append(bytes(value))
    return shown, False


def _shortened(value: Text, budget: int) -> bytes:
    sample = preview.sampled(value)
    for level in preview.LEVELS:
        text = encode(preview.shortened(sample, level))
        if estimated(text) <= budget - _FRAME:
            return text
    return encode("…")


def _shortened_pair(pair: Text, budget: int) -> bytes:
    ((name, value),) = members_of(b"{" + bytes(pair) + b"}").items()
    return encode(name) + b":" + _shortened(value, budget)


# Lines, without taking the whole text apart at once.


def _lines_in(text: bytes) -> int:
    return text.count(b"\n") + (not text.endswith(b"\n")) if text else 0


def _lines(text: bytes, start: int) -> Iterator[str]:
    """The lines from one on; the first has the number 1."""
    return (line.decode("utf-8", "replace").rstrip("\r") for line in _raw_lines(text, _offset_of(text, start)))


def _offset_of(text: bytes, line: int) -> int:
    """Where a line begins: found by counting, a piece at a time."""
    at, before = 0, 1
    while at < len(text):
        inside = text.count(b"\n", at, at + PIECE)
        if before + inside >= line:
            break
        at, before = at + PIECE, before + inside
    while before < line:
        at = text.find(b"\n", at) + 1
        if at == 0:
            return len(text)
        before += 1
    return at


def _raw_lines(text: bytes, at: int) -> Iterator[bytes]:
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        yield text[at:end]
        at = end + 1


def _fits(wanted: str, *, regex: bool) -> Callable[[str], bool]:
    if not regex:
        lowered = wanted.lower()
        return lambda line: lowered in line.lower()
    pattern = f"(?i){wanted}"
    if not patterns.is_checkable(pattern):
        hint = "Looking around and references to groups are not supported."
        raise InvalidArgumentsError("The pattern cannot be matched.", hint=hint)
    return lambda line: patterns.matches(pattern, line[: patterns.TEXT_LENGTH])


def _fitting_lines(
    text: bytes, wanted: str, start: int, fits: Callable[[str], bool], *, regex: bool
) -> Iterator[tuple[int, str]]:
    if regex:
        yield from ((number, line) for number, line in enumerate(_lines(text, start), start) if fits(line))
        return
    number, counted = start, _offset_of(text, start)
    end = counted
    for place in _occurrences(text, (wanted.lower().encode(),), counted):
        if place < end:
            continue  # a second time in one line
        begin = text.rfind(b"\n", 0, place) + 1
        end = text.find(b"\n", place)
        end = len(text) if end < 0 else end
        number, counted = number + text.count(b"\n", counted, begin), begin
        yield number, text[begin:end].decode("utf-8", "replace")


def _occurrences(text: bytes, needles: Sequence[bytes], at: int = 0) -> Iterator[int]:
    """Where some texts stand, in order; they are of small letters."""
    longest = max(map(len, needles))
    while at < len(text):
        end = min(len(text), at + PIECE)
        piece = _lower(text[at : end + longest - 1])
        found = sorted({place for needle in needles for place in _places(piece, needle)})
        yield from (at + place for place in found if at + place < end)
        at = end


def _lower(piece: bytes) -> bytes:
    return piece.lower() if piece.isascii() else _lower_text(piece)


def _lower_text(piece: bytes) -> bytes:
    """In small letters, if that leaves everything in its place."""
    lowered = piece.decode("utf-8", "surrogateescape").lower().encode("utf-8", "surrogateescape")
    return lowered if len(lowered) == len(piece) else piece.lower()


def _places(piece: bytes, needle: bytes) -> Iterator[int]:
    at = piece.find(needle)
    while at >= 0:
        yield at
        at = piece.find(needle, at + len(needle))


def _spellings(wanted: str) -> tuple[bytes, ...]:
    """How a text may stand in JSON: its letters, or escapes in their place."""
    plain = encode(wanted.lower())[1:-1]
    escaped = "".join(sign if ord(sign) < 128 else f"\\u{ord(sign):04x}" for sign in plain.decode()).encode()
    return tuple(dict.fromkeys((plain, escaped)))


def _around(line: str, wanted: str) -> str:
    if len(line) <= LINE:
        return line
    at = max(0, line.lower().find(wanted.lower()) - LINE // 3)
    return f"{'…' if at else ''}{line[at : at + LINE]}{'…' if at + LINE < len(line) else ''}"


class _Parts(NamedTuple):
    """Where the parts of an array or object stand; those of an array have no names."""

    names: list[str]
    begins: list[int]
    sizes: list[int]


class _Finder:
    """Says which value stands at a place of a document; what it took apart once it keeps."""

    def __init__(self, document: bytes) -> None:
        self._document = document
        self._parts: dict[int, _Parts] = {}

    def place_of(self, place: int) -> tuple[str, bytes]:
        """The path of the innermost value there, and what it says around the place."""
        text = self._document
        path, begin, end = "$", len(text) - len(text.lstrip()), len(text.rstrip())
        while text[begin] in b"{[":
            names, begins, sizes = self._taken_apart(begin, end)
            at = bisect_right(begins, place) - 1
            inside = at >= 0 and place < begins[at] + sizes[at]
            if not inside:
                at += 1  # in the name of the next member
                if at >= len(begins):
                    break
            path += names[at] if names else f"[{at}]"
            begin, end = begins[at], begins[at] + sizes[at]
            if not inside:
                break
        begin = max(begin, place - LINE)
        return path, text[begin : min(end, begin + 3 * LINE)]

    def _taken_apart(self, begin: int, end: int) -> _Parts:
        found = self._parts.get(begin)
        if found is None:
            text = self._document[begin:end]
            found = self._parts[begin] = (_array_parts if text[:1] == b"[" else _object_parts)(begin, text)
        return found


def _array_parts(offset: int, text: bytes) -> _Parts:
    values = elements_of(text)
    sizes = list(map(len, values))
    if sum(sizes) + len(sizes) + 1 == len(text):  # written without blanks
        return _Parts([], list(accumulate(sizes[:-1], lambda at, size: at + size + 1, initial=offset + 1)), sizes)
    begins: list[int] = []
    at = 1
    for value in values:
        at = text.index(bytes(value), at)  # only blanks and a comma stand before it
        begins.append(offset + at)
        at += len(value)
    return _Parts([], begins, sizes)


def _object_parts(offset: int, text: bytes) -> _Parts:
    parts = _Parts([], [], [])
    at = 1
    for value in members_of(text).values():
        key = _KEY.match(text, at)
        if key is None or not text.startswith(bytes(value), key.end()):
            break  # a name occurs twice: behind that, nobody knows what stands where
        parts.names.append(_step(key[1]))
        parts.begins.append(offset + key.end())
        parts.sizes.append(len(value))
        at = key.end() + len(value)
    return parts


def _step(key: bytes) -> str:
    name = string_of(key)
    return f".{name}" if _NAME(name) else f"[{encode(name).decode()}]"


_KEY = re.compile(rb'[\s,]*("(?:[^"\\]|\\.)*+")\s*:\s*', re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w-]*").fullmatch
