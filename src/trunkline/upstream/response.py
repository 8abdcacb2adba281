"""What a server's HTTP response amounts to: a JSON-RPC message, or one of our errors."""

from __future__ import annotations

from trunkline.errors import (
    AuthorizationNeededError,
    ProtocolError,
    SessionLostError,
    UnreachableError,
    UpstreamError,
)
from trunkline.upstream.http1 import Response
from trunkline.wire.envelope import Message, read_message


class NotStreamableError(UnreachableError):
    """The address does not take streamable HTTP; it may take the older HTTP+SSE."""


def message_of(server: str, response: Response, *, in_session: bool) -> Message:
    """The message of a response that is not a stream."""
    status, body = response.status, response.body()
    if status == 401 or (status == 403 and b"www-authenticate" in response.headers):
        raise AuthorizationNeededError(
            f"Server {server!r} wants authorization (HTTP {status}).",
            hint="Give it an `Authorization` header in its `headers`.",
        )
    if status == 404 and in_session:
        raise SessionLostError(f"Server {server!r} no longer knows our session.")
    if body[:1] == b"{":
        try:
            message = read_message(body)
        except ValueError as error:
            raise ProtocolError(f"Server {server!r} sent something unreadable ({error}).") from error
        if message.result or message.error or message.method:
            return message
    if status >= 400:
        raise _http_error(server, status)
    if 300 <= status < 400:
        raise UnreachableError(f"Server {server!r} redirects elsewhere (HTTP {status}); we do not follow.")
    raise ProtocolError(f"Server {server!r} answered HTTP {status} without a JSON-RPC message.")


def _http_error(server: str, status: int) -> UpstreamError:
    text = f"Server {server!r} answered HTTP {status}."
    if status == 429:
        return UnreachableError(text, hint="It asks for fewer calls; try again later.")
    return NotStreamableError(text) if status in (400, 404, 405) else UpstreamError(text)
