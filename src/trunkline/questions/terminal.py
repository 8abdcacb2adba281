"""Asks a person at a terminal, without stopping the program meanwhile."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO
from urllib.parse import urlsplit

from trunkline.questions.answers import check_answer, check_field
from trunkline.questions.fields import FileReference, FormField, Secret
from trunkline.questions.kinds import (
    ConfirmationRequest,
    Elicitation,
    ElicitationResponse,
    FileRequest,
    FormRequest,
    TextRequest,
    UrlRequest,
    sole_field,
)
from trunkline.workers import in_thread

ATTEMPTS = 3
"""How often a person may try one answer."""


class TerminalHandler:
    """A handler that asks one question after the other; Ctrl-C or the end of input leaves a question."""

    def __init__(
        self,
        input: TextIO | None = None,
        output: TextIO | None = None,
        *,
        read_secret: Callable[[str], str] = getpass.getpass,
    ) -> None:
        self._input = input or sys.stdin
        self._output = output or sys.stderr
        self._read_secret = read_secret
        self._typist = Keyboard(self._input)
        self._turn = asyncio.Lock()

    async def __call__(self, request: Elicitation) -> ElicitationResponse:
        """Ask; where the input is not a terminal, nobody is there to answer."""
        if not self._input.isatty():
            return ElicitationResponse(request.id, error="Nobody can be asked: the input is not a terminal.")
        async with self._turn:
            try:
                if self._typist.busy:
                    self._say("The last question is over. Press Enter for the next.")
                    await self._typist.finish()
                return await self._ask(request)
            except PersonLeftError:
                self._say("")
                return ElicitationResponse(request.id, cancelled=True, error="The person left the question.")

    async def _ask(self, request: Elicitation) -> ElicitationResponse:
        asker = " of ".join(part for part in (request.tool_name, request.server_id) if part not in ("", "unknown"))
        # Further lines are indented, lest a server's text pass for ours.
        self._say((f"{asker} asks: " if asker else "") + request.message.replace("\n", "\n  "))
        if isinstance(request, FormRequest):
            return await self._ask_form(request)
        if isinstance(request, FileRequest):
            return _response(request, await self._ask_files(request))
        if isinstance(request, TextRequest) and request.multiline:
            self._say("End with a line that is a single dot.")
            return _response(
                request, await self._tried(self._lines, lambda given: check_answer(request, given).problems)
            )
        return _response(request, await self._ask_field(self._only_field(request)))

    def _only_field(self, request: Elicitation) -> FormField:
        if isinstance(request, UrlRequest):
            self._say(f"The address is at {urlsplit(request.url).hostname}: {request.url}")
            return FormField("", "Will you go there?", "boolean", True)
        field = sole_field(request)
        assert field is not None
        if isinstance(request, ConfirmationRequest):
            label = f"{request.confirm_label} (or: {request.cancel_label})?"
            return replace(field, name="", label=label, default_value=request.default_value)
        return replace(field, name="", label="Answer")

    async def _ask_form(self, request: FormRequest) -> ElicitationResponse:
        answers: dict[str, Any] = {}
        for field in request.fields:
            answers[field.name] = await self._ask_field(field)
            if answers[field.name] is None and field.required:
                return _response(request, None)
        sent = await self._ask_field(FormField("", f"{request.submit_label}?", "boolean", True, default_value=True))
        return _response(request, answers) if sent else ElicitationResponse(request.id, declined=True)

    async def _ask_field(self, field: FormField) -> Any:
        """The answer to one field; `None` when there is none, or none that fits."""
        for at, option in enumerate(field.options, 1):
            about = "not available" if option.disabled else option.description
            self._say(f"  {at}. {option.title}" + (f" ({about})" if about else ""))

        async def read() -> Any:
            if field.type == "password":
                return await self._secret(prompt_of(field)) or field.default_value
            return read_typed(field, await self._line(prompt_of(field)))

        return await self._tried(read, lambda given: check_field(field, given, field.title).problems)

    async def _ask_files(self, request: FileRequest) -> tuple[FileReference, ...] | None:
        async def read() -> tuple[FileReference, ...] | None:
            paths = [await self._line("Path: ")]
            while request.multiple and paths[-1]:
                paths.append(await self._line("Another path, or nothing: "))
            return await asyncio.to_thread(_looked_up, [path for path in paths if path]) or None

        return await self._tried(read, lambda given: check_answer(request, given).problems)

    async def _tried(self, read: Callable[[], Awaitable[Any]], problems: Callable[[Any], tuple[str, ...]]) -> Any:
        for _ in range(ATTEMPTS):
            given = await read()
            found = problems(given)
            if not found:
                return given
            self._say(" ".join(found))
        return None

    async def _lines(self) -> str:
        lines: list[str] = []
        while (line := await self._line("")) != ".":
            lines.append(line)
        return "\n".join(lines)

    async def _line(self, prompt: str) -> str:
        self._output.write(plain(prompt))
        self._output.flush()
        return await self._typist.line()

    async def _secret(self, prompt: str) -> Secret | None:
        return await self._typist.secret(lambda: self._read_secret(plain(prompt)))

    def _say(self, text: str) -> None:
        self._output.write(plain(text) + "\n")
        self._output.flush()


def _response(request: Elicitation, value: Any) -> ElicitationResponse:
    if value is None and not request.optional:
        return ElicitationResponse(request.id, error="No answer that fits was given.")
    return ElicitationResponse(request.id, responded=True, value=value)


def _looked_up(paths: list[str]) -> tuple[FileReference, ...]:
    """The files at these paths; none at all where one is missing."""
    found = [Path(path).expanduser() for path in paths]
    if not all(path.is_file() for path in found):
        return ()
    return tuple(FileReference(path.name, path=str(path), size=path.stat().st_size) for path in found)


try:
    import termios
except ImportError:  # Windows
    termios = None


class PersonLeftError(Exception):
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
        """The next line; `PersonLeftError` when the person left."""
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
            raise PersonLeftError from None
        if error is not None:
            raise error
        return value

    async def _wait(self, reading: asyncio.Future[Any]) -> None:
        interrupted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with _on_interrupt(interrupted):
            await asyncio.wait([reading, interrupted], return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise PersonLeftError


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
