"""Files of others, as `import`, `connect` and every command that reads a configuration may meet them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import Inside
from tests.harness import TRUNKLINE, faulty, trunkline_up
from trunkline.config.reading import LARGEST_FILE

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Commands in a home of their own, beside which other things lie."""
    (tmp_path / "home").mkdir()
    (tmp_path / "beside").write_text("as it was")
    return Inside(tmp_path / "home", monkeypatch)


def lay(cli: Inside, path: str, text: str) -> Path:
    file = cli.home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, and what is in it."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def huge(path: Path) -> None:
    """A file that is larger than any that is read; it takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)


CLIENT_FILES = {".cursor/mcp.json": "[" * 100_000, ".codex/config.toml": f"x = {DEEP}", ".continue/config.yaml": DEEP}


@pytest.mark.parametrize("path", CLIENT_FILES)
def test_a_clients_file_that_is_nested_without_end_hides_no_other(cli: Inside, path: str) -> None:
    file = lay(cli, path, CLIENT_FILES[path])
    lay(cli, ".claude.json", json.dumps({"mcpServers": {"good": {"command": "good"}}}))

    done = cli.run("import", "--yes", "--no-start", "--format", "json")

    assert done.returncode == 0, done.stderr
    assert [server["name"] for server in json.loads(done.stdout)["servers"]] == ["good"]
    assert file.read_text() == CLIENT_FILES[path]


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 20))


def test_a_clients_file_that_would_grow_without_end_is_named_and_hides_no_other(cli: Inside) -> None:
    lay(cli, ".continue/config.yaml", f"{BOMB}mcpServers: [*a19]\n")
    lay(cli, ".claude.json", json.dumps({"mcpServers": {"good": {"command": "good"}}}))

    done = cli.run("import", "--yes", "--no-start", "--format", "json")

    assert [server["name"] for server in json.loads(done.stdout)["servers"]] == ["good"]
    assert "config.yaml" in done.stderr
    assert "line 1 uses '&', which is not understood here" in done.stderr, done.stderr


@pytest.mark.parametrize("what", ["100 MB", "a link to another's file", "a folder", "a command"])
def test_a_document_of_a_store_that_is_none_changes_nothing(cli: Inside, what: str, tmp_path: Path) -> None:
    cli.run("user", "add", "ana")
    before, file = cli.run("store", "export", "-").stdout, cli.home / "theirs.json"
    if what == "100 MB":
        with file.open("wb") as opened:
            opened.truncate(100 * 2**20)
    elif what == "a folder":
        file.mkdir()
    elif what == "a command":
        server = {"name": "x", "content": {"command": "sh", "args": ["-c", f"touch {tmp_path / 'canary'}"]}}
        file.write_text(json.dumps({**json.loads(before), "servers": [server]}))
    else:
        file.symlink_to(tmp_path / "beside")

    done = cli.run("store", "import", "theirs.json", "--yes")

    assert (done.returncode, "as it was" in done.stdout + done.stderr) == (2, False), done.stderr
    assert cli.run("store", "export", "-").stdout == before
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("words", [("import", "--no-start", "--from", "mcp.json"), ("list", "--config", "mcp.json")])
@pytest.mark.parametrize("size", ["deep", "huge"])
def test_a_file_without_bounds_is_refused_by_name(cli: Inside, words: tuple[str, ...], size: str) -> None:
    if size == "deep":
        lay(cli, "mcp.json", f'{{"mcpServers": {DEEP}}}')
    else:
        huge(cli.home / "mcp.json")

    done = cli.run(*words)

    assert done.returncode == 2, done.stderr
    assert "mcp.json" in done.stderr
    assert ("nested too deeply" if size == "deep" else "has more than 64 MiB") in done.stderr


def test_connect_leaves_a_file_without_bounds_alone(cli: Inside) -> None:
    huge(cli.home / ".cursor" / "mcp.json")

    done = cli.run("connect", "cursor", "--yes")

    assert done.returncode == 2
    assert "has more than 64 MiB" in done.stderr
    assert (cli.home / ".cursor" / "mcp.json").stat().st_size == LARGEST_FILE + 1


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_the_doctor_examines_a_file_that_is_nested_without_end(cli: Inside, suffix: str) -> None:
    lay(cli, f"deep.{suffix}", f"x = {DEEP}" if suffix == "toml" else DEEP)

    done = cli.run("doctor", "--config", f"deep.{suffix}")

    assert "unexpected" not in done.stderr
    assert "nested too deeply" in done.stdout + done.stderr


def test_a_gateway_outlives_a_configuration_that_is_nested_without_end(tmp_path: Path) -> None:
    with trunkline_up(tmp_path, {"servers": {"one": faulty()}}) as (_, process):
        assert process.stderr is not None
        said = ""
        while "not taken on" not in said:
            # Again and again, as it is not told when the file begins to be watched.
            (tmp_path / "new").write_text(DEEP)
            (tmp_path / "new").replace(tmp_path / "config.json")
            if select.select([process.stderr], [], [], 1.0)[0]:
                said += os.read(process.stderr.fileno(), 65536).decode()
        alive = process.poll() is None

    assert "config.json is nested too deeply" in said
    assert alive


NAMES = ("../../beside", "/etc/passwd", "..", "a/../../b", "~/x", "C:\\x", "x\0y", "line\nline", "\x1b[2J")


def test_names_from_files_are_no_paths(cli: Inside) -> None:
    lay(cli, ".cursor/mcp.json", json.dumps({"mcpServers": {name: faulty() for name in NAMES}}))
    before = files(cli.home.parent)

    done = cli.run("import", "--yes", "--format", "json")
    ours = cli.home / "c" / "trunkline" / "trunkline.toml"
    names: set[str] = set(tomllib.loads(ours.read_text())["servers"])
    after = files(cli.home.parent)

    assert done.returncode == 0, done.stderr
    assert not [name for name in names if "/" in name or "\\" in name or not name.isprintable()]
    assert {path: text for path, text in after.items() if path in before} == before
    assert all(Path(path).is_relative_to(cli.home) for path in after.keys() - before.keys())


SERVERS: dict[str, Any] = {
    "plain": {"command": "uvx", "args": ["a b", "$HOME", "`x`", "ü", "--flag=1"], "env": {"MODE": "fast"}},
    "remote": {"url": "https://example.com/mcp?x=1", "headers": {"X-Team": "blue"}},
    "idle": {"command": "idle", "disabled": True},
}


def test_what_was_imported_is_the_same_when_it_is_imported_again(cli: Inside) -> None:
    lay(cli, "theirs.json", json.dumps({"mcpServers": SERVERS}))

    cli.run("import", "--from", "theirs.json", "--yes", "--no-start", "--config", "one.toml")
    cli.run("import", "--from", "one.toml", "--yes", "--no-start", "--config", "two.toml")
    one, two = ((cli.home / name).read_text() for name in ("one.toml", "two.toml"))

    assert one == two
    assert tomllib.loads(two)["servers"] == {**SERVERS, "idle": {"command": "idle", "enabled": False}}


def test_modules_that_lie_in_the_folder_do_not_take_the_place_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    canary = tmp_path / "canary"
    for name in ("trunkline/__init__.py", "trunkline/demo/__init__.py", "json.py", "asyncio.py", "mcp.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"open({str(canary)!r}, 'w')\n")
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path / "t")}
    process = subprocess.Popen(
        [TRUNKLINE, "up", "--port", "0"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        told = subprocess.run(
            [TRUNKLINE, "top", "--url", url, "--format", "json"],
            env=env, cwd=folder, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        process.terminate()
        process.communicate(timeout=30)

    assert {server["name"] for server in json.loads(told.stdout)["servers"]} == {"notes", "clock"}
    assert not canary.exists()
