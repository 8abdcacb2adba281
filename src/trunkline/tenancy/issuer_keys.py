"""The public keys of an identity provider: read when they are first needed, and again when a token names another."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from trunkline.config.tenancy import IssuerSpec
from trunkline.errors import ConfigError, ProtocolError, TrunklineError, UnreachableError
from trunkline.foreign import Raised, attempt_now
from trunkline.upstream.egress import Egress
from trunkline.workers import in_thread

if TYPE_CHECKING:
    from trunkline.tenancy.oauth.web import Web

log = logging.getLogger("trunkline")

MOST_KEYS = 100
PATIENCE = 10.0
"""Seconds for all of it."""
PAUSE = 60.0
"""Seconds between two looks for a key that is not there: whoever makes up names cannot make us ask."""
FIRST_PAUSE = 5.0
"""The same while nothing is known yet."""
STALE = 3600.0
"""Seconds after which keys are read again, so that one that was withdrawn does not count for ever."""
SMALLEST_RSA = 2048
_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}


@dataclass(frozen=True)
class PublicKey:
    """A key that signatures are checked with."""

    key: Any
    id: str = ""
    """Empty where it has no name, and is meant whatever a token calls it."""
    algorithm: str = ""
    """The one it is for, where that is said."""

    def fits(self, algorithm: str) -> bool:
        """Whether a signature of this kind can be one of this key's."""
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        if self.algorithm and self.algorithm != algorithm:
            return False
        if isinstance(self.key, rsa.RSAPublicKey):
            return algorithm[:2] in ("RS", "PS") and self.key.key_size >= SMALLEST_RSA
        if isinstance(self.key, ec.EllipticCurvePublicKey):
            return _CURVES.get(algorithm) == self.key.curve.name
        return isinstance(self.key, ed25519.Ed25519PublicKey) and algorithm == "EdDSA"


class IssuerKeys:
    """The keys of one issuer. One reader at a time; what was read once counts while the issuer is away."""

    def __init__(
        self, spec: IssuerSpec, *, withdrawn: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._spec, self._withdrawn, self._clock = spec, withdrawn, clock
        self._keys: tuple[PublicKey, ...] = ()
        self._reading = asyncio.Lock()
        self._read_at = self._next_try = float("-inf")
        self._problem = ""

    async def find(self, id: str, algorithm: str) -> PublicKey | None:
        """The key that a token names; UnreachableError when it may exist, but cannot be asked for."""
        stale = self._clock() - self._read_at > STALE and bool(self._keys)
        found = self._known(id, algorithm)
        if found is not None and not (stale and not self._reading.locked()):
            return found
        async with self._reading:
            if self._known(id, algorithm) is None or self._clock() - self._read_at > STALE:
                await self._read()
        found = self._known(id, algorithm)
        if found is None and self._problem:
            raise UnreachableError(f"The keys of issuer {self._spec.name!r} cannot be read.", hint="Try again soon.")
        return found

    def _known(self, id: str, algorithm: str) -> PublicKey | None:
        fitting = [key for key in self._keys if (not id or not key.id or key.id == id) and key.fits(algorithm)]
        # Without a name a token means the only key there is; of several, trying each would be guessing.
        return fitting[0] if len(fitting) == 1 or (id and fitting) else None

    async def _read(self) -> None:
        now = self._clock()
        if now < self._next_try:
            return
        self._next_try = now + (PAUSE if self._keys else FIRST_PAUSE)
        try:
            keys = await read_keys(self._spec)
        except TrunklineError as error:
            self._problem = str(error)
            log.error("Issuer %r: %s Callers who were let in before still are.", self._spec.name, error)
            return
        if self._problem:
            log.info("Issuer %r: its keys can be read again.", self._spec.name)
        self._problem, self._read_at, self._next_try = "", now, now + PAUSE
        gone = {key.id for key in self._keys} - {key.id for key in keys}
        self._keys = keys
        if gone:
            self._withdrawn()


async def read_keys(spec: IssuerSpec) -> tuple[PublicKey, ...]:
    """The keys of an issuer, from wherever they are; ConfigError, UnreachableError and ProtocolError say why not."""
    if spec.key_file:
        return await in_thread(lambda: _from_file(Path(spec.key_file).expanduser()))
    from trunkline.tenancy.oauth.web import Web

    http = Egress()
    web = Web(http, spec.jwks_url or spec.issuer, public_only=False)
    try:
        async with asyncio.timeout(PATIENCE):
            url = spec.jwks_url or await _discover(spec, web)
            answer = await web.get(url, "place of its keys")
    except TimeoutError:
        raise UnreachableError(f"It did not answer within {PATIENCE:g} s.") from None
    finally:
        http.close()
    shown = url.partition("?")[0]
    if answer.status != 200:
        raise ProtocolError(f"{shown} answered {answer.status} instead of keys.")
    return keys_of(answer.body, shown)


async def _discover(spec: IssuerSpec, web: Web) -> str:
    """Where an issuer's metadata says that its keys are; tokens name it to the letter, and so must its metadata."""
    from trunkline.tenancy.oauth.metadata import described

    found = await described(web, spec.issuer)
    if found is None:
        raise UnreachableError(f"It has no metadata at {spec.issuer}.", hint="Give `jwks_url` or `key_file`.")
    if found.issuer != spec.issuer:
        raise ConfigError(f"It calls itself {found.issuer!r}, not {spec.issuer!r}.", hint="Write `issuer` as it does.")
    try:
        return web.check(found.keys_url, "place of its keys")
    except ConfigError as error:
        hint = "Give `jwks_url` or `key_file`."
        raise ProtocolError("Its metadata names no safe place for its keys.", hint=hint) from error


def keys_of(text: bytes, where: str) -> tuple[PublicKey, ...]:
    """The keys of a JWKS that signatures can be checked with; ProtocolError when there is none."""
    import jwt

    try:
        listed: Any = msgspec.json.decode(text, type=dict[str, Any]).get("keys")
    except msgspec.MsgspecError:
        raise ProtocolError(f"What is at {where} are no keys.", hint="It should be a JWKS.") from None
    found: list[PublicKey] = []
    for jwk in cast("list[Any]", listed)[:MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(jwk, dict):
            continue
        said = cast("dict[str, Any]", jwk)
        if said.get("kty") == "oct" or "d" in said or said.get("use", "sig") != "sig":
            continue
        made = attempt_now(jwt.PyJWK, said)
        if not isinstance(made, Raised):
            found.append(PublicKey(made.key, str(said.get("kid", "")), str(said.get("alg", ""))))
    if not found:
        raise ProtocolError(f"There is no key at {where} that signatures can be checked with.")
    return tuple(found)


def _from_file(path: Path) -> tuple[PublicKey, ...]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.", hint="See `key_file`.") from error
    if text.lstrip()[:1] == b"{":
        return keys_of(text, str(path))
    if b"-----BEGIN CERTIFICATE" in text:
        made = attempt_now(lambda: x509.load_pem_x509_certificate(text).public_key())
    else:
        made = attempt_now(load_pem_public_key, text)
    if isinstance(made, Raised):
        raise ConfigError(f"{path} holds no public key.", hint="Give a public key as PEM, or a JWKS.")
    return (PublicKey(made),)
