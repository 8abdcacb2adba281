"""Vectors of texts, computed in the background and kept on disk, so that nobody waits for them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import struct
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trunkline.errors import ProtocolError, TrunklineError
from trunkline.search.arrays import Floats, np, unit
from trunkline.search.lexicon import spelt_out
from trunkline.storage.files import replace_file
from trunkline.tasks import Tasks, open_tasks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

log = logging.getLogger("trunkline")

_MOST_QUERIES = 1_000
_MOST_ASKED = 64
_FEW = 256
"""Texts that are computed so soon that nobody need do without them."""
_DAY = 86_400.0
_RECENT = 7
"""A vector of use is marked so again after so many days: marking means writing the file anew."""
_DIGEST = 16
"""Bytes that stand for a text."""

_MARK = b"TLv1"
_HEAD = struct.Struct(f"<4sIII{_DIGEST}s")
"""The mark, a checksum of what follows it, the day it was last of use, the count of numbers, the text's digest."""
_LARGEST = 16_384


class Embedder(Protocol):
    """A model, here or remote, that turns texts into vectors of one length.

    What it cannot do for now it says with a `TrunklineError`, an `OSError` or a `TimeoutError`.
    """

    @property
    def model(self) -> str:
        """Names the model; vectors of different models are never mixed."""
        ...

    async def embed(self, texts: Sequence[str], *, query: bool) -> ArrayLike:
        """One vector for each text.

        With `query`, somebody waits, and the texts after the first are its parts. For tools nobody waits.
        """
        ...


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """A query and its parts, with a vector of length 1 for each."""

    texts: tuple[str, ...]
    numbers: Floats


