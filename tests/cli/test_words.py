"""What commands say reads well, and can be typed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import run
from trunkline.cli.console import print_table
from trunkline.cli.main import as_typed
from trunkline.cli.screen import Style
from trunkline.cli.top_view import board
from trunkline.clients.connection import difference


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "TRUNKLINE_HOME": str(tmp_path),
    }


def test_a_list_shows_what_tells_servers_apart_and_no_secret(env: dict[str, str], tmp_path: Path) -> None:
    specs = {
        name: {"command": "npx", "args": ["-y", name, "--token", "tell-nobody"]} for name in ("one-mcp", "two-mcp")
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": specs}))

    done = run("list", "--config", str(tmp_path / "mcp.json"), env=env)

    assert "npx -y one-mcp --token ***" in done.stdout.replace("'", "")
    assert "npx -y two-mcp" in done.stdout
    assert "tell-nobody" not in done.stdout


def test_tables_stand_straight_whatever_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "what"), [["日本", "wide"], ["x\x1b[2J", "moves"], ["two\nlines", "one"]])

    assert capsys.readouterr().out.splitlines() == [
        "NAME       WHAT",
        "日本       wide",
        "x\\x1b[2J   moves",
        "two lines  one",
    ]


def test_a_short_list_of_nothing_is_nothing(env: dict[str, str]) -> None:
    assert run("list", "--format", "compact", env=env).stdout == ""
    assert run("tools", "--format", "compact", env=env).stdout == ""


def test_one_server_is_not_called_servers(env: dict[str, str]) -> None:
    run("add", "one", "x", env=env)

    assert "1 server in" in run("list", env=env).stderr


def test_hints_name_the_program_and_the_configuration_that_were_typed(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Path(sys.executable).with_name("trunkline")
    monkeypatch.setattr(sys, "argv", [str(program)])
    file = str(tmp_path / "my file.toml")

    added = run("add", "--config", file, "one", "x", env={**env, "PATH": "/nowhere"})
    plain = run("list", env={**env, "PATH": str(program.parent)})

    assert f"Try it: {program} test --config '{file}' one" in added.stderr
    assert "Begin with `trunkline add NAME COMMAND`" in plain.stderr
    assert as_typed("trunkline is a name") == "trunkline is a name"


def test_a_long_line_is_cut_around_what_differs() -> None:
    before = '{"a": "' + "x" * 1000 + '", "mcpServers": {}}'
    after = before.replace("{}}", '{"trunkline": {"url": "http://127.0.0.1:7420/mcp"}}}')

    shown = difference(before, after, [])

    assert '"trunkline": {"url": "http://127.0.0.1:7420/mcp"}' in shown
    assert all(len(line) <= 200 for line in shown.splitlines())


def test_what_does_not_fit_can_be_scrolled_to() -> None:
    none: dict[str, Any] = {"calls": 0, "failures": 0, "tool_errors": 0, "p50_seconds": 0.0, "p95_seconds": 0.0}
    now = {"in_flight": 0, "waiting": 0}
    servers = [{"name": f"server-{n:02}", "state": "ready", "reason": "", "tools": 1, **none, **now} for n in range(30)]
    tokens = {"saved": 0, "lists": 0, "searches": 0, "programs": 0, "previews": 0}
    told = {**none, **now, "tokens": tokens, "servers": servers, "tools": []}

    first = "\n".join(board(told, None, "here", 80, 12, Style()))
    last = "\n".join(board(told, None, "here", 80, 12, Style(), scroll=1000))

    assert "server-00" in first
    assert "scroll" in first
    assert ("server-00" in last, "server-29" in last) == (False, True)
