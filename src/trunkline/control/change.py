"""How one server's tools changed: what is remembered of them, and what differs from a new list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from hashlib import sha256
from typing import ClassVar

from trunkline.control.item import name_of
from trunkline.events import Event
from trunkline.model import Kind
from trunkline.tools.digest import digest_json
from trunkline.wire.envelope import read_string
from trunkline.wire.members import read_members

MOST_CHANGES_OF_A_TOOL = 20
MOST_CHANGES = 2_000
MOST_REMOVED = 1_000
"""Tools that are gone and would be known again, of one server."""


@dataclass(frozen=True, slots=True)
class ToolChange:
    """One change of one tool."""

    when: float
    """Seconds since the epoch."""
    server: str
    tool: str
    what: tuple[str, ...]
    """`added`, `removed`, `restored`, or the parts that differ: `title`, `description`, `input_schema`, ..."""
    before: str
    """A digest of the definition; empty when there was none."""
    after: str


@dataclass(frozen=True, slots=True)
class ToolChanged(Event):
    """A server changed a tool."""

    event: ClassVar[str] = "tool_changed"
    change: ToolChange


@dataclass(slots=True)
class Version:
    """A tool as it was last seen."""

    parts: dict[str, str]
    """A digest for each part of its definition."""
    since: float
    """When it was first seen so."""
    removed: float = 0.0
    """When it was found to be gone; 0 while it is there."""


@dataclass(slots=True)
class Chronicle:
    """One server's tools and their changes, the oldest first."""

    server: str
    tools: dict[str, Version] = field(default_factory=dict[str, Version])
    changes: list[ToolChange] = field(default_factory=list[ToolChange])
    begun: bool = False
    """Whether a list was ever noted: the first one changes nothing."""

    def note(
        self,
        items: Iterable[bytes],
        now: float,
        *,
        whole: bool = True,
        noted: Set[bytes] = frozenset(),
        at: float = 0.0,
    ) -> list[ToolChange]:
        """Compare a list with what is remembered; what an incomplete one lacks is not gone.

        What was `noted` before, `at` a time, is not read again unless somebody noted something else of it since.
        """
        listed = self._listed(items, noted, at)
        found: list[ToolChange] = []
        for name, parts in listed.items():
            known = self.tools.get(name)
            what = _difference(known, parts) if parts is not None else ()
            if what:
                before = "" if known is None or known.removed else _digest(known.parts)
                found.append(ToolChange(now, self.server, name, what, before, _digest(parts or {})))
                self.tools[name] = Version(parts or {}, now)
        for name, known in self.tools.items():
            if whole and name not in listed and not known.removed:
                found.append(ToolChange(now, self.server, name, ("removed",), _digest(known.parts), ""))
                known.removed = now
        if not self.begun:
            self.begun, found = True, []
        self._keep(found)
        return found

    def _listed(self, items: Iterable[bytes], noted: Set[bytes], at: float) -> dict[str, dict[str, str] | None]:
        """The parts of each tool, `None` where they are known; of two with one name the first counts, as everywhere."""
        found: dict[str, dict[str, str] | None] = {}
        for item in items:
            name = name_of(item, Kind.TOOL) if item in noted else ""
            known = self.tools.get(name)
            if known is not None and not known.removed and known.since <= at:
                found.setdefault(name, None)
                continue
            try:
                name, parts = _parts(item)
            except ValueError:
                continue
            if name:
                found.setdefault(name, parts)
        return found

    def _keep(self, found: list[ToolChange]) -> None:
        counts: Counter[str] = Counter()
        kept: list[ToolChange] = []
        for change in reversed(self.changes + found):
            counts[change.tool] += 1
            if counts[change.tool] <= MOST_CHANGES_OF_A_TOOL and len(kept) < MOST_CHANGES:
                kept.append(change)
        self.changes = kept[::-1]
        gone = sorted((known.removed, name) for name, known in self.tools.items() if known.removed)
        for _, name in gone[:-MOST_REMOVED]:
            del self.tools[name]


_PARTS = {
    "title": "title",
    "description": "description",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "annotations": "annotations",
    "icons": "icons",
    "execution": "execution",
    "_meta": "meta",
}
_OTHER = "other"


def _parts(item: bytes) -> tuple[str, dict[str, str]]:
    """The name of a tool, and a digest for each part of its definition."""
    members = read_members(item)
    name = read_string(members.pop("name", b""))
    parts = {part: _short(members.pop(member)) for member, part in _PARTS.items() if member in members}
    if members:
        rest = "".join(f"{member}:{_short(members[member])}" for member in sorted(members))
        parts[_OTHER] = sha256(rest.encode(errors="surrogatepass")).hexdigest()[:32]
    return name, parts


def _difference(known: Version | None, parts: dict[str, str]) -> tuple[str, ...]:
    if known is None:
        return ("added",)
    differing = tuple(part for part in (*_PARTS.values(), _OTHER) if known.parts.get(part) != parts.get(part))
    return ("restored", *differing) if known.removed else differing


def _short(value: bytes) -> str:
    # 128 bits: a server must not be able to make two descriptions that look the same here.
    return digest_json(value)[:32]


def _digest(parts: dict[str, str]) -> str:
    return sha256("".join(f"{part}:{parts[part]}\n" for part in sorted(parts)).encode()).hexdigest()[:32]
