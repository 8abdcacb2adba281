"""Programs that mean harm are contained: each ends with a clear error, says nothing it should not, and harms nobody."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.sandbox.hostile import HARMLESS, KINDS, SECRET, SENT
from tests.sandbox.shop import Shop, shop_hub
from trunkline import Config, GatewayConfig, Hub, ProgramError, ProgramResult, Tool, ToolResult
from trunkline.call.middleware.chain import CallNext, ToolContext

Scene = tuple[Hub, Shop]
TOGETHER = 4
FORBIDDEN = re.compile(rf"{SECRET}|uid=\d|root:x:|/usr/|site-packages|<frame|<class 'os|<module 'os")
LONGEST = 5_000
MORE = 64 * 2**20
"""Bytes by which the gateway may grow, whatever programs do."""

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def leaky(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
    """A middleware of somebody who puts secrets into errors."""
    if tool.name == "fail":
        raise LookupError(f"password={SECRET}")
    return await call_next(params)


def open_scene(home: Path, **limits: Any) -> AbstractAsyncContextManager[Scene]:
    small = {
        "processes": 2,
        "compute": 0.4,
        "memory": 2**25,
        "calls": 20,
        "printed": 4096,
        "value": 2**16,
        "timeout": 3.0,
    }
    return shop_hub(home, Config(gateway=GatewayConfig(namespace="never")), **{**small, **limits})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Scene]:
    os.environ["TRUNKLINE_CANARY"] = SECRET
    async with open_scene(tmp_path_factory.mktemp("home")) as opened:
        opened[0].use(leaky)
        yield opened
    del os.environ["TRUNKLINE_CANARY"]


async def outcome(hub: Hub, code: str) -> ProgramResult | ProgramError:
    try:
        return await hub.run(code)
    except ProgramError as error:
        return error


def said(came: ProgramResult | ProgramError) -> str:
    """All that a program tells."""
    return f"{came} {came.hint}" if isinstance(came, ProgramError) else f"{came.value!r} {came.printed}"


async def each(hub: Hub, codes: list[str]) -> dict[str, ProgramResult | ProgramError]:
    """How each ends, a few at a time."""
    places = asyncio.Semaphore(TOGETHER)

    async def one(code: str) -> ProgramResult | ProgramError:
        async with places:
            return await outcome(hub, code)

    return dict(zip(codes, await asyncio.gather(*map(one, codes)), strict=True))


@pytest.mark.parametrize("kind", KINDS)
async def test_every_hostile_program_ends_with_an_error_that_says_nothing_secret(scene: Scene, kind: str) -> None:
    hub, shop = scene
    await hub.run("1")

    with watched() as grown:
        ends = await each(hub, KINDS[kind])

    told = {code: said(end) for code, end in ends.items()}
    ran = [code for code, end in ends.items() if isinstance(end, ProgramResult)]
    assert {code: text for code, text in told.items() if FORBIDDEN.search(text)} == {}
    assert [code for code, text in told.items() if len(text) > LONGEST and code not in ran] == []
    assert [code for code, text in told.items() if not text.strip()] == []
    assert [code for code in ran if code not in HARMLESS] == []
    assert (await hub.run("(await look(item=2))['price']")).value == 20
    assert shop.bought == []
    assert grown() <= MORE


async def test_what_code_of_ours_raised_is_not_told_to_a_program(scene: Scene) -> None:
    told = await scene[0].run("try:\n    await fail()\nexcept Exception as error:\n    x = str(error)\nx")

    assert told.value
    assert "till" not in str(told.value)  # it was the middleware that failed, and not the tool
    assert SECRET not in str(told.value)


async def test_large_values_of_many_programs_at_once_are_never_the_gateways(tmp_path: Path) -> None:
    async with open_scene(tmp_path, running_per_user=40, memory=2**26, compute=5.0, timeout=60.0) as (hub, _):
        await asyncio.gather(*(hub.run("1") for _ in range(4)))
        with watched() as grown:
            ends = await asyncio.gather(*(outcome(hub, code) for code in SENT[:16]))

    assert [said(end) for end in ends if isinstance(end, ProgramResult)] == []
    assert grown() <= MORE // 4


async def test_forty_memory_bombs_at_once_leave_the_gateway_and_its_callers_alone(tmp_path: Path) -> None:
    bombs = ["x = []\nwhile True:\n    x.append('y' * 100_000)", "'x' * 10**10", "x = 'x'\nwhile True:\n    x += x"]
    async with open_scene(tmp_path, running_per_user=40, memory=2**26, compute=2.0, timeout=60.0) as (hub, _):
        await hub.run("1")
        answered = 0
        with watched() as grown:
            running = [asyncio.ensure_future(outcome(hub, bombs[at % len(bombs)])) for at in range(40)]
            while not all(one.done() for one in running):
                answered += (await hub.call("look", {"item": 1})).structured == {"item": 1, "price": 10}
                await asyncio.sleep(0)
        ends = await asyncio.gather(*running)

    assert [said(end) for end in ends if isinstance(end, ProgramResult)] == []
    assert answered > 40
    assert grown() <= MORE


@contextmanager
def watched() -> Generator[Callable[[], int]]:
    """Tells by how many bytes this process grew at most."""
    before = most = memory()
    over = threading.Event()

    def look() -> None:
        nonlocal most
        while not over.wait(0.002):
            most = max(most, memory())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield lambda: most - before
    finally:
        over.set()
        looking.join()


def memory() -> int:
    """Bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
