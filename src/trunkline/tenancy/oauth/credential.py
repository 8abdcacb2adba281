"""One credential in use: sent with requests, renewed before it ends, and looked into when the server refuses it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

import msgspec

from trunkline.balance.health import Backoff
from trunkline.errors import AuthorizationNeededError, ConfigError, UpstreamError
from trunkline.tasks import drop_outcome
from trunkline.tenancy.oauth.clients import show_to
from trunkline.tenancy.oauth.grants import (
    EXCHANGE,
    JWT_BEARER,
    KIND,
    NEVER,
    GrantRefusedError,
    LaterError,
    TokenEndpoint,
)
from trunkline.tenancy.oauth.metadata import Challenge, Issuer, find_issuer, find_resource, read_challenge, same_issuer
from trunkline.tenancy.oauth.registration import Client, configured
from trunkline.tenancy.oauth.signing import SigningKey, dpop_proof
from trunkline.tenancy.oauth.tokens import Renewal, Tokens, load, save
from trunkline.tenancy.oauth.web import Web
from trunkline.upstream.http1 import Response

if TYPE_CHECKING:
    from trunkline.tenancy.sign_ins import SignIn, SignIns

log = logging.getLogger("trunkline")

ONCE_MORE = 60.0
"""Seconds in which a token is not renewed again that the server refused although it was just renewed."""
AGAIN = "Somebody has to sign in again"
_GIVEN = {"signed out": "it was signed out"}


class Credential:
    """What one user, or the operator, has at one server."""

    def __init__(self, all: SignIns, of: SignIn) -> None:
        self._all, self._of, self._spec = all, of, of.spec
        self.web = Web(all.http, of.spec.url, public_only=of.spec.public_only)
        self.tokens: Tokens | None = None
        self.problem = ""
        """Why there is no credential, for people."""
        self._loaded = False
        self._line = b""
        self._key: SigningKey | None = None
        self._nonce = ""
        self._later = Backoff()
        self._remedy = ""
        """What to do about the reason, where waiting alone does not help."""
        self._told = False
        self._working: asyncio.Task[None] | None = None
        self._subject: str = ""
        """What the caller came with that was exchanged last."""
        self._unproven = ("", 0.0)
        """A token that was had because the server refused the one before, and until when that counts."""

    # For connections.

    def headers(self, method: str, url: str) -> bytes | None:
        """The lines of one request; `None` when the token must be had or renewed first."""
        tokens = self.tokens
        if not self._loaded or (tokens is None and self._spec.oauth.for_machines):
            return None
        if tokens is None:
            return b""
        now = time.time()
        stale = not tokens.fresh(now) and self._renewable(tokens)
        if stale and not (tokens.usable(now) and self._later.wait(time.monotonic())):
            return None
        if self._key is None:
            return self._line
        proof = dpop_proof(self._key, method, url, token=tokens.access_token, nonce=self._nonce)
        return self._line + b"dpop: " + proof.encode() + b"\r\n"

    async def fetch(self) -> None:
        """Have a token, read, renewed or asked for; one at a time, and to its end whatever becomes of who asks."""
        await self._work("")

    async def challenged(self, response: Response, sent: bytes) -> bool:
        """Look into a refusal; whether the same request may be granted now."""
        challenge = read_challenge(response.headers.get(b"www-authenticate", b""))
        nonce = response.headers.get(b"dpop-nonce", b"").decode("latin-1")
        if challenge.error == "use_dpop_nonce" and self._key is not None and nonce != self._nonce:
            self._nonce = nonce
            return True
        tokens = self.tokens
        if tokens is None:
            return False
        if self._line and not sent.startswith(self._line):
            return True  # it was renewed meanwhile
        if response.status == 403:
            return await self._step_up(challenge, tokens)
        refused, until = self._unproven
        if refused == tokens.access_token and time.monotonic() < until:
            self.problem = f"It refuses a token that was just renewed. {AGAIN}."
            return False
        if not self._renewable(tokens):
            self.problem = f"Its token is no longer taken. {AGAIN}."
            return False
        if await self._moved(challenge, tokens):
            return False
        await self._work(tokens.access_token)
        tokens = self.tokens
        if tokens is None:
            return False
        self._unproven = tokens.access_token, time.monotonic() + ONCE_MORE
        return True

    def accepted(self) -> None:
        """The server takes the token that was just had."""
        self._unproven = "", 0.0

    def reload(self) -> None:
        """What is kept is another."""
        self._loaded = self._spec.oauth.for_machines and self._loaded

    @property
    def granted(self) -> tuple[str, ...]:
        """What the present sign-in is good for."""
        return self.tokens.scopes if self.tokens is not None else ()

    # What becomes of tokens.

    def _renewable(self, tokens: Tokens) -> bool:
        return bool(tokens.refresh_token) or self._spec.oauth.for_machines

    async def _work(self, refused: str) -> None:
        while True:
            begins = self._working is None or self._working.done()
            if begins:
                self._working = self._all.tasks.start(self._prepare(refused), name=f"credential for {self._spec.name}")
                # Whoever waits gets the error; when nobody does any more, the next request meets it again.
                self._working.add_done_callback(drop_outcome)
            assert self._working is not None
            await asyncio.shield(self._working)
            # What was under way already may have been about less than having another token.
            if begins or self.tokens is None or self.tokens.access_token != refused:
                return

    async def _prepare(self, refused: str) -> None:
        """Bring the token up to date; with one that was refused, have another."""
        if not self._loaded:
            self._take(None if self._spec.oauth.for_machines else await self._read())
            self._loaded = True
        tokens = self.tokens
        if tokens is not None and tokens.fresh(time.time()) and tokens.access_token != refused:
            return
        if self._spec.oauth.for_machines:
            await self._obtain_anew(tokens, refused)
        elif tokens is not None and tokens.refresh_token:
            await self._renew(tokens, good=tokens.usable(time.time()) and tokens.access_token != refused)

    async def _read(self) -> Tokens | None:
        found = await load(self._all.vault, self._of.owner, self._spec.name)
        if found is not None and found.server_url != self._spec.url:
            self.problem = f"It was signed in to at another address. {AGAIN}."
            return None
        if found is not None and found.problem:
            self.problem = f"{found.problem}. {AGAIN}."
            return None
        return found

    def _take(self, tokens: Tokens | None) -> None:
        self.tokens = tokens
        self._line, self._key = b"", None
        if tokens is None:
            return
        self.problem = ""
        self._line = f"authorization: {tokens.token_type} {tokens.access_token}\r\n".encode()
        if tokens.token_type == "DPoP" and tokens.key:  # noqa: S105 - a type
            self._key = SigningKey(tokens.key)

    async def _renew(self, tokens: Tokens, *, good: bool) -> None:
        """Have newer tokens; while the old ones are good, it does no harm that there are none now."""
        wait = self._later.wait(time.monotonic())
        if wait:
            raise LaterError(f"The sign-in at {self._spec.name!r} could not be renewed: {self._later.reason}", wait)
        renewal = Renewal(self._all.vault, self._all.store, self.web, self._of.owner, self._spec.name, self._spec.oauth)
        try:
            self._take(await renewal.renew(tokens))
            self._all.renewed += 1
        except GrantRefusedError as error:
            self._take(None)
            self._ended(error.reason)
            return
        except LaterError as error:
            self._put_off(error)
            if not good:
                raise
            return
        self._later.lasted()
        self._told = False

    def _put_off(self, error: LaterError) -> None:
        now = time.monotonic()
        self._later.failed(now, error.message, random.random())  # noqa: S311 - jitter
        self._later.closed_until = max(self._later.closed_until, now + error.retry_after)
        self._remedy = ""
        if not self._told:
            self._told = True
            server = self._spec.name
            text = "The sign-in at %s is kept, but could not be renewed: %s"
            log.warning(text, server, error.message, extra={"server": server})

    def _ended(self, reason: str) -> None:
        self.problem = f"Its sign-in has ended ({_GIVEN.get(reason, reason)}). {AGAIN}."
        if not self._told:
            self._told = True
            server, text = self._spec.name, "The sign-in at %s has ended (%s); somebody has to sign in again."
            log.warning(text, server, reason, extra={"server": server})

    async def _moved(self, challenge: Challenge, tokens: Tokens) -> bool:
        """Whether the server names other authorization servers now: then nothing of the old one's is of use there."""
        try:
            resource = await find_resource(self.web, self._spec.url, challenge)
        except (UpstreamError, ConfigError):
            return False  # what is renewed is renewed where it came from, whatever is said here
        if not resource.issuers or any(same_issuer(one, tokens.issuer) for one in resource.issuers):
            return False
        if not self._spec.oauth.for_machines:
            moved = msgspec.structs.replace(tokens, problem="it names another authorization server")
            await save(self._all.vault, self._of.owner, self._spec.name, moved)
        self._take(None)
        self._ended("it names another authorization server")
        return True

    async def _step_up(self, challenge: Challenge, tokens: Tokens) -> bool:
        """More is wanted than was granted: what a machine can ask for itself, a person must agree to."""
        missing = [scope for scope in challenge.scopes if scope not in tokens.scopes]
        if not missing:
            self.problem = "It refuses what it was granted."
            self._of.challenge = b""
            return False
        if not self._spec.oauth.for_machines:
            self.problem = f"It wants more than was agreed to: {' '.join(missing)}."
            return False
        await self._obtain((*tokens.scopes, *missing))
        return True

    # Without a person.

    async def _obtain_anew(self, tokens: Tokens | None, refused: str) -> None:
        try:
            await self._obtain(())
        except AuthorizationNeededError:
            # It is had early: until the old one ends, it does no harm that there is no other.
            if tokens is None or tokens.access_token == refused or not tokens.usable(time.time()):
                raise

    async def _obtain(self, scopes: tuple[str, ...]) -> None:
        """Ask for a token in our own name."""
        config, spec = self._spec.oauth, self._spec
        subject = self._all.brought(self._of.owner) if config.exchanges else ""
        if subject != self._subject:
            self._subject, self._later = subject, Backoff()  # what was refused was another's turn
        wait = self._later.wait(time.monotonic())
        if wait:
            raise LaterError(f"There is no token for server {spec.name!r}: {self._later.reason}", wait, self._remedy)
        try:
            challenge = read_challenge(self._of.challenge)
            resource = await find_resource(self.web, spec.url, challenge)
            issuer = await find_issuer(self.web, spec.url, resource, config)
            await show_to(self._all.vault, self._all.shown, spec, issuer)
            client = configured(config, issuer)
            if client is None:
                raise ConfigError(f"Server {spec.name!r} has no `client_id` in its `oauth` table.")
            key = SigningKey.make() if challenge.scheme == "dpop" and issuer.dpop_algorithms else None
            endpoint = TokenEndpoint(self.web, issuer, client, config.private_key, key)
            wanted = scopes or config.scopes or challenge.scopes or resource.scopes
            fields = {"resource": resource.resource, **({"scope": " ".join(wanted)} if wanted else {})}
            own = await self._own_grant(issuer, resource.resource)
            granted = await endpoint.ask({**fields, **own}, final=NEVER)
        except LaterError as error:
            self._put_off(error)
            raise
        except (ConfigError, UpstreamError) as error:
            # Asked again and again it would not be given either.
            self._later.failed(time.monotonic(), error.message, 1.0)
            self._later.closed_until = time.monotonic() + ONCE_MORE
            self._remedy = error.hint
            raise AuthorizationNeededError(
                f"Server {spec.name!r} wants authorization: {error.message}",
                hint=error.hint or "See its `oauth` table.",
            ) from error
        made = Tokens(
            server_url=spec.url,
            resource=resource.resource,
            issuer=issuer.issuer,
            token_url=issuer.token_url,
            client=Client(client.client_id),
            access_token="",
            scopes=wanted,
            key=key.pem if key is not None else "",
            since=time.time(),
        )
        self._take(msgspec.structs.replace(made.renewed(granted), refresh_token=""))
        self._later.lasted()

    async def _own_grant(self, issuer: Issuer, resource: str) -> dict[str, str]:
        config = self._spec.oauth
        match config.grant:
            case "jwt_bearer":
                return {"grant_type": JWT_BEARER, "assertion": config.assertion}
            case "id_jag":
                return {"grant_type": JWT_BEARER, "assertion": await self._identity(issuer, resource)}
            case "exchange":
                return self._exchange()
            case _:
                return {"grant_type": "client_credentials"}

    def _exchange(self) -> dict[str, str]:
        """What the caller came with, for a token that the server takes (RFC 8693); the server never sees the former."""
        if not self._subject:
            raise ConfigError(
                "There is no token of the caller that could be exchanged for one for this server.",
                hint="Call with a token of an identity provider (`[auth.issuers]`) that has not ended.",
            )
        kind, audience = f"{KIND}access_token", self._spec.oauth.audience
        return {
            "grant_type": EXCHANGE,
            "subject_token": self._subject,
            "subject_token_type": kind,
            "requested_token_type": kind,
            **({"audience": audience} if audience else {}),
        }

    async def _identity(self, issuer: Issuer, resource: str) -> str:
        """What the company's identity provider says of us to this authorization server."""
        config = self._spec.oauth
        provider = Issuer(config.idp_token_url, token_url=config.idp_token_url)
        asked = {
            "grant_type": EXCHANGE,
            "requested_token_type": f"{KIND}id-jag",
            "subject_token": config.assertion,
            "subject_token_type": f"{KIND}id_token",
            "audience": issuer.issuer,
            "resource": resource,
        }
        client = Client(config.idp_client_id)
        return (await TokenEndpoint(self.web, provider, client).ask(asked)).access_token
