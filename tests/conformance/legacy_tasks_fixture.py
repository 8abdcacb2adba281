"""What the suite's scenarios about tasks want, on the SDK of the 1.x line: a server with `tasks` of 2025-11-25.

It runs in an environment of its own, with `mcp` 1.30, on standard input and output.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "confirm": {"type": "boolean"}},
}


class Kept(types.ElicitRequestFormParams):
    """The SDK names a question by where its params lie in memory; two that are asked at once must not lie alike."""

    all: ClassVar[list[Any]] = []

    def model_post_init(self, context: Any) -> None:
        self.all.append(self)


types.ElicitRequestFormParams = Kept

server = Server("tasks of 1.x")
support = server.experimental.enable_tasks()


def said(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=failed)


async def slow_compute(task: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    await anyio.sleep(arguments.get("seconds", 0))
    if task is not None and (await support.store.get_task(task.task_id)).status == "cancelled":
        await anyio.sleep_forever()  # work that ends after its task was cancelled would end the whole server
    return said(f"Computed {arguments.get('label', '')}.")


async def failing_job(task: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    await anyio.sleep(0.5)
    return said("It failed.", failed=True)


async def protocol_error_job(task: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    raise RuntimeError("It broke.")


async def confirm_delete(task: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    answer = await task.elicit(f"Delete {arguments.get('filename')}?", FORM)
    return said(f"{answer.action}: {answer.content}")


async def multi_input(task: Any, arguments: dict[str, Any]) -> types.CallToolResult:
    answers: dict[str, Any] = {}

    async def ask(what: str) -> None:
        answers[what] = (await task.elicit(what, FORM)).content

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask, "first")
        asking.start_soon(ask, "second")
    return said(str(answers))


JOBS: dict[str, Callable[[Any, dict[str, Any]], Awaitable[types.CallToolResult]]] = {
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "multi_input": multi_input,
}
REQUIRED = ("failing_job",)


@server.list_tools()
async def tools() -> list[types.Tool]:
    listed = [types.Tool(name="greet", inputSchema={"type": "object"})]
    for name in JOBS:
        how = types.ToolExecution(taskSupport="required" if name in REQUIRED else "optional")
        listed.append(types.Tool(name=name, inputSchema={"type": "object"}, execution=how))
    return listed


@server.call_tool()
async def call(name: str, arguments: dict[str, Any]) -> types.CallToolResult | types.CreateTaskResult:
    context = server.request_context
    if name == "greet":
        return said(f"Hello, {arguments['name']}!")
    if not context.experimental.is_task:
        context.experimental.validate_task_mode("required" if name in REQUIRED else "optional")
        return await JOBS[name](None, arguments)
    return await context.experimental.run_task(lambda task: JOBS[name](task, arguments))


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


anyio.run(main)
