"""Arguments are checked before a call is made, and missing ones asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.call.middleware.scene import READER, Person, Recorder, tool
from trunkline.call.middleware.chain import ToolContext
from trunkline.call.middleware.integration import ToolIntegrationManager
from trunkline.call.middleware.retry import create_retry_middleware
from trunkline.call.middleware.validate import create_validation_middleware, validation_middleware
from trunkline.errors import ConfigError, InvalidArgumentsError, UnreachableError
from trunkline.questions.kinds import FormRequest
from trunkline.tool import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "description": "Where"},
        "days": {"type": "integer", "minimum": 1},
        "units": {"enum": ["metric", "imperial"]},
        "loud": {"type": "boolean"},
        "ratio": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "token": {"type": "string", "format": "password"},
        "area": {"type": "object"},
    },
}


def forecast(run: Recorder, *required: str) -> Tool:
    return tool(run, READER, input_schema={**SCHEMA, "required": list(required)}, server="weather")


def manager(run: Recorder, *required: str, person: Person | None = None) -> ToolIntegrationManager:
    made = ToolIntegrationManager([validation_middleware], elicitation=person.elicitation if person else None)
    return made.register_tool(forecast(run, *required))


async def test_arguments_that_fit_go_through_unchanged() -> None:
    run = Recorder()

    await manager(run, "city").execute_tool("t", {"city": "Oslo", "days": 3})

    assert run.calls == [{"city": "Oslo", "days": 3}]


async def test_types_are_checked_and_nothing_runs_that_does_not_fit() -> None:
    run = Recorder()

    with pytest.raises(InvalidArgumentsError) as caught:
        await manager(run, "city").execute_tool("t", {"city": 5_551_234, "days": "three", "units": "furlongs"})

    assert run.calls == []
    assert caught.value.message == (
        "The arguments do not fit tool 't': 'city' must be of type string; 'days' must be of type integer; "
        '\'units\' must be one of ["metric","imperial"].'
    )
    assert "5551234" not in str(caught.value)
    assert "furlongs" not in str(caught.value)


async def test_without_anybody_to_ask_missing_arguments_are_told() -> None:
    with pytest.raises(InvalidArgumentsError, match="'city' is missing; 'days' is missing"):
        await manager(Recorder(), "city", "days").execute_tool("t")


async def test_missing_arguments_are_asked_for_and_added_to_a_copy() -> None:
    run = Recorder()
    person = Person({"city": "Oslo", "days": 3})
    given: dict[str, Any] = {"loud": True}

    await manager(run, "city", "days", person=person).execute_tool("t", given)

    assert run.calls == [{"loud": True, "city": "Oslo", "days": 3}]
    assert given == {"loud": True}
    [asked] = person.asked
    assert isinstance(asked, FormRequest)
    assert (asked.tool_name, asked.server_id) == ("t", "weather")
    assert asked.message == "Tool t needs more to run."


async def test_each_type_is_asked_for_in_its_own_kind_of_field() -> None:
    person = Person({"city": "Oslo"})
    required = ("city", "days", "units", "loud", "ratio", "day", "token")

    with pytest.raises(InvalidArgumentsError):
        await manager(Recorder(), *required, person=person).execute_tool("t")

    [asked] = person.asked
    assert isinstance(asked, FormRequest)
    assert {field.name: field.type for field in asked.fields} == {
        "city": "text",
        "days": "integer",
        "units": "select",
        "loud": "boolean",
        "ratio": "number",
        "day": "date",
        "token": "password",
    }
    assert all(field.required for field in asked.fields)
    assert [option.value for option in asked.fields[2].options] == ["metric", "imperial"]
    assert (asked.fields[0].label, asked.fields[0].description) == ("City", "Where")


async def test_a_secret_that_was_typed_in_reaches_the_tool_as_text() -> None:
    run = Recorder()

    await manager(run, "token", person=Person({"token": "hunter2"})).execute_tool("t")

    assert run.calls == [{"token": "hunter2"}]


@pytest.mark.parametrize("answer", [None, {"city": 7}, {"city": "Oslo", "other": 1}])
async def test_without_a_right_answer_nothing_runs(answer: object) -> None:
    run = Recorder()

    with pytest.raises(InvalidArgumentsError, match="'city' is missing"):
        await manager(run, "city", person=Person(answer)).execute_tool("t")

    assert run.calls == []


async def test_answers_are_checked_like_all_arguments() -> None:
    with pytest.raises(InvalidArgumentsError, match="'days' must be at least 1"):
        await manager(Recorder(), "days", person=Person({"days": 0})).execute_tool("t")


@pytest.mark.parametrize("required", [("area",), ("city", "unlisted")])
async def test_what_nobody_can_type_in_is_not_asked_for(required: tuple[str, ...]) -> None:
    person = Person({})

    with pytest.raises(InvalidArgumentsError, match="missing"):
        await manager(Recorder(), *required, person=person).execute_tool("t")

    assert person.asked == []


async def test_a_retry_does_not_ask_for_the_same_again() -> None:
    async def no_pause(seconds: float) -> None:
        pass

    run, person = Recorder(UnreachableError("gone")), Person({"city": "Oslo"})
    made = ToolIntegrationManager(
        [create_retry_middleware(sleep=no_pause), validation_middleware], elicitation=person.elicitation
    )

    await made.register_tool(forecast(run, "city")).execute_tool("t")

    assert run.calls == [{"city": "Oslo"}] * 2
    assert len(person.asked) == 1


async def test_asking_can_be_turned_off() -> None:
    person = Person({"city": "Oslo"})
    made = ToolIntegrationManager([create_validation_middleware(elicit_missing=False)])

    with pytest.raises(InvalidArgumentsError):
        await made.register_tool(forecast(Recorder(), "city")).execute_tool(
            "t", context=ToolContext(elicitation=person.elicitation)
        )

    assert person.asked == []


async def test_a_tool_whose_schema_cannot_be_used_is_not_run() -> None:
    run = Recorder()
    made = ToolIntegrationManager([validation_middleware])
    made.register_tool(tool(run, READER, input_schema={"$ref": "https://example.org/schema.json"}))

    with pytest.raises(InvalidArgumentsError, match="'t' cannot be used: Its schema refers to another document"):
        await made.execute_tool("t")

    assert run.calls == []


def test_no_time_to_answer_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="timeout"):
        create_validation_middleware(timeout=0)
