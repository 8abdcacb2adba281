"""The least an MCP server can be, over HTTP or stdio: what a relay in front of it costs is the relay's own cost.

    python bench/echo.py http|stdio [modern|legacy]

It speaks both eras, or the named one alone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import msgspec

TOOL = {"name": "echo", "description": "Return the text", "inputSchema": {"type": "object"}}
INFO = {"name": "echo", "version": "1"}
MARK = "io.modelcontextprotocol/protocolVersion"


FOREIGN = {
    "modern": {"code": -32022, "message": "Only 2026-07-28.", "data": {"supported": ["2026-07-28"]}},
    "legacy": {"code": -32600, "message": "No session."},
}
"""What a server of one era says to a request of the other."""


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


def respond(body: bytes, era: str) -> tuple[int, bytes]:
    request = msgspec.json.decode(body)
    if "id" not in request or "method" not in request:
        return 202, b""
    modern = MARK in (request.get("params") or {}).get("_meta", {})
    if era and modern != (era == "modern"):
        return 400, msgspec.json.encode({"jsonrpc": "2.0", "id": request["id"], "error": FOREIGN[era]})
    return 200, msgspec.json.encode({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)})


async def serve_http(era: str) -> None:
    from trunkline.config.options import GatewayConfig
    from trunkline.gateway.http import Server
    from trunkline.gateway.request import JSON, Request

    async def handle(request: Request) -> None:
        if request.method != "POST":
            request.answer(405)
            return
        status, body = respond(request.body, era)
        request.answer(status, body, [JSON])

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    await Server(handle, GatewayConfig()).serve(listening, asyncio.Event())


if __name__ == "__main__":
    transport, era = [*sys.argv[1:], ""][:2]
    if transport == "stdio":
        for line in sys.stdin.buffer:
            if reply := respond(line, era)[1]:
                os.write(1, reply + b"\n")
    else:
        import uvloop

        uvloop.run(serve_http(era))
