"""Asks a person at a terminal, without stopping the program meanwhile."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from trunkline.questions.answers import check_answer, check_field
from trunkline.questions.fields import FileReference, FormField, Secret
from trunkline.questions.keyboard import Keyboard, Left, plain, prompt_of, read_typed
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
            except Left:
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
