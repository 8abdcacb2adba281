"""The servers that clients' configurations name, each as `trunkline.toml` has it; and which of them are the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, cast
from urllib.parse import urlsplit

from trunkline.clients.client import CLIENTS, Around, Keys, Place, Scope, places
from trunkline.clients.document import Document, Format
from trunkline.clients.file import look
from trunkline.config.client_forms import REFERENCE, Translator, spec_of
from trunkline.errors import ConfigError


@dataclass(frozen=True)
class Server:
    """One server of a client."""

    client: str
    path: Path
    keys: Keys
    """Where it stands in the file."""
    spec: Mapping[str, Any]
    """Its entry as `[servers.NAME]` would have it; variables are ours."""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What its client calls it."""
        return self.keys[-1]


@dataclass(frozen=True)
class LeftOut:
    """Something that is not taken over, and why."""

    client: str
    path: Path
    name: str
    """The server; empty when it is the whole file."""
    reason: str


@dataclass(frozen=True)
class Findings:
    """What is in the clients' files."""

    servers: tuple[Server, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    files: tuple[Path, ...] = ()
    """Files that were read."""


def find(clients: Iterable[str], around: Around) -> Findings:
    """Read every file of these clients that is there; one that cannot be read is left out, with the reason."""
    chosen = list(dict.fromkeys(clients))
    seen: set[Path] = set()
    findings: list[Findings] = []
    for place in (place for client in chosen for place in places(client, around)):
        if place.path in seen:  # editors of one family share the files of a project
            continue
        seen.add(place.path)
        findings.append(_findings(place, around))
    return Findings(
        tuple(server for one in findings for server in one.servers),
        tuple(left for one in findings for left in one.left_out),
        tuple(path for one in findings for path in one.files),
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


def _findings(place: Place, around: Around) -> Findings:
    try:
        if not place.path.is_file():
            return Findings()
        document = Document.of(place.path, place.format, place.path.read_bytes())
        return read(place, document.value(), around)
    except OSError as error:
        left = LeftOut(place.client, place.path, "", f"it cannot be read: {error.strerror or error}")
    except ConfigError as error:
        left = LeftOut(place.client, place.path, "", error.message.removeprefix(str(place.path)).strip(" ."))
    return Findings((), (left,), (place.path,))


def read(place: Place, value: Mapping[str, Any], around: Around) -> Findings:
    """The servers in a file's content."""
    servers: list[Server] = []
    left: list[LeftOut] = []
    for keys in place.keys:
        for name, raw in entries(value, keys):
            if (*keys, name) in place.keys and not (isinstance(raw, dict) and "type" in raw):
                continue  # not a server, but where the others are
            into = Translator(place.client, around.home, around.folder, place.scope == "project")
            try:
                spec = spec_of(raw, into)
            except ValueError as error:
                left.append(LeftOut(place.client, place.path, name, str(error)))
                continue
            if place.scope == "project" and "command" in spec and "cwd" not in spec:
                spec["cwd"] = str(around.folder)  # where its client starts it, so that paths in it stay right
            servers.append(Server(place.client, place.path, (*keys, name), spec, tuple(into.notes)))
    if place.client == "claude-code" and place.scope == "user":
        left += _elsewhere(place, value, around)
    return Findings(tuple(servers), tuple(left), (place.path,))


def entries(value: Any, keys: Keys) -> list[tuple[str, Any]]:
    """What is listed below these keys, by name."""
    for key in keys:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).items())
    if not isinstance(value, list):
        return []
    items = cast("list[Any]", value)
    return [(_called(item, number), item) for number, item in enumerate(items, 1)]


def _called(item: Any, number: int) -> str:
    """The name of a server in a list; some have none."""
    if isinstance(item, dict):
        table = cast("dict[str, Any]", item)
        name = table.get("name") or table.get("uses")
        if isinstance(name, str) and name:
            return name
    return f"server-{number}"


def _elsewhere(place: Place, value: Mapping[str, Any], around: Around) -> list[LeftOut]:
    """Servers that Claude Code keeps for other folders."""
    projects: Any = value.get("projects")
    if not isinstance(projects, dict):
        return []
    return [
        LeftOut(place.client, place.path, name, f"it is for {folder}; run `trunkline import` there")
        for folder in cast("dict[str, Any]", projects)
        if folder != str(around.folder)
        for name, _ in entries(value, ("projects", folder, "mcpServers"))
    ]


def title(client: str) -> str:
    """What people call a client."""
    return CLIENTS[client].title if client in CLIENTS else client


_FORMATS: dict[str, Format] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
_KEYS: tuple[tuple[str, Keys], ...] = (
    ("zed", ("context_servers",)),
    ("codex", ("mcp_servers",)),
    ("goose", ("extensions",)),
    ("vscode", ("servers",)),
    ("opencode", ("mcp",)),
    ("opencode", ("mcp", "servers")),
    ("vscode", ("mcp", "servers")),
    ("vscode", ("mcp.servers",)),
    ("continue", ("experimental", "modelContextProtocolServers")),
    ("claude-code", ("mcpServers",)),
)


