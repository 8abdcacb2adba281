"""The ledger's quick sister: a server that imports little, for tests that start many.

`python -S teller.py FILE NAME [TTL [DEFINITIONS]]` writes every call into FILE, in the ledger's way, and the number of
its process into FILE.pids. TTL are the milliseconds that a resource may be kept, as they are written on the wire, and
for whom (`60000 for private`; for everybody where that is not said, and `nobody` says nothing of it);
DEFINITIONS is a file with further tools, which do nothing but say what they got, and what their `_meta` has. It speaks
both eras, as it is spoken to.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LOG, NAME = Path(sys.argv[1]), sys.argv[2]
TTL, _, SCOPE = sys.argv[3].partition(" for ") if len(sys.argv) > 3 else ("", "", "")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
READS: Json = {"readOnlyHint": True}
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
QUESTION = {
    "message": "Which colour?",
    "requestedSchema": {"type": "object", "properties": {"colour": TEXT}, "required": ["colour"]},
}


def described(name: str, description: str, annotations: Json | None = None, **properties: Json) -> Json:
    schema: Json = {"type": "object", "properties": properties, "required": [n for n in properties if n != "amount"]}
    hints: Json = {} if annotations is None else {"annotations": annotations}
    return {"name": name, "description": description, "inputSchema": schema, **hints}


TOOLS: list[Json] = [
    described("get_balance", "Read the balance of an account.", READS, account=TEXT),
    described("get_number", "Read a number.", READS, number=WHOLE),
    described("get_wrong", "Read something that fails.", READS, account=TEXT),
    described("get_refused", "Read something that the server refuses.", READS, account=TEXT),
    described("get_slowly", "Read something, as soon as FILE.go is there.", READS, key=TEXT),
    described("get_colour", "Read a colour, after asking which.", READS, key=TEXT),
    described("find_accounts", "Find accounts by their owner.", None, owner=TEXT),
    described("find_lost", "Find something that was lost.", None, account=TEXT),
    described("send_money", "Send money to an account.", None, account=TEXT, amount=WHOLE),
    described("pay_slowly", "Send money, as soon as FILE.go is there.", {"readOnlyHint": False}, account=TEXT),
    described("delete_account", "Delete an account for good.", None, account=TEXT),
    described("paint", "Paint a thing, after asking in which colour.", {"readOnlyHint": False}, key=TEXT),
    described(
        "crash_at_first", "Work at last, after so many failures.", {"idempotentHint": True}, key=TEXT, times=WHOLE
    ),
    described("crash_after_payment", "Pay, then end the process before it can say so.", None, account=TEXT),
    *(json.loads(Path(sys.argv[4]).read_text()) if len(sys.argv) > 4 else []),
]


class ServerError(Exception):
    """A JSON-RPC error."""


class Question(Exception):
    """A modern tool that lacks an answer is called again with it."""


class Teller:
    """Answers what comes, each call in a task of its own."""

    def __init__(self) -> None:
        self.questions: dict[str, asyncio.Future[Json]] = {}

    async def take(self, message: Json) -> None:
        """One message."""
        method: str = message.get("method", "")
        params: Json = message.get("params") or {}
        if not method:
            self.questions.pop(message["id"]).set_result(message)
        elif "id" in message:
            modern = META + "protocolVersion" in params.get("_meta", {})
            try:
                result = await self.answer(method, params, modern)
                send({"id": message["id"], "result": {"resultType": "complete", **result} if modern else result})
            except ServerError as error:
                send({"id": message["id"], "error": {"code": -32602, "message": str(error)}})

    async def answer(self, method: str, params: Json, modern: bool) -> Json:
        """A request's result."""
        capabilities = {"tools": {"listChanged": True}, "resources": {}}
        match method:
            case "server/discover":
                return {"supportedVersions": [MODERN], "capabilities": capabilities, "ttlMs": 0}
            case "initialize":
                info = {"name": NAME, "version": "1"}
                return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
            case "tools/list":
                return {"tools": TOOLS, **({"ttlMs": 0, "cacheScope": "private"} if modern else {})}
            case "resources/list":
                return {"resources": [{"uri": "ledger://rules", "name": "rules"}]}
            case "resources/read":
                scope = {} if SCOPE == "nobody" else {"cacheScope": SCOPE or "public"}
                kept = {"ttlMs": json.loads(TTL), **scope} if modern and TTL else {}
                return {"contents": [{"uri": params["uri"], "text": f"Rule {note('rules')}"}], **kept}
            case "tools/call":
                return await self.call(params["name"], params.get("arguments") or {}, params, modern)
            case "ping":
                return {}
            case _:
                raise ServerError(f"No method {method}.")

    async def call(self, tool: str, arguments: Json, params: Json, modern: bool) -> Json:
        """A tool's result."""
        number = note(" ".join([tool, *map(str, arguments.values())]))
        match tool:
            case "get_wrong":
                return {**said("There is no such account."), "isError": True}
            case "get_refused":
                raise ServerError("There is no such account.")
            case "get_slowly" | "pay_slowly":
                while not LOG.with_suffix(".go").exists():  # noqa: ASYNC110 - a file has no event
                    await asyncio.sleep(0.01)
            case "get_colour" | "paint":
                try:
                    colour = await (self.ask_modern(params) if modern else self.ask_legacy())
                except Question:
                    asked = {"colour": {"method": "elicitation/create", "params": QUESTION}}
                    return {"resultType": "input_required", "inputRequests": asked, "requestState": "painting"}
                note(f"{tool} in {colour}")
                progress(params)
                return said(f"{arguments['key']} is {colour}")
            case "crash_at_first":
                if noted(f" {tool} {arguments['key']} ") <= int(arguments["times"]):
                    os._exit(1)
            case "crash_after_payment" | "find_lost":
                os._exit(1)
            case _:
                pass
        kept: Json = {}
        for one in TOOLS:
            kept = one["_meta"] if modern and one["name"] == tool and "_meta" in one else kept
        return said(f"{json.dumps(arguments)} {number} by {NAME}") | kept

    async def ask_legacy(self) -> str:
        """What a person says, asked in the middle of the call."""
        id = f"ask-{os.urandom(8).hex()}"
        future = self.questions[id] = asyncio.get_running_loop().create_future()
        send({"id": id, "method": "elicitation/create", "params": QUESTION})
        return (await future).get("result", {}).get("content", {}).get("colour", "none")

    async def ask_modern(self, params: Json) -> str:
        """What a person said, if the call is one that brings it."""
        if "requestState" not in params:
            raise Question
        return params["inputResponses"]["colour"].get("content", {}).get("colour", "none")


def note(line: str) -> int:
    """Write one line; how many there are of it now."""
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{NAME} {line}\n")
    return LOG.read_text(encoding="utf-8").splitlines().count(f"{NAME} {line}")


def noted(words: str) -> int:
    """How often there was something of the kind."""
    return LOG.read_text(encoding="utf-8").count(words)


def progress(params: Json) -> None:
    """Report progress, if the caller wants it."""
    token = params.get("_meta", {}).get("progressToken")
    if token is not None:
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})


def said(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


async def main() -> None:
    with LOG.with_suffix(".pids").open("a", encoding="utf-8") as pids:
        pids.write(f"{os.getpid()}\n")
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    teller = Teller()
    running: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.ensure_future(teller.take(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(main())
