from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.call.batcher import (
    DEFAULT_BATCH_CONFIG,
    BatchCompleted,
    BatchConfig,
    BatchFailed,
    BatchRequest,
    BatchResult,
    BatchStarted,
    FlushTriggered,
    RequestBatcher,
    RequestQueued,
    create_request_batcher,
)
from trunkline.errors import (
    BusyError,
    CancelledCallError,
    ConfigError,
    ServerRefusedError,
    UpstreamError,
    UpstreamTimeoutError,
)

LONG = 3600.0
"""A `max_wait` that never ends in a test."""


async def settle(turns: int = 10) -> None:
    """Let every task that can go on do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Server:
    """An executor whose batches end when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.ends: list[asyncio.Future[None]] = []
        self.cancelled = 0

    async def __call__(self, requests: list[BatchRequest]) -> list[BatchResult]:
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.batches.append([request.tool for request in requests])
        self.ends.append(end)
        try:
            await end
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [BatchResult(True, f"{request.tool}!") for request in requests]

    @property
    def running(self) -> int:
        return sum(not end.done() for end in self.ends)

    async def finish(self, batch: int = -1) -> None:
        """End one batch: the oldest that runs, unless told."""
        end = self.ends[batch] if batch >= 0 else next(end for end in self.ends if not end.done())
        end.set_result(None)
        await settle()

    async def finish_all(self) -> None:
        while self.running:
            await self.finish()


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[tuple[RequestBatcher, Server, Callable[..., asyncio.Task[Any]]]]:
    """A batcher, its server, and a way to add requests without waiting; at the end everything is gone."""
    server = Server()
    options.setdefault("max_wait", LONG)
    batcher = RequestBatcher(executor=server, **options)
    tasks: list[asyncio.Task[Any]] = []

    def add(tool: str, server_id: str = "", args: dict[str, Any] | None = None, **more: Any) -> asyncio.Task[Any]:
        tasks.append(asyncio.create_task(batcher.add(tool, args or {}, server_id, **more)))
        return tasks[-1]

    async with asyncio.timeout(5):
        yield batcher, server, add
        await server.finish_all()
        await asyncio.gather(*tasks, return_exceptions=True)
        await batcher.drain()
    assert batcher.is_idle


def heard(batcher: RequestBatcher, *events: str) -> list[Any]:
    found: list[Any] = []
    for event in events:
        batcher.on(event, found.append)
    return found


def echo(requests: list[BatchRequest]) -> list[BatchResult]:
    return [BatchResult(True, request.tool) for request in requests]


# When batches go


async def test_a_lone_call_waits_for_nothing() -> None:
    async with serving() as (batcher, server, add):
        flushes = heard(batcher, "flush_triggered")
        add("a")

        await asyncio.sleep(0)  # the call comes
        await asyncio.sleep(0)  # the next turn of the loop: its batch starts
        await asyncio.sleep(0)

        assert server.batches == [["a"]]
        assert flushes == [FlushTriggered("idle", 1, "")]


async def test_calls_one_after_the_other_never_wait() -> None:
    batcher = RequestBatcher(executor=echo, max_wait=LONG)

    async with asyncio.timeout(5):
        answers = [await batcher.add(f"t{number}", {}, "files") for number in range(200)]

    assert answers == [f"t{number}" for number in range(200)]
    assert batcher.is_idle


async def test_calls_of_the_same_turn_share_a_batch() -> None:
    async with serving() as (_, server, add):
        answers = [add(tool, "files") for tool in "abc"]
        await settle()

        assert server.batches == [["a", "b", "c"]]
        await server.finish()
        assert [await answer for answer in answers] == ["a!", "b!", "c!"]


@pytest.mark.parametrize("share", [1, 2])
async def test_calls_to_a_server_at_work_gather_until_its_batch_ends(share: int) -> None:
    async with serving(max_batches_per_server=share) as (batcher, server, add):
        add("a", "files")
        await settle()
        flushes = heard(batcher, "flush_triggered")
        for tool in "bcd":
            add(tool, "files")
            await settle()
        assert server.batches == [["a"]]

        await server.finish()

        assert server.batches == [["a"], ["b", "c", "d"]]
        assert [flush.reason for flush in flushes] == ["idle"]


