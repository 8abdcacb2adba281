"""What Trunkline can be told. An option is one field: its key, variable, flag and documentation come from there."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast


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
    """Connections, each for one call at a time, for callers without a session that it may ask something."""
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
