"""How we meet a server over streamable HTTP: find out its era, and shake hands where it wants that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trunkline.config.server import ServerSpec
from trunkline.errors import UnreachableError, UpstreamError, UpstreamTimeoutError
from trunkline.model import Introduction, Reply
from trunkline.upstream.address import Address
from trunkline.upstream.connection import (
    NotModernError,
    checked_reply,
    discover_params,
    initialize_params,
    legacy_introduction,
    modern_introduction,
)
from trunkline.upstream.event_stream import EventStream
from trunkline.upstream.exchange import Exchange, own_exchange
from trunkline.upstream.http1 import Response
from trunkline.upstream.response import NotStreamableError, message_of
from trunkline.wire.envelope import Message, read_message
from trunkline.wire.era import MODERN_VERSIONS, speaks_modern

PROBE_TIMEOUT = 10.0

Post = Callable[[Exchange], Awaitable[Response]]
Advance = Callable[[Exchange, EventStream], Awaitable[Reply]]
"""Reads a stream up to the reply to a request."""


class Handshake:
    """The first requests on a line to a remote server."""

    def __init__(self, spec: ServerSpec, address: Address, post: Post, advance: Advance) -> None:
        self._spec, self._address = spec, address
        self._post, self._advance = post, advance

    async def shake(self, *, era: str, capabilities: bytes) -> Introduction:
        """Meet the server in an era, or in the one it knows; what a legacy one says is not acknowledged yet."""
        name = self._spec.name
        if era != "legacy":
            self._address.speak(MODERN_VERSIONS[0])
            reply, status = await self._probe(only=era == "modern")
            if reply is not None and speaks_modern(reply, over_http=True, status=status):
                if reply.error:
                    raise UnreachableError(f"Server {name!r} refused: {reply.error[:200].decode()}")
                return modern_introduction(name, reply.result)
            if era == "modern":
                raise NotModernError(self._spec)
        self._address.speak("")
        return await self._initialize(capabilities)

    async def _probe(self, *, only: bool) -> tuple[Message | None, int]:
        """Ask in the modern way; where `only` that will do, the answer may come as late as a server may start."""
        limit = self._spec.start_timeout if only else min(PROBE_TIMEOUT, self._spec.start_timeout)
        exchange = own_exchange(self._spec.name, "server/discover", discover_params(), limit)
        exchange.start_clock()
        try:
            response = await self._post(exchange)
            if response.status in (307, 308):
                self._address.follow(response)
                return await self._probe(only=only)
            if response.status in (401, 403):
                message_of(self._spec.name, response, in_session=False)
            if response.streams:
                reply = await self._advance(exchange, EventStream(response, self._spec.answer_limit))
                return Message(result=reply.result, error=reply.error), response.status
            return read_message(response.body()), response.status
        except UnreachableError:
            raise
        except UpstreamTimeoutError as error:
            if not only:
                return None, 0  # a legacy server may well keep silent
            raise UnreachableError(f"Server {self._spec.name!r} did not answer within {limit:g} s.") from error
        except (UpstreamError, ValueError):
            return None, 0
        finally:
            exchange.stop_clock()

    async def _initialize(self, capabilities: bytes) -> Introduction:
        name = self._spec.name
        exchange = own_exchange(
            self._spec.name, "initialize", initialize_params(capabilities), self._spec.start_timeout
        )
        exchange.start_clock()
        try:
            response = await self._post(exchange)
            session = response.headers.get(b"mcp-session-id", b"")
            if response.streams and response.status == 200:
                reply = await self._advance(exchange, EventStream(response, self._spec.answer_limit))
            else:
                message = message_of(name, response, in_session=False)
                if response.status in (400, 404, 405) and message.error:
                    raise NotStreamableError(f"Server {name!r} refused: {message.error[:200].decode()}")
                reply = checked_reply(exchange, message.result, message.error, modern=False)
        finally:
            exchange.stop_clock()
        if reply.error:
            raise UnreachableError(f"Server {name!r} refused to initialize: {reply.error[:200].decode()}")
        introduction = legacy_introduction(name, reply.result)
        self._address.speak(introduction.version, session)
        return introduction
