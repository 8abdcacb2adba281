"""An agent of LangChain's uses the gateway: `python with_langchain.py "What do my notes say?"`."""

import asyncio
import os
import sys
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain.chat_models import init_chat_model
from langchain.messages import ToolMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import McpError

URL = os.environ.get("MCP_URL", "http://127.0.0.1:7420/mcp")


@wrap_tool_call
async def tell(request: Any, handler: Any) -> Any:
    # Without this, a server that cannot be reached ends the run.
    try:
        return await handler(request)
    except McpError as error:
        return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


async def main(question: str) -> None:
    model = init_chat_model("openai:gpt-5.4", use_responses_api=True)
    client = MultiServerMCPClient({"trunkline": {"transport": "streamable_http", "url": URL}})
    # One session for all calls: `client.get_tools()` would open one for each.
    async with client.session("trunkline") as session:
        agent = create_agent(model, await load_mcp_tools(session), middleware=[tell])
        done = await agent.ainvoke({"messages": [{"role": "user", "content": question}]})
    for message in done["messages"]:
        asked = getattr(message, "tool_calls", [])
        if asked:
            print("calls:", *(f"{call['name']} {call['args']}" for call in asked))
    print(done["messages"][-1].text)


asyncio.run(main(sys.argv[1]))
