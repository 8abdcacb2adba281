"""What is made of each server's offer, and made anew only for what changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from trunkline.model import Offer

Made = TypeVar("Made")


class PerOffer(Generic[Made]):
    """What is made of each offer, once, and kept for as long as the offer is there."""

    def __init__(self, make: Callable[[Offer], Made]) -> None:
        self._make = make
        self._made: dict[Offer, Made] = {}

    def of(self, offer: Offer) -> Made:
        """What is made of one; it is kept until the next look at all."""
        if offer not in self._made:
            self._made[offer] = self._make(offer)
        return self._made[offer]

    def over(self, offers: Iterable[Offer]) -> Collection[Made]:
        """What is made of these, in their order; what was made of others is forgotten."""
        known, make = self._made, self._make
        self._made = {offer: known[offer] if offer in known else make(offer) for offer in offers}
        return self._made.values()
