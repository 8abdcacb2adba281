"""However the gateway ends, nothing that it started outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.faults.scene import all_tried, descendants, living
from tests.harness import ModernCaller, faulty, gateway, make_config, trunkline_up, until

SERVERS: dict[str, Any] = {
    "stubborn": faulty("--start", "ignoreeof"),
    "family": faulty(),
    "passing": faulty(lifecycle="transient"),
}


def is_warden(process: psutil.Process) -> bool:
    return any(word.endswith("warden.py") for word in process.cmdline())


async def raise_a_family(caller: ModernCaller) -> None:
    """Have grandchildren started, in the server's process group and out of it, by a stubborn server too."""
    for tool in ("family__fork", "family__fork_setsid", "stubborn__fork", "stubborn__fork_setsid"):
        assert (await caller.call(tool)).text.isdigit()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_no_process_outlives_a_gateway_that_is_signalled(
    tmp_path: Path, http: aiohttp.ClientSession, number: signal.Signals
) -> None:
    with trunkline_up(tmp_path, {"gateway": {}, "servers": SERVERS}) as (url, process):
        await all_tried(http, url)
        await raise_a_family(ModernCaller(url, http))
        family = descendants(process.pid)
        assert len(family) >= 7  # the warden, two servers, four grandchildren

        os.kill(process.pid, number)
        code = process.wait(15 if number != signal.SIGKILL else 2)

        await until(lambda: not living(family), 2.0)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0)


async def test_no_process_outlives_a_gateway_killed_in_the_middle_of_calls(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with trunkline_up(tmp_path, {"gateway": {}, "servers": SERVERS}) as (url, process):
        await all_tried(http, url)
        caller = ModernCaller(url, http)
        await raise_a_family(caller)
        calls = [asyncio.create_task(caller.call(f"{name}__hang")) for name in SERVERS for _ in range(3)]
        await until(lambda: len(descendants(process.pid)) >= 10)
        family = descendants(process.pid)

        process.kill()
        process.wait(2)

        await until(lambda: not living(family), 2.0)
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_gateway_asked_to_stop_lets_a_call_finish(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    log = tmp_path / "log"
    config = {"gateway": {}, "servers": {"one": faulty("--log", str(log))}}
    with trunkline_up(tmp_path, config) as (url, process):
        await all_tried(http, url)
        working = asyncio.create_task(ModernCaller(url, http).call("slow", {"seconds": 0.7}))
        await until(lambda: log.exists() and "call slow" in log.read_text())

        process.terminate()

        assert (await working).text == "slow"
        assert await asyncio.to_thread(process.wait, 10) == 0


async def test_no_process_outlives_a_gateway_that_closes_in_process(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, SERVERS) as opened:
        await raise_a_family(ModernCaller(opened.url, http))
        family = descendants(os.getpid())

    assert len(family) >= 7
    assert not living(family)


async def test_a_grandchild_ends_with_the_server_that_started_it(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"family": faulty(), "other": faulty()}) as opened:
        caller = ModernCaller(opened.url, http)
        pids = [int((await caller.call(f"family__{tool}")).text) for tool in ("fork", "fork_setsid")]
        children = [psutil.Process(pid) for pid in pids]

        await caller.call("family__crash")

        await until(lambda: not living(children), 2.0)
        assert (await caller.call("other__echo", {"text": "well"})).text == "well"


async def test_servers_come_back_after_somebody_killed_the_warden(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty(), "two": faulty()}) as opened:
        caller = ModernCaller(opened.url, http)
        family = descendants(os.getpid())
        warden = next(process for process in living(family) if is_warden(process))

        warden.kill()
        await until(lambda: not living(family), 2.0)

        answers = [(await caller.call(f"{name}__echo", {"text": name})).text for name in ("one", "two")]
    assert answers == ["one", "two"]


async def test_a_server_that_is_removed_leaves_no_process(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, SERVERS) as opened:
        await raise_a_family(ModernCaller(opened.url, http))
        family = [process for process in living(descendants(os.getpid())) if not is_warden(process)]

        await opened.hub.apply(make_config(tmp_path, {}))

        await until(lambda: not living(family), 5.0)
