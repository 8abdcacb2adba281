"""A server on standard input and output that answers a call and asks for the roots in the same breath.

Servers of the TypeScript SDK do so when the roots change while they are called; this one does it every time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

heard: list[Any] = []


def write(*messages: dict[str, Any]) -> None:
    sys.stdout.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            introduction: dict[str, Any] = {
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "asking", "version": "1"},
            }
            write({"id": message["id"], "result": {"protocolVersion": "2025-11-25", **introduction}})
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "heard")]
            write({"id": message["id"], "result": {"tools": tools}})
        case "tools/call":
            answer = {"content": [{"type": "text", "text": json.dumps(heard)}]}
            questions = [{"id": "roots", "method": "roots/list"}] if message["params"]["name"] == "ask" else []
            write({"id": message["id"], "result": answer}, *questions)
        case None:
            heard.append(message.get("result"))
        case _ if "id" in message:
            write({"id": message["id"], "error": {"code": -32601, "message": "No such method."}})
        case _:
            pass
