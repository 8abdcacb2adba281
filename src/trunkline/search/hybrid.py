"""Words and meaning together: the evidence of both is added; without vectors, words alone."""

from __future__ import annotations

import math
from heapq import nsmallest

from trunkline.search.bm25 import Bm25Index
from trunkline.search.calibrate import DEFAULT_MIN_SCORE
from trunkline.search.index import Hit, Only, Reason
from trunkline.search.semantic import SemanticIndex
from trunkline.search.text import ToolText

_MORE = 10
"""So many more than are wanted are looked at by either way."""
_USUAL = 0.28
"""What meaning adds even to a tool that barely fits. It is taken off, so that scores are those of words alone."""
_GUESS = (0.15, 0.45)
"""How near a tool without a vector is thought to be: at least, and more for each unit of the words' evidence."""


class HybridIndex:
    """Tools found by their words and by meaning, or, with `words` off, by meaning where there are vectors.

    A query without a vector is searched by its words. A tool without one is thought to be as near as its words suggest.
    """

    def __init__(self, semantic: SemanticIndex, *, words: bool = True) -> None:
        self._words = Bm25Index()
        self._meaning = semantic
        self._both = words

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
        shortlist = limit + _MORE
        near = self._meaning.nearest(query, limit=shortlist, only=only)
        if not near:
            return self._words.search(query, limit=limit, min_score=min_score, only=only)
        said = self._words.scores(query, limit=shortlist, only=only)
        # What is among the first by one way has a score by the other too.
        said |= self._words.scores(query, limit=shortlist, only=near.keys() - said.keys())
        near |= self._meaning.scores(query, said.keys() - near.keys())
        found = ((-self._total(said.get(key, 0.0), near.get(key)), key) for key in said.keys() | near.keys())
        scored = [(key, 1.0 - math.exp(min(0.0, total))) for total, key in nsmallest(limit, found)]
        return [
            Hit(key, score, self._reasons(query, key, said.get(key), near.get(key)))
            for key, score in scored
            if score >= min_score and score > 0.0
        ]

    def _total(self, words: float, near: float | None) -> float:
        """The evidence for a tool: by both, or by meaning alone where it is known."""
        evidence = _evidence(words)
        if not self._both:
            return evidence if near is None else _evidence(min(near, 1.0))
        if near is None:
            near = _GUESS[0] + _GUESS[1] * evidence
        return evidence + near - _USUAL

    def _reasons(self, query: str, key: str, said: float | None, near: float | None) -> tuple[Reason, ...]:
        """What speaks for a tool: words by their share of the evidence, then meaning by its own."""
        meaning = max(0.0, near or 0.0)
        evidence = _evidence(said or 0.0) if self._both or near is None else 0.0
        share = meaning / (meaning + evidence) if meaning else 0.0
        spoken = self._words.reasons(query, key) if said is not None and share < 1.0 else ()
        words = [Reason(each.word, each.fields, each.share * (1.0 - share)) for each in spoken]
        return (*words, Reason("(meaning)", ("description",), share)) if share else tuple(words)


def _evidence(score: float) -> float:
    """The evidence that a score of words stands for; see `calibrated`."""
    return -math.log(max(1.0 - score, 1e-6))
