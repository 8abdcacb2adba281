"""Servers that say or ask more than anybody can take: everyone else still gets a turn."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from trunkline.config.server import ServerSpec
from trunkline.upstream import event_stream
from trunkline.upstream.address import Address
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.event_stream import SOONEST, keep_listening
from trunkline.upstream.exchange import MOST_QUESTIONS, Exchange
from trunkline.upstream.http1 import HttpClient
from trunkline.upstream.lines import SLICE, Lines
from trunkline.upstream.stream import StreamConnection


class Pipe(asyncio.ReadTransport):
    """The reading end of a pipe, as far as it can be told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return False


async def test_lines_that_come_together_are_taken_in_slices_and_in_order() -> None:
    taken: list[bytes] = []
    pipe = Pipe()
    lines = Lines(1000, on_line=taken.append, on_too_long=lambda head, tail: None, on_end=lambda: taken.append(b"end"))
    lines.connection_made(pipe)
    sent = [b"%d" % number for number in range(3 * SLICE + 50)]
    lines.data_received(b"\n".join(sent) + b"\nha")
    at_once, paused = len(taken), pipe.paused
    lines.data_received(b"lf\n")
    while pipe.paused:  # noqa: ASYNC110 - it is resumed by the loop itself
        await asyncio.sleep(0)

    assert (at_once, paused) == (SLICE, True)
    assert taken == [*sent, b"half"]


async def test_what_came_before_the_end_of_a_stream_is_not_lost() -> None:
    taken: list[bytes] = []
    lines = Lines(1000, on_line=taken.append, on_too_long=lambda head, tail: None, on_end=lambda: taken.append(b"end"))
    lines.connection_made(Pipe())
    lines.data_received(b"x\n" * (2 * SLICE))
    lines.connection_lost(None)

    assert taken == [b"x"] * (2 * SLICE) + [b"end"]


async def test_of_countless_questions_of_one_call_only_some_are_put_and_the_others_refused() -> None:
    sent: list[bytes] = []
    events = ConnectionEvents(lambda method, params: None, lambda why: None, exclusive=True)
    connection = StreamConnection(ServerSpec("one", command="x"), events)
    connection.send = sent.append
    call = asyncio.ensure_future(connection.request(Exchange("one", "tools/call", b"{}")))
    await asyncio.sleep(0)
    for number in range(MOST_QUESTIONS + 20):
        question: dict[str, Any] = {"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create", "params": {}}
        connection.receive(json.dumps(question).encode())
    reply = await call
    refused = [json.loads(text) for text in sent[1:]]

    assert len(reply.questions) == MOST_QUESTIONS
    assert [one["id"] for one in refused] == [f"q{number}" for number in range(MOST_QUESTIONS, MOST_QUESTIONS + 20)]
    assert {one["error"]["code"] for one in refused} == {-32603}


@pytest.mark.parametrize("said", [b"retry: 0\ndata: {}\n\n", b"retry: 0\n\n", b"retry: 3\ndata: {}\n\n"])
async def test_a_server_that_wants_to_be_asked_again_at_once_is_asked_after_a_while(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise asyncio.CancelledError

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + said)
        writer.close()

    client = HttpClient()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        monkeypatch.setattr(event_stream, "asyncio", SimpleNamespace(sleep=sleep))
        with pytest.raises(asyncio.CancelledError):
            await keep_listening(Address(ServerSpec("one", url=url), client), 1000, lambda data: None)
        client.close()

    assert all(seconds >= SOONEST for seconds in pauses), pauses
