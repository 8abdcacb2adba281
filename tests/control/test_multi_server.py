"""Many servers as one."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balance.clock import Clock
from trunkline.balance.groups import ServerGroup, ServerInfo, ServerWeight
from trunkline.control.multi_server import MultiServerManager, global_multi_server_manager
from trunkline.control.multi_server_options import (
    DEFAULT_MULTI_SERVER_CONFIG,
    GroupCreated,
    GroupDegraded,
    GroupRemoved,
    MetricsUpdated,
    MultiServerConfig,
    ServerAdded,
    ServerAddedToGroup,
    ServerRemoved,
    ServerRemovedFromGroup,
    ServerUpdated,
    ToolPreferenceSet,
)
from trunkline.errors import ConfigError, NoServerError, UnknownNameError, UnreachableError, UpstreamError
from trunkline.tool import Annotations, Tool

QUERY = Tool("query", "Ask the database", annotations=Annotations(read_only_hint=True))


def server(name: str, *tools: str | Tool, status: str = "connected") -> ServerInfo:
    return ServerInfo(
        name, name.upper(), status=status, tools=[Tool(tool) if isinstance(tool, str) else tool for tool in tools]
    )


def manager(*servers: ServerInfo, **options: Any) -> MultiServerManager:
    made = MultiServerManager(clock=options.pop("clock", Clock()), random=Random(5), **options)
    for one in servers:
        made.add_server(one)
    return made


def trio(**options: Any) -> MultiServerManager:
    return manager(server("a", QUERY), server("b", QUERY), server("c", QUERY), **options)


def spread(made: MultiServerManager, tool: str = "query", group: str | None = None, calls: int = 90) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(calls):
        selection = made.select_server(tool, group)
        assert selection is not None
        with selection:
            found[selection.server_id] += 1
    return found


def shown(made: MultiServerManager) -> dict[str, str]:
    return {tool.name: tool.preferred_server_id for tool in made.get_unified_tools()}


def test_the_defaults_are_those_of_the_documentation() -> None:
    config = DEFAULT_MULTI_SERVER_CONFIG

    assert (config.default_strategy, config.health_aware_routing, config.health_check_interval) == (
        "round-robin",
        True,
        30.0,
    )
    assert (config.max_failover_retries, config.namespace_separator, config.auto_namespace) == (3, ".", False)
    assert config.conflict_resolution == "first-wins"
    assert global_multi_server_manager.config == config


def test_round_robin_takes_turns_and_each_set_of_servers_has_its_own() -> None:
    made = manager(server("a", "x", "y"), server("b", "x", "y"), server("c", "y"))

    assert spread(made, "x", calls=10) == {"a": 5, "b": 5}
    assert spread(made, "y", calls=9) == {"a": 3, "b": 3, "c": 3}


def test_the_least_loaded_server_is_chosen_while_calls_are_under_way() -> None:
    made = trio(default_strategy="least-loaded")

    held = [made.select_server("query") for _ in range(6)]

    assert Counter(one.server_id for one in held if one) == {"a": 2, "b": 2, "c": 2}


def test_weights_are_shares_within_a_group() -> None:
    made = trio()
    weights = [ServerWeight("a", 70), ServerWeight("b", 30), ServerWeight("c", 0)]
    made.create_group(ServerGroup("pool", ["a", "b", "c"], strategy="weighted", weights=weights))

    assert spread(made, group="pool", calls=1_000) == {"a": 700, "b": 300}


def test_random_reaches_everybody() -> None:
    assert all(20 <= count <= 40 for count in spread(trio(default_strategy="random")).values())


def test_failover_only_leaves_the_first_when_it_is_ill() -> None:
    made = trio()
    weights = [ServerWeight("a", priority=2), ServerWeight("b", priority=1)]
    made.create_group(ServerGroup("pool", ["a", "b", "c"], strategy="failover-only", weights=weights))

    assert set(spread(made, group="pool")) == {"b"}
    made.update_server("b", status="failed")
    assert set(spread(made, group="pool")) == {"a"}
    made.update_server("a", status="failed")
    assert set(spread(made, group="pool")) == {"c"}


def test_a_server_in_two_groups_has_one_load_and_two_weights() -> None:
    made = trio()
    made.create_group(ServerGroup("one", ["a", "b"], strategy="weighted", weights=[ServerWeight("b", 0)]))
    made.create_group(ServerGroup("two", ["a", "b"], strategy="least-loaded"))

    held = [made.select_server("query", "one") for _ in range(3)]

    assert {one.server_id for one in held if one} == {"a"}
    assert set(spread(made, group="two", calls=3)) == {"b"}


def test_nobody_is_selected_for_unknown_tools_and_groups() -> None:
    made = trio()

    assert made.select_server("unknown") is None
    assert made.select_server("query", "unknown") is None
    for name in "abc":
        made.update_health(name, False)
    assert made.select_server("query") is None


def test_health_can_be_ignored_by_a_group() -> None:
    made = manager(server("a", QUERY, status="disconnected"))
    made.create_group(ServerGroup("any", ["a"], health_aware=False))

    assert made.select_server("query") is None
    assert set(spread(made, group="any")) == {"a"}


def test_a_preference_holds_while_the_server_has_the_tool_and_is_well() -> None:
    made = trio()
    made.set_tool_preference("query", "b")
    made.set_tool_preference("other", "b")

    assert set(spread(made)) == {"b"}
    made.update_health("b", False)
    assert set(spread(made)) == {"a", "c"}
    made.update_health("b", True)
    made.update_server("b", tools=[])
    assert set(spread(made)) == {"a", "c"}
    assert made.select_server("other") is None
    assert made.clear_tool_preference("query")
    assert not made.clear_tool_preference("query")


def test_a_preference_does_not_lead_out_of_a_group() -> None:
    made = trio()
    made.create_group(ServerGroup("pool", ["a", "b"]))
    made.set_tool_preference("query", "c")

    assert set(spread(made, group="pool")) == {"a", "b"}


def test_a_duplicate_server_is_refused_and_keeps_its_figures() -> None:
    made = trio()
    made.request_started("a")

    with pytest.raises(ConfigError, match="update_server"):
        made.add_server(server("a"))

    metrics = made.get_server_metrics("a")
    assert metrics is not None
    assert metrics.total_requests == 1


def test_what_is_unknown_is_refused_or_ignored() -> None:
    made = trio()

    for attempt in (
        lambda: made.create_group(ServerGroup("pool", ["a", "stranger"])),
        lambda: made.add_server_to_group("a", "unknown"),
        lambda: made.add_server_to_group("stranger", "unknown"),
        lambda: made.set_tool_preference("query", "stranger"),
        lambda: made.update_server("stranger", status="failed"),
        lambda: made.update_server("a", id="b"),
    ):
        with pytest.raises(ConfigError):
            attempt()
    assert not made.remove_server("stranger")
    assert not made.remove_group("unknown")
    assert not made.remove_server_from_group("a", "unknown")
    assert made.get_server("stranger") is None
    assert made.get_group("unknown") is None
    assert made.get_server_metrics("stranger") is None
    made.request_started("stranger")
    made.request_completed("stranger", 1.0, True)
    made.update_health("stranger", True)
    assert set(made.get_all_metrics()) == {"a", "b", "c"}


def test_the_callers_lists_are_left_alone() -> None:
    names = ["a", "b"]
    made = trio()
    made.create_group(ServerGroup("pool", names))

    made.add_server_to_group("c", "pool")
    names.append("z")

    group = made.get_group("pool")
    assert group is not None
    assert group.servers == ("a", "b", "c")
    assert names == ["a", "b", "z"]


def test_a_group_goes_with_its_last_server_and_says_so() -> None:
    made = trio()
    made.create_group(ServerGroup("one", ["a"]))
    made.create_group(ServerGroup("two", ["a", "b"]))
    heard: list[object] = []
    for kind in (GroupRemoved, ServerRemovedFromGroup, ServerRemoved):
        made.on(kind, heard.append)

    made.remove_server("a")

    assert heard == [
        ServerRemovedFromGroup("a", "one"),
        GroupRemoved("one"),
        ServerRemovedFromGroup("a", "two"),
        ServerRemoved("a"),
    ]
    assert [group.id for group in made.get_groups()] == ["two"]
    assert [one.id for one in made.get_servers()] == ["b", "c"]


def test_events_tell_every_change() -> None:
    made = manager()
    heard: list[object] = []
    for kind in (ServerAdded, ServerUpdated, GroupCreated, ServerAddedToGroup, ToolPreferenceSet, GroupRemoved):
        made.on(kind, heard.append)
    one, two, group = server("a"), server("b"), ServerGroup("pool", ["a"])

    made.add_server(one)
    made.add_server(two)
    changed = made.update_server("b", description="new")
    made.create_group(group)
    made.add_server_to_group("b", "pool")
    made.add_server_to_group("b", "pool")
    made.set_tool_preference("query", "a")
    made.remove_group("pool")

    assert heard == [
        ServerAdded("a", one),
        ServerAdded("b", two),
        ServerUpdated("b", changed),
        GroupCreated(group),
        ServerAddedToGroup("b", "pool"),
        ToolPreferenceSet("query", "a"),
        GroupRemoved("pool"),
    ]


def test_a_group_with_too_few_healthy_servers_says_so_once() -> None:
    made = trio()
    heard: list[GroupDegraded] = []
    made.on("group_degraded", heard.append)
    made.create_group(ServerGroup("pool", ["a", "b", "c"], min_healthy_servers=2))

    made.update_health("a", False)
    assert heard == []
    made.update_health("b", False)
    made.update_health("c", False)
    assert heard == [GroupDegraded("pool", 1, 2)]
    assert made.get_statistics().degraded_groups == 1
    made.update_health("a", True)
    made.update_health("b", True)
    assert made.get_statistics().degraded_groups == 0


FIRST = Tool("find", "first", {"type": "object", "properties": {"text": {"type": "string"}}})
SECOND = Tool("find", "second", {"type": "object", "properties": {"number": {"type": "integer"}}})


@pytest.mark.parametrize(
    ("policy", "tools", "takers"),
    [
        ("first-wins", {"find": "a"}, {"a"}),
        ("last-wins", {"find": "b"}, {"b"}),
        ("namespace", {"a.find": "a", "b.find": "b"}, {"a"}),
        ("prefix", {"a.find": "a", "b.find": "b"}, {"a"}),
        ("explicit", {}, set[str]()),
        ("preference", {}, set[str]()),
    ],
)
def test_each_policy_resolves_a_conflict_in_its_way(policy: str, tools: dict[str, str], takers: set[str]) -> None:
    made = manager(server("a", FIRST), server("b", SECOND), conflict_resolution=policy)

    assert shown(made) == tools
    assert all(tool.has_conflict for tool in made.get_unified_tools())
    found = {one.server_id for _ in range(6) if (one := made.select_server("find"))}
    assert found == takers


@pytest.mark.parametrize("policy", ["first-wins", "last-wins", "explicit", "preference"])
def test_a_preference_decides_a_conflict(policy: str) -> None:
    made = manager(server("a", FIRST), server("b", SECOND), server("c", FIRST), conflict_resolution=policy)

    made.set_tool_preference("find", "b")

    assert shown(made) == {"find": "b"}
    assert made.get_unified_tools()[0].description == "second"
    assert set(spread(made, "find", calls=6)) == {"b"}


def test_a_preferred_tool_keeps_its_bare_name_among_prefixed_ones() -> None:
    made = manager(server("a", FIRST), server("b", SECOND), conflict_resolution="namespace")

    made.set_tool_preference("find", "b")

    assert shown(made) == {"a.find": "a", "find": "b"}


def test_the_policy_error_refuses_the_second_server() -> None:
    made = manager(server("a", FIRST), server("c", "other"), conflict_resolution="error")

    with pytest.raises(ConfigError, match=r"'a' and 'b' both offer 'find'"):
        made.add_server(server("b", SECOND))
    with pytest.raises(ConfigError, match="find"):
        made.update_server("c", tools=[SECOND])

    assert [one.id for one in made.get_servers()] == ["a", "c"]
    assert shown(made) == {"find": "a", "other": "c"}


def test_servers_that_share_a_group_are_no_conflict() -> None:
    made = manager(server("a", FIRST), server("b", FIRST), conflict_resolution="namespace")
    assert set(shown(made)) == {"a.find", "b.find"}

    made.create_group(ServerGroup("pool", ["b", "a"], weights=[ServerWeight("b", priority=0)]))

    (tool,) = made.get_unified_tools()
    assert (tool.name, tool.has_conflict) == ("find", False)
    assert [source.server_id for source in tool.servers] == ["b", "a"]
    assert set(spread(made, "find", calls=4)) == {"a", "b"}


def test_servers_with_the_same_tool_share_its_calls_and_others_get_none() -> None:
    made = manager(server("a", FIRST), server("b", SECOND), server("c", FIRST))

    assert spread(made, "find", calls=10) == {"a": 5, "c": 5}


def test_ill_servers_show_no_tools_but_names_stay() -> None:
    made = manager(server("a", FIRST), server("b", SECOND), conflict_resolution="namespace")

    made.update_health("a", False)

    assert shown(made) == {"b.find": "b"}
    assert [tool.full_name for tool in made.get_namespaced_tools()] == ["b.find"]


def test_auto_namespace_shows_full_names_that_can_be_called() -> None:
    made = manager(server("a", "x", "y"), server("b", "x"), auto_namespace=True, namespace_separator="/")

    assert set(shown(made)) == {"a/x", "a/y", "b/x"}
    assert spread(made, "b/x", calls=3) == {"b": 3}
    selection = made.select_server("a/y")
    assert selection is not None
    assert (selection.server_id, selection.tool_name, selection.server.name) == ("a", "y", "A")


NAMES = st.sampled_from(["a", "b", "a.b", "b.c", "c", "a.b.c", ".", "a."])


@given(st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=5), max_size=5), st.booleans())
def test_every_full_name_leads_to_one_tool_of_one_server(offered: dict[str, list[str]], auto: bool) -> None:
    made = manager(
        *(server(name, *tools) for name, tools in offered.items()), auto_namespace=auto, conflict_resolution="namespace"
    )

    pairs = {(tool.server_id, tool.tool_name) for tool in made.get_namespaced_tools()}
    assert pairs == {(name, tool) for name, tools in offered.items() for tool in tools}
    for tool in made.get_namespaced_tools():
        assert made.resolve_namespaced(tool.full_name) == (tool.server_id, tool.tool_name)
    for tool in made.get_unified_tools():
        selection = made.select_server(tool.name)
        assert selection is not None
        assert selection.server_id in {source.server_id for source in tool.servers}
        assert selection.tool_name == tool.tool.name
    assert len({tool.name for tool in made.get_unified_tools()}) == len(made.get_unified_tools())


def test_names_that_look_alike_are_kept_apart() -> None:
    made = manager(server("a", "b.c"), server("a.b", "c"))

    names = {(tool.server_id, tool.tool_name): tool.full_name for tool in made.get_namespaced_tools()}

    assert len(set(names.values())) == 2
    assert made.resolve_namespaced("a.b.c") in names
    assert made.resolve_namespaced("a.b.unknown") is None


def test_figures_follow_the_calls() -> None:
    clock = Clock()
    made = manager(server("a", QUERY), clock=clock)
    heard: list[MetricsUpdated] = []
    made.on(MetricsUpdated, heard.append)

    for seconds, ok in ((2, True), (4, False)):
        selection = made.select_server("query")
        assert selection is not None
        clock.pass_by(seconds)
        selection.done(ok)

    metrics = made.get_server_metrics("a")
    assert metrics is not None
    assert (metrics.active_requests, metrics.total_requests, metrics.completed_requests) == (0, 2, 2)
    assert metrics.average_response_time == pytest.approx(3)
    assert metrics.error_rate == pytest.approx(0.1)
    assert [event.metrics.active_requests for event in heard] == [1, 0, 1, 0]


def test_a_selection_that_is_not_used_is_no_request() -> None:
    made = trio()

    for _ in range(10):
        made.select_server("query")

    assert made.get_statistics().total_requests == 0
    assert made.get_statistics().active_requests == 0


def test_requests_can_be_counted_by_hand_and_never_complete_more_than_began() -> None:
    made = trio()
    heard: list[MetricsUpdated] = []
    made.on("metrics_updated", heard.append)

    made.request_started("a")
    made.request_completed("a", 0.15, True)
    made.request_completed("a", 0.25, True)

    metrics = made.get_server_metrics("a")
    assert metrics is not None
    assert (metrics.total_requests, metrics.completed_requests, metrics.active_requests) == (2, 2, 0)
    assert metrics.average_response_time == pytest.approx(0.2)
    assert len(heard) == 3
    assert heard[0].metrics.active_requests == 1


def test_figures_handed_out_are_copies() -> None:
    made = trio()
    before = made.get_all_metrics()["a"]

    made.request_started("a")

    assert before.active_requests == 0
    assert made.get_all_metrics()["a"].active_requests == 1


def test_a_server_that_keeps_failing_is_no_longer_selected() -> None:
    made = trio()
    for _ in range(9):
        made.request_started("a")
        made.request_completed("a", 0.1, False)

    metrics = made.get_server_metrics("a")
    assert metrics is not None
    assert not metrics.is_healthy
    assert set(spread(made)) == {"b", "c"}
    assert "a" in {source.server_id for source in made.get_unified_tools()[0].servers}


def test_statistics_are_sums() -> None:
    made = manager(server("a", "x", "y"), server("b", "x", status="failed"))
    made.create_group(ServerGroup("pool", ["a"]))
    made.request_started("a")

    found = made.get_statistics()

    assert (found.total_servers, found.healthy_servers, found.total_groups) == (2, 1, 1)
    assert (found.total_tools, found.conflicting_tools) == (2, 1)
    assert (found.total_requests, found.active_requests) == (1, 1)


async def test_a_call_fails_over_within_its_group() -> None:
    made = trio()
    made.create_group(ServerGroup("pool", ["a", "b"], strategy="failover-only"))
    tried: list[str] = []

    async def attempt(name: str) -> str:
        tried.append(name)
        raise UnreachableError(name)

    with pytest.raises(UnreachableError, match="b"):
        await made.execute_tool("query", attempt, "pool")

    assert tried == ["a", "b"]
    assert made.get_statistics().active_requests == 0
    assert made.get_statistics().total_requests == 2


async def test_a_call_that_may_have_happened_is_made_once_unless_it_only_reads() -> None:
    made = manager(server("a", "pay", QUERY), server("b", "pay", QUERY))
    tried: list[str] = []

    async def attempt(name: str) -> str:
        tried.append(name)
        raise UpstreamError("broke")

    with pytest.raises(UpstreamError):
        await made.execute_tool("pay", attempt)
    assert len(tried) == 1
    with pytest.raises(UpstreamError):
        await made.execute_tool("query", attempt)
    assert len(tried) == 3


async def test_a_call_nobody_can_take_is_not_made() -> None:
    made = manager(server("a", FIRST), server("b", SECOND), conflict_resolution="explicit")

    async def attempt(name: str) -> str:
        return name

    with pytest.raises(UnknownNameError, match="several servers"):
        await made.execute_tool("find", attempt)
    with pytest.raises(UnknownNameError, match="get_unified_tools"):
        await made.execute_tool("unknown", attempt)
    assert await made.execute_tool("b.find", attempt) == "b"
    made.update_health("b", False)
    with pytest.raises(NoServerError):
        await made.execute_tool("b.find", attempt)


async def test_a_retry_sees_what_changed_meanwhile() -> None:
    made = trio(default_strategy="failover-only")

    async def attempt(name: str) -> str:
        if name == "a":
            made.remove_server("b")
            raise UnreachableError("gone")
        return name

    assert await made.execute_tool("query", attempt) == "c"


async def test_a_health_check_says_who_is_well_and_when_it_was() -> None:
    clock = Clock(500.0)
    made = trio(clock=clock)

    async def probe(name: str) -> bool:
        return name != "b"

    assert await made.check_health(probe) == {"a": True, "b": False, "c": True}

    metrics = made.get_all_metrics()
    assert [metrics[name].is_healthy for name in "abc"] == [True, False, True]
    assert metrics["b"].last_health_check == 500.0
    assert set(spread(made)) == {"a", "c"}


async def test_health_checks_go_on_at_their_interval() -> None:
    made = trio(health_check_interval=7)
    asked: Counter[str] = Counter()
    slept: list[float] = []
    enough = asyncio.Event()

    async def probe(name: str) -> bool:
        asked[name] += 1
        return True

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            enough.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(5), made.open_health_checks(probe, sleep=sleep):
        await enough.wait()

    assert asked == {"a": 3, "b": 3, "c": 3}
    assert slept == [7, 7, 7]


@pytest.mark.parametrize(
    "options",
    [
        {"default_strategy": "best"},
        {"conflict_resolution": "fight"},
        {"health_check_interval": 0},
        {"max_failover_retries": -1},
        {"namespace_separator": ""},
        {"retry_ratio": -1},
    ],
)
def test_an_option_that_makes_no_sense_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        MultiServerConfig(**options)


def test_a_group_or_server_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="strategy"):
        ServerGroup("pool", ["a"], strategy="priority")  # pyright: ignore[reportArgumentType] that is the point
    with pytest.raises(ConfigError, match="min_healthy_servers"):
        ServerGroup("pool", ["a"], min_healthy_servers=-1)
    with pytest.raises(ConfigError, match="id"):
        ServerInfo("")
