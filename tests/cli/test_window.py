"""`up` and `top` in a terminal: what a person sees, types and is left with; `test_tmux` has them in a shell."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.members import Member, serving
from tests.cli.inside import run, running_gateway
from tests.cli.window import CTRL_C, CTRL_Z, Window, in_session, window
from tests.harness import ModernCaller, faulty, trunkline_up, until
from tests.search.scene import plenty, shelf

Json = dict[str, Any]
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def home(folder: Path) -> dict[str, str]:
    """An environment in which nothing is configured yet."""
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM", "COLUMNS", "LINES")}
    return {
        **kept,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "c"),
        "TRUNKLINE_HOME": str(folder / "t"),
        "TERM": "xterm-256color",
    }


def write(home: dict[str, str], servers: Json, **gateway: Any) -> Path:
    """The folder's configuration, in place at once."""
    file = Path(home["HOME"]) / "config.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"gateway": {"port": 0, **gateway}, "servers": servers}))
    new.replace(file)
    return file


@contextmanager
def up(
    home: dict[str, str], servers: Json, *, columns: int = 100, lines: int = 30, **gateway: Any
) -> Generator[Window]:
    """`trunkline up` in a window."""
    file = write(home, servers, **gateway)
    with window("up", "--config", str(file), env=home, columns=columns, lines=lines) as seen:
        yield seen


def url_of(seen: Window) -> str:
    seen.wait("Stop with Ctrl-C.")
    return re.findall(rb"Trunkline listens at (\S+)", seen.raw)[0].decode()


# up


def test_servers_settle_one_after_the_other_and_a_line_below_says_how_it_goes(home: dict[str, str]) -> None:
    with up(home, {"one": faulty(), "bad": faulty("--start", "exit")}) as seen:
        seen.wait("1 of 2 servers ready")
        seen.wait("exited with code 3")

        assert any(re.fullmatch(r"● one ready, \d+ tools", line) for line in seen.lines), seen.text
        assert any(line.startswith("✗ bad unreachable: ") and "exited with code 3" in line for line in seen.lines)
        assert seen.lines[-1] == "1 of 2 servers ready · 0 calls · 0 errors"
        assert "starting" not in seen.text
        assert seen.lines[0].startswith("Trunkline listens at http://127.0.0.1:")


async def test_the_line_counts_calls_and_tokens_as_they_happen(home: dict[str, str]) -> None:
    many = shelf(Path(home["HOME"]), "many", plenty(50))
    with up(home, {"many": many.config}, expose="auto") as seen:
        url = await asyncio.to_thread(url_of, seen)
        await asyncio.to_thread(seen.wait, "1 of 1 server ready · 0 calls")
        async with aiohttp.ClientSession() as http:
            caller = ModernCaller(url, http)
            await caller.request("tools/list")
            await caller.call("tool_1")
        await asyncio.to_thread(seen.wait, "1 call · 0 errors · about")

        assert re.fullmatch(r"1 of 1 server ready · 1 call · 0 errors · about [\d,]+ tokens saved", seen.lines[-1])
        assert seen.text.count("servers ready") + seen.text.count("server ready") == 1


def test_what_is_logged_stands_above_the_line(home: dict[str, str]) -> None:
    with up(home, {"one": faulty()}) as seen:
        seen.wait("1 of 1 server ready")
        write(home, {"one": faulty(), "two": faulty()})
        seen.wait("2 of 2 servers ready")

        assert seen.lines[-1].startswith("2 of 2 servers ready")
        assert seen.text.count(" ready ·") == 1
        logged = next(at for at, line in enumerate(seen.lines) if "added two" in line)
        assert logged < len(seen.lines) - 1


def test_ctrl_c_stops_it_and_the_terminal_is_as_before(home: dict[str, str]) -> None:
    with up(home, {"one": faulty()}) as seen:
        seen.wait("1 of 1 server ready")
        assert not seen.echoes
        seen.type(CTRL_C)

        assert seen.ended() == 0
        assert seen.lines[-1] == "Stopping."
        assert "server ready ·" not in seen.text
        assert seen.echoes


async def test_ctrl_c_lets_calls_finish_and_a_second_one_does_not(home: dict[str, str]) -> None:
    async with serving(member := Member("one")) as specs, aiohttp.ClientSession() as http:
        with up(home, specs, drain=60) as seen:
            url = await asyncio.to_thread(url_of, seen)
            await asyncio.to_thread(seen.wait, "1 of 1 server ready")
            member.free.clear()
            call = asyncio.create_task(ModernCaller(url, http).call("get_balance"))
            await until(lambda: bool(member.seen))
            seen.type(CTRL_C)
            await asyncio.to_thread(seen.wait, "Stopping: 1 call under way may finish within 60 s.")
            seen.type(CTRL_C)
            code = await asyncio.to_thread(seen.ended)
            member.free.set()
            with pytest.raises(aiohttp.ClientError):
                await call

            assert code == 130
            assert seen.lines[-1].endswith("Ended at once.")
            assert seen.echoes


