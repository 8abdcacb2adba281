"""Who is next, strategy by strategy."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balance.circle import Circle
from trunkline.balance.balancer import Lease
from trunkline.balance.strategies import FEW, STRATEGIES, Strategy


def circle(strategy: Strategy, *weights: float, priorities: tuple[float, ...] = ()) -> Circle:
    chosen = Circle((), strategy=strategy, random=Random(7))
    for index, weight in enumerate(weights):
        chosen.add(f"s{index}", weight=weight, priority=priorities[index] if priorities else 0)
    return chosen


def spread(chosen: Circle, calls: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(calls):
        with chosen.choose() as lease:
            found[lease.server] += 1
    return found


def test_shares_follow_the_weights_within_five_percent() -> None:
    weights = (50.0, 25.0, 15.0, 7.0, 3.0)

    found = spread(circle("weighted", *weights), 10_000)

    for index, weight in enumerate(weights):
        assert found[f"s{index}"] == pytest.approx(10_000 * weight / sum(weights), rel=0.05)


@given(st.lists(st.integers(1, 100), min_size=2, max_size=12))
def test_shares_follow_any_weights(weights: list[int]) -> None:
    found = spread(circle("weighted", *map(float, weights)), 2_000)

    for index, weight in enumerate(weights):
        assert abs(found[f"s{index}"] - 2_000 * weight / sum(weights)) <= len(weights)


def test_weighted_turns_are_spread_and_not_in_bursts() -> None:
    chosen = circle("weighted", 3, 1)

    order = [chosen.choose().server for _ in range(8)]

    assert order.count("s0") == 6
    assert "s1" in order[:4]
    assert "s1" in order[4:]


def test_a_weight_of_zero_takes_calls_only_when_nobody_else_can() -> None:
    chosen = circle("weighted", 1, 0)

    assert spread(chosen, 100) == {"s0": 100}

    chosen.set_healthy("s0", False)
    assert spread(chosen, 10) == {"s1": 10}

    chosen.set_healthy("s0", True)
    assert spread(chosen, 10) == {"s0": 10}


def test_weights_that_are_all_zero_are_equal() -> None:
    assert set(spread(circle("weighted", 0, 0, 0), 30).values()) == {10}


@pytest.mark.parametrize("strategy", ["round-robin", "least-loaded", "priority", "capability-based", "affinity"])
@pytest.mark.parametrize("size", [2, 3, 10, FEW + 4])
def test_equal_servers_take_turns(strategy: Strategy, size: int) -> None:
    found = spread(circle(strategy, *([1.0] * size)), 10 * size)

    assert set(found.values()) == {10}


def test_random_reaches_everybody_about_equally() -> None:
    found = spread(circle("random", 1, 1, 1, 1), 8_000)

    assert all(count == pytest.approx(2_000, rel=0.1) for count in found.values())


def test_priority_takes_the_heaviest_that_is_well() -> None:
    chosen = circle("priority", 20, 80, 50)

    assert spread(chosen, 5) == {"s1": 5}

    chosen.set_healthy("s1", False)
    assert spread(chosen, 5) == {"s2": 5}


def test_failover_only_leaves_the_first_only_when_it_fails() -> None:
    chosen = circle("failover-only", 1, 1, 1, priorities=(2, 0, 1))

    assert spread(chosen, 5) == {"s1": 5}
    assert chosen.choose(exclude=["s1"]).server == "s2"

    chosen.set_healthy("s1", False)
    assert spread(chosen, 5) == {"s2": 5}


@pytest.mark.parametrize("size", [3, FEW + 10])
def test_the_least_loaded_is_chosen_while_leases_are_open(size: int) -> None:
    chosen = circle("least-loaded", *([1.0] * size))

    leases = [chosen.choose() for _ in range(3 * size)]

    assert {state.load for state in chosen.states().values()} == {3}
    freed = leases[size]
    freed.done()
    assert chosen.choose().server == freed.server


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=120), st.sampled_from([4, FEW + 8]))
def test_nobody_with_less_load_is_passed_over(steps: list[tuple[bool, int]], size: int) -> None:
    chosen = circle("least-loaded", *([1.0] * size))
    leases: list[Lease] = []

    for take, index in steps:
        if take or not leases:
            least = min(state.load for state in chosen.states().values())
            lease = chosen.choose()
            assert chosen.load(lease.server) == least + 1
            leases.append(lease)
        else:
            leases.pop(index % len(leases)).done()

    assert sum(state.load for state in chosen.states().values()) == len(leases)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [2, 3, FEW + 4])
def test_the_excluded_are_never_chosen_and_the_rest_always_found(strategy: Strategy, size: int) -> None:
    chosen = circle(strategy, *([1.0] * size))
    names = chosen.names()

    for left in names:
        excluded = [name for name in names if name != left]
        assert {chosen.choose(exclude=excluded).server for _ in range(20)} == {left}


def test_different_sets_do_not_all_start_with_the_same_server() -> None:
    chosen = circle("round-robin", *([1.0] * 30))
    sets = [frozenset({"s0", f"s{index}"}) for index in range(1, 30)]

    first = Counter(chosen.choose(only=names).server for names in sets)

    assert 5 < first["s0"] < 24


def test_members_that_come_and_go_leave_nothing_behind() -> None:
    chosen = circle("priority", 90, 50, 50)

    for _ in range(1_000):
        chosen.set_healthy("s2", False)
        chosen.set_healthy("s2", True)
        chosen.choose().done()
        heap: list[object] = vars(chosen.subset().order)["_heap"]
        assert len(heap) < 100
