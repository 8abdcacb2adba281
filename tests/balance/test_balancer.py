"""Servers of which one is chosen for each call, and the lease that is its load until the call has ended."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from tests.balance.circle import Circle
from tests.balance.clock import Clock
from trunkline.balance.balancer import AT_ONCE, MOST_SUBSETS, Balancer, Lease, Outcome, Subset, open_checks, verdict
from trunkline.balance.groups import ServerWeight
from trunkline.errors import (
    AuthorizationNeededError,
    BusyError,
    ConfigError,
    NoServerError,
    ServerRefusedError,
    SessionLostError,
    UnreachableError,
    UpstreamError,
    UpstreamTimeoutError,
)


def circle(*names: str) -> Circle:
    return Circle(names, clock=Clock())


def test_only_the_named_candidates_are_asked() -> None:
    chosen = circle("a", "b", "c")

    assert {chosen.choose(only=["a", "c", "unknown"]).server for _ in range(10)} == {"a", "c"}
    assert chosen.find(only=[]) is None
    assert Balancer().take() is None


def test_load_counts_for_a_server_and_not_for_a_set() -> None:
    chosen = Circle("abc", strategy="least-loaded")
    held = [chosen.choose(only=["a"]) for _ in range(3)]

    assert {chosen.choose(only=["a", "b"]).server for _ in range(5)} == {"b"}
    assert len(held) == 3


def test_a_preferred_server_is_chosen_while_it_is_well_and_among_the_candidates() -> None:
    chosen = circle("a", "b", "c")
    everyone, others = Subset("abc", "round-robin"), Subset("bc", "round-robin")

    def where(subset: Subset) -> set[str]:
        leases = [chosen.take(subset, prefer=("a", "c")) for _ in range(5)]
        return {lease.server for lease in leases if lease and lease.pinned}

    assert (where(everyone), where(others)) == ({"a"}, {"c"})
    chosen.set_healthy("a", False)
    assert where(everyone) == {"c"}


def test_the_next_subset_is_asked_when_nobody_in_the_first_can_take_the_call() -> None:
    chosen = circle("a", "b")
    near, far = Subset("a", "round-robin"), Subset("ab", "round-robin")

    assert [lease.server for _ in range(3) if (lease := chosen.take(near, far))] == ["a", "a", "a"]
    chosen.set_healthy("a", False)
    lease = chosen.take(near, far)
    assert lease is not None
    assert (lease.server, lease.subset) == ("b", far)


def test_adding_again_keeps_load_and_health() -> None:
    chosen = circle("a", "b")
    lease = chosen.choose(only=["a"])
    chosen.set_healthy("a", False)

    chosen.add("a", weight=7)

    state = chosen.states()["a"]
    assert (state.load, state.healthy, state.weight) == (1, False, 7)
    lease.done()
    assert chosen.load("a") == 0


def test_a_new_weight_takes_effect_at_once() -> None:
    chosen = Circle("ab", strategy="priority")
    chosen.add("a", weight=9)
    assert chosen.choose().server == "a"

    chosen.add("b", weight=99)

    assert chosen.choose().server == "b"


def test_the_number_of_kept_sets_is_bounded() -> None:
    chosen = Circle([f"s{index}" for index in range(40)], strategy="least-loaded")

    for first in range(40):
        for second in range(first):
            chosen.choose(only=frozenset({f"s{first}", f"s{second}"})).done()

    member = chosen.subset().members["s0"]
    assert len(member.orders) <= MOST_SUBSETS


def test_a_subset_that_was_put_aside_keeps_its_names_and_is_opened_again() -> None:
    chosen = circle("a", "b")
    first = Subset("ab", "least-loaded")
    assert chosen.take(first) is not None

    for _ in range(MOST_SUBSETS):
        chosen.open(Subset("ab", "round-robin"))

    assert not first.members
    assert first.ranked(exclude="a") == ("b",)
    assert {lease.server for _ in range(4) if (lease := chosen.take(first))} == {"a", "b"}


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
    lease = chosen.choose()

    chosen.shift_load("a", -1)
    lease.done()

    assert chosen.load("a") == 0


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="weight"):
        ServerWeight("a", weight)


def test_a_priority_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="priority"):
        ServerWeight("a", priority=float("nan"))


def lonely(ended: list[Outcome] | None = None) -> Circle:
    def end(lease: Lease, outcome: Outcome) -> None:
        if ended is not None:
            ended.append(outcome)

    return Circle("a", on_end=end)


def test_a_lease_counts_while_it_is_open() -> None:
    chosen = lonely()

    with chosen.choose() as lease:
        assert chosen.load("a") == 1
        assert lease.open

    assert chosen.load("a") == 0
    assert not lease.open


def test_done_counts_once() -> None:
    ended: list[Outcome] = []
    chosen = lonely(ended)
    lease = chosen.choose()
    chosen.choose()

    lease.done()
    lease.done(False)
    lease.cancel()

    assert chosen.load("a") == 0
    assert ended == ["unused", "ok"]


def test_a_dropped_lease_gives_its_load_back() -> None:
    ended: list[Outcome] = []
    chosen = lonely(ended)

    chosen.choose()
    gc.collect()

    assert chosen.load("a") == 0
    assert ended == ["unused"]


async def test_a_cancelled_call_gives_its_load_back_and_says_nothing_about_the_server() -> None:
    ended: list[Outcome] = []
    chosen = lonely(ended)
    begun = asyncio.Event()

    async def call() -> None:
        with chosen.choose():
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(call())
    async with asyncio.timeout(5):
        await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert chosen.load("a") == 0
    assert ended == ["unclear"]


def test_a_lease_may_outlive_its_server() -> None:
    chosen = lonely()
    lease = chosen.choose()

    chosen.remove("a")
    chosen.add("a")
    lease.done(False)

    assert chosen.load("a") == 0
    assert chosen.states()["a"].errors == 0


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (UpstreamError("x"), False),
        (UnreachableError("x"), False),
        (UpstreamTimeoutError("x"), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
        (ServerRefusedError("x", code=-32602), True),
        (AuthorizationNeededError("x"), None),
        (SessionLostError("x"), None),
        (NoServerError("x"), None),
        (BusyError("x"), None),
        (ValueError(), None),
        (asyncio.CancelledError(), None),
    ],
)
def test_what_an_error_says_about_the_server(error: BaseException, says: bool | None) -> None:
    assert verdict(error) is says


async def test_every_server_is_asked_and_an_error_means_no(caplog: pytest.LogCaptureFixture) -> None:
    async def probe(server: str) -> bool:
        match server:
            case "gone":
                raise UnreachableError("gone")
            case "refused":
                raise ConnectionRefusedError
            case "odd":
                raise ValueError
            case _:
                return server == "well"

    with caplog.at_level(logging.CRITICAL, "trunkline"):
        found = await circle("well", "ill", "gone", "refused", "odd").ask(probe, timeout=5)

    assert found == {"well": True, "ill": False, "gone": False, "refused": False, "odd": False}


async def test_a_silent_server_is_not_waited_for() -> None:
    async def probe(server: str) -> bool:
        if server == "silent":
            await asyncio.Event().wait()
        return True

    async with asyncio.timeout(5):
        assert await circle("silent", "well").ask(probe, timeout=0.01) == {"silent": False, "well": True}


async def test_not_too_many_are_asked_at_once() -> None:
    running, most = 0, 0

    async def probe(server: str) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return True

    await circle(*(str(number) for number in range(5 * AT_ONCE))).ask(probe, timeout=5)

    assert most == AT_ONCE


async def test_checks_go_on_until_the_body_ends() -> None:
    rounds, slept = 0, list[float]()
    enough = asyncio.Event()

    async def once() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            enough.set()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    async with asyncio.timeout(5), open_checks(once, interval=30, sleep=sleep):
        await enough.wait()

    done = rounds
    await asyncio.sleep(0)
    assert set(slept) == {30}
    assert rounds == done
    assert len(asyncio.all_tasks()) == 1
