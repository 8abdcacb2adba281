"""A server on the official SDK that speaks only the older HTTP+SSE."""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("old", version="1")


@server.tool()
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
async def steps(ctx: Context) -> str:
    """Report two steps."""
    await ctx.report_progress(1, 2)
    await ctx.report_progress(2, 2)
    return "done"


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(server.sse_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listening])
    sys.exit(0)
