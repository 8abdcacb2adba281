"""How a person signs in to the console at an identity provider: begun in one browser, finished there, once."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping

import msgspec

from trunkline.config.oauth import OAuthSpec
from trunkline.config.tenancy import IssuerSpec
from trunkline.errors import ConfigError, RefusedError, UnreachableError
from trunkline.storage import sign_ins as rows
from trunkline.storage.sign_ins import SignInRow
from trunkline.tenancy.issuers import Issuers
from trunkline.tenancy.oauth.grants import NEVER, TokenEndpoint, authorization_address
from trunkline.tenancy.oauth.metadata import Issuer, checked, described
from trunkline.tenancy.oauth.registration import Client, configured
from trunkline.tenancy.oauth.sign_in import LIFE, digest_of
from trunkline.tenancy.oauth.web import Web
from trunkline.tenancy.people import Issued
from trunkline.tenancy.tenancy import Tenancy
from trunkline.upstream.egress import Egress

STALE = 3600.0
"""Seconds after which a provider's description is read again."""
PAUSE = 5.0
"""Seconds between two tries to read one: whoever clicks often cannot make us ask often."""
PURPOSE = "console"
AGAIN = "Go back to the console, and begin again."
_REFUSED = {"access_denied": "You, or the identity provider, said no."}


class _Attempt(msgspec.Struct, frozen=True):
    """A sign-in under way, as the browser keeps it, sealed: whichever gateway has the store finishes it."""

    name: str
    """The issuer's, in the configuration."""
    issuer: str
    token_url: str
    until: float
    verifier: str
    nonce: str


class _Provider:
    """What one says of itself, read by one at a time."""

    def __init__(self, spec: IssuerSpec, http: Egress, clock: Callable[[], float]) -> None:
        self._spec, self._clock = spec, clock
        self.web = Web(http, spec.issuer, public_only=False)
        self._reading = asyncio.Lock()
        self._found: Issuer | None = None
        self._next = float("-inf")

    async def found(self) -> Issuer:
        async with self._reading:
            now = self._clock()
            if now >= self._next:
                self._found, self._next = None, now + PAUSE
                self._found = await self._read()
                self._next = now + STALE
        if self._found is None:
            raise UnreachableError("The identity provider could not be asked a moment ago.")
        return self._found

    async def _read(self) -> Issuer:
        found = await described(self.web, self._spec.issuer)
        if found is None or not found.authorization_url or not found.token_url:
            raise ConfigError("The identity provider does not say where people sign in.")
        self.web.check(found.authorization_url, "identity provider's address for people")
        # The operator named it, and the nonce ties the answer to us as well: some know PKCE, and do not say so.
        return checked(self.web, found, says_pkce=False)


class ConsoleSignIns:
    """Begins and finishes sign-ins; what it must know of those under way their browsers bring back."""

    def __init__(
        self, specs: Mapping[str, IssuerSpec], issuers: Issuers, tenancy: Tenancy, back: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._issuers, self._tenancy, self._back, self._specs = issuers, tenancy, back, specs
        http = tenancy.sign_ins.http
        self._providers = {name: _Provider(spec, http, clock) for name, spec in specs.items()}

    async def begin(self, name: str) -> tuple[str, str, str]:
        """Where a browser goes to sign in by an issuer, and the cookie (name, value) that it comes back with."""
        spec, provider = self._specs[name], await self._providers[name].found()
        state, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        url = authorization_address(
            provider,
            _client(spec, provider),
            redirect_uri=self._back,
            state=state,
            verifier=verifier,
            nonce=nonce,
            scopes=_scopes(spec),
        )
        attempt = _Attempt(name, provider.issuer, provider.token_url, time.time() + LIFE, verifier, nonce)
        seal = await self._tenancy.seal(PURPOSE)
        return url, self.cookie(state), seal.close(msgspec.json.encode(attempt), digest_of(state).encode())

    def cookie(self, state: str) -> str:
        """The name of the cookie of one sign-in; several may be under way in one browser."""
        prefix = "__Host-" if self._back.startswith("https://") else ""
        return f"{prefix}trunkline-sign-in-{digest_of(state)[:8]}"

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Issued:
        """Whom a provider sent back; RefusedError says why it is nobody."""
        state = query.get("state", "")
        attempt = await self._known(state, cookies)
        provider, said = await self._providers[attempt.name].found(), query.get("iss")
        if (provider.issuer, provider.token_url) != (attempt.issuer, attempt.token_url):
            raise RefusedError("The identity provider became another one meanwhile.", hint=AGAIN)
        if (said is None and provider.says_iss) or (said is not None and said != provider.issuer):
            raise RefusedError("The answer does not come from the identity provider that was asked.", hint=AGAIN)
        if "error" in query:
            raise RefusedError(_REFUSED.get(query["error"], "The identity provider did not agree."), hint=AGAIN)
        if not query.get("code"):
            raise RefusedError("The identity provider sent no code.", hint=AGAIN)
        return await self._exchange(attempt, provider, query["code"])

    async def _known(self, state: str, cookies: Mapping[str, str]) -> _Attempt:
        """The sign-in that this browser began with a state, the first time that it is shown."""
        seal, digest = await self._tenancy.seal(PURPOSE), digest_of(state)
        try:
            attempt = msgspec.json.decode(
                seal.open(cookies.get(self.cookie(state), ""), digest.encode()), type=_Attempt
            )
        except ValueError:
            raise RefusedError("This sign-in was not begun in this browser, or its time is up.", hint=AGAIN) from None
        if time.time() >= attempt.until or attempt.name not in self._providers:
            raise RefusedError("The time of this sign-in is up.", hint=AGAIN)
        used = SignInRow(digest, "", PURPOSE, attempt.issuer, int(attempt.until * 1000))
        if not await rows.use_once(await self._tenancy.store(), used):
            raise RefusedError("This sign-in was used already.", hint=AGAIN)
        return attempt

    async def _exchange(self, attempt: _Attempt, provider: Issuer, code: str) -> Issued:
        spec = self._specs[attempt.name]
        endpoint = TokenEndpoint(self._providers[spec.name].web, provider, _client(spec, provider))
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back,
            "code_verifier": attempt.verifier,
        }
        granted = await endpoint.ask(asked, final=NEVER)
        if not granted.id_token:
            raise RefusedError("The identity provider did not say who you are.", hint="It has to give ID tokens.")
        scopes = _scopes(spec) if granted.scopes is None else granted.scopes
        return await self._issuers.who_signed_in(spec, granted.id_token.encode(), attempt.nonce, scopes)


def _client(spec: IssuerSpec, provider: Issuer) -> Client:
    made = configured(OAuthSpec(client_id=spec.client_id, client_secret=spec.client_secret), provider)
    assert made is not None, "only issuers with a client are offered"
    return made


def _scopes(spec: IssuerSpec) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (*spec.scopes, *spec.required_scopes, spec.write_scope))))
