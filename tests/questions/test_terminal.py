"""A person at a terminal is asked every kind of question, while the program goes on."""

from __future__ import annotations

import asyncio
import io
import os
import queue
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trunkline.questions.fields import FieldValidation, FormField, Secret, SelectOption
from trunkline.questions.kinds import (
    ConfirmationRequest,
    Elicitation,
    ElicitationResponse,
    FileRequest,
    FormRequest,
    MultiselectRequest,
    SecretRequest,
    SelectRequest,
    TextRequest,
    UrlRequest,
)
from trunkline.questions.manager import ElicitationManager
from trunkline.questions.mcp import answer_to_mcp
from trunkline.questions.terminal import TerminalHandler

OPTIONS = (SelectOption("dev", "Development"), SelectOption("prod", disabled=True), SelectOption("test"))


class Keyboard(io.StringIO):
    """Lines that were typed beforehand."""

    def isatty(self) -> bool:
        return True


class Slow(Keyboard):
    """Lines that are typed when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.typed: queue.Queue[str] = queue.Queue()
        self.reads = 0
        self.loop = asyncio.get_running_loop()
        self.waits = asyncio.Event()

    def readline(self, size: int | None = -1, /) -> str:
        self.reads += 1
        self.loop.call_soon_threadsafe(self.waits.set)
        return self.typed.get(timeout=5)


class Screen(io.StringIO):
    """What is shown, for those who wait to see something."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def write(self, text: str, /) -> int:
        self._changed.set()
        return super().write(text)

    async def shows(self, text: str) -> None:
        """Return when the text is there."""
        while text not in self.getvalue():
            self._changed.clear()
            await self._changed.wait()


def typed_unseen(prompt: str) -> str:
    """What is typed where nobody sees it."""
    return "hunter2"


async def answer(
    request: Elicitation, typed: str, read_secret: Callable[[str], str] = typed_unseen
) -> ElicitationResponse:
    """What comes of a question when this is typed."""
    manager = ElicitationManager(handler=TerminalHandler(Keyboard(typed), io.StringIO(), read_secret=read_secret))
    async with asyncio.timeout(5):
        return await manager.request(request)


@pytest.mark.parametrize(
    ("request_", "typed", "value"),
    [
        (ConfirmationRequest("Delete?"), "y\n", True),
        (ConfirmationRequest("Delete?"), "NO\n", False),
        (ConfirmationRequest("Delete?"), "perhaps\nyes\n", True),
        (ConfirmationRequest("Delete?", default_value=False), "\n", False),
        (TextRequest("Name?"), " Ana \n", " Ana "),
        (TextRequest("Name?", default_value="untitled"), "\n", "untitled"),
        (TextRequest("Name?", min_length=3), "An\nAna\n", "Ana"),
        (TextRequest("Poem?", multiline=True), "Roses\n\nred\n.\n", "Roses\n\nred"),
        (SelectRequest("Where?", options=OPTIONS), "3\n", "test"),
        (SelectRequest("Where?", options=OPTIONS), "dev\n", "dev"),
        (SelectRequest("Where?", options=OPTIONS), "2\n9\n1\n", "dev"),
        (MultiselectRequest("Where?", options=OPTIONS), "1, 3\n", ["dev", "test"]),
        (MultiselectRequest("Where?", options=OPTIONS), "\n", []),
        (TextRequest("Name?", optional=True), "\n", None),
        (UrlRequest("Pay", url="https://example.org/pay"), "y\n", True),
        (UrlRequest("Pay", url="https://example.org/pay"), "n\n", False),
    ],
)
async def test_what_is_typed_is_the_answer(request_: Elicitation, typed: str, value: object) -> None:
    response = await answer(request_, typed)

    assert (response.responded, response.value, response.error) == (True, value, "")


async def test_a_form_is_asked_field_by_field_and_then_sent() -> None:
    form = FormRequest(
        "Deploy",
        fields=(
            FormField("region", type="select", required=True, options=OPTIONS),
            FormField("replicas", type="integer", default_value=3, validation=FieldValidation(1, 9)),
            FormField("share", type="number"),
            FormField("notify", type="boolean"),
            FormField("day", type="date"),
            FormField("word", type="password"),
        ),
    )

    typed = "1\n12\n\n0.5\ny\n2025-12-31\n\n"
    response = await answer(form, typed)

    assert response.value == {
        "region": "dev",
        "replicas": 3,
        "share": 0.5,
        "notify": True,
        "day": "2025-12-31",
        "word": Secret("hunter2"),
    }


