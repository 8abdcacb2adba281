"""Discovering tools: what is read from a client, what is known then, and what failures leave."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.types import ListToolsResult, PaginatedRequestParams, ToolAnnotations

from tests.control.shop import Json, Shop, Stuck, discovered, tool
from trunkline import Annotations, EnhancedToolDiscovery, MultiServerManager, ServerInfo, Tool
from trunkline.control.discovery.events import AnnotationsUpdated, ToolDiscovered
from trunkline.errors import ConfigError


async def test_every_page_of_a_list_is_read() -> None:
    shop = Shop(*(tool(f"tool_{number}") for number in range(25)), page=10)

    result = await EnhancedToolDiscovery().discover_tools_with_annotations("shop", shop)

    assert (result.success, result.tool_count) == (True, 25)
    assert shop.asked == [None, "10", "20"]


async def test_the_servers_own_hints_outrank_what_the_words_tell() -> None:
    discovery = await discovered(tool("delete_draft", "Delete a draft", annotations={"destructiveHint": False}))

    found = discovery.get_tool("shop", "delete_draft")

    assert found is not None
    assert found.annotations.destructive_hint is False
    assert found.safety == "moderate"


async def test_hints_that_nobody_gave_are_told_from_the_words() -> None:
    discovery = await discovered(tool("delete_user", "Delete a user"), tool("get_user", "Get a user"))

    assert [one.name for one in discovery.get_tools_by_safety_level("dangerous")] == ["delete_user"]
    assert [one.name for one in discovery.get_read_only_tools()] == ["get_user"]
    assert [one.name for one in discovery.get_tools_requiring_confirmation()] == ["delete_user"]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("legitimate_digital", "version-control"),
        ("rapid", "api"),
        ("update_metadata", "data"),
        ("build_author", "authentication"),
        ("spread_word", "file-system"),
    ],
)
async def test_a_category_comes_from_words_and_not_from_letters(name: str, wrong: str) -> None:
    found = (await discovered(tool(name))).get_tool("shop", name)

    assert found is not None
    assert found.category != wrong


async def test_both_clients_of_the_sdk_can_be_read() -> None:
    server = MCPServer("real", version="2.1.0")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def look(where: str | None = None) -> str:  # pyright: ignore[reportUnusedFunction]
        """Look somewhere."""
        return where or ""

    discovery = EnhancedToolDiscovery()
    async with Client(server) as client:
        results = [
            await discovery.discover_tools_with_annotations("client", client),
            await discovery.discover_tools_with_annotations("session", client.session),
        ]

    assert [(result.error, result.tool_count) for result in results] == [("", 1), ("", 1)]
    found = discovery.get_tool("session", "look")
    assert found is not None
    assert (found.version, found.annotations.read_only_hint) == ("2.1.0", True)
    assert found.input_schema["properties"]["where"]["default"] is None


async def test_a_session_of_the_sdk_is_asked_for_further_pages() -> None:
    cursors: list[str | None] = []

    class Session:
        async def list_tools(self, *, params: PaginatedRequestParams | None = None) -> ListToolsResult:
            cursors.append(params.cursor if params else None)
            listed = {"tools": [tool(f"tool_{len(cursors)}")], "nextCursor": "more" if len(cursors) < 2 else None}
            return ListToolsResult.model_validate(listed)

    result = await EnhancedToolDiscovery().discover_tools_with_annotations("shop", Session())

    assert (result.error, result.tool_count, cursors) == ("", 2, [None, "more"])


async def test_a_client_that_keeps_lists_is_made_to_ask_its_server() -> None:
    modes: list[str] = []

    class Keeping:
        async def list_tools(self, *, cursor: str | None = None, cache_mode: str = "use") -> Json:
            modes.append(cache_mode)
            return {"tools": []}

    await EnhancedToolDiscovery().discover_tools_with_annotations("shop", Keeping())

    assert modes == ["refresh"]


async def test_pages_that_lead_in_a_circle_end_with_a_warning_and_lose_nothing_known() -> None:
    discovery = await discovered(tool("old"))
    asked: list[str | None] = []

    class Balancer:
        async def list_tools(self, cursor: str | None) -> Json:
            asked.append(cursor)
            return {"tools": [tool(f"from_{cursor}")], "nextCursor": "again"}

    result = await discovery.discover_tools_with_annotations("shop", Balancer())

    assert result.success
    assert asked == [None, "again"]
    assert result.warnings == ("Its tools do not end; only the first pages are known.",)
    assert {one.name for one in discovery.get_server_tools("shop")} == {"old", "from_None", "from_again"}


async def test_one_odd_definition_hides_no_other() -> None:
    odd: list[Any] = [{"description": "nameless"}, tool("good"), "text", tool("good", "the second of its name")]
    discovery = EnhancedToolDiscovery()

    result = await discovery.discover_tools_with_annotations("shop", Shop(*odd))

    assert [(one.name, one.description) for one in result.tools] == [("good", "")]
    assert len(result.warnings) == 2


async def test_a_server_that_does_not_answer_is_a_failed_result() -> None:
    result = await EnhancedToolDiscovery().discover_tools_with_annotations("shop", Stuck(), timeout=0.01)

    assert (result.success, result.tool_count) == (False, 0)
    assert result.error.startswith("Discovery timeout")


@pytest.mark.parametrize("answer", [{}, {"tools": None}, None, 7])
async def test_an_answer_without_tools_is_a_failed_result(answer: Any) -> None:
    class Odd:
        async def list_tools(self, cursor: str | None) -> Any:
            return answer

    result = await EnhancedToolDiscovery().discover_tools_with_annotations("shop", Odd())

    assert (result.success, result.error) == (False, "No tools returned from server.")


async def test_a_failed_refresh_keeps_what_was_known() -> None:
    discovery = await discovered(tool("get_user"))

    class Broken:
        async def list_tools(self, cursor: str | None) -> Json:
            raise RuntimeError("no line")

    result = await discovery.discover_tools_with_annotations("shop", Broken())

    assert result.error == "RuntimeError: no line"
    assert discovery.search_tools(name="user").total_count == 1


async def test_a_refresh_forgets_what_is_gone() -> None:
    discovery = await discovered(tool("old"), tool("kept"))

    await discovery.discover_tools_with_annotations("shop", Shop(tool("kept"), tool("new")))

    assert [one.name for one in discovery.get_server_tools("shop")] == ["kept", "new"]
    assert discovery.get_tool("shop", "old") is None


async def test_one_server_is_discovered_once_at_a_time_and_others_meanwhile() -> None:
    discovery = EnhancedToolDiscovery()
    stuck = Stuck()
    first = asyncio.create_task(discovery.discover_tools_with_annotations("shop", stuck, timeout=30))
    await stuck.entered.wait()

    second = await discovery.discover_tools_with_annotations("shop", Shop(tool("a")))
    other = await discovery.discover_tools_with_annotations("other", Shop(tool("a")))
    first.cancel()

    assert second.error == "Discovery already in progress for server: shop"
    assert other.success
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await discovery.discover_tools_with_annotations("shop", Shop(tool("a")))).success


async def test_what_is_given_out_cannot_change_the_catalogue() -> None:
    schema: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
    definition = tool("read_file") | {"inputSchema": schema}
    discovery = await discovered(definition)
    found = discovery.get_all_tools()

    schema["properties"].clear()
    found[0].input_schema["properties"].clear()
    found.clear()

    again = discovery.get_tool("shop", "read_file")
    assert again is not None
    assert list(again.input_schema["properties"]) == ["path"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        again.category = "other"  # type: ignore[misc] - that is the point


async def test_every_tool_is_announced() -> None:
    discovery = EnhancedToolDiscovery(clock=lambda: 7.0)
    told: list[ToolDiscovered] = []
    discovery.on("tool_discovered", told.append)

    await discovery.discover_tools_with_annotations("shop", Shop(tool("get_user"), tool("add_user")))

    assert [(event.server_id, event.tool_name, event.timestamp) for event in told] == [
        ("shop", "get_user", 7.0),
        ("shop", "add_user", 7.0),
    ]
    assert told[0].annotations.read_only_hint is True


async def test_what_is_said_of_a_tool_is_merged_announced_and_survives_a_refresh() -> None:
    shop = Shop(tool("delete_user", annotations={"tags": ["people"]}))
    discovery = EnhancedToolDiscovery()
    await discovery.discover_tools_with_annotations("shop", shop)
    told: list[AnnotationsUpdated] = []
    discovery.on(AnnotationsUpdated, told.append)

    known = discovery.update_tool_annotations("shop", "delete_user", Annotations(title="Farewell", tags=("hr",)))
    await discovery.discover_tools_with_annotations("shop", shop)
    found = discovery.get_tool("shop", "delete_user")

    assert known is True
    assert found is not None
    assert (found.annotations.title, found.annotations.tags) == ("Farewell", ("people", "hr"))
    assert found.safety == "dangerous"
    assert [event.annotations.title for event in told] == ["Farewell"]


async def test_what_is_said_wins_over_what_contradicts_it() -> None:
    discovery = await discovered(tool("delete_user", "Delete a user"))

    discovery.update_tool_annotations("shop", "delete_user", Annotations(read_only_hint=True))

    assert [one.name for one in discovery.get_tools_by_safety_level("safe")] == ["delete_user"]
    assert discovery.get_tools_requiring_confirmation() == []


async def test_annotations_can_be_replaced_as_a_whole() -> None:
    discovery = await discovered(tool("delete_user", annotations={"tags": ["people"]}))

    discovery.update_tool_annotations("shop", "delete_user", Annotations(tags=("hr",)), replace_all=True)

    found = discovery.get_tool("shop", "delete_user")
    assert found is not None
    assert found.annotations == Annotations(tags=("hr",))


async def test_annotations_that_make_no_sense_or_have_no_tool_are_not_taken() -> None:
    discovery = await discovered(tool("delete_user"))

    with pytest.raises(ConfigError, match="conflicting"):
        discovery.update_tool_annotations(
            "shop", "delete_user", Annotations(read_only_hint=True, destructive_hint=True)
        )
    assert discovery.update_tool_annotations("shop", "unknown", Annotations()) is False


async def test_what_was_discovered_is_in_the_unified_list() -> None:
    manager = MultiServerManager()
    discovery = EnhancedToolDiscovery(manager)
    discovery.register_server(ServerInfo("local", tools=[Tool("add_user", "Add a user")]))
    await discovery.discover_tools_with_annotations("shop", Shop(tool("get_user"), tool("add_user")))

    unified = {one.name: [source.server_id for source in one.servers] for one in discovery.get_unified_tools()}

    assert unified == {"add_user": ["local", "shop"], "get_user": ["shop"]}
    assert [one.name for one in discovery.get_server_tools("local")] == ["add_user"]
    assert manager.get_server("shop") is not None


async def test_a_conflict_that_the_manager_refuses_leaves_everything_as_it_was() -> None:
    discovery = EnhancedToolDiscovery(MultiServerManager(conflict_resolution="error"))
    await discovery.discover_tools_with_annotations("one", Shop(tool("get_user")))

    result = await discovery.discover_tools_with_annotations("two", Shop(tool("get_user")))

    assert not result.success
    assert "both offer 'get_user'" in result.error
    assert discovery.get_server_tools("two") == []
    assert len(discovery.get_unified_tools()) == 1


async def test_a_servers_tools_can_be_forgotten() -> None:
    discovery = await discovered(tool("get_user"))

    discovery.clear_server_tools("shop")

    assert discovery.get_all_tools() == []
    assert discovery.get_unified_tools() == []
    assert discovery.get_statistics().total_tools == 0


async def test_changes_between_two_discoveries_are_remembered_and_announced() -> None:
    discovery = await discovered(tool("get_user", "Get a user"), tool("old"))
    told: list[str] = []
    discovery.on("tool_changed", lambda event: told.append(event.change.tool))

    await discovery.discover_tools_with_annotations("shop", Shop(tool("get_user", "Get any user"), tool("new")))
    changes = await discovery.get_changes("shop")

    assert {change.tool: change.what for change in changes} == {
        "get_user": ("description",),
        "new": ("added",),
        "old": ("removed",),
    }
    assert sorted(told) == ["get_user", "new", "old"]
    assert len(await discovery.get_changes("shop", "new")) == 1
