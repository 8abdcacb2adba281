"""A person is asked once, and nothing runs without a yes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.call.middleware.scene import DESTROYER, READER, WRITER, Person, Recorder, tool, twice
from trunkline.call.middleware.chain import CallNext, ToolContext
from trunkline.call.middleware.confirm import (
    CANCELLED,
    NOBODY,
    confirmation_middleware,
    create_confirmation_middleware,
)
from trunkline.call.middleware.integration import ToolIntegrationManager
from trunkline.call.middleware.retry import create_retry_middleware
from trunkline.errors import ConfigError, UnreachableError
from trunkline.questions.kinds import ConfirmationRequest, Elicitation
from trunkline.questions.manager import ElicitationManager, create_elicitation_context
from trunkline.tool import Annotations, Tool, ToolResult


def manager(run: Recorder, person: Person | None, annotations: Annotations = DESTROYER) -> ToolIntegrationManager:
    elicitation = person.elicitation if person else None
    made = ToolIntegrationManager([confirmation_middleware], elicitation=elicitation)
    return made.register_tool(tool(run, annotations, server="files"))


async def test_a_person_who_agrees_is_asked_once_although_the_registered_tool_asks_too() -> None:
    run, person = Recorder(), Person(True)

    result = await manager(run, person).execute_tool("t", {"path": "/secret", "force": True})

    assert result.text == "done"
    assert len(person.asked) == 1
    assert len(run.calls) == 1


@pytest.mark.parametrize("answer", [False, None, "yes", 1, {"responded": False, "value": True}])
async def test_whatever_is_not_a_yes_means_that_nothing_runs(answer: object) -> None:
    run, person = Recorder(), Person(answer)

    result = await manager(run, person).execute_tool("t")

    assert run.calls == []
    assert result.is_error
    assert result.text == CANCELLED == "Operation cancelled by user"
    assert result.meta == {"tool_name": "t", "cancelled": True}
    assert len(person.asked) == 1


async def test_an_answer_called_confirmed_is_a_yes() -> None:
    run = Recorder()

    assert not (await manager(run, Person({"confirmed": True})).execute_tool("t")).is_error
    assert len(run.calls) == 1


async def test_nothing_runs_where_nobody_can_be_asked() -> None:
    run = Recorder()

    result = await manager(run, None).execute_tool("t")

    assert run.calls == []
    assert result.text == NOBODY
    assert result.meta["cancelled"] is True


async def test_nothing_runs_when_the_time_to_answer_is_over() -> None:
    async def never(request: Elicitation) -> None:
        await asyncio.Event().wait()

    run = Recorder()
    elicitation = ElicitationManager(handler=never)
    made = ToolIntegrationManager([create_confirmation_middleware(timeout=0.01)], elicitation=elicitation)
    made.register_tool(tool(run, DESTROYER))

    async with asyncio.timeout(5):
        assert (await made.execute_tool("t")).meta["cancelled"] is True
    assert run.calls == []


async def test_nothing_runs_when_asking_fails() -> None:
    def broken(request: Elicitation) -> None:
        raise RuntimeError("the window is gone")

    run = Recorder()
    made = ToolIntegrationManager([confirmation_middleware], elicitation=ElicitationManager(handler=broken))

    assert (await made.register_tool(tool(run, DESTROYER)).execute_tool("t")).meta["cancelled"] is True
    assert run.calls == []


@pytest.mark.parametrize(
    ("annotations", "asked"),
    [
        (READER, 0),
        (WRITER, 0),
        (DESTROYER, 1),
        (Annotations(requires_confirmation=True), 1),
        (Annotations(read_only_hint=True, requires_confirmation=True), 1),
    ],
)
async def test_only_tools_that_need_an_agreement_ask(annotations: Annotations, asked: int) -> None:
    person = Person()

    await manager(Recorder(), person, annotations).execute_tool("t")

    assert len(person.asked) == asked


async def test_the_question_names_the_tool_and_the_arguments_but_no_values() -> None:
    person = Person()

    await manager(Recorder(), person).execute_tool("t", {"path": "/secret", **{f"a{n}": "hidden" for n in range(20)}})

    [asked] = person.asked
    assert isinstance(asked, ConfirmationRequest)
    assert asked.message == (
        "This operation (t, with path, a0, a1, a2, a3, a4, a5, a6 and 13 more) is destructive and requires "
        "confirmation. Do you want to proceed?"
    )
    assert (asked.tool_name, asked.server_id) == ("t", "files")
    assert (asked.confirm_label, asked.cancel_label) == ("Yes, proceed", "Cancel")


@pytest.mark.parametrize(("answer", "went_on"), [(True, 1), (False, 0)])
async def test_the_middleware_alone_goes_on_only_after_a_yes(answer: bool, went_on: int) -> None:
    run, person = Recorder(), Person(answer)

    async def call_next(params: Mapping[str, Any] | None = None, /) -> ToolResult:
        return ToolResult.of(await run({}))

    context = ToolContext(server="group", elicitation=person.elicitation)
    result = await confirmation_middleware(tool(run, DESTROYER, server="files"), {"n" * 50: 1}, context, call_next)

    assert len(run.calls) == went_on
    assert result.is_error is not answer
    [asked] = person.asked
    assert asked.server_id == "group"
    assert f"(t, with {'n' * 40}) is" in asked.message


async def test_where_no_server_is_named_the_question_names_the_tools() -> None:
    person = Person(False)

    async def call_next(params: Mapping[str, Any] | None = None, /) -> ToolResult:
        raise AssertionError("nobody agreed")

    context = ToolContext(elicitation=person.elicitation)
    await confirmation_middleware(tool(Recorder(), DESTROYER, server="files"), {}, context, call_next)

    assert person.asked[0].server_id == "files"


async def test_a_question_about_a_call_without_arguments_names_none() -> None:
    person = Person()

    await manager(Recorder(), person).execute_tool("t")

    assert person.asked[0].message.startswith("This operation (t) is destructive")


async def test_a_caller_who_has_an_agreement_already_says_so() -> None:
    run, person = Recorder(), Person(False)

    await manager(run, person).execute_tool("t", context=ToolContext(confirmed=True))

    assert person.asked == []
    assert len(run.calls) == 1


async def test_a_retry_does_not_ask_again() -> None:
    async def no_pause(seconds: float) -> None:
        pass

    run, person = Recorder(UnreachableError("gone"), UnreachableError("gone"), "done"), Person()
    annotations = Annotations(idempotent_hint=True, requires_confirmation=True)
    made = ToolIntegrationManager(
        [create_retry_middleware(sleep=no_pause), confirmation_middleware], elicitation=person.elicitation
    )

    result = await made.register_tool(tool(run, annotations)).execute_tool("t")

    assert result.text == "done"
    assert len(run.calls) == 3
    assert len(person.asked) == 1


@pytest.mark.parametrize("answer", [True, False])
async def test_a_middleware_that_goes_on_twice_does_not_ask_twice(answer: bool) -> None:
    run, person = Recorder(), Person(answer)
    made = ToolIntegrationManager([twice, confirmation_middleware], elicitation=person.elicitation)

    await made.register_tool(tool(run, DESTROYER)).execute_tool("t")

    assert len(person.asked) == 1
    assert len(run.calls) == (2 if answer else 0)


async def test_branches_of_one_call_wait_for_the_same_answer() -> None:
    async def both(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        first, _ = await asyncio.gather(call_next(), call_next())
        return first

    run, person = Recorder(), Person()
    made = ToolIntegrationManager([both, confirmation_middleware], elicitation=person.elicitation)

    await made.register_tool(tool(run, DESTROYER)).execute_tool("t")

    assert len(person.asked) == 1
    assert len(run.calls) == 2


async def test_a_context_of_questions_can_stand_in_for_the_manager() -> None:
    run, person = Recorder(), Person()
    asks = create_elicitation_context(person.elicitation)

    await manager(run, None).execute_tool("t", context=ToolContext(elicitation=asks))

    assert len(person.asked) == 1
    assert len(run.calls) == 1


def test_no_time_to_answer_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="timeout"):
        create_confirmation_middleware(timeout=0)


async def test_whoever_must_agree_is_told_what_it_costs() -> None:
    run, person = Recorder(), Person(True)

    await manager(run, person, Annotations(requires_confirmation=True, cost_hint=2.5)).execute_tool("t")

    assert "It costs 2.5." in person.asked[0].message
