"""A wrapped tool asks by itself, and does not repeat what a chain has asked."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.call.middleware.scene import DESTROYER, READER, Person, Recorder, tool
from trunkline.call.middleware.confirm import NOBODY, confirmation_middleware
from trunkline.call.middleware.integration import (
    DEFAULT_TOOL_WRAPPER_OPTIONS,
    ToolIntegrationManager,
    ToolWrapperOptions,
    wrap_tool_with_elicitation,
    wrap_tools_with_elicitation,
)
from trunkline.call.middleware.logs import logging_middleware
from trunkline.errors import ConfigError
from trunkline.tool import Annotations, Tool, ToolResult


async def run_alone(wrapped: Tool, params: dict[str, Any] | None = None) -> ToolResult:
    assert wrapped.execute is not None
    return ToolResult.of(await wrapped.execute(params or {}))


def test_the_defaults_are_those_of_the_original() -> None:
    assert ToolWrapperOptions(False, 60.0, True, None) == DEFAULT_TOOL_WRAPPER_OPTIONS


async def test_a_wrapped_tool_asks_wherever_it_is_called_from() -> None:
    for answer in (True, False):
        run, person = Recorder(), Person(answer)
        wrapped = wrap_tool_with_elicitation(tool(run, DESTROYER), ToolWrapperOptions(elicitation=person.elicitation))

        result = await run_alone(wrapped, {"a": 1})

        assert result.is_error is not answer
        assert run.calls == ([{"a": 1}] if answer else [])
        assert len(person.asked) == 1


async def test_a_wrapped_tool_without_anybody_to_ask_does_not_run() -> None:
    run = Recorder()

    result = await run_alone(wrap_tool_with_elicitation(tool(run, DESTROYER)))

    assert result.text == NOBODY
    assert run.calls == []


async def test_a_tool_that_needs_no_agreement_just_runs() -> None:
    [wrapped] = wrap_tools_with_elicitation([tool(Recorder(), READER)])

    assert (await run_alone(wrapped)).text == "done"


async def test_somebody_may_answer_for_destructive_tools() -> None:
    run = Recorder()
    options = ToolWrapperOptions(auto_confirm_destructive=True)

    await run_alone(wrap_tool_with_elicitation(tool(run, DESTROYER), options))

    assert len(run.calls) == 1


async def test_a_wrapped_tool_in_a_chain_that_asks_is_asked_about_once() -> None:
    run, own, chains = Recorder(), Person(), Person()
    wrapped = wrap_tool_with_elicitation(tool(run, DESTROYER), ToolWrapperOptions(elicitation=own.elicitation))
    manager = ToolIntegrationManager([confirmation_middleware], elicitation=chains.elicitation)

    await manager.register_tool(wrapped).execute_tool("t")

    assert (len(chains.asked), len(own.asked), len(run.calls)) == (1, 0, 1)


async def test_wrapping_twice_asks_once() -> None:
    run, person = Recorder(), Person()
    options = ToolWrapperOptions(elicitation=person.elicitation)

    await run_alone(wrap_tool_with_elicitation(wrap_tool_with_elicitation(tool(run, DESTROYER)), options))

    assert (len(person.asked), len(run.calls)) == (1, 1)


async def test_agreeing_to_one_tool_is_not_agreeing_to_what_it_calls() -> None:
    person, inner_run = Person(), Recorder()
    options = ToolWrapperOptions(elicitation=person.elicitation)
    for name in ("inner", "t"):
        inner = wrap_tool_with_elicitation(Tool(name, annotations=DESTROYER, execute=inner_run), options)

        async def outer(params: dict[str, Any], inner: Tool = inner) -> ToolResult:
            return await run_alone(inner)

        person.asked.clear()
        manager = ToolIntegrationManager([confirmation_middleware], elicitation=person.elicitation)
        await manager.register_tool(tool(outer, DESTROYER)).execute_tool("t")

        assert len(person.asked) == 2

    assert len(inner_run.calls) == 2


async def test_a_call_is_logged_once_in_a_chain_or_alone(caplog: pytest.LogCaptureFixture) -> None:
    wrapped = wrap_tool_with_elicitation(tool(Recorder(), READER))
    quiet = wrap_tool_with_elicitation(tool(Recorder(), READER), ToolWrapperOptions(enable_logging=False))
    manager = ToolIntegrationManager([logging_middleware]).register_tool(wrapped)

    with caplog.at_level(logging.INFO, logger="trunkline.tools"):
        await manager.execute_tool("t")
        assert len(caplog.records) == 1
        await run_alone(wrapped)
        assert len(caplog.records) == 2
        await run_alone(quiet)
        assert len(caplog.records) == 2


def test_a_wrapped_tool_keeps_everything_else() -> None:
    one = Tool("a", "b", annotations=Annotations(title="c"), server="d", category="e", execute=Recorder())

    wrapped = wrap_tool_with_elicitation(one)

    assert (wrapped.name, wrapped.description, wrapped.server, wrapped.category) == ("a", "b", "d", "e")
    assert wrapped.annotations == one.annotations


def test_a_tool_without_a_function_cannot_be_wrapped() -> None:
    with pytest.raises(ConfigError, match="no function"):
        wrap_tool_with_elicitation(Tool("t"))


def test_no_time_to_answer_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="elicitation_timeout"):
        ToolWrapperOptions(elicitation_timeout=0)
