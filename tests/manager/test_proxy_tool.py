"""A tool under ART's name: what models are told of it, and who may call it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import gateway
from tests.manager.house import house, manager, served
from trunkline import (
    Annotations,
    Config,
    GroupSpec,
    McpProxyTool,
    McpRegistry,
    ServerSpec,
    Tool,
    ToolResult,
    open_hub,
    to_anthropic,
)
from trunkline.errors import TrunklineError, UnknownNameError

CODE = "code_execution_20250825"
FULL = Tool(
    "createRelease",
    "Create a release on GitHub",
    annotations=Annotations(tags=("github", "git")),
    meta={
        "whenToUse": "When user wants to ship",
        "input_examples": [{"title": "1.0", "base": "main"}],
        "defer_loading": True,
        "estimatedCost": 0.0001,
    },
    execute=lambda _: "released",
)


async def tool_named(registry: McpRegistry, server: str, name: str, user: str = "") -> McpProxyTool:
    return next(one for one in await registry.get_server_tools(server, user) if one.get_original_tool_name() == name)


async def test_its_schema_has_what_is_said_of_the_tool(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub, manager(hub) as ana:
        server = served("github")
        server.register_tool(FULL)
        await hub.mount(server)
        tool = await tool_named(ana.registry, "github", "createRelease", "ana")

        assert tool.schema == {
            "name": "github__createRelease",
            "description": "Create a release on GitHub",
            "input_schema": {"type": "object", "properties": {}},
            "when_to_use": "When user wants to ship",
            "input_examples": [{"title": "1.0", "base": "main"}],
            "defer_loading": True,
            "tags": ["github", "git"],
            "estimated_cost": 0.0001,
        }
        assert tool.allowed_callers == ("direct",)
        assert tool.get_tool_definition()["name"] == tool.name
        assert await tool.get_server_config() is None
        bare = await tool_named(ana.registry, "git", "showLog", "ana")
        assert bare.schema.keys() == {"name", "description", "input_schema"}


async def test_it_goes_into_the_formats_of_vendors_and_is_called_from_there(tmp_path: Path) -> None:
    async with house(tmp_path, "git", "linear") as hub, manager(hub) as ana:
        tool = await tool_named(ana.registry, "git", "showLog", "ana")

        assert to_anthropic(tool.tool).value["name"] == "git__showLog"
        assert tool.tool.execute is not None
        result = await tool.tool.execute({})

        assert isinstance(result, ToolResult)
        assert result.text == "git showLog"


async def test_a_caller_that_is_not_allowed_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    called: list[dict[str, Any]] = []
    server = served("git")
    for name, callers in (("code", [CODE]), ("both", [CODE, "direct"]), ("nobody", []), ("odd", "everybody")):
        server.register_tool(Tool(name, "Does it", meta={"allowed_callers": callers}, execute=called.append))
    async with house(tmp_path, "linear") as hub:
        await hub.mount(server)
        registry = McpRegistry(hub)
        plain, both = [await registry.load_tool("git", name) for name in ("showLog", "both")]

        assert (await plain.execute()).text == "git showLog"
        await both.execute()
        assert called == [{}]
        with pytest.raises(TrunklineError, match="may not be called by"):
            await plain.execute(caller=CODE)
        with pytest.raises(TrunklineError, match="may not be called by 'other'"):
            await both.execute(caller="other")
        for name in ("code", "nobody", "odd"):  # none of them is for whoever calls directly
            with pytest.raises(TrunklineError):
                await (await registry.load_tool("git", name)).execute()
        assert called == [{}]
        await registry.shutdown()


async def test_a_failing_tool_is_a_result_that_says_so(tmp_path: Path) -> None:
    server = served("git")
    server.register_tool(Tool("fail", "Fails", execute=lambda _: ToolResult.failed("No.")))
    async with house(tmp_path, "linear") as hub:
        await hub.mount(server)
        registry = McpRegistry(hub)
        tool = await registry.load_tool("git", "fail")

        result = await tool.execute()

        assert (result.is_error, result.text, tool.tally.tool_errors) == (True, "No.", 1)
        await registry.shutdown()


async def test_servers_whose_names_have_underscores_are_reached_and_never_mistaken(tmp_path: Path) -> None:
    async with house(tmp_path) as hub:
        one, other = served("git", "of a_b"), served("git", "of a")
        other.register_tool(Tool("b_showLog", "Shows the other log", execute=lambda _: "the other"))
        await hub.mount(one, "a_b")
        await hub.mount(other, "a")
        registry = McpRegistry(hub)

        texts = [
            (await (await registry.load_tool(server, name)).execute()).text
            for server, name in (("a_b", "showLog"), ("a", "showLog"), ("a", "b_showLog"))
        ]

        assert texts == ["of a_b", "of a", "the other"]
        assert len({tool.name for tool in registry.get_loaded_tools()}) == 3
        await registry.shutdown()


async def test_a_tool_that_is_gone_says_so(tmp_path: Path) -> None:
    async with house(tmp_path, "git", "linear") as hub:
        registry = McpRegistry(hub)
        tool = await registry.load_tool("git", "showLog")

        await hub.unmount("git")

        with pytest.raises(UnknownNameError, match="git__showLog"):
            await tool.execute()
        assert registry.get_loaded_tools() == []
        with pytest.raises(UnknownNameError, match="'dance' on server 'linear'"):
            await registry.load_tool("linear", "dance")
        await registry.shutdown()


async def test_the_calls_of_a_group_are_counted_for_its_tool(tmp_path: Path) -> None:
    async with gateway(tmp_path / "far", {}) as far:
        await far.hub.mount(served("git"))
        servers = {name: ServerSpec(name, url=far.url) for name in ("one", "two")}
        groups = {"pair": GroupSpec("pair", tuple(servers))}
        async with open_hub(Config(home=tmp_path / "hub", servers=servers, groups=groups)) as hub:
            registry = McpRegistry(hub)
            await hub.ready(10)
            [tool] = await registry.get_server_tools("pair")

            for _ in range(3):
                await tool.execute()

            assert (tool.server_id, tool.tally.calls) == ("pair", 3)
            await registry.shutdown()
