"""What tests about questions need: a gateway before a server that asks, and callers of either era that answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import Heard, LegacyCaller, ModernCaller, gateway, plain_command, plain_server, post, until
from trunkline.gateway.serve import Gateway

SERVER = Path(__file__).with_name("asking_server.py")
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
FORMS: dict[str, Any] = {"elicitation": {}}
ACCEPT: dict[str, Any] = {"action": "accept", "content": {"sure": True}}

Json = dict[str, Any]
Answer = Callable[[Json], Json]
"""Answers a question: gets `method` and `params`, gives the result, or `{"error": …}` where the era has that."""


@dataclass(frozen=True)
class Pair:
    """Which eras meet, and over what."""

    caller: str
    server: str
    transport: str

    def __str__(self) -> str:
        return f"{self.caller}-caller-{self.server}-{self.transport}"


PAIRS = [
    Pair(caller, server, transport)
    for caller in ("modern", "legacy")
    for server in ("modern", "legacy")
    for transport in ("stdio", "http")
]
OLD_PAIRS = [Pair(caller, "legacy", "sse") for caller in ("modern", "legacy")]
"""Servers of the older HTTP+SSE; they are asked for by name."""


def pairs(*, caller: str = "", server: str = "", transport: str = "") -> pytest.MarkDecorator:
    """Run a test for all pairs, or for those of one kind."""
    chosen = [
        pair
        for pair in (OLD_PAIRS if transport == "sse" else PAIRS)
        if pair.caller in (caller or pair.caller)
        and pair.server in (server or pair.server)
        and pair.transport in (transport or pair.transport)
    ]
    return pytest.mark.parametrize("pair", chosen, ids=str)


@dataclass
class Told:
    """How a call with questions ended."""

    message: Json
    """The response itself."""
    questions: list[Json] = field(default_factory=list[Json])
    """What the caller was asked, in order."""
    rounds: int = 0
    """How many results asked a modern caller something."""

    @property
    def text(self) -> str:
        assert "result" in self.message, self.message
        return self.message["result"]["content"][0]["text"]

    @property
    def error(self) -> Json:
        assert "error" in self.message, self.message
        return self.message["error"]


class Talker:
    """A caller of either era that answers what it is asked."""

    def __init__(self, caller: ModernCaller | LegacyCaller, capabilities: Json) -> None:
        self.caller, self.capabilities = caller, capabilities

    async def call(self, tool: str, arguments: Json, answer: Answer) -> Told:
        """Call a tool, and answer everything on the way."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments}, answer)

    async def request(self, method: str, params: Json, answer: Answer) -> Told:
        """Send a request, and answer everything on the way."""
        if isinstance(self.caller, ModernCaller):
            return await self._modern(self.caller, method, params, answer)
        return await self._legacy(self.caller, method, params, answer)

    async def _modern(self, caller: ModernCaller, method: str, params: Json, answer: Answer) -> Told:
        questions: list[Json] = []
        rounds = 0
        meta = declared(self.capabilities)
        heard = await caller.request(method, params, meta=meta)
        while heard.message.get("result", {}).get("resultType") == "input_required":
            rounds += 1
            asked = heard.result["inputRequests"]
            questions += asked.values()
            answers = {key: answer(question) for key, question in asked.items()}
            again = {**params, "requestState": heard.result["requestState"], "inputResponses": answers}
            heard = await caller.request(method, again, meta=meta)
        return Told(heard.message, questions, rounds)

    async def _legacy(self, caller: LegacyCaller, method: str, params: Json, answer: Answer) -> Told:
        questions: list[Json] = []
        async with caller.stream(method, params) as events:
            if events.response.content_type != "text/event-stream":
                return Told(await events.response.json(), questions)
            while "method" in (message := await events.next(15)):
                questions.append(message)
                await self._tell(caller, message["id"], answer(message))
            return Told(message, questions)

    async def _tell(self, caller: LegacyCaller, id: Any, given: Json) -> None:
        body = {"jsonrpc": "2.0", "id": id, **(given if "error" in given else {"result": given})}
        heard = await post(caller.http, caller.url, json.dumps(body).encode(), caller.headers)
        assert heard.status == 202


async def ask(caller: ModernCaller, tool: str, arguments: Json, capabilities: Json = EVERYTHING) -> Heard:
    """A modern caller's first request."""
    return await caller.call(tool, arguments, meta=declared(capabilities))


