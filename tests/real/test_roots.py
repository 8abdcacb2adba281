"""Servers ask legacy callers for their roots, and follow them."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mcp
import mcp_types as types
import pytest

from tests.real.parts import Running, eventually, node_server, running, text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ASKING = Path(__file__).with_name("asking_server.py")


class Workspace:
    """A caller's roots: one folder, which may become another."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def list_roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": self.root.as_uri()})])


async def follow(client: mcp.Client, tool: str, folder: Path) -> None:
    """Wait until a server may touch that folder alone.

    It goes on with calls while it waits for the roots, so its first answers may still be the old ones.
    """

    async def is_there() -> bool:
        return (await text_of(client, tool)).endswith(f"directories:\n{folder}")

    await eventually(is_there)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    return tmp_path / "one", tmp_path / "two"


async def test_the_folders_that_a_server_may_touch_follow_the_roots_of_its_caller(
    gateway: Running, folders: tuple[Path, Path]
) -> None:
    tool = "filesystem__list_allowed_directories"
    workspace = Workspace(folders[0])
    async with (
        mcp.Client(gateway.url, mode="legacy", list_roots_callback=workspace.list_roots) as client,
        mcp.Client(gateway.url, mode="legacy") as other,
    ):
        await follow(client, tool, folders[0])
        workspace.root = folders[1]
        await client.session.send_roots_list_changed()  # pyright: ignore[reportDeprecated]
        await follow(client, tool, folders[1])

        assert (await text_of(other, tool)).endswith(f"directories:\n{gateway.files}")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A gateway in front of nothing but files."""
    folder = tmp_path_factory.mktemp("alone")
    with running(folder, {"mcpServers": {"filesystem": node_server("filesystem", str(folder / "files"))}}) as opened:
        yield opened


async def test_a_single_server_knows_the_roots_that_its_caller_came_with(
    alone: Running, folders: tuple[Path, Path]
) -> None:
    workspace = Workspace(folders[0])
    async with mcp.Client(alone.url, mode="legacy", list_roots_callback=workspace.list_roots) as client:
        await follow(client, "list_allowed_directories", folders[0])


@pytest.fixture
def asking(tmp_path: Path) -> Generator[Running]:
    """A gateway in front of a server that asks behind its answers."""
    with running(tmp_path, {"mcpServers": {"asking": {"command": sys.executable, "args": [str(ASKING)]}}}) as opened:
        yield opened


async def test_a_question_right_behind_an_answer_reaches_the_caller(asking: Running, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    async with mcp.Client(asking.url, mode="legacy", list_roots_callback=workspace.list_roots) as client:

        async def is_answered() -> bool:
            return tmp_path.as_uri() in await text_of(client, "heard")

        await text_of(client, "ask")
        await eventually(is_answered)
