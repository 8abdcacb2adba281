"""A call that takes too long ends, and nothing of it goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.call.middleware.scene import READER, Recorder, tool, twice
from trunkline.call.middleware import deadline
from trunkline.call.middleware.chain import CallNext, ToolContext
from trunkline.call.middleware.deadline import create_timeout_middleware
from trunkline.call.middleware.integration import ToolIntegrationManager
from trunkline.call.middleware.retry import create_retry_middleware
from trunkline.errors import ConfigError, UnreachableError, UpstreamTimeoutError
from trunkline.tool import Tool, ToolResult


class Slow:
    """A tool that never answers."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0
        self.running = asyncio.Event()

    async def __call__(self, params: dict[str, Any]) -> None:
        self.started += 1
        self.running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def test_a_tool_that_is_too_slow_is_cancelled_and_named() -> None:
    slow = Slow()
    manager = ToolIntegrationManager([create_timeout_middleware(0.01)]).register_tool(tool(slow))

    async with asyncio.timeout(5):
        with pytest.raises(UpstreamTimeoutError, match="'t' did not answer in time"):
            await manager.execute_tool("t")

    assert (slow.started, slow.cancelled) == (1, 1)


async def test_no_retry_outlives_the_timeout_around_it() -> None:
    slow = Slow()
    manager = ToolIntegrationManager([create_timeout_middleware(0.01), create_retry_middleware(3, 0.0)])
    manager.register_tool(tool(slow))

    async with asyncio.timeout(5):
        with pytest.raises(UpstreamTimeoutError):
            await manager.execute_tool("t")

    assert (slow.started, slow.cancelled) == (1, 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_retry_that_would_come_too_late_is_not_waited_for() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    run = Recorder(UnreachableError("gone"))
    now = 100.0
    manager = ToolIntegrationManager([create_retry_middleware(3, 50.0, max_delay=50.0, sleep=sleep)])
    manager.register_tool(tool(run))

    with pytest.raises(UnreachableError):
        await manager.execute_tool("t", context=ToolContext(deadline=100.0, clock=lambda: now))

    assert (len(run.calls), pauses) == (1, [])


async def test_a_timeout_inside_a_retry_starts_anew_with_each_attempt() -> None:
    seen: list[float | None] = []

    async def look(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        seen.append(context.deadline)
        return await call_next()

    now = iter(range(100))
    manager = ToolIntegrationManager([twice, create_timeout_middleware(10), look, create_timeout_middleware(99), look])
    manager.register_tool(tool(Recorder()))

    await manager.execute_tool("t", context=ToolContext(clock=lambda: float(next(now))))

    assert seen == [10.0, 10.0, 14.0, 14.0], "the inner timeout cannot be later than the outer"


async def test_a_call_whose_deadline_has_passed_does_not_begin() -> None:
    run = Recorder()
    manager = ToolIntegrationManager([create_timeout_middleware(10)]).register_tool(tool(run))

    with pytest.raises(UpstreamTimeoutError, match="not run"):
        await manager.execute_tool("t", context=ToolContext(deadline=5.0, clock=lambda: 6.0))

    assert run.calls == []


async def test_fast_calls_leave_no_timer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    later = loop.call_later
    timers: list[asyncio.TimerHandle] = []

    def call_later(*args: Any, **more: Any) -> asyncio.TimerHandle:
        timers.append(later(*args, **more))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", call_later)
    manager = ToolIntegrationManager([create_timeout_middleware(30)]).register_tool(tool(Recorder()))

    for _ in range(100):
        await manager.execute_tool("t")

    assert len(timers) == 100
    assert all(timer.cancelled() for timer in timers)


async def test_a_caller_who_leaves_takes_the_tool_along() -> None:
    slow = Slow()
    manager = ToolIntegrationManager([create_timeout_middleware(30)]).register_tool(tool(slow))
    call = asyncio.create_task(manager.execute_tool("t"))

    async with asyncio.timeout(5):
        await slow.running.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert slow.cancelled == 1


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_up_the_caller(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    async def stubborn(params: dict[str, Any]) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()

    monkeypatch.setattr(deadline, "GRACE", 0.01)
    manager = ToolIntegrationManager([create_timeout_middleware(0.01)]).register_tool(tool(stubborn))

    async with asyncio.timeout(5):
        with pytest.raises(UpstreamTimeoutError):
            await manager.execute_tool("t")
        assert "still runs" in caplog.text
        release.set()
        await ended.wait()


async def test_an_error_of_the_tool_comes_through_as_it_is() -> None:
    manager = ToolIntegrationManager([create_timeout_middleware(30)])
    manager.register_tool(tool(Recorder(UnreachableError("gone"), TimeoutError("of its own")), READER))

    with pytest.raises(UnreachableError):
        await manager.execute_tool("t")
    assert (await manager.execute_tool("t")).text == "of its own"


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_of_nothing_is_a_mistake(timeout: float) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        create_timeout_middleware(timeout)
