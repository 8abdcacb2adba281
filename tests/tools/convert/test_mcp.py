"""Definitions of MCP become tools and come back whole; names, hints and metadata follow the options."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.tools.convert.made import FULL, PLAIN
from trunkline.errors import ConfigError
from trunkline.tool import Annotations, Tool
from trunkline.tools.convert.definition import ToolConverterOptions
from trunkline.tools.convert.mcp import (
    batch_convert_from_mcp,
    batch_convert_to_mcp,
    from_mcp_tool,
    to_mcp_tool,
)


def test_a_tool_has_what_its_definition_says() -> None:
    tool = from_mcp_tool(FULL, server="forge").value

    assert (tool.name, tool.server, tool.category) == ("issues.create", "forge", "version-control")
    assert tool.annotations == Annotations(read_only_hint=False, title="Create an issue", tags=("issues",))
    assert tool.input_schema == FULL["inputSchema"]
    assert tool.output_schema == FULL["outputSchema"]
    assert tool.meta["example.org/team"] == "core"


def test_references_do_not_dangle() -> None:
    schema = to_mcp_tool(from_mcp_tool(FULL).value).value["inputSchema"]

    assert schema["properties"]["labels"]["items"] == {"$ref": "#/$defs/Label"}
    assert "Label" in schema["$defs"]
    assert schema["additionalProperties"] is False


def test_a_change_of_one_thing_leaves_the_others() -> None:
    tool = from_mcp_tool(FULL).value

    changed = to_mcp_tool(dataclasses.replace(tool, description="Open an issue.")).value
    relabelled = to_mcp_tool(tool.annotated(dataclasses.replace(tool.annotations, idempotent_hint=True))).value

    assert changed == FULL | {"description": "Open an issue."}
    assert relabelled["annotations"] == {
        "x-vendor": {"a": 1},
        "title": "Create an issue",
        "readOnlyHint": False,
        "idempotentHint": True,
    }
    assert {key: value for key, value in relabelled.items() if key != "annotations"} == {
        key: value for key, value in FULL.items() if key != "annotations"
    }


def test_removed_things_are_gone() -> None:
    tool = from_mcp_tool(FULL).value

    bare = to_mcp_tool(dataclasses.replace(tool, output_schema=None, category="", annotations=Annotations())).value

    assert not {"outputSchema", "title"} & set(bare)
    assert bare["annotations"] == {"x-vendor": {"a": 1}}
    assert bare["_meta"] == {"example.org/team": "core"}


def test_our_own_hints_travel_in_the_metadata_and_come_back() -> None:
    hints = Annotations(
        read_only_hint=True, tags=("a", "b"), estimated_duration=0.07, cost_hint=2.0, security_level="internal"
    )
    tool = Tool("look", "Look.", annotations=hints, category="data", meta={"when_to_use": "Always."})

    definition = to_mcp_tool(tool, infer_annotations=False).value
    back = from_mcp_tool(definition).value

    assert definition["annotations"] == {"readOnlyHint": True}
    assert (back.annotations, back.category, back.meta["when_to_use"]) == (hints, "data", "Always.")


def test_explicit_hints_win_over_defaults_and_defaults_over_inferred_ones() -> None:
    tool = Tool("delete_user", "Delete a user.", annotations=Annotations(idempotent_hint=True))
    defaults = Annotations(destructive_hint=False, idempotent_hint=False, open_world_hint=True)

    hints = to_mcp_tool(tool, default_annotations=defaults).value["annotations"]

    assert hints == {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": True,
    }


def test_hints_are_inferred_for_ones_own_tools_and_not_into_what_a_server_said() -> None:
    own = to_mcp_tool(Tool("get_weather", "Get the weather.")).value
    asked = to_mcp_tool(from_mcp_tool(PLAIN).value, infer_annotations=True).value
    read = from_mcp_tool(PLAIN, infer_annotations=True).value

    assert own["annotations"]["readOnlyHint"] is True
    assert "annotations" not in to_mcp_tool(from_mcp_tool(PLAIN).value).value
    assert asked["annotations"]["readOnlyHint"] is True
    assert read.annotations.read_only_hint is True
    assert from_mcp_tool(PLAIN).value.annotations == Annotations()


@pytest.mark.parametrize("prefix", ["external", "external_"])
def test_a_prefix_round_trips(prefix: str) -> None:
    shown = to_mcp_tool(Tool("search"), namespace_prefix=prefix).value

    assert shown["name"] == "external_search"
    assert from_mcp_tool(shown, remove_namespace_prefix=prefix).value.name == "search"


def test_a_prefixed_name_is_made_valid_said_so_and_found_again() -> None:
    converted = to_mcp_tool(Tool("do Thing"), namespace_prefix="myapp")

    assert converted.value["name"] == "myapp_do_Thing"
    assert [loss.path for loss in converted.losses] == ["/name"]
    assert from_mcp_tool(converted.value, remove_namespace_prefix="myapp").value.name == "do Thing"


def test_a_name_that_a_server_chose_is_not_ours_to_correct() -> None:
    definition = PLAIN | {"name": "get weather"}

    assert to_mcp_tool(from_mcp_tool(definition).value).value == definition


def test_metadata_can_be_left_out_and_that_is_said() -> None:
    tool = Tool("look", category="data", meta={"secret/team": "core"})

    there = to_mcp_tool(tool, preserve_metadata=False)
    here = from_mcp_tool(FULL, preserve_metadata=False)

    assert "_meta" not in there.value
    assert {loss.path for loss in there.losses} == {"/_meta/secret~1team", "/_meta/category"}
    assert (here.value.category, "example.org/team" in here.value.meta) == ("", False)
    assert to_mcp_tool(here.value).value["icons"] == FULL["icons"]


@pytest.mark.parametrize(
    ("revision", "unknown"),
    [
        ("2024-11-05", {"title", "annotations", "outputSchema", "icons", "execution", "_meta"}),
        ("2025-03-26", {"title", "outputSchema", "icons", "execution", "_meta"}),
        ("2025-06-18", {"icons", "execution"}),
        ("2025-11-25", set[str]()),
        ("2026-07-28", {"execution"}),
    ],
)
def test_an_older_revision_gets_only_what_it_knows(revision: str, unknown: set[str]) -> None:
    converted = to_mcp_tool(from_mcp_tool(FULL).value, revision=revision)

    assert set(FULL) - set(converted.value) == unknown
    assert {loss.path for loss in converted.losses} == {f"/{member}" for member in unknown}


def test_only_the_newest_revision_describes_results_that_are_no_objects() -> None:
    tool = Tool("count", output_schema={"type": "integer"})

    assert "outputSchema" not in to_mcp_tool(tool, revision="2025-11-25").value
    assert to_mcp_tool(tool, revision="2026-07-28").value["outputSchema"] == {"type": "integer"}


def test_a_batch_tells_names_that_meet_apart_and_says_so() -> None:
    tools = [Tool("a/b"), Tool("a b"), Tool("a_b"), Tool("c")]

    forwards = batch_convert_to_mcp(tools, namespace_prefix="x")
    backwards = batch_convert_to_mcp(tools[::-1], namespace_prefix="x")

    names = [definition["name"] for definition in forwards.value]
    assert names[2:] == ["x_a_b", "x_c"]
    assert len(set(names)) == 4
    assert names == [definition["name"] for definition in backwards.value][::-1]
    assert {"/0/name", "/1/name"} == {loss.path for loss in forwards.losses}
    assert [tool.name for tool in batch_convert_from_mcp(forwards.value, remove_namespace_prefix="x").value] == [
        tool.name for tool in tools
    ]


def test_namesakes_of_two_servers_are_told_apart() -> None:
    converted = batch_convert_to_mcp([Tool("search", server="a"), Tool("search", server="b")])

    assert len({definition["name"] for definition in converted.value}) == 2


def test_names_that_meet_without_their_prefix_are_told_apart() -> None:
    converted = batch_convert_from_mcp([PLAIN | {"name": "x_a"}, PLAIN | {"name": "a"}], remove_namespace_prefix="x")

    first, second = converted.value
    assert second.name == "a"
    assert first.name.startswith("a_")
    assert [loss.path for loss in converted.losses] == ["/0/name"]


def test_the_options_object_and_keywords_do_the_same() -> None:
    options = ToolConverterOptions(namespace_prefix="x")

    assert to_mcp_tool(Tool("a"), options).value == to_mcp_tool(Tool("a"), namespace_prefix="x").value


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"revision": "2023-01-01"}, "no MCP revision '2023-01-01'"),
        ({"default_annotations": Annotations(read_only_hint=True, destructive_hint=True)}, "`default_annotations`"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        ToolConverterOptions(**options)


@pytest.mark.parametrize("definition", [{}, {"name": ""}, {"name": 5}])
def test_a_definition_needs_a_name(definition: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="has no name"):
        from_mcp_tool(definition)


def test_a_tool_without_a_description_gets_none_invented() -> None:
    assert "description" not in to_mcp_tool(Tool("look")).value
