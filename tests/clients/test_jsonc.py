"""JSON with comments, changed in one place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.clients import jsonc

ENTRY = {"type": "http", "url": "http://127.0.0.1:7420/mcp"}

# Texts as people leave them: any value, with space, comments and last commas wherever they may stand.

comments = st.sampled_from(["/* one */", "/* two\n   lines */", "// to the end\n", "// with spaces  \n", '/* , } " */'])
spaces = st.sampled_from(["", " ", "  ", "\n", "\n  ", "\n\t", "\r\n    ", "\n\n"])
trivia = st.lists(st.one_of(spaces, comments), max_size=3).map("".join)
keys = st.sampled_from(["a", "b", "mcpServers", 'quo"te', "// no comment", "ключ", "", "x,}"])
leaves = st.sampled_from(
    ['"text"', '"a \\" // {[,"', '"\\u00fc ü 😀"', "0", "-1.5e3", "true", "null", "12345678901234567890"]
)


@st.composite
def members(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    names = draw(st.lists(keys, unique=True, max_size=4))
    parts = [
        f"{draw(trivia)}{json.dumps(name, ensure_ascii=False)}{draw(trivia)}:{draw(trivia)}{draw(inner)}{draw(trivia)}"
        for name in names
    ]
    last = f",{draw(trivia)}" if parts and draw(st.booleans()) else ""
    return "{" + (",".join(parts) + last if parts else draw(trivia)) + "}"


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    parts = [f"{draw(trivia)}{draw(inner)}{draw(trivia)}" for _ in range(draw(st.integers(0, 3)))]
    return "[" + ",".join(parts) + ("," if parts and draw(st.booleans()) else "") + "]"


values = st.recursive(leaves, lambda inner: st.one_of(members(inner), lists(inner)), max_leaves=8)
documents: st.SearchStrategy[str] = st.tuples(trivia, members(values), trivia).map("".join)


@given(documents)
@settings(max_examples=120, deadline=None)
def test_after_putting_the_value_is_the_old_one_with_the_entry_at_its_end(text: str) -> None:
    before = jsonc.read(text)

    after = jsonc.read(jsonc.put(text, ("trunkline",), ENTRY))

    assert list(after.items()) == [*before.items(), ("trunkline", ENTRY)]


@given(documents)
@settings(max_examples=120, deadline=None)
def test_what_was_put_is_taken_back_to_the_byte(text: str) -> None:
    assert jsonc.take(jsonc.put(text, ("trunkline",), ENTRY), ("trunkline",)) == text


@given(documents, st.data())
@settings(max_examples=120, deadline=None)
def test_any_member_can_be_taken_and_the_others_and_all_comments_in_other_lines_stay(
    text: str, data: st.DataObject
) -> None:
    before: dict[str, Any] = jsonc.read(text)
    if not before:
        return
    key = data.draw(st.sampled_from(sorted(before)))

    after = jsonc.read(jsonc.take(text, (key,)))

    assert list(after.items()) == [(name, value) for name, value in before.items() if name != key]


@given(documents, st.data())
@settings(max_examples=80, deadline=None)
def test_a_value_is_replaced_where_it_stands(text: str, data: st.DataObject) -> None:
    before: dict[str, Any] = jsonc.read(text)
    if not before:
        return
    key = data.draw(st.sampled_from(sorted(before)))

    after = jsonc.read(jsonc.put(text, (key,), ENTRY))

    assert list(after.items()) == [(name, ENTRY if name == key else value) for name, value in before.items()]


@given(members(values), members(values))
@settings(max_examples=80, deadline=None)
def test_a_member_of_a_member_is_put_and_taken_alike(inner: str, other: str) -> None:
    text = f'{{"other": {other},\n  "servers": {inner} // servers\n}}'

    after = jsonc.put(text, ("servers", "trunkline"), ENTRY)

    assert jsonc.read(after) == {"other": jsonc.read(other), "servers": {**jsonc.read(inner), "trunkline": ENTRY}}
    assert jsonc.take(after, ("servers", "trunkline")) == text


# What it looks like.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', '{"a": 1, "t": {"u": 2}}'),
        ('{"a": 1,}', '{"a": 1, "t": {"u": 2},}'),
        ("{}", '{\n  "t": {\n    "u": 2\n  }\n}'),
        ("{ }", '{ "t": {"u": 2} }'),
        ('{\n    "a": 1\n}\n', '{\n    "a": 1,\n    "t": {\n        "u": 2\n    }\n}\n'),
        ('{\r\n\t"a": 1\r\n}', '{\r\n\t"a": 1,\r\n\t"t": {\r\n\t\t"u": 2\r\n\t}\r\n}'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "t": {\n    "u": 2\n  }\n}'),
        ('{\n  "a": 1, // one\n}', '{\n  "a": 1, // one\n  "t": {\n    "u": 2\n  },\n}'),
        ("{\n  // none yet\n}", '{\n  // none yet\n  "t": {\n    "u": 2\n  }\n}'),
        ("", '{\n  "t": {\n    "u": 2\n  }\n}\n'),
        ("// settings", '// settings\n{\n  "t": {\n    "u": 2\n  }\n}\n'),
    ],
)
def test_a_member_is_written_in_the_manner_of_the_file(before: str, after: str) -> None:
    assert jsonc.put(before, ("t",), {"u": 2}) == after


def test_objects_that_are_missing_on_the_way_are_made() -> None:
    text = '{\n  "theme": "dark"\n}\n'

    after = jsonc.put(text, ("mcp", "servers", "t"), {})

    assert jsonc.read(after) == {"theme": "dark", "mcp": {"servers": {"t": {}}}}
    assert jsonc.take(after, ("mcp",)) == text


def test_of_equal_keys_the_one_that_counts_is_changed() -> None:
    after = jsonc.put('{"s": {"a": 1}, "s": {"b": 2}}', ("s", "t"), 3)

    assert jsonc.read(after) == {"s": {"b": 2, "t": 3}}


def test_a_comment_behind_a_member_goes_with_it_and_one_above_stays() -> None:
    text = '{\n  // servers\n  "a": 1, // about a\n  "b": 2\n}'

    assert jsonc.take(text, ("a",)) == '{\n  // servers\n  "b": 2\n}'


def test_what_is_not_there_cannot_be_taken() -> None:
    assert jsonc.take('{"a": {}}', ("a", "b")) == '{"a": {}}'
    assert jsonc.take('{"a": {}}', ("b", "c")) == '{"a": {}}'


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "nothing",
        '{"a": 1,,}',
        "{,}",
        '{"a" 1}',
        '{"a": NaN}',
        '{"a": 1} x',
        "{'a': 1}",
        '{"a": "two\nlines"}',
        '{"a": 1 /* never ends }',
        '{"a": [1, 2}',
        "[" * 100_000,
        '{"mcpServers": []}',
        '{"mcpServers": null}',
    ],
)
def test_what_is_not_an_object_of_objects_is_not_changed(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has no object|nested too deeply"):
        jsonc.put(text, ("mcpServers", "t"), {})


def test_a_large_file_is_no_trouble() -> None:
    history: dict[str, Any] = {
        f"/project/{number}": {"history": ["x // y"] * 50, "mcpServers": {}} for number in range(3000)
    }
    text = json.dumps({"projects": history, "mcpServers": {"a": {"command": "x"}}}, indent=2)

    after = jsonc.put(text, ("mcpServers", "t"), ENTRY)

    assert len(text) > 1_500_000
    assert jsonc.take(after, ("mcpServers", "t")) == text
