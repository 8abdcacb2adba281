"""What is read in the clients' configurations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.clients.scene import Machine, client_of
from trunkline.clients.client import Around, places
from trunkline.clients.server import find, read_any
from trunkline.config.client_forms import LITERAL, spelled
from trunkline.config.reading import parse
from trunkline.errors import ConfigError

EXPECTED: dict[str, dict[str, Any]] = {
    "claude-desktop": {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ana/Документы"],
        },
        "weather": {
            "command": "npx",
            "args": [
                "mcp-remote",
                "https://weather.example/mcp",
                "--header",
                f"Authorization:{LITERAL}{{AUTH_HEADER}}",
            ],
            "env": {"AUTH_HEADER": "Bearer weather-secret-1"},
        },
    },
    "claude-code": {
        "github": {
            "url": "https://api.githubcopilot.example/mcp/",
            "headers": {"Authorization": "Bearer ${GITHUB_PAT}"},
        },
        "old": {"url": "${API_BASE:-https://sse.example}/sse", "transport": "sse"},
        "local": {"command": "uvx", "args": ["local-server"]},
    },
    "claude-code-project": {
        "db": {
            "command": "./bin/db-server",
            "args": ["--dsn", "${DB_DSN}"],
            "env": {"LEVEL": "${LEVEL:-info}"},
            "cwd": "@FOLDER@",
        },
    },
    "cursor": {
        "linear": {"url": "https://mcp.linear.example/mcp"},
        "notion": {
            "command": "npx",
            "args": ["-y", "notion-server", "--root", "@HOME@/notes"],
            "env": {"NOTION_TOKEN": "${env:NOTION_TOKEN}", "PORT": "3000"},
        },
    },
    "cursor-empty": {},
    "cursor-project": {"files": {"command": "files-server", "args": ["@FOLDER@"], "cwd": "@FOLDER@"}},
    "vscode": {
        "perplexity": {
            "command": "npx",
            "args": ["-y", "server-perplexity-ask"],
            "env": {"PERPLEXITY_API_KEY": "${env:PERPLEXITY_API_KEY}"},
        },
        "remote": {"url": "https://remote.example/mcp", "headers": {"X-Api-Key": "${env:PERPLEXITY_KEY}"}},
    },
    "vscode-settings": {"from-settings": {"command": "node", "args": ["/opt/server.js"]}},
    "windsurf": {
        "figma": {"url": "https://figma.example/mcp", "headers": {"Authorization": "Bearer ${env:FIGMA_TOKEN}"}},
        "git": {"command": "uvx", "args": ["mcp-server-git"], "enabled": False},
    },
    "zed": {
        "postgres": {
            "command": "/usr/local/bin/pg-server",
            "args": ["--readonly"],
            "env": {"DATABASE_URL": "postgres://ana:pw-zed-1@db.example/app"},
        },
        "custom": {"command": "uvx", "args": ["thing"]},
        "newest": {"url": "https://newest.example/mcp", "headers": {"X-Team": "blue-team"}, "enabled": False},
    },
    "continue": {
        "SQLite MCP": {
            "command": "npx",
            "args": ["-y", "mcp-sqlite", "/path/to/your database.db"],
            "env": {"NODE_ENV": "production", "LEVEL": "0007"},
            "cwd": "/home/ana/project",
        },
        "Supabase": {
            "url": "https://supabase.example/mcp",
            "headers": {"Authorization": "Bearer ${env:SUPABASE_TOKEN}"},
        },
    },
    "continue-old": {
        "server-1": {"command": "uvx", "args": ["mcp-server-time"]},
        "web": {"url": "https://web.example/sse", "transport": "sse"},
    },
    "continue-project": {
        "Browser search": {
            "command": "npx",
            "args": ["@playwright/mcp@latest", "--headless"],
            "cwd": "@FOLDER@",
        }
    },
    "continue-json": {"copied": {"command": "copied-server", "cwd": "@FOLDER@"}},
    "codex": {
        "context7": {
            "command": "npx",
            "args": ["-y", "@upstash/context7-mcp"],
            "env": {"REGION": "eu", "CONTEXT7_KEY": "${env:CONTEXT7_KEY}"},
            "start_timeout": 20,
        },
        "figma remote": {
            "url": "https://figma.example/mcp",
            "headers": {
                "X-Region": "us-east-1",
                "X-Team": "${env:TEAM_NAME}",
                "Authorization": "Bearer ${env:FIGMA_TOKEN}",
            },
            "enabled": False,
            "timeout": 90,
        },
    },
    "goose": {
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {"LOG": "debug", "GITHUB_PERSONAL_ACCESS_TOKEN": "${env:GITHUB_PERSONAL_ACCESS_TOKEN}"},
            "timeout": 120,
        },
        "web": {
            "url": "https://web.example/mcp",
            "headers": {"Authorization": "Bearer ${env:WEB_TOKEN}", "X-Team": "red"},
            "enabled": False,
        },
        "old": {"url": "https://old.example/sse", "transport": "sse"},
    },
    "gemini": {
        "tickets": {
            "command": "npx",
            "args": ["-y", "tickets-mcp"],
            "env": {"TICKETS_TOKEN": "${env:TICKETS_TOKEN}", "MODE": "${env:MODE}"},
            "cwd": "./server",
            "timeout": 30,
        },
        "docs": {"url": "https://docs.example.org/mcp", "headers": {"X-Key": "sk-docs-123456"}},
        "old": {"url": "https://old.example.org/sse", "transport": "sse"},
    },
    "opencode": {
        "files": {
            "command": "npx",
            "args": ["-y", "files-mcp", "/srv"],
            "env": {"FILES_TOKEN": "${env:FILES_TOKEN}"},
            "enabled": False,
        },
        "jira": {"url": "https://jira.example.org/mcp"},
    },
    "opencode-project": {"files": {"command": "files-mcp", "cwd": ".", "enabled": False}},
}


def meant(value: Any, machine: Machine) -> Any:
    if isinstance(value, str):
        return value.replace("@FOLDER@", str(machine.folder)).replace("@HOME@", str(machine.home))
    if isinstance(value, dict):
        return {key: meant(item, machine) for key, item in value.items()}  # type: ignore[reportUnknownVariableType]
    return [meant(item, machine) for item in value] if isinstance(value, list) else value  # type: ignore[reportUnknownVariableType]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_client_is_understood_in_all_its_forms(name: str, machine: Machine) -> None:
    found = machine.find(name)

    specs = {server.name: dict(server.spec) for server in found.servers}
    assert specs == meant(EXPECTED[name], machine)
    parse({"servers": {key.replace(" ", "-"): spec for key, spec in specs.items()}}, env={})


@pytest.mark.parametrize(
    ("name", "left", "reason"),
    [
        ("claude-code", "elsewhere", "it is for /somewhere/else"),
        ("vscode", "socket", "not one of HTTP"),
        ("vscode", "asked", "only the client knows"),
        ("zed", "from-store", "an extension of Zed"),
        ("continue", "owner/block", "from its hub"),
        ("goose", "developer", "a part of Goose"),
    ],
)
def test_what_cannot_be_taken_over_is_left_out_with_the_reason(
    name: str, left: str, reason: str, machine: Machine
) -> None:
    found = {one.name: one.reason for one in machine.find(name).left_out}

    assert reason in found[left]


@pytest.mark.parametrize(
    ("name", "server", "note"),
    [
        ("vscode", "perplexity", "set the environment variable PERPLEXITY_API_KEY"),
        ("vscode", "perplexity", "`envFile` is not taken over"),
        ("windsurf", "git", "`disabledTools` is not taken over"),
        ("continue", "Supabase", "set the environment variable SUPABASE_TOKEN"),
        ("goose", "github", "set the environment variable GITHUB_PERSONAL_ACCESS_TOKEN"),
        ("claude-desktop", "weather", "means itself"),
    ],
)
def test_what_the_reader_should_know_is_noted(name: str, server: str, note: str, machine: Machine) -> None:
    notes = {one.name: " ".join(one.notes) for one in machine.find(name).servers}

    assert note in notes[server]


def test_a_text_that_only_looks_like_a_variable_reaches_the_program_as_it_was(machine: Machine) -> None:
    weather = machine.find("claude-desktop").servers[1]

    made = parse({"servers": {"weather": dict(weather.spec)}}, env={"AUTH_HEADER": "other"}).servers["weather"]

    assert made.args[-1] == "Authorization:${AUTH_HEADER}"
    assert made.problem == ""


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe\x00", b"[1]", b'{"mcpServers": {"a": 1, "b": {"command": "b"}}}'])
def test_one_broken_file_or_entry_hides_no_other(data: bytes, machine: Machine) -> None:
    machine.lay("cursor", data)
    machine.lay("windsurf")

    found = find(["cursor", "windsurf"], machine.around)

    assert [server.name for server in found.servers][-2:] == ["figma", "git"]
    assert [left.client for left in found.left_out] == ["cursor"]


@pytest.mark.parametrize(
    "entry",
    [
        '{"command": ["npx", "x"]}',
        '{"command": "x", "args": "-y"}',
        '{"command": "x", "args": [{}]}',
        '{"command": "x", "env": ["K=V"]}',
        '{"command": "x\\u0000"}',
        '{"url": "ftp://x"}',
        '{"url": 5}',
        "{}",
        "null",
    ],
)
def test_an_entry_of_the_wrong_form_is_left_out(entry: str, machine: Machine) -> None:
    machine.lay("cursor", f'{{"mcpServers": {{"odd": {entry}}}}}'.encode())

    found = find(["cursor"], machine.around)

    assert (found.servers, [left.name for left in found.left_out]) == ((), ["odd"])


def test_files_of_a_project_that_editors_share_are_read_once(machine: Machine) -> None:
    machine.lay("vscode-project")

    found = find(["vscode", "vscode-insiders"], machine.around)

    assert [server.client for server in found.servers] == ["vscode", "vscode"]


def test_what_is_no_file_is_not_read(machine: Machine) -> None:
    (machine.home / ".cursor" / "mcp.json").mkdir(parents=True)
    os.mkfifo(machine.folder / ".mcp.json")

    assert find(["cursor", "claude-code"], machine.around).files == ()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cursor", '{"mcpServers": {"a": {"command": "a", "env": {"X": "%s"}}}}'),
        ("vscode", '{"servers": {"a": {"command": "a", "env": {"X": "%s"}}}}'),
        ("claude-code", '{"mcpServers": {"a": {"command": "a", "env": {"X": "%s"}}}}'),
        ("windsurf", '{"mcpServers": {"a": {"command": "a", "env": {"X": "%s"}}}}'),
        ("zed", '{"context_servers": {"a": {"command": "a", "env": {"X": "%s"}}}}'),
        ("continue", 'mcpServers:\n  - name: a\n    command: a\n    env:\n      X: "%s"\n'),
        ("codex", '[mcp_servers.a]\ncommand = "a"\n[mcp_servers.a.env]\nX = "%s"\n'),
        ("goose", 'extensions:\n  a:\n    type: stdio\n    cmd: a\n    envs:\n      X: "%s"\n'),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "${secret:one.TOKEN}",
        "${secrets:one.TOKEN:-x}",
        "${secret:${workspaceFolderBasename}}",
        "${secret:x:-${env:HOME}}",
        "$${secret:x}",
        "${secret:${{ secrets.X }}}",
    ],
)
def test_nobody_who_writes_a_clients_file_reaches_our_secrets(
    name: str, data: str, text: str, machine: Machine
) -> None:
    machine.lay(name, (data % text).encode())

    found = find([client_of(name)], machine.around)

    for server in found.servers:
        assert "${secret" not in server.spec["env"]["X"]


def test_a_header_put_together_from_variables_is_no_variable(machine: Machine) -> None:
    text = "extensions:\n  a:\n    type: streamable_http\n    uri: https://h/mcp\n    envs: {S: '$', T: one.TOKEN}\n"
    machine.lay("goose", f"{text}    headers:\n      A: '$S{{secret:x}}'\n      B: '${{secret:$T}}'\n".encode())

    headers = find(["goose"], machine.around).servers[0].spec["headers"]

    assert headers == {"A": f"{LITERAL}{{secret:x}}", "B": f"{LITERAL}{{secret:one.TOKEN}}"}


# Where files are.

PLACES = {
    ("claude-desktop", "darwin"): "Library/Application Support/Claude/claude_desktop_config.json",
    ("claude-desktop", "win32"): "AppData/Roaming/Claude/claude_desktop_config.json",
    ("claude-desktop", "linux"): ".config/Claude/claude_desktop_config.json",
    ("claude-code", "darwin"): ".claude.json",
    ("cursor", "win32"): ".cursor/mcp.json",
    ("vscode", "darwin"): "Library/Application Support/Code/User/mcp.json",
    ("vscode", "win32"): "AppData/Roaming/Code/User/mcp.json",
    ("vscode-insiders", "linux"): ".config/Code - Insiders/User/mcp.json",
    ("windsurf", "darwin"): ".codeium/windsurf/mcp_config.json",
    ("zed", "darwin"): ".config/zed/settings.json",
    ("zed", "win32"): "AppData/Roaming/Zed/settings.json",
    ("continue", "linux"): ".continue/config.yaml",
    ("codex", "linux"): ".codex/config.toml",
    ("goose", "darwin"): ".config/goose/config.yaml",
    ("goose", "win32"): "AppData/Roaming/Block/goose/config/config.yaml",
}


@pytest.mark.parametrize(("client", "platform"), PLACES)
def test_files_are_looked_for_where_each_system_has_them(client: str, platform: str) -> None:
    around = Around(Path("/u"), Path("/w"), {}, platform)

    assert places(client, around)[0].path == Path("/u") / PLACES[client, platform]


def test_variables_move_the_places_that_they_are_for() -> None:
    env = {"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/cc", "APPDATA": "/a"}
    linux, windows = Around(Path("/u"), Path("/w"), env, "linux"), Around(Path("/u"), Path("/w"), env, "win32")

    assert places("zed", linux)[0].path == Path("/x/zed/settings.json")
    assert places("codex", linux)[0].path == Path("/c/config.toml")
    assert places("claude-code", linux)[0].path == Path("/cc/.claude.json")
    assert places("claude-desktop", windows)[0].path == Path("/a/Claude/claude_desktop_config.json")


# Any file.


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in ("cursor-empty", "claude-code")])
def test_a_file_anywhere_is_recognised_by_what_is_in_it(name: str, machine: Machine, tmp_path: Path) -> None:
    suffix = Path(machine.lay(name)).suffix
    copy = tmp_path / f"found{suffix}"
    copy.write_text(machine.text(name))

    found = read_any(copy, machine.around)

    assert {server.name for server in found.servers} == set(EXPECTED[name])


def test_a_file_that_is_not_there_is_said(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="no file"):
        read_any(machine.home / "nowhere.json", machine.around)


def test_any_words_make_the_name_of_a_variable() -> None:
    assert [spelled(text) for text in ("api-key", "7 days", "ключ", "a..b")] == ["API_KEY", "MCP_7_DAYS", "MCP", "A_B"]
