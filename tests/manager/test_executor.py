"""Tools called from code under ART's names: one, many at once, and one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox.shop import shop_hub
from trunkline import ExecutionContext, ExecutionStep, McpManagerV2, ProgrammaticToolExecutor, TrunklineError


async def test_calls_from_code_give_values_and_failures_are_results(tmp_path: Path) -> None:
    async with shop_hub(tmp_path) as (hub, _), McpManagerV2(hub) as manager:
        found = await manager.execute_from_code("mcp_shop_look", {"item": 2})
        failed = await manager.execute_from_code("fail")
        unknown = await manager.execute_from_code("nothing", {}, ExecutionContext(caller="code_execution_20250825"))
        metrics = manager.executor.get_metrics()

    assert (found.success, found.result["price"]) == (True, 20)
    assert (failed.success, failed.result, "till" in failed.error) == (False, None, True)
    assert not unknown.success
    assert (metrics["mcp_shop_look"].count, metrics["fail"].error_rate) == (1, 1.0)


async def test_steps_run_at_once_or_in_turn_with_what_came_before(tmp_path: Path) -> None:
    async with shop_hub(tmp_path) as (hub, _):
        executor = ProgrammaticToolExecutor(hub)
        both = await executor.execute_parallel([ExecutionStep("look", {"item": i}) for i in (1, 2)])
        turns = await executor.execute_sequential(
            [
                ExecutionStep("look", {"item": 3}),
                ExecutionStep("look", lambda before: {"item": before[0].result["price"]}),
            ]
        )
        with pytest.raises(TrunklineError, match="Tool fail failed"):
            await executor.execute_sequential([ExecutionStep("fail"), ExecutionStep("look", {"item": 1})])
        value = (await executor.run("(await look(item=4))['item']")).value

    assert [one.result["item"] for one in both] == [1, 2]
    assert [one.result["item"] for one in turns] == [3, 30]
    assert value == 4
