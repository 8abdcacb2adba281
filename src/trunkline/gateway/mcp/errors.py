"""Our own errors, in the words and numbers that a caller's era expects."""

from __future__ import annotations

from trunkline.errors import BusyError, LimitReachedError, RefusedError, TrunklineError, UnknownNameError
from trunkline.gateway.request import Headers
from trunkline.identity import in_words_of
from trunkline.wire.envelope import error_object


def error_of(error: TrunklineError, *, modern: bool, uri: str = "", user: str = "") -> bytes:
    """The error object a caller gets."""
    data: object = getattr(error, "data", None)
    code = error.code
    if isinstance(error, UnknownNameError) and str(error).startswith("Unknown resource"):
        code = -32602 if modern else -32002
        data = {"uri": uri}
    return error_object(code, in_words_of(user, str(error)), data)


def status_of(error: TrunklineError) -> tuple[int, Headers]:
    """The HTTP status for an error of ours, and headers that go with it."""
    if isinstance(error, RefusedError):
        return error.status, []
    if isinstance(error, BusyError):
        limited = isinstance(error, LimitReachedError)
        return 429 if limited else 503, [(b"retry-after", b"%d" % error.retry_after)]
    if isinstance(error, UnknownNameError):
        return 400, []
    return 200, []
