"""The gateway as a protected resource (RFC 9728): where its callers get tokens, and what a refused one is told."""

from __future__ import annotations

import re
from collections.abc import Collection

from trunkline.errors import RefusedError, TokenRefusedError
from trunkline.gateway.request import JSON, Request
from trunkline.tenancy.issuers import Issuers
from trunkline.wire.members import encode

PATH = "/.well-known/oauth-protected-resource"
_PLACE = re.compile(r"/mcp(?:/[A-Za-z0-9._-]{1,64})?")


def place_of(path: str) -> str:
    """The resource that an address belongs to: a profile is one of its own, everything else goes with `/mcp`."""
    return path if path.startswith("/mcp/") else "/mcp"


class Resource:
    """What the gateway says of itself to whoever has no token yet, or a wrong one."""

    def __init__(self, base: str, issuers: Issuers) -> None:
        self._base, self._issuers = base, issuers
        self._prefix = "/" + base.partition("://")[2].partition("/")[2] if base.count("/") > 2 else ""
        """The path of our own address, where a proxy serves us below one."""

    def answer(self, request: Request, profiles: Collection[str]) -> None:
        """The metadata of `/mcp`, or of a profile; without a path, that of `/mcp`."""
        place = request.path.removeprefix(PATH).removeprefix(self._prefix) or "/mcp"
        profile = place.removeprefix("/mcp").removeprefix("/")
        if place != "/mcp" and (not _PLACE.fullmatch(place) or profile not in profiles):
            raise RefusedError("There is nothing here.", status=404, hint="MCP is at /mcp.")
        if request.method not in ("GET", "HEAD"):
            raise RefusedError(f"There is nothing to {request.method} here.", status=405)
        said: dict[str, object] = {
            "resource": self._base + place,
            "resource_name": f"Trunkline: {profile}" if profile else "Trunkline",
            "bearer_methods_supported": ["header"],
        }
        if self._issuers:
            said["authorization_servers"] = self._issuers.addresses
        if self._issuers.scopes:
            said["scopes_supported"] = self._issuers.scopes
        request.answer(200, encode(said), [JSON, (b"cache-control", b"max-age=300")])

    def challenge(self, request: Request, refused: RefusedError) -> tuple[bytes, bytes]:
        """The header that says how to be let in."""
        place = place_of(request.path)
        place = place if _PLACE.fullmatch(place) else "/mcp"
        parts = [f'resource_metadata="{self._base}{PATH}{place}"']
        scopes = self._issuers.required_scopes
        if isinstance(refused, TokenRefusedError) and refused.scopes:
            parts.insert(0, f'error="insufficient_scope", error_description="{refused.message}"')
            scopes = refused.scopes
        elif request.headers.get(b"authorization", b"")[:7].lower() == b"bearer ":
            parts.insert(0, f'error="invalid_token", error_description="{refused.message}"')
        if scopes:
            parts.append(f'scope="{" ".join(scopes)}"')
        return b"www-authenticate", f"Bearer {', '.join(parts)}".encode()
