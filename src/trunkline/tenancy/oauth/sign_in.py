"""How a person signs in: one attempt, begun for one user, used once, and finished where it began."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping

import msgspec

from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError, StoreError, TrunklineError, UpstreamError
from trunkline.identity import unit_name
from trunkline.storage import sign_ins as rows
from trunkline.storage.credentials import CredentialName
from trunkline.storage.store import now
from trunkline.tenancy.oauth.account import account_of
from trunkline.tenancy.oauth.clients import UNKNOWN, forget_client, keep_client, show_to, usable_client
from trunkline.tenancy.oauth.grants import (
    GrantRefusedError,
    TokenEndpoint,
    authorization_address,
    scopes_for,
    with_offline,
)
from trunkline.tenancy.oauth.metadata import (
    Challenge,
    Issuer,
    Resource,
    canonical,
    find_issuer,
    find_resource,
    read_challenge,
)
from trunkline.tenancy.oauth.registration import Client, client_for, configured
from trunkline.tenancy.oauth.signing import SigningKey
from trunkline.tenancy.oauth.tokens import EARLY, TOKENS, Tokens, endpoint_of, load, save
from trunkline.tenancy.oauth.web import Web
from trunkline.tenancy.sign_ins import (
    CALLBACK,
    DOCUMENT,
    GATE,
    SIGNED_IN,
    WAITING,
    Begun,
    Connected,
    Credentials,
    Gate,
    SignIn,
    SignIns,
)

LIFE = 600.0
"""Seconds that a person has to sign in."""
LOOK = 0.5
IDENTITY = frozenset(("openid", "profile", "email"))
ATTEMPT = "attempt "

_REFUSED = {
    "access_denied": "You, or the authorization server, said no.",
    "invalid_scope": "The authorization server does not know what was asked for.",
}


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What must be known when the person comes back."""

    url: str
    verifier: str
    redirect_uri: str
    resource: str
    server_url: str
    issuer: Issuer
    client: Client
    scopes: tuple[str, ...] = ()
    key: str = ""
    paged: bool = False
    """Whether only the browser that passed our own page may come back."""

    @property
    def cookie(self) -> tuple[str, str]:
        """What that browser shows."""
        name = f"trunkline-sign-in-{digest_of(self.verifier)[:8]}"
        safe = self.redirect_uri.startswith("https://")
        return f"__Host-{name}" if safe else name, digest_of(f"cookie {self.verifier}")


