"""Tools found by meaning, alone or together with their words: the vectors of texts, compared with the query's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING

from trunkline.search.arrays import Floats, np
from trunkline.search.bm25 import Bm25Index
from trunkline.search.calibrate import DEFAULT_MIN_SCORE
from trunkline.search.index import MEANING, Hit, Index, Only, Reason, best
from trunkline.search.text import ToolText
from trunkline.search.vectors import Vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_TEXT = 1_000
_CROWD = 0.3
"""How much of a cosine is owed to the crowd around a tool."""
_MUCH = 0.25
"""When so many of the tools have changed, the places of all are looked at anew."""
_MORE = 10
"""So many more than are wanted are looked at by either way."""
_USUAL = 0.28
"""What meaning adds even to a tool that barely fits. It is taken off, so that scores are those of words alone."""
_DIFFERS = 0.5
"""What nearness loses where a tool does something else than is asked: texts about one thing are always near."""
_GUESS = (0.15, 0.45)
"""How near a tool without a vector is thought to be: at least, and more for each unit of the words' evidence."""
_NEIGHBOURS = 10
_BLOCK = 128
_MEANING = (Reason(MEANING, ("description",), 1.0),)


class SemanticIndex:
    """Tools found by meaning, as far as their vectors are known; without the query's, none."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._texts: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._keys: list[str] = []
        # A column for each tool: a product with a few vectors then needs no copy of it.
        self._matrix: Floats = np.zeros((0, 0), dtype=np.float32)
        self._crowds: Floats = np.zeros(0, dtype=np.float32)
        self._new: set[str] = set()
        self._changes = 0
        self._compared: dict[str, Floats] = {}
        self._owing: Floats | None = None
        vectors.when_idle(self.settle)

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, tool: ToolText) -> None:
        """Take a tool in; its vector follows in the background."""
        text = described(tool)
        if self._texts.get(tool.key) == text:
            return
        self.remove(tool.key)
        self._texts[tool.key] = text
        self._vectors.want(text, partial(self._place, tool.key, text))

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        self._texts.pop(key, None)
        row = self._rows.pop(key, None)
        if row is None:
            return
        last = self._keys.pop()
        if last != key:
            self._keys[row] = last
            self._rows[last] = row
            self._matrix[:, row] = self._matrix[:, len(self._keys)]
            self._crowds[row] = self._crowds[len(self._keys)]
        self._new.discard(key)
        self._changes += 1
        self._changed()

    def search(
        self, query: str, *, limit: int = 10, min_score: float = DEFAULT_MIN_SCORE, only: Only = None
    ) -> list[Hit]:
        """The nearest tools, best first; equal ones by key."""
        found = self.nearest(query, limit=limit, only=only).items()
        hits = [Hit(key, min(1.0, near), _MEANING) for key, near in found if near > 0.0 and near >= min_score]
        return best(hits, limit)

    def nearest(self, query: str, *, limit: int, only: Only = None) -> dict[str, float]:
        """The nearest tools and how near they are: 0 is unrelated, 1 the same; it may be less or more."""
        near = self._nearness(query)
        if near is None or limit < 1:
            return {}
        if only is None:
            count = min(limit, len(near))
            rows: Iterable[int] = np.argpartition(-near, count - 1)[:count].tolist()
        elif callable(only):
            rows = _first(np.argsort(-near).tolist(), limit, lambda row: only(self._keys[row]))
        else:
            rows = sorted((self._rows[key] for key in only if key in self._rows), key=lambda row: -near[row])[:limit]
        return {self._keys[row]: float(near[row]) for row in rows}

    def scores(self, query: str, keys: Iterable[str]) -> dict[str, float]:
        """How near these tools are; those without a vector are left out, and without the query's vector all are."""
        near = self._nearness(query)
        if near is None:
            return {}
        return {key: float(near[self._rows[key]]) for key in keys if key in self._rows}

    async def settle(self) -> None:
        """Look at the places of tools that came; of all, when much has changed."""
        while self._new:
            keys, matrix = list(self._keys), self._matrix[:, : len(self._keys)].T.copy()
            anew = self._changes > _MUCH * len(keys)
            wanted = set(keys) if anew else self._new
            rows = np.array([row for row, key in enumerate(keys) if key in wanted], dtype=np.intp)
            self._new = set()
            if anew:
                self._changes = 0
            found = await asyncio.to_thread(_crowding, matrix, rows)
            for row, crowd in zip(rows.tolist(), found.tolist(), strict=True):
                if keys[row] in self._rows:
                    self._crowds[self._rows[keys[row]]] = crowd
            self._changed()

    def _nearness(self, query: str) -> Floats | None:
        """How near every row is to a query: to the whole of it, or to the nearest of its parts."""
        if query in self._compared:
            return self._compared[query]
        wanted = self._vectors.known(query)
        if wanted is None or not self._keys:
            return None
        cosines = wanted.numbers @ self._matrix[:, : len(self._keys)]
        cosines -= self._owed()
        cosines /= self._vectors.ceiling - self._vectors.floor
        # Whoever searches for a whole will search for its parts.
        self._compared = dict(zip(wanted.texts, cosines, strict=True)) | {query: cosines.max(axis=0)}
        return self._compared[query]

    def _owed(self) -> Floats:
        """What is no merit of a tool: the cosine of unrelated texts, and what it gains by the crowd around it."""
        if self._owing is None:
            crowds = self._crowds[: len(self._keys)]
            seen = crowds > 0.0
            # Measured from the mean: scores of a crowded catalogue mean what they do in an empty one.
            mean = crowds[seen].mean() if seen.any() else 0.0
            self._owing = self._vectors.floor + _CROWD * np.where(seen, crowds - mean, 0.0).astype(np.float32)
        return self._owing

    def _changed(self) -> None:
        """What was worked out for the tools there were is so no more."""
        self._compared.clear()
        self._owing = None

    def _place(self, key: str, text: str, vector: Floats) -> None:
        if self._texts.get(key) != text or key in self._rows:
            return
        row = len(self._keys)
        if row == len(self._crowds):
            room = max(64, 2 * row)
            self._matrix = _grown(self._matrix, (len(vector), room))
            self._crowds = _grown(self._crowds, (room,))
        self._matrix[:, row] = vector
        self._crowds[row] = 0.0
        self._keys.append(key)
        self._rows[key] = row
        self._new.add(key)
        self._changes += 1
        self._changed()


