"""Finds tools by what they do, among those that a caller has at this moment."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from trunkline.config.options import SearchSection, SearchStrategy
from trunkline.control.tables import differing
from trunkline.errors import ProtocolError, UnreachableError
from trunkline.identity import EVERYONE, Scope
from trunkline.model import EMPTY_SNAPSHOT, Entry, Kind, Offer, Snapshot
from trunkline.search.usage import Learned
from trunkline.tasks import Tasks, in_slices
from trunkline.tool import Safety
from trunkline.tools.annotations import get_tool_safety_level
from trunkline.tools.per_offer import PerOffer
from trunkline.upstream.http1 import HttpClient, request_bytes
from trunkline.upstream.origin import split_url
from trunkline.wire.members import decode_bounded, decode_object
from trunkline.workers import in_thread

if TYPE_CHECKING:
    from trunkline.search.finder import Finder
    from trunkline.search.index import Reason
    from trunkline.search.text import ToolText
    from trunkline.search.vectors import Embedder, Vectors

log = logging.getLogger("trunkline")

_KEPT = 8
"""Questions of which it is kept what they may find."""
_LARGEST_ANSWER = 32 * 2**20
_PATIENCE = 30.0
"""Seconds that a service has for its vectors."""

SomeTool = TypeVar("SomeTool")


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that fits a prompt."""

    tool: Entry
    score: float
    """How well it fits: 0 not at all, 1 as well as can be; it means the same in every catalogue."""
    reasons: tuple[Reason, ...]
    """Which words were found, and in which field."""
    words_alone: bool = False
    """Meaning was to count, but what the query means was not known within `query_timeout`."""


class SearchIndex(Generic[SomeTool]):
    """A finder and the tools in it, by their keys: what comes or changes is read, what goes is forgotten."""

    def __init__(
        self,
        finder: Finder,
        text: Callable[[str, SomeTool], ToolText],
        same: Callable[[SomeTool, SomeTool], bool] = is_,
    ) -> None:
        self.finder = finder
        self.tools: dict[str, SomeTool] = {}
        self._text, self._same = text, same

    def update(self, tools: Mapping[str, SomeTool], instead: Iterable[str] | None = None) -> Iterator[None]:
        """Have these tools in the place of others, or of all; between two of them others may have their turn."""
        for key in [key for key in (self.tools if instead is None else instead) if key not in tools]:
            self.finder.remove(key)
            del self.tools[key]
            yield
        for key, tool in tools.items():
            known = self.tools.get(key)
            if known is None or not self._same(known, tool):
                self.finder.add(self._text(key, tool))
            self.tools[key] = tool
            yield

    def deepen(self, vectors: Vectors) -> Iterator[None]:
        """Go by what tools mean as well, once every tool was read."""
        return self.finder.deepen(vectors, (self._text(key, tool) for key, tool in self.tools.items()))


