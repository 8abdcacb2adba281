"""Requests for tokens, and what the answers mean: which are tokens, which are final, which are to be tried again."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

from trunkline.errors import AuthorizationNeededError, ConfigError, UnreachableError
from trunkline.tenancy.oauth.metadata import Issuer
from trunkline.tenancy.oauth.registration import Client
from trunkline.tenancy.oauth.signing import SigningKey, challenge_of, client_assertion, dpop_proof
from trunkline.tenancy.oauth.web import Web, WebAnswer
from trunkline.untrusted import as_text

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
KIND = "urn:ietf:params:oauth:token-type:"
LONGEST_LIFE = 366 * 86400.0
LATEST = 300.0
"""Seconds after which is asked again, whatever was said."""
FINAL = frozenset(("invalid_grant", "invalid_client", "unauthorized_client", "access_denied"))
"""Errors after which the same request will never be granted."""
OWN_WORDS = {
    "bad_refresh_token": "invalid_grant",
    "bad_verification_code": "invalid_grant",
    "incorrect_client_credentials": "invalid_client",
    "invalid_refresh_token": "invalid_grant",
    "invalid_code": "invalid_grant",
    "invalid_client_id": "invalid_client",
    "bad_client_secret": "invalid_client",
}
"""What GitHub and Slack say in place of the standard's words; both say it with HTTP 200."""

NEVER = FINAL | {"invalid_request", "invalid_scope", "invalid_target", "unsupported_grant_type"}
"""The same for requests that no person's sign-in hangs on."""


class GrantRefusedError(ConfigError):
    """The authorization server will not give a token for what we have; a person must sign in again, or configure."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The authorization server refused ({reason}).")
        self.reason = reason


class LaterError(AuthorizationNeededError):
    """No token now, although nothing is lost: ask again after a while."""

    def __init__(self, message: str, retry_after: float = 0.0, hint: str = "") -> None:
        super().__init__(message, hint=hint or "It is tried again; nothing has to be done.")
        self.retry_after = retry_after


@dataclass(frozen=True)
class Granted:
    """What a token endpoint gave."""

    access_token: str = field(repr=False)
    token_type: str
    lifetime: float
    """Seconds; 0 when nothing sensible was said: then it is used until the server refuses it."""
    refresh_token: str = field(default="", repr=False)
    scopes: tuple[str, ...] | None = None
    """What it is good for, where that was said."""
    id_token: str = field(default="", repr=False)
    """What the authorization server says of who signed in (OIDC)."""


@dataclass
class TokenEndpoint:
    """One authorization server's token endpoint, as one client sees it."""

    web: Web
    issuer: Issuer
    client: Client
    private_key: str = field(default="", repr=False)
    key: SigningKey | None = None
    """Binds tokens to us, where the authorization server does that (DPoP)."""

    async def ask(self, fields: Mapping[str, str], *, final: Collection[str] = FINAL) -> Granted:
        """Ask for a token; `GrantRefusedError` is final, `LaterError` is not."""
        nonce = ""
        for _ in range(2):
            answer = await self._send(fields, nonce)
            if answer.content.get("error") == "use_dpop_nonce" and self.key is not None and not nonce:
                nonce = answer.headers.get(b"dpop-nonce", b"").decode("latin-1")
                continue
            return read_tokens(answer, final)
        raise GrantRefusedError("use_dpop_nonce")

    async def introspect(self, token: str) -> Mapping[str, Any]:
        """What the authorization server says of a token (RFC 7662), where it says anything to us."""
        if not self.issuer.introspection_url:
            return {}
        fields, headers = self._authenticated({"token": token, "token_type_hint": "access_token"})
        answer = await self.web.post(self.issuer.introspection_url, fields, headers, "introspection of tokens")
        return answer.content if answer.status == 200 and answer.content.get("active") is True else {}

    async def revoke(self, token: str, kind: str) -> bool:
        """Have a token forgotten, where that can be asked for (RFC 7009)."""
        if not self.issuer.revocation_url:
            return False
        fields, headers = self._authenticated({"token": token, "token_type_hint": kind})
        answer = await self.web.post(self.issuer.revocation_url, fields, headers, "revocation of tokens")
        return answer.status == 200

    async def _send(self, fields: Mapping[str, str], nonce: str) -> WebAnswer:
        if not self.issuer.token_url:
            raise ConfigError("The authorization server names no token endpoint.")
        whole, headers = self._authenticated(fields)
        if self.key is not None:
            headers[b"dpop"] = dpop_proof(self.key, "POST", self.issuer.token_url, nonce=nonce).encode()
        try:
            return await self.web.post(self.issuer.token_url, whole, headers, "token endpoint")
        except UnreachableError as error:
            raise LaterError(error.message) from error

    def _authenticated(self, fields: Mapping[str, str]) -> tuple[dict[str, str], dict[bytes, bytes]]:
        client, whole = self.client, dict(fields)
        if client.auth_method == "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            return whole, {b"authorization": b"Basic " + base64.b64encode(pair.encode())}
        whole["client_id"] = client.client_id
        if client.auth_method == "client_secret_post":
            whole["client_secret"] = client.client_secret
        elif client.auth_method == "private_key_jwt":
            signed = client_assertion(SigningKey(self.private_key), client.client_id, self.issuer.issuer)
            whole |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": signed}
        return whole, {}


