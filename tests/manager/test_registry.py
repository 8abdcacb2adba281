"""Servers under ART's names: what its registry promises, and what it got wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.harness import gateway
from tests.manager.house import house, manager, served, somewhere
from trunkline import GatewayConfig, Hub, McpConnection, McpRegistry, McpServerConfig
from trunkline.errors import (
    AuthorizationNeededError,
    ConfigError,
    NotFoundError,
    UnreachableError,
    VersionConflictError,
)
from trunkline.manager import events


def names(tools: list[Any]) -> list[str]:
    return [tool.name for tool in tools]


def hear(registry: McpRegistry) -> list[Any]:
    """Everything that a registry tells from now on."""
    heard: list[Any] = []
    for kind in events.EVENTS:
        registry.on(kind, heard.append)
    return heard


async def test_a_server_is_registered_connected_loaded_changed_and_taken_out_with_the_events_of_the_document(
    tmp_path: Path,
) -> None:
    async with somewhere(tmp_path / "far", "git") as far, house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        heard = hear(ana.registry)

        made = await ana.register_server(dataclasses.replace(far["git"], tags=("code",), trust_level="community"))
        assert (made.scope, made.user, made.version) == ("user", "ana", 1)
        tool = ana.registry.get_loaded_tools("ana")[0]
        await tool.execute()
        changed = await ana.update_server("git", {"description": "Ours", "timeout": 7.0})
        assert (changed.about.tags, changed.about.description, changed.spec.timeout) == (("code",), "Ours", 7.0)
        await ana.unregister_server("git")

        kinds = [one.event for one in heard]
        assert kinds[:3] == ["server_registered", "server_connected", "tool_loaded"]
        assert heard[0] == events.ServerRegistered("git", "user", "ana")
        assert heard[2] == events.ToolLoaded("git__showLog", "git", "showLog", "ana", tool)
        assert kinds.count("tool_called") == kinds.count("server_updated") == kinds.count("server_unregistered") == 1
        assert {"server_disconnected", "tool_unloaded"} <= {*kinds}
        assert ana.registry.get_loaded_tools("ana") == []
        assert await ana.registry.get_server("git", "ana") is None


async def test_events_are_named_as_text_too_and_nothing_is_told_after_the_end(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub:
        registry = McpRegistry(hub)
        by_name: list[Any] = []
        registry.on("tool_loaded", by_name.append)
        heard = hear(registry)
        await registry.load_tool("git", "showLog")

        await registry.shutdown()
        await registry.shutdown()
        await hub.register_server({"name": "x", "url": "http://127.0.0.1:9/mcp"})
        await hub.unregister_server("x")
        await hub.unmount("git")

        assert [one.tool_key for one in by_name] == ["showLog"]
        assert heard == by_name


async def test_deferred_loading_registers_at_once_and_a_call_loads_the_tool(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git") as far, house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        await ana.register_server(dataclasses.replace(far["git"], defer_loading=True))
        [tool] = await ana.registry.get_server_tools("git", "ana")
        assert not tool.is_loaded
        assert ana.registry.get_loaded_tools("ana") == []

        assert (await tool.execute()).text == "git showLog"

        assert tool.is_loaded
        assert names(ana.registry.get_loaded_tools("ana")) == ["git__showLog"]
        assert ana.registry.unload_tool("git__showLog", "ana")
        assert not ana.registry.unload_tool("git__showLog", "ana")


async def test_a_connection_lists_and_calls_and_says_why_there_is_none(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git") as far, house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        await ana.register_server(far["git"])
        nobody = McpServerConfig("nobody", McpConnection("http://127.0.0.1:9/mcp"))
        heard = hear(ana.registry)
        await ana.register_server(nobody)

        connection = await ana.get_or_create_connection("git")
        assert names(await connection.list_tools()) == ["git__showLog"]
        assert (await connection.call_tool("showLog")).text == "git showLog"
        with pytest.raises(UnreachableError, match="nobody"):
            await ana.get_or_create_connection("nobody")
        with pytest.raises(NotFoundError, match="no server 'three'"):
            await ana.get_or_create_connection("three")
        well = await ana.registry.get_server_status("git", "ana")
        sick = await ana.registry.get_server_status("nobody", "ana")
        assert (well.status, well.tool_count, well.calls.calls, well.calls.failures) == ("connected", 1, 1, 0)
        assert (sick.status, sick.tool_count) == ("error", 0)
        assert "127.0.0.1" in sick.reason
        assert [one.server_id for one in heard if isinstance(one, events.ServerError)] == ["nobody"]


# What the original got wrong.


async def test_the_same_server_registered_twice_is_one_and_another_of_its_id_is_refused(tmp_path: Path) -> None:
    async with (
        somewhere(tmp_path / "far", "git", "linear") as far,
        house(tmp_path / "hub", "github") as hub,
        manager(hub) as ana,
    ):
        await ana.register_server(far["git"])
        again = await ana.register_server(far["git"])
        other = dataclasses.replace(far["linear"], id="git")
        with pytest.raises(ConfigError, match=r"already is a server 'git'.*update_server"):
            await ana.register_server(other)

        assert again.version == 1
        assert (await ana.storage.get_user_config("ana")).servers == (far["git"],)


async def test_a_server_without_tools_is_registered_and_a_wrong_one_leaves_nothing(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git") as far, house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        url = far["git"].connection.url
        await ana.register_server({"id": "git", "type": "streamable-http", "connection": {"url": url}}, "app")
        heard = hear(ana.registry)
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"connection": {"url": url}}, "id"),
            ({"id": "x y", "connection": {"url": url}}, "cannot be a server's name"),
            ({"id": "x", "connection": {}}, "no address"),
            ({"id": "x", "connection": {"url": "nowhere"}}, "not an http address"),
            ({"id": "x", "type": "websocket", "connection": {"url": url}}, "no transport 'websocket'"),
            ({"id": "x", "type": "stdio", "connection": {"url": url}}, "no transport 'stdio'"),
            ({"id": "x", "connection": {"url": url}, "colour": "red"}, "A server has no 'colour'"),
            ({"id": "x", "connection": {"url": url, "uri": url}}, "A connection has no 'uri'"),
            ({"id": "x", "connection": {"url": url}, "timeout": -1}, "timeout"),
            ({"id": "x", "connection": {"url": url}, "trust_level": "mine"}, "trust_level"),
        ]
        for config, words in wrong:
            with pytest.raises(ConfigError, match=words):
                await ana.register_server(config, "app")

        assert [one.id for one in (await ana.storage.get_app_config()).servers] == ["git"]
        assert heard == []


async def test_one_users_server_poisons_hides_and_deletes_nothing_of_anothers(tmp_path: Path) -> None:
    async with (
        somewhere(tmp_path / "far", "git", "linear") as far,
        house(tmp_path / "hub", "github") as hub,
        manager(hub, "ana") as ana,
        manager(hub, "bob") as bob,
    ):
        tools = dataclasses.replace(far["git"], id="tools")
        await ana.register_server(tools)
        mine = names(await ana.registry.get_server_tools("tools", "ana"))
        with pytest.raises(NotFoundError):
            await bob.registry.get_server_tools("tools", "bob")
        with pytest.raises(NotFoundError):
            await bob.unregister_server("tools")

        await bob.register_server(dataclasses.replace(far["linear"], id="tools"))
        assert names(await bob.registry.get_server_tools("tools", "bob")) == ["tools__listIssues", "tools__addComment"]
        assert names(await ana.registry.get_server_tools("tools", "ana")) == mine == ["tools__showLog"]
        await bob.unregister_server("tools")

        assert names(await ana.registry.get_server_tools("tools", "ana")) == mine
        assert not [name for name in await bob.storage.get_deferred_tools("bob") if name.startswith("tools")]
        assert (await ana.registry.get_loaded_tools("ana")[0].execute()).text == "git showLog"


async def test_a_loaded_tool_is_each_users_own(tmp_path: Path) -> None:
    async with house(tmp_path, "git", "linear") as hub:
        registry = McpRegistry(hub)
        anas = await registry.load_tool("git", "showLog", "ana")
        assert not [tool for tool in await registry.get_server_tools("git", "bob") if tool.is_loaded]
        bobs = await registry.load_tool("git", "showLog", "bob")

        await bobs.execute()

        assert (anas.user_id, bobs.user_id) == ("ana", "bob")
        assert (anas.tally.calls, bobs.tally.calls) == (0, 1)
        await registry.shutdown()


async def test_taking_out_git_leaves_github_connected(tmp_path: Path) -> None:
    async with (
        somewhere(tmp_path / "far", "git", "github") as far,
        house(tmp_path / "hub", "linear") as hub,
        manager(hub) as ana,
    ):
        await ana.register_server(far["github"])
        await ana.register_server(far["git"])
        heard = hear(ana.registry)

        await ana.unregister_server("git")

        assert [one.server_id for one in heard if isinstance(one, events.ServerDisconnected)] == ["git"]
        assert (await ana.registry.get_server_status("github", "ana")).status == "connected"
        assert {tool.server_id for tool in ana.registry.get_loaded_tools("ana")} == {"github"}


async def test_of_two_who_change_a_server_at_once_one_is_told(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git") as far, house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        made = await ana.register_server(far["git"])
        await ana.update_server("git", {"description": "first"}, version=made.version)

        with pytest.raises(VersionConflictError):
            await ana.update_server("git", {"description": "second"}, version=made.version)

        kept = await ana.registry.get_server("git", "ana")
        assert kept is not None
        assert kept.description == "first"
        with pytest.raises(NotFoundError):
            await ana.update_server("git", {"description": "third"}, "app")


async def test_a_change_keeps_what_was_said_of_a_server_elsewhere(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git") as far, house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        url = far["git"].connection.url
        await hub.register_server(
            {"name": "git", "url": url, "concurrency": 3, "headers": {"X-Key": "k"}}, "user", "ana"
        )

        changed = await ana.update_server("git", {"display_name": "Git"})

        assert (changed.spec.concurrency, changed.spec.headers, changed.about.display_name) == (
            3,
            {"X-Key": "k"},
            "Git",
        )


async def test_a_tool_keeps_being_called_when_its_name_changes(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub:
        registry = McpRegistry(hub)
        tool = await registry.load_tool("git", "showLog")
        assert tool.name == "showLog"

        await hub.mount(served("linear"))
        assert (await tool.execute()).text == "git showLog"

        assert tool.name == "git__showLog"
        assert tool.is_loaded
        await registry.shutdown()


def test_nothing_secret_of_a_connection_is_printed() -> None:
    config = McpServerConfig("x", McpConnection("http://x.example", {"Authorization": "Bearer hush"}))

    assert "hush" not in repr(config)


async def test_user_scope_wants_a_user(tmp_path: Path) -> None:
    async def register(hub: Hub) -> None:
        async with manager(hub, "") as anybody:
            await anybody.register_server(McpServerConfig("x", McpConnection("http://127.0.0.1:9/mcp")))

    async with house(tmp_path, "git") as hub:
        with pytest.raises(ConfigError, match="Whose server is it to be"):
            await register(hub)


async def test_credentials_that_are_kept_are_the_ones_that_are_sent(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path / "far", {}, token="hush-hush-0123456789") as far,
        house(tmp_path / "hub", "linear") as hub,
        manager(hub) as ana,
    ):
        await far.hub.mount(served("git"))
        await ana.register_server(McpServerConfig("without", McpConnection(far.url)))
        await ana.register_server(
            McpServerConfig("with", McpConnection(far.url, {"Authorization": "Bearer hush-hush-0123456789"}))
        )

        with pytest.raises(AuthorizationNeededError):
            await ana.get_or_create_connection("without")
        [tool] = await (await ana.get_or_create_connection("with")).list_tools()
        assert (await tool.execute()).text == "git showLog"


async def test_a_server_that_was_away_is_connected_when_it_comes_back(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    async with house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        told = asyncio.Event()
        ana.registry.on("server_connected", lambda event: told.set() if event.server_id == "git" else None)
        await ana.register_server(McpServerConfig("git", McpConnection(f"http://127.0.0.1:{port}/mcp")))
        assert (await ana.registry.get_server_status("git", "ana")).status == "error"

        async with gateway(tmp_path / "far", {}, port=port) as far, asyncio.timeout(30):
            await far.hub.mount(served("git"))
            await told.wait()

            assert (await ana.registry.get_server_status("git", "ana")).status == "connected"


async def test_a_connection_is_waited_for_while_its_server_starts(tmp_path: Path) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await answer.wait()
        writer.close()

    listening = await asyncio.start_server(hold, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    async with listening, house(tmp_path, "git", gateway=GatewayConfig(settle=0.0)) as hub, asyncio.timeout(10):
        registry = McpRegistry(hub)
        await hub.register_server({"name": "slow", "url": url})
        waiting = asyncio.create_task(registry.get_connection("slow"))
        await asked.wait()
        assert (await registry.get_server_status("slow")).status == "connecting"
        assert not waiting.done()

        answer.set()

        with pytest.raises(UnreachableError, match="'slow' is unreachable"):
            await waiting
        await registry.shutdown()
