"""A window of a terminal: what a command shows in it after every escape sequence, and what a person types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pyte

from tests.harness import TRUNKLINE

# The terminal must be the one that controls the command, else Ctrl-C reaches nobody.
_OWN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
CTRL_C, CTRL_Z = "\x03", "\x1a"


class Window:
    """What is seen, and what may be typed."""

    def __init__(self, near: int, process: subprocess.Popen[bytes], columns: int, lines: int) -> None:
        self._near, self._process = near, process
        self._screen: Any = pyte.Screen(columns, lines)
        self._stream: Any = pyte.ByteStream(self._screen)
        self.raw = b""
        self.columns = columns
        self.resize(columns, lines)

    @property
    def lines(self) -> list[str]:
        """The lines that are not empty, from the top."""
        shown: list[str] = [line.rstrip() for line in self._screen.display]
        return [line for line in shown if line]

    @property
    def text(self) -> str:
        """All that is seen."""
        return "\n".join(self.lines)

    def wait(self, what: str | Callable[[Window], bool], seconds: float = 30.0) -> Window:
        """Until a text is seen, or something is so."""
        until = time.monotonic() + seconds
        while not (what in self.text if isinstance(what, str) else what(self)):
            if time.monotonic() > until or not self._read():
                raise AssertionError(f"{what!r} was not seen in:\n{self.text}")
        return self

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._near, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Make the window another size; the command is told."""
        cut = max(self._screen.lines - lines, 0)
        self._screen.resize(lines, columns)
        self._screen.cursor.y = max(self._screen.cursor.y - cut, 0)  # which pyte forgets when it cuts lines at the top
        self.columns = columns
        fcntl.ioctl(self._near, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def signal(self, number: signal.Signals) -> None:
        """Send the command a signal."""
        self._process.send_signal(number)

    def ended(self, seconds: float = 30.0) -> int:
        """Wait for the command's end; its exit code."""
        until = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < until:
            self._read()
        while self._read(0.0):
            pass
        return self._process.wait(1)

    def stopped(self) -> bool:
        """Whether the command was paused."""
        with open(f"/proc/{self._process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    @property
    def other_screen(self) -> bool:
        """Whether the command has the screen for itself, above what a shell wrote."""
        return self.raw.rfind(b"\x1b[?1049h") > self.raw.rfind(b"\x1b[?1049l")

    @property
    def cursor_shown(self) -> bool:
        """Whether a person sees where they type."""
        return not self._screen.cursor.hidden

    @property
    def echoes(self) -> bool:
        """Whether what is typed is shown, a line at a time, as in any shell."""
        return echoes(self._near)

    def _read(self, seconds: float = 0.2) -> bool:
        if not select.select([self._near], [], [], seconds)[0]:
            return seconds > 0
        try:
            read = os.read(self._near, 65536)
        except OSError:
            return False  # the command ended, and with it the terminal
        self.raw += read
        self._stream.feed(read)
        return bool(read)


def echoes(terminal: int) -> bool:
    """Whether a terminal shows what is typed, and gives it to a command a line at a time."""
    wanted = termios.ECHO | termios.ICANON
    return termios.tcgetattr(terminal)[3] & wanted == wanted


@contextmanager
def window(
    *words: str, env: dict[str, str], columns: int = 100, lines: int = 30, program: str = TRUNKLINE
) -> Generator[Window]:
    """A command in a window of its own; if it, or what it started there, still runs afterwards, it is ended."""
    near, far = pty.openpty()
    keeper = os.dup(far)  # so that what the terminal was left as can be seen
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", _OWN, program, *words],
        env={"TERM": "xterm-256color", **env},
        cwd=env["HOME"],
        stdin=far,
        stdout=far,
        stderr=far,
        start_new_session=True,
    )
    os.close(far)
    try:
        yield Window(near, process, columns, lines)
    finally:
        # A terminal that is closed would end them as well, but not under nohup.
        for pid in in_session(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        while in_session(process.pid):
            pass  # they are being ended
        os.close(near)
        os.close(keeper)


def in_session(leader: int) -> list[int]:
    """Every process of a terminal's session that lives."""
    found: list[int] = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found
