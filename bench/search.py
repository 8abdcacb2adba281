"""What searching costs at 10,000 tools: building, memory, a change, a query of each kind.

    python bench/search.py

The tools are made of common words, so that lists are as long as in real catalogues. Times are CPU time.
"""

from __future__ import annotations

import asyncio
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import cycle

from trunkline.search.bm25 import Bm25Index
from trunkline.search.builtin import builtin_embedder
from trunkline.search.finder import Finder, parts, search_steps
from trunkline.search.index import Index
from trunkline.search.regex import RegexIndex
from trunkline.search.text import ToolText
from trunkline.search.vectors import Embedder, open_vectors

COUNT = 10_000
ROUNDS = 100
CHANCE = random.Random(7)
VERBS = ("get", "list", "create", "update", "delete", "search", "find", "send", "read", "write", "convert", "check")
COMMON = ("data", "user", "file", "name", "id", "value", "type", "format", "query", "result", "time", "date", "text")
STARTS = ("ra", "mo", "ti", "lu", "ve", "ko", "sa", "ni", "pe", "do")
NOUNS = [start + end for start in STARTS for end in ("gent", "lary", "mist", "tor", "blem", "fund", "quet", "nast")]
RARE = [noun + end for noun in NOUNS for end in ("ia", "us", "ent", "or")]


class Noise:
    """A model that answers at once, with vectors of 384 numbers."""

    model = "noise"

    async def embed(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        return [[CHANCE.random() - 0.5 for _ in range(384)] for _ in texts]


def main() -> None:
    tools = [a_tool(number) for number in range(COUNT)]
    short = [f"{CHANCE.choice(VERBS)} {CHANCE.choice(NOUNS)} {CHANCE.choice(COMMON)}" for _ in range(ROUNDS)]
    prompts = [", then ".join(CHANCE.sample(short, 4)) + " please" for _ in range(ROUNDS)]
    words = Bm25Index()
    print(f"{'bm25, build':<44}{timed(lambda: fill(words, tools)):>10.0f} ms")
    print(f"{'bm25, memory':<44}{memory(tools):>10.1f} MB")
    changed = cycle(a_tool(number) for number in range(0, COUNT, 50))
    show("bm25, change of one tool", lambda _: words.add(next(changed)), short)
    show("bm25, short query", lambda query: words.search(query), short)
    show("bm25, long prompt", lambda query: words.search(query), prompts)
    show("bm25, long prompt, step by step", lambda query: search_steps(words, query, limit=10, min_score=0.3), prompts)
    patterns = RegexIndex(deadline=10)
    fill(patterns, tools)
    show("regex", lambda query: patterns.search(query.replace(" ", ".*")), short[:10])
    asyncio.run(show_hybrid(tools, short, prompts))
    asyncio.run(show_model(short, prompts))


async def show_hybrid(tools: list[ToolText], short: list[str], prompts: list[str]) -> None:
    async with open_vectors(Noise(), batch=1000) as vectors:
        finder = Finder(vectors=vectors)
        for tool in tools:
            finder.add(tool)
        await vectors.settled()
        changed = cycle(a_tool(number) for number in range(0, COUNT, 50))
        for label, queries in (("short query", short), ("long prompt, step by step", prompts)):
            for query in queries:
                await finder.find(query)
            show(f"hybrid, {label}, vectors known", finder.search, queries)
        show("hybrid, change of one tool", lambda _: finder.add(next(changed)), short)


async def show_model(short: list[str], prompts: list[str]) -> None:
    embedder = builtin_embedder()
    if embedder is None:
        print("the built-in model is not installed")
        return
    for label, queries in (("short query", short), ("long prompt", prompts)):
        took = sorted([await waited(embedder, [query, *parts(query)], query=True) for query in queries])
        print(f"{f'model, {label}':<44}{took[len(took) // 2]:>10.2f} ms p50 {took[int(len(took) * 0.95)]:>8.2f} ms p95")
    texts = [a_tool(number).description for number in range(64)]
    took = sum([await waited(embedder, texts[at : at + 16], query=False) for at in range(0, 64, 16)])
    print(f"{'model, tools':<44}{64_000 / took:>10.1f} in a second")


async def waited(embedder: Embedder, texts: Sequence[str], *, query: bool) -> float:
    start = time.process_time()
    await embedder.embed(texts, query=query)
    return 1000 * (time.process_time() - start)


def a_tool(number: int) -> ToolText:
    name = f"{CHANCE.choice(VERBS)}_{CHANCE.choice(NOUNS)}"
    described = [*CHANCE.choices(COMMON, k=8), *CHANCE.choices(NOUNS, k=5), *CHANCE.choices(RARE, k=5)]
    parameters = CHANCE.choices(COMMON, k=4)
    notes = [*CHANCE.choices(COMMON, k=14), *CHANCE.choices(RARE, k=8)]
    return ToolText(
        f"{number}", name, CHANCE.choice(RARE), "", " ".join(described), " ".join(parameters), " ".join(notes)
    )


def fill(index: Index, tools: list[ToolText]) -> None:
    for tool in tools:
        index.add(tool)


def memory(tools: list[ToolText]) -> float:
    tracemalloc.start()
    index = Bm25Index()
    fill(index, tools)
    size = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    return size


def show(label: str, work: Callable[[str], object], queries: list[str]) -> None:
    took = sorted(timed(lambda query=query: work(query)) for query in queries)
    print(f"{label:<44}{took[len(took) // 2]:>10.2f} ms p50 {took[int(len(took) * 0.95)]:>8.2f} ms p95")


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


if __name__ == "__main__":
    main()
