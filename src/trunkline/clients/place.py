"""Where the clients keep their configurations: for the user, and for the folder at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trunkline.clients.document import Format

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


def places(client: str, around: Around) -> list[Place]:
    """Every file that a client may have servers in, whether it is there or not; the first is the user's own."""
    return _PLACES[client](around)


def target(client: str, around: Around, *, project: bool) -> Place | None:
    """The file that Trunkline is written into; `None` when the client has none for a project."""
    scope = "project" if project else "user"
    if client == "continue":
        return _continue_target(around, scope)
    return next((place for place in places(client, around) if place.scope == scope), None)


def _claude_desktop(around: Around) -> list[Place]:
    return [Place("claude-desktop", around.applications / "Claude" / "claude_desktop_config.json", "user")]


def _claude_code(around: Around) -> list[Place]:
    own = around.env.get("CLAUDE_CONFIG_DIR")
    user = (Path(own) if own else around.home) / ".claude.json"
    here = ("projects", str(around.folder), "mcpServers")
    return [
        Place("claude-code", user, "user", (("mcpServers",), here)),
        Place("claude-code", around.folder / ".mcp.json", "project"),
    ]


def _cursor(around: Around) -> list[Place]:
    return [
        Place("cursor", around.home / ".cursor" / "mcp.json", "user"),
        Place("cursor", around.folder / ".cursor" / "mcp.json", "project"),
    ]


def _vscode(around: Around) -> list[Place]:
    return _code("vscode", around.applications / "Code" / "User", around)


def _vscode_insiders(around: Around) -> list[Place]:
    return _code("vscode-insiders", around.applications / "Code - Insiders" / "User", around)


def _code(client: str, user: Path, around: Around) -> list[Place]:
    own, settings = (("servers",),), (("mcp", "servers"), ("mcp.servers",))
    return [
        Place(client, user / "mcp.json", "user", own),
        Place(client, user / "settings.json", "user", settings),
        Place(client, around.folder / ".vscode" / "mcp.json", "project", own),
        Place(client, around.folder / ".vscode" / "settings.json", "project", settings),
    ]


def _windsurf(around: Around) -> list[Place]:
    return [Place("windsurf", around.home / ".codeium" / "windsurf" / "mcp_config.json", "user")]


def _zed(around: Around) -> list[Place]:
    folder = around.settings / "Zed" if around.platform == "win32" else around.settings / "zed"
    return [
        Place("zed", folder / "settings.json", "user", (("context_servers",),)),
        Place("zed", around.folder / ".zed" / "settings.json", "project", (("context_servers",),)),
    ]


_OLD_CONTINUE = (("mcpServers",), ("experimental", "modelContextProtocolServers"))
_BLOCK = "name: Trunkline\nversion: 0.0.1\nschema: v1\n"


def _continue(around: Around) -> list[Place]:
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


def _codex(around: Around) -> list[Place]:
    own = Path(around.env.get("CODEX_HOME") or around.home / ".codex")
    keys = (("mcp_servers",),)
    return [
        Place("codex", own / "config.toml", "user", keys, "toml"),
        Place("codex", around.folder / ".codex" / "config.toml", "project", keys, "toml"),
    ]


def _goose(around: Around) -> list[Place]:
    folder = around.applications / "Block" / "goose" / "config"
    path = (folder if around.platform == "win32" else around.settings / "goose") / "config.yaml"
    return [Place("goose", path, "user", (("extensions",),), "yaml")]


_PLACES = {
    "claude-desktop": _claude_desktop,
    "claude-code": _claude_code,
    "cursor": _cursor,
    "vscode": _vscode,
    "vscode-insiders": _vscode_insiders,
    "windsurf": _windsurf,
    "zed": _zed,
    "continue": _continue,
    "codex": _codex,
    "goose": _goose,
}
