"""Ways of finding tools, side by side in one run: how well they find, how fast, and what they need.

    python bench/finders.py [TOOLS QUERIES]

Each way runs in a process of its own, one after the other. Without arguments it is the extract in bench/data, which is
small: so the right tool has few rivals, and all do better than among thousands.

nDCG@10 and R@5 are means over the data sets, so that a large one does not outvote the others. AUROC says how well the
best score tells whether the right tool is there at all: it compares the best score of each query with the best one
among the tools that are not right; 0.5 is chance. MB is what the process grew by at its peak, libraries included.

FastMCP is asked by its tool, as its callers ask it, so its time includes the writing of the definitions that it found;
the others give keys. bench/data/README.md says where the data come from, and why they favour us.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from trunkline.cli.bench import rank_file
from trunkline.errors import ConfigError
from trunkline.search.text import ToolText
from trunkline.tools.names import distinct, sanitize_tool_name

DATA = Path(__file__).parent / "data"
LIMIT = 20
Line = dict[str, Any]
Ranking = list[tuple[str, float]]
"""Keys with their scores, best first."""


@dataclass(slots=True)
class Run:
    """What one way of finding did."""

    build: float = 0.0
    """Seconds until it could be asked."""
    rankings: dict[str, Ranking] = field(default_factory=dict)
    ms: list[float] = field(default_factory=list)
    scored: bool = True
    """Whether its scores can be seen."""

    def ask(self, queries: Iterable[Line], find: Callable[[str], Ranking]) -> Run:
        """Put every query, and take the time."""
        for query in queries:
            start = time.perf_counter()
            self.rankings[query["id"]] = find(query["query"])
            self.ms.append(1000 * (time.perf_counter() - start))
        return self


class Absent(Exception):
    """This way of finding is not installed."""


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--only"]:
        print(json.dumps(measured(words[1], Path(words[2]), Path(words[3]))))
        return
    tools, queries = map(Path, words) if words else (DATA / "tools.jsonl", DATA / "queries.jsonl")
    print(f"{len(read(tools))} tools, {len(read(queries))} queries")
    print(f"{'':<34}{'nDCG@10':>8}{'R@5':>7}{'AUROC':>7}{'p50 ms':>9}{'build s':>9}{'MB':>7}")
    for way in WAYS:
        asked = [sys.executable, __file__, "--only", way, str(tools), str(queries)]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode:
            print(f"{way:<34}failed: {told.stderr.strip().splitlines()[-1:]}")
            continue
        row = json.loads(told.stdout)
        if "absent" in row:
            print(f"{way:<34}left out: {row['absent']}")
            continue
        auroc = "–" if row["auroc"] is None else f"{row['auroc']:.3f}"
        print(
            f"{way:<34}{row['ndcg']:>8.3f}{row['recall']:>7.3f}{auroc:>7}{row['p50']:>9.2f}{row['build']:>9.2f}"
            f"{row['mb']:>7.0f}",
            flush=True,
        )


def measured(way: str, tools: Path, queries: Path) -> Line:
    asked = read(queries)
    before = memory("VmRSS")
    try:
        run = WAYS[way](tools, queries)
    except Absent as error:
        return {"absent": str(error)}
    grown = memory("VmHWM") - before  # the peak: most of them are gone by now
    return {
        "ndcg": macro(asked, lambda query: ndcg(query, run.rankings[query["id"]])),
        "recall": macro(asked, lambda query: recall(query, run.rankings[query["id"]])),
        "auroc": abstention(asked, run.rankings) if run.scored else None,
        "p50": median(run.ms),
        "build": run.build,
        "mb": grown,
    }


def memory(kind: str) -> float:
    """Megabytes of this process; Linux tells them apart from those of whoever started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{kind}:")[2].split()[0]) / 1024


# The measures.


def places(query: Line, ranking: Ranking) -> list[int]:
    """Where each right tool, or an equal one, stands first; counted from 1."""
    stands_for = {key: key for key in query["gold"]}
    for key, equal in query.get("equiv", {}).items():
        stands_for |= {other: key for other in equal if other not in stands_for}
    found: dict[str, int] = {}
    for place, (key, _) in enumerate(ranking, 1):
        if key in stands_for:
            found.setdefault(stands_for[key], place)
    return list(found.values())


def ndcg(query: Line, ranking: Ranking, most: int = 10) -> float:
    gain = sum(1 / math.log2(place + 1) for place in places(query, ranking) if place <= most)
    return gain / sum(1 / math.log2(place + 1) for place in range(1, min(len(query["gold"]), most) + 1))


def recall(query: Line, ranking: Ranking, most: int = 5) -> float:
    return sum(place <= most for place in places(query, ranking)) / len(query["gold"])


def macro(queries: Iterable[Line], measure: Callable[[Line], float]) -> float:
    by_set: dict[str, list[float]] = defaultdict(list)
    for query in queries:
        by_set[query["dataset"]].append(measure(query))
    return fmean(fmean(values) for values in by_set.values())


def abstention(queries: Iterable[Line], rankings: dict[str, Ranking]) -> float:
    """How often a query with its tool scores more than a query without it, over all pairs."""
    there: list[float] = []
    gone: list[float] = []
    for query in queries:
        right = {*query["gold"], *(key for equal in query.get("equiv", {}).values() for key in equal)}
        ranking = rankings[query["id"]]
        there.append(max((score for _, score in ranking), default=0.0))
        gone.append(max((score for key, score in ranking if key not in right), default=0.0))
    return fmean((a > b) + 0.5 * (a == b) for a in there for b in gone)