async def test_calls_to_a_server_at_work_go_when_they_fill_a_batch() -> None:
    async with serving(max_batch_size=2) as (batcher, server, add):
        add("a", "files")
        await settle()
        flushes = heard(batcher, "flush_triggered")

        add("b", "files")
        await settle()
        assert server.batches == [["a"]]
        add("c", "files")
        await settle()

        assert server.batches == [["a"], ["b", "c"]]
        assert flushes == [FlushTriggered("size", 2, "files")]


async def test_calls_to_a_server_at_work_go_after_max_wait() -> None:
    async with serving(max_wait=0.001) as (batcher, server, add):
        add("a", "files")
        await settle()
        flushed = asyncio.Event()
        flushes = heard(batcher, "flush_triggered")
        batcher.on(FlushTriggered, lambda _: flushed.set())

        add("b", "files")
        await flushed.wait()
        await settle()

        assert server.batches == [["a"], ["b"]]
        assert flushes == [FlushTriggered("timeout", 1, "files")]


async def test_the_size_trigger_counts_each_server_by_itself() -> None:
    async with serving(max_batch_size=3) as (batcher, server, add):
        add("a0", "a")
        add("b0", "b")
        await settle()
        flushes = heard(batcher, "flush_triggered")

        for tool in ("a1", "b1", "a2", "b2"):
            add(tool, tool[0])
        await settle()
        assert (batcher.queue_size, flushes) == (4, [])
        add("a3", "a")
        await settle()

        assert server.batches[2:] == [["a1", "a2", "a3"]]


async def test_a_flush_is_said_once_however_many_calls_come() -> None:
    async with serving(max_batch_size=10) as (batcher, server, add):
        flushes = heard(batcher, "flush_triggered")
        for number in range(1000):
            add(f"t{number}", "files")
        await settle()
        await server.finish_all()

        assert len(server.batches) == 100
        assert len(flushes) <= 100
        assert {flush.reason for flush in flushes} == {"size"}


# Side by side, and fair


async def test_groups_of_different_servers_run_side_by_side() -> None:
    async with serving() as (batcher, server, add):
        for name in "abcd":
            add("t1", name)
            add("t2", name)
        await settle()

        assert server.running == batcher.active_batch_count == 4


async def test_no_more_batches_run_than_allowed_and_each_slot_is_used_again() -> None:
    async with serving(max_batch_size=1, max_concurrent_batches=5, max_batches_per_server=5) as (batcher, server, add):
        for number in range(40):
            add(f"t{number}", "files")
        await settle()

        rounds = 0
        while server.running:
            assert server.running == min(5, 40 - 5 * rounds)
            for batch in range(5 * rounds, 5 * rounds + 5):
                server.ends[batch].set_result(None)
            await settle()
            rounds += 1
        assert (rounds, batcher.active_batch_count) == (8, 0)


async def test_without_parallel_one_batch_runs_at_a_time() -> None:
    async with serving(enable_parallel=False) as (_, server, add):
        for name in "abcdefgh":
            add("t", name)
        await settle()

        for started in range(1, 9):
            assert (len(server.batches), server.running) == (started, 1)
            await server.finish()


async def test_a_stuck_server_leaves_slots_for_the_others() -> None:
    async with serving(max_batch_size=1) as (_, server, add):
        for number in range(100):
            add(f"stuck{number}", "stuck")
        await settle()
        assert server.batches == [["stuck0"], ["stuck1"]]

        for name in ("a", "b", "c"):
            add(f"quick-{name}", name)
        await settle()

        assert server.batches[2:] == [["quick-a"], ["quick-b"], ["quick-c"]]


async def test_servers_take_turns_for_slots() -> None:
    async with serving(max_batch_size=1, max_concurrent_batches=1) as (_, server, add):
        for number in range(50):
            add(f"noisy{number}", "noisy")
        await settle()
        add("quiet", "quiet")
        add("nameless")
        await settle()

        for _ in range(4):
            await server.finish()

        assert [batch[0] for batch in server.batches] == ["noisy0", "quiet", "nameless", "noisy1", "noisy2"]


