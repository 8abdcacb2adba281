"""`trunkline import`, as a stranger uses it."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import run, typed
from tests.cli.stand_in import stand_in
from tests.harness import faulty
from trunkline.cli.console import chosen


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A home, and in it a folder to work in, in which only our own state is elsewhere."""
    kept = {key: value for key, value in os.environ.items() if key not in ("XDG_CONFIG_HOME", "CODEX_HOME")}
    return {**kept, "HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path / "state")}


def demo(name: str, **env: str) -> dict[str, Any]:
    return stand_in(name, **({"env": env} if env else {}))


def lay(home: dict[str, str], path: str, servers: dict[str, Any], key: str = "mcpServers") -> Path:
    file = Path(home["HOME"]) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({key: servers}, indent=2))
    return file


def ours(home: dict[str, str]) -> Path:
    return Path(home["HOME"]) / ".config" / "trunkline" / "trunkline.toml"


def test_servers_are_found_started_counted_and_taken_over(home: dict[str, str]) -> None:
    notes = demo("notes", DEMO_HOME=home["HOME"], API_TOKEN="value-of-the-token")
    files = [
        lay(home, ".cursor/mcp.json", {"clock": demo("clock"), "notes": notes}),
        lay(home, ".codeium/windsurf/mcp_config.json", {"time": demo("clock"), "off": {**faulty(), "disabled": True}}),
    ]
    before = [file.read_bytes() for file in files]

    done = run("import", "--yes", "--format", "json", env=home)

    told = json.loads(done.stdout)
    servers = {server["name"]: server for server in told["servers"]}
    assert done.returncode == 0, done.stderr
    assert [one["client"] for one in servers["clock"]["clients"]] == ["cursor", "windsurf"]
    assert servers["notes"]["tools"] == 5
    assert "tools" not in servers["off"]
    assert told["tokens"] == servers["clock"]["tokens"] + servers["notes"]["tokens"]
    assert told["through_trunkline"]["tools"] == told["tools"]
    assert told["written"] == ["clock", "notes", "off"]
    written = tomllib.loads(ours(home).read_text())["servers"]
    assert written["clock"] == demo("clock")
    assert written["notes"]["env"]["API_TOKEN"] == "${secret:notes.API_TOKEN}"
    assert written["off"]["enabled"] is False
    assert [file.read_bytes() for file in files] == before
    assert "value-of-the-token" not in done.stdout + done.stderr


def test_the_table_shows_exact_commands_costs_by_client_and_what_is_left_out(home: dict[str, str]) -> None:
    lay(home, ".cursor/mcp.json", {"clock": demo("clock"), "me": {"url": "http://localhost:7420/mcp"}})
    lay(home, ".config/Code/User/mcp.json", {"clock": demo("clock"), "s": {"url": "unix:///s"}}, key="servers")
    lay(home, ".claude.json", {"broken": demo("no_such_server")})

    done = run("import", "--yes", "--timeout", "20", env=home)

    assert done.returncode == 0, done.stderr
    assert f"clock: {sys.executable} {' '.join(demo('clock')['args'])}" in done.stdout
    assert "me: left out, it is Trunkline itself" in done.stdout
    assert "s: left out, its address is not one of HTTP" in done.stdout
    assert "the same as" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows if row[:1] == ["Cursor"]][-1] == ["Cursor", "1"]
    assert "Not counted: broken." in done.stderr
    assert "Through Trunkline: 3 tools" in done.stderr


def test_many_tools_cost_little_through_trunkline(home: dict[str, str]) -> None:
    lay(home, ".cursor/mcp.json", {"clock": demo("clock"), "notes": demo("notes", DEMO_HOME=home["HOME"])})

    done = run("import", "--yes", "--format", "json", env={**home, "TRUNKLINE_GATEWAY_EXPOSE_LIMIT": "3"})

    told = json.loads(done.stdout)
    assert told["tools"] == 8
    assert told["through_trunkline"]["tools"] == 2  # to search and to call; programs would save nothing


