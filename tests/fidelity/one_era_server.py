"""A complete MCP server that speaks one era and no other, on the standard library alone.

Run it with `--era legacy` or `--era modern`; it serves standard input and output, or, with `--http`, an address of
127.0.0.1, and then it prints a line such as `PORT 3901`. What it offers stands in `offers.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.fidelity import offers
from tests.fidelity.jobs import Job, Jobs, TaskError
from tests.fidelity.offers import dumped, said

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
TASKS = PREFIX + "tasks"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
CACHED = frozenset(
    ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
)
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)
NEEDS_TASKS: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
PAGE = 7
"""Tools on one page."""
PATIENCE = 5.0

Send = Callable[[bytes], Awaitable[None]]


class RefusedError(Exception):
    """A request is answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 200) -> None:
        super().__init__(message)
        self.status = status
        self.error = {"code": code, "message": message, **({"data": data} if data is not None else {})}


class AskingError(Exception):
    """A modern request cannot go on before its caller answers."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("input required")
        self.result = result


@dataclass(eq=False)
class Ear:
    """Somebody who hears what belongs to no call."""

    send: Send
    session: Session
    wanted: dict[str, Any] | None = None
    """What a modern subscription asks for; a legacy session hears of every list."""
    tag: Any = None

    def hears(self, key: str, uri: str = "") -> bool:
        if uri:
            return uri in (self.session.watched if self.wanted is None else self.wanted[key])
        return self.wanted is None or self.wanted.get(key) is True

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        if self.wanted is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), PREFIX + "subscriptionId": self.tag}}
        await self.send(written({"method": method, "params": params}))


@dataclass(eq=False)
class Session:
    """What a legacy caller said once, or a modern one says in every request."""

    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    level: str = ""
    watched: set[str] = field(default_factory=set[str])
    roots_changed: bool = False
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])


@dataclass(eq=False)
class Request:
    """One request on its way."""

    message: dict[str, Any]
    text: str
    session: Session
    send: Send
    headers: dict[str, str] | None = None
    """Of a request that came over HTTP."""

    @property
    def method(self) -> str:
        return self.message["method"]

    @property
    def params(self) -> dict[str, Any]:
        return self.message.get("params") or {}

    @property
    def meta(self) -> dict[str, Any]:
        return self.params.get("_meta") or {}

    @property
    def arguments(self) -> dict[str, Any]:
        return self.params.get("arguments") or {}

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.send(written({"method": method, "params": params}))


class Server:
    """The protocol, whatever the transport."""

    def __init__(self, era: str) -> None:
        self.modern = era == "modern"
        self.tools = [dict(tool) for tool in offers.TOOLS]
        self.resources, self.prompts = list(offers.RESOURCES), list(offers.PROMPTS)
        self.ears: list[Ear] = []
        self.questions: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.asked = 0
        self.cancelled: set[str] = set()
        self.opened: set[str] = set()
        self.jobs = Jobs(self.modern, self.tell_of, self.put)
        self.news = asyncio.Condition()
        self.own: dict[str, Callable[[Request], Awaitable[Any]]] = {
            "exact": self.exact,
            "echo": self.raw_arguments,
            "meta": self.raw_meta,
            "refuse": self.refuse,
            "broken": self.refuse,
            "region": self.region,
            "progress": self.progress,
            "log": self.log,
            "wait": self.wait,
            "was_cancelled": self.was_cancelled,
            "change": self.change,
            "update": self.update,
            "needs_url": self.needs_url,
            "ask_form": partial(self.ask_one, "elicitation/create", offers.FORM),
            "ask_url": partial(self.ask_one, "elicitation/create", offers.URL),
            "ask_model": partial(self.ask_one, "sampling/createMessage", offers.SAMPLE),
            "ask_roots": partial(self.ask_one, "roots/list", {}),
            "ask_twice": self.ask_twice,
            "roots_changed": self.roots_changed,
            "job": self.job,
            "only_job": self.job,
            "finish": self.jobs.finish,
        }

    # Messages.

    async def take(self, request: Request) -> tuple[int, bytes]:
        """Answer one request: the HTTP status it would have, and the response."""
        head = f'{{"jsonrpc":"2.0","id":{json.dumps(request.message["id"])},'
        try:
            self.check(request)
            result = await self.result(request)
            text = result if isinstance(result, str) else dumped(self.finished(request.method, result))
        except AskingError as asking:
            text = dumped(asking.result)
        except RefusedError as refused:
            return refused.status, f'{head}"error":{dumped(refused.error)}}}'.encode()
        return 200, f'{head}"result":{text}}}'.encode()

    def check(self, request: Request) -> None:
        """Refuse a modern request that does not say what it must."""
        if not self.modern:
            return
        missing = [key for key in ("protocolVersion", "clientCapabilities") if PREFIX + key not in request.meta]
        if missing:
            raise RefusedError(-32602, f"`_meta` lacks {missing}.", status=400)
        if request.meta[PREFIX + "protocolVersion"] != MODERN:
            raise RefusedError(-32022, "Unsupported protocol version", {"supported": [MODERN]}, status=400)
        request.session.capabilities = request.meta[PREFIX + "clientCapabilities"]
        request.session.level = request.meta.get(PREFIX + "logLevel", "")
        if request.headers is not None:
            wanted = {"mcp-protocol-version": MODERN, "mcp-method": request.method}
            if request.method in NAMED_BY:
                wanted["mcp-name"] = request.params.get(NAMED_BY[request.method], "")
            for name, value in wanted.items():
                if request.headers.get(name) != value:
                    raise RefusedError(-32020, f"{name} is not {value!r}.", status=400)

    def finished(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """A result as this era writes it."""
        if not self.modern:
            return result
        made: dict[str, Any] = {"resultType": "complete", **result}
        if method in CACHED:
            made |= {"ttlMs": 60_000, "cacheScope": "public"}
        return {**made, "_meta": {PREFIX + "serverInfo": offers.INFO, **result.get("_meta", {})}}

    async def result(self, request: Request) -> Any:
        params = request.params
        match request.method:
            case "tools/list":
                return self.page(params.get("cursor"))
            case "tools/call":
                return await self.call(request)
            case "resources/list":
                return {"resources": self.resources}
            case "resources/templates/list":
                return {"resourceTemplates": offers.TEMPLATES}
            case "resources/read":
                return await self.read(request, params.get("uri", ""))
            case "prompts/list":
                return {"prompts": self.prompts, "_meta": {"example/list": [None]}}
            case "prompts/get":
                return await self.prompt(request)
            case "completion/complete":
                return self.complete(params)
            case "example/echo":
                return {"echo": {name: value for name, value in params.items() if name != "_meta"}}
            case method:
                return await (self.modern_only if self.modern else self.legacy_only)(request, method)

    async def modern_only(self, request: Request, method: str) -> dict[str, Any]:
        match method:
            case "server/discover":
                capabilities = {**offers.CAPABILITIES, "extensions": offers.EXTENSIONS}
                introduction = {"supportedVersions": [MODERN], "capabilities": capabilities}
                return {**introduction, "instructions": offers.INSTRUCTIONS}
            case "subscriptions/listen":
                await self.listen(request)
                return {}
            case "tasks/get" | "tasks/update" | "tasks/cancel":
                return await self.about_task(request, method)
            case _:
                raise RefusedError(-32601, f"Method not found: {method}", status=404)

    async def legacy_only(self, request: Request, method: str) -> dict[str, Any]:
        session, params = request.session, request.params
        match method:
            case "initialize":
                session.capabilities = params.get("capabilities") or {}
                capabilities = {**offers.CAPABILITIES, "tasks": offers.TASKS}
                introduction = {"protocolVersion": LEGACY, "capabilities": capabilities}
                return {**introduction, "serverInfo": offers.INFO, "instructions": offers.INSTRUCTIONS}
            case "ping":
                return {}
            case "logging/setLevel":
                session.level = params["level"]
                return {}
            case "resources/subscribe" | "resources/unsubscribe":
                if params["uri"] not in offers.CONTENTS:
                    raise self.not_found(params["uri"])
                (session.watched.add if method == "resources/subscribe" else session.watched.discard)(params["uri"])
                await self.tell_waiters()
                return {}
            case "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/list":
                return await self.about_task(request, method)
            case _:
                raise RefusedError(-32601, f"Method not found: {method}")

    async def hear(self, message: dict[str, Any], session: Session) -> None:
        """Take a notification, or an answer to a question."""
        if "method" not in message:
            waiting = self.questions.pop(message["id"], None)
            if waiting is not None:
                waiting.set_result(message)
        elif message["method"] == "notifications/cancelled":
            running = session.running.get(json.dumps(message["params"]["requestId"]))
            if running is not None:
                running.cancel()
        elif message["method"] == "notifications/roots/list_changed":
            session.roots_changed = True
            await self.tell_waiters()

    # Lists, resources, prompts.

    def page(self, cursor: str | None) -> dict[str, Any]:
        start = int(cursor.removeprefix("from ")) if cursor else 0
        rest = {"nextCursor": f"from {start + PAGE}"} if start + PAGE < len(self.tools) else {}
        return {"tools": self.tools[start : start + PAGE], **rest}

    async def read(self, request: Request, uri: str) -> dict[str, Any]:
        if uri == "note://of/asks":
            (answer,) = await self.ask(request, {"who": ("elicitation/create", offers.FORM)})
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": dumped(answer)}]}
        if uri.startswith("note://of/"):
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"Of {uri[10:]}."}]}
        if uri not in offers.CONTENTS:
            raise self.not_found(uri)
        return {"contents": offers.CONTENTS[uri], "_meta": {"example/read": None}}

    def not_found(self, uri: str) -> RefusedError:
        return RefusedError(-32602 if self.modern else -32002, "Resource not found", {"uri": uri}, status=400)

    async def prompt(self, request: Request) -> dict[str, Any]:
        match request.params.get("name"):
            case "greet":
                said = dumped(request.arguments)
                content: dict[str, Any] = {"type": "text", "text": f"Greet: {said}", "_meta": {"example/c": 1}}
            case "read":
                content = {"type": "resource", "resource": offers.NOTE, "annotations": offers.ANNOTATIONS}
            case "asks":
                (answer,) = await self.ask(request, {"who": ("elicitation/create", offers.FORM)})
                content = {"type": "text", "text": dumped(answer)}
            case name:
                raise RefusedError(-32602, f"There is no prompt {name!r}.", {"name": name}, status=400)
        messages = [{"role": "user", "content": content}, {"role": "assistant", "content": offers.FUTURE}]
        return {"description": "Made – é.", "messages": messages, "_meta": {"example/p": {}}}

    def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        argument, given = params["argument"], params.get("context", {}).get("arguments", {})
        values = [name for name in offers.PEOPLE if name.startswith(argument["value"])]
        values += [f"{argument['name']} of {dumped(params['ref'])} after {dumped(given)}"]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    # Tools.

    async def call(self, request: Request) -> Any:
        name = request.params.get("name", "")
        if name in offers.RESULTS:
            return offers.RESULTS[name]
        if name not in self.own:
            raise RefusedError(-32602, f"Unknown tool: {name}", {"tool": name}, status=400)
        return await self.own[name](request)

    async def exact(self, request: Request) -> str:
        return "{" + ('"resultType":"complete",' if self.modern else "") + offers.EXACT + "}"

    async def raw_arguments(self, request: Request) -> dict[str, Any]:
        """What stands behind `arguments`, as it arrived."""
        start = request.text.index('"arguments"') + len('"arguments"')
        start += len(request.text[start:]) - len(request.text[start:].lstrip(" :"))
        _, end = json.JSONDecoder().raw_decode(request.text, start)
        return said(request.text[start:end])

    async def raw_meta(self, request: Request) -> dict[str, Any]:
        kept = {name: value for name, value in request.meta.items() if not name.startswith(PREFIX)}
        return said(dumped(kept))

    async def refuse(self, request: Request) -> dict[str, Any]:
        code = -32603 if request.params["name"] == "broken" else 4711
        raise RefusedError(code, "Refused – é.", {"why": [None, 1.5, {"deep": "é"}]})

    async def region(self, request: Request) -> dict[str, Any]:
        region = request.arguments["region"]
        if self.modern and request.headers is not None and request.headers.get("mcp-param-region") != region:
            raise RefusedError(-32020, "Mcp-Param-Region is another.", status=400)
        return said(region)

    async def progress(self, request: Request) -> dict[str, Any]:
        token = request.meta.get("progressToken")
        if token is not None:
            for step in (1, 2.5, 3):
                report = {"progressToken": token, "progress": step, "total": 3, "message": f"Step {step} – é"}
                await request.notify("notifications/progress", {**report, "_meta": {"example/step": step}})
        return said("Done.")

    async def log(self, request: Request) -> dict[str, Any]:
        wanted = request.session.level or ("" if self.modern else "debug")
        for level in LEVELS:
            if wanted and LEVELS.index(level) >= LEVELS.index(wanted):
                line = {"level": level, "logger": "one.era", "data": {"said": f"{level} – é", "none": None}}
                await request.notify("notifications/message", {**line, "_meta": {"example/l": 1}})
        return said("Logged.")

    async def wait(self, request: Request) -> dict[str, Any]:
        """Report that it began, then wait to be cancelled."""
        begun = {"progressToken": request.meta.get("progressToken"), "progress": 0}
        await request.notify("notifications/progress", begun)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.add(request.arguments["key"])
            await self.tell_waiters()
            raise
        return said("Nobody cancelled.")

    async def was_cancelled(self, request: Request) -> dict[str, Any]:
        return said(str(await self.comes_true(lambda: request.arguments["key"] in self.cancelled)))

    async def change(self, request: Request) -> dict[str, Any]:
        """Add something to a list, as soon as somebody would hear of it."""
        kind = request.arguments["kind"]
        key, method = f"{kind}ListChanged", f"notifications/{kind}/list_changed"
        heard = await self.comes_true(lambda: any(ear.hears(key) for ear in self.ears))
        if kind == "tools":
            self.tools.append({"name": "new", "inputSchema": {"type": "object"}})
        elif kind == "prompts":
            self.prompts.append({"name": "new"})
        else:
            self.resources.append({"uri": "note://new", "name": "new"})
        for ear in [ear for ear in self.ears if ear.hears(key)]:
            await ear.tell(method, {})
        return said(f"heard: {heard}")

    async def update(self, request: Request) -> dict[str, Any]:
        """Say that a resource changed, as soon as somebody would hear of it."""
        uri, key = request.arguments["uri"], "resourceSubscriptions"
        wait = request.arguments.get("wait", True)
        heard = wait and await self.comes_true(lambda: any(ear.hears(key, uri) for ear in self.ears))
        for ear in [ear for ear in self.ears if ear.hears(key, uri)]:
            await ear.tell("notifications/resources/updated", {"uri": uri, "_meta": {"example/u": 1}})
        return said(f"heard: {heard}")

    # Tasks.

    async def job(self, request: Request) -> dict[str, Any]:
        knows = TASKS in request.session.capabilities.get("extensions", {}) if self.modern else "task" in request.params
        if knows:
            return await self.jobs.start(request)
        if request.params["name"] == "job":
            return said("Done at once.")
        if self.modern:
            raise RefusedError(-32021, "Missing required client capability", NEEDS_TASKS, status=400)
        raise RefusedError(-32601, "It runs as a task only.")

    async def about_task(self, request: Request, method: str) -> dict[str, Any]:
        if self.modern and TASKS not in request.session.capabilities.get("extensions", {}):
            raise RefusedError(-32021, "Missing required client capability", NEEDS_TASKS, status=400)
        try:
            return await self.jobs.answer(request, method)
        except TaskError as error:
            raise RefusedError(error.code, error.message, error.data, status=400) from None

    async def tell_of(self, job: Job) -> None:
        """Tell those who hear of a task; in the legacy era, the session that made it."""
        for ear in list(self.ears):
            if ear.wanted is None and ear.session is job.session:
                await ear.tell("notifications/tasks/status", self.jobs.state(job))
            elif ear.wanted is not None and job.id in ear.wanted.get("taskIds", ()):
                await ear.tell("notifications/tasks", self.jobs.state(job, whole=True))

    # Questions.

    async def ask_one(self, method: str, params: dict[str, Any], request: Request) -> dict[str, Any]:
        (answer,) = await self.ask(request, {"question": (method, params)})
        return said(dumped(answer))

    async def ask_twice(self, request: Request) -> dict[str, Any]:
        """Two questions at once."""
        other: dict[str, Any] = {"message": "And who else?", "requestedSchema": {"type": "object", "properties": {}}}
        questions = {"one": ("elicitation/create", offers.FORM), "two": ("elicitation/create", other)}
        return said(dumped(await self.ask(request, questions)))

    async def roots_changed(self, request: Request) -> dict[str, Any]:
        return said(str(await self.comes_true(lambda: request.session.roots_changed)))

    async def needs_url(self, request: Request) -> dict[str, Any]:
        """Refuse until an address was opened; a modern server asks for it instead."""
        if self.modern:
            await self.ask(request, {"sign-in": ("elicitation/create", offers.URL)})
        elif (key := request.arguments["key"]) not in self.opened:
            self.opened.add(key)
            raise RefusedError(-32042, "Sign in first.", {"elicitations": [offers.URL]})
        return said("Signed in.")

    async def ask(self, request: Request, questions: dict[str, tuple[str, dict[str, Any]]]) -> list[Any]:
        """Ask the caller, each question under its key, as this era does."""
        for method, _ in questions.values():
            if NEEDS[method] not in request.session.capabilities:
                needed: dict[str, Any] = {"requiredCapabilities": {NEEDS[method]: {}}}
                raise RefusedError(-32021, "The client cannot be asked.", needed, status=400)
        if not self.modern:
            return list(await asyncio.gather(*(self.put(request, *question) for question in questions.values())))
        state = f"state of {request.params.get('name') or request.params['uri']} – é"
        answers = request.params.get("inputResponses")
        if answers is None:
            asked = {key: {"method": method, "params": params} for key, (method, params) in questions.items()}
            raise AskingError({"resultType": "input_required", "inputRequests": asked, "requestState": state})
        if request.params.get("requestState") != state:
            raise RefusedError(-32602, "The state is not the one that was given.", status=400)
        return [answers[key] for key in questions]

    async def put(self, request: Request, method: str, params: dict[str, Any]) -> Any:
        """Send the caller a request, and wait for what it answers."""
        self.asked += 1
        id = f"ask-{self.asked}"
        waiting = self.questions[id] = asyncio.get_running_loop().create_future()
        await request.send(written({"id": id, "method": method, "params": params}))
        answer = await waiting
        return answer["result"] if "result" in answer else {"error": answer["error"]}

    # Those who listen.

    async def listen(self, request: Request) -> None:
        """Keep a modern subscription open until its caller leaves."""
        wanted: dict[str, Any] = {"resourceSubscriptions": [], **request.params["notifications"]}
        ear = Ear(request.send, request.session, wanted, request.message["id"])
        granted = {name: value for name, value in wanted.items() if value}
        await ear.tell("notifications/subscriptions/acknowledged", {"notifications": granted})
        await self.keep(ear)

    async def keep(self, ear: Ear) -> None:
        """Let somebody hear until he leaves."""
        self.ears.append(ear)
        await self.tell_waiters()
        try:
            await asyncio.Event().wait()
        finally:
            self.ears.remove(ear)

    async def tell_waiters(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def comes_true(self, condition: Callable[[], bool]) -> bool:
        """Wait for something that some message makes true."""
        try:
            async with asyncio.timeout(PATIENCE), self.news:
                await self.news.wait_for(condition)
        except TimeoutError:
            return False
        return True


def written(message: dict[str, Any]) -> bytes:
    return dumped({"jsonrpc": "2.0", **message}).encode()


async def serve_stdio(server: Server) -> None:
    """Serve one caller; every request is a task of its own."""
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    session = Session()

    async def send(text: bytes) -> None:
        sys.stdout.buffer.write(text + b"\n")
        sys.stdout.buffer.flush()

    async def run(request: Request) -> None:
        await send((await server.take(request))[1])

    alive = asyncio.create_task(server.keep(Ear(send, session))) if not server.modern else None
    tasks: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        message = json.loads(line)
        if "method" not in message or "id" not in message:
            await server.hear(message, session)
            continue
        own = Session(running=session.running) if server.modern else session
        task = asyncio.create_task(run(Request(message, line.decode(), own, send)))
        tasks.add(task)
        session.running[json.dumps(message["id"])] = task
        task.add_done_callback(tasks.discard)
    if alive is not None:
        alive.cancel()


class Connection:
    """One HTTP connection, request after request."""

    def __init__(self, server: Server, sessions: dict[str, Session]) -> None:
        self.server, self.sessions = server, sessions
        self.streaming = False
        self.ahead = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *rest = (self.ahead + head).decode("latin-1").rstrip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.streaming = False
                await self.until_gone(reader, self.answer(line.split()[0], headers, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def until_gone(self, reader: asyncio.StreamReader, answering: Any) -> None:
        """Answer, and stop at once when the caller hangs up."""
        task = asyncio.create_task(answering)
        gone = asyncio.create_task(reader.read(1))
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            raise ConnectionError
        gone.cancel()
        await asyncio.wait({gone})
        self.ahead = b"" if gone.cancelled() else gone.result()  # a caller may be quick with its next request
        await task

    async def answer(self, verb: str, headers: dict[str, str], body: bytes) -> None:
        message: dict[str, Any] = json.loads(body) if body else {}
        if self.server.modern:
            if verb != "POST":
                await self.plain(405)
            elif "id" not in message:
                await self.plain(202)
            else:
                await self.run(Request(message, body.decode(), Session(), self.event, headers))
        elif message.get("method") == "initialize":
            key = f"session-{len(self.sessions)}"
            self.sessions[key] = Session()
            await self.run(Request(message, body.decode(), self.sessions[key], self.event, headers), key)
        elif "mcp-session-id" not in headers:
            await self.plain(400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"No session."}}')
        elif (session := self.sessions.get(headers["mcp-session-id"])) is None:
            await self.plain(404)
        elif verb == "GET":
            await self.begin_stream()
            await self.server.keep(Ear(self.event, session))
        elif verb == "DELETE":
            del self.sessions[headers["mcp-session-id"]]
            await self.plain(200)
        elif "method" in message and "id" in message:
            await self.run_legacy(Request(message, body.decode(), session, self.event, headers))
        else:
            await self.server.hear(message, session)
            await self.plain(202)

    async def run(self, request: Request, session: str = "") -> None:
        status, text = await self.server.take(request)
        if self.streaming:
            await self.event(text)
            self.writer.write(b"0\r\n\r\n")
        else:
            await self.plain(status if self.server.modern else 200, text, session)

    async def run_legacy(self, request: Request) -> None:
        """In a session a request may also be cancelled by a notification, after which it has no answer."""
        task = asyncio.create_task(self.run(request))
        request.session.running[json.dumps(request.message["id"])] = task
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        if task.cancelled() and self.streaming:
            self.writer.write(b"0\r\n\r\n")

    async def plain(self, status: int, body: bytes = b"", session: str = "") -> None:
        own = f"mcp-session-id: {session}\r\n" if session else ""
        kind = "content-type: application/json\r\n" if body else ""
        self.writer.write(f"HTTP/1.1 {status} X\r\n{own}{kind}content-length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()

    async def begin_stream(self) -> None:
        self.streaming = True
        self.writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await self.writer.drain()

    async def event(self, text: bytes) -> None:
        if not self.streaming:
            await self.begin_stream()
        data = b"data: " + text + b"\n\n"
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()


async def serve_http(server: Server) -> None:
    sessions: dict[str, Session] = {}
    listening = await asyncio.start_server(
        lambda reader, writer: Connection(server, sessions)(reader, writer), "127.0.0.1", 0, limit=2**24
    )
    print("PORT", listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--era", choices=("legacy", "modern"), required=True)
    parser.add_argument("--http", action="store_true", help="serve an address instead of standard input and output")
    chosen = parser.parse_args()
    server = Server(chosen.era)
    asyncio.run(serve_http(server) if chosen.http else serve_stdio(server))


if __name__ == "__main__":
    main()
