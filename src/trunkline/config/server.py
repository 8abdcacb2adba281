"""One server as the configuration has it: how it is reached, what it may take, and what is said of its tools."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from trunkline.config.oauth import OAuthSpec
from trunkline.tool import ToolOptions

TrustMode = Literal["flag", "hold", "follow"]


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
    oauth: OAuthSpec = field(default_factory=OAuthSpec)
    """How Trunkline signs in to it, in `[servers.NAME.oauth]`; mostly the server itself says all that is needed."""
    public_only: bool = False
    """Connect to public addresses alone, never into private networks; so it is for what members register."""
    era: Literal["auto", "modern", "legacy"] = "auto"
    """Revision of the protocol to speak; `auto` finds out."""
    lifecycle: Literal["singleton", "transient"] = "singleton"
    """`singleton` keeps one process for many calls, `transient` starts one for each call."""
    idle_timeout: float = 0.0
    """Seconds without a call after which its process is stopped; 0 keeps it, and a caller's own for `session_idle`."""
    timeout: float = 60.0
    """Seconds that a call may go without a sign of life (an answer, or progress)."""
    max_timeout: float = 600.0
    """Seconds that a call may take at all, whatever progress it reports."""
    start_timeout: float = 30.0
    """Seconds to start and shake hands, once it is downloaded."""
    download_timeout: float = 600.0
    """Seconds that `npx`, `uvx`, `docker` and the like may take to download it."""
    health_interval: float = 30.0
    """Seconds between health checks; 0 makes none."""
    concurrency: int = 128
    """Calls that may be in flight to it at once; further ones wait, as `[batcher]` says."""
    processes: int = 32
    """Connections of each user, one call at a time, for sessionless callers that it may ask; as many for tasks."""
    answer_limit: int = 16 * 2**20
    """Bytes that one of its messages may have."""
    max_pages: int = 100
    """Pages that are read of each of its lists."""
    enabled: bool = True
    """`false` keeps the entry, but does not use it."""
    defer_loading: bool | None = None
    """Whether lists leave its tools out, which are found and called by name; it starts with the first call; default is
    no."""
    minimal_tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that it is known to have before it was ever reached: `name`, and what else a definition has of MCP."""
    trust: Literal[""] | TrustMode = ""
    """What becomes of definitions that it changes; default is the gateway's. Given here, `follow` holds nothing."""
    tools: Mapping[str, ToolOptions] = field(default_factory=dict[str, ToolOptions])
    """What you say of its tools, by name or pattern (`"delete_*"`, `"*"`), in `[servers.NAME.tools.TOOL]`."""
    problem: str = ""
    local: Any = field(default=None, repr=False, compare=False)
    """A server in this process; `Hub.mount` puts it here."""

    @property
    def kind(self) -> str:
        """`stdio`, `http`, `sse`, or `local` for a server in this process."""
        if self.local is not None:
            return "local"
        if self.transport != "auto":
            return self.transport
        return "stdio" if self.command else "http"

    @property
    def address(self) -> str:
        """Where it is, for people: never with values that may be secret."""
        if self.local is not None:
            return "in this process"
        return f"{self.command} …" if self.command and self.args else self.command or shown_url(self.url)

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """The headers that requests carry; `user:password@` in the address is sent as other clients send it."""
        found = _USERINFO.match(self.url)
        if found is None or any(name.lower() == "authorization" for name in self.headers):
            return self.headers
        user, _, password = found[2].partition(":")
        basic = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
        return {**self.headers, "Authorization": f"Basic {basic}"}

    @cached_property
    def has_authorization(self) -> bool:
        """Whether the configuration itself says how requests are authorized."""
        return any(name.lower() == "authorization" for name in self.sent_headers)

    def without_secrets(self, text: str) -> str:
        """What the server said, with everything hidden that it was given and others should not read."""
        given = [*self.env.values(), *" ".join(self.headers.values()).split(), *self.oauth.secrets]
        found = _USERINFO.match(self.url)
        if found is not None:
            given += [found[2], unquote(found[2]), *found[2].split(":"), *unquote(found[2]).split(":")]
        given += (value for _, value in parse_qsl(self.url.partition("?")[2]))
        long = {value for value in given if len(value) >= SHORTEST_SECRET and value[0] != "/"}
        for value in sorted(long, key=len, reverse=True):
            text = text.replace(value, "***")
        return text

    @cached_property
    def fingerprint(self) -> str:
        """Changes when, and only when, something changes that its connections depend on."""
        aside = {*_NOT_CONNECTED, *(() if self.minimal_tools else ("minimal_tools",))}
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in aside}
        here: dict[str, Any] = {"oauth": dataclasses.asdict(self.oauth)}
        here |= {"local": f"{os.getpid()} {id(self.local)}"} if self.local is not None else {}
        text = json.dumps({**values, **here, "tools": {}}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_NOT_CONNECTED = ("tools", "trust", "local", "defer_loading")

_USERINFO = re.compile(r"([A-Za-z][\w+.-]*://)([^/?#]*)@")
SHORTEST_SECRET = 6
"""Letters; to hide what is shorter would hide the sense of what is said."""


def shown_url(url: str) -> str:
    """An address without what may be secret in it."""
    return _USERINFO.sub(r"\1", re.split("[?#]", url, maxsplit=1)[0])