def _by_place(path: Path, around: Around) -> str:
    """The client that keeps a file just there, or one called the same in a folder called the same."""
    for client in CLIENTS:
        for place in places(client, around):
            if path.name == place.path.name and path.resolve().parent.name == place.path.parent.name:
                return client
    return "claude-desktop" if path.name == "claude_desktop_config.json" else ""


def _by_content(value: dict[str, object], format: Format) -> str:
    if format == "yaml" and entries(value, ("mcpServers",)):
        return "continue"
    known = [(client, keys) for client, keys in _KEYS if entries(value, keys)]
    listed = [entry for _, keys in known for _, entry in entries(value, keys)]
    forms = {str(cast("dict[str, Any]", entry).get("type")) for entry in listed if isinstance(entry, dict)}
    if not forms & {"local", "remote"}:
        known = [(client, keys) for client, keys in known if client != "opencode"]
    found = next((client for client, _ in known), "claude-code")
    if found == "claude-code" and "'httpUrl':" in str(value):
        return "gemini"
    if found == "claude-code" and any(sign in str(value) for sign in ("${env:", "${userHome}", "${workspaceFolder")):
        return "cursor"  # the same form, with other variables
    return found


@dataclass(frozen=True)
class Candidate:
    """A server that may be taken over, with everyone who has it."""

    name: str
    """What it will be called in `trunkline.toml`."""
    servers: tuple[Server, ...]
    known: str = ""
    """The name under which it is in `trunkline.toml` already."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The entry that is taken over: the first one's."""
        return self.servers[0].spec

    @property
    def notes(self) -> tuple[str, ...]:
        """What its reader should know."""
        return self.servers[0].notes

    @property
    def clients(self) -> tuple[str, ...]:
        """Who has it."""
        return tuple(dict.fromkeys(server.client for server in self.servers))


def candidates(
    servers: Iterable[Server], known: Mapping[str, Mapping[str, Any]], taken: Collection[str] = ()
) -> list[Candidate]:
    """The servers, each once, and each with a name of its own among those that are known or otherwise taken."""
    groups: list[list[Server]] = []
    for server in servers:
        group = next((group for group in groups if same(group[0].spec, server.spec)), None)
        if group is None:
            groups.append([server])
        else:
            group.append(server)
    names = {*known, *taken}
    made: list[Candidate] = []
    for group in groups:
        ours = next((name for name, spec in known.items() if same(spec, group[0].spec)), "")
        name = ours or _free(group[0], names)
        names.add(name)
        made.append(Candidate(name, tuple(group), ours))
    return made


def same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two entries start or reach the same server; a secret that was moved into a variable counts as equal."""
    for key in ("command", "url", "cwd"):
        if ours.get(key, "") != theirs.get(key, ""):
            return False
    if list(ours.get("args", ())) != list(theirs.get("args", ())):
        return False
    return all(_alike(ours.get(key, {}), theirs.get(key, {})) for key in ("env", "headers"))


def _alike(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    return set(ours) == set(theirs) and all(
        ours[key] == theirs[key] or REFERENCE.search(f"{ours[key]} {theirs[key]}") for key in ours
    )


def _free(server: Server, taken: Collection[str]) -> str:
    plain = re.sub(r"[^\w.-]+", "-", server.name).strip("-")[:48] or "server"
    tries = [plain, f"{plain}-{server.client}", *(f"{plain}-{server.client}-{number}" for number in range(2, 1000))]
    return next(name for name in tries if name not in taken)


def is_trunkline(spec: Mapping[str, Any], urls: Iterable[str]) -> bool:
    """Whether an entry leads to Trunkline: taken over, it would call itself."""
    command: Any = spec.get("command", "")
    program = [str(word) for word in cast("list[Any]", command)] if isinstance(command, list) else [str(command)]
    program += map(str, spec.get("args", ()))
    if PurePath(program[0] if program else "").stem.lower() == "trunkline" or program[1:3] == ["-m", "trunkline"]:
        return True
    words = [str(spec.get("url", "")), *program]
    ours = {_origin(url) for url in urls} - {""}
    return any(_origin(word) in ours for word in words if word.startswith(("http://", "https://")))


def same_address(one: str, other: str) -> bool:
    """Whether two URLs lead to the same place."""
    return bool(_origin(one)) and _origin(one) == _origin(other) and urlsplit(one).path == urlsplit(other).path


def _origin(url: str) -> str:
    """Scheme, host and port; every name of this machine is the same one."""
    try:
        place = urlsplit(url)
        port = place.port or (443 if place.scheme == "https" else 80)
    except ValueError:
        return ""
    host = (place.hostname or "").lower()
    return f"{place.scheme}://{'localhost' if host in _LOOPBACK else host}:{port}" if host else ""


_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 - a name to compare, not to listen on
