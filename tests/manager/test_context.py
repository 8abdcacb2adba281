"""Threads under ART's names: what its context manager promises, and what it got wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.manager.house import house, manager, somewhere
from trunkline import McpContextManager, McpProxyTool, McpRegistry
from trunkline.config.tenancy import LimitsSection
from trunkline.errors import ConfigError, NotFoundError, UnknownNameError

ALL = ["git", "github", "linear"]


def servers(tools: list[McpProxyTool]) -> set[str]:
    return {tool.server_id for tool in tools}


async def test_a_thread_has_the_servers_that_it_was_given_and_their_tools_alone(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub, manager(hub) as ana:
        threads = ana.context_manager
        await ana.set_thread_servers("thread_123", ["github"])

        assert await threads.get_thread_active_servers("thread_123", "ana") == ["github"]
        tools = await ana.get_thread_tools("thread_123")
        assert servers(tools) == {"github"}
        [listing] = [tool for tool in tools if tool.name == "github__listIssues"]
        assert (await listing.execute()).text == "github listIssues"
        [other] = [tool for tool in await ana.get_thread_tools("thread_9") if tool.server_id == "git"]
        other.thread_id = "thread_123"
        with pytest.raises(UnknownNameError):
            await other.execute()

        await threads.add_server_to_thread("thread_123", "git", "ana")
        assert await threads.get_thread_active_servers("thread_123", "ana") == ["git", "github"]
        await threads.disable_server_for_thread("thread_123", "github", "ana")
        assert servers(await ana.get_thread_tools("thread_123")) == {"git"}
        await threads.enable_server_for_thread("thread_123", "github", "ana")
        await threads.remove_server_from_thread("thread_123", "git", "ana")
        stats = await threads.get_thread_tool_stats("thread_123", "ana")
        counted = (stats.total_available, stats.total_loaded, stats.server_breakdown)
        assert counted == (len(await ana.get_thread_tools("thread_9")), len(tools), {"github": len(tools)})
        with pytest.raises(NotFoundError, match="no server 'gitlab'"):
            await ana.set_thread_servers("thread_123", ["git", "gitlab"])
        await ana.set_thread_servers("thread_123", None)
        assert await threads.get_thread_active_servers("thread_123", "ana") == ALL


async def test_a_server_that_is_chosen_for_a_thread_is_loaded_unless_it_is_deferred(tmp_path: Path) -> None:
    async with (
        somewhere(tmp_path / "far", "git") as far,
        house(tmp_path / "hub", "linear") as hub,
        manager(hub) as ana,
    ):
        await ana.register_server(far["git"])
        ana.registry.unload_tool("git__showLog", "ana")

        await ana.set_thread_servers("t", ["git", "linear"])

        assert [tool.name for tool in ana.registry.get_loaded_tools("ana")] == ["git__showLog"]


async def test_threads_are_listed_copied_and_carried_as_json(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub:
        registry = McpRegistry(hub)
        threads = McpContextManager(registry)
        await threads.set_thread_servers("a", ["git"], "ana")
        await threads.set_thread_overrides("a", "ana", timeout=5.0)

        await threads.clone_thread_config("a", "b", "ana")
        document = await threads.export_thread_config("a", "ana")
        await threads.import_thread_config("c", document, "ana")

        assert await threads.list_active_threads("ana") == ["a", "b", "c"]
        assert await threads.list_active_threads("bob") == []
        for id in ("b", "c"):
            assert await threads.export_thread_config(id, "ana") == document
        for wrong in ("", "[]", "{}", "{" * 10_000, json.dumps({**json.loads(document), "version": 2})):
            with pytest.raises(ConfigError):
                await threads.import_thread_config("c", wrong, "ana")
        await threads.clear_thread_config("c", "ana")
        await threads.clear_thread_config("c", "ana")
        assert await threads.list_active_threads("ana") == ["a", "b"]
        await registry.shutdown()


# What the original got wrong.


async def test_a_thread_that_nobody_configured_has_what_its_user_has(tmp_path: Path) -> None:
    async with (
        somewhere(tmp_path / "far", "git") as far,
        house(tmp_path / "hub", "github", "linear") as hub,
        manager(hub) as ana,
    ):
        await ana.register_server(far["git"])

        assert servers(await ana.get_thread_tools("new")) == {*ALL}
        assert [one.name for one in await ana.resolve_tools_for_prompt("show the commit history", "new")] == [
            "git__showLog"
        ]


async def test_choosing_servers_keeps_the_overrides_of_a_thread(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub, manager(hub) as ana:
        await ana.context_manager.set_thread_overrides("t", "ana", timeout=5.0, disable_programmatic_calling=True)

        await ana.set_thread_servers("t", ["git"])

        kept = await ana.context_manager.get_thread_overrides("t", "ana")
        assert (kept.timeout, kept.disable_programmatic_calling) == (5.0, True)


async def test_overrides_of_a_thread_that_nobody_configured_are_kept(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub, manager(hub) as ana:
        await ana.context_manager.set_thread_overrides("new", "ana", disable_tool_search=True)

        assert (await ana.context_manager.get_thread_overrides("new", "ana")).disable_tool_search
        everything = await ana.resolve_tools_for_prompt("show the commit history", "new")
        assert len(everything) == len(await ana.get_thread_tools("new")) > 1
        with pytest.raises(ConfigError, match="cannot override colour"):
            await ana.context_manager.set_thread_overrides("new", "ana", colour="red")


async def test_a_thread_may_have_as_many_servers_as_the_limit_says(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL, limits=LimitsSection(servers_per_thread=2)) as hub, manager(hub) as ana:
        await ana.set_thread_servers("t", ["git", "github"])

        with pytest.raises(ConfigError, match="may have 2 servers"):
            await ana.set_thread_servers("t", ALL)
        with pytest.raises(ConfigError, match="may have 2 servers"):
            await ana.context_manager.add_server_to_thread("t", "linear", "ana")

        assert await ana.context_manager.get_thread_active_servers("t", "ana") == ["git", "github"]


async def test_a_thread_is_its_users_alone(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub, manager(hub, "ana") as ana, manager(hub, "bob") as bob:
        await ana.set_thread_servers("shared", ["git"])
        assert servers(await bob.get_thread_tools("shared")) == {*ALL}
        assert await bob.storage.get_thread_config("shared", "bob") is None
        with pytest.raises(NotFoundError):
            await bob.context_manager.clone_thread_config("shared", "mine", "bob")

        await bob.set_thread_servers("shared", ["linear"])
        await bob.context_manager.clear_thread_config("shared", "bob")

        assert servers(await ana.get_thread_tools("shared")) == {"git"}


async def test_the_options_of_a_search_are_heeded(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub, manager(hub) as ana:
        prompt = "list the issues"
        found = await ana.resolve_tools_for_prompt(prompt, "t")
        assert {one.name for one in found[:2]} == {"github__listIssues", "linear__listIssues"}

        assert len(await ana.resolve_tools_for_prompt(prompt, "t", max_results=1)) == 1
        assert await ana.resolve_tools_for_prompt(prompt, "t", min_score=1.0) == []
        assert await ana.resolve_tools_for_prompt("^l..t_?iss", "t") == []
        assert len(await ana.resolve_tools_for_prompt("^l..t_?iss", "t", strategy="regex")) == 2
        assert await ana.resolve_tools_for_prompt("a", "t") == []
        with pytest.raises(ConfigError, match="limit"):
            await ana.resolve_tools_for_prompt(prompt, "t", max_results=0)


async def test_what_was_resolved_is_loaded_and_keeps_to_its_thread(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub, manager(hub, tool_search_strategy="regex") as ana:
        await ana.set_thread_servers("t", ["linear"])

        [tool] = await ana.resolve_tools_for_prompt("^l..t_?iss", "t")

        assert (tool.name, tool.thread_id, tool.is_loaded) == ("linear__listIssues", "t", True)
        assert (await tool.execute()).text == "linear listIssues"


async def test_many_changes_of_one_thread_at_once_are_all_kept(tmp_path: Path) -> None:
    async with house(tmp_path, *ALL) as hub, manager(hub) as ana:
        await ana.set_thread_servers("t", [])

        await asyncio.gather(*(ana.context_manager.add_server_to_thread("t", name, "ana") for name in ALL))

        assert await ana.context_manager.get_thread_active_servers("t", "ana") == ALL