def read_tokens(answer: WebAnswer, final: Collection[str] = FINAL) -> Granted:
    """The tokens of an answer. Only what the authorization server says in so many words is final."""
    said = answer.content
    given = answer.status == 200 and "access_token" in said
    error = "" if given else as_text(said.get("error"))
    error = OWN_WORDS.get(error, error)
    if answer.status in (200, 400, 401, 403) and error in final:
        raise GrantRefusedError(error)
    if answer.status != 200 or error:
        reason = f", {error}" if error.isidentifier() and len(error) < 40 else ""
        raise LaterError(f"The token endpoint answered HTTP {answer.status}{reason}.", retry_after(answer, time.time()))
    token, kind = said.get("access_token"), said.get("token_type")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise LaterError("The token endpoint answered without a token.")
    if isinstance(kind, str) and kind.lower() not in ("bearer", "dpop", "n_a"):
        raise GrantRefusedError("a token of an unknown type")
    refresh, scope, who = said.get("refresh_token"), said.get("scope"), said.get("id_token")
    return Granted(
        token,
        "DPoP" if isinstance(kind, str) and kind.lower() == "dpop" else "Bearer",
        lifetime_of(said.get("expires_in")),
        as_text(refresh),
        tuple(scope.split()) if isinstance(scope, str) and scope.strip() else None,
        as_text(who),
    )


def lifetime_of(expires_in: Any) -> float:
    """Seconds that a token lives; what makes no sense says nothing."""
    try:
        seconds = float(expires_in) if isinstance(expires_in, (int, float, str)) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return min(seconds, LONGEST_LIFE) if math.isfinite(seconds) and seconds > 0 else 0.0


def authorization_address(
    issuer: Issuer,
    client: Client,
    *,
    redirect_uri: str,
    state: str,
    verifier: str,
    resource: str = "",
    nonce: str = "",
    scopes: tuple[str, ...],
) -> str:
    """Where a person goes to sign in."""
    if not issuer.authorization_url:
        raise ConfigError("The authorization server has no address for people to sign in at.")
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        **({"resource": resource} if resource else {}),
        **({"nonce": nonce} if nonce else {}),
        **({"scope": " ".join(scopes)} if scopes else {}),
        **({"prompt": "consent"} if "offline_access" in scopes else {}),
    }
    return f"{issuer.authorization_url}{'&' if '?' in issuer.authorization_url else '?'}{urlencode(asked)}"


def scopes_for(
    *, configured: tuple[str, ...], challenged: tuple[str, ...], resource: tuple[str, ...], granted: tuple[str, ...]
) -> tuple[str, ...]:
    """What to ask for: as configured, else as challenged, else all the server lists; never less than was granted."""
    wanted = configured or challenged or resource
    step_up = challenged if configured else ()
    return tuple(dict.fromkeys((*granted, *wanted, *step_up)))


def with_offline(scopes: tuple[str, ...], issuer: Issuer) -> tuple[str, ...]:
    """With what makes an authorization server give refresh tokens, where it says that it knows that."""
    offered = "offline_access" in issuer.scopes and "offline_access" not in scopes
    return (*scopes, "offline_access") if offered else scopes


def retry_after(answer: WebAnswer, now: float) -> float:
    """Seconds until one may ask again, as it says in seconds or as a date; 0 where it does not."""
    text = answer.headers.get(b"retry-after", b"").decode("latin-1").strip()[:40]
    if text.isascii() and text.isdigit():
        return min(float(text), LATEST)
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return min(max(when.replace(tzinfo=when.tzinfo or UTC).timestamp() - now, 0.0), LATEST)


def expiry(granted: Granted) -> float:
    """When a token that was just given ends; 0 when nobody knows."""
    return time.time() + granted.lifetime if granted.lifetime else 0.0
