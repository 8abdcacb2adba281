"""Starts that are interrupted, and starts that fail: only the server that fails is any the worse for it."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import uvloop

from trunkline.errors import UnreachableError
from trunkline.upstream.process import Process, Warden, open_warden

FILES = resource.RLIMIT_NOFILE
BIG = {f"PART{number}": "x" * 100_000 for number in range(12)}
"""More than a socket takes at once, and less than the kernel allows."""

CLOSE = """
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
int close(int number) {
    int result = syscall(SYS_close, number);
    if (result < 0 && errno == EBADF) {
        syscall(SYS_write, 2, "closed twice\\n", 13);
        errno = EBADF;
    }
    return result;
}
"""
"""Stands before the system's own, and says what nobody else would."""

STARTS = """
import asyncio, os, sys, uvloop
from trunkline.upstream.process import open_warden

async def main():
    async with open_warden() as warden:
        for turns in (0, 1, 2, 3, 1000):
            starting = asyncio.ensure_future(
                warden.spawn("one", ["cat"], env={"PATH": os.defpath}, cwd="", output=asyncio.Protocol)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            if turns < 1000:
                starting.cancel()
                await asyncio.wait([starting])
            else:
                await (await starting).end()
    print("ended")

loop = uvloop.new_event_loop if sys.argv[1] == "uvloop" else asyncio.new_event_loop
with asyncio.Runner(loop_factory=loop) as runner:
    runner.run(main())
"""
"""Starts that are interrupted, and one that is not."""


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("turns", range(6))
def test_a_start_can_be_interrupted_at_any_moment(
    turns: int, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def interrupted() -> None:
        async with open_warden() as warden:
            start = asyncio.ensure_future(
                warden.spawn("one", ["cat"], env={"PATH": os.defpath}, cwd="", output=asyncio.Protocol)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            start.cancel()
            with pytest.raises(asyncio.CancelledError):
                await start
            assert warden.running == 0

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(interrupted())


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_nothing_is_closed_twice(loop: str, tmp_path: Path) -> None:
    # By the second time a thread, such as one of the sandbox, may have been given the number for something else.
    source, library = tmp_path / "close.c", tmp_path / "close.so"
    source.write_text(CLOSE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    script = tmp_path / "starts.py"
    script.write_text(STARTS)

    ran = subprocess.run(
        [sys.executable, script, loop],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (ran.stdout, ran.stderr) == ("ended\n", "")


async def test_a_warden_without_room_for_files_fails_one_start_and_goes_on() -> None:
    async with one_and_its_warden() as (warden, one):
        pid = _parent(one.pid)
        used, before = _open_files(pid), resource.prlimit(pid, FILES)
        failures: list[UnreachableError] = []
        for spare in range(10):
            resource.prlimit(pid, FILES, (used + spare, before[1]))
            try:
                await (await spawn(warden)).end()
            except UnreachableError as error:
                failures.append(error)
        resource.prlimit(pid, FILES, before)

        assert 4 < len(failures) < 10  # three streams and a pipe are the least that a start needs
        assert {str(one).partition(".")[0] for one in failures} == {
            "Server 'two' cannot be started: Too many open files"
        }
        assert all("ulimit" in one.hint for one in failures)
        assert _open_files(pid) == used
        await (await spawn(warden)).end()
        assert await echoed(one)


async def test_a_gateway_without_room_for_files_fails_one_start_and_goes_on() -> None:
    async with one_and_its_warden() as (warden, one):
        used, failed = _open_files(os.getpid()), 0
        for spare in range(8):
            with room_for_files(spare):
                try:
                    await (await spawn(warden)).end()
                except UnreachableError as error:
                    failed += "Too many open files" in str(error)
            await asyncio.sleep(0)

        assert failed >= 4
        assert await echoed(one)
        assert _open_files(os.getpid()) == used


async def test_a_gateway_without_room_for_files_cannot_start_the_warden_but_later_can() -> None:
    async with open_warden() as warden:
        used = _open_files(os.getpid())
        for spare in range(4):
            with room_for_files(spare), pytest.raises(UnreachableError, match="Too many open"):
                await spawn(warden)

        assert _open_files(os.getpid()) == used
        assert await echoed(await spawn(warden))


async def test_servers_with_large_environments_start_all_at_once() -> None:
    async with one_and_its_warden() as (warden, one):
        many = await asyncio.gather(*[spawn(warden, BIG) for _ in range(8)])

        assert all(await asyncio.gather(*map(echoed, [*many, one])))


async def test_an_environment_that_the_kernel_refuses_fails_that_server_alone() -> None:
    async with one_and_its_warden() as (warden, one):
        with pytest.raises(UnreachableError, match="Argument list too long"):
            await spawn(warden, {"ONE": "x" * 5_000_000})
        with pytest.raises(UnreachableError, match="null byte"):
            await spawn(warden, {"ONE": "a\0b"})

        assert await echoed(await spawn(warden))
        assert await echoed(one)


@asynccontextmanager
async def one_and_its_warden() -> AsyncGenerator[tuple[Warden, Process]]:
    async with open_warden() as warden:
        yield warden, await spawn(warden)


async def spawn(warden: Warden, env: Mapping[str, str] = {}) -> Process:
    """A server that says what it is told."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    process = await warden.spawn("two", ["cat"], env={"PATH": os.defpath, **env}, cwd="", output=lambda: _Heard(heard))
    HEARD[process] = heard
    return process


HEARD: dict[Process, asyncio.Queue[bytes]] = {}


async def echoed(process: Process) -> bool:
    """Whether a server still answers."""
    assert process.stdin is not None
    process.stdin.write(b"hello")
    async with asyncio.timeout(10):
        return await HEARD[process].get() == b"hello"


class _Heard(asyncio.Protocol):
    def __init__(self, heard: asyncio.Queue[bytes]) -> None:
        self.heard = heard

    def data_received(self, data: bytes) -> None:
        self.heard.put_nowait(data)


@contextmanager
def room_for_files(spare: int) -> Generator[None]:
    """Let this process open so many files more."""
    before = resource.getrlimit(FILES)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = [os.open(os.devnull, os.O_RDONLY)]
    while fillers[-1] < highest:
        fillers.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(FILES, (fillers[-1] + 1 + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(FILES, before)
        for filler in fillers:
            os.close(filler)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd")) - (pid == os.getpid())  # without the one that looks
