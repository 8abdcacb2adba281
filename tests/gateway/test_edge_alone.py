"""The edges of both eras alone, with a stand-in for what is behind them: what they hand on, and in which order."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.gateway.behind import Behind, Paper, session, turns
from trunkline.call.tasks.log import At, Known, Task
from trunkline.errors import TrunklineError, UnknownNameError
from trunkline.gateway.mcp import legacy
from trunkline.gateway.mcp.legacy import LegacyEdge
from trunkline.gateway.mcp.modern import ListenStream, ModernEdge, Outlet
from trunkline.gateway.mcp.sessions import Session
from trunkline.gateway.mcp.stream import Stream
from trunkline.gateway.request import Request
from trunkline.identity import EVERYONE, Scope
from trunkline.model import Call, Kind, Question, Reply
from trunkline.tasks import Tasks, open_tasks
from trunkline.tenancy.people import Admission
from trunkline.wire.envelope import read_caller_message, read_params
from trunkline.wire.headers import read_said

VERSION = "2026-07-28"
CAPABILITIES: dict[str, Any] = {}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def modern(behind: Behind, tasks: Tasks) -> ModernEdge:
    every = cast("Any", behind)
    return ModernEdge(every, every, tasks, every, every)


def asked(
    method: str, params: dict[str, Any] | None = None, *, capabilities: dict[str, Any] = CAPABILITIES, **headers: str
) -> tuple[Request, Paper]:
    """A modern request, with headers that fit."""
    own = {"io.modelcontextprotocol/protocolVersion": VERSION}
    meta = {**own, "io.modelcontextprotocol/clientCapabilities": capabilities}
    body = {"jsonrpc": "2.0", "id": "mine", "method": method, "params": {**(params or {}), "_meta": meta}}
    named = {"mcp-name": str((params or {}).get("name") or (params or {}).get("uri") or "")}
    said = {"mcp-protocol-version": VERSION, "mcp-method": method, **(named if params else {}), **headers}
    paper = Paper()
    lines = {name.replace("_", "-").encode(): value.encode() for name, value in said.items()}
    return Request(paper, "POST", "/mcp", lines, json.dumps(body).encode(), said=read_said(lines)), paper


async def post(behind: Behind, request: Request) -> None:
    async with asyncio.timeout(30), open_tasks() as tasks:
        request.task = asyncio.current_task()
        message = read_caller_message(request.body)
        await modern(behind, tasks).post(message, read_params(message), request)


ECHO: dict[str, Any] = {"name": "echo", "arguments": {}}


# Calls.


async def test_a_call_says_all_that_its_request_does() -> None:
    behind = Behind()
    request, paper = asked("tools/call", ECHO, mcp_param_region="eu", traceparent="00-a-b-01")
    request.admission = Admission(EVERYONE, issuer="https://issuer.example")
    request.headers = {**request.headers, b"authorization": b"Bearer abc"}
    await post(behind, request)

    (call,) = behind.calls
    assert (call.method, call.name, call.caller.modern, call.caller.version) == ("tools/call", "echo", True, VERSION)
    assert call.headers == {b"mcp-param-region": b"eu"}
    assert call.sent_headers is request.headers
    assert (call.token, call.traceparent) == (b"abc", b"00-a-b-01")
    assert (call.timeout, call.cached, call.unlisted, call.whole) == (0.0, True, False, False)
    assert paper.status == 200
    assert paper.data.endswith(b'{"jsonrpc":"2.0","id":"mine","result":{}}')


async def test_a_call_without_headers_of_its_own_passes_none_on() -> None:
    behind = Behind()
    await post(behind, asked("tools/call", ECHO)[0])

    assert behind.calls[0].headers == {}


async def test_a_command_of_this_machine_has_its_time_a_fresh_answer_and_what_lists_do_not_show() -> None:
    behind = Behind()
    request, _ = asked("tools/call", ECHO)
    request.local, request.patience = True, 7.5
    await post(behind, request)

    (call,) = behind.calls
    assert (call.timeout, call.cached, call.unlisted, call.whole) == (7.5, False, True, True)
    assert call.sent_headers is None


async def test_a_call_is_made_in_the_thread_that_its_request_names() -> None:
    behind = Behind()
    for thread in ("", "t"):
        request, _ = asked("tools/call", ECHO)
        request.scope, request.thread = Scope(user="ann"), thread
        await post(behind, request)

    assert [(call.scope.user, call.scope.thread) for call in behind.calls] == [("ann", ""), ("ann", "the thread t")]


async def test_what_goes_to_servers_goes_there_however_many_they_are_and_the_rest_to_nobody() -> None:
    behind = Behind()
    await post(behind, asked("resources/read", {"uri": "page://a"})[0])
    assert [call.method for call in behind.calls] == ["resources/read"]

    with pytest.raises(TrunklineError, match="no method 'odd/method'"):
        await post(behind, asked("odd/method")[0])
    assert len(behind.calls) == 1


async def test_errors_are_told_in_the_words_of_this_era() -> None:
    request, paper = asked("resources/read", {"uri": "page://a"})
    await post(Behind(UnknownNameError("Unknown resource: page://a")), request)

    assert paper.status == 400
    assert json.loads(paper.data.partition(b"\r\n\r\n")[2])["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("code", "status"),
    [(-32601, 404), (-32603, 200), (-32000, 200)]
    + [(code, 400) for code in (-32700, -32600, -32602, -32020, -32021, -32022)],
)
async def test_an_error_of_a_server_has_the_status_that_goes_with_its_code(code: int, status: int) -> None:
    request, paper = asked("tools/call", ECHO)
    await post(Behind(Reply(error=b'{"code":%d,"message":"m"}' % code, modern=True)), request)

    assert paper.status == status


# Lists and introductions.


async def test_a_list_that_was_shown_is_recorded_as_its_callers() -> None:
    behind = Behind()
    request, paper = asked("tools/list")
    request.scope = Scope(user="ann")
    await post(behind, request)

    assert behind.done == [("listed", "ann", Kind.TOOL, b'{"page":1}', "")]
    assert paper.data.endswith(b'"result":{"page":1}}')


async def test_whoever_wants_an_introduction_waits_until_servers_had_their_first_try() -> None:
    behind = Behind()
    await post(behind, asked("server/discover")[0])

    assert behind.done[-2:] == ["settle", "view"]


# Subscriptions.


async def test_whoever_listens_is_known_from_then_on_until_it_hangs_up() -> None:
    behind = Behind()
    wanted = {"toolsListChanged": True, "taskIds": ["b", "a", "refused", "a"]}
    request, paper = asked("subscriptions/listen", {"notifications": wanted}, capabilities=TASKS)
    listening = asyncio.create_task(post(behind, request))
    async with asyncio.timeout(30):
        while b"acknowledged" not in paper.data:  # noqa: ASYNC110 - what a stream writes
            await asyncio.sleep(0)
    assert behind.done == ["join", "follow b", "follow a", "follow refused"]
    paper.closed = True
    request.hung_up()
    await listening

    said = json.loads(paper.data.partition(b"data:")[2].partition(b"\n")[0])
    assert said["params"]["notifications"] == {"toolsListChanged": True, "taskIds": ["a", "b"]}
    assert sorted(behind.done[4:]) == ["leave", "unfollow a", "unfollow b"]


async def test_who_knows_tasks_need_not_follow_any() -> None:
    behind = Behind()
    request, paper = asked("subscriptions/listen", {"notifications": {"taskIds": []}}, capabilities=TASKS)
    listening = asyncio.create_task(post(behind, request))
    async with asyncio.timeout(30):
        while b"acknowledged" not in paper.data:  # noqa: ASYNC110 - what a stream writes
            await asyncio.sleep(0)
    paper.closed = True
    request.hung_up()
    await listening

    assert b"taskIds" not in paper.data


async def test_news_of_tasks_reach_who_follows_them_after_what_is_granted() -> None:
    stream, told = Stream(), list[Any]()

    class News:
        granted: tuple[str, ...] = ()

        def begin(self) -> None:
            told.append("begin")

        def changed(self, task: Task, params: bytes) -> None:
            told.append((task.id, params))

    one = ListenStream(stream, b'"mine"', {}, EVERYONE, "")
    known = Known(Task("a", "one", "own", At.MODERN), "", 1)
    one.task_changed(known, "notifications/tasks", b"{}")  # which nobody follows
    one.news = cast("Any", News())
    one.acknowledge()
    one.task_changed(known, "notifications/tasks", b'{"x":1}')

    assert told == ["begin", ("a", b'{"x":1}')]
    (text,) = [text for _, text in vars(stream)["_events"]]
    assert b"taskIds" not in text


# What waits for who reads slowly.


async def test_notifications_are_dropped_when_too_many_wait_and_none_comes_after_the_answer() -> None:
    request, _ = asked("tools/call", ECHO)
    async with open_tasks() as tasks:
        outlet = Outlet(request, tasks, "debug")
        for _ in range(1_100):
            outlet.notify("notifications/progress", b"{}")
        assert outlet.stream is not None
        assert outlet.stream.dropped == 1_100 - 1_001
        listens = ListenStream(Stream(), b"1", {}, EVERYONE, "")
        for _ in range(1_100):
            listens.tell("notifications/progress", b"{}")
        assert vars(listens)["_stream"].dropped == 1_100 - 1_001

        over, strip = asked("tools/call", ECHO)
        late = Outlet(over, tasks, "debug")
        over.answer(200, b"{}")
        said = strip.data
        late.notify("notifications/progress", b"{}")
        await asyncio.sleep(0)
        assert late.stream is None
        assert strip.data == said


# Sessions.


async def end(behind: Behind, one: Session) -> None:
    edge = SimpleNamespace(sessions=behind, _subscribers=behind, _relay=behind)
    await vars(LegacyEdge)["_end"](edge, one)


@pytest.mark.parametrize(("bare", "thread", "done"), [("", "", []), ("one", "t", ["legacy"])])
async def test_a_session_begins_when_servers_had_their_first_try_in_the_thread_that_is_named(
    bare: str, thread: str, done: list[str]
) -> None:
    behind = Behind()
    behind.bare = bare
    edge = SimpleNamespace(
        _relay=behind, sessions=behind, _subscribers=behind, _gateway=SimpleNamespace(replay_events=0)
    )
    paper = Paper()
    request = Request(paper, "POST", "/mcp", {}, b"")
    request.thread = thread
    message = read_caller_message(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    await vars(LegacyEdge)["_initialize"](edge, message, {"protocolVersion": b'"2025-11-25"'}, request)

    named = f"the thread {thread}" if thread else ""
    assert [one for one in behind.done if one != "view"] == ["settle", *done, named, "join"]
    assert behind.done.index("settle") < behind.done.index("view")
    assert b'"protocolVersion":"2025-11-25"' in paper.data


async def test_a_request_of_a_session_may_name_another_thread() -> None:
    behind, one = Behind(), session()
    edge = SimpleNamespace(_relay=behind, _lists=behind)
    edge.__dict__["_own_result"] = partial(vars(LegacyEdge)["_own_result"], edge)
    for thread in ("", "t"):
        request = Request(Paper(), "POST", "/mcp", {}, b"")
        request.thread = thread
        message = read_caller_message(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}')
        await vars(LegacyEdge)["_request"](edge, one, message, {}, request)

    assert [one[-1] for one in behind.done if one[0] == "listed"] == ["", "the thread t"]


@pytest.mark.parametrize("resumes", [True, False])
async def test_who_listens_anew_takes_the_place_of_who_listened_before(resumes: bool) -> None:
    one = session(replay=10)
    edge = SimpleNamespace(_session=lambda _: one)  # type: ignore[reportUnknownLambdaType]
    papers, reading = [Paper(), Paper()], list[asyncio.Task[None]]()
    async with asyncio.timeout(30):
        for number, paper in enumerate(papers):
            headers = {b"accept": b"text/event-stream"} | ({b"last-event-id": b"1-1"} if number and resumes else {})
            get = vars(LegacyEdge)["get"](edge, Request(paper, "GET", "/mcp", headers, b""))
            reading.append(asyncio.ensure_future(get))
            await turns()
            one.said("notifications/odd", b'{"number":%d}' % number)
            await turns()
        assert [task.done() for task in reading] == [True, False]
        one.drain()
        await reading[1]

    assert [b'"number":0' in paper.data for paper in papers] == [True, False]
    assert [b'"number":1' in paper.data for paper in papers] == [False, True]
    assert one.open_requests == 0


async def test_servers_hear_that_calls_of_a_session_are_off_before_its_connections_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behind, one, begun, patience = Behind(), session(), asyncio.Event(), list[float]()
    one.watched = {"page://a"}
    really_wait = asyncio.wait

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):  # turns of the loop that telling a server takes
                await asyncio.sleep(0)
            behind.done.append("off")

    async def wait(tasks: Any, timeout: float) -> Any:
        patience.append(timeout)
        return await really_wait(tasks, timeout=timeout)

    monkeypatch.setattr(asyncio, "wait", wait)
    one.in_flight[b"1"] = asyncio.ensure_future(work())
    async with asyncio.timeout(30):
        await begun.wait()
        await end(behind, one)

    assert behind.done == ["remove", "leave", "off", "unwatch page://a", "end"]
    assert patience == [2.0]


async def test_a_session_in_which_nothing_runs_ends_at_once() -> None:
    behind = Behind()
    await end(behind, session())

    assert behind.done == ["remove", "leave", "end"]


async def test_a_question_waits_for_its_answer_as_long_as_is_configured_and_is_open_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience, open_questions, stream = list[float | None](), list[str](), Stream()
    really_timeout = asyncio.timeout

    def timeout(seconds: float | None) -> asyncio.Timeout:
        patience.append(seconds)
        return really_timeout(0)

    def add(*_: object) -> str:
        open_questions.append("q")
        return "q"

    one = Session("2025-11-25", b'{"elicitation":{}}', b"", opened_by=EVERYONE, scope=EVERYONE, replay=0)
    questions = SimpleNamespace(add=add, remove=open_questions.remove)
    edge = SimpleNamespace(_gateway=SimpleNamespace(question_timeout=7.0), _questions=questions)
    outlet = SimpleNamespace(streams=True, stream=lambda: stream)
    asks = vars(LegacyEdge)["_ask"](
        edge, one, outlet, Call("tools/call", "t", {}), {"a": Question("elicitation/create", b"{}")}
    )
    monkeypatch.setattr(asyncio, "timeout", timeout)
    with pytest.raises(TrunklineError, match="within 7 s"):
        await asks

    assert patience == [7.0]
    assert open_questions == []


async def test_sessions_are_looked_through_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    class PausedError(Exception):
        pass

    async def sleep(seconds: float) -> None:
        raise PausedError(seconds)

    monkeypatch.setattr(legacy.asyncio, "sleep", sleep)
    with pytest.raises(PausedError, match=r"^5\.0$"):
        await vars(LegacyEdge)["_expire"](SimpleNamespace())
