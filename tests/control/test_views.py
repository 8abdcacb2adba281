"""What the callers of each profile have, and how much of it is listed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trunkline.config.options import Config
from trunkline.config.reading import parse
from trunkline.config.server import ServerSpec
from trunkline.control.merging import join_servers
from trunkline.control.views import Views
from trunkline.errors import UnknownNameError
from trunkline.identity import EVERYONE, Scope
from trunkline.model import Kind, Listing, ServerView, Snapshot, State, View
from trunkline.tools.names import meaning

Json = dict[str, Any]


def offer(name: str, *tools: str | Json) -> ServerView:
    """A server with these tools, one prompt and one resource."""
    items = [one if isinstance(one, dict) else {"name": one, "inputSchema": {"type": "object"}} for one in tools]
    lists = {
        Kind.TOOL: Listing(tuple(json.dumps(item).encode() for item in items)),
        Kind.PROMPT: Listing((b'{"name":"talk"}',)),
        Kind.RESOURCE: Listing((b'{"uri":"%s://page"}' % name.encode(),)),
        Kind.TEMPLATE: Listing((b'{"uriTemplate":"%s://page/{x}"}' % name.encode(),)),
    }
    return ServerView(name, State.READY, lists=lists)


def configured(*servers: ServerView, profiles: Json | None = None, **gateway: Any) -> tuple[Config, Snapshot]:
    """A configuration, and what it makes of these servers."""
    document = {"servers": {one.name: {"command": "true"} for one in servers}, "profiles": profiles or {}}
    config = parse({**document, "gateway": gateway}, env={})
    return config, join_servers({one.name: one for one in servers}, config, 1)


def seen(profile: str, *servers: ServerView, **options: Any) -> View:
    """What callers of a profile see."""
    config, snapshot = configured(*servers, **options)
    return Views(config).of(Scope(profile=profile), snapshot)


def names(view: View) -> list[str]:
    """The tools that are listed."""
    return [entry.shown for entry in view.tools]


OWN = ["search_tools", "call_tool"]
ONE, TWO = offer("one", "read", "write", "delete"), offer("two", "read", "delete")


def test_a_profile_has_the_servers_that_it_names() -> None:
    view = seen("p", ONE, TWO, profiles={"p": {"servers": ["two"]}})

    assert names(view) == ["two__read", "two__delete"]
    assert list(view.snapshot.servers) == ["two"]
    assert list(view.snapshot.prompts) == ["two__talk"]
    assert list(view.snapshot.resources) == ["two://page"]
    assert [one.shown for one in view.snapshot.templates] == ["two://page/{x}"]


def test_an_alias_goes_with_its_tool() -> None:
    whole = seen("", ONE, TWO)
    narrow = seen("p", ONE, TWO, profiles={"p": {"hidden": ["one__write"]}})

    assert meaning("write", Kind.TOOL, whole.snapshot) is whole.snapshot.tools["one__write"]
    assert meaning("write", Kind.TOOL, narrow.snapshot) is None
    assert meaning("read", Kind.TOOL, whole.snapshot) is None


def test_a_page_of_an_app_goes_with_its_tool() -> None:
    app: Json = {"name": "app", "inputSchema": {}, "_meta": {"ui": {"resourceUri": "ui://app"}}}
    whole = seen("", offer("one", app, "read"), TWO)
    narrow = seen("p", offer("one", app, "read"), TWO, profiles={"p": {"hidden": ["one__app"]}})

    assert list(whole.snapshot.unlisted) == ["ui://app"]
    assert narrow.snapshot.unlisted == {}


@pytest.mark.parametrize("pattern", ["delete", "del*", "*__delete", "one__delete", "*e"])
@pytest.mark.parametrize("servers", [(ONE,), (ONE, TWO)])
def test_what_is_hidden_is_so_under_every_name_that_it_could_have(
    pattern: str, servers: tuple[ServerView, ...]
) -> None:
    view = seen("p", *servers, profiles={"p": {"hidden": [pattern]}})

    assert not [entry for entry in view.tools if (entry.server, entry.name) == ("one", "delete")]


def test_nobody_answers_for_what_a_profile_has_not() -> None:
    assert seen("", ONE).snapshot.bare == "one"
    assert seen("p", ONE, profiles={"p": {}}).snapshot.bare == "one"
    assert seen("p", ONE, profiles={"p": {"hidden": ["delete"]}}).snapshot.bare == ""


@pytest.mark.parametrize(
    ("gateway", "profile", "listed"),
    [
        ({"expose": "all"}, {}, ["one__read", "one__write", "one__delete"]),
        ({"expose": "search"}, {}, OWN),
        ({"expose": "search", "pinned": ["*__read"]}, {}, [*OWN, "one__read"]),
        ({"expose": "search", "pinned": ["*__read"]}, {"pinned": ["one__w*"]}, [*OWN, "one__write"]),
        ({"expose": "search", "pinned": ["*"]}, {"hidden": ["*__write", "*__delete"]}, [*OWN, "one__read"]),
        ({"expose": "search"}, {"expose": "all"}, ["one__read", "one__write", "one__delete"]),
        ({"expose": "auto", "expose_limit": 3}, {}, ["one__read", "one__write", "one__delete"]),
        ({"expose": "auto", "expose_limit": 2}, {}, OWN),
        ({"expose": "auto", "expose_limit": 2}, {"hidden": ["*__read"]}, ["one__write", "one__delete"]),
        ({"expose": "auto", "expose_limit": 0}, {"hidden": ["*"]}, []),
    ],
)
def test_a_list_is_as_the_profile_says_and_else_as_the_gateway(gateway: Json, profile: Json, listed: list[str]) -> None:
    view = seen("p", ONE, namespace="always", profiles={"p": profile}, **gateway)

    assert names(view) == listed
    assert view.searching == ("search_tools" in listed)


def test_who_searches_has_all_that_is_not_listed() -> None:
    view = seen("", ONE, TWO, expose="search")

    assert len(view.snapshot.tools) == 5
    assert [entry.shown for entry in view.entries(Kind.RESOURCE)] == ["trunkline://tools", "one://page", "two://page"]
    assert view.entries(Kind.TEMPLATE)[0].shown == "trunkline://tools/{name}"
    assert b"one, two." in view.tools[0].definition


def test_the_servers_that_can_be_searched_are_those_of_the_profile() -> None:
    view = seen("p", ONE, TWO, expose="search", profiles={"p": {"servers": ["two"]}})

    assert b"Searches the tools of: two." in view.tools[0].definition


def test_of_very_many_servers_some_are_named() -> None:
    view = seen("", *(offer(f"server{number}", "read") for number in range(50)), expose="search")

    assert b"and 10 more." in view.tools[0].definition


def test_a_server_that_stands_alone_speaks_for_itself() -> None:
    view = seen("", ONE, expose="search")

    assert names(view) == OWN
    assert view.snapshot.bare == "one"
    assert view.entries(Kind.RESOURCE) == view.snapshot.entries(Kind.RESOURCE)


@pytest.mark.parametrize(("expose", "searching"), [("auto", False), ("all", False), ("search", True)])
def test_tools_that_are_called_as_ours_make_way_only_if_search_is_wanted(expose: str, searching: bool) -> None:
    view = seen("", offer("one", "search_tools", "call_tool", "read"), expose=expose, expose_limit=1)

    assert view.searching == searching
    moved = ["one__search_tools", "one__call_tool", "read"]
    assert list(view.snapshot.tools) == (moved if searching else [*OWN, "read"])
    for name, entry in view.snapshot.tools.items():
        assert json.loads(entry.definition)["name"] == entry.shown == name


def test_a_view_is_made_once_for_a_snapshot_and_anew_for_another_configuration() -> None:
    config, snapshot = configured(ONE, expose="all")
    views = Views(config)
    first = views.of(EVERYONE, snapshot)

    assert views.of(EVERYONE, snapshot) is first
    views.configure(parse({"gateway": {"expose": "search"}}, env={}))
    assert views.of(EVERYONE, snapshot).searching


def test_there_is_no_view_of_an_unknown_profile() -> None:
    with pytest.raises(UnknownNameError, match="There is no profile 'nobody'"):
        seen("nobody", ONE)


def test_a_profile_may_be_made_in_python_too() -> None:
    config = Config(servers={"one": ServerSpec("one", command="true")})

    assert Views(config).of(EVERYONE, join_servers({"one": ONE}, config, 1)).searching is False
