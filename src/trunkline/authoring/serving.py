"""Serves callers in both eras: one over lines of JSON, wherever they come from, or any number over streamable HTTP."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio
import mcp_types as types
import uvicorn
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from trunkline.authoring.protocol import Protocol
from trunkline.errors import ConfigError
from trunkline.tasks import open_tasks

GRACE = 1
"""Seconds that calls in flight get when the server is stopped."""

Write = Callable[[bytes], object]


async def serve_lines(protocol: Protocol, lines: AsyncIterable[bytes], write: Write) -> None:
    """Serve until there are no more lines; calls that are still under way then are cancelled."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, lines, to_server)
            group.start_soon(_write, from_server, write)
            await protocol.sdk.run(incoming, outgoing, protocol.options)
            group.cancel_scope.cancel()
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # a line came as the end did


async def _read(lines: AsyncIterable[bytes], to_server: ObjectSendStream[SessionMessage | Exception]) -> None:
    async with to_server:
        async for line in lines:
            if not line.strip():
                continue
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError as error:
                await to_server.send(error)
            else:
                await to_server.send(SessionMessage(message))


async def _write(from_server: ObjectReceiveStream[SessionMessage], write: Write) -> None:
    async with from_server:
        async for sent in from_server:
            write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


@asynccontextmanager
async def open_http(
    protocol: Protocol, *, host: str = "127.0.0.1", port: int = 0, token: str = ""
) -> AsyncGenerator[str]:
    """Listen for the body; the address."""
    if not token and not _loopback(host):
        raise ConfigError(
            f"A server does not listen on {host} without a token: anyone could use it.",
            hint="Give `run` a `token`, or put Trunkline in front of it.",
        )
    # On this machine the SDK checks Host and Origin, so that no web page can reach the server by a name of its own.
    app: ASGIApp = protocol.sdk.streamable_http_app(host="127.0.0.1" if _loopback(host) else host)
    if token:
        app = _guarded(app, token)
    # httptools leaves the blanks around a header's value, which MCP does not take for part of it.
    config = uvicorn.Config(app, http="h11", log_config=None, lifespan="on", timeout_graceful_shutdown=GRACE + 1)
    listening = _listen(host, port)
    server = _Server(config)
    async with open_tasks() as tasks:
        serving = tasks.start(server.serve([listening]), name="http")
        try:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{listening.getsockname()[1]}/mcp"
        finally:
            protocol.end_listening()
            logging.getLogger("uvicorn.error").addFilter(_not_cut)
            server.should_exit = True
            await asyncio.wait([serving], timeout=GRACE)
            await protocol.close()  # what is not done by now is answered with that
            await asyncio.wait([serving], timeout=GRACE + 2)
            listening.close()
            logging.getLogger("uvicorn.error").removeFilter(_not_cut)


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it: uvicorn would send itself the signal again when it has ended."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _guarded(app: ASGIApp, token: str) -> ASGIApp:
    wanted = f"Bearer {token}".encode()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope.get("headers") or ())
        given = headers.get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, wanted):
            told = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": told})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return serve


def _not_cut(record: logging.LogRecord) -> bool:
    """A stream that a caller left open is cut at the end, which is no error of anybody's."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.",
            hint="Choose another `port`; 0 takes a free one.",
        ) from error


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