async def test_a_form_that_is_not_sent_is_declined() -> None:
    form = FormRequest("Deploy", fields=(FormField("name"),))

    response = await answer(form, "Ana\nn\n")

    assert (response.responded, response.declined, response.value) == (False, True, None)
    assert answer_to_mcp(response, form) == {"action": "decline"}


async def test_a_secret_is_read_unseen() -> None:
    output = io.StringIO()
    manager = ElicitationManager(handler=TerminalHandler(Keyboard(), output, read_secret=typed_unseen))

    assert await manager.get_secret("Key?") == Secret("hunter2")
    assert "hunter2" not in output.getvalue()


async def test_files_are_looked_up(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1,2")

    one = await answer(FileRequest("Which?", accept=(".csv",), max_size=3), f"{tmp_path}/nothing.csv\n{file}\n")
    two = await answer(FileRequest("Which?", multiple=True), f"{file}\n{file}\n\n")

    assert [(found.name, found.size) for found in one.value] == [("a.csv", 3)]
    assert len(two.value) == 2


async def test_after_some_attempts_there_is_no_answer() -> None:
    response = await answer(SelectRequest("Where?", options=OPTIONS), "x\nx\nx\n1\n")

    assert not response.responded
    assert response.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, EOFError])
async def test_leaving_a_secret_cancels_it(error: type[BaseException]) -> None:
    def read_secret(prompt: str) -> str:
        raise error

    response = await answer(SecretRequest("Key?"), "", read_secret=read_secret)

    assert (response.responded, response.cancelled) == (False, True)


async def test_the_end_of_input_cancels_the_question() -> None:
    response = await answer(ConfirmationRequest("Delete?", default_value=True), "")

    assert (response.responded, response.cancelled) == (False, True)


async def test_where_there_is_no_terminal_nobody_is_asked() -> None:
    output = io.StringIO()
    manager = ElicitationManager(handler=TerminalHandler(io.StringIO("y\n"), output))

    response = await manager.request(ConfirmationRequest("Delete?"))

    assert not response.responded
    assert "terminal" in response.error
    assert output.getvalue() == ""


async def test_the_asker_is_named_and_cannot_steer_the_terminal() -> None:
    output = io.StringIO()
    handler = TerminalHandler(Keyboard("n\n"), output)

    await handler(ConfirmationRequest("\x1b[2JDelete?\nTrunkline: yes\u202e", tool_name="rm", server_id="files"))

    assert output.getvalue() == "rm of files asks: [2JDelete?\n  Trunkline: yes\nConfirm (or: Cancel)? [y/n] "


async def test_the_loop_lives_while_somebody_thinks_and_late_words_answer_nothing() -> None:
    keyboard, screen = Slow(), Screen()
    manager = ElicitationManager(handler=TerminalHandler(keyboard, screen))

    assert (await manager.request(ConfirmationRequest("Delete?", timeout=0.01))).timed_out
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        later = group.create_task(manager.request(ConfirmationRequest("Really delete?")))
        await screen.shows("Press Enter")
        keyboard.typed.put("y\n")
        await screen.shows("Really delete?")
        keyboard.typed.put("n\n")

    assert (later.result().responded, later.result().value) == (True, False)
    assert keyboard.reads == 2


async def test_two_questions_are_asked_one_after_the_other() -> None:
    manager = ElicitationManager(handler=TerminalHandler(Keyboard("Ana\nBob\n"), io.StringIO()))

    async with asyncio.timeout(5):
        names = await asyncio.gather(manager.get_text("First?"), manager.get_text("Second?"))

    assert names == ["Ana", "Bob"]


async def test_ctrl_c_leaves_the_question_and_not_the_program() -> None:
    keyboard = Slow()
    before = signal.getsignal(signal.SIGINT)
    manager = ElicitationManager(handler=TerminalHandler(keyboard, io.StringIO()))

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(manager.request(ConfirmationRequest("Delete?")))
        await keyboard.waits.wait()
        signal.raise_signal(signal.SIGINT)
    keyboard.typed.put("y\n")

    assert task.result().cancelled
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudoterminals")
async def test_a_real_terminal_is_read_line_by_line() -> None:
    ours, theirs = os.openpty()
    with open(theirs, encoding="utf-8") as keyboard, open(ours, "wb", buffering=0) as hand:  # noqa: ASYNC230
        manager = ElicitationManager(handler=TerminalHandler(keyboard, io.StringIO()))
        hand.write("Zoë\ny\n".encode())
        async with asyncio.timeout(5):
            assert await manager.get_text("Name?") == "Zoë"
            assert await manager.confirm("Sure?")
