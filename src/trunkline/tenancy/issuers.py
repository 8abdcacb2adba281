"""Identity providers whose tokens let callers in: which token is believed, and whom it makes of its bearer."""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from trunkline.config.tenancy import IssuerSpec
from trunkline.errors import TokenRefusedError
from trunkline.foreign import Raised, attempt_now
from trunkline.tenancy.issuer_keys import IssuerKeys, PublicKey
from trunkline.tenancy.people import Admission, Issued, People, is_own_name
from trunkline.untrusted import as_object, as_texts

TYPES = ("", "jwt", "at+jwt", "application/at+jwt")
"""What a token may call itself; several providers say nothing."""
ID_TYPES = ("", "jwt")
"""The same for what says who signed in."""
LONGEST_NAME = 200
_RANKS: tuple[Literal["admin", "member", "reader"], ...] = ("admin", "member", "reader")

Claims = Mapping[str, Any]


@dataclass(frozen=True)
class _Issuer:
    spec: IssuerSpec
    keys: IssuerKeys


class Issuers:
    """Checks tokens. What was found out is remembered by `People`, so that a token is checked once."""

    def __init__(
        self,
        specs: Mapping[str, IssuerSpec],
        base: str,
        people: People,
        bring: Callable[[str, str, float], None] = lambda user, token, until: None,
    ) -> None:
        self._base, self._people, self._bring = base, people, bring
        self._all = {
            spec.issuer: _Issuer(spec, IssuerKeys(spec, withdrawn=partial(people.forget_issuer, spec.name)))
            for spec in specs.values()
        }

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def addresses(self) -> list[str]:
        """Where callers get their tokens."""
        return list(self._all)

    @property
    def required_scopes(self) -> tuple[str, ...]:
        """What a token must have to be let in."""
        return tuple(dict.fromkeys(scope for one in self._all.values() for scope in one.spec.required_scopes))

    @property
    def scopes(self) -> tuple[str, ...]:
        """Everything that means something here."""
        writing = (one.spec.write_scope for one in self._all.values())
        return tuple(dict.fromkeys((*self.required_scopes, *filter(None, writing))))

    def step_up(self, admission: Admission) -> tuple[str, ...]:
        """What a token must have to do more than read."""
        spec = next(one.spec for one in self._all.values() if one.spec.name == admission.issuer)
        return tuple(dict.fromkeys((*spec.required_scopes, spec.write_scope)))

    async def admit(self, token: bytes, place: str) -> Admission:
        """Whom a token lets in at one of our addresses; TokenRefusedError says why it lets in nobody."""
        header, claims = _unverified(token)
        issuer = self._all.get(str(claims.get("iss")))
        if issuer is None:
            raise TokenRefusedError("The token is of another issuer than those that are trusted here.")
        spec = issuer.spec
        check_header(header, spec)
        # Whatever can be seen without its key is seen first: strangers have no key fetched for what is refused anyway.
        places = self._places(claims, spec)
        if places is not None and place not in places:
            raise TokenRefusedError("The token is for another audience than this address.")
        issued = issued_of(await _checked(token, header, issuer), spec, places)
        admitted = await self._people.admit_issued(token, issued)
        self._bring(admitted.scope.user, token.decode("latin-1"), issued.expires)
        return admitted

    async def who_signed_in(self, spec: IssuerSpec, id_token: bytes, nonce: str, scopes: Collection[str]) -> Issued:
        """Whom an ID token means that our own client was just given, with scopes; TokenRefusedError says why nobody."""
        header, _ = _unverified(id_token)
        check_header(header, spec, ID_TYPES)
        claims = await _checked(id_token, header, self._all[spec.issuer])
        check_id_claims(claims, spec.client_id, nonce)
        # How long it counts says nothing of how long somebody stays signed in.
        return _meant(claims, spec, set(scopes))

    def _places(self, claims: Claims, spec: IssuerSpec) -> frozenset[str] | None:
        """The addresses of ours that a token is for; `None` for all, where the configuration says what it is for."""
        audiences = _words(claims.get("aud"), split=False)
        if not spec.audiences:
            return frozenset(one.removeprefix(self._base) for one in audiences if one.startswith(f"{self._base}/"))
        if not set(audiences) & set(spec.audiences):
            raise TokenRefusedError("The token is for another audience than this gateway.")
        return None


def check_header(header: Claims, spec: IssuerSpec, types: Collection[str] = TYPES) -> None:
    """Refuse a token by what it says of itself."""
    if header.get("alg") not in spec.algorithms:
        raise TokenRefusedError("The token is signed in a way that is not accepted here.")
    if str(header.get("typ", "")).lower() not in types:
        raise TokenRefusedError(f"The token is no {'access' if types is TYPES else 'ID'} token.")
    if "crit" in header:
        raise TokenRefusedError("The token wants something understood that is not understood here.")


def issued_of(claims: Claims, spec: IssuerSpec, places: frozenset[str] | None) -> Issued:
    """Whom the claims of a token mean, once they are believed."""
    # ID and refresh tokens are for others than us, though the same keys sign them.
    if "at_hash" in claims or claims.get("typ") in ("ID", "Refresh", "Offline", "Logout"):
        raise TokenRefusedError("The token is no access token.")
    if "cnf" in claims:
        raise TokenRefusedError("The token is bound to a key, and is no bearer token.")
    scopes = {*_words(claims.get("scope")), *_words(claims.get("scp"))}
    return _meant(claims, spec, scopes, float(claims["exp"]) + spec.leeway, places)


