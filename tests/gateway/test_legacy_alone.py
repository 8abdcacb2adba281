"""The edge of legacy callers alone: what is passed on and in which form, what is told before an answer, who leaves."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.gateway.behind import Behind, Paper, turns
from trunkline.errors import BusyError, TrunklineError, UnknownNameError
from trunkline.gateway.mcp.legacy import LegacyEdge, Outlet, legacy_result
from trunkline.gateway.mcp.sessions import Session, Sessions
from trunkline.gateway.request import Request
from trunkline.identity import EVERYONE, Scope
from trunkline.model import Answer, Call, Question, Reply
from trunkline.tasks import open_tasks
from trunkline.telemetry.record import ASKED
from trunkline.wire.envelope import read_caller_message, read_params

ELICITS = b'{"elicitation":{}}'
QUESTION = Question("elicitation/create", b'{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}')
SAMPLE = Question("sampling/createMessage", b"{}")
STREAMS, PLAIN = b"application/json, text/event-stream", b"application/json"
ECHO: dict[str, Any] = {"name": "echo", "arguments": {}}


class Desk:
    """The edge with one session, and what was asked of those behind it."""

    def __init__(self, edge: LegacyEdge, behind: Behind, one: Session) -> None:
        self.edge, self.behind, self.session = edge, behind, one
        self.papers: list[Paper] = []
        self.calls: list[Request] = []

    def request(self, *, accept: bytes = STREAMS) -> Request:
        """A request of the session's caller."""
        self.papers.append(Paper())
        headers = {b"accept": accept, b"mcp-session-id": self.session.id.encode()}
        request = Request(self.papers[-1], "POST", "/mcp", headers, b"")
        request.task = asyncio.current_task()
        return request

    async def post(self, method: str, params: dict[str, Any] | None = None, *, accept: bytes = STREAMS) -> Paper:
        """What is answered to a request; what has no id is a notification."""
        id = {} if method.startswith("notifications/") else {"id": "mine"}
        body = json.dumps({"jsonrpc": "2.0", **id, "method": method, "params": params or {}}).encode()
        message = read_caller_message(body)
        request, paper = self.request(accept=accept), self.papers[-1]
        await self.edge.post(message, read_params(message), request)
        return paper


@asynccontextmanager
async def desk(
    outcome: Reply | TrunklineError | None = None, *, version: str = "2025-11-25", capabilities: bytes = b"{}"
) -> AsyncGenerator[Desk]:
    behind = Behind(outcome)
    every = cast("Any", behind)
    sessions = Sessions(most=5, idle=1000.0, question_timeout=5.0)
    one = Session(version, capabilities, b"", opened_by=EVERYONE, scope=EVERYONE, replay=10)
    sessions.add(one)
    async with asyncio.timeout(30), open_tasks() as tasks:
        gateway = cast("Any", SimpleNamespace(question_timeout=5.0, replay_events=10))
        yield Desk(LegacyEdge(every, gateway, sessions, every, tasks, every, every), behind, one)


def error_in(paper: Paper) -> Any:
    body = paper.data.partition(b"\r\n\r\n")[2]
    return json.loads(body.partition(b"data:")[2] if body.startswith(b"event") else body)["error"]


# What is passed on.


async def test_a_call_goes_to_servers_however_many_they_are_and_what_is_unknown_to_one_alone() -> None:
    for bare, calls in (("", ["tools/call"]), ("one", ["tools/call", "odd/method"])):
        async with desk() as at:
            at.behind.bare = bare
            for method in ("tools/call", "odd/method", "ping"):
                await at.post(method, ECHO)

            assert [call.method for call in at.behind.calls] == calls
            assert error_in(at.papers[1])["code"] == -32601 if not bare else b"error" not in at.papers[1].data
            assert b'"result":{}' in at.papers[2].data


async def test_a_call_is_in_the_thread_of_its_session_unless_its_request_names_another() -> None:
    async with desk() as at:
        at.session.scope = Scope(thread="abc")
        for thread in ("", "abc", "a"):
            request = at.request()
            request.thread = thread
            message = read_caller_message(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}')
            await at.edge.post(message, {}, request)

        assert [call.scope.thread for call in at.behind.calls] == ["abc", "abc", "the thread a"]


