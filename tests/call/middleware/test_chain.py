"""The order, the params and the context that middleware see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.call.middleware.scene import DESTROYER, READER, Person, Recorder, changing, tool, twice
from trunkline.call.middleware.chain import (
    MAX_DEPTH,
    CallNext,
    ToolContext,
    ToolMiddleware,
    create_tool_middleware_chain,
)
from trunkline.call.middleware.confirm import confirmation_middleware
from trunkline.call.middleware.integration import ToolIntegrationManager
from trunkline.errors import InvalidArgumentsError
from trunkline.tool import Tool, ToolResult


def noting(name: str, notes: list[str]) -> ToolMiddleware:
    async def middleware(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        notes.append(f"{name} in")
        result = await call_next()
        notes.append(f"{name} out")
        return result

    return middleware


async def test_the_first_middleware_is_the_outermost() -> None:
    notes: list[str] = []
    manager = ToolIntegrationManager([noting("a", notes), noting("b", notes)]).register_tool(tool(Recorder()))

    await manager.execute_tool("t")

    assert notes == ["a in", "b in", "b out", "a out"]


async def test_calling_next_twice_runs_the_whole_rest_twice() -> None:
    notes: list[str] = []
    run = Recorder()
    manager = ToolIntegrationManager([twice, noting("inner", notes)]).register_tool(tool(run))

    await manager.execute_tool("t")

    assert notes == ["inner in", "inner out"] * 2
    assert len(run.calls) == 2


async def test_a_chain_is_a_middleware_and_can_be_part_of_another() -> None:
    notes: list[str] = []
    inner = create_tool_middleware_chain([noting("b", notes), noting("c", notes)])
    manager = ToolIntegrationManager([noting("a", notes), inner]).register_tool(tool(Recorder()))

    await manager.execute_tool("t")

    assert notes[:3] == ["a in", "b in", "c in"]


async def test_without_middleware_the_tool_just_runs() -> None:
    run = Recorder()
    manager = ToolIntegrationManager().register_tool(tool(run))

    assert (await manager.execute_tool("t", {"a": 1})).text == "done"
    assert run.calls == [{"a": 1}]


async def test_what_the_caller_passed_is_never_changed() -> None:
    run = Recorder()
    given = {"list": [1], "deep": {"a": {"b": 1}}}
    spoil = changing(lambda params: (params["list"].append(2), params["deep"]["a"].update(b=2)))
    manager = ToolIntegrationManager([spoil]).register_tool(tool(run))

    await manager.execute_tool("t", given)

    assert given == {"list": [1], "deep": {"a": {"b": 1}}}
    assert run.calls == [{"list": [1, 2], "deep": {"a": {"b": 2}}}]


async def test_each_run_of_the_rest_gets_params_of_its_own() -> None:
    run = Recorder()
    manager = ToolIntegrationManager([twice, changing(lambda params: params["list"].append(2))])
    manager.register_tool(tool(run))

    await manager.execute_tool("t", {"list": [1]})

    assert run.calls == [{"list": [1, 2]}, {"list": [1, 2]}]


async def test_params_given_to_next_replace_ones_own() -> None:
    async def other(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        return await call_next({"other": params["a"]})

    run = Recorder()
    await ToolIntegrationManager([other]).register_tool(tool(run)).execute_tool("t", {"a": 1})

    assert run.calls == [{"other": 1}]


async def test_params_nested_without_end_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"a": deep}
    manager = ToolIntegrationManager().register_tool(tool(Recorder()))

    with pytest.raises(InvalidArgumentsError, match="nested"):
        await manager.execute_tool("t", deep)


async def test_what_one_call_learns_stays_out_of_the_callers_context() -> None:
    async def note(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        context.meta["seen"] = True
        return await call_next()

    person = Person()
    context = ToolContext(user="ann", elicitation=person.elicitation)
    manager = ToolIntegrationManager([note, confirmation_middleware]).register_tool(tool(Recorder(), DESTROYER))

    await manager.execute_tool("t", context=context)
    await manager.execute_tool("t", context=context)

    assert len(person.asked) == 2, "an agreement is for one call"
    assert context == ToolContext(user="ann", elicitation=person.elicitation)


async def test_a_chain_of_its_own_keeps_agreements_apart_as_well() -> None:
    async def end(params: Mapping[str, Any] | None = None, /) -> ToolResult:
        return ToolResult.of("done")

    person = Person()
    context = ToolContext(elicitation=person.elicitation)
    chain = create_tool_middleware_chain([confirmation_middleware])

    for _ in range(2):
        await chain(tool(Recorder(), DESTROYER), {}, context, end)

    assert len(person.asked) == 2
    assert not context.confirmed


async def test_a_middleware_knows_whose_call_it_is() -> None:
    seen: list[ToolContext] = []

    async def look(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        seen.append(context)
        return await call_next()

    manager = ToolIntegrationManager([look]).register_tool(tool(Recorder(), READER, server="files"))

    await manager.execute_tool("t", context=ToolContext(user="ann", thread="t1", session="s1"))

    assert (seen[0].user, seen[0].thread, seen[0].session, seen[0].server) == ("ann", "t1", "s1", "files")
    assert seen[0].attempt == 1
