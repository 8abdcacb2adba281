"""One server hangs under many callers: they are turned away at once, and other servers are as quick as ever."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.faults.scene import ERAS, caller_of, count
from tests.harness import ModernCaller, faulty, gateway, until

CALLERS, MANY = 200, 500
ROOM = 4
NO_QUEUE = {"batcher": {"max_queue": 0}}


@pytest.mark.parametrize("era", ERAS)
async def test_callers_beyond_a_hung_servers_room_are_told_to_come_back_later(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    log = tmp_path / "log"
    servers = {"hung": faulty("--log", str(log), concurrency=ROOM), "good": faulty(concurrency=CALLERS)}
    async with gateway(tmp_path, servers, sections=NO_QUEUE) as opened:
        caller = await caller_of(era, opened.url, http)
        filling = [asyncio.create_task(caller.call("hung__hang")) for _ in range(ROOM)]
        await until(lambda: count(log, "call hang") == ROOM)

        refused = await asyncio.gather(*(caller.call("hung__echo", {"text": "x"}) for _ in range(CALLERS)))
        others = await asyncio.gather(*(caller.call("good__echo", {"text": str(n)}) for n in range(CALLERS)))
        for task in filling:
            task.cancel()

    assert {heard.status for heard in refused} == {503}
    assert all(int(heard.headers["retry-after"]) >= 1 for heard in refused)
    assert all("'hung'" in heard.error["message"] for heard in refused)
    assert count(log, "call echo") == 0
    assert [heard.text for heard in others] == [str(n) for n in range(CALLERS)]
    assert count(log, "call") == ROOM


async def test_no_more_callers_wait_for_a_hung_server_than_its_queue_has_places(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "log"
    servers = {"hung": faulty("--log", str(log), concurrency=ROOM), "good": faulty(concurrency=ROOM)}
    async with gateway(tmp_path, servers, sections={"batcher": {"max_queue": 16, "max_wait": 600}}) as opened:
        caller = ModernCaller(opened.url, http)
        await caller.call("good__echo", {"text": "x"})
        alone, before = await work_of(caller), psutil.Process().memory_info().rss
        calls = [asyncio.create_task(caller.call("hung__hang")) for _ in range(MANY)]
        await until(lambda: sum(task.done() for task in calls) == MANY - ROOM - 16, 30.0)
        refused = [task.result() for task in calls if task.done()]
        waiting = opened.hub.relay.lane("hung").waiting
        beside, grown = await work_of(caller), psutil.Process().memory_info().rss - before
        for task in calls:
            task.cancel()

    assert {heard.status for heard in refused} == {503}
    assert all(int(heard.headers["retry-after"]) >= 1 for heard in refused)
    assert (waiting, count(log, "call hang")) == (16, ROOM)
    assert beside < alone * 2
    assert grown < 32 * 2**20  # with what the callers themselves take


async def work_of(caller: ModernCaller) -> int:
    """What ten calls of the good server make this process do, in function calls: no other load changes that."""
    done = 0

    def step(frame: object, event: str, argument: object) -> None:
        nonlocal done
        done += event == "call"

    await asyncio.sleep(0)
    sys.setprofile(step)
    try:
        heard = [await caller.call("good__echo", {"text": str(number)}) for number in range(10)]
    finally:
        sys.setprofile(None)
    assert [one.text for one in heard] == [str(number) for number in range(10)]
    return done


async def test_a_server_that_does_not_start_holds_up_no_more_callers_than_it_has_room_for(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    working = faulty(start_timeout=5, concurrency=ROOM)
    hung = {**working, "args": [*working["args"], "--start", "hang"]}
    async with gateway(tmp_path, {"hung": hung}, namespace="never", ready=0, sections=NO_QUEUE) as opened:
        caller = ModernCaller(opened.url, http)

        calls = [asyncio.create_task(caller.call("echo", {"text": "x"})) for _ in range(50)]
        done, waiting = await asyncio.wait(calls, timeout=4.0)
        statuses = {task.result().status for task in done}
        late = await asyncio.gather(*waiting)

    assert len(waiting) <= ROOM
    assert statuses == {503}
    assert all("hung" in heard.error["message"] for heard in late)


async def test_connections_that_say_nothing_lock_nobody_out(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}, max_connections=5) as opened:
        host, port = opened.url.removeprefix("http://").removesuffix("/mcp").split(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
        try:
            answer = await ModernCaller(opened.url, http).call("echo", {"text": "in"})
        finally:
            for _, other in held:
                other.close()

    assert answer.text == "in"
