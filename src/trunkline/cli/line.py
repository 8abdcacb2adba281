"""A line to a gateway's MCP endpoint: messages go out as they are, and what comes back is heard one by one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from trunkline.cli.running import Running
from trunkline.errors import ProtocolError, ServerRefusedError, UnreachableError
from trunkline.gateway.local_api import PATIENCE
from trunkline.model import Call, Entry
from trunkline.upstream.connection import CLIENT_INFO
from trunkline.upstream.event_stream import EventStream
from trunkline.upstream.http1 import HttpClient, Response, request_bytes
from trunkline.upstream.origin import split_url
from trunkline.wire import meta
from trunkline.wire.envelope import Message, read_message, write_request
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.headers import NAMED_BY, encode_value
from trunkline.wire.members import Members, decode_object, encode, write_members
from trunkline.wire.questions import read_input_required

if TYPE_CHECKING:
    from trunkline.questions.bridge import LocalAnswers

LIMIT = 256 * 2**20
"""Bytes of one message; the gateway has tighter limits of its own."""
Hear = Callable[[bytes], Awaitable[None]]


class Line:
    """Posts messages to one gateway; closing an answer before its end withdraws the request."""

    def __init__(self, running: Running, client: HttpClient, path: str = "/mcp") -> None:
        self.running = running
        self._client = client
        self._origin, self._target = split_url(running.address + path)
        self._headers = {
            b"host": b"localhost" if running.local else self._origin.authority.encode(),
            b"content-type": b"application/json",
            b"accept": b"application/json, text/event-stream",
        }
        if running.token:
            self._headers[b"authorization"] = f"Bearer {running.token}".encode()
        if running.local:
            self._headers[PATIENCE] = b"0"

    async def send(self, method: bytes, body: bytes, headers: Mapping[bytes, bytes]) -> Response:
        """Send one request; its answer is still to come."""
        request = request_bytes(method, self._target, {**self._headers, **headers}, body)
        return (await self._client.send(self._origin, request, limit=LIMIT))[0]


async def hear(response: Response, take: Hear, *, last_id: Callable[[str], None] | None = None) -> None:
    """Hand over every message of an answer, whether it comes alone or in a stream."""
    try:
        await response.ready()
        if not response.streams:
            body = response.body()
            if body:
                await take(body)
            return
        stream = EventStream(response, LIMIT)
        while (event := await stream.next_event()) is not None:
            if last_id is not None and stream.decoder.last_id:
                last_id(stream.decoder.last_id)
            if event.data:
                await take(event.data)
    finally:
        response.close()


def modern_headers(method: str, params: Members, version: str) -> dict[bytes, bytes]:
    """The headers that must agree with a modern request."""
    headers = {b"mcp-protocol-version": encode_value(version), b"mcp-method": encode_value(method)}
    if method in NAMED_BY:
        headers[b"mcp-name"] = encode_value(str(decode_object(write_members(params)).get(NAMED_BY[method], "")))
    return headers


@asynccontextmanager
async def open_client() -> AsyncGenerator[HttpClient]:
    """Connections for the body."""
    client = HttpClient()
    try:
        yield client
    finally:
        client.close()


async def call_tool(
    running: Running, entry: Entry, arguments: Mapping[str, Any], *, timeout: float, answers: LocalAnswers
) -> bytes:
    """Call a tool of the running gateway, and have questions answered here; the result as it came."""
    stamp = meta.Meta(MODERN_VERSIONS[0], answers.caller().capabilities, CLIENT_INFO)
    params = meta.stamp({"name": encode(entry.shown), "arguments": encode(dict(arguments))}, stamp)
    headers = {**modern_headers("tools/call", params, stamp.version), PATIENCE: f"{timeout:g}".encode()}
    async with open_client() as client:
        line = Line(running, client)
        for number in range(1, 1000):
            message = await _answer(line, write_request(b"%d" % number, "tools/call", write_members(params)), headers)
            if message.error:
                error = decode_object(message.error)
                text, code = str(error.get("message", "")), error.get("code")
                if entry.server and not running.serves(entry):
                    raise UnreachableError(text)
                raise ServerRefusedError(text, code=code if isinstance(code, int) else 0, data=error.get("data"))
            asked = read_input_required(message.result)
            if asked is None:
                return message.result
            questions, state = asked
            given = await answers.answer(Call("tools/call", entry.shown, {}, server=entry.server), questions)
            responses = write_members({key: answer.result for key, answer in given.items() if answer.result})
            params = {**params, "inputResponses": responses, **({"requestState": state} if state else {})}
    raise ProtocolError(f"Tool {entry.shown!r} asks without end.")


async def _answer(line: Line, body: bytes, headers: Mapping[bytes, bytes]) -> Message:
    found: list[Message] = []

    async def take(text: bytes) -> None:
        message = read_message(text)
        if not message.method:
            found.append(message)

    await hear(await line.send(b"POST", body, headers), take)
    if not found:
        raise ProtocolError(f"The gateway at {line.running.address} gave no answer.")
    return found[-1]
