"""Finding tools in a hub: what fits, what does not, and servers that come and go."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from trunkline import Config, Hub, ServerSpec, open_hub


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Hub]:
    servers = {
        name: ServerSpec(
            name, command=sys.executable, args=("-m", f"trunkline.demo.{name}"), env={"DEMO_HOME": str(tmp_path)}
        )
        for name in ("notes", "clock")
    }
    async with open_hub(Config(servers=servers, home=tmp_path / "home")) as opened:
        await opened.ready(60)
        yield opened


async def test_the_tool_that_fits_comes_first_with_its_reason(hub: Hub) -> None:
    found = await hub.find("throw a note away")

    assert found[0].tool.shown == "notes__delete_note"
    assert 0 < found[0].score <= 1
    assert "note" in {reason.word for reason in found[0].reasons}


async def test_nothing_is_found_where_nothing_fits(hub: Hub) -> None:
    assert await hub.find("bake a chocolate cake") == []


async def test_several_queries_find_the_best_of_each(hub: Hub) -> None:
    found = await hub.find(["delete a note", "what time is it"], limit=2)

    assert {one.tool.shown for one in found} == {"notes__delete_note", "clock__now"}


async def test_only_the_servers_and_the_safety_that_are_wanted_are_found(hub: Hub) -> None:
    elsewhere = await hub.find("notes", servers=["clock"], min_score=0)
    safe = await hub.find("notes", safety="safe", min_score=0)

    assert all(one.tool.server == "clock" for one in elsewhere)
    assert "notes__list_notes" in {one.tool.shown for one in safe}
    assert "notes__delete_note" not in {one.tool.shown for one in safe}


async def test_a_server_that_goes_takes_its_tools_along_and_one_that_stays_is_still_found(hub: Hub) -> None:
    before = await hub.find("delete a note")
    await hub.apply(dataclasses.replace(hub.config, servers={"clock": hub.config.servers["clock"]}))
    after = await hub.find("delete a note")
    clock = await hub.find("the time in a time zone")

    assert before[0].tool.server == "notes"
    assert all(one.tool.server == "clock" for one in after)
    assert clock[0].tool.name == "now"
