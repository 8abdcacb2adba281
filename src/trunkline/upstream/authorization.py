"""What a connection needs of whoever keeps the credentials for its server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from trunkline.config.server import ServerSpec
from trunkline.errors import AuthorizationNeededError, UnreachableError
from trunkline.upstream.http1 import Response

FETCH_TIMEOUT = 60.0
"""Seconds that a request waits for its credential, whatever it may take itself."""

T = TypeVar("T")


class Authorization(Protocol):
    """One credential at one server, or the want of it; all connections that are made with it share it."""

    @property
    def user(self) -> str:
        """Whose it is, and so whose alone the connections are; empty when everybody shares them."""
        ...

    def headers(self, method: str, url: str) -> bytes | None:
        """The header lines of one request, ready to be sent; `None` when they must be fetched first."""
        ...

    async def fetch(self) -> None:
        """Have `headers` ready; raises what keeps us from it."""
        ...

    async def challenged(self, response: Response, sent: bytes) -> bool:
        """The server refused a request with these lines, and did not run it; whether to send it once more."""
        ...

    async def is_withheld(self) -> bool:
        """Whether there is one which is not for all who would share its connections."""
        ...

    def accepted(self) -> None:
        """What was sent once more was not refused."""
        ...

    def needed(self, status: int) -> AuthorizationNeededError:
        """What is wrong when it is refused for good, and what to do."""
        ...


Authorize = Callable[[ServerSpec, str], Authorization | None]
"""Gives the credential of a user at a server; `None` for a server that takes none, or has its own."""


def nobodys(spec: ServerSpec, user: str) -> None:
    """No credentials at all."""


def is_challenge(response: Response) -> bool:
    """Whether a server refused a request because of its credential."""
    if response.status == 401:
        return True
    return response.status == 403 and b"insufficient_scope" in response.headers.get(b"www-authenticate", b"")


async def authorized(
    authorization: Authorization | None,
    method: str,
    url: str,
    send: Callable[[bytes], Awaitable[Response]],
    *,
    timeout: float = FETCH_TIMEOUT,
    refused: tuple[Response, bytes] | None = None,
) -> Response:
    """Send a request with the credential; once more when the server refused it unread, and that may help.

    `refused` is how it answered already, and the lines that were sent.
    """
    if authorization is None:
        return await send(b"")
    for again in (True, False):
        if refused is not None:
            (response, lines), refused = refused, None
        else:
            lines = await lines_for(authorization, method, url, timeout=timeout)
            response = await send(lines)
        if not is_challenge(response):
            if not again:
                authorization.accepted()
            return response
        if not await _in_time(authorization.challenged(response, lines), timeout) or not again:
            raise authorization.needed(response.status)
    raise AssertionError("unreachable")


async def lines_for(authorization: Authorization, method: str, url: str, *, timeout: float = FETCH_TIMEOUT) -> bytes:
    """The header lines of one request, fetched if need be."""
    lines = authorization.headers(method, url)
    if lines is None:
        await _in_time(authorization.fetch(), timeout)
        lines = authorization.headers(method, url)
    return lines or b""


async def _in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    try:
        async with asyncio.timeout(min(seconds, FETCH_TIMEOUT)):
            return await work
    except TimeoutError as error:
        raise UnreachableError("The credential could not be renewed in time.") from error
