"""What is said of a tool for those who choose and call it: who says it, who wins, and what lists show then."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.control.test_views import OWN, Json, names, offer
from trunkline.config.reading import parse
from trunkline.control.merging import join_servers
from trunkline.control.model_formats import formatted
from trunkline.control.search import text_of
from trunkline.control.views import Views
from trunkline.errors import ConfigError
from trunkline.identity import EVERYONE, Overrides, Scope
from trunkline.model import Entry, View

PROGRAM = "code_execution_20250825"


def said(meta: Json | None = None, **server: Any) -> Entry:
    """A tool of a server that says this in `_meta`, where the operator says the other."""
    tool = {"name": "crunch", "inputSchema": {"type": "object"}, **({"_meta": meta} if meta is not None else {})}
    config = parse({"servers": {"one": {"command": "true", **server}}}, env={})
    return join_servers({"one": offer("one", tool)}, config, 1).tools["crunch"]


def meta_of(entry: Entry) -> Json:
    return json.loads(entry.definition).get("_meta", {})


@pytest.mark.parametrize(
    ("operator", "server", "callers"),
    [
        (None, None, ("direct", "run_code")),
        (None, ["direct", PROGRAM], ("direct", PROGRAM)),
        (None, [PROGRAM], (PROGRAM,)),
        (None, [], ()),
        (None, "direct", ()),
        (None, ["direct", 5], ()),
        (["direct"], [PROGRAM, "direct"], ("direct",)),
        (["direct"], [PROGRAM], ()),
        ([PROGRAM], None, (PROGRAM,)),
        ([], ["direct"], ()),
    ],
)
def test_a_server_narrows_who_may_call_a_tool_and_never_widens_it(
    operator: list[str] | None, server: Any, callers: tuple[str, ...]
) -> None:
    tools = {"tools": {"crunch": {"allowed_callers": operator}}} if operator is not None else {}
    for key in ("allowed_callers", "dev.trunkline/allowed_callers"):
        assert said({key: server} if server is not None else None, **tools).callers == callers


def test_what_the_server_said_of_callers_reaches_callers_only_as_far_as_the_operator_allows() -> None:
    tools = {"tools": {"crunch": {"allowed_callers": ["direct"]}}}
    entry = said({"allowed_callers": ["direct", PROGRAM]}, **tools)

    assert meta_of(entry)["dev.trunkline/allowed_callers"] == ["direct"]
    assert formatted([entry], "anthropic")[0]["allowed_callers"] == ["direct"]


@pytest.mark.parametrize(
    ("tool", "server", "meta", "deferred"),
    [
        (None, None, None, False),
        (None, None, True, True),
        (None, None, "yes", False),
        (None, False, True, False),
        (None, True, None, True),
        (False, True, True, False),
        (True, False, False, True),
    ],
)
def test_of_two_that_say_whether_a_tool_is_deferred_the_nearer_one_to_the_operator_counts(
    tool: bool | None, server: bool | None, meta: Any, deferred: bool
) -> None:
    spec: Json = {} if server is None else {"defer_loading": server}
    spec |= {} if tool is None else {"tools": {"cr*": {"defer_loading": tool}}}
    entry = said(None if meta is None else {"defer_loading": meta}, **spec)

    assert entry.deferred is deferred
    assert formatted([entry], "anthropic")[0].get("defer_loading", False) is deferred
    assert formatted([entry], "openai")[0].get("defer_loading", False) is deferred


def test_what_the_operator_says_reaches_callers_in_meta_and_in_vendors_fields_and_is_searched() -> None:
    examples = [{"rows": 3}]
    options = {"when_to_use": "For heavy sums", "input_examples": examples, "tags": ["maths"], "cost_hint": 0.5}
    entry = said({"when_to_use": "Never", "theirs": 1}, tools={"crunch": options})

    assert meta_of(entry) == {
        "when_to_use": "Never",
        "theirs": 1,
        "tags": ["maths"],
        "dev.trunkline/when_to_use": "For heavy sums",
        "dev.trunkline/input_examples": examples,
        "dev.trunkline/cost_hint": 0.5,
    }
    made = formatted([entry], "anthropic")[0]
    assert (made["input_examples"], made["description"]) == (examples, "When to use: For heavy sums")
    assert "For heavy sums" in formatted([entry], "gemini")[0]["description"]
    text = text_of("k", entry)
    assert (text.when_to_use, text.tags) == ("For heavy sums", "maths")
    assert (entry.annotations.cost_hint, entry.annotations.tags) == (0.5, ("maths",))


def test_a_server_says_its_cost_and_tags_under_our_name_or_the_usual_ones() -> None:
    for meta in ({"estimatedCost": 2, "tags": ["a"]}, {"dev.trunkline/cost_hint": 2, "dev.trunkline/tags": ["a"]}):
        entry = said(meta)

        assert (entry.annotations.cost_hint, entry.annotations.tags) == (2, ("a",))
        assert text_of("k", entry).tags == "a"
        assert meta_of(entry) == meta


def test_of_many_examples_a_model_is_given_the_first_that_fit() -> None:
    entry = said({"input_examples": [{"text": "x" * 5_000}] * 10})

    assert len(formatted([entry], "anthropic")[0]["input_examples"]) == 3
    assert len(meta_of(entry)["input_examples"]) == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"input_examples": [{"a": 1}] * 21}, "at most 20"),
        ({"input_examples": [{"a": "x" * 20_000}]}, "16 KiB"),
        ({"input_examples": ["text"]}, "input_examples"),
        ({"allowed_callers": [""]}, "allowed_callers"),
        ({"allowed_callers": "direct"}, "allowed_callers"),
        ({"when_to_use": "x" * 3_000}, "when_to_use"),
    ],
)
def test_what_an_operator_says_has_bounds(options: Json, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse({"servers": {"one": {"command": "true", "tools": {"crunch": options}}}}, env={})
    with pytest.raises(ConfigError, match=words):
        parse({"tools": {"crunch": options}}, env={})


ONE, TWO = offer("one", "read", "write"), offer("two", "read", "delete")


def shown(scope: Scope = EVERYONE, *, expose: str = "all", profiles: Json | None = None, **of_one: Any) -> View:
    """What a caller sees of two servers, of the first of which something is said."""
    servers = {"one": {"command": "true", **of_one}, "two": {"command": "true"}}
    gateway: Json = {"expose": expose, "expose_limit": 3}
    config = parse({"servers": servers, "gateway": gateway, "profiles": profiles or {}}, env={})
    return Views(config).of(scope, join_servers({"one": ONE, "two": TWO}, config, 1))


TWOS = ["two__read", "two__delete"]


@pytest.mark.parametrize(
    ("view", "listed"),
    [
        ({"defer_loading": True}, [*OWN, *TWOS]),
        ({"tools": {"write": {"defer_loading": True}}}, [*OWN, "one__read", *TWOS]),
        ({"defer_loading": True, "expose": "search"}, OWN),
        ({"defer_loading": True, "expose": "auto"}, [*OWN, *TWOS]),
        ({"expose": "auto"}, OWN),
        ({"defer_loading": True, "profiles": {"p": {"pinned": ["one__write"]}}}, [*OWN, "one__write", *TWOS]),
        ({"defer_loading": True, "profiles": {"p": {"servers": ["two"]}}}, TWOS),
        ({"defer_loading": True, "profiles": {"p": {"hidden": ["one__*"]}}}, TWOS),
    ],
)
def test_a_deferred_tool_is_searched_for_where_it_exists_and_others_stay_listed(view: Json, listed: list[str]) -> None:
    made = shown(Scope(profile="p" if "profiles" in view else ""), **view)

    assert names(made) == listed
    assert made.searching == ("search_tools" in listed)
    if "profiles" not in view:
        assert len(made.snapshot.tools) == 4


def test_a_thread_that_does_not_search_is_shown_deferred_tools() -> None:
    made = shown(Scope(overrides=Overrides(disable_tool_search=True)), defer_loading=True)

    assert (len(names(made)), made.searching) == (4, False)


def test_what_only_programs_may_call_exists_for_them_alone() -> None:
    tools: Any = {"tools": {"write": {"allowed_callers": [PROGRAM]}}}
    program = Scope(program=PROGRAM)

    assert names(shown(**tools)) == ["one__read", *TWOS]
    assert list(shown(**tools).snapshot.tools) == ["one__read", *TWOS]
    assert names(shown(program, **tools)) == ["one__write"]
    assert names(shown(Scope(program="another"), **tools)) == []
    none = dataclasses.replace(program, overrides=Overrides(disable_programmatic_calling=True))
    assert names(shown(none, **tools)) == []


def test_a_server_alone_does_not_answer_for_a_tool_that_only_programs_may_call() -> None:
    config = parse({"servers": {"one": {"command": "true", "tools": {"write": {"allowed_callers": []}}}}}, env={})

    assert Views(config).of(EVERYONE, join_servers({"one": ONE}, config, 1)).snapshot.bare == ""