async def test_owners_take_turns_within_a_server() -> None:
    async with serving(max_batch_size=4, max_batches_per_server=1) as (_, server, add):
        add("first", "files")
        await settle()
        for number in range(50):
            add(f"noisy{number}", "files", owner="noisy")
        await settle()
        add("quiet0", "files", owner="quiet")
        add("quiet1", "files", owner="quiet")
        await settle()

        await server.finish()

        assert server.batches[1] == ["noisy0", "quiet0", "noisy1", "quiet1"]


async def test_without_grouping_a_batch_holds_requests_to_any_server() -> None:
    async with serving(group_by_server=False) as (_, server, add):
        add("a", "files")
        add("b", "mail")
        add("c")
        await settle()

        assert server.batches == [["a", "b", "c"]]


# Sharing


async def test_equal_read_only_requests_run_once_while_they_wait_or_run() -> None:
    async with serving() as (batcher, server, add):
        queued = heard(batcher, "request_queued")
        waiting = [add("read", "files", {"a": 1, "b": 2}, read_only=True) for _ in range(5)]
        await settle()
        waiting += [add("read", "files", {"b": 2, "a": 1}, read_only=True) for _ in range(5)]
        await settle()
        await server.finish()

        assert (server.batches, len(queued)) == ([["read"]], 1)
        assert {await answer for answer in waiting} == {"read!"}

        add("read", "files", {"a": 1, "b": 2}, read_only=True)
        await settle()
        assert len(server.batches) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"read_only": False}, {"read_only": False}),
        ({"owner": "ann"}, {"owner": "bob"}),
        ({"server_id": "files"}, {"server_id": "mail"}),
        ({"args": {"n": 1}}, {"args": {"n": 1.0}}),
        ({"args": {"n": object}}, {"args": {"n": object}}),
    ],
)
async def test_requests_that_may_differ_are_not_shared(one: dict[str, Any], other: dict[str, Any]) -> None:
    async with serving(group_by_server=False) as (_, server, add):
        add("t", **{"read_only": True, **one})
        add("t", **{"read_only": True, **other})
        await settle()

        assert server.batches == [["t", "t"]]


async def test_one_caller_that_leaves_takes_nothing_from_those_it_shares_with() -> None:
    async with serving() as (_, server, add):
        one, other = add("t", "files", read_only=True), add("t", "files", read_only=True)
        await settle()

        one.cancel()
        await settle()
        await server.finish()

        assert await other == "t!"
        assert server.cancelled == 0


# Too much, too long, no longer wanted


async def test_a_request_too_many_is_refused_at_once_and_the_others_run() -> None:
    async with serving(max_queue=3, max_batches_per_server=1) as (batcher, server, add):
        add("first", "files")
        await settle()
        waiting = [add(f"t{number}", "files") for number in range(3)]
        await settle()

        with pytest.raises(BusyError, match="'files'"):
            await batcher.add("more", {}, "files")
        fine = add("mail", "mail")
        await settle()
        await server.finish_all()

        assert [await answer for answer in (*waiting, fine)] == ["t0!", "t1!", "t2!", "mail!"]


async def test_an_owner_that_filled_the_queue_makes_room_for_another() -> None:
    async with serving(max_queue=4, max_batches_per_server=1) as (batcher, server, add):
        add("first", "files")
        await settle()
        noisy = [add(f"noisy{number}", "files", owner="noisy") for number in range(4)]
        await settle()

        quiet = add("quiet", "files", owner="quiet")
        await settle()

        assert batcher.queue_size == 4
        with pytest.raises(BusyError):
            await noisy[3]
        await server.finish_all()
        assert await quiet == "quiet!"


async def test_a_cancelled_request_that_waits_never_runs() -> None:
    async with serving() as (batcher, server, add):
        add("first", "files")
        await settle()
        kept, gone, late = add("kept", "files"), add("gone", "files"), add("late", "files")
        await settle()

        gone.cancel()
        await settle()
        assert batcher.queue_size == 2
        server.ends[0].set_result(None)
        late.cancel()  # the next batch starts before it can leave
        await settle()

        assert server.batches[1:] == [["kept"]]
        await server.finish()
        assert await kept == "kept!"


