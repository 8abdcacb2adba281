"""A server as ART describes it becomes one of ours, and is read back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.manager.house import house, manager
from trunkline import McpConnection, McpServerConfig, McpToolDefinition, ServerSpec
from trunkline.errors import ConfigError

FULL = McpServerConfig(
    "github",
    McpConnection("http://127.0.0.1:9/mcp", {"Authorization": "Bearer hush-hush"}),
    type="sse",
    display_name="GitHub",
    description="Where code lives",
    trust_level="verified",
    tags=("git", "code"),
    timeout=12.0,
)
TOOL = McpToolDefinition(
    "createPullRequest",
    "Create a new pull request",
    {"type": "object", "properties": {"title": {"type": "string"}}},
    defer_loading=True,
    allowed_callers=("direct", "code_execution_20250825"),
    input_examples=({"title": "Fix bug"},),
    when_to_use="When the user wants a PR",
    tags=("pr",),
    estimated_cost=0.5,
)


async def test_what_is_said_of_a_server_is_read_back_as_it_was(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub, manager(hub) as ana:
        made = await ana.register_server(FULL)

        assert await ana.registry.get_server("github", "ana") == FULL
        assert (made.spec.kind, made.spec.timeout, made.spec.enabled) == ("sse", 12.0, True)
        await ana.update_server("github", {"enabled": False, "tags": []})
        changed = await ana.registry.get_server("github", "ana")
        assert changed is not None
        assert (changed.enabled, changed.tags, changed.connection) == (False, (), FULL.connection)


@pytest.mark.skipif(not hasattr(ServerSpec(), "minimal_tools"), reason="tools cannot be given in advance yet")
async def test_tools_given_in_advance_are_found_before_their_server_was_ever_reached(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub, manager(hub) as ana:
        config = McpServerConfig("github", McpConnection("http://127.0.0.1:9/mcp"), defer_loading=True, tools=(TOOL,))
        await ana.register_server(config)

        [tool] = await ana.resolve_tools_for_prompt("open a pull request", "t")

        assert await ana.registry.get_server("github", "ana") == config
        assert tool.name == "github__createPullRequest"
        said = {"when_to_use": TOOL.when_to_use, "tags": ["pr"], "estimated_cost": 0.5, "defer_loading": True}
        assert said.items() <= tool.schema.items()
        assert tool.schema["input_examples"] == [{"title": "Fix bug"}]
        assert tool.allowed_callers == TOOL.allowed_callers


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tools": [{"name": "x", "colour": "red"}]}, "A tool has no 'colour'"),
        ({"tools": [{"description": "x"}]}, "name"),
        ({"tools": 3}, "tools"),
        ({"connection": "http://x.example"}, "connection"),
        ({"displayName": "X"}, "display_name"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        McpServerConfig.parse({"id": "x", "connection": {"url": "http://x.example"}, **given})
