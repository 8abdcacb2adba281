"""Rankings for measuring: files of tools and queries in, a file of ranked keys with scores and times out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trunkline.catalog.search.finder import Finder
from trunkline.catalog.search.text import ToolText
from trunkline.errors import ConfigError


def rank_file(tools: Path, queries: Path, strategy: str, limit: int, out: Path) -> int:
    """Rank the tools of one file for every query of another, and say how many queries there were.

    Each line of `tools` is a definition with its `key`, each line of `queries` has an `id` and a `query`; each line
    that is written has the `id`, the keys `ranked` best first, their `scores`, and the `ms` it took.
    """
    finder = Finder(strategy=strategy, limit=limit, min_score=0.0)
    for definition in _lines(tools):
        finder.add(ToolText.parse(definition))
    count = 0
    with out.open("wb") as file:
        for asked in _lines(queries):
            start = time.perf_counter()
            hits = finder.search(str(asked.get("query", "")))
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
