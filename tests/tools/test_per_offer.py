"""What is made of each server's offer is made once, and forgotten with the offer."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from trunkline.model import Offer
from trunkline.tools.per_offer import PerOffer

POOL = [Offer(name) for name in "abcdef"]


@given(st.lists(st.lists(st.sampled_from(POOL), unique=True), max_size=6))
def test_each_look_gives_what_was_made_of_its_offers_in_their_order(looks: list[list[Offer]]) -> None:
    made: list[Offer] = []
    per_offer = PerOffer(lambda offer: made.append(offer) or offer.server)
    before: Sequence[Offer] = ()
    for offers in looks:
        made.clear()

        found = per_offer.over(offers)

        assert list(found) == [offer.server for offer in offers]
        assert made == [offer for offer in offers if offer not in before]
        before = offers


def test_what_was_made_ahead_is_not_made_again() -> None:
    made: list[Offer] = []
    per_offer = PerOffer(made.append)

    per_offer.of(POOL[0])
    per_offer.over(POOL[:2])

    assert made == POOL[:2]


def test_an_offer_that_is_gone_is_not_kept() -> None:
    per_offer, gone = PerOffer(lambda offer: offer), Offer("gone")
    seen = weakref.ref(gone)

    per_offer.over([gone, *POOL])
    del gone
    per_offer.over([Offer("other"), *POOL])

    assert seen() is None
