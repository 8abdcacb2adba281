"""The command in this process: much faster than one of its own, where neither a terminal nor a shell is the point."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import pty
import sys
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest

from tests.harness import gateway
from trunkline.cli.main import main
from trunkline.config.reading import load
from trunkline.gateway.announcement import announced
from trunkline.gateway.serve import Gateway, open_gateway


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run(
    *words: str, env: Mapping[str, str], stdin: str | TextIO = "", cwd: Path | None = None, merged: bool = False
) -> Done:
    """Run one command to its end, with this environment, standard input and folder, by default the home.

    What is `merged` has its errors among its output, as `2>&1` has them.
    """
    given = stdin if not isinstance(stdin, str) else _stream(stdin)
    out = _stream()
    err = out if merged else _stream()
    with _environment(env), contextlib.chdir(cwd or env["HOME"]), _streams(given, out, err), _logging():
        code = _run(words)
    return Done(code, _text(out), "" if merged else _text(err))


def typed(*words: str, env: Mapping[str, str], answers: str) -> Done:
    """The same with somebody at the terminal, who types these lines."""
    near, far = pty.openpty()
    try:
        os.write(near, answers.encode())
        with open(far, closefd=False, encoding="utf-8") as terminal:
            return run(*words, env=env, stdin=terminal)
    finally:
        os.close(far)
        os.close(near)


@contextlib.contextmanager
def running_gateway(home: Path, servers: dict[str, Any], **options: Any) -> Generator[str]:
    """A gateway in a thread of this process, whose servers had their first try; its address."""
    started: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        async with gateway(home, servers, **options) as opened:
            loop, ended = asyncio.get_running_loop(), asyncio.Event()
            started.set_result((opened.url, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()

    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(asyncio.run, serve())
        served.add_done_callback(lambda ended: started.done() or started.set_exception(ended.exception()))
        url, end = started.result()
        try:
            yield url
        finally:
            end()


class Inside:
    """Runs commands with an environment and a current folder of their own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self._monkeypatch = monkeypatch
        for name in list(os.environ):
            if name.endswith(("_TOKEN", "_KEY", "_URL", "_PATH", "_HOST")) or name.startswith("TRUNKLINE"):
                monkeypatch.delenv(name)
        self.set(HOME=str(home), XDG_CONFIG_HOME=str(home / "c"), TRUNKLINE_HOME=str(home / "t"))
        monkeypatch.chdir(home)

    def set(self, **env: str) -> None:
        """Set variables."""
        for name, value in env.items():
            self._monkeypatch.setenv(name, value)

    def run(self, *words: str) -> Done:
        """Run one command to its end."""
        return run(*words, env=dict(os.environ), cwd=Path.cwd())


def _run(words: tuple[str, ...]) -> int:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _exit_code(words)
    # A test that is asynchronous has a loop already, and a command wants one of its own.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_exit_code, words).result()


def _exit_code(words: tuple[str, ...]) -> int:
    try:
        return main([*words])
    except SystemExit as ended:  # so argparse complains
        return ended.code if isinstance(ended.code, int) else 1


def _stream(text: str = "") -> TextIO:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)


def _text(stream: TextIO) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _environment(env: Mapping[str, str]) -> Generator[None]:
    before = dict(os.environ)
    _replace_environment(dict(env))
    try:
        yield
    finally:
        _replace_environment(before)


def _replace_environment(env: Mapping[str, str]) -> None:
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    os.environ.update(env)


@contextlib.contextmanager
def _streams(stdin: TextIO, stdout: TextIO, stderr: TextIO) -> Generator[None]:
    before = sys.stdin
    sys.stdin = stdin
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            yield
    finally:
        sys.stdin = before


@contextlib.contextmanager
def _logging() -> Generator[None]:
    """As in a process that begins: whoever listens to the log already keeps a command from setting it up."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)


@contextlib.contextmanager
def announced_gateway(source: Path, env: Mapping[str, str]) -> Generator[Gateway]:
    """The gateway that `trunkline up --config SOURCE` would be, in a thread of this process, its servers ready."""
    started: Future[tuple[Gateway, Callable[[], object]]] = Future()
    config = load(source if source.exists() else None, env=env)

    async def serve() -> None:
        async with (
            open_gateway(config) as opened,
            announced(config.home, source, opened.url.removesuffix("/mcp"), opened.key),
        ):
            await opened.hub.ready(10)
            loop, ended = asyncio.get_running_loop(), asyncio.Event()
            started.set_result((opened, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()

    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(asyncio.run, serve())
        served.add_done_callback(lambda ended: started.done() or started.set_exception(ended.exception()))
        opened, end = started.result()
        try:
            yield opened
        finally:
            end()
