"""BM25F: words weighted by their rarity and by the field they stand in, kept up to date tool by tool."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from heapq import nlargest

from trunkline.catalog.search.calibrate import DEFAULT_MIN_SCORE, calibrated, rarity
from trunkline.catalog.search.index import Hit, Only, Reason
from trunkline.catalog.search.text import FIELDS, ToolText
from trunkline.catalog.search.tokens import is_filler, is_stop, spellings, terms

_WEIGHTS = dict(zip(FIELDS, (3.5, 3.0, 1.3, 1.3, 0.7, 0.5, 1.0, 2.0, 0.6), strict=True))
_LENGTHS = dict(zip(FIELDS, (3.0, 3.0, 4.0, 22.0, 5.0, 30.0, 15.0, 3.0, 20.0), strict=True))
"""How long a field usually is. Fixed, so that a new tool changes no other tool's entries."""
_DAMPING = dict(zip(FIELDS, (0.5, 0.4, 0.5, 0.7, 0.7, 0.8, 0.7, 0.5, 0.8), strict=True))
_SATURATION = 1.5
_STOP_EMPHASIS = 0.15
_FILLER_EMPHASIS = 0.3
_WHOLE_NAME = 0.12
"""What a tool gains whose name, or whose server's name, the query has whole."""
_MOST_GAIN = 1.0 + 2 * _WHOLE_NAME
_LEVELS = tuple(level / 255 for level in range(256))
"""Impacts are rounded to these numbers, which all entries share: a float of its own would cost 24 bytes each."""
_LONGEST_QUERY = 10_000
_FEW = 5
_MANY = 30
_LIKELY = 0.35


@dataclass(slots=True)
class _Entry:
    key: str
    terms: tuple[str, ...]
    fields: tuple[int, ...]
    """For each term, the fields it stands in, as bits."""
    name: tuple[str, ...]
    server: tuple[str, ...]


@dataclass(slots=True)
class _Wanted:
    """A term of the query."""

    term: str
    word: str
    weight: float
    postings: dict[int, float]


