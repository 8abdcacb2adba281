"""Paths lead where RFC 9535 says, in documents of any make, and in time that grows with the document alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from trunkline.call.results import query
from trunkline.call.results.json_path import parse
from trunkline.call.results.json_text import is_json, start_of, string_of, value_of, written
from trunkline.call.results.query import find
from trunkline.errors import InvalidArgumentsError

STORE: dict[str, Any] = {
    "store": {
        "book": [
            {"category": "reference", "author": "Rees", "title": "Sayings", "price": 8.95},
            {"category": "fiction", "author": "Waugh", "title": "Sword", "price": 12.99},
            {
                "category": "fiction",
                "author": "Melville",
                "title": "Moby",
                "isbn": "0-553",
                "price": 8.99,
                "tags": ["sea"],
            },
            {"category": "fiction", "author": "Tolkien", "title": "Rings", "isbn": "0-395", "price": 22.99},
        ],
        "bicycle": {"color": "red", "price": 399, "a b": {"'": 1}, "gears": None, "sold": False},
    },
    "mixed": [1, "two", {"price": 3, "deep": {"x": [5, 6]}}, [4], None, True, {"price": "3"}],
}

PATHS: list[tuple[str, list[Any]]] = [
    ("$", [STORE]),
    ("", [STORE]),
    ("$.store.bicycle.color", ["red"]),
    ("store.bicycle.price", [399]),
    ("$['store']['bicycle']['a b']", [{"'": 1}]),
    ("$.store.bicycle['a b']['\\'']", [1]),
    ("$.store.book[*].author", ["Rees", "Waugh", "Melville", "Tolkien"]),
    ("$.store.book[0].title", ["Sayings"]),
    ("$.store.book[-1].title", ["Rings"]),
    ("$.store.book[9].title", []),
    ("$.store.book[0,2].title", ["Sayings", "Moby"]),
    ("$.store.book[:2].title", ["Sayings", "Sword"]),
    ("$.store.book[-2:].title", ["Moby", "Rings"]),
    ("$.store.book[::2].price", [8.95, 8.99]),
    ("$.store.book[*]['title','price']", ["Sayings", "Sword", "Moby", "Rings", 8.95, 12.99, 8.99, 22.99]),
    ("$.store.book[?@.isbn].title", ["Moby", "Rings"]),
    ("$.store.book[?!@.isbn].title", ["Sayings", "Sword"]),
    ("$.store.book[?@.price < 10].title", ["Sayings", "Moby"]),
    ("$.store.book[?(@.price >= 12.99 && @.category == 'fiction')].title", ["Sword", "Rings"]),
    ("$.store.book[?@.author == 'Rees' || @.title == \"Moby\"].price", [8.95, 8.99]),
    ("$.store.book[?@.tags[0] == 'sea'].title", ["Moby"]),
    ("$.store.book[?length(@.title) == 4].title", ["Moby"]),
    ("$.store.book[?match(@.author, '[RW].*')].author", ["Rees", "Waugh"]),
    ("$.store.book[?search(@.author, 'vill')].author", ["Melville"]),
    ("$.store[?@.color].price", [399]),
    ("$.store.bicycle.gears", [None]),
    ("$.store.bicycle.*", ["red", 399, {"'": 1}, None, False]),
    ("$..isbn", ["0-553", "0-395"]),
    ("$..book[0].title", ["Sayings"]),
    ("$..x[*]", [5, 6]),
    ("$.mixed[*].price", [3, "3"]),
    ("$.mixed[?@.price == 3]", [{"price": 3, "deep": {"x": [5, 6]}}]),
    ("$.mixed[?@.price < 9].deep.x[1]", [6]),
    ("$.mixed[?@.deep.x[0] == 5].price", [3]),
    ("$.mixed[?@.deep.y == null]", []),
    ("$.mixed[1]", ["two"]),
    ("$.nothing[*].here", []),
]


@pytest.mark.parametrize(("path", "found"), PATHS)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_path_leads_to(path: str, found: list[Any], indent: int | None) -> None:
    document = json.dumps(STORE, indent=indent).encode()

    assert [value_of(text) for text in find(parse(path), document)] == found


@pytest.mark.parametrize(
    "path",
    [
        "$.",
        "$[",
        "$.a[",
        "$.a[1",
        "$.a['b",
        "$.a[?@.b ==]",
        "$.a[?]",
        "$.a[?1 == 1]",
        "$.a[?@.b[*] == 1]",
        "$.a[?search(@.b, '(?=x)y')]",
        "$.a[?search(@.b, '(a)\\\\1')]",
        "$..a..b",
        "$.a[*,*]",
        "$.a[::0]",
        "$.a b",
        "$" + ".a" * 50,
        "$." + "a" * 2000,
        "$.a[?(@.b == 1]",
    ],
)
def test_what_is_no_path_is_told_where_it_stops_being_one(path: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="cannot be read at"):
        find(parse(path), b'{"a":[{"b":1}]}')


def test_big_numbers_and_doubtful_letters_come_out_as_they_are() -> None:
    document = b'{"n":[123456789012345678901234567890,1.10],"s":"\\ud83d\\ude00 \\u00e9"}'

    assert [bytes(one) for one in find(parse("$.n[*]"), document)] == [b"123456789012345678901234567890", b"1.10"]
    assert [bytes(one) for one in find(parse("$.s"), document)] == [b'"\\ud83d\\ude00 \\u00e9"']


def test_a_path_that_multiplies_what_it_finds_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MOST_NODES", 1000)
    document = b'{"a":' * 19 + b"1" + b"}" * 19

    with pytest.raises(InvalidArgumentsError, match="more than"):
        find(parse("$" + "['a','a']" * 19), document)


@pytest.mark.parametrize("text", [b"", b"[1,2", b'{"a":1} x', b"[" * 5000 + b"]" * 5000, b"null", b'"text"'])
def test_what_is_no_document_is_text(text: bytes) -> None:
    assert not is_json(text)


def test_a_document_of_too_many_values_is_text() -> None:
    assert not is_json(b"[" + b"1," * 1_000_001 + b"1]")


@given(some.text(max_size=40), some.integers(1, 30), some.booleans())
def test_a_string_is_read_piece_by_piece_as_if_at_once(text: str, piece: int, ascii: bool) -> None:
    whole = (text + '\\\n"é😀') * 3
    raw = json.dumps(whole, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trunkline.call.results.json_text.PIECE", piece)

        assert string_of(raw) == json.loads(raw)
        assert json.loads(written(whole)) == whole
    assert json.loads(raw).startswith(start_of(raw, 5))


VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-5, 5) | some.text("ab", max_size=2),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.sampled_from("ab"), inner, max_size=2),
    max_leaves=20,
)
STEPS = [
    ".a",
    ".b",
    "[*]",
    "[0]",
    "[-1]",
    "[1:]",
    "['a','b']",
    "[?@.a]",
    "[?@.a == 1]",
    "[?@.b.a != 'a']",
    "..a",
    "..[0]",
]


@given(VALUES, some.lists(some.sampled_from(STEPS), max_size=4).filter(lambda steps: "".join(steps).count("..") < 2))
def test_any_path_finds_in_text_what_it_finds_in_objects(value: Any, steps: list[str]) -> None:
    found = [value_of(text) for text in find(parse("$" + "".join(steps)), json.dumps(value, indent=1).encode())]

    expected = [value]
    for step in steps:
        expected = [one for node in expected for one in taken(node, step)]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, expected))


def taken(value: Any, step: str) -> list[Any]:
    """What a step leads to, in the plainest way."""
    if step.startswith(".."):
        inner = "[0]" if step == "..[0]" else ".a"
        children = children_of(value)
        return taken(value, inner) + [one for child in children for one in taken(child, step)]
    if step in (".a", ".b"):
        return [value[step[1]]] if isinstance(value, dict) and step[1] in value else []
    if step == "['a','b']":
        return taken(value, ".a") + taken(value, ".b")
    if step.startswith("[?") or step == "[*]":
        children = children_of(value)
        return [child for child in children if step == "[*]" or fulfils(child, step)]
    some: list[Any] = children_of(value) if isinstance(value, list) else []
    return some[1:] if step == "[1:]" else some[:1] if step == "[0]" else some[-1:]


def children_of(value: Any) -> list[Any]:
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()  # type: ignore[reportUnknownVariableType]
    return list(found)  # type: ignore[reportUnknownArgumentType]


def fulfils(value: Any, step: str) -> bool:
    a = taken(value, ".a")
    if step == "[?@.a]":
        return bool(a)
    if step == "[?@.a == 1]":
        return [type(one) for one in a if one == 1] == [int]
    below = [one for inner in taken(value, ".b") for one in taken(inner, ".a")]
    return not (below and below[0] == "a")
