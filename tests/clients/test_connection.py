"""Trunkline in the clients' files: nothing else changes, and it is taken back to the byte."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.scene import TARGETS, Machine, client_of
from trunkline.clients.client import CLIENTS, Place
from trunkline.clients.connection import FileChange, gateway_url, own_entry, plan, taken_back
from trunkline.clients.document import Document
from trunkline.clients.file import backups, changed_since, restore, write
from trunkline.clients.server import entries
from trunkline.config.options import GatewayConfig
from trunkline.errors import ConfigError

URL = "http://127.0.0.1:7420/mcp"


def planned(machine: Machine, name: str, **options: Any) -> FileChange:
    client = CLIENTS[client_of(name)]
    given: dict[str, Any] = {"url": URL, **options}
    if not client.remote:
        given["program"] = {"command": "/opt/trunkline", "args": ["stdio", "--url", given["url"]]}
    return plan(client, machine.target(name), machine.around, **given)


def connect(machine: Machine, name: str, **options: Any) -> FileChange:
    change = planned(machine, name, **options)
    if change.needed:
        write(machine.root / "state", client_of(name), change.original, change.after.data, 1_000_000.0)
    return change


def undo(machine: Machine) -> None:
    restore(backups(machine.root / "state")[0])


def value_of(place: Place, data: bytes) -> dict[str, Any]:
    return Document.of(place.path, place.format, data).value()


# What editors make of files: each is the same file to its client.

LOOKS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda data: data,
    "with CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "with a BOM": lambda data: b"\xef\xbb\xbf" + data,
    "without a last newline": lambda data: data.rstrip(b"\n"),
    "with empty lines behind": lambda data: data + b"\n\n",
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", TARGETS)
def test_connecting_adds_one_entry_and_undoing_restores_every_byte(name: str, look: str, machine: Machine) -> None:
    data = LOOKS[look](machine.text(name).encode())
    path, place = machine.lay(name, data), machine.target(name)
    assert place.path == path
    before = value_of(place, data)

    connect(machine, name)

    after = value_of(place, path.read_bytes())
    old, new = entries(before, place.keys[0]), entries(after, place.keys[0])
    assert new[:-1] == old
    assert new[-1][0] == "trunkline"
    assert URL in str(new[-1][1])
    assert {**after, place.keys[0][0]: None} == {**before, place.keys[0][0]: None}
    undo(machine)
    assert path.read_bytes() == data


ONE_LINE = ("cursor-empty", "cursor-project")


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in ONE_LINE])
def test_every_old_line_stays_where_it_was(name: str, machine: Machine) -> None:
    text = machine.text(name)
    path = machine.lay(name)

    connect(machine, name)

    lines = iter(path.read_text().splitlines())
    assert all(any(old.rstrip(",") == line.rstrip(",") for line in lines) for old in text.splitlines())


@pytest.mark.parametrize("name", ONE_LINE)
def test_what_was_one_line_keeps_what_stood_in_it(name: str, machine: Machine) -> None:
    text = machine.text(name)
    path = machine.lay(name)

    connect(machine, name)

    kept = text.strip().rstrip("}").rstrip()
    assert len(text.splitlines()) == 1
    assert path.read_text().startswith(kept)


@pytest.mark.parametrize("name", TARGETS)
def test_connecting_twice_changes_nothing_more(name: str, machine: Machine) -> None:
    path = machine.lay(name)
    connect(machine, name)
    data = path.read_bytes()

    assert not planned(machine, name).needed
    assert not planned(machine, name, url=URL.replace("127.0.0.1", "localhost")).needed
    assert path.read_bytes() == data


@pytest.mark.parametrize("name", TARGETS)
def test_another_address_takes_the_place_of_the_old_one_and_both_steps_are_undone(name: str, machine: Machine) -> None:
    path, place = machine.lay(name), machine.target(name)
    data = path.read_bytes()
    connect(machine, name)
    once = path.read_bytes()

    connect(machine, name, url="https://other.example/mcp")

    listed = entries(value_of(place, path.read_bytes()), place.keys[0])
    assert "other.example" in str(listed[-1])
    assert [entry_name for entry_name, _ in listed].count("trunkline") == 1
    undo(machine)
    assert path.read_bytes() == once
    undo(machine)
    assert path.read_bytes() == data


@pytest.mark.parametrize("name", TARGETS)
def test_where_there_is_no_file_one_is_made_and_undoing_leaves_nothing(name: str, machine: Machine) -> None:
    place = machine.target(name)
    if client_of(name) == "continue" and not name.endswith("-project"):
        assert place.path.name == "trunkline.yaml"  # a new config.yaml would hide an older config.json

    connect(machine, name)

    assert own_entry(place, value_of(place, place.path.read_bytes()), [URL])
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o600
    undo(machine)
    assert list(machine.home.iterdir()) == list(machine.folder.iterdir()) == []


SHAPES: dict[str, dict[str, Any]] = {
    "claude-desktop": {"command": "/opt/trunkline", "args": ["stdio", "--url", URL]},
    "claude-code": {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
    "cursor": {"url": URL, "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
    "vscode": {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
    "windsurf": {"serverUrl": URL, "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
    "zed": {"url": URL},
    "continue": {
        "name": "trunkline",
        "type": "streamable-http",
        "url": URL,
        "requestOptions": {"headers": {"Authorization": "Bearer ${{ secrets.TOKEN }}"}},
    },
    "codex": {"url": URL, "bearer_token_env_var": "TOKEN"},
    "gemini": {"httpUrl": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
    "opencode": {"type": "remote", "url": URL, "headers": {"Authorization": "Bearer {env:TOKEN}"}},
    "goose": {
        "enabled": True,
        "type": "streamable_http",
        "name": "trunkline",
        "description": "Every MCP server behind Trunkline",
        "uri": URL,
        "env_keys": ["TOKEN"],
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        "timeout": 300,
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_entry_has_the_form_of_its_client_and_the_token_is_a_variable(name: str, machine: Machine) -> None:
    connect(machine, name, token="TOKEN")

    place = machine.target(name)
    found = own_entry(place, value_of(place, place.path.read_bytes()), [])
    assert found == ("trunkline", SHAPES[name])


def test_keys_that_the_user_added_to_our_entry_stay(machine: Machine) -> None:
    path = machine.lay("cursor", b'{"mcpServers": {"trunkline": {"url": "http://old:1/mcp", "disabledTools": ["x"]}}}')

    connect(machine, "cursor")

    assert value_of(machine.target("cursor"), path.read_bytes())["mcpServers"] == {
        "trunkline": {"disabledTools": ["x"], "url": URL}
    }


def test_an_entry_of_another_name_that_leads_here_is_the_one(machine: Machine) -> None:
    machine.lay("cursor", b'{"mcpServers": {"gate": {"url": "http://localhost:7420/mcp"}}}')

    assert not planned(machine, "cursor").needed


# Taking out what Trunkline has.


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "cursor-empty"])
def test_replacing_takes_out_what_trunkline_has_and_nothing_else(name: str, machine: Machine) -> None:
    found = machine.find(name)
    taken = found.servers[0]
    path, place = machine.lay(name), machine.target(name)
    data = path.read_bytes()

    change = connect(machine, name, known={"renamed": taken.spec})

    names = [one for one, _ in entries(value_of(place, path.read_bytes()), place.keys[0])]
    before = [one for one, _ in entries(value_of(place, data), place.keys[0])]
    assert change.replaced == (taken.name,)
    assert names == [one for one in before if one != taken.name] + ["trunkline"]
    undo(machine)
    assert path.read_bytes() == data


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "cursor-empty"])
def test_a_change_is_taken_back_out_of_a_file_that_others_changed_since(name: str, machine: Machine) -> None:
    taken = machine.find(name).servers[0]
    path, place = machine.lay(name), machine.target(name)
    before = Document.of(path, place.format, path.read_bytes())
    change = connect(machine, name, known={"renamed": taken.spec})
    theirs = (*place.keys[0], "theirs")
    entry = {"command": "theirs", **({"name": "theirs"} if place.listed else {})}

    now = Document.of(path, place.format, path.read_bytes()).with_entry(theirs, entry, listed=place.listed)
    after = taken_back(now, before, place, change.touched)

    kept = dict(entries(after.value(), place.keys[0]))
    assert kept == {**dict(entries(before.value(), place.keys[0])), "theirs": entry}


def test_a_server_whose_secret_was_moved_is_recognised_and_one_with_another_argument_is_not(machine: Machine) -> None:
    machine.lay("zed")
    moved = {
        "command": "/usr/local/bin/pg-server",
        "args": ["--readonly"],
        "env": {"DATABASE_URL": "${env:DATABASE_URL}"},
    }

    assert planned(machine, "zed", known={"pg": moved}).replaced == ("postgres",)
    assert planned(machine, "zed", known={"pg": {**moved, "args": []}}).replaced == ()


def test_all_of_a_clients_servers_can_be_taken_out(machine: Machine) -> None:
    for name in ("claude-code", "codex", "goose", "continue"):
        found = machine.find(name)
        known = {server.name: server.spec for server in found.servers if server.client == client_of(name)}

        change = planned(machine, name, known=known)

        assert set(change.replaced) == set(known)


# Files that must not be touched.


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cursor", b'{"mcpServers": {'),
        ("cursor", b"[]"),
        ("cursor", b'{"mcpServers": []}'),
        ("cursor", b'{"mcpServers": {}} trailing'),
        ("cursor", b"\xff\xfe{\x00}\x00"),
        ("zed", b"{'context_servers': {}}"),
        ("codex", b"mcp_servers = "),
        ("codex", b'mcp_servers = { a = { command = "x" } }\n'),
        ("codex", b"[mcp_servers]\n[mcp_servers]\n"),
        ("goose", b"extensions: &all\n  a: {}\n"),
        ("goose", b"extensions: {a: {type: builtin}}\n"),
        ("goose", b"extensions:\n\ta: 1\n"),
        ("goose", b"- a\n- b\n"),
        ("goose", b"a: 1\n---\nb: 2\n"),
        ("goose", b"a: 'never ends\n"),
        ("continue", b"mcpServers:\n  a:\n    command: x\n"),
        ("continue", b"mcpServers:\n  - name: a\n   command: x\n"),
        ("continue", b"base: &b\n  x: 1\nmcpServers:\n  - <<: *b\n"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_politely_and_left_alone(
    name: str, data: bytes, machine: Machine
) -> None:
    path = machine.lay(name, data)

    with pytest.raises(ConfigError) as error:
        connect(machine, name)

    assert path.read_bytes() == data
    assert str(path) in str(error.value)
    assert backups(machine.root / "state") == []


def test_a_read_only_file_is_left_alone(machine: Machine) -> None:
    path = machine.lay("cursor")
    path.chmod(0o444)

    with pytest.raises(ConfigError, match="read-only"):
        connect(machine, "cursor")


def test_mode_and_link_of_a_file_stay(machine: Machine) -> None:
    path = machine.lay("cursor")
    real = machine.root / "dotfiles.json"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to("../../dotfiles.json")
    data = real.read_bytes()

    connect(machine, "cursor")

    assert os.readlink(path) == "../../dotfiles.json"
    assert URL.encode() in real.read_bytes()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    undo(machine)
    assert (real.read_bytes(), path.is_symlink(), stat.S_IMODE(real.stat().st_mode)) == (data, True, 0o640)


def test_a_link_that_leads_nowhere_yet_gets_its_file_and_loses_it_again(machine: Machine) -> None:
    link = machine.home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(machine.root / "dots" / "cursor.json")

    connect(machine, "cursor")

    assert URL in (machine.root / "dots" / "cursor.json").read_text()
    undo(machine)
    assert link.is_symlink()
    assert not (machine.root / "dots").exists()


def test_a_file_that_changes_between_look_and_write_is_left_alone(machine: Machine) -> None:
    path = machine.lay("cursor")
    change = planned(machine, "cursor")
    path.write_text("{}")

    with pytest.raises(ConfigError, match="just changed"):
        write(machine.root / "state", "cursor", change.original, change.after.data, 1.0)

    assert path.read_text() == "{}"
    assert backups(machine.root / "state") == []


def test_no_half_written_file_is_left_behind(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.lay("cursor")
    data = path.read_bytes()
    change = planned(machine, "cursor")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        write(machine.root / "state", "cursor", change.original, change.after.data, 1.0)

    assert [file.name for file in path.parent.iterdir()] == ["mcp.json"]
    assert path.read_bytes() == data


# Backups.


def test_backups_are_private_and_know_what_was_there(machine: Machine) -> None:
    path = machine.lay("cursor")
    path.chmod(0o644)
    data = path.read_bytes()

    connect(machine, "cursor")

    backup = backups(machine.root / "state")[0]
    assert (backup.client, backup.path, backup.mode, backup.time) == ("cursor", path, 0o644, 1_000_000.0)
    assert backup.before() == data
    kept = [backup.record, backup.kept]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in kept)
    assert stat.S_IMODE(backup.record.parent.stat().st_mode) == 0o700
    undo(machine)
    assert not any(file.exists() for file in kept)


def test_a_change_by_others_is_noticed(machine: Machine) -> None:
    path = machine.lay("cursor")
    connect(machine, "cursor")
    backup = backups(machine.root / "state")[0]
    assert not changed_since(backup)

    path.write_text(path.read_text() + " ")

    assert changed_since(backup)


def test_the_latest_of_each_client_comes_first_and_strange_files_do_no_harm(machine: Machine) -> None:
    for name in ("cursor", "zed"):
        machine.lay(name)
        connect(machine, name)
    connect(machine, "cursor", url="http://127.0.0.1:1/mcp")
    (machine.root / "state" / "backups" / "notes.json").write_text("{}")

    assert [backup.client for backup in backups(machine.root / "state", "cursor")] == ["cursor", "cursor"]
    assert b":1/mcp" in backups(machine.root / "state", "cursor")[0].path.read_bytes()
    assert [len(backups(machine.root / "state", name)) for name in ("zed", "goose", "")] == [1, 0, 3]


# What is shown.


def test_the_preview_hides_secrets_and_shows_what_changes(machine: Machine) -> None:
    found = machine.find("zed", "claude-desktop")
    known = {server.name: server.spec for server in found.servers}

    zed = planned(machine, "zed", known=known).preview()
    desktop = planned(machine, "claude-desktop", known=known).preview()

    assert "pw-zed-1" not in zed
    assert "blue-team" not in zed
    assert f'+      "url": "{URL}"' in zed
    assert '-    "postgres": {' in zed
    assert "weather-secret-1" not in desktop


def test_a_preview_cannot_move_the_cursor_and_stays_short(machine: Machine) -> None:
    text = '{"mcpServers": {"a": {"command": "x", "args": ["\u202e\u009b2J' + "y" * 5000 + '"]}}}'
    machine.lay("cursor", text.encode())

    shown = planned(machine, "cursor").preview()

    assert "\u202e" not in shown
    assert "\u009b" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 200


def test_the_preview_of_a_huge_file_is_small(machine: Machine) -> None:
    import json

    projects = {f"/p/{number}": {"history": [f"line {number}"] * 20} for number in range(5000)}
    machine.lay("claude-code", json.dumps({"mcpServers": {}, "projects": projects}, indent=2).encode())

    assert len(planned(machine, "claude-code").preview().splitlines()) < 20


@pytest.mark.parametrize(
    ("gateway", "url"),
    [
        (GatewayConfig(), URL),
        (GatewayConfig(host="0.0.0.0", port=80, token="t"), "http://127.0.0.1:80/mcp"),
        (GatewayConfig(host="::", port=81), "http://[::1]:81/mcp"),
        (GatewayConfig(public_url="https://mcp.example.org/"), "https://mcp.example.org/mcp"),
    ],
)
def test_clients_are_led_to_where_the_gateway_is(gateway: GatewayConfig, url: str) -> None:
    assert gateway_url(gateway) == url


def test_a_gateway_at_any_free_port_must_be_named() -> None:
    with pytest.raises(ConfigError, match="--url"):
        gateway_url(GatewayConfig(port=0))


def test_only_existing_folders_are_left_when_writing_fails(machine: Machine) -> None:
    place = machine.target("cursor")
    change = planned(machine, "cursor")
    Path(machine.root / "state").write_text("a file where a folder should be")

    with pytest.raises(ConfigError, match="No backup can be made"):
        write(machine.root / "state", "cursor", change.original, change.after.data, 1.0)

    assert not place.path.parent.exists()
