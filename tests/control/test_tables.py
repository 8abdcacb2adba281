"""Tables of many servers, joined: what is seen is what joining all of them anew would give."""

from __future__ import annotations

from random import Random

import pytest

from trunkline.control.tables import SMALL, Joined, Joiner, Layered, Table
from trunkline.model import Entry, Kind


def table(server: str, *names: str) -> dict[str, Entry]:
    return {name: Entry(name, server, name, b"{}") for name in names}


def many() -> list[Table]:
    """Tables of so many entries that they are not copied."""
    return [table(f"s{n}", *(f"s{n}_{tool}" for tool in range(50))) for n in range(SMALL // 50 + 2)]


def anew(tables: list[Table]) -> dict[str, Entry]:
    return {name: entry for one in tables for name, entry in one.items()}


def test_after_any_changes_a_joined_table_is_what_joining_all_anew_gives() -> None:
    chance, joiner, tables = Random(12), Joiner(), many()
    for step in range(150):
        tables = list(tables)
        for _ in range(chance.choice((1, 1, 3))):
            at = chance.randrange(len(tables))
            names = [*tables[at]]
            match chance.randrange(4):
                case 0:
                    names.append(f"new{chance.randrange(5)}")  # now and then another has it
                case 1:
                    names = names[1:]
                case 2:
                    names.insert(chance.randrange(len(names) + 1), f"s{step}_0")
                case _:
                    pass
            fresh = table(f"s{at}", *names)
            kept = {name: entry for name, entry in tables[at].items() if name != names[0]}
            tables[at] = {name: kept.get(name, entry) for name, entry in fresh.items()}

        joined, expected = joiner.table(Kind.TOOL, tables), anew(tables)

        assert dict(joined.items()) == expected
        assert all(joined[name] is entry and joined.get(name) is entry for name, entry in expected.items())
        assert len(joined) == len(expected)
        assert [joined.get(name) for name in ("s0_0", "new1", "nobody")] == [
            expected.get(name) for name in ("s0_0", "new1", "nobody")
        ]


def test_one_changed_entry_among_many_copies_no_table_and_keeps_the_order() -> None:
    joiner, tables = Joiner(), many()
    before = joiner.table(Kind.TOOL, tables)
    later = [*tables[:7], {**tables[7], **table("s7", "s7_3")}, *tables[8:]]

    after = joiner.table(Kind.TOOL, later)

    assert isinstance(before, Joined)
    assert isinstance(after, Joined)
    assert after["s7_3"] is later[7]["s7_3"]
    assert before["s7_3"] is tables[7]["s7_3"]
    assert list(after) == [name for one in tables for name in one]
    assert [*after.values()] == [entry for one in later for entry in one.values()]


def test_a_name_that_went_is_gone_and_was_there_before() -> None:
    joiner, tables = Joiner(), many()
    before = joiner.table(Kind.TOOL, tables)

    after = joiner.table(Kind.TOOL, [{name: tables[0][name] for name in [*tables[0]][1:]}, *tables[1:]])

    assert "s0_0" in before
    assert "s0_0" not in after
    assert after.get("s0_0", None) is None
    assert len(after) == len(before) - 1
    with pytest.raises(KeyError):
        after["s0_0"]


def test_a_table_over_another_hides_what_has_the_same_name() -> None:
    base, top = table("all", "a", "b", "c"), table("mine", "b", "d")

    layered = Layered(top, base, frozenset({"c"}))

    assert [(name, entry.server) for name, entry in layered.items()] == [("b", "mine"), ("d", "mine"), ("a", "all")]
    assert len(layered) == 3
    assert "c" not in layered
