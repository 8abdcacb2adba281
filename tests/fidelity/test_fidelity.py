"""What a caller sees of a server is the same through Trunkline as without it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.fidelity.case import COLUMNS, Case, Column
from tests.fidelity.features import FEATURES, Feature
from tests.fidelity.table import shown
from tests.harness import gateway, plain_command, plain_server

ROOT = Path(__file__).parents[2]
PROGRAM = ["-m", "tests.fidelity.one_era_server", "--era"]

CELLS = [
    pytest.param(feature, column, id=f"{feature.id}-{column}")
    for feature in FEATURES
    for column in COLUMNS
    if column.pair not in feature.cannot
]


@contextmanager
def served(era: str) -> Generator[str]:
    """A server of one era over HTTP; its address."""
    process = subprocess.Popen(plain_command(*PROGRAM, era, "--http"), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        word, port = process.stdout.readline().split()
        assert word == "PORT"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def through(home: Path, column: Column, address: str) -> AsyncGenerator[str]:
    """The address of a gateway in front of one server."""
    server: dict[str, Any] = {"url": address}
    if column.transport == "stdio":
        server = plain_server(*PROGRAM, column.server, cwd=str(ROOT))
    async with gateway(home, {"one": server}, page_size=7) as opened:
        yield opened.url


class Stage:
    """Servers and gateways that many cells share, opened when the first cell wants them."""

    def __init__(self, home: Path, http: aiohttp.ClientSession) -> None:
        self.home, self.http = home, http
        self._servers = ExitStack()
        self._addresses: dict[str, str] = {}
        self._gateways: dict[str, tuple[str, asyncio.Event, asyncio.Task[None]]] = {}

    def server(self, era: str) -> str:
        if era not in self._addresses:
            self._addresses[era] = self._servers.enter_context(served(era))
        return self._addresses[era]

    async def case(self, column: Column) -> Case:
        if str(column) not in self._gateways:
            opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            stop = asyncio.Event()
            # What is opened in one test is closed after another, so it lives in a task of its own.
            task = asyncio.create_task(self._keep(column, opened, stop))
            self._gateways[str(column)] = await opened, stop, task
        return Case(column, self._gateways[str(column)][0], self.server(column.caller), self.http)

    async def _keep(self, column: Column, opened: asyncio.Future[str], stop: asyncio.Event) -> None:
        async with through(self.home / str(column), column, self.server(column.server)) as url:
            opened.set_result(url)
            await stop.wait()

    async def close(self) -> None:
        for _, stop, task in self._gateways.values():
            stop.set()
            await task
        self._servers.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        opened = Stage(tmp_path_factory.mktemp("fidelity"), http)
        try:
            yield opened
        finally:
            await opened.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("feature", "column"), CELLS)
async def test_a_caller_sees_the_same_as_directly(
    feature: Feature, column: Column, stage: Stage, tmp_path: Path
) -> None:
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        if feature.alone:
            direct, address = (stack.enter_context(served(era)) for era in (column.caller, column.server))
            url = await stack.enter_async_context(through(tmp_path, column, address))
            case = Case(column, url, direct, stage.http)
        else:
            case = await stage.case(column)

        await feature.check(case)
    assert shown(feature, column) == "✓"
