"""A configuration in any file: what it is of is told from its name and from what is in it."""

from __future__ import annotations

from pathlib import Path

from trunkline.clients.document import Document, Format
from trunkline.clients.file import look
from trunkline.clients.place import Around, Keys, Place, Scope, places
from trunkline.clients.server import Findings, entries, read
from trunkline.errors import ConfigError

_FORMATS: dict[str, Format] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
_KEYS: tuple[tuple[str, Keys], ...] = (
    ("zed", ("context_servers",)),
    ("codex", ("mcp_servers",)),
    ("goose", ("extensions",)),
    ("vscode", ("servers",)),
    ("vscode", ("mcp", "servers")),
    ("vscode", ("mcp.servers",)),
    ("continue", ("experimental", "modelContextProtocolServers")),
    ("claude-code", ("mcpServers",)),
)


def read_any(path: Path, around: Around, *, client: str = "") -> Findings:
    """The servers of a file, of this client or of whichever fits."""
    data = look(path).data
    if data is None:
        raise ConfigError(f"There is no file {path}.", hint="Name another with --from.")
    format = _FORMATS.get(path.suffix, "json")
    value = Document.of(path, format, data).value()
    inside = path.resolve().is_relative_to(around.folder.resolve()) and around.folder != around.home
    scope: Scope = "project" if inside else "user"
    if not client:
        client = _by_place(path, around) or _by_content(value, format)
    keys = {keys: None for place in places(client, around) for keys in place.keys}
    keys |= {keys: None for owner, keys in _KEYS if owner == client}
    return read(Place(client, path, scope, tuple(keys), format), value, around)


def _by_place(path: Path, around: Around) -> str:
    """The client that keeps a file just there, or one called the same in a folder called the same."""
    for client in (
        "claude-desktop",
        "claude-code",
        "cursor",
        "vscode",
        "windsurf",
        "zed",
        "continue",
        "codex",
        "goose",
    ):
        for place in places(client, around):
            if path.name == place.path.name and path.resolve().parent.name == place.path.parent.name:
                return client
    return "claude-desktop" if path.name == "claude_desktop_config.json" else ""


def _by_content(value: dict[str, object], format: Format) -> str:
    if format == "yaml" and entries(value, ("mcpServers",)):
        return "continue"
    found = next((client for client, keys in _KEYS if entries(value, keys)), "claude-code")
    if found == "claude-code" and any(sign in str(value) for sign in ("${env:", "${userHome}", "${workspaceFolder")):
        return "cursor"  # the same form, with other variables
    return found
