from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.call import lanes
from trunkline.call.lanes import FairQueue, Lane, Lanes, Limits, Pace
from trunkline.errors import BusyError, ConfigError


async def settle(turns: int = 5) -> None:
    """Let every task that can go on do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Visitors:
    """Callers of one lane: who entered, in which order, and who gave up."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.entered: list[str] = []
        self.inside: list[str] = []
        self.refused: list[str] = []
        self.owners: dict[str, str] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, owner: str = "") -> None:
        self.tasks[name] = asyncio.create_task(self.visit(name, owner))
        await settle()

    async def visit(self, name: str, owner: str) -> None:
        self.owners[name] = owner
        try:
            if not self.lane.try_enter(owner):
                await self.lane.enter(owner)
        except BusyError:
            self.refused.append(name)
            return
        self.entered.append(name)
        self.inside.append(name)

    async def go(self, name: str = "") -> None:
        name = name or self.inside[0]
        self.inside.remove(name)
        self.lane.leave(self.owners[name])
        await settle()

    def count(self, owner: str) -> int:
        """How many of an owner's are inside."""
        return [self.owners[name] for name in self.inside].count(owner)

    async def empty(self) -> None:
        while self.inside:
            await self.go()


async def test_while_others_come_too_nobody_has_more_than_its_share_inside() -> None:
    lane = Lane("files", Limits(10, per_owner=3))
    visitors = Visitors(lane)
    for number in range(6):
        await visitors.come(f"noisy{number}", "noisy")
    assert visitors.count("noisy") == 6  # alone it may have everything

    await visitors.come("quiet0", "quiet")
    for number in range(6, 50):
        await visitors.come(f"noisy{number}", "noisy")
    assert (visitors.count("noisy"), visitors.count("quiet"), lane.waiting) == (6, 1, 44)

    for number in range(1, 40):
        await visitors.go(next(name for name in visitors.inside if visitors.owners[name] == "noisy"))
        await visitors.go(f"quiet{number - 1}")
        await visitors.come(f"quiet{number}", "quiet")
        assert visitors.inside[-1] == f"quiet{number}"  # at once, whoever waits
        assert visitors.count("noisy") == max(3, 6 - number)
    await visitors.empty()
    assert (len(visitors.entered), lane.inside, lane.waiting) == (90, 0, 0)


@pytest.mark.parametrize(("slots", "share", "most"), [(4, 8, 3), (4, 2, 2), (1, 8, 1)])
async def test_one_place_at_least_is_left_to_others(slots: int, share: int, most: int) -> None:
    visitors = Visitors(Lane("files", Limits(slots, per_owner=share)))
    await visitors.come("quiet", "quiet")
    await visitors.go()

    for number in range(9):
        await visitors.come(f"noisy{number}", "noisy")

    assert visitors.count("noisy") == most
    await visitors.empty()


async def test_whoever_is_alone_again_has_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "RECENT", 0.01)
    visitors = Visitors(Lane("files", Limits(10, per_owner=1)))
    await visitors.come("quiet", "quiet")
    for number in range(3):
        await visitors.come(f"noisy{number}", "noisy")
    await visitors.go("quiet")

    async with asyncio.timeout(5):
        await asyncio.gather(*visitors.tasks.values())

    assert visitors.inside == ["noisy0", "noisy1", "noisy2"]


async def test_as_many_enter_as_there_are_slots_and_the_others_wait() -> None:
    lane = Lane("files", Limits(2))
    visitors = Visitors(lane)

    for name in "abc":
        await visitors.come(name)

    assert (visitors.inside, lane.inside, lane.waiting) == (["a", "b"], 2, 1)
    await visitors.empty()
    assert (visitors.entered, lane.inside, lane.waiting) == (["a", "b", "c"], 0, 0)


async def test_owners_take_turns_whatever_one_of_them_piled_up() -> None:
    visitors = Visitors(Lane("files", Limits(1)))
    await visitors.come("first")
    for number in range(50):
        await visitors.come(f"noisy{number}", "noisy")
    await visitors.come("quiet0", "quiet")
    await visitors.come("quiet1", "quiet")

    await visitors.empty()

    assert visitors.entered[1:6] == ["noisy0", "quiet0", "noisy1", "quiet1", "noisy2"]
    assert len(visitors.entered) == 53


