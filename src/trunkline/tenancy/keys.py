"""Keys that callers send: made once, kept as a digest, told from guesses without a look into the store."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

_KEY = re.compile(rb"tl_([0-9a-f]{24})\.[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class NewKey:
    """A key as it is shown, once."""

    id: str
    text: str
    digest: bytes


class KeyMaker:
    """Makes and recognises keys with a pepper, without which their digests in a stolen store are worth nothing."""

    def __init__(self, pepper: Callable[[], bytes]) -> None:
        self._pepper = pepper

    def make(self) -> NewKey:
        """A key that nobody can guess."""
        number = secrets.token_hex(8)
        id = number + self._check(number.encode()).hex()
        text = f"tl_{id}.{secrets.token_urlsafe(32)}"
        return NewKey(id, text, self.digest(text.encode()))

    def id_of(self, text: bytes) -> str:
        """The id in a key of ours; empty for what we never made: strangers cannot make us look anything up."""
        found = _KEY.fullmatch(text)
        if found is None or not hmac.compare_digest(self._check(found[1][:16]), bytes.fromhex(found[1][16:].decode())):
            return ""
        return found[1].decode()

    def digest(self, text: bytes) -> bytes:
        """What is kept of a key."""
        return hmac.digest(self._pepper(), text, "sha256")

    def _check(self, number: bytes) -> bytes:
        return hmac.digest(self._pepper(), b"id " + number, "sha256")[:4]
