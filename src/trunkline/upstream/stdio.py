"""Servers that are subprocesses, speaking on their standard input and output."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

from trunkline.config.server import ServerSpec
from trunkline.errors import SessionLostError, UnreachableError, UpstreamError
from trunkline.tasks import open_tasks
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.download import Work, package_of, runner_of, still_fetches, turn_to_fetch, work_of
from trunkline.upstream.lines import Lines
from trunkline.upstream.process import Process, Warden, child_environment
from trunkline.upstream.stream import StreamConnection

LOOK = 2.0
"""Seconds between two looks at whether a server is still being downloaded."""
FAREWELL = 1.0
"""Seconds in which a process that closed its output may be seen to end; how it ended says more."""


async def connect_stdio(spec: ServerSpec, events: ConnectionEvents, warden: Warden, *, era: str) -> StreamConnection:
    """Start the server and shake hands; whatever goes wrong, no process is left behind."""
    package = package_of(spec)
    if not package or package in warden.fetched:
        return await _start(spec, events, warden, era)
    async with turn_to_fetch(package):
        connection = await _start(spec, events, warden, era)
    warden.fetched.add(package)
    return connection


async def _start(spec: ServerSpec, events: ConnectionEvents, warden: Warden, era: str) -> StreamConnection:
    connection = StreamConnection(spec, events)
    env = child_environment(spec.env, os.environ)

    def lines() -> Lines:
        return Lines(
            spec.answer_limit,
            on_line=connection.receive,
            on_too_long=connection.too_long,
            on_end=lambda: _end_later(connection),
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
    patience = _Patience(spec, process, events)
    try:
        async with AsyncExitStack() as unless_open:
            unless_open.push_async_callback(lambda: asyncio.shield(process.end(polite=0.2)))
            unless_open.callback(connection.end, "was stopped")
            async with open_tasks() as tasks, asyncio.timeout(spec.start_timeout) as deadline:
                if runner_of(spec)[0]:
                    tasks.start(patience.prolong(deadline), name=f"download {spec.name}")
                await connection.open(era=era)
            unless_open.pop_all()
    except UnreachableError as error:
        failure = error
        if isinstance(error, SessionLostError) and process.exited.done() and process.exited.result() >= 0:
            # That it did not listen any more was seen first; how it ended says more.
            failure = UnreachableError(f"Server {spec.name!r} {_how_it_ended(process.exited.result())}.")
        failure.last_words = process.last_words
        raise failure from error.__cause__
    except (TimeoutError, UpstreamError) as error:
        failure = _failed_start(spec, process, patience, error)
        failure.last_words = process.last_words
        raise failure from error
    return connection


class _Patience:
    """How long a start may take: while a runner still downloads the server, `start_timeout` has not begun."""

    def __init__(self, spec: ServerSpec, process: Process, events: ConnectionEvents) -> None:
        self._spec, self._process, self._events = spec, process, events
        self.downloading = False
        self.downloaded = False
        """It was seen to download at some time."""

    async def prolong(self, deadline: asyncio.Timeout) -> None:
        """Put the deadline off for as long as the download goes on, up to `download_timeout`."""
        loop = asyncio.get_running_loop()
        spec, runner = self._spec, runner_of(self._spec)[0]
        last = loop.time() + max(spec.download_timeout, spec.start_timeout)
        before = Work()
        while True:
            await asyncio.sleep(min(LOOK, spec.start_timeout / 4))
            now = await asyncio.to_thread(work_of, self._process.pid)
            # Where the kernel tells nothing, a runner that lives is believed.
            self.downloading = now is None or still_fetches(runner, before, now)
            before = now or before
            if self.downloading and not deadline.expired():
                deadline.reschedule(min(loop.time() + spec.start_timeout, last))
                if not self.downloaded:
                    self.downloaded = True
                    self._events.downloading()


def _end_later(connection: StreamConnection) -> None:
    asyncio.get_running_loop().call_later(FAREWELL, connection.end, "closed its output")


def _one_line(text: bytes) -> bytes:
    # In JSON a line end can only stand between tokens, where a space means the same.
    if b"\n" in text or b"\r" in text:
        text = text.replace(b"\n", b" ").replace(b"\r", b" ")
    return text + b"\n"


def _how_it_ended(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"


def _failed_start(spec: ServerSpec, process: Process, patience: _Patience, error: Exception) -> UnreachableError:
    if isinstance(error, TimeoutError) and process.stopped:
        if patience.downloading:
            return UnreachableError(
                f"Server {spec.name!r} was still being downloaded after {spec.download_timeout:g} s.",
                hint="Run its command once by hand, or raise its `download_timeout`.",
            )
        since = "its download" if patience.downloaded else "its start"
        return UnreachableError(f"Server {spec.name!r} did not answer within {spec.start_timeout:g} s of {since}.")
    if process.exited.done():
        return UnreachableError(f"Server {spec.name!r} {_how_it_ended(process.exited.result())} while it started.")
    return UnreachableError(f"Server {spec.name!r} could not be started: {error}")
