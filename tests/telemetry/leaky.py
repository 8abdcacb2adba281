"""A stdio server that says everything it knows wherever a server can say something: it is as careless as servers are.

Each tool's argument `said`, and the variable API_KEY, come back in results, errors, questions, notifications, progress,
lines that are no JSON, and on the standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Json = dict[str, Any]
TOOLS = ("result", "tool_error", "error", "noisy", "ask", "die")


def send(message: Json) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def told(arguments: Json) -> str:
    return f"{os.environ.get('API_KEY', '')} {json.dumps(arguments)}"


def call(id: Any, params: Json, name: str) -> None:
    words = told(params.get("arguments", {}))
    text: Json = {"content": [{"type": "text", "text": words}], "structuredContent": {"said": words}}
    print(f"{name}: {words}", file=sys.stderr, flush=True)
    if name == "die":
        raise SystemExit(words)
    if name == "error":
        send({"id": id, "error": {"code": -32050, "message": words, "data": {"said": words}}})
        return
    if name == "noisy":
        print(f"not JSON: {words}", flush=True)
        send({"method": "notifications/message", "params": {"level": "error", "data": words}})
        token = params.get("_meta", {}).get("progressToken", "none")
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": words}})
    if name == "ask":
        schema = {"type": "object", "properties": {"code": {"type": "string"}}}
        send({"id": "q", "method": "elicitation/create", "params": {"message": words, "requestedSchema": schema}})
        print(f"answer: {sys.stdin.readline()}", file=sys.stderr, flush=True)
    send({"id": id, "result": {**text, "isError": True} if name == "tool_error" else text})


def answer(message: Json) -> None:
    id, params = message["id"], message.get("params", {})
    match message["method"]:
        case "initialize":
            info = {"name": "leaky", "version": "1"}
            abilities: Json = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
            send({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": abilities, "serverInfo": info}})
        case "tools/list":
            schema = {"type": "object", "properties": {"said": {"type": "string"}}}
            send({"id": id, "result": {"tools": [{"name": name, "inputSchema": schema} for name in TOOLS]}})
        case "prompts/list":
            send({"id": id, "result": {"prompts": [{"name": "greet", "arguments": [{"name": "said"}]}]}})
        case "resources/list" | "resources/templates/list":
            noun = "resources" if message["method"] == "resources/list" else "resourceTemplates"
            templates = [{"uriTemplate": "leaky://{key}", "name": "any"}]
            send({"id": id, "result": {noun: templates if noun == "resourceTemplates" else []}})
        case "tools/call":
            call(id, params, str(params["name"]))
        case "prompts/get":
            content = {"type": "text", "text": told(params)}
            send({"id": id, "result": {"messages": [{"role": "user", "content": content}]}})
        case "resources/read":
            send({"id": id, "error": {"code": -32002, "message": told(params)}})
        case _:
            send({"id": id, "result": {}})


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            answer(asked)