async def test_errors_are_told_in_the_words_and_the_status_of_this_era() -> None:
    for method in ("resources/subscribe", "resources/read"):
        async with desk(UnknownNameError("Unknown resource: page://a")) as at:
            paper = await at.post(method, {"uri": "page://a"})

            assert (paper.status, error_in(paper)) == (
                200,
                {"code": -32002, "message": "Unknown resource: page://a", "data": {"uri": "page://a"}},
            )
            assert b"text/event-stream" in paper.data


@pytest.mark.parametrize("accept", [STREAMS, PLAIN])
async def test_who_must_come_again_later_is_told_so_in_the_head(accept: bytes) -> None:
    async with desk(BusyError("Too much.")) as at:
        paper = await at.post("tools/call", ECHO, accept=accept)

    assert paper.status == 503
    assert b"retry-after: 1" in paper.data.lower()
    assert b"content-type: application/json" in paper.data.lower()
    assert error_in(paper)["message"] == "Too much."


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (b'{"code":-32002,"message":"No."}', (-32002, "No.")),
        (b'{"code":-32603,"message":""}', (-32603, "The server refused.")),
        (b'{"code":"x"}', (-32603, "The server refused.")),
        (b"{}", (-32603, "The server refused.")),
    ],
)
async def test_a_server_that_refuses_a_subscription_is_quoted(error: bytes, told: tuple[int, str]) -> None:
    async with desk(Reply(error=error, modern=False)) as at:
        refused = error_in(await at.post("resources/subscribe", {"uri": "page://a"}))

        assert (refused["code"], refused["message"]) == told
        assert at.session.watched == set()


def test_a_result_of_a_legacy_server_is_not_touched_and_one_of_a_modern_loses_the_words_of_its_era() -> None:
    result = b'{ "resultType":"complete", "x": 1}'

    assert legacy_result(Reply(result=result, modern=False)) == result
    assert json.loads(legacy_result(Reply(result=result, modern=True))) == {"x": 1}


# What comes before an answer.


async def test_log_messages_are_told_from_the_level_on_that_the_caller_wants() -> None:
    async with desk() as at, open_tasks() as tasks:
        await at.post("logging/setLevel", {"level": "error"})
        outlet = Outlet(at.session, at.request(), tasks)
        deaf = Outlet(at.session, at.request(accept=PLAIN), tasks)
        for one in (outlet, deaf):
            one.notify("notifications/message", b'{"level":"info"}')
            one.notify("notifications/message", b'{"level":"alert"}')
            one.notify("notifications/progress", b'{"progress":1,"level":"debug"}')
        await outlet.finish(b"{}", 200, [])
        await deaf.finish(b"{}", 200, [])

    heard = at.papers[1].data
    assert (b"info" in heard, b"alert" in heard, b"progress" in heard) == (False, True, True)
    assert b"notifications" not in at.papers[2].data


async def test_notifications_are_dropped_when_too_many_wait() -> None:
    async with desk() as at, open_tasks() as tasks:
        outlet = Outlet(at.session, at.request(), tasks)
        for _ in range(1_100):
            outlet.notify("notifications/progress", b"{}")

        assert outlet.stream().dropped == 1_100 - 1_000  # one of those that wait is the event to resume from
        await outlet.finish(b"{}", 200, [])


@pytest.mark.parametrize(
    ("version", "accept", "hangs_up"),
    [("2025-11-25", STREAMS, True), ("2025-06-18", STREAMS, False), ("2025-11-25", PLAIN, False)],
)
async def test_who_can_come_back_is_made_to_poll_where_the_server_wants_that(
    version: str, accept: bytes, hangs_up: bool
) -> None:
    async with desk(version=version) as at, open_tasks() as tasks:
        outlet = Outlet(at.session, at.request(accept=accept), tasks)
        outlet.hang_up(1.5)
        await turns()

        assert (b"retry: 1500" in at.papers[0].data) is hangs_up
        assert at.papers[0].data.endswith(b"0\r\n\r\n") is hangs_up
        await outlet.finish(b'{"late":1}', 200, [])
        assert (b"late" in at.papers[0].data) is not hangs_up


# Who leaves.


