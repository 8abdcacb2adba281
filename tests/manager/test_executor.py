"""Tools called from code under ART's names: one, many at once, and one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox.shop import shop_hub
from trunkline import (
    ExecutionContext,
    ExecutionStep,
    McpManagerV2,
    MCPServerBase,
    ProgrammaticToolExecutor,
    Tool,
    TrunklineError,
)


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


OFFICE = {"desk": ["direct"], "ours": ["run_code"], "nobody": [], "odd": "all", "theirs": ["code_of_a_vendor"]}
"""Tools, and who may call each."""


async def test_whoever_is_not_named_by_a_tool_cannot_call_it_under_any_of_its_names(tmp_path: Path) -> None:
    office = MCPServerBase(id="office", name="office")
    for name, callers in OFFICE.items():
        office.register_tool(Tool(name, "Do it", meta={"allowed_callers": callers}, execute=lambda _: "done"))
    office.register_tool(Tool("open", "Do it", execute=lambda _: "done"))
    async with shop_hub(tmp_path) as (hub, _):
        await hub.mount(office)
        await hub.thread("plain").set_overrides(disable_programmatic_calling=True)
        executor = ProgrammaticToolExecutor(hub)

        async def called(caller: str, thread: str = "") -> list[str]:
            context = ExecutionContext(caller=caller, thread_id=thread)
            steps = [
                ExecutionStep(name) for one in (*OFFICE, "open") for name in (f"office__{one}", f"mcp_office_{one}")
            ]
            return [one.tool_name for one in await executor.execute_parallel(steps, context) if one.success]

        who = {
            caller: await called(caller) for caller in ("direct", "run_code", "code_of_a_vendor", "", "Direct", "else")
        }
        in_thread = [await called(caller, "plain") for caller in ("run_code", "code_of_a_vendor", "")]

    both = {name: [f"office__{name}", f"mcp_office_{name}"] for name in (*OFFICE, "open")}
    assert who["direct"] == both["desk"] + both["open"]
    assert who["run_code"] == both["ours"] + both["open"]
    assert who["code_of_a_vendor"] == both["theirs"]
    assert [who[caller] for caller in ("", "Direct", "else")] == in_thread == [[], [], []]


async def test_arguments_that_cannot_be_made_leave_every_call_unmade(tmp_path: Path) -> None:
    async with shop_hub(tmp_path) as (hub, _):
        executor = ProgrammaticToolExecutor(hub)
        steps = [ExecutionStep("look", {"item": 1}), ExecutionStep("look", lambda before: {"item": before[0].result})]

        with pytest.raises(IndexError):
            await executor.execute_parallel(steps)

        assert executor.get_metrics() == {}