class ToolSearch:
    """Searches among the tools of a hub, as the configuration says.

    The index is made when it is first wanted, as who never searches need not pay for it. It follows the snapshots a
    slice at a time, so that nobody waits for it to be built.
    """

    def __init__(self, section: SearchSection, home: Path, tasks: Tasks) -> None:
        self._section, self._home, self._tasks = section, home, tasks
        self._opening, self._following = asyncio.Lock(), asyncio.Lock()
        self.index: SearchIndex[Entry] | None = None
        """What is searched, if anybody did."""
        self._deepened = section.strategy not in ("semantic", "hybrid")
        """Whether nothing is left to be read of what tools mean, or it is being read."""
        self._reading = False
        """Whether it is being read: until then words answer."""
        self._work: list[asyncio.Task[None]] = []
        """What computes vectors meanwhile."""
        self._others: dict[SearchStrategy, ToolSearch] = {}
        self._learned = Learned()
        self._newest = EMPTY_SNAPSHOT
        self._version = -1
        self._keys: dict[object, PerOffer[frozenset[str]]] = {}
        self._offers: dict[str, Offer] = {}
        """What the index has."""
        self._read = EMPTY_SNAPSHOT
        """The last snapshot of which it has everything."""
        self._asked: deque[tuple[Snapshot, object, frozenset[str] | None]] = deque(maxlen=_KEPT)

    async def find(
        self,
        query: str | Sequence[str],
        among: Snapshot,
        *,
        newest: Snapshot,
        limit: int,
        min_score: float | None = None,
        servers: Collection[str] = (),
        safety: Safety | None = None,
        askable: bool = True,
        scope: Scope = EVERYONE,
        strategy: SearchStrategy | None = None,
    ) -> list[Found]:
        """The tools of a snapshot that fit best, when all that the newest has is indexed; none if nothing does."""
        strategy = strategy or cast("SearchStrategy | None", scope.overrides.search_strategy or None)
        if (
            strategy is not None
            and "regex" in (strategy, self._section.strategy)
            and strategy != self._section.strategy
        ):
            other = self._other_kind(strategy)
            return await other.find(
                query, among, newest=newest, limit=limit, min_score=min_score, servers=servers, safety=safety,
                askable=askable,
            )  # fmt: skip
        index = await self._open()
        await self._follow(index, newest)
        if not self._deepened:
            self._deepened = True
            if (embedder := _embedder(self._section)) is not None:
                self._reading = True
                self._work.append(self._tasks.start(self._deepen(index, embedder), name="meanings of tools"))
        wanted = self._admitted(index, among, servers, safety, askable)
        boost = self._learned.boost(scope.user, scope.thread or scope.session) if self._section.learn else None
        early = self._reading and (strategy or self._section.strategy) in ("semantic", "hybrid")
        hits = await index.finder.find(
            query, limit=limit, min_score=min_score, only=wanted, boost=boost, strategy=strategy
        )
        return [
            Found(tool, hit.score, hit.reasons, hit.words_alone or early)
            for hit in hits
            if (known := index.tools.get(hit.key)) is not None and (tool := _among(among, known)) is not None
        ]

    async def prepare(self, snapshot: Snapshot) -> None:
        """Have tools ready to be found by their words; the rest waits for somebody who searches."""
        await self._follow(await self._open(shallow=True), snapshot)

    def learn(self, user: str, thread: str, tool: Entry, *, well: bool) -> None:
        """A call of a tool was answered: who searches again finds what served before."""
        if self.index is not None and self._section.learn:
            self._learned.record(user, thread, f"{tool.server}/{tool.name}", ok=well)

    def forget_user(self, user: str) -> None:
        """Somebody is gone, with what their calls taught."""
        self._learned.forget_user(user)

    def _other_kind(self, strategy: SearchStrategy) -> ToolSearch:
        """What searches by patterns where this goes by words, or the other way round; made when first asked for."""
        known = self._others.get(strategy)
        if known is None:
            known = self._others[strategy] = ToolSearch(
                replace(self._section, strategy=strategy), self._home, self._tasks
            )
        return known

    def configured(self, section: SearchSection) -> ToolSearch:
        """What searches as another section says: this one, if that is the same."""
        if section == self._section:
            return self
        for task in self._work:
            task.cancel()
        return ToolSearch(section, self._home, self._tasks)

    async def _open(self, *, shallow: bool = False) -> SearchIndex[Entry]:
        """The index; a `shallow` one goes by words alone until somebody searches: a model is not loaded for nobody."""
        async with self._opening:
            if self.index is None:
                finder = cast("Finder", await in_thread(self._finder))
                index = SearchIndex(finder, self._text, lambda one, other: one.definition == other.definition)
                if not (shallow or self._deepened):
                    if (embedder := _embedder(self._section)) is not None:
                        await self._deepen(index, embedder)
                    self._deepened = True
                self.index = index
            return self.index

    def _finder(self) -> Finder:
        # Start-up does without it: most who start a hub do not search at once. In a thread, as it takes long to load.
        from trunkline.search.bm25 import read_words
        from trunkline.search.finder import Finder

        section = self._section
        if section.strategy != "regex":
            read_words()
        return Finder(
            strategy=section.strategy,
            min_score=section.min_score,
            query_timeout=section.query_timeout,
        )

    async def _deepen(self, index: SearchIndex[Entry], embedder: Embedder) -> None:
        """Teach an index that goes by words what its tools mean; vectors are kept under the home folder."""
        # What vectors need takes long to load, and the loop must not wait for it.
        await in_thread(lambda: import_module("trunkline.search.vectors"))
        from trunkline.search.vectors import VectorFile, Vectors

        vectors = Vectors(embedder, self._tasks, VectorFile(self._home / "vectors", embedder.model))
        await vectors.load()
        self._work.append(self._tasks.start(vectors.work(), name="vectors"))
        async with self._following:
            await in_slices(index.deepen(vectors))
        self._reading = False

    async def _follow(self, index: SearchIndex[Entry], snapshot: Snapshot) -> None:
        """Bring the index to what a snapshot has, or a newer one."""
        if snapshot.version > self._newest.version or self._version < 0:
            self._newest = snapshot
        if self._version >= snapshot.version:
            return
        async with self._following:
            if self._version < snapshot.version:
                newest = self._newest
                await in_slices(self._changes(index, newest))
                self._version = newest.version
                self._asked.clear()  # what was all may be so no more

    def _changes(self, index: SearchIndex[Entry], snapshot: Snapshot) -> Iterator[None]:
        """Take over what is offered otherwise than before, a tool at a time."""
        known = self._offers
        read, self._read = self._read, EMPTY_SNAPSHOT
        if read is EMPTY_SNAPSHOT and known:  # it was not brought to an end the last time
            have = {server for _, part in snapshot.since(read) for server in part.offers}
            for server in known.keys() - have:
                yield from index.update({}, _keyed(known[server]))
                del known[server]
        for was, part in list(snapshot.since(read)):
            for server in differing(was.offers, part.offers):
                before, now = known.get(server, _NONE), part.offers.get(server, _NONE)
                if before is not now:
                    yield from index.update(_keyed(now), _keyed(before))
                    known[server] = now
                if server not in part.offers:
                    known.pop(server, None)
        self._read = snapshot

    def _admitted(
        self,
        index: SearchIndex[Entry],
        among: Snapshot,
        servers: Collection[str],
        safety: Safety | None,
        askable: bool,
    ) -> frozenset[str] | None:
        """The keys of what may be found; `None` for all that is indexed. Who asks again gets the same."""
        asked = frozenset(servers), safety, askable
        for known, like, keys in self._asked:
            if known is among and like == asked:
                return keys
        some = bool(servers) or safety is not None or any(offer.summary.for_some for offer in among.offers.values())
        if not some and among.offers == self._offers:
            keys = None
        else:
            admitted = frozenset[str]().union(*self._of_offers(servers, safety, askable).over(among.offers.values()))
            keys = None if len(admitted) == len(index.tools) and admitted == index.tools.keys() else admitted
        self._asked.append((among, asked, keys))
        return keys

    def _of_offers(self, servers: Collection[str], safety: Safety | None, askable: bool) -> PerOffer[frozenset[str]]:
        """The keys of what may be found, for each offer; those of offers that did not change are kept."""
        asked = frozenset(servers), safety, askable
        if asked not in self._keys:
            while len(self._keys) >= _KEPT:
                del self._keys[next(iter(self._keys))]

            def keys(offer: Offer) -> frozenset[str]:
                return frozenset(key for key, tool in _keyed(offer).items() if _admits(tool, servers, safety, askable))

            self._keys[asked] = PerOffer(keys)
        return self._keys[asked]

    def _text(self, key: str, entry: Entry) -> ToolText:
        """What is searched: the tool under its own name, with what its server calls itself."""
        view = self._newest.server((entry.members or (entry.server,))[0])
        info = decode_object(view.introduction.info) if view is not None and view.introduction is not None else {}
        return text_of(key, entry, server_title=info.get("title"))


