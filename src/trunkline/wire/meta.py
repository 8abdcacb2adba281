"""What a modern request says about itself in `_meta`."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from trunkline.errors import RefusedError
from trunkline.wire.envelope import INVALID_PARAMS, read_string
from trunkline.wire.era import MODERN_VERSIONS, UNSUPPORTED_VERSION
from trunkline.wire.members import Members, encode, is_object, read_members, read_unambiguous, write_members

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
LOG_LEVEL = PREFIX + "logLevel"
SERVER_INFO = PREFIX + "serverInfo"
SUBSCRIPTION = PREFIX + "subscriptionId"
PROGRESS_TOKEN = "progressToken"  # noqa: S105 - not a password

TRACE = "traceparent"
THREAD = "dev.trunkline/thread"
"""The thread that a call belongs to, as its caller says."""
THREAD_MARK = THREAD.encode()

_VERSION_MARK = VERSION.encode()

MOST_CAPABILITIES, MOST_INFO = 16 * 2**10, 64 * 2**10
"""Bytes in which callers say what they can do, and who they are (with icons): both are remembered for calls to come."""


class Meta(msgspec.Struct, frozen=True, cache_hash=True):
    """A modern caller's own words about one request."""

    version: str
    capabilities: bytes
    client_info: bytes = b""
    log_level: str = ""


def is_modern(params: Members) -> bool:
    """Whether a request says of itself that it is modern."""
    text = params.get("_meta", b"")
    # A name can be spelt with escapes, so that bytes alone decide only when there are none.
    return (_VERSION_MARK in text or b"\\" in text) and VERSION in _members_of(text)


def read_meta(params: Members) -> Meta:
    """Read what every modern request must carry."""
    text = params.get("_meta", b"")
    # A caller says the same of itself in every request, so it is mostly read already.
    if len(text) < 4096:
        return _read_meta(text)
    own = _read_meta.__wrapped__(text)
    check_sizes(own.capabilities, own.client_info)
    if len(own.log_level) > 64:
        raise RefusedError("`params._meta` has a log level that is none.", code=INVALID_PARAMS)
    return own


def check_sizes(capabilities: bytes, client_info: bytes) -> None:
    """Refuse a caller that says more of itself than is worth remembering."""
    if len(capabilities) > MOST_CAPABILITIES or len(client_info) > MOST_INFO:
        raise RefusedError(
            f"A caller's capabilities may take {MOST_CAPABILITIES} bytes, and what it says of itself {MOST_INFO}.",
            code=INVALID_PARAMS,
        )


@lru_cache(maxsize=512)
def _read_meta(text: bytes) -> Meta:
    try:
        members = read_unambiguous(text)
    except ValueError:
        members = {}
    missing = [name for name in (VERSION, CAPABILITIES) if name not in members]
    if missing:
        raise RefusedError(f"`params._meta` lacks {', '.join(missing)}.", code=INVALID_PARAMS)
    version = read_string(members[VERSION])
    if not version or not is_object(members[CAPABILITIES]):
        raise RefusedError("`params._meta` has a field of the wrong type.", code=INVALID_PARAMS)
    return Meta(version, members[CAPABILITIES], members.get(CLIENT_INFO, b""), read_string(members.get(LOG_LEVEL, b"")))


def take_thread(params: Members) -> tuple[str, Members]:
    """The thread that a request names, and its params without it: servers have nothing to do with threads."""
    members = _members_of(params.get("_meta", b""))
    thread = read_string(members.get(THREAD, b""))
    rest = {name: value for name, value in members.items() if name != THREAD}
    return thread, {**params, "_meta": write_members(rest)}


def check_version(version: str) -> None:
    """Refuse a revision that we do not speak."""
    if version not in MODERN_VERSIONS:
        raise RefusedError(
            "Unsupported protocol version",
            code=UNSUPPORTED_VERSION,
            data={"supported": list(MODERN_VERSIONS), "requested": version},
        )


def stamp(params: Members, meta: Meta) -> Members:
    """Params with `_meta` that says what a modern server must know; what the caller put there stays."""
    own: Members = {VERSION: encode(meta.version), CAPABILITIES: meta.capabilities}
    if meta.client_info:
        own[CLIENT_INFO] = meta.client_info
    if meta.log_level:
        own[LOG_LEVEL] = encode(meta.log_level)
    return {**params, "_meta": write_members(_members_of(params.get("_meta", b"")) | own)}


def with_capabilities(params: Members, capabilities: bytes) -> Members:
    """Params that declare other capabilities."""
    return {**params, "_meta": write_members(_members_of(params.get("_meta", b"")) | {CAPABILITIES: capabilities})}


def unstamp(params: Members) -> Members:
    """Params without the modern fields of `_meta`, as a legacy server wants them."""
    if PREFIX.encode() not in params.get("_meta", b""):
        return params
    kept = {name: value for name, value in _members_of(params["_meta"]).items() if not name.startswith(PREFIX)}
    rest = {name: value for name, value in params.items() if name != "_meta"}
    return {**rest, "_meta": write_members(kept)} if kept else rest


def plain(result: Members) -> Members:
    """A result without the words that only a modern one has, as a legacy caller wants it."""
    members = {name: value for name, value in result.items() if name not in _ONLY_MODERN}
    if is_object(members.get("_meta", b"")):
        kept = {name: value for name, value in read_members(members["_meta"]).items() if not name.startswith(PREFIX)}
        if kept:
            members["_meta"] = write_members(kept)
        else:
            del members["_meta"]
    return members


_ONLY_MODERN = frozenset(("resultType", "ttlMs", "cacheScope"))


def progress_token(params: Members) -> bytes:
    """The token under which the caller wants to hear of progress; empty when it does not."""
    meta = params.get("_meta", b"")
    if not (meta.partition(b'"progressToken"')[1] or meta.partition(b"\\")[1]):
        return b""
    return _members_of(meta).get(PROGRESS_TOKEN, b"")


def with_progress_token(params: Members, token: bytes) -> Members:
    """Params that ask for progress under another token."""
    return {**params, "_meta": write_members(_members_of(params.get("_meta", b"")) | {PROGRESS_TOKEN: token})}


def with_trace(params: Members, traceparent: str) -> Members:
    """Params that say which span they are sent by; what else is said of the trace stays."""
    return {**params, "_meta": write_members(_members_of(params.get("_meta", b"")) | {TRACE: encode(traceparent)})}


def _members_of(meta: bytes) -> Members:
    return read_unambiguous(meta) if is_object(meta) else {}
