"""One registry over HTTP: the API v0.1 of the MCP project, which others speak as well."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from trunkline.errors import ProtocolError, UnreachableError, UpstreamError
from trunkline.install.marketplace.options import RegistryConfig
from trunkline.install.marketplace.server_json import MOST_ENTRIES, read_page, write_page
from trunkline.upstream.http1 import ClosedError, HttpClient, request_bytes
from trunkline.upstream.origin import Origin, split_url

LARGEST_ANSWER = 8 * 2**20
"""Bytes that one page may have."""
LARGEST_COPY = 64 * 2**20
PAGE = 100
"""Entries that are asked for at once; the official registry gives no more."""
MOST_PAGES = 1_000


@dataclass(frozen=True)
class RegistryAnswer:
    """What a registry said. `content` is empty when nothing has changed, or when there is no such server."""

    status: int
    content: bytes = b""
    etag: str = ""


@dataclass(frozen=True)
class Copy:
    """All servers of a registry."""

    content: bytes
    """As one page."""
    since: str
    """The time of the latest change."""
    dropped: int = 0
    problem: str = ""
    """Why some may be missing."""


class Registry:
    """Asks one registry. Every question has a deadline; UpstreamError says why there is no answer."""

    def __init__(self, config: RegistryConfig, *, timeout: float, user_agent: str) -> None:
        self.config = config
        self._origin, self._base = split_url(f"{config.url}/v0.1/servers")
        self._timeout = timeout
        self._headers = {
            b"host": self._origin.authority.encode(),
            b"accept": b"application/json",
            b"user-agent": user_agent.encode(),
        }
        if config.auth_token:
            self._headers[b"authorization"] = b"Bearer " + config.auth_token.encode()

    async def search(self, word: str, *, etag: str = "") -> RegistryAnswer:
        """The first page of servers that the registry finds, each in its latest version."""
        async with self._connected() as http:
            return await self._get(http, "", {"search": word, "version": "latest", "limit": PAGE}, etag=etag)

    async def version(self, name: str, version: str = "latest", *, etag: str = "") -> RegistryAnswer:
        """One version of a server."""
        async with self._connected() as http:
            return await self._get(http, f"/{_escaped(name)}/versions/{_escaped(version)}", {}, etag=etag)

    async def versions(self, name: str) -> RegistryAnswer:
        """All versions of a server, the newest first."""
        async with self._connected() as http:
            return await self._get(http, f"/{_escaped(name)}/versions", {})

    async def copy(self, old: bytes = b"", *, since: str = "") -> Copy:
        """All its servers; with an old copy and its time only changes are read."""
        raw = dict(read_page(old, source=self.config.name).raw) if since else {}
        asked: dict[str, Any] = {"version": "latest", "limit": PAGE}
        if since:
            asked["updated_since"] = since
        cursors: set[str] = set()
        problem, dropped = "", 0
        async with self._connected() as http:
            for _ in range(MOST_PAGES):
                try:
                    answer = await self._get(http, "", asked)
                    page = read_page(answer.content, source=self.config.name)
                except UpstreamError as error:
                    if not cursors:
                        raise
                    problem = str(error)
                    break
                dropped += page.dropped
                for entry in page.entries:
                    since = max(since, entry.last_updated)
                    raw.pop(entry.id, None)
                    if entry.status != "deleted":
                        raw[entry.id] = page.raw[entry.id]
                if not page.cursor:
                    break
                if page.cursor in cursors or len(raw) > MOST_ENTRIES or sum(map(len, raw.values())) > LARGEST_COPY:
                    problem = "Its pages do not end."
                    break
                cursors.add(page.cursor)
                asked["cursor"] = page.cursor
        return Copy(write_page(raw.values()), since, dropped, problem)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[HttpClient]:
        http = HttpClient()
        try:
            yield http
        finally:
            http.close()

    async def _get(self, http: HttpClient, path: str, asked: dict[str, Any], *, etag: str = "") -> RegistryAnswer:
        target = f"{self._base}{path}" + (f"?{urlencode(asked)}" if asked else "")
        headers = self._headers | ({b"if-none-match": etag.encode("latin-1", "ignore")} if etag else {})
        request = request_bytes(b"GET", target, headers, b"")
        status, body, mark = await exchange(http, self._origin, request, timeout=self._timeout)
        if status in (200, 304, 404):
            return RegistryAnswer(status, body if status == 200 else b"", mark)
        if status in (401, 403):
            raise UnreachableError(f"answered {status}: it wants a token, or another one")
        if 300 <= status < 400:
            raise ProtocolError("sends its callers elsewhere; use the address that it names")
        raise UnreachableError(f"answered {status}")


async def exchange(
    http: HttpClient, origin: Origin, request: bytes, *, timeout: float, limit: int = LARGEST_ANSWER
) -> tuple[int, bytes, str]:
    """Send a request and read the answer, in time: status, body and ETag; UpstreamError says why there is none."""
    try:
        async with asyncio.timeout(timeout):
            await look_up(origin.host, origin.port)
            return await _exchange(http, origin, request, limit)
    except TimeoutError as error:
        raise UnreachableError(f"did not answer within {timeout:g} s") from error


async def _exchange(http: HttpClient, origin: Origin, request: bytes, limit: int) -> tuple[int, bytes, str]:
    """Send a request and read the answer; once more when a connection that was kept had just been closed."""
    while True:
        response, reused = await http.send(origin, request, limit=limit)
        try:
            await response.ready()
            if response.streams:
                raise ProtocolError("answered with a stream")
            mark = response.headers.get(b"etag", b"").decode("latin-1")
            return response.status, response.body(), mark
        except ClosedError as error:
            if not (reused and error.untouched):
                raise
        finally:
            response.close()


def _escaped(part: str) -> str:
    return quote(part, safe="")


async def look_up(host: str, port: int) -> None:
    """Return once the host has an address; UnreachableError when it has none.

    A lookup cannot be called off. The event loop's own would keep the program from ending for as long as it takes,
    which is many seconds where no name server answers; a thread that nobody owns keeps nobody.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[str] = loop.create_future()

    def finish(problem: str) -> None:
        if not found.done():
            found.set_result(problem)

    def work() -> None:
        problem = ""
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        try:
            loop.call_soon_threadsafe(finish, problem)
        except RuntimeError:
            pass  # the loop has ended in the meantime

    threading.Thread(target=work, name="look up", daemon=True).start()
    problem = await found
    if problem:
        raise UnreachableError(f"{host} cannot be reached: {problem}")
