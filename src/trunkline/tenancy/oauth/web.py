"""Requests to authorization servers: bounded in time and size, to safe addresses alone, and never quoted."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from trunkline.errors import ConfigError, ProtocolError, UnreachableError, UpstreamError
from trunkline.untrusted import as_object
from trunkline.upstream.egress import Egress
from trunkline.upstream.http1 import ClosedError, Response, request_bytes
from trunkline.upstream.origin import split_url
from trunkline.version import __version__

LARGEST = 256 * 1024
"""Bytes that an answer may have."""
PATIENCE = 15.0
"""Seconds that a request may take."""
MOST_HOPS = 3


@dataclass(frozen=True)
class WebAnswer:
    """What was answered; its body is nobody's to read but the code that asked."""

    status: int
    headers: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    body: bytes = field(default=b"", repr=False)

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object that it is; empty when it is none."""
        try:
            found: Any = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return as_object(found)


class Web:
    """Sends requests on behalf of one server: what it may name depends on where it is itself."""

    def __init__(self, http: Egress, server_url: str, *, public_only: bool) -> None:
        self._http, self._server, self._public_only = http, server_url, public_only
        self._local = is_here(server_url) and not public_only

    def check(self, url: str, what: str) -> str:
        """The address, if it may be used: https, or http on this machine where the server is here, too."""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            host, parts = "", urlsplit("")
        plain = parts.scheme == "http" and self._local and is_here(url)
        written = url.isprintable() and " " not in url
        if not host or not (parts.scheme == "https" or plain) or "@" in parts.netloc or not written:
            raise ConfigError(f"The {what} is not a safe https address.", hint="Tell whoever runs the server.")
        return url

    async def get_with(self, url: str, credential: str, what: str) -> WebAnswer:
        """Read what a credential opens; a redirection is not followed, because it would carry it elsewhere."""
        headers = {b"accept": b"application/json", b"authorization": credential.encode()}
        return await self._send(b"GET", self.check(url, what), headers, b"", what)

    async def get(self, url: str, what: str) -> WebAnswer:
        """Read a document; each address on the way to it is checked."""
        for _ in range(MOST_HOPS + 1):
            answer = await self._send(b"GET", self.check(url, what), {b"accept": b"application/json"}, b"", what)
            if answer.status not in (301, 302, 303, 307, 308):
                return answer
            url = urljoin(url, answer.headers.get(b"location", b"").decode("latin-1"))
        raise UnreachableError(f"The {what} is redirected without end.")

    async def post(self, url: str, fields: Mapping[str, str], headers: Mapping[bytes, bytes], what: str) -> WebAnswer:
        """Send a form; a redirection is not followed, because it would carry secrets elsewhere."""
        kind = {b"content-type": b"application/x-www-form-urlencoded", b"accept": b"application/json"}
        return await self._send(b"POST", self.check(url, what), {**kind, **headers}, urlencode(fields).encode(), what)

    async def post_json(self, url: str, content: Mapping[str, Any], what: str) -> WebAnswer:
        """Send a JSON object."""
        kind = {b"content-type": b"application/json", b"accept": b"application/json"}
        return await self._send(b"POST", self.check(url, what), kind, msgspec.json.encode(content), what)

    async def _send(self, method: bytes, url: str, headers: Mapping[bytes, bytes], body: bytes, what: str) -> WebAnswer:
        origin, target = split_url(url)
        own = {
            b"host": origin.authority.encode(),
            b"user-agent": f"trunkline/{__version__}".encode(),
            b"accept-encoding": b"identity",
        }
        request = request_bytes(method, target, {**own, **headers}, body)
        try:
            async with asyncio.timeout(PATIENCE):
                client = await self._http.client_for(self._server, public_only=self._public_only)
                for attempt in range(2):
                    response, used = await client.send(origin, request, limit=LARGEST)
                    try:
                        return await _whole(response)
                    except ClosedError as error:
                        if not (used and error.untouched and attempt == 0 and method == b"GET"):
                            raise
                    finally:
                        response.close()
        except TimeoutError as error:
            raise UnreachableError(f"The {what} did not answer within {PATIENCE:g} s.") from error
        except UpstreamError as error:
            # Never with what it said: whoever answers may quote what it was sent.
            raise UnreachableError(f"The {what} at {origin.authority} did not answer well.") from error
        raise AssertionError("unreachable")


async def _whole(response: Response) -> WebAnswer:
    await response.ready()
    if response.streams:
        raise ProtocolError("It answered with a stream.")
    return WebAnswer(response.status, response.headers, response.body())


def is_here(url: str) -> bool:
    """Whether an address is on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