async def test_a_call_under_way_is_answered_after_ctrl_c(home: dict[str, str]) -> None:
    async with serving(member := Member("one")) as specs, aiohttp.ClientSession() as http:
        with up(home, specs, drain=60) as seen:
            url = await asyncio.to_thread(url_of, seen)
            await asyncio.to_thread(seen.wait, "1 of 1 server ready")
            member.free.clear()
            call = asyncio.create_task(ModernCaller(url, http).call("get_balance"))
            await until(lambda: bool(member.seen))
            seen.type(CTRL_C)
            await asyncio.to_thread(seen.wait, "Stopping: 1 call under way")
            member.free.set()
            heard = await call
            code = await asyncio.to_thread(seen.ended)

    assert heard.status == 200
    assert code == 0


def test_what_is_typed_does_not_disturb_the_line(home: dict[str, str]) -> None:
    with up(home, {"one": faulty()}) as seen:
        seen.wait("1 of 1 server ready")
        seen.type("hello\n\n\n")
        write(home, {"one": faulty(), "two": faulty()})
        seen.wait("2 of 2 servers ready")

        assert "hello" not in seen.text
        assert seen.text.count(" ready ·") == 1


def test_in_a_narrow_window_the_line_is_one_line(home: dict[str, str]) -> None:
    with up(home, {"one": faulty(), "bad": faulty("--start", "exit")}, columns=40) as seen:
        seen.wait("1/2 ready · 0 calls · 0 errors")
        seen.resize(100, 30)
        seen.wait("1 of 2 servers ready")
        seen.resize(24, 30)
        seen.wait("1/2 ready · 0 calls · …")

        assert len(seen.lines[-1]) < 24
        assert all(re.fullmatch(r".{0,24}", line) for line in seen.lines)


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("NO_COLOR", "")])
def test_colours_are_shown_unless_they_are_not_wanted(home: dict[str, str], variable: str, value: str) -> None:
    with up({**home, variable: value}, {"one": faulty()}) as seen:
        seen.wait("1 of 1 server ready")
        seen.type(CTRL_C)

        assert seen.ended() == 0
        assert bool(COLOURS.search(seen.raw)) == (not value)
        assert "Stopping." in seen.text
        assert "Traceback" not in seen.text
        assert seen.echoes
        assert seen.cursor_shown


def test_a_dumb_terminal_gets_plain_lines(home: dict[str, str]) -> None:
    with up({**home, "TERM": "dumb"}, {"one": faulty()}) as seen:
        seen.wait("Stop with Ctrl-C.")
        seen.type(CTRL_C)

        assert seen.ended() == 0
        assert b"\x1b" not in seen.raw
        assert "Stopping." in seen.text
        assert "Traceback" not in seen.text
        assert seen.echoes
        assert seen.cursor_shown


def test_without_a_terminal_there_are_plain_lines(home: dict[str, str]) -> None:
    with trunkline_up(Path(home["HOME"]), {"servers": {"one": faulty()}}) as (url, process):
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)

    assert url.startswith("http://127.0.0.1:")
    assert process.returncode == 0
    assert "\x1b" not in out + errors
    assert errors.splitlines()[-1] == "Stopping."


def test_paused_and_called_back_it_goes_on(home: dict[str, str]) -> None:
    with up(home, {"one": faulty()}) as seen:
        seen.wait("1 of 1 server ready")
        seen.signal(signal.SIGSTOP)  # no Ctrl-Z: without a shell nobody could call it back
        seen.wait(Window.stopped)
        seen.signal(signal.SIGCONT)
        write(home, {"one": faulty(), "two": faulty()})

        seen.wait("2 of 2 servers ready")


# top


@contextmanager
def top(home: dict[str, str], url: str, *words: str, columns: int = 100, lines: int = 30) -> Generator[Window]:
    """`trunkline top` in a window."""
    with window("top", "--url", url, *words, env=home, columns=columns, lines=lines) as seen:
        yield seen


async def test_calls_are_seen_as_they_happen(home: dict[str, str], tmp_path: Path) -> None:
    many = shelf(tmp_path, "many", plenty(50))
    with running_gateway(tmp_path / "up", {"many": many.config}, expose="auto") as url, top(home, url) as seen:
        await asyncio.to_thread(seen.wait, "● many")
        async with aiohttp.ClientSession() as http:
            caller = ModernCaller(url, http)
            await caller.request("tools/list")
            await caller.call("tool_7")
            await caller.call("call_tool", {"name": "tool_7", "arguments": {}})
        await asyncio.to_thread(seen.wait, "2 calls · 0 errors")

        assert re.search(r"about [\d,]+ tokens saved · 1 short list · 0 searches", seen.text)
        assert re.search(r"● many +ready +50 +2 +0 +\S+ ms +\S+ ms +0", seen.text)
        assert re.search(r"  tool_7 +many +2 +0 ", seen.text)
        seen.type("q")
        assert await asyncio.to_thread(seen.ended) == 0


