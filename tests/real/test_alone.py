"""One real server behind the gateway looks as if it stood there alone."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import mcp
import mcp_types as types
import pytest

from tests.real.parts import Running, eventually, node_server, running, text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A gateway in front of the server that has everything."""
    folder = tmp_path_factory.mktemp("alone")
    with running(folder, {"mcpServers": {"everything": node_server("everything", "stdio")}}) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_single_server_keeps_its_names_and_introduces_itself(alone: Running, mode: Any) -> None:
    async with mcp.Client(alone.url, mode=mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        said = await text_of(client, "echo", {"message": "hello"})
        info = client.server_info
        instructions = client.instructions

    assert {"echo", "get-sum"} <= listed
    assert said == "Echo: hello"
    assert info is not None
    assert info.name == "mcp-servers/everything"
    assert "Everything Server" in (instructions or "")


async def elicit(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def test_a_single_server_asks_the_person_behind_its_caller(alone: Running) -> None:
    async with mcp.Client(alone.url, mode="legacy", elicitation_callback=elicit) as client:
        said = await text_of(client, "trigger-elicitation-request")

    assert "- Name: Ada" in said


async def test_a_single_server_lists_what_it_keeps_for_callers_it_may_ask(alone: Running) -> None:
    async with mcp.Client(alone.url, mode="legacy", elicitation_callback=elicit) as client:

        async def is_listed() -> bool:
            return "trigger-elicitation-request" in {tool.name for tool in (await client.list_tools()).tools}

        await eventually(is_listed)  # what it keeps for such callers is looked up beside its start
