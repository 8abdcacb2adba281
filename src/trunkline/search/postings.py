"""Which tools have a term, and how strongly: five bytes for each of them, where an entry of a `dict` takes many."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable

LEVELS = tuple(level / 255 for level in range(256))
"""Impacts are rounded to these numbers."""


class Postings:
    """Tools by their numbers, which grow: whoever comes is put at the end."""

    __slots__ = ("_impacts", "_numbers")

    def __init__(self) -> None:
        self._numbers, self._impacts = array("I"), bytearray()

    def __len__(self) -> int:
        return len(self._numbers)

    def append(self, number: int, impact: float = 1.0) -> None:
        """Take in a tool whose number is larger than all before it; its impact is rounded, and not to nothing."""
        self._numbers.append(number)
        self._impacts.append(max(1, round(255 * impact)))

    def remove(self, number: int) -> None:
        """Forget a tool that is there."""
        at = bisect_left(self._numbers, number)
        del self._numbers[at], self._impacts[at]

    def get(self, number: int) -> float | None:
        """How strongly a tool has the term; `None` if it has not."""
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            return LEVELS[self._impacts[at]]
        return None

    def pairs(self, weight: float) -> tuple[list[float], Iterable[tuple[int, int]]]:
        """What the term counts by the level of its impact, and all tools, each with that level."""
        return [weight * level for level in LEVELS], zip(self._numbers, self._impacts, strict=True)

    def weighed(self, weight: float, allowed: Container[int] | None = None) -> dict[int, float]:
        """What the term counts for each tool, or for those that are allowed."""
        counts, pairs = self.pairs(weight)
        if allowed is None:
            return {number: counts[impact] for number, impact in pairs}
        return {number: counts[impact] for number, impact in pairs if number in allowed}

    def numbers(self) -> array[int]:
        """The tools that have it, in their order."""
        return self._numbers


def together(postings: list[Postings], share: float) -> dict[int, float]:
    """What several terms count together for each tool that has them all."""
    if len(postings) == 1:
        return postings[0].weighed(share)
    rarest = min(postings, key=len)
    found: dict[int, float] = {}
    for number in rarest.numbers():
        impacts = [each.get(number) for each in postings]
        if None not in impacts:
            found[number] = share * sum(impact or 0.0 for impact in impacts)
    return found


def put(table: dict[str, Postings], term: str, number: int, impact: float = 1.0) -> None:
    """Say that a tool has a term."""
    found = table.get(term)
    if found is None:
        found = table[term] = Postings()
    found.append(number, impact)


def drop(table: dict[str, Postings], term: str, number: int) -> None:
    """Forget that a tool has a term."""
    table[term].remove(number)
    if not table[term]:
        del table[term]