def test_comments_of_our_own_file_stay_and_a_second_time_there_is_nothing_to_do(home: dict[str, str]) -> None:
    file = Path(home["HOME"]) / "trunkline.toml"
    file.write_text("# mine\n[gateway]\nport = 1 # why\n")
    file.chmod(0o644)
    lay(home, ".cursor/mcp.json", {"a": {"command": "a-server"}})

    first = run("import", "--yes", "--no-start", env=home)
    text = file.read_text()
    second = run("import", "--yes", "--no-start", env=home)

    assert (first.returncode, second.returncode) == (0, 0)
    assert text.startswith("# mine\n[gateway]\nport = 1 # why\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert file.read_text() == text
    assert "already" in second.stderr


def test_secrets_make_our_file_private_or_are_moved_and_are_never_printed(home: dict[str, str]) -> None:
    file = Path(home["HOME"]) / "trunkline.toml"
    file.write_text("")
    file.chmod(0o644)
    lay(home, ".cursor/mcp.json", {"a": {"command": "a", "env": {"A_TOKEN": "tell-nobody"}}})

    safe = run("import", "--yes", "--no-start", env=home)
    names, safely = run("secret", "list", env=home).stdout.split(), file.read_text()
    file.write_text("")
    kept = run("import", "--yes", "--no-start", "--secrets", "keep", env=home)
    mode, text = stat.S_IMODE(file.stat().st_mode), file.read_text()
    file.write_text("")
    moved = run("import", "--yes", "--no-start", "--secrets", "env", env=home)

    assert (names, "${secret:a.A_TOKEN}" in safely, "tell-nobody" in safely) == (["a.A_TOKEN"], True, False)
    assert "Secrets are kept apart" in safe.stderr
    assert (mode, "tell-nobody" in text) == (0o600, True)
    assert "Secrets in it now: A_TOKEN of a." in kept.stderr
    assert tomllib.loads(file.read_text())["servers"]["a"]["env"] == {"A_TOKEN": "${env:A_TOKEN}"}
    assert "A_TOKEN  (A_TOKEN of a)" in moved.stderr
    assert "tell-nobody" not in "".join(
        (safe.stdout, safe.stderr, kept.stdout, kept.stderr, moved.stdout, moved.stderr)
    )


def test_where_nobody_can_be_asked_nothing_starts_and_nothing_is_written(home: dict[str, str]) -> None:
    mark = Path(home["HOME"]) / "started"
    lay(home, ".cursor/mcp.json", {"evil": {"command": "touch", "args": [str(mark)]}})

    asked = run("import", env=home)
    looked = run("import", "--dry-run", env=home)

    assert (asked.returncode, looked.returncode) == (1, 0)
    assert "--yes" in asked.stderr
    assert not mark.exists()
    assert not ours(home).exists()


@pytest.mark.parametrize(
    ("answers", "code", "written"),
    [
        ("n\nall\n", 0, {"a", "b", "c"}),
        ("n\n\n", 0, {"a", "b", "c"}),
        ("n\n1,3\n", 0, {"a", "c"}),
        ("n\nwhat\n9\n2-3\n", 0, {"b", "c"}),
        ("n\nnone\n", 1, set[str]()),
        ("n\n\x04", 1, set[str]()),
    ],
)
def test_a_person_chooses_which(answers: str, code: int, written: set[str], home: dict[str, str]) -> None:
    mark = Path(home["HOME"]) / "started"
    lay(home, ".cursor/mcp.json", {name: {"command": "touch", "args": [str(mark), name]} for name in "abc"})

    done = typed("import", env=home, answers=answers)

    assert done.returncode == code, done.stderr
    found: dict[str, Any] = tomllib.loads(ours(home).read_text())["servers"] if ours(home).exists() else {}
    assert set(found) == written
    assert not mark.exists()


def test_a_person_agrees_to_the_start_and_secrets_are_kept_apart(home: dict[str, str]) -> None:
    lay(home, ".cursor/mcp.json", {"clock": demo("clock", CLOCK_TOKEN="tell-nobody")})

    done = typed("import", env=home, answers="y\nall\n")

    assert done.returncode == 0, done.stderr
    assert "[1/1] clock: ready" in done.stderr
    assert tomllib.loads(ours(home).read_text())["servers"]["clock"]["env"] == {
        "CLOCK_TOKEN": "${secret:clock.CLOCK_TOKEN}"
    }


def test_clients_and_files_can_be_named(home: dict[str, str]) -> None:
    lay(home, ".cursor/mcp.json", {"a": {"command": "a"}})
    lay(home, ".claude.json", {"b": {"command": "b"}})
    file = lay(home, "elsewhere/some.json", {"c": {"command": "c"}})

    cursor = run("import", "cursor", "--dry-run", "--no-start", "--format", "json", env=home)
    one = run("import", "--from", str(file), "--dry-run", "--no-start", "--format", "json", env=home)

    assert [server["name"] for server in json.loads(cursor.stdout)["servers"]] == ["a"]
    assert [server["name"] for server in json.loads(one.stdout)["servers"]] == ["c"]


def test_servers_of_the_folder_are_found_too(home: dict[str, str]) -> None:
    folder = Path(home["HOME"]) / "project"
    lay(home, "project/.mcp.json", {"mine": {"command": "./server"}})

    done = run("import", "--dry-run", "--no-start", "--format", "json", env=home, cwd=folder)

    assert f"(in {folder})" in json.loads(done.stdout)["servers"][0]["command"]


def test_names_from_files_cannot_play_with_the_terminal(home: dict[str, str]) -> None:
    lay(home, ".cursor/mcp.json", {"a\x1b[2J": {"command": "x\x1b]0;t\x07"}, "b\x1b[2J": {}})

    done = run("import", "--yes", "--no-start", env=home)

    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("import",), 1, "No servers were found."),
        (("import", "cursr"), 2, "Did you mean 'cursor'?"),
        (("import", "--from", "nowhere.json"), 2, "There is no file"),
        (("import", "cursor", "zed", "--from", "x"), 2, "A file is of one client."),
        (("import", "--config", "mcp.json"), 2, "is a client's file"),
        (("import", "--secrets", "all"), 2, "invalid choice"),
    ],
)
def test_wrong_use_is_explained(words: tuple[str, ...], code: int, complaint: str, home: dict[str, str]) -> None:
    done = run(*words, env=home)

    assert (done.returncode, complaint in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [1, 2, 3, 4]),
        ("ALL", [1, 2, 3, 4]),
        ("none", []),
        ("2", [2]),
        ("1, 3-4", [1, 3, 4]),
        ("3 1 3", [3, 1]),
        ("5", None),
        ("0-2", None),
        ("3-1", None),
        ("x", None),
        ("1-", None),
    ],
)
def test_an_answer_names_numbers(text: str, numbers: list[int] | None) -> None:
    assert chosen(text, 4) == numbers


def test_what_needs_a_sign_in_is_said(home: dict[str, str]) -> None:
    lay(
        home,
        ".cursor/mcp.json",
        {
            "jira": {"url": "https://jira.example.org/mcp"},
            "docs": {"url": "https://docs.example.org/mcp", "headers": {"Authorization": "Bearer ${env:X}"}},
        },
    )

    done = run("import", "--dry-run", "--no-start", env=home)

    assert done.stdout.count("If it wants a sign-in") == 1
    with refusing() as url:
        lay(home, ".cursor/mcp.json", {"closed": {"url": url}})
        started = run("import", "--yes", env=home)
    assert "closed wants a sign-in" in started.stderr
    assert "Sign in: trunkline login closed" in started.stderr


@contextmanager
def refusing() -> Generator[str]:
    """The address of a server that wants to know who asks."""

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(401)
            self.send_header("www-authenticate", "Bearer")
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join()
