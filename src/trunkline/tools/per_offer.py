"""What is made of each server's offer, and made anew only for what changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import compress, count
from operator import is_not
from typing import Generic, TypeVar

from trunkline.model import Offer

Made = TypeVar("Made")


class PerOffer(Generic[Made]):
    """What is made of each offer, once, and kept for as long as the offer is there."""

    def __init__(self, make: Callable[[Offer], Made]) -> None:
        self._make = make
        self._made: dict[Offer, Made] = {}
        self._offers: list[Offer] = []
        self._found: list[Made] = []
        """What was made of them at the last look at all."""

    def of(self, offer: Offer) -> Made:
        """What is made of one; it is kept until the next look at all."""
        if offer not in self._made:
            self._made[offer] = self._make(offer)
        return self._made[offer]

    def over(self, offers: Iterable[Offer]) -> Collection[Made]:
        """What is made of these, in their order; what was made of others is forgotten."""
        now = list(offers)
        if len(now) != len(self._offers):
            found = list(map(self.of, now))
        elif moved := list(compress(count(), map(is_not, self._offers, now))):
            found = self._found.copy()  # of thousands most often one differs
            for place in moved:
                found[place] = self.of(now[place])
        else:
            return self._found
        self._made, self._offers, self._found = dict(zip(now, found, strict=True)), now, found
        return found
