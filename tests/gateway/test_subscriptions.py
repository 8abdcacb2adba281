"""Modern callers that want to hear of changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import META, VERSION, EventReader, LegacyCaller, ModernCaller, faulty, faulty_http, gateway, until

TAG = "io.modelcontextprotocol/subscriptionId"
TOOLS = {"toolsListChanged": True}


@asynccontextmanager
async def listen(
    url: str, http: aiohttp.ClientSession, wanted: Any, *, id: Any = "mine"
) -> AsyncGenerator[EventReader]:
    params = {"notifications": wanted, "_meta": META}
    body = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": "subscriptions/listen",
    }
    async with http.post(url, data=json.dumps(body).encode(), headers=headers) as response:
        yield EventReader(response)


@pytest.mark.parametrize("era", ["legacy", "modern", "both"])
@pytest.mark.parametrize("over_http", [False, True])
async def test_a_changed_list_is_heard_after_the_acknowledgement(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, over_http: bool
) -> None:
    log = tmp_path / "log"
    with faulty_http("--era", era, "--log", str(log)) as address:
        servers = {"one": {"url": address} if over_http else faulty("--era", era)}
        async with gateway(tmp_path, servers) as opened, listen(opened.url, http, TOOLS) as stream:
            first = await stream.next()
            caller = ModernCaller(opened.url, http)
            if over_http:  # where the gateway's own ear is a request that may come a moment later
                await until(lambda: "http GET" in log.read_text() or "subscriptions/listen" in log.read_text())
            added = (await caller.call("list_changed")).text
            second = await stream.next()
            listed = await caller.request("tools/list")

    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"] == {"notifications": TOOLS, "_meta": {TAG: "mine"}}
    assert second["method"] == "notifications/tools/list_changed"
    assert second["params"]["_meta"][TAG] == "mine"
    assert added in [tool["name"] for tool in listed.result["tools"]]


@pytest.mark.parametrize("id", [0, -3, "text", "é"])
async def test_every_message_names_its_subscription(tmp_path: Path, http: aiohttp.ClientSession, id: Any) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, listen(opened.url, http, TOOLS, id=id) as stream:
        first = await stream.next()
        await ModernCaller(opened.url, http).call("list_changed")
        second = await stream.next()
        opened.app.drain()
        last = await stream.next()

    assert [message["params"]["_meta"][TAG] for message in (first, second)] == [id, id]
    assert last["id"] == id
    assert last["result"]["resultType"] == "complete"
    assert last["result"]["_meta"][TAG] == id


async def test_only_what_was_asked_for_is_heard(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    others: list[Any] = [
        {"promptsListChanged": True, "resourcesListChanged": True},
        {"toolsListChanged": False},
        {"toolsListChanged": "yes"},
        {},
    ]
    async with gateway(tmp_path, {"one": faulty()}) as opened, AsyncExitStack() as stack:
        tools = await stack.enter_async_context(listen(opened.url, http, TOOLS))
        streams = [tools] + [await stack.enter_async_context(listen(opened.url, http, wanted)) for wanted in others]
        acknowledged = [await stream.next() for stream in streams]
        await ModernCaller(opened.url, http).call("list_changed")
        heard = await tools.next()
        opened.app.drain()
        ends = [await stream.next() for stream in streams]

    assert heard["method"] == "notifications/tools/list_changed"
    assert [message["params"]["notifications"] for message in acknowledged] == [TOOLS, others[0], {}, {}, {}]
    assert all("result" in message for message in ends)


async def test_two_subscriptions_each_hear_their_own_copy(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with (
        gateway(tmp_path, {"one": faulty(), "two": faulty()}) as opened,
        listen(opened.url, http, TOOLS, id=0) as one,
        listen(opened.url, http, TOOLS, id=1) as two,
    ):
        await one.next()
        await two.next()
        await ModernCaller(opened.url, http).call("two__list_changed")
        heard = [await one.next(), await two.next()]

    assert [message["params"]["_meta"][TAG] for message in heard] == [0, 1]


@pytest.mark.parametrize("wanted", [[], "tools", 5])
async def test_a_wish_that_is_no_object_is_refused(tmp_path: Path, http: aiohttp.ClientSession, wanted: Any) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, listen(opened.url, http, wanted) as stream:
        status = stream.response.status

    assert status == 400


async def test_a_subscription_ends_with_its_caller(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        await ModernCaller(opened.url, http).request("tools/list")
        before = asyncio.all_tasks()
        async with listen(opened.url, http, TOOLS) as stream:
            await stream.next()
            begun = asyncio.all_tasks() - before
            stream.response.close()

        await until(lambda: all(task.done() for task in begun))

    assert begun


async def test_a_resource_that_nobody_has_is_not_granted(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    wanted = {"resourceSubscriptions": ["file:///nowhere"], **TOOLS}
    servers = {"one": faulty(), "two": faulty()}
    async with gateway(tmp_path, servers) as opened, listen(opened.url, http, wanted) as stream:
        status = stream.response.status
        first = await stream.next()

    assert status == 200
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == TOOLS


async def test_a_subscription_that_a_server_refuses_is_refused_to_everyone(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": faulty("--era", "legacy")}) as opened:
        callers = [await LegacyCaller(opened.url, http).open() for _ in range(2)]
        heard = [await caller.request("resources/subscribe", {"uri": "test://none"}) for caller in callers]

    assert [one.error["code"] for one in heard] == [-32601, -32601]
