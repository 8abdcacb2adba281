"""A stdio server without dependencies: what one tool was asked to do is seen in a file, and one says much."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "order", "description": "Order an item", "inputSchema": SCHEMA, "annotations": {"destructiveHint": True}},
    {"name": "price", "description": "Look up a price", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "stock", "description": "List all", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
]


def answer(method: str, params: dict[str, Any], file: str) -> dict[str, Any] | None:
    """The result of a request; `None` for a method that is not there."""
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "shop", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        item = params["arguments"]["item"]
        if params["name"] == "order":
            with open(file, "a", encoding="utf-8") as orders:
                orders.write(f"{item}\n")
            return {"content": [{"type": "text", "text": f"ordered {item}"}]}
        if params["name"] == "stock":
            return {"content": [], "structuredContent": {"all": [[]] * int(item)}}
        return {"content": [{"type": "text", "text": json.dumps({"item": item, "price": len(item)})}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params", {}), sys.argv[1])
        missing = {"error": {"code": -32601, "message": "There is no such method."}}
        print(
            json.dumps({"jsonrpc": "2.0", "id": asked["id"], **({"result": result} if result is not None else missing)})
        )
        sys.stdout.flush()
