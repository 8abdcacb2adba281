"""Nobody sees or does what is not theirs, whatever comes, goes and changes: every door against a model of it."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
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

from tests.harness import ModernCaller, gateway, until
from tests.tenancy.doors import YES, Doors, is_refused_alike, names
from tests.tenancy.shelf import TOOLS, Shelf, open_shelves
from tests.tenancy.test_access import notes
from tests.tenancy.test_people import Admin
from trunkline.gateway.serve import Gateway

T = TypeVar("T")
Json = dict[str, Any]

USERS = ("ana", "bob")
THREADS = ("", "t1", "t2")
OWN = {user: ("mine", "one", f"only{user}") for user in USERS}
"""Servers that each may have: one as the other's is called, one as everybody's, and one of a name of its own."""
SERVERS = ("one", "two", "news", "mine", "onlyana", "onlybob")
"""Of which `two` is mounted, and has tools alone."""
EVERYBODYS = {"one", "two", "news"}
NAMES = [f"{server}__{tool}" for server in SERVERS for tool in (TOOLS if server != "two" else TOOLS[:2])]
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
    """A gateway that stands for all examples, before servers of everybody and of each user."""

    runner: asyncio.Runner
    opened: Gateway
    http: aiohttp.ClientSession
    admin: Admin
    shelves: dict[str, Shelf]
    """By what they are called among everybody's, or by whose they are."""

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
        found = (EVERYBODYS | self.own[key.user]) & set(key.rights.get("servers", SERVERS))
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
            and (not reads or not name.endswith("delete_note"))
        }

    def shelves(self, key: Key, thread: str = "") -> dict[str, str]:
        """The servers that exist for a caller and have more than tools, and what each says."""
        found = self.servers(key, thread) - {"two"}
        return {name: f"canary-{key.user}" if name in self.own[key.user] else f"of {name}" for name in found}

    def text(self, key: Key, name: str) -> str:
        """What a tool answers a caller."""
        server, _, tool = name.partition("__")
        said = f"canary-{key.user}" if server in self.own[key.user] else f"of {server}"
        return f"deleted {said}" if tool == "delete_note" else said

    def other(self, key: Key) -> Key | None:
        """The newest key of somebody else."""
        return next((one for one in reversed(self.live) if one.user != key.user), None)


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
        if not set(rights.get("servers", ())) <= EVERYBODYS | self.model.own[user]:
            assert (status, told["error"]["code"]) == (422, "config")
            rights = {name: said for name, said in rights.items() if name != "servers"}
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
            wanted = {"name": OWN[user][which], "url": self.house.shelves[user].url, "user": user}
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

    @rule(user=st.sampled_from(USERS), which=st.integers(0, 2))
    def listen_while_servers_change(self, user: str, which: int) -> None:
        if user in self.model.roles:
            listening = [self.make_key(one, {}) for one in USERS if one in self.model.roles]
            self.house.do(self._listen(user, which, listening))

    async def _listen(self, user: str, which: int, keys: list[Any]) -> None:
        """Only those whose view changed hear of it; everybody hears of what everybody has."""
        house, news, name = self.house, self.house.shelves["news"], OWN[user][which]
        async with AsyncExitStack() as stack:
            wanted: Json = {"toolsListChanged": True, "resourceSubscriptions": [news.uri]}
            streams = [
                await stack.enter_async_context(Doors(house.opened, house.http, key.text).listen(**wanted))
                for key in keys
            ]
            for stream in streams:
                assert (await stream.next())["params"]["notifications"] == wanted
            body = {"name": name, "url": house.shelves[user].url, "user": user}
            if name in self.model.own[user]:
                assert (await house.admin("DELETE", f"servers/{name}?scope=user&user={user}"))[0] == 204
                self.model.own[user].discard(name)
            else:
                assert (await house.admin("POST", "servers", body))[0] == 201
                self.model.own[user].add(name)
            for key, stream in zip(keys, streams, strict=True):
                if key.user == user:
                    assert (await stream.next(10))["method"] == "notifications/tools/list_changed"
            await until(lambda: news.uri in news.followed)
            news.touch()
            for key, stream in zip(keys, streams, strict=True):
                heard = [(await stream.next())["method"]]
                while heard[-1] != "notifications/resources/updated" and key.user == user:
                    heard.append((await stream.next())["method"])  # a server comes with its lists, one by one
                assert heard[-1] == "notifications/resources/updated"

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

    async def _check(self, key: Key, thread: str, tried: list[str]) -> None:
        doors = Doors(self.house.opened, self.house.http, key.text, thread)
        own = doors.api
        if key not in self.model.live:
            assert (await doors.ask("tools/list")).status == 401
            for path in ("tools", "servers", "threads", "stats", "keys", f"users/{key.user}"):
                assert (await own("GET", path))[0] == 401
            assert (await own("POST", f"tools/{tried[0]}/call", {}))[0] == 401
            return
        other = self.model.other(key)
        stranger = Doors(self.house.opened, self.house.http, other.text) if other is not None else None
        before = (await stranger.api("GET", "stats"))[1]["calls"] if stranger is not None else 0
        heard = [await self._listed(doors.caller, thread, self.model.tools(key, thread))]
        for name in tried:
            if name.endswith(("ask_note", "task_note")):
                heard += await self._continued(key, name, doors, stranger)
            else:
                heard += await self._tried(key, name, doors)
        heard += await self._offered(key, doors)
        heard += await self._in_session(key, doors, stranger)
        heard += await self._administered(key, doors)
        if stranger is not None:
            assert (await stranger.api("GET", "stats"))[1]["calls"] == before
        gone = next(user for user in USERS if user != key.user)
        told = str(heard).replace(str(tried), "")
        assert f"only{gone}" not in told
        assert f"canary-{gone}" not in told

    async def _offered(self, key: Key, doors: Doors) -> list[Any]:
        """Resources, templates, prompts and completion, listed and asked for, and what can be followed."""
        there, every = self.model.shelves(key, doors.thread), self.house.shelves
        lists = [await doors.ask(f"{kind}/list") for kind in ("prompts", "resources", "resources/templates")]
        said = set(there.values())
        shelves = [shelf for shelf in every.values() if shelf.said in said]
        assert names(lists[0], "prompts") == {f"{name}__greet" for name in there}
        assert names(lists[1], "resources", "uri") == {shelf.uri for shelf in shelves}
        assert names(lists[2], "resourceTemplates", "uriTemplate") == {shelf.template for shelf in shelves}
        missing = {
            "resources/read": await doors.ask("resources/read", uri="note://nowhere/1"),
            "prompts/get": await doors.ask("prompts/get", name="nothing__greet"),
            "completion/complete": await doors.ask("completion/complete", **_completion("nothing__greet")),
        }
        asked: list[tuple[str, Json, str]] = []
        for shelf in every.values():
            whose = shelf.said if shelf in shelves else ""
            asked += [("resources/read", {"uri": shelf.uri.replace("first", at)}, whose) for at in ("first", "42")]
            asked.append(("completion/complete", _completion(uri=shelf.template), whose))
        for name in SERVERS:
            asked.append(("prompts/get", {"name": f"{name}__greet"}, there.get(name, "")))
            asked.append(("completion/complete", _completion(f"{name}__greet"), there.get(name, "")))
        for method, params, expected in asked:
            heard = await doors.ask(method, **params)
            if expected:
                assert expected in str(heard.result), (method, params, heard.message)
            else:
                assert is_refused_alike(heard, missing[method]), (method, params, heard.message)
        granted = await doors.granted(resourceSubscriptions=sorted(shelf.uri for shelf in every.values()))
        assert set(granted.get("resourceSubscriptions", ())) == {shelf.uri for shelf in shelves}
        return [one.message for one in lists]

    async def _continued(self, key: Key, name: str, doors: Doors, stranger: Doors | None) -> list[Any]:
        """Calls that go on later, as a question or as a task: for whoever made them, and nobody else."""
        first = await doors.ask("tools/call", name=name)
        if name not in self.model.tools(key, doors.thread):
            assert is_refused_alike(first, await doors.ask("tools/call", name="nothing__at_all"))
            return []
        expected = self.model.text(key, name)
        if name.endswith("task_note"):
            id = first.result["taskId"]
            if stranger is not None:
                unknown = await stranger.ask("tasks/get", taskId="made-up")
                for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                    assert is_refused_alike(await stranger.ask(method, taskId=id, inputResponses={}), unknown)
                assert "taskIds" not in await stranger.granted(taskIds=[id])
            assert expected in str((await doors.ask("tasks/get", taskId=id)).result)
            assert (await doors.granted(taskIds=[id]))["taskIds"] == [id]
            return []
        state = first.result["requestState"]
        if stranger is not None:
            stolen = await stranger.ask("tools/call", name=name, requestState=state, inputResponses=YES)
            assert stolen.status == 400
            assert "canary" not in str(stolen.message)
            body = {"state": state, "answers": YES}
            assert (await stranger.api("POST", f"tools/{name}/call", body))[0] == 404
        again = await doors.ask("tools/call", name=name, requestState=state, inputResponses=YES)
        assert again.text == expected
        _, asked = await doors.api("POST", f"tools/{name}/call", self._in_thread(doors))
        answer = {**self._in_thread(doors), "state": asked["state"], "answers": YES}
        assert (await doors.api("POST", f"tools/{name}/call", answer))[1]["content"][0]["text"] == expected
        return [first.message, again.message, asked]

    async def _in_session(self, key: Key, doors: Doors, stranger: Doors | None) -> list[Any]:
        """A session shows what its caller has, and is nobody else's."""
        session = await doors.session()
        there = self.model.shelves(key, doors.thread)
        lists = [await session.request(f"{kind}/list") for kind in ("tools", "prompts", "resources")]
        assert names(lists[0], "tools") == self.model.tools(key, doors.thread)
        assert names(lists[1], "prompts") == {f"{name}__greet" for name in there}
        thief = stranger.caller.headers["authorization"] if stranger is not None else "Bearer none"
        own = session.headers["authorization"]
        session.headers["authorization"] = thief
        stolen = await session.request("tools/list")
        assert stolen.status == (404 if stranger is not None else 401)
        async with self.house.http.delete(session.url, headers=session.headers) as response:
            assert response.status == stolen.status
        session.headers["authorization"] = own
        assert (await session.request("ping")).status == 200
        async with self.house.http.delete(session.url, headers=session.headers) as response:
            assert response.status == 200
        return [one.message for one in lists]

    async def _administered(self, key: Key, doors: Doors) -> list[Any]:
        """The admin API, page by page, and what it says of others."""
        own, expected = doors.api, self.model.tools(key, doors.thread)
        assert await doors.pages("tools", "name", size=3) == sorted(expected)
        thread = f"&thread={doors.thread}" if doors.thread else ""
        answers = [await own("GET", path) for path in (f"tools?q=read+a+note{thread}", "servers", "stats")]
        assert {tool["name"] for tool in answers[0][1]["tools"]} <= expected
        for answer in answers[1:]:
            assert {server["name"] for server in answer[1]["servers"]} == self.model.servers(key)
        found = await doors.finder.call("search_tools", {"query": "read or delete a note"}, headers=doors.headers)
        assert not any(name in str(found.message) for name in set(NAMES) - expected), found.message
        threads = await doors.pages("threads", "id", size=1)
        assert threads == sorted(id for user, id in self.model.threads if user == key.user)
        assert set(await doors.pages("keys", "user")) == {key.user}
        gone = next(user for user in USERS if user != key.user)
        for path in (f"threads?user={gone}", f"tools?user={gone}", f"keys?user={gone}", f"users/{gone}", "users"):
            assert (await own("GET", path))[0] == 403
        return [answers, found.message, threads]

    @staticmethod
    def _in_thread(doors: Doors) -> Json:
        return {"thread": doors.thread} if doors.thread else {}

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

    async def _tried(self, key: Key, name: str, doors: Doors) -> list[Any]:
        """A call of a tool through each door: answered if it exists for the caller, and else unknown."""
        caller, header, thread = doors.caller, doors.headers, doors.thread
        called = [
            (await caller.call(name, headers=header)).message,
            (await doors.finder.call("call_tool", {"name": name, "arguments": {}}, headers=header)).message,
        ]
        status, answer = await doors.api("POST", f"tools/{name}/call", self._in_thread(doors))
        if name in self.model.tools(key, thread):
            for result in (*(one["result"] for one in called), answer):
                assert result["content"][0]["text"] == self.model.text(key, name)
            assert status == 200
            return [*called, answer]
        missing = (await caller.call("nothing__at_all", headers=header)).message["error"]
        assert called[0]["error"]["code"] == missing["code"]
        assert called[1]["result"]["isError"] is True
        assert status == 404
        told = [str(one).replace(name, "").replace(name.partition("__")[0], "") for one in (*called, answer)]
        assert not any("canary" in one or "of one" in one or "of two" in one for one in told)
        return told


