"""`trunkline connect` and `undo`, as a stranger uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.inside import run, typed
from tests.cli.test_imports import home, lay, ours
from tests.clients.scene import FILES
from trunkline.clients import jsonc

__all__ = ["home"]


def cursor(home: dict[str, str]) -> Path:
    file = Path(home["HOME"]) / ".cursor" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes((FILES / "cursor" / "mcp.json").read_bytes())
    return file


def test_a_client_is_connected_and_undone(home: dict[str, str]) -> None:
    file = cursor(home)
    data = file.read_bytes()

    done = run("connect", "cursor", "--yes", env=home)
    again = run("connect", "cursor", "--yes", env=home)
    listed = run("connect", "--list", "--format", "json", env=home)
    undone = run("undo", "cursor", env=home)
    nothing = run("undo", env=home)

    assert [one.returncode for one in (done, again, listed, undone, nothing)] == [0, 0, 0, 0, 1]
    assert '+      "url": "http://127.0.0.1:7420/mcp"' in done.stdout
    assert "connected already" in again.stderr
    state = {row["client"]: row for row in json.loads(listed.stdout)["clients"]}
    assert (state["cursor"]["found"], state["cursor"]["url"]) == (True, "http://127.0.0.1:7420/mcp")
    assert (state["zed"]["found"], state["zed"]["url"]) == (False, "")
    assert file.read_bytes() == data


def test_a_dry_run_and_a_terminal_without_anybody_write_nothing(home: dict[str, str]) -> None:
    file = cursor(home)
    data = file.read_bytes()

    shown = run("connect", "cursor", "--dry-run", env=home)
    alone = run("connect", "cursor", env=home)

    assert (shown.returncode, alone.returncode) == (0, 1)
    assert "trunkline" in shown.stdout
    assert "--yes" in alone.stderr
    assert file.read_bytes() == data


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("\x04", 1)])
def test_a_person_is_asked(answer: str, code: int, home: dict[str, str]) -> None:
    file = cursor(home)
    data = file.read_bytes()

    done = typed("connect", "cursor", env=home, answers=answer)

    assert done.returncode == code
    assert (file.read_bytes() == data) is (code == 1)


def test_what_was_imported_is_replaced_and_comes_back(home: dict[str, str]) -> None:
    file = cursor(home)
    data = file.read_bytes()
    run("import", "cursor", "--yes", "--no-start", env=home)

    done = run("connect", "cursor", "--replace", "--yes", "--format", "json", env=home)
    text = file.read_text()
    run("undo", env=home)

    assert json.loads(done.stdout)["replaced"] == ["linear", "notion"]
    assert json.loads(done.stdout)["sign_in"] == ["linear"]
    assert "linear may want a sign-in, which Cursor kept to itself: trunkline login linear" in done.stderr
    assert "// servers that I use every day" in text
    assert "linear" not in text
    assert '"trunkline"' in text
    assert file.read_bytes() == data


def test_in_a_file_that_others_changed_since_only_our_change_is_taken_back(home: dict[str, str]) -> None:
    file = cursor(home)
    data = file.read_text()
    run("connect", "cursor", "--yes", env=home)
    file.write_text(file.read_text().replace("issues", "tickets"))

    undone = run("undo", "cursor", env=home)
    again = run("undo", "cursor", env=home)

    assert (undone.returncode, again.returncode) == (0, 1)
    assert "trunkline" in undone.stdout
    assert "somebody else" in undone.stderr
    assert file.read_text() == data.replace("issues", "tickets")


def test_what_was_replaced_comes_back_into_a_file_that_others_changed_since(home: dict[str, str]) -> None:
    file = cursor(home)
    before = jsonc.read(file.read_text())
    run("import", "cursor", "--yes", "--no-start", env=home)
    run("connect", "cursor", "--replace", "--yes", env=home)
    changed = jsonc.read(file.read_text())
    changed["mcpServers"]["notion"] = {"command": "another"}
    file.write_text(json.dumps(changed))

    undone = run("undo", "cursor", env=home)

    after = jsonc.read(file.read_text())
    assert undone.returncode == 0
    assert "trunkline" not in after["mcpServers"]
    assert after["mcpServers"]["linear"] == before["mcpServers"]["linear"]
    assert after["mcpServers"]["notion"] == {"command": "another"}


def test_by_force_the_whole_file_is_put_back(home: dict[str, str]) -> None:
    file = cursor(home)
    data = file.read_bytes()
    run("connect", "cursor", "--yes", env=home)
    file.write_text(file.read_text().replace("issues", "tickets"))

    forced = run("undo", "cursor", "--force", env=home)

    assert forced.returncode == 0
    assert file.read_bytes() == data


def test_a_file_that_became_unreadable_is_left_alone(home: dict[str, str]) -> None:
    file = cursor(home)
    run("connect", "cursor", "--yes", env=home)
    file.write_text("{ broken")

    refused = run("undo", "cursor", env=home)

    assert refused.returncode == 2
    assert file.read_text() == "{ broken"


def test_a_project_has_a_configuration_of_its_own_and_leaves_no_trace(home: dict[str, str]) -> None:
    done = run("connect", "vscode", "--project", "--yes", env=home)
    file = Path(home["HOME"]) / ".vscode" / "mcp.json"
    told = json.loads(file.read_text())
    undone = run("undo", env=home)

    assert (done.returncode, undone.returncode) == (0, 0)
    assert told == {"servers": {"trunkline": {"type": "http", "url": "http://127.0.0.1:7420/mcp"}}}
    assert not file.parent.exists()


def test_a_client_without_addresses_starts_us(home: dict[str, str]) -> None:
    ours(home).parent.mkdir(parents=True)
    ours(home).write_text('[gateway]\ntoken = "the-token-itself"\n')

    done = run("connect", "claude-desktop", "--yes", env=home)
    again = run("connect", "claude-desktop", "--yes", env=home)
    listed = json.loads(run("connect", "--list", "--format", "json", env=home).stdout)["clients"]

    file = Path(home["HOME"]) / ".config" / "Claude" / "claude_desktop_config.json"
    entry = json.loads(file.read_text())["mcpServers"]["trunkline"]
    assert (done.returncode, again.returncode) == (0, 0)
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-3:] == ["stdio", "--config", str(ours(home))]
    assert "is connected already" in again.stderr
    assert [one["url"] for one in listed if one["client"] == "claude-desktop"] == ["stdio"]


def test_the_gateways_token_is_never_written_only_its_variable(home: dict[str, str]) -> None:
    ours(home).parent.mkdir(parents=True)
    ours(home).write_text('[gateway]\ntoken = "the-token-itself"\n')
    named = Path(home["HOME"]) / "named.toml"
    named.write_text('[gateway]\ntoken = "${env:MY_TOKEN}"\n')

    first = run("connect", "cursor", "--yes", env=home)
    second = run("connect", "codex", "--yes", "--config", str(named), env={**home, "MY_TOKEN": "the-token-itself"})
    zed = run("connect", "zed", "--yes", env=home)

    written = Path(home["HOME"])
    assert "Bearer ${env:TRUNKLINE_GATEWAY_TOKEN}" in (written / ".cursor" / "mcp.json").read_text()
    assert 'bearer_token_env_var = "MY_TOKEN"' in (written / ".codex" / "config.toml").read_text()
    assert "headers" not in (written / ".config" / "zed" / "settings.json").read_text()
    assert "TRUNKLINE_GATEWAY_TOKEN: set it" in first.stderr
    assert "knows no variables" in zed.stderr
    for done in (first, second, zed):
        assert done.returncode == 0, done.stderr
        assert "the-token-itself" not in done.stdout + done.stderr


def test_undo_needs_no_configuration_that_works(home: dict[str, str]) -> None:
    file = cursor(home)
    data = file.read_bytes()
    run("connect", "cursor", "--yes", env=home)
    ours(home).parent.mkdir(parents=True)
    ours(home).write_text("broken =")

    done = run("undo", env=home)

    assert done.returncode == 0, done.stderr
    assert file.read_bytes() == data


def test_a_list_for_people_says_where_and_what_cannot_be_read(home: dict[str, str]) -> None:
    lay(home, ".codeium/windsurf/mcp_config.json", {"t": {"serverUrl": "http://localhost:7420/mcp"}})
    (Path(home["HOME"]) / ".claude.json").write_text("{")

    table = run("connect", "--list", env=home)
    compact = run("connect", "--list", "--format", "compact", env=home)

    rows = {line.split()[0]: line for line in table.stdout.splitlines()}
    assert "http://localhost:7420/mcp" in rows["windsurf"]
    assert "cannot be read" in rows["claude-code"]
    assert compact.stdout.split() == ["windsurf", str(Path(home["HOME"]) / ".codeium/windsurf/mcp_config.json")]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("connect",), 2, "Connect which client?"),
        (("connect", "cursr"), 2, "Did you mean 'cursor'?"),
        (("connect", "windsurf", "--project"), 2, "Leave --project out."),
        (("connect", "cursor", "--url", "nowhere"), 2, "--url wants an address"),
        (("undo", "nobody"), 2, "There is no client"),
        (("undo",), 1, "There is nothing to undo."),
    ],
)
def test_wrong_use_is_explained(words: tuple[str, ...], code: int, complaint: str, home: dict[str, str]) -> None:
    done = run(*words, env=home)

    assert (done.returncode, complaint in done.stderr) == (code, True), done.stderr


def test_a_broken_file_is_refused_and_left(home: dict[str, str]) -> None:
    file = cursor(home)
    file.write_text("{ broken")

    done = run("connect", "cursor", "--yes", env=home)

    assert done.returncode == 2
    assert "is not valid JSON" in done.stderr
    assert file.read_text() == "{ broken"
