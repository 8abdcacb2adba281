"""Sealed state: what we give a caller to hand back, readable and makeable by us alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK = "tl1."
"""How our own states begin, so that those of servers can be told from them."""

PROGRAM_MARK = "tlp1."
"""How the states of programs that wait begin, which outlive us."""

_NONCE = 12


class Seal:
    """Closes and opens small texts with one key (AES-256-GCM)."""

    def __init__(self, key: Callable[[], bytes] = lambda: os.urandom(32)) -> None:
        self._key = key

    @cached_property
    def _cipher(self) -> AESGCM:
        # Made late: only calls that ask something, or become tasks, need it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key())

    def close(self, content: bytes, context: bytes) -> str:
        """Seal content for one context: with another it does not open."""
        nonce = os.urandom(_NONCE)
        sealed = nonce + self._cipher.encrypt(nonce, content, context)
        return MARK + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def open(self, text: str, context: bytes) -> bytes:
        """What was sealed; ValueError when it was not, or not for this context."""
        from cryptography.exceptions import InvalidTag

        if not text.startswith(MARK):
            raise ValueError("not sealed by us")
        try:
            plain = text[len(MARK) :]
            sealed = base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)
            if base64.urlsafe_b64encode(sealed).decode().rstrip("=") != plain:
                raise ValueError("not written as we write it")
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context)
        except (binascii.Error, InvalidTag) as error:
            raise ValueError("the seal is broken, or was made for something else") from error


def context_of(*parts: bytes) -> bytes:
    """One digest of several parts, none of which can pass for another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
