"""Servers and threads at run time, from Python."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import gateway
from tests.questions.scene import inside
from tests.tenancy.test_access import ALL, notes
from trunkline import (
    Config,
    Hub,
    LimitReached,
    SearchSection,
    ServerRegistered,
    ServerSpec,
    ServerUnregistered,
    ThreadChanged,
    open_hub,
)
from trunkline.errors import ConfigError, LimitReachedError, NotFoundError, VersionConflictError
from trunkline.identity import Scope


@asynccontextmanager
async def open_house(home: Path) -> AsyncGenerator[Hub]:
    """A hub with two servers."""
    async with open_hub(Config(home=home)) as hub:
        for name in ("one", "two"):
            await hub.mount(notes(name, f"of {name}"))
        yield hub


async def tools(hub: Hub, thread: str, user: str = "") -> set[str]:
    return {tool.shown for tool in await hub.thread(thread, user).get_thread_tools()}


WORDS = SearchSection(strategy="bm25")
ONE, TWO = ({name for name in ALL if name.startswith(server)} for server in ("one", "two"))


async def test_a_thread_is_configured_step_by_step_and_forgets_nothing(tmp_path: Path) -> None:
    async with open_house(tmp_path) as hub:
        thread = hub.thread("t1", "ana")
        assert await tools(hub, "t1", "ana") == ALL

        await thread.set_overrides(timeout=5, limits={"calls_per_hour": 1})
        assert await tools(hub, "t1", "ana") == ALL
        await thread.set_thread_servers(["one"])
        assert await tools(hub, "t1", "ana") == ONE
        await thread.set_thread_tools(["*__read_*"])
        assert await tools(hub, "t1", "ana") == {"one__read_note"}
        await thread.enable_server("two")
        assert await tools(hub, "t1", "ana") == {"one__read_note", "two__read_note"}
        await thread.disable_server("one")
        assert await tools(hub, "t1", "ana") == {"two__read_note"}
        await thread.set_overrides(search_strategy="bm25")

        said = await thread.config()
        assert (said.overrides.timeout, said.overrides.search_strategy) == (5, "bm25")
        counted = await thread.statistics()
        assert (counted.total_available, counted.total_loaded, counted.server_breakdown) == (4, 1, {"two": 1})
        with pytest.raises(NotFoundError, match=r"'three'.*There are: one, two"):
            await thread.set_thread_servers(["one", "three"])
        with pytest.raises(ConfigError, match="cannot override colour"):
            await thread.set_overrides(colour="red")
        assert await thread.config() == said
        assert (await hub.call("two__read_note", user="ana", thread="t1")).text == "of two"
        with pytest.raises(LimitReachedError):
            await hub.call("two__read_note", user="ana", thread="t1")
        await thread.reset()
        assert await tools(hub, "t1", "ana") == ALL


async def test_a_server_that_is_disabled_in_a_thread_with_all_is_missing_until_it_is_enabled(tmp_path: Path) -> None:
    async with open_house(tmp_path) as hub:
        await hub.thread("t1").disable_server("one")
        assert await tools(hub, "t1") == TWO
        assert await tools(hub, "t2") == ALL
        await hub.thread("t1").enable_server("one")
        assert await tools(hub, "t1") == ALL


async def test_a_thread_is_copied_within_its_user_and_carried_to_another_as_a_document(tmp_path: Path) -> None:
    async with open_house(tmp_path) as hub:
        thread = hub.thread("t1", "ana")
        await thread.set_thread_servers(["two"])
        await thread.set_overrides(disable_tool_search=True)

        copy = await thread.clone("t2")
        assert (copy.id, copy.user, await tools(hub, "t2", "ana")) == ("t2", "ana", TWO)
        with pytest.raises(ConfigError, match="already is a thread"):
            await thread.clone("t2")
        assert await tools(hub, "t1", "bob") == ALL
        with pytest.raises(NotFoundError):
            await hub.thread("t1", "bob").clone("t3")

        document = await thread.export()
        await hub.thread("t9", "bob").import_(document)
        assert await hub.thread("t9", "bob").export() == document
        for wrong in ({}, {**document, "version": 2}, {**document, "thread": {"servers": 3}}):
            with pytest.raises(ConfigError):
                await hub.thread("t9", "bob").import_(wrong)
        strange = {**document, "thread": {"servers": ["three"]}}
        with pytest.raises(NotFoundError):
            await hub.thread("t9", "bob").import_(strange)
        assert await hub.thread("t9", "bob").export() == document


async def test_servers_are_registered_changed_and_taken_out_with_events(tmp_path: Path) -> None:
    async with gateway(tmp_path / "far", {}) as far, open_house(tmp_path / "house") as hub:
        await far.hub.mount(notes("n", "far"))
        heard: list[Any] = []
        for kind in (ServerRegistered, ServerUnregistered, ThreadChanged, LimitReached):
            hub.on(kind, heard.append)

        made = await hub.register_server(ServerSpec("far", url=far.url, timeout=7.0))
        await hub.register_server({"name": "mine", "url": far.url, "tags": ["a"]}, "user", "ana")
        await hub.ready(5)

        assert (made.scope, made.version, made.spec.timeout) == ("app", 1, 7.0)
        assert (await hub.call("far__read_note")).text == "far"
        assert await tools(hub, "t", "ana") == await tools(hub, "t", "bob") | {"mine__read_note", "mine__delete_note"}
        changed = await hub.update_server("mine", {"description": "d"}, "user", "ana", version=1)
        assert (changed.about.tags, changed.about.description, changed.version) == (("a",), "d", 2)
        with pytest.raises(VersionConflictError):
            await hub.update_server("mine", {"description": "e"}, "user", "ana", version=1)
        with pytest.raises(NotFoundError):
            await hub.unregister_server("mine", "user", "bob")
        await hub.unregister_server("mine", "user", "ana")
        await hub.thread("t").set_thread_servers(["one"])

        assert await tools(hub, "t", "ana") == await tools(hub, "t", "bob")
        kinds = [type(one).__name__ for one in heard if not isinstance(one, ThreadChanged) or one.id]
        assert kinds == ["ServerRegistered"] * 3 + ["ServerUnregistered", "ThreadChanged"]


@pytest.mark.parametrize(
    ("scope", "user", "words"), [("user", "", "Whose"), ("app", "ana", "has no user"), ("team", "", "no scope 'team'")]
)
async def test_whose_a_server_is_must_be_said_right(tmp_path: Path, scope: Any, user: str, words: str) -> None:
    async with open_hub(Config(home=tmp_path)) as hub:
        with pytest.raises(ConfigError, match=words):
            await hub.register_server({"name": "x", "url": "http://x.example"}, scope, user)


async def test_who_is_given_the_name_of_somebody_gone_has_nothing_of_theirs(tmp_path: Path) -> None:
    async with gateway(tmp_path / "far", {}) as far, open_house(tmp_path / "house") as hub:
        await far.hub.mount(notes("n", "far"))
        people = hub.relay.tenancy.people
        await people.add_user("ana")
        await hub.register_server({"name": "mine", "url": far.url}, "user", "ana")
        await hub.thread("t", "ana").set_thread_servers(["mine"])
        assert await tools(hub, "t", "ana") == {"mine__read_note", "mine__delete_note"}
        await hub.call("mine__read_note", user="ana", thread="t")

        await people.remove_user("ana")
        await people.add_user("ana")

        assert await tools(hub, "t", "ana") == ALL
        assert hub.relay.tallies.of("ana").total().calls == 0
        assert "mine" not in str(hub.servers())


async def test_a_threads_search_strategy_is_the_one_that_it_is_searched_by(tmp_path: Path) -> None:
    async with open_house(tmp_path) as hub:
        pattern = "^r..d_n..e$"
        await hub.thread("t1", "ana").set_overrides(search_strategy="regex")

        found = await hub.find(pattern, user="ana", thread="t1")

        assert {one.tool.name for one in found} == {"read_note"}
        assert await hub.find(pattern, user="ana", thread="t1", strategy="bm25") == []
        assert await hub.find(pattern, user="ana", thread="t2") == []


async def test_a_server_that_is_there_is_replaced_unless_a_new_one_is_wanted(tmp_path: Path) -> None:
    async with open_house(tmp_path) as hub:
        spec = {"name": "far", "url": "http://127.0.0.1:9/mcp"}
        await hub.register_server(spec, replace=False)

        with pytest.raises(ConfigError, match="already is a server 'far'"):
            await hub.register_server({**spec, "timeout": 3.0}, replace=False)

        assert (await hub.relay.tenancy.servers.get("", "far")).version == 1
        assert (await hub.register_server({**spec, "timeout": 3.0})).version == 2


async def test_a_users_own_limits_hold_for_calls_from_python_and_change_with_the_user(tmp_path: Path) -> None:
    async with open_house(tmp_path) as hub:
        people = hub.relay.tenancy.people
        assert not (await hub.call("one__read_note", user="ana")).is_error  # before there is such a user
        await people.add_user("ana", limits={"calls_per_hour": 1})
        await hub.call("one__read_note", user="ana")
        with pytest.raises(LimitReachedError):
            await hub.call("one__read_note", user="ana")
        await hub.call("one__read_note", user="bob")
        await people.update_user("ana", limits={"calls_per_hour": 2})
        await hub.call("one__read_note", user="ana")
        with pytest.raises(LimitReachedError):
            await hub.call("one__read_note", user="ana")


async def test_what_one_user_has_of_their_own_leaves_the_views_of_all_others_as_they_are(tmp_path: Path) -> None:
    async with gateway(tmp_path / "far", {}) as far, open_house(tmp_path / "house") as hub:
        await far.hub.mount(notes("git", "mine"))
        scopes = {user: Scope(user=user) for user in ("ana", "bob")}
        await hub.register_server({"name": "git", "url": far.url}, "user", "bob")
        await tools(hub, "t", "bob")
        before, version = {user: hub.relay.view(scope) for user, scope in scopes.items()}, hub.relay.snapshot.version

        await hub.register_server({"name": "git", "url": far.url}, "user", "ana")
        own = await tools(hub, "t", "ana")
        after = {user: hub.relay.view(scope) for user, scope in scopes.items()}
        await hub.mount(notes("three", "of three"))
        everybodys = hub.relay.view(scopes["bob"])

    assert hub.relay.snapshot.version > version
    assert [user for user in after if after[user] is not before[user]] == ["ana"]
    assert {name for name in own if name.startswith("git__")} == {"git__delete_note", "git__read_note"}
    assert "three__read_note" in everybodys.snapshot.tools
    assert "git__read_note" in everybodys.snapshot.tools


async def test_what_is_searched_follows_the_servers_of_each_user(tmp_path: Path) -> None:
    async with gateway(tmp_path / "far", {}) as far, open_hub(Config(home=tmp_path, search=WORDS)) as hub:
        await far.hub.mount(notes("git", "mine"))
        await hub.mount(notes("one", "of one"))

        async def indexed() -> set[str]:
            await hub.find("read a note", user="ana")
            search = inside(hub.relay.finding, "_search")
            found = {key.rpartition("/")[0] for key in inside(search, "index").tools}
            assert found == set(inside(search, "_offers"))
            return found

        before = await indexed()
        for user in ("ana", "bob"):
            await hub.register_server({"name": "git", "url": far.url}, "user", user)
            await tools(hub, "t", user)
        both = await indexed()
        await hub.unregister_server("git", "user", "bob")
        one_left = await indexed()
        await hub.relay.tenants.leave("ana")
        await hub.relay.tenants.arrive("ana", 5)
        again = await indexed()

    assert before == {"one"}
    assert both == {"one", "ana/git", "bob/git"}
    assert one_left == again == {"one", "ana/git"}
