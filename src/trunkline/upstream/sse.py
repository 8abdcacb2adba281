"""Servers that speak the older HTTP+SSE: one stream for everything they say, a POST for everything we do."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from urllib.parse import urljoin

from trunkline.config.server import ServerSpec
from trunkline.errors import AuthorizationNeededError, UnreachableError, UpstreamError
from trunkline.tasks import Tasks
from trunkline.upstream.address import with_lines
from trunkline.upstream.authorization import Authorization, authorized
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.http1 import HttpClient, Response, request_bytes
from trunkline.upstream.origin import split_url
from trunkline.upstream.stream import StreamConnection
from trunkline.wire.envelope import guess_number
from trunkline.wire.sse import Decoder

POST_TIMEOUT = 30.0


async def connect_sse(
    spec: ServerSpec,
    events: ConnectionEvents,
    client: HttpClient,
    tasks: Tasks,
    authorization: Authorization | None = None,
) -> StreamConnection:
    """Open the stream, learn where to post, shake hands."""
    streams = _Streams(spec, events, client, authorization)
    with ExitStack() as unless_open:
        unless_open.callback(streams.drop)
        try:
            async with asyncio.timeout(spec.start_timeout):
                await streams.open()
                reading = tasks.start(streams.read(), name=f"{spec.name} stream")
                writing = tasks.start(streams.write(), name=f"{spec.name} posts")
                streams.connection.on_close = lambda: streams.close(reading, writing)
                await streams.connection.open(era="legacy")
        except TimeoutError as error:
            raise UnreachableError(f"Server {spec.name!r} did not answer within {spec.start_timeout:g} s.") from error
        unless_open.pop_all()
    return streams.connection


class _Streams:
    def __init__(
        self, spec: ServerSpec, events: ConnectionEvents, client: HttpClient, authorization: Authorization | None
    ) -> None:
        self.spec, self.client, self.authorization = spec, client, authorization
        self.connection = StreamConnection(spec, events)
        self.connection.send = lambda text: self.queue.put_nowait(text)
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.decoder = Decoder(spec.answer_limit)
        self.origin, self.target = split_url(spec.url)
        self.response: Response | None = None
        self.headers = {
            b"host": self.origin.authority.encode(),
            b"accept-encoding": b"identity",
            **{name.lower().encode(): value.encode() for name, value in spec.sent_headers.items()},
        }

    async def open(self) -> None:
        request = request_bytes(b"GET", self.target, {**self.headers, b"accept": b"text/event-stream"}, b"")
        self.response = await authorized(self.authorization, "GET", self.spec.url, partial(self._send, request))
        if self.response.status == 401:
            raise AuthorizationNeededError(f"Server {self.spec.name!r} wants authorization (HTTP 401).")
        if self.response.status != 200 or not self.response.streams:
            raise UnreachableError(f"Server {self.spec.name!r} answered HTTP {self.response.status}, and no stream.")
        while True:
            for event in self.decoder.feed(await self._piece()):
                if event.event == "endpoint":
                    origin, self.target = split_url(urljoin(self.spec.url, event.data.decode(errors="replace")))
                    if origin != self.origin:
                        raise UnreachableError(f"Server {self.spec.name!r} wants messages sent to another host.")
                    return

    async def read(self) -> None:
        try:
            while True:
                for event in self.decoder.feed(await self._piece()):
                    if event.data:
                        self.connection.receive(event.data)
        except (UpstreamError, ValueError) as error:
            self.connection.end(f"closed its stream ({error})")

    async def write(self) -> None:
        while True:
            text = await self.queue.get()
            request = request_bytes(b"POST", self.target, {**self.headers, b"content-type": b"application/json"}, text)
            try:
                async with asyncio.timeout(POST_TIMEOUT):
                    await self._post(request)
            except (UpstreamError, TimeoutError) as error:
                self.connection.refuse(guess_number(text[:64], b""), f"did not take the request ({error})")

    async def _post(self, request: bytes) -> None:
        url = f"{self.origin.scheme}://{self.origin.authority}{self.target}"
        response = await authorized(self.authorization, "POST", url, partial(self._send, request))
        response.close()
        if response.status >= 400:
            raise UnreachableError(f"HTTP {response.status}")

    async def _send(self, request: bytes, credential: bytes) -> Response:
        whole = with_lines(request, credential)
        response, _ = await self.client.send(self.origin, whole, limit=self.spec.answer_limit)
        with ExitStack() as unless_ready:
            unless_ready.callback(response.close)
            await response.ready()
            unless_ready.pop_all()
        return response

    async def _piece(self) -> bytes:
        assert self.response is not None
        piece = await self.response.next_piece()
        if not piece:
            raise UpstreamError("end of stream")
        return piece

    def drop(self) -> None:
        self.connection.end("was stopped")
        if self.response is not None:
            self.response.close()

    async def close(self, *tasks: asyncio.Task[object]) -> None:
        self.drop()
        for task in tasks:
            task.cancel()
