"""What is kept of a sign-in, and how it is renewed: by one of all callers and processes at a time, and never lost."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from trunkline.config.oauth import OAuthSpec
from trunkline.storage.credentials import CredentialName
from trunkline.storage.sign_ins import end_lease, take_lease
from trunkline.storage.store import Store
from trunkline.tenancy.credentials import Vault
from trunkline.tenancy.oauth.clients import UNKNOWN, forget_client
from trunkline.tenancy.oauth.grants import Granted, GrantRefusedError, LaterError, TokenEndpoint, expiry
from trunkline.tenancy.oauth.metadata import Issuer
from trunkline.tenancy.oauth.registration import Client, configured
from trunkline.tenancy.oauth.signing import SigningKey
from trunkline.tenancy.oauth.web import PATIENCE, Web

EARLY = 60.0
"""Seconds before its end at which a token is renewed; of one that lives shortly, the last tenth."""
LEASE = 2 * PATIENCE + 10.0
"""Seconds that a renewal is one process's: longer than the request may take, with a nonce asked for meanwhile."""
LOOK = 0.05
LONGEST_LOOK = 0.5
TOKENS = "tokens"


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A sign-in at one server: its tokens, and where they came from, which is where alone they are sent."""

    server_url: str
    """Where they may be used: a server that was moved gets none of them."""
    resource: str
    issuer: str
    token_url: str
    revocation_url: str = ""
    client: Client
    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - a type
    expires: float = 0.0
    """When it ends; 0 when nobody said so."""
    early: float = 0.0
    refresh_token: str = ""
    scopes: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    """What was asked for about the person: no server wants it of a token, so it is in no challenge for more."""
    key: str = ""
    """The private key that the tokens are bound to (DPoP)."""
    since: float = 0.0
    account: str = ""
    """Who signed in, as the authorization server calls them; empty where it does not say."""
    problem: str = ""
    """Why they are of no use any more: somebody has to sign in again."""

    def fresh(self, now: float) -> bool:
        """Whether the access token need not be renewed."""
        return not self.expires or now < self.expires - self.early

    def usable(self, now: float) -> bool:
        """Whether the access token may still be good."""
        return not self.expires or now < self.expires

    def renewed(self, granted: Granted) -> Tokens:
        """With what a token endpoint gave; what it did not give anew stays."""
        return msgspec.structs.replace(
            self,
            access_token=granted.access_token,
            token_type=granted.token_type,
            expires=expiry(granted),
            early=min(EARLY, granted.lifetime / 10),
            refresh_token=granted.refresh_token or self.refresh_token,
            scopes=self.scopes if granted.scopes is None else granted.scopes,
        )


def name_of(user: str, server: str, issuer: str) -> CredentialName:
    """Where a sign-in is kept."""
    return CredentialName(user, server, issuer, TOKENS)


async def load(vault: Vault, user: str, server: str) -> Tokens | None:
    """What is kept of a user's sign-in at a server; the newest, where it has moved between authorization servers."""
    found: list[Tokens] = []
    for name in await vault.names(user=user, server=server):
        content = await vault.get(name) if name.field == TOKENS else None
        if content is not None:
            found.append(msgspec.json.decode(content, type=Tokens))
    return max(found, key=lambda one: one.since, default=None)


async def save(vault: Vault, user: str, server: str, tokens: Tokens) -> None:
    """Keep a sign-in."""
    await vault.put(name_of(user, server, tokens.issuer), msgspec.json.encode(tokens))


def endpoint_of(web: Web, tokens: Tokens, config: OAuthSpec) -> TokenEndpoint:
    """Where tokens are renewed and revoked: where they came from."""
    issuer = Issuer(tokens.issuer, token_url=tokens.token_url, revocation_url=tokens.revocation_url)
    client = tokens.client
    own = configured(config, issuer)
    if own is not None and own.client_id == client.client_id:
        client = msgspec.structs.replace(own, auth_method=client.auth_method)
    key = SigningKey(tokens.key) if tokens.key else None
    return TokenEndpoint(web, issuer, client, config.private_key, key)


@dataclass
class Renewal:
    """Renews one user's sign-in at one server."""

    vault: Vault
    store: Callable[[], Awaitable[Store]]
    web: Web
    user: str
    server: str
    config: OAuthSpec

    async def renew(self, old: Tokens) -> Tokens:
        """Tokens that are newer than these: ours, or those that somebody else had meanwhile.

        `GrantRefusedError` when a person must sign in again, `LaterError` when nothing is lost.
        """
        store, holder = await self.store(), secrets.token_hex(8)
        lease = f"renew {self.user}\0{self.server}\0{old.issuer}"
        wait = LOOK
        try:
            async with asyncio.timeout(LEASE):
                while not await take_lease(store, lease, holder, LEASE):
                    await asyncio.sleep(wait)
                    wait = min(wait * 2, LONGEST_LOOK)
                    found = await self._newer(old)
                    if found is not None:
                        return found
        except TimeoutError as error:
            raise LaterError(f"The sign-in at {self.server!r} is being renewed elsewhere.") from error
        try:
            return await self._newer(old) or await self._ask(old)
        finally:
            await end_lease(store, lease, holder)

    async def _newer(self, old: Tokens) -> Tokens | None:
        """What somebody else put there since."""
        content = await self.vault.get(name_of(self.user, self.server, old.issuer))
        if content is None:
            raise GrantRefusedError("signed out")
        found = msgspec.json.decode(content, type=Tokens)
        if found.problem:
            raise GrantRefusedError(found.problem)
        return found if found.access_token != old.access_token else None

    async def _ask(self, old: Tokens) -> Tokens:
        fields = {"grant_type": "refresh_token", "refresh_token": old.refresh_token, "resource": old.resource}
        try:
            new = old.renewed(await endpoint_of(self.web, old, self.config).ask(fields))
        except GrantRefusedError as error:
            await save(self.vault, self.user, self.server, msgspec.structs.replace(old, problem=error.reason))
            if error.reason in UNKNOWN:
                await forget_client(self.vault, self.server, old.issuer, old.client)
            raise
        await save(self.vault, self.user, self.server, new)
        return new