async def test_a_full_queue_refuses_and_names_the_server() -> None:
    lane = Lane("files", Limits(1, queue=1))
    lane.try_enter()
    visitors = Visitors(lane)
    await visitors.come("waits")

    with pytest.raises(BusyError, match="'files'") as caught:
        await lane.enter()

    assert "concurrency" in caught.value.hint
    assert lane.waiting == 1
    visitors.tasks["waits"].cancel()
    await settle()


async def test_in_a_full_queue_the_newest_of_the_owner_with_most_makes_room_for_one_with_less_than_its_share() -> None:
    visitors = Visitors(Lane("files", Limits(1, queue=4)))
    await visitors.come("first")
    for number in range(4):
        await visitors.come(f"noisy{number}", "noisy")

    await visitors.come("quiet0", "quiet")
    await visitors.come("noisy4", "noisy")
    await visitors.come("quiet1", "quiet")
    await visitors.come("quiet2", "quiet")

    assert visitors.refused == ["noisy3", "noisy4", "noisy2", "quiet2"]
    await visitors.empty()
    assert visitors.entered == ["first", "noisy0", "quiet0", "noisy1", "quiet1"]


async def test_who_waits_too_long_is_refused_and_leaves_no_trace() -> None:
    lane = Lane("files", Limits(1, max_wait=60))
    lane.try_enter()

    async with asyncio.timeout(5):
        with pytest.raises(BusyError, match="'files' had no free slot"):
            await lane.enter("ann", max_wait=0.001)

    assert (lane.inside, lane.waiting) == (1, 0)
    lane.leave()
    assert lane.inside == 0


async def test_a_cancelled_waiter_leaves_no_trace() -> None:
    lane = Lane("files", Limits(1))
    visitors = Visitors(lane)
    for name in "abc":
        await visitors.come(name)

    visitors.tasks["b"].cancel()
    await settle()

    assert lane.waiting == 1
    await visitors.empty()
    assert (visitors.entered, lane.inside) == (["a", "c"], 0)


async def test_a_waiter_cancelled_when_its_turn_has_come_passes_the_slot_on() -> None:
    lane = Lane("files", Limits(1))
    visitors = Visitors(lane)
    for name in "abc":
        await visitors.come(name)

    visitors.inside.remove("a")
    lane.leave()  # b's turn, but it has not run yet
    visitors.tasks["b"].cancel()
    await settle()

    assert visitors.inside == ["c"]
    await visitors.empty()
    assert lane.inside == 0


async def test_a_slot_is_not_given_to_a_waiter_that_was_just_cancelled() -> None:
    lane = Lane("files", Limits(1))
    visitors = Visitors(lane)
    for name in "abc":
        await visitors.come(name)

    visitors.tasks["b"].cancel()
    await visitors.go()

    assert visitors.inside == ["c"]
    await visitors.empty()
    assert (lane.inside, lane.waiting) == (0, 0)


async def test_more_slots_let_waiters_in_at_once_and_fewer_apply_as_callers_leave() -> None:
    lane = Lane("files", Limits(1))
    visitors = Visitors(lane)
    for name in "abcd":
        await visitors.come(name)

    lane.resize(Limits(3, 10))
    await settle()
    assert visitors.inside == ["a", "b", "c"]

    lane.resize(Limits(1, 10))
    await visitors.go()
    await visitors.go()
    assert (visitors.inside, lane.inside, lane.waiting) == (["c"], 1, 1)
    await visitors.go()
    assert visitors.inside == ["d"]


