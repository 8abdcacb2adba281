"""Lists are complete, or say what is missing."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import TESTS, Heard, LegacyCaller, ModernCaller, faulty, faulty_http, gateway, make_config, until
from tests.search.scene import servers, shelf, tool
from trunkline.gateway.serve import Gateway, open_gateway
from trunkline.model import Kind

UNAVAILABLE = "dev.trunkline/unavailable"
Request = Callable[..., Awaitable[Heard]]

SHELF = str(TESTS / "search" / "shelf_server.py")
COMPLETES = {"command": sys.executable, "args": ["-S", SHELF, "{folder}", "shop", "both"]}
"""A server that completes arguments."""
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


async def requester(opened: Gateway, http: aiohttp.ClientSession, era: str) -> Request:
    if era == "modern":
        return ModernCaller(opened.url, http).request
    return (await LegacyCaller(opened.url, http).open()).request


def names(heard: Heard) -> list[str]:
    return [tool["name"] for tool in heard.result["tools"]]


async def pages(request: Request, between: Callable[[int], Awaitable[None]] | None = None) -> list[list[str]]:
    """Every page of the tools, with something happening between two of them."""
    found: list[list[str]] = []
    params: dict[str, Any] = {}
    while True:
        heard = await request("tools/list", params)
        found.append(names(heard))
        if "nextCursor" not in heard.result:
            return found
        if between is not None:
            await between(len(found))
        params = {"cursor": heard.result["nextCursor"]}


# Pages.


@ERAS
@pytest.mark.parametrize("size", [1, 7, 22, 44, 1000])
async def test_pages_show_everything_exactly_once(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, size: int
) -> None:
    async with gateway(tmp_path, {"one": faulty(), "two": faulty()}, page_size=size) as opened:
        request = await requester(opened, http, era)

        found = await pages(request)

    flat = [name for page in found for name in page]
    assert len(flat) == len(set(flat)) == 44
    assert all(len(page) == size for page in found[:-1])
    assert 0 < len(found[-1]) <= size


async def test_a_tool_that_comes_between_two_pages_disturbs_nothing(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty(), "two": faulty()}, page_size=5) as opened:
        caller = ModernCaller(opened.url, http)
        before = set(opened.hub.snapshot.tools)

        async def add(page: int) -> None:
            if page in (2, 6):
                count = len(opened.hub.snapshot.tools)
                await caller.call("one__list_changed")
                await until(lambda: len(opened.hub.snapshot.tools) > count)

        found = await pages(caller.request, add)

    flat = [name for page in found for name in page]
    assert len(flat) == len(set(flat))
    assert before <= set(flat)


async def test_a_server_that_goes_between_two_pages_hides_no_tool_of_the_others(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    options: dict[str, Any] = {"page_size": 5, "namespace": "always"}
    servers = {"one": faulty(), "two": faulty()}
    async with gateway(tmp_path, servers, **options) as opened:
        stays = {name for name in opened.hub.snapshot.tools if name.startswith("two__")}

        async def remove(page: int) -> None:
            if page == 2:
                await opened.hub.apply(make_config(tmp_path, {"two": servers["two"]}, **options))

        found = await pages(ModernCaller(opened.url, http).request, remove)

    assert stays <= {name for page in found for name in page}


BAD: list[Any] = ["nonsense", "", "é", "!!!!", 5, []]
FORGED: list[Any] = [[1], {"a": 1}, [-1, "x"], ["1", "x"], [1.5, "x"], 5, None]


@ERAS
async def test_a_cursor_that_is_not_ours_is_refused(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        request = await requester(opened, http, era)
        for cursor in [*BAD, *(base64.b64encode(json.dumps(value).encode()).decode() for value in FORGED)]:
            heard = await request("tools/list", {"cursor": cursor})

            assert heard.error["code"] == -32602, cursor
            assert heard.status == (400 if era == "modern" else 200)


# What is missing is said.


@ERAS
async def test_a_list_without_one_of_three_servers_says_which_and_why(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    servers = {"one": faulty(), "down": faulty("--start", "exit"), "three": faulty()}
    async with gateway(tmp_path, servers) as opened:
        request = await requester(opened, http, era)

        listed = await request("tools/list")
        answer = await request("tools/call", {"name": "three__echo", "arguments": {"text": "x"}})
        unknown = await request("tools/call", {"name": "down__echo", "arguments": {"text": "x"}})

    assert {name.partition("__")[0] for name in names(listed)} == {"one", "three"}
    missing = listed.result["_meta"][UNAVAILABLE]
    assert list(missing) == ["down"]
    assert missing["down"].startswith("unreachable: ")
    assert answer.text == "x"
    assert "down is unreachable" in unknown.error["message"]


@ERAS
@pytest.mark.parametrize("fault", ["error", "garbage"])
async def test_a_server_whose_list_is_broken_is_spoken_of(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, fault: str
) -> None:
    servers = {"one": faulty(), "odd": faulty("--list", fault, timeout=2.0, start_timeout=2.0)}
    async with gateway(tmp_path, servers) as opened:
        request = await requester(opened, http, era)

        listed = await request("tools/list")

    assert {name.partition("__")[0] for name in names(listed)} == {"one"}
    assert listed.result["_meta"][UNAVAILABLE]["odd"]


@ERAS
@pytest.mark.parametrize("count", [1, 2])
async def test_a_list_is_never_empty_without_a_reason(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, count: int
) -> None:
    servers = {f"s{number}": faulty("--start", "exit") for number in range(count)}
    async with gateway(tmp_path, servers) as opened:
        request = await requester(opened, http, era)

        listed = await request("tools/list")

    assert names(listed) == []
    assert set(listed.result["_meta"][UNAVAILABLE]) == set(servers)
    assert all(reason.startswith("unreachable: ") for reason in listed.result["_meta"][UNAVAILABLE].values())


@ERAS
async def test_a_server_that_still_starts_is_spoken_of(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    servers = {"one": faulty(), "late": faulty("--start", "hang")}
    async with open_gateway(make_config(tmp_path, servers, settle=0.3)) as opened:
        request = await requester(opened, http, era)
        await until(lambda: "one__echo" in opened.hub.snapshot.tools)

        listed = await request("tools/list")

    assert "one__echo" in names(listed)
    assert listed.result["_meta"][UNAVAILABLE] == {"late": "starting"}


async def test_the_introduction_says_who_is_missing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"one": faulty(), "down": faulty("--start", "exit")}
    async with gateway(tmp_path, servers) as opened:
        modern = await ModernCaller(opened.url, http).request("server/discover")
        caller = await LegacyCaller(opened.url, http).open()

    assert "down is unreachable" in modern.result["instructions"]
    assert "down is unreachable" in caller.introduction["instructions"]


@pytest.mark.parametrize(
    ("third", "announced"), [({}, False), ({"late": faulty("--start", "hang")}, True), ({"shop": COMPLETES}, True)]
)
async def test_a_capability_that_no_server_can_have_is_not_announced(
    tmp_path: Path, http: aiohttp.ClientSession, third: dict[str, Any], announced: bool
) -> None:
    """A legacy caller learns it once for its whole session, so that a server which is still starting counts."""
    (tmp_path / "tools").write_text("[]")
    third = {
        name: {**spec, "args": [word.format(folder=tmp_path) for word in spec["args"]]} for name, spec in third.items()
    }
    async with gateway(tmp_path, {"one": faulty(), "two": faulty(), **third}, ready=0) as opened:
        await until(lambda: all(view.introduction for view in opened.hub.servers() if view.name != "late"))
        modern = await ModernCaller(opened.url, http).request("server/discover")
        caller = await LegacyCaller(opened.url, http).open()

    for said in (modern.result["capabilities"], caller.introduction["capabilities"]):
        assert ("completions" in said) is announced
        assert said.keys() >= {"tools", "prompts", "resources", "logging"}


@ERAS
async def test_what_a_server_offered_is_shown_after_a_restart_though_it_is_dead_now(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    with faulty_http() as url:
        servers = {"one": faulty(), "gone": {"url": url}}
        async with gateway(tmp_path, servers) as opened:
            await until(lambda: (tmp_path / "catalogue" / "gone.json").exists())
            before = list(opened.hub.snapshot.tools)
    async with gateway(tmp_path, servers) as opened:
        request = await requester(opened, http, era)

        listed = await request("tools/list")
        dead = await request("tools/call", {"name": "gone__echo", "arguments": {"text": "x"}})
        alive = await request("tools/call", {"name": "one__echo", "arguments": {"text": "x"}})

    assert names(listed) == before
    assert "gone" in dead.error["message"]
    assert alive.text == "x"


async def test_what_another_configuration_offered_is_not_shown(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}):
        await until(lambda: (tmp_path / "catalogue" / "one.json").exists())
    async with gateway(tmp_path, {"one": faulty("--start", "exit")}) as opened:
        listed = await ModernCaller(opened.url, http).request("tools/list")

    assert names(listed) == []
    assert "one" in listed.result["_meta"][UNAVAILABLE]


ODD = r"""
import json, sys
TOOLS = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        about = {"serverInfo": {"name": "odd", "version": "1"}, "capabilities": {"tools": {}}}
        result = json.dumps({"protocolVersion": "2025-11-25", **about})
    elif message.get("method") == "tools/list":
        result = '{"tools":[' + ",".join(TOOLS) + "]}"
    elif "id" in message:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    else:
        continue
    print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(message["id"]), result), flush=True)
