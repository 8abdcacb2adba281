"""What is said of tools, and tools given in advance, as callers meet them: through every door."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from tests.harness import EventReader, LegacyCaller, ModernCaller, gateway, until
from tests.tenancy.test_access import notes, tools
from tests.tenancy.test_people import Admin
from trunkline import Tool, open_hub
from trunkline.authoring.server import MCPServerBase
from trunkline.errors import ConfigError, UnknownNameError
from trunkline.gateway.serve import Gateway
from trunkline.tool import ToolOptions

Json = dict[str, Any]
PROGRAM = "code_execution_20250825"


def sums(id: str = "sums") -> MCPServerBase:
    """A server with a tool for everybody and one that it keeps for programs."""
    server = MCPServerBase(id=id, name=id)
    server.register_tool(Tool("add", "Add numbers.", execute=lambda given: "added"))
    only = {"allowed_callers": [PROGRAM]}
    server.register_tool(Tool("crunch", "Crunch numbers.", execute=lambda given: "crunched", meta=only))
    return server


@asynccontextmanager
async def far_notes(home: Path) -> AsyncGenerator[Gateway]:
    """A server at an address."""
    async with gateway(home / "far", {}) as far:
        await far.hub.mount(notes("far", "of far"))
        yield far


@pytest.mark.parametrize("expose", ["all", "search"])
async def test_what_only_a_program_may_call_is_unknown_at_every_door(
    tmp_path: Path, http: aiohttp.ClientSession, expose: str
) -> None:
    async with gateway(tmp_path, {}, expose=expose) as opened:
        await opened.hub.mount(sums())
        await opened.hub.mount(notes("one", "of one"))
        modern, legacy, admin = ModernCaller(opened.url, http), LegacyCaller(opened.url, http), Admin(opened, http)
        await legacy.open()

        heard = [
            await modern.request("tools/list"),
            await modern.request("resources/read", {"uri": "trunkline://tools"}),
            await modern.call("search_tools", {"query": "crunch numbers", "names": ["add"]}),
            await legacy.request("tools/list"),
        ]
        assert "sums__crunch" not in json.dumps([one.message for one in heard])
        for name in ("sums__crunch", "crunch"):
            for caller in (modern, legacy):
                direct = (await caller.call(name)).message
                assert "Unknown tool" in direct["error"]["message"]
                assert "crunched" not in json.dumps((await caller.call("call_tool", {"name": name})).message)
            task = await legacy.request("tools/call", {"name": name, "arguments": {}, "task": {"ttl": 1000}})
            assert "Unknown tool" in task.message["error"]["message"]
            assert (await admin("POST", f"tools/{name}/call", {"arguments": {}}))[0] == 404
        assert (await admin("GET", "tools/sums__crunch"))[0] == 404
        assert "crunch" not in json.dumps(await admin("GET", "tools?q=crunch"))
        assert "sums__crunch" not in [one.tool.shown for one in await opened.hub.find("crunch numbers")]
        assert "sums__crunch" not in [one.shown for one in await opened.hub.tools()]
        with pytest.raises(UnknownNameError):
            await opened.hub.call("sums__crunch")


async def test_a_program_calls_what_is_for_it_and_a_model_is_told_so_in_its_vendors_words() -> None:
    async with open_hub([]) as hub:
        await hub.mount(sums())
        await hub.mount(notes("one", "of one"))

        given = {tool["name"]: tool for tool in await hub.tools(format="anthropic")}
        assert given["sums__crunch"]["allowed_callers"] == [PROGRAM]
        for format in ("openai", "openai-chat", "gemini", "mcp"):
            assert "sums__crunch" not in json.dumps(await hub.tools(format=format))
        assert (await hub.call("sums__crunch", program=PROGRAM)).text == "crunched"
        asked: Json = {"type": "tool_use", "id": "t1", "name": "sums__crunch", "input": {}}
        by = {"type": PROGRAM, "tool_id": "s1"}
        for caller, failed in ((None, True), ({"type": "direct"}, True), (by, False), (SimpleNamespace(**by), False)):
            use = SimpleNamespace(**asked, caller=caller) if isinstance(caller, SimpleNamespace) else asked
            answer = await hub.answer(use if use is not asked else {**asked, "caller": caller}, format="anthropic")
            assert answer.get("is_error", False) is failed
        with pytest.raises(UnknownNameError):
            await hub.call("sums__add", program=PROGRAM)
        await hub.thread("t1").set_overrides(disable_programmatic_calling=True)
        with pytest.raises(UnknownNameError):
            await hub.call("sums__crunch", program=PROGRAM, thread="t1")


async def test_a_name_that_a_server_alone_does_not_list_is_no_way_around_who_may_call(tmp_path: Path) -> None:
    async with far_notes(tmp_path) as far:
        said: Json = {"tools": {"hidden_*": {"allowed_callers": []}}}
        async with gateway(tmp_path, {"far": {"url": far.url, **said}}) as opened:
            assert (await opened.hub.call("read_note")).text == "of far"
            with pytest.raises(UnknownNameError):
                await opened.hub.call("hidden_note")


async def test_tools_of_a_deferred_server_are_found_and_called_but_not_listed(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with far_notes(tmp_path) as far, gateway(tmp_path, {}) as opened:
        await opened.hub.mount(notes("one", "of one"))
        admin = Admin(opened, http)
        status, made = await admin(
            "POST", "servers", {"name": "far", "url": far.url, "scope": "app", "defer_loading": True}
        )
        assert (status, made["defer_loading"]) == (201, True)
        await opened.hub.ready(5)
        caller = ModernCaller(opened.url, http, token=opened.key)

        assert await tools(opened, http, opened.key) == {
            "search_tools", "call_tool", "one__read_note", "one__delete_note"
        }  # fmt: skip
        found = await caller.call("search_tools", {"query": "read a note of far"})
        assert "far__read_note" in json.dumps(found.message)
        assert "far__read_note" in [one.tool.shown for one in await opened.hub.find("read a note")]
        for called in ("far__read_note", "call_tool"):
            heard = await caller.call(called, {"name": "far__read_note"} if called == "call_tool" else {})
            assert heard.result["content"][0]["text"] == "of far"

        await admin("PATCH", "servers/far", {"defer_loading": False})
        assert "far__read_note" in await tools(opened, http, opened.key)
        assert "search_tools" not in await tools(opened, http, opened.key)


async def test_something_else_is_said_of_one_tool_of_a_registered_server(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with far_notes(tmp_path) as far, gateway(tmp_path, {}) as opened:
        await opened.hub.mount(notes("one", "of one"))
        admin = Admin(opened, http)
        await admin("POST", "servers", {"name": "far", "url": far.url, "scope": "app"})
        await opened.hub.ready(5)
        started = opened.hub.snapshot.servers["far"].introduction

        status, made = await admin("PATCH", "servers/far/tools/read_note", {"defer_loading": True, "tags": ["x"]})

        assert (status, made["tools_said"]) == (200, {"read_note": {"defer_loading": True, "tags": ["x"]}})
        assert "far__read_note" not in await tools(opened, http, opened.key)
        assert opened.hub.snapshot.servers["far"].introduction is started
        stale = await admin("PATCH", "servers/far/tools/read_note", {"tags": ["y"]}, **{"if-match": '"1"'})
        assert stale[0] == 412
        status, made = await admin("PATCH", "servers/far/tools/read_note", {"defer_loading": None, "when_to_use": None})
        assert made["tools_said"] == {"read_note": {"tags": ["x"]}}
        assert "far__read_note" in await tools(opened, http, opened.key)
        wrong = await admin("PATCH", "servers/far/tools/read_note", {"input_examples": [{"a": 1}] * 30})
        assert wrong[0] == 422
        assert "at most 20" in wrong[1]["error"]["message"]


async def test_those_whose_list_changes_when_a_tool_is_deferred_hear_of_it_and_nobody_else(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    servers = {"one": {"url": "http://127.0.0.1:9/mcp", "minimal_tools": [{"name": "a"}, {"name": "b"}]}}
    profiles = {"profiles": {"searching": {"expose": "search"}, "other": {"hidden": ["*b"]}}}
    async with gateway(tmp_path, servers, sections=profiles) as opened:
        callers = [await LegacyCaller(opened.url + path, http).open() for path in ("", "/searching", "/other")]
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(caller.listen()) for caller in callers]
            one = opened.hub.config.servers["one"]
            said = dataclasses.replace(one, tools={"b": ToolOptions(defer_loading=True)})

            await opened.hub.apply(dataclasses.replace(opened.hub.config, servers={"one": said}))

            assert (await streams[0].next())["method"] == "notifications/tools/list_changed"
            for caller in callers:
                async with http.delete(caller.url, headers=caller.headers) as response:
                    assert response.status == 200
            assert [await told(stream) for stream in streams[1:]] == [[], []]


async def told(stream: EventReader) -> list[str]:
    """The lists that changed, until the end of a stream."""
    found: list[str] = []
    with suppress(EOFError):
        while True:
            found.append((await stream.next())["method"])
    return [method for method in found if method.endswith("tools/list_changed")]


async def test_a_users_own_server_is_under_what_the_operator_says_of_all_tools(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    said: Json = {"tools": {"delete_*": {"allowed_callers": []}}}
    async with far_notes(tmp_path) as far, gateway(tmp_path, {}, sections=said, allow_private=True) as opened:
        key = await Admin(opened, http).key("ana")
        ana = Admin(opened, http, key)
        own = {"*": {"allowed_callers": ["direct"], "when_to_use": "When ana says so"}}
        status, _ = await ana("POST", "servers", {"name": "mine", "url": far.url, "tools": own})

        assert status == 201
        assert await tools(opened, http, key) == {"mine__read_note"}
        assert "When ana says so" in json.dumps(await ana("GET", "tools/mine__read_note"))
        await ana("PATCH", "servers/mine/tools/read_note", {"defer_loading": True})
        assert await tools(opened, http, key) == {"search_tools", "call_tool"}
        config = dataclasses.replace(opened.hub.config, tools={"read_*": ToolOptions(allowed_callers=())})
        await opened.hub.apply(config)
        assert await tools(opened, http, key) == {"mine__delete_note"}


GIVEN = {
    "name": "plan",
    "description": "Plan a voyage.",
    "whenToUse": "Before anybody sails",
    "tags": ["sea"],
    "estimatedCost": 0.25,
}


async def test_tools_given_in_advance_are_listed_and_found_until_the_server_lists_its_own(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {}) as opened:
        await opened.hub.mount(notes("one", "of one"))
        admin = Admin(opened, http)
        nowhere = "http://127.0.0.1:9/mcp"
        wanted = {"name": "sea", "url": nowhere, "scope": "app", "tools": [GIVEN, {"name": "read_note"}]}

        status, made = await admin("POST", "servers", wanted)

        assert (status, made["minimal_tools"][0]) == (201, {"name": "plan", "description": "Plan a voyage."})
        await until(lambda: "sea__plan" in opened.hub.snapshot.tools)
        assert {"sea__plan", "sea__read_note"} <= await tools(opened, http, opened.key)
        assert "sea__plan" in [one.tool.shown for one in await opened.hub.find("before somebody sails")]
        listed = (await ModernCaller(opened.url, http, token=opened.key).request("tools/list")).result
        plan = next(tool for tool in listed["tools"] if tool["name"] == "sea__plan")
        assert (plan["inputSchema"], plan["_meta"]["dev.trunkline/cost_hint"]) == ({"type": "object"}, 0.25)
        assert "given in advance" in listed["_meta"]["dev.trunkline/unavailable"]["sea"]
        assert not [change for change in await opened.hub.history.changes() if change.server == "sea"]

        async with far_notes(tmp_path) as far:
            await admin("PATCH", "servers/sea", {"url": far.url})
            answered = await ModernCaller(opened.url, http, token=opened.key).call("sea__read_note")
            assert answered.result["content"][0]["text"] == "of far"
            await until(lambda: "sea__delete_note" in opened.hub.snapshot.tools)
            assert "sea__plan" not in opened.hub.snapshot.tools


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{"description": "No name."}], "no good `name`"),
        ([{"name": "a b"}], "no good `name`"),
        ([{"name": "a"}, {"name": "a"}], "twice"),
        ([{"name": "a", "inputSchema": 5}], "inputSchema"),
        ([{"name": "a", "description": 5}], "description"),
        ([{"name": f"t{number}"} for number in range(1001)], "more than 1000 tools"),
        ([{"name": "a", "description": "x" * 2**20}], "1 MiB"),
        (["plan"], "must be an object"),
        ([{"name": "a", "input_examples": [5]}], "input_examples"),
    ],
)
async def test_tools_given_in_advance_are_checked_before_anything_is_kept(
    tmp_path: Path, given: list[Any], words: str
) -> None:
    async with gateway(tmp_path, {}) as opened:
        with pytest.raises(ConfigError, match=words):
            await opened.hub.register_server({"name": "sea", "url": "http://127.0.0.1:9/mcp", "tools": given})
        assert await opened.hub.relay.tenancy.servers.of("") == []


async def test_what_is_told_to_callers_of_tools_takes_no_variables(tmp_path: Path) -> None:
    given = [{"name": "plan", "description": "Plan in ${HOME}."}]
    async with gateway(tmp_path, {"sea": {"url": "http://127.0.0.1:9/mcp", "minimal_tools": given}}) as opened:
        await until(lambda: opened.hub.snapshot.tools)
        assert b"${HOME}" in next(iter(opened.hub.snapshot.tools.values())).definition


async def test_a_deferred_server_of_which_the_tools_are_known_is_reached_by_the_first_call(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with far_notes(tmp_path) as far, gateway(tmp_path, {}) as opened:
        await opened.hub.mount(notes("one", "of one"))
        admin, caller = Admin(opened, http), ModernCaller(opened.url, http)
        wanted = {
            "name": "sea",
            "url": far.url,
            "scope": "app",
            "defer_loading": True,
            "tools": [{"name": "read_note"}],
        }

        await admin("POST", "servers", wanted)
        await until(lambda: "Asleep" in opened.hub.snapshot.servers["sea"].reason)
        found = [one.tool.shown for one in await opened.hub.find("read note", limit=9)]
        before = far.hub.relay.tallies.total().calls, opened.hub.snapshot.servers["sea"].introduction
        answered = await caller.call("sea__read_note")

        assert "sea__read_note" in found
        assert before == (0, None)
        assert answered.result["content"][0]["text"] == "of far"
        await until(lambda: "sea__delete_note" in opened.hub.snapshot.tools)
