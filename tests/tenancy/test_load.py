"""Users under load: what one does to another, and how much each may hold open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness import VERSION, ModernCaller, faulty, gateway, until
from tests.tenancy.test_people import Admin
from trunkline import Annotations, Config, Hub, LimitNear, LimitReached, Tool, open_hub
from trunkline.authoring.server import MCPServerBase
from trunkline.authoring.serving import open_http
from trunkline.config.reading import parse
from trunkline.config.tenancy import LimitsSection
from trunkline.control import supervisor
from trunkline.errors import LimitReachedError
from trunkline.storage.engine import Row, Value
from trunkline.storage.people import remove_user
from trunkline.storage.sqlite import SqliteEngine
from trunkline.storage.store import open_store, place_of
from trunkline.upstream import quota


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


async def test_a_day_costs_what_its_tools_cost_and_who_nears_the_limit_is_told_of_once(tmp_path: Path) -> None:
    heard: list[LimitNear | LimitReached] = []
    limits = LimitsSection(cost_per_day=1.0, alert_at=0.5)
    desk = Desk()
    desk.server.register_tool(Tool("pay", "Pay.", annotations=Annotations(cost_hint=0.3), execute=lambda _: "paid"))
    async with open_hub(Config(home=tmp_path, limits=limits)) as hub:
        hub.on(LimitNear, heard.append)
        hub.on(LimitReached, heard.append)
        await hub.mount(desk.server)
        told = [list(heard) for _ in range(4) if (await hub.call("pay", user="ana")).text == "paid"]
        with pytest.raises(LimitReachedError, match="1 cost in a day") as caught:
            await hub.call("pay", user="ana")
        assert (await hub.call("pay", user="bob")).text == "paid"

    assert [len(before) for before in told] == [0, 1, 1, 1]
    assert 0 < caught.value.retry_after <= 86400
    near, reached = heard
    assert isinstance(near, LimitNear)
    assert (near.user, near.limit, round(near.share, 3)) == ("ana", "cost_per_day", 0.6)
    assert reached == LimitReached("ana", "", "cost_per_day")


@asynccontextmanager
async def open_desks(home: Path, count: int, **limits: int) -> AsyncGenerator[tuple[Hub, list[Desk]]]:
    """A hub where ana has so many servers of her own, which are reached one after another."""
    async with AsyncExitStack() as stack:
        desks = [Desk() for _ in range(count)]
        for desk in desks:
            await desk.server.start()
            stack.push_async_callback(desk.server.stop)
        protocols = [await desk.server.protocol() for desk in desks]
        urls = [await stack.enter_async_context(open_http(protocol, port=0)) for protocol in protocols]
        hub = await stack.enter_async_context(open_hub(Config(home=home, limits=LimitsSection(**limits))))
        for number, url in enumerate(urls):
            await hub.register_server({"name": f"d{number}", "url": url}, "user", "ana")
        await hub.relay.scope_of("ana")
        await until(lambda: len(hub.relay.snapshot.owned["ana"].tools) == count)
        await until(lambda: len(asleep(hub)) == max(0, count - limits["connections"]))
        yield hub, desks


def asleep(hub: Hub) -> set[str]:
    return {view.name for view in hub.servers() if view.reason.startswith("Asleep")}


async def ask(hub: Hub, desk: int, number: int = 0) -> str:
    return (await hub.call(f"d{desk}__ask", {"who": "ana", "number": number}, user="ana")).text


async def test_of_a_users_connections_the_least_recently_used_idle_one_closes_and_the_next_call_opens_it_again(
    tmp_path: Path,
) -> None:
    async with open_desks(tmp_path, 4, connections=2) as (hub, desks):
        for desk in desks:
            desk.end("ana0")
        for number in (0, 1, 2, 3, 0, 2):
            assert await ask(hub, number) == "ana"
            last = number
            await until(lambda last=last: f"ana/d{last}" not in asleep(hub) and len(asleep(hub)) == 2)
        assert asleep(hub) == {"ana/d1", "ana/d3"}

    assert [len(desk.begun) for desk in desks] == [2, 1, 2, 1]


async def test_a_connection_in_use_is_never_closed_and_who_needs_one_more_waits(tmp_path: Path) -> None:
    async with open_desks(tmp_path, 2, connections=1) as (hub, desks):
        first = asyncio.create_task(ask(hub, 0))
        await until(lambda: desks[0].running["ana"] == 1)
        second = asyncio.create_task(ask(hub, 1))
        await until(lambda: hub.relay.lane("ana/d1").inside == 1)
        assert not desks[1].begun
        desks[0].end("ana0")
        desks[1].end("ana0")
        assert [await first, await second] == ["ana", "ana"]


async def test_who_has_every_connection_in_use_is_told_when_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[LimitReached] = []
    async with open_desks(tmp_path, 2, connections=1) as (hub, desks):
        desks[0].end("ana1")
        await ask(hub, 0, 1)
        await until(lambda: asleep(hub) == {"ana/d1"})
        hub.on(LimitReached, heard.append)
        monkeypatch.setattr(quota, "PATIENCE", 0.01)
        first = asyncio.create_task(ask(hub, 0))
        await until(lambda: desks[0].running["ana"] == 1)
        with pytest.raises(LimitReachedError, match="1 connections for you") as caught:
            await ask(hub, 1)
        desks[0].end("ana0")
        assert await first == "ana"

    assert caught.value.retry_after == 1
    assert heard == [LimitReached("ana", "", "connections")]
    assert not desks[1].begun


async def test_how_many_connections_a_user_has_is_said_of_the_user_and_told_with_retry_after(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path, {}) as opened:
        admin = Admin(opened, http)
        key = await admin.key("ana")
        _, changed = await admin("PATCH", "users/ana", {"limits": {"connections": 1}})
        assert changed["limits"] == {"connections": 1}
        for name in ("one", "two"):
            await opened.hub.register_server({"name": name, **faulty("--era", "modern")}, "user", "ana")
        caller = ModernCaller(opened.url, http, token=key)
        for name in ("one", "two", "one"):
            assert (await caller.call(f"{name}__echo", {"text": name})).text == name

        monkeypatch.setattr(quota, "PATIENCE", 0.01)
        await until(lambda: asleep(opened.hub) == {"ana/two"})
        slow = asyncio.create_task(caller.call("one__hang"))
        await until(lambda: opened.hub.relay.lane("ana/one").inside == 1)
        refused = await caller.call("two__echo", {"text": "x"})
        slow.cancel()
        await asyncio.wait((slow,))

    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert "1 connections for you" in refused.error["message"]


async def test_connections_that_a_user_shares_with_nobody_count_wherever_they_lead(tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = parse({"servers": {"one": faulty("--era", "legacy", "--log", str(log))}}, env={}).servers["one"]
    config = Config(home=tmp_path, servers={"one": spec}, limits=LimitsSection(connections=2))

    async def no_roots(params: object) -> dict[str, Any]:
        return {"roots": []}

    def running() -> int:
        words = log.read_text().split("\n")
        return sum(line.startswith("start") for line in words) - words.count("end")

    async with open_hub(config) as hub:
        hub.on_request("roots/list", no_roots)
        await hub.ready(5)
        for thread in ("t1", "t2", "t3", "t4", "t1"):
            assert (await hub.call("echo", {"text": thread}, user="ana", thread=thread)).text == thread
            await until(lambda: running() <= 3)  # everybody's, and two of ana's
        assert running() == 3
        assert (await hub.call("echo", {"text": "x"}, user="bob")).text == "x"
        assert running() == 4


def kept(home: Path) -> set[str]:
    """Of which servers something is kept in files."""
    return {path.name for folder in ("catalogue", "history") for path in (home / folder).glob("*.json")}


async def test_with_a_server_or_its_user_goes_what_was_kept_of_it_also_while_nobody_was_there(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {}) as opened:
        admin = Admin(opened, http)
        for user in ("ana", "bob"):
            caller = ModernCaller(opened.url, http, token=await admin.key(user))
            for name in ("one", "two"):
                await opened.hub.register_server({"name": name, **faulty()}, "user", user)
            await caller.request("tools/list")
        await opened.hub.register_server({"name": "all", **faulty()})
        await until(lambda: len(kept(tmp_path)) == 5)
        await opened.hub.history.settled()

        await opened.hub.unregister_server("one", "user", "ana")
        await opened.hub.unregister_server("all")
        assert kept(tmp_path) == {"ana%2ftwo.json", "bob%2fone.json", "bob%2ftwo.json"}
        await admin("DELETE", "users/bob")
        await until(lambda: kept(tmp_path) == {"ana%2ftwo.json"})

    async with open_store(place_of("", tmp_path)) as store:
        await remove_user(store, "ana")
    async with gateway(tmp_path, {}):
        await until(lambda: kept(tmp_path) == set())


async def test_a_warm_call_asks_the_store_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = SqliteEngine.fetch

    async def fetch(engine: SqliteEngine, sql: str, *values: Value) -> list[Row]:
        if "FROM changes" not in sql:  # the news of other processes, which no call waits for
            asked.append(sql)
        return await real(engine, sql, *values)

    async with gateway(tmp_path, {}) as opened:  # another, so that there is no news of it later
        keys = [await Admin(opened, http).key(f"u{number}") for number in range(20)]
    monkeypatch.setattr(SqliteEngine, "fetch", fetch)
    async with gateway(tmp_path, {}) as opened:
        desk = Desk()
        desk.end("x0")
        await opened.hub.mount(desk.server)
        callers = [ModernCaller(opened.url, http, token=key) for key in keys]
        heads = {"trunkline-thread": "t1"}
        for caller in callers:
            await caller.request("tools/list", headers=heads)
        cold = len(asked)
        assert cold
        for _ in range(3):
            for caller in callers:
                await caller.request("tools/list", headers=heads)
                called = {"name": "ask", "arguments": {"who": "x", "number": 0}}
                assert (await caller.request("tools/call", called, headers=heads)).text == "x"

        assert asked[cold:] == []


async def test_who_lists_has_their_own_quiet_servers_read_again_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SHORTEST_REFRESH", 0.0)
    listed: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.Response:
        message = await request.json()
        listed[request.path] += message["method"] == "tools/list"
        said: dict[str, Any] = {"tools": []} if message["method"] == "tools/list" else {"supportedVersions": [VERSION]}
        result: dict[str, Any] = {"resultType": "complete", "capabilities": {"tools": {}}, **said}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with TestServer(app) as far, open_hub(Config(home=tmp_path)) as hub:
        for user in ("ana", "bob"):
            await hub.register_server({"name": "quiet", "url": str(far.make_url(f"/{user}"))}, "user", user)
            await hub.relay.scope_of(user)
        await until(lambda: listed == {"/ana": 1, "/bob": 1})
        await hub.thread("t", "ana").get_thread_tools()
        await until(lambda: listed["/ana"] == 2)

    assert listed["/bob"] == 1


async def test_a_call_of_a_tool_that_is_there_waits_for_no_server_of_its_users_own(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty()}, settle=60.0) as opened:
        key = await Admin(opened, http).key("ana")
        await opened.hub.register_server({"name": "late", **faulty("--start", "hang")}, "user", "ana")
        async with asyncio.timeout(5):
            heard = await ModernCaller(opened.url, http, token=key).call("echo", {"text": "at once"})
            again = await ModernCaller(opened.url, http, token=key).call("echo", {"text": "again"})

    assert (heard.text, again.text) == ("at once", "again")
