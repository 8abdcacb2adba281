"""BM25F: words weighted by their rarity and by the field they stand in, kept up to date tool by tool."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from itertools import islice, pairwise
from sys import intern

from trunkline.search.calibrate import (
    DEFAULT_MIN_SCORE,
    NAMED,
    at_large,
    calibrated,
    emphasis,
    gained,
    rarity,
    suited,
)
from trunkline.search.index import Hit, Only, Reason
from trunkline.search.lexicon import Action, Other, agreement, asked_action, done_action, lexicon, others, plain
from trunkline.search.postings import Postings, drop, put, together
from trunkline.search.text import ToolText, field_names, sign_of, terms_of
from trunkline.search.tokens import bare, is_telling, slips, spellings, telling

_SATURATION = 1.5
_LONGEST_QUERY = 10_000
_MOST_TERMS = 80
"""The heaviest count, so that a prompt of thousands of words is no burden."""
_GUESSED = 0.6
"""What a word counts that was taken for a slip."""
_LETTERS = range(5, 21)
"""How many letters a word has that may be taken for a slip."""
_MOST_GUESSED = 8
_DEED = 0.6
"""What the verb of a query counts as a word: what it asks to be done is compared apart."""
_VALUE = 0.2
"""What a name or a number counts that no tool has."""
_VALUES = re.compile(r"(?<=\w[\s,(\"'])[A-Z][a-z]+|#?\d+").findall
_BESIDE = 15.0
"""When so many tools have the word itself, other words for it count half: they are needed where it is rare."""
_FLOOR = 0.3
_MORE = 20
"""So many more tools than are asked for are looked at closely."""
_MOST_KEPT = 1_000
_FEW = 3
_MANY = 10
_LIKELY = 0.25
_LOOKS = 8
"""To look up one tool in a term's postings takes as long as to go past so many."""


@dataclass(slots=True)
class _Entry:
    key: str
    terms: tuple[str, ...]
    fields: bytes
    """For each term, the fields it stands in, as bits: two bytes each."""
    name: tuple[str, ...]
    server: tuple[str, ...]
    bare: str
    """Its name without case and signs."""
    text: str
    """Its telling terms in their order, a sign for each: see `sign_of`."""
    action: Action

    def has_phrase(self, one: str, other: str) -> bool:
        """Whether two of its terms stand side by side somewhere."""
        return sign_of(self.terms.index(one)) + sign_of(self.terms.index(other)) in self.text


@dataclass(slots=True)
class _QueryTerm:
    """A term of the query."""

    term: str
    word: str
    weight: float
    postings: Postings | dict[int, float]
    terms: tuple[str, ...]
    """The term, and what tools may say instead of it."""


@dataclass(slots=True)
class _Asked:
    """A query as the index sees it."""

    wanted: list[_QueryTerm]
    """Its terms that some tool has, heaviest first."""
    known: float
    """What they weigh."""
    unknown: float
    """What the others weigh."""
    phrases: list[tuple[str, str]]
    """Its telling terms two by two."""
    called: set[int]
    """The tools whose name it is."""
    action: Action
    """What is to be done."""
    verb: str
    """The term that says so, if one does."""


def read_words() -> None:
    """Read the lists of words that queries are read by, which the first query would have to wait for."""
    at_large()
    lexicon()