async def test_a_caller_that_left_is_written_nothing_and_can_come_back_only_for_a_stream() -> None:
    for version, streams, cancels in (
        ("2025-11-25", True, False),
        ("2025-11-25", False, True),
        ("2025-06-18", True, True),
    ):
        async with desk(version=version) as at, open_tasks() as tasks:
            outlet = Outlet(at.session, at.request(), tasks)
            if streams:
                outlet.notify("notifications/progress", b"{}")
            await turns()
            task = asyncio.ensure_future(asyncio.Event().wait())
            await turns()
            at.papers[0].closed = streams  # what was begun cannot be written on
            outlet.caller_left(task)
            await turns()

            assert task.cancelled() is cancels
            before = at.papers[0].data
            await outlet.finish(b'{"late":1}', 200, [])
            assert b"late" not in at.papers[0].data
            assert streams or at.papers[0].data == before
            task.cancel()


Ends = Callable[[Desk, "asyncio.Task[Paper]"], Awaitable[object]]


async def withdraws(at: Desk, calling: asyncio.Task[Paper]) -> None:
    await at.post("notifications/cancelled", {"requestId": "mine", "reason": "not needed"})


async def hangs_up(at: Desk, calling: asyncio.Task[Paper]) -> None:
    at.calls[0].hung_up()


async def is_stopped(at: Desk, calling: asyncio.Task[Paper]) -> None:
    at.session.in_flight.clear()
    calling.cancel()


@pytest.mark.parametrize(("ends", "answered"), [(withdraws, True), (hangs_up, False), (is_stopped, False)])
@pytest.mark.parametrize("accept", [STREAMS, PLAIN])
async def test_a_call_that_is_withdrawn_ends_without_an_answer_and_any_other_end_is_passed_on(
    ends: Ends, answered: bool, accept: bytes
) -> None:
    async with desk() as at:
        begun = asyncio.Event()
        at.session.last_seen = 0.0

        async def handle(call: Call) -> Reply:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        at.behind.handle = handle  # type: ignore[method-assign]
        calling = asyncio.ensure_future(call_of(at, accept))
        await begun.wait()
        assert at.session.open_requests == 1
        at.session.last_seen = 0.0
        await ends(at, calling)
        await asyncio.wait([calling])

        assert calling.cancelled() is not answered
        assert calling.cancelling() == (0 if answered else 1)
        assert (at.session.in_flight, at.session.open_requests) == ({}, 0)
        assert at.session.last_seen > time.monotonic() - 1000
        assert (b" 200 " if accept == STREAMS else b" 202 ") in at.papers[0].data or not answered
        assert b"result" not in at.papers[0].data
        assert b"error" not in at.papers[0].data


async def call_of(at: Desk, accept: bytes) -> Paper:
    request = at.request(accept=accept)
    at.calls.append(request)
    message = read_caller_message(b'{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"a"}}')
    await at.edge.post(message, read_params(message), request)
    return at.papers[0]


# Who is asked.


async def test_only_what_the_caller_declared_is_put_to_it_and_others_may_answer_that_alone() -> None:
    async with desk(capabilities=ELICITS) as at, open_tasks() as tasks:
        open_questions: dict[str, Callable[[Answer], str]] = {}

        def add(call: Call, server: str, question: Question, seconds: float, given: Callable[[Answer], str]) -> str:
            open_questions[question.method] = given
            return question.method

        questions = SimpleNamespace(add=add, remove=open_questions.pop)
        edge = SimpleNamespace(_gateway=SimpleNamespace(question_timeout=5.0), _questions=questions)
        outlet = Outlet(at.session, at.request(), tasks)
        call = Call("tools/call", "t", {})
        call.notes = []
        asks = vars(LegacyEdge)["_ask"](edge, at.session, outlet, call, {"a": QUESTION, "b": SAMPLE})
        asking = asyncio.ensure_future(asks)
        await turns()
        assert list(open_questions) == ["elicitation/create"]
        given = open_questions["elicitation/create"]
        wrong = given(Answer(result=b'{"action":"perhaps"}'))
        waits = not asking.done()
        right = given(Answer(result=b'{"action":"decline"}'))
        again = given(Answer(result=b'{"action":"cancel"}'))
        answers = await asking
        await outlet.finish(b"{}", 200, [])

    assert (bool(wrong), waits, right, again) == (True, True, "", "")
    assert answers["a"].result == b'{"action":"decline"}'
    assert json.loads(answers["b"].error)["code"] == -32601
    assert [note[:2] for note in call.notes or ()] == [(ASKED, "the caller")]
    assert open_questions == {}
    heard = at.papers[0].data
    assert (heard.count(b"elicitation/create"), heard.count(b"sampling"), heard.count(b"elsewhere")) == (1, 0, 1)
