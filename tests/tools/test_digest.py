"""Equal arguments share a digest, and no others do."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import OrderedDict
from decimal import Decimal
from enum import StrEnum
from itertools import combinations
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.tools.digest import canonical, digest, digest_json


def json_of(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | numbers | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('abé"\\\n', max_size=3), inner, max_size=4),
        max_leaves=12,
    )


JSON = json_of(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
DIFFERENT: list[Any] = [
    1,
    1.0,
    True,
    "1",
    [1],
    (1,),
    {1},
    {"1": 1},
    {},
    [],
    (),
    set[int](),
    "",
    None,
    "null",
    0,
    0.0,
    -0.0,
    False,
    float("nan"),
    float("inf"),
    float("-inf"),
    "nan",
    b"",
    b"1",
    "31",
    2**64,
    float(2**64),
    10**40,
    10**40 + 1,
    NOON,
    NOON.replace(tzinfo=None),
    NOON.date(),
    NOON.time(),
    str(NOON),
    dt.timedelta(1),
    Decimal(1),
    Decimal("1.0"),
    UUID(int=1),
    str(UUID(int=1)),
    {"a": None},
    {"a": {"b": 1}},
    {"a": {}, "b": 1},
    [[1], [2]],
    [[1, 2]],
    ([1], 2),
    "a\x00b",
    "é",
    "e\u0301",
]


class Colour(StrEnum):
    RED = "red"


def test_different_arguments_never_share_a_digest() -> None:
    shared = [(one, other) for one, other in combinations(DIFFERENT, 2) if digest(one) == digest(other)]

    assert not shared


def test_a_digest_is_the_whole_sha_256() -> None:
    assert re.fullmatch("[0-9a-f]{64}", digest({"a": 1}))
    assert digest({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ({"a": 1}, OrderedDict({"a": 1})),
        ({"a": 1}, MappingProxyType({"a": 1})),
        ({3, 1, 2}, frozenset({2, 3, 1})),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        (float("nan"), -float("nan")),
        (b"x", bytearray(b"x")),
        ({"colour": Colour.RED}, {"colour": "red"}),
        ({Colour.RED: 1}, {"red": 1}),
    ],
)
def test_equal_arguments_share_a_digest(one: Any, other: Any) -> None:
    assert digest(one) == digest(other)


class Plain:
    def __init__(self, value: int) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"who": Plain(1)}, "'Plain' has no canonical form"),
        ({"what": print}, "'builtin_function_or_method' has no canonical form"),
        ({"what": object}, "'type' has no canonical form"),
        ({"numbers": {1: 2}}, "names of arguments are texts, not 'int'"),
        ({"text": "\ud800"}, "not Unicode"),
        ({"number": 10**5000}, "too long"),
    ],
)
def test_what_has_no_canonical_form_is_refused_and_its_value_is_not_shown(arguments: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        digest(arguments)


def test_a_refusal_names_the_argument() -> None:
    with pytest.raises(TypeError) as caught:
        digest({"outer": {"inner": Plain(1)}})

    assert caught.value.__notes__ == ["It is in 'inner'.", "It is in 'outer'."]


def test_arguments_that_contain_themselves_are_refused() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle

    with pytest.raises(TypeError, match="contain themselves"):
        digest(circle)


@given(JSON)
def test_json_and_the_python_it_came_from_share_a_digest(value: Any) -> None:
    assert digest_json(canonical(value)) == digest(value)


@given(json_of(st.integers()))
def test_blanks_and_escapes_in_json_do_not_count(value: Any) -> None:
    assert digest_json(json.dumps(value, indent=2).encode()) == digest(value)


@given(JSON, JSON)
def test_different_json_has_different_digests(one: Any, other: Any) -> None:
    same = canonical(one) == canonical(other)

    assert (digest_json(json.dumps(one).encode()) == digest_json(json.dumps(other).encode())) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":[1,{"c":2,"d":3}]}', b'{"b":[1,{"d":3,"c":2}],"a":1}'),
        (b'{"a":1,"b":2}', b' {\n"b" : 2 ,\t"a":1 }\r\n'),
        (b'{"a":"\\u00e9\\/"}', '{"a":"é/"}'.encode()),
        (b'{"a":1.50, "b":2}', b'{"b":2,"a":1.50}'),
        (b'{"n":123456789012345678901234567890}', b'{"n": 123456789012345678901234567890}'),
    ],
)
def test_json_that_reads_the_same_shares_a_digest(one: bytes, other: bytes) -> None:
    assert digest_json(one) == digest_json(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b"1.0"),
        (b"1", b'"1"'),
        (b"1", b"true"),
        (b"0", b"-0"),
        (b"{}", b"[]"),
        (b"{}", b"null"),
        (b"{}", b""),
        (b"123456789012345678901234567890", b"123456789012345678901234567891"),
        (b"0.1", b"0.1000000000000000000001"),
        (b"1e400", b"2e400"),
        (b"1" * 5000, b"1" * 4999 + b"2"),
        (b'{"a":2}', b'{"a":1,"a":2}'),
        (b'{"a":2}', b'{"a":2,"a":2}'),
        (b'{"a":1,"a":2}', b'{"a":2,"a":1}'),
        (b'{"a":{"b":2}}', b'{"a":{"b":1,"\\u0062":2}}'),
        (b'"\\ud800"', b'"\\ud801"'),
        (b"NaN", b"null"),
        (b"NaN", b'"NaN"'),
        (b"\xff", b"\xfe"),
        (b"{", b"{{"),
        (b"[" * 5000 + b"]" * 5000, b"[" * 5001 + b"]" * 5001),
    ],
)
def test_json_that_somebody_may_read_differently_does_not(one: bytes, other: bytes) -> None:
    assert digest_json(one) != digest_json(other)


def test_text_that_is_not_json_cannot_pass_for_a_python_value() -> None:
    assert digest_json(canonical((1,))) != digest((1,))
    assert digest_json(canonical(b"x")) != digest(b"x")
