"""Equal work is done once, for as long as somebody waits."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from trunkline.call.single_flight import SingleFlight
from trunkline.errors import CancelledCallError


class Work:
    """Work that ends when told to, and knows how often it was started and cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.finish = asyncio.Event()
        self.starts = 0
        self.cancelled = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.starts += 1
        self.started.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return self.starts


def nothing_is_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


async def joined(flights: SingleFlight[int], work: Work, count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(flights.join("key", work)) for _ in range(count)]
    await work.started.wait()
    await asyncio.sleep(0)
    return tasks


async def test_who_joins_gets_the_result_of_the_work_under_way() -> None:
    flights, work = SingleFlight[int](), Work()
    async with asyncio.timeout(5):
        tasks = await joined(flights, work, 1000)
        work.finish.set()

        assert await asyncio.gather(*tasks) == [1] * 1000
    assert flights.keys() == []
    assert nothing_is_left()


async def test_different_keys_do_not_wait_for_each_other() -> None:
    flights, slow, quick = SingleFlight[int](), Work(), Work()
    quick.finish.set()
    async with asyncio.timeout(5):
        [waiting] = await joined(flights, slow, 1)

        assert await flights.join("other", quick) == 1
        assert flights.keys() == ["key"]
        slow.finish.set()
        await waiting


async def test_an_error_reaches_all_and_is_not_kept() -> None:
    flights, work = SingleFlight[int](), Work()
    work.error = RuntimeError("broken")
    async with asyncio.timeout(5):
        tasks = await joined(flights, work, 3)
        work.finish.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        work.error = None

        assert [str(outcome) for outcome in outcomes] == ["broken"] * 3
        assert await flights.join("key", work) == 2
    assert nothing_is_left()


async def test_who_comes_as_an_error_is_told_does_not_get_it() -> None:
    flights, late = SingleFlight[int](), list[asyncio.Task[int]]()

    async def works() -> int:
        return 1

    async def fails() -> int:
        late.append(asyncio.create_task(flights.join("key", works)))  # runs before those who wait have heard
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await flights.join("key", fails)
    assert await late[0] == 1


async def test_one_who_is_cancelled_does_not_disturb_the_others() -> None:
    flights, work = SingleFlight[int](), Work()
    async with asyncio.timeout(5):
        first, second, third = await joined(flights, work, 3)
        first.cancel()
        third.cancel()
        await asyncio.wait([first, third])
        work.finish.set()

        assert await second == 1
    assert first.cancelled()
    assert third.cancelled()
    assert work.cancelled == 0
    assert nothing_is_left()


async def test_with_the_last_waiter_the_work_is_cancelled() -> None:
    flights, work = SingleFlight[int](), Work()
    async with asyncio.timeout(5):
        tasks = await joined(flights, work, 3)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    assert all(task.cancelled() for task in tasks)
    assert work.cancelled == 1
    assert flights.keys() == []
    assert nothing_is_left()


async def test_who_comes_after_the_last_waiter_left_starts_anew() -> None:
    flights, work = SingleFlight[int](), Work()
    async with asyncio.timeout(5):
        [task] = await joined(flights, work, 1)
        task.cancel()
        fresh = asyncio.create_task(flights.join("key", work))
        await asyncio.wait([task])
        work.finish.set()

        assert await fresh == 2
    assert work.cancelled == 1
    assert nothing_is_left()


async def test_a_deadline_of_one_waiter_is_its_own() -> None:
    flights, work = SingleFlight[int](), Work()
    async with asyncio.timeout(5):
        [patient] = await joined(flights, work, 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await flights.join("key", work)
        work.finish.set()

        assert await patient == 1


async def test_who_waits_for_work_that_somebody_else_cancelled_gets_an_error() -> None:
    flights = SingleFlight[int]()

    async def withdrawn() -> int:
        raise asyncio.CancelledError

    with pytest.raises(CancelledCallError, match="'key' was cancelled"):
        await flights.join("key", withdrawn)
    assert nothing_is_left()


async def test_forgotten_work_serves_those_who_wait_and_nobody_else() -> None:
    flights, old, new = SingleFlight[int](), Work(), Work()
    new.starts = 10
    async with asyncio.timeout(5):
        [early] = await joined(flights, old, 1)
        flights.forget("key")
        [late] = await joined(flights, new, 1)
        old.finish.set()
        new.finish.set()

        assert await early == 1
        assert await late == 11
    assert nothing_is_left()


async def test_work_knows_whether_it_was_forgotten() -> None:
    flights = SingleFlight[bool]()

    async def remembered() -> bool:
        return flights.leads("key")

    async def forgotten() -> bool:
        flights.forget("key")
        return flights.leads("key")

    assert await flights.join("key", remembered)
    assert not await flights.join("key", forgotten)
    assert not flights.leads("key")


async def test_an_error_that_nobody_waits_for_is_not_complained_about(caplog: pytest.LogCaptureFixture) -> None:
    flights = SingleFlight[int]()
    started = asyncio.Event()

    async def breaks_when_cancelled() -> int:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("broken")

    async with asyncio.timeout(5):
        task = asyncio.create_task(flights.join("key", breaks_when_cancelled))
        await started.wait()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()
    assert nothing_is_left()
    del task
    gc.collect()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_work_that_does_not_end_holds_its_last_waiter_only_for_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.call.single_flight.CLEANUP", 0.01)
    flights, started, release = SingleFlight[int](), asyncio.Event(), asyncio.Event()

    async def deaf() -> int:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return 1

    async with asyncio.timeout(5):
        task = asyncio.create_task(flights.join("key", deaf))
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        release.set()

    assert task.cancelled()
    assert "goes on" in caplog.text
