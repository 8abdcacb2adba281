"""The least an MCP server can be, over HTTP or stdio: what a relay in front of it costs is the relay's own cost."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import msgspec

TOOL = {"name": "echo", "description": "Return the text", "inputSchema": {"type": "object"}}
INFO = {"name": "echo", "version": "1"}
MARK = "io.modelcontextprotocol/protocolVersion"


def answer(request: dict) -> dict:
    params = request.get("params") or {}
    extra = {"resultType": "complete"} if MARK in (params.get("_meta") or {}) else {}
    match request["method"]:
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **extra}
        case "tools/list":
            return {"tools": [TOOL], **extra}
        case "tools/call":
            return {"content": [{"type": "text", "text": params["arguments"]["text"]}], **extra}
        case _:
            return extra


def respond(body: bytes) -> bytes:
    request = msgspec.json.decode(body)
    if "id" not in request or "method" not in request:
        return b""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)})


async def serve_http(port: int) -> None:
    from trunkline.config import GatewayConfig
    from trunkline.gateway.http import JSON, Request, Server

    async def handle(request: Request) -> None:
        if request.method != "POST":
            request.answer(405)
            return
        body = respond(request.body)
        request.answer(200 if body else 202, body, [JSON])

    listening = socket.create_server(("127.0.0.1", port))
    print(listening.getsockname()[1], flush=True)
    await Server(handle, GatewayConfig()).serve(listening, asyncio.Event())


if __name__ == "__main__":
    if sys.argv[1:] == ["stdio"]:
        for line in sys.stdin.buffer:
            if reply := respond(line):
                os.write(1, reply + b"\n")
    else:
        import uvloop

        uvloop.run(serve_http(0))
