"""One object for all of it: opened, used and ended as ART's document shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import trunkline
from tests.manager.house import house, somewhere
from trunkline import Config, McpManagerV2, McpManagerV2Config, SearchSection
from trunkline.errors import ConfigError


async def test_the_patterns_of_the_document_work_in_a_row(tmp_path: Path) -> None:
    config = Config(home=tmp_path / "hub", search=SearchSection(strategy="bm25"))
    async with somewhere(tmp_path / "far", "github", "linear") as far:
        manager = McpManagerV2(config, user_id="user_456")
        await manager.initialize()
        for one in far.values():
            await manager.register_server(one, "user")

        [tool, *_] = await manager.resolve_tools_for_prompt("Create a PR to fix the bug", "thread_123")
        assert tool.name == "github__createPullRequest"
        assert (await tool.execute({})).text == "github createPullRequest"
        await manager.set_thread_servers("thread_123", ["linear"])
        assert {one.server_id for one in await manager.get_thread_tools("thread_123")} == {"linear"}
        assert "github__createPullRequest" not in [
            one.name for one in await manager.resolve_tools_for_prompt("Create a PR to fix the bug", "thread_123")
        ]
        await manager.unregister_server("linear", "user")
        assert await manager.get_thread_tools("thread_123") == []
        await manager.shutdown()

        async with McpManagerV2(config, user_id="user_456") as again:
            assert [one.id for one in (await again.storage.get_user_config("user_456")).servers] == ["github"]


async def test_a_hub_that_was_given_stays_open(tmp_path: Path) -> None:
    async with house(tmp_path, "git", "linear") as hub:
        async with McpManagerV2(hub) as manager:
            assert manager.hub is hub

        assert (await hub.call("git__showLog")).text == "git showLog"


async def test_it_is_opened_again_for_somebody_else(tmp_path: Path) -> None:
    async with house(tmp_path, "git", "linear") as hub:
        manager = McpManagerV2(hub, McpManagerV2Config(user_id="ana"))
        await manager.initialize(tool_search_strategy="regex")
        await manager.initialize()
        await manager.set_thread_servers("t", ["git"])
        await manager.shutdown()
        await manager.initialize(McpManagerV2Config(user_id="bob"))

        assert {tool.server_id for tool in await manager.get_thread_tools("t")} == {"git", "linear"}
        assert manager.config == McpManagerV2Config(user_id="bob")
        await manager.shutdown()


async def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="no search strategy 'magic'"):
        McpManagerV2(tool_search_strategy="magic")
    with pytest.raises(ConfigError, match="not open"):
        await McpManagerV2().get_thread_tools("t")
    with pytest.raises(ConfigError, match="no option 'colour'") as caught:
        McpManagerV2(colour="red")
    assert "enable_programmatic_calling" in str(caught.value)
    with pytest.raises(ConfigError, match=r"discovery_endpoint.*\[discovery\] url"):
        await McpManagerV2().initialize(discovery_endpoint="https://x.example")
    with pytest.raises(ConfigError, match="calls nothing from code"):
        await McpManagerV2(enable_programmatic_calling=False).execute_from_code("x")


async def test_shutting_down_never_fails(tmp_path: Path) -> None:
    manager = McpManagerV2(Config(home=tmp_path))
    await manager.shutdown()
    await manager.initialize()
    await manager.shutdown()
    await manager.shutdown()

    with pytest.raises(ConfigError, match="not open"):
        assert manager.registry


def test_the_classes_are_public() -> None:
    for name in ("McpManagerV2", "McpRegistry", "McpContextManager", "ToolSearchService", "McpProxyTool", "McpStorage"):
        assert getattr(trunkline, name).__name__ == name
