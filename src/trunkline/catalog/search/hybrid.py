"""Words and meaning together: the mean of both scores; without vectors, words alone."""

from __future__ import annotations

from dataclasses import replace

from trunkline.catalog.search.bm25 import Bm25Index
from trunkline.catalog.search.calibrate import DEFAULT_MIN_SCORE
from trunkline.catalog.search.index import Hit, Only, Reason, best
from trunkline.catalog.search.semantic import SemanticIndex
from trunkline.catalog.search.text import ToolText

_SHORTLIST = 40


class HybridIndex:
    """Tools found by their words and by meaning, which counts `weight` of the score.

    A query without a vector is searched by its words, and so is a tool without one.
    """

    def __init__(self, semantic: SemanticIndex, *, weight: float = 0.5) -> None:
        self._words = Bm25Index()
        self._meaning = semantic
        self._weight = weight

    def __len__(self) -> int:
        return len(self._words)

    def add(self, tool: ToolText) -> None:
        """Take a tool in; one with the same key is replaced."""
        self._words.add(tool)
        self._meaning.add(tool)

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        self._words.remove(key)
        self._meaning.remove(key)

    def search(
        self, query: str, *, limit: int = 10, min_score: float = DEFAULT_MIN_SCORE, only: Only = None
    ) -> list[Hit]:
        """The best tools for one query, best first; equal ones by key."""
        shortlist = max(limit, _SHORTLIST)
        meant = {hit.key: hit.score for hit in self._meaning.search(query, limit=shortlist, min_score=0.0, only=only)}
        if not meant:
            return self._words.search(query, limit=limit, min_score=min_score, only=only)
        said = self._words.scores(query, limit=shortlist, only=only)
        # What is among the first by one way has a score by the other too.
        said |= self._words.scores(query, limit=shortlist, only=meant.keys() - said.keys())
        meant |= self._meaning.scores(query, said.keys() - meant.keys())
        fused = [Hit(key, self._fused(said.get(key, 0.0), meant.get(key))) for key in said.keys() | meant.keys()]
        hits = best([hit for hit in fused if hit.score >= min_score], limit)
        return [replace(hit, reasons=self._reasons(query, hit, meant.get(hit.key, 0.0))) for hit in hits]

    def _fused(self, words: float, meaning: float | None) -> float:
        return words if meaning is None else (1.0 - self._weight) * words + self._weight * meaning

    def _reasons(self, query: str, hit: Hit, meaning: float) -> tuple[Reason, ...]:
        share = self._weight * meaning / hit.score if hit.score else 0.0
        words = self._words.reasons(query, hit.key) if share < 1.0 else ()
        scaled = tuple(replace(each, share=each.share * (1.0 - share)) for each in words)
        return (*scaled, Reason("(meaning)", ("description",), share)) if share else scaled
