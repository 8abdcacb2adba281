"""The clients that are known: where each keeps its servers, and what Trunkline looks like in its configuration."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from trunkline.clients.document import Document, Format
from trunkline.errors import ConfigError

ENTRY = "trunkline"
"""What Trunkline is called in a client's configuration."""

Scope = Literal["user", "project"]
Keys = tuple[str, ...]


@dataclass(frozen=True)
class Around:
    """What the places depend on."""

    home: Path
    folder: Path
    env: Mapping[str, str]
    platform: str
    """As `sys.platform` has it: `linux`, `darwin` or `win32`."""

    @property
    def applications(self) -> Path:
        """Where applications keep what is theirs."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.env.get("APPDATA") or self.home / "AppData" / "Roaming")
        return self.settings

    @property
    def settings(self) -> Path:
        """Where programs of Unix keep what is theirs, also on macOS."""
        if self.platform == "win32":
            return self.applications
        return Path(self.env.get("XDG_CONFIG_HOME") or self.home / ".config")


def here() -> Around:
    """This machine, this user, this folder."""
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or "~"
    return Around(Path(home).expanduser(), Path.cwd(), os.environ, sys.platform)


@dataclass(frozen=True)
class Place:
    """One file of a client, and the keys in it below which servers are listed."""

    client: str
    path: Path
    scope: Scope
    keys: tuple[Keys, ...] = (("mcpServers",),)
    format: Format = "json"
    listed: bool = False
    """Whether servers are items of a list, each with its `name`."""
    preamble: str = ""
    """What a new file begins with."""


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
    """Whether its configuration can name a server by its URL; else it starts `trunkline stdio`."""
    then: str = ""
    """What to do so that it takes the change on."""


def places(client: str, around: Around) -> list[Place]:
    """Every file that a client may have servers in, whether it is there or not; the first is the user's own."""
    home, folder, windows = around.home, around.folder, around.platform == "win32"
    if client == "claude-desktop":
        return [Place(client, around.applications / "Claude" / "claude_desktop_config.json", "user")]
    if client == "claude-code":
        user = Path(around.env.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
        here = ("projects", str(folder), "mcpServers")
        return [
            Place(client, user, "user", (("mcpServers",), here)),
            Place(client, folder / ".mcp.json", "project"),
        ]
    if client in ("vscode", "vscode-insiders"):
        user = around.applications / ("Code" if client == "vscode" else "Code - Insiders") / "User"
        own, settings = (("servers",),), (("mcp", "servers"), ("mcp.servers",))
        return [
            Place(client, user / "mcp.json", "user", own),
            Place(client, user / "settings.json", "user", settings),
            Place(client, folder / ".vscode" / "mcp.json", "project", own),
            Place(client, folder / ".vscode" / "settings.json", "project", settings),
        ]
    if client == "windsurf":
        return [Place(client, home / ".codeium" / "windsurf" / "mcp_config.json", "user")]
    if client == "continue":
        return _continue_places(around)
    if client == "goose":
        base = around.applications / "Block" / "goose" / "config" if windows else around.settings / "goose"
        return [Place(client, base / "config.yaml", "user", (("extensions",),), "yaml")]
    if client == "cursor":
        return [
            Place(client, home / ".cursor" / "mcp.json", "user"),
            Place(client, folder / ".cursor" / "mcp.json", "project"),
        ]
    if client == "gemini":
        return [
            Place(client, home / ".gemini" / "settings.json", "user"),
            Place(client, folder / ".gemini" / "settings.json", "project"),
        ]
    if client == "opencode":
        return _opencode_places(around)
    if client == "zed":
        user = around.settings / ("Zed" if windows else "zed")
        return [
            Place(client, user / "settings.json", "user", (("context_servers",),)),
            Place(client, folder / ".zed" / "settings.json", "project", (("context_servers",),)),
        ]
    assert client == "codex", client
    user = Path(around.env.get("CODEX_HOME") or home / ".codex")
    return [
        Place(client, user / "config.toml", "user", (("mcp_servers",),), "toml"),
        Place(client, folder / ".codex" / "config.toml", "project", (("mcp_servers",),), "toml"),
    ]


def target(client: str, around: Around, *, project: bool) -> Place | None:
    """The file that Trunkline is written into; `None` when the client has none for a project."""
    scope = "project" if project else "user"
    if client == "continue":
        return _continue_target(around, scope)
    if client == "opencode":
        mine = [place for place in places(client, around) if place.scope == scope]
        return next((place for place in mine if place.path.exists()), mine[0])
    return next((place for place in places(client, around) if place.scope == scope), None)


_OPENCODE = (("mcp",), ("mcp", "servers"))
"""Where opencode has its servers: those of its first version, and since its second."""


def _opencode_places(around: Around) -> list[Place]:
    user = Path(around.env.get("OPENCODE_CONFIG_DIR") or around.settings / "opencode")
    folders: list[tuple[Path, Scope]] = [
        (user, "user"),
        (around.folder, "project"),
        (around.folder / ".opencode", "project"),
    ]
    return [
        Place("opencode", path, scope, _OPENCODE[::-1] if _has_second_form(path) else _OPENCODE)
        for folder, scope in folders
        for path in (folder / "opencode.json", folder / "opencode.jsonc")
    ]


def _has_second_form(path: Path) -> bool:
    """Whether a file lists its servers one level deeper, as opencode does since its second version."""
    try:
        mcp: Any = Document.of(path, "json", path.read_bytes()).value().get("mcp")
    except (OSError, ConfigError):
        return False  # it is not there, or whoever reads it will say what is wrong with it
    servers: Any = cast("dict[str, Any]", mcp).get("servers") if isinstance(mcp, dict) else None
    return isinstance(servers, dict) and "type" not in servers


_OLD_CONTINUE = (("mcpServers",), ("experimental", "modelContextProtocolServers"))
_BLOCK = "name: Trunkline\nversion: 0.0.1\nschema: v1\n"


def _continue_places(around: Around) -> list[Place]:
    own = around.home / ".continue"
    found = [
        Place("continue", own / "config.yaml", "user", format="yaml", listed=True),
        Place("continue", own / "config.json", "user", _OLD_CONTINUE),
    ]
    folders: list[tuple[Path, Scope]] = [(own, "user"), (around.folder / ".continue", "project")]
    for folder, scope in folders if own != around.folder / ".continue" else folders[:1]:
        for path in sorted((folder / "mcpServers").glob("*")):
            if path.suffix in (".yaml", ".yml"):
                found.append(Place("continue", path, scope, format="yaml", listed=True))
            elif path.suffix == ".json":
                found.append(Place("continue", path, scope))
    return found


def _continue_target(around: Around, scope: Scope) -> Place:
    """The user's own file if there is one; else one of ours: a new `config.yaml` would hide an older `config.json`."""
    main = places("continue", around)[0]
    if scope == "user" and main.path.exists():
        return main
    folder = (around.home if scope == "user" else around.folder) / ".continue" / "mcpServers"
    return Place("continue", folder / "trunkline.yaml", scope, format="yaml", listed=True, preamble=_BLOCK)


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


def _gemini(url: str, value: str) -> dict[str, Any]:
    return {"httpUrl": url, **_headers(value)}


def _opencode(url: str, value: str) -> dict[str, Any]:
    return {"type": "remote", "url": url, **_headers(value)}


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client("claude-desktop", "Claude Desktop", _plain, remote=False, then="Restart Claude Desktop."),
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
        Client("gemini", "Gemini CLI", _gemini, "${NAME}", then="Start Gemini CLI anew; /mcp shows it."),
        Client("opencode", "opencode", _opencode, "{env:NAME}", then="Start opencode anew."),
    )
}
"""Every client, by its name on the command line."""