class Bm25Index:
    """Tools found by their words."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._entries: dict[int, _Entry] = {}
        self._postings: dict[str, dict[int, float]] = {}
        self._rarities: dict[str, float] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, tool: ToolText) -> None:
        """Take a tool in; one with the same key is replaced."""
        self.remove(tool.key)
        number, self._next = self._next, self._next + 1
        self._rarities.clear()
        strengths, fields = _read(tool)
        for term, strength in strengths.items():
            impact = _LEVELS[max(1, round(255 * strength / (_SATURATION + strength)))]
            self._postings.setdefault(term, {})[number] = impact
        self._numbers[tool.key] = number
        self._entries[number] = _Entry(
            tool.key, tuple(fields), tuple(fields.values()), _telling(tool.name), _telling(tool.server)
        )

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        number = self._numbers.pop(key, None)
        if number is None:
            return
        self._rarities.clear()
        for term in self._entries.pop(number).terms:
            postings = self._postings[term]
            del postings[number]
            if not postings:
                del self._postings[term]

    def search(
        self, query: str, *, limit: int = 10, min_score: float = DEFAULT_MIN_SCORE, only: Only = None
    ) -> list[Hit]:
        """The best tools for one query, best first; equal ones by key."""
        wanted, unknown = self._wanted(query)
        ranked = self._ranked(wanted, unknown, limit, only)
        return [Hit(key, score, self._reasons(key, wanted)) for key, score in ranked if score >= min_score]

    def scores(self, query: str, *, limit: int, only: Only = None) -> dict[str, float]:
        """The scores of the best tools for one query, without reasons."""
        wanted, unknown = self._wanted(query)
        return dict(self._ranked(wanted, unknown, limit, only))

    def reasons(self, query: str, key: str) -> tuple[Reason, ...]:
        """What speaks for a tool, the weightiest first."""
        return self._reasons(key, self._wanted(query)[0])

    def _ranked(self, wanted: list[_Wanted], unknown: float, limit: int, only: Only) -> list[tuple[str, float]]:
        if not wanted or limit < 1:
            return []
        # Nothing may be left out before a function has said which tools count.
        found = self._gather(wanted, len(self) if callable(only) else limit, self._allowed(only))
        if callable(only):
            found = {number: score for number, score in found.items() if only(self._entries[number].key)}
        known = sum(each.weight for each in wanted)
        ranked = self._with_names(found, {each.term for each in wanted}, limit)
        return [(key, calibrated(evidence, known, unknown)) for evidence, key in ranked]

    def _wanted(self, query: str) -> tuple[list[_Wanted], float]:
        """The query's terms that some tool has, heaviest first, and the weight of the others."""
        pairs = spellings(query[:_LONGEST_QUERY])
        words = dict(reversed(pairs))
        wanted: list[_Wanted] = []
        unknown = 0.0
        for term, count in Counter(term for term, _ in pairs).items():
            postings = self._postings.get(term, {})
            emphasis = _STOP_EMPHASIS if is_stop(term) else _FILLER_EMPHASIS if is_filler(term) else 1.0
            rare = self._rarity(term) if postings else rarity(term, 0, len(self))
            weight = rare * emphasis * (1.0 + 0.5 * math.log(count))
            if postings:
                wanted.append(_Wanted(term, words[term], weight, postings))
            else:
                unknown += weight
        wanted.sort(key=lambda each: (-each.weight, each.term))
        return wanted, unknown

    def _allowed(self, only: Only) -> set[int] | None:
        if only is None or callable(only):
            return None
        return {self._numbers[key] for key in only if key in self._numbers}

    def _gather(self, wanted: list[_Wanted], limit: int, allowed: set[int] | None) -> dict[int, float]:
        """The tools' evidence; those that will hardly come among the first `limit` are left out."""
        found: dict[int, float] = {}
        ahead = sum(each.weight for each in wanted)
        closed = False
        for each in wanted:
            if closed:
                _raise(found, each)
            else:
                _collect(found, each, allowed)
            ahead -= each.weight
            if len(found) <= (_MANY if closed else _FEW) * limit:
                continue
            # What is still to come counts for a part: hardly a tool has all the lesser words, each at full strength.
            reach = ahead * _LIKELY * _MOST_GAIN
            if closed or reach < max(found.values()):
                least = nlargest(limit, found.values())[-1]
                if reach < least:
                    closed = True
                    enough = (least - reach) / _MOST_GAIN
                    found = {number: score for number, score in found.items() if score >= enough}
        return found

    def _with_names(self, found: dict[int, float], wanted: set[str], limit: int) -> list[tuple[float, str]]:
        """The first `limit`, after the gain of those whose names the query has."""
        least = nlargest(limit, found.values())[-1] / _MOST_GAIN if len(found) > limit else 0.0
        ranked: list[tuple[float, str]] = []
        for number, score in found.items():
            if score >= least:
                entry = self._entries[number]
                whole = self._covered(entry.name, wanted) + self._covered(entry.server, wanted)
                ranked.append((score * (1.0 + _WHOLE_NAME * whole), entry.key))
        ranked.sort(key=lambda each: (-each[0], each[1]))
        return ranked[:limit]

    def _covered(self, name: tuple[str, ...], wanted: set[str]) -> float:
        """How much of a name the query has, 0 to 1."""
        if wanted.isdisjoint(name):
            return 0.0
        weights = [(term in wanted, self._rarity(term)) for term in name]
        return sum(weight for has, weight in weights if has) / (sum(weight for _, weight in weights) or 1.0)

    def _rarity(self, term: str) -> float:
        found = self._rarities.get(term)
        if found is None:
            found = self._rarities[term] = rarity(term, len(self._postings[term]), len(self))
        return found

    def _reasons(self, key: str, wanted: list[_Wanted]) -> tuple[Reason, ...]:
        number = self._numbers[key]
        entry = self._entries[number]
        weights = [(each.weight * each.postings[number], each) for each in wanted if number in each.postings]
        total = sum(weight for weight, _ in weights) or 1.0
        weights.sort(key=lambda pair: (-pair[0], pair[1].term))
        return tuple(
            Reason(each.word, _named(entry.fields[entry.terms.index(each.term)]), weight / total)
            for weight, each in weights
        )


def _read(tool: ToolText) -> tuple[dict[str, float], dict[str, int]]:
    """The terms of a tool: how strongly it has them, and in which fields."""
    strengths: dict[str, float] = {}
    fields: dict[str, int] = {}
    for position, text in tool.fields():
        field = FIELDS[position]
        counts = Counter(terms(text))
        if field != "name":
            counts = {term: count for term, count in counts.items() if not is_stop(term)}
        damping = _DAMPING[field]
        scale = _WEIGHTS[field] / (1.0 - damping + damping * sum(counts.values()) / _LENGTHS[field])
        for term, count in counts.items():
            strengths[term] = strengths.get(term, 0.0) + scale * count
            fields[term] = fields.get(term, 0) | 1 << position
    return strengths, fields


def _collect(found: dict[int, float], each: _Wanted, allowed: set[int] | None) -> None:
    """Count a term for all who have it."""
    weight, postings = each.weight, each.postings
    have = found.get
    if allowed is None:
        if not found:
            found.update({number: weight * impact for number, impact in postings.items()})
            return
        for number, impact in postings.items():
            found[number] = have(number, 0.0) + weight * impact
        return
    for number in allowed & postings.keys():
        found[number] = have(number, 0.0) + weight * postings[number]


def _raise(found: dict[int, float], each: _Wanted) -> None:
    """Count a term for those who were found already."""
    weight, postings = each.weight, each.postings
    for number in found.keys() & postings.keys():
        found[number] += weight * postings[number]


def _telling(name: str) -> tuple[str, ...]:
    """The terms of a name that tell it apart."""
    return tuple(term for term in dict.fromkeys(terms(name)) if not is_stop(term))


def _named(bits: int) -> tuple[str, ...]:
    return tuple(field for position, field in enumerate(FIELDS) if bits >> position & 1)
