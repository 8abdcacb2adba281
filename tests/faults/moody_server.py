"""A legacy stdio server with one mood: `dies` once hands are shaken, or `forgets` to list its tools the first time."""

from __future__ import annotations

import json
import sys

MOOD, LOG = sys.argv[1:3]


def main() -> None:
    with open(LOG, "a") as log:
        log.write("start\n")
    asked = 0
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "notifications/initialized" and MOOD == "dies":
            sys.exit(1)
        if method == "initialize":
            info = {"name": "moody", "version": "1"}
            tools: dict[str, object] = {} if MOOD == "dies" else {"tools": {}}
            say(id, result={"protocolVersion": "2025-11-25", "capabilities": tools, "serverInfo": info})
        elif method == "tools/list":
            asked += 1
            if asked == 1:
                say(id, error={"code": -32603, "message": "Not now."})
            else:
                say(id, result={"tools": [{"name": "late", "inputSchema": {"type": "object"}}]})
        elif method == "ping":
            say(id, result={})
        elif id is not None:
            say(id, error={"code": -32601, "message": "No such method."})


def say(id: object, **outcome: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, **outcome}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
