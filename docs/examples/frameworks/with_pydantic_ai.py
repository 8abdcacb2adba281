"""An agent of Pydantic AI uses the gateway: `python with_pydantic_ai.py "What do my notes say?"`."""

import asyncio
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ToolCallPart

URL = os.environ.get("MCP_URL", "http://127.0.0.1:7420/mcp")


async def main(question: str) -> None:
    agent = Agent("openai:gpt-5.4", toolsets=[MCPToolset(URL, tool_error_behavior="failed")])
    result = await agent.run(question)
    for message in result.all_messages():
        asked = [part for part in message.parts if isinstance(part, ToolCallPart)]
        if asked:
            print("calls:", *(f"{part.tool_name} {part.args}" for part in asked))
    print(result.output)


asyncio.run(main(sys.argv[1]))
