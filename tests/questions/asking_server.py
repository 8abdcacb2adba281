"""A real MCP server that asks before it acts, in either era, over stdio, HTTP and the older HTTP+SSE.

`--era` says how it speaks, and it speaks no other way. `--log FILE` gets the lines `start PID`, `call ID TOOL`,
`cancelled ID` and `end`, and in the legacy era `asked ID` and `refused METHOD CODE`. With `--http` it serves `/mcp` on
127.0.0.1 and prints `PORT n` when it listens; with `--plain` besides, it answers legacy calls with JSON, and so asks on
the session's own stream. With `--sse` it serves `/sse`. What a tool does is to append one line to a file, so that a
test can count how often it was done. The prompt `order` and the resources `shop://order/ITEM` ask as the tool `order`.

In the legacy era each session has a state: `unlock` adds the tool `vault` and the resource `shop://mine`, `touch` tells
those who follow a resource that it changed, `link` answers with a link that no list shows. With `--choosy` the tools
`former`, `sampler` and `mute` are listed to those who can be asked by a form, by a model, or nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Questions = dict[str, Json]
Ask = Callable[[Questions], Awaitable[Json]]
Send = Callable[[Json], Awaitable[None]]

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
POLL = 0.01


class ToolError(Exception):
    """A JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.object: Json = {"code": code, "message": message, **({"data": data} if data is not None else {})}


class InputRequired(Exception):
    """A modern tool wants answers that it does not have yet: it stops here, and is called again."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions


# The tools. Each is written once: asked again from the beginning, it finds the answers it already got.


async def order(ask: Ask, args: Json) -> str:
    answers = await ask({"confirm": confirm(f"Order {args['item']}?")})
    return act(args, answers)


async def twice(ask: Ask, args: Json) -> str:
    first = await ask({"first": confirm(f"Order {args['item']}?")})
    if first["first"]["action"] != "accept":
        return act(args, first)
    return act(args, await ask({"second": confirm(f"Really order {args['item']}?")}))


async def both(ask: Ask, args: Json) -> str:
    asked = {"left": confirm(f"Order left {args['item']}?"), "right": confirm(f"Order right {args['item']}?")}
    return act(args, await ask(asked))


async def aside(ask: Ask, args: Json) -> str:
    """Like `order`, but a legacy server asks outside the call where it can: on the session's own stream."""
    return act(args, await ask({"confirm": {**confirm(f"Order {args['item']}?"), "aside": True}}))


async def url(ask: Ask, args: Json) -> str:
    address = args.get("text") or f"https://example.org/pay/{args['item']}"
    params = {"mode": "url", "elicitationId": args["item"], "url": address, "message": f"Pay {args['item']}?"}
    return act(args, await ask({"pay": {"method": "elicitation/create", "params": params}}), wants="")


async def sample(ask: Ask, args: Json) -> str:
    message = {"role": "user", "content": {"type": "text", "text": args["text"]}}
    params = {"messages": [message], "maxTokens": 10}
    answers = await ask({"model": {"method": "sampling/createMessage", "params": params}})
    return f"sampled {answers['model']['content']['text']}"


