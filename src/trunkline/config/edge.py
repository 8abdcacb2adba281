"""Options about web pages: which origins may use what, and where `/edge` takes their requests."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from trunkline.errors import ConfigError


@dataclass(frozen=True)
class EdgeSection:
    """`[edge]`: `/edge` takes requests of web pages to servers elsewhere; off until origins and targets are named."""

    origins: tuple[str, ...] = ()
    """Web origins whose pages may use it, exactly as browsers write them: `https://app.example.org`."""
    targets: tuple[str, ...] = ()
    """Where requests may go: `https://mcp.example.org` for everything there, or one address with its path."""
    headers: tuple[str, ...] = ()
    """Further headers of requests that are passed on, such as `x-api-key`; those of MCP always are."""
    allow_private: bool = False
    """Let targets be on loopback and private networks; else at public addresses alone, whatever their names."""
    body_limit: int = 4 * 2**20
    """Bytes that a request may have, decompressed; `[gateway] body_limit` counts as well."""
    answer_limit: int = 16 * 2**20
    """Bytes that an answer may have that is no stream of events."""
    timeout: float = 30.0
    """Seconds that a target has to answer; of a stream of events, to begin it."""
    requests_per_minute: float = 120.0
    """Requests in a minute of one user, or, where there are no users, of one address; 0 sets no limit."""
    running: int = 20
    """Requests and streams that one of them may have at once; 0 sets no limit."""


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?/?", re.IGNORECASE)
_TARGET = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!$&-;=@-Z_a-z~%]*)?(?P<query>\?[!$-;=?-\[\]-~]*)?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NEVER = frozenset((
    "host", "cookie", "origin", "referer", "authorization", "connection", "keep-alive", "te", "trailer", "upgrade",
    "transfer-encoding", "content-length", "content-encoding", "accept-encoding", "expect", "forwarded", "via",
    "trunkline-key",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """An address on the web, as far as two of them are compared."""

    origin: str
    """Scheme, host and port, in one spelling."""
    path: str
    """Empty where none is written."""


def read_target(text: str) -> Target | None:
    """An address without a user, a fragment, or anything that two readers could understand differently; else `None`."""
    found = _TARGET.fullmatch(text)
    if found is None:
        return None
    scheme, host = found["scheme"].lower(), found["host"].lower()
    port = int(found["port"] or (443 if scheme == "https" else 80))
    return Target(f"{scheme}://{host}:{port}", found["path"] or "") if 0 < port < 65536 else None


def check_web(section: Any, where: str) -> None:
    """Refuse origins, targets and headers that are none, or that would let in more than they say."""
    for option in dataclasses.fields(section):
        name = f"{where}.{option.name}"
        if name in ("gateway.allowed_origins", "edge.origins"):
            for origin in getattr(section, option.name):
                if not _ORIGIN.fullmatch(origin):
                    hint = "Write it as browsers do, such as `https://app.example.org`; there are no patterns."
                    raise ConfigError(f"{name}: {origin!r} is no origin.", hint=hint)
        elif name == "edge.targets":
            for text in section.targets:
                if "?" in text or read_target(text) is None:
                    hint = "Write `https://host`, or one address with its path; there are no patterns."
                    raise ConfigError(f"{name}: {text!r} is no address.", hint=hint)
        elif name == "edge.headers":
            for header in section.headers:
                if not _NAME.fullmatch(header) or header.lower() in _NEVER:
                    raise ConfigError(f"{name}: {header!r} is not passed on.")