async def test_a_group_whose_requests_were_all_cancelled_is_forgotten() -> None:
    async with serving(max_concurrent_batches=1) as (batcher, server, add):
        add("first", "files")
        await settle()
        gone = add("gone", "mail")
        await settle()
        flushes = heard(batcher, "flush_triggered")

        gone.cancel()
        await settle()
        await server.finish()

        assert (server.batches, flushes, batcher.is_idle) == ([["first"]], [], True)


async def test_nothing_is_kept_of_a_server_without_requests_not_even_a_timer() -> None:
    async with serving() as (batcher, server, add):
        groups = batcher._groups  # pyright: ignore[reportPrivateUsage] - what is kept shows nowhere else
        add("flown", "flown")
        add("at work", "left")
        await settle()
        left = add("left", "left")
        await settle()
        group = groups["left"]
        timer = group.timer

        left.cancel()
        await server.finish(0)
        assert (list(groups), group.timer, timer is not None and timer.cancelled()) == (["left"], None, True)
        await server.finish(1)

        assert (groups, batcher.queue_size, batcher.active_batch_count) == ({}, 0, 0)


async def test_what_comes_after_cancelled_requests_gathers_anew() -> None:
    async with serving(max_concurrent_batches=2, max_batches_per_server=2) as (batcher, server, add):
        add("files", "files")
        add("mail", "mail")
        await settle()
        gone = add("gone", "files")
        flush = asyncio.create_task(batcher.flush())
        await settle()
        gone.cancel()
        await flush
        add("next", "files")
        await settle()

        await server.finish(1)
        assert server.batches == [["files"], ["mail"]]
        await server.finish(0)

        assert server.batches[2:] == [["next"]]


async def test_a_batch_that_nobody_waits_for_is_stopped_and_its_slot_freed() -> None:
    async with serving(max_concurrent_batches=1) as (batcher, server, add):
        failures = heard(batcher, "batch_failed")
        one, other = add("one", "files"), add("other", "files")
        await settle()
        one.cancel()
        await settle()
        assert server.cancelled == 0

        other.cancel()
        await settle()

        assert (server.cancelled, len(failures), batcher.is_idle) == (1, 1, True)
        add("next", "mail")
        await settle()
        assert server.batches[-1] == ["next"]


async def test_a_batch_stopped_before_its_first_step_gives_its_slot_back() -> None:
    async with serving(max_concurrent_batches=1) as (batcher, _, add):
        tasks: list[asyncio.Task[Any]] = []
        batcher.on(BatchStarted, lambda _: tasks[0].cancel())
        tasks.append(add("a", "files"))
        await settle()

        assert batcher.is_idle
        batcher.set_executor(echo)
        assert await batcher.add("b", {}, "mail") == "b"


async def test_a_request_has_a_timeout_of_its_own() -> None:
    async with serving() as (batcher, server, add):
        with pytest.raises(UpstreamTimeoutError, match=r"'t' of server 'files'.*may still have happened"):
            await batcher.add("t", {}, "files", timeout=0.25)  # long enough for its batch to start on a busy machine
        await settle()
        assert (server.cancelled, batcher.is_idle) == (1, True)

        add("first", "files")
        await settle()
        with pytest.raises(UpstreamTimeoutError, match="did not run"):
            await batcher.add("t", {}, "files", timeout=0.001)
        assert (batcher.queue_size, server.batches) == (0, [["t"], ["first"]])


async def test_an_executors_own_timeout_error_is_not_taken_for_ours() -> None:
    def late(requests: list[BatchRequest]) -> list[BatchResult]:
        raise TimeoutError("the database is slow")

    with pytest.raises(TimeoutError, match="the database is slow"):
        await RequestBatcher(executor=late).add("t", {}, timeout=5)


async def test_a_batch_has_a_timeout() -> None:
    async with serving(batch_timeout=0.001) as (batcher, server, add):
        failures = heard(batcher, "batch_failed")
        answers = await asyncio.gather(add("a"), add("b"), return_exceptions=True)
        await settle()

        assert [type(answer) for answer in answers] == [UpstreamTimeoutError, UpstreamTimeoutError]
        assert answers[0] is not answers[1]
        assert (server.cancelled, batcher.is_idle, len(failures)) == (1, True, 1)