async def retry(
    caller: ModernCaller,
    tool: str,
    arguments: Json,
    state: str,
    answers: Json,
    capabilities: Json = EVERYTHING,
) -> Heard:
    """A modern caller's next request, with its answers."""
    params = {"name": tool, "arguments": arguments, "requestState": state, "inputResponses": answers}
    return await caller.request("tools/call", params, meta=declared(capabilities))


def declared(capabilities: Json) -> Json:
    """The metadata by which a modern caller says what it can be asked."""
    return {"io.modelcontextprotocol/clientCapabilities": capabilities}


def yes(question: Json) -> Json:
    """Agree to everything."""
    return ACCEPT


@dataclass
class Scene:
    """A gateway before one server that asks; its tools are called `shop__…`."""

    opened: Gateway
    http: aiohttp.ClientSession
    pair: Pair
    folder: Path

    @property
    def file(self) -> Path:
        """Where the server does what it is asked to do."""
        return self.folder / "done"

    @property
    def done(self) -> list[str]:
        """What the server did so far."""
        return self.file.read_text().splitlines() if self.file.exists() else []

    @property
    def log(self) -> list[str]:
        """What the server saw so far, in all its processes."""
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def seen(self, beginning: str) -> int:
        """How many lines of the server's log begin so."""
        return sum(line.startswith(beginning) for line in self.log)

    def args(self, item: str) -> Json:
        """Arguments of a tool that orders an item."""
        return {"item": item, "file": str(self.file)}

    def modern(self, token: str = "") -> ModernCaller:
        """A modern caller."""
        return ModernCaller(self.opened.url, self.http, token=token)

    async def legacy(self, capabilities: Json = EVERYTHING) -> LegacyCaller:
        """A legacy caller with a session."""
        return await LegacyCaller(self.opened.url, self.http, capabilities=capabilities).open()

    async def talker(self, capabilities: Json = EVERYTHING, era: str = "") -> Talker:
        """A caller of the pair's era."""
        modern = (era or self.pair.caller) == "modern"
        return Talker(self.modern() if modern else await self.legacy(capabilities), capabilities)

    def kill(self) -> None:
        """End the server, all its processes, as a crash does."""
        for line in self.log:
            if line.startswith("start "):
                with suppress(ProcessLookupError):
                    os.kill(int(line.split()[1]), signal.SIGKILL)

    def open_things(self) -> Json:
        """What a call leaves behind if it is forgotten: parked, in flight, leased, busy."""
        pool = inside(self.opened.hub.relay, "_fleet").pool
        leases = inside(pool, "_leases")
        lanes = [self.opened.hub.relay.lane(view.name) for view in self.opened.hub.servers()]
        connections: list[Any] = [*pool.connections("shop"), *leases.of("shop")]
        return {
            "parked": len(inside(inside(self.opened.app, "_asking"), "_parking")),
            "in flight": sum(lane.inside + lane.waiting for lane in lanes),
            "leased": len(leases),
            "busy": sum(connection.busy for connection in connections),
        }

    async def looked(self) -> None:
        """Wait until the gateway has looked what the server shows to callers that it may ask."""
        await until(lambda: self.seen("start") >= 2)
        await self.nothing_is_left()

    async def nothing_is_left(self) -> None:
        """Wait until no call has left anything behind."""
        try:
            await until(lambda: not any(self.open_things().values()))
        except TimeoutError:
            pytest.fail(f"left behind: {self.open_things()}")


def inside(thing: object, name: str) -> Any:
    """What an object keeps to itself: nothing but tests wants to see it."""
    return vars(thing)[name]


@contextmanager
def asking(era: str, transport: str, log: Path, /, *flags: str, **options: Any) -> Generator[Json]:
    """The configuration of a server that asks."""
    arguments = [str(SERVER), "--era", era, "--log", str(log), *flags]
    if transport == "stdio":
        yield plain_server(*arguments, **options)
        return
    process = subprocess.Popen(plain_command(*arguments, f"--{transport}"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield {
            "url": f"http://127.0.0.1:{process.stdout.readline().split()[1]}/{'mcp' if transport == 'http' else 'sse'}",
            **options,
        }
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@asynccontextmanager
async def scene(
    folder: Path, http: aiohttp.ClientSession, pair: Pair, *flags: str, server: Json | None = None, **options: Any
) -> AsyncGenerator[Scene]:
    """A gateway before a server that asks, with options for either."""
    with asking(pair.server, pair.transport, folder / "log", *flags, **(server or {})) as spec:
        async with gateway(folder / "home", {"shop": spec}, namespace="always", **options) as opened:
            yield Scene(opened, http, pair, folder)
