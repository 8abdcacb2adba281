"""Finds tools by what they do, among those that a caller has at this moment."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.config.options import SearchSection
from trunkline.model import EMPTY_SNAPSHOT, Entry, Snapshot
from trunkline.search.finder import Finder, SearchConfig
from trunkline.search.index import Reason
from trunkline.search.text import ToolText
from trunkline.search.usage import Learned
from trunkline.tasks import Tasks
from trunkline.tool import Safety
from trunkline.tools.annotations import get_tool_safety_level
from trunkline.wire.members import decode_bounded, decode_object

if TYPE_CHECKING:
    from trunkline.search.vectors import Vectors

log = logging.getLogger("trunkline")

_SLICE = 0.005
"""Seconds of indexing after which others have their turn."""


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that fits a prompt."""

    tool: Entry
    score: float
    """How well it fits: 0 not at all, 1 as well as can be; it means the same in every catalogue."""
    reasons: tuple[Reason, ...]
    """Which words were found, and in which field."""


class Finding:
    """An index that follows the snapshots, a slice at a time, so that nobody waits for it to be built."""

    def __init__(self, finder: Finder, *, learns: bool, deepen: Deepen | None = None) -> None:
        self._finder = finder
        self._deepen = deepen
        self._learned = Learned() if learns else None
        self._newest = EMPTY_SNAPSHOT
        self._version = -1
        self._indexed: dict[str, Entry] = {}
        self._following = asyncio.Lock()
        self._asked: deque[tuple[Snapshot, object, frozenset[str] | None]] = deque(maxlen=8)
        self.work: list[asyncio.Task[None]] = []
        """What computes vectors meanwhile."""

    async def find(
        self,
        query: str | Sequence[str],
        snapshot: Snapshot,
        *,
        limit: int,
        min_score: float | None = None,
        servers: Collection[str] = (),
        safety: Safety | None = None,
        askable: bool = True,
        user: str = "",
        thread: str = "",
    ) -> list[Found]:
        """The tools of a snapshot that fit best; an empty list means that nothing does."""
        if self._deepen is not None:
            self._deepen, deepen = None, self._deepen
            deepen(self)
        tools = snapshot.by_key
        wanted = self._admitted(snapshot, servers, safety, askable)
        boost = self._learned.boost(user, thread) if self._learned is not None else None
        hits = await self._finder.find(query, limit=limit, min_score=min_score, only=wanted, boost=boost)
        return [Found(tools[hit.key], hit.score, hit.reasons) for hit in hits if hit.key in tools]

    def _admitted(
        self, snapshot: Snapshot, servers: Collection[str], safety: Safety | None, askable: bool
    ) -> frozenset[str] | None:
        """The keys of what may be found; `None` for all that is indexed. Who asks again gets the same."""
        asked = frozenset(servers), safety, askable
        for known, like, keys in self._asked:
            if known is snapshot and like == asked:
                return keys
        admitted = frozenset(key for key, entry in snapshot.by_key.items() if _admits(entry, servers, safety, askable))
        keys = None if len(admitted) == len(self._indexed) and admitted == self._indexed.keys() else admitted
        self._asked.append((snapshot, asked, keys))
        return keys

    def close(self) -> None:
        """Compute nothing any more."""
        for task in self.work:
            task.cancel()

    def learn(self, user: str, thread: str, tool: Entry, *, well: bool) -> None:
        """A call of a tool was answered."""
        if self._learned is not None:
            self._learned.record(user, thread, f"{tool.server}/{tool.name}", ok=well)

    async def follow(self, snapshot: Snapshot) -> None:
        """Bring the index to what a snapshot has, or a newer one."""
        if snapshot.version > self._newest.version or self._version < 0:
            self._newest = snapshot
        if self._version >= snapshot.version:
            return
        async with self._following:
            if self._version < snapshot.version:
                await self._index(self._newest)

    async def adopt(self, finder: Finder) -> None:
        """Search with another finder, once it knows every tool; until then the one there was answers."""
        async with self._following:
            until = time.monotonic() + _SLICE
            for key, entry in self._indexed.items():
                finder.add(_text(key, entry, self._newest))
                if time.monotonic() > until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + _SLICE
            self._finder = finder

    async def _index(self, snapshot: Snapshot) -> None:
        tools = snapshot.by_key
        until = time.monotonic() + _SLICE
        for key in [key for key in self._indexed if key not in tools]:
            self._finder.remove(key)
            del self._indexed[key]
        for key, entry in tools.items():
            known = self._indexed.get(key)
            if known is None or (known is not entry and known.definition != entry.definition):
                self._finder.add(_text(key, entry, snapshot))
            self._indexed[key] = entry
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + _SLICE
        self._version = snapshot.version
        self._asked.clear()  # what was all may be so no more


Deepen = Callable[[Finding], None]
"""Begins to teach an index that goes by words what its tools mean."""


async def open_finding(section: SearchSection, home: Path, tasks: Tasks, *, shallow: bool) -> Finding:
    """Searches as the configuration says, with the vectors that are kept under `home`.

    A `shallow` one goes by words alone until somebody searches: a model is not loaded for nobody.
    """
    config = SearchConfig(strategy=section.strategy, min_score=section.min_score, query_timeout=section.query_timeout)
    deep = section.strategy in ("semantic", "hybrid")

    async def deepened(finding: Finding) -> None:
        vectors = await _vectors(section, home, tasks)
        if vectors is not None:
            finding.work.append(tasks.start(vectors.work(), name="vectors"))
            await finding.adopt(Finder(config, vectors=vectors))

    def deepen(finding: Finding) -> None:
        finding.work.append(tasks.start(deepened(finding), name="meanings of tools"))

    if shallow and deep:
        return Finding(Finder(config), learns=section.learn, deepen=deepen)
    finding = Finding(Finder(config), learns=section.learn)
    if deep:
        await deepened(finding)
    return finding


async def _vectors(section: SearchSection, home: Path, tasks: Tasks) -> Vectors | None:
    if find_spec("numpy") is None:
        if section.strategy == "semantic" or section.embeddings_url:
            log.warning("Tools are found by their words alone: trunkline[semantic] is not installed.")
        return None
    from trunkline.control.embedding import RemoteEmbedder
    from trunkline.search.builtin import builtin_embedder
    from trunkline.search.vector_file import VectorFile
    from trunkline.search.vectors import Vectors

    embedder = (
        RemoteEmbedder(section.embeddings_url, section.embeddings_model, section.embeddings_token)
        if section.embeddings_url
        else builtin_embedder()
    )
    if embedder is None:
        return None
    vectors = Vectors(embedder, tasks, VectorFile(home / "vectors", embedder.model))
    await vectors.load()
    return vectors


def _text(key: str, entry: Entry, snapshot: Snapshot) -> ToolText:
    """What is searched: the tool under its own name, with what its server calls itself."""
    view = snapshot.servers.get((entry.members or (entry.server,))[0])
    info = decode_object(view.introduction.info) if view is not None and view.introduction is not None else {}
    try:
        definition = decode_bounded(entry.definition)
    except ValueError:
        definition = {}  # it is nested deeper than can be read
    definition |= {"name": entry.name, "server_title": info.get("title")}
    return ToolText.parse(definition, server=entry.server, key=key)


def _admits(entry: Entry, servers: Collection[str], safety: Safety | None, askable: bool) -> bool:
    return (
        not entry.app_only
        and (askable or not entry.for_askable)
        and (not servers or not {entry.server, *entry.members}.isdisjoint(servers))
        and (safety is None or get_tool_safety_level(entry.annotations) == safety)
    )
