"""Calls made in Python, or at a terminal: whoever makes them is asked, if there is anybody to ask."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.till import teller, till
from tests.harness import TRUNKLINE
from tests.questions.scene import SERVER, Pair, Scene, scene
from trunkline import CallNext, Secret, Tool, ToolContext, ToolResult
from trunkline.errors import ServerRefusedError
from trunkline.questions.kinds import Elicitation, ElicitationResponse, FormRequest, SecretRequest, UrlRequest

Json = dict[str, Any]
LEGACY, MODERN = Pair("modern", "legacy", "stdio"), Pair("modern", "modern", "stdio")
ERAS = pytest.mark.parametrize("pair", [LEGACY, MODERN], ids=["legacy", "modern"])


async def call(at: Scene, tool: str = "order", **arguments: Any) -> str:
    """What a tool of the server says to a call made in Python."""
    return (await at.opened.hub.call(f"shop__{tool}", {**at.args("tea"), **arguments})).text


# Questions to a person.


@ERAS
async def test_a_handler_answers_what_a_server_asks(tmp_path: Path, http: aiohttp.ClientSession, pair: Pair) -> None:
    asked: list[Elicitation] = []

    async def handler(request: Elicitation) -> Json:
        asked.append(request)
        return {"sure": True, "note": "hot"}

    async with scene(tmp_path, http, pair) as at:
        at.opened.hub.elicitation.register_handler(handler)
        text = await call(at)
        await at.nothing_is_left()

    assert text == "ordered tea hot"
    assert at.done == ["tea"]
    assert isinstance(asked[0], FormRequest)
    assert (asked[0].message, asked[0].tool_name, asked[0].server_id) == ("Order tea?", "shop__order", "shop")
    assert [(field.name, field.type) for field in asked[0].fields] == [("sure", "boolean"), ("note", "text")]


async def test_a_secret_that_a_middleware_wants_comes_from_the_handler_too(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    got: list[Secret | None] = []

    async def wants_a_secret(tool: Tool, params: Json, context: ToolContext, call_next: CallNext) -> ToolResult:
        assert context.elicitation is not None
        got.append(await context.elicitation.get_secret("The key, please."))
        return await call_next()

    async def handler(request: Elicitation) -> object:
        return "s3cr3t" if isinstance(request, SecretRequest) else {"sure": True}

    async with scene(tmp_path, http, LEGACY) as at:
        at.opened.hub.use(wants_a_secret).elicitation.register_handler(handler)
        text = await call(at)

    assert text == "ordered tea"
    assert [secret.reveal() for secret in got if secret is not None] == ["s3cr3t"]


@ERAS
async def test_several_questions_are_answered_at_once_or_one_after_the_other(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    asked: list[str] = []

    async def handler(request: Elicitation) -> Json:
        asked.append(request.message)
        return {"sure": True}

    async with scene(tmp_path, http, pair) as at:
        at.opened.hub.elicitation.register_handler(handler)
        both, twice = await call(at, "both"), await call(at, "twice", item="rum")
        await at.nothing_is_left()

    assert (both, twice) == ("ordered tea", "ordered rum")
    assert sorted(asked[:2]) == ["Order left tea?", "Order right tea?"]
    assert asked[2:] == ["Order rum?", "Really order rum?"]


async def test_questions_that_come_together_do_not_wait_for_each_other(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    together = asyncio.Barrier(2)

    async def handler(request: Elicitation) -> Json:
        async with asyncio.timeout(5):
            await together.wait()
        return {"sure": True}

    async with scene(tmp_path, http, MODERN) as at:
        at.opened.hub.elicitation.register_handler(handler)

        assert await call(at, "both") == "ordered tea"


async def test_an_address_to_open_is_a_question_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    asked: list[Elicitation] = []

    async def handler(request: Elicitation) -> bool:
        asked.append(request)
        return True

    async with scene(tmp_path, http, LEGACY) as at:
        at.opened.hub.elicitation.register_handler(handler)
        text = await call(at, "url")

    assert text == "ordered tea"
    assert isinstance(asked[0], UrlRequest)
    assert asked[0].url == "https://example.org/pay/tea"


def _declines(request: Elicitation) -> ElicitationResponse:
    return ElicitationResponse(request.id, declined=True)


def _fails(request: Elicitation) -> bool:
    raise RuntimeError("the window was shut")


def _says_no(request: Elicitation) -> Json:
    return {"sure": False}


def _says_nonsense(request: Elicitation) -> Json:
    return {"sure": "perhaps"}


async def _is_silent(request: Elicitation) -> None:
    await asyncio.get_running_loop().create_future()


@ERAS
@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (_declines, "declined tea"),
        (_says_no, "unsure tea"),
        (_fails, "cancelled tea"),
        (_says_nonsense, "cancelled tea"),
        (_is_silent, "cancelled tea"),
    ],
)
async def test_the_server_hears_that_nobody_agreed(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, handler: Any, told: str
) -> None:
    async with scene(tmp_path, http, pair, question_timeout=0.3) as at:
        at.opened.hub.elicitation.register_handler(handler)
        async with asyncio.timeout(10):
            text = await call(at)
        await at.nothing_is_left()

    assert text == told
    assert at.done == []


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_legacy_server_is_told_that_nobody_can_be_asked(
    tmp_path: Path, http: aiohttp.ClientSession, transport: str
) -> None:
    async with scene(tmp_path, http, Pair("modern", "legacy", transport)) as at:
        result = await at.opened.hub.call("shop__order", at.args("tea"))
        await at.nothing_is_left()

    assert result.is_error
    assert result.text.startswith("failed: the client said -32601")
    assert at.done == []


async def test_a_modern_server_knows_that_nobody_can_be_asked(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with scene(tmp_path, http, MODERN) as at:
        with pytest.raises(ServerRefusedError) as refused:
            await at.opened.hub.call("shop__order", at.args("tea"))

    assert refused.value.code == -32021
    assert at.done == []


async def test_a_modern_server_that_asks_all_the_same_gets_no_answer(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with till(tmp_path, http) as at:
        with pytest.raises(ServerRefusedError, match="nobody is there to answer"):
            await at.hub.call("paint", {"key": "wall"})

    assert at.calls() == ["till paint wall"]


async def test_a_call_that_is_given_up_takes_its_question_along(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    asked = asyncio.Event()
    ended = asyncio.Event()

    async def handler(request: Elicitation) -> None:
        asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    async with scene(tmp_path, http, LEGACY) as at:
        at.opened.hub.elicitation.register_handler(handler)
        calling = asyncio.ensure_future(at.opened.hub.call("shop__order", at.args("tea")))
        await asyncio.wait_for(asked.wait(), 5)
        calling.cancel()
        await asyncio.wait([calling], timeout=5)
        await asyncio.wait_for(ended.wait(), 5)
        await at.nothing_is_left()

    assert calling.cancelled()
    assert at.done == []


# What servers ask of a model or a client.


@ERAS
async def test_sampling_and_roots_are_answered_by_handlers_of_their_own(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    heard: list[Json] = []

    async def model(params: Json) -> Json:
        heard.append(params)
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "because"}}

    async def roots(params: Json) -> Json:
        return {"roots": [{"uri": "file:///home"}]}

    async with scene(tmp_path, http, pair) as at:
        at.opened.hub.on_request("sampling/createMessage", model)
        at.opened.hub.on_request("roots/list", roots)
        sampled, listed = await call(at, "sample", text="why?"), await call(at, "roots")
        await at.nothing_is_left()

    assert (sampled, listed) == ("sampled because", "roots file:///home")
    assert heard[0]["messages"][0]["content"]["text"] == "why?"


@ERAS
async def test_a_handler_for_a_model_that_fails_ends_the_call_and_leaves_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async def broken(params: Json) -> Json:
        raise RuntimeError("the model is a secret")

    async with scene(tmp_path, http, pair) as at:
        at.opened.hub.on_request("sampling/createMessage", broken)
        if pair is LEGACY:
            said = await call(at, "sample", text="why?")
        else:
            with pytest.raises(ServerRefusedError) as refused:
                await call(at, "sample", text="why?")
            said = str(refused.value)
        await at.nothing_is_left()

    assert "RuntimeError" in said
    assert "secret" not in said


async def test_only_what_servers_ask_can_be_handled(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def handler(params: Json) -> Json:
        return {}

    async with scene(tmp_path, http, MODERN) as at:
        for method in ("elicitation/create", "tools/call"):
            with pytest.raises(ValueError, match="see `elicitation`"):
                at.opened.hub.on_request(method, handler)


# At a terminal.


class Terminal:
    """`trunkline` in a terminal of its own: what it shows, and what a person types."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self._process, self._master = process, master
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read on until this is shown."""
        while text not in self.shown:
            self.shown += self._read()

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, line.encode() + b"\n")

    def end(self) -> int:
        """Read to the end; the exit code."""
        try:
            while True:
                self.shown += self._read()
        except EOFError:
            return self._process.wait(30)

    def _read(self) -> str:
        try:
            data = os.read(self._master, 4096)
        except OSError:  # what Linux says when the other side is closed
            data = b""
        if not data:
            raise EOFError(self.shown)
        return data.decode()


@contextmanager
def at_a_terminal(folder: Path, *words: str) -> Generator[Terminal]:
    """Run `trunkline` in a folder, at a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [TRUNKLINE, *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env=_env(folder),
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _env(folder: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(folder), "TRUNKLINE_HOME": str(folder / "home")}


def configure(folder: Path, command: list[str], more: str = "") -> None:
    """Write a configuration of one server."""
    program, *arguments = command
    text = f"[servers.one]\ncommand = {program!r}\nargs = {arguments!r}\n{more}"
    (folder / "trunkline.toml").write_text(text)


def ask_before_it_destroys(folder: Path) -> None:
    spec = teller(folder)
    configure(folder, [spec["command"], *spec["args"]], '[middleware]\nconfirm = "destructive"\n')


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_at_a_terminal_a_servers_question_is_answered(tmp_path: Path, era: str) -> None:
    configure(tmp_path, [sys.executable, "-S", str(SERVER), "--era", era])
    with at_a_terminal(tmp_path, "exec", "order", "item=tea", f"file={tmp_path / 'done'}") as terminal:
        terminal.wait_for("sure")
        terminal.type("y")
        terminal.wait_for("note")
        terminal.type("with milk")
        terminal.wait_for("Submit?")
        terminal.type("")
        code = terminal.end()

    assert "order of one asks: Order tea?" in terminal.shown
    assert "ordered tea with milk" in terminal.shown
    assert (code, (tmp_path / "done").read_text()) == (0, "tea\n")


@pytest.mark.parametrize(("typed", "code", "calls"), [("y", 0, 1), ("n", 1, 0), ("", 1, 0)])
def test_at_a_terminal_a_person_agrees_to_a_destructive_call_or_not(
    tmp_path: Path, typed: str, code: int, calls: int
) -> None:
    ask_before_it_destroys(tmp_path)
    with at_a_terminal(tmp_path, "exec", "delete_account", "account=x") as terminal:
        terminal.wait_for("[y/")
        terminal.type(typed)
        if not typed:
            terminal.type("n")
        ended = terminal.end()

    assert "is destructive and requires confirmation" in terminal.shown
    assert ended == code
    assert (tmp_path / "log").exists() == bool(calls)


def test_without_a_terminal_a_destructive_call_is_refused(tmp_path: Path) -> None:
    ask_before_it_destroys(tmp_path)
    done = subprocess.run(
        [TRUNKLINE, "exec", "delete_account", "account=x"],
        cwd=tmp_path, env=_env(tmp_path), input="y\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 1
    assert "nobody can be asked" in done.stdout
    assert not (tmp_path / "log").exists()


def test_without_a_terminal_a_server_is_told_that_nobody_can_be_asked(tmp_path: Path) -> None:
    configure(tmp_path, [sys.executable, "-S", str(SERVER), "--era", "legacy"])
    done = subprocess.run(
        [TRUNKLINE, "exec", "order", "item=tea", f"file={tmp_path / 'done'}"],
        cwd=tmp_path, env=_env(tmp_path), input="y\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 1
    assert "the client said -32601" in done.stdout
    assert not (tmp_path / "done").exists()
