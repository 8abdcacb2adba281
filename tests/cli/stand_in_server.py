"""Small servers in the place of those that the network would bring: they repeat what their tools were given.

It imports little, because tests start it often.
"""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False  # Importing `typing` for this one name would double the imports.
if TYPE_CHECKING:
    from typing import Any

TOOLS = {
    "server-postgres": {"query": "Run a read-only SQL query"},
    "brave-search-mcp-server": {"brave_web_search": "Search the web."},
    "my-mcp-server": {"say_hello": "Say hello."},
    "data.js": {"deleteUser": "Delete a user.", "getUser": "Get a user.", "read_file": "Read the whole of a file."},
    "github": {"list_repos": "List the repositories of the user."},
    "notes": {
        "add_note": "Write a note, or replace the one of that title.",
        "list_notes": "The titles of all notes.",
        "read_note": "One note's text.",
        "search_notes": "The notes that contain all of the given words.",
        "delete_note": "Throw a note away for good.",
    },
    "clock": {
        "now": "The time in a time zone.",
        "until": "How long it is until a moment, such as 2030-01-01T00:00.",
        "countdown": "Count down, at most a minute, and report every step.",
    },
}
SCHEMAS = {"query": {"type": "object", "properties": {"sql": {"type": "string"}}}}
TEMPLATE = {"name": "note", "uriTemplate": "note://{title}", "description": "A note as a resource."}
PROMPT = {"name": "tidy_up", "description": "Ask for the notes to be put in order."}


def answer(tools: dict[str, str], message: dict[str, Any]) -> dict[str, Any] | None:
    """What a server of 2025-06-18 says; nothing to a notification."""
    if "id" not in message:
        return None
    said = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            info = {"name": "stand-in", "version": "1"}
            more: dict[str, Any] = {"resources": {}, "prompts": {}} if tools is TOOLS["notes"] else {}
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}, **more},
                "serverInfo": info,
            }
        case "ping":
            result = {}
        case "tools/list":
            result = {
                "tools": [
                    {"name": name, "description": text, "inputSchema": _schema(name)} for name, text in tools.items()
                ]
            }
        case "resources/list":
            result = {"resources": []}
        case "resources/templates/list":
            result = {"resourceTemplates": [TEMPLATE]}
        case "prompts/list":
            result = {"prompts": [PROMPT]}
        case "tools/call":
            params = message["params"]
            text = f"{params['name']} was given {json.dumps(params.get('arguments', {}), sort_keys=True)}"
            result = {"content": [{"type": "text", "text": text}]}
        case _:
            return {**said, "error": {"code": -32601, "message": "Method not found"}}
    return {**said, "result": result}


def _schema(tool: str) -> dict[str, Any]:
    return SCHEMAS.get(tool, {"type": "object"})


def main(words: list[str]) -> None:
    """Serve the tools of the program that the words name, on standard input and output."""
    tools = next(tools for name, tools in TOOLS.items() if any(name in word for word in words))
    for line in sys.stdin:
        said = answer(tools, json.loads(line))
        if said:
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
