"""Load as a lease: it is taken with the choice, and given back however the call ends."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal

from trunkline.balance.health import HealthState
from trunkline.balance.member import Member
from trunkline.errors import (
    AuthorizationNeededError,
    NoServerError,
    ServerRefusedError,
    SessionLostError,
    UpstreamError,
)

Outcome = Literal["ok", "failed", "unclear", "unused"]
"""`unclear` says nothing about the server (the caller withdrew); `unused` means that the call was never made."""


class Lease:
    """The right to make one call on `server`; leave its `with` block, or say `done`, to give it back.

    A lease that is merely dropped gives its load back too, and counts as unused.
    """

    __slots__ = ("_end", "_probation", "member", "pinned", "server", "started")

    def __init__(
        self,
        member: Member,
        started: float,
        end: Callable[[Lease, Outcome], None],
        probation: HealthState | None,
        pinned: bool,
    ) -> None:
        self.server = member.name
        self.member = member
        self.started = started
        """When it was taken, on the circle's clock."""
        self._probation = probation
        self.pinned = pinned
        """The server was preferred, and not chosen by the strategy."""
        self._end: Callable[[Lease, Outcome], None] | None = end

    @property
    def probe(self) -> bool:
        """Whether this call shows if an ejected server is well again; something else may have shown it meanwhile."""
        return self._probation is not None and self.member.standing is self._probation

    @property
    def open(self) -> bool:
        """Whether it still counts as load."""
        return self._end is not None

    def done(self, ok: bool | None = True) -> None:
        """The call ended: well, badly, or (`None`) in a way that says nothing about the server. Only once counts."""
        self._finish("unclear" if ok is None else "ok" if ok else "failed")

    def cancel(self) -> None:
        """The call is not made after all."""
        self._finish("unused")

    def _finish(self, outcome: Outcome) -> None:
        end = self._end
        if end is not None:
            self._end = None
            end(self, outcome)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end = self._end
        if end is None:
            return
        if error is None:
            self._end = None
            end(self, "ok")
        else:
            self.done(verdict(error))

    def __del__(self) -> None:
        end = self._end
        if end is not None:
            self._end = None
            end(self, "unused")


def verdict(error: BaseException) -> bool | None:
    """What an error says about the server: `True` it answered, `False` it failed, `None` nothing."""
    if isinstance(error, ServerRefusedError):
        return True
    if isinstance(error, NoServerError | SessionLostError | AuthorizationNeededError):
        return None
    return False if isinstance(error, UpstreamError | OSError) else None
