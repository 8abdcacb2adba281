"""The one door to searching: a strategy, its options, and what use has taught."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from trunkline.config.options import SearchSection, SearchStrategy
from trunkline.errors import ConfigError
from trunkline.search.bm25 import Bm25Index
from trunkline.search.calibrate import DEFAULT_MIN_SCORE
from trunkline.search.index import LEARNT, Hit, Index, Only, Reason
from trunkline.search.regex import RegexIndex
from trunkline.search.text import ToolText
from trunkline.search.tokens import is_telling, terms
from trunkline.search.usage import Usage

if TYPE_CHECKING:
    from trunkline.search.vectors import Vectors

Boost = Callable[[str], float]
"""What use adds to the score of a tool."""

_MOST_PARTS = 8
_LONGEST_PROMPT = 10_000
_SHORT = 6
"""A prompt of so few telling words is one thing."""
_FEWEST = 2
"""Fewer telling words make no step of their own; they stay with the step before."""


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How tools are searched."""

    strategy: SearchStrategy = SearchSection.strategy
    """`regex`, `bm25`, `semantic` or `hybrid`; without vectors, `hybrid` and `semantic` search as `bm25` does."""
    limit: int = 10
    """How many tools are found at most."""
    min_score: float = DEFAULT_MIN_SCORE
    """What scores less is not found; 0 finds the best there is, by words what has one in common."""
    decompose: bool = True
    """Whether a long prompt is also searched step by step."""
    query_timeout: float = SearchSection.query_timeout
    """Seconds that a search waits for the vector of its query."""

    def __post_init__(self) -> None:
        if self.strategy not in get_args(SearchStrategy):
            names = ", ".join(get_args(SearchStrategy))
            raise ConfigError(
                f"There is no search strategy {self.strategy!r}.", hint=f"Set `strategy` to one of {names}."
            )
        if self.limit < 1:
            raise ConfigError(f"`limit` is {self.limit}.", hint="Find at least 1 tool.")
        if not 0.0 <= self.min_score <= 1.0:
            raise ConfigError(f"`min_score` is {self.min_score}.", hint="Give a number from 0 to 1.")
        if not (math.isfinite(self.query_timeout) and self.query_timeout >= 0.0):
            raise ConfigError(f"`query_timeout` is {self.query_timeout}.", hint="Give seconds, 0 or more.")


DEFAULT_SEARCH_CONFIG = SearchConfig()


class Finder:
    """Searches over tools that come and go."""

    def __init__(
        self,
        config: SearchConfig = DEFAULT_SEARCH_CONFIG,
        *,
        vectors: Vectors | None = None,
        usage: Usage | None = None,
        **options: Any,
    ) -> None:
        self.config = replace(config, **options)
        self._vectors = vectors
        self._usage = usage
        self._index = _index(self.config.strategy, vectors)

    def __len__(self) -> int:
        return len(self._index)

    def add(self, tool: ToolText) -> None:
        """Take a tool in; one with the same key is replaced."""
        self._index.add(tool)

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        self._index.remove(key)

    def deepen(self, vectors: Vectors, tools: Iterable[ToolText]) -> Iterator[None]:
        """Go by what tools mean as well, once all there are were read; until then their words are gone by.

        They are read one at a time, and others may have their turn between two of them. Of their words nothing is read
        again.
        """
        from trunkline.search.semantic import HybridIndex, SemanticIndex

        meaning, words = SemanticIndex(vectors), self._index
        assert isinstance(words, Bm25Index)
        for tool in tools:
            meaning.add(tool)
            yield
        self._index = HybridIndex(meaning, words=self.config.strategy == "hybrid", known=words)
        self._vectors = vectors

    def search(
        self,
        query: str | Sequence[str],
        *,
        limit: int | None = None,
        min_score: float | None = None,
        only: Only = None,
        boost: Boost | None = None,
        strategy: SearchStrategy | None = None,
    ) -> list[Hit]:
        """The best tools for a prompt, or for several queries at once: then the best of each in turn.

        An empty list means that nothing fits. Another `strategy` holds for this search; a finder of patterns knows no
        other, and others know no patterns.
        """
        asked = {"limit": limit, "min_score": min_score, "strategy": strategy}
        config = replace(self.config, **{name: value for name, value in asked.items() if value is not None})
        index = self._by(config.strategy)
        if not isinstance(query, str):
            return search_each(index, query, limit=config.limit, min_score=config.min_score, only=only)
        steps = config.decompose and config.strategy != "regex"
        search = partial(search_steps, index) if steps else index.search
        hits = search(query, limit=config.limit, min_score=config.min_score, only=only)
        if boost is None and self._usage is not None:
            boost = self._usage.boost
        return hits if boost is None else _taught(hits, boost)

    async def find(
        self,
        query: str | Sequence[str],
        *,
        limit: int | None = None,
        min_score: float | None = None,
        only: Only = None,
        boost: Boost | None = None,
        strategy: SearchStrategy | None = None,
    ) -> list[Hit]:
        """As `search`, after a short wait for the vectors of the query, where they count and most tools have theirs."""
        late = False
        if self._vectors is not None and (strategy or self.config.strategy) in ("semantic", "hybrid"):
            queries = [query] if isinstance(query, str) else query
            timeout = 0.0 if self._vectors.is_behind else self.config.query_timeout
            await self._vectors.prepare(map(_with_parts, queries), timeout=timeout)
            late = any(self._vectors.known(each) is None for each in queries)
        hits = self.search(query, limit=limit, min_score=min_score, only=only, boost=boost, strategy=strategy)
        return [replace(hit, words_alone=True) for hit in hits] if late else hits

    def _by(self, strategy: SearchStrategy) -> Index:
        """The index that searches by a strategy."""
        if strategy == self.config.strategy or (
            self._vectors is None and "regex" not in (strategy, self.config.strategy)
        ):
            return self._index
        by: Callable[[str], Index] | None = getattr(self._index, "by", None)
        if by is None or strategy == "regex":
            raise ConfigError(
                f"This finder searches by {self.config.strategy!r}, not by {strategy!r}.",
                hint="Make a `Finder` with that `strategy`.",
            )
        return by(strategy)


