"""A circle of servers, of which one is chosen for each call."""

from __future__ import annotations

import pytest

from tests.balance.clock import Clock
from trunkline.balance.balancer import MOST_SLATES, Balancer
from trunkline.balance.member import MemberOptions, ServerWeight
from trunkline.errors import ConfigError, NoServerError


def circle(*names: str) -> Balancer:
    return Balancer({name: MemberOptions() for name in names}, clock=Clock())


def test_an_empty_circle_says_what_to_do() -> None:
    with pytest.raises(NoServerError, match="Add a server"):
        Balancer().take()


def test_only_the_named_candidates_are_asked() -> None:
    chosen = circle("a", "b", "c")

    assert {chosen.take(only=["a", "c", "unknown"]).server for _ in range(10)} == {"a", "c"}
    with pytest.raises(NoServerError):
        chosen.take(only=[])


def test_load_counts_for_a_server_and_not_for_a_set() -> None:
    chosen = Balancer({name: MemberOptions() for name in "abc"}, strategy="least-loaded")
    held = [chosen.take(only=["a"]) for _ in range(3)]

    assert {chosen.take(only=["a", "b"]).server for _ in range(5)} == {"b"}
    assert len(held) == 3


def test_a_key_stays_with_its_server_while_that_is_well() -> None:
    chosen = circle("a", "b", "c")
    home = chosen.take("ann").server

    assert {chosen.take("ann").server for _ in range(5)} == {home}

    chosen.set_healthy(home, False)
    refuge = {chosen.take("ann").server for _ in range(5)}
    assert len(refuge) == 1
    assert home not in refuge

    chosen.set_healthy(home, True)
    assert chosen.take("ann").server == home


def test_a_key_has_a_server_for_each_set_of_candidates() -> None:
    chosen = circle("db1", "db2", "ai1", "ai2")
    data, models = frozenset({"db1", "db2"}), frozenset({"ai1", "ai2"})
    home, brain = chosen.take("ann", only=data).server, chosen.take("ann", only=models).server

    assert {chosen.take("ann", only=data).server for _ in range(5)} == {home}
    assert {chosen.take("ann", only=models).server for _ in range(5)} == {brain}


def test_adding_again_keeps_load_and_health() -> None:
    chosen = circle("a", "b")
    lease = chosen.take(only=["a"])
    chosen.set_healthy("a", False)

    chosen.add("a", MemberOptions(weight=7))

    state = chosen.states()["a"]
    assert (state.load, state.healthy, state.weight) == (1, False, 7)
    lease.done()
    assert chosen.load("a") == 0


def test_a_new_weight_takes_effect_at_once() -> None:
    chosen = Balancer({"a": MemberOptions(weight=9), "b": MemberOptions(weight=1)}, strategy="priority")
    assert chosen.take().server == "a"

    chosen.add("b", MemberOptions(weight=99))

    assert chosen.take().server == "b"


def test_the_number_of_kept_sets_is_bounded() -> None:
    chosen = Balancer({f"s{index}": MemberOptions() for index in range(40)}, strategy="least-loaded")

    for first in range(40):
        for second in range(first):
            chosen.take(only=frozenset({f"s{first}", f"s{second}"})).done()

    member = chosen.slate(None, None).members["s0"]
    assert len(member.orders) <= MOST_SLATES


def test_load_by_hand_never_falls_below_zero_and_strangers_are_ignored() -> None:
    chosen = circle("a")

    chosen.shift_load("a", 2)
    chosen.shift_load("a", -5)
    chosen.shift_load("stranger", 1)
    chosen.set_healthy("stranger", True)

    assert chosen.load("a") == 0
    assert set(chosen.states()) == {"a"}
    assert not chosen.remove("stranger")


def test_load_by_hand_and_by_lease_together_never_fall_below_zero() -> None:
    chosen = circle("a")
    lease = chosen.take()

    chosen.shift_load("a", -1)
    lease.done()

    assert chosen.load("a") == 0


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="weight"):
        MemberOptions(weight=weight)
    with pytest.raises(ConfigError, match="weight"):
        ServerWeight("a", weight)
