"""One remote server, by its rules: what goes to it, what is taken from it, and what ends with what."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.fuzz.transport import Line
from tests.harness import until
from trunkline.config.server import ServerSpec
from trunkline.errors import (
    AuthorizationNeededError,
    ProtocolError,
    SessionLostError,
    UnreachableError,
    UpstreamError,
    UpstreamTimeoutError,
)
from trunkline.model import Answer, Introduction, Reply
from trunkline.tasks import Tasks, open_tasks
from trunkline.upstream import http as module
from trunkline.upstream.authorization import Authorization
from trunkline.upstream.connection import ConnectionEvents
from trunkline.upstream.exchange import Exchange, own_exchange, pause
from trunkline.upstream.http import HttpConnection
from trunkline.upstream.http1 import ClosedError, HttpClient, Response

Json = dict[str, Any]
LEGACY: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "one", "version": "1"}}
MODERN: Json = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class Kept:
    """The connections that had been used before."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def send(self, request: bytes, limit: int) -> Response | None:
        return self.lines.pop().connection.send(request, limit) if self.lines else None


class Far:
    """The other end of every connection; a test says what comes from there."""

    def __init__(self) -> None:
        self.kept, self.lines, self.failure = Kept(), list[Line](), cast("UpstreamError | None", None)

    def pool_of(self, origin: object) -> Kept:
        return self.kept

    async def send(self, origin: object, request: bytes, *, limit: int, timeout: float = 10.0) -> tuple[Response, bool]:
        if self.failure is not None:
            raise self.failure
        self.lines.append(Line())
        return self.lines[-1].connection.send(request, limit), False

    def last(self) -> Json:
        """The message that was sent last, or the HTTP method of what was none."""
        return said(self.lines[-1])

    def messages(self) -> list[Json]:
        return [said(line) for line in self.lines]


def said(line: Line) -> Json:
    head, _, body = bytes(line.wire.written).partition(b"\r\n\r\n")
    return json.loads(body) if body else {"http": head.split()[0].decode()}


def sent_header(line: Line, name: str) -> str:
    lines = bytes(line.wire.written).partition(b"\r\n\r\n")[0].decode().splitlines()
    return next((one.partition(": ")[2] for one in lines if one.lower().startswith(f"{name}: ")), "")


def plain(status: int = 200, message: Json | None = None, **headers: str) -> bytes:
    body = json.dumps(message).encode() if message is not None else b""
    lines = [f"{name.replace('_', '-')}: {value}".encode() for name, value in headers.items()]
    return b"\r\n".join((b"HTTP/1.1 %d X" % status, *lines, b"content-length: %d" % len(body), b"", body))


def event(message: Json | None = None, **fields: object) -> bytes:
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items())
    text = f"{lines}data: {json.dumps(message) if message is not None else ''}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(text), text)


