"""Who leaves a full cache first."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from trunkline.call.cache_entries import ORDERS, Expiry, Lfu, Order


def test_the_least_recently_used_leaves_first() -> None:
    order = filled(ORDERS["lru"](), "abc")
    order.touch("a")

    assert emptied(order, 3) == ["b", "c", "a"]


def test_the_oldest_leaves_first_however_often_it_was_used() -> None:
    order = filled(ORDERS["fifo"](), "abc")
    order.touch("a")

    assert emptied(order, 3) == ["a", "b", "c"]


def test_the_least_frequently_used_leaves_first() -> None:
    order = filled(Lfu(), "abc")
    for key in "aacb":
        order.touch(key)

    assert emptied(order, 3) == ["c", "b", "a"]


def test_a_newcomer_has_been_used_least_frequently() -> None:
    order = filled(Lfu(), "ab")
    order.touch("a")
    order.touch("b")
    order.add("c")

    assert order.first() == "c"


@pytest.mark.parametrize("make", ORDERS.values(), ids=ORDERS)
def test_an_order_that_was_cleared_starts_anew(make: Callable[[], Order]) -> None:
    order = filled(make(), "abc")
    order.touch("a")
    order.clear()

    assert emptied(filled(order, "xy"), 2) == ["x", "y"]


@pytest.mark.parametrize("strategy", ORDERS)
def test_an_order_agrees_with_the_plain_definition(strategy: str) -> None:
    dice = random.Random(7)
    order = ORDERS[strategy]()
    model: dict[str, tuple[int, int]] = {}
    for step in range(20_000):
        key = str(dice.randrange(40))
        if key not in model:
            order.add(key)
            model[key] = (1, step)
        elif dice.random() < 0.7:
            order.touch(key)
            uses, since = model[key]
            model[key] = {"lru": (1, step), "fifo": (1, since), "lfu": (uses + 1, step)}[strategy]
        else:
            order.discard(key)
            del model[key]
        assert not model or order.first() == min(model, key=lambda key: model[key])


def test_what_has_expired_is_found_whatever_the_lifetimes() -> None:
    expiry = Expiry()
    expiry.add("long", 100, 100)
    expiry.add("short", 5, 5)
    expiry.add("shorter", 3, 3)
    expiry.add("short too", 5, 6)

    assert expiry.pop(2.9) is None
    assert expiry.pop(5) == "shorter"
    assert expiry.pop(5) == "short"
    assert expiry.pop(5) is None
    assert expiry.pop(6) == "short too"
    assert expiry.pop(99) is None
    assert expiry.pop(100) == "long"
    assert expiry.pop(1000) is None


def test_expiry_agrees_with_the_plain_definition() -> None:
    dice = random.Random(7)
    expiry = Expiry()
    model: dict[str, tuple[float, float]] = {}
    now = 0.0
    for _ in range(20_000):
        now += dice.choice([0, 0, 0.5, 2])
        key = str(dice.randrange(200))
        if key in model:
            expiry.discard(key, model.pop(key)[0])
        if dice.random() < 0.6:
            ttl = dice.choice([1, 5, 60, dice.random() * 100])
            expiry.add(key, ttl, now + ttl)
            model[key] = (ttl, now + ttl)
        if dice.random() < 0.1:
            found: set[str] = set()
            while (key := expiry.pop(now)) is not None:
                found.add(key)
            assert found == {key for key, (_, expires) in model.items() if expires <= now}
            model = {key: entry for key, entry in model.items() if key not in found}


def test_keys_that_left_early_leave_nothing_behind() -> None:
    expiry = Expiry()
    for step in range(10_000):
        expiry.add("key", 1000 + step, 1000 + step)
        expiry.discard("key", 1000 + step)

    assert len(vars(expiry)["_heads"]) <= 64
    assert len(vars(expiry)["_lanes"]) <= 64


def filled(order: Order, keys: str) -> Order:
    for key in keys:
        order.add(key)
    return order


def emptied(order: Order, count: int) -> list[str]:
    keys: list[str] = []
    for _ in range(count):
        keys.append(order.first())
        order.discard(keys[-1])
    return keys
