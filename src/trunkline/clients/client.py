"""The clients that are known: what each is called, and what Trunkline looks like in its configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

ENTRY = "trunkline"
"""What Trunkline is called in a client's configuration."""


@dataclass(frozen=True)
class Client:
    """One client."""

    name: str
    title: str
    entry: Callable[[str, str], dict[str, Any]]
    """Trunkline at a URL, as this client writes it; the second argument is a header's value, or empty."""
    variable: str = ""
    """How it writes an environment variable, with `NAME` for its name; empty when it knows none."""
    remote: bool = True
    """Whether its configuration can name a server by its URL."""
    then: str = ""
    """What to do so that it takes the change on."""


def _headers(value: str) -> dict[str, Any]:
    return {"headers": {"Authorization": value}} if value else {}


def _typed(url: str, value: str) -> dict[str, Any]:
    return {"type": "http", "url": url, **_headers(value)}


def _plain(url: str, value: str) -> dict[str, Any]:
    return {"url": url, **_headers(value)}


def _windsurf(url: str, value: str) -> dict[str, Any]:
    return {"serverUrl": url, **_headers(value)}


def _continue(url: str, value: str) -> dict[str, Any]:
    options = {"requestOptions": _headers(value)} if value else {}
    return {"name": ENTRY, "type": "streamable-http", "url": url, **options}


def _codex(url: str, value: str) -> dict[str, Any]:
    return {"url": url, **({"bearer_token_env_var": value.removeprefix("Bearer ")} if value else {})}


def _goose(url: str, value: str) -> dict[str, Any]:
    keys = re.findall(r"\$\{(\w+)\}", value)
    return {
        "enabled": True,
        "type": "streamable_http",
        "name": ENTRY,
        "description": "Every MCP server behind Trunkline",
        "uri": url,
        **({"env_keys": keys} if keys else {}),
        **_headers(value),
        "timeout": 300,
    }


def bridge(url: str, _: str = "") -> dict[str, Any]:
    """Trunkline for a client that can only start programs: `mcp-remote` passes on what is said."""
    place = urlsplit(url)
    inside = place.scheme == "https" or place.hostname in ("127.0.0.1", "localhost")
    return {"command": "npx", "args": ["-y", "mcp-remote", url, *([] if inside else ["--allow-http"])]}


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client("claude-desktop", "Claude Desktop", bridge, remote=False, then="Restart Claude Desktop."),
        Client("claude-code", "Claude Code", _typed, "${NAME}", then="Start Claude Code anew; /mcp shows it."),
        Client("cursor", "Cursor", _plain, "${env:NAME}", then="Cursor asks whether to enable it."),
        Client("vscode", "VS Code", _typed, "${env:NAME}", then="VS Code shows it under `MCP: List Servers`."),
        Client(
            "vscode-insiders", "VS Code Insiders", _typed, "${env:NAME}", then="It is shown under `MCP: List Servers`."
        ),
        Client("windsurf", "Windsurf", _windsurf, "${env:NAME}", then="Refresh the list of servers in Windsurf."),
        Client("zed", "Zed", _plain, then="Zed takes it on at once."),
        Client("continue", "Continue", _continue, "${{ secrets.NAME }}", then="Continue takes it on at once."),
        Client("codex", "Codex", _codex, "NAME", then="Start Codex anew; /mcp shows it."),
        Client("goose", "Goose", _goose, "${NAME}", then="Start a new session of Goose."),
    )
}
"""Every client, by its name on the command line."""
