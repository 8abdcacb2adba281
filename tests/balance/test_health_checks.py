"""Servers are asked whether they are well."""

from __future__ import annotations

import asyncio
import logging

import pytest

from trunkline.balance.health_checks import AT_ONCE, check, open_checks
from trunkline.errors import UnreachableError


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
        found = await check(["well", "ill", "gone", "refused", "odd"], probe)

    assert found == {"well": True, "ill": False, "gone": False, "refused": False, "odd": False}


async def test_a_silent_server_is_not_waited_for() -> None:
    async def probe(server: str) -> bool:
        if server == "silent":
            await asyncio.Event().wait()
        return True

    async with asyncio.timeout(5):
        assert await check(["silent", "well"], probe, timeout=0.01) == {"silent": False, "well": True}


async def test_not_too_many_are_asked_at_once() -> None:
    running, most = 0, 0

    async def probe(server: str) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return True

    await check([str(number) for number in range(5 * AT_ONCE)], probe)

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
