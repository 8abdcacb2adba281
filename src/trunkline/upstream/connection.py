"""What every connection can do, whatever lies below it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trunkline.config.server import ServerSpec
from trunkline.errors import ProtocolError, UnreachableError, UpstreamError
from trunkline.model import NOTHING, Answer, Introduction, Reply
from trunkline.upstream.exchange import Exchange
from trunkline.version import __version__
from trunkline.wire import meta
from trunkline.wire.envelope import error_object, read_string, write_error, write_result
from trunkline.wire.era import LATEST_LEGACY, LEGACY_VERSIONS, MODERN_VERSIONS
from trunkline.wire.members import decode, encode, is_object, read_members, write_members

CLIENT_INFO = encode({"name": "trunkline", "version": __version__})

Hear = Callable[[str, bytes], None]
"""Takes a notification that belongs to no call: its method and params."""

AskSession = Callable[[str, bytes], "asyncio.Future[Answer]"]
"""Passes a question that belongs to no call to the caller that owns the connection."""


@dataclass(frozen=True)
class ConnectionEvents:
    """Whom a connection tells what belongs to no call."""

    hear: Hear
    ended: Callable[[str], None]
    ask_session: AskSession | None = None
    exclusive: bool = False
    """Every call on it is one user's, so that its questions can only be that user's."""
    capabilities: bytes = b"{}"
    downloading: Callable[[], None] = lambda: None
    """Called once when the server has to be downloaded before it starts."""


class Connection(Protocol):
    """A live line to one server, for one identity."""

    introduction: Introduction
    last_used: float
    alive: bool
    """Whether it can still carry requests."""
    log_level: str
    """The level of log messages that a legacy server was last asked for."""

    @property
    def busy(self) -> bool:
        """Whether a call is under way on it, or parked."""
        ...

    @property
    def last_words(self) -> str:
        """What the server said last outside the protocol."""
        ...

    async def request(self, exchange: Exchange) -> Reply:
        """Send a request and wait for its reply, or for a question."""
        ...

    async def resume(self, exchange: Exchange, answers: Mapping[str, Answer]) -> Reply:
        """Give a parked request its answers, and wait on."""
        ...

    def cancel(self, exchange: Exchange, reason: str) -> None:
        """Tell the server that nobody waits for it any more."""
        ...

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification; nobody waits for it."""
        ...

    async def close(self) -> None:
        """End it, politely if the server lets us."""
        ...


class NotModernError(UnreachableError):
    """A server that was to speak the modern era does not."""

    def __init__(self, spec: ServerSpec) -> None:
        super().__init__(
            f"Server {spec.name!r} does not speak 2026-07-28.",
            hint="Leave its `era` out." if spec.era == "modern" else "It did before; now it is asked anew.",
        )


def discover_params() -> bytes:
    """What `server/discover` is asked with."""
    return write_members(meta.stamp({}, meta.Meta(MODERN_VERSIONS[0], b"{}", CLIENT_INFO)))


def initialize_params(capabilities: bytes) -> bytes:
    """What `initialize` is asked with."""
    return write_members(
        {"protocolVersion": encode(LATEST_LEGACY), "capabilities": capabilities, "clientInfo": CLIENT_INFO}
    )


def modern_introduction(server: str, result: bytes) -> Introduction:
    """Read the answer to `server/discover`."""
    members = _members(server, result)
    versions = _decoded(members, "supportedVersions", [])
    if not any(version in MODERN_VERSIONS for version in versions):
        raise UnreachableError(
            f"Server {server!r} speaks {', '.join(map(str, versions)) or 'no revision that it names'}; we do not."
        )
    own_meta = read_members(members["_meta"]) if is_object(members.get("_meta", b"")) else {}
    return Introduction(
        modern=True,
        version=MODERN_VERSIONS[0],
        capabilities=_decoded(members, "capabilities", {}),
        info=own_meta.get(meta.SERVER_INFO, members.get("serverInfo", b"{}")),
        instructions=read_string(members.get("instructions", b"")),
        result=result,
    )


def legacy_introduction(server: str, result: bytes) -> Introduction:
    """Read the answer to `initialize`."""
    members = _members(server, result)
    version = read_string(members.get("protocolVersion", b""))
    if version not in LEGACY_VERSIONS:
        raise UnreachableError(f"Server {server!r} wants to speak {version or 'no revision'}; we do not.")
    return Introduction(
        modern=False,
        version=version,
        capabilities=_decoded(members, "capabilities", {}),
        info=members.get("serverInfo", b"{}"),
        instructions=read_string(members.get("instructions", b"")),
        result=result,
    )


def checked_reply(exchange: Exchange, result: bytes, error: bytes, *, modern: bool) -> Reply:
    """A response as a reply; what is neither a result nor an error is the server's fault."""
    if error and error != b"null":
        if not _is_error(error):
            error = error_object(-32603, f"Server {exchange.server!r} sent an error that is none.")
        return Reply(error=error, modern=modern, refused=exchange.refused)
    if result[:1] != b"{":
        raise ProtocolError(f"Server {exchange.server!r} answered {exchange.method} with something that is no result.")
    return Reply(result, questions=NOTHING, modern=modern)


def _is_error(error: bytes) -> bool:
    """Whether callers can read it: an object with a whole number as its code, and a text."""
    members = read_members(error) if is_object(error) else {}
    return members.get("code", b"").lstrip(b"-").isdigit() and members.get("message", b"")[:1] == b'"'


def refusal(method: str) -> Answer:
    """What a server gets for a question that nobody can be asked."""
    return Answer(error=error_object(-32601, f"The client cannot be asked {method!r} here."))


OVERASKED = Answer(error=error_object(-32603, "Too many questions are open already."))


def nobody_asked(session: str, method: str, params: bytes) -> asyncio.Future[Answer]:
    """The answer to a question that belongs to no call, where no session can be asked."""
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    future.set_result(refusal(method))
    return future


def write_answer(server_id: bytes, answer: Answer) -> bytes:
    """Our response to a server's question."""
    return write_error(server_id, answer.error) if answer.error else write_result(server_id, answer.result or b"{}")


def answer_when_done(future: asyncio.Future[Answer], reply: Callable[[Answer], None]) -> None:
    """Hand an owner's answer on when it comes; if it never does, the server hears that."""

    def done(ended: asyncio.Future[Answer]) -> None:
        if ended.cancelled() or ended.exception() is not None:
            reply(Answer(error=error_object(-32603, "The client did not answer.")))
        else:
            reply(ended.result())

    future.add_done_callback(done)


def withdrawal() -> str:
    """Why a request ends that is being given up just now: the caller's own words, where it gave some."""
    error = sys.exception()
    words = str(error) if isinstance(error, asyncio.CancelledError) else ""
    return words or "The caller withdrew, or the time was up."


def lost(spec: ServerSpec, exchange: Exchange, why: str) -> UpstreamError:
    """The error for a request that was sent and will not be answered."""
    return UpstreamError(
        f"Server {spec.name!r} {why} before it answered {exchange.name or exchange.method!r}.",
        hint="It may have done what was asked: look before you repeat it.",
    )


def _members(server: str, result: bytes) -> dict[str, bytes]:
    try:
        return read_members(result)
    except ValueError as error:
        raise ProtocolError(f"Server {server!r} introduced itself with something that is no object.") from error


def _decoded(members: dict[str, bytes], name: str, default: Any) -> Any:
    value = decode(members[name]) if name in members else default
    return value if isinstance(value, type(default)) else default
