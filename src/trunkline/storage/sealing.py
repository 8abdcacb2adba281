"""Sealed records: what is secret on disk, bound to what it is for, under data keys that the master key seals."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VERSION = b"v1"
AES_256_GCM = b"\x01"
_KID, _NONCE, _TAG = 8, 12, 16
_HEAD = len(VERSION) + _KID + len(AES_256_GCM)


@dataclass(frozen=True)
class DataKey:
    """A key that records are sealed with, and the id by which they name it."""

    kid: str
    key: bytes = field(repr=False)

    @cached_property
    def cipher(self) -> AESGCM:
        """Made late: nothing of it is loaded where nothing is sealed."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self.key)

    def decrypt(self, nonce: bytes, content: bytes, bound: bytes) -> bytes:
        """What was sealed; ValueError when it was not, or for something else."""
        from cryptography.exceptions import InvalidTag

        try:
            return self.cipher.decrypt(nonce, content, bound)
        except InvalidTag:
            raise ValueError("it was changed, or is another's") from None


@dataclass(frozen=True)
class WrappedKey:
    """A data key as one master key wrapped it."""

    kid: str
    master: str
    wrapped: bytes
    created: int = 0


def new_data_key() -> DataKey:
    """A key that nobody knows."""
    return DataKey(os.urandom(_KID).hex(), os.urandom(32))


def seal(key: DataKey, names: Sequence[str], content: bytes) -> bytes:
    """A record, `v1 | kid | alg | nonce | ciphertext and tag`, that opens for the same names alone."""
    nonce = os.urandom(_NONCE)
    head = VERSION + bytes.fromhex(key.kid) + AES_256_GCM + nonce
    return head + key.cipher.encrypt(nonce, content, _bound(names, key.kid))


def unseal(key: DataKey, names: Sequence[str], record: bytes) -> bytes:
    """What was sealed; ValueError when it was not, or for something else."""
    if kid_of(record) != key.kid:
        raise ValueError("sealed with another key")
    nonce, sealed = record[_HEAD : _HEAD + _NONCE], record[_HEAD + _NONCE :]
    return key.decrypt(nonce, sealed, _bound(names, key.kid))


def kid_of(record: bytes) -> str:
    """The id of the key that a record wants; ValueError for what is none."""
    head, kid, algorithm = record[: len(VERSION)], record[len(VERSION) : _HEAD - 1], record[_HEAD - 1 : _HEAD]
    if head != VERSION or algorithm != AES_256_GCM or len(record) < _HEAD + _NONCE + _TAG:
        raise ValueError("no sealed record")
    return kid.hex()


def master_id(master: bytes) -> str:
    """By what a master key is named; it tells nothing of the key."""
    return hmac.digest(master, b"trunkline master key 1", "sha256")[:_KID].hex()


def wrap(master: bytes, key: DataKey, created: int) -> WrappedKey:
    """A data key as it is kept: a record that the master key opens."""
    return WrappedKey(key.kid, master_id(master), seal(_master(master), ("data key", key.kid), key.key), created)


def unwrap(masters: Mapping[str, bytes], kid: str, kept: Iterable[WrappedKey]) -> DataKey | None:
    """A kept key, if one of the master keys, by their ids, wrapped it and nobody changed it."""
    for one in kept:
        if one.kid == kid and one.master in masters:
            try:
                return DataKey(kid, unseal(_master(masters[one.master]), ("data key", kid), one.wrapped))
            except ValueError:
                continue
    return None


def _master(master: bytes) -> DataKey:
    # A key of its own, so that what else is derived from the master key can never pass for a data key.
    return DataKey(master_id(master), hmac.digest(master, b"trunkline data keys 1", "sha256"))


def _bound(names: Sequence[str], kid: str) -> bytes:
    """Each part with its length, so that none can pass for another."""
    parts = [VERSION, *(name.encode() for name in names), kid.encode()]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
