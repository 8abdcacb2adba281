"""What a server and its authorization server say of themselves: challenges, RFC 9728, RFC 8414, OIDC discovery."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from trunkline.config.oauth import OAuthSpec
from trunkline.errors import AuthorizationNeededError, ConfigError
from trunkline.tenancy.oauth.web import Web

PRM = "/.well-known/oauth-protected-resource"
METADATA = "/.well-known/oauth-authorization-server"
OIDC = "/.well-known/openid-configuration"


@dataclass(frozen=True)
class Challenge:
    """What a server said when it refused a request for want of a credential."""

    scheme: str = ""
    resource_metadata: str = ""
    scopes: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Resource:
    """A protected resource, as it describes itself; without a description, the server's own address."""

    resource: str
    issuers: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    described: bool = False


@dataclass(frozen=True)
class Issuer:
    """An authorization server."""

    issuer: str
    authorization_url: str = ""
    token_url: str = ""
    registration_url: str = ""
    revocation_url: str = ""
    userinfo_url: str = ""
    introspection_url: str = ""
    keys_url: str = ""
    auth_methods: tuple[str, ...] = ()
    """How clients may prove who they are at the token endpoint; empty where it does not say."""
    scopes: tuple[str, ...] = ()
    says_iss: bool = False
    """It names itself when it sends people back (RFC 9207)."""
    takes_documents: bool = False
    """A client's id may be the address of a document about it."""
    dpop_algorithms: tuple[str, ...] = ()
    protects_codes: bool = False
    """It says that it knows PKCE (S256), or that it gives no codes."""
    guessed: bool = False
    """It says nothing of itself: its endpoints are where the revision 2025-03-26 puts them."""


