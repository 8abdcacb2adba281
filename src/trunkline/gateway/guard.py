"""Who may speak to us: the Host and Origin of a request, and its token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from trunkline.config.exposure import LOOPBACK_NAMES, is_loopback
from trunkline.config.options import GatewayConfig
from trunkline.errors import RefusedError, TokenRefusedError
from trunkline.gateway.request import Request
from trunkline.identity import EVERYONE, Scope
from trunkline.tenancy.issuers import Issuers
from trunkline.tenancy.people import ANYONE, Admission, People
from trunkline.wire.era import HEADER_MISMATCH


class Guard:
    """Checks every request before anything of it is looked at."""

    def __init__(self, gateway: GatewayConfig, people: People, issuers: Issuers) -> None:
        self._people, self._issuers, self._issued = people, issuers, bool(issuers)
        self._anonymous = gateway.allow_anonymous and is_loopback(gateway.host)
        self.key = secrets.token_urlsafe(32)
        """Lets in commands of whoever runs the gateway, who alone can read where it is announced."""
        tokens = {token: Scope(user=user, role="member") for user, token in gateway.users.items()}
        if gateway.token:
            tokens[gateway.token] = EVERYONE
        self._locked = bool(tokens)
        tokens[self.key] = EVERYONE
        self._configured = {
            hashlib.sha256(token.encode()).digest(): Admission(scope) for token, scope in tokens.items()
        }
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in gateway.allowed_hosts}
        if not gateway.allowed_hosts and not is_loopback(gateway.host) and (self._locked or people.anybody or issuers):
            # The token already keeps a rebound page out, and we cannot know under which names we are reached.
            self._hosts = None
        self._origins = frozenset(origin.lower().rstrip("/") for origin in gateway.allowed_origins)
        self._known: dict[bytes, bool] = {}

    def check(self, request: Request, *, same_origin: bool = False, any_origin: bool = False) -> None:
        """Refuse what somebody else's web page may have sent, and what two readers could read differently.

        `same_origin` lets in what a page of our own sends; with `any_origin`, somebody else looks at the origin.
        """
        headers = request.headers
        if request.repeated == b"authorization":
            raise TokenRefusedError("Two tokens were sent.", hint="Send one.")
        if request.repeated:
            raise RefusedError(f"The header {request.repeated.decode()} occurs twice.", code=HEADER_MISMATCH)
        host = headers.get(b"host", b"")
        known = self._known.get(host)
        if known is None:
            known = self._host_allowed(host.decode("latin-1"))
            if len(self._known) < 100:
                self._known[host] = known
        if not known:
            raise RefusedError("This host name is not served here.", status=421, hint="See `allowed_hosts`.")
        origin = headers.get(b"origin")
        if any_origin:
            return
        if same_origin and origin is not None and origin.partition(b"://")[2] == host:
            return
        if origin is not None and not self._origin_allowed(origin.decode("latin-1")):
            raise RefusedError("Requests from this origin are not accepted.", status=403, hint="See `allowed_origins`.")

    def known(self, headers: Mapping[bytes, bytes], place: str) -> Admission | None:
        """Whose request it is, if nothing must be looked up for that; `None` when it must, or nobody is known."""
        token = headers.get(b"authorization")
        if token is None or not self.knows_keys:
            return None if self.wants_key else ANYONE
        scheme, _, token = token.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        # Looked up by digest, so that how long it takes says nothing about how much of a guess was right.
        digest = hashlib.sha256(token.strip()).digest()
        found = self._configured.get(digest) or self._people.known(digest)
        return found if found is None or found.places is None or place in found.places else None

    async def admit(self, headers: Mapping[bytes, bytes], place: str) -> Admission | None:
        """Whose request it is; `None` when a key is wanted and none that we know was sent.

        TokenRefusedError says why an issuer's token lets in nobody.
        """
        found = self.known(headers, place)
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if found is not None or scheme.lower() != b"bearer":
            return found
        token = token.strip()
        if self._issued and token.count(b".") == 2:
            return await self._issuers.admit(token, place)
        return await self._people.admit(token) if self._people.anybody else None

    def is_local(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a command of whoever runs the gateway sent this."""
        return hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self.key.encode())

    async def scope_of(self, token: str) -> Scope | None:
        """Whom a key lets in, as what; `None` when nobody."""
        try:
            found = await self.admit({b"authorization": b"Bearer " + token.encode()}, "/mcp")
        except TokenRefusedError:
            return None
        return found.scope if found is not None else None

    async def whose(self, token: str) -> str | None:
        """The user that a key belongs to."""
        found = await self.scope_of(token)
        return found.user if found is not None else None

    @property
    def knows_keys(self) -> bool:
        """Whether there is any key or token that lets somebody in."""
        return self._locked or self._people.anybody or self._issued

    @property
    def wants_key(self) -> bool:
        """Whether nobody is let in without a key or token."""
        return self._locked or ((self._people.anybody or self._issued) and not self._anonymous)

    def _host_allowed(self, host: str) -> bool:
        if self._hosts is None:
            return bool(host)
        lower = host.lower()
        return lower in self._hosts or _without_port(lower) in self._hosts

    def _origin_allowed(self, origin: str) -> bool:
        lower = origin.lower()
        if lower in self._origins:
            return True
        scheme, _, rest = lower.partition("://")
        return scheme in ("http", "https") and _without_port(rest) in LOOPBACK_NAMES


def _without_port(host: str) -> str:
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return name if bracket and _is_port(port) else ""
    name, colon, port = host.partition(":")
    return name if not colon or port.isdigit() else ""


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and text[1:].isdigit())
