"""Commands in a shell: seen, typed at, and left as before.

In tmux, where there is one, are those tests in which the terminal itself has a part that the emulator does not play: it
keeps what was shown while a command has the other screen, brings it back afterwards, and breaks lines anew when its
window is resized. All others are in the emulator alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.cli.pane import Shell, shell
from tests.cli.window import CTRL_C, CTRL_Z
from tests.harness import STDIO_SERVER, TRUNKLINE, faulty
from trunkline.config.secrets import Secrets

Open = Callable[..., AbstractContextManager[Shell]]
CTRL_D = "\x04"
VALUE = "s3cret-77aa"


@pytest.fixture
def open_shell() -> Open:
    """Opens a shell in the emulator."""
    return partial(shell, tmux=False)


@pytest.fixture
def open_pane() -> Open:
    """Opens a shell in a terminal that people use, if there is one."""
    return partial(shell, tmux=bool(shutil.which("tmux")))


@pytest.fixture
def home(folder: Path) -> dict[str, str]:
    """An environment with two servers in config.json, of which one starts; and with an npx that starts one."""
    home = folder / "home"
    programs = folder / "programs"
    programs.mkdir()
    home.mkdir()
    (programs / "npx").write_text(f"#!/bin/sh\nexec {sys.executable} -S {STDIO_SERVER}\n")
    (programs / "npx").chmod(0o755)
    servers = {"one": faulty(), "bad": faulty("--start", "exit")}
    (home / "config.json").write_text(json.dumps({"gateway": {"port": 0}, "servers": servers}))
    kept = {"PATH": f"{programs}:{Path(TRUNKLINE).parent}:{os.environ['PATH']}", "TERM": "xterm-256color"}
    folders = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "c"), "TRUNKLINE_HOME": str(home / "t")}
    return {**kept, **folders, "TRUNKLINE_OFFLINE": "1"}


def as_before(seen: Shell, code: int) -> None:
    """The shell has its terminal back, and the command ended with this code."""
    seen.wait(lambda now: now.echoes)
    seen.type("echo code=$?\n")
    seen.wait(lambda now: f"code={code}" in whole(now))
    assert not seen.other_screen
    assert seen.cursor_shown
    assert "echo code=$?" in whole(seen)
    assert "Traceback" not in whole(seen)
    assert "trunkline: unexpected" not in whole(seen)


def whole(seen: Shell) -> str:
    """All that is seen, as if the window were wide enough."""
    return "".join(seen.lines)


# up


def test_up_is_live_in_an_ordinary_window_and_ctrl_c_gives_it_back(home: dict[str, str], open_pane: Open) -> None:
    with open_pane(env=home) as seen:
        seen.type("trunkline up --config config.json\n")
        seen.wait("✗ bad unreachable: ")
        seen.wait("● one ready, ")
        assert seen.lines[-1] == "1 of 2 servers ready · 0 calls · 0 errors"
        assert not seen.echoes
        seen.type(CTRL_C)
        seen.wait("Stopping.")

        as_before(seen, 0)
        assert "servers ready ·" not in seen.text


@pytest.mark.parametrize(("columns", "lines", "status"), [(30, 24, "1/2 ready · 0 calls"), (10, 5, "1/2 read…")])
def test_up_starts_in_a_small_window(
    home: dict[str, str], open_shell: Open, columns: int, lines: int, status: str
) -> None:
    with open_shell(env=home, columns=columns, lines=lines) as seen:
        seen.type("trunkline up --config config.json\n")
        seen.wait(status)
        assert seen.text.count("1/2 read") == 1
        seen.type(CTRL_C)
        seen.wait("Stopping.")

        as_before(seen, 0)


def test_up_follows_the_size_of_the_window(home: dict[str, str], open_pane: Open) -> None:
    with open_pane(env=home) as seen:
        seen.type("trunkline up --config config.json\n")
        seen.wait("✗ bad unreachable: ")
        seen.wait("1 of 2 servers ready")
        for columns, lines, status in ((30, 24, "1/2 ready · 0 calls · 0 erro…"), (10, 5, "1/2 read…")):
            seen.resize(columns, lines)
            seen.wait(lambda now, wanted=status: now.lines[-1:] == [wanted])
        seen.resize(80, 24)
        seen.wait("1 of 2 servers ready · 0 calls · 0 errors")

        assert seen.text.count(" ready ·") == 1
        assert "1/2" not in seen.text


def test_up_paused_gives_the_terminal_back_and_goes_on(home: dict[str, str], open_shell: Open) -> None:
    with open_shell(env=home) as seen:
        seen.type("trunkline up --config config.json\n")
        seen.wait("1 of 2 servers ready")
        seen.type(CTRL_Z)
        seen.wait("Stopped")
        assert seen.echoes
        assert "servers ready ·" not in seen.text
        seen.type("clear; fg\n")
        seen.wait("1 of 2 servers ready")
        assert not seen.echoes
        seen.type(CTRL_C)
        seen.wait("Stopping.")

        as_before(seen, 0)


def test_up_in_the_background_leaves_the_terminal_alone_until_it_is_called(
    home: dict[str, str], open_shell: Open
) -> None:
    with open_shell(env=home) as seen:
        seen.type("trunkline up --config config.json\n")
        seen.wait("1 of 2 servers ready")
        seen.type(CTRL_Z)
        seen.wait("Stopped")
        seen.type("clear; bg; trunkline top --once --url nowhere; echo typed\n")  # takes longer than two paintings
        seen.wait(lambda now: "typed" in now.lines)
        assert "servers ready ·" not in seen.text
        assert seen.echoes
        seen.type("fg\n")
        seen.wait("1 of 2 servers ready")
        seen.wait(lambda now: not now.echoes)
        seen.type(CTRL_C)
        seen.wait("Stopping.")

        as_before(seen, 0)


def test_what_is_piped_has_no_escape_codes(home: dict[str, str], two_served: str, open_shell: Open) -> None:
    top, up = Path(home["HOME"]) / "top", Path(home["HOME"]) / "up"
    with open_shell(env=home) as seen:
        seen.type(
            f"trunkline top --url {two_served} 2>&1 | cat > top; trunkline up --config config.json 2>&1 | tee up\n"
        )
        # What tee has shown it has not written yet, and Ctrl-C ends it at once.
        seen.wait(lambda _: up.exists() and b"Stop with Ctrl-C." in up.read_bytes())
        seen.type(CTRL_C)
        as_before(seen, 130)  # that of tee

    assert top.read_bytes()
    assert b"\x1b" not in top.read_bytes() + up.read_bytes()


# top


@pytest.mark.parametrize(
    ("columns", "lines", "keys", "code"), [(80, 24, CTRL_C, 130), (30, 24, "q", 0), (10, 5, CTRL_C, 130)]
)
def test_top_takes_the_screen_and_gives_it_back(
    home: dict[str, str], two_served: str, open_pane: Open, columns: int, lines: int, keys: str, code: int
) -> None:
    with open_pane(env=home, columns=columns, lines=lines) as seen:
        seen.type(f"trunkline top --url {two_served}\n")
        seen.wait(lambda now: "q quits" in now.text)
        assert seen.other_screen
        assert not seen.cursor_shown
        assert len(seen.lines) <= lines
        assert lines < 24 or "✗ bad" in seen.text
        seen.type(keys)
        seen.wait(lambda now: not now.other_screen)

        as_before(seen, code)


def test_top_follows_the_size_of_the_window(home: dict[str, str], two_served: str, open_pane: Open) -> None:
    with open_pane(env=home) as seen:
        seen.type(f"trunkline top --url {two_served}\n")
        seen.wait("TOOLS")
        seen.resize(30, 12)
        seen.wait(lambda now: "TOOLS" not in now.text and "✗ bad" in now.text and now.lines[-1].startswith("q quits"))
        seen.resize(10, 5)
        seen.wait(lambda now: "✗ bad" not in now.text and now.lines[-1].startswith("q quits"))
        seen.resize(80, 24)
        seen.wait("TOOLS")
        seen.type("q")
        seen.wait(lambda now: not now.other_screen)

        as_before(seen, 0)


def test_top_paused_gives_the_terminal_back_and_takes_it_again(
    home: dict[str, str], two_served: str, open_pane: Open
) -> None:
    with open_pane(env=home) as seen:
        seen.type(f"trunkline top --url {two_served}\n")
        seen.wait("q quits")
        seen.type(CTRL_Z)
        seen.wait("Stopped")
        assert not seen.other_screen
        assert seen.cursor_shown
        assert seen.echoes
        seen.type("fg\n")
        seen.wait(lambda now: now.other_screen and "q quits" in now.text)
        assert not seen.echoes
        seen.type("q")
        seen.wait(lambda now: not now.other_screen)

        as_before(seen, 0)


def test_what_runs_after_top_can_wait_for_the_terminal(home: dict[str, str], two_served: str, open_shell: Open) -> None:
    (Path(home["HOME"]) / "look.py").write_text("import os; print(f'waits={os.get_blocking(0)}')")
    with open_shell(env=home) as seen:
        seen.type(f"trunkline top --url {two_served}; {sys.executable} look.py\n")
        seen.wait("q quits")
        seen.type("q")
        seen.wait("waits=")

        assert "waits=True" in whole(seen)


# Prompts.


def written(home: dict[str, str]) -> dict[str, bytes]:
    """Every file below the home folder."""
    return {str(path): path.read_bytes() for path in Path(home["HOME"]).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("keys", "code", "left"),
    [("y\n", 0, {"bad"}), ("n\n", 1, {"one", "bad"}), (CTRL_C, 130, {"one", "bad"}), (CTRL_D, 1, {"one", "bad"})],
)
def test_remove_asks_and_only_a_yes_removes(
    home: dict[str, str], open_shell: Open, keys: str, code: int, left: set[str]
) -> None:
    with open_shell(env=home, columns=30) as seen:
        seen.type("trunkline remove one --config config.json\n")
        seen.wait("[y/N]")
        seen.type(keys)

        seen.wait(lambda now: now.lines[-1] == "ready>")
        as_before(seen, code)
    assert set(json.loads((Path(home["HOME"]) / "config.json").read_text())["servers"]) == left


def test_install_asks_and_a_secret_is_not_seen(home: dict[str, str], open_shell: Open) -> None:
    with open_shell(env=home) as seen:
        seen.type("trunkline install slack\n")
        seen.wait("(it is not shown):")
        seen.type(f"{VALUE}\n")
        seen.wait("workspace's id")
        seen.wait(lambda now: now.echoes)
        seen.type("T42\n")
        seen.wait("It lists")

        as_before(seen, 0)
        assert VALUE.encode() not in seen.raw
    file = Path(home["XDG_CONFIG_HOME"]) / "trunkline" / "trunkline.toml"
    assert tomllib.loads(file.read_text())["servers"]["slack"]["env"]["SLACK_TEAM_ID"] == "T42"
    assert Secrets(Path(home["TRUNKLINE_HOME"])).names() == ["slack.SLACK_BOT_TOKEN"]
    assert not [path for path, text in written(home).items() if VALUE.encode() in text and path.endswith(".toml")]


@pytest.mark.parametrize("before", ["", f"{VALUE}\n"])
@pytest.mark.parametrize(("key", "code"), [(CTRL_C, 130), (CTRL_D, 1)])
def test_whoever_leaves_a_question_of_install_open_has_installed_nothing(
    home: dict[str, str], open_shell: Open, before: str, key: str, code: int
) -> None:
    files = written(home)

    with open_shell(env=home) as seen:
        seen.type("trunkline install slack\n")
        seen.wait("(it is not shown):")
        if before:
            seen.type(before)
            seen.wait("workspace's id")
        seen.wait(lambda now: now.echoes == bool(before))
        seen.type(key)
        seen.wait(lambda now: now.lines[-1] == "ready>")

        as_before(seen, code)
    assert written(home) == files


@pytest.mark.parametrize(("key", "code"), [(CTRL_C, 130), (CTRL_D, 1)])
def test_whoever_leaves_the_last_question_of_import_open_has_imported_nothing(
    home: dict[str, str], open_shell: Open, key: str, code: int
) -> None:
    cursor = Path(home["HOME"]) / ".cursor" / "mcp.json"
    cursor.parent.mkdir()
    cursor.write_text(json.dumps({"mcpServers": {"mail": {"command": "mail", "env": {"MAIL_TOKEN": VALUE}}}}))
    files = written(home)

    with open_shell(env=home) as seen:
        seen.type("trunkline import --no-start --config new.toml\n")
        seen.wait("Take over which?")
        seen.type(key)
        seen.wait(lambda now: now.lines[-1] == "ready>")

        as_before(seen, code)
    assert written(home) == files
