from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping
from typing import Any

import pytest

from trunkline.call.batcher import BatchConfig
from trunkline.call.tool_batcher import ToolCallBatcher, create_tool_call_batcher
from trunkline.errors import ConfigError, ServerRefusedError, UpstreamTimeoutError


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


class Tools:
    """Tools that answer when the test says so."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.cancelled: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    async def __call__(self, tool: str, args: Mapping[str, Any], server_id: str) -> Any:
        self.calls.append(tool)
        try:
            await self.ends.setdefault(tool, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(tool)
            raise
        if "error" in args:
            raise args["error"]
        return f"{tool} on {server_id}"

    def finish(self, tool: str) -> None:
        self.ends.setdefault(tool, asyncio.Event()).set()


async def test_a_call_gets_the_result_of_its_tool() -> None:
    batcher = ToolCallBatcher(BatchConfig(max_batch_size=5), max_wait=0.05)
    batcher.set_tool_executor(lambda tool, args, server_id: (tool, args, server_id))

    assert await batcher.execute("read", {"path": "/data.json"}, "files") == ("read", {"path": "/data.json"}, "files")
    assert batcher.is_idle


async def test_a_slow_call_does_not_hold_up_those_in_its_batch() -> None:
    tools = Tools()
    async with asyncio.timeout(5), ToolCallBatcher(tool_executor=tools) as batcher:
        slow = asyncio.create_task(batcher.execute("slow", {}, "files"))
        quick = asyncio.create_task(batcher.execute("quick", {}, "files"))
        tools.finish("quick")

        assert await quick == "quick on files"
        assert not slow.done()
        tools.finish("slow")
        assert await slow == "slow on files"


async def test_a_failing_call_fails_alone_with_its_own_error() -> None:
    tools = Tools()
    tools.finish("good")
    tools.finish("bad")
    batcher = ToolCallBatcher(tool_executor=tools)
    refusal = ServerRefusedError("no", code=-32602)

    good, bad = await asyncio.gather(
        batcher.execute("good", {}), batcher.execute("bad", {"error": refusal}), return_exceptions=True
    )

    assert good == "good on "
    assert isinstance(bad, ServerRefusedError)
    assert (bad.code, bad.__cause__) == (-32602, refusal)


async def test_equal_read_only_calls_run_once() -> None:
    tools = Tools()
    tools.finish("read")
    batcher = ToolCallBatcher(tool_executor=tools)

    answers = await asyncio.gather(*(batcher.execute("read", {"id": 7}, "db", read_only=True) for _ in range(10)))

    assert (answers, tools.calls) == (["read on db"] * 10, ["read"])


async def test_a_cancelled_call_is_cancelled_at_the_tool_and_the_others_go_on() -> None:
    tools = Tools()
    async with asyncio.timeout(5), ToolCallBatcher(tool_executor=tools) as batcher:
        gone = asyncio.create_task(batcher.execute("gone", {}))
        kept = asyncio.create_task(batcher.execute("kept", {}))
        await settle()

        gone.cancel()
        await settle()

        assert tools.cancelled == ["gone"]
        tools.finish("kept")
        assert await kept == "kept on "


async def test_a_call_keeps_its_timeout() -> None:
    tools = Tools()
    async with asyncio.timeout(5), ToolCallBatcher(tool_executor=tools) as batcher:
        with pytest.raises(UpstreamTimeoutError, match="'stuck' of server 'files'"):
            await batcher.execute("stuck", {}, "files", timeout=0.001)
        await settle()

        assert (tools.cancelled, batcher.is_idle) == (["stuck"], True)


async def test_a_tool_that_cancels_itself_fails_its_call() -> None:
    def cancel(tool: str, args: Mapping[str, Any], server_id: str) -> Any:
        raise asyncio.CancelledError

    with pytest.raises(ServerRefusedError, match="cancelled"):
        await ToolCallBatcher(tool_executor=cancel).execute("t", {})


async def test_a_call_runs_with_its_callers_context() -> None:
    user = contextvars.ContextVar("user", default="nobody")
    batcher = ToolCallBatcher(tool_executor=lambda tool, args, server_id: user.get())

    async def call(name: str) -> Any:
        user.set(name)
        return await batcher.execute("whoami", {})

    assert await asyncio.gather(call("ann"), call("bob")) == ["ann", "bob"]


async def test_a_tool_executor_is_needed() -> None:
    batcher = create_tool_call_batcher()

    with pytest.raises(ConfigError) as caught:
        await batcher.execute("t", {})

    assert caught.value.message == "Missing required configuration: tool_executor"
    assert caught.value.hint == "Call set_tool_executor() before executing tool calls."


async def test_flush_drain_and_destroy_are_those_of_the_batcher() -> None:
    tools = Tools()
    batcher = ToolCallBatcher(tool_executor=tools, max_wait=3600.0)
    first = asyncio.create_task(batcher.execute("first", {}, "files"))
    await settle()
    second = asyncio.create_task(batcher.execute("second", {}, "files"))
    await settle()
    assert (tools.calls, batcher.queue_size) == (["first"], 1)
    tools.finish("first")
    tools.finish("second")

    async with asyncio.timeout(5):
        await batcher.flush()
        await batcher.drain()

    assert [await first, await second] == ["first on files", "second on files"]
    batcher.destroy()
    with pytest.raises(ConfigError, match="destroyed"):
        await batcher.execute("t", {})
