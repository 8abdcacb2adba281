"""Searching the catalogue: criteria, order, statistics."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.control.shop import Shop, discovered, tool
from trunkline import Annotations, EnhancedToolDiscovery, ToolSearchCriteria
from trunkline.errors import ConfigError


@pytest.fixture
async def discovery() -> EnhancedToolDiscovery:
    """Tools of two servers."""
    made = EnhancedToolDiscovery()
    files = Shop(
        tool("read_file", "Read a file from disk", annotations={"readOnlyHint": True, "tags": ["disk", "text"]}),
        tool("write_file", "Write text to a file", annotations={"tags": ["disk"]}),
        tool("delete_file", "Delete a file for good"),
    )
    database = Shop(
        tool("query_users", "Query the users of a database", annotations={"readOnlyHint": True, "tags": ["sql"]}),
        tool("drop_table", "Drop a table of the database"),
    )
    await made.discover_tools_with_annotations("files", files)
    await made.discover_tools_with_annotations("db", database)
    return made


READS = Annotations(read_only_hint=True)


@pytest.mark.parametrize(
    ("criteria", "names"),
    [
        ({}, ["delete_file", "drop_table", "query_users", "read_file", "write_file"]),
        ({"name": "FILE"}, ["delete_file", "read_file", "write_file"]),
        ({"name": " file "}, ["delete_file", "read_file", "write_file"]),
        ({"name": "le_fi"}, []),
        ({"description": "database disk"}, ["drop_table", "query_users", "read_file"]),
        ({"description": " database"}, ["drop_table", "query_users"]),
        ({"description": "   "}, ["delete_file", "drop_table", "query_users", "read_file", "write_file"]),
        ({"description": "a\0b"}, []),
        ({"server_ids": ["db", "nobody"]}, ["drop_table", "query_users"]),
        ({"category": "file-system"}, ["delete_file", "read_file", "write_file"]),
        ({"tags": ["sql", "text"]}, ["query_users", "read_file"]),
        ({"annotations": READS}, ["query_users", "read_file"]),
        ({"annotations": Annotations(tags=("disk",))}, ["read_file", "write_file"]),
        ({"annotations": Annotations(read_only_hint=True, tags=("disk", "sql"))}, ["query_users", "read_file"]),
        ({"safety": "dangerous"}, ["delete_file", "drop_table"]),
        ({"name": "file", "annotations": READS, "server_ids": ["files"], "description": "disk"}, ["read_file"]),
        ({"sort_by": "name", "sort_direction": "desc", "limit": 2}, ["write_file", "read_file"]),
        ({"limit": 2, "offset": 1}, ["drop_table", "query_users"]),
        ({"offset": 9}, []),
    ],
)
async def test_tools_meet_every_criterion(
    discovery: EnhancedToolDiscovery, criteria: dict[str, Any], names: list[str]
) -> None:
    assert [found.name for found in discovery.search_tools(**criteria).tools] == names


async def test_the_total_does_not_depend_on_the_limit(discovery: EnhancedToolDiscovery) -> None:
    criteria = ToolSearchCriteria(name="file")

    result = discovery.search_tools(criteria, limit=1)

    assert (len(result.tools), result.total_count) == (1, 3)
    assert result.criteria == ToolSearchCriteria(name="file", limit=1)
    assert result.execution_time >= 0


@pytest.mark.parametrize(
    "options",
    [
        {"sort_by": "colour"},
        {"sort_direction": "up"},
        {"sort_by": "relevance"},
        {"safety": "harmless"},
        {"limit": -1},
        {"tags": "text"},
    ],
)
async def test_criteria_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        EnhancedToolDiscovery().search_tools(**options)


async def test_criteria_are_found_in_a_catalogue_of_many_as_if_each_tool_was_looked_at() -> None:
    words = ("file", "user", "table", "a", "of")
    tools = [
        tool(
            f"{words[n % 5]}_{n}",
            " ".join(words[k % 5] for k in range(n % 7)),
            annotations={"readOnlyHint": n % 3 == 0, "tags": [f"t{n % 4}"]},
        )
        for n in range(300)
    ]
    discovery = await discovered(*tools)

    for number in range(60):
        name, words_wanted, tag = str(number), words[number % 5], f"t{number % 4}"
        found = discovery.search_tools(name=name, description=f"{words_wanted} nowhere", tags=[tag])
        plain = [
            one.name
            for one in discovery.get_all_tools()
            if name in one.name and words_wanted in one.description and tag in one.annotations.tags
        ]
        assert [one.name for one in found.tools] == sorted(plain)


# How calls went.


def call(discovery: EnhancedToolDiscovery, name: str, *seconds: float, failures: int = 0) -> None:
    server = "files" if name.endswith("file") else "db"
    for number, took in enumerate(seconds):
        assert discovery.record_call(server, name, took, success=number >= failures)


async def test_statistics_come_from_calls(discovery: EnhancedToolDiscovery) -> None:
    call(discovery, "read_file", 0.2, 0.4, failures=1)

    found = discovery.get_tool("files", "read_file")

    assert found is not None
    assert (found.stats.total_calls, found.stats.successful_calls, found.stats.failed_calls) == (2, 1, 1)
    assert math.isclose(found.stats.average_execution_time, 0.3)
    assert (found.stats.last_execution_time, found.stats.success_rate) == (0.4, 0.5)
    assert discovery.record_call("files", "unknown", 1.0) is False


@pytest.mark.parametrize(
    ("sort_by", "direction", "first"),
    [
        ("calls", "desc", ["read_file", "drop_table", "write_file"]),
        ("calls", "asc", ["write_file", "drop_table", "read_file"]),
        ("success_rate", "desc", ["drop_table", "write_file", "read_file"]),
        ("success_rate", "asc", ["read_file", "drop_table", "write_file"]),
        ("avg_execution_time", "asc", ["read_file", "write_file", "drop_table"]),
        ("avg_execution_time", "desc", ["drop_table", "write_file", "read_file"]),
    ],
)
async def test_tools_are_sorted_by_how_they_fare_and_those_never_called_come_last(
    discovery: EnhancedToolDiscovery, sort_by: Any, direction: Any, first: list[str]
) -> None:
    call(discovery, "read_file", 0.1, 0.1, 0.1, failures=1)
    call(discovery, "drop_table", 0.9, 0.9)
    call(discovery, "write_file", 0.5)

    whole = discovery.search_tools(sort_by=sort_by, sort_direction=direction)
    cut = discovery.search_tools(sort_by=sort_by, sort_direction=direction, limit=2, offset=1)

    assert [found.name for found in whole.tools] == [*first, "delete_file", "query_users"]
    assert [found.name for found in cut.tools] == first[1:3]
    assert cut.total_count == 5


async def test_only_tools_that_meet_the_criteria_are_sorted(discovery: EnhancedToolDiscovery) -> None:
    call(discovery, "drop_table", 0.9, 0.9)
    call(discovery, "write_file", 0.5)

    found = discovery.search_tools(sort_by="calls", sort_direction="desc", name="file")

    assert [one.name for one in found.tools] == ["write_file", "delete_file", "read_file"]


async def test_a_record_keeps_the_numbers_it_was_made_with(discovery: EnhancedToolDiscovery) -> None:
    before = discovery.get_tool("files", "read_file")
    call(discovery, "read_file", 0.1)
    after = discovery.search_tools(name="read_file").tools[0]

    assert before is not None
    assert (before.stats.total_calls, after.stats.total_calls) == (0, 1)


async def test_the_catalogue_in_numbers_counts_every_tool_in_one_level(discovery: EnhancedToolDiscovery) -> None:
    call(discovery, "read_file", 0.1, 0.3, failures=1)
    both = {"readOnlyHint": True, "destructiveHint": True}
    await discovery.discover_tools_with_annotations("odd", Shop(tool("both", annotations=both, deprecated=True)))

    stats = discovery.get_statistics()
    lists = {level: len(discovery.get_tools_by_safety_level(level)) for level in stats.tools_by_safety_level}

    assert stats.total_tools == sum(stats.tools_by_safety_level.values()) == sum(lists.values()) == 6
    assert dict(stats.tools_by_safety_level) == lists
    assert "both" in {one.name for one in discovery.get_tools_by_safety_level("dangerous")}
    assert "both" not in {one.name for one in discovery.get_read_only_tools()}
    assert stats.tools_by_server == {"files": 3, "db": 2, "odd": 1}
    assert stats.tools_by_category["file-system"] == 3
    assert (stats.total_calls, stats.failed_calls, stats.deprecated_tools) == (2, 1, 1)
    assert math.isclose(stats.average_execution_time, 0.2)


async def test_tools_that_cannot_be_reached_are_found_only_on_demand(discovery: EnhancedToolDiscovery) -> None:
    discovery.set_available("files", False)

    found = discovery.search_tools()
    everything = discovery.search_tools(include_unavailable=True)

    assert {one.server_id for one in found.tools} == {"db"}
    assert {one.name for one in everything.tools if not one.is_available} == {"read_file", "write_file", "delete_file"}
    assert discovery.get_statistics().available_tools == 2
    assert discovery.check_compatibility("read_file", "files").warnings


# By what they do.


async def test_a_query_ranks_by_fit_within_the_other_criteria(discovery: EnhancedToolDiscovery) -> None:
    whole = discovery.search_tools(query="delete a file")
    safe = discovery.search_tools(query="delete a file", safety="safe")
    none = discovery.search_tools(query="bake a chocolate cake")

    assert whole.tools[0].name == "delete_file"
    assert list(whole.scores) == sorted(whole.scores, reverse=True)
    assert all(one.safety == "safe" for one in safe.tools)
    assert (none.tools, none.total_count, none.scores) == ((), 0, ())


async def test_a_query_follows_what_changes(discovery: EnhancedToolDiscovery) -> None:
    discovery.search_tools(query="delete a file")

    await discovery.discover_tools_with_annotations("files", Shop(tool("bake_cake", "Bake a chocolate cake")))

    assert [one.name for one in discovery.search_tools(query="bake a chocolate cake").tools] == ["bake_cake"]
    assert "delete_file" not in {one.name for one in discovery.search_tools(query="delete a file").tools}


async def test_hits_of_a_query_can_be_sorted_otherwise(discovery: EnhancedToolDiscovery) -> None:
    best = discovery.search_tools(query="read a file from disk", limit=1)
    worst = discovery.search_tools(query="read a file from disk", sort_by="relevance", sort_direction="asc")
    named = discovery.search_tools(query="read a file from disk", sort_by="name")

    assert best.tools[0].name == "read_file"
    assert worst.tools[-1].name == "read_file"
    assert [one.name for one in named.tools] == sorted(one.name for one in named.tools)
    assert best.total_count == worst.total_count == named.total_count == len(named.scores)


async def test_servers_with_a_slash_in_their_names_are_told_apart() -> None:
    discovery = EnhancedToolDiscovery()
    await discovery.discover_tools_with_annotations("a/b", Shop(tool("c", "Bake a cake")))
    await discovery.discover_tools_with_annotations("a", Shop(tool("b/c", "Bake a cake")))

    found = discovery.search_tools(query="bake a cake").tools

    assert {(one.server_id, one.name) for one in found} == {("a/b", "c"), ("a", "b/c")}