async def test_callers_have_their_answer_in_time_even_if_the_executor_will_not_stop() -> None:
    stubborn = asyncio.Event()

    async def executor(requests: list[BatchRequest]) -> list[BatchResult]:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            await stubborn.wait()
        return echo(requests)

    batcher = RequestBatcher(executor=executor, batch_timeout=0.001)
    events = heard(batcher, "batch_failed", "batch_completed")
    async with asyncio.timeout(5):
        with pytest.raises(UpstreamTimeoutError):
            await batcher.add("t", {})
        assert batcher.active_batch_count == 1
        stubborn.set()
        await batcher.drain()
    assert [type(event) for event in events] == [BatchFailed]


# How requests end


@pytest.mark.parametrize("error", [ValueError("broken"), ServerRefusedError("no", code=-32602, data=[1])])
async def test_when_the_executor_raises_each_request_gets_an_error_of_its_own(error: Exception) -> None:
    async def executor(requests: list[BatchRequest]) -> list[BatchResult]:
        raise error

    batcher = RequestBatcher(executor=executor)
    failures = heard(batcher, "batch_failed", "batch_completed")

    calls = [batcher.add("t", {}, read_only=read_only) for read_only in (False, False, True, True)]
    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert failures == [BatchFailed("batch-1", error)]
    assert len({id(answer) for answer in answers}) == 4
    for answer in answers:
        assert isinstance(answer, type(error))
        assert (str(answer), answer.__cause__) == (str(error), error)
        assert {**vars(answer)} == {**vars(error)}


class StrangeError(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (BatchResult(False, error="disk full"), ServerRefusedError, "'t' failed: disk full"),
        (BatchResult(False), ServerRefusedError, "did not say why"),
        (BatchResult(False, error=KeyError("x")), KeyError, "'x'"),
        (BatchResult(False, error=StrangeError(code=3)), UpstreamError, "'t' failed: StrangeError: code 3"),
        (BatchResult(False, error=StopIteration("end")), ServerRefusedError, "'t' failed: end"),
        ({"done": True}, UpstreamError, "returned dict for request 0"),
    ],
)
async def test_a_result_that_is_none_becomes_a_proper_error(given: Any, kind: type[Exception], text: str) -> None:
    batcher = RequestBatcher(executor=lambda requests: [given])

    with pytest.raises(kind, match=text):
        await batcher.add("t", {})


async def test_a_missing_result_fails_its_request_alone() -> None:
    batcher = RequestBatcher(executor=lambda requests: echo(requests)[:1])

    first, second = await asyncio.gather(batcher.add("a", {}), batcher.add("b", {}), return_exceptions=True)

    assert first == "a"
    assert isinstance(second, UpstreamError)
    assert "no result for request 1 ('b')" in str(second)


async def test_results_too_many_are_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    batcher = RequestBatcher(executor=lambda requests: [*echo(requests), BatchResult(True, "more")])

    with caplog.at_level(logging.WARNING):
        assert await batcher.add("a", {}) == "a"

    assert "2 results for 1 requests" in caplog.text


async def test_an_executor_that_returns_no_list_fails_the_batch() -> None:
    def nothing(requests: list[BatchRequest]) -> Sequence[BatchResult]:
        return None  # pyright: ignore[reportReturnType] - as careless executors do

    with pytest.raises(UpstreamError, match="returned NoneType"):
        await RequestBatcher(executor=nothing).add("a", {})


async def test_the_executor_may_answer_one_request_before_the_others() -> None:
    go_on = asyncio.Event()

    async def executor(requests: list[BatchRequest]) -> list[BatchResult]:
        requests[0].resolve(BatchResult(True, "early"))
        await go_on.wait()
        return [BatchResult(True, "late") for _ in requests]

    batcher = RequestBatcher(executor=executor)
    early, late = asyncio.create_task(batcher.add("a", {})), asyncio.create_task(batcher.add("b", {}))

    async with asyncio.timeout(5):
        assert await early == "early"
        assert not late.done()
        go_on.set()
        assert await late == "late"


