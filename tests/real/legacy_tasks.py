"""Tasks with the SDK of the 1.x line: as a server, or, with a URL, as a client that prints what came back as JSON.

It runs in an environment of its own, with `mcp` 1.30: `python legacy_tasks.py`, `python legacy_tasks.py URL TOOL '{}'`.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false, reportMissingImports=false, reportAssignmentType=false
from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.stdio import stdio_server

FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

server = Server("tasks of 1.x")
server.experimental.enable_tasks()


@server.list_tools()
async def tools() -> list[types.Tool]:
    execution = types.ToolExecution(taskSupport="required")
    names = ("greet", "stumble")
    return [types.Tool(name=name, inputSchema={"type": "object"}, execution=execution) for name in names]


@server.call_tool()
async def call(name: str, arguments: dict[str, Any]) -> types.CreateTaskResult:
    context = server.request_context
    context.experimental.validate_task_mode("required")

    async def greet(task: Any) -> types.CallToolResult:
        if name == "stumble":
            raise RuntimeError("It stumbled.")
        await task.update_status("Thinking of a name.")
        answer = await task.elicit("Who are you?", FORM)
        text = f"Hello, {answer.content['name']}!" if answer.action == "accept" else "Hello, whoever."
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return await context.experimental.run_task(greet)


async def serve() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def use(url: str, tool: str, arguments: dict[str, Any]) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with (
        streamable_http_client(url) as (reading, writing, _),
        ClientSession(reading, writing, elicitation_callback=answer) as session,
    ):
        await session.initialize()
        made = await session.experimental.call_tool_as_task(tool, arguments, ttl=60_000)
        id = made.task.taskId
        states: list[str] = []
        async for state in session.experimental.poll_task(id):
            states.append(state.status)
            if state.status == "input_required":
                break
        result = await session.experimental.get_task_result(id, types.CallToolResult)
        said = {
            "states": states,
            "asked": asked,
            "text": "\n".join(block.text for block in result.content if block.type == "text"),
            "listed": [task.taskId for task in (await session.experimental.list_tasks()).tasks] == [id],
            "after": (await session.experimental.get_task(id)).status,
        }
    print(json.dumps(said))


asyncio.run(use(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])) if len(sys.argv) > 1 else serve())
