"""Eras of the protocol: modern is 2026-07-28 and later, legacy what began with a handshake."""

from __future__ import annotations

from trunkline.wire.envelope import METHOD_NOT_FOUND, Message
from trunkline.wire.members import decode_object

MODERN_VERSIONS = ("2026-07-28",)
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
LATEST_LEGACY = LEGACY_VERSIONS[0]

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

_MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)


def negotiate(requested: str) -> str:
    """The legacy version we answer to a caller that asks for `requested`."""
    return requested if requested in LEGACY_VERSIONS else LATEST_LEGACY


def speaks_modern(answer: Message | None, *, over_http: bool, status: int = 200) -> bool:
    """Whether what came back for `server/discover` shows a modern server; `None` is no JSON-RPC answer at all."""
    if answer is None:
        return False
    if answer.result:
        return "supportedVersions" in decode_object(answer.result)
    code = error_code(answer.error)
    # Over HTTP a modern server says "no such method" with 404 and a JSON-RPC body; a legacy one says 400 or so.
    return code in _MODERN_ERRORS or (over_http and status == 404 and code == METHOD_NOT_FOUND)


def error_code(error: bytes) -> int:
    """The code of an error object; 0 when there is none."""
    code = decode_object(error).get("code")
    return code if isinstance(code, int) else 0
