"""Everything Trunkline raises: a message says what happened to which thing, a hint says what to do next."""

from __future__ import annotations

import math


class TrunklineError(Exception):
    """The base of all our errors."""

    code = -32603
    """The JSON-RPC code a caller sees."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class ConfigError(TrunklineError):
    """The configuration cannot be used as it is."""


class AddressTakenError(ConfigError):
    """Somebody else listens there, or may not; another port may do."""


class ManifestError(TrunklineError):
    """A manifest cannot be used as it is; nothing of it was run."""


class StoreError(TrunklineError):
    """The store cannot be used now: it is away, busy, full or broken; a change that was under way was not made."""

    code = -32000


class CredentialError(TrunklineError):
    """A credential that is kept cannot be opened; it has to be given again."""

    code = -32000


class NotFoundError(TrunklineError):
    """There is no such user, key, server or thread; or it is somebody else's, which is the same."""

    code = -32602


class VersionConflictError(TrunklineError):
    """Somebody else changed it first; nothing was changed."""

    code = -32602


class RefusedError(TrunklineError):
    """The caller's message is not acceptable; sending it again unchanged will not help."""

    def __init__(
        self, message: str, *, code: int = -32600, status: int = 400, hint: str = "", data: object = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.status = status
        self.data = data


class TokenRefusedError(RefusedError):
    """The caller's token does not let it in, or not do this; with another one the same may be asked again."""

    def __init__(self, message: str, *, status: int = 401, scopes: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, code=-32001, status=status, hint=hint)
        self.scopes = scopes
        """What the token lacks, and has to have."""


class UnknownNameError(TrunklineError):
    """No server offers a tool, prompt or resource of that name."""

    code = -32602


class HeldError(TrunklineError):
    """What a server says of it was not agreed to, so that it is held back; the call was not made."""

    code = -32602

    def __init__(self, name: str, server: str, why: str) -> None:
        hint = f"See `trunkline review {server}`; `trunkline review approve {server}` agrees to it."
        super().__init__(f"{name!r} of server {server!r} is held back: {why}.", hint=hint)


class InvalidArgumentsError(TrunklineError):
    """The arguments do not fit the tool's schema; the call was not made."""

    code = -32602


class BusyError(TrunklineError):
    """The server has as many calls as it may have; nothing happened, so the call may be repeated later."""

    code = -32000
    retry_after = 1


class LimitReachedError(BusyError):
    """The caller used what it may use for now; nothing happened."""

    def __init__(self, message: str, *, retry_after: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = max(1, math.ceil(retry_after))


class AuditError(BusyError):
    """The audit cannot be written, and the call may not be made without it; nothing happened."""


class UpstreamError(TrunklineError):
    """A server failed us; it may or may not have run the call."""

    code = -32000


class UnreachableError(UpstreamError):
    """The server could not be reached: nothing happened, so the call may be repeated."""

    last_words = ""
    """What a process wrote to its standard error before it failed to start: for its operator, not for callers."""


class NoServerError(UnreachableError):
    """No server is left that could take the call: nothing happened."""


class SessionLostError(UnreachableError):
    """The server no longer knows our session, and did not run the call: it may be repeated on a new one."""


class AuthorizationNeededError(UnreachableError):
    """The server wants credentials that we do not have."""

    url = ""
    """Where the caller's person signs in, when they can be sent there."""
    attempt = ""
    """What that sign-in is known by."""


class ProtocolError(UpstreamError):
    """The server answered something that is not MCP."""

    code = -32603


class UpstreamTimeoutError(UpstreamError):
    """The server did not answer in time: the call may have happened."""

    code = -32001


class ServerRefusedError(TrunklineError):
    """The server answered with a JSON-RPC error."""

    def __init__(self, message: str, *, code: int, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class ProgramError(TrunklineError):
    """A program over tools failed, or was not let run; what its calls did before is done."""

    def __init__(self, message: str, *, line: int = 0, hint: str = "", printed: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line = line
        """The line of the program where it failed; 0 when that is not known."""
        self.printed = printed
        """What it had printed by then."""


class CancelledCallError(TrunklineError):
    """The caller withdrew the call."""

    code = -32800
