"""`trunkline stdio`: serves a client that starts us as its server, as if the gateway were that program."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import os
import secrets
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import BinaryIO

from trunkline.cli.console import say
from trunkline.cli.line import LIMIT, Line, hear, modern_headers, open_client
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file, run
from trunkline.cli.running import Running, find_running, running_at
from trunkline.cli.up import demo_config
from trunkline.config.options import Config
from trunkline.config.reading import load, user_file
from trunkline.errors import ConfigError, ProtocolError, RefusedError, UnreachableError, UpstreamError
from trunkline.tasks import Tasks, open_tasks
from trunkline.telemetry.logs import use_format
from trunkline.upstream.event_stream import POLL_AGAIN
from trunkline.upstream.http1 import HttpClient, Response
from trunkline.wire.envelope import (
    INTERNAL_ERROR,
    Message,
    error_object,
    read_caller_message,
    read_message,
    read_params,
    read_string,
    same_id,
    write_error,
    write_notification,
)
from trunkline.wire.members import is_object, read_members
from trunkline.wire.meta import is_modern, read_meta

LAST_ANSWERS = 2.0
"""Seconds in which calls under way may still be answered once the client has nothing more to say."""

Find = Callable[[], Running | None]


def add_commands(commands: Commands) -> None:
    """Add the command."""
    stdio = commands.add(
        "stdio",
        commands.common,
        description="Speak MCP on standard input and output, for clients that start a program: Claude Desktop and "
        "others. The servers are those of the running gateway, if one serves this configuration; else they are "
        "started, and end with the client. `trunkline connect` writes this command where it is needed.",
    )
    stdio.add_argument("--profile", default="", metavar="NAME", help="only what this profile has")
    stdio.add_argument("--url", default="", help="a gateway elsewhere; its token is in TRUNKLINE_GATEWAY_TOKEN")
    stdio.add_argument(
        "--log-format", choices=("text", "json"), help="how the log is written (default: as [gateway] says)"
    )
    stdio.set_defaults(run=_stdio)


def _stdio(options: argparse.Namespace) -> int:
    path = config_file(options)
    config = load(path, env=os.environ, flags={"log_format": options.log_format})
    use_format(config.gateway.log_format)
    if path is None:
        config = demo_config(config)
    if options.profile and options.profile not in config.profiles and not options.url:
        raise ConfigError(f"There is no profile {options.profile!r}.", hint=f"There are: {', '.join(config.profiles)}.")
    client, answers = os.dup(0), os.fdopen(os.dup(1), "wb", buffering=0)
    # What somebody else prints in this process must not stand among the messages.
    os.dup2(2, 1)
    run(lambda: _serve(config, options, client, answers))
    return 0


async def _serve(config: Config, options: argparse.Namespace, client: int, answers: BinaryIO) -> None:
    path = f"/mcp/{options.profile}" if options.profile else "/mcp"
    find: Find = partial(find_running, config)
    if options.url:
        place = running_at(options.url, config.gateway)
        path = options.url.removeprefix(place.address) or path
        find = partial(_same, place)
    serving = asyncio.current_task()
    assert serving is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        async with _gateway(config, find) as running, open_bridge(running, path, answers, find) as bridge:
            await bridge.follow(client)


def _same(place: Running) -> Running:
    return place


@asynccontextmanager
async def _gateway(config: Config, find: Find) -> AsyncGenerator[Running]:
    """The gateway that runs; where none does, one of our own, for this client alone."""
    found = find()
    if found is not None:
        yield found
        return
    from trunkline.gateway.serve import follow_file, open_gateway

    flags = {"host": "127.0.0.1", "port": 0, "token": secrets.token_urlsafe(32)}
    own = dataclasses.replace(config, gateway=dataclasses.replace(config.gateway, users={}, **flags))
    async with open_gateway(own) as gateway, open_tasks() as tasks:
        source = config.source or user_file(os.environ)
        tasks.start(follow_file(gateway.hub, source, flags, lambda _: None), name="configuration")
        yield Running(gateway.url.removesuffix("/mcp"), gateway.key, local=True)


@asynccontextmanager
async def open_bridge(running: Running, path: str, answers: BinaryIO, find: Find) -> AsyncGenerator[Bridge]:
    """A bridge for the body, whose session with the gateway ends with it."""
    async with open_client() as client, open_tasks() as tasks:
        bridge = Bridge(running, path, answers, find, client, tasks)
        try:
            yield bridge
        finally:
            await bridge.say_goodbye()


class Bridge:
    """Passes on what a client and a gateway say to each other, each message as it is."""

    def __init__(
        self, running: Running, path: str, answers: BinaryIO, find: Find, client: HttpClient, tasks: Tasks
    ) -> None:
        self._line, self._path, self._find = Line(running, client, path), path, find
        self._answers, self._client, self._tasks = answers, client, tasks
        self._writing = asyncio.Lock()
        self._open: dict[bytes, asyncio.Task[None]] = {}
        """Requests without an answer, by their ids."""
        self._first = b""
        """The client's `initialize`, for a gateway that was started anew."""
        self._session: dict[bytes, bytes] = {}
        """The headers of a legacy session."""
        self._listening: asyncio.Task[None] | None = None

    async def follow(self, client: int) -> None:
        """Pass on every line of a file descriptor until the client has no more to say."""
        async for line in _lines(client):
            await self._take(line)
        pending = [task for task in self._open.values() if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=LAST_ANSWERS)

    async def say_goodbye(self) -> None:
        """End the session."""
        with contextlib.suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(1.0):
                if self._session:
                    await hear(await self._line.send(b"DELETE", b"", self._session), _nothing)

    # From the client.

    async def _take(self, line: bytes) -> None:
        message = Message()
        try:
            message = read_caller_message(line)
            params = read_params(message)
            if is_modern(params):
                await self._take_modern(
                    message, line, modern_headers(message.method, params, read_meta(params).version)
                )
                return
        except RefusedError as error:
            await self._write(write_error(message.id, error_object(error.code, str(error))))
            return
        if message.method == "initialize":
            self._first, self._session = line, {}
        if message.method == "notifications/cancelled":
            task = self._open.pop(_cancelled(message), None)
            if task is not None and not self._session:
                task.cancel()  # over HTTP, a modern client withdraws a request by hanging up
        if self._session or message.method != "notifications/cancelled":
            await self._pass_on(message, line)

    async def _take_modern(self, message: Message, line: bytes, headers: dict[bytes, bytes]) -> None:
        task = self._open.pop(_cancelled(message), None) if message.method == "notifications/cancelled" else None
        if task is not None:
            task.cancel()
        if message.id:
            await self._request(message, line, headers)

    async def _pass_on(self, message: Message, line: bytes) -> None:
        """What a legacy client says; only a request waits for an answer."""
        if message.method and message.id:
            await self._request(message, line, self._session)
            return
        try:
            response = await self._send(line, self._session)
            await hear(response, _nothing)
            if response.status >= 400:
                say(f"The gateway did not take {message.method or 'an answer'}: {response.status}.")
        except UpstreamError as error:
            say(str(error))

    async def _request(self, message: Message, line: bytes, headers: dict[bytes, bytes]) -> None:
        """Send a request before anything that comes after it, and leave its answer to a task."""
        try:
            response = await self._send(line, headers)
        except UpstreamError as error:
            await self._fail(message, str(error))
            return
        task = self._tasks.start(self._answer(message, line, response), name=f"answer {message.method}")
        key = same_id(message.id)
        self._open[key] = task
        task.add_done_callback(lambda done: self._open.pop(key, None) if self._open.get(key) is done else None)
        if message.method == "initialize":
            await asyncio.wait([task])  # what comes next needs the session

    # To the gateway, and back.

    async def _send(self, line: bytes, headers: dict[bytes, bytes]) -> Response:
        try:
            return await self._line.send(b"POST", line, headers)
        except UnreachableError as error:
            found = self._find()
            if found is None or found == self._line.running:
                raise UnreachableError(
                    f"The gateway is gone: {error.message}", hint="Start it again with `trunkline up`."
                ) from error
            self._line = Line(found, self._client, self._path)
            if not self._session:
                return await self._line.send(b"POST", line, headers)
            await self._begin_again()
            return await self._line.send(b"POST", line, self._session)

    async def _answer(self, message: Message, line: bytes, response: Response) -> None:
        answered, key = False, same_id(message.id)

        async def take(text: bytes) -> None:
            nonlocal answered
            said = read_message(text)
            if not said.method and same_id(said.id) != key:
                text = write_error(message.id, said.error or error_object(INTERNAL_ERROR, "The gateway failed."))
            if not said.method:
                answered = True
            if message.method == "initialize" and said.result:
                self._begin(response, said.result)
            await self._write(text)

        try:
            await response.ready()
            if response.status == 404 and self._session and message.method != "initialize":
                response = await self._send_again(line)
            await hear(response, take)
            if not answered and key in self._open:
                await self._fail(message, f"The gateway gave no answer ({response.status}).")
        except (UpstreamError, ValueError) as error:
            if not answered and key in self._open:
                await self._fail(message, f"The gateway's answer was lost: {error}.")
        finally:
            response.close()

    async def _send_again(self, line: bytes) -> Response:
        """The gateway does not know our session, so it did nothing: the same once more, in a new one."""
        await self._begin_again()
        return await self._line.send(b"POST", line, self._session)

    async def _begin_again(self) -> None:
        """Shake hands once more with a gateway that was started anew; the client need not know."""
        response = await self._line.send(b"POST", self._first, {})

        async def take(text: bytes) -> None:
            self._begin(response, read_message(text).result)

        await hear(response, take)
        await hear(
            await self._line.send(b"POST", write_notification("notifications/initialized"), self._session), _nothing
        )

    def _begin(self, response: Response, result: bytes) -> None:
        version = read_string(read_members(result).get("protocolVersion", b"")) if result else ""
        self._session = {b"mcp-protocol-version": version.encode()}
        if b"mcp-session-id" in response.headers:
            self._session[b"mcp-session-id"] = response.headers[b"mcp-session-id"]
        if self._listening is not None:
            self._listening.cancel()
        self._listening = self._tasks.start(self._listen(dict(self._session)), name="what the gateway says by itself")

    async def _listen(self, session: dict[bytes, bytes]) -> None:
        """What belongs to no request: lists that changed, resources that changed, questions."""
        last = b""

        def note(id: str) -> None:
            nonlocal last
            last = id.encode()

        while True:
            with contextlib.suppress(UpstreamError, ValueError):
                headers = {**session, b"accept": b"text/event-stream"}
                response = await self._line.send(b"GET", b"", {**headers, **({b"last-event-id": last} if last else {})})
                await response.ready()
                if response.status != 200:
                    response.close()
                    return  # it has none, or no longer knows the session, which the next request will find out
                await hear(response, self._write, last_id=note)
            await asyncio.sleep(POLL_AGAIN)

    async def _fail(self, message: Message, text: str) -> None:
        await self._write(write_error(message.id, error_object(INTERNAL_ERROR, text)))

    async def _write(self, text: bytes) -> None:
        # Line ends in JSON stand between tokens only, so that a space does as well.
        line = text.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        async with self._writing:
            await asyncio.to_thread(_write_all, self._answers, line)


