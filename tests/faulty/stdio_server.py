"""A real MCP server over stdio that misbehaves on request.

It imports little, because tests start it often: `python -S stdio_server.py --era legacy --log FILE`.
A tool's docstring is its description in `tools/list`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

TYPE_CHECKING = False  # Importing `typing` for this one name would double the imports.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"

OPTIONS = {"era": "both", "log": "", "start": "none", "list": "ok", "name": "faulty"}
CHOICES = {
    "era": ("legacy", "modern", "both"),
    "start": ("exit", "hang", "garbage", "slow", "ignoreeof", "none"),
    "list": ("ok", "hang", "error", "endless", "garbage", "huge"),
}

GARBAGE = b"Listening on stdio...\n{not json\n\x00\xff\xfe\n[]\n42\n\n"
HUGE_LIST = 64 * 1024 * 1024
NOBODY = 999_999_999
"""The id that `wrong_id` answers; nobody asks with it."""
EXACT = (
    b'"zebra":123456789012345678901234567890,"structuredContent":{"z":1.0,"a":null,"m":1E+2,"\\u006bey":-0.0},'
    b'"content":[{"text":"caf\\u00e9 \\/ \\ud83d\\ude00","type":"text"}],"isError":false,"apple":null'
)
"""The fields of the answer of `bigint`, as bytes that must pass unchanged."""
FILLING = b"@filling@"


class Call:
    """One `tools/call` in flight."""

    def __init__(self, id: Any, name: str, arguments: dict[str, Any], token: Any, *, modern: bool) -> None:
        self.id, self.name, self.arguments, self.token, self.modern = id, name, arguments, token, modern
        self.wake = threading.Event()
        """Set when the call is cancelled, or when the client answers its question."""
        self.cancelled = False
        self.reply: dict[str, Any] = {}


class Server:
    """The protocol: it reads lines, and answers each call in a thread of its own."""

    def __init__(self, options: dict[str, str]) -> None:
        self.era, self.start, self.list = options["era"], options["start"], options["list"]
        self.name, self.log_file = options["name"], options["log"]
        self.initialized = False
        self.calls: dict[Any, Call] = {}
        self.questions: dict[Any, Call] = {}
        self.listens: list[Any] = []
        self.extras = 0
        self.writing = threading.Lock()

    def run(self) -> None:
        self.log(f"start {os.getpid()}")
        signal.signal(signal.SIGTERM, self.on_sigterm)
        if self.start == "exit":
            os.write(2, b"faulty: cannot start, as asked\n")
            self.end(3)
        if self.start == "garbage":
            self.write([GARBAGE])
        for line in sys.stdin.buffer:
            if self.start != "hang":
                self.receive(line)
        self.log("eof")
        while self.start == "ignoreeof":
            signal.pause()
        self.end(0)

    def on_sigterm(self, *_: object) -> None:
        self.log("sigterm")
        if self.start != "ignoreeof":
            self.end(143)

    def end(self, code: int) -> None:
        self.log("end")
        os._exit(code)

    def log(self, line: str) -> None:
        """Append a line; the file is open only meanwhile, so that `env` shows no file of ours."""
        if self.log_file:
            file = os.open(self.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(file, line.encode() + b"\n")
            os.close(file)

    def write(self, pieces: Iterable[bytes]) -> None:
        with self.writing:
            try:
                for piece in pieces:
                    sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                pass  # The client left; stdin will say so.

    def send(self, **message: Any) -> None:
        self.write([encode(message)])

    def fail(self, id: Any, code: int, text: str, **data: Any) -> None:
        self.send(id=id, error={"code": code, "message": text, **({"data": data} if data else {})})

    def receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            id, method = message.get("id"), message.get("method")
            params: dict[str, Any] = dict(message.get("params") or {})
        except (ValueError, TypeError, AttributeError, RecursionError):
            self.fail(None, -32700, "Not a message.")
            return
        if method is None:
            if call := self.questions.pop(id, None):
                call.reply = message.get("result", message.get("error"))
                call.wake.set()
        elif id is None:
            self.notified(method, params)
        elif self.start == "slow" and method in ("initialize", "server/discover"):
            threading.Timer(1.0, self.request, (id, method, params)).start()
        else:
            self.request(id, method, params)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        if method != "notifications/cancelled":
            return
        id = params.get("requestId")
        self.log(f"cancelled {json.dumps(id)}")
        self.listens = [listen for listen in self.listens if listen != id]
        if call := self.calls.get(id):
            call.cancelled = True
            call.wake.set()

    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        meta: dict[str, Any] = params.get("_meta") or {}
        modern = self.era != "legacy" and META + "protocolVersion" in meta
        if method == "initialize" and self.era != "modern":
            self.initialize(id, params)
        elif refusal := self.refusal(method, params, meta, modern=modern):
            code, text, data = refusal
            self.fail(id, code, text, **data)
        elif method == "server/discover":
            self.send(id=id, result=self.complete(self.about(), modern=True, cached=True))
        elif method == "tools/list":
            self.tools_list(id, params.get("cursor"), modern=modern)
        elif method == "tools/call":
            self.tools_call(id, params, meta, modern=modern)
        elif method == "subscriptions/listen":
            self.listen(id, params)
        else:
            self.send(id=id, result={})

    def refusal(
        self, method: str, params: dict[str, Any], meta: dict[str, Any], *, modern: bool
    ) -> tuple[int, str, dict[str, Any]] | None:
        """Say why a request is not served: its era, or its method."""
        if method == "initialize":
            requested = params.get("protocolVersion")
            return -32022, f"This server speaks {MODERN} only.", {"supported": [MODERN], "requested": requested}
        if method == "server/discover" and self.era == "legacy":
            return -32601, "No such method: server/discover.", {}
        if modern:
            if (version := meta[META + "protocolVersion"]) != MODERN:
                return -32022, "Unsupported protocol version.", {"supported": [MODERN], "requested": version}
            if META + "clientCapabilities" not in meta:
                return -32602, "The request lacks `clientCapabilities` in its `_meta`.", {}
        elif self.era == "modern":
            return -32602, "The request lacks `protocolVersion` in its `_meta`.", {}
        elif not self.initialized and method != "ping":
            return -32600, "Send `initialize` first.", {}
        known = ("server/discover", "subscriptions/listen") if modern else ("ping", "logging/setLevel")
        if method not in ("tools/list", "tools/call", *known):
            return -32601, f"No such method: {method}.", {}
        return None

    def initialize(self, id: Any, params: dict[str, Any]) -> None:
        self.initialized = True
        requested = params.get("protocolVersion")
        version = requested if requested in LEGACY else LEGACY[0]
        info = {"name": self.name, "version": "1"}
        capabilities = self.about()["capabilities"]
        self.send(id=id, result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})

    def about(self) -> dict[str, Any]:
        versions = [MODERN, *LEGACY] if self.era == "both" else [MODERN]
        return {"supportedVersions": versions, "capabilities": {"tools": {"listChanged": True}, "logging": {}}}

    def complete(self, result: dict[str, Any], *, modern: bool, cached: bool = False) -> dict[str, Any]:
        """Add what a modern result carries."""
        if not modern:
            return result
        hints = {"ttlMs": 0, "cacheScope": "private"} if cached else {}
        identity = {META + "serverInfo": {"name": self.name, "version": "1"}}
        return {"resultType": "complete", **result, **hints, "_meta": identity}

    def listen(self, id: Any, params: dict[str, Any]) -> None:
        wanted = params["notifications"].get("toolsListChanged") is True
        honoured = {"toolsListChanged": True} if wanted else {}
        tag = {META + "subscriptionId": id}
        self.send(method="notifications/subscriptions/acknowledged", params={"_meta": tag, "notifications": honoured})
        if wanted:
            self.listens.append(id)

    def tools_list(self, id: Any, cursor: str | None, *, modern: bool) -> None:
        if self.list == "error":
            self.fail(id, -32603, "The list is lost, as asked.")
        elif self.list == "garbage":
            self.write([GARBAGE])
        elif self.list == "endless":
            page = int(cursor or 0)
            result = {"tools": [described(f"page_{page}", "One of many.")], "nextCursor": str(page + 1)}
            self.send(id=id, result=self.complete(result, modern=modern, cached=True))
        elif self.list == "huge":
            result = {"tools": [described("huge", FILLING.decode())]}
            line = encode({"id": id, "result": self.complete(result, modern=modern, cached=True)})
            self.write(filled(line, HUGE_LIST))
        elif self.list == "ok":
            tools = [described(name, tool.__doc__ or "") for name, tool in TOOLS.items()]
            tools += [described(f"extra_{number + 1}", "Added by list_changed.") for number in range(self.extras)]
            self.send(id=id, result=self.complete({"tools": tools}, modern=modern, cached=True))

    def tools_call(self, id: Any, params: dict[str, Any], meta: dict[str, Any], *, modern: bool) -> None:
        name = str(params.get("name"))
        call = Call(id, name, params.get("arguments") or {}, meta.get("progressToken"), modern=modern)
        self.log(f"call {name} {json.dumps(id)}")
        tool = extra if name.startswith("extra_") else TOOLS.get(name)
        if tool is None:
            self.fail(id, -32602, f"Unknown tool: {name}")
            return
        self.calls[id] = call
        threading.Thread(target=self.answer, args=(call, tool), daemon=True).start()

    def answer(self, call: Call, tool: Tool) -> None:
        try:
            result = tool(self, call)
        except (KeyError, TypeError, ValueError, OSError) as error:
            result = {**text(f"{call.name} failed: {error!r}"), "isError": True}
        self.calls.pop(call.id, None)
        if result is not None and not call.cancelled:
            self.send(id=call.id, result=self.complete(result, modern=call.modern))


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def raw_line(call: Call, fields: bytes) -> bytes:
    """The answer to a call with the fields of its result as bytes, and with its keys out of order."""
    era = b',"resultType":"complete"' if call.modern else b""
    return b'{"result":{' + fields + era + b'},"id":' + json.dumps(call.id).encode() + b',"jsonrpc":"2.0"}\n'


def filled(line: bytes, size: int) -> Iterator[bytes]:
    """Cut a line at its filling, and stretch that until the line, with its newline, has this size."""
    head, tail = line.split(FILLING)
    missing = size - len(head) - len(tail)
    yield head
    while missing > 0:
        yield b"x" * min(missing, 65536)
        missing -= 65536
    yield tail


def described(name: str, description: str) -> dict[str, Any]:
    arguments = ARGUMENTS.get(name, {})
    properties = {argument: {"type": type} for argument, type in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    annotations = {"readOnlyHint": name in READ_ONLY}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}


# The tools. One that returns a result is answered by the server; one that returns None said all it had to say.


def echo(server: Server, call: Call) -> dict[str, Any]:
    """Answer with the text."""
    return text(call.arguments["text"])


def crash(server: Server, call: Call) -> None:
    """Die before answering."""
    os._exit(1)


def crash_after(server: Server, call: Call) -> None:
    """Append a line to the file, then die before answering."""
    append_line(call)
    os._exit(1)


def hang(server: Server, call: Call) -> None:
    """Never answer."""
    call.wake.wait()


def garbage(server: Server, call: Call) -> None:
    """Print a line that is not JSON, and never answer."""
    server.write([b"Traceback (most recent call last): this is not JSON\n"])
    call.wake.wait()


def slow(server: Server, call: Call) -> dict[str, Any]:
    """Answer after some seconds, unless cancelled."""
    call.wake.wait(call.arguments["seconds"])
    return text("slow")


def huge(server: Server, call: Call) -> None:
    """Answer with one line of so many bytes, its newline included."""
    result = server.complete(text(FILLING.decode()), modern=call.modern)
    server.write(filled(encode({"id": call.id, "result": result}), call.arguments["bytes"]))


def stderr_flood(server: Server, call: Call) -> dict[str, Any]:
    """Write so many bytes to stderr, in lines of 1024, then answer."""
    missing = call.arguments["bytes"]
    while missing > 0:
        missing -= os.write(2, (b"e" * 1023 + b"\n")[: min(missing, 1024)])
    return text("stderr_flood")


def wrong_id(server: Server, call: Call) -> None:
    """Answer with an id that nobody asked."""
    server.send(id=NOBODY, result=server.complete(text("wrong_id"), modern=call.modern))
    call.wake.wait()


def dup(server: Server, call: Call) -> None:
    """Answer twice."""
    server.write([encode({"id": call.id, "result": server.complete(text("dup"), modern=call.modern)})] * 2)


def fork(server: Server, call: Call) -> dict[str, Any]:
    """Start a grandchild in our process group, with our stdin, stdout and stderr, and answer with its pid."""
    return text(str(os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)))


def fork_setsid(server: Server, call: Call) -> dict[str, Any]:
    """Start a grandchild in a session of its own, with our stdin, stdout and stderr, and answer with its pid."""
    return text(str(os.posix_spawnp("sleep", ["sleep", "1000"], os.environ, setsid=True)))


def partial(server: Server, call: Call) -> None:
    """Write half of the answer's line, and never the rest."""
    line = encode({"id": call.id, "result": server.complete(text("partial"), modern=call.modern)})
    server.write([line[: len(line) // 2]])
    call.wake.wait()


def badutf8(server: Server, call: Call) -> None:
    """Answer with a text that is not UTF-8."""
    server.write([raw_line(call, b'"content":[{"type":"text","text":"bad \xff\xfe\xc3\x28 bytes"}]')])


def deep(server: Server, call: Call) -> None:
    """Answer with lists nested 100,000 deep."""
    nested = b"[" * 100_000 + b"]" * 100_000
    server.write([raw_line(call, b'"content":[],"structuredContent":{"deep":' + nested + b"}")])


def bigint(server: Server, call: Call) -> None:
    """Answer with numbers, nulls, escapes and an order of keys that must pass byte for byte."""
    server.write([raw_line(call, EXACT)])


def nulls(server: Server, call: Call) -> None:
    """Answer with a result that is null."""
    server.send(id=call.id, result=None)


def env(server: Server, call: Call) -> dict[str, Any]:
    """Tell the environment, arguments, directory and open files of this process, as JSON."""
    folder = "/proc/self/fd/"
    # The file that lists the folder is in the list, and is closed by now.
    numbers = [number for number in os.listdir(folder) if os.path.lexists(folder + number)]
    files = {number: os.readlink(folder + number) for number in sorted(numbers, key=int)}
    seen = {"environ": dict(sorted(os.environ.items())), "argv": sys.argv, "cwd": os.getcwd(), "fds": files}
    return text(json.dumps(seen))


def progress_forever(server: Server, call: Call) -> None:
    """Report progress every 50 ms, if asked to report at all, and never answer."""
    step = 0
    while not call.wake.wait(0.05):
        step += 1
        if call.token is not None:
            server.send(method="notifications/progress", params={"progressToken": call.token, "progress": step})


def notify_flood(server: Server, call: Call) -> dict[str, Any]:
    """Send so many log notifications, asked for or not, then answer."""
    for number in range(call.arguments["count"]):
        server.send(method="notifications/message", params={"level": "info", "data": f"flood {number}"})
    return text("notify_flood")


def list_changed(server: Server, call: Call) -> dict[str, Any]:
    """Add a tool, tell those who listen, then answer with its name."""
    server.extras += 1
    name = f"extra_{server.extras}"
    if server.initialized:
        server.send(method="notifications/tools/list_changed")
    for id in server.listens:
        server.send(method="notifications/tools/list_changed", params={"_meta": {META + "subscriptionId": id}})
    return text(name)


def extra(server: Server, call: Call) -> dict[str, Any]:
    """Answer with the tool's own name."""
    return text(call.name)


def ask(server: Server, call: Call) -> dict[str, Any]:
    """Ask the client for a name, and answer with what came back, as JSON; legacy only."""
    if call.modern:
        return {**text("ask is for legacy clients."), "isError": True}
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    question = f"ask-{call.id}"
    server.questions[question] = call
    server.send(id=question, method="elicitation/create", params={"message": "Who?", "requestedSchema": schema})
    call.wake.wait()
    return text(json.dumps(call.reply))


def append_line(call: Call) -> None:
    with open(call.arguments["file"], "a") as file:
        file.write(f"{call.name} {json.dumps(call.id)}\n")


if TYPE_CHECKING:
    Tool = Callable[[Server, Call], dict[str, Any] | None]

TOOLS: dict[str, Tool] = {
    "echo": echo,
    "crash": crash,
    "crash_after": crash_after,
    "hang": hang,
    "garbage": garbage,
    "slow": slow,
    "huge": huge,
    "stderr_flood": stderr_flood,
    "wrong_id": wrong_id,
    "dup": dup,
    "fork": fork,
    "fork_setsid": fork_setsid,
    "partial": partial,
    "badutf8": badutf8,
    "deep": deep,
    "bigint": bigint,
    "nulls": nulls,
    "env": env,
    "progress_forever": progress_forever,
    "notify_flood": notify_flood,
    "list_changed": list_changed,
    "ask": ask,
}
READ_ONLY = ("echo", "env")
ARGUMENTS = {
    "echo": {"text": "string"},
    "crash_after": {"file": "string"},
    "slow": {"seconds": "number"},
    "huge": {"bytes": "integer"},
    "stderr_flood": {"bytes": "integer"},
    "notify_flood": {"count": "integer"},
}


def options(words: list[str]) -> dict[str, str]:
    """Read `--flag value` pairs; `argparse` would add half to the time of a start."""
    chosen = dict(OPTIONS)
    for flag, value in zip(words[::2], words[1::2], strict=True):
        name = flag.removeprefix("--")
        if name not in OPTIONS or value not in CHOICES.get(name, (value,)):
            sys.exit(f"faulty: no such option: {flag} {value}")
        chosen[name] = value
    return chosen


if __name__ == "__main__":
    Server(options(sys.argv[1:])).run()
