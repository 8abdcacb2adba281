"""Sessions, by their rules: how many there are, what ends them, and what comes back on their streams."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.gateway.behind import Paper
from trunkline.call.tasks.log import At, Known, Task
from trunkline.errors import RefusedError
from trunkline.gateway.mcp import sessions as module
from trunkline.gateway.mcp import stream as streaming
from trunkline.gateway.mcp.sessions import Session, Sessions
from trunkline.gateway.mcp.stream import BACKLOG, Stream
from trunkline.gateway.request import Request
from trunkline.identity import Scope
from trunkline.model import Kind
from trunkline.wire.envelope import Message

ELICITS = b'{"elicitation":{}}'
BACKLOG_BYTES = 8 * 2**20
"""Bytes that may wait for a slow reader."""
REPLAY_BYTES = 2**20
"""Bytes kept of what was sent already."""
KEPT = 8
"""Streams that ended and can still be resumed."""


def session(capabilities: bytes = b"{}", *, replay: int = 100, user: str = "") -> Session:
    whose = Scope(user=user)
    return Session("2025-11-25", capabilities, b"", opened_by=whose, scope=whose, replay=replay)


def sessions(**options: Any) -> Sessions:
    usual: dict[str, Any] = {"most": 2, "idle": 10.0, "question_timeout": 5.0}
    return Sessions(**{**usual, **options})


async def heard(stream: Stream, *, after: int = -1) -> list[str]:
    """What a reader that comes now gets, until nothing more is there."""
    paper = Paper()
    reader = asyncio.create_task(stream.pump(Request(paper, "GET", "/", {}, b""), after=after))
    for _ in range(5):
        await asyncio.sleep(0)
    stream.hang_up()
    await reader
    lines = paper.data.decode().splitlines()
    return [line[5:].strip() for line in lines if line.startswith("data:")]


# Which there are.


async def test_the_session_idle_longest_makes_room_unless_something_is_open() -> None:
    kept, first, second, third = sessions(), session(), session(), session()

    assert kept.add(first) == kept.add(second) == []
    first.open_requests = 1
    assert kept.add(third) == [second]
    third.open_requests = 1
    fourth = session()
    fourth.open_requests = 1
    assert kept.add(fourth) == [first]
    assert len(kept) == 2
    kept.remove(third)
    kept.remove(third)
    assert len(kept) == 1
    assert kept.get(third.id.encode()) is None


async def test_a_session_that_is_used_is_not_the_one_idle_longest() -> None:
    kept, first, second = sessions(), session(), session()
    kept.add(first)
    kept.add(second)

    assert kept.get(first.id.encode()) is first
    assert kept.get(b"\xff") is None
    assert kept.add(session()) == [second]


async def test_sessions_end_when_they_were_idle_so_long_and_nothing_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    kept, old, busy, young = sessions(most=9), session(), session(), session()
    for one in (old, busy, young):
        kept.add(one)
    busy.open_requests = 1
    now[0] = 105.0
    kept.get(young.id.encode())

    assert kept.expired(109.9) == []
    assert kept.expired(110.0) == [old]
    assert kept.expired(114.9) == []
    assert kept.expired(115.0) == [young]
    assert len(kept) == 1


async def test_sessions_end_a_minute_after_their_token_unless_it_was_renewed_or_a_call_runs() -> None:
    kept, old, busy, renewed, endless = sessions(most=9), session(), session(), session(), session()
    for one, ends in ((old, 1000.0), (busy, 1000.0), (renewed, 2000.0), (endless, 0.0)):
        kept.add(one)
        one.expires = ends
    busy.open_requests = 1
    now = time.monotonic()

    assert kept.expired(now, 1060.0) == []
    assert kept.expired(now, 1060.1) == [old]
    busy.open_requests = 0
    assert kept.expired(now, 1060.1) == [busy]
    assert len(kept) == 2


# What is asked.


async def test_an_answer_counts_once_for_the_question_it_names() -> None:
    asked, stream = session(ELICITS), Stream(key="1")
    first, second = (asked.ask(stream, "elicitation/create", b"{}") for _ in range(2))
    numbers = [json.loads(text)["id"] for text in await heard(stream)]

    asked.answered(Message(id=b"99", result=b'{"a":0}'))
    asked.answered(Message(id=b"%d" % numbers[1], result=b'{"a":2}'))
    asked.answered(Message(id=b"%d" % numbers[1], result=b'{"a":3}'))
    assert numbers == [1, 2]
    assert not first.done()
    assert (await second).result == b'{"a":2}'
    asked.close()
    assert b"session ended" in (await first).error


async def test_what_a_server_asks_outside_a_call_is_asked_of_those_who_can_and_for_so_long() -> None:
    kept, able, unable = sessions(question_timeout=0.0), session(ELICITS), session()
    kept.add(able)
    kept.add(unable)

    nobody = await kept.ask("nobody", "elicitation/create", b"{}")
    cannot = await kept.ask(unable.id, "elicitation/create", b"{}")
    silence = kept.ask(able.id, "elicitation/create", b"{}")
    assert able.background is not None
    assert [json.loads(text)["method"] for text in await heard(able.background)] == ["elicitation/create"]
    await asyncio.wait([silence], timeout=5)

    assert b"gone" in nobody.error
    assert json.loads(cannot.error)["code"] == -32601
    assert silence.cancelled()


# What is heard.


async def test_log_messages_are_heard_from_the_wanted_level_on() -> None:
    caller = session()
    said = [b'{"level":"info"}', b'{"level":"error"}', b'{"level":"odd"}', b"{}"]

    assert [caller.wants_log(one) for one in said] == [True] * 4
    caller.set_level("error")
    assert [caller.wants_log(one) for one in said] == [False, True, True, True]
    assert caller.caller.log_level == "error"
    with pytest.raises(RefusedError):
        caller.set_level("loud")
    assert caller.log_level == "error"


async def test_a_session_hears_of_what_it_watches_alone() -> None:
    caller = session()
    caller.changed(Kind.TOOL)  # nobody listens yet
    stream = caller.listen()
    caller.watched.add("file:///a")
    caller.set_level("error")
    caller.updated("file:///a", b'{"uri":"file:///a"}')
    caller.updated("file:///b", b'{"uri":"file:///b"}')
    caller.said("notifications/message", b'{"level":"info"}')
    caller.said("notifications/message", b'{"level":"error"}')
    caller.said("notifications/other", b"{}")
    caller.changed(Kind.PROMPT)

    told = [json.loads(text) for text in await heard(stream)]
    assert [one["method"].removeprefix("notifications/") for one in told] == [
        "resources/updated",
        "message",
        "other",
        "prompts/list_changed",
    ]
    assert told[0]["params"] == {"uri": "file:///a"}


async def test_what_happens_while_nobody_listens_is_kept_up_to_a_bound() -> None:
    caller = session()
    stream = caller.listen()
    for _ in range(BACKLOG + 5):
        caller.changed(Kind.TOOL)

    assert stream.dropped == 4


async def test_without_replay_nothing_is_kept_for_a_stream_that_nobody_reads() -> None:
    caller = session(replay=0)
    stream = caller.listen()
    caller.changed(Kind.TOOL)

    assert await heard(stream) == []


async def test_a_second_reader_takes_the_place_of_the_first() -> None:
    caller, paper = session(), Paper()
    stream = caller.listen()
    reader = asyncio.create_task(stream.pump(Request(paper, "GET", "/", {}, b"")))
    await asyncio.sleep(0)
    assert stream.attached

    assert caller.listen() is stream
    async with asyncio.timeout(5):
        await reader
    assert not stream.attached
    caller.close()
    assert caller.listen() is not stream


# What can be resumed.


@pytest.mark.parametrize(
    ("event", "found"), [("1-2", 2), ("1-0", 0), ("1-", None), ("1-x", None), ("2-1", None), ("1-1234567890", None)]
)
async def test_a_stream_is_found_by_the_ids_of_its_events(event: str, found: int | None) -> None:
    caller = session()
    stream = caller.new_stream()
    stream.push(b'{"n":1}')
    stream.push(b'{"n":2}')
    resumed = caller.resumed(event)

    assert resumed == (None if found is None else (stream, found))
    if found is not None:
        assert await heard(stream, after=found) == ['{"n":1}', '{"n":2}'][found:]


async def test_of_streams_that_ended_so_many_are_kept() -> None:
    caller = session()
    streams = [caller.new_stream() for _ in range(KEPT + 3)]
    for stream in streams[1:]:
        stream.finish()
    caller.new_stream()

    assert [caller.resumed(f"{one.key}-0") is not None for one in streams] == [True] + [False] * 2 + [True] * KEPT


async def test_a_stream_that_somebody_reads_is_kept_however_many_ended() -> None:
    caller, paper = session(), Paper()
    read = caller.new_stream()
    reader = asyncio.create_task(read.pump(Request(paper, "GET", "/", {}, b"")))
    await asyncio.sleep(0)
    read.done = True  # over, but not yet written to its end
    for _ in range(KEPT + 3):
        caller.new_stream().finish()

    assert caller.resumed(f"{read.key}-0") is not None
    read.finish()
    await reader


async def test_calls_under_way_end_with_their_session() -> None:
    caller = session()
    call = asyncio.create_task(asyncio.sleep(3600))
    caller.in_flight[b"1"] = call
    await asyncio.sleep(0)
    caller.close()
    await asyncio.wait([call])

    assert call.cancelled()


async def test_a_slow_reader_loses_notifications_and_no_answers() -> None:
    stream = Stream(key="1", keep=10)
    for _ in range(BACKLOG + 5):
        stream.push(b"{}", droppable=True)
    stream.push(b'"answer"')

    assert stream.dropped == 4
    assert (await heard(stream))[-1] == '"answer"'
    large = Stream(key="2", keep=10)
    for _ in range(20):
        large.push(b"x" * (BACKLOG_BYTES // 8), droppable=True)
    assert large.dropped == 20 - 8


async def test_what_was_read_is_kept_for_those_who_come_back_within_bounds() -> None:
    stream = Stream(key="1", keep=3)
    for number in range(5):
        stream.push(b"%d" % number)
    await heard(stream)
    stream.push(b"5")

    assert await heard(stream, after=0) == ["3", "4", "5"]
    for _ in range(4):
        stream.push(b"x" * (REPLAY_BYTES // 2))
    await heard(stream)
    stream.push(b"last")
    assert [one[:4] for one in await heard(stream, after=0)] == ["xxxx", "last"]
    stream.finish()
    stream.push(b"late")
    assert "late" not in await heard(stream, after=0)


# Whose it is, and what is not heard twice.


def pushed(stream: Stream, size: int) -> None:
    """Add an event of so many bytes on the wire."""
    before = vars(stream)["_bytes"]
    stream.push(b"")
    around = vars(stream)["_bytes"] - before
    vars(stream)["_events"].pop()
    vars(stream).update(_bytes=before, _count=vars(stream)["_count"] - 1)
    stream.push(b"x" * (size - around))


async def test_so_many_bytes_may_wait_for_a_reader_exactly() -> None:
    for beyond, dropped in ((0, 0), (1, 1)):
        stream = Stream()
        pushed(stream, BACKLOG_BYTES + beyond)
        stream.push(b"one more", droppable=True)
        assert stream.dropped == dropped


async def test_so_many_bytes_are_kept_for_who_comes_back_exactly() -> None:
    for beyond, kept in ((0, 2), (1, 1)):
        stream = Stream(key="1", keep=100)
        pushed(stream, 1000)
        await heard(stream)
        pushed(stream, REPLAY_BYTES - 1000 + beyond)
        assert len(await heard(stream, after=0)) == kept


async def test_a_stream_is_begun_and_ended_as_one_with_ids_where_it_can_be_resumed() -> None:
    for key, ids in (("", 0), ("7", 1)):
        stream, paper = Stream(key=key), Paper()
        stream.push(b"{}")
        stream.finish()
        await stream.pump(Request(paper, "GET", "/", {}, b""), headers=[(b"x-own", b"1")])

        assert paper.data.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        assert b"\r\nx-own: 1\r\n" in paper.data
        assert paper.data.endswith(b"\r\n0\r\n\r\n")
        assert paper.data.count(b"id: 7-1") == ids
        assert paper.data.count(b"id:") == ids


async def test_a_stream_is_read_while_somebody_reads_it_and_kept_alive_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "KEEP_ALIVE", 0.001)
    stream = Stream()
    async with asyncio.timeout(30):
        for _ in range(2):
            paper = Paper()
            reading = asyncio.create_task(stream.pump(Request(paper, "GET", "/", {}, b"")))
            while b"\n:" not in paper.data:  # noqa: ASYNC110 - what a stream writes
                await asyncio.sleep(0.001)
            assert stream.attached
            stream.hang_up()
            await reading
            assert not stream.attached


async def test_a_session_knows_itself_in_what_it_is_and_whose_it_is() -> None:
    whose = Scope(user="ann")
    one = Session("2025-11-25", b"{}", b"", opened_by=whose, scope=Scope(user="ann", thread="t"), replay=0)

    assert one.opened_by == whose
    assert not one.caller.modern
    assert one.scope == Scope(user="ann", thread="t", session=one.id)
    assert one.base == Scope(user="ann", session=one.id)
    assert one.expires == 0.0


async def test_sessions_of_some_callers_are_theirs_alone() -> None:
    kept, ann, bob = sessions(), session(user="ann"), session(user="bob")
    kept.add(ann)
    kept.add(bob)

    assert kept.of(lambda scope: scope.user == "bob") == [bob]


async def test_another_log_level_counts_for_the_calls_that_follow() -> None:
    one = session()
    before = one.caller

    one.set_level("error")

    assert (before.log_level, one.caller.log_level) == ("", "error")


async def test_a_question_that_was_answered_elsewhere_is_withdrawn_by_its_own_number_and_once() -> None:
    asked, stream = session(ELICITS), Stream(key="1")
    asked.ask(stream, "elicitation/create", b"{}")
    second = asked.ask(stream, "elicitation/create", b"{}")

    asked.withdraw(stream, second)
    second.cancel()
    await asyncio.sleep(0)
    asked.withdraw(stream, second)

    told = [json.loads(text) for text in await heard(stream)]
    assert [one["params"]["requestId"] for one in told if one["method"] == "notifications/cancelled"] == [2]


async def test_errors_in_the_place_of_answers_are_internal_ones() -> None:
    kept, asked, stream = sessions(), session(ELICITS), Stream(key="1")
    question = asked.ask(stream, "elicitation/create", b"{}")
    asked.close()
    nobody = await kept.ask("nobody", "elicitation/create", b"{}")

    assert [json.loads(answer.error)["code"] for answer in (await question, nobody)] == [-32603, -32603]


async def test_what_is_asked_outside_a_call_does_not_hang_up_on_who_listens() -> None:
    kept, one = sessions(), session(ELICITS)
    kept.add(one)
    paper = Paper()
    reader = asyncio.create_task(one.listen().pump(Request(paper, "GET", "/", {}, b""), after=-1))
    await asyncio.sleep(0)

    kept.ask(one.id, "elicitation/create", b"{}").cancel()
    for _ in range(5):
        await asyncio.sleep(0)

    assert b"elicitation/create" in paper.data
    assert not reader.done()
    one.close()
    await reader


async def test_whoever_reads_now_hears_what_nothing_is_kept_of() -> None:
    one = session(replay=0)
    one.set_level("error")
    paper = Paper()
    reader = asyncio.create_task(one.listen().pump(Request(paper, "GET", "/", {}, b""), after=-1))
    await asyncio.sleep(0)

    one.said("notifications/message", b'{"level":"debug"}')
    one.said("notifications/other", b'{"level":"debug"}')
    for _ in range(5):
        await asyncio.sleep(0)

    assert b"notifications/other" in paper.data
    assert b"notifications/message" not in paper.data
    one.close()
    await reader


@pytest.mark.parametrize("at", [At.LEGACY, At.MODERN])
async def test_news_of_a_task_reach_its_holder_alone_in_words_of_the_era(at: At) -> None:
    ann, bob = session(user="ann"), session(user="bob")
    streams = [one.listen() for one in (ann, bob)]
    known = Known(Task("sealed", "server", "own", at), ann.scope.holder, 1)
    params = {"taskId": "own", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttlMs": 5000}

    ann_lee = session(user="ann-lee")
    streams.append(ann_lee.listen())
    for one in (ann, bob, ann_lee):
        one.task_changed(known, "notifications/tasks/status", json.dumps(params).encode())

    told, nothing, nor_here = [await heard(stream) for stream in streams]
    assert nor_here == []
    assert nothing == []
    assert [json.loads(text)["method"] for text in told] == ["notifications/tasks/status"]
    state = json.loads(told[0])["params"]
    assert state["taskId"] == "sealed"
    assert ("ttl" in state) is (at is At.MODERN)
