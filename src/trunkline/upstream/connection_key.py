"""Which connection a call takes, and whose a connection is that not everybody shares."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

from trunkline.config.server import ServerSpec
from trunkline.identity import Scope
from trunkline.model import Caller
from trunkline.upstream.authorization import Authorize
from trunkline.wire.members import read_members, write_members

Purpose = Literal["shared", "session", "caller", "lease", "tasks"]
"""Whom a connection serves: all, one caller's session, one modern caller, one call at a time, or a user's tasks."""


class ConnectionKey(NamedTuple):
    """Which connection a call takes; calls with equal keys share one."""

    # A tuple, since one is looked up in every call.

    server: str
    fingerprint: str
    era: str = "auto"
    purpose: Purpose = "shared"
    capabilities: bytes = b"{}"
    app: str = ""
    user: str = ""
    """Whose calls alone it carries, where the server may ask something, or it is made with the user's credential."""
    session: str = ""
    thread: str = ""
    client: bytes = b""
    """What a caller without a session says of itself: two programs of one user do not share a server's state."""

    @property
    def owner(self) -> str:
        """Who is told what the server says here outside calls (see `owner_of`); empty when everybody is."""
        match self.purpose:
            case "shared":
                return owner_of_user(self.user) if self.user else ""
            case "session":
                return self.session
            case "tasks":
                return f"tasks {self.user}"
            case "caller" | "lease":
                return _joined(self.app, self.user, self.thread, self.client, self.capabilities)


class ConnectionKeys:
    """Finds the key of a call, by what was learned of the eras that each server speaks."""

    def __init__(self, authorize: Authorize, old: Callable[[ServerSpec], bool]) -> None:
        self._authorize, self._old = authorize, old
        self._modern: dict[str, bool] = {}
        """Whether a server speaks the modern era, by its fingerprint."""
        self._modern_only: set[str] = set()

    def of(self, spec: ServerSpec, scope: Scope, caller: Caller, *, tasks: bool = False) -> ConnectionKey:
        """Which connection serves this caller: in its own era if possible, and shared unless it may be asked."""
        credential = self._authorize(spec, scope.user) if scope.user and spec.url else None
        own = credential.user if credential is not None else ""
        modern = self._modern.get(spec.fingerprint)
        if modern is None:
            return ConnectionKey(spec.name, spec.fingerprint, user=own)
        if modern and (caller.modern or spec.era == "modern" or spec.fingerprint in self._modern_only):
            return _shared(spec.name, spec.fingerprint, "modern", own)
        capabilities = askable(caller.capabilities)
        if capabilities == b"{}":
            return _shared(spec.name, spec.fingerprint, "legacy", own)
        # On a stream nothing tells which call a question belongs to, and roots are a session's: neither can be shared.
        # A legacy caller has its own session anyway, on which an HTTP server may also ask outside a call.
        session = "" if tasks else scope.session
        streamed = spec.kind != "http" or self._old(spec)
        purpose: Purpose = "caller"
        if streamed or tasks or session or b'"roots"' in capabilities:
            purpose = "tasks" if tasks else "session" if session else "lease"
        key = ConnectionKey(
            spec.name, spec.fingerprint, "legacy", purpose, capabilities, scope.app, scope.user, session
        )
        if purpose not in ("caller", "lease"):
            return key
        return key._replace(thread=scope.thread, client=caller.client_info)

    def settled(self, key: ConnectionKey) -> ConnectionKey:
        """The key under the era that its server is known to speak, so that all who want it share it."""
        modern = self._modern.get(key.fingerprint)
        if key.era != "auto" or modern is None:
            return key
        return key._replace(era="modern" if modern else "legacy")

    def is_modern(self, key: ConnectionKey) -> bool:
        """Whether its server is known to speak the modern era."""
        return self._modern.get(key.fingerprint, False)

    def learn(self, key: ConnectionKey, *, modern: bool) -> None:
        """A server that was asked in both eras answered in this one."""
        self._modern[key.fingerprint] = modern

    def learn_modern_only(self, key: ConnectionKey) -> None:
        """A modern server does not speak the older way as well."""
        self._modern_only.add(key.fingerprint)

    def forget(self, key: ConnectionKey) -> None:
        """The server may be another version by now: it is asked anew."""
        self._modern.pop(key.fingerprint, None)


@lru_cache(maxsize=4096)
def _shared(server: str, fingerprint: str, era: str, user: str) -> ConnectionKey:
    """The key of a connection that all calls share, or all of one user: most calls take one, so it is not made anew."""
    return ConnectionKey(server, fingerprint, era, user=user)


def owner_of_user(user: str) -> str:
    """Who has the connections that are made with a user's credential: the user, with whichever program."""
    return f"user {user}"


def owner_of(scope: Scope, caller: Caller) -> str:
    """Who has connections of its own: a session, or a modern caller that can be asked something; else empty."""
    capabilities = askable(caller.capabilities)
    if capabilities == b"{}":
        return ""
    return scope.session or _joined(scope.app, scope.user, scope.thread, caller.client_info, capabilities)


def can_be_asked(caller: Caller) -> bool:
    """Whether a server may ask this caller something."""
    return askable(caller.capabilities) != b"{}"


@lru_cache(maxsize=256)
def askable(capabilities: bytes) -> bytes:
    """The part of a caller's capabilities by which a server may ask it something, in one spelling."""
    try:
        members = read_members(capabilities)
    except ValueError:
        return b"{}"
    return write_members({name: members[name] for name in ("elicitation", "roots", "sampling") if name in members})


def _joined(app: str, user: str, thread: str, client: bytes, capabilities: bytes) -> str:
    said = (client + b"\0" + capabilities).decode("utf-8", "replace")
    return f"{app}\0{user}\0{thread}\0{said}"