@pytest.mark.parametrize(("keys", "code"), [("q", 0), ("Q", 0), (CTRL_C, 130), ("\x04", 0)])
def test_however_it_ends_the_terminal_is_as_before(home: dict[str, str], one_served: str, keys: str, code: int) -> None:
    with top(home, one_served) as seen:
        seen.wait("q quits")
        assert not seen.echoes
        seen.type(keys)

        assert seen.ended() == code
        assert seen.echoes
        assert seen.raw.endswith(b"\x1b[?25h\x1b[?1049l")
        assert b"Traceback" not in seen.raw


def test_top_fits_every_window(home: dict[str, str], two_served: str) -> None:
    with top(home, two_served, columns=40, lines=12) as seen:
        seen.wait("✗ bad")
        assert re.search(r"✗ bad .* 0 ", seen.text)
        assert "TOOLS" not in seen.text
        seen.resize(100, 30)
        seen.wait("TOOLS")
        seen.resize(30, 6)
        seen.wait(lambda now: "TOOLS" not in now.text and "q quits" in now.text)

        assert len(seen.lines) <= 6


def test_top_paused_gives_the_terminal_back_and_takes_it_again(home: dict[str, str], one_served: str) -> None:
    with top(home, one_served) as seen:
        seen.wait("q quits")
        seen.type(CTRL_Z)
        seen.wait(Window.stopped)
        paused = seen.echoes
        seen.signal(signal.SIGCONT)
        seen.wait(lambda now: now.raw.count(b"\x1b[?1049h") == 2)
        seen.type("q")

        assert paused
        assert seen.ended() == 0


def test_a_gateway_that_ends_meanwhile_is_said_to_be_gone(home: dict[str, str], tmp_path: Path) -> None:
    with trunkline_up(tmp_path / "up", {"servers": {"one": faulty()}}) as (url, process), top(home, url) as seen:
        seen.wait("● one")
        process.terminate()
        seen.wait("No gateway answers at")

        assert "one" in seen.text


def test_colours_of_top_are_not_shown_where_they_are_not_wanted(home: dict[str, str], one_served: str) -> None:
    with top({**home, "NO_COLOR": "1"}, one_served) as plain, top(home, one_served) as coloured:
        plain.wait("● one")
        coloured.wait("● one")

        assert not COLOURS.search(plain.raw)
        assert COLOURS.search(coloured.raw)


def test_in_a_dumb_terminal_top_prints_once(home: dict[str, str], one_served: str) -> None:
    with top({**home, "TERM": "dumb"}, one_served) as seen:
        assert seen.ended() == 0
        assert b"\x1b" not in seen.raw
        assert "SERVER" in seen.text


def test_without_a_terminal_top_prints_one_table_or_json(home: dict[str, str], one_served: str) -> None:
    table = run("top", "--url", one_served, env=home)
    once = run("top", "--url", one_served, "--once", env=home)
    told = json.loads(run("top", "--url", one_served, "--format", "json", env=home).stdout)
    compact = run("top", "--url", one_served, "--format", "compact", env=home)

    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.startswith("Trunkline at http://127.0.0.1:")
    assert "\x1b" not in table.stdout
    assert "SERVER" in table.stdout
    assert "SERVER" in once.stdout
    assert [server["name"] for server in told["servers"]] == ["one"]
    assert compact.stdout.split()[0] == "one"


def test_top_without_a_gateway_says_so(home: dict[str, str]) -> None:
    for words, code, complaint in (
        (("--url", "http://127.0.0.1:9/mcp"), 1, "No gateway answers at http://127.0.0.1:9."),
        (("--url", "nonsense"), 2, "is not the URL of a gateway"),
        (("--url", "http://127.0.0.1:99999/mcp"), 2, "is not the URL of a gateway"),
    ):
        done = run("top", *words, env=home)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert complaint in done.stderr


def test_top_shows_the_token_of_the_configuration(home: dict[str, str], tmp_path: Path) -> None:
    with running_gateway(tmp_path / "up", {"one": faulty()}, token="the-long-token-of-the-house") as url:
        stranger = run("top", "--url", url, env=home)
        owner = run("top", "--url", url, env={**home, "TRUNKLINE_GATEWAY_TOKEN": "the-long-token-of-the-house"})

    assert stranger.returncode == 1
    assert "wants a token" in stranger.stderr
    assert owner.returncode == 0, owner.stderr


def test_nothing_of_a_window_lives_on_where_hanging_up_is_ignored(home: dict[str, str]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with window("-i", program="sh", env=home, columns=80, lines=20) as seen:
            seen.type("sleep 1000 & sleep 1001 & echo $$ started\n")
            told = re.compile(r"(\d+) started")
            shell = int(told.findall(seen.wait(lambda one: bool(told.search(one.text))).text)[0])
            assert len(in_session(shell)) == 3
    finally:
        signal.signal(signal.SIGHUP, before)

    assert in_session(shell) == []
