"""Names that callers see, and names that each format takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.tools.names import (
    ANTHROPIC,
    GEMINI,
    MCP,
    OPENAI,
    PORTABLE,
    NameRule,
    closest,
    collisions,
    conflict_winner,
    distinct,
    legal,
    prefixed,
    sanitize_tool_name,
    show,
    validate_tool_name,
    with_prefix,
    without_prefix,
)

LEGAL = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
NAMES = st.text(max_size=80) | st.sampled_from(
    ["echo", "a.b", "a/b", "a_b", "x" * 64, "x" * 65, "x" * 66, "", "_", "é"]
)
SERVERS = st.sampled_from(["a", "b", "a_", "mein-server", "s" * 60, "ü"])
OFFERED = st.dictionaries(SERVERS, st.lists(NAMES, unique=True, max_size=6), max_size=4)


@given(NAMES)
def test_a_name_is_always_legal_and_stable(name: str) -> None:
    assert LEGAL.fullmatch(legal(name))
    assert legal(name) == legal(name)
    assert legal(legal(name)) == legal(name)


@pytest.mark.parametrize(("name", "shown"), [("echo", "echo"), ("a-b_C9", "a-b_C9"), ("x" * 64, "x" * 64)])
def test_a_legal_name_is_kept(name: str, shown: str) -> None:
    assert legal(name) == shown


def test_names_that_only_illegal_characters_tell_apart_stay_apart() -> None:
    names = ["a.b", "a/b", "a b", "a:b", "ä", "ö", "日本", "日木", "y" * 65, "y" * 66]

    assert len({legal(name) for name in names}) == len(names)


def test_a_prefix_is_the_servers_name() -> None:
    assert prefixed("time", "now") == "time__now"
    assert prefixed("time", "n" * 80).startswith("time__nnn")


@given(
    OFFERED, st.sampled_from(["always", "never"]), st.sampled_from(["namespace", "first-wins", "last-wins", "error"])
)
def test_shown_names_are_legal_unique_and_stable(offered: dict[str, list[str]], namespace: str, conflicts: str) -> None:
    shown, _ = show(offered, namespace=namespace, conflicts=conflicts)

    assert all(LEGAL.fullmatch(name) for name in shown.values())
    assert len(set(shown.values())) == len(shown)
    assert show(offered, namespace=namespace, conflicts=conflicts)[0] == shown


@given(OFFERED)
def test_with_prefixes_nothing_is_ever_hidden(offered: dict[str, list[str]]) -> None:
    pairs = {(server, name) for server, names in offered.items() for name in names}

    assert set(show(offered, namespace="always", conflicts="namespace")[0]) == pairs
    assert set(show(offered, namespace="never", conflicts="namespace")[0]) == pairs


@given(OFFERED)
def test_a_server_that_comes_changes_no_name_of_another(offered: dict[str, list[str]]) -> None:
    before = show({"first": ["echo", "other"]}, namespace="always", conflicts="namespace")[0]
    after = show({"first": ["echo", "other"], **offered}, namespace="always", conflicts="namespace")[0]

    assert before.items() <= after.items()


TWO = {"one": ["echo", "mine"], "two": ["echo", "yours"]}


@pytest.mark.parametrize(
    ("conflicts", "prefer", "expected"),
    [
        ("namespace", (), {("one", "echo"): "one__echo", ("two", "echo"): "two__echo"}),
        ("first-wins", (), {("one", "echo"): "echo"}),
        ("last-wins", (), {("two", "echo"): "echo"}),
        ("error", (), {}),
        ("error", ("two",), {("two", "echo"): "echo"}),
        ("namespace", ("two", "one"), {("two", "echo"): "echo"}),
        ("first-wins", ("two",), {("two", "echo"): "echo"}),
        ("last-wins", ("one",), {("one", "echo"): "echo"}),
        ("namespace", ("three",), {("one", "echo"): "one__echo", ("two", "echo"): "two__echo"}),
    ],
)
def test_equal_names_are_told_apart_as_configured(
    conflicts: str, prefer: tuple[str, ...], expected: dict[tuple[str, str], str]
) -> None:
    shown, problems = show(TWO, namespace="never", conflicts=conflicts, prefer=prefer)

    assert shown == {("one", "mine"): "mine", ("two", "yours"): "yours", **expected}
    assert bool(problems) == (len(expected) < 2)


def test_a_hidden_tool_is_spoken_of() -> None:
    _, first = show(TWO, namespace="never", conflicts="first-wins")
    _, none = show(TWO, namespace="never", conflicts="error")

    assert first == ["'echo' is one's; hidden: two."]
    assert none == ["'echo' is offered by one, two, and shown by none."]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b__c"), ("a__b", "c")),
        (("a", "_b"), ("a_", "b")),
        (("a", "__b"), ("a_", "_b")),
        (("a", "x.y"), ("a", "x y")),
        (("a", "🦆"), ("a", "🦉")),
        (("a.b", "c"), ("a_b", "c")),
        (("_a", "é"), ("a", "é")),
        (("a", "x" * 200), ("a", "x" * 201)),
        (("s" * 64, "x"), ("s" * 63, "x")),
    ],
)
def test_a_tool_cannot_take_the_prefixed_name_of_another(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert prefixed(*one) != prefixed(*other)


LOOKALIKES = SERVERS | st.text("ab_", min_size=1, max_size=5)
ANY_SERVER = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=64) | LOOKALIKES
ANY_TOOL = NAMES | st.text("ab_", min_size=1, max_size=6)
ANY = st.dictionaries(ANY_SERVER, st.sets(ANY_TOOL, max_size=5), max_size=5)


@given(ANY, st.data())
def test_whichever_servers_there_are_a_prefixed_name_means_one_tool_and_stays_the_same(
    offered: dict[str, set[str]], data: st.DataObject
) -> None:
    some = {server: names for server, names in offered.items() if data.draw(st.booleans())}
    whole, _ = show(offered, namespace="always", conflicts="namespace")
    part, _ = show(dict(reversed(some.items())), namespace="always", conflicts="namespace")

    pairs = {(server, name) for server, names in offered.items() for name in names}
    assert {shown: pair for pair, shown in whole.items()} == {prefixed(*pair): pair for pair in pairs}
    assert part.items() <= whole.items()


@given(ANY_SERVER, ANY_TOOL, ANY_SERVER)
def test_a_server_that_knows_the_names_of_another_cannot_take_them(server: str, name: str, thief: str) -> None:
    taken = prefixed(server, name)
    tries = {taken, *(taken[place:] for place in range(len(taken)))}

    if thief != server:
        assert taken not in {prefixed(thief, one) for one in tries}


@pytest.mark.parametrize("namespace", ["always", "never"])
def test_a_name_of_ours_is_nobody_elses(namespace: str) -> None:
    offered = {"one": ["search_tools", "echo"], "two": ["search_tools"]}
    shown, _ = show(offered, namespace=namespace, conflicts="first-wins", reserved={"search_tools"})

    assert shown["one", "search_tools"] == "one__search_tools"
    assert shown["two", "search_tools"] == "two__search_tools"
    assert "search_tools" not in shown.values()


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("send_leter", ["post__send_letter"]),
        ("send_letter", ["post__send_letter"]),
        ("POST__SEND_LETTER", ["post__send_letter"]),
        ("bread", ["oven__bake_bread"]),
        ("quantum", []),
        ("", []),
    ],
)
def test_a_name_that_nobody_has_is_near_to_some(name: str, close: list[str]) -> None:
    known = ["post__send_letter", "oven__bake_bread", "pond__geese", "x"]

    assert closest(name, known, 2) == close


def test_of_names_that_are_near_only_the_nearest_are_told() -> None:
    known = [f"send_letter_{number}" for number in range(9)]

    assert closest("send_letter_7", known, 3)[0] == "send_letter_7"
    assert len(closest("send_letter_7", known, 3)) == 3


def test_addresses_are_shown_as_they_are() -> None:
    shown, _ = show({"a": ["file:///x"]}, namespace="never", conflicts="first-wins", legalise=False)

    assert shown == {("a", "file:///x"): "file:///x"}


@pytest.mark.parametrize(
    ("policy", "prefer", "winner"),
    [
        ("first-wins", (), "a"),
        ("last-wins", (), "c"),
        ("namespace", (), ""),
        ("error", (), ""),
        ("prefer", (), ""),
        ("prefer", ("x", "b", "a"), "b"),
        ("last-wins", ("b",), "b"),
        ("error", ("x",), ""),
    ],
)
def test_a_name_that_several_offer_is_the_winners(policy: str, prefer: tuple[str, ...], winner: str) -> None:
    assert conflict_winner(["a", "b", "c"], policy, prefer) == winner


RULES = [MCP, ANTHROPIC, OPENAI, GEMINI, PORTABLE]


@pytest.mark.parametrize("name", ["my-tool", "a.b", "9lives", "x" * 128, "_"])
def test_what_the_specification_allows_is_valid(name: str) -> None:
    assert validate_tool_name(name) == (True, ())


@pytest.mark.parametrize(
    ("name", "rule", "error"),
    [
        ("", MCP, "needs a name"),
        ("x" * 129, MCP, "129 letters"),
        ("a b!", MCP, "no ' ', '!' in a name"),
        ("a.b", OPENAI, "OpenAI takes no '.'"),
        ("x" * 65, ANTHROPIC, "takes 64"),
        ("9lives", GEMINI, "begins with a letter"),
        ("tool\n", MCP, "no '\\n'"),
    ],
)
def test_an_error_says_what_is_wrong(name: str, rule: NameRule, error: str) -> None:
    valid, errors = validate_tool_name(name, rule=rule)

    assert not valid
    assert any(error in found for found in errors)


@pytest.mark.parametrize(
    ("name", "safe"),
    [("My Tool Name!", "My_Tool_Name_"), ("a/b", "a_b"), ("a.b", "a.b"), ("müll", "m_ll"), ("ok", "ok")],
)
def test_a_name_is_made_valid_by_changing_little(name: str, safe: str) -> None:
    assert sanitize_tool_name(name) == safe


def test_names_without_a_usable_letter_stay_apart() -> None:
    shown = {sanitize_tool_name(name) for name in ("", "😀", "検索", "翻訳", "_ _")}

    assert len(shown) == 5


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.format)
@given(name=st.text(max_size=200))
def test_a_sanitised_name_is_valid_and_stays(rule: NameRule, name: str) -> None:
    safe = sanitize_tool_name(name, rule=rule)

    assert validate_tool_name(safe, rule=rule).valid
    assert sanitize_tool_name(safe, rule=rule) == safe


def test_collisions_are_named() -> None:
    assert collisions(["a/b", "a b", "c"]) == {"a_b": ("a/b", "a b")}


@given(st.lists(st.sampled_from(["a b", "a/b", "a_b", "a_b", "x" * 200, "x" * 201]), max_size=6), st.randoms())
def test_distinct_names_do_not_depend_on_the_order(names: list[str], random: object) -> None:
    unique = list(dict.fromkeys(names))
    wanted = [sanitize_tool_name(name) for name in unique]

    forwards = dict(zip(unique, distinct(wanted, unique), strict=True))
    backwards = dict(zip(unique[::-1], distinct(wanted[::-1], unique[::-1]), strict=True))

    assert forwards == backwards
    assert len(set(forwards.values())) == len(unique)


def test_twins_get_names_of_their_own_too() -> None:
    names = distinct(["a", "a", "a"], ["a", "a", "a"])

    assert len(set(names)) == 3


@pytest.mark.parametrize("prefix", ["myapp", "myapp_", "files__", "a-b"])
@given(name=st.text(min_size=1, max_size=20))
def test_a_prefix_comes_off_again(prefix: str, name: str) -> None:
    assert without_prefix(prefix, with_prefix(prefix, name)) == name


def test_a_prefix_with_or_without_its_underscore_is_the_same() -> None:
    assert with_prefix("myapp", "tool") == with_prefix("myapp_", "tool") == "myapp_tool"
    assert without_prefix("external", "external_tool") == without_prefix("external_", "external_tool") == "tool"
    assert without_prefix("external", "other_tool") == "other_tool"
