"""Which connection a call takes, and whose a connection is that not everybody shares."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from trunkline.identity import Scope
from trunkline.model import Caller
from trunkline.wire.members import read_members, write_members

Purpose = Literal["shared", "session", "caller", "lease", "tasks"]
"""Whom a connection serves: all, one caller's session, one modern caller, one call at a time, or a user's tasks."""


class ConnectionKey(NamedTuple):
    """Which connection a call takes; calls with equal keys share one."""

    # A tuple, since one is made and looked up in every call.

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


def owner_of_user(user: str) -> str:
    """Who has the connections that are made with a user's credential: the user, with whichever program."""
    return f"user {user}"


def owner_of(scope: Scope, caller: Caller) -> str:
    """Who has connections of its own: a session, or a modern caller that can be asked something; else empty."""
    capabilities = askable(caller.capabilities)
    if capabilities == b"{}":
        return ""
    return scope.session or _joined(scope.app, scope.user, scope.thread, caller.client_info, capabilities)


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
