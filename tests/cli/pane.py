"""A shell in a pane of tmux: the same as a shell in a `Window`, with a terminal that people use."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.cli.window import echoes, window

PROMPT = "ready> "


class Shell(Protocol):
    """A shell in a terminal, as a person has it before them."""

    raw: bytes
    """All that was written to the terminal so far."""

    @property
    def lines(self) -> list[str]:
        """The lines that are not empty, from the top."""
        ...

    @property
    def text(self) -> str:
        """All that is seen."""
        ...

    @property
    def other_screen(self) -> bool:
        """Whether the command has the screen for itself, above what the shell wrote."""
        ...

    @property
    def cursor_shown(self) -> bool:
        """Whether a person sees where they type."""
        ...

    @property
    def echoes(self) -> bool:
        """Whether what is typed is shown, a line at a time, as in any shell."""
        ...

    def wait(self, what: str | Callable[[Shell], bool]) -> Shell:
        """Until a text is seen, or something is so."""
        ...

    def type(self, keys: str) -> None:
        """Press keys."""
        ...

    def resize(self, columns: int, lines: int) -> None:
        """Make the window another size."""
        ...


class Pane:
    """A `Shell` in tmux."""

    def __init__(self, socket: Path, written: int) -> None:
        self._socket, self._written = socket, written
        self.raw = b""

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._tmux("capture-pane", "-p").splitlines() if line.strip()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def other_screen(self) -> bool:
        return self._told("alternate_on") == "1"

    @property
    def cursor_shown(self) -> bool:
        return self._told("cursor_flag") == "1"

    @property
    def echoes(self) -> bool:
        terminal = os.open(self._told("pane_tty"), os.O_RDONLY | os.O_NOCTTY)
        try:
            return echoes(terminal)
        finally:
            os.close(terminal)

    def wait(self, what: str | Callable[[Shell], bool], seconds: float = 30.0) -> Pane:
        until = time.monotonic() + seconds
        while not (what in self.text if isinstance(what, str) else what(self)):
            if time.monotonic() > until:
                raise AssertionError(f"{what!r} was not seen in:\n{self.text}")
            # tmux tells of nothing but what is written, and a size may change without that.
            if select.select([self._written], [], [], 0.2)[0]:
                self.raw += os.read(self._written, 65536)
        return self

    def type(self, keys: str) -> None:
        self._tmux("send-keys", "-H", *(f"{byte:02x}" for byte in keys.encode()))

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def _told(self, what: str) -> str:
        return self._tmux("display-message", "-p", f"#{{{what}}}").strip()

    def _tmux(self, *words: str) -> str:
        return _tmux(self._socket, *words)


@contextmanager
def shell(*, env: dict[str, str], columns: int = 80, lines: int = 24, tmux: bool) -> Generator[Shell]:
    """A shell, in tmux or in an emulator; it ends afterwards, and what it runs with it."""
    # A plain sh, because others mend a terminal that a command left in disorder.
    env = {**env, "PS1": PROMPT, "LC_ALL": "C.UTF-8"}
    if tmux:
        with pane(env=env, columns=columns, lines=lines) as made:
            yield made
    else:
        with window("-i", program="sh", env=env, columns=columns, lines=lines) as made:
            yield made.wait(PROMPT.strip())


@contextmanager
def pane(*, env: dict[str, str], columns: int, lines: int) -> Generator[Pane]:
    """A pane with a shell, of a tmux that nobody else uses."""
    env = {name: value for name, value in env.items() if name not in ("TMUX", "TMUX_PANE", "ENV")}
    with tempfile.TemporaryDirectory(prefix="tmux") as folder:  # its socket needs a short path
        socket, pipe = Path(folder) / "s", Path(folder) / "p"
        os.mkfifo(pipe)
        written = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        try:
            size = ("-x", str(columns), "-y", str(lines))
            # Words of their own: given one, tmux has it run by another shell, which forgets the prompt.
            _tmux(socket, "new-session", "-d", *size, "-c", env["HOME"], "--", "sh", "-i", env=env)
            _tmux(socket, "pipe-pane", "-O", f"exec cat > {pipe}")
            yield Pane(socket, written).wait(PROMPT.strip())
        finally:
            _tmux(socket, "kill-server")
            os.close(written)


def _tmux(socket: Path, *words: str, env: dict[str, str] | None = None) -> str:
    words = ("tmux", "-u", "-f", "/dev/null", "-S", str(socket), *words)
    return subprocess.run(words, env=env, check=True, capture_output=True, text=True, timeout=30).stdout
