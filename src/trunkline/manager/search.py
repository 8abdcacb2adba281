"""Searching among tools that are given by hand, with the hub's own search."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from trunkline.config.options import SearchStrategy
from trunkline.control.search import SearchIndex, text_of
from trunkline.manager.proxy_tool import McpProxyTool
from trunkline.model import Entry
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText
from trunkline.tasks import in_slices
from trunkline.tool import Tool

if TYPE_CHECKING:
    from trunkline.search.vectors import Vectors

Searchable = Tool | Entry | McpProxyTool
Found = TypeVar("Found", bound=Searchable)


@dataclass(frozen=True)
class ScoredTool(Generic[Found]):
    """A tool that fits, and how well."""

    tool: Found
    score: float
    """0 not at all, 1 as well as can be: the same score means the same in every catalogue."""
    matched_keywords: tuple[str, ...]


class ToolSearchService:
    """Ranks tools by what they do. Of tools that it is given again, it reads none twice."""

    def __init__(self, *, vectors: Vectors | None = None) -> None:
        self._vectors = vectors
        self._turn = asyncio.Lock()
        self._indexes: dict[SearchStrategy, SearchIndex[Searchable]] = {}

    async def search(
        self,
        query: str | Sequence[str],
        available_tools: Iterable[Found],
        *,
        max_results: int = 10,
        min_score: float | None = None,
        strategy: SearchStrategy = "bm25",
    ) -> list[Found]:
        """The tools that fit best; an empty list means that nothing does."""
        found = await self.search_scored(
            query, available_tools, max_results=max_results, min_score=min_score, strategy=strategy
        )
        return [one.tool for one in found]

    async def search_scored(
        self,
        query: str | Sequence[str],
        available_tools: Iterable[Found],
        *,
        max_results: int = 10,
        min_score: float | None = None,
        strategy: SearchStrategy = "bm25",
    ) -> list[ScoredTool[Found]]:
        """The same with scores, and the words that were found.

        `semantic` and `hybrid` go by words as well where the service was made without `vectors`; a hub has its own.
        """
        async with self._turn:  # one who searches among other tools must not have them changed meanwhile
            if strategy not in self._indexes:
                finder = Finder(strategy=strategy, vectors=self._vectors)
                self._indexes[strategy] = SearchIndex(
                    finder, _text, lambda one, other: _described(one) == _described(other)
                )
            index = self._indexes[strategy]
            await in_slices(index.update({_key(tool): tool for tool in available_tools}))
            hits = await index.finder.find(query, limit=max_results, min_score=min_score)
            return [
                ScoredTool(
                    cast("Found", index.tools[hit.key]),
                    hit.score,
                    tuple(one.word for one in hit.reasons if one.word != "(meaning)"),
                )
                for hit in hits
            ]


def _described(tool: Searchable) -> Tool | Entry:
    return tool.entry if isinstance(tool, McpProxyTool) else tool


def _key(tool: Searchable) -> str:
    said = _described(tool)
    return f"{said.server}/{said.name}"


def _text(key: str, tool: Searchable) -> ToolText:
    said = _described(tool)
    return ToolText.of(said, key=key) if isinstance(said, Tool) else text_of(key, said)