def text_of(key: str, entry: Entry, **members: Any) -> ToolText:
    """The texts of an entry; `members` count as if its definition had them."""
    from trunkline.search.text import ToolText

    try:
        definition = decode_bounded(entry.definition)
    except ValueError:
        definition = {}  # it is nested deeper than can be read
    return ToolText.parse({**definition, "name": entry.name, **members}, server=entry.server, key=key)


_NONE = Offer("")


def _keyed(offer: Offer) -> dict[str, Entry]:
    """Tools by server and own name, which they keep whatever they are shown as."""
    return {f"{entry.server}/{entry.name}": entry for entry in offer.tools.values()}


def _among(snapshot: Snapshot, tool: Entry) -> Entry | None:
    """A tool as a snapshot has it, if it does."""
    offer = snapshot.offers.get(tool.server)
    return offer.own.get(Kind.TOOL, {}).get(tool.name) if offer is not None else None


def _admits(entry: Entry, servers: Collection[str], safety: Safety | None, askable: bool) -> bool:
    return (
        not entry.app_only
        and (askable or not entry.for_askable)
        and (not servers or not {entry.server, *entry.members}.isdisjoint(servers))
        and (safety is None or get_tool_safety_level(entry.annotations) == safety)
    )


def _embedder(section: SearchSection) -> Embedder | None:
    """The model, if there is one and what its vectors need."""
    if find_spec("numpy") is None:
        if section.strategy == "semantic" or section.embeddings_url:
            log.warning("Tools are found by their words alone: trunkline[semantic] is not installed.")
        return None
    if section.embeddings_url:
        return RemoteEmbedder(section.embeddings_url, section.embeddings_model, section.embeddings_token)
    from trunkline.search.builtin import builtin_embedder

    return builtin_embedder()


class RemoteEmbedder:
    """Asks a service for vectors. Texts of tools, and of what is searched for, go to it."""

    def __init__(self, url: str, model: str, token: str = "") -> None:
        self._origin, self._target = split_url(url)
        self._name = model
        self._headers = {
            b"host": self._origin.authority.encode(),
            b"content-type": b"application/json",
            b"accept": b"application/json",
        }
        if token:
            self._headers[b"authorization"] = b"Bearer " + token.encode()
        self._client = HttpClient()

    @property
    def model(self) -> str:
        """Which model, and whose."""
        return f"{self._name} at {self._origin.authority}"

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        """One vector for each text."""
        body = msgspec.json.encode({"model": self._name, "input": list(texts)})
        request = request_bytes(b"POST", self._target, self._headers, body)
        async with asyncio.timeout(_PATIENCE):
            response, _ = await self._client.send(self._origin, request, limit=_LARGEST_ANSWER)
            await response.ready()
        if response.status != 200:
            raise UnreachableError(f"{self._origin.authority} answered {response.status} instead of vectors.")
        try:
            answer = msgspec.json.decode(response.body(), type=_Answer)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"{self._origin.authority} did not answer with vectors: {error}.") from error
        return [row.embedding for row in sorted(answer.data, key=lambda row: row.index)]

    def close(self) -> None:
        """Hang up."""
        self._client.close()


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _Answer(msgspec.Struct):
    data: list[_Row]
    usage: Any = None
