"""Agents and workflows as tools: their names, hints, failures, limits, retries and steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from trunkline import (
    AgentExposureManager,
    Annotations,
    ExposableAgent,
    ExposableWorkflow,
    ExposureMetadata,
    ExposureOptions,
    MCPServerBase,
    ToolResult,
    WorkflowStep,
    enter_step,
    expose_agent_as_tool,
    expose_agents_as_tools,
    expose_workflow_as_tool,
    expose_workflows_as_tools,
    validate_tool_name,
)
from trunkline.authoring.context import Notice, Progress
from trunkline.errors import ConfigError, InvalidArgumentsError


def agent(name: str = "Customer Support Agent", execute: Any = dict, **options: Any) -> ExposableAgent:
    about = options.pop("description", "Answers questions.")
    return ExposableAgent(options.pop("id", "a-1"), name, about, execute, **options)


def workflow(execute: Any = dict, **options: Any) -> ExposableWorkflow:
    return ExposableWorkflow("w-1", options.pop("name", "User Onboarding"), "Welcomes users.", execute, **options)


def giving(answer: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda given: answer


async def ran(
    source: ExposableAgent | ExposableWorkflow, given: Mapping[str, Any] | None = None, **options: Any
) -> ToolResult:
    server = MCPServerBase(id="test")
    expose: Any = expose_agent_as_tool if isinstance(source, ExposableAgent) else expose_workflow_as_tool
    exposed = expose(source, **options)
    server.register_tool(exposed.tool)
    return await server.execute_tool(exposed.tool_name, given or {})


@pytest.mark.parametrize(
    ("name", "prefix", "expected"),
    [
        ("Customer Support Agent!", None, "agent_customer_support_agent"),
        ("  Many   blanks ", None, "agent_many_blanks"),
        ("Ann's <agent> / №1", None, "agent_ann_s_agent_1"),
        ("Support", "agent_", "agent_support"),
        ("Support", "", "support"),
        ("客服", None, "agent_a_1"),
    ],
)
def test_every_name_becomes_a_legal_one(name: str, prefix: str | None, expected: str) -> None:
    exposed = expose_agent_as_tool(agent(name), prefix=prefix)

    assert exposed.tool_name == exposed.tool.name == expected


@pytest.mark.parametrize("name", ["x" * 300, "🤖", "a\nb", "delete; drop"])
@pytest.mark.parametrize("transformer", [None, str.upper, str])
def test_no_name_is_ever_illegal(name: str, transformer: Any) -> None:
    assert validate_tool_name(expose_agent_as_tool(agent(name), name_transformer=transformer).tool_name).valid


def test_metadata_goes_into_the_description_unless_it_shall_not() -> None:
    about = ExposureMetadata(version="2.1.0", category="support", estimated_duration=5)
    steps = (WorkflowStep("a"), WorkflowStep("b"))

    shown = expose_agent_as_tool(agent(metadata=about)).tool
    hidden = expose_agent_as_tool(agent(metadata=about), include_metadata_in_description=False).tool
    stepped = expose_workflow_as_tool(workflow(steps=steps, metadata=ExposureMetadata(version="1.0.0"))).tool

    assert shown.description == "Answers questions. [v2.1.0, category: support, ~5 s]"
    assert hidden.description == "Answers questions."
    assert stepped.description == "Welcomes users. [v1.0.0, 2 steps]"
    assert shown.category == "support"


def test_hints_are_inferred_from_the_agents_own_words() -> None:
    deletes = expose_agent_as_tool(agent("Delete all", description="Deletes every record.")).tool.annotations
    reads = expose_agent_as_tool(agent("Search documents", description="Finds documents.")).tool.annotations

    assert (deletes.destructive_hint, deletes.requires_confirmation) == (True, True)
    assert reads.read_only_hint is True
    assert reads.tags == ("agent",)
    assert reads.complexity == "complex"


def test_given_hints_win_over_words_and_words_over_defaults() -> None:
    defaults = Annotations(read_only_hint=True, security_level="restricted", tags=("ours",))
    about = ExposureMetadata(idempotent=False, tags=("mail",), cost_hint=2)

    hints = expose_agent_as_tool(agent("Delete all", metadata=about), default_annotations=defaults).tool.annotations

    assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (False, True, False)
    assert (hints.security_level, hints.cost_hint) == ("restricted", 2)
    assert hints.tags == ("ours", "agent", "mail")


@pytest.mark.parametrize("answer", [{"success": False, "error": "tired"}, ToolResult.failed("tired")])
async def test_an_agent_that_says_it_failed_has_failed(answer: Any) -> None:
    result = await ran(agent(execute=giving(answer)))

    assert result.is_error
    assert result.text == "tired"


async def test_an_agent_that_raises_has_failed() -> None:
    def fail(given: dict[str, Any]) -> None:
        raise ValueError("no model answered")

    result = await ran(agent(execute=fail))

    assert (result.is_error, result.text) == (True, "no model answered")


async def test_input_is_checked_against_the_agents_schema() -> None:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}

    result = await ran(agent(input_schema=schema), {"question": 1})

    assert "'query' is missing" in result.text


async def test_an_agent_may_take_longer_than_its_server_lets_tools_and_no_longer_than_itself() -> None:
    async def think(given: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    server = MCPServerBase(id="test", default_timeout=1e-9)
    server.register_tool(expose_agent_as_tool(agent(name="Slow", execute=think), execution_timeout=0.02).tool)
    server.register_tool(expose_agent_as_tool(agent(name="Quick")).tool)

    slow = await server.execute_tool("agent_slow")
    quick = await server.execute_tool("agent_quick", {"a": 1})

    assert "took longer than 0.02 s" in slow.text
    assert quick.structured == {"a": 1}


async def test_a_run_outside_a_server_is_limited_as_well() -> None:
    async def think(given: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    tool = expose_agent_as_tool(agent(execute=think), execution_timeout=0.01).tool
    assert tool.execute is not None

    with pytest.raises(Exception, match="Agent 'Customer Support Agent' took longer than"):
        await tool.execute({})


async def test_cancelling_reaches_the_agent() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def think(given: dict[str, Any]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(ran(agent(execute=think)))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.parametrize(("retriable", "retries", "runs"), [(False, 5, 1), (True, 0, 1), (True, 1, 2), (True, 2, 3)])
async def test_only_what_is_retriable_is_run_again(retriable: bool, retries: int, runs: int) -> None:
    count: list[int] = []

    def fail(given: dict[str, Any]) -> None:
        count.append(1)
        raise OSError("line is dead")

    result = await ran(agent(execute=fail, metadata=ExposureMetadata(retriable=retriable)), retries=retries)

    assert result.is_error
    assert len(count) == runs


async def test_what_trying_again_cannot_mend_is_not_tried_again() -> None:
    count: list[int] = []

    def refuse(given: dict[str, Any]) -> None:
        count.append(1)
        raise InvalidArgumentsError("That is no e-mail address.")

    await ran(agent(execute=refuse, metadata=ExposureMetadata(retriable=True)), retries=5)

    assert len(count) == 1


def test_retriable_tells_callers_that_a_call_may_be_repeated() -> None:
    safe = expose_agent_as_tool(agent(metadata=ExposureMetadata(retriable=True))).tool.annotations
    unsafe = expose_agent_as_tool(agent(metadata=ExposureMetadata(retriable=True, idempotent=False))).tool.annotations

    assert (safe.idempotent_hint, unsafe.idempotent_hint) == (True, False)


async def test_steps_run_in_order_and_are_told_as_progress() -> None:
    def add(given: dict[str, Any], before: Mapping[str, Any]) -> int:
        return given["n"] + sum(before.values())

    steps = (WorkflowStep("one", "First", add), WorkflowStep("two", "Second", add), WorkflowStep("three", run=add))
    server = MCPServerBase(id="test")
    server.register_tool(expose_workflow_as_tool(workflow(None, steps=steps)).tool)
    heard: list[Notice] = []

    result = await server.execute_tool("workflow_user_onboarding", {"n": 1}, tell=heard.append)

    assert result.structured == 4
    assert heard == [Progress(0, 3, "First"), Progress(1, 3, "Second"), Progress(2, 3, "three"), Progress(3, 3, "done")]


async def test_a_workflow_of_one_function_says_itself_where_it_is() -> None:
    def work(given: dict[str, Any]) -> str:
        enter_step("create")
        return "created"

    server = MCPServerBase(id="test")
    steps = (WorkflowStep("validate"), WorkflowStep("create", "Create Account"))
    server.register_tool(expose_workflow_as_tool(workflow(work, steps=steps)).tool)
    heard: list[Notice] = []

    await server.execute_tool("workflow_user_onboarding", tell=heard.append)

    assert heard == [Progress(1, 2, "Create Account"), Progress(2, 2, "done")]


async def test_a_step_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    def fly(given: dict[str, Any]) -> None:
        enter_step("fly")

    result = await ran(workflow(fly, steps=(WorkflowStep("walk"),)))

    assert "no step 'fly'" in result.text
    assert "walk" in result.text


async def test_a_failed_step_ends_the_workflow_and_a_retriable_one_is_tried_again() -> None:
    tries: list[str] = []

    def flaky(given: dict[str, Any], before: Mapping[str, Any]) -> str:
        tries.append("flaky")
        if len(tries) == 1:
            raise OSError("busy")
        return "up"

    def soft(given: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        tries.append("soft")
        return {"success": False, "error": "declined"}

    def never(given: dict[str, Any], before: Mapping[str, Any]) -> None:
        tries.append("never")

    steps = (WorkflowStep("a", run=flaky, retriable=True), WorkflowStep("b", run=soft), WorkflowStep("c", run=never))
    result = await ran(workflow(None, steps=steps))

    assert (result.is_error, result.text) == (True, "declined")
    assert tries == ["flaky", "flaky", "soft"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ExposableAgent("", "A", "", dict),
        lambda: ExposableAgent("a", "", "", dict),
        lambda: workflow(None),
        lambda: workflow(None, steps=(WorkflowStep("a"),)),
        lambda: workflow(steps=(WorkflowStep("a"), WorkflowStep("a"))),
        lambda: ExposureOptions(execution_timeout=0),
        lambda: ExposureOptions(retries=-1),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        wrong()


def test_several_of_one_name_are_told_apart_by_their_ids() -> None:
    first = [agent("Same", id="a"), agent("Same", id="b"), agent("Other", id="c")]

    names = [result.tool_name for result in expose_agents_as_tools(first)]
    turned = [result.tool_name for result in expose_agents_as_tools(reversed(first))]

    assert len(set(names)) == 3
    assert names == turned[::-1]
    assert all(result.tool.name == result.tool_name for result in expose_agents_as_tools(first))
    assert len(expose_workflows_as_tools([workflow(), workflow()])) == 2


def test_a_manager_refuses_a_name_that_is_taken() -> None:
    manager = AgentExposureManager(prefix="ours")
    manager.expose_agent(agent("Onboarding"))

    with pytest.raises(ConfigError, match="already has the tool name 'ours_onboarding'"):
        manager.expose_workflow(workflow(name="Onboarding"))
    assert manager.get_statistics().total_exposed == 1


async def test_a_manager_counts_what_it_exposes_and_how_it_went() -> None:
    manager = AgentExposureManager(prefix="ours", enable_logging=False)
    manager.expose_agent(agent("Good"))
    bad = manager.expose_workflow(workflow(giving({"success": False}), name="Bad"), prefix="theirs")
    server = MCPServerBase(id="test")
    server.register_tools(manager.get_exposed_tools())

    await server.execute_tool("ours_good")
    await server.execute_tool("theirs_bad")
    stats = manager.get_statistics()

    assert (stats.total_exposed, stats.exposed_agents, stats.exposed_workflows) == (2, 1, 1)
    assert (stats.tool_names, stats.runs, stats.failures) == (("ours_good", "theirs_bad"), 2, 1)
    assert manager.get_exposure_result("theirs_bad") == bad
    assert [tool.name for tool in manager.get_tools_by_source_type("workflow")] == ["theirs_bad"]
    assert (manager.unexpose("ours_good"), manager.unexpose("ours_good")) == (True, False)
    manager.clear()
    assert manager.get_exposed_tools() == []
