"""A real MCP server over streamable HTTP that misbehaves on request, above HTTP and below it.

It writes HTTP by hand on asyncio streams, so that it can break it. It serves `/mcp` on 127.0.0.1 and prints
`PORT n` when it listens. A tool's docstring is its description in `tools/list`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import itertools
import json
import os
import signal
import socket
import struct
import uuid
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"

GARBAGE = b"Traceback (most recent call last): this is not JSON\n"
MEGABYTE = 1024 * 1024
HUGE_LIST = 64 * MEGABYTE
NOBODY = 999_999_999
"""The id that `wrong_id` answers; nobody asks with it."""
EXACT = (
    b'"zebra":123456789012345678901234567890,"structuredContent":{"z":1.0,"a":null,"m":1E+2,"\\u006bey":-0.0},'
    b'"content":[{"text":"caf\\u00e9 \\/ \\ud83d\\ude00","type":"text"}],"isError":false,"apple":null'
)
"""The fields of the answer of `bigint`, as bytes that must pass unchanged."""
FILLING = b"@filling@"
SSE = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}


@dataclass(frozen=True)
class Request:
    """One HTTP request; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply:
    """The HTTP answer to one request, well-formed as long as a tool does not reach for the writer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.begun = False
        self.streaming = False

    async def write(self, data: bytes) -> None:
        self.begun = True
        self.writer.write(data)
        await self.writer.drain()
        # A client that reads fast would otherwise keep the loop to itself.
        await asyncio.sleep(0)

    async def head(self, status: int, headers: Mapping[str, Any]) -> None:
        lines = [f"HTTP/1.1 {status} Faulty", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        await self.write("\r\n".join(lines).encode())

    async def body(self, status: int, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.head(status, {"Content-Type": "application/json", **named, "Content-Length": len(body)})
        await self.write(body)

    async def stretch(self, body: bytes, size: int) -> None:
        """Send a JSON body whose filling is stretched until the body has this size."""
        head, tail = body.split(FILLING)
        size = max(size, len(head) + len(tail))
        await self.head(200, {"Content-Type": "application/json", "Content-Length": size})
        for piece in itertools.chain([head], xs(size - len(head) - len(tail)), [tail]):
            await self.write(piece)

    async def stream(self) -> None:
        """Begin a stream of server-sent events."""
        self.streaming = True
        await self.head(200, SSE)

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, message: bytes) -> None:
        await self.chunk(as_event(message))

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.event(encode({"method": method, "params": params}))

    async def end(self) -> None:
        """End the stream."""
        await self.write(b"0\r\n\r\n")

    def close(self) -> None:
        self.writer.close()


@dataclass
class Call:
    """One MCP request in flight."""

    id: Any
    method: str
    params: dict[str, Any]
    modern: bool
    reply: Reply
    task: asyncio.Task[Any]
    cancelled: bool = False
    """Whether `notifications/cancelled` named it."""
    meta: dict[str, Any] = field(init=False)
    name: str = field(init=False)
    arguments: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.meta = self.params.get("_meta") or {}
        self.name = str(self.params.get("name"))
        self.arguments = self.params.get("arguments") or {}


class RefusedError(Exception):
    """A request is refused with an HTTP status and a JSON-RPC error."""

    def __init__(self, status: int, code: int, text: str, **data: Any) -> None:
        super().__init__(text)
        self.status = status
        self.error = {"code": code, "message": text, **({"data": data} if data else {})}


class Server:
    """The protocol: connections, sessions, requests."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.era: str = options.era
        self.port = 0
        self.sessions: set[str] = set()
        self.calls: dict[tuple[str, Any], Call] = {}
        self.questions: dict[str, asyncio.Future[Any]] = {}
        self.streams: list[tuple[str, asyncio.Queue[bytes]]] = []
        """The open GET streams, each with its session."""
        self.listens: list[tuple[Any, asyncio.Queue[bytes]]] = []
        """The open `subscriptions/listen` requests, each with its id."""
        self.extras = 0

    async def run(self) -> None:
        self.log(f"start {os.getpid()}")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.on_sigterm)
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.options.port))
        self.port = listener.getsockname()[1]
        # A port that is bound and not listened on refuses, and nobody else can take it.
        if self.options.start != "refuse":
            await asyncio.start_server(self.connected, sock=listener)
        print(f"PORT {self.port}", flush=True)
        await asyncio.Event().wait()

    def on_sigterm(self) -> None:
        self.log("sigterm")
        self.log("end")
        os._exit(143)

    def log(self, line: str) -> None:
        if self.options.log:
            with open(self.options.log, "a") as file:
                file.write(line + "\n")

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection; who closes it while one is in flight cancels that one."""
        if self.options.start == "hang":
            await asyncio.Event().wait()
        coming = asyncio.create_task(read_request(reader))
        while (request := await coming) and not writer.is_closing():
            coming = asyncio.create_task(read_request(reader))
            answering = asyncio.create_task(self.answer(request, Reply(writer)))
            await asyncio.wait([answering, coming], return_when=asyncio.FIRST_COMPLETED)
            if coming.done() and coming.result() is None:
                answering.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await answering
            if request.headers.get("connection") == "close":
                break
        coming.cancel()
        writer.close()

    async def answer(self, request: Request, reply: Reply) -> None:
        self.log(f"http {request.method} {request.path}")
        self.log(f"headers {json.dumps(request.headers)}")
        methods = {"POST": self.post, "GET": self.get, "DELETE": self.delete}
        try:
            if request.path.partition("?")[0] != "/mcp":
                raise RefusedError(404, -32600, "Nothing is here; try /mcp.")
            if request.method not in methods or (self.era == "modern" and request.method != "POST"):
                raise RefusedError(405, -32600, "Method not allowed.")
            await methods[request.method](request, reply)
        except RefusedError as refused:
            await reply.body(refused.status, encode({"id": None, "error": refused.error}))

    async def get(self, request: Request, reply: Reply) -> None:
        if self.options.no_get:
            raise RefusedError(405, -32600, "This server has no GET stream.")
        session = self.session_of(request)
        await reply.stream()
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.streams.append((session, queue))
        try:
            await self.pump(queue, reply)
        finally:
            self.streams.remove((session, queue))

    async def delete(self, request: Request, reply: Reply) -> None:
        session = self.session_of(request)
        self.sessions.remove(session)
        self.log(f"session {session} deleted")
        for owner, queue in self.streams:
            if owner == session:
                queue.put_nowait(b"")
        await reply.body(200)

    async def pump(self, queue: asyncio.Queue[bytes], reply: Reply) -> None:
        """Pass messages on, with a comment every half second, until an empty one."""
        while True:
            try:
                message = await asyncio.wait_for(queue.get(), 0.5)
            except TimeoutError:
                await reply.chunk(b": still here\n\n")
                continue
            if not message:
                break
            await reply.event(message)
        await reply.end()

    def session_of(self, request: Request) -> str:
        session = request.headers.get("mcp-session-id", "")
        if not session:
            raise RefusedError(400, -32600, "The request has no Mcp-Session-Id.")
        if session not in self.sessions:
            raise RefusedError(404, -32600, "Session not found.")
        return session

    async def post(self, request: Request, reply: Reply) -> None:
        accept = request.headers.get("accept", "")
        if "application/json" not in accept or "text/event-stream" not in accept:
            raise RefusedError(406, -32600, "Accept both application/json and text/event-stream.")
        try:
            message = json.loads(request.body)
            id, method = message.get("id"), message.get("method")
            params: dict[str, Any] = dict(message.get("params") or {})
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise RefusedError(400, -32700, "Not a message.") from error
        if method is None or id is None:
            await self.told(request, message, params)
            await reply.body(202)
            return
        modern = self.is_modern(request, method, params)
        session = "" if modern else request.headers.get("mcp-session-id", "")
        task = asyncio.current_task()
        assert task
        call = self.calls[session, id] = Call(id, method, params, modern, reply, task)
        try:
            await self.request(request, call)
        except RefusedError as refused:
            await reply.body(refused.status, encode({"id": id, "error": refused.error}))
        except (asyncio.CancelledError, ConnectionError):
            if not call.cancelled:
                self.log(f"cancelled {json.dumps(id)}")
                raise
            # The client gets no answer, but keeps its connection.
            if not reply.begun:
                await reply.stream()
            await reply.end()
        finally:
            self.calls.pop((session, id), None)

    def is_modern(self, request: Request, method: str, params: dict[str, Any]) -> bool:
        """Tell the era of a request: a server of both takes it from the version it names."""
        if self.era != "both" or method == "initialize":
            return self.era == "modern"
        meta: dict[str, Any] = params.get("_meta") or {}
        version = meta.get(META + "protocolVersion", request.headers.get("mcp-protocol-version"))
        return version is not None and version not in LEGACY

    async def told(self, request: Request, message: dict[str, Any], params: dict[str, Any]) -> None:
        """Take a notification, or the answer to a question of ours."""
        session = self.session_of(request) if self.era == "legacy" else request.headers.get("mcp-session-id", "")
        if "method" not in message:
            question = self.questions.pop(str(message.get("id")), None)
            if question and not question.done():
                question.set_result(message.get("result", message.get("error")))
        elif message["method"] == "notifications/cancelled":
            id = params.get("requestId")
            self.log(f"cancelled {json.dumps(id)}")
            if session and (call := self.calls.get((session, id))):
                call.cancelled = True
                call.task.cancel()

    async def request(self, request: Request, call: Call) -> None:
        if call.method == "initialize" and not call.modern:
            await self.initialize(call)
            return
        if call.modern:
            check_modern(request, call)
        else:
            self.session_of(request)
        known = ("server/discover", "subscriptions/listen") if call.modern else ("ping", "logging/setLevel")
        if call.method == "server/discover" and call.modern:
            await self.finish(call, self.about(), cached=True)
        elif call.method == "subscriptions/listen" and call.modern:
            await self.listen(call)
        elif call.method == "tools/list":
            await self.tools_list(call)
        elif call.method == "tools/call":
            await self.tools_call(call)
        elif call.method in known:
            await self.finish(call, {})
        else:
            raise RefusedError(404 if call.modern else 200, -32601, f"No such method: {call.method}.")

    async def initialize(self, call: Call) -> None:
        session = uuid.uuid4().hex
        self.sessions.add(session)
        self.log(f"session {session} new")
        requested = call.params.get("protocolVersion")
        result = {
            "protocolVersion": requested if requested in LEGACY else LEGACY[0],
            "capabilities": self.about()["capabilities"],
            "serverInfo": {"name": self.options.name, "version": "1"},
        }
        await call.reply.body(200, encode({"id": call.id, "result": result}), Mcp_Session_Id=session)

    def about(self) -> dict[str, Any]:
        versions = [MODERN, *LEGACY] if self.era == "both" else [MODERN]
        return {"supportedVersions": versions, "capabilities": {"tools": {"listChanged": True}, "logging": {}}}

    def complete(self, call: Call, result: dict[str, Any], *, cached: bool = False) -> bytes:
        """The message that answers a call, with what a modern result carries."""
        if call.modern:
            hints = {"ttlMs": 0, "cacheScope": "private"} if cached else {}
            identity = {META + "serverInfo": {"name": self.options.name, "version": "1"}}
            result = {"resultType": "complete", **result, **hints, "_meta": identity}
        return encode({"id": call.id, "result": result})

    async def finish(self, call: Call, result: dict[str, Any], *, cached: bool = False) -> None:
        await self.finish_raw(call, self.complete(call, result, cached=cached))

    async def finish_raw(self, call: Call, message: bytes) -> None:
        """Answer with a message: as the last event of a stream, or as JSON."""
        if self.options.sse and not call.reply.begun:
            await call.reply.stream()
        if call.reply.streaming:
            await call.reply.event(message)
            await call.reply.end()
        else:
            await call.reply.body(200, message)

    async def listen(self, call: Call) -> None:
        wanted = call.params["notifications"].get("toolsListChanged") is True
        honoured = {"toolsListChanged": True} if wanted else {}
        tag = {META + "subscriptionId": call.id}
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        if wanted:
            self.listens.append((call.id, queue))
        try:
            await call.reply.stream()
            await call.reply.notify(
                "notifications/subscriptions/acknowledged", {"_meta": tag, "notifications": honoured}
            )
            await self.pump(queue, call.reply)
        finally:
            self.listens = [(id, other) for id, other in self.listens if other is not queue]

    async def tools_list(self, call: Call) -> None:
        fault = self.options.list
        if fault == "hang":
            await asyncio.Event().wait()
        elif fault == "error":
            raise RefusedError(200, -32603, "The list is lost, as asked.")
        elif fault == "garbage":
            await call.reply.body(200, GARBAGE)
        elif fault == "endless":
            page = int(call.params.get("cursor") or 0)
            tools = [described(f"page_{page}", "One of many.")]
            await self.finish(call, {"tools": tools, "nextCursor": str(page + 1)}, cached=True)
        elif fault == "huge":
            tools = [described("huge", FILLING.decode())]
            await call.reply.stretch(self.complete(call, {"tools": tools}, cached=True), HUGE_LIST)
        else:
            tools = [described(name, tool.__doc__ or "") for name, tool in TOOLS.items()]
            tools += [described(f"extra_{number + 1}", "Added by list_changed.") for number in range(self.extras)]
            await self.finish(call, {"tools": tools}, cached=True)

    async def tools_call(self, call: Call) -> None:
        self.log(f"call {call.name} {json.dumps(call.id)}")
        tool = extra if call.name.startswith("extra_") else TOOLS.get(call.name)
        if tool is None:
            raise RefusedError(400 if call.modern else 200, -32602, f"Unknown tool: {call.name}")
        try:
            result = await tool(self, call, call.reply)
        except (KeyError, TypeError, ValueError) as error:
            result = {**text(f"{call.name} failed: {error!r}"), "isError": True}
        if result is not None:
            await self.finish(call, result)


def check_modern(request: Request, call: Call) -> None:
    """Refuse a request whose metadata is missing, or differs from its headers."""
    if call.method == "initialize":
        requested = call.params.get("protocolVersion")
        raise RefusedError(400, -32022, f"This server speaks {MODERN} only.", supported=[MODERN], requested=requested)
    version = call.meta.get(META + "protocolVersion")
    if version is None or META + "clientCapabilities" not in call.meta:
        raise RefusedError(400, -32602, "The request lacks `protocolVersion` or `clientCapabilities` in its `_meta`.")
    mirrored = {"mcp-protocol-version": version, "mcp-method": call.method}
    if call.method == "tools/call":
        mirrored["mcp-name"] = call.name
    for header, value in mirrored.items():
        if decoded(request.headers.get(header, "")) != value:
            raise RefusedError(400, -32020, f"The header {header} does not match the body.")
    if version != MODERN:
        raise RefusedError(400, -32022, "Unsupported protocol version.", supported=[MODERN], requested=version)


def decoded(value: str) -> str:
    if value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2]).decode()
    return value


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read one HTTP request, or None when the client has closed the connection."""
    try:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        body = b""
        if "chunked" in headers.get("transfer-encoding", ""):
            while size := int(await reader.readuntil(b"\r\n"), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ")
        return Request(method, path, headers, body)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()


def as_event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def raw(call: Call, fields: bytes) -> bytes:
    """The message that answers a call, with the fields of its result as bytes, and with its keys out of order."""
    era = b',"resultType":"complete"' if call.modern else b""
    return b'{"result":{' + fields + era + b'},"id":' + json.dumps(call.id).encode() + b',"jsonrpc":"2.0"}'


def xs(size: int) -> Iterator[bytes]:
    while size > 0:
        yield b"x" * min(size, 65536)
        size -= 65536


def described(name: str, description: str) -> dict[str, Any]:
    arguments = ARGUMENTS.get(name, {})
    properties = {argument.rstrip("?"): {"type": type} for argument, type in arguments.items()}
    required = [argument for argument in arguments if not argument.endswith("?")]
    schema = {"type": "object", "properties": properties, "required": required}
    annotations = {"readOnlyHint": name in READ_ONLY}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}


