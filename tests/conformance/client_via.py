"""A caller that does what the official conformance suite asks a client for, through Trunkline.

The suite runs it as `python -m tests.conformance.client_via URL`, where URL is the address of a server of its own,
and says in the environment which scenario it plays. What it then looks at is how Trunkline behaves as a client.
With TRUNKLINE_DIRECT=1 there is no Trunkline in between; TRUNKLINE_CALLER=legacy or =modern sets the caller's era,
which else is that of the scenario.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import mcp
import mcp_types as types
from pydantic import ValidationError

from tests.harness import trunkline_up

TIMEOUT = 20.0
"""Seconds a scenario may take; the slowest waits half a second."""

MODERN = "2026-07-28"
MADE_UP: Mapping[str, Any] = {"string": "word", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}
"""An argument for each type that a schema may want."""


def main() -> None:
    url = sys.argv[-1]
    if os.environ.get("TRUNKLINE_DIRECT"):
        anyio.run(play, url)
        return
    with (
        tempfile.TemporaryDirectory() as home,
        trunkline_up(Path(home), {"mcpServers": {"suite": {"url": url}}}) as (gateway, _),
    ):
        anyio.run(play_when_ready, gateway)


async def play_when_ready(url: str) -> None:
    """Begin when Trunkline has reached the server, or failed to: until then its lists may be empty."""
    with anyio.fail_after(TIMEOUT):
        async with aiohttp.ClientSession() as http:
            while (await http.get(url.removesuffix("/mcp") + "/readyz")).status != 200:  # noqa: ASYNC110 - it has no event to wait for
                await anyio.sleep(0.05)
    await play(url)


async def play(url: str) -> None:
    """Do what the scenario wants; what goes wrong ends the process with an error, which the suite notes."""
    of_version = "modern" if os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] == MODERN else "legacy"
    caller = os.environ.get("TRUNKLINE_CALLER", of_version)
    do = SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]]
    mode = "auto" if caller == "modern" else "legacy"
    with anyio.fail_after(TIMEOUT):
        async with mcp.Client(url, mode=mode, elicitation_callback=accept_defaults) as client:
            await do(client)


async def list_tools(client: mcp.Client) -> None:
    await client.list_tools()


async def call_every_tool(client: mcp.Client) -> None:
    for tool in (await client.list_tools()).tools:
        await client.call_tool(tool.name, arguments_for(tool.input_schema))


async def call_as_told(client: mcp.Client) -> None:
    """Make the calls that the scenario hands over, null arguments and all."""
    await client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def use_everything(client: mcp.Client) -> None:
    await call_every_tool(client)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def echo_a_schema(client: mcp.Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    await client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})


async def answer_questions(client: mcp.Client) -> None:
    """Answer one tool's question while another tool is called, which must not get the answer."""
    await client.list_tools()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "test_mrtr_echo_state")
        tasks.start_soon(client.call_tool, "test_mrtr_unrelated")
    await client.call_tool("test_mrtr_no_state")
    # The SDK does not take such a result; the suite wants to see that nobody calls again because of it.
    with suppress(ValidationError):
        await client.call_tool("test_mrtr_no_result_type")


async def accept_defaults(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Agree, and leave every field as the server suggests; a field without a suggestion gets something of its type."""
    assert isinstance(params, types.ElicitRequestFormParams)
    fields: Mapping[str, Mapping[str, Any]] = params.requested_schema["properties"]
    content = {name: field.get("default", MADE_UP[field["type"]]) for name, field in fields.items()}
    return types.ElicitResult(action="accept", content=content)


def arguments_for(schema: Mapping[str, Any]) -> dict[str, Any]:
    fields: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    return {name: MADE_UP.get(field.get("type", ""), None) for name, field in fields.items()}


SCENARIOS: Mapping[str, Callable[[mcp.Client], Awaitable[None]]] = {
    "initialize": list_tools,
    "tools_call": call_every_tool,
    "elicitation-sep1034-client-defaults": call_every_tool,
    "sse-retry": call_every_tool,
    "request-metadata": call_every_tool,
    "sep-2322-client-request-state": answer_questions,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_a_schema,
}
"""What each scenario wants from a client; those about authorization are not ours to play."""

if __name__ == "__main__":
    main()