async def agent(ask: Ask, args: Json) -> str:
    """Like `sample`, but the model gets tools."""
    message = {"role": "user", "content": {"type": "text", "text": args["text"]}}
    params = {"messages": [message], "maxTokens": 10, "tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
    answers = await ask({"model": {"method": "sampling/createMessage", "params": params}})
    return f"wants {answers['model']['content']['name']}"


async def login(ask: Ask, args: Json) -> str:
    """What no server may do: ask for a secret in a form."""
    fields = {
        "user": {"type": "string"},
        "apiKey": {"type": "string"},
        "phrase": {"type": "string", "title": "Password"},
    }
    params = {"message": "Log in", "requestedSchema": {"type": "object", "properties": fields}}
    answers = await ask({"login": {"method": "elicitation/create", "params": params}})
    return f"{answers['login']['action']}ed"


async def roots(ask: Ask, args: Json) -> str:
    answers = await ask({"roots": {"method": "roots/list", "params": {}}})
    return f"roots {' '.join(root['uri'] for root in answers['roots']['roots'])}"


async def later(ask: Ask, args: Json) -> str:
    while not Path(args["after"]).exists():  # noqa: ASYNC110, ASYNC240 - a file has no event
        await asyncio.sleep(POLL)
    return await order(ask, args) if "item" in args else "waited"


async def visit(ask: Ask, args: Json) -> str:
    key = json.dumps(args, sort_keys=True)
    if key not in VISITED:
        VISITED.add(key)
        one = {"mode": "url", "elicitationId": "v", "url": "https://example.org/v", "message": f"Visit {args['item']}?"}
        raise ToolError(-32042, "Open this first.", {"elicitations": [one]})
    return act(args, {})


VISITED: set[str] = set()
CALLS = ("tools/call", "prompts/get", "resources/read")
CACHED: Json = {"ttlMs": 60000, "cacheScope": "public"}
LISTS: Json = {
    "prompts/list": {"prompts": [{"name": "order", "arguments": [{"name": "item"}]}]},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": [{"name": "order", "uriTemplate": "shop://order/{item}"}]},
}
CAPABILITIES: Json = {"tools": {}, "prompts": {}, "resources": {}}
LEGACY_CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"listChanged": True, "subscribe": True},
}
STATEFUL = ("unlock", "touch", "link", "vault", "former", "sampler", "mute")
TOOLS = {tool.__name__: tool for tool in (order, twice, both, aside, url, sample, agent, login, roots, later, visit)}
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in ("item", "file", "text", "after")}}


def confirm(message: str) -> Json:
    wanted = {
        "type": "object",
        "properties": {"sure": {"type": "boolean"}, "note": {"type": "string"}},
        "required": ["sure"],
    }
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": wanted}}


def act(args: Json, answers: Json, wants: str = "sure") -> str:
    for answer in answers.values():
        if answer.get("action") != "accept":
            return f"{'declined' if answer.get('action') == 'decline' else 'cancelled'} {args['item']}"
        if wants and answer.get("content", {}).get(wants) is not True:
            return f"unsure {args['item']}"
    if "file" in args:
        with Path(args["file"]).open("a") as file:
            file.write(f"{args['item']}\n")
    notes = [answer.get("content", {}).get("note", "") for answer in answers.values()]
    return " ".join(["ordered", args["item"], *(note for note in notes if note)])