class HybridIndex:
    """Tools found by their words and by meaning, or, with `words` off, by meaning where there are vectors.

    A query without a vector is searched by its words. A tool without one is thought to be as near as its words suggest.
    """

    def __init__(self, semantic: SemanticIndex, *, words: bool = True, known: Bm25Index | None = None) -> None:
        self._words = known or Bm25Index()
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

    def by(self, strategy: str) -> Index:
        """The same tools, searched in another way."""
        if strategy == "bm25":
            return self._words
        other = copy(self)
        other._both = strategy == "hybrid"
        return other

    def search(
        self, query: str, *, limit: int = 10, min_score: float = DEFAULT_MIN_SCORE, only: Only = None
    ) -> list[Hit]:
        """The best tools for one query, best first; equal ones by key. With a `min_score` of 0, the best there are."""
        shortlist = limit + _MORE
        near = self._meaning.nearest(query, limit=shortlist, only=only)
        if not near:
            return self._words.search(query, limit=limit, min_score=min_score, only=only)
        said = self._words.scores(query, limit=shortlist, only=only)
        # What is among the first by one way has a score by the other too.
        said |= self._words.scores(query, limit=shortlist, only=near.keys() - said.keys())
        near |= self._meaning.scores(query, said.keys() - near.keys())
        found = (
            (-self._total(said.get(key, 0.0), near.get(key), self._words.agreement(query, key)), key)
            for key in said.keys() | near.keys()
        )
        scored = [(key, 1.0 - math.exp(min(0.0, total))) for total, key in nsmallest(limit, found)]
        return [
            Hit(key, score, self._reasons(query, key, said.get(key), near.get(key)))
            for key, score in scored
            if score >= min_score
        ]

    def _total(self, words: float, near: float | None, agreement: float) -> float:
        """The evidence for a tool: by both, or by meaning alone where it is known.

        What does another thing than was asked is not near, whatever it is about.
        """
        evidence = _evidence(words)
        if not self._both:
            return evidence if near is None else _evidence(min(near, 1.0))
        if near is None:
            near = _GUESS[0] + _GUESS[1] * evidence
        elif near > 0.0 and agreement < 0.0:
            near *= max(0.0, 1.0 + _DIFFERS * agreement)
        return evidence + near - _USUAL

    def _reasons(self, query: str, key: str, said: float | None, near: float | None) -> tuple[Reason, ...]:
        """What speaks for a tool: words by their share of the evidence, then meaning by its own."""
        meaning = max(0.0, near or 0.0)
        evidence = _evidence(said or 0.0) if self._both or near is None else 0.0
        share = meaning / (meaning + evidence) if meaning else 0.0
        spoken = self._words.reasons(query, key) if said is not None and share < 1.0 else ()
        words = [Reason(each.word, each.fields, each.share * (1.0 - share)) for each in spoken]
        return (*words, Reason(MEANING, ("description",), share)) if share else tuple(words)


def described(tool: ToolText) -> str:
    """The text that stands for a tool when vectors are made."""
    name = tool.title or tool.name.replace("_", " ").replace("-", " ")
    parts = (f"{tool.server}: {name}" if tool.server else name, tool.description, tool.when_to_use, tool.tags)
    return ". ".join(part for part in parts if part)[:_LONGEST_TEXT]


def _grown(array: Floats, shape: tuple[int, ...]) -> Floats:
    fresh = np.zeros(shape, dtype=np.float32)
    if array.size:
        fresh[..., : array.shape[-1]] = array
    return fresh


def _first(rows: Iterable[int], limit: int, admitted: Callable[[int], bool]) -> list[int]:
    found: list[int] = []
    for row in rows:
        if admitted(row):
            found.append(row)
            if len(found) == limit:
                break
    return found


def _crowding(matrix: Floats, rows: NDArray[np.intp]) -> Floats:
    """How crowded the places of some rows are: a tool with many that are alike is near to every query.

    It is the mean cosine of a row to its nearest neighbours, the row itself left out.
    """
    count = min(_NEIGHBOURS, len(matrix) - 1)
    found = np.zeros(len(rows), dtype=np.float32)
    if count < 1:
        return found
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        cosines = matrix[block] @ matrix.T
        cosines[np.arange(len(block)), block] = -1.0
        nearest = np.partition(cosines, -count, axis=1)[:, -count:]
        found[start : start + len(block)] = nearest.mean(axis=1)
    return found


def _evidence(score: float) -> float:
    """The evidence that a score of words stands for; see `calibrated`."""
    return -math.log(max(1.0 - score, 1e-6))
