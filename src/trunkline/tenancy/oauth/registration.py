"""As whom we sign in: a client that was registered by hand, described by a document, or registered on the spot."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from trunkline.config.oauth import OAuthSpec
from trunkline.errors import ConfigError, UnreachableError
from trunkline.tenancy.oauth.metadata import Issuer
from trunkline.tenancy.oauth.web import Web, is_here
from trunkline.untrusted import as_text

METHODS = ("client_secret_basic", "client_secret_post", "none")
"""How we can prove who we are without a key, the best first."""
NAME = "Trunkline"


class Client(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who we are to one authorization server. Kept by its issuer, and never shown to another."""

    client_id: str
    client_secret: str = ""
    auth_method: str = "none"
    redirect_uri: str = ""
    """Where it may send people back; a client that was registered for another address is of no use."""
    expires: float = 0.0
    registered: bool = False
    """We registered it ourselves, and may do so again."""
    made: float = 0.0
    """When that was."""

    def fits(self, redirect_uri: str) -> bool:
        """Whether it can still be used."""
        return self.redirect_uri == redirect_uri and not (self.expires and time.time() > self.expires - 60)


def metadata_document(url: str, redirect_uri: str) -> dict[str, Any]:
    """What the document says at the address that is our id."""
    return {"client_id": url, "client_uri": url.partition("/oauth/")[0], **_described(redirect_uri, "none")}


def configured(config: OAuthSpec, issuer: Issuer) -> Client | None:
    """The client that the operator registered."""
    if not config.client_id:
        return None
    if config.private_key:
        return Client(config.client_id, auth_method="private_key_jwt")
    method = _method(issuer, bool(config.client_secret))
    return Client(config.client_id, config.client_secret, method)


async def client_for(
    web: Web, issuer: Issuer, config: OAuthSpec, *, redirect_uri: str, document: str, kept: Client | None
) -> Client:
    """Registered by hand, else described by a document, else known from before, else registered now."""
    own = configured(config, issuer)
    if own is not None:
        return own
    document = config.client_metadata_url or document
    if issuer.takes_documents and document.startswith("https://"):
        return Client(document, redirect_uri=redirect_uri)
    if kept is not None and kept.fits(redirect_uri):
        return kept
    if not issuer.registration_url:
        raise ConfigError(
            "The authorization server takes no clients that it does not know.",
            hint="Register Trunkline there, and give `client_id` (and `client_secret`) in [servers.NAME.oauth].",
        )
    return await _register(web, issuer, redirect_uri)


async def _register(web: Web, issuer: Issuer, redirect_uri: str) -> Client:
    method = _method(issuer, True)
    answer = await web.post_json(issuer.registration_url, _described(redirect_uri, method), "registration of clients")
    said = answer.content
    if answer.status == 429 or answer.status >= 500:
        raise UnreachableError(f"The authorization server registers no client now (HTTP {answer.status}).")
    client_id = said.get("client_id")
    if answer.status not in (200, 201) or not isinstance(client_id, str) or not client_id:
        raise ConfigError(
            f"The authorization server refused to register Trunkline (HTTP {answer.status}).",
            hint="Register it by hand, and give `client_id` in [servers.NAME.oauth].",
        )
    secret, expires = said.get("client_secret"), said.get("client_secret_expires_at")
    secret = as_text(secret)
    given = said.get("token_endpoint_auth_method")
    chosen = given if given in METHODS else method if secret or method == "none" else "none"
    lasts = float(expires) if isinstance(expires, (int, float)) and secret and 0 < expires < 2**40 else 0.0
    return Client(client_id, secret, chosen, redirect_uri, lasts, registered=True, made=time.time())


def _method(issuer: Issuer, secret: bool) -> str:
    # Where nothing is said, RFC 8414 says Basic; without a secret there is nothing to prove.
    offered = issuer.auth_methods or (("none",) if issuer.guessed else ("client_secret_basic",))
    usable = METHODS if secret else ("none",)
    return next((one for one in usable if one in offered), usable[0])


def _described(redirect_uri: str, method: str) -> dict[str, Any]:
    return {
        "client_name": NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native" if is_here(redirect_uri) else "web",
    }
