"""Where an http address leads: scheme, host and port, and what comes after them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from trunkline.config.server import shown_url
from trunkline.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


def split_url(url: str) -> tuple[Origin, str]:
    """A URL as its origin and what comes after it."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ConfigError(f"{shown_url(url)!r} is not an address.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{shown_url(url)!r} is not an http address.")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Origin(parts.scheme, parts.hostname, port), target
