"""Nobody sees or does what is not theirs, whatever comes, goes and changes: every door against a model of it."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.harness import ModernCaller, gateway
from tests.tenancy.test_access import notes, open_house
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway

T = TypeVar("T")
Json = dict[str, Any]

USERS = ("ana", "bob")
THREADS = ("", "t1", "t2")
OWN = {user: ("mine", "one", f"only{user}") for user in USERS}
"""Servers that each may have: one as the other's is called, one as everybody's, and one of a name of its own."""
SERVERS = ("one", "two", "mine", "onlyana", "onlybob")
NAMES = [f"{server}__{tool}" for server in SERVERS for tool in ("read_note", "delete_note")]
RIGHTS = st.fixed_dictionaries(
    {},
    optional={
        "servers": st.lists(st.sampled_from(["one", "mine", "onlyana"]), min_size=1, max_size=2, unique=True),
        "tools": st.sampled_from([["*__read_*"], ["one__*", "only*"], ["read_note"]]),
        "read_only": st.just(True),
    },
)


@dataclass
class House:
    """A gateway that stands for all examples, and the two from which users have servers of their own."""

    runner: asyncio.Runner
    opened: Gateway
    http: aiohttp.ClientSession
    admin: Admin
    urls: dict[str, str]

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)


@dataclass
class Key:
    """A key, as the model knows it."""

    user: str
    text: str
    rights: Json


@dataclass
class Model:
    """What there is, and what follows from it."""

    roles: dict[str, str] = field(default_factory=dict[str, str])
    threads: dict[tuple[str, str], Json] = field(default_factory=dict[tuple[str, str], Json])
    own: dict[str, set[str]] = field(default_factory=lambda: {user: set[str]() for user in USERS})
    live: list[Key] = field(default_factory=list[Key])

    def servers(self, key: Key, thread: str = "") -> set[str]:
        """The servers that exist for a caller."""
        found = {"one", "two", *self.own[key.user]} & set(key.rights.get("servers", SERVERS))
        return found & set(self.threads.get((key.user, thread), {}).get("servers", SERVERS))

    def tools(self, key: Key, thread: str = "") -> set[str]:
        """The tools that exist for a caller."""
        said = self.threads.get((key.user, thread), {})
        reads = key.rights.get("read_only") or self.roles[key.user] == "reader"
        return {
            name
            for name in NAMES
            if name.partition("__")[0] in self.servers(key, thread)
            and all(_fits(name, patterns) for patterns in (key.rights.get("tools"), said.get("tools")))
            and (not reads or name.endswith("read_note"))
        }

    def text(self, key: Key, name: str) -> str:
        """What a tool answers a caller."""
        server, _, tool = name.partition("__")
        said = f"canary-{key.user}" if server in self.own[key.user] else f"of {server}"
        return said if tool == "read_note" else f"deleted {said}"


def _fits(name: str, patterns: list[str] | None) -> bool:
    plain = name.partition("__")[2]
    return not patterns or any(fnmatch.fnmatchcase(one, glob) for one in (name, plain) for glob in patterns)


class Machine(RuleBasedStateMachine):
    """People, keys, servers and threads come and go; now and then somebody tries every door."""

    keys: Bundle[Key] = Bundle("keys")
    house: House

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def teardown(self) -> None:
        for user in list(self.model.roles):
            self.ask("DELETE", f"users/{user}")

    def ask(self, method: str, path: str, body: Json | None = None, key: str = "") -> tuple[int, Json]:
        return self.house.do(Admin(self.house.opened, self.house.http, key)(method, path, body))

    # What comes and goes.

    @initialize(target=keys, rights=RIGHTS)
    def two_people(self, rights: Json) -> Any:
        for user in USERS:
            self.join(user, "member")
            self.register(user, 2)
        return multiple(*(self.make_key(user, given) for user in USERS for given in ({}, rights)))

    @rule(user=st.sampled_from(USERS), role=st.sampled_from(["member", "reader"]))
    def join(self, user: str, role: str) -> None:
        method, path = ("PATCH", f"users/{user}") if user in self.model.roles else ("POST", "users")
        status, told = self.ask(method, path, {"role": role, **({} if method == "PATCH" else {"name": user})})
        assert status in (200, 201), told
        self.model.roles[user] = role

    @rule(user=st.sampled_from(USERS))
    def leave(self, user: str) -> None:
        gone = user not in self.model.roles
        assert self.ask("DELETE", f"users/{user}")[0] == (404 if gone else 204)
        self.model.roles.pop(user, None)
        self.model.own[user].clear()
        self.model.threads = {place: said for place, said in self.model.threads.items() if place[0] != user}
        self.model.live = [key for key in self.model.live if key.user != user]

    @rule(target=keys, user=st.sampled_from(USERS), rights=RIGHTS)
    def make_key(self, user: str, rights: Json) -> Key:
        if user not in self.model.roles:
            self.join(user, "member")
        status, told = self.ask("POST", "keys", {"user": user, **rights})
        assert status == 201, told
        key = Key(user, told["key"], rights)
        self.model.live.append(key)
        return key

    @rule(target=keys, user=st.sampled_from(USERS))
    def give_the_name_to_another(self, user: str) -> Key:
        self.leave(user)
        made: Any = self.make_key(user, {})
        return made

    @rule(key=consumes(keys))
    def revoke(self, key: Key) -> None:
        status, _ = self.ask("DELETE", f"keys/{key.text[3:27]}")
        assert status == (204 if key in self.model.live else 404)
        self.model.live = [one for one in self.model.live if one is not key]
        self.check(key, "", NAMES[:1])

    @rule(user=st.sampled_from(USERS), which=st.integers(0, 2))
    def register(self, user: str, which: int) -> None:
        if user in self.model.roles:
            wanted = {"name": OWN[user][which], "url": self.house.urls[user], "user": user}
            assert self.ask("POST", "servers", wanted)[0] == 201
            self.model.own[user].add(OWN[user][which])

    @rule(user=st.sampled_from(USERS), which=st.integers(0, 2))
    def unregister(self, user: str, which: int) -> None:
        name = OWN[user][which]
        status, _ = self.ask("DELETE", f"servers/{name}?scope=user&user={user}")
        assert status == (204 if name in self.model.own[user] else 404)
        self.model.own[user].discard(name)

    @rule(
        user=st.sampled_from(USERS),
        thread=st.sampled_from(THREADS[1:]),
        servers=st.none() | st.lists(st.sampled_from(SERVERS), max_size=3, unique=True),
        tools=st.sampled_from([[], ["*__read_note"], ["one__*"]]),
    )
    def configure(self, user: str, thread: str, servers: list[str] | None, tools: list[str]) -> None:
        if user in self.model.roles:
            said: Json = {"tools": tools, **({} if servers is None else {"servers": servers})}
            assert self.ask("PUT", f"threads/{thread}?user={user}", said)[0] in (200, 201)
            self.model.threads[user, thread] = said

    @rule(user=st.sampled_from(USERS), thread=st.sampled_from(THREADS[1:]))
    def reset(self, user: str, thread: str) -> None:
        status, _ = self.ask("DELETE", f"threads/{thread}?user={user}")
        assert status == (204 if self.model.threads.pop((user, thread), None) else 404)

    @invariant()
    def everybody_is_shown_what_is_theirs(self) -> None:
        for key in self.model.live[-4:]:
            caller = ModernCaller(self.house.opened.url, self.house.http, token=key.text)
            for thread in THREADS:
                self.house.do(self._listed(caller, thread, self.model.tools(key, thread)))

    # Every door.

    @rule(key=keys, thread=st.sampled_from(THREADS), names=st.lists(st.sampled_from(NAMES), min_size=2, max_size=4))
    def check(self, key: Key, thread: str, names: list[str]) -> None:
        self.house.do(self._check(key, thread, names))

    async def _check(self, key: Key, thread: str, names: list[str]) -> None:
        house, live = self.house, key in self.model.live
        header = {"trunkline-thread": thread} if thread else {}
        caller = ModernCaller(house.opened.url, house.http, token=key.text)
        finder = ModernCaller(f"{house.opened.url}/finds", house.http, token=key.text)
        own = Admin(house.opened, house.http, key.text)
        if not live:
            assert (await caller.request("tools/list", headers=header)).status == 401
            for path in ("tools", "servers", "threads", "stats", "keys", f"users/{key.user}"):
                assert (await own("GET", path))[0] == 401
            assert (await own("POST", f"tools/{names[0]}/call", {}))[0] == 401
            return
        expected = self.model.tools(key, thread)
        heard = [await self._listed(caller, thread, expected)]
        for name in names:
            heard += await self._tried(key, name, thread, (caller, finder, own))
        query = f"?thread={thread}" if thread else "?limit=100"
        answers = [
            await own("GET", path) for path in (f"tools{query}", f"tools{query}&q=read+a+note", "servers", "stats")
        ]
        assert {tool["name"] for tool in answers[0][1]["tools"]} == expected
        assert {tool["name"] for tool in answers[1][1]["tools"]} <= expected
        assert {server["name"] for server in answers[2][1]["servers"]} == self.model.servers(key)
        found = await finder.call("search_tools", {"query": "read or delete a note"}, headers=header)
        assert not any(name in str(found.message) for name in set(NAMES) - expected), found.message
        threads = (await own("GET", "threads"))[1]["threads"]
        assert {one["id"] for one in threads} == {id for user, id in self.model.threads if user == key.user}
        assert {one["user"] for one in (await own("GET", "keys"))[1]["keys"]} == {key.user}
        other = next(user for user in USERS if user != key.user)
        for path in (f"threads?user={other}", f"tools?user={other}", f"keys?user={other}", f"users/{other}", "users"):
            assert (await own("GET", path))[0] == 403
        told = str([heard, answers, found.message, threads])
        assert f"only{other}" not in told.replace(str(names), "")
        assert f"canary-{other}" not in told

    async def _listed(self, caller: ModernCaller, thread: str, expected: set[str]) -> Any:
        """What is listed: never more than there is, and all of it once servers are there."""
        header = {"trunkline-thread": thread} if thread else {}
        async with asyncio.timeout(20):
            while True:
                heard = await caller.request("tools/list", headers=header)
                seen = {tool["name"] for tool in heard.result["tools"]}
                assert seen <= expected, (seen, expected)
                if seen == expected:
                    return heard.message

    async def _tried(
        self, key: Key, name: str, thread: str, doors: tuple[ModernCaller, ModernCaller, Admin]
    ) -> list[Any]:
        """A call of a tool through each door: answered if it exists for the caller, and else unknown."""
        caller, finder, own = doors
        header = {"trunkline-thread": thread} if thread else {}
        called = [
            (await caller.call(name, headers=header)).message,
            (await finder.call("call_tool", {"name": name, "arguments": {}}, headers=header)).message,
        ]
        status, answer = await own("POST", f"tools/{name}/call", {"thread": thread} if thread else {})
        if name in self.model.tools(key, thread):
            for result in (*(one["result"] for one in called), answer):
                assert result["content"][0]["text"] == self.model.text(key, name)
            assert status == 200
            return [*called, answer]
        missing = (await caller.call("nothing__at_all", headers=header)).message["error"]
        assert called[0]["error"]["code"] == missing["code"]
        assert "error" in called[1] or called[1]["result"]["isError"]
        assert status == 404
        told = [str(one).replace(name, "").replace(name.partition("__")[0], "") for one in (*called, answer)]
        assert not any("canary" in one or "of one" in one or "of two" in one for one in told)
        return told


@contextmanager
def open_all(home: Path) -> Generator[House]:
    """The house, held open by one task while others ask it things."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        opened: asyncio.Future[House] = loop.create_future()
        done = asyncio.Event()

        async def host() -> None:
            sections = {"profiles": {"finds": {"expose": "search"}}}
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http,
                gateway(home / "ana", {}) as hers,
                gateway(home / "bob", {}) as his,
                open_house(home / "house", http, sections=sections) as (house, admin),
            ):
                for user, far in zip(USERS, (hers, his), strict=True):
                    await far.hub.mount(notes("n", f"canary-{user}"))
                await admin.key("root")
                opened.set_result(House(runner, house, http, admin, {"ana": hers.url, "bob": his.url}))
                await done.wait()

        task = loop.create_task(host())

        async def first() -> House:
            await asyncio.wait([task, opened], return_when=asyncio.FIRST_COMPLETED)
            return opened.result() if opened.done() else await task  # type: ignore[reportReturnType] - it raises

        async def last() -> None:
            done.set()
            await task

        try:
            yield runner.run(first())
        finally:
            runner.run(last())


def test_nobody_sees_or_does_what_is_not_theirs(tmp_path: Path) -> None:
    steady = settings.get_profile("steady")
    few = (
        settings(max_examples=6, stateful_step_count=16, phases=[Phase.generate])
        if settings.default == steady
        else settings()
    )
    with open_all(tmp_path) as house:
        run_state_machine_as_test(type("Isolation", (Machine,), {"house": house}), settings=few)