async def test_the_executor_learns_all_that_the_caller_said() -> None:
    seen: list[BatchRequest] = []

    def executor(requests: list[BatchRequest]) -> list[BatchResult]:
        seen.extend(requests)
        return echo(requests)

    await RequestBatcher(executor=executor).add("t", {"a": 1}, "files", read_only=True, timeout=5, owner="ann")

    request = seen[0]
    assert (request.tool, request.args, request.server_id) == ("t", {"a": 1}, "files")
    assert (request.read_only, request.timeout, request.owner) == (True, 5, "ann")


async def test_a_batch_does_not_run_with_the_context_of_the_caller_that_started_it() -> None:
    user = contextvars.ContextVar("user", default="nobody")

    def executor(requests: list[BatchRequest]) -> list[BatchResult]:
        return [BatchResult(True, (user.get(), request.context[user])) for request in requests]

    batcher = RequestBatcher(executor=executor)
    user.set("ann")

    assert await batcher.add("t", {}) == ("nobody", "ann")


# Life


async def test_flush_runs_everything_queued_on_all_servers() -> None:
    async with serving(max_batch_size=2, max_concurrent_batches=4, max_batches_per_server=1) as (batcher, server, add):
        add("a0", "a")
        add("b0", "b")
        await settle()
        flushes = heard(batcher, "flush_triggered")
        answers = [add("a1", "a"), add("b1", "b"), add("c1", "c"), add("c2", "c")]

        flush = asyncio.create_task(batcher.flush())
        await settle()
        assert not flush.done()
        await server.finish_all()
        await flush

        assert all(answer.done() for answer in answers)
        assert [event.reason for event in flushes if event.reason == "manual"] == ["manual"]


async def test_flush_at_the_limit_waits_for_its_turn_and_not_for_later_requests() -> None:
    async with serving(max_concurrent_batches=1) as (batcher, server, add):
        add("a", "files")
        await settle()
        queued = add("b", "files")
        flush = asyncio.create_task(batcher.flush())
        await settle()
        await server.finish(0)
        later = add("c", "files")
        await settle()
        await server.finish(1)

        await flush

        assert (queued.done(), later.done()) == (True, False)


async def test_flush_with_nothing_queued_says_nothing() -> None:
    async with serving() as (batcher, _, __):
        flushes = heard(batcher, "flush_triggered")

        await batcher.flush()

        assert flushes == []


async def test_drain_waits_until_all_is_done() -> None:
    async with serving() as (batcher, server, add):
        answers = [add("a", "files"), add("b", "mail")]
        await settle()
        answers.append(add("c", "files"))
        drain = asyncio.create_task(batcher.drain())
        await settle()
        assert not drain.done()

        await server.finish_all()
        await drain

        assert all(answer.done() for answer in answers)
        assert batcher.is_idle


async def test_drain_gives_up_after_its_timeout() -> None:
    async with serving() as (batcher, _, add):
        add("a")
        await settle()

        with pytest.raises(UpstreamTimeoutError, match="1 batches are in flight"):
            await batcher.drain(timeout=0.001)


async def test_destroy_rejects_what_waits_and_lets_the_rest_finish() -> None:
    async with serving() as (batcher, server, add):
        flying = add("flying", "files")
        await settle()
        waiting = add("waiting", "files")
        await settle()

        batcher.destroy()
        batcher.destroy()
        await settle()
        await server.finish()

        with pytest.raises(CancelledCallError, match="'waiting' of server 'files'"):
            await waiting
        assert await flying == "flying!"
        assert server.batches == [["flying"]]
        with pytest.raises(ConfigError, match="destroyed"):
            await batcher.add("t", {})


async def test_an_executor_is_needed() -> None:
    batcher = create_request_batcher()

    for use in (batcher.add("t", {}), batcher.flush()):
        with pytest.raises(ConfigError) as caught:
            await use
        assert caught.value.message == "Missing required configuration: batch_executor"
        assert caught.value.hint == "Call set_executor() before adding requests."


async def test_leaving_the_body_finishes_everything() -> None:
    async with asyncio.timeout(5), RequestBatcher(executor=echo) as batcher:
        answer = asyncio.create_task(batcher.add("t", {}))

    assert answer.result() == "t"
    with pytest.raises(ConfigError):
        await batcher.add("t", {})


