"""Who may see what, by its rules: what a caller has not does not exist for it, under any name."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.control.test_views import ONE, OWN, TWO, Json, configured, names, offer
from trunkline.config.reading import parse
from trunkline.control import views as module
from trunkline.control.merging import join_servers
from trunkline.control.views import Views
from trunkline.identity import EVERYONE, Overrides, Rule, Scope
from trunkline.model import Entry, Kind, ServerView, Snapshot, State, View
from trunkline.tool import DIRECT, PROGRAM

READER = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
WRITER = {"name": "change", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}}


def seen_with(*rules: Rule, servers: tuple[Any, ...] = (ONE, TWO)) -> View:
    """What callers see for whom these rules hold."""
    config, snapshot = configured(*servers, namespace="always", expose="all")
    return Views(config).of(Scope(user="ann", rules=rules), snapshot)


@pytest.mark.parametrize(
    ("rules", "servers"),
    [
        ((), ["one", "two"]),
        ((Rule(servers=frozenset({"two"})),), ["two"]),
        ((Rule(servers=frozenset()),), []),
        ((Rule(hidden=frozenset({"one"})),), ["two"]),
        ((Rule(servers=frozenset({"one"}), hidden=frozenset({"one"})),), []),
        ((Rule(servers=frozenset({"one"})), Rule(servers=frozenset({"two"}))), []),
        ((Rule(servers=frozenset({"one", "two"})), Rule(hidden=frozenset({"two"}))), ["one"]),
    ],
)
def test_a_server_exists_for_whom_every_rule_lets_it(rules: tuple[Rule, ...], servers: list[str]) -> None:
    view = seen_with(*rules)

    assert sorted({entry.server for entry in view.tools}) == servers
    assert sorted(view.snapshot.servers) == servers
    assert sorted({entry.server for entry in view.snapshot.prompts.values()}) == servers
    assert sorted({entry.server for entry in view.snapshot.resources.values()}) == servers
    assert sorted({entry.server for entry in view.snapshot.templates}) == servers


@pytest.mark.parametrize(
    ("patterns", "listed"),
    [
        (("one__read",), ["one__read"]),
        (("read",), ["one__read", "two__read"]),
        (("*__delete", "one__w*"), ["one__write", "one__delete", "two__delete"]),
        (("nothing",), []),
    ],
)
def test_a_tool_exists_for_whom_a_pattern_names_it(patterns: tuple[str, ...], listed: list[str]) -> None:
    assert names(seen_with(Rule(tools=patterns))) == listed


def test_a_tool_must_fit_every_rule() -> None:
    view = seen_with(Rule(tools=("*__read", "*__write")), Rule(tools=("one__*",)))

    assert names(view) == ["one__read", "one__write"]
    assert view.snapshot.bare == ""


def test_who_may_only_read_has_the_tools_that_are_known_to_change_nothing() -> None:
    server = offer("one", READER, WRITER, "who_knows")

    assert names(seen_with(Rule(read_only=True), servers=(server,))) == ["one__look"]
    assert len(names(seen_with(Rule(), servers=(server,)))) == 3


def test_what_does_not_exist_is_not_held_back_for_approval_either() -> None:
    config, snapshot = configured(ONE, TWO, namespace="always", expose="all")
    held = {name: dataclasses.replace(one, held={Kind.TOOL: one.tools}) for name, one in snapshot.offers.items()}
    snapshot = dataclasses.replace(snapshot, offers=held)
    view = Views(config).of(Scope(rules=(Rule(tools=("one__read",)),)), snapshot)

    assert [sorted(one.held[Kind.TOOL]) for one in view.snapshot.offers.values()] == [["one__read"], []]


def test_what_is_held_back_exists_for_nobody_who_would_not_have_it() -> None:
    config, snapshot = configured(ONE, namespace="always", expose="all")
    (one,) = snapshot.offers.values()
    kept = {name: tool for name, tool in one.tools.items() if tool.name == "read"}
    changed = dataclasses.replace(one, tables={**one.tables, Kind.TOOL: kept}, held={Kind.TOOL: one.tools})
    snapshot = dataclasses.replace(snapshot, offers={"one": changed})
    view = Views(config).of(Scope(rules=(Rule(tools=("one__read",)),)), snapshot)

    assert sorted(view.snapshot.offers["one"].held[Kind.TOOL]) == ["one__read"]


def test_an_offer_of_which_nothing_is_taken_away_stays_the_same_so_that_what_was_made_of_it_does() -> None:
    config, snapshot = configured(ONE, TWO, namespace="always", expose="all")
    view = Views(config).of(Scope(rules=(Rule(tools=("two__*", "one__read")),)), snapshot)

    assert view.snapshot.offers["two"] is snapshot.offers["two"]
    assert view.snapshot.offers["one"] is not snapshot.offers["one"]


def test_servers_that_are_not_there_yet_and_members_of_groups_are_shown_to_whom_a_rule_lets_them() -> None:
    servers = (offer("a", "read"), offer("b", "read"), ServerView("late", State.STARTING), ServerView("no"))
    config = parse(
        {
            "servers": {one.name: {"command": "true"} for one in servers},
            "groups": {"both": {"servers": ["a", "b"]}},
        },
        env={},
    )
    snapshot = join_servers({one.name: one for one in servers}, config, 1)
    views = Views(config)
    group = views.of(Scope(rules=(Rule(servers=frozenset({"both", "late"})),)), snapshot)
    member = views.of(Scope(rules=(Rule(servers=frozenset({"a"})),)), snapshot)

    assert sorted(group.snapshot.servers) == ["a", "b", "late"]
    assert (list(member.snapshot.servers), member.tools) == (["a"], ())


def test_callers_with_other_rules_have_views_of_their_own() -> None:
    config, snapshot = configured(ONE, TWO, namespace="always", expose="all")
    views = Views(config)
    narrow, whole = Scope(user="ann", rules=(Rule(tools=("one__read",)),)), Scope(user="bob")

    assert [names(views.of(scope, snapshot)) for scope in (narrow, whole, narrow)][::2] == [["one__read"]] * 2
    assert len(views.of(whole, snapshot).tools) == 5
    assert [len(views.make(scope, snapshot).tools) for scope in (narrow, whole)] == [1, 5]
    for _ in views.prepare(dataclasses.replace(narrow, user="cid"), snapshot):
        pass
    assert names(views.of(dataclasses.replace(narrow, user="cid"), snapshot)) == ["one__read"]


# Servers of one's own.


def with_owned(**gateway: Any) -> tuple[Views, Snapshot]:
    """Everybody's servers, and two of ann's: one is called as one of everybody's."""
    config, snapshot = configured(ONE, TWO, namespace="always", expose="all", **gateway)
    mine = {name: offer(name, "mine") for name in ("ann/two", "ann/three")}
    owned = join_servers(mine, config, 1)
    return Views(config), dataclasses.replace(snapshot, owned={"ann": owned})