_PARAMETER = re.compile(r'([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(r"(?:^|,)\s*(Bearer|DPoP)(?=\s|,|$)", re.IGNORECASE)


def read_challenge(header: bytes) -> Challenge:
    """A `WWW-Authenticate` header, as far as it concerns us; of several challenges the first that we can meet."""
    text = header.decode("latin-1")[:8192]
    found = list(_SCHEME.finditer(text))
    if not found:
        return Challenge()
    end = found[1].start() if len(found) > 1 else len(text)
    said = {m[1].lower(): m[3] or re.sub(r"\\(.)", r"\1", m[2] or "") for m in _PARAMETER.finditer(text[:end])}
    scopes = tuple(dict.fromkeys(said.get("scope", "").split()))
    return Challenge(found[0][1].lower(), said.get("resource_metadata", ""), scopes, said.get("error", ""))


def prm_places(server_url: str, challenge: Challenge) -> list[str]:
    """Where a server's description may be, the likeliest first."""
    if challenge.resource_metadata:
        return [challenge.resource_metadata]
    parts = urlsplit(server_url)
    root = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    path = parts.path.rstrip("/")
    return [*([f"{root}{PRM}{path}"] if path else []), f"{root}{PRM}"]


def same_issuer(one: str, other: str) -> bool:
    """Whether two names are one authorization server's; providers write their own with and without a last slash."""
    return bool(one) and (one == other or {one, other} == {one.rstrip("/"), f"{one.rstrip('/')}/"}) and bool(other)


def resource_covers(resource: str, server_url: str) -> bool:
    """Whether a description is about this server: the same origin, and its path or one above it."""
    try:
        theirs, ours = urlsplit(resource), urlsplit(server_url)
        origins = [
            (one.scheme.lower(), (one.hostname or "").lower(), one.port or {"https": 443, "http": 80}.get(one.scheme))
            for one in (theirs, ours)
        ]
    except ValueError:
        return False
    above, below = f"{theirs.path.rstrip('/')}/", f"{ours.path.rstrip('/')}/"
    return origins[0] == origins[1] and below.startswith(above) and not theirs.fragment


def canonical(server_url: str) -> str:
    """A server's address as the `resource` of requests (RFC 8707): without what is not its identity."""
    parts = urlsplit(server_url)
    return urlunsplit((parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower(), parts.path, parts.query, ""))


async def find_resource(web: Web, server_url: str, challenge: Challenge) -> Resource:
    """What a server says of itself; what is about another one is refused."""
    for place in prm_places(server_url, challenge):
        answer = await web.get(place, "server's description")
        if answer.status != 200 or not answer.content:
            continue
        said = answer.content
        resource = str(said.get("resource", ""))
        if not resource_covers(resource, server_url):
            raise ConfigError(
                "The server's description (RFC 9728) is about another server than this one.",
                hint="Configure the address that it describes, if that is the one you mean.",
            )
        issuers = tuple(_texts(said, "authorization_servers"))
        return Resource(resource, issuers, tuple(_texts(said, "scopes_supported")), described=True)
    return Resource(canonical(server_url))


async def find_issuer(web: Web, server_url: str, resource: Resource, config: OAuthSpec, known: str = "") -> Issuer:
    """The authorization server to sign in at: the configured one, the known one if it is still named, or the first."""
    still = [one for one in resource.issuers if same_issuer(one, config.issuer or known)]
    name = config.issuer or next(iter((*still, *resource.issuers)), "")
    if config.issuer and resource.issuers and not still:
        raise AuthorizationNeededError(
            "The server names other authorization servers than the configured `issuer`.",
            hint="Look whether it moved, and change [servers.NAME.oauth] if it did.",
        )
    parts = urlsplit(server_url)
    own = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if config.token_url:
        given = Issuer(
            name or config.token_url,
            config.authorization_url,
            config.token_url,
            auth_methods=("client_secret_basic",) if config.client_secret else (),
        )
        return replace(given, authorization_url=_http(config.authorization_url) if config.authorization_url else "")
    found = await described(web, name or own)
    if found is None:
        # Only where nobody is named, at the server's own origin, and never with a secret of the operator's.
        if name or config.client_secret or config.private_key:
            raise ConfigError(
                "The authorization server does not describe itself (RFC 8414, OIDC discovery).",
                hint="Give `authorization_url` and `token_url` in [servers.NAME.oauth].",
            )
        return Issuer(own, f"{own}/authorize", f"{own}/token", f"{own}/register", guessed=True)
    return checked(web, found)


async def described(web: Web, issuer: str) -> Issuer | None:
    """What an authorization server or an identity provider says of itself; `None` for nothing."""
    for place in metadata_places(issuer):
        answer = await web.get(place, "authorization server")
        if answer.status == 200 and answer.content:
            return _read(answer.content, issuer)
    return None


def metadata_places(issuer: str) -> list[str]:
    """Where an issuer's description may be (RFC 8414 section 3.1, OIDC discovery), in the order of MCP."""
    parts = urlsplit(issuer)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return [f"{root}{METADATA}", f"{root}{OIDC}"]
    return [f"{root}{METADATA}{path}", f"{root}{OIDC}{path}", f"{root}{path}{OIDC}"]


def checked(web: Web, found: Issuer, *, says_pkce: bool = True) -> Issuer:
    """The same, if people can be sent there, and secrets; that it knows PKCE it has to say, unless it need not."""
    for url, what in (
        (found.token_url, "token endpoint"),
        (found.registration_url, "registration endpoint"),
        (found.revocation_url, "revocation endpoint"),
    ):
        if url:
            web.check(url, what)
    if found.authorization_url:
        _http(found.authorization_url)
    if says_pkce and not found.protects_codes:
        raise ConfigError(
            "The authorization server does not say that it protects sign-ins with PKCE (S256).",
            hint="It has to list it in `code_challenge_methods_supported`; tell whoever runs it.",
        )
    return found


def _read(said: Mapping[str, Any], issuer: str) -> Issuer:
    """A description, if it is about the one that was asked for (RFC 8414 section 3.3); what it names is not checked."""
    if not same_issuer(str(said.get("issuer", "")), issuer):
        raise ConfigError(
            f"The authorization server calls itself {str(said.get('issuer'))[:200]!r}, not {issuer!r}.",
            hint="Write `issuer` as it does, if it is the one that you mean; else do not sign in there.",
        )

    def url(key: str) -> str:
        value = said.get(key)
        return value if isinstance(value, str) else ""

    grants = _texts(said, "grant_types_supported")
    gives_codes = not grants or "authorization_code" in grants
    return Issuer(
        str(said["issuer"]),
        url("authorization_endpoint"),
        url("token_endpoint"),
        registration_url=url("registration_endpoint"),
        revocation_url=url("revocation_endpoint"),
        userinfo_url=url("userinfo_endpoint"),
        introspection_url=url("introspection_endpoint"),
        keys_url=url("jwks_uri"),
        auth_methods=tuple(_texts(said, "token_endpoint_auth_methods_supported")),
        scopes=tuple(_texts(said, "scopes_supported")),
        says_iss=said.get("authorization_response_iss_parameter_supported") is True,
        takes_documents=said.get("client_id_metadata_document_supported") is True,
        dpop_algorithms=tuple(_texts(said, "dpop_signing_alg_values_supported")),
        protects_codes=not gives_codes or "S256" in _texts(said, "code_challenge_methods_supported"),
    )


def _http(url: str) -> str:
    """An address that a person's browser may be sent to: nothing but http(s), whatever an opener would do with it."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable() and " " not in url
    except ValueError:
        fine = False
    if not fine:
        raise ConfigError("The authorization server's sign-in address is not an http address.", hint="Do not open it.")
    return url


def _texts(said: Mapping[str, Any], key: str) -> Sequence[str]:
    value = said.get(key)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType] - JSON
