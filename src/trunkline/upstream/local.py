"""Servers in this very process, spoken to in lines as others are, but without a process or a socket between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import ExitStack
from typing import Protocol, cast

from trunkline.config.server import ServerSpec
from trunkline.errors import TrunklineError, UnreachableError
from trunkline.tasks import Tasks
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.lines import EDGE
from trunkline.upstream.stream import StreamConnection

UNREAD = 10_000
"""Messages that a server may leave unread before it is given up."""


class LocalServer(Protocol):
    """Whoever serves MCP in lines."""

    async def serve_lines(self, lines: AsyncIterable[bytes], write: Callable[[bytes], object]) -> None:
        """Serve one caller until it has no more lines, or until cancelled."""
        ...

    async def stop(self, reason: str = "") -> None:
        """End, as far as it is up to the hub."""
        ...


class Mounted:
    """A server while it is mounted; once it is let go, nobody connects to it again."""

    def __init__(self, server: LocalServer, *, stops: bool) -> None:
        self.server = server
        self.stops = stops
        """Whether it is stopped when it is let go."""
        self.gone = False


async def connect_local(spec: ServerSpec, events: ConnectionEvents, tasks: Tasks, *, era: str) -> StreamConnection:
    """Have the server serve another caller, and shake hands."""
    mounted = cast("Mounted", spec.local)
    if mounted.gone:
        raise UnreachableError(f"Server {spec.name!r} was unmounted.")
    connection = StreamConnection(spec, events)
    unread: asyncio.Queue[bytes] = asyncio.Queue(UNREAD)
    serving = tasks.start(_serve(spec, mounted.server, connection, unread), name=f"local server {spec.name}")

    def send(text: bytes) -> None:
        try:
            unread.put_nowait(text)
        except asyncio.QueueFull:
            connection.end("does not read what it is sent")

    async def close() -> None:
        serving.cancel()
        await asyncio.wait([serving], timeout=5.0)

    connection.send = send
    connection.on_close = close
    with ExitStack() as unless_open:
        unless_open.callback(serving.cancel)
        unless_open.callback(connection.end, "was stopped")
        try:
            async with asyncio.timeout(spec.start_timeout):
                await connection.open(era=era)
        except TimeoutError as error:
            raise UnreachableError(f"Server {spec.name!r} did not answer within {spec.start_timeout:g} s.") from error
        unless_open.pop_all()
    return connection


async def _serve(
    spec: ServerSpec, server: LocalServer, connection: StreamConnection, unread: asyncio.Queue[bytes]
) -> None:
    async def lines() -> AsyncIterator[bytes]:
        while True:
            yield await unread.get()

    def write(line: bytes) -> None:
        if len(line) > spec.answer_limit:
            connection.too_long(line[:EDGE], line[-EDGE:])
        else:
            connection.receive(line)

    why = "ended by itself"
    try:
        await server.serve_lines(lines(), write)
    except TrunklineError as error:
        why = f"could not go on ({error})"
    finally:
        connection.end(why)