def _index(strategy: SearchStrategy, vectors: Vectors | None) -> Index:
    if strategy == "regex":
        return RegexIndex()
    if strategy == "bm25" or vectors is None:
        return Bm25Index()
    # These need numpy, which not everybody has installed.
    from trunkline.search.semantic import HybridIndex, SemanticIndex

    return HybridIndex(SemanticIndex(vectors), words=strategy == "hybrid")


def parts(prompt: str) -> list[str]:
    """The steps of a prompt: its sentences, clauses and list items; a short prompt is one."""
    prompt = prompt[:_LONGEST_PROMPT]
    if _telling(prompt) <= _SHORT:
        return [prompt]
    found: list[str] = []
    for piece in _BREAK.split(prompt):
        step = piece.strip(" \t\r\n-*•,;:")
        if not step:
            continue
        if found and _telling(step) < _FEWEST:
            found[-1] = f"{found[-1]}, {step}"
        else:
            found.append(step)
    return found[:_MOST_PARTS]


def search_each(index: Index, queries: Sequence[str], *, limit: int, min_score: float, only: Only = None) -> list[Hit]:
    """Several queries at once: the best of each in turn, then the second of each, and so on."""
    lists = [index.search(query, limit=limit, min_score=min_score, only=only) for query in queries]
    best: dict[str, Hit] = {}
    for hits in lists:
        for hit in hits:
            if hit.key not in best or hit.score > best[hit.key].score:
                best[hit.key] = hit
    turns = (hits[turn].key for turn in range(limit) for hits in lists if turn < len(hits))
    return [best[key] for key in dict.fromkeys(turns)][:limit]


def search_steps(index: Index, prompt: str, *, limit: int, min_score: float, only: Only = None) -> list[Hit]:
    """One prompt, whole and step by step: the whole decides the order, and the best tool of each step is among them."""
    whole = index.search(prompt, limit=limit, min_score=min_score, only=only)
    steps = parts(prompt)
    if len(steps) < 2:
        return whole
    firsts = [hit for step in steps for hit in index.search(step, limit=1, min_score=min_score, only=only)]
    return _with_firsts(whole, firsts, limit)


def _with_firsts(whole: list[Hit], firsts: list[Hit], limit: int) -> list[Hit]:
    """The whole's hits; from the end, up to half of them give way to the steps' best that are missing."""
    have = {hit.key for hit in whole}
    promised = {hit.key for hit in firsts}
    missing = list({hit.key: hit for hit in firsts if hit.key not in have}.values())
    missing.sort(key=lambda hit: (-hit.score, hit.key))
    kept = list(whole)
    free = limit - len(kept)
    leaving = min(max(len(missing) - free, 0), limit // 2)
    for hit in reversed(whole):
        if leaving and hit.key not in promised:
            kept.remove(hit)
            leaving -= 1
    return kept + missing[: limit - len(kept)]


def _telling(text: str) -> int:
    return len({term for term in terms(text) if is_telling(term)})


def _with_parts(query: str) -> list[str]:
    steps = parts(query)
    return [query, *steps] if len(steps) > 1 else [query]


def _taught(hits: list[Hit], gained: Boost) -> list[Hit]:
    """The same hits; those that lately served pass others that are hardly better."""
    ranked: list[tuple[float, Hit]] = []
    height = 1.0
    for hit in hits:
        # A step's best tool may stand after lower scores, and stays there.
        height = min(height, hit.score)
        boost = gained(hit.key)
        if boost > 0.0:
            score = min(1.0, hit.score + boost)
            hit = replace(hit, score=score, reasons=(*hit.reasons, Reason(LEARNT, (), boost / score)))
        ranked.append((height + boost, hit))
    ranked.sort(key=lambda pair: -pair[0])
    return [hit for _, hit in ranked]


_BREAK = re.compile(
    r"""
      (?:^|\s)\d{1,2}[.)]\s | [.!?;]\s | [。！？；，、\n;] | \s[-–—*•+]\s
    | ,\s(?:and\s|then\s|or\s)? | \s(?:and|then|also|after\sthat|afterwards|finally|plus)\s
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""No sign of it repeats: a prompt is taken apart in one pass, whatever it is."""
