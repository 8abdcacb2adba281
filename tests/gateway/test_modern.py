"""Modern callers in front of servers of both eras."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from tests.harness import LegacyCaller, ModernCaller, faulty, faulty_http, gateway


async def test_a_modern_caller_uses_the_tools_of_several_servers(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    with faulty_http("--era", "both") as url:
        servers = {"one": faulty(), "two": faulty("--era", "legacy"), "three": {"url": url}}
        async with gateway(tmp_path, servers) as opened:
            caller = ModernCaller(opened.url, http)

            listed = await caller.request("tools/list")
            answers = [(await caller.call(f"{name}__echo", {"text": name})).text for name in servers]

    names = {tool["name"] for tool in listed.result["tools"]}
    assert {"one__echo", "two__echo", "three__echo"} <= names
    assert answers == ["one", "two", "three"]


async def test_a_legacy_caller_uses_the_tools_of_several_servers(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    with faulty_http("--era", "both") as url:
        servers = {"one": faulty(), "two": faulty("--era", "legacy"), "three": {"url": url}}
        async with gateway(tmp_path, servers) as opened:
            caller = await LegacyCaller(opened.url, http).open()

            listed = await caller.request("tools/list")
            answers = [(await caller.call(f"{name}__echo", {"text": name})).text for name in servers]

    names = {tool["name"] for tool in listed.result["tools"]}
    assert {"one__echo", "two__echo", "three__echo"} <= names
    assert answers == ["one", "two", "three"]
