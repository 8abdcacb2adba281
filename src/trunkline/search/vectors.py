"""Vectors of texts, computed in the background and kept on disk, so that nobody waits for them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trunkline.errors import ProtocolError, TrunklineError
from trunkline.search.arrays import np
from trunkline.search.vector_file import DIGEST, StoredVector, VectorFile
from trunkline.tasks import Tasks, open_tasks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float32]

log = logging.getLogger("trunkline")

_MOST_QUERIES = 1_000
_MOST_ASKED = 64
_DAY = 86_400.0
_RECENT = 7
"""A vector of use is marked so again after so many days: marking means writing the file anew."""


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
class Wanted:
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
        self._queries: OrderedDict[str, Wanted] = OrderedDict()
        self._parts: OrderedDict[str, Wanted] = OrderedDict()
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._chores: list[Callable[[], Awaitable[None]]] = []
        self._waiting: dict[bytes, tuple[str, list[Callable[[Floats], None]]]] = {}
        self._outdated = False
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()

    def known(self, query: str) -> Wanted | None:
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
            vectors = await self._embed(texts, query=True)
        except (TrunklineError, OSError, TimeoutError) as error:
            log.info("Searching without vectors: %s", error or "the model did not answer in time")
            return
        finally:
            del self._asked[texts[0]]
        self._queries[texts[0]] = Wanted(tuple(texts), vectors)
        for place, text in enumerate(texts[1:], 1):
            self._parts[text] = Wanted((text,), vectors[place : place + 1])
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
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

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
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=DIGEST).digest()
