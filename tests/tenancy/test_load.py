"""Users under load: what one does to another, and how much each may hold open."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.harness import until
from trunkline import Config, LimitReached, open_hub
from trunkline.authoring.server import MCPServerBase
from trunkline.config.tenancy import LimitsSection
from trunkline.errors import LimitReachedError


class Desk:
    """A server whose calls end when they are told to; it knows whose are under way."""

    def __init__(self) -> None:
        self.server = MCPServerBase(id="desk", name="desk")
        self.server.register_tool(self.ask)
        self.begun: list[str] = []
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._ends: dict[str, asyncio.Event] = {}

    async def ask(self, who: str, number: int) -> str:
        """Ask for something."""
        self.begun.append(f"{who}{number}")
        self.running[who] += 1
        self.most[who] = max(self.most[who], self.running[who])
        await self._ends.setdefault(f"{who}{number}", asyncio.Event()).wait()
        self.running[who] -= 1
        return who

    def end(self, one: str) -> None:
        """Let a call end."""
        self._ends.setdefault(one, asyncio.Event()).set()


async def test_a_noisy_user_leaves_places_to_a_quiet_one(tmp_path: Path) -> None:
    desk = Desk()
    async with open_hub(Config(home=tmp_path, limits=LimitsSection(running_per_server=2))) as hub:
        await hub.mount(desk.server)

        def ask(who: str, number: int) -> asyncio.Task[object]:
            return asyncio.create_task(hub.call("ask", {"who": who, "number": number}, user=who))

        calls = [ask("quiet", 0)]
        await until(lambda: desk.running["quiet"] == 1)
        calls += [ask("noisy", number) for number in range(50)]
        await until(lambda: hub.relay.lane("desk").waiting == 48)
        for number in range(1, 10):
            calls.append(ask("quiet", number))
            await until(lambda number=number: desk.begun[-1] == f"quiet{number}")  # though 48 wait
            desk.end(f"quiet{number - 1}")
        for number in range(50):
            desk.end(f"noisy{number}")
        desk.end("quiet9")
        async with asyncio.timeout(5):
            await asyncio.gather(*calls)

    assert desk.most == {"quiet": 2, "noisy": 2}
    assert [one for one in desk.begun if one.startswith("noisy")] == [f"noisy{number}" for number in range(50)]


async def test_whoever_is_alone_at_a_server_has_all_its_places(tmp_path: Path) -> None:
    desk = Desk()
    async with open_hub(Config(home=tmp_path, limits=LimitsSection(running_per_server=2))) as hub:
        await hub.mount(desk.server)
        calls = [
            asyncio.create_task(hub.call("ask", {"who": "ana", "number": number}, user="ana")) for number in range(20)
        ]
        await until(lambda: desk.running["ana"] == 20)
        for number in range(20):
            desk.end(f"ana{number}")
        await asyncio.gather(*calls)


async def test_who_runs_too_many_calls_is_told_and_so_is_whoever_listens(tmp_path: Path) -> None:
    desk = Desk()
    heard: list[LimitReached] = []
    async with open_hub(Config(home=tmp_path, limits=LimitsSection(running_calls=1))) as hub:
        hub.on(LimitReached, heard.append)
        await hub.mount(desk.server)
        call = asyncio.create_task(hub.call("ask", {"who": "ana", "number": 0}, user="ana"))
        await until(lambda: desk.running["ana"] == 1)
        with pytest.raises(LimitReachedError, match="1 calls of yours run already") as caught:
            await hub.call("ask", {"who": "ana", "number": 1}, user="ana")
        desk.end("ana0")
        await call

    assert caught.value.retry_after == 1
    assert heard == [LimitReached("ana", "", "running_calls")]
