"""Programs that download a server before they run it (npx, uvx): what they fetch, and whether they still do."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from trunkline.config.server import ServerSpec
from trunkline.upstream.warden import descendants, stat_of

RUNNERS = frozenset((
    "npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "bun", "uvx", "uv", "pipx", "docker", "podman", "deno",
))  # fmt: skip
"""Programs that may fetch a server before they run it."""

_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "fish", "env", "cmd", "nice"))
_PARENTS = frozenset(("npx", "npm", "pnpm", "pnpx", "yarn", "uvx", "uv"))
"""Runners that stay, as the parent of the server: without another program below them they have not come to it yet."""
_FIRST_WORDS = 3
"""Where a runner's own name is found: `python /shims/npx`, `npm exec …`, `uv tool uvx …`."""
_SHARING = frozenset(("docker", "podman"))
"""Runners whose daemon fetches once for all who want the same."""

_STEPS = frozenset(("exec", "x", "dlx", "run", "tool"))
_NAMED_BY = ("--package", "--from", "--spec")
_WITH_VALUE = frozenset((
    "--python", "--with", "--index", "--index-url", "--extra-index-url", "--default-index", "--registry", "--cache",
    "--cache-dir", "--directory", "--project", "--prefix", "--loglevel", "--userconfig", "--env-file", "--constraint",
))  # fmt: skip

_LEAST_TICKS, _LEAST_BYTES = 2, 1024
"""What a program that waits for us may well use between two looks, but one that fetches will exceed."""
_TURN = 0.25
"""Seconds between two looks at whether another process has done with a package."""


def runner_of(spec: ServerSpec) -> tuple[str, Sequence[str]]:
    """The program that may have to download the server first, and its arguments; an empty name if there is none."""
    words = [spec.command, *spec.args]
    if PurePath(spec.command).stem in _SHELLS:
        words = [part for word in words for part in word.split()]
    for at, word in enumerate(words):
        name = PurePath(word).stem
        if name in RUNNERS:
            return name, words[at + 1 :]
        if at == 0 and name not in _SHELLS:
            break
    return "", ()


def package_of(spec: ServerSpec) -> str:
    """What must not be fetched twice at once; empty when nothing is fetched, or somebody else sees to it."""
    runner, words = runner_of(spec)
    if not runner or runner in _SHARING:
        return ""
    named_by = (*_NAMED_BY, "-p") if runner in ("npx", "npm", "pnpm", "pnpx", "yarn", "bunx") else _NAMED_BY
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in named_by:
            return f"{runner} {value if equals else next(rest, '')}"
        if (option in _WITH_VALUE or option == "-p") and not equals:
            next(rest, "")
        elif not word.startswith("-") and word not in _STEPS:
            return f"{runner} {word}"
    return ""


@asynccontextmanager
async def turn_to_fetch(package: str) -> AsyncGenerator[None]:
    """The body alone fetches this package, among all processes of this user."""
    name = f"trunkline-{os.getuid()}-{hashlib.sha256(package.encode()).hexdigest()[:16]}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        lock = os.open(Path(tempfile.gettempdir(), name), flags, 0o600)
    except OSError:
        yield  # where nothing can be written, nobody else waits either
        return
    try:
        # A file that somebody else put there could keep us waiting for ever.
        while os.fstat(lock).st_uid == os.getuid() and not _locked(lock):  # noqa: ASYNC110 - others are processes
            await asyncio.sleep(_TURN)
        yield
    finally:
        os.close(lock)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


@dataclass(frozen=True)
class Work:
    """What a program and those below it have done since they started."""

    ticks: int = 0
    bytes: int = 0
    programs: frozenset[int] = frozenset()
    runner_alone: bool = False
    """Whatever runs is the runner itself."""


def still_fetches(runner: str, before: Work, now: Work) -> bool:
    """Whether a runner, by what it did between two looks, is still busy with the download, or with starting."""
    if runner in _PARENTS and now.runner_alone:
        return True
    return (
        now.programs != before.programs
        or abs(now.ticks - before.ticks) >= _LEAST_TICKS
        or abs(now.bytes - before.bytes) >= _LEAST_BYTES
    )


def work_of(pid: int) -> Work | None:
    """What a program has done, as far as the kernel tells; `None` where it tells nothing."""
    programs = (pid, *descendants(pid))
    ticks = count = 0
    known = False
    for one in programs:
        with suppress(OSError, ValueError, IndexError):
            # Two fields of its own time, two of children that ended.
            ticks += sum(map(int, stat_of(one)[11:15]))
            known = True
        with suppress(OSError, ValueError, IndexError):
            lines = Path(f"/proc/{one}/io").read_text().splitlines()
            count += sum(int(line.partition(":")[2]) for line in lines[:2])
    return Work(ticks, count, frozenset(programs), all(map(_is_runner, programs))) if known else None


def _is_runner(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").split()
    except OSError:
        return True  # it is gone
    return not RUNNERS.isdisjoint(PurePath(word).stem for word in words[:_FIRST_WORDS])
