"""How a person signs in to the console at an identity provider: begun in one browser, finished there, once."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trunkline.config.oauth import OAuthSpec
from trunkline.config.tenancy import IssuerSpec
from trunkline.errors import ConfigError, RefusedError, UnreachableError
from trunkline.tenancy.issuers import Issuers
from trunkline.tenancy.oauth.grants import NEVER, TokenEndpoint, authorization_address
from trunkline.tenancy.oauth.metadata import Issuer, described
from trunkline.tenancy.oauth.registration import Client, configured
from trunkline.tenancy.oauth.sign_in import LIFE, digest_of
from trunkline.tenancy.oauth.web import Web
from trunkline.tenancy.people import Issued
from trunkline.upstream.egress import Egress

MOST = 10_000
"""Sign-ins that may be under way at once; the oldest makes room."""
STALE = 3600.0
"""Seconds after which a provider's description is read again."""
PAUSE = 5.0
"""Seconds between two tries to read one: whoever clicks often cannot make us ask often."""
AGAIN = "Go back to the console, and begin again."
_REFUSED = {"access_denied": "You, or the identity provider, said no."}


@dataclass(frozen=True, slots=True)
class _Attempt:
    spec: IssuerSpec
    provider: Issuer
    until: float
    verifier: str = field(repr=False)
    nonce: str = field(repr=False)
    shown: str = field(repr=False)
    """What the browser's cookie has to say."""


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
        # The operator named it, and the nonce ties the answer to us as well: some know PKCE, and do not say so.
        found = await described(self.web, self._spec.issuer, says_pkce=False)
        if found is None or not found.authorization_url or not found.token_url:
            raise ConfigError("The identity provider does not say where people sign in.")
        self.web.check(found.authorization_url, "identity provider's address for people")
        return found


class ConsoleSignIns:
    """Those under way in this process."""

    def __init__(
        self,
        specs: Mapping[str, IssuerSpec],
        issuers: Issuers,
        http: Egress,
        back: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuers, self._back, self._clock = issuers, back, clock
        self._specs = specs
        self._providers = {name: _Provider(spec, http, clock) for name, spec in specs.items()}
        self._open: OrderedDict[str, _Attempt] = OrderedDict()

    async def begin(self, name: str) -> tuple[str, str, str]:
        """Where a browser goes to sign in by an issuer, and the cookie (name, value) that it comes back with."""
        spec, provider = self._specs[name], await self._providers[name].found()
        state, verifier, nonce, shown = (secrets.token_urlsafe(32) for _ in range(4))
        url = authorization_address(
            provider,
            _client(spec, provider),
            redirect_uri=self._back,
            state=state,
            verifier=verifier,
            nonce=nonce,
            scopes=_scopes(spec),
        )
        self._open[digest_of(state)] = _Attempt(spec, provider, self._clock() + LIFE, verifier, nonce, shown)
        if len(self._open) > MOST:
            self._open.popitem(last=False)
        return url, self.cookie(state), shown

    def cookie(self, state: str) -> str:
        """The name of the cookie of one sign-in; several may be under way in one browser."""
        prefix = "__Host-" if self._back.startswith("https://") else ""
        return f"{prefix}trunkline-sign-in-{digest_of(state)[:8]}"

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Issued:
        """Whom a provider sent back; RefusedError says why it is nobody."""
        state = query.get("state", "")
        attempt = self._open.pop(digest_of(state), None)
        if attempt is None or self._clock() >= attempt.until:
            raise RefusedError("This sign-in is not known here, was used already, or its time is up.", hint=AGAIN)
        if not hmac.compare_digest(cookies.get(self.cookie(state), "").encode(), attempt.shown.encode()):
            raise RefusedError("It was finished in another browser than it was begun in.", hint=AGAIN)
        said, provider = query.get("iss"), attempt.provider
        if (said is None and provider.says_iss) or (said is not None and said != provider.issuer):
            raise RefusedError("The answer does not come from the identity provider that was asked.", hint=AGAIN)
        if "error" in query:
            raise RefusedError(_REFUSED.get(query["error"], "The identity provider did not agree."), hint=AGAIN)
        if not query.get("code"):
            raise RefusedError("The identity provider sent no code.", hint=AGAIN)
        return await self._exchange(attempt, query["code"])

    async def _exchange(self, attempt: _Attempt, code: str) -> Issued:
        spec = attempt.spec
        endpoint = TokenEndpoint(self._providers[spec.name].web, attempt.provider, _client(spec, attempt.provider))
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