@pytest.mark.parametrize("rules", [(), (Rule(tools=("*",)),)], ids=["all", "narrowed"])
def test_a_users_own_servers_are_theirs_alone_and_stand_before_everybodys(rules: tuple[Rule, ...]) -> None:
    views, snapshot = with_owned()
    ann, bob, nobody = (views.of(Scope(user=user, rules=rules), snapshot) for user in ("ann", "bob", ""))

    assert sorted({entry.server for entry in ann.tools}) == ["ann/three", "ann/two", "one"]
    assert sorted(ann.snapshot.servers) == ["ann/three", "ann/two", "one"]
    for other in (bob, nobody):
        assert sorted({entry.server for entry in other.tools}) == ["one", "two"]
        assert sorted(other.snapshot.servers) == ["one", "two"]
        assert not other.snapshot.owned
    assert not ann.snapshot.owned
    assert sorted({entry.server for entry in ann.snapshot.templates}) == ["ann/three", "ann/two", "one"]
    assert sorted({entry.server for entry in ann.snapshot.resources.values()}) == ["ann/three", "ann/two", "one"]


def test_rules_hold_for_servers_of_ones_own_by_the_names_their_owner_has_for_them() -> None:
    views, snapshot = with_owned()
    view = views.of(Scope(user="ann", rules=(Rule(servers=frozenset({"three"})),)), snapshot)

    assert {entry.server for entry in view.tools} == {"ann/three"}
    assert list(view.snapshot.servers) == ["ann/three"]


def test_callers_without_servers_of_their_own_share_a_view_and_one_that_is_made_for_somebody_has_theirs() -> None:
    views, snapshot = with_owned()

    assert views.of(Scope(user="bob"), snapshot) is views.of(Scope(user="cid"), snapshot)
    assert views.of(Scope(user="ann"), snapshot) is not views.of(Scope(user="bob"), snapshot)
    assert {entry.server for entry in views.make(Scope(user="ann"), snapshot).tools} == {"ann/three", "ann/two", "one"}
    assert {entry.server for entry in views.make(Scope(user="bob"), snapshot).tools} == {"one", "two"}


