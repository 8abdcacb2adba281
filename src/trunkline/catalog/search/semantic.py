"""Tools found by meaning: the vectors of their texts, compared with the query's."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import partial
from heapq import nsmallest
from operator import mul

from trunkline.catalog.search.calibrate import DEFAULT_MIN_SCORE
from trunkline.catalog.search.index import Hit, Only, Reason, admits, best
from trunkline.catalog.search.text import ToolText
from trunkline.catalog.search.vectors import Vectors

_SHORTLIST = 80
_LONGEST_TEXT = 1_000


class SemanticIndex:
    """Tools found by meaning, as far as their vectors are known; without the query's, none."""

    def __init__(self, vectors: Vectors, *, floor: float = 0.1, ceiling: float = 0.7) -> None:
        self._vectors = vectors
        self._floor = floor
        self._ceiling = ceiling
        self._texts: dict[str, str] = {}
        self._placed: dict[str, array[float]] = {}
        self._signs: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, tool: ToolText) -> None:
        """Take a tool in; its vector follows in the background."""
        self.remove(tool.key)
        text = described(tool)
        self._texts[tool.key] = text
        self._vectors.want(text, partial(self._place, tool.key, text))

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        self._texts.pop(key, None)
        self._placed.pop(key, None)
        self._signs.pop(key, None)

    def search(
        self, query: str, *, limit: int = 10, min_score: float = DEFAULT_MIN_SCORE, only: Only = None
    ) -> list[Hit]:
        """The nearest tools, best first; equal ones by key."""
        vector = self._vectors.known(query)
        if vector is None:
            return []
        # Signs tell roughly what is near, and comparing them costs next to nothing.
        signs = _signs(vector)
        admitted = admits(only)
        known = self._signs if only is None else {key: each for key, each in self._signs.items() if admitted(key)}
        # Plain numbers, not pairs: ten thousand pairs would wake the garbage collector.
        far = [(each ^ signs).bit_count() << 32 | place for place, each in enumerate(known.values())]
        keys = list(known)
        near = [keys[each & 0xFFFFFFFF] for each in nsmallest(max(_SHORTLIST, limit), far)]
        reason = (Reason("(meaning)", ("description",), 1.0),)
        hits = [Hit(key, score, reason) for key, score in self.scores(query, near).items()]
        return best([hit for hit in hits if hit.score >= min_score and hit.score > 0.0], limit)

    def scores(self, query: str, keys: Iterable[str]) -> dict[str, float]:
        """How near these tools are, 0 to 1; those without a vector are left out."""
        wanted = self._vectors.known(query)
        found: dict[str, float] = {}
        if wanted is None:
            return found
        for key in keys:
            if key in self._placed:
                cosine = sum(map(mul, wanted, self._placed[key]))
                found[key] = min(1.0, max(0.0, (cosine - self._floor) / (self._ceiling - self._floor)))
        return found

    def _place(self, key: str, text: str, vector: array[float]) -> None:
        if self._texts.get(key) == text:
            self._placed[key] = vector
            self._signs[key] = _signs(vector)


def described(tool: ToolText) -> str:
    """The text that stands for a tool when vectors are made."""
    name = tool.title or tool.name.replace("_", " ").replace("-", " ")
    parts = (f"{tool.server}: {name}" if tool.server else name, tool.description, tool.when_to_use, tool.tags)
    return ". ".join(part for part in parts if part)[:_LONGEST_TEXT]


def _signs(vector: array[float]) -> int:
    return int("".join("1" if value > 0.0 else "0" for value in vector) or "0", 2)
