"""What of requests belongs into the audit besides calls: changes over the admin API, and refusals."""

from __future__ import annotations

from trunkline.errors import RefusedError, TrunklineError
from trunkline.gateway.request import Request
from trunkline.identity import Scope
from trunkline.recording import Recording

REFUSALS = (401, 403, 421, 429)
"""Statuses of those who may not do something, or could not say who they are."""
LONGEST = 200


class RequestAudit:
    """Notes who did what; never what a request holds, for that may be secret."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def changed(self, request: Request, path: str) -> None:
        """A request to the admin API changed something, or signed somebody in or out."""
        kind = "sign-in" if path == "session" or path.startswith("connections") else "change"
        self._recording.note(kind, _place_of(request), who=who_of(request.scope))

    def refused(self, request: Request, error: TrunklineError, status: int = 0) -> None:
        """A request was refused."""
        status = status or (error.status if isinstance(error, RefusedError) else 0)
        if status in REFUSALS:
            said = {**_place_of(request), "status": status, "why": error.message[:LONGEST]}
            self._recording.refused(said, who_of(request.scope) if request.scope.user or request.scope.key else None)


def who_of(scope: Scope) -> dict[str, str]:
    """Who did something."""
    found = {"user": scope.user, "key": scope.key}
    return {name: value for name, value in found.items() if value} or {"role": scope.role}


def _place_of(request: Request) -> dict[str, str]:
    return {"method": request.method, "path": request.path[:LONGEST]}