class Server:
    """What is the same over every transport."""

    def __init__(self, era: str, log: str, *, plain: bool = False, choosy: bool = False) -> None:
        self.modern = era == "modern"
        self.plain, self.choosy = plain, choosy
        self.unlocked: set[str] = set()
        self.followed: dict[str, set[str]] = {}
        self.askable: dict[str, Json] = {}
        """What the client of each session can be asked."""
        self.standing: dict[str, Send] = {}
        """The stream of each session's own."""
        self._log = log
        self._key = os.urandom(32)
        self._used: set[str] = set()
        self._numbers = itertools.count(1)
        self._asked: dict[tuple[str, str], asyncio.Future[Json]] = {}
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    def log(self, *words: object) -> None:
        if self._log:
            with Path(self._log).open("a") as file:
                file.write(" ".join(map(str, words)) + "\n")

    async def take(self, message: Json, session: str, send: Send) -> None:
        """Take one message, and send everything that belongs to it."""
        if "method" not in message:
            future = self._asked.pop((session, str(message.get("id"))), None)
            if future is not None and not future.done():
                future.set_result(message)
        elif "id" not in message:
            if message["method"] == "notifications/cancelled":
                self._cancel(session, message["params"]["requestId"])
        elif message["method"] in CALLS:
            key = session, str(message["id"])
            self._running[key] = asyncio.ensure_future(self._call(message, session, send))
            try:
                await asyncio.wait([self._running[key]])
            finally:
                self._running.pop(key).cancel()
        else:
            await send(self._own(message, session))

    def _cancel(self, session: str, id: Any) -> None:
        self.log("cancelled", id)
        task = self._running.get((session, str(id)))
        if task is not None:
            task.cancel()

    def _shown(self, session: str) -> list[str]:
        """The tools that a session sees."""
        if self.modern:
            return list(TOOLS)
        able = self.askable.get(session, {})
        choice = [name for name, need in (("former", "elicitation"), ("sampler", "sampling")) if need in able]
        extra = (choice or ["mute"]) if self.choosy else []
        return [*TOOLS, "unlock", "touch", "link", *extra, *(["vault"] if session in self.unlocked else [])]

    async def _stateful(self, message: Json, name: str, session: str, send: Send) -> Json:
        """What a session does to its own state, or reads of it."""
        tell = await self._own_stream(session) if session and name in ("unlock", "touch") else send
        if name == "unlock":
            self.unlocked.add(session)
            for kind in ("tools", "resources"):
                await tell({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"})
        elif name == "touch":
            for uri in sorted(self.followed.get(session, ())):
                params = {"uri": uri}
                await tell({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
        elif name == "link":
            item = message["params"].get("arguments", {}).get("item", "tea")
            return {"content": [{"type": "resource_link", "uri": f"shop://linked/{item}", "name": item}]}
        elif name == "mine" and session not in self.unlocked:
            raise ToolError(-32002, "Resource not found")
        return said(message, f"{name} {os.getpid()}")

    def _own(self, message: Json, session: str) -> Json:
        method, params = message["method"], message.get("params", {})
        info = {"name": "asking", "version": "1"}
        result: Json | None = None
        if method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": SCHEMA} for name in self._shown(session)]}
        elif method == "resources/list" and session in self.unlocked:
            result = {"resources": [{"name": "mine", "uri": "shop://mine"}]}
        elif method in ("resources/subscribe", "resources/unsubscribe") and not self.modern:
            uris = self.followed.setdefault(session, set())
            (uris.add if method == "resources/subscribe" else uris.discard)(params["uri"])
            result = {}
        elif method in LISTS:
            result = LISTS[method]
        elif method == "server/discover" and self.modern:
            result = {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": CAPABILITIES}
            result |= {"ttlMs": 0, "cacheScope": "private", "_meta": {f"{META}serverInfo": info}}
        elif method == "initialize" and not self.modern:
            self.askable[session] = params["capabilities"]
            result = {"protocolVersion": params["protocolVersion"], "capabilities": LEGACY_CAPABILITIES}
            result["serverInfo"] = info
        elif method == "ping" and not self.modern:
            result = {}
        if result is None:
            return reply(message, error={"code": -32601, "message": f"No method {method}."})
        if self.modern:
            result = {"resultType": "complete", **CACHED, **result}
        return reply(message, result=result)

    async def _call(self, message: Json, session: str, send: Send) -> None:
        params = message["params"]
        name: str = params.get("name") or params["uri"].rpartition("/")[2]
        self.log("call", message["id"], name)
        own = name in STATEFUL or params.get("uri", "").startswith(("shop://mine", "shop://linked/"))
        try:
            if own and not self.modern:
                await send(reply(message, result=await self._stateful(message, name, session, send)))
                return
            tool = TOOLS.get(name) if message["method"] == "tools/call" else order
            if tool is None:
                raise ToolError(-32602, f"Unknown tool: {name}")
            args = params.get("arguments") or ({} if message["method"] == "tools/call" else {"item": name})
            result = await (self._modern_call if self.modern else self._legacy_call)(tool, args, message, session, send)
            await send(reply(message, result=result))
        except ToolError as error:
            await send(reply(message, error=error.object))

    async def _legacy_call(self, tool: Any, args: Json, message: Json, session: str, send: Send) -> Json:
        async def ask(questions: Questions) -> Json:
            futures: dict[str, asyncio.Future[Json]] = {}
            for key, question in questions.items():
                id = f"ask-{next(self._numbers)}"
                futures[key] = self._asked[session, id] = asyncio.get_running_loop().create_future()
                outside = question.pop("aside", False) or self.plain
                await (await self._own_stream(session) if session and outside else send)(
                    {"jsonrpc": "2.0", "id": id, **question}
                )
                self.log("asked", id)
            answers = dict(zip(futures, await asyncio.gather(*futures.values()), strict=True))
            for key, answer in answers.items():
                if "error" in answer:
                    self.log("refused", questions[key]["method"], answer["error"]["code"])
                    raise LookupError(f"the client said {answer['error']['code']} {answer['error']['message']}")
            return {key: answer["result"] for key, answer in answers.items()}

        try:
            return said(message, await tool(ask, args))
        except LookupError as error:
            if args.get("strict") or message["method"] != "tools/call":
                raise ToolError(-32603, f"failed: {error}") from error
            return {**said(message, f"failed: {error}"), "isError": True}

    async def _own_stream(self, session: str) -> Send:
        while session not in self.standing:  # noqa: ASYNC110 - a caller opens it in its own time
            await asyncio.sleep(POLL)
        return self.standing[session]

    async def _modern_call(self, tool: Any, args: Json, message: Json, session: str, send: Send) -> Json:
        params: Json = message["params"]
        capabilities: Json = params.get("_meta", {}).get(f"{META}clientCapabilities", {})
        past = self._open(params) if "requestState" in params else []
        fresh: Json = params.get("inputResponses", {})
        rounds = itertools.count()

        async def ask(questions: Questions) -> Json:
            at = next(rounds)
            if at < len(past):
                return past[at]
            for question in questions.values():
                missing = lacking(question, capabilities)
                if missing:
                    raise ToolError(-32021, "The client cannot be asked.", {"requiredCapabilities": missing})
                question.pop("aside", None)
            if "requestState" not in params or at > len(past) or not questions.keys() <= fresh.keys():
                raise InputRequired(questions)
            past.append({key: fresh[key] for key in questions})
            return past[-1]

        try:
            return {"resultType": "complete", **said(message, await tool(ask, args))}
        except InputRequired as wanted:
            state = self._close(params, past)
            return {"resultType": "input_required", "inputRequests": wanted.questions, "requestState": state}

    # A modern server's state: sealed, bound to the tool and its arguments, good for one use.

    def _close(self, params: Json, past: list[Json]) -> str:
        text = json.dumps({"nonce": os.urandom(8).hex(), "past": past}).encode()
        return base64.urlsafe_b64encode(self._tag(text, params) + text).decode()

    def _open(self, params: Json) -> list[Json]:
        state = params["requestState"]
        try:
            sealed = base64.b64decode(state, altchars=b"-_", validate=True)
        except ValueError:
            sealed = b""
        tag, text = sealed[:32], sealed[32:]
        written = base64.urlsafe_b64encode(sealed).decode() == state
        if not written or not hmac.compare_digest(tag, self._tag(text, params)) or state in self._used:
            raise ToolError(-32602, "The requestState is not one of mine, or was used.")
        self._used.add(state)
        return json.loads(text)["past"]

    def _tag(self, text: bytes, params: Json) -> bytes:
        name = params.get("name") or params["uri"]
        bound = json.dumps([name, params.get("arguments", {})], sort_keys=True).encode()
        return hmac.digest(self._key, hashlib.sha256(bound).digest() + text, "sha256")


def lacking(question: Json, capabilities: Json) -> Json:
    need = NEEDS[question["method"]]
    if need not in capabilities:
        return {need: {}}
    wants = "url" if question["params"].get("mode") == "url" else "tools" if "tools" in question["params"] else ""
    return {need: {wants: {}}} if wants and wants not in capabilities[need] else {}


def said(message: Json, text: str) -> Json:
    if message["method"] == "tools/call":
        return {"content": [{"type": "text", "text": text}]}
    if message["method"] == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    cached = CACHED if META + "protocolVersion" in message["params"].get("_meta", {}) else {}
    return {"contents": [{"uri": message["params"]["uri"], "text": text}], **cached}


def reply(message: Json, **rest: Any) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], **rest}


# Transports.


async def serve_stdio(server: Server) -> None:
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def send(message: Json) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    running: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.ensure_future(server.take(json.loads(line), "", send))
        running.add(task)
        task.add_done_callback(running.discard)
    server.log("end")


async def serve_http(server: Server, *, old: bool) -> None:
    sessions: set[str] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, headers = read_head(head)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if old:
                    await answer_old(server, method, path, body, writer)
                else:
                    await answer(server, sessions, method, headers, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    print(f"PORT {listening.sockets[0].getsockname()[1]}", flush=True)
    await listening.serve_forever()


async def answer(
    server: Server, sessions: set[str], method: str, headers: Json, body: bytes, writer: asyncio.StreamWriter
) -> None:
    session = headers.get("mcp-session-id", "")
    message: Json = json.loads(body) if body else {}
    if method == "DELETE" and session in sessions:
        sessions.discard(session)
        await plain(writer, 200)
    elif method == "GET" and session in sessions:
        await stand(server, session, writer)
    elif method != "POST":
        await plain(writer, 405)
    elif server.modern:
        await answer_modern(server, headers, message, writer)
    elif message.get("method") == "initialize":
        sessions.add(fresh := os.urandom(16).hex())
        await server.take(message, fresh, lambda out: plain(writer, 200, out, **{"Mcp-Session-Id": fresh}))
    elif session not in sessions:
        error = {"code": -32000, "message": "Bad Request: no such session"}
        await plain(writer, 404 if session else 400, {"jsonrpc": "2.0", "id": None, "error": error})
    elif message.get("method") in CALLS and not server.plain:
        await stream(server, session, message, writer)
    elif "id" in message and "method" in message:
        await server.take(message, session, lambda out: plain(writer, 200, out))
    else:
        await server.take(message, session, lambda out: plain(writer, 200, out))
        await plain(writer, 202)


async def answer_old(server: Server, method: str, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """HTTP+SSE: everything we say goes over the one stream."""
    session = path.partition("?")[2]
    if method == "GET" and not session:
        await stand(server, os.urandom(16).hex(), writer, endpoint=True)
    elif method != "POST" or session not in server.standing:
        await plain(writer, 405)
    else:
        task = asyncio.ensure_future(server.take(json.loads(body), session, server.standing[session]))
        RUNNING.add(task)
        task.add_done_callback(RUNNING.discard)
        await plain(writer, 202)


RUNNING: set[asyncio.Task[None]] = set()


async def answer_modern(server: Server, headers: Json, message: Json, writer: asyncio.StreamWriter) -> None:
    async def send(out: Json) -> None:
        code = out.get("error", {}).get("code", 0)
        await plain(writer, 404 if code == -32601 else 400 if code else 200, out)

    if headers.get("mcp-protocol-version") != MODERN:
        error = {"code": -32022, "message": "Only 2026-07-28.", "data": {"supported": [MODERN]}}
        await plain(writer, 400, {"jsonrpc": "2.0", "id": message.get("id"), "error": error})
    else:
        await server.take(message, "", send)


async def stream(server: Server, session: str, message: Json, writer: asyncio.StreamWriter) -> None:
    """A legacy call: its questions and its result are events."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def send(out: Json) -> None:
        event = b"event: message\ndata: %s\n\n" % json.dumps(out).encode()
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()

    await server.take(message, session, send)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def stand(server: Server, session: str, writer: asyncio.StreamWriter, *, endpoint: bool = False) -> None:
    """The stream of a session's own, which stays open."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    if endpoint:
        writer.write(b"event: endpoint\ndata: /sse?%s\n\n" % session.encode())

    async def send(out: Json) -> None:
        writer.write(b"data: %s\n\n" % json.dumps(out).encode())
        await writer.drain()

    server.standing[session] = send
    try:
        await writer.wait_closed()
    finally:
        del server.standing[session]


async def plain(writer: asyncio.StreamWriter, status: int, message: Json | None = None, **headers: str) -> None:
    body = json.dumps(message).encode() if message is not None else b""
    own = {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}
    lines = [f"HTTP/1.1 {status} Asking", *(f"{name}: {value}" for name, value in own.items()), "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    await writer.drain()


def read_head(head: bytes) -> tuple[str, str, Json]:
    first, *rest = head.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in rest)
    return first.split()[0], first.split()[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=["legacy", "modern"], default="legacy")
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("--late", type=float, default=0.0, help="seconds before it begins to read")
    parser.add_argument("--choosy", action="store_true")
    parser.add_argument("--log", default="")
    options = parser.parse_args()
    server = Server(options.era, options.log, plain=options.plain, choosy=options.choosy)
    server.log("start", os.getpid())
    time.sleep(options.late)
    asyncio.run(serve_http(server, old=options.sse) if options.http or options.sse else serve_stdio(server))


if __name__ == "__main__":
    main()
