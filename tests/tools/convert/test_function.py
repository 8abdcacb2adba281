"""A function's types and docstring become a tool, and the tool's calls become calls of the function."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest

from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.tool import Annotations, Tool
from trunkline.tools.convert.docstring import read_docstring
from trunkline.tools.convert.function import create_tool_from_function


@dataclass
class Place:
    city: str
    country: str = "NO"


@dataclass
class Point:
    x: float
    y: float


class Filter(TypedDict, total=False):
    kind: Literal["rain", "snow"]
    places: list[Place]


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


async def run(tool: Tool, **arguments: Any) -> Any:
    assert tool.execute is not None
    result = tool.execute(arguments)
    return await result if hasattr(result, "__await__") else result


def forecast(
    place: Place,
    days: int = 3,
    *,
    unit: Unit = Unit.CELSIUS,
    only: Optional[Filter] = None,  # noqa: UP045 # both spellings must be read
    since: datetime.date | None = None,
    note: Annotated[str, "Printed below."] = "",
) -> dict[str, Any]:
    """Forecast the weather.

    Looks a few days ahead.

    Args:
        place: Where.
        days (int): How many days,
            today included.
        unit: Of the temperature.

    Returns:
        Something.
    """
    return {"city": place.city, "days": days, "unit": unit.name, "only": only, "since": since, "note": note}


def test_types_become_the_schema_and_the_docstring_the_words() -> None:
    tool = create_tool_from_function(forecast)

    members = tool.input_schema["properties"]
    assert (tool.name, tool.description) == ("forecast", "Forecast the weather.\n\nLooks a few days ahead.")
    assert tool.input_schema["required"] == ["place"]
    assert tool.input_schema["additionalProperties"] is False
    assert members["place"] == {"$ref": "#/$defs/Place", "description": "Where."}
    assert members["days"] == {"type": "integer", "description": "How many days, today included.", "default": 3}
    assert members["unit"]["default"] == "c"
    assert members["note"] == {"type": "string", "description": "Printed below.", "default": ""}
    assert {"type": "null"} in members["only"]["anyOf"]
    assert tool.input_schema["$defs"]["Place"]["required"] == ["city"]
    assert tool.input_schema["$defs"]["Filter"]["properties"]["kind"] == {"enum": ["rain", "snow"]}


async def test_arguments_arrive_as_the_types_that_were_declared() -> None:
    tool = create_tool_from_function(forecast)

    result = await run(
        tool,
        place={"city": "Oslo"},
        unit="k",
        since="2026-11-16",
        only={"kind": "rain", "places": [{"city": "Bergen", "country": "NO"}]},
    )

    assert result["city"] == "Oslo"
    assert (result["days"], result["unit"]) == (3, "KELVIN")
    assert result["since"] == "2026-11-16"
    assert result["only"] == {"kind": "rain", "places": [{"city": "Bergen", "country": "NO"}]}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "wants the argument 'place'"),
        ({"place": {"city": "Oslo"}, "speed": 1}, "has no argument 'speed'"),
        ({"place": {"city": "Oslo"}, "days": "hunter2"}, "argument 'days' of tool 'forecast' does not fit"),
        ({"place": {"city": "Oslo"}, "only": {"kind": "hunter2"}}, "argument 'only'"),
    ],
)
async def test_wrong_arguments_are_refused_by_name_and_never_by_value(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=error) as caught:
        await run(create_tool_from_function(forecast), **arguments)

    assert "hunter2" not in str(caught.value)


async def test_a_name_a_description_and_a_function_with_a_schema_of_its_own() -> None:
    async def add(params: dict[str, float]) -> float:
        return params["a"] + params["b"]

    numbers = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a"]}
    tool = create_tool_from_function("calculateSum", "Calculate the sum of two numbers", add, parameters=numbers)

    assert (tool.name, tool.description) == ("calculateSum", "Calculate the sum of two numbers")
    assert tool.input_schema == numbers
    assert await run(tool, a=1, b=2) == 3


async def test_a_function_that_takes_what_the_schema_names_is_called_by_keywords() -> None:
    def add(a: int, b: int = 5) -> int:
        return a + b

    def echo(a: int) -> int:
        return a

    numbers: dict[str, Any] = {"type": "object", "properties": {"a": {}, "b": {}}}

    assert await run(create_tool_from_function("add", "Add.", add, parameters=numbers), a=1) == 6
    assert await run(create_tool_from_function("echo", "", echo, parameters=numbers), a=1) == 1


async def test_async_functions_partials_methods_and_open_keywords() -> None:
    async def later(x: int, /, y: int = 2, **rest: int) -> list[int]:
        return [x, y, *rest.values()]

    class Adder:
        def __call__(self, a: int) -> int:
            return a + 1

        def twice(self, a: int) -> int:
            return 2 * a

    open_tool = create_tool_from_function(later)
    assert open_tool.input_schema["additionalProperties"] == {"type": "integer"}
    assert await run(open_tool, x=1, z=9) == [1, 2, 9]
    assert await run(create_tool_from_function(functools.partial(later, y=7), name="later"), x=1) == [1, 7]
    assert await run(create_tool_from_function(Adder().twice), a=4) == 8
    assert await run(create_tool_from_function(Adder(), name="adder"), a=4) == 5


async def test_two_dataclasses_in_one_union_are_tried_in_order() -> None:
    def where(at: Place | Point) -> str:
        return type(at).__name__

    tool = create_tool_from_function(where)

    assert tool.input_schema["properties"]["at"] == {"anyOf": [{"$ref": "#/$defs/Place"}, {"$ref": "#/$defs/Point"}]}
    assert [await run(tool, at={"x": 1, "y": 2}), await run(tool, at={"city": "Oslo"})] == ["Point", "Place"]


async def test_a_declared_result_becomes_the_output_schema() -> None:
    def find() -> Place:
        return Place("Oslo")

    def count() -> int:
        return 1

    tool = create_tool_from_function(find)

    assert tool.output_schema is not None
    assert tool.output_schema["type"] == "object"
    assert tool.output_schema["required"] == ["city"]
    assert await run(tool) == {"city": "Oslo", "country": "NO"}
    assert create_tool_from_function(count).output_schema is None


async def test_a_slow_function_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[str] = loop.create_future()
    timers: list[object] = []

    async def wait() -> str:
        return await waiting

    def note(*timer: object, **_: object) -> None:
        timers.append(timer)

    monkeypatch.setattr(loop, "call_at", note)
    task = asyncio.ensure_future(run(create_tool_from_function(wait)))
    await asyncio.sleep(0)
    waiting.set_result("late")

    assert await task == "late"
    assert timers == []


def test_explicit_annotations_win_over_inferred_ones() -> None:
    def delete_user(name: str) -> None:
        """Delete a user."""

    tool = create_tool_from_function(delete_user, annotations=Annotations(destructive_hint=False))
    plain = create_tool_from_function(delete_user, infer_annotations=False)

    assert tool.annotations.destructive_hint is False
    assert create_tool_from_function(delete_user).annotations.destructive_hint is True
    assert plain.annotations == Annotations()


def test_untyped_parameters_take_anything() -> None:
    tool = create_tool_from_function("any", "", eval("lambda a, b=None: a"))

    assert tool.input_schema["properties"] == {"a": {}, "b": {"default": None}}


def test_what_cannot_be_described_is_refused_with_a_hint() -> None:
    class Custom: ...

    def star(*values: int) -> None: ...
    def unknown(value: Custom) -> None: ...

    with pytest.raises(ConfigError, match=r"`\*values` has no names.*Give its `parameters`"):
        create_tool_from_function(star)
    with pytest.raises(ConfigError, match="'Custom', which is not known where it was written"):
        create_tool_from_function(unknown)
    with pytest.raises(ConfigError, match="has no name of its own"):
        create_tool_from_function(lambda: None)


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\n    a: The first\n        of two.\n    b (str, optional): The second: last.\n\n"
        "Returns:\n    c: None.",
        "Do it.\n\nParameters\n----------\na : int\n    The first\n    of two.\nb : str, optional\n"
        "    The second: last.\n\nReturns\n-------\nc\n    None.",
        "Do it.\n\n:param a: The first\n    of two.\n:param str b: The second: last.\n:returns: c",
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_parameters_are_read_in_three_styles(text: str) -> None:
    assert read_docstring(text) == ("Do it.", {"a": "The first of two.", "b": "The second: last."})


@pytest.mark.parametrize("text", [None, "", "Note: this stays.", "Parameters of weather are many."])
def test_a_docstring_without_sections_is_all_text(text: str | None) -> None:
    assert read_docstring(text) == (text or "", {})
