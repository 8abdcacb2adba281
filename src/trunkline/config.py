"""The configuration. An option is one field: its key, environment variable, flag and documentation come from there."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import itertools
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from trunkline.errors import ConfigError


@dataclass(frozen=True)
class GatewayConfig:
    """`[gateway]`: where and for whom Trunkline listens."""

    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback a `token` is required."""
    port: int = 7420
    """Port to listen on; 0 takes a free one."""
    token: str = field(default="", repr=False)
    """Bearer token that callers must send; empty asks for none. Write `${env:NAME}` to keep it out of the file."""
    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Callers that are kept apart, each with a token of its own: `ana = "${env:ANA_TOKEN}"`."""
    allowed_hosts: tuple[str, ...] = ()
    """Further `Host` names to accept, such as `mcp.example.org` or `mcp.example.org:8443`; loopback ones always are."""
    allowed_origins: tuple[str, ...] = ()
    """Further web origins to accept, such as `https://app.example.org`; loopback ones always are."""
    namespace: Literal["auto", "always", "never"] = "auto"
    """`always` shows `server__tool`, `never` the bare name, `auto` prefixes as soon as there are two servers."""
    conflicts: Literal["namespace", "first-wins", "last-wins", "error"] = "namespace"
    """What happens to equal names without a prefix: prefix those, keep the first or last server's, or show none."""
    prefer: tuple[str, ...] = ()
    """Servers that win a conflict of names, in this order, before `conflicts` is asked."""
    page_size: int = 1000
    """Entries in one page of a list."""
    settle: float = 0.3
    """Seconds that a first list waits for servers of which nothing is known yet."""
    body_limit: int = 4 * 2**20
    """Bytes that a caller's message may have."""
    header_timeout: float = 10.0
    """Seconds in which a request's headers and body must have arrived."""
    keep_alive: float = 75.0
    """Seconds an idle connection is kept open."""
    max_connections: int = 2000
    """Connections that may be open at once; further ones are refused with 503."""
    max_sessions: int = 10000
    """Sessions of legacy callers; beyond it the one idle longest is ended."""
    session_idle: float = 1800.0
    """Seconds after which an idle session ends."""
    replay_events: int = 500
    """Events kept for each session, so that a caller that lost its stream can resume it."""
    question_timeout: float = 300.0
    """Seconds a caller has to answer a server's question."""
    max_parked: int = 1000
    """Calls of modern callers that may wait for an answer to a server's question at once."""
    drain: float = 10.0
    """Seconds that calls in flight get to finish when Trunkline is asked to stop."""


