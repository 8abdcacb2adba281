"""An agent of OpenAI's SDK for agents uses the gateway: `python with_openai_agents.py "What do my notes say?"`."""

import asyncio
import os
import sys
from typing import Any

from agents import Agent, Runner, ToolCallItem
from agents.mcp import MCPServerStreamableHttp

URL = os.environ.get("MCP_URL", "http://127.0.0.1:7420/mcp")


def tell(context: Any, error: Exception) -> str:
    # Without this, the model is asked to try again, whatever happened.
    return str(error)


async def main(question: str) -> None:
    # The SDK gives up on a call after five seconds, unless told otherwise; the gateway has time limits of its own.
    gateway = MCPServerStreamableHttp({"url": URL}, client_session_timeout_seconds=120, failure_error_function=tell)
    async with gateway:
        agent = Agent("Helper", model="gpt-5.4", mcp_servers=[gateway])
        done = await Runner.run(agent, question)
    for item in done.new_items:
        if isinstance(item, ToolCallItem):
            print("calls:", item.raw_item.name, item.raw_item.arguments)
    print(done.final_output)


asyncio.run(main(sys.argv[1]))