# What is listed.


def view_of(*servers: ServerView, scope: Scope = EVERYONE, runs: bool = False, **sections: Json) -> View:
    """What a caller sees, with a configuration of these sections."""
    config = parse({"servers": {one.name: {"command": "true"} for one in servers}, **sections}, env={})
    return Views(config, programs=runs).of(scope, join_servers({one.name: one for one in servers}, config, 1))


NO_PROGRAMS = Scope(overrides=Overrides(disable_programmatic_calling=True))
LISTS_ALL = Scope(overrides=Overrides(disable_tool_search=True))


@pytest.mark.parametrize(
    ("expose", "here", "enabled", "scope", "listed"),
    [
        ("code", True, True, Scope(), ["search_tools", "run_code"]),
        ("code", True, True, NO_PROGRAMS, OWN),
        ("code", True, False, Scope(), OWN),
        ("code", False, True, Scope(), OWN),
        ("code", True, True, Scope(program=PROGRAM), OWN),
        ("auto", True, True, Scope(), [*OWN, "run_code"]),
        ("auto", True, True, NO_PROGRAMS, OWN),
        ("auto", False, True, Scope(), OWN),
        ("search", True, True, Scope(), OWN),
        ("all", True, True, Scope(overrides=Overrides(expose="search")), OWN),
        ("all", True, True, Scope(overrides=Overrides(expose="code")), ["search_tools", "run_code"]),
    ],
)
def test_programs_are_run_by_whom_everybody_lets(
    expose: str, here: bool, enabled: bool, scope: Scope, listed: list[str]
) -> None:
    wordy = offer("one", {"name": "wordy", "description": "w" * 9_000, "inputSchema": {"type": "object"}})
    gateway, allowed = {"expose": expose, "expose_limit": 0}, {"enabled": enabled}
    view = view_of(wordy, TWO, scope=scope, runs=here, gateway=gateway, programs=allowed)

    assert names(view) == listed
    assert view.programs == ("run_code" in listed)
    assert view.coding == ("call_tool" not in listed)


def sized(size: int, **meta: Any) -> ServerView:
    """A server whose only tool has a definition of so many bytes."""
    tool: Json = {"name": "t", "inputSchema": {}, "description": "", **({"_meta": meta} if meta else {})}
    (entry,) = view_of(offer("one", tool), gateway={"namespace": "always", "expose": "all"}).tools
    return offer("one", {**tool, "description": "w" * (size - len(entry.definition))})


def test_programs_are_offered_where_that_is_less_to_read_than_a_list() -> None:
    gateway = {"namespace": "always", "expose": "auto", "expose_limit": 0}
    ours = view_of(sized(9_000), runs=True, gateway=gateway).tools
    size = sum(len(entry.definition) for entry in ours)

    assert names(view_of(sized(size), runs=True, gateway=gateway)) == OWN
    assert names(view_of(sized(size + 1), runs=True, gateway=gateway)) == [*OWN, "run_code"]
    always = view_of(sized(200), runs=True, gateway={**gateway, "expose": "code"})
    assert names(always) == ["search_tools", "run_code"]


def test_what_a_list_would_not_have_is_not_counted_when_programs_are_weighed() -> None:
    long = {"description": "w" * 9_000, "inputSchema": {"type": "object"}}
    for meta in ({"defer_loading": True}, {"ui": {"visibility": ["app"]}}):
        server = offer("one", {"name": "long", **long, "_meta": meta}, "read")
        view = view_of(server, TWO, runs=True, gateway={"expose": "auto", "expose_limit": 0})

        assert view.searching
        assert not view.programs


def test_our_own_tools_name_servers_that_have_tools_and_stay_the_same_while_those_do() -> None:
    config, snapshot = configured(ONE, offer("silent"), namespace="always", expose="search")
    views = Views(config)
    first = views.of(Scope(), snapshot)
    second = views.of(Scope(), dataclasses.replace(snapshot, version=2))
    third = views.of(Scope(), join_servers({"one": ONE, "two": TWO}, config, 3))

    assert b"Searches the tools of: one." in first.tools[0].definition
    assert first.tools[0] is second.tools[0]
    assert b"Searches the tools of: one, two." in third.tools[0].definition


def test_who_may_search_can_do_so_before_there_is_any_server() -> None:
    assert names(view_of(gateway={"expose": "search"})) == OWN


READERS = ["read_result", "search_result", "query_result"]
SMALL = {"max_result_tokens": 10}