@dataclass(frozen=True)
class ServerSpec:
    """`[servers.NAME]`: one server, reached by a command or at a URL."""

    name: str = ""
    command: str = ""
    """Program to start; the server speaks MCP on its standard input and output."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables it gets, besides PATH, HOME and the like; nothing else is passed on."""
    cwd: str = ""
    """Folder it is started in; default is Trunkline's own."""
    url: str = ""
    """Address of a remote server."""
    transport: Literal["auto", "stdio", "http", "sse"] = "auto"
    """How it is reached: `auto` takes `stdio` for a command; for a URL `http`, and `sse` if only that works."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """HTTP headers to send, for instance `Authorization`."""
    era: Literal["auto", "modern", "legacy"] = "auto"
    """Revision of the protocol to speak; `auto` finds out."""
    lifecycle: Literal["singleton", "transient"] = "singleton"
    """`singleton` keeps one process for many calls, `transient` starts one for each call."""
    idle_timeout: float = 0.0
    """Seconds without a call after which a `singleton` process is stopped until the next; 0 keeps it."""
    timeout: float = 60.0
    """Seconds that a call may go without a sign of life (an answer, or progress)."""
    max_timeout: float = 600.0
    """Seconds that a call may take at all, whatever progress it reports."""
    start_timeout: float = 30.0
    """Seconds to start and shake hands."""
    health_interval: float = 30.0
    """Seconds between health checks; 0 makes none."""
    concurrency: int = 128
    """Calls that may be in flight to it at once; further ones are refused at once."""
    processes: int = 32
    """Connections, each for one call at a time, for sessionless callers that it may ask; as many for their tasks."""
    answer_limit: int = 16 * 2**20
    """Bytes that one of its messages may have."""
    max_pages: int = 100
    """Pages that are read of each of its lists."""
    enabled: bool = True
    """`false` keeps the entry, but does not use it."""
    problem: str = ""

    @property
    def kind(self) -> str:
        """`stdio`, `http` or `sse`."""
        if self.transport != "auto":
            return self.transport
        return "stdio" if self.command else "http"

    @property
    def address(self) -> str:
        """Where it is, for people: never with values that may be secret."""
        return f"{self.command} …" if self.command and self.args else self.command or self.url.partition("?")[0]

    @cached_property
    def fingerprint(self) -> str:
        """Changes when, and only when, something of the server's configuration does."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Config:
    """Everything Trunkline was told."""

    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    servers: Mapping[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    home: Path = field(default_factory=lambda: default_home(os.environ))
    source: Path | None = None


HIDDEN_FIELDS = ("name", "problem")
"""Fields that are not options."""


def default_home(env: Mapping[str, str]) -> Path:
    """Where state lives."""
    return Path(env.get("TRUNKLINE_HOME") or Path(env.get("HOME", "~")).expanduser() / ".local/share/trunkline")


def user_file(env: Mapping[str, str]) -> Path:
    """The configuration of the user, as opposed to that of the folder."""
    base = env.get("XDG_CONFIG_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "trunkline" / "trunkline.toml"


def find_file(env: Mapping[str, str], folder: Path) -> Path | None:
    """The configuration that is used when none is named."""
    for path in (folder / "trunkline.toml", user_file(env)):
        if path.is_file():
            return path
    return None


def load(path: Path | None, *, env: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Config:
    """Read a file (or none), then let the environment and then the flags have their say."""
    document = read_document(path) if path else {}
    config = parse(document, env=env)
    overrides = {f"gateway.{key}": value for key, value in (flags or {}).items() if value is not None}
    gateway = _override(config.gateway, "gateway", env, overrides)
    return dataclasses.replace(config, gateway=gateway, home=default_home(env), source=path)


def read_document(path: Path) -> dict[str, Any]:
    """A file's content: TOML, or JSON as MCP clients write it."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.", hint="Name another with --config.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        return _object(json.loads(_without_comments(text)), str(path))
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path} is not valid {path.suffix.lstrip('.').upper() or 'JSON'}: {error}.") from error


def parse(document: Mapping[str, Any], *, env: Mapping[str, str]) -> Config:
    """Make a `Config` of a file's content; unknown keys and wrong types are errors that name them."""
    if "mcpServers" in document or _is_client_file(document):
        servers = _object(document.get("mcpServers", document.get("servers", {})), "mcpServers")
        return Config(servers={name: _client_server(name, _object(spec, name), env) for name, spec in servers.items()})
    _refuse_unknown(document, ("gateway", "servers"), "the file")
    gateway = _make(GatewayConfig, _object(document.get("gateway", {}), "gateway"), "gateway")
    gateway, problem = _expanded(gateway, env)
    if problem:
        raise ConfigError(f"[gateway]: {problem}", hint="Set it, or write the value itself.")
    servers = {
        name: _server(name, _object(spec, f"servers.{name}"), env)
        for name, spec in _object(document.get("servers", {}), "servers").items()
    }
    return Config(gateway=gateway, servers=servers)


def options(section: type[Any]) -> list[tuple[dataclasses.Field[Any], str]]:
    """The options of a section with their documentation, which stands below each field."""
    import ast
    import inspect

    body = cast("ast.ClassDef", ast.parse(inspect.getsource(section)).body[0]).body
    documents: dict[str, str] = {}
    for here, below in itertools.pairwise(body):
        if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name) and isinstance(below, ast.Expr):
            documents[here.target.id] = str(cast("ast.Constant", below.value).value)
    return [(f, documents.get(f.name, "")) for f in dataclasses.fields(section) if f.name not in HIDDEN_FIELDS]


# A client's own file is taken as it is: keys that mean nothing here are left alone.
_CLIENT_KEYS = {"serverUrl": "url", "httpUrl": "url", "type": "transport"}
_CLIENT_TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}


def _is_client_file(document: Mapping[str, Any]) -> bool:
    servers = document.get("servers")
    return isinstance(servers, dict) and "gateway" not in document and ("inputs" in document or any(
        isinstance(spec, dict) and "type" in spec for spec in cast("dict[str, Any]", servers).values()
    ))  # fmt: skip


def _client_server(name: str, spec: Mapping[str, Any], env: Mapping[str, str]) -> ServerSpec:
    known = {f.name for f in dataclasses.fields(ServerSpec)} - set(HIDDEN_FIELDS)
    found: dict[str, Any] = {}
    for key, value in spec.items():
        key = _CLIENT_KEYS.get(key, key)
        if key == "transport":
            value = _CLIENT_TRANSPORTS.get(str(value), "auto")
        if key == "timeout":
            continue  # clients write milliseconds or seconds, each in its own way
        if key in known and value is not None:
            found[key] = value
    if spec.get("disabled") is True:
        found["enabled"] = False
    if "env" in found:
        found["env"] = {key: str(value) for key, value in _object(found["env"], f"{name}.env").items()}
    return _server(name, found, env)


def _server(name: str, spec: Mapping[str, Any], env: Mapping[str, str]) -> ServerSpec:
    if not re.fullmatch(r"[^\s/\\]{1,64}", name):
        raise ConfigError(f"{name!r} cannot be a server's name.", hint="Use 1 to 64 letters, digits, dots or dashes.")
    made = dataclasses.replace(_make(ServerSpec, spec, f"servers.{name}"), name=name)
    if bool(made.command) == bool(made.url):
        what = "no address" if not made.command else "both a command and a URL"
        raise ConfigError(f"Server {name!r} has {what}.", hint="Give it a `command` or a `url`.")
    if made.url and not re.match(r"https?://[^/\s]+", made.url) and "${" not in made.url:
        raise ConfigError(f"The url of server {name!r} is not an http address.")
    if (made.kind == "stdio") != bool(made.command):
        raise ConfigError(f"Server {name!r} cannot be reached by {made.transport!r}.", hint="Leave `transport` out.")
    for option in ("timeout", "max_timeout", "start_timeout", "concurrency", "processes", "answer_limit", "max_pages"):
        if getattr(made, option) <= 0:
            raise ConfigError(f"servers.{name}.{option} must be more than 0.")
    made, problem = _expanded(made, env)
    return dataclasses.replace(made, problem=problem)


def _make(section: type[Any], values: Mapping[str, Any], where: str) -> Any:
    names = [f.name for f in dataclasses.fields(section) if f.name not in HIDDEN_FIELDS]
    _refuse_unknown(values, names, where)
    try:
        return msgspec.convert(dict(values), section)
    except msgspec.ValidationError as error:
        text = str(error).replace(" - at `$.", f" (at `{where}.")
        raise ConfigError(f"{where}: {text}{')' if '(at' in text else ''}.") from error


def _override(section: GatewayConfig, where: str, env: Mapping[str, str], flags: Mapping[str, Any]) -> GatewayConfig:
    values: dict[str, Any] = {}
    for option in dataclasses.fields(section):
        variable = f"TRUNKLINE_{where}_{option.name}".upper()
        value = flags.get(f"{where}.{option.name}", env.get(variable))
        if value is None:
            continue
        if str(option.type).startswith("tuple") and isinstance(value, str):
            value = tuple(part for part in value.split(",") if part)
        values[option.name] = value
    try:
        return msgspec.convert(dataclasses.asdict(section) | values, GatewayConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}.") from error


def _refuse_unknown(values: Mapping[str, Any], known: Any, where: str) -> None:
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, list(known), 1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known are: {', '.join(known)}."
            raise ConfigError(f"{where} has no option {key!r}.", hint=hint)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table of keys and values.")
    return cast("dict[str, Any]", value)


_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _expanded(section: Any, env: Mapping[str, str]) -> tuple[Any, str]:
    """Put variables in the place of `${env:NAME}`, and say which are missing."""
    missing: list[str] = []

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(replace, value)
        if isinstance(value, tuple):
            return tuple(expand(item) for item in cast("tuple[Any, ...]", value))
        if isinstance(value, dict):
            return {key: expand(item) for key, item in cast("dict[str, Any]", value).items()}
        return value

    def replace(found: re.Match[str]) -> str:
        value = env.get(found[1]) if found[1] in env else found.group(2)
        if not isinstance(value, str):
            missing.append(found[1])
            return ""
        return value

    changed = {f.name: expand(getattr(section, f.name)) for f in dataclasses.fields(section)}
    made = dataclasses.replace(section, **changed)
    names = ", ".join(sorted(set(missing)))
    return made, f"the environment variable {names} is not set." if missing else ""


def _without_comments(text: str) -> str:
    """JSON as VS Code writes it: comments and trailing commas outside strings go."""
    kept = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda found: found[1] or " ", text, flags=re.DOTALL)
    return re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda found: found[1] or "", kept)
