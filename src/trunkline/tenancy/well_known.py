"""Where authorization servers and identity providers describe themselves (RFC 8414 section 3.1, OIDC discovery)."""

from __future__ import annotations

from urllib.parse import urlsplit

METADATA = "/.well-known/oauth-authorization-server"
OIDC = "/.well-known/openid-configuration"


def metadata_places(issuer: str) -> list[str]:
    """Where an issuer's description may be, in the order in which MCP has clients look."""
    parts = urlsplit(issuer)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return [f"{root}{METADATA}", f"{root}{OIDC}"]
    return [f"{root}{METADATA}{path}", f"{root}{OIDC}{path}", f"{root}{path}{OIDC}"]
