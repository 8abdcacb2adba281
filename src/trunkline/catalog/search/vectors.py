"""Vectors of texts, computed in the background and kept on disk, so that nobody waits for them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
from array import array
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Protocol

from trunkline.errors import ProtocolError, TrunklineError
from trunkline.tasks import open_tasks

log = logging.getLogger("trunkline")

_DIGEST = 16
_MOST_QUERIES = 1_000


class Embedder(Protocol):
    """A model, here or remote, that turns texts into vectors of one length.

    What it cannot do for now it says with a `TrunklineError`, an `OSError` or a `TimeoutError`.
    """

    @property
    def model(self) -> str:
        """Names the model; vectors of different models are never mixed."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        ...


class Vectors:
    """The vectors that are known; `want` asks for more, `known` never waits."""

    def __init__(
        self,
        embedder: Embedder,
        path: Path | None = None,
        *,
        batch: int = 32,
        patience: float = 30.0,
        pause: float = 5.0,
    ) -> None:
        self._embedder = embedder
        self._path = path
        self._batch = batch
        self._patience = patience
        self._pause = pause
        self._known: dict[bytes, array[float]] = {}
        self._queries: dict[bytes, array[float]] = {}
        self._waiting: dict[bytes, tuple[str, list[Callable[[array[float]], None]]]] = {}
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        if path is not None:
            self._known = _load(path, embedder.model)

    def known(self, text: str) -> array[float] | None:
        """The text's vector, of length 1, if it is there already."""
        digest = _digest(text)
        return self._known.get(digest) or self._queries.get(digest)

    def want(self, text: str, arrived: Callable[[array[float]], None]) -> None:
        """Call `arrived` with the text's vector: now if it is known, otherwise when it has been computed."""
        digest = _digest(text)
        if digest in self._known:
            arrived(self._known[digest])
            return
        _, listeners = self._waiting.setdefault(digest, (text, []))
        listeners.append(arrived)
        self._settled.clear()
        self._wake.set()

    async def prepare(self, queries: Sequence[str], *, timeout: float) -> None:
        """Get the vectors of queries, if that takes no longer than `timeout`; they are kept in memory alone."""
        missing = [query for query in dict.fromkeys(queries) if self.known(query) is None]
        if not missing:
            return
        try:
            vectors = await self._embed(missing, timeout)
        except (TrunklineError, OSError, TimeoutError) as error:
            log.info("Searching without vectors: %s", error or "the model did not answer in time")
            return
        for query, vector in zip(missing, vectors, strict=True):
            self._queries[_digest(query)] = vector
        while len(self._queries) > _MOST_QUERIES:
            del self._queries[next(iter(self._queries))]

    async def settled(self) -> None:
        """Wait until nothing is waiting to be computed."""
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
            self._settled.set()

    async def _embed(self, texts: list[str], timeout: float) -> list[array[float]]:
        async with asyncio.timeout(timeout):
            vectors = await self._embedder.embed(texts)
        if len(vectors) != len(texts):
            raise ProtocolError(f"Model {self._embedder.model!r} gave {len(vectors)} vectors for {len(texts)} texts.")
        return [_unit(vector) for vector in vectors]

    async def _compute(self, batch: dict[bytes, str]) -> bool:
        try:
            vectors = await self._embed(list(batch.values()), self._patience)
        except (TrunklineError, OSError, TimeoutError) as error:
            log.warning("No vectors from %s for now: %s", self._embedder.model, error or "no answer in time")
            # To the end of the queue: one text that the model cannot bear must not hold up the others.
            for digest in batch:
                self._waiting[digest] = self._waiting.pop(digest)
            return False
        fresh = dict(zip(batch, vectors, strict=True))
        self._known |= fresh
        for digest, vector in fresh.items():
            for arrived in self._waiting.pop(digest)[1]:
                arrived(vector)
        if self._path is not None:
            await asyncio.to_thread(_append, self._path, self._embedder.model, fresh)
        return True


@asynccontextmanager
async def open_vectors(embedder: Embedder, path: Path | None = None, *, batch: int = 32) -> AsyncGenerator[Vectors]:
    """Vectors that are computed while the body runs, and kept in `path`."""
    vectors = Vectors(embedder, path, batch=batch)
    async with open_tasks() as tasks:
        tasks.start(vectors.work(), name="vectors")
        yield vectors


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest()


def _unit(vector: Sequence[float]) -> array[float]:
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return array("f", (value / length for value in vector))


def _tag(model: str) -> bytes:
    return hashlib.blake2b(model.encode(), digest_size=_DIGEST).digest()


def _load(path: Path, model: str) -> dict[bytes, array[float]]:
    """The model's vectors in a file of records: model, text, length, numbers; a torn end is cut off."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    found: dict[bytes, array[float]] = {}
    tag = _tag(model)
    at, head = 0, 2 * _DIGEST + 4
    while at + head <= len(data):
        size = int.from_bytes(data[at + 2 * _DIGEST : at + head], "little")
        end = at + head + size
        if size % 4 or end > len(data):
            break
        if data[at : at + _DIGEST] == tag:
            found[data[at + _DIGEST : at + 2 * _DIGEST]] = array("f", data[at + head : end])
        at = end
    if at < len(data):
        os.truncate(path, at)
    return found


def _append(path: Path, model: str, vectors: dict[bytes, array[float]]) -> None:
    tag = _tag(model)
    records = b"".join(
        tag + digest + (len(vector) * 4).to_bytes(4, "little") + vector.tobytes() for digest, vector in vectors.items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(records)