def _cancelled(message: Message) -> bytes:
    """The id of the request that a cancellation withdraws."""
    return same_id(read_members(message.params).get("requestId", b"")) if is_object(message.params) else b""


async def _nothing(text: bytes) -> None:
    """Hear it, and leave it at that."""


def _write_all(file: BinaryIO, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever reads no more closes our input as well
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]


async def _lines(file: int) -> AsyncGenerator[bytes]:
    """Every line; read by a thread, since not every kind of file can be waited for, and one that ends with us."""
    loop, coming = asyncio.get_running_loop(), asyncio.Queue[bytes](1000)

    def read() -> None:
        with contextlib.suppress(OSError, RuntimeError):  # it is closed, or our loop is
            while True:
                piece = os.read(file, 2**16)
                asyncio.run_coroutine_threadsafe(coming.put(piece), loop).result()
                if not piece:
                    return

    threading.Thread(target=read, daemon=True, name="standard input").start()
    begun = bytearray()
    while piece := await coming.get():
        begun += piece
        if b"\n" in piece:
            *lines, rest = begun.split(b"\n")
            begun = rest
            for line in lines:
                if line.strip():
                    yield bytes(line.strip())
        elif len(begun) > LIMIT:
            raise ProtocolError(f"The client sent a line of more than {LIMIT} bytes.")
    if begun.strip():
        yield bytes(begun.strip())
