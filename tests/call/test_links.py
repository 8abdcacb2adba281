"""Links that no list shows lead to who said them, for those to whom they were said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trunkline.call.links import MOST_LINKS, MOST_SCOPES, Links
from trunkline.identity import Scope
from trunkline.model import ServerView, Snapshot

ANN, BOB = Scope(user="ann"), Scope(user="bob")
SNAPSHOT = Snapshot(servers={"one": ServerView("one"), "two": ServerView("two")})


def linking(*uris: str) -> bytes:
    return json.dumps({"content": [{"type": "resource_link", "uri": uri, "name": "x"} for uri in uris]}).encode()


def server_of(links: Links, scope: Scope, uri: str) -> tuple[str, tuple[str, ...]] | None:
    entry = links.find(scope, uri, SNAPSHOT)
    return (entry.server, entry.members) if entry is not None else None


@pytest.mark.parametrize(
    ("result", "uris"),
    [
        ({"content": [{"type": "resource_link", "uri": "a:1"}]}, ["a:1"]),
        ({"content": [{"type": "resource", "resource": {"uri": "a:2", "text": ""}}]}, ["a:2"]),
        ({"messages": [{"role": "user", "content": {"type": "resource_link", "uri": "a:3"}}]}, ["a:3"]),
        ({"messages": [{"role": "user", "content": [{"type": "resource_link", "uri": "a:4"}]}]}, ["a:4"]),
        ({"content": [{"type": "text", "text": "resource_link", "uri": "a:5"}]}, []),
        ({"content": {"type": "resource_link"}, "messages": "resource_link"}, []),
        ({"content": [{"type": "resource", "resource": "a:6"}, None, 5]}, []),
        ({"content": [{"type": "resource_link", "uri": "a" * 5000}]}, []),
    ],
)
def test_links_are_found_in_answers_of_every_kind(result: Any, uris: list[str]) -> None:
    links = Links()
    links.remember(ANN, "one", "one", json.dumps(result).encode())

    assert [
        uri for uri in ("a:1", "a:2", "a:3", "a:4", "a:5", "a:6", "a" * 5000) if links.find(ANN, uri, SNAPSHOT)
    ] == uris


def test_a_link_leads_to_who_said_it_last_and_is_nobody_elses() -> None:
    links = Links()
    links.remember(ANN, "one", "one", linking("a:1"))
    links.remember(ANN, "both", "two", linking("a:1"))

    assert server_of(links, ANN, "a:1") == ("both", ("two",))
    assert server_of(links, BOB, "a:1") is None
    assert links.find(ANN, "a:1", Snapshot(servers={"one": ServerView("one")})) is None


def test_what_one_caller_was_told_takes_nobody_elses_place() -> None:
    links = Links()
    links.remember(BOB, "one", "one", linking("b:0"))
    links.remember(ANN, "one", "one", linking(*(f"a:{number}" for number in range(MOST_LINKS + 1))))

    assert server_of(links, ANN, "a:0") is None
    assert server_of(links, ANN, f"a:{MOST_LINKS}") == ("one", ())
    assert server_of(links, BOB, "b:0") == ("one", ())


def test_there_is_an_end_to_whom_links_are_remembered_for() -> None:
    links = Links()
    for number in range(MOST_SCOPES + 1):
        links.remember(Scope(session=str(number)), "one", "one", linking("a:1"))

    assert server_of(links, Scope(session="0"), "a:1") is None
    assert server_of(links, Scope(session="1"), "a:1") == ("one", ())