def result(id: object, **members: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": members}


async def turns() -> None:
    """Let others have theirs."""
    for _ in range(12):
        await asyncio.sleep(0)


@dataclass
class Scene:
    """A server that was met, and what is heard of it."""

    connection: HttpConnection
    far: Far
    heard: list[str] = field(default_factory=list[str])
    ended: list[str] = field(default_factory=list[str])
    asked: list[asyncio.Future[Answer]] = field(default_factory=list[asyncio.Future[Answer]])

    async def begin(self, exchange: Exchange) -> tuple[asyncio.Task[Reply], Line]:
        """Send a request; who waits for it, and its connection."""
        waiting = asyncio.ensure_future(self.connection.request(exchange))
        await turns()
        return waiting, self.far.lines[-1]

    def come(self, data: bytes) -> None:
        """Let this come on the connection that was opened last."""
        self.far.lines[-1].connection.data_received(data)


def exchange(method: str = "tools/call", timeout: float = 50.0, **options: Any) -> Exchange:
    return Exchange("one", method, b"{}", timeout=timeout, max_timeout=50.0, **options)


@asynccontextmanager
async def scene(
    *,
    modern: bool = False,
    session: str = "mine",
    owned: bool = False,
    exclusive: bool = False,
    credential: Authorization | None = None,
) -> AsyncGenerator[Scene]:
    async with asyncio.timeout(60), open_tasks() as tasks:
        made = met(Far(), tasks, owned=owned, exclusive=exclusive, credential=credential)
        opening = asyncio.ensure_future(made.connection.open(era="modern" if modern else "legacy"))
        await turns()
        headers = {"mcp_session_id": session} if session and not modern else {}
        made.come(plain(200, result(1, **(MODERN if modern else LEGACY)), **headers))
        await turns()
        if not modern:
            assert made.far.last() == {"jsonrpc": "2.0", "method": "notifications/initialized"}
            made.come(plain(202))
        await opening
        try:
            yield made
        finally:
            for line in made.far.lines:
                line.close()


def met(
    far: Far,
    tasks: Tasks,
    *,
    owned: bool = False,
    exclusive: bool = False,
    credential: Authorization | None = None,
) -> Scene:
    heard, ended, asked = list[str](), list[str](), list[asyncio.Future[Answer]]()

    def ask(method: str, params: bytes) -> asyncio.Future[Answer]:
        asked.append(asyncio.get_running_loop().create_future())
        return asked[-1]

    events = ConnectionEvents(
        lambda method, params: heard.append(method), ended.append, ask if owned else None, exclusive
    )
    spec = ServerSpec("one", url="http://server/mcp", max_timeout=600.0)
    connection = HttpConnection(spec, events, cast("HttpClient", far), tasks, credential)
    return Scene(connection, far, heard, ended, asked)


# Meeting.


async def test_a_legacy_server_is_told_that_we_are_ready_and_a_modern_one_is_not() -> None:
    for modern, methods in ((False, ["initialize", "notifications/initialized"]), (True, ["server/discover"])):
        async with scene(modern=modern) as at:
            assert [one["method"] for one in at.far.messages()] == methods
            assert at.connection.alive
            assert not at.connection.busy
            assert (at.connection.last_words, at.connection.log_level) == ("", "")


async def test_a_line_that_was_not_opened_yet_is_new_and_knows_nothing_of_its_server() -> None:
    async with open_tasks() as tasks:
        connection = met(Far(), tasks).connection

    assert connection.introduction == Introduction()
    assert time.monotonic() - connection.last_used < 60
    assert connection.alive


# Requests.


async def test_each_request_has_a_number_of_its_own_and_takes_the_answer_to_it() -> None:
    async with scene() as at:
        before = at.far.last()
        assert "id" not in before
        sent = [exchange(), exchange()]
        waiting = [await at.begin(one) for one in sent]
        assert [one.connection for one in sent] == [at.connection] * 2
        numbers = [said(line)["id"] for _, line in waiting]
        assert at.connection.busy
        for (_, line), number in zip(waiting, numbers, strict=True):
            line.connection.data_received(plain(200, result(number, number=number)))
        replies = [json.loads((await task).result) for task, _ in waiting]

    assert numbers == [2, 3]  # the first shook hands
    assert replies == [{"number": 2}, {"number": 3}]
    assert not at.connection.busy


async def test_a_stream_with_the_status_of_a_failure_is_one() -> None:
    async with scene() as at:
        waiting, _ = await at.begin(exchange())
        at.come(STREAM.replace(b"200", b"500"))
        with pytest.raises(UpstreamError, match="HTTP 500"):
            await waiting


@pytest.mark.parametrize("streams", [False, True])
async def test_what_answers_another_request_is_not_taken(streams: bool) -> None:
    async with scene() as at:
        waiting, line = await at.begin(exchange())
        if streams:
            at.come(STREAM + event(result(99)) + event(result(2, mine=True)))
            assert json.loads((await waiting).result) == {"mine": True}
            assert line.wire.closed
        else:
            at.come(plain(200, result(99)))
            with pytest.raises(ProtocolError, match="another request"):
                await waiting


async def test_a_question_in_the_place_of_an_answer_is_refused_and_an_error_without_a_number_is_not() -> None:
    async with scene() as at:
        asked, _ = await at.begin(exchange())
        at.come(plain(200, {"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {}}))
        with pytest.raises(ProtocolError, match="another request"):
            await asked
        failed, _ = await at.begin(exchange())
        at.come(plain(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "No."}}))

    assert json.loads((await failed).error)["message"] == "No."


async def test_what_we_ask_for_ourselves_does_not_make_a_connection_busy_or_used() -> None:
    async with scene() as at:
        at.connection.last_used = 0.0
        waiting, _ = await at.begin(own_exchange("one", "ping", b"{}", 5.0))
        busy = at.connection.busy
        at.come(plain(200, result(2)))
        await waiting
        unused = at.connection.last_used
        waiting, _ = await at.begin(exchange())
        at.come(plain(200, result(3)))
        await waiting

    assert (busy, unused) == (False, 0.0)
    assert at.connection.last_used > 0


async def test_a_session_that_its_server_forgot_is_over_for_all() -> None:
    async with scene() as at:
        at.connection.listen()
        await turns()
        listening = at.far.lines[-1]
        waiting, _ = await at.begin(exchange())
        at.come(plain(404))
        with pytest.raises(SessionLostError):
            await waiting
        assert not at.connection.alive
        assert not at.connection.busy
        assert at.ended == ["was lost"]
        with pytest.raises(SessionLostError, match="was lost"):
            await at.connection.request(exchange())
        await turns()
        assert listening.wire.closed


async def test_a_server_that_cannot_be_reached_or_answers_badly_is_named_and_its_call_is_over() -> None:
    async with scene() as at:
        at.far.failure = UnreachableError("no route")
        with pytest.raises(UnreachableError, match="Server 'one' cannot be reached: no route"):
            await at.connection.request(exchange())
        at.far.failure = None
        waiting, _ = await at.begin(exchange())
        at.come(b"SSH-2.0-OpenSSH_9\r\n")
        with pytest.raises(ProtocolError, match="Server 'one' answered badly"):
            await waiting
        assert not at.connection.busy
        assert [one.get("method") for one in at.far.messages()[2:]] == ["tools/call"]  # and nobody is told to stop


@pytest.mark.parametrize(
    ("used", "came", "safe", "again"),
    [
        (True, b"", True, True),
        (True, b"", False, False),
        (True, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\na", True, False),
        (False, b"", True, False),
    ],
)
async def test_a_request_is_repeated_once_where_a_kept_connection_closed_before_it_was_read(
    used: bool, came: bytes, safe: bool, again: bool
) -> None:
    async with scene() as at:
        kept, before = Line(), len(at.far.lines)
        if used:
            at.far.kept.lines.append(kept)
        waiting = asyncio.ensure_future(at.connection.request(exchange(safe_to_repeat=safe)))
        await turns()
        line = kept if used else at.far.lines[-1]
        if came:
            line.connection.data_received(came)
        line.connection.connection_lost(None)
        await turns()
        if again:
            at.come(plain(200, result(2)))
            await waiting
        else:
            with pytest.raises(UpstreamError, match="closed the connection before"):
                await waiting
        kept.close()

    posts = [one for one in at.far.messages()[before:] if one.get("method") == "tools/call"]
    assert len(posts) == (again or not used)


async def test_a_repeated_request_is_not_repeated_again() -> None:
    async with scene() as at:
        kept = [Line(), Line(), Line()]
        at.far.kept.lines = list(kept)
        waiting = asyncio.ensure_future(at.connection.request(exchange(safe_to_repeat=True)))
        for line in reversed(kept[1:]):
            await turns()
            line.connection.connection_lost(None)
        with pytest.raises(UpstreamError, match="closed the connection"):
            await waiting

    assert not kept[0].wire.written
    for line in kept:
        line.close()


async def test_a_call_has_so_long() -> None:
    async with scene() as at:
        with pytest.raises(UpstreamTimeoutError):
            await at.connection.request(exchange(timeout=0.01))
        assert not at.connection.busy
        assert at.far.lines[2].wire.closed


# Withdrawing.


async def test_a_withdrawn_call_is_told_to_a_legacy_server_and_hung_up_on_a_modern_one() -> None:
    for modern in (False, True):
        async with scene(modern=modern) as at:
            waiting, line = await at.begin(exchange())
            waiting.cancel("I changed my mind.")
            await turns()
            assert line.wire.closed
            assert not at.connection.busy
            told = [one for one in at.far.messages() if one.get("method") == "notifications/cancelled"]
            number = said(line)["id"]
        assert [one["params"] for one in told] == [{"requestId": number, "reason": "I changed my mind."}] * (not modern)


async def test_a_call_that_was_withdrawn_while_its_stream_was_read_ends_the_stream() -> None:
    async with scene() as at:
        waiting, line = await at.begin(exchange())
        at.come(STREAM + event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}))
        await turns()
        waiting.cancel()
        await turns()
        assert line.wire.closed


# Farewells.


async def test_a_session_is_ended_with_a_farewell_behind_all_that_was_on_its_way() -> None:
    async with scene() as at:
        waiting, line = await at.begin(exchange())
        at.come(STREAM)
        at.connection.notify("notifications/roots/list_changed", b"{}")
        await turns()
        closing = asyncio.ensure_future(at.connection.close())
        await turns()
        assert not closing.done()
        assert at.far.last()["method"] == "notifications/roots/list_changed"
        assert line.wire.closed
        at.come(plain(202))
        await turns()
        assert at.far.last() == {"http": "DELETE"}
        assert sent_header(at.far.lines[-1], "mcp-session-id") == "mine"
        at.come(plain(200))
        await closing
        with pytest.raises(UpstreamError, match="Server 'one' was let go before it answered"):
            await waiting
        assert not at.connection.alive


async def test_who_has_no_session_has_no_farewell() -> None:
    async with scene(session="") as at:
        before = len(at.far.lines)
        await at.connection.close()

    assert len(at.far.lines) == before


async def test_a_farewell_takes_a_second_each_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    patience: list[float | None] = []
    really_wait, really_timeout = asyncio.wait, asyncio.timeout

    async def wait(tasks: Any, timeout: float) -> Any:
        patience.append(timeout)
        return await really_wait(tasks, timeout=0)

    def timeout(seconds: float | None) -> Any:
        patience.append(seconds)
        return really_timeout(0 if seconds == 1.0 else seconds)

    async with scene() as at:
        at.connection.notify("notifications/x", b"{}")
        await turns()
        monkeypatch.setattr(asyncio, "wait", wait)
        monkeypatch.setattr(asyncio, "timeout", timeout)
        await at.connection.close()
        monkeypatch.undo()

    assert patience == [1.0, 1.0]


# Streams.


async def test_what_comes_before_an_answer_is_told_to_its_caller_and_what_concerns_others_to_all() -> None:
    told: list[str] = []

    class Ear:
        def notify(self, method: str, params: bytes) -> None:
            told.append(method)

        def hang_up(self, retry: float) -> None:
            told.append(f"hang up {retry:g}")

    methods = ["message", "progress", "tasks/status", "tools/list_changed", "resources/updated"]
    async with scene() as at:
        waiting, _ = await at.begin(exchange(listener=Ear()))
        notes = [event({"jsonrpc": "2.0", "method": f"notifications/{name}", "params": {}}) for name in methods]
        at.come(STREAM + event() + b"".join(notes) + event(result(2)))
        await waiting

    everybody = ["tasks/status", "tools/list_changed", "resources/updated"]
    assert told == [f"notifications/{name}" for name in methods if name != "tasks/status"]
    assert at.heard == [f"notifications/{name}" for name in everybody]


@pytest.mark.parametrize("limit", [False, True])
async def test_a_stream_that_cannot_be_read_ends_its_call(limit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as at:
        waiting, line = await at.begin(exchange())
        if limit:
            at.connection.spec = ServerSpec("one", url="http://server/mcp", answer_limit=10)
            text = b"data: " + b"x" * 100
            at.come(STREAM + b"%x\r\n%s\r\n" % (len(text), text))
        else:
            at.come(STREAM + b"b\r\ndata: nope\n\r\n" + b"1\r\n\n\r\n")
        with pytest.raises(ProtocolError, match="Server 'one' sent"):
            await waiting
        assert line.wire.closed
        assert not at.connection.busy


async def test_a_legacy_stream_that_ends_early_is_asked_for_from_where_it_ended() -> None:
    told: list[float] = []

    class Ear:
        def notify(self, method: str, params: bytes) -> None: ...

        def hang_up(self, retry: float) -> None:
            told.append(retry)

    async with scene() as at:
        waiting, _ = await at.begin(exchange(listener=Ear()))
        at.come(STREAM + event(id="7", retry=0) + END)
        await until(lambda: len(at.far.lines) == 4)
        first = at.far.lines[-1]
        await turns()
        at.come(STREAM + END)
        await until(lambda: len(at.far.lines) == 5)
        second = at.far.lines[-1]
        await turns()
        at.come(STREAM + event(result(2, late=True)))
        reply = await waiting
        assert vars(at.connection)["_streams"] == {}

    assert json.loads(reply.result) == {"late": True}
    assert [(said(line), sent_header(line, "last-event-id")) for line in (first, second)] == [
        ({"http": "GET"}, "7")
    ] * 2
    assert told == [0.1, 0.1]  # however soon the server wants to be asked


async def test_a_server_is_asked_again_within_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(exchange: Exchange, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(module, "pause", pause)
    async with scene() as at:
        for number, retry in ((2, 5_000), (3, 3_600_000)):
            waiting, _ = await at.begin(exchange())
            at.come(STREAM + event(id="7", retry=retry) + END)
            await turns()
            at.come(STREAM + event(result(number)))
            await waiting

    assert pauses == [5.0, 30.0]


@pytest.mark.parametrize(
    ("modern", "id", "answer", "words"),
    [
        (False, "", None, "closed the stream"),
        (True, "7", None, "closed the stream"),
        (False, "7", plain(405), "closed the stream"),
        (False, "7", plain(200, result(2)), "closed the stream"),
        (False, "7", STREAM.replace(b"200", b"201"), "closed the stream"),
        (False, "7", UnreachableError("gone"), "could not be reached again"),
        (False, "7", b"", "could not be reached again"),
    ],
)
async def test_a_stream_that_cannot_be_asked_for_again_has_lost_its_call(
    modern: bool, id: str, answer: bytes | UpstreamError | None, words: str
) -> None:
    async with scene(modern=modern) as at:
        waiting, _ = await at.begin(exchange())
        at.come(STREAM + (event(id=id, retry=0) if id else event()))
        await turns()
        if isinstance(answer, UpstreamError):
            at.far.failure = answer
        before = len(at.far.lines)
        at.come(END)
        if isinstance(answer, bytes):
            await until(lambda: len(at.far.lines) > before)
            await turns()
            if answer:
                at.come(answer)
            else:
                at.far.lines[-1].connection.connection_lost(None)
        with pytest.raises(UpstreamError, match=words):
            await waiting


# Questions.


QUESTION: Json = {"jsonrpc": "2.0", "method": "elicitation/create", "params": {"message": "?"}}


def withdrawn(at: Scene) -> int:
    """How many calls the server was told to give up."""
    return sum(one.get("method") == "notifications/cancelled" for one in at.far.messages())


async def posted(at: Scene, count: int = 1) -> list[Json]:
    """Messages that were sent now, each of them taken by the server."""
    await turns()
    lines = at.far.lines[-count:]
    for line in lines:
        line.connection.data_received(plain(202))
    await turns()
    return [said(line) for line in lines]


async def test_a_question_on_the_stream_of_a_call_waits_for_its_caller_and_its_answer_goes_back() -> None:
    async with scene() as at:
        waiting, call = await at.begin(exchange())
        at.come(STREAM + event({**QUESTION, "id": "q"}))
        reply = await waiting
        assert list(reply.questions) == ['q"q"']
        assert at.connection.busy
        resumed = asyncio.ensure_future(
            at.connection.resume(cast("Exchange", reply.parked), {'q"q"': Answer(result=b'{"action":"accept"}')})
        )
        (answer,) = await posted(at)
        call.connection.data_received(event({**QUESTION, "id": "r"}) + event(result(2, done=True)))
        end = await resumed
        (refused,) = await posted(at)

    assert (refused["id"], refused["error"]["code"]) == ("r", -32601)
    assert withdrawn(at) == 0
    assert answer == {"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}}
    assert json.loads(end.result) == {"done": True}
    assert not at.connection.busy


async def test_questions_that_are_left_open_are_asked_again_and_a_call_that_is_over_is_not_resumed() -> None:
    async with scene() as at:
        waiting, call = await at.begin(exchange())
        at.come(STREAM + event({**QUESTION, "id": 7}) + event({**QUESTION, "id": 8}))
        parked = cast("Exchange", (await waiting).parked)
        resumed = asyncio.ensure_future(at.connection.resume(parked, {"q7": Answer(result=b"{}")}))
        await posted(at)
        assert list((await resumed).questions) == ["q8"]
        assert withdrawn(at) == 0
        at.connection.cancel(parked, "never mind")
        await turns()
        assert call.wire.closed
        with pytest.raises(UpstreamError, match="closed the stream"):
            await at.connection.resume(parked, {})


async def test_a_call_that_goes_on_has_so_long_again() -> None:
    async with scene() as at:
        waiting, _ = await at.begin(exchange())
        at.come(STREAM + event({**QUESTION, "id": 7}))
        parked = cast("Exchange", (await waiting).parked)
        clock = cast("dict[float, dict[Exchange, float]]", vars(vars(at.connection)["_clock"])["_waiting"])
        assert not any(clock.values())  # it stands still
        parked.timeout = 0.01
        resumed = asyncio.ensure_future(at.connection.resume(parked, {"q7": Answer(result=b"{}")}))
        await posted(at)
        with pytest.raises(UpstreamTimeoutError):
            await resumed


async def test_an_answer_that_cannot_be_sent_loses_the_call() -> None:
    async with scene() as at:
        waiting, _ = await at.begin(exchange())
        at.come(STREAM + event({**QUESTION, "id": 7}))
        parked = cast("Exchange", (await waiting).parked)
        at.far.failure = UnreachableError("gone")
        with pytest.raises(UpstreamError, match="could not be reached"):
            await at.connection.resume(parked, {"q7": Answer(result=b"{}")})
        assert not at.connection.busy


@pytest.mark.parametrize("streams", [True, False, None])
async def test_a_question_that_comes_before_an_answer_has_begun_parks_its_call(streams: bool | None) -> None:
    async with scene(exclusive=True) as at:
        at.connection.listen()
        await turns()
        background = at.far.lines[-1]
        background.connection.data_received(STREAM)
        waiting, call = await at.begin(exchange())
        background.connection.data_received(event({**QUESTION, "id": 7}))
        parked = cast("Exchange", (await waiting).parked)
        resumed = asyncio.ensure_future(at.connection.resume(parked, {"q7": Answer(result=b"{}")}))
        await posted(at)
        if streams is None:
            call.connection.data_received(STREAM.replace(b"200", b"500"))
            with pytest.raises(UpstreamError, match="HTTP 500"):
                await resumed
            return
        done = result(2, done=True)
        call.connection.data_received(STREAM + event(done) if streams else plain(200, done))
        assert json.loads((await resumed).result) == {"done": True}


async def test_a_call_that_is_withdrawn_before_its_answer_has_begun_is_hung_up() -> None:
    async with scene(exclusive=True) as at:
        at.connection.listen()
        await turns()
        at.come(STREAM)
        background = at.far.lines[-1]
        waiting, call = await at.begin(exchange())
        background.connection.data_received(event({**QUESTION, "id": 7}))
        parked = cast("Exchange", (await waiting).parked)
        assert not call.wire.closed
        at.connection.cancel(parked, "never mind")
        assert call.wire.closed
        await turns()


@pytest.mark.parametrize(
    ("background", "method", "code"), [(False, "ping", None), (True, "ping", None), (True, "roots/list", -32601)]
)
async def test_a_server_that_wants_to_know_whether_we_live_hears_so_and_our_own_requests_are_nobodys(
    background: bool, method: str, code: int | None
) -> None:
    async with scene() as at:
        made = own_exchange("one", "tools/list", b"{}", 50.0) if background else exchange()
        waiting, call = await at.begin(made)
        at.come(STREAM + event({"jsonrpc": "2.0", "id": "p", "method": method, "params": {}}))
        (answer,) = await posted(at)
        call.connection.data_received(event(result(2)))
        await waiting

    assert answer["id"] == "p"
    assert answer.get("error", {}).get("code") == code


async def test_a_call_has_so_many_open_questions() -> None:
    async with scene() as at:
        waiting, _ = await at.begin(exchange())
        at.come(STREAM + b"".join(event({**QUESTION, "id": number}) for number in range(101)))
        (refused,) = await posted(at)
        assert len((await waiting).questions) == 100

    assert (refused["id"], refused["error"]["message"]) == (100, "Too many questions are open already.")


@pytest.mark.parametrize("owned", [True, False])
async def test_a_question_that_its_server_did_not_wait_for_goes_to_the_owner_or_to_nobody(owned: bool) -> None:
    async with scene(owned=owned) as at:
        waiting, _ = await at.begin(exchange())
        at.come(STREAM + event({**QUESTION, "id": 7}) + event(result(2)))
        await waiting
        if owned:
            at.asked[0].set_result(Answer(result=b'{"action":"decline"}'))
        (answer,) = await posted(at)

    assert answer["id"] == 7
    assert answer.get("result") == ({"action": "decline"} if owned else None)
    assert len(at.asked) == owned


# What is said outside calls.


async def listening(at: Scene) -> Line:
    for _ in range(2):  # the second changes nothing
        at.connection.listen()
    await turns()
    at.come(STREAM)
    return at.far.lines[-1]


async def test_a_legacy_server_is_listened_to_once_and_a_modern_one_has_nothing_to_say() -> None:
    for modern in (False, True):
        async with scene(modern=modern) as at:
            at.connection.listen()
            at.connection.listen()
            await turns()
            assert [one.get("http") for one in at.far.messages()].count("GET") == (not modern)


@pytest.mark.parametrize(
    ("owned", "message", "answer"),
    [
        (False, {"method": "notifications/tools/list_changed"}, None),
        (False, {"id": 9, "result": {}}, None),
        (False, {"id": 9, "method": "ping"}, {"result": {}}),
        (True, {"id": 9, "method": "roots/list"}, {"result": {"roots": []}}),
        (False, {"id": 9, "method": "roots/list"}, {"error": -32601}),
    ],
)
async def test_what_a_server_says_outside_calls_is_heard_asked_or_refused(
    owned: bool, message: Json, answer: Json | None
) -> None:
    async with scene(owned=owned) as at:
        await listening(at)
        before = len(at.far.lines)
        at.come(event({"jsonrpc": "2.0", "params": {}, **message}))
        await turns()
        if owned:
            at.asked[0].set_result(Answer(result=b'{"roots":[]}'))
        await turns()
        sent = at.far.messages()[before:]

    assert at.heard == ([message["method"]] if "id" not in message else [])
    assert len(sent) == (answer is not None)
    for one in sent:
        assert one["id"] == 9
        assert one.get("result", {"error": one.get("error", {}).get("code")}) == answer.get("result", answer)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("calls", "exclusive", "asked"), [(1, True, True), (1, False, False), (2, True, False), (0, True, False)]
)
async def test_a_stray_question_is_put_to_the_only_call_of_an_only_user(
    calls: int, exclusive: bool, asked: bool
) -> None:
    async with scene(exclusive=exclusive) as at:
        line = await listening(at)
        begun = [await at.begin(exchange()) for _ in range(calls)]
        before = len(at.far.lines)
        line.connection.data_received(event({**QUESTION, "id": 7}))
        await turns()
        refused = at.far.messages()[before:]
        if asked:
            assert list((await begun[0][0]).questions) == ["q7"]
        elif calls == 1:
            at.far.lines[before - 1].connection.data_received(
                plain(200, {"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "nobody said"}})
            )
            assert [one.method for one in (await begun[0][0]).refused] == ["elicitation/create"]
        for task, _ in begun:
            task.cancel()
        await turns()

    assert [one["error"]["code"] for one in refused] == [-32601] * (not asked)


async def test_a_stray_question_after_a_withdrawn_call_may_be_about_that_one() -> None:
    async with scene(exclusive=True) as at:
        line = await listening(at)
        withdrawn, _ = await at.begin(exchange())
        withdrawn.cancel()
        await turns()
        waiting, _ = await at.begin(exchange())
        line.connection.data_received(event({**QUESTION, "id": 7}))
        await turns()
        assert at.far.last()["error"]["code"] == -32601
        waiting.cancel()
        await turns()


async def test_a_stray_question_beyond_the_most_is_refused() -> None:
    async with scene(exclusive=True) as at:
        line = await listening(at)
        waiting, _ = await at.begin(exchange())
        line.connection.data_received(b"".join(event({**QUESTION, "id": number}) for number in range(101)))
        await turns()
        assert at.far.last()["id"] == 100
        assert len((await waiting).questions) == 100


async def test_so_many_answers_of_ours_may_be_on_their_way_to_one_server() -> None:
    async with scene() as at:
        line = await listening(at)
        before = len(at.far.lines)
        for number in range(203):
            line.connection.data_received(event({"jsonrpc": "2.0", "id": number, "method": "ping", "params": {}}))
            await turns()
        assert len(at.far.lines) - before == 200
        for sent in at.far.lines[before:]:
            sent.connection.data_received(plain(202))
        await turns()
        assert vars(at.connection)["_answering"] == 0
        line.connection.data_received(event({"jsonrpc": "2.0", "id": 300, "method": "ping", "params": {}}))
        await turns()
        assert at.far.last()["id"] == 300


# Messages that get no answer.


async def test_a_message_has_ten_seconds_and_a_forgotten_session_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    patience: list[float | None] = []
    really_timeout = asyncio.timeout

    def timeout(seconds: float | None) -> Any:
        patience.append(seconds)
        return really_timeout(0)

    for session, status, lost in (("mine", 404, True), ("", 404, False), ("mine", 400, False)):
        async with scene(session=session) as at:
            waiting, _ = await at.begin(exchange())
            at.come(STREAM + event({**QUESTION, "id": 7}))
            parked = cast("Exchange", (await waiting).parked)
            resumed = asyncio.ensure_future(at.connection.resume(parked, {"q7": Answer(result=b"{}")}))
            await turns()
            at.come(plain(status))
            await turns()
            assert resumed.done() is lost
            if lost:
                with pytest.raises(UpstreamError, match="could not be reached"):
                    await resumed
            else:
                resumed.cancel()
                await turns()
    async with scene() as at:
        waiting, _ = await at.begin(exchange())
        at.come(STREAM + event({**QUESTION, "id": 7}))
        parked = cast("Exchange", (await waiting).parked)
        monkeypatch.setattr(asyncio, "timeout", timeout)
        with pytest.raises(UpstreamError, match="could not be reached"):
            await at.connection.resume(parked, {"q7": Answer(result=b"{}")})
        monkeypatch.undo()

    assert patience[0] == 10.0


async def test_what_nobody_waits_for_fails_in_silence() -> None:
    async with scene() as at:
        at.far.failure = UnreachableError("gone")
        at.connection.notify("notifications/x", b"{}")
        await turns()
        at.far.failure = ClosedError("gone", untouched=True)
        at.connection.notify("notifications/x", b"{}")
        await turns()
        assert vars(at.connection)["_posting"] == set()


# A pause in a call.


async def test_a_pause_ends_when_its_time_is_over_or_that_of_its_call() -> None:
    one = exchange()
    async with asyncio.timeout(5):
        await pause(one, 0.0)
        assert one.abort is not None
        assert one.abort(UpstreamTimeoutError("late")) is False
        waiting = asyncio.ensure_future(pause(one, 1000.0))
        await turns()
        assert one.abort(UpstreamTimeoutError("over")) is True
        with pytest.raises(UpstreamTimeoutError, match="over"):
            await waiting
        one.expired = UpstreamTimeoutError("before")
        with pytest.raises(UpstreamTimeoutError, match="before"):
            await pause(one, 1000.0)


# Time.


async def test_progress_gives_a_call_more_time_and_nothing_else_does() -> None:
    signs: list[Exchange] = []

    class Counted(Exchange):
        def sign_of_life(self) -> None:
            signs.append(self)

    async with scene() as at:
        call = Counted("one", "tools/call", b"{}")
        waiting, _ = await at.begin(call)
        at.come(STREAM + event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}))
        at.come(event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}) + event(result(2)))
        await waiting

    assert signs == [call]


@pytest.mark.parametrize("when", ["before the server is asked again", "while it is asked again"])
async def test_a_call_whose_time_is_up_waits_for_no_stream_that_is_opened_again(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene() as at:
        call = exchange()
        waiting, _ = await at.begin(call)
        really_send = at.far.send

        async def send(*words: Any, **options: Any) -> tuple[Response, bool]:
            if when.startswith("before"):
                call.expired = UpstreamTimeoutError("Its time is up.")
            return await really_send(*words, **options)

        monkeypatch.setattr(at.far, "send", send)
        before = len(at.far.lines)
        at.come(STREAM + event(id="7", retry=0) + END)
        await until(lambda: len(at.far.lines) > before)
        asked_again = at.far.lines[before]
        await turns()
        if not when.startswith("before"):
            call.timeout = -1.0
            call.ring()
        with pytest.raises(UpstreamTimeoutError):
            await waiting
        assert asked_again.wire.closed


async def test_what_we_ask_for_ourselves_is_answered_on_a_stream_too_and_leaves_nothing() -> None:
    async with asyncio.timeout(60), open_tasks() as tasks:
        for came, fails, closed in (
            (event(result(1, **MODERN)), False, True),
            (event(result(9)) + END, True, False),
            (b"6a\r\ndata: " + b"x" * 100 + b"\r\n", True, True),
        ):
            at = met(Far(), tasks)
            at.connection.spec = ServerSpec(
                "one", url="http://server/mcp", answer_limit=50 if closed and fails else 5000
            )
            opening = asyncio.ensure_future(at.connection.open(era="modern"))
            await turns()
            at.come(STREAM + came)
            await asyncio.wait([opening])
            assert bool(opening.exception()) is fails
            assert at.far.lines[0].wire.closed is closed
            assert vars(at.connection)["_streams"] == {}
            at.far.lines[0].close()


async def test_a_call_may_be_asked_again_before_its_answer_has_begun() -> None:
    async with scene(exclusive=True) as at:
        background = await listening(at)
        waiting, call = await at.begin(exchange())
        for number in (7, 8):
            background.connection.data_received(event({**QUESTION, "id": number}))
            parked = cast("Exchange", (await waiting).parked)
            waiting = asyncio.ensure_future(at.connection.resume(parked, {f"q{number}": Answer(result=b"{}")}))
            await posted(at)
        call.connection.data_received(plain(200, result(2, done=True)))

        assert json.loads((await waiting).result) == {"done": True}


# Credentials.


class Credential:
    """One that has to be fetched, or is renewed when it is refused."""

    user = "ana"

    def __init__(self, lines: bytes | None, spoil: Exchange | None = None) -> None:
        self.lines, self.spoil = lines, spoil
        self.done: list[str] = []

    def headers(self, method: str, url: str) -> bytes | None:
        return self.lines

    async def fetch(self) -> None:
        self.done.append("fetch")
        self.lines = b"authorization: fetched\r\n"

    async def challenged(self, response: Response, sent: bytes) -> bool:
        self.done.append(f"challenged {sent.decode().strip()}")
        self.lines = b"authorization: renewed\r\n"
        if self.spoil is not None:
            self.spoil.expired = UpstreamTimeoutError("Its time is up.")
        return True

    async def is_withheld(self) -> bool:
        return False

    def accepted(self) -> None:
        self.done.append("accepted")

    def needed(self, status: int) -> AuthorizationNeededError:
        return AuthorizationNeededError("It is refused for good.")


async def test_a_request_goes_with_a_credential_which_is_fetched_and_renewed_where_need_be() -> None:
    credential = Credential(b"authorization: good\r\n")
    async with scene(credential=credential) as at:
        credential.lines = None
        waiting, fetched = await at.begin(exchange())
        at.come(plain(200, result(2)))
        await waiting
        waiting, refused = await at.begin(exchange())
        at.come(plain(401))
        await turns()
        again = at.far.lines[-1]
        at.come(plain(200, result(3, done=True)))
        reply = await waiting

    lines = [sent_header(line, "authorization") for line in (fetched, refused, again)]
    assert lines == ["fetched", "fetched", "renewed"]
    assert [said(line)["id"] for line in (fetched, refused, again)] == [2, 3, 3]
    assert credential.done == ["fetch", "challenged authorization: fetched", "accepted"]
    assert json.loads(reply.result) == {"done": True}


async def test_where_there_is_no_credential_a_refusal_is_the_answer() -> None:
    async with scene() as at:
        waiting, _ = await at.begin(exchange())
        before = len(at.far.lines)
        at.come(plain(401))
        with pytest.raises(UpstreamError, match="401"):
            await waiting
        assert len(at.far.lines) == before


async def test_a_call_whose_time_was_up_while_its_credential_was_renewed_is_not_sent_again() -> None:
    call = exchange()
    async with scene(credential=Credential(b"authorization: good\r\n", spoil=call)) as at:
        waiting, _ = await at.begin(call)
        at.come(plain(401))
        with pytest.raises(UpstreamTimeoutError):
            await waiting
        assert [one for one in at.far.messages() if one.get("method") == "tools/call"] == [at.far.messages()[2]]
