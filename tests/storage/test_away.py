"""A gateway whose PostgreSQL goes away under load: who was let in still is, changes are refused, and it comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import ModernCaller, gateway, until
from tests.storage.postgres import running, start
from tests.tenancy.test_access import notes
from tests.tenancy.test_people import Admin
from trunkline.storage.store import open_store, place_of


@asynccontextmanager
async def under_load(caller: ModernCaller) -> AsyncGenerator[list[int]]:
    """Calls of one caller, one after the other, for the body; what each was answered."""
    answered: list[int] = []

    async def call() -> None:
        while True:
            heard = await caller.call("one__read_note")
            answered.append(heard.status if "result" in heard.message else 500)

    task = asyncio.ensure_future(call())
    try:
        yield answered
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def more(answered: list[int]) -> None:
    """Wait until there were some more calls."""
    wanted = len(answered) + 5
    await until(lambda: len(answered) >= wanted, 20)


def stop(folder: Path) -> None:
    """End a server at once, whoever is connected."""
    pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGINT)


async def test_callers_who_were_let_in_are_served_while_the_store_is_away_and_it_comes_back(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    with running() as folder:
        url = f"postgresql://postgres@/postgres?host={folder}"
        sections: dict[str, Any] = {"store": {"url": url, "key": "ab" * 32}}
        async with gateway(tmp_path, {}, sections=sections) as opened:
            await opened.hub.mount(notes("one", "note"))
            admin = Admin(opened, http)
            warm, cold = await admin.key("ana"), await admin.key("bob")
            caller = ModernCaller(opened.url, http, token=warm)
            assert (await caller.call("one__read_note")).text == "note"
            async with under_load(caller) as answered:
                async with open_store(place_of(url, tmp_path)) as elsewhere:
                    await elsewhere.fetch(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                        "AND backend_type = 'client backend'"
                    )
                await more(answered)
                lost = await changed(admin, "after-terminate")
                assert lost <= 4, "one for each connection that the pool had"

                stop(folder)
                async with asyncio.timeout(20):
                    while (await admin("GET", "users"))[0] != 503:
                        pass
                await more(answered)
                status, told = await admin("POST", "users", {"name": "meanwhile"})
                assert (status, told["error"]["code"]) == (503, "store")
                refused = await ModernCaller(opened.url, http, token=cold).call("one__read_note")
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")

                process = start(folder)
                try:
                    await changed(admin, "again")
                    assert (await ModernCaller(opened.url, http, token=cold).call("one__read_note")).text == "note"
                    users = {user["name"] for user in (await admin("GET", "users"))[1]["users"]}
                    await more(answered)
                finally:
                    process.send_signal(signal.SIGINT)
                    process.wait(30)

            assert users == {"ana", "bob", "after-terminate", "again"}
            assert set(answered) == {200}


async def changed(admin: Admin, name: str) -> int:
    """Take in somebody, as often as it takes; how often that was refused because the store was away."""
    refused = 0
    async with asyncio.timeout(30):
        while (status := (await admin("POST", "users", {"name": name}))[0]) != 201:
            assert status == 503
            refused += 1
    return refused