# The ways of finding.


def ours(strategy: str) -> Callable[[Path, Path], Run]:
    def ranked(tools: Path, queries: Path) -> Run:
        run = Run()
        with TemporaryDirectory() as folder:
            out = Path(folder) / "ranking.jsonl"
            start = time.perf_counter()
            try:
                if strategy == "hybrid":  # without its extra it would quietly search by words, and semantic says so
                    few = Path(folder) / "few.jsonl"
                    few.write_text('{"id": "a", "query": "b"}\n')
                    rank_file(few, few, "semantic", 1, out)
                    start = time.perf_counter()
                rank_file(tools, queries, strategy, LIMIT, out)
            except ConfigError as error:
                raise Absent(str(error)) from error
            took = time.perf_counter() - start
            for line in read(out):
                run.rankings[line["id"]] = list(zip(line["ranked"], line["scores"], strict=True))
                run.ms.append(line["ms"])
        run.build = took - sum(run.ms) / 1000
        return run

    return ranked


def plain(tools: Path, queries: Path) -> Run:
    """Okapi BM25 over the words of name and description."""
    run, start = Run(), time.perf_counter()
    listed = read(tools)
    counts = [Counter(plain_words(f"{tool['name']} {tool.get('description', '')}")) for tool in listed]
    lengths = [count.total() for count in counts]
    usual = fmean(lengths)
    having: dict[str, list[int]] = defaultdict(list)
    for place, count in enumerate(counts):
        for word in count:
            having[word].append(place)
    run.build = time.perf_counter() - start

    def find(query: str) -> Ranking:
        scores: Counter[int] = Counter()
        for word in plain_words(query):
            places = having.get(word, ())
            rarity = math.log(1 + (len(listed) - len(places) + 0.5) / (len(places) + 0.5))
            for place in places:
                often = counts[place][word]
                scores[place] += rarity * often * 2.5 / (often + 1.5 * (0.25 + 0.75 * lengths[place] / usual))  # type: ignore[reportArgumentType] - a Counter adds floats, too
        return [(listed[place]["key"], score) for place, score in scores.most_common(LIMIT)]

    return run.ask(read(queries), find)


def plain_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def sqlite(tools: Path, queries: Path) -> Run:
    """SQLite's full-text search: words stemmed, fields weighted."""
    run, start = Run(), time.perf_counter()
    base = sqlite3.connect(":memory:")
    base.execute(
        "CREATE VIRTUAL TABLE tools USING fts5"
        "(key UNINDEXED, name, server, description, parameters, notes, tokenize = 'porter unicode61')"
    )
    for definition in read(tools):
        text = ToolText.parse(definition)
        fields = (text.key, text.name, text.server, text.description, text.parameters, text.parameter_notes)
        base.execute("INSERT INTO tools VALUES (?, ?, ?, ?, ?, ?)", fields)
    run.build = time.perf_counter() - start

    def find(query: str) -> Ranking:
        words = dict.fromkeys(re.findall(r"\w+", query.lower()))
        asked = " OR ".join(f'"{word}"' for word in words)
        found = base.execute(
            "SELECT key, -bm25(tools, 0, 3, 2, 1, 1, 0.5) AS score FROM tools WHERE tools MATCH ? "
            "ORDER BY score DESC LIMIT ?",
            (asked, LIMIT),
        )
        return [(str(key), float(score)) for key, score in found] if words else []

    return run.ask(read(queries), find)


def fastmcp(tools: Path, queries: Path) -> Run:
    """FastMCP's BM25 transform, asked as its callers ask it: by its tool `search_tools`."""
    try:
        from fastmcp import FastMCP  # type: ignore[import-not-found]
        from fastmcp.server.transforms.search import BM25SearchTransform  # type: ignore[import-not-found]
        from fastmcp.tools.base import Tool  # type: ignore[import-not-found]
    except ImportError as error:
        raise Absent("FastMCP 3 or newer is not installed.") from error
    logging.disable(logging.WARNING)
    run, start = Run(scored=False), time.perf_counter()
    listed = read(tools)
    server = FastMCP("bench")
    given = [f"{tool['server']}_{tool['name']}" for tool in listed]
    names = distinct([sanitize_tool_name(name) for name in given], given)
    for name, tool in zip(names, listed, strict=True):
        schema = tool.get("inputSchema") or {"type": "object"}
        server.add_tool(Tool(name=name, description=tool.get("description", ""), parameters=schema))
    server.add_transform(BM25SearchTransform(max_results=LIMIT))
    keys = dict(zip(names, (tool["key"] for tool in listed), strict=True))

    with asyncio.Runner() as runner:

        def find(query: str) -> Ranking:
            answer = runner.run(server.call_tool("search_tools", {"query": query}))
            return [(keys[hit["name"]], 0.0) for hit in (answer.structured_content or {}).get("result", ())]

        find("warm")  # it builds its index at the first search
        run.build = time.perf_counter() - start
        return run.ask(read(queries), find)


WAYS: dict[str, Callable[[Path, Path], Run]] = {
    "Trunkline, bm25": ours("bm25"),
    "Trunkline, hybrid": ours("hybrid"),
    "Trunkline, regex": ours("regex"),
    "Okapi BM25, name and description": plain,
    "SQLite FTS5, porter, weights": sqlite,
    "FastMCP, BM25SearchTransform": fastmcp,
}


def read(path: Path) -> Sequence[Line]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


if __name__ == "__main__":
    main()
