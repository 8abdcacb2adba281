"""Serves one caller over lines of JSON, wherever they come from: standard input, or a hub in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from trunkline.authoring.protocol import Protocol

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