async def test_an_error_in_the_body_stops_everything() -> None:
    server = Server()
    answers: list[asyncio.Task[Any]] = []

    async def body() -> None:
        async with asyncio.timeout(5), RequestBatcher(executor=server) as batcher:
            answers.append(asyncio.create_task(batcher.add("t", {})))
            await settle()
            raise KeyError

    with pytest.raises(KeyError):
        await body()
    with pytest.raises(UpstreamError, match="stopped"):
        await answers[0]
    assert server.cancelled == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_batch_size", 0), ("max_batch_size", -1), ("max_wait", -0.1), ("max_wait", float("nan")),
        ("max_concurrent_batches", 0), ("max_batches_per_server", -1), ("max_queue", 0), ("batch_timeout", 0),
    ],
)  # fmt: skip
def test_impossible_options_are_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"`{option}`"):
        RequestBatcher(**{option: value})


def test_the_defaults_are_those_of_the_documentation() -> None:
    assert RequestBatcher().config == DEFAULT_BATCH_CONFIG == BatchConfig(10, 0.1, True, 5, True)
    assert RequestBatcher(BatchConfig(max_batch_size=3), max_wait=1).config == BatchConfig(3, 1)


async def test_events_tell_the_life_of_a_batch() -> None:
    ticks = iter((1.0, 3.5))
    batcher = RequestBatcher(executor=echo, clock=lambda: next(ticks))
    events = heard(batcher, "request_queued", "flush_triggered", "batch_started", "batch_completed", "batch_failed")

    await asyncio.gather(batcher.add("a", {}, "files"), batcher.add("b", {}, "files"))

    results = (BatchResult(True, "a", None, "req-1", 2.5), BatchResult(True, "b", None, "req-2", 2.5))
    assert events == [
        RequestQueued("req-1", 1),
        RequestQueued("req-2", 2),
        FlushTriggered("idle", 2, "files"),
        BatchStarted("batch-1", 2, "files"),
        BatchCompleted("batch-1", results),
    ]


async def test_who_has_its_answer_finds_the_batcher_idle() -> None:
    batcher = RequestBatcher(executor=echo)

    await batcher.add("a", {})

    assert (batcher.is_idle, batcher.queue_size, batcher.active_batch_count) == (True, 0, 0)


moves = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 11)),
        st.tuples(st.just("finish"), st.integers(0, 5)),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.just("flush"), st.just(0)),
    ),
    max_size=50,
)


@given(moves, st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_whatever_happens_limits_hold_and_every_request_ends(
    moves: list[tuple[str, int]], size: int, slots: int, share: int
) -> None:
    async def run() -> None:
        options = {"max_batch_size": size, "max_concurrent_batches": slots, "max_batches_per_server": share}
        async with serving(max_queue=5, **options) as (batcher, server, add):
            tasks: list[asyncio.Task[Any]] = []
            for move, number in moves:
                match move:
                    case "add":
                        tasks.append(add(f"t{number % 2}", f"s{number % 3}", read_only=number > 8))
                    case "finish" if number < len(server.ends) and not server.ends[number].done():
                        server.ends[number].set_result(None)
                    case "cancel" if number < len(tasks):
                        tasks[number].cancel()
                    case "flush":
                        tasks.append(asyncio.create_task(batcher.flush()))
                    case _:
                        await asyncio.sleep(0)
                assert batcher.active_batch_count <= slots
                assert all(len(batch) <= size for batch in server.batches)
            await settle()
            while server.running:
                await server.finish()
            assert batcher.is_idle
            assert all(task.done() for task in tasks)

    asyncio.run(run())


async def test_an_executor_may_answer_with_mappings() -> None:
    def run(requests: list[BatchRequest]) -> list[dict[str, Any]]:
        given = {"a": {"success": True, "result": 1}, "b": {"success": False, "error": "no such row"}, "c": {"x": 1}}
        return [given[request.tool] for request in requests]

    batcher = RequestBatcher(executor=run)
    first = await batcher.add("a", {})
    with pytest.raises(ServerRefusedError, match="'b' failed: no such row"):
        await batcher.add("b", {})
    with pytest.raises(UpstreamError, match=r"returned dict for request 0 .* mapping with `success`"):
        await batcher.add("c", {})
    batcher.destroy()

    assert first == 1
