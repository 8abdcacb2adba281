"""What a person types: read in a thread, so that the loop lives, and read as what a field wants."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import unicodedata
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

from trunkline.questions.fields import FormField, Secret
from trunkline.workers import in_thread

try:
    import termios
except ImportError:  # Windows
    termios = None


class Left(Exception):
    """The person left, by Ctrl-C or the end of input."""


class Keyboard:
    """Reads one line at a time; a reading that was given up goes on, and must `finish` before the next."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._reading: asyncio.Future[tuple[Any, BaseException | None]] | None = None

    @property
    def busy(self) -> bool:
        """Whether a reading that was given up still waits for a line."""
        return self._reading is not None and not self._reading.done()

    async def finish(self) -> None:
        """Wait for its line, and drop it: it was typed for a question that is over."""
        if self._reading is not None:
            await self._wait(self._reading)

    async def line(self) -> str:
        """The next line; `Left` when the person left."""
        return await self._read(lambda: _next_line(self._stream))

    async def secret(self, read: Callable[[], str]) -> Secret | None:
        """What `read` reads unseen; `None` for an empty line."""
        # Wrapped in the thread already: a future shows its result in logs.
        with _echo_restored(self._stream):
            return await self._read(lambda: Secret(text) if (text := read()) else None)

    async def _read(self, read: Callable[[], Any]) -> Any:
        self._reading = in_thread(lambda: _attempted(read))
        await self._wait(self._reading)
        value, error = self._reading.result()
        if isinstance(error, EOFError | KeyboardInterrupt):
            raise Left from None
        if error is not None:
            raise error
        return value

    async def _wait(self, reading: asyncio.Future[Any]) -> None:
        interrupted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with _on_interrupt(interrupted):
            await asyncio.wait([reading, interrupted], return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise Left


def read_typed(field: FormField, line: str) -> Any:
    """What a line means for a field, and the line itself when it means nothing to it."""
    if not line.strip():
        return [] if field.type == "multiselect" and field.default_value is None else field.default_value
    word = line.strip()
    match field.type:
        case "boolean":
            return {"y": True, "yes": True, "n": False, "no": False}.get(word.lower(), word)
        case "number" | "integer":
            with suppress(ValueError):
                return float(word) if any(mark in word for mark in ".eE") else int(word)
            return word
        case "select":
            return _option(field, word)
        case "multiselect":
            return [_option(field, part.strip()) for part in word.split(",") if part.strip()]
        case "date":
            return word
        case "text" | "password":
            return line


def prompt_of(field: FormField) -> str:
    """What stands before the cursor."""
    about = field.description or field.placeholder
    text = field.title + (f" ({about})" if about else "")
    match field.type:
        case "boolean":
            choices = {True: "Y/n", False: "y/N"}.get(field.default_value, "y/n")
            return f"{text} [{choices}] "
        case "select":
            text += ", by number"
        case "multiselect":
            text += ", by numbers, with commas between"
        case _:
            pass
    if field.default_value is not None and field.type != "password":
        text += f" [{field.default_value}]"
    return f"{text}: "


def plain(text: str) -> str:
    """A text without what could steer the terminal or turn its direction."""
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs"))


def _option(field: FormField, word: str) -> str:
    """The value of the option at a number, or the word."""
    if word.isdecimal() and 0 < int(word) <= len(field.options):
        return field.options[int(word) - 1].value
    return word


def _next_line(stream: TextIO) -> str:
    descriptor = _descriptor(stream)
    if descriptor is None:
        line = stream.readline()
    else:
        # Not through the stream: its lock, held by a thread that waits, would stop the interpreter from ending.
        line = _read_descriptor(descriptor).decode(stream.encoding or "utf-8", "replace")
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def _read_descriptor(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(descriptor, 4096)
        if not more:
            break
        line += more
    return line


def _attempted(read: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return read(), None
    except BaseException as error:  # noqa: BLE001  it is raised where the reading is awaited, if anybody does
        return None, error


@contextmanager
def _on_interrupt(interrupted: asyncio.Future[None]) -> Generator[None]:
    """Ctrl-C ends the waiting, and not the program; only the main thread can see to that."""
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(lambda: interrupted.done() or interrupted.set_result(None))

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


@contextmanager
def _echo_restored(stream: TextIO) -> Generator[None]:
    """A secret that is given up must not leave the terminal blind."""
    descriptor = _descriptor(stream)
    if termios is None or descriptor is None or not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError):  # a stream of a program's own has none
        return None