class Vectors:
    """The vectors that are known; `want` asks for more, `known` never waits."""

    def __init__(
        self,
        embedder: Embedder,
        tasks: Tasks,
        file: VectorFile | None = None,
        *,
        floor: float = 0.15,
        ceiling: float = 0.77,
        batch: int = 16,
        patience: float = 30.0,
        pause: float = 5.0,
        keep: float = 90 * _DAY,
        most: int = 50_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.floor = floor
        self.ceiling = ceiling
        self._embedder = embedder
        self._tasks = tasks
        self._file = file
        self._batch = batch
        self._patience = patience
        self._pause = pause
        self._keep = keep
        self._most = most
        self._clock = clock
        self._size = 0
        self._known: OrderedDict[bytes, StoredVector] = OrderedDict()
        self._queries: OrderedDict[str, QueryVectors] = OrderedDict()
        self._parts: OrderedDict[str, QueryVectors] = OrderedDict()
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._chores: list[Callable[[], Awaitable[None]]] = []
        self._waiting: dict[bytes, tuple[str, list[Callable[[Floats], None]]]] = {}
        self._outdated = False
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def is_behind(self) -> bool:
        """Whether most tools are still to be computed, so that what a query means finds few of them."""
        return len(self._waiting) > max(_FEW, len(self._known))

    def known(self, query: str) -> QueryVectors | None:
        """The vectors of a query and of its parts, if they are there already."""
        found = self._queries.get(query)
        if found is None:
            return self._parts.get(query)
        self._queries.move_to_end(query)
        return found

    def want(self, text: str, arrived: Callable[[Floats], None]) -> None:
        """Call `arrived` with the vector of a tool's text: now if it is known, otherwise when it has been computed."""
        digest = _digest(text)
        kept = self._known.get(digest)
        if kept is not None:
            self._use(digest, kept)
            arrived(kept.numbers.astype(np.float32))
        else:
            _, listeners = self._waiting.setdefault(digest, (text, []))
            listeners.append(arrived)
        self._stir()

    def when_idle(self, chore: Callable[[], Awaitable[None]]) -> None:
        """Await `chore` whenever vectors have come and no more are waiting to be computed."""
        self._chores.append(chore)

    async def prepare(self, queries: Iterable[Sequence[str]], *, timeout: float) -> None:
        """Get the vectors of queries, each with its parts, if that takes no longer than `timeout`.

        What comes later is there the next time.
        """
        missing = {texts[0]: texts for texts in queries if texts[0] not in self._queries}
        for query, texts in missing.items():
            if query not in self._asked and len(self._asked) < _MOST_ASKED:
                self._asked[query] = self._tasks.start(self._ask(texts), name="query vectors")
        if asked := {self._asked[query] for query in missing if query in self._asked}:
            _, late = await asyncio.wait(asked, timeout=timeout)
            if late:
                log.info("Searching without vectors: the model did not answer within %gs", timeout)

    async def settled(self) -> None:
        """Wait until nothing is waiting to be computed or written."""
        await self._settled.wait()

    async def work(self) -> None:
        """Compute what is wanted, batch by batch, for ever; run it as a task."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = {digest: text for digest, (text, _) in islice(self._waiting.items(), self._batch)}
                if not await self._compute(batch):
                    await asyncio.sleep(self._pause)
            if self._outdated:
                self._outdated = False
                await self._write(rewrite=True)
            for chore in self._chores:
                await chore()
            if not self._wake.is_set():
                self._settled.set()

    async def load(self) -> None:
        """Take in what the file has, but for what has been of no use for long."""
        if self._file is None:
            return
        try:
            found, whole = await asyncio.to_thread(self._file.load)
        except OSError as error:
            log.warning("The vectors in %s cannot be read: %s", self._file.path, error)
            return
        oldest = self._today() - self._keep / _DAY
        of_use = sorted((pair for pair in found.items() if pair[1].day >= oldest), key=lambda pair: pair[1].day)
        if of_use:
            self._size = len(of_use[-1][1].numbers)
        self._known.update(pair for pair in of_use[-self._most :] if len(pair[1].numbers) == self._size)
        if not whole or len(self._known) < len(found):
            self._outdated = True
            self._stir()

    async def _ask(self, texts: Sequence[str]) -> None:
        try:
            vectors = await self._embed([spelt_out(text) for text in texts], query=True)
        except (TrunklineError, OSError, TimeoutError) as error:
            log.info("Searching without vectors: %s", error or "the model did not answer in time")
            return
        finally:
            del self._asked[texts[0]]
        self._queries[texts[0]] = QueryVectors(tuple(texts), vectors)
        for place, text in enumerate(texts[1:], 1):
            self._parts[text] = QueryVectors((text,), vectors[place : place + 1])
        for kept in (self._queries, self._parts):
            while len(kept) > _MOST_QUERIES:
                kept.popitem(last=False)

    async def _embed(self, texts: Sequence[str], *, query: bool) -> Floats:
        async with asyncio.timeout(self._patience):
            given = await self._embedder.embed(texts, query=query)
        model = self._embedder.model
        try:
            vectors = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"Model {model!r} gave something else than vectors of one length.") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise ProtocolError(f"Model {model!r} gave no vector for some of {len(texts)} texts.")
        if self._size not in (0, vectors.shape[1]):
            raise ProtocolError(
                f"Model {model!r} gave vectors of {vectors.shape[1]} numbers, and before of {self._size}.",
                hint="Call another model by another name.",
            )
        self._size = vectors.shape[1]
        return unit(vectors)

    async def _compute(self, batch: dict[bytes, str]) -> bool:
        try:
            vectors = await self._embed(list(batch.values()), query=False)
        except (TrunklineError, OSError, TimeoutError) as error:
            log.warning("No vectors from %s for now: %s", self._embedder.model, error or "no answer in time")
            # To the end of the queue: one text that the model cannot bear must not hold up the others.
            for digest in batch:
                self._waiting[digest] = self._waiting.pop(digest)
            return False
        today = self._today()
        fresh = {
            digest: StoredVector(vector.astype(np.float16), today)
            for digest, vector in zip(batch, vectors, strict=True)
        }
        self._known.update(fresh)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        for digest, kept in fresh.items():
            for arrived in self._waiting.pop(digest)[1]:
                # As the file will give it back: a restart must not change a ranking.
                arrived(kept.numbers.astype(np.float32))
        await self._write(fresh)
        return True

    async def _write(self, fresh: dict[bytes, StoredVector] | None = None, *, rewrite: bool = False) -> None:
        if self._file is None:
            return
        try:
            if rewrite:
                await asyncio.to_thread(self._file.rewrite, dict(self._known))
            elif fresh:
                await asyncio.to_thread(self._file.append, fresh)
        except OSError as error:
            log.warning("Vectors cannot be kept in %s: %s", self._file.path, error)

    def _use(self, digest: bytes, kept: StoredVector) -> None:
        self._known.move_to_end(digest)
        today = self._today()
        if kept.day + _RECENT < today:
            kept.day = today
            self._outdated = True

    def _stir(self) -> None:
        self._settled.clear()
        self._wake.set()

    def _today(self) -> int:
        return int(self._clock() / _DAY)


@asynccontextmanager
async def open_vectors(
    embedder: Embedder, folder: Path | None = None, *, floor: float = 0.15, ceiling: float = 0.77, batch: int = 16
) -> AsyncGenerator[Vectors]:
    """Vectors that are computed while the body runs, and kept in a file of `folder` that the model names.

    `floor` and `ceiling` are the cosines, as the model gives them, of texts that have nothing and that have everything
    in common; as they stand they are those of the built-in model.
    """
    async with open_tasks() as tasks:
        file = None if folder is None else VectorFile(folder, embedder.model)
        vectors = Vectors(embedder, tasks, file, floor=floor, ceiling=ceiling, batch=batch)
        await vectors.load()
        tasks.start(vectors.work(), name="vectors")
        yield vectors


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=_DIGEST).digest()


@dataclass(slots=True)
class StoredVector:
    """A vector, half as precise as it was computed: that changes no ranking."""

    numbers: NDArray[np.float16]
    day: int
    """When it was last of use, in days since 1970."""


class VectorFile:
    """The vectors of one model, by the digests of their texts."""

    def __init__(self, folder: Path, model: str) -> None:
        tag = hashlib.blake2b(model.encode(), digest_size=4).hexdigest()
        name = re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-.")[:60]
        self.path = folder / f"{name}-{tag}.vectors"

    def load(self) -> tuple[dict[bytes, StoredVector], bool]:
        """What the file has, and whether all of it could be read; a damaged record costs itself alone."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}, True
        found: dict[bytes, StoredVector] = {}
        whole = True
        at = 0
        while at < len(data):
            record = _read(data, at)
            if record is None:
                whole = False
                at = data.find(_MARK, at + 1)
                if at < 0:
                    break
                continue
            digest, kept, at = record
            found[digest] = kept
        return found, whole

    def append(self, vectors: Mapping[bytes, StoredVector]) -> None:
        """Add records, in one write: other processes may add theirs."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            file.write(_records(vectors))

    def rewrite(self, vectors: Mapping[bytes, StoredVector]) -> None:
        """Have these records and no others; whoever reads meanwhile sees the old file or the new one."""
        replace_file(self.path, _records(vectors), folder_mode=0o777)


def _records(vectors: Mapping[bytes, StoredVector]) -> bytes:
    parts: list[bytes] = []
    for digest, kept in vectors.items():
        numbers = kept.numbers.tobytes()
        head = _HEAD.pack(_MARK, 0, kept.day, len(kept.numbers), digest)
        checksum = zlib.crc32(numbers, zlib.crc32(head[8:]))
        parts += (_HEAD.pack(_MARK, checksum, kept.day, len(kept.numbers), digest), numbers)
    return b"".join(parts)


def _read(data: bytes, at: int) -> tuple[bytes, StoredVector, int] | None:
    """The record at a place, and where it ends; nothing if it is damaged."""
    start = at + _HEAD.size
    if start > len(data):
        return None
    mark, checksum, day, count, digest = _HEAD.unpack_from(data, at)
    end = start + 2 * count
    if mark != _MARK or not 0 < count <= _LARGEST or end > len(data) or zlib.crc32(data[at + 8 : end]) != checksum:
        return None
    return digest, StoredVector(np.frombuffer(data[start:end], dtype=np.float16), day), end
