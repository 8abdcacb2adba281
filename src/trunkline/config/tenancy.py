"""Options about people: who lets them in, what each may use, where what is theirs is kept, what they are offered."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trunkline.errors import ConfigError

IssuedRole = Literal["admin", "member", "reader"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


@dataclass(frozen=True)
class IssuerSpec:
    """`[auth.issuers.NAME]`: an identity provider whose access tokens (JWT) let callers in, beside keys of ours."""

    name: str = ""
    issuer: str = ""
    """Its address, exactly as tokens say it in `iss`."""
    audience: str | tuple[str, ...] = ()
    """What tokens must be for (`aud`), one of these; default is the address that is asked, such as `PUBLIC_URL/mcp`."""
    jwks_url: str = ""
    """Where its public keys are; default is where its metadata says (OpenID discovery, or RFC 8414)."""
    key_file: str = ""
    """A file with its public keys instead, PEM or JWKS."""
    algorithms: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    """How tokens may be signed."""
    user_claim: str = "sub"
    """The claim that says who it is; a dot leads into a claim, such as `act.sub`."""
    trusted_names: bool = False
    """Take the claim for a user of ours by that name; else users are called `NAME:claim`, and are nobody else."""
    groups_claim: str = "groups"
    """The claim with the groups, a list or a text of words; such as `realm_access.roles`."""
    role_claim: str = ""
    """A claim that says `admin`, `member` or `reader` itself."""
    roles: Mapping[str, IssuedRole] = field(default_factory=dict[str, IssuedRole])
    """The role of each group; the highest of several counts."""
    profiles: Mapping[str, str] = field(default_factory=dict[str, str])
    """The profile of each group, which is then all that its people have; the first that fits counts."""
    default_role: Literal["admin", "member", "reader", "none"] = "member"
    """The role of whoever has none otherwise; `none` keeps them out."""
    required_scopes: tuple[str, ...] = ()
    """Scopes without which a token lets nobody in."""
    write_scope: str = ""
    """A scope without which a token may only read."""
    leeway: float = 30.0
    """Seconds that its clock may be wrong."""
    client_id: str = ""
    """The id that Trunkline has there, so that people sign in to the console by it; without one, they have a key."""
    client_secret: str = field(default="", repr=False)
    """The secret of that client, if it has one. Write `${secret:NAME}` to keep it out of the file."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    """What such a sign-in asks for, besides `required_scopes` and `write_scope`; with `openid`."""

    @property
    def audiences(self) -> tuple[str, ...]:
        """What tokens may be for, if it is said."""
        return (self.audience,) if isinstance(self.audience, str) and self.audience else tuple(self.audience)


@dataclass(frozen=True)
class LimitsSection:
    """`[limits]`: what each user may use, unless something else is said of the user or the thread; 0 sets no limit."""

    calls_per_minute: float = 0.0
    """Calls in a minute."""
    calls_per_hour: float = 0.0
    """Calls in an hour."""
    key_calls_per_minute: float = 0.0
    """Calls in a minute with one key."""
    tokens_per_day: float = 0.0
    """Tokens of answers in a day, as they are estimated."""
    cost_per_day: float = 0.0
    """Sum of the `cost_hint` of the tools that are called in a day."""
    alert_at: float = 0.8
    """Share of a limit after which an event tells that it is nearly reached."""
    running_calls: int = 0
    """Calls that may run at once."""
    running_per_server: int = 4
    """Calls that one server works on at once for one user while others use it too; what is more waits for its turn."""
    connections: int = 100
    """Connections at once, to servers of the user's own and such as nobody else shares; idle ones make room."""
    servers: int = 100
    """Servers that a user may register."""
    servers_per_thread: int = 0
    """Servers that a thread may choose."""


@dataclass(frozen=True)
class StoreConfig:
    """`[store]`: where people, their keys, servers and threads are kept. Nothing is made before somebody is added."""

    url: str = field(default="", repr=False)
    """`sqlite:///path`, or `postgresql://user@host/database` for several machines; default is a file in the home."""
    key: str = field(default="", repr=False)
    """The master key, 64 hex digits, or `keyring`; default is `TRUNKLINE_MASTER_KEY`, else `seal.key` in the home."""
    key_command: str = field(default="", repr=False)
    """A command that prints the master key, such as `pass show trunkline`; it is run without a shell."""


@dataclass(frozen=True)
class DiscoverySection:
    """`[discovery]`: a service that lists servers to register. Nothing of it is registered, or started, unasked."""

    url: str = ""
    """Its address, `https` or on this machine: a list of services, or an object with `services`."""
    token: str = field(default="", repr=False)
    """Bearer token that it wants. Write `${env:NAME}` or `${secret:NAME}` to keep it out of the file."""
    timeout: float = 10.0
    """Seconds that it has to answer."""


_SAFE_ADDRESS = re.compile(r"https://[^/\s]+|http://(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]|$)")
_SCOPES = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]*")


def check_issuers(issuers: Mapping[str, IssuerSpec], profiles: Collection[str], users: Collection[str]) -> None:
    """Refuse issuers that cannot be told apart, from each other or by their users, or whose keys are not safe."""
    addresses = [spec.issuer for spec in issuers.values()]
    if len(set(addresses)) < len(addresses):
        raise ConfigError("Two of [auth.issuers] have the same `issuer`.", hint="Nobody could tell whose a token is.")
    for user in users:
        if ":" in user and user.partition(":")[0] in issuers:
            raise ConfigError(f"{user!r} in [gateway] users is a user of an issuer.", hint="Give it another name.")
    for spec in issuers.values():
        _check_issuer(spec, profiles, f"auth.issuers.{spec.name}")


def _check_issuer(spec: IssuerSpec, profiles: Collection[str], where: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", spec.name):
        raise ConfigError(f"{spec.name!r} cannot be an issuer's name.", hint="Use up to 32 letters, digits, _ and -.")
    if not spec.issuer:
        raise ConfigError(f"[{where}] has no `issuer`.", hint="Write its address, exactly as tokens have it in `iss`.")
    if spec.jwks_url and spec.key_file:
        raise ConfigError(f"[{where}] has both `jwks_url` and `key_file`.", hint="Leave one of them.")
    option = "jwks_url" if spec.jwks_url else "issuer"
    if not spec.key_file and not _SAFE_ADDRESS.match(getattr(spec, option)):
        raise ConfigError(f"{where}.{option} is no https address.", hint="On the way, others could change its keys.")
    if not spec.algorithms or not spec.user_claim:
        raise ConfigError(f"[{where}]: `algorithms` and `user_claim` cannot be empty.")
    for profile in spec.profiles.values():
        if profile not in profiles:
            raise ConfigError(f"{where}.profiles names {profile!r}, which is no profile.", hint="See [profiles.NAME].")
    if not _SCOPES.fullmatch(" ".join((*spec.required_scopes, spec.write_scope, *spec.scopes))):
        raise ConfigError(f"[{where}]: a scope has no quotes, backslashes or letters beyond ASCII.")
    if spec.client_secret and not spec.client_id:
        raise ConfigError(f"[{where}] has a `client_secret`, but no `client_id`.", hint="Write whose secret it is.")
    if spec.client_id and not _SAFE_ADDRESS.match(spec.issuer):
        raise ConfigError(f"{where}.issuer is no https address.", hint="Nobody can be sent there to sign in.")
    if spec.client_id and "openid" not in spec.scopes:
        raise ConfigError(f"{where}.scopes lacks `openid`.", hint="Without it, the provider does not say who it is.")
