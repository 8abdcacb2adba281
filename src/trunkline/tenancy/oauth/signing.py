"""Tokens that we sign ourselves: who a client is (`private_key_jwt`), and that a token is ours to use (DPoP)."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from functools import cached_property
from typing import Any

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from trunkline.errors import ConfigError

ASSERTION_LIFE = 60


class SigningKey:
    """A private key, and the algorithm that goes with it."""

    def __init__(self, pem: str) -> None:
        self.pem = pem
        try:
            key = serialization.load_pem_private_key(pem.encode(), None)
        except (ValueError, TypeError):
            # Without its cause: that may quote the key.
            raise ConfigError("`private_key` is no private key in PEM.", hint="It begins with `-----BEGIN`.") from None
        if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size in (256, 384):
            self.algorithm = "ES256" if key.curve.key_size == 256 else "ES384"
        elif isinstance(key, rsa.RSAPrivateKey) and key.key_size >= 2048:
            self.algorithm = "RS256"
        elif isinstance(key, ed25519.Ed25519PrivateKey):
            self.algorithm = "EdDSA"
        else:
            raise ConfigError("`private_key` is of a kind that we do not sign with.", hint="Take P-256, or RSA 2048.")
        self._key = key

    @classmethod
    def make(cls) -> SigningKey:
        """A new one."""
        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(pem.decode())

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A JWT."""
        parts = ({"alg": self.algorithm, "typ": "JWT", **header}, claims)
        text = ".".join(_plain(msgspec.json.encode(part)) for part in parts)
        return f"{text}.{_plain(self._signature(text.encode()))}"

    @cached_property
    def public(self) -> dict[str, str]:
        """The public half, as a JWK; of a P-256 key."""
        assert isinstance(self._key, ec.EllipticCurvePrivateKey)
        numbers = self._key.public_key().public_numbers()
        x, y = (_plain(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}

    def _signature(self, text: bytes) -> bytes:
        key = self._key
        if isinstance(key, ed25519.Ed25519PrivateKey):
            return key.sign(text)
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        size = key.curve.key_size // 8
        signed = key.sign(text, ec.ECDSA(hashes.SHA256() if size == 32 else hashes.SHA384()))
        return b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(signed))


def client_assertion(key: SigningKey, client_id: str, audience: str) -> str:
    """Proves who a client is, once, to one authorization server (RFC 7523)."""
    now = int(time.time())
    claims = {"iss": client_id, "sub": client_id, "aud": audience, "jti": secrets.token_urlsafe(16), "iat": now}
    return key.sign({**claims, "exp": now + ASSERTION_LIFE})


def dpop_proof(key: SigningKey, method: str, url: str, *, token: str = "", nonce: str = "") -> str:
    """Proves that whoever sends this request has the key that a token is bound to (RFC 9449)."""
    claims: dict[str, Any] = {
        "jti": secrets.token_urlsafe(16),
        "htm": method,
        "htu": url.partition("#")[0].partition("?")[0],
        "iat": int(time.time()),
    }
    if token:
        claims["ath"] = _plain(hashlib.sha256(token.encode()).digest())
    if nonce:
        claims["nonce"] = nonce
    return key.sign(claims, typ="dpop+jwt", jwk=key.public)


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a PKCE verifier (RFC 7636)."""
    return _plain(hashlib.sha256(verifier.encode()).digest())


def _plain(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
