"""After much use, and much misuse, a gateway holds what it held before."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import descendants, living
from tests.harness import LegacyCaller, ModernCaller, faulty, faulty_http, gateway, make_config, until
from trunkline.gateway.serve import open_gateway


@dataclass(frozen=True)
class Held:
    """What a process has at one moment."""

    files: int
    children: int
    tasks: int

    def within(self, other: Held) -> bool:
        """Whether nothing is more than in the other."""
        return self.files <= other.files and self.children <= other.children and self.tasks <= other.tasks


def held() -> Held:
    children = living(descendants(os.getpid()))
    return Held(len(os.listdir("/proc/self/fd")), len(children), len(asyncio.all_tasks()))


async def returns_to_baseline(act: Callable[[], Awaitable[None]]) -> None:
    """Act once to warm up, once for real, and wait until nothing of it is left."""
    await act()
    # Keep-alive connections to servers and gates of failures settle within a few seconds.
    await asyncio.sleep(0)
    before = await settled()
    await act()
    try:
        await until(lambda: held().within(before), 10.0)
    except TimeoutError:
        names = sorted(task.get_name() for task in asyncio.all_tasks())
        pytest.fail(f"{before} became {held()}; tasks: {names}")


async def settled() -> Held:
    """What is held once that no longer falls."""
    lowest, since = held(), asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - since < 1.0:
        await asyncio.sleep(0.05)
        now = held()
        if now != lowest and now.within(lowest):
            lowest, since = now, asyncio.get_running_loop().time()
    return lowest


async def many(count: int, make: Callable[[int], Coroutine[Any, Any, Any]], *, at_once: int = 50) -> None:
    """Run so many, some at once."""
    for start in range(0, count, at_once):
        await asyncio.gather(*(make(number) for number in range(start, min(start + at_once, count))))


@pytest.mark.slow
async def test_calls_leave_nothing_behind(tmp_path: Path) -> None:
    with faulty_http() as url:
        async with gateway(tmp_path, {"lines": faulty(), "remote": {"url": url}}) as opened:

            async def act() -> None:
                async with aiohttp.ClientSession() as http:
                    modern = ModernCaller(opened.url, http)
                    legacy = await LegacyCaller(opened.url, http).open()
                    callers = (modern, legacy)

                    async def one(number: int) -> None:
                        server = ("lines", "remote")[number // 2 % 2]
                        heard = await callers[number % 2].call(f"{server}__echo", {"text": str(number)})
                        assert heard.text == str(number)

                    await many(1500, one)

            await returns_to_baseline(act)


@pytest.mark.slow
async def test_calls_that_fail_leave_nothing_behind(tmp_path: Path) -> None:
    with faulty_http() as url:
        servers = {"lines": faulty(timeout=0.1), "remote": {"url": url, "timeout": 0.1}}
        async with gateway(tmp_path, servers) as opened:

            async def act() -> None:
                async with aiohttp.ClientSession() as http:
                    callers = (ModernCaller(opened.url, http), await LegacyCaller(opened.url, http).open())
                    tools = ("lines__hang", "remote__hang", "lines__garbage", "remote__reset", "remote__half_body")

                    async def one(number: int) -> None:
                        assert (await callers[number % 2].call(tools[number % 5])).error

                    await many(200, one, at_once=20)

            await returns_to_baseline(act)


@pytest.mark.slow
async def test_connects_leave_nothing_behind(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"lines": faulty(), "other": faulty()}) as opened:

        async def one(number: int) -> None:
            async with aiohttp.ClientSession() as http:
                caller = await LegacyCaller(opened.url, http).open()
                assert (await caller.call("lines__echo", {"text": "x"})).text == "x"
                if number % 2:
                    async with http.delete(opened.url, headers=caller.headers) as response:
                        assert response.status == 200

        await returns_to_baseline(lambda: many(150, one, at_once=10))


@pytest.mark.slow
async def test_callers_that_vanish_leave_nothing_behind(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"lines": faulty(), "other": faulty()}) as opened:

        async def one(number: int) -> None:
            async with aiohttp.ClientSession() as http:
                caller = await LegacyCaller(opened.url, http).open() if number % 2 else ModernCaller(opened.url, http)
                calling = asyncio.create_task(caller.call("lines__hang"))
                await asyncio.sleep(0.01 * (number % 5))
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)

        await returns_to_baseline(lambda: many(100, one, at_once=10))


@pytest.mark.slow
async def test_servers_that_crash_leave_nothing_behind(tmp_path: Path) -> None:
    servers = {"passing": faulty(lifecycle="transient", concurrency=20), "other": faulty()}
    async with gateway(tmp_path, servers) as opened:

        async def act() -> None:
            async with aiohttp.ClientSession() as http:
                caller = ModernCaller(opened.url, http)

                async def one(number: int) -> None:
                    assert (await caller.call("passing__crash")).error

                await many(50, one, at_once=5)

        await returns_to_baseline(act)


@pytest.mark.slow
async def test_sessions_are_capped_however_many_are_begun(tmp_path: Path) -> None:
    most = 500
    async with open_gateway(make_config(tmp_path, {"one": faulty(), "two": faulty()}, max_sessions=most)) as opened:
        await opened.hub.ready(10)

        async def act() -> None:
            async with aiohttp.ClientSession() as http:
                first = await LegacyCaller(opened.url, http).open()
                await many(1000, lambda _: begin(http, opened.url))
                gone = await first.request("ping")
                assert (gone.status, len(opened.app.legacy.sessions)) == (404, most)

        await returns_to_baseline(act)


async def begin(http: aiohttp.ClientSession, url: str) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    async with http.post(url, data=body, headers=headers) as response:
        assert response.status == 200
        await response.read()


@pytest.mark.slow
async def test_idle_sessions_end_by_themselves(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}, session_idle=0.1) as opened:
        caller = await LegacyCaller(opened.url, http).open()

        await until(lambda: len(opened.app.legacy.sessions) == 0, 8.0)

        assert (await caller.request("ping")).status == 404
