"""Servers somewhere else, and a manager for each user of one hub."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness import gateway
from trunkline import (
    Annotations,
    Config,
    Hub,
    McpConnection,
    McpManagerV2,
    McpServerConfig,
    SearchSection,
    Tool,
    open_hub,
)
from trunkline.authoring.server import MCPServerBase

TOOLS: dict[str, list[Tool]] = {
    "github": [
        Tool(
            "createPullRequest",
            "Create a new pull request on GitHub",
            annotations=Annotations(tags=("github", "git", "pr")),
            meta={"whenToUse": "When user wants to create a PR after code changes"},
        ),
        Tool("listIssues", "List the issues of a repository", annotations=Annotations(read_only_hint=True)),
        Tool("deleteRepository", "Delete a repository for good"),
    ],
    "linear": [
        Tool("listIssues", "List the issues of a project", annotations=Annotations(read_only_hint=True)),
        Tool("addComment", "Comment on an issue"),
    ],
    "git": [Tool("showLog", "Show the history of commits", annotations=Annotations(read_only_hint=True))],
}


def served(id: str, said: str = "") -> MCPServerBase:
    """A server whose tools answer with who they are."""
    server = MCPServerBase(id=id, name=id)
    for tool in TOOLS[id]:
        server.register_tool(
            Tool(
                tool.name,
                tool.description,
                annotations=tool.annotations,
                meta=tool.meta,
                execute=lambda _, name=tool.name: said or f"{id} {name}",
            )
        )
    return server


@asynccontextmanager
async def somewhere(home: Path, *names: str) -> AsyncGenerator[dict[str, McpServerConfig]]:
    """Servers at addresses of their own, as ART would describe them."""
    async with AsyncExitStack() as stack:
        found: dict[str, McpServerConfig] = {}
        for name in names:
            far = await stack.enter_async_context(gateway(home / name, {}))
            await far.hub.mount(served(name))
            found[name] = McpServerConfig(name, McpConnection(far.url))
        yield found


@asynccontextmanager
async def house(home: Path, *names: str, **config: Any) -> AsyncGenerator[Hub]:
    """A hub in which these servers are everybody's."""
    words = SearchSection(strategy="bm25")  # the model of meanings takes a moment to load
    async with open_hub(Config(home=home, search=words, **config)) as hub:
        for name in names:
            await hub.mount(served(name))
        yield hub


@asynccontextmanager
async def manager(hub: Hub, user: str = "ana", **options: Any) -> AsyncGenerator[McpManagerV2]:
    """What one user has."""
    async with McpManagerV2(hub, user_id=user, **options) as opened:
        yield opened
