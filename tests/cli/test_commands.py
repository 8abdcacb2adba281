"""The command line, as a stranger uses it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import TRUNKLINE, faulty, faulty_http


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing is configured yet."""
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "TRUNKLINE_HOME": str(tmp_path / "t"),
    }


def run(*words: str, env: dict[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TRUNKLINE, *words], env=env, capture_output=True, text=True, timeout=60, input=stdin, cwd=env["HOME"]
    )


def add_faulty(name: str, env: dict[str, str], *flags: str) -> None:
    spec = faulty(*flags)
    added = run("add", name, spec["command"], *spec["args"], env=env)
    assert added.returncode == 0, added.stderr


def test_the_version_is_one_line(home: dict[str, str]) -> None:
    done = run("--version", env=home)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("trunkline 0.")


def test_without_a_command_help_is_shown_and_the_exit_code_says_wrong_use(home: dict[str, str]) -> None:
    done = run(env=home)

    assert done.returncode == 2
    assert "up" in done.stderr


def test_what_is_added_is_listed_used_and_removed_again(home: dict[str, str]) -> None:
    add_faulty("one", home)
    add_faulty("two", home, "--era", "legacy")

    listed = json.loads(run("list", "--format", "json", env=home).stdout)
    tools = run("tools", "--format", "compact", "--server", "one", env=home).stdout.split()
    said = run("exec", "two", "echo", "text=hello", "--format", "compact", env=home)
    removed = run("remove", "one", "--force", env=home)
    left = json.loads(run("list", "--format", "json", env=home).stdout)

    assert [server["name"] for server in listed["servers"]] == ["one", "two"]
    assert "one__echo" in tools
    assert (said.returncode, said.stdout) == (0, "hello\n")
    assert removed.returncode == 0
    assert [server["name"] for server in left["servers"]] == ["two"]


def test_comments_in_the_file_survive_a_change(home: dict[str, str]) -> None:
    file = Path(home["HOME"]) / "trunkline.toml"
    file.write_text("# mine\n[gateway]\nport = 1 # why\n")

    run("add", "a", "uvx", "thing", "--flag", env=home)
    text = file.read_text()

    assert "# mine" in text
    assert "# why" in text
    assert 'args = ["thing", "--flag"]' in text


def test_a_clients_json_file_can_be_changed_too(home: dict[str, str]) -> None:
    file = Path(home["HOME"]) / "mcp.json"
    file.write_text('{"other": 1, "mcpServers": {}}')

    run("add", "web", "https://h.example/mcp", "--header", "X-Key: v", "--config", str(file), env=home)

    assert json.loads(file.read_text()) == {
        "other": 1,
        "mcpServers": {"web": {"url": "https://h.example/mcp", "headers": {"X-Key": "v"}}},
    }


def test_a_new_file_is_readable_by_its_owner_alone(home: dict[str, str]) -> None:
    run("add", "a", "x", env=home)

    assert (Path(home["XDG_CONFIG_HOME"]) / "trunkline" / "trunkline.toml").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("list",), 2, "There is no configuration yet."),
        (("up", "--config", "nowhere.toml"), 2, "There is no file"),
        (("up", "--host", "0.0.0.0"), 2, "without a token"),
        (("up", "--port", "x"), 2, "gateway"),
        (("nonsense",), 2, "invalid choice"),
        (("remove", "a"), 2, "There is no configuration"),
    ],
)
def test_wrong_use_is_explained(words: tuple[str, ...], code: int, complaint: str, home: dict[str, str]) -> None:
    done = run(*words, env=home)

    assert done.returncode == code
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_exec_explains_what_it_cannot_do(home: dict[str, str]) -> None:
    add_faulty("one", home)
    run("add", "gone", "no-such-program", env=home)

    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("exec", "one", "ecko"), 1, "Did you mean 'one__echo'"),
        (("exec", "nobody", "echo"), 2, "There is no server 'nobody'"),
        (("exec", "gone", "echo"), 3, "no program 'no-such-program'"),
        (("exec", "one", "echo", "--params", "{"), 2, "not JSON"),
        (("exec", "one", "echo"), 1, ""),
        (("exec", "one", "crash"), 1, "exited with code 1"),
    ]
    for words, code, complaint in cases:
        done = run(*words, env=home)
        assert (words, done.returncode) == (words, code), done.stderr
        assert complaint in done.stderr


def test_test_says_which_servers_work(home: dict[str, str]) -> None:
    add_faulty("good", home)
    add_faulty("bad", home, "--start", "exit")

    done = run("test", "--format", "json", env=home)
    alone = run("test", "good", env=home)
    report: dict[str, Any] = {server["name"]: server for server in json.loads(done.stdout)["servers"]}

    assert done.returncode == 3
    assert report["good"]["state"] == "ready"
    assert report["bad"]["state"] == "unreachable"
    assert "exited with code 3" in report["bad"]["reason"]
    assert alone.returncode == 0


def test_json_on_standard_output_is_json_and_nothing_else(home: dict[str, str]) -> None:
    with faulty_http() as url:
        run("add", "web", url, env=home)

        for words in (("list",), ("servers",), ("tools",), ("test",), ("exec", "web", "echo", "text=1")):
            json.loads(run(*words, "--format", "json", env=home).stdout)


def test_remove_asks_and_without_a_terminal_refuses(home: dict[str, str]) -> None:
    add_faulty("one", home)

    done = run("remove", "one", env=home)

    assert done.returncode == 2
    assert "--force" in done.stderr
    assert "one" in run("list", "--format", "compact", env=home).stdout
