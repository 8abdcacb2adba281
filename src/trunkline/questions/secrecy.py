"""Telling by its name whether a question is for a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS = frozenset(
    (
        *("password", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "token", "bearer"),
        *("apikey", "accesskey", "privatekey", "secretkey", "credential", "credentials"),
        *("pin", "cvv", "cvc", "csc", "otp", "totp", "ssn"),
    )
)
_PAIRS = frozenset(
    (
        *("api key", "access key", "private key", "secret key", "signing key", "encryption key", "ssh key"),
        *("card number", "security code", "recovery code", "verification code", "auth code", "seed phrase"),
    )
)
_HARMLESS_NEXT = frozenset(
    ("count", "limit", "budget", "usage", "type", "name", "id", "length", "expiry", "url", "hint", "policy")
)


def looks_secret(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a property asks for a password, a token, a key or the like, by its format, name or title."""
    if schema.get("type", "string") not in ("string", "integer", "number") or "enum" in schema or "oneOf" in schema:
        return False
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    return any(_names_secret(text) for text in (name, schema.get("title")) if isinstance(text, str))


def _names_secret(text: str) -> bool:
    words = [word.lower() for word in _WORD.findall(text)]
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if following in _HARMLESS_NEXT:  # `token_count` is no token
            continue
        if word in _WORDS or f"{word} {following}" in _PAIRS:
            return True
    return False
