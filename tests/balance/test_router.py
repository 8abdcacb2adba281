"""The router sends each call to the right server."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.balance.clock import Clock
from trunkline.balance.groups import ServerWeight
from trunkline.balance.router import ToolRouter, create_tool_router
from trunkline.balance.routing import (
    DEFAULT_ROUTER_CONFIG,
    AffinityExpired,
    AffinitySet,
    HealthUpdated,
    RouteContext,
    RouteDecided,
    RouteFailed,
    RouterConfig,
)
from trunkline.balance.strategies import STRATEGIES, Strategy
from trunkline.errors import ConfigError, NoServerError, UnreachableError, UpstreamTimeoutError
from trunkline.tool import Annotations, Tool

ANN = RouteContext(session_id="42")
QUERY = Tool("query", category="database", annotations=Annotations(read_only_hint=True))
DROP = Tool("drop", category="database", annotations=Annotations(destructive_hint=True))
PING = Tool("ping")


def router(*servers: str, **options: Any) -> ToolRouter:
    made = ToolRouter(clock=options.pop("clock", Clock()), random=Random(11), **options)
    for server in servers:
        made.register_server(server)
    return made


def databases(**options: Any) -> ToolRouter:
    weights = [ServerWeight("primary", 80, capabilities=("write",)), ServerWeight("replica", 20)]
    made = router(server_weights=weights, **options)
    made.register_server("primary", ["database"])
    made.register_server("replica", ["database"])
    made.register_server("model", ["ai"])
    return made


def where(made: ToolRouter, tool: Tool, context: RouteContext = RouteContext(), calls: int = 20) -> set[str]:  # noqa: B008
    return {made.route(tool, context).server_id for _ in range(calls)}


def test_the_defaults_are_those_of_the_documentation() -> None:
    config = DEFAULT_ROUTER_CONFIG

    assert (config.strategy, config.fallback_strategy) == ("least-loaded", "round-robin")
    assert (config.max_retries, config.health_check_interval, config.affinity_ttl) == (3, 30.0, 1800.0)
    assert config.enable_affinity is False
    assert create_tool_router(config).config == config


@pytest.mark.parametrize(
    ("strategy", "confidence"),
    [
        ("round-robin", 0.8),
        ("least-loaded", 0.9),
        ("capability-based", 0.75),
        ("priority", 0.5),
        ("random", 0.5),
        ("weighted", 0.8),
        ("failover-only", 0.9),
    ],
)
def test_a_decision_says_how_and_how_surely(strategy: Strategy, confidence: float) -> None:
    decision = router("a", "b", "c", strategy=strategy).route(PING)

    assert (decision.strategy, decision.confidence) == (strategy, confidence)
    assert decision.reason
    assert sorted([decision.server_id, *decision.alternates]) == ["a", "b", "c"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("weight", [0.0, 100.0])
def test_confidence_stays_between_0_and_1(strategy: Strategy, weight: float) -> None:
    made = router("a", strategy=strategy, server_weights=[ServerWeight("a", weight)])

    assert 0 <= made.route(PING, ANN).confidence <= 1
    assert 0 <= made.route(PING, ANN).confidence <= 1


@pytest.mark.parametrize("strategy", ["least-loaded", "round-robin", "capability-based", "priority", "random"])
def test_no_strategy_sends_everything_to_the_first_of_equal_servers(strategy: Strategy) -> None:
    made = router("a", "b", "c", "d", strategy=strategy)

    found = Counter(made.route(PING).server_id for _ in range(400))

    assert all(60 <= count <= 140 for count in found.values())
    assert len(found) == 4


def test_tools_share_their_turns_so_that_new_names_do_not_all_start_at_one_server() -> None:
    made = router("a", "b", "c", "d", strategy="round-robin")

    found = Counter(made.route(Tool(f"tool{number}")).server_id for number in range(4_000))

    assert set(found.values()) == {1_000}


def test_shares_of_a_weighted_router_follow_the_weights() -> None:
    weights = {"a": 60.0, "b": 30.0, "c": 10.0}
    made = router(*weights, strategy="weighted", server_weights=[ServerWeight(*pair) for pair in weights.items()])

    found = Counter(made.route(PING).server_id for _ in range(10_000))

    assert all(found[name] == pytest.approx(100 * weight, rel=0.05) for name, weight in weights.items())


def test_load_is_counted_by_the_lease_and_cannot_leak() -> None:
    made = router("a", "b")

    with made.take(PING) as first, made.take(PING) as second:
        assert {first.server, second.server} == {"a", "b"}
        assert made.get_stats().server_loads == {"a": 1, "b": 1}
    with pytest.raises(ZeroDivisionError), made.take(PING):
        raise ZeroDivisionError

    assert made.get_stats().server_loads == {"a": 0, "b": 0}


def test_load_by_hand_steers_the_least_loaded_and_strangers_are_ignored() -> None:
    made = router("a", "b")

    made.update_server_load("a", 1)
    made.update_server_load("stranger", 5)

    assert where(made, PING) == {"b"}
    made.update_server_load("a", -7)
    assert made.get_stats().server_loads == {"a": 0, "b": 0}


def test_a_category_narrows_the_candidates() -> None:
    made = router("x", "y", "z", category_mapping={"files": ["y"]})

    assert where(made, Tool("read", category="files")) == {"y"}
    assert made.route_by_category(PING, "files") == ["y"]
    assert where(made, Tool("read", category="unheard-of")) == {"x", "y", "z"}


def test_a_category_gives_way_when_none_of_its_servers_is_healthy() -> None:
    made = router("x", "y", category_mapping={"files": ["y"]})

    made.update_health_status("y", False)

    assert where(made, Tool("read", category="files")) == {"x"}


def test_the_mapping_of_the_caller_stays_as_it_was() -> None:
    mapping = {"files": ["y"]}
    made = router(category_mapping=mapping)

    made.register_server("x", ["files"])
    mapping["files"].append("z")

    assert made.route_by_category(PING, "files") == ["x"]
    assert mapping == {"files": ["y", "z"]}


def test_a_tool_goes_to_its_own_server_and_elsewhere_only_when_that_is_ill() -> None:
    made = router("a", "b", "c")
    own = Tool("own", server="b")

    assert where(made, own) == {"b"}

    made.update_health_status("b", False)
    assert where(made, own) == {"a", "c"}


def test_only_servers_that_have_the_tool_are_asked() -> None:
    made = router()
    made.register_server("a", tools=["query", "ping"])
    made.register_server("b", tools=["ping"])
    made.register_server("empty", tools=[])

    assert where(made, PING) == {"a", "b"}
    assert where(made, QUERY) == {"a"}
    with pytest.raises(NoServerError, match="tools"):
        made.route(Tool("unknown"))


def test_capabilities_must_all_be_there_wherever_they_are_written() -> None:
    made = databases()

    assert made.route_by_capability(PING, ["database"]) == ["primary", "replica"]
    assert made.route_by_capability(PING, ["database", "write"]) == ["primary"]
    assert where(made, PING, RouteContext(capabilities=("write",))) == {"primary"}
    with pytest.raises(NoServerError):
        made.route(PING, RouteContext(capabilities=("fly",)))


def test_capability_based_routing_prefers_the_heavier_server() -> None:
    made = databases(strategy="capability-based")

    decision = made.route(QUERY)

    assert decision.server_id == "primary"
    assert decision.confidence == 1.0
    assert decision.alternates == ("replica",)


def test_destructive_calls_go_to_primaries_only_in_spite_of_category_and_server() -> None:
    made = databases()

    assert where(made, DROP) == {"primary"}
    assert where(made, Tool("drop", server="replica", annotations=DROP.annotations)) == {"primary"}
    assert made.route_by_annotation(DROP) == ["primary"]


def test_destructive_calls_fail_when_no_primary_is_healthy() -> None:
    made = databases()
    made.update_health_status("primary", False)

    with pytest.raises(NoServerError, match="destructive_fallback"):
        made.route(DROP)
    assert made.route_by_annotation(DROP) == []
    assert where(made, QUERY) == {"replica"}


def test_destructive_calls_may_fall_back_where_that_is_wanted() -> None:
    made = databases(destructive_fallback=True)
    assert where(made, DROP) == {"primary"}

    made.update_health_status("primary", False)

    assert where(made, DROP) == {"replica"}


def test_without_weights_every_server_is_primary() -> None:
    assert where(router("a", "b"), DROP) == {"a", "b"}


def test_idempotent_calls_prefer_caching_servers() -> None:
    made = router("a", "b")
    made.register_server("cache", ["caching"])
    put = Tool("put", annotations=Annotations(idempotent_hint=True))

    assert where(made, put) == {"cache"}
    assert made.route_by_annotation(put) == ["cache"]

    made.update_health_status("cache", False)
    assert where(made, put) == {"a", "b"}
    assert made.route_by_annotation(QUERY) == ["a", "b"]


def test_a_session_stays_on_its_server() -> None:
    made = router("a", "b", "c", enable_affinity=True)
    home = made.route(PING, ANN).server_id

    decision = made.route(PING, ANN)

    assert (decision.server_id, decision.strategy, decision.confidence) == (home, "affinity", 1.0)
    assert where(made, PING, ANN) == {home}
    assert where(made, PING) == {"a", "b", "c"}


@pytest.mark.parametrize("whose", [RouteContext(session_id="s1"), RouteContext(user_id="s1")])
def test_an_affinity_set_by_an_id_is_that_of_the_session_or_user(whose: RouteContext) -> None:
    made = router("a", "b", "c", enable_affinity=True)
    made.route(PING, whose)

    for server in ("b", "c"):
        made.set_affinity("s1", server)
        assert made.route(PING, whose).server_id == server
        assert "s1" in [rule.key for rule in made.affinities()]
    assert made.clear_affinity("s1")
    assert made.affinities() == ()


def test_an_id_that_looks_like_a_key_is_not_taken_for_another_tenants() -> None:
    made = router("a", "b", "c", enable_affinity=True)
    theirs = RouteContext(session_id="s1", tenant="acme")
    made.set_affinity(theirs, "c")

    assert made.route(PING, theirs).strategy == "affinity"
    assert made.route(PING, RouteContext(session_id=theirs.affinity_key)).strategy != "affinity"
    assert made.route(PING, RouteContext(session_id="s1", tenant="other")).strategy != "affinity"


def test_affinity_is_off_unless_it_is_wanted() -> None:
    made = router("a", "b", "c")

    assert where(made, PING, ANN) == {"a", "b", "c"}
    assert made.get_stats().active_affinities == 0


def test_affinity_as_a_strategy_chooses_by_the_fallback_strategy() -> None:
    made = router("a", "b", strategy="affinity", fallback_strategy="random")

    assert made.route(PING, ANN).strategy == "random"
    assert made.route(PING, ANN).strategy == "affinity"


def test_filters_come_before_affinity() -> None:
    made = databases(enable_affinity=True)
    made.set_affinity(ANN, "replica")

    assert where(made, QUERY, ANN) == {"replica"}
    assert where(made, DROP, ANN) == {"primary"}
    assert where(made, Tool("chat", category="ai"), ANN) == {"model"}
    assert where(made, Tool("own", server="model"), ANN) == {"model"}
    assert where(made, QUERY, ANN) == {"replica"}


@pytest.mark.parametrize(
    "other",
    [
        RouteContext(user_id="42"),
        RouteContext(session_id="42", tenant="acme"),
        RouteContext(user_id="42", tenant="acme"),
        RouteContext(session_id=":42"),
        RouteContext(session_id="2", tenant="4"),
    ],
)
def test_a_session_a_user_and_a_tenant_are_never_confused(other: RouteContext) -> None:
    assert ANN.affinity_key != other.affinity_key


def test_tenants_with_colons_are_never_confused() -> None:
    assert RouteContext("c", tenant="a:b").affinity_key != RouteContext("b:c", tenant="a").affinity_key


def test_the_session_wins_over_the_user() -> None:
    made = router("a", "b", enable_affinity=True)
    made.set_affinity(RouteContext(session_id="s"), "a")
    made.set_affinity(RouteContext(user_id="u"), "b")

    assert where(made, PING, RouteContext(session_id="s", user_id="u")) == {"a"}
    assert where(made, PING, RouteContext(user_id="u")) == {"b"}


def test_a_session_returns_to_its_server_when_that_is_well_again() -> None:
    made = router("a", "b", "c", enable_affinity=True)
    made.set_affinity(ANN, "a")

    made.update_health_status("a", False)
    assert len(where(made, PING, ANN)) == 1
    assert "a" not in where(made, PING, ANN)

    made.update_health_status("a", True)
    assert where(made, PING, ANN) == {"a"}


def test_a_session_has_a_server_for_each_set_of_candidates() -> None:
    made = router(strategy="round-robin", enable_affinity=True)
    for server in ("db1", "db2", "ai1", "ai2"):
        made.register_server(server, ["database" if server.startswith("db") else "ai"])
    chat = Tool("chat", category="ai")
    home, brain = made.route(QUERY, ANN).server_id, made.route(chat, ANN).server_id

    assert where(made, QUERY, ANN) == {home} < {"db1", "db2"}
    assert where(made, chat, ANN) == {brain} < {"ai1", "ai2"}


def test_affinities_are_bounded_expire_and_leave_with_their_server() -> None:
    clock = Clock()
    made = router("a", "b", enable_affinity=True, max_affinities=50, affinity_ttl=60, clock=clock)
    expired: list[str] = []
    made.on("affinity_expired", lambda event: expired.append(event.key))
    for number in range(500):
        made.route(PING, RouteContext(session_id=str(number)))
    assert made.get_stats().active_affinities == 50

    made.unregister_server("a")
    assert {rule.server_ids for rule in made.affinities()} == {("b",)}

    left = made.get_stats().active_affinities
    clock.pass_by(60)
    assert made.get_stats().active_affinities == 0
    assert len(expired) == left


def test_an_affinity_can_be_cleared_and_needs_a_server_and_a_key() -> None:
    made = router("a", enable_affinity=True)
    made.set_affinity(ANN, "a")

    assert made.clear_affinity(ANN)
    assert not made.clear_affinity(ANN.affinity_key)
    with pytest.raises(ConfigError):
        made.set_affinity(ANN, "stranger")
    with pytest.raises(ConfigError):
        made.set_affinity(RouteContext(), "a")


def test_a_router_without_well_servers_says_so_and_tells() -> None:
    made = router("a", "b")
    failed: list[RouteFailed] = []
    made.on(RouteFailed, failed.append)
    made.update_health_status("a", False)
    made.update_health_status("b", False)

    with pytest.raises(NoServerError, match=r"'ping'.*unhealthy"):
        made.route(PING)

    assert failed[0].tool_name == "ping"
    assert failed[0].attempted_servers == ("a", "b")
    assert isinstance(failed[0].error, NoServerError)
    with pytest.raises(NoServerError, match="Register a server"):
        router().route(PING)


def test_events_tell_what_happened() -> None:
    made = router("a", "b", enable_affinity=True)
    heard: list[object] = []
    for kind in (RouteDecided, AffinitySet, HealthUpdated, AffinityExpired):
        made.on(kind, heard.append)

    decision = made.route(PING, ANN)
    again = made.route(PING, ANN)
    made.update_health_status("b", False)
    made.update_health_status("b", False)
    made.update_health_status("stranger", False)

    assert heard == [
        AffinitySet("session::42", decision.server_id),
        RouteDecided("ping", decision),
        RouteDecided("ping", again),
        HealthUpdated("b", False),
    ]


def test_a_listener_can_leave() -> None:
    made = router("a")
    heard: list[RouteDecided] = []
    made.on("route_decision", heard.append)

    made.off("route_decision", heard.append)
    made.route(PING)

    assert heard == []


def test_registering_again_keeps_load_and_health() -> None:
    made = router("a", "b")
    lease = made.take(Tool("t", server="a"))
    made.update_health_status("a", False)

    made.register_server("a", ["database"])

    assert made.get_stats().server_loads["a"] == 1
    assert made.get_stats().healthy_servers == 1
    lease.done()
    assert made.get_stats().server_loads["a"] == 0


def test_stats_never_count_more_healthy_servers_than_there_are() -> None:
    made = router("a")

    made.update_health_status("stranger", True)
    stats = made.get_stats()

    assert (stats.available_servers, stats.healthy_servers) == (1, 1)


def test_a_failing_server_is_left_out_without_anybody_saying_so() -> None:
    made = router("a", "b", "c")
    heard: list[HealthUpdated] = []
    made.on(HealthUpdated, heard.append)

    for _ in range(5):
        made.report("a", False)

    assert where(made, PING) == {"b", "c"}
    assert heard == [HealthUpdated("a", False)]


async def test_run_fails_over_by_the_fallback_strategy() -> None:
    made = router("a", "b", "c", strategy="failover-only", fallback_strategy="priority", max_retries=1)
    strategies: list[str] = []
    made.on(RouteDecided, lambda event: strategies.append(event.decision.strategy))

    async def attempt(server: str) -> str:
        if server == "a":
            raise UnreachableError("gone")
        return server

    assert await made.run(PING, ANN, attempt) in ("b", "c")
    assert strategies == ["failover-only", "priority"]
    assert set(made.get_stats().server_loads.values()) == {0}


async def test_run_stops_after_max_retries() -> None:
    made = router("a", "b", "c", "d", "e", max_retries=2)
    tried: list[str] = []

    async def attempt(server: str) -> None:
        tried.append(server)
        raise UnreachableError("gone")

    with pytest.raises(UnreachableError):
        await made.run(PING, ANN, attempt)

    assert len(tried) == len(set(tried)) == 3


@pytest.mark.parametrize(
    ("annotations", "attempts"),
    [
        (Annotations(), 1),
        (Annotations(destructive_hint=True, idempotent_hint=True), 1),
        (Annotations(read_only_hint=True), 3),
        (Annotations(idempotent_hint=True), 3),
    ],
)
async def test_a_call_that_timed_out_is_repeated_only_if_that_does_no_harm(
    annotations: Annotations, attempts: int
) -> None:
    made = router("a", "b", "c")
    tried: list[str] = []

    async def attempt(server: str) -> None:
        tried.append(server)
        raise UpstreamTimeoutError("late")

    with pytest.raises(UpstreamTimeoutError):
        await made.run(Tool("pay", annotations=annotations), ANN, attempt)

    assert len(tried) == attempts


async def test_a_failed_call_does_not_wander_to_servers_that_may_not_know_the_tool() -> None:
    made = databases()
    tried: list[str] = []

    async def attempt(server: str) -> None:
        tried.append(server)
        raise UnreachableError("gone")

    with pytest.raises(UnreachableError):
        await made.run(QUERY, ANN, attempt)

    assert sorted(tried) == ["primary", "replica"]


async def test_a_failed_call_goes_to_another_server_that_has_the_tool() -> None:
    made = router()
    made.register_server("own", tools=["query"])
    made.register_server("twin", tools=["query"])
    made.register_server("other", tools=["ping"])

    async def attempt(server: str) -> str:
        if server == "own":
            raise UnreachableError("gone")
        return server

    assert await made.run(Tool("query", server="own"), ANN, attempt) == "twin"


async def test_health_checks_say_who_is_well() -> None:
    made = router("a", "b")
    rounds = asyncio.Event()

    async def probe(server: str) -> bool:
        return server == "a"

    async def sleep(seconds: float) -> None:
        assert seconds == 30.0
        rounds.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(5), made.open_health_checks(probe, sleep=sleep):
        await rounds.wait()

    assert where(made, PING) == {"a"}


def test_destroy_forgets_the_affinities_and_may_be_said_twice() -> None:
    made = router("a", enable_affinity=True)
    made.set_affinity(ANN, "a")

    made.destroy()
    made.destroy()

    assert made.get_stats().active_affinities == 0


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "best"},
        {"fallback_strategy": "best"},
        {"fallback_strategy": "affinity"},
        {"max_retries": -1},
        {"health_check_interval": 0},
        {"health_check_timeout": 0},
        {"affinity_ttl": 0},
        {"max_affinities": 0},
        {"retry_ratio": 2},
        {"server_weights": [ServerWeight("a", 1), ServerWeight("a", 2)]},
    ],
)
def test_an_option_that_makes_no_sense_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        RouterConfig(**options)


@pytest.mark.parametrize("weight", [-1, 101, 150])
def test_a_weight_is_from_0_to_100(weight: float) -> None:
    with pytest.raises(ConfigError, match="weight"):
        ServerWeight("a", weight)
