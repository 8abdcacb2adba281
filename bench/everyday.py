"""How well tools are found in catalogues as people have them, for what they say: bench/data/everyday-*.jsonl.

    python bench/everyday.py [--all | --second]

Of the tools of popular servers, catalogues of 10, 30 and 100 are drawn, several of each, and all together are one more.
A query counts where a right tool is there. AUROC says how well the best score tells these from the queries that no tool
serves: 0.5 is chance. Shown is the third of the queries that nothing was tuned on; `--all` shows all of them, and
`--second` a smaller set of another style, terse and wordy.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from scale import SMALLEST, sized

from trunkline.search.builtin import builtin_embedder
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText

if TYPE_CHECKING:
    from trunkline.search.vectors import Vectors

DATA = Path(__file__).parent / "data"
SIZES = (10,) if SMALLEST else (10, 30, 100, 0)
"""How many tools a catalogue has; 0 is all."""
DRAWN = sized(12, smallest=1)
Line = dict[str, Any]
Made = TypeVar("Made")


@dataclass(slots=True)
class Score:
    """What was found in catalogues of one size."""

    first: list[bool] = field(default_factory=list[bool])
    """For each query that a tool serves, whether a right one came first."""
    five: list[bool] = field(default_factory=list[bool])
    """And whether one was among five."""
    aurocs: list[float] = field(default_factory=list[float])

    def __str__(self) -> str:
        return f"{fmean(self.first):>8.3f}{fmean(self.five):>8.3f}{fmean(self.aurocs):>8.3f}"

    def take(self, catalogue: Sequence[ToolText], queries: Iterable[Line], finder: Finder) -> None:
        """Put every query to a finder that has the catalogue."""
        keys = {tool.key for tool in catalogue}
        served: list[float] = []
        unserved: list[float] = []
        for query in queries:
            right = keys.intersection(query["gold"])
            if query["gold"] and not right:
                continue
            hits = finder.search(query["query"], limit=5, min_score=0.0)
            (served if right else unserved).append(hits[0].score if hits else 0.0)
            if right:
                self.first.append(bool(hits) and hits[0].key in right)
                self.five.append(any(hit.key in right for hit in hits))
        if served and unserved:
            self.aurocs.append(fmean((a > b) + 0.5 * (a == b) for a, b in product(served, unserved)))


def main() -> None:
    if "--second" in sys.argv:
        queries = read_queries("everyday-second.jsonl")
    else:
        queries = [query for query in read_queries() if "--all" in sys.argv or held_out(query)]
    asyncio.run(show(read_tools(), queries[:: sized(1, smallest=8)]))


async def show(tools: list[ToolText], queries: list[Line]) -> None:
    served = sum(bool(query["gold"]) for query in queries)
    print(f"{len(tools)} tools, {served} queries that some serve, {len(queries) - served} that none does")
    print(f"{'':<10}{'tools':>6}{'first':>8}{'five':>8}{'AUROC':>8}")
    async with AsyncExitStack() as stack:
        embedder = builtin_embedder()
        for strategy in ("bm25", "hybrid"):
            vectors = None
            if strategy == "hybrid":
                if embedder is None:
                    print("hybrid    left out: the built-in model is not installed")
                    continue
                from trunkline.search.vectors import open_vectors

                vectors = await stack.enter_async_context(open_vectors(embedder))
                for query in queries:
                    await Finder(vectors=vectors, query_timeout=60.0).find(query["query"])
            for size in SIZES:
                score = await measured(tools, queries, size, strategy, vectors)
                print(f"{strategy:<10}{size or len(tools):>6}{score}", flush=True)


async def measured(
    tools: list[ToolText], queries: list[Line], size: int, strategy: str, vectors: Vectors | None = None
) -> Score:
    score = Score()
    for catalogue in catalogues(tools, size):
        finder = Finder(strategy=strategy, vectors=vectors)
        for tool in catalogue:
            finder.add(tool)
        if vectors is not None:
            await vectors.settled()
        score.take(catalogue, queries, finder)
    return score


def catalogues(tools: list[ToolText], size: int) -> list[list[ToolText]]:
    """Catalogues of one size: some tools of each of a few servers, as they are drawn."""
    if not size:
        return [tools]
    found: list[list[ToolText]] = []
    for turn in range(DRAWN):
        chance = random.Random(f"{size}/{turn}")
        servers = chance.sample(sorted({tool.server for tool in tools}), k=len({tool.server for tool in tools}))
        drawn: list[ToolText] = []
        for server in servers:
            own = [tool for tool in tools if tool.server == server]
            drawn += chance.sample(own, k=len(own))[: max(3, size // 4)]
        found.append(drawn[:size])
    return found


def held_out(query: Line) -> bool:
    """Whether nothing may be tuned on this query: it is of one third, by a hash."""
    return int(hashlib.sha256(query["query"].encode()).hexdigest(), 16) % 3 == 0


def read_tools() -> list[ToolText]:
    return _lines("everyday-tools.jsonl", _tool)


def read_queries(name: str = "everyday-queries.jsonl") -> list[Line]:
    return _lines(name, lambda line: line)


def _tool(line: Line) -> ToolText:
    schema: Line = {"properties": {name: {} for name in line.pop("arguments", ())}}
    return ToolText.parse({**line, "inputSchema": schema})


def _lines(name: str, made: Callable[[Line], Made]) -> list[Made]:
    return [made(json.loads(line)) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