def check_id_claims(claims: Claims, client_id: str, nonce: str) -> None:
    """Refuse an ID token that is for another client than ours, or of another sign-in (OpenID Connect Core 3.1.3.7)."""
    audiences = _words(claims.get("aud"), split=False)
    party = claims.get("azp", client_id if len(audiences) == 1 else None)
    if client_id not in audiences or party != client_id:
        raise TokenRefusedError("The identity provider's answer is for another client.")
    said = claims.get("nonce")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
        raise TokenRefusedError("The identity provider's answer belongs to another sign-in.")


def _meant(
    claims: Claims, spec: IssuerSpec, scopes: set[str], expires: float = 0.0, places: frozenset[str] | None = None
) -> Issued:
    missing = [scope for scope in spec.required_scopes if scope not in scopes]
    if missing:
        raise TokenRefusedError("The token lacks a scope.", status=403, scopes=spec.required_scopes)
    groups = _words(claim_of(claims, spec.groups_claim))
    return Issued(
        spec.name,
        user_of(claims, spec),
        role_of(claims, groups, spec),
        next((profile for group, profile in spec.profiles.items() if group in groups), ""),
        bool(spec.write_scope) and spec.write_scope not in scopes,
        expires,
        places,
    )


def user_of(claims: Claims, spec: IssuerSpec) -> str:
    """What the user of a token is called here: never like one of another issuer, nor like one of ours by chance."""
    found = claim_of(claims, spec.user_claim)
    if not isinstance(found, str) or not found:
        raise TokenRefusedError("The token does not say whose it is.", hint="See `user_claim`.")
    if spec.user_claim == "email" and claims.get("email_verified") is False:
        raise TokenRefusedError("The token has an address that its issuer did not verify.")
    # Escaped so, two claims never become one name.
    name = quote(found, safe="@+|=:,~")
    if len(name) > LONGEST_NAME:
        raise TokenRefusedError("The token has too long a name for its user.")
    if not spec.trusted_names:
        return f"{spec.name}:{name}"
    if name != found or not is_own_name(name):
        raise TokenRefusedError("The token's user has a name that no user here can have.", hint="See `trusted_names`.")
    return name


def role_of(claims: Claims, groups: Iterable[str], spec: IssuerSpec) -> Literal["", "admin", "member", "reader"]:
    """The highest role that a token gives; empty for none."""
    given = {spec.roles[group] for group in groups if group in spec.roles}
    said = set(_words(claim_of(claims, spec.role_claim))) if spec.role_claim else set[str]()
    for role in _RANKS:
        if role in given or role in said:
            return role
    return "" if spec.default_role == "none" else spec.default_role


def claim_of(claims: Claims, name: str) -> Any:
    """A claim by its name; a dot leads into it, unless there is one that is called so."""
    if name in claims or "." not in name:
        return claims.get(name)
    found: Any = claims
    for part in name.split("."):
        found = as_object(found).get(part)
    return found


def _words(value: Any, *, split: bool = True) -> list[str]:
    """A claim that is a list of texts, or one text, of several words if it may be."""
    if isinstance(value, str):
        return value.split() if split else [value]
    return list(as_texts(value))


def _unverified(token: bytes) -> tuple[Claims, Claims]:
    import jwt

    read = attempt_now(jwt.decode_complete, token, options={"verify_signature": False})
    if isinstance(read, Raised):
        raise TokenRefusedError("The token cannot be read.")
    return read["header"], read["payload"]


async def _checked(token: bytes, header: Claims, issuer: _Issuer) -> Claims:
    """What a token says, once its signature, its issuer and its time are checked."""
    algorithm = str(header.get("alg"))
    key = await issuer.keys.find(str(header.get("kid", "")), algorithm)
    if key is None:
        raise TokenRefusedError("The token is signed with a key that its issuer does not have.")
    return _verified(token, key, algorithm, issuer.spec)


def _verified(token: bytes, key: PublicKey, algorithm: str, spec: IssuerSpec) -> Claims:
    import jwt

    claims = attempt_now(
        jwt.decode,
        token,
        key.key,
        algorithms=[algorithm],
        issuer=spec.issuer,
        leeway=spec.leeway,
        options={"require": ["exp", "iss", "aud"], "verify_aud": False, "verify_sub": False, "verify_jti": False},
    )
    if isinstance(claims, Raised):
        expired = isinstance(claims.error, jwt.ExpiredSignatureError)
        early = isinstance(claims.error, jwt.ImmatureSignatureError)
        raise TokenRefusedError(
            "The token has expired."
            if expired
            else "The token does not count yet."
            if early
            else "The token is not valid."
        )
    exp: Any = claims.get("exp")
    if (
        isinstance(exp, bool)
        or not isinstance(exp, int | float)
        or not math.isfinite(exp)
        or exp < time.time() - spec.leeway
    ):
        raise TokenRefusedError("The token has expired.")
    return claims
