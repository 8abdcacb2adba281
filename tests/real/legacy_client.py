"""Uses a gateway with the SDK's client of the 1.x line, and prints what came back as JSON.

It runs in an environment of its own, with `mcp` 1.30: `python legacy_client.py URL '[["tool", {"argument": 1}]]'`.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false, reportAssignmentType=false
from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    async with (
        streamable_http_client(url) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        introduction = await session.initialize()
        answers: list[str] = []
        steps: list[float] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        for tool, arguments in calls:
            result = await session.call_tool(tool, arguments, progress_callback=note)
            answers.append("\n".join(block.text for block in result.content if block.type == "text"))
        said = {
            "server": introduction.serverInfo.name,
            "version": introduction.protocolVersion,
            "tools": [tool.name for tool in (await session.list_tools()).tools],
            "prompts": [prompt.name for prompt in (await session.list_prompts()).prompts],
            "resources": [str(resource.uri) for resource in (await session.list_resources()).resources],
            "answers": answers,
            "progress": steps,
        }
    print(json.dumps(said))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
