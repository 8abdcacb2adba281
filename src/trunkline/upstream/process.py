"""Server processes, started through the warden so that none survives us."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from trunkline.errors import UnreachableError

SCRIPT = Path(__file__).with_name("warden.py")

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE",
             "NODE_EXTRA_CA_CERTS", "SYSTEMROOT")  # fmt: skip
"""The only variables a server gets besides those it is configured with."""

LAST_WORDS = 64 * 1024
TOO_MANY_FILES = os.strerror(errno.EMFILE)


def child_environment(configured: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """What a server may see: a minimal set, and what was named for it."""
    return {name: env[name] for name in INHERITED if name in env} | dict(configured)


class Process:
    """One running server: its streams, its last words, its end."""

    def __init__(self, number: int, name: str, warden: Warden) -> None:
        self.number, self.name = number, name
        self.pid = 0
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.stopped = False
        """It still ran when we ended it."""
        self._warden = warden
        self._words: deque[bytes] = deque()
        self._size = 0
        self.stdin: asyncio.WriteTransport | None = None
        self.transports: list[asyncio.BaseTransport] = []

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return b"".join(self._words).decode(errors="replace").strip()

    def say(self, piece: bytes) -> None:
        """Remember a piece of standard error, forgetting the oldest."""
        self._words.append(piece[-LAST_WORDS:])
        self._size += len(self._words[-1])
        while self._size > LAST_WORDS and len(self._words) > 1:
            self._size -= len(self._words.popleft())

    async def end(self, *, polite: float = 1.0) -> None:
        """Close its input, then ask, then force; a process that is gone costs nothing."""
        self.stopped = self.stopped or not self.exited.done()
        try:
            if self.stdin is not None:
                self.stdin.close()
            for number in (0, signal.SIGTERM, signal.SIGKILL):
                if number:
                    self._warden.signal(self.number, number)
                done, _ = await asyncio.wait([self.exited], timeout=polite)
                if done:
                    return
        finally:
            self._warden.signal(self.number, signal.SIGKILL)
            for transport in self.transports:
                transport.close()


class Warden:
    """Our end of the link to the warden, which is started with the first server."""

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._running: dict[int, Process] = {}
        self._starting: dict[int, asyncio.Future[int]] = {}
        self._count = 0
        self.fetched: set[str] = set()
        """Packages that need not be downloaded any more."""
        self.started: Callable[[str, int], None] = lambda server, pid: None
        """Told of each process that was started."""
        self._buffer = b""
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        """Requests that wait for room on the link, with the streams that go along."""

    async def spawn(
        self,
        name: str,
        argv: list[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        output: Callable[[], asyncio.Protocol],
    ) -> Process:
        """Start one server whose standard output goes to the protocol that `output` makes."""
        loop = asyncio.get_running_loop()
        found = shutil.which(argv[0], path=env.get("PATH", os.defpath))
        if found is None:
            raise UnreachableError(
                f"Server {name!r} cannot be started: there is no program {argv[0]!r}.",
                hint="Install it, or give its full path as `command`.",
            )
        if cwd and not os.path.isdir(cwd):  # noqa: ASYNC240 - one look at the disk, at a start
            raise UnreachableError(f"Server {name!r} cannot be started: there is no folder {cwd!r}.")
        self._count += 1
        process = Process(self._count, name, self)
        theirs: list[int] = []
        ours: list[int] = []
        try:
            self._ensure_running(loop)
            in_read, in_write, out_read, out_write, err_read, err_write = _pipes()
            theirs, ours = [in_read, out_write, err_write], [err_read, out_read, in_write]
            # What the loop was given is the loop's to close, also where it could not take it.
            process.stdin, _ = await loop.connect_write_pipe(asyncio.Protocol, _PipeEnd(ours.pop(), loop))
            process.transports.append(process.stdin)
            process.transports.append((await loop.connect_read_pipe(output, _PipeEnd(ours.pop(), loop)))[0])
            words = await loop.connect_read_pipe(lambda: _Words(process), _PipeEnd(ours.pop(), loop))
            process.transports.append(words[0])
            started = self._starting[process.number] = loop.create_future()
            self._running[process.number] = process
            command = [found, *argv[1:]]
            request = {"op": "spawn", "number": process.number, "argv": command, "env": dict(env), "cwd": cwd}
            sent, theirs = theirs, []
            self._send(request, sent)
            async with asyncio.timeout(10):
                process.pid = await started
            self.started(name, process.pid)
            return process
        except TimeoutError as error:
            raise UnreachableError(f"Server {name!r} cannot be started: nothing happened for 10 s.") from error
        except OSError as error:
            why = error.strerror or str(error)
            hint = "Allow more: `ulimit -n`, or LimitNOFILE of its service." if why == TOO_MANY_FILES else ""
            raise UnreachableError(f"Server {name!r} cannot be started: {why}.", hint=hint) from error
        finally:
            _close(theirs + ours)
            self._starting.pop(process.number, None)
            if not process.pid:
                self._give_up(process)

    def _give_up(self, process: Process) -> None:
        """Let go of a process whose start was not waited for; if it did start, it ends."""
        self.signal(process.number, signal.SIGKILL)
        self._running.pop(process.number, None)
        for transport in process.transports:
            transport.close()

    def signal(self, number: int, signal_number: int) -> None:
        """Send a signal to a server's whole process group, if it still runs."""
        if number in self._running:
            self._send({"op": "signal", "number": number, "signal": int(signal_number)})

    @property
    def running(self) -> int:
        """How many servers run now."""
        return len(self._running)

    def close(self) -> None:
        """Let go: the warden ends every server, then itself."""
        if self._link is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._link)
            loop.remove_writer(self._link)
            self._link.close()
            self._link = None
        for _, streams in self._unsent:
            _close(streams)
        self._unsent.clear()

    async def closed(self) -> None:
        """Wait, not for ever, until the warden is gone."""
        program = self._program
        if program is not None:
            try:
                await asyncio.to_thread(program.wait, 5)
            except subprocess.TimeoutExpired:
                program.kill()
            self._program = None

    def _ensure_running(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._link is not None:
            return
        ours, its = socket.socketpair()
        with its, contextlib.ExitStack() as unless_started:
            unless_started.callback(ours.close)
            ours.setblocking(False)
            # -I and -S: no site packages, no environment; it starts quickly and stays small.
            self._program = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SCRIPT), str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )
            unless_started.pop_all()
        self._link = ours
        loop.add_reader(ours, self._receive)

    def _send(self, request: dict[str, Any], streams: list[int] | None = None) -> None:
        """Send a request, now or when there is room; its streams are closed once they are there."""
        if self._link is None:
            _close(streams or [])
            return
        self._unsent.append((json.dumps(request).encode() + b"\n", streams or []))
        if len(self._unsent) == 1:
            self._send_unsent()

    def _send_unsent(self) -> None:
        link = self._link
        assert link is not None
        loop = asyncio.get_running_loop()
        try:
            while self._unsent:
                data, streams = self._unsent[0]
                sent = socket.send_fds(link, [data], streams) if streams else link.send(data)
                # The streams went with the first byte, and the rest must follow: half a request would spoil the next.
                _close(streams)
                if sent < len(data):
                    self._unsent[0] = data[sent:], []
                else:
                    self._unsent.popleft()
            loop.remove_writer(link)
        except BlockingIOError:
            loop.add_writer(link, self._send_unsent)
        except OSError:
            self._lost()

    def _receive(self) -> None:
        link = self._link
        if link is None:
            return
        try:
            data = link.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        number: int = event["number"]
        process = self._running.get(number)
        if "exit" in event:
            self._running.pop(number, None)
            if process is not None and not process.exited.done():
                process.exited.set_result(event["exit"])
            return
        started = self._starting.get(number)
        if started is None or started.done():
            return
        if "failed" in event:
            started.set_exception(OSError(event["failed"]))
        else:
            started.set_result(event["pid"])

    def _lost(self) -> None:
        """Somebody killed the warden, and the kernel its children with it; the next server gets a new one."""
        self.close()
        self._buffer = b""
        if self._program is not None:
            self._program.wait(5)  # it closed its end by dying, so this only collects it
            self._program = None
        for process in list(self._running.values()):
            if not process.exited.done():
                process.exited.set_result(-signal.SIGKILL)
        self._running.clear()
        for started in self._starting.values():
            if not started.done():
                started.set_exception(OSError("the process that starts servers died"))


@asynccontextmanager
async def open_warden() -> AsyncGenerator[Warden]:
    """A warden for the body; when it ends, so does every server."""
    warden = Warden()
    try:
        yield warden
    finally:
        warden.close()
        await warden.closed()


def _pipes() -> list[int]:
    """Three pipes, each its reading end first, or none."""
    ends: list[int] = []
    try:
        for _ in range(3):
            ends += os.pipe()
    except OSError:
        _close(ends)
        raise
    return ends


def _close(streams: list[int]) -> None:
    for stream in streams:
        os.close(stream)


class _Words(asyncio.Protocol):
    def __init__(self, process: Process) -> None:
        self._process = process

    def data_received(self, data: bytes) -> None:
        self._process.say(data)


class _PipeEnd:
    """Our end of a pipe, for a loop.

    The standard loop closes it as a file. uvloop closes its number, and then the file, too: in between a thread may
    have been given that number for something else, so that there is nothing to close here a second time.
    """

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        self._closed = type(loop).__module__.partition(".")[0] == "uvloop"

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._number)
