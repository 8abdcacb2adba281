"""A caller on the SDK that does what the official conformance suite asks a client for, directly or through Trunkline.

The suite serves a scenario at an address of its own, and what it looks at is how whoever calls there behaves as a
client: the SDK itself, or Trunkline in its place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp
import mcp_types as types
from mcp.client import session
from pydantic import ValidationError

from tests.harness import gateway

TIMEOUT = 40.0
"""Seconds a scenario may take; the slowest waits half a second, and a busy machine makes it long."""

session.DISCOVER_TIMEOUT_SECONDS = TIMEOUT  # else the SDK takes a busy machine for a legacy server

Era = Literal["legacy", "modern"]
MADE_UP: Mapping[str, Any] = {"string": "word", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}
"""An argument for each type that a schema may want."""


@dataclass(frozen=True)
class Scenario:
    """What the suite asks for."""

    url: str
    scenario: str
    version: str
    context: Mapping[str, Any]
    """What the scenario hands over, such as calls to make."""


async def play_through(asked: Scenario, era: Era, home: Path) -> None:
    """Play with Trunkline in between, once that has reached the server, or failed to."""
    async with gateway(home, {"suite": {"url": asked.url}}, ready=TIMEOUT) as opened:
        await play(asked, era, opened.url)


async def play(asked: Scenario, era: Era, url: str = "") -> None:
    """Do what the scenario wants, at the suite's address or at another; raises what goes wrong."""
    mode = "auto" if era == "modern" else "legacy"
    with anyio.fail_after(TIMEOUT):
        async with mcp.Client(url or asked.url, mode=mode, elicitation_callback=accept_defaults) as client:
            await SCENARIOS[asked.scenario](client, asked.context)


async def list_tools(client: mcp.Client, context: Mapping[str, Any]) -> None:
    await client.list_tools()


async def call_every_tool(client: mcp.Client, context: Mapping[str, Any]) -> None:
    for tool in (await client.list_tools()).tools:
        await client.call_tool(tool.name, arguments_for(tool.input_schema))


async def call_as_told(client: mcp.Client, context: Mapping[str, Any]) -> None:
    """Make the calls that the scenario hands over, null arguments and all."""
    await client.list_tools()
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def use_everything(client: mcp.Client, context: Mapping[str, Any]) -> None:
    await call_every_tool(client, context)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def echo_a_schema(client: mcp.Client, context: Mapping[str, Any]) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    await client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})


async def answer_questions(client: mcp.Client, context: Mapping[str, Any]) -> None:
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


SCENARIOS: Mapping[str, Callable[[mcp.Client, Mapping[str, Any]], Awaitable[None]]] = {
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
