"""Where a remote server is, and how requests to it look: everything about them that does not change is made once."""

from __future__ import annotations

from urllib.parse import urljoin

from trunkline.config.server import ServerSpec
from trunkline.errors import UnreachableError
from trunkline.upstream.authorization import Authorization, authorized, lines_for
from trunkline.upstream.exchange import Exchange
from trunkline.upstream.http1 import HttpClient, Response, request_bytes
from trunkline.upstream.origin import split_url
from trunkline.version import __version__
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.headers import encode_value

MAX_REDIRECTS = 3


class Address:
    """One server's address, with the version that is spoken there and the session, if there is one."""

    def __init__(self, spec: ServerSpec, client: HttpClient, authorization: Authorization | None = None) -> None:
        self._spec, self._client = spec, client
        self.authorization = authorization
        self._origin, self._target = split_url(spec.url)
        self.pool = client.pool_of(self._origin)
        """The connections that were used before."""
        self._redirects = 0
        self.session = b""
        self.speak("")

    def speak(self, version: str, session: bytes = b"") -> None:
        """From now on requests carry this version and session."""
        self._version, self.session = version, session
        self.url = f"{self._origin.scheme}://{self._origin.authority}{self._target}"
        """Where requests go."""
        self._headers = {
            b"host": self._origin.authority.encode(),
            b"user-agent": f"trunkline/{__version__}".encode(),
            b"content-type": b"application/json",
            b"accept": b"application/json, text/event-stream",
            b"accept-encoding": b"identity",
            **{name.lower().encode(): value.encode() for name, value in self._spec.sent_headers.items()},
        }
        if version:
            self._headers[b"mcp-protocol-version"] = version.encode()
        if session:
            self._headers[b"mcp-session-id"] = session
        self._head = request_bytes(b"POST", self._target, self._headers, b"").partition(b"content-length")[0]
        self.modern = version in MODERN_VERSIONS

    def post_bytes(self, exchange: Exchange, body: bytes, credential: bytes = b"") -> bytes:
        """The whole POST that carries a request; the credential is header lines."""
        lines = [self._head, credential]
        if self.modern:
            lines += (b"mcp-method: ", exchange.method.encode(), b"\r\n")
            if exchange.name:
                lines += (b"mcp-name: ", encode_value(exchange.name), b"\r\n")
            for name, value in exchange.headers.items():
                lines += (name, b": ", value, b"\r\n")
        lines += (b"content-length: %d\r\n\r\n" % len(body), body)
        return b"".join(lines)

    async def send(self, request: bytes, *, timeout: float) -> tuple[Response, bool]:
        """Send a whole request; the flag tells whether its connection had been used before."""
        return await self._client.send(self._origin, request, limit=self._spec.answer_limit, timeout=timeout)

    async def get(self, last_id: str) -> Response:
        """Ask for a stream, from the event after `last_id` on."""
        headers = {**self._headers, b"accept": b"text/event-stream"}
        del headers[b"content-type"]
        if last_id:
            headers[b"last-event-id"] = last_id.encode()
        request = request_bytes(b"GET", self._target, headers, b"")
        if self.authorization is not None:
            request = with_lines(request, await lines_for(self.authorization, "GET", self.url))
        return (await self._client.send(self._origin, request, limit=self._spec.answer_limit))[0]

    async def say(self, method: bytes, body: bytes) -> Response:
        """Send something of which only the status matters."""
        request = request_bytes(method, self._target, self._headers, body)

        async def send(credential: bytes) -> Response:
            whole = with_lines(request, credential)
            response, _ = await self._client.send(self._origin, whole, limit=self._spec.answer_limit)
            try:
                await response.ready()
            finally:
                response.close()
            return response

        return await authorized(self.authorization, method.decode(), self.url, send)

    def follow(self, response: Response) -> None:
        """Take on a redirection, but only within the origin: a server must not send our headers elsewhere."""
        location = response.headers.get(b"location", b"").decode("latin-1")
        origin, target = split_url(urljoin(self._spec.url, location))
        self._redirects += 1
        if origin != self._origin or self._redirects > MAX_REDIRECTS:
            raise UnreachableError(
                f"Server {self._spec.name!r} redirects to another place.", hint="Configure the address it redirects to."
            )
        self._target = target
        self.speak(self._version, self.session)


def with_lines(request: bytes, credential: bytes) -> bytes:
    """A whole request with further header lines."""
    return request.replace(b"\r\n", b"\r\n" + credential, 1) if credential else request
