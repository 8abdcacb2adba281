"""A terminal as it is: how wide, in which colours, and given back as it was found."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TextIO

from trunkline.untrusted import printable

CLEAR_BELOW = "\x1b[J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_COLOURS: Mapping[str, str] = {"ready": "32", "degraded": "33", "starting": "36", "stopped": "90"}
"""By the state of a server; as words, so that who prints a table need not load what servers are."""


def can_move(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Whether what was written to a stream can be overwritten: it is a terminal, and not a dumb one."""
    return stream.isatty() and env.get("TERM", "") not in ("", "dumb")


@dataclass(frozen=True)
class Style:
    """How things are emphasized; without colours, they are not."""

    colours: bool = False

    @classmethod
    def of(cls, stream: TextIO, env: Mapping[str, str]) -> Style:
        """As a stream can show it, and its reader wants it: https://no-color.org."""
        return cls(can_move(stream, env) and not env.get("NO_COLOR"))

    def state(self, state: str, line: str) -> str:
        """A line that begins with the mark of a server's state."""
        if not self.colours:
            return line
        return f"\x1b[{_COLOURS.get(state, '31')}m{line[:1]}\x1b[0m{line[1:]}"

    def head(self, line: str) -> str:
        """The head of a table."""
        return f"\x1b[1m{line}\x1b[0m" if self.colours and line else line

    def faint(self, line: str) -> str:
        """What matters less."""
        return f"\x1b[2m{line}\x1b[0m" if self.colours and line else line


def columns_of(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(sign) for sign in text)


def _columns(sign: str) -> int:
    return 0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def fit(text: str, width: int) -> str:
    """A text in one line of a terminal, cut where it does not fit; what would move the cursor is made visible."""
    text = printable(" ".join(text.split()) if "\n" in text else text)
    if columns_of(text) <= width:
        return text
    room, kept = width - 1, ""
    for sign in text:
        room -= _columns(sign)
        if room < 0:
            break
        kept += sign
    return kept + "…" if width > 0 else ""


def pad(text: str, width: int, *, right: bool = False) -> str:
    """A text made as wide as a column, cut or filled."""
    text = fit(text, width)
    space = " " * (width - columns_of(text))
    return space + text if right else text + space


class FullScreen:
    """The whole terminal for the body, which then is as it was."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._modes: list[Any] | None = None

    def __enter__(self) -> FullScreen:
        self.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def enter(self) -> None:
        """Take it; keys are read at once and not shown."""
        self._modes = quiet_keys(sys.stdin, at_once=True)
        self._write(_ENTER)

    def leave(self) -> None:
        """Give it back."""
        self._write(_LEAVE)
        restore_keys(sys.stdin, self._modes)
        self._modes = None

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return size_of(self._stream)

    def paint(self, lines: Sequence[str]) -> None:
        """Show these lines, each no wider than the terminal, in the place of all that is shown."""
        shown = lines[: self.size()[1]]
        self._write("\x1b[H" + "\r\n".join(f"\x1b[2K{line}" for line in shown) + CLEAR_BELOW)

    def _write(self, text: str) -> None:
        write_whole(self._stream, text)


def size_of(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of a terminal; the usual where it does not say."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except OSError:
        columns, lines = 0, 0
    return columns or 80, lines or 24


def write_whole(stream: TextIO, text: str) -> None:
    """Write at once what belongs together; signs that the terminal has not are shown as `?`."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def in_front(stream: TextIO) -> bool:
    """Whether the terminal is ours now; a command in the background must leave it alone."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except OSError:
        return False


def quiet_keys(keys: TextIO, *, at_once: bool = False, shown: bool = False) -> list[Any] | None:
    """Show no more what is typed, unless it is to be shown; gives what `restore_keys` needs, or `None` for nothing.

    What is given at once may have any length: a line that a terminal puts together ends at 4,096 bytes, on a Mac 1,024.
    """
    if not keys.isatty() or not in_front(keys):
        return None
    import termios

    before = termios.tcgetattr(keys)
    modes = termios.tcgetattr(keys)
    modes[3] &= ~((0 if shown else termios.ECHO) | (termios.ICANON if at_once else 0))
    termios.tcsetattr(keys, termios.TCSADRAIN, modes)
    return before


def restore_keys(keys: TextIO, modes: list[Any] | None) -> None:
    """Have it as it was."""
    if modes is None or not in_front(keys):
        return
    import termios

    termios.tcsetattr(keys, termios.TCSADRAIN, modes)
