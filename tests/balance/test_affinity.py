"""A bounded memory of who was served where."""

from __future__ import annotations

import pytest

from tests.balance.clock import Clock
from trunkline.balance.affinity import MOST_SERVERS, Affinity
from trunkline.errors import ConfigError


def test_a_key_remembers_its_servers_in_the_order_it_met_them() -> None:
    affinity = Affinity(clock=Clock())

    assert affinity.remember("k", "a")
    assert affinity.remember("k", "b")
    assert not affinity.remember("k", "a")

    assert affinity.servers("k") == ("a", "b")
    affinity.pin("k", "b")
    assert affinity.servers("k") == ("b", "a")


def test_an_unused_rule_expires_and_a_used_one_does_not() -> None:
    clock = Clock()
    expired: list[str] = []
    affinity = Affinity(ttl=10, clock=clock, expired=expired.append)
    affinity.remember("idle", "a")
    affinity.remember("busy", "a")

    clock.pass_by(6)
    affinity.servers("busy")
    clock.pass_by(6)

    assert affinity.servers("idle") == ()
    assert affinity.servers("busy") == ("a",)
    assert expired == ["idle"]


def test_the_memory_is_bounded_and_the_longest_unused_goes_first() -> None:
    affinity = Affinity(max_entries=100, clock=Clock())
    affinity.remember("kept", "a")

    for index in range(10_001):
        affinity.remember(f"k{index}", "a")
        affinity.servers("kept")

    assert len(affinity) == 100
    assert affinity.servers("kept") == ("a",)
    assert affinity.servers("k0") == ()


def test_a_key_remembers_a_few_servers_only_and_keeps_the_first() -> None:
    affinity = Affinity(clock=Clock())

    for index in range(50):
        affinity.remember("k", f"s{index}")

    assert len(affinity.servers("k")) == MOST_SERVERS
    assert affinity.servers("k")[0] == "s0"


def test_a_server_that_is_gone_leaves_no_rules() -> None:
    affinity = Affinity(clock=Clock())
    affinity.remember("one", "a")
    affinity.remember("two", "a")
    affinity.remember("two", "b")

    affinity.forget_server("a")

    assert [(rule.key, rule.server_id) for rule in affinity.rules()] == [("two", "b")]


@pytest.mark.parametrize(("ttl", "size"), [(0, 1), (-1, 1), (1, 0)])
def test_a_memory_that_keeps_nothing_is_refused(ttl: float, size: int) -> None:
    with pytest.raises(ConfigError):
        Affinity(ttl=ttl, max_entries=size)
