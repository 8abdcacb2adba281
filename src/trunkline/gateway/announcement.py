"""The file in which a running gateway says where it is, so that commands with the same configuration use it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from trunkline.storage.files import try_replace_file
from trunkline.version import __version__

log = logging.getLogger("trunkline")

FOLDER = "gateways"
AGAIN = 1.0
"""Seconds after which a gateway tries again to announce itself, while another of the same configuration runs."""


@dataclass(frozen=True)
class Announcement:
    """Where a gateway is, and how commands of the same user are let in."""

    address: str
    """Such as `http://127.0.0.1:7420`."""
    key: str = field(repr=False)
    version: str
    digest: str
    """Of the configuration as the gateway took it on last."""


def digest_of(source: Path) -> str:
    """What tells one content of a configuration from another; empty where there is no file yet."""
    try:
        return hashlib.sha256(source.read_bytes()).hexdigest()
    except OSError:
        return ""


def find_announcement(home: Path, source: Path) -> Announcement | None:
    """The gateway that serves this file now; `None` when none does."""
    try:
        import fcntl
    except ImportError:  # Windows, where the gateway does not run
        return None
    file = _file(home, source)
    try:
        with open(file.with_suffix(".lock"), "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # its gateway lives
                return Announcement(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        pass
    return None  # none ever ran, or it ended without a word: the lock went with it


@asynccontextmanager
async def announced(home: Path, source: Path, address: str, key: str) -> AsyncGenerator[Callable[[str], None]]:
    """Announce a gateway for the body, which says whenever it has taken on another content of the file.

    Of several gateways with one configuration the first is announced, and when it ends, the next.
    """
    import asyncio  # who only looks for a gateway needs no loop

    from trunkline.tasks import open_tasks

    file = _file(home, source)
    told = Announcement(address, key, __version__, digest_of(source))
    held: list[int] = []

    def tell(digest: str) -> None:
        nonlocal told
        told = Announcement(address, key, __version__, digest)
        if held:
            try_replace_file(file, json.dumps(asdict(told)).encode())

    async def announce() -> None:
        while not held:
            lock = _lock(file.with_suffix(".lock"))
            if lock is not None:
                held.append(lock)
                tell(told.digest)
            else:
                await asyncio.sleep(AGAIN)

    async with open_tasks() as tasks:
        try:
            tasks.start(announce(), name="announcement")
            await asyncio.sleep(0)  # so that it is announced before anybody is told that it listens
            yield tell
        finally:
            for lock in held:
                file.unlink(missing_ok=True)
                os.close(lock)


def _lock(path: Path) -> int | None:
    """The lock, which ends with this process however that ends; `None` while another has it, or none can be had."""
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        log.debug("Commands will not find this gateway: %s", error)
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except OSError:
        os.close(lock)
        return None


def _file(home: Path, source: Path) -> Path:
    name = hashlib.sha256(os.path.realpath(source).encode(errors="surrogateescape")).hexdigest()[:32]
    return home / FOLDER / f"{name}.json"