class Bm25Index:
    """Tools found by their words."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._entries: dict[int, _Entry] = {}
        self._postings: dict[str, Postings] = {}
        self._called: dict[str, Postings] = {}
        self._rarities: dict[str, float] = {}
        self._guesses: dict[str, str] = {}
        self._latest: tuple[str, _Asked] | None = None
        self._next = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, tool: ToolText) -> None:
        """Take a tool in; one with the same key is replaced."""
        self.remove(tool.key)
        number, self._next = self._next, self._next + 1
        self._changed()
        read = terms_of(tool)
        for term, strength in read.strengths.items():
            put(self._postings, term, number, strength / (_SATURATION + strength))
        entry = _Entry(
            tool.key,
            tuple(read.fields),
            array("H", read.fields.values()).tobytes(),
            _telling(tool.name),
            _telling(tool.server),
            intern(bare(tool.name)),
            read.text,
            done_action(tool.name, tool.description),
        )
        put(self._called, entry.bare, number)
        self._numbers[tool.key] = number
        self._entries[number] = entry

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        number = self._numbers.pop(key, None)
        if number is None:
            return
        self._changed()
        entry = self._entries.pop(number)
        drop(self._called, entry.bare, number)
        for term in entry.terms:
            drop(self._postings, term, number)

    def search(
        self, query: str, *, limit: int = 10, min_score: float = DEFAULT_MIN_SCORE, only: Only = None
    ) -> list[Hit]:
        """The best tools for one query, best first; equal ones by key."""
        asked = self._asked(query)
        shortlist = min(5 + 5 * limit, limit + _MORE)
        ranked = self._ranked(asked, shortlist, only)[: max(limit, 0)]
        scored = [(key, calibrated(evidence, asked.known, asked.unknown)) for evidence, key in ranked]
        return [Hit(key, score, self._reasons(key, asked.wanted)) for key, score in scored if score >= min_score]

    def scores(self, query: str, *, limit: int, only: Only = None) -> dict[str, float]:
        """The scores of the best tools for one query, without reasons; none depends on the others."""
        asked = self._asked(query)
        ranked = self._ranked(asked, max(limit, 1), only)[: max(limit, 0)]
        return {key: calibrated(evidence, asked.known, asked.unknown) for evidence, key in ranked}

    def agreement(self, query: str, key: str) -> float:
        """How well what a tool does suits what a query asks to be done."""
        return _agreement(self._asked(query), self._entries[self._numbers[key]])

    def reasons(self, query: str, key: str) -> tuple[Reason, ...]:
        """What speaks for a tool, the weightiest first."""
        return self._reasons(key, self._asked(query).wanted)

    def _ranked(self, asked: _Asked, shortlist: int, only: Only) -> list[tuple[float, str]]:
        """The evidence for the best tools, best first: for so many, and those that tie with the last."""
        allowed = self._allowed(only)
        # Nothing may be left out before a function has said which tools count.
        found = self._gather(asked.wanted, len(self) if callable(only) else shortlist, allowed)
        for number in asked.called if allowed is None else asked.called & allowed:
            found[number] = found.get(number, 0.0) + NAMED
        if callable(only):
            found = {number: score for number, score in found.items() if only(self._entries[number].key)}
        return self._with_gains(found, asked, shortlist)

    def _asked(self, query: str) -> _Asked:
        # Whoever asks by words and by meaning asks the same several times.
        if self._latest is None or self._latest[0] != query:
            self._latest = query, self._read(query)
        return self._latest[1]

    def _read(self, query: str) -> _Asked:
        query = query[:_LONGEST_QUERY]
        written = spellings(plain(query))
        meant = self._corrected(term for term, _ in written)
        pairs = [(meant.get(term, term), word) for term, word in written] if meant else written
        guessed = set(meant.values()) - {term for term, _ in written}
        words = dict(reversed(pairs))
        wanted: list[_QueryTerm] = []
        unknown = 0.0
        found = [term for term, _ in pairs]
        also = others(found)
        values = {word.casefold() for word in _VALUES(query)}
        action, verb = asked_action([word for _, word in pairs])
        for term, count in Counter(found).items():
            weight = emphasis(term) * (1.0 + 0.5 * math.log(count)) * (_GUESSED if term in guessed else 1.0)
            if words[term] == verb:
                weight *= _DEED
            each = self._wanted(term, words[term], weight, also.get(term, ()))
            if each is not None:
                wanted.append(each)
            else:
                unknown += weight * rarity(term, 0, len(self)) * (_VALUE if words[term] in values else 1.0)
        wanted.sort(key=lambda each: (-each.weight, each.term))
        del wanted[_MOST_TERMS:]
        phrases = pairwise(term for term, _ in pairs if is_telling(term))
        return _Asked(
            wanted,
            sum(each.weight for each in wanted),
            unknown,
            [pair for pair in dict.fromkeys(phrases) if self._postings.keys() >= {*pair}],
            set(self._called[name].numbers()) if wanted and (name := bare(query)) in self._called else set(),
            action,
            next((term for term, word in pairs if word == verb), ""),
        )

    def _wanted(self, term: str, word: str, weight: float, also: Sequence[Other]) -> _QueryTerm | None:
        """A term and what tools may say instead of it, each tool by the best that it has; none if no tool has any."""
        own = self._postings.get(term)
        known = [other for other in also if self._postings.keys() >= {*other.terms}]
        if not known:
            return None if own is None else _QueryTerm(term, word, weight * self._rarity(term), own, (term,))
        best: dict[int, float] = {}
        if own is not None:
            share = weight * self._rarity(term)
            best = own.weighed(share)
        doubt = max(_FLOOR, _BESIDE / (_BESIDE + len(own))) if own is not None else 1.0
        for other in known:
            postings = [self._postings[each] for each in other.terms]
            share = doubt * other.weight * sum(map(self._rarity, other.terms)) / len(postings) ** 2
            for number, evidence in together(postings, share).items():
                if evidence > best.get(number, 0.0):
                    best[number] = evidence
        if not best:
            return None
        heaviest = max(
            [weight * self._rarity(term) if own is not None else 0.0]
            + [doubt * other.weight * max(map(self._rarity, other.terms)) for other in known]
        )
        terms = (term, *(each for other in known for each in other.terms))
        return _QueryTerm(
            term, word, heaviest, {number: evidence / heaviest for number, evidence in best.items()}, terms
        )

    def _corrected(self, found: Iterable[str]) -> dict[str, str]:
        """For words that no tool has, the commonest that is one slip away."""
        strange = (term for term in found if len(term) in _LETTERS and term not in self._postings)
        meant = {term: self._guess(term) for term in islice(dict.fromkeys(strange), _MOST_GUESSED)}
        return {term: guess for term, guess in meant.items() if guess}

    def _guess(self, term: str) -> str:
        guess = self._guesses.get(term)
        if guess is None:
            near = slips(term) & self._postings.keys()
            guess = max(near, key=lambda other: (len(self._postings[other]), other), default="")
            if len(self._guesses) < _MOST_KEPT:
                self._guesses[term] = guess
        return guess

    def _allowed(self, only: Only) -> set[int] | None:
        if only is None or callable(only):
            return None
        return {self._numbers[key] for key in only if key in self._numbers}

    def _gather(self, wanted: list[_QueryTerm], limit: int, allowed: set[int] | None) -> dict[int, float]:
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
            reach = max(ahead, 0.0) * _LIKELY  # rounding leaves it a little below 0 in the end
            if closed or reach < max(found.values()):
                least = nlargest(limit, found.values())[-1] - reach
                if least > 0.0:
                    closed = True
                    found = {number: score for number, score in found.items() if score >= least}
        return found

    def _with_gains(self, found: dict[int, float], asked: _Asked, shortlist: int) -> list[tuple[float, str]]:
        """The best of those found, best first, after a closer look at each; equal ones by key."""
        least = nlargest(shortlist, found.values())[-1] if len(found) > shortlist else 0.0
        wanted = {term for each in asked.wanted for term in each.terms}
        looked_at = {number: evidence for number, evidence in found.items() if evidence >= least}
        spoken = self._with_phrase(asked.phrases, looked_at.keys())
        ranked: list[tuple[float, str]] = []
        for number, evidence in looked_at.items():
            entry = self._entries[number]
            names = self._covered(entry.name, wanted) + self._covered(entry.server, wanted)
            evidence = gained(evidence, names=names, phrase=number in spoken, terms=len(entry.terms))
            ranked.append((suited(evidence, _agreement(asked, entry)), entry.key))
        ranked.sort(key=lambda each: (-each[0], each[1]))
        return ranked

    def _with_phrase(self, phrases: list[tuple[str, str]], numbers: Set[int]) -> set[int]:
        """Those that have two words of the query side by side."""
        found: set[int] = set()
        for one, other in phrases:
            # Most have not even both words, and that is seen without reading.
            first, second = self._postings[one].get, self._postings[other].get
            found.update(
                number
                for number in numbers
                if first(number) and second(number) and self._entries[number].has_phrase(one, other)
            )
        return found

    def _covered(self, name: tuple[str, ...], wanted: set[str]) -> float:
        """How much of a name the query has, 0 to 1."""
        if wanted.isdisjoint(name):
            return 0.0
        has = whole = 0.0
        for term in name:
            weight = self._rarity(term)
            whole += weight
            if term in wanted:
                has += weight
        return has / (whole or 1.0)

    def _changed(self) -> None:
        """What was worked out for the tools there were is so no more."""
        self._rarities.clear()
        self._guesses.clear()
        self._latest = None

    def _rarity(self, term: str) -> float:
        found = self._rarities.get(term)
        if found is None:
            found = self._rarities[term] = rarity(term, len(self._postings[term]), len(self))
        return found

    def _reasons(self, key: str, wanted: list[_QueryTerm]) -> tuple[Reason, ...]:
        number = self._numbers[key]
        entry = self._entries[number]
        weights = [(each.weight * impact, each) for each in wanted if (impact := each.postings.get(number))]
        total = sum(weight for weight, _ in weights) or 1.0
        weights.sort(key=lambda pair: (-pair[0], pair[1].term))
        return tuple(
            Reason(each.word, field_names(_fields(entry, each.terms)), weight / total) for weight, each in weights
        )


def _agreement(asked: _Asked, entry: _Entry) -> float:
    """How well what a tool does suits what is asked; one that says the very verb does it among other things."""
    found = agreement(asked.action, entry.action)
    return -1.0 if found < -1.0 and asked.verb in entry.terms else found


def _fields(entry: _Entry, terms: tuple[str, ...]) -> int:
    """Where a tool has one of some terms, as bits."""
    found = 0
    for term, bits in zip(entry.terms, memoryview(entry.fields).cast("H"), strict=True):
        if term in terms:
            found |= bits
    return found


def _collect(found: dict[int, float], each: _QueryTerm, allowed: set[int] | None) -> None:
    """Count a term for all who have it."""
    if not found:
        found.update(_weighed(each, allowed))
        return
    have = found.get
    if allowed is not None or not isinstance(each.postings, Postings):
        for number, count in _weighed(each, allowed).items():
            found[number] = have(number, 0.0) + count
        return
    counts, pairs = each.postings.pairs(each.weight)
    for number, level in pairs:
        found[number] = have(number, 0.0) + counts[level]


def _weighed(each: _QueryTerm, allowed: Container[int] | None) -> dict[int, float]:
    """What a term counts for each tool that has it."""
    if isinstance(each.postings, Postings):
        return each.postings.weighed(each.weight, allowed)
    items = each.postings.items()
    return {number: each.weight * impact for number, impact in items if allowed is None or number in allowed}


def _raise(found: dict[int, float], each: _QueryTerm) -> None:
    """Count a term for those who were found already."""
    if len(found) * _LOOKS < len(each.postings):
        for number in found:
            impact = each.postings.get(number)
            if impact is not None:
                found[number] += each.weight * impact
        return
    for number, count in _weighed(each, found).items():
        found[number] += count


_telling = lru_cache(maxsize=5_000)(telling)
"""The tools of a server share what its name says, and tools of several servers that are called alike what theirs do."""
