"""Finds tools by what they do, among those that the snapshot shows at this moment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trunkline.catalog.annotations import get_tool_safety_level
from trunkline.catalog.search.finder import Finder
from trunkline.catalog.search.index import Reason
from trunkline.catalog.search.text import ToolText
from trunkline.model import Entry, Snapshot
from trunkline.tool import Safety
from trunkline.wire.members import decode_object


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that fits a prompt."""

    tool: Entry
    score: float
    """How well it fits: 0 not at all, 1 as well as can be; it means the same in every catalogue."""
    reasons: tuple[Reason, ...]
    """Which words were found, and in which field."""


class Finding:
    """Follows the snapshot when it is asked, so that servers that come and go cost nothing until then."""

    def __init__(self) -> None:
        self._finder = Finder()
        self._version = -1
        self._indexed: dict[str, bytes] = {}

    async def find(
        self,
        query: str | Sequence[str],
        snapshot: Snapshot,
        *,
        limit: int,
        min_score: float | None,
        servers: Collection[str],
        safety: Safety | None,
    ) -> list[Found]:
        """The tools that fit best; an empty list means that nothing does."""
        self._follow(snapshot)
        tools = snapshot.tools

        def wanted(name: str) -> bool:
            entry = tools[name]
            return (
                not entry.app_only
                and (not servers or not {entry.server, *entry.members}.isdisjoint(servers))
                and (safety is None or get_tool_safety_level(entry.annotations) == safety)
            )

        hits = await self._finder.find(query, limit=limit, min_score=min_score, only=wanted)
        return [Found(tools[hit.key], hit.score, hit.reasons) for hit in hits]

    def _follow(self, snapshot: Snapshot) -> None:
        if snapshot.version == self._version:
            return
        self._version = snapshot.version
        for name in [name for name in self._indexed if name not in snapshot.tools]:
            self._finder.remove(name)
            del self._indexed[name]
        for name, entry in snapshot.tools.items():
            if self._indexed.get(name) != entry.definition:
                self._finder.add(ToolText.parse(decode_object(entry.definition), server=entry.server, key=name))
                self._indexed[name] = entry.definition