@pytest.mark.parametrize(
    ("sections", "scope", "reads"),
    [
        ({}, Scope(), False),
        ({"results": {"max_tokens": 10}}, Scope(), True),
        ({"results": {"max_tokens": 10}}, Scope(program=PROGRAM), False),
        ({"results": {"max_tokens": 10}}, dataclasses.replace(NO_PROGRAMS, program=PROGRAM), None),
        ({"results": {"max_tokens": 10}, "profiles": {"p": {"max_result_tokens": 0}}}, Scope(profile="p"), False),
        ({"profiles": {"p": SMALL}}, Scope(profile="p"), True),
        ({"profiles": {"p": SMALL}}, Scope(), False),
        ({"tools": {"write": SMALL}}, Scope(), True),
        ({"tools": {"nothing": SMALL}}, Scope(), False),
    ],
)
def test_results_are_read_in_parts_by_those_for_whom_they_are_kept_aside(
    sections: Json, scope: Scope, reads: bool | None
) -> None:
    view = view_of(ONE, TWO, scope=scope, gateway={"expose": "all"}, **sections)

    assert view.reads_results is bool(reads)
    assert (set(names(view)) >= set(READERS)) is bool(reads)
    assert len(view.tools) == (0 if reads is None else 5 + 3 * reads)


def test_no_results_are_kept_aside_where_the_configuration_has_no_limit() -> None:
    limited = parse({"servers": {"one": {"command": "true"}}, "tools": {"write": SMALL}}, env={})
    snapshot = join_servers({"one": ONE}, limited, 1)

    assert Views(limited).of(Scope(), snapshot).reads_results
    assert not Views(parse({}, env={})).of(Scope(), snapshot).reads_results


PAGE: Json = {"name": "page", "inputSchema": {}, "_meta": {"ui": {"visibility": ["app"]}}}
RARE: Json = {"name": "rare", "inputSchema": {}, "_meta": {"defer_loading": True}}
RARE_PAGE: Json = {"name": "late", "inputSchema": {}, "_meta": {**RARE["_meta"], **PAGE["_meta"]}}
PINNED: Json = {"name": "pinned", "inputSchema": {}, "_meta": {"defer_loading": True}}


@pytest.mark.parametrize(
    ("gateway", "scope", "listed"),
    [
        ({"expose": "all"}, Scope(), [*OWN, "one__read", "one__page", "one__late"]),
        (
            {"expose": "all", "pinned": ["*__pinned"]},
            Scope(),
            [*OWN, "one__read", "one__page", "one__late", "one__pinned"],
        ),
        ({"expose": "all"}, LISTS_ALL, ["one__read", "one__page", "one__rare", "one__late", "one__pinned"]),
        ({"expose": "auto", "expose_limit": 1}, Scope(), [*OWN, "one__read", "one__page", "one__late"]),
        ({"expose": "auto", "expose_limit": 0}, Scope(), [*OWN, "one__page", "one__late"]),
        ({"expose": "search"}, Scope(), [*OWN, "one__page", "one__late"]),
        ({"expose": "search", "pinned": ["one__read"]}, Scope(), [*OWN, "one__read", "one__page", "one__late"]),
        ({"expose": "search"}, LISTS_ALL, ["one__read", "one__page", "one__rare", "one__late", "one__pinned"]),
    ],
)
def test_what_is_deferred_is_searched_for_and_what_an_app_calls_is_always_listed(
    gateway: Json, scope: Scope, listed: list[str]
) -> None:
    server = offer("one", "read", PAGE, RARE, RARE_PAGE, PINNED)
    view = view_of(server, scope=scope, gateway={"namespace": "always", **gateway})

    assert names(view) == listed


@pytest.mark.parametrize(
    ("expose", "hidden", "listed"),
    [
        ("auto", [], ["search_tools", "rare", "read"]),
        ("auto", ["read"], OWN),
        ("all", [], [*OWN, "one__search_tools", "read"]),
    ],
)
def test_a_server_that_stands_alone_keeps_names_like_ours_unless_search_is_wanted(
    expose: str, hidden: list[str], listed: list[str]
) -> None:
    server, gateway = offer("one", "search_tools", RARE, "read"), {"expose": expose, "expose_limit": 0}
    view = view_of(server, scope=Scope(profile="p"), gateway=gateway, profiles={"p": {"hidden": hidden}})

    assert names(view) == listed
    assert ("one__search_tools" in view.snapshot.tools) == (listed != ["search_tools", "rare", "read"])


