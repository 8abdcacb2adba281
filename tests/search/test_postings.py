"""Who has a term: what goes in comes out, and what goes is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trunkline.search.postings import LEVELS, Postings


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.floats(0, 1)), st.data())
def test_postings_are_a_table_of_numbers_and_rounded_impacts(tools: dict[int, float], data: st.DataObject) -> None:
    postings = Postings()
    for number in sorted(tools):
        postings.append(number, tools[number])
    gone = data.draw(st.sets(st.sampled_from(sorted(tools))) if tools else st.just(set[int]()))
    for number in gone:
        postings.remove(number)

    kept = {number: LEVELS[max(1, round(255 * impact))] for number, impact in tools.items() if number not in gone}
    assert len(postings) == len(kept)
    assert list(postings.numbers()) == sorted(kept)
    assert postings.weighed(2.0) == {number: 2.0 * impact for number, impact in kept.items()}
    assert {number: postings.get(number) for number in tools} == {number: kept.get(number) for number in tools}


def test_only_what_is_allowed_is_weighed() -> None:
    postings = Postings()
    for number in range(4):
        postings.append(number)

    assert postings.weighed(3.0, {1, 3, 9}) == {1: 3.0, 3: 3.0}
