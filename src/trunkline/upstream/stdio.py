"""Servers that are subprocesses, speaking on their standard input and output."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

from trunkline.config.options import ServerSpec
from trunkline.errors import UnreachableError, UpstreamError
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.lines import Lines
from trunkline.upstream.process import Process, Warden, child_environment
from trunkline.upstream.stream import StreamConnection


async def connect_stdio(spec: ServerSpec, events: ConnectionEvents, warden: Warden, *, era: str) -> StreamConnection:
    """Start the server and shake hands; whatever goes wrong, no process is left behind."""
    connection = StreamConnection(spec, events)
    env = child_environment(spec.env, os.environ)

    def lines() -> Lines:
        return Lines(
            spec.answer_limit,
            on_line=connection.receive,
            on_too_long=connection.too_long,
            # A process that ends closes its output first; how it ended is told a moment later, and says more.
            on_end=lambda: _later(connection),
        )

    process = await warden.spawn(spec.name, [spec.command, *spec.args], env=env, cwd=spec.cwd, output=lines)
    stdin = process.stdin
    assert stdin is not None
    # Its input may be known to be closed before its end is: what is written then goes nowhere, but must not fail.
    connection.send = lambda text: None if stdin.is_closing() else stdin.write(_one_line(text))
    connection.deaf = stdin.is_closing
    connection.unsent = stdin.get_write_buffer_size
    connection.words = lambda: process.last_words
    connection.on_close = process.end
    process.exited.add_done_callback(lambda code: connection.end(_how_it_ended(code.result())))
    try:
        async with AsyncExitStack() as unless_open:
            unless_open.push_async_callback(lambda: asyncio.shield(process.end(polite=0.2)))
            unless_open.callback(connection.end, "was stopped")
            async with asyncio.timeout(spec.start_timeout):
                await connection.open(era=era)
            unless_open.pop_all()
    except UnreachableError as error:
        error.last_words = process.last_words
        raise
    except (TimeoutError, UpstreamError) as error:
        failure = UnreachableError(_failed_start(spec, process, error))
        failure.last_words = process.last_words
        raise failure from error
    return connection


def _later(connection: StreamConnection) -> None:
    asyncio.get_running_loop().call_later(0.1, connection.end, "closed its output")


def _one_line(text: bytes) -> bytes:
    # In JSON a line end can only stand between tokens, where a space means the same.
    if b"\n" in text or b"\r" in text:
        text = text.replace(b"\n", b" ").replace(b"\r", b" ")
    return text + b"\n"


def _how_it_ended(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"


def _failed_start(spec: ServerSpec, process: Process, error: Exception) -> str:
    if isinstance(error, TimeoutError) and process.stopped:
        return f"Server {spec.name!r} did not answer within {spec.start_timeout:g} s of its start."
    if process.exited.done():
        return f"Server {spec.name!r} {_how_it_ended(process.exited.result())} while it started."
    return f"Server {spec.name!r} could not be started: {error}"