@pytest.mark.parametrize(
    "make", [lambda: Limits(0), lambda: Limits(1, -1), lambda: Limits(1, 1, -1.0), lambda: Limits(1, 1, float("nan"))]
)
def test_impossible_limits_are_refused(make: Callable[[], Limits]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_lanes_are_made_on_demand_and_idle_ones_dropped_when_there_are_many() -> None:
    made = Lanes(keep=10)
    busy = made.of("busy")
    busy.try_enter()

    for number in range(1000):
        made.of(f"server{number}")

    assert len(made) <= 20
    assert made.of("busy") is busy


def test_lanes_take_new_limits_while_they_are_used() -> None:
    limits = {"files": Limits(1)}
    made = Lanes(limits.__getitem__)
    lane = made.of("files")
    lane.try_enter()

    limits["files"] = Limits(2, queue=5, max_wait=1.0)
    made.refresh()

    assert lane.try_enter()
    assert (lane.concurrency, lane.queue, lane.max_wait) == (2, 5, 1.0)


owners = st.sampled_from("abc")
moves = st.lists(
    st.one_of(
        st.tuples(st.just("come"), owners),
        st.tuples(st.just("leave"), st.just("")),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("turn"), st.just("")),
        st.tuples(st.just("resize"), st.integers(1, 4)),
    ),
    max_size=60,
)


@given(moves, st.integers(1, 4), st.integers(0, 6), st.integers(0, 2))
def test_whatever_happens_no_slot_is_lost_or_given_twice_and_nobody_is_forgotten(
    moves: list[tuple[str, str | int]], concurrency: int, queue: int, share: int
) -> None:
    async def run() -> None:
        lane = Lane("files", Limits(concurrency, queue, per_owner=share))
        visitors = Visitors(lane)
        for number, (move, what) in enumerate(moves):
            before = lane.inside
            match move, what:
                case "come", str(owner):
                    visitors.tasks[str(number)] = asyncio.create_task(visitors.visit(str(number), owner))
                case "leave", _ if visitors.inside:
                    lane.leave(visitors.owners[visitors.inside.pop()])
                case "cancel", int(which) if which < len(visitors.tasks):
                    list(visitors.tasks.values())[which].cancel()
                case "resize", int(size):
                    lane.resize(Limits(size, queue, per_owner=share))
                case "turn", _:
                    await asyncio.sleep(0)
                case _:
                    pass
            assert len(visitors.inside) <= lane.inside <= max(before, lane.concurrency)
            assert not lane.waiting or lane.inside >= (1 if share else lane.concurrency)
        await settle()
        await visitors.empty()
        assert (lane.inside, lane.waiting) == (0, 0)
        for name, task in visitors.tasks.items():
            assert task.done()
            assert task.cancelled() or name in visitors.entered or name in visitors.refused

    asyncio.run(run())


@given(st.lists(owners, min_size=1, max_size=60))
def test_nobody_is_overtaken_more_often_than_there_are_other_owners_for_each_of_its_own(arrivals: list[str]) -> None:
    queue: FairQueue[int] = FairQueue()
    for number, owner in enumerate(arrivals):
        queue.push(owner, number)

    left = [queue.pop() for _ in arrivals]

    assert sorted(left) == list(range(len(arrivals)))
    others = len(set(arrivals)) - 1
    for number, owner in enumerate(arrivals):
        own_before = arrivals[:number].count(owner)
        assert left.index(number) <= own_before + (own_before + 1) * others
    for owner in set(arrivals):
        own = [number for number in left if arrivals[number] == owner]
        assert own == sorted(own)


@pytest.mark.parametrize(
    ("rate", "times", "let_in"),
    [
        (3, [0, 0, 0, 0, 19, 20, 20, 60, 60], [0, 0, 0, 20, 60, 60]),
        (0.5, [0, 1, 119, 120, 121], [0, 120]),
        (60, [0] * 61 + [1, 1], [0] * 60 + [1]),
    ],
)
def test_a_tool_is_called_so_many_times_a_minute_and_then_as_it_is_due(
    rate: float, times: list[float], let_in: list[float]
) -> None:
    now = 0.0
    pace = Pace(lambda: now)
    entered: list[float] = []
    for now in times:
        with contextlib.suppress(BusyError):
            pace.check("shop", "buy", rate)
            entered.append(now)
    pace.check("shop", "look", rate)

    assert entered == let_in


def test_who_comes_too_early_is_told_when_to_come_again() -> None:
    pace = Pace(lambda: 0.0)
    pace.check("shop", "buy", 0.5)

    with pytest.raises(BusyError, match=r"bears 0\.5 calls in a minute\. Try again in 120 s") as early:
        pace.check("shop", "buy", 0.5)

    assert early.value.retry_after == 120