class Flow:
    """Begins and finishes sign-ins."""

    def __init__(self, all: SignIns) -> None:
        self._all = all
        self._open: dict[tuple[str, str, bool], tuple[Begun, tuple[str, ...], float]] = {}
        """Attempts that wait for their person: whoever asks again gets the same."""

    async def begin(self, spec: ServerSpec, owner: str, sign_in: SignIn, *, paged: bool) -> Begun | None:
        """Where a person goes to sign in; `None` when they are."""
        await sign_in.fetch()
        if spec.oauth.for_machines:
            return None
        credential = sign_in.credential
        await credential.fetch()
        # What is asked of somebody without a credential was perhaps asked of us in nobody's name.
        challenge = read_challenge(sign_in.challenge or self._all.sign_in(spec, "").challenge)
        held = credential.tokens
        if held is not None and not credential.problem and set(challenge.scopes) <= set(held.scopes):
            return None
        if not self._all.address:
            raise ConfigError(
                "Nobody can be sent back here after a sign-in.", hint="Start the gateway: `trunkline up`."
            )
        scopes = scopes_for(
            configured=spec.oauth.scopes, challenged=challenge.scopes, resource=(), granted=credential.granted
        )
        kept = self._open.get((owner, spec.fingerprint, paged))
        if kept is not None and kept[1] == scopes and time.monotonic() < kept[2]:
            found = await rows.find(await self._all.store(), digest_of(kept[0].state))
            if found is not None and not found.outcome:
                return kept[0]
        state, attempt = await self._attempt(spec, owner, challenge, credential.granted)
        await self._note(state, spec, owner, msgspec.structs.replace(attempt, paged=paged))
        begun = Begun(f"{self._all.address}{GATE}{state}" if paged else attempt.url, state)
        self._open[owner, spec.fingerprint, paged] = begun, scopes, time.monotonic() + LIFE / 2
        return begun

    async def _attempt(
        self, spec: ServerSpec, owner: str, challenge: Challenge, granted: tuple[str, ...]
    ) -> tuple[str, Attempt]:
        all, config = self._all, spec.oauth
        web = Web(all.http, spec.url, public_only=spec.public_only)
        resource = await find_resource(web, spec.url, challenge)
        if not (challenge.scheme or resource.described or config.issuer or config.token_url):
            raise ConfigError(f"Server {unit_name(spec.name)!r} wants no sign-in.", hint="It can be used as it is.")
        before = await load(all.vault, owner, spec.name)
        issuer = await find_issuer(web, spec.url, resource, config, before.issuer if before is not None else "")
        redirect_uri = f"{all.address}{CALLBACK}"
        await show_to(all.vault, all.shown, spec, issuer)
        kept = await usable_client(all.vault, await all.store(), spec.name, owner, issuer)
        client = await client_for(
            web, issuer, config, redirect_uri=redirect_uri, document=f"{all.address}{DOCUMENT}", kept=kept
        )
        if client.registered and client != kept:
            await keep_client(all.vault, spec.name, issuer, client)
        known = (*before.identity, *granted) if before is not None else granted
        wanted = scopes_for(
            configured=config.scopes, challenged=challenge.scopes, resource=resource.scopes, granted=known
        )
        wanted = with_offline(wanted, issuer)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        url = authorization_address(
            issuer,
            client,
            redirect_uri=redirect_uri,
            state=state,
            verifier=verifier,
            resource=resource.resource,
            scopes=wanted,
        )
        bound = challenge.scheme == "dpop" and "ES256" in issuer.dpop_algorithms
        attempt = Attempt(
            url=url,
            verifier=verifier,
            redirect_uri=redirect_uri,
            resource=resource.resource,
            server_url=spec.url,
            issuer=issuer,
            client=client,
            scopes=wanted,
            key=SigningKey.make().pem if bound else "",
        )
        return state, attempt

    async def _note(self, state: str, spec: ServerSpec, owner: str, attempt: Attempt) -> None:
        digest, store = digest_of(state), await self._all.store()
        name = CredentialName(owner, spec.name, attempt.issuer.issuer, ATTEMPT + digest)
        await self._all.vault.put(name, msgspec.json.encode(attempt))
        row = rows.SignInRow(digest, owner, spec.name, attempt.issuer.issuer, now() + int(LIFE * 1000))
        for old in await rows.begin(store, row):
            await self._all.vault.remove(user=old.owner, server=old.server, field=ATTEMPT + old.state)

    async def adopt(self, spec: ServerSpec, owner: str, given: Credentials) -> None:
        """Keep a sign-in that was made elsewhere; only its own client can have it renewed."""
        config, issuer = spec.oauth, Issuer(spec.oauth.issuer or canonical(spec.url))
        resource = Resource(canonical(spec.url))
        if given.refresh_token:
            web = Web(self._all.http, spec.url, public_only=spec.public_only)
            resource = await find_resource(web, spec.url, Challenge())
            issuer = await find_issuer(web, spec.url, resource, config)
            await show_to(self._all.vault, self._all.shown, spec, issuer)
        client = configured(config, issuer)
        if client is None and given.refresh_token:
            raise ConfigError(
                f"Nobody says which client renews the sign-in at {unit_name(spec.name)!r}.",
                hint="Give its `oauth` the `client_id` that it was made with, or leave the refresh token out.",
            )
        made = Tokens(
            server_url=spec.url,
            resource=resource.resource,
            issuer=issuer.issuer,
            token_url=issuer.token_url,
            revocation_url=issuer.revocation_url,
            client=client or Client(""),
            access_token=given.access_token,
            expires=given.expires,
            early=EARLY,
            refresh_token=given.refresh_token,
            scopes=given.scopes,
            since=time.time(),
        )
        await self._keep(owner, spec.name, made)

    async def _keep(self, owner: str, server: str, made: Tokens) -> None:
        """Keep a sign-in in the place of any other that its owner has at the server."""
        vault = self._all.vault
        await save(vault, owner, server, made)
        for name in await vault.names(user=owner, server=server):
            if name.field == TOKENS and name.issuer != made.issuer:
                await vault.remove(user=owner, server=server, issuer=name.issuer, field=TOKENS)
        await self._all.changed(owner, server)

    async def gate(self, state: str) -> Gate | None:
        """What stands before an attempt that has to pass our own page."""
        digest = digest_of(state)
        row = await rows.find(await self._all.store(), digest)
        if row is None or row.outcome or row.until < now():
            return None
        content = await self._all.vault.get(CredentialName(row.owner, row.server, row.issuer, ATTEMPT + digest))
        attempt = msgspec.json.decode(content, type=Attempt) if content is not None else None
        if attempt is None or not attempt.paged:
            return None
        return Gate(row.owner, row.server, attempt.url, attempt.cookie)

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> str:
        """Take what an authorization server sent somebody back with; why it did not work, or nothing."""
        state = query.get("state", "")
        if not state or not self._all.is_open():
            return "This sign-in is not known here, or its time is up."
        store, digest = await self._all.store(), digest_of(state)
        row = await rows.use(store, digest)
        if row is None:
            return "This sign-in is not known here, was used already, or its time is up."
        name = CredentialName(row.owner, row.server, row.issuer, ATTEMPT + digest)
        outcome = "The sign-in was cut off."
        try:
            content = await self._all.vault.get(name)
            await self._all.vault.remove(user=row.owner, server=row.server, field=name.field)
            if content is None:
                return "This sign-in is not known here."
            attempt = msgspec.json.decode(content, type=Attempt)
            name_of, value = attempt.cookie
            if attempt.paged and not hmac.compare_digest(cookies.get(name_of, "").encode(), value.encode()):
                outcome = "It was finished in another browser than it was begun in."
                return outcome
            outcome = await self._exchange(row, attempt, query)
        except (TrunklineError, StoreError) as error:
            outcome = error.message
        finally:
            await rows.end(store, digest, outcome or SIGNED_IN)
        return outcome

    async def _exchange(self, row: rows.SignInRow, attempt: Attempt, query: Mapping[str, str]) -> str:
        """Trade the code for tokens, if it comes from whom it was asked of; nothing else of the answer is looked at."""
        issuer, said = attempt.issuer, query.get("iss")
        if (said is None and issuer.says_iss) or (said is not None and said != issuer.issuer):
            return "The answer does not come from the authorization server that was asked (RFC 9207)."
        error = query.get("error")
        if error in UNKNOWN:
            await forget_client(self._all.vault, row.server, issuer.issuer, attempt.client)
        if error is not None:
            return _REFUSED.get(error, "The authorization server did not agree.")
        code = query.get("code", "")
        if not code:
            return "The authorization server sent no code."
        spec = self._all.spec_of(row.server)
        if spec is None or spec.url != attempt.server_url:
            return "The server was removed, or moved, since the sign-in began."
        key = SigningKey(attempt.key) if attempt.key else None
        web = Web(self._all.http, attempt.server_url, public_only=spec.public_only)
        endpoint = TokenEndpoint(web, issuer, attempt.client, spec.oauth.private_key, key)
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
            "resource": attempt.resource,
        }
        try:
            granted = await endpoint.ask(asked)
        except GrantRefusedError as refused:
            if refused.reason in UNKNOWN:
                await forget_client(self._all.vault, row.server, issuer.issuer, attempt.client)
            raise
        made = Tokens(
            server_url=attempt.server_url,
            resource=attempt.resource,
            issuer=issuer.issuer,
            token_url=issuer.token_url,
            revocation_url=issuer.revocation_url,
            client=attempt.client,
            access_token="",
            scopes=attempt.scopes,
            identity=tuple(one for one in attempt.scopes if one in IDENTITY),
            key=attempt.key,
            since=time.time(),
            account=await account_of(endpoint, granted),
        )
        await self._keep(row.owner, row.server, made.renewed(granted))
        return ""

    async def wait(self, state: str) -> str:
        """Wait until an attempt is done, in whichever process; why it failed, or nothing."""
        store, digest = await self._all.store(), digest_of(state)
        while True:
            found = await rows.find(store, digest)
            if found is None or (not found.outcome and found.until < now()):
                return "Nobody signed in in time."
            if found.outcome:
                return "" if found.outcome == SIGNED_IN else found.outcome
            await asyncio.sleep(LOOK)

    async def outcome(self, state: str, owner: str, server: str, patience: float) -> str | None:
        """How an attempt goes after so long: `waiting`, why it failed, or nothing; `None` for what is not theirs."""
        row = await rows.find(await self._all.store(), digest_of(state))
        if row is None or (row.owner, row.server) != (owner, server):
            return None
        try:
            async with asyncio.timeout(patience):
                return await self.wait(state)
        except TimeoutError:
            return WAITING

    # What there is.

    async def connections(self, user: str) -> list[Connected]:
        """Where a user is signed in."""
        servers = {name.server for name in await self._all.vault.names(user=user) if name.field == TOKENS}
        found = [(server, await load(self._all.vault, user, server)) for server in sorted(servers)]
        now = time.time()
        return [
            Connected(
                unit_name(server),
                one.issuer,
                "expired" if one.problem or not (one.refresh_token or one.usable(now)) else SIGNED_IN,
                one.scopes,
                one.since,
                one.expires,
                bool(one.refresh_token),
                one.problem,
                one.account,
            )
            for server, one in found
            if one is not None
        ]

    async def sign_out(self, user: str, server: str) -> bool:
        """Forget a sign-in here, then have its tokens forgotten where they came from, if that can be."""
        vault = self._all.vault
        held = await load(vault, user, server)
        if held is None:
            return False
        await vault.remove(user=user, server=server, field=TOKENS)
        # Whoever has to begin all over also gets rid of what does not work any more.
        await forget_client(vault, server, held.issuer, held.client)
        self._open = {key: one for key, one in self._open.items() if key[0] != user}
        await self._all.changed(user, server)
        spec = self._all.spec_of(server)
        config = spec.oauth if spec is not None else ServerSpec().oauth
        web = Web(self._all.http, held.server_url, public_only=spec is None or spec.public_only)
        endpoint = endpoint_of(web, held, config)
        for token, kind in ((held.refresh_token, "refresh_token"), (held.access_token, "access_token")):
            try:
                if token:
                    await endpoint.revoke(token, kind)
            except (UpstreamError, ConfigError, GrantRefusedError):
                pass  # it is forgotten here, and ends there by itself
        return True


def digest_of(state: str) -> str:
    """What a state is known by in the store."""
    return hashlib.sha256(state.encode()).hexdigest()[:32]
