"""The chain of the audit: how a line is bound to the one before, and how a change is found."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

BEGIN = "0" * 64
"""What stands before the first line."""
MARK = "end"
"""The file beside the lines that says where the chain ends."""
LONGEST = 2**20
"""Bytes of a line; ours are far shorter."""

_LINE = re.compile(rb'\{"n":([0-9]{1,15}),(.*),"hash":"([0-9a-f]{64})"\}\n?', re.DOTALL)


def link(bodies: Sequence[bytes], number: int, before: str) -> tuple[bytes, int, str]:
    """Further lines of the chain, made of the members that they have; and number and hash of the last."""
    parts, hash, sha256 = list[bytes](), before.encode(), hashlib.sha256
    for body in bodies:
        number += 1
        inner = b'{"n":%d,%b' % (number, body)
        hash = sha256(hash + inner).hexdigest().encode()
        parts += (inner, b',"hash":"', hash, b'"}\n')
    return b"".join(parts), number, hash.decode()


@dataclass(frozen=True)
class Last:
    """Where the chain ends in a file."""

    number: int = 0
    hash: str = BEGIN
    size: int = 0
    """Bytes up to the end of the last whole line."""
    torn: int = 0
    """Bytes of a line that was never finished."""


@dataclass(frozen=True)
class AuditCheck:
    """What was found in the files."""

    lines: int = 0
    number: int = 0
    hash: str = BEGIN
    """The last line's, to be kept elsewhere: nobody can make another chain that has it."""
    problem: str = ""
    """The first thing that is wrong, and where; empty when nothing is."""


def files_in(folder: Path) -> list[Path]:
    """The files of the chain, the oldest first."""
    return sorted(folder.glob("audit-*.jsonl"))


def last_of(path: Path) -> Last:
    """The last whole line of a file."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LONGEST))
        tail = file.read()
    whole, newline, torn = tail.rpartition(b"\n")
    if not newline:
        return Last(torn=len(torn))
    found = _LINE.fullmatch(whole.rpartition(b"\n")[2])
    if found is None:
        return Last(size=size - len(torn), torn=len(torn))
    return Last(int(found[1]), found[3].decode(), size - len(torn), len(torn))


def read_mark(folder: Path) -> tuple[int, str] | None:
    """Where the chain ended when something was last written: number and hash."""
    try:
        words = (folder / MARK).read_bytes().split()
    except OSError:
        return None
    return (int(words[0]), words[1].decode("ascii", "replace")) if len(words) == 2 and words[0].isdigit() else None


def verify(folder: Path, *, expected: str = "") -> AuditCheck:
    """Look at every line: whether each is as it was written, none is missing, and all are in order.

    `expected` is a hash that was seen before: the chain must still have it.
    """
    walk = _Walk(expected)
    for path in files_in(folder):
        problem = walk.through(path)
        if problem:
            return AuditCheck(walk.lines, walk.number, walk.hash, problem)
    return AuditCheck(walk.lines, walk.number, walk.hash, walk.ending(read_mark(folder)))


class _Walk:
    """One pass over the lines."""

    def __init__(self, expected: str) -> None:
        self.lines = 0
        self.number = 0
        self.hash = BEGIN
        self._first: tuple[int, str, str] | None = None
        self._vouched: set[tuple[int, str]] = set()
        self._expected = expected.lower()

    def through(self, path: Path) -> str:
        with open(path, "rb") as file:
            for place, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
                problem = self._line(line, place)
                if problem:
                    return f"{path.name} line {place}: {problem}"
        return ""

    def _line(self, line: bytes, place: int) -> str:
        found = _LINE.fullmatch(line)
        if found is None or not line.endswith(b"\n"):
            return "this is no line of the audit"
        number, inner, hash = int(found[1]), line[: found.start(3) - len(b',"hash":"')], found[3].decode()
        said = _line_of(line)
        if place == 1:
            if said.get("kind") != "file":
                return "a file begins with a line that says where the chain was; it is missing"
            if not self.lines and number > 1:
                # What came before is gone; a later line must say that it went by its time.
                self.number = number - 1
                self.hash = str(said.get("after"))
                self._first = (self.number, self.hash, f"lines 1 to {self.number}")
        if number != self.number + 1:
            return f"it has number {number}, and {self.number + 1} was to come: lines are missing, or in another order"
        if hashlib.sha256(self.hash.encode() + inner).hexdigest() != hash:
            return f"line number {number} was changed, or the one before it was"
        if said.get("kind") == "retention":
            self._vouched.add((int(said.get("until", 0)), str(said.get("until_hash"))))
        self.lines += 1
        self.number = number
        self.hash = hash
        if hash == self._expected:
            self._expected = ""
        return ""

    def ending(self, mark: tuple[int, str] | None) -> str:
        if self._first is not None and (self._first[0], self._first[1]) not in self._vouched:
            return f"{self._first[2]} are missing, and nothing says that their time was up"
        if mark is None and self.lines:
            return f"the file {MARK!r} is missing, which says where the audit ends"
        if mark is not None and mark[0] > self.number:
            return f"lines {self.number + 1} to {mark[0]} are missing at the end"
        if mark is not None and mark[0] == self.number and mark[1] != self.hash:
            return f"line number {self.number} is not the one that was written"
        if self._expected:
            return "the chain does not have the hash that was expected"
        return ""


def _line_of(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """What the lines say, the oldest first; lines that cannot be read are left out."""
    for path in files_in(folder):
        with open(path, "rb") as file:
            for line in iter(lambda: file.readline(LONGEST), b""):
                if said := _line_of(line):
                    yield said


def latest(folder: Path, before: int = 0) -> Iterator[dict[str, Any]]:
    """What the lines say, the latest first; `before` a line's number."""
    for path in reversed(files_in(folder)):
        first = int(path.stem.rpartition("-")[2])
        if before and first >= before:
            continue
        lines = path.read_bytes().splitlines()
        for line in reversed(lines):
            said = _line_of(line)
            if said and (not before or int(said.get("n", 0)) < before):
                yield said
