"""A real MCP server over stdio with a tool for everything that the console shows: `python -S desk_server.py [FILE]`.

With a file of tool definitions it offers those, and tells when the file changes; each answers with the words of its
caller, or asks or refuses with them. What the file says of the server itself it says, too. It ends with the file.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="
TEXT = {"type": "string"}
PARCEL = {
    "type": "object",
    "required": ["to", "weight", "how"],
    "properties": {
        "to": {"type": "string", "title": "Recipient", "description": "Whom it goes to."},
        "weight": {"type": "number", "minimum": 0, "description": "In kilograms."},
        "how": {"enum": ["by air", "by land"]},
        "insured": {"type": "boolean", "default": True, "description": "Whether a loss is paid for."},
        "labels": {"type": "array", "items": TEXT},
        "sender": {"$ref": "#/$defs/person"},
        "anything": {"description": "Whatever else there is."},
    },
    "$defs": {"person": {"type": "object", "properties": {"name": TEXT, "city": {"anyOf": [TEXT, {"type": "null"}]}}}},
}
TOOLS = {
    "send_parcel": ("Send a parcel to somebody, by air or by land.", PARCEL),
    "draw": ("Draw a picture.", {"type": "object"}),
    "count": ("Count to three, and tell how far it is.", {"type": "object"}),
    "recite": ("Recite a very long poem.", {"type": "object"}),
    "book": (
        "Book a table; it asks for how many.",
        {"type": "object", "properties": {"day": TEXT}, "required": ["day"]},
    ),
    "fail": ("Fail, and say why.", {"type": "object"}),
    "climb": ("Climb a mountain, and never come back.", {"type": "object"}),
}
ASKED = {
    "type": "object",
    "properties": {"people": {"type": "integer", "title": "How many people?"}},
    "required": ["people"],
}
lock = threading.Lock()
answers: dict[str, Any] = {}
arrived = threading.Condition()


def send(**message: Any) -> None:
    """Write one message as a line."""
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def said_in(file: str) -> dict[str, Any]:
    """What the file says: `tools`, and `info` of the server."""
    if not file:
        return {}
    with open(file, encoding="utf-8") as kept:
        return json.load(kept)


def definitions(file: str) -> list[dict[str, Any]]:
    """What is offered."""
    if file:
        return said_in(file)["tools"]
    kinds = {"draw": {"readOnlyHint": True}, "fail": {"destructiveHint": True, "readOnlyHint": False}}
    return [
        {"name": name, "description": about, "inputSchema": schema, "annotations": kinds.get(name, {})}
        for name, (about, schema) in TOOLS.items()
    ]


def ask(id: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the person at the other end."""
    own = f"q{id}"
    send(id=own, method="elicitation/create", params=params)
    with arrived:
        arrived.wait_for(lambda: own in answers, 60)
    return answers.pop(own)


def call(id: Any, params: dict[str, Any]) -> None:
    """Answer one call, in a thread of its own."""
    name, said = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    content: list[dict[str, Any]] = [{"type": "text", "text": f"{name}: {json.dumps(said, sort_keys=True)}"}]
    more: dict[str, Any] = {}
    if name == "draw":
        content = [
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "image", "data": SVG, "mimeType": "image/svg+xml"},
            {"type": "resource_link", "uri": "javascript:alert(1)", "name": "a link"},
            {"type": "resource_link", "uri": "https://example.com/", "name": "a page"},
        ]
    elif name == "count":
        send(method="notifications/message", params={"level": "info", "data": "counting begins"})
        for step in (1, 2, 3):
            if token is not None:
                send(method="notifications/progress", params={"progressToken": token, "progress": step, "total": 3})
        more = {"structuredContent": {"counted": 3}}
    elif name == "climb":
        send(
            method="notifications/message", params={"level": "info", "logger": "guide", "data": "the hut is behind us"}
        )
        if token is not None:
            send(method="notifications/progress", params={"progressToken": token, "progress": 2, "total": 4})
        return
    elif name == "recite":
        content = [{"type": "text", "text": "Sing, goddess.\n" * 10_000}]
    elif name == "book":
        answer = ask(id, {"message": "For how many?", "requestedSchema": ASKED})
        content = [{"type": "text", "text": f"Booked {said['day']}: {json.dumps(answer, sort_keys=True)}"}]
    elif name == "fail":
        more = {"isError": True}
    elif "asks" in said:
        content = [{"type": "text", "text": json.dumps(ask(id, said["asks"]))}]
    elif "refuses" in said:
        send(id=id, error={"code": -32000, "message": said["refuses"], "data": said["refuses"]})
        return
    elif name not in TOOLS:
        content, more = echoed(said["words"], token)
    send(id=id, result={"content": content, **more})


def echoed(words: list[str], token: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Words in every place of an answer that can hold some."""
    content: list[dict[str, Any]] = []
    for word in words:
        print(word, file=sys.stderr, flush=True)
        send(method="notifications/message", params={"level": "info", "logger": word, "data": word})
        send(method="notifications/progress", params={"progressToken": token, "progress": 1, "message": word})
        content += [
            {"type": "text", "text": word},
            {"type": "image", "data": word, "mimeType": "image/png"},
            {"type": "image", "data": PIXEL, "mimeType": word},
            {"type": "audio", "data": word, "mimeType": word},
            {"type": "resource_link", "uri": word, "name": word, "title": word, "description": word},
            {"type": "resource", "resource": {"uri": word, "text": word}},
            {"type": "resource", "resource": {"uri": word, "blob": word, "mimeType": word}},
            {"type": word, word: word},
        ]
    return content, {"structuredContent": {word: word for word in words}, "isError": True}


def watch(file: str) -> None:
    """Tell whenever the file is another."""
    was = os.stat(file).st_mtime_ns
    while True:
        time.sleep(0.05)
        if not os.path.exists(file):
            os._exit(1)
        now = os.stat(file).st_mtime_ns
        if now != was:
            was = now
            send(method="notifications/tools/list_changed")


def main() -> None:
    file = sys.argv[1] if len(sys.argv) > 1 else ""
    if file and not os.path.exists(file):
        sys.exit("There is no such file.")
    print("The desk is open.", file=sys.stderr, flush=True)
    if file:
        threading.Thread(target=watch, args=(file,), daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        if method == "initialize":
            info = {"name": "desk", "version": "1", "title": "The desk", **said_in(file).get("info", {})}
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            send(id=id, result=result)
        elif method == "tools/list":
            send(id=id, result={"tools": definitions(file)})
        elif method == "tools/call":
            threading.Thread(target=call, args=(id, params), daemon=True).start()
        elif method is None:
            with arrived:
                answers[str(id)] = message.get("result", message.get("error"))
                arrived.notify_all()
        elif id is not None:
            known = method in ("ping", "logging/setLevel")
            send(id=id, **({"result": {}} if known else {"error": {"code": -32601, "message": "Not here."}}))


if __name__ == "__main__":
    main()
