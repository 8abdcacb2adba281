"""Watches a server's program while it starts: what it prints, which programs it starts, whether it uses the network."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trunkline.upstream.process import Process, Warden
from trunkline.upstream.warden import descendants

KEPT = 64 * 1024
_BUSY = ("01", "02")
"""Connections that are open, or being opened, as the kernel writes it."""


@dataclass(frozen=True)
class Activity:
    """What a program was seen to do."""

    children: int = 0
    """Programs that it started."""
    connections: int = 0
    """Network connections of it and of those."""


class Witness:
    """What was seen of one start."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.activity = Activity()
        self._printed = bytearray()

    @property
    def stderr(self) -> str:
        """The end of its standard error."""
        return self.process.last_words if self.process is not None else ""

    @property
    def stray(self) -> str:
        """Lines of its standard output that are not messages of MCP."""
        *lines, rest = bytes(self._printed).split(b"\n")
        # The rest may be the beginning of a message whose end is still to come, or was not kept.
        strays = [line for line in lines if line.strip() and b'"jsonrpc"' not in line]
        strays += [rest] if rest.strip() and not rest.lstrip().startswith(b"{") else []
        return b"\n".join(strays).decode(errors="replace")

    def hear(self, data: bytes) -> None:
        """Keep the beginning of what it prints."""
        self._printed += data[: max(0, KEPT - len(self._printed))]

    async def look(self) -> None:
        """See what it does, again and again, until cancelled."""
        while True:
            await asyncio.sleep(0.5)
            if self.process is not None and not self.process.exited.done():
                self.activity = await asyncio.to_thread(activity_of, self.process.pid)


class WatchingWarden(Warden):
    """Starts servers as the gateway does; it is one of its kind, so that there is no second way to start them."""

    def __init__(self) -> None:
        super().__init__()
        self.witnesses: dict[str, Witness] = {}

    async def spawn(
        self,
        name: str,
        argv: list[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        output: Callable[[], asyncio.Protocol],
    ) -> Process:
        """Start one server, and keep what it prints."""
        witness = self.witness(name)
        process = await super().spawn(name, argv, env=env, cwd=cwd, output=lambda: _Tee(output(), witness))
        witness.process = process
        return process

    def witness(self, name: str) -> Witness:
        """What is seen of a server."""
        return self.witnesses.setdefault(name, Witness())


class _Tee(asyncio.Protocol):
    def __init__(self, inner: asyncio.Protocol, witness: Witness) -> None:
        self._inner, self._witness = inner, witness

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._witness.hear(data)
        self._inner.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)


def activity_of(pid: int) -> Activity:
    """What a program does now, as far as the kernel tells; nothing where there is no /proc."""
    below = descendants(pid)
    sockets = {inode for one in (pid, *below) for inode in sockets_of(one)}
    busy = sum(inode in sockets for _, state, inode in tcp_sockets() if state in _BUSY)
    return Activity(len(below), busy)


def sockets_of(pid: int) -> set[str]:
    """The inodes of a program's sockets."""
    found: set[str] = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def tcp_sockets() -> list[tuple[int, str, str]]:
    """Every TCP socket of this machine: its own port, its state, its inode."""
    found: list[tuple[int, str, str]] = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                found.append((int(words[1].rpartition(":")[2], 16), words[3], words[9]))
    return found
