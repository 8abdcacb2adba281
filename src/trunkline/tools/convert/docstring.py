"""What a function's docstring says: about the whole, and about each parameter."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_ARGUMENTS = re.compile(
    r"(args|arguments|parameters|params|keyword args|keyword arguments|other parameters)\s*:?\s*", re.I
)
_SECTION = re.compile(
    r"(args|arguments|parameters|params|keyword args|keyword arguments|other parameters|returns?|yields?|raises"
    r"|examples?|notes?|see also|warnings?|attributes|references|todo)\s*:?\s*",
    re.I,
)
_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:\s*(.*)")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?")


class Docstring(NamedTuple):
    """A docstring in parts."""

    text: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """The parts of a docstring in the styles of Google, NumPy or Sphinx."""
    lines = inspect.cleandoc(text or "").splitlines()
    about: list[str] = []
    found: dict[str, list[str]] = {}
    place = 0
    while place < len(lines):
        line = lines[place]
        field = _FIELD.fullmatch(line)
        if field is not None:
            place = _read_field(field, lines, place, found)
        elif _is_numpy_heading(lines, place):
            place = _read_numpy(lines, place, found)
        elif line.endswith(":") and _SECTION.fullmatch(line):
            place = _read_google(lines, place, found)
        else:
            about.append(line)
            place += 1
    return Docstring("\n".join(about).strip(), {name: " ".join(words) for name, words in found.items()})


def _read_field(field: re.Match[str], lines: list[str], place: int, found: dict[str, list[str]]) -> int:
    """`:param int x: text`, and the indented lines below it."""
    body = [field[3]]
    place += 1
    while place < len(lines) and lines[place].startswith(" "):
        body.append(lines[place].strip())
        place += 1
    if field[1] in ("param", "parameter", "arg", "argument", "keyword") and field[2]:
        found[field[2].split()[-1].lstrip("*")] = [part for part in body if part]
    return place


def _read_google(lines: list[str], place: int, found: dict[str, list[str]]) -> int:
    """`Args:` and the indented lines below it; other sections are passed over."""
    takes = _ARGUMENTS.fullmatch(lines[place]) is not None
    place += 1
    indent, name = 0, ""
    while place < len(lines) and (not lines[place].strip() or lines[place].startswith(" ")):
        line = lines[place]
        place += 1
        if not takes or not line.strip():
            continue
        margin = len(line) - len(line.lstrip())
        indent = indent or margin
        entry = _ENTRY.fullmatch(line.strip()) if margin <= indent else None
        if entry is not None:
            name = entry[1]
            found[name] = [entry[2]] if entry[2] else []
        elif name:
            found[name].append(line.strip())
    return place


def _is_numpy_heading(lines: list[str], place: int) -> bool:
    below = lines[place + 1].strip() if place + 1 < len(lines) else ""
    return bool(_SECTION.fullmatch(lines[place])) and len(below) > 2 and set(below) == {"-"}


def _read_numpy(lines: list[str], place: int, found: dict[str, list[str]]) -> int:
    """A heading with a line below it, then names at the margin and their texts indented."""
    takes = _ARGUMENTS.fullmatch(lines[place]) is not None
    place += 2
    name = ""
    while place < len(lines) and not _is_numpy_heading(lines, place):
        line = lines[place]
        entry = _NUMPY_ENTRY.fullmatch(line)
        if line.strip() and not line.startswith(" ") and entry is None:
            break
        place += 1
        if not takes or not line.strip():
            continue
        if line.startswith(" "):
            found.get(name, []).append(line.strip())
        elif entry is not None:
            name = entry[1]
            found[name] = []
    return place