def test_a_server_that_stands_alone_is_searched_and_left_as_it_is_where_no_name_is_like_ours() -> None:
    config, snapshot = configured(ONE, expose="auto", expose_limit=2)
    view = Views(config).of(Scope(), snapshot)

    assert view.searching
    assert view.snapshot is snapshot


# Programs.


def test_a_tool_exists_for_a_program_only_if_programs_may_call_it() -> None:
    config, snapshot = configured(ONE, namespace="always", expose="all")
    (found,) = snapshot.offers.values()
    tools = {
        name: dataclasses.replace(tool, callers=(DIRECT,) if tool.name == "write" else ("python", DIRECT))
        for name, tool in found.tools.items()
    }
    changed = dataclasses.replace(found, tables={**found.tables, Kind.TOOL: tools})
    snapshot = dataclasses.replace(snapshot, offers={"one": changed}, tools=tools)
    views, none = Views(config), Overrides(disable_programmatic_calling=True)

    assert sorted(views.of(Scope(), snapshot).snapshot.tools) == ["one__delete", "one__read", "one__write"]
    assert sorted(views.of(Scope(program="python"), snapshot).snapshot.tools) == ["one__delete", "one__read"]
    assert sorted(views.of(Scope(program="python", overrides=none), snapshot).snapshot.tools) == []
    assert sorted(views.make(Scope(program="python"), snapshot).snapshot.tools) == ["one__delete", "one__read"]


def test_one_tool_that_a_program_may_not_call_is_enough_to_look_at_each() -> None:
    config, snapshot = configured(ONE, TWO, namespace="always", expose="all")
    offers = dict(snapshot.offers)
    tools = {name: dataclasses.replace(tool, callers=(DIRECT,)) for name, tool in offers["one"].tools.items()}
    offers["one"] = dataclasses.replace(offers["one"], tables={**offers["one"].tables, Kind.TOOL: tools})
    snapshot = dataclasses.replace(snapshot, offers=offers, tools={**snapshot.tools, **tools})
    view = Views(config).of(Scope(program=PROGRAM), snapshot)

    assert sorted(view.snapshot.tools) == ["two__delete", "two__read"]


# How many are kept.


def test_views_of_so_many_kinds_of_callers_are_kept_and_the_rest_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    config, snapshot = configured(ONE, namespace="always", expose="all")
    views = Views(config)
    scopes = [Scope(rules=(Rule(tools=(f"one__{name}",)),)) for name in ("read", "write", "delete")]
    for scope in (*scopes, scopes[0]):
        views.of(scope, snapshot)

    assert len(vars(views)["_seers"]) == 2
    assert [names(views.of(scope, snapshot)) for scope in scopes] == [["one__read"], ["one__write"], ["one__delete"]]


def test_those_longest_unused_are_made_anew_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    config, snapshot = configured(ONE, namespace="always", expose="all")
    views = Views(config)
    for profile, version in (("read", 1), ("write", 1), ("read", 2), ("delete", 2)):
        scope = Scope(rules=(Rule(tools=(f"one__{profile}",)),))
        views.of(scope, dataclasses.replace(snapshot, version=version))

    kept = [audience.rules[0].tools for audience in vars(views)["_seers"]]
    assert kept == [("one__read",), ("one__delete",)]


def test_a_thousand_are_kept() -> None:
    views = Views(parse({}, env={}))
    for number in range(1_001):
        views.of(Scope(rules=(Rule(tools=(str(number),)),)), Snapshot())

    assert len(vars(views)["_seers"]) == 1_000


class Looked(dict[str, Entry]):
    """Tools that count who looks at them all."""

    looks = 0

    def items(self) -> Any:
        self.looks += 1
        return super().items()


def test_a_first_look_is_prepared_one_offer_at_a_step_and_once() -> None:
    config, snapshot = configured(ONE, TWO, namespace="always", expose="all")
    tables = {name: Looked(one.tools) for name, one in snapshot.offers.items()}
    offers = {
        name: dataclasses.replace(one, tables={**one.tables, Kind.TOOL: tables[name]})
        for name, one in snapshot.offers.items()
    }
    snapshot = dataclasses.replace(snapshot, offers=offers)
    views, scope = Views(config), Scope(rules=(Rule(tools=("*__read",)),))

    assert [len(list(views.prepare(one, snapshot))) for one in (scope, scope, Scope())] == [2, 0, 0]
    assert [one.looks for one in tables.values()] == [1, 1]
    assert names(views.of(scope, snapshot)) == ["one__read", "two__read"]
    assert [one.looks for one in tables.values()] == [1, 1]
