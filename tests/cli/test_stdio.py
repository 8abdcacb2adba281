"""`trunkline stdio`: a client that starts a program speaks with the gateway as if that were the program."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import META, TRUNKLINE, VERSION, faulty, gateway, make_config, until
from trunkline.cli.running import Running
from trunkline.cli.stdio import open_bridge
from trunkline.gateway.serve import Gateway, open_gateway
from trunkline.wire.era import LEGACY_VERSIONS

Json = dict[str, Any]


class Client:
    """A client at the other end of the pipes, which sees every line."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = os.fdopen(into, "wb", buffering=0), os.fdopen(out, "rb")
        self._lines = asyncio.StreamReader(limit=2**20)
        self._transport: asyncio.BaseTransport | None = None
        self.heard: list[Json] = []

    async def open(self) -> None:
        protocol = asyncio.StreamReaderProtocol(self._lines)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._out)

    def send(self, **message: Any) -> None:
        self._into.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, id: Any, method: str, params: Json | None = None, *, modern: bool = False) -> None:
        self.send(id=id, method=method, params={**(params or {}), **({"_meta": META} if modern else {})})

    async def next(self) -> Json:
        async with asyncio.timeout(10):
            return json.loads(await self._lines.readline())

    async def until(self, **wanted: Any) -> Json:
        """The next message that has these members; those before it are `heard`."""
        while True:
            message = await self.next()
            if wanted.items() <= message.items():
                return message
            self.heard.append(message)

    async def shake_hands(self, version: str = LEGACY_VERSIONS[0], capabilities: Json | None = None) -> Json:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
        self.request("first", "initialize", params)
        answer = await self.until(id="first")
        self.send(method="notifications/initialized")
        return answer["result"]

    def leave(self) -> None:
        self._into.close()

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


@asynccontextmanager
async def bridged(*gateways: Gateway) -> AsyncGenerator[Client]:
    """A client of a bridge to the first of these gateways; the bridge finds the others one after another."""
    (here, into), (out, there) = os.pipe(), os.pipe()
    client = Client(into, out)
    await client.open()
    found = [Running(one.url.removesuffix("/mcp"), one.key, local=True) for one in gateways]
    coming = iter(found[1:])
    with os.fdopen(there, "wb", buffering=0) as answers:
        async with open_bridge(found[0], "/mcp", answers, lambda: next(coming, None)) as bridge:
            following = asyncio.create_task(bridge.follow(here))
            try:
                yield client
            finally:
                client.leave()
                await following
    os.close(here)
    client.close()


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
async def test_a_client_of_every_legacy_revision_is_served(version: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, bridged(opened) as client:
        introduction = await client.shake_hands(version)
        client.request(7, "tools/call", {"name": "echo", "arguments": {"text": "hello"}})
        answer = await client.until(id=7)

    assert introduction["protocolVersion"] == version
    assert answer["result"]["content"][0]["text"] == "hello"


async def test_a_modern_client_is_served(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, bridged(opened) as client:
        client.request("a", "server/discover", modern=True)
        introduction = (await client.until(id="a"))["result"]
        client.request(2, "tools/call", {"name": "bigint"}, modern=True)
        answer = await client.until(id=2)

    assert VERSION in introduction["supportedVersions"]
    assert "result" in answer


async def test_progress_and_news_come_before_and_beside_answers(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, bridged(opened) as client:
        await client.shake_hands()
        client.request(1, "tools/call", {"name": "progress_forever", "_meta": {"progressToken": "p"}})
        progress = await client.until(method="notifications/progress")
        client.send(method="notifications/cancelled", params={"requestId": 1})
        await until(lambda: opened.hub.relay.lane("one").inside == 0)
        client.request(2, "tools/call", {"name": "list_changed"})
        await client.until(method="notifications/tools/list_changed")

    assert progress["params"]["progressToken"] == "p"
    assert not [message for message in client.heard if message.get("id") == 1]


async def test_a_modern_client_follows_changes_and_withdraws_by_a_message(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, bridged(opened) as client:
        client.request("news", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, modern=True)
        await client.until(method="notifications/subscriptions/acknowledged")
        client.request(2, "tools/call", {"name": "list_changed"}, modern=True)
        await client.until(method="notifications/tools/list_changed")
        client.request("h\u00e9", "tools/call", {"name": "hang"}, modern=True)
        await until(lambda: opened.hub.relay.lane("one").inside == 1)
        client.send(method="notifications/cancelled", params={"requestId": "h\u00e9"})
        await until(lambda: opened.hub.relay.lane("one").inside == 0)


async def test_a_server_asks_through_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty("--era", "legacy")}) as opened, bridged(opened) as client:
        await client.shake_hands(capabilities={"elicitation": {}})
        client.request(1, "tools/call", {"name": "ask"})
        question = await client.until(method="elicitation/create")
        client.send(id=question["id"], result={"action": "accept", "content": {"name": "Ann"}})
        answer = await client.until(id=1)

    assert "Ann" in answer["result"]["content"][0]["text"]


async def test_what_cannot_be_read_is_refused_and_nothing_else_suffers(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened, bridged(opened) as client:
        client._into.write(b"{nonsense\n\n[]\n")  # pyright: ignore[reportPrivateUsage] - bytes as they are
        refused = [await client.next(), await client.next()]
        client.request(1, "tools/call", {"name": "echo", "arguments": {"text": "a"}}, modern=True)
        await client.until(id=1)

    assert [message["error"]["code"] for message in refused] == [-32700, -32600]


async def test_a_session_ends_with_its_client(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        async with bridged(opened) as client:
            await client.shake_hands()
            assert len(opened.app.legacy.sessions) == 1

        assert len(opened.app.legacy.sessions) == 0


async def test_a_gateway_that_was_started_anew_goes_on_where_the_first_one_ended(tmp_path: Path) -> None:
    async with open_gateway(make_config(tmp_path / "second", {"one": faulty()})) as second:
        async with gateway(tmp_path / "first", {"one": faulty()}) as first:
            bridge = bridged(first, second)
            client = await bridge.__aenter__()
            await client.shake_hands()
        client.request(1, "tools/call", {"name": "echo", "arguments": {"text": "again"}})
        answer = await client.until(id=1)
        await bridge.__aexit__(None, None, None)

    assert answer["result"]["content"][0]["text"] == "again"


async def test_a_gateway_that_is_gone_is_named(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        bridge = bridged(opened)
        client = await bridge.__aenter__()
        await client.shake_hands()
    client.request(1, "tools/call", {"name": "echo", "arguments": {"text": "again"}})
    answer = await client.until(id=1)
    await bridge.__aexit__(None, None, None)

    assert "The gateway is gone" in answer["error"]["message"]


@pytest.mark.slow
def test_without_a_gateway_the_servers_are_its_own_and_end_with_the_client(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": faulty()}}))
    env = {**os.environ, "HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path / "t")}
    lines = [
        {"id": 1, "method": "tools/call", "params": {"name": "env", "arguments": {}, "_meta": META}},
        {"id": 2, "method": "tools/list", "params": {"_meta": META}},
    ]
    text = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)

    done = subprocess.run(
        [TRUNKLINE, "stdio", "--config", str(config)], input=text, capture_output=True, text=True, env=env, timeout=60
    )

    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0
    assert set(answers) == {1, 2}
    assert "echo" in {tool["name"] for tool in answers[2]["result"]["tools"]}
