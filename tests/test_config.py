"""The configuration: files of every kind, the environment, flags, and complaints that help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trunkline.errors import ConfigError
from trunkline.reading import find_file, load, parse

CLAUDE = {"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "1"}, "autoApprove": ["x"]}}}
VSCODE: dict[str, Any] = {
    "inputs": [],
    "servers": {"files": {"type": "stdio", "command": "npx"}, "web": {"type": "sse", "url": "http://h/s"}},
}


def test_a_clients_own_file_is_taken_as_it_is() -> None:
    claude = parse(CLAUDE, env={})
    vscode = parse(VSCODE, env={})

    assert claude.servers["files"].args == ("-y", "files")
    assert claude.servers["files"].env == {"A": "1"}
    assert [spec.kind for spec in vscode.servers.values()] == ["stdio", "sse"]


def test_comments_and_trailing_commas_of_vs_code_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{ // mine\n "servers": {"a": {"type": "http", "url": "http://h//x", /* no */ },},}')

    assert load(file, env={}).servers["a"].url == "http://h//x"


def test_variables_are_put_in_and_a_missing_one_concerns_its_server_alone() -> None:
    servers = {
        "good": {"url": "http://${env:HOST}/", "headers": {"X": "${TOKEN:-none}"}},
        "bad": {"command": "x", "env": {"KEY": "${env:ABSENT}"}},
    }

    config = parse({"servers": servers}, env={"HOST": "h"})

    assert config.servers["good"].url == "http://h/"
    assert config.servers["good"].headers == {"X": "none"}
    assert config.servers["good"].problem == ""
    assert "ABSENT" in config.servers["bad"].problem


def test_flags_outrank_the_environment_which_outranks_the_file(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text("[gateway]\nport = 1\npage_size = 2\nsettle = 0.1\n")

    config = load(file, env={"TRUNKLINE_GATEWAY_PORT": "3", "TRUNKLINE_GATEWAY_PAGE_SIZE": "4"}, flags={"port": "5"})

    assert (config.gateway.port, config.gateway.page_size, config.gateway.settle) == (5, 4, 0.1)


def test_the_folders_file_comes_before_the_users(tmp_path: Path) -> None:
    mine = tmp_path / "config" / "trunkline" / "trunkline.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    assert find_file(env, tmp_path) == mine
    (tmp_path / "trunkline.toml").write_text("")
    assert find_file(env, tmp_path) == tmp_path / "trunkline.toml"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"gatway": {}}, "Did you mean 'gateway'"),
        ({"gateway": {"prot": 1}}, "Did you mean 'port'"),
        ({"gateway": {"port": "x"}}, "gateway"),
        ({"servers": {"a": {}}}, "no address"),
        ({"servers": {"a": {"command": "x", "url": "http://h"}}}, "both a command and a URL"),
        ({"servers": {"a": {"url": "ftp://h"}}}, "not an http address"),
        ({"servers": {"a b": {"command": "x"}}}, "cannot be a server's name"),
        ({"servers": {"a": {"command": "x", "timeout": 0}}}, "more than 0"),
        ({"servers": {"a": {"command": "x", "transport": "http"}}}, "cannot be reached by"),
        ({"servers": []}, "must be a table"),
        ({"gateway": {"token": "${env:NOPE}"}}, "NOPE is not set"),
    ],
)
def test_a_wrong_configuration_is_refused_with_what_is_wrong(document: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(document, env={})

    assert complaint in str(caught.value)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{")

    with pytest.raises(ConfigError, match=r"x\.json is not valid JSON"):
        load(file, env={})
    with pytest.raises(ConfigError, match="There is no file"):
        load(tmp_path / "y.toml", env={})


def test_what_may_be_secret_is_not_printed() -> None:
    spec = parse({"servers": {"a": {"command": "x", "env": {"K": "canary"}}}}, env={}).servers["a"]
    gateway = parse({"gateway": {"token": "canary-canary-canary"}}, env={}).gateway

    assert "canary" not in repr(spec)
    assert "canary" not in repr(gateway)


def test_the_fingerprint_follows_every_option() -> None:
    base = {"command": "x"}
    variants = [base, {**base, "args": ["y"]}, {**base, "env": {"A": "1"}}, {**base, "timeout": 3.0}]

    prints = {parse({"servers": {"a": variant}}, env={}).servers["a"].fingerprint for variant in variants}

    assert len(prints) == len(variants)