"""


@pytest.mark.parametrize(
    "definition",
    [
        r'{"name":"odd","inputSchema":{},"\ud83d":1}',
        r'{"name":"odd","inputSchema":{},"description":"\ud83d"}',
        r'{"name":"\ud83d","inputSchema":{}}',
        r'{"name":"odd","inputSchema":{"x-mcp-header":"A","b":"\ud83d"}}',
        r'{"name":"odd","inputSchema":{"a":"\ud83d","x-mcp-header":' + "[" * 400 + "]" * 400 + "}}",
        '{"name":"odd","inputSchema":{},"annotations":' + "[" * 500 + "]" * 500 + "}",
        '{"name":"odd","name":"even","inputSchema":{}}',
        '{"name":5}',
        "{}",
        "5",
        "null",
        '"odd"',
        "[]",
    ],
    ids=lambda text: str(text)[:60],
)
async def test_an_odd_definition_hides_no_tool_of_others(
    tmp_path: Path, http: aiohttp.ClientSession, definition: str
) -> None:
    good = '{"name":"good","inputSchema":{}}'
    odd = {"command": sys.executable, "args": ["-S", "-c", ODD, json.dumps([definition, good])], "era": "legacy"}
    async with gateway(tmp_path, {"one": faulty(), "odd": odd}) as opened:
        caller = ModernCaller(opened.url, http)
        await caller.call("one__list_changed")
        await until(lambda: "one__extra_1" in opened.hub.snapshot.tools)
        listed = await caller.request("tools/list")

    assert {"one__echo", "one__extra_1", "odd__good"} <= set(names(listed))


# Names.


async def test_one_server_is_shown_as_itself(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty("--name", "myself")}) as opened:
        modern = await ModernCaller(opened.url, http).request("server/discover")
        listed = await ModernCaller(opened.url, http).request("tools/list")
        caller = await LegacyCaller(opened.url, http).open()

    assert modern.result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "myself"
    assert caller.introduction["serverInfo"]["name"] == "myself"
    assert "echo" in names(listed)


async def test_one_server_has_a_prefix_if_that_is_wanted(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty("--name", "myself")}, namespace="always") as opened:
        caller = await LegacyCaller(opened.url, http).open()
        listed = await caller.request("tools/list")

    assert caller.introduction["serverInfo"]["name"] == "trunkline"
    assert all(name.startswith("one__") for name in names(listed))


@pytest.mark.parametrize(
    ("options", "shown", "called"),
    [
        ({"conflicts": "first-wins"}, {"echo"}, "one"),
        ({"conflicts": "last-wins"}, {"echo"}, "two"),
        ({"conflicts": "first-wins", "prefer": ["two"]}, {"echo"}, "two"),
        ({"conflicts": "error", "prefer": ["one"]}, {"echo"}, "one"),
        ({"conflicts": "error"}, set[str](), ""),
        ({"conflicts": "namespace"}, {"one__echo", "two__echo"}, ""),
    ],
)
async def test_equal_names_lead_where_the_configuration_says(
    tmp_path: Path, http: aiohttp.ClientSession, options: dict[str, Any], shown: set[str], called: str
) -> None:
    logs = {name: tmp_path / f"{name}.log" for name in ("one", "two")}
    servers = {name: faulty("--log", str(log)) for name, log in logs.items()}
    async with gateway(tmp_path, servers, namespace="never", **options) as opened:
        caller = ModernCaller(opened.url, http)
        listed = await caller.request("tools/list")
        heard = await caller.call("echo", {"text": "who?"})

    assert {name for name in names(listed) if name.endswith("echo")} == shown
    assert [name for name, log in logs.items() if "call echo" in log.read_text()] == ([called] if called else [])
    assert ("result" in heard.message) == bool(called)


# A changed configuration.


async def test_a_changed_configuration_touches_only_what_changed(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    logs = {name: tmp_path / f"{name}.log" for name in ("stays", "changes", "goes", "comes")}

    def server(name: str, *flags: str) -> dict[str, Any]:
        return faulty("--log", str(logs[name]), *flags)

    first = {name: server(name) for name in ("stays", "changes", "goes")}
    second = {"comes": server("comes"), "changes": server("changes", "--era", "modern"), "stays": first["stays"]}
    async with gateway(tmp_path, first) as opened:
        caller = ModernCaller(opened.url, http)
        slow = asyncio.create_task(caller.call("stays__slow", {"seconds": 0.5}))
        await until(lambda: "call slow" in logs["stays"].read_text())

        news = await opened.hub.apply(make_config(tmp_path, second))
        await opened.hub.ready(10)
        listed = await caller.request("tools/list")
        answer = await slow
        running = {name: log.read_text() for name, log in logs.items()}
        unchanged = await opened.hub.apply(make_config(tmp_path, second))

    assert sorted(news) == ["added comes", "changed changes", "removed goes"]
    assert unchanged == []
    assert answer.text == "slow"
    assert list(dict.fromkeys(name.partition("__")[0] for name in names(listed))) == ["comes", "changes", "stays"]
    assert {name: text.count("start ") for name, text in running.items()} == {
        "stays": 1, "changes": 2, "goes": 1, "comes": 1,
    }  # fmt: skip
    assert "end" in running["goes"]
    assert "end" not in running["stays"]


async def test_a_changed_configuration_is_heard_by_those_who_listen(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    servers = {"one": faulty(), "two": faulty()}
    async with gateway(tmp_path, servers) as opened:
        caller = await LegacyCaller(opened.url, http).open()
        async with caller.listen() as stream:
            await opened.hub.apply(make_config(tmp_path, {"one": servers["one"]}))
            methods = {(await stream.next())["method"] for _ in range(3)}

    assert "notifications/tools/list_changed" in methods


# What a server lists badly.


@pytest.mark.parametrize(("answer", "words"), [("null", "null for `tools`"), ('{"a":{}}', "no list for `tools`")])
async def test_an_answer_without_a_list_is_the_servers_error(
    tmp_path: Path, http: aiohttp.ClientSession, answer: str, words: str
) -> None:
    async with gateway(
        tmp_path, servers(shelf(tmp_path, "odd", answer), shelf(tmp_path, "one", [tool("read")]))
    ) as opened:
        heard = await ModernCaller(opened.url, http).request("tools/list")
        view = opened.hub.snapshot.servers["odd"]

    assert names(heard) == ["one__read"]
    assert (view.state.value, words in view.reason) == ("degraded", True)
    assert words in heard.result["_meta"][UNAVAILABLE]["odd"]


async def test_what_is_left_out_of_a_list_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    odd = shelf(tmp_path, "odd", [tool("read"), 7, {"description": "no name"}, tool("read", "another")])
    async with gateway(tmp_path, servers(odd)) as opened:
        view = opened.hub.snapshot.servers["odd"]

    told = "Of its tools 3 are left out: 1 with no definition, 1 with no name, 1 with a name that another has."
    assert list(opened.hub.snapshot.tools) == ["read"]
    assert (view.state.value, view.reason) == ("ready", told)
    assert f"Server odd: {told}" in caplog.text


async def test_a_list_has_a_bound_on_bytes(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    endless = {"command": sys.executable, "args": ["-S", "-c", ENDLESS, str(asked)]}
    async with gateway(tmp_path, {"endless": endless}) as opened:
        view = opened.hub.snapshot.servers["endless"]

    assert "more than 16 MB" in view.reason
    assert len(view.lists[Kind.TOOL].items) == 2
    assert len(asked.read_text()) == 3


async def test_callers_hear_who_is_still_starting(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    slow = {"slow": faulty("--start", "hang"), "also": faulty("--start", "hang")}
    async with open_gateway(make_config(tmp_path, slow, settle=0.0)) as opened:
        said = await ModernCaller(opened.url, http).request("server/discover")

    assert "slow is starting" in said.result["instructions"]
    assert "Nothing can be listed yet: still starting: also, slow." in caplog.text


async def test_a_first_list_waits_for_the_first_that_has_something(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    some = {"one": faulty(), "slow": faulty("--start", "hang")}
    async with open_gateway(make_config(tmp_path, some, settle=0.0)) as opened:
        listed = await ModernCaller(opened.url, http).request("tools/list")

    assert "one__echo" in names(listed)


ENDLESS = r"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        about = {"serverInfo": {"name": "endless", "version": "1"}, "capabilities": {"tools": {}}}
        result = {"protocolVersion": "2025-11-25", **about}
    elif message.get("method") == "tools/list":
        with open(sys.argv[1], "a") as file:
            file.write(".")
        cursor = message.get("params", {}).get("cursor", "") + "x"
        result = {"tools": [{"name": cursor, "description": "y" * 6_000_000}], "nextCursor": cursor}
    elif "id" in message:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
