"""Who signed in, as their authorization server calls them: for people to read, and for nothing else."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from trunkline.errors import ConfigError, UpstreamError
from trunkline.tenancy.oauth.grants import Granted, TokenEndpoint
from trunkline.untrusted import as_object

CLAIMS = ("name", "preferred_username", "username", "nickname", "email", "login", "sub")
"""What people are called by, the best first."""
LONGEST = 100


async def account_of(endpoint: TokenEndpoint, granted: Granted) -> str:
    """The name of who signed in; empty where the authorization server gives none. Nothing depends on it."""
    issuer = endpoint.issuer
    said = _claims(granted.id_token)
    if said and (said.get("iss") != issuer.issuer or endpoint.client.client_id not in _audience(said)):
        said = {}  # it is about somebody at another authorization server, or for another client
    found = name_of(said)
    try:
        if not found and issuer.userinfo_url and "openid" in (granted.scopes or ()):
            credential = f"{granted.token_type} {granted.access_token}"
            found = name_of((await endpoint.web.get_with(issuer.userinfo_url, credential, "account")).content)
        if not found:
            found = name_of(await endpoint.introspect(granted.access_token))
    except (UpstreamError, ConfigError):
        return ""
    return found


def name_of(said: Mapping[str, Any]) -> str:
    """What somebody is called, in one line that can be shown."""
    for claim in CLAIMS:
        value = said.get(claim)
        if isinstance(value, str) and value.strip():
            return "".join(one for one in value.strip() if one.isprintable())[:LONGEST]
    return ""


def _audience(said: Mapping[str, Any]) -> list[Any]:
    found = said.get("aud")
    return cast("list[Any]", found) if isinstance(found, list) else [found]


def _claims(id_token: str) -> dict[str, Any]:
    """What an ID token says; it came from the token endpoint itself, so that nobody else can have written it."""
    parts = id_token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found: Any = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return as_object(found)
