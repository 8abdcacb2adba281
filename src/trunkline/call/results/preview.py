"""What is shown of a result that is too large: its structure, and how it begins and ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from trunkline.call.results.json_text import JsonKind, Text, elements_of, kind_of, members_of, start_of
from trunkline.tools.tokens import estimated
from trunkline.wire.members import encode

MOST_VALUES = 1_000
"""Values that are looked at for a preview."""
_LETTERS = 12
"""Letters that a token has at most, all in all: what has more need not be weighed."""


@dataclass(frozen=True, slots=True)
class Level:
    """How much is left of each part."""

    first: int
    last: int
    letters: int
    members: int
    depth: int
    lines: int
    """Lines that tell the structure."""


LEVELS = (
    Level(3, 2, 300, 40, 6, 24),
    Level(2, 1, 120, 25, 6, 18),
    Level(1, 1, 60, 15, 5, 12),
    Level(1, 0, 30, 8, 4, 8),
    Level(1, 0, 16, 4, 2, 4),
)
"""From the most that is shown to the least."""
_MOST = LEVELS[0]


@dataclass(slots=True)
class Sample:
    """A value of which a few parts were looked at."""

    kind: JsonKind
    count: int = 0
    """Elements, members, or bytes of a string."""
    value: Any = None
    first: list[Sample] = field(default_factory=list["Sample"])
    last: list[Sample] = field(default_factory=list["Sample"])
    members: dict[str, Sample] = field(default_factory=dict[str, "Sample"])


def sampled(text: Text) -> Sample:
    """Look at the first and last parts of a value, and of these at theirs."""
    return _Sampler().look(text, _MOST.depth)


class _Sampler:
    """Looks at so many values and no more, however wide and deep they are."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def look(self, text: Text, depth: int) -> Sample:
        self._left -= 1
        kind = kind_of(text)
        further = depth > 0 and self._left > 0
        if kind == "string":
            return Sample(kind, len(text) - 2, _beginning(text))
        if kind == "array":
            elements = elements_of(text)
            some = elements if len(elements) <= _MOST.first + _MOST.last else elements[: _MOST.first]
            rest = [] if some is elements else elements[-_MOST.last :]
            first, last = ([self.look(one, depth - 1) for one in part] if further else [] for part in (some, rest))
            return Sample(kind, len(elements), first=first, last=last)
        if kind == "object":
            members = members_of(text)
            names = list(members)[: _MOST.members] if further else []
            return Sample(kind, len(members), members={name: self.look(members[name], depth - 1) for name in names})
        return Sample(kind, value=msgspec.Raw(bytes(text)))


def shortened(sample: Sample, level: Level, depth: int | None = None) -> Any:
    """The value with what the level leaves of it; what it is made of stays of its kind."""
    depth = level.depth if depth is None else depth
    match sample.kind:
        case "array":
            if sample.count <= level.first + level.last:
                some = [*sample.first, *sample.last]
            else:
                ends = [*sample.first, *sample.last]
                some = ends[: level.first] + (ends[-level.last :] if level.last else [])
            return [shortened(one, level, depth - 1) for one in some] if depth else []
        case "object":
            names = list(sample.members)[: level.members] if depth else []
            return {name: shortened(sample.members[name], level, depth - 1) for name in names}
        case "string":
            return sample.value if len(sample.value) <= level.letters else f"{sample.value[: level.letters]}…"
        case _:
            return sample.value


def outlined(sample: Sample, most: int) -> list[str]:
    """The structure, one line for each place, as paths write it."""
    lines = list(islice(_outline("$", [sample], 0), most + 1))
    return lines if len(lines) <= most else [*lines[: most - 1], "…"]


def tell_json(sample: Sample, budget: int) -> tuple[str, Level]:
    """The structure and the shortened value in words, in so many tokens; with the level that this took."""
    text, level = "", LEVELS[-1]
    for level in LEVELS:
        lines = "\n".join(outlined(sample, level.lines))
        text = f"Structure:\n{lines}\n\nShortened (of lists the first and last elements):\n"
        text += encode(shortened(sample, level)).decode()
        if len(text) <= budget * _LETTERS and estimated(text) <= budget:
            return text, level
    return fitting(text[: budget * _LETTERS], budget), level


def tell_text(text: bytes, budget: int) -> str:
    """How a text begins and ends, and how many lines it has."""
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    for letters in (4, 3, 2, 1):
        size = budget * letters
        head, tail = _whole_lines(text[: size * 2 // 3], last=False), _whole_lines(text[-size // 3 :], last=True)
        told = f"{lines:,} lines. It begins:\n{head}\n[…]\nIt ends:\n{tail}"
        if estimated(told) <= budget:
            return told
    return fitting(f"{lines:,} lines.", budget)


def fitting(text: str, budget: int) -> str:
    """As much of a text as has so many tokens."""
    while text and estimated(text) > budget:
        text = text[: len(text) * 3 // 4]
    return text


def _beginning(text: Text) -> str:
    found = start_of(text, _MOST.letters + 1)
    if len(text) > _BINARY and _CODED(found):
        return f"({len(text) - 2:,} bytes of encoded data)"
    return found


def _outline(path: str, samples: Sequence[Sample], missing: int) -> Iterator[str]:
    """The places below one, of which several were looked at."""
    kinds: list[JsonKind] = list(dict.fromkeys(sample.kind for sample in samples))
    counts = [sample.count for sample in samples if sample.kind == "array"]
    said = " or ".join(_kind_in_words(kind, counts) for kind in kinds)
    yield f"{path}: {said}{' (not in all)' if missing else ''}"
    elements = [one for sample in samples for one in (*sample.first, *sample.last)]
    if elements:
        plain = {one.kind for one in elements} <= {"string", "number", "boolean", "null"}
        if len(path) < _LONGEST_PATH and not (plain and len(elements) > 1 and path.endswith("]")):
            yield from _outline(f"{path}[*]", elements, 0)
    objects = [sample for sample in samples if sample.kind == "object"]
    for name in dict.fromkeys(name for sample in objects for name in sample.members):
        having = [sample.members[name] for sample in objects if name in sample.members]
        step = f".{name}" if _PLAIN(name) else f"[{encode(name[:_LONGEST_NAME]).decode()}]"
        if len(path) < _LONGEST_PATH:
            yield from _outline(path + step, having, len(objects) - len(having))


def _kind_in_words(kind: JsonKind, counts: Sequence[int]) -> str:
    if kind != "array":
        return kind
    low, high = min(counts), max(counts)
    return f"array of {low:,}" if low == high else f"array of {low:,} to {high:,}"


def _whole_lines(part: bytes, *, last: bool) -> str:
    """A part of a text without the piece of a line, or of a character, that was cut off."""
    if last and b"\n" in part[:-1]:
        part = part.partition(b"\n")[2]
    elif not last and b"\n" in part:
        part = part.rpartition(b"\n")[0]
    return part.decode("utf-8", "ignore").strip("\n")


_PLAIN = re.compile(r"[A-Za-z_][\w-]*").fullmatch
_CODED = re.compile(r"[A-Za-z0-9+/=_-]{200,}|data:[^,]{0,100};base64,.*", re.DOTALL).fullmatch
"""What only programs read, such as base64."""
_BINARY = 1_000
_LONGEST_PATH, _LONGEST_NAME = 120, 60