# The tools. One that returns a result is answered by the server; one that returns None said all it had to say.


async def echo(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Answer with the text."""
    return text(call.arguments["text"])


async def crash(server: Server, call: Call, reply: Reply) -> None:
    """Die before answering."""
    os._exit(1)


async def crash_after(server: Server, call: Call, reply: Reply) -> None:
    """Append a line to the file, then die before answering."""
    append_line(call)
    os._exit(1)


async def side_effect(server: Server, call: Call, reply: Reply) -> None:
    """Append a line to the file, then close the connection without an answer."""
    append_line(call)
    reply.close()


async def hang(server: Server, call: Call, reply: Reply) -> None:
    """Never answer; with `headers`, send the headers of a stream and nothing after them."""
    if call.arguments.get("headers"):
        await reply.stream()
    await asyncio.Event().wait()


async def slow(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Answer after some seconds, unless cancelled."""
    await asyncio.sleep(call.arguments["seconds"])
    return text("slow")


async def garbage(server: Server, call: Call, reply: Reply) -> None:
    """Answer with a body that is not JSON, though it says so."""
    await server.finish_raw(call, GARBAGE.rstrip())


async def huge(server: Server, call: Call, reply: Reply) -> None:
    """Answer with a JSON body of so many bytes."""
    await reply.stretch(server.complete(call, text(FILLING.decode())), call.arguments["bytes"])


async def wrong_id(server: Server, call: Call, reply: Reply) -> None:
    """Answer with an id that nobody asked."""
    call.id = NOBODY
    await server.finish(call, text("wrong_id"))


async def dup(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Answer twice, on one stream."""
    await reply.stream()
    await reply.event(server.complete(call, text("dup")))
    return text("dup")


async def partial(server: Server, call: Call, reply: Reply) -> None:
    """Answer with half an event, then end the stream properly."""
    event = as_event(server.complete(call, text("partial")))
    await reply.stream()
    await reply.chunk(event[: len(event) // 2])
    await reply.end()


async def half_body(server: Server, call: Call, reply: Reply) -> None:
    """Promise a body of twice its length, send it once, and close the connection."""
    body = server.complete(call, text("half_body"))
    await reply.head(200, {"Content-Type": "application/json", "Content-Length": 2 * len(body)})
    await reply.write(body)
    reply.close()


async def badutf8(server: Server, call: Call, reply: Reply) -> None:
    """Answer with a text that is not UTF-8."""
    await server.finish_raw(call, raw(call, b'"content":[{"type":"text","text":"bad \xff\xfe\xc3\x28 bytes"}]'))


async def deep(server: Server, call: Call, reply: Reply) -> None:
    """Answer with lists nested 100,000 deep."""
    nested = b"[" * 100_000 + b"]" * 100_000
    await server.finish_raw(call, raw(call, b'"content":[],"structuredContent":{"deep":' + nested + b"}"))


async def bigint(server: Server, call: Call, reply: Reply) -> None:
    """Answer with numbers, nulls, escapes and an order of keys that must pass byte for byte."""
    await server.finish_raw(call, raw(call, EXACT))


async def nulls(server: Server, call: Call, reply: Reply) -> None:
    """Answer with a result that is null."""
    await server.finish_raw(call, encode({"id": call.id, "result": None}))


async def progress(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Report progress so many times, if asked to report at all, then answer on the same stream."""
    await reply.stream()
    for step in range(call.arguments["count"]):
        await report(call, step + 1)
    return text("progress")


async def progress_forever(server: Server, call: Call, reply: Reply) -> None:
    """Report progress every 50 ms, if asked to report at all, and never answer."""
    await reply.stream()
    step = 0
    while True:
        await asyncio.sleep(0.05)
        step += 1
        await report(call, step)


async def notify_flood(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Send so many log notifications, asked for or not, then answer on the same stream."""
    await reply.stream()
    for number in range(call.arguments["count"]):
        await reply.notify("notifications/message", {"level": "info", "data": f"flood {number}"})
    return text("notify_flood")


async def list_changed(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Add a tool, tell those who listen, then answer with its name."""
    server.extras += 1
    method = "notifications/tools/list_changed"
    for session, queue in server.streams:
        if session in server.sessions:
            queue.put_nowait(encode({"method": method}))
    for id, queue in server.listens:
        queue.put_nowait(encode({"method": method, "params": {"_meta": {META + "subscriptionId": id}}}))
    return text(f"extra_{server.extras}")


async def extra(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Answer with the tool's own name."""
    return text(call.name)


async def ask(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Ask the client for a name on the call's stream, and answer with what came back, as JSON; legacy only."""
    if call.modern:
        return {**text("ask is for legacy clients."), "isError": True}
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    question = f"ask-{uuid.uuid4().hex}"
    answer = server.questions[question] = asyncio.get_running_loop().create_future()
    params = {"message": "Who?", "requestedSchema": schema}
    await reply.stream()
    await reply.event(encode({"id": question, "method": "elicitation/create", "params": params}))
    return text(json.dumps(await answer))


async def drip(server: Server, call: Call, reply: Reply) -> None:
    """Answer with a stream of one byte every 50 ms, or every `pause` seconds."""
    await reply.stream()
    for byte in as_event(raw(call, b'"content":[{"type":"text","text":"drip"}]')):
        await reply.chunk(bytes([byte]))
        await asyncio.sleep(call.arguments.get("pause", 0.05))
    await reply.end()


async def gzip_bomb(server: Server, call: Call, reply: Reply) -> None:
    """Answer with 50 MB of zeros, compressed although nobody asked for it."""
    await reply.body(200, await asyncio.to_thread(zeros), Content_Encoding="gzip")


async def endless_sse(server: Server, call: Call, reply: Reply) -> None:
    """Answer with an event whose line never ends."""
    await reply.stream()
    await reply.chunk(b"data: ")
    while True:
        await reply.chunk(b"x" * 65536)


async def redirect(server: Server, call: Call, reply: Reply) -> None:
    """Redirect to the same path on the port of --redirect-to, with 302 or the given code."""
    target = f"http://127.0.0.1:{server.options.redirect_to}/mcp"
    await reply.body(call.arguments.get("code", 302), Location=target)


async def unauthorized(server: Server, call: Call, reply: Reply) -> None:
    """Answer 401, as if the token had expired."""
    metadata = f"http://127.0.0.1:{server.port}/.well-known/oauth-protected-resource/mcp"
    challenge = f'Bearer error="invalid_token", resource_metadata="{metadata}"'
    await reply.body(401, b'{"error":"invalid_token"}', WWW_Authenticate=challenge)


async def forget(server: Server, call: Call, reply: Reply) -> dict[str, Any]:
    """Forget all sessions, then answer; their GET streams stay open and silent."""
    for session in server.sessions:
        server.log(f"session {session} forgotten")
    server.sessions.clear()
    return text("forget")


async def reset(server: Server, call: Call, reply: Reply) -> None:
    """Reset the TCP connection before answering."""
    connection: socket.socket = reply.writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reply.writer.transport.abort()


async def close_before(server: Server, call: Call, reply: Reply) -> None:
    """Close the connection without a byte of an answer."""
    reply.close()


async def status(server: Server, call: Call, reply: Reply) -> None:
    """Answer with this HTTP status, and a JSON-RPC error, or plain text if `body` is "text"."""
    code = call.arguments["code"]
    if call.arguments.get("body") == "text":
        await reply.body(code, f"status {code}\n".encode(), Content_Type="text/plain")
    else:
        error = {"code": -32603, "message": f"status {code}"}
        await reply.body(code, encode({"id": call.id, "error": error}))


async def report(call: Call, step: int) -> None:
    if "progressToken" in call.meta:
        params = {"progressToken": call.meta["progressToken"], "progress": step}
        await call.reply.notify("notifications/progress", params)


def append_line(call: Call) -> None:
    with open(call.arguments["file"], "a") as file:
        file.write(f"{call.name} {json.dumps(call.id)}\n")


def zeros() -> bytes:
    press = zlib.compressobj(wbits=31)
    return b"".join(press.compress(bytes(MEGABYTE)) for _ in range(50)) + press.flush()


Tool = Callable[[Server, Call, Reply], Awaitable[dict[str, Any] | None]]

TOOLS: dict[str, Tool] = {
    "echo": echo,
    "crash": crash,
    "crash_after": crash_after,
    "side_effect": side_effect,
    "hang": hang,
    "slow": slow,
    "garbage": garbage,
    "huge": huge,
    "wrong_id": wrong_id,
    "dup": dup,
    "partial": partial,
    "half_body": half_body,
    "badutf8": badutf8,
    "deep": deep,
    "bigint": bigint,
    "nulls": nulls,
    "progress": progress,
    "progress_forever": progress_forever,
    "notify_flood": notify_flood,
    "list_changed": list_changed,
    "ask": ask,
    "drip": drip,
    "gzip_bomb": gzip_bomb,
    "endless_sse": endless_sse,
    "redirect": redirect,
    "unauthorized": unauthorized,
    "forget": forget,
    "reset": reset,
    "close_before": close_before,
    "status": status,
}
READ_ONLY = ("echo",)
ARGUMENTS = {
    "echo": {"text": "string"},
    "crash_after": {"file": "string"},
    "side_effect": {"file": "string"},
    "hang": {"headers?": "boolean"},
    "slow": {"seconds": "number"},
    "huge": {"bytes": "integer"},
    "progress": {"count": "integer"},
    "notify_flood": {"count": "integer"},
    "drip": {"pause?": "number"},
    "redirect": {"code?": "integer"},
    "status": {"code": "integer", "body?": "string"},
}
"""The arguments of the tools and their types; a question mark makes one optional."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A misbehaving MCP server over HTTP.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--era", choices=["legacy", "modern", "both"], default="both")
    parser.add_argument("--log", default="")
    parser.add_argument("--start", choices=["refuse", "hang", "none"], default="none")
    parser.add_argument("--list", choices=["ok", "hang", "error", "endless", "garbage", "huge"], default="ok")
    parser.add_argument("--name", default="faulty")
    parser.add_argument("--sse", action="store_true", help="answer with streams where JSON would do")
    parser.add_argument("--no-get", action="store_true", help="have no GET stream")
    parser.add_argument("--redirect-to", type=int, default=9, help="the port `redirect` sends to")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(Server(options()).run())