def _completion(prompt: str = "", uri: str = "") -> Json:
    ref = {"type": "ref/resource", "uri": uri} if uri else {"type": "ref/prompt", "name": prompt}
    return {"ref": ref, "argument": {"name": "id" if uri else "who", "value": ""}}


@contextmanager
def open_all(home: Path) -> Generator[House]:
    """The house, held open by one task while others ask it things."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        opened: asyncio.Future[House] = loop.create_future()
        done = asyncio.Event()

        async def host() -> None:
            sections = {"profiles": {"finds": {"expose": "search"}}}
            shelves = {name: Shelf(f"of {name}") for name in ("one", "news")}
            shelves |= {user: Shelf(f"canary-{user}") for user in USERS}
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http,
                open_shelves(*shelves.values()),
                gateway(
                    home, {name: {"url": shelves[name].url} for name in ("one", "news")}, sections=sections
                ) as house,
            ):
                await house.hub.mount(notes("two", "of two"))
                admin = Admin(house, http)
                await admin.key("root")
                opened.set_result(House(runner, house, http, admin, shelves))
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
        settings(max_examples=4, stateful_step_count=14, phases=[Phase.generate])
        if settings.default == steady
        else settings()
    )
    with open_all(tmp_path) as house:
        run_state_machine_as_test(type("Isolation", (Machine,), {"house": house}), settings=few)
