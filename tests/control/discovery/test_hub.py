"""The hub's catalogue: it follows servers and calls, and the history of tools outlives the hub."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.call.stages.till import teller
from tests.control.shop import Shop, tool
from tests.harness import STDIO_SERVER, faulty, make_config, until
from trunkline import open_hub
from trunkline.control.change import ToolChanged

COIN = {"name": "toss_coin", "description": "Toss a coin.", "inputSchema": {"type": "object"}}


def test_the_catalogue_costs_nothing_until_it_is_asked_for() -> None:
    program = "import sys, trunkline.hub; print('trunkline.control.discovery.manager' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


async def test_tools_are_known_with_what_was_configured_and_how_calls_went(tmp_path: Path) -> None:
    tools = {"send_money": {"tags": ["money"], "category": "treasury"}}
    config = make_config(tmp_path, {"till": teller(tmp_path, tools=tools), "two": faulty("--era", "legacy")})
    async with open_hub(config) as hub:
        await hub.ready(30)
        await hub.call("till__get_balance", {"account": "x"})
        await hub.call("till__get_wrong", {"account": "x"})

        found = {tool.name: tool for tool in hub.discovery.get_server_tools("till")}
        often = hub.discovery.search_tools(sort_by="success_rate", limit=1)
        stats = hub.discovery.get_statistics()

    assert (found["send_money"].category, found["send_money"].annotations.tags) == ("treasury", ("money",))
    assert found["get_balance"].shown == "till__get_balance"
    assert found["get_balance"].stats.successful_calls == found["get_wrong"].stats.failed_calls == 1
    assert found["get_balance"].stats.last_execution_time > 0
    assert often.tools[0].name == "get_wrong"
    assert set(stats.tools_by_server) == {"till", "two"}
    assert (stats.total_calls, stats.failed_calls) == (2, 1)


async def test_a_catalogue_that_is_held_follows_servers_that_come_and_go(tmp_path: Path) -> None:
    config = make_config(tmp_path, {"one": teller(tmp_path, "one"), "two": teller(tmp_path, "two")})
    async with open_hub(config) as hub:
        await hub.ready(30)
        discovery = hub.discovery
        told: list[str] = []
        discovery.on("tool_discovered", lambda event: told.append(event.server_id))
        before = discovery.get_statistics().tools_by_server
        await hub.apply(dataclasses.replace(config, servers={"one": config.servers["one"]}))
        without = discovery.get_statistics().tools_by_server
        await hub.apply(config)
        await hub.ready(30)
        after = discovery.get_statistics().tools_by_server

        assert discovery is hub.discovery
    assert set(before) == set(after) == {"one", "two"}
    assert set(without) == {"one"}
    assert set(told) == {"two"}


async def test_tools_of_a_server_that_cannot_be_reached_are_known_and_not_available(tmp_path: Path) -> None:
    program = Path(shutil.copy(STDIO_SERVER, tmp_path))
    config = make_config(tmp_path, {"one": {"command": sys.executable, "args": ["-S", str(program)]}})
    async with open_hub(config) as hub:
        await hub.ready(30)
    os.remove(program)
    async with open_hub(config) as hub:
        await hub.ready(30)

        available = hub.discovery.search_tools().total_count
        known = hub.discovery.search_tools(include_unavailable=True, name="echo").tools

    assert available == 0
    assert [tool.is_available for tool in known] == [False]


async def test_what_is_discovered_besides_the_hub_stays(tmp_path: Path) -> None:
    config = make_config(tmp_path, {"one": faulty()})
    async with open_hub(config) as hub:
        await hub.ready(30)
        await hub.discovery.discover_tools_with_annotations("aside", Shop(tool("bake_cake")))
        hub.discovery.set_available("aside", False)
        hub.discovery.clear_server_tools("one")
        await hub.apply(dataclasses.replace(config, servers={}))
        await hub.apply(config)
        await hub.ready(30)

        found = hub.discovery.get_statistics()

    assert set(found.tools_by_server) == {"aside", "one"}
    assert found.available_tools == found.total_tools - 1


async def test_the_calls_of_a_groups_members_are_added_up(tmp_path: Path) -> None:
    servers = {name: teller(tmp_path, name) for name in ("a", "b")}
    sections = {"groups": {"bank": {"servers": ["a", "b"], "strategy": "round-robin"}}}
    async with open_hub(make_config(tmp_path, servers, sections=sections)) as hub:
        await hub.ready(30)
        for number in range(4):
            await hub.call("get_balance", {"account": str(number)})

        found = hub.discovery.get_tool("bank", "get_balance")
        often = hub.discovery.search_tools(sort_by="calls", sort_direction="desc", limit=1).tools[0]

        assert len(hub.relay.tallies.servers) == 2
    assert found is not None
    assert (found.stats.total_calls, found.stats.success_rate) == (4, 1.0)
    assert often == found


async def test_a_change_across_a_restart_is_in_the_history(tmp_path: Path) -> None:
    config = make_config(tmp_path, {"till": teller(tmp_path, more=[COIN])})
    async with open_hub(config) as hub:
        await hub.ready(30)
    teller(tmp_path, more=[COIN | {"description": "Toss two coins."}, COIN | {"name": "roll_die"}])
    async with open_hub(config) as hub:
        await hub.ready(30)
        second = await hub.discovery.get_changes()

    assert {(change.server, change.tool, change.what) for change in second} == {
        ("till", "toss_coin", ("description",)),
        ("till", "roll_die", ("added",)),
    }


async def test_a_change_while_the_hub_runs_is_told(tmp_path: Path) -> None:
    async with open_hub(make_config(tmp_path, {"one": faulty()})) as hub:
        await hub.ready(30)
        await hub.history.settled()
        told: asyncio.Queue[ToolChanged] = asyncio.Queue()
        hub.discovery.on(ToolChanged, told.put_nowait)
        await hub.call("list_changed")
        async with asyncio.timeout(10):
            event = await told.get()

        await until(lambda: hub.discovery.get_tool("one", "extra_1") is not None)
    assert (event.change.tool, event.change.what) == ("extra_1", ("added",))
