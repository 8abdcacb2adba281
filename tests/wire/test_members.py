"""Objects are split and joined without touching a byte of what is inside, and nothing is named twice."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import RefusedError
from trunkline.wire.members import decode, read_members, read_unambiguous, scan_members, write_members

LEAVES = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES | st.text(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
STYLES: list[dict[str, Any]] = [
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"separators": (",", ": ")},
    {"indent": 2},
    {"indent": "\t"},
]

EXACT = [
    b"123456789012345678901234567890",
    b"-0",
    b"1.0",
    b"1",
    b"1E+2",
    b"1e400",
    b"null",
    b'"caf\\u00e9 \\/ \\ud83d\\ude00"',
    b'"cut off \\ud83d"',
    '"é😀"'.encode(),
    b'{"z":1,"a":{"y":1.0,"b":[ 1 , 2 ]}}',
    b'""',
    b"[]",
    b"{}",
]
BROKEN = [
    b"",
    b" ",
    b"null",
    b"[]",
    b'"text"',
    b"{",
    b'{"a"',
    b'{"a":',
    b'{"a":1',
    b'{"a":1,',
    b'{"a":1,}',
    b'{,"a":1}',
    b'{"a":1 "b":2}',
    b"{a:1}",
    b"{'a':1}",
    b'{"a":1} {}',
    b'{"a":1}x',
    b'{"a":1}\x00',
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":-Infinity}',
    b'{"a":[1,NaN]}',
    b'{"a":01}',
    b'{"a":1.}',
    b'{"a":+1}',
    b'{"a":"\x01"}',
    b'{"a":tru}',
    b'{"a":"\\x"}',
    b"\xff\xfe{}",
    b'{"\xff":1}',
]


@pytest.mark.parametrize("value", EXACT)
def test_a_value_is_kept_as_it_was_written(value: bytes) -> None:
    members = read_members(b'{"first": 1, "value": ' + value + b" }")

    assert members == {"first": b"1", "value": value}
    assert write_members(members) == b'{"first":1,"value":' + value + b"}"


@given(st.dictionaries(st.text(), VALUES, max_size=6), st.sampled_from(STYLES), st.booleans())
def test_splitting_and_joining_changes_nothing(value: dict[str, Any], style: dict[str, Any], escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped, **style).encode()

    members = read_members(text)

    assert list(members) == list(value)
    assert all(part in text for part in members.values())
    assert json.loads(write_members(members)) == value
    assert read_members(write_members(members)) == members
    assert read_unambiguous(text) == members
    assert scan_members(text) == list(members.items())


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "é", '"', "n: 1, x"]), VALUES), min_size=1, max_size=5),
    st.sampled_from([("", ""), (" ", " "), ("", " "), ("\n  ", " "), ("\r\n\t", "\t")]),
    st.booleans(),
)
def test_a_name_that_occurs_twice_is_refused_in_any_style(
    pairs: list[tuple[str, Any]], spaces: tuple[str, str], escaped: bool
) -> None:
    items = [f"{json.dumps(name, ensure_ascii=escaped)}:{spaces[1]}{json.dumps(value)}" for name, value in pairs]
    text = ("{" + f",{spaces[0]}".join(items) + "}").encode()

    if len({name for name, _ in pairs}) == len(pairs):
        assert len(read_unambiguous(text)) == len(pairs)
    else:
        with pytest.raises(RefusedError) as refused:
            read_unambiguous(text)
        assert refused.value.code == -32600


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":1}',
        b'{"a": 1, "a": 1}',
        b'{ "a" : 1 , "a" : 1 }',
        b'{"a":1,"\\u0061":1}',
        b'{"\\u0061":1,"a":1}',
        b'{"a": 1, "\\u0061": 1}',
        b'{"a":"\\ud83d","a":1}',
        b'{"a":1,"b":{"a":2},"a":3}',
        b'{"":1,"":2}',
    ],
)
def test_a_name_that_is_repeated_is_refused_however_it_is_spelled(text: bytes) -> None:
    with pytest.raises(RefusedError):
        read_unambiguous(text)


def test_names_that_differ_only_in_case_or_depth_are_not_repeated() -> None:
    members = read_unambiguous(b'{"a":{"a":1},"A":2}')

    assert members == {"a": b'{"a":1}', "A": b"2"}


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_not_a_json_object_is_a_value_error(text: bytes) -> None:
    for read in (read_members, read_unambiguous, scan_members):
        with pytest.raises(ValueError):  # noqa: PT011 - that it is one is the point
            read(text)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_value_error(text: bytes) -> None:
    for read in (read_members, read_unambiguous, scan_members, decode):
        try:
            read(text)
        except (ValueError, RefusedError):
            pass


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "value",
    [DEEP, b'["\\ud83d",' + DEEP + b"]", DEEP[:100_000], b'{"a":' * 100_000 + b"1" + b"}" * 100_000],
    ids=["lists", "after a surrogate", "unclosed", "objects"],
)
def test_nesting_without_end_is_a_value_error(value: bytes) -> None:
    for read in (read_members, read_unambiguous, scan_members):
        with pytest.raises(ValueError):  # noqa: PT011 - that it is one is the point
            read(b'{"a":' + value + b"}")
    with pytest.raises(ValueError):  # noqa: PT011
        decode(value)


def test_a_name_with_half_a_surrogate_can_be_written_again() -> None:
    text = b'{"\\ud83d":1,"name":"x"}'

    assert read_members(write_members(read_members(text))) == read_members(text)


@given(VALUES)
def test_a_value_is_decoded_as_python_would(value: Any) -> None:
    assert decode(json.dumps(value).encode()) == value


CROWD = 20_000


@pytest.mark.parametrize(
    "text",
    [
        b"{" + b",".join([b'"a":1'] * CROWD) + b"}",
        b"{" + b", ".join(b'"k%d": 1' % number for number in range(CROWD)) + b" }",
        b"{" + b",".join(b'"\\u0061%d":1' % number for number in range(CROWD)) + b"}",
        b'{"\\ud800":1,' + b",".join(b'"k%d":1' % number for number in range(CROWD)) + b"}",
    ],
    ids=["one name again and again", "many names", "names with escapes", "half a surrogate pair"],
)
def test_an_object_with_countless_names_is_refused(text: bytes) -> None:
    with pytest.raises((RefusedError, ValueError), match=r"[Mm]ore than 10000 names"):
        read_unambiguous(text)


def test_many_names_inside_arguments_are_none_of_our_business() -> None:
    inside = b"{" + b",".join(b'"k%d":1' % number for number in range(CROWD)) + b"}"

    assert read_unambiguous(b'{"name" : "x", "arguments" : ' + inside + b"}")["arguments"] == inside


@pytest.mark.parametrize(
    ("text", "once"),
    [
        (b'{ "a" : 1 , "b" : [ 1 ] }', True),
        (b'{\n"a":{"a":1},\t"b":"}"}', True),
        (b'{"a" : 12, "a" : 1}', False),
        (b'{"a" : 1, "a" : 12}', False),
        (b'{"a" : 1, "b" : 2, "a" : 1}', False),
        (b'{"a" : 1, "\\u0061" : 1}', False),
        (b'{"a\\"" : 1, "a\\\\" : 1}', True),
        (b"{ }", True),
        (b'{"":1 , "" :1}', False),
    ],
)
def test_names_are_seen_twice_however_they_are_spaced(text: bytes, once: bool) -> None:
    if once:
        assert read_unambiguous(text) == read_members(text)
    else:
        with pytest.raises(RefusedError, match="twice"):
            read_unambiguous(text)


HALVES = st.text(st.sampled_from('acd\ud800\udfff\\"é😀u08'), max_size=6)


@given(st.dictionaries(HALVES, HALVES | st.lists(HALVES | st.integers(), max_size=3)), st.sampled_from([", ", ","]))
def test_an_object_with_half_surrogate_pairs_is_taken_apart_as_it_was_written(
    members: dict[str, object], comma: str
) -> None:
    text = json.dumps(members, separators=(comma, ": ")).encode()

    found = scan_members(text)

    assert [(name, json.loads(value)) for name, value in found] == json.loads(text, object_pairs_hook=list)


def test_a_large_object_with_half_a_surrogate_pair_is_not_read_letter_by_letter() -> None:
    text = b'{"half":"\\ud800","lists":[' + b"[]," * 200_000 + b"0]}"
    tracemalloc.start()
    try:
        members = read_unambiguous(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert members["half"] == b'"\\ud800"'
    assert most < 6 * len(text)  # lists that somebody made of it would be thirty times as large


def test_a_large_object_with_half_a_pair_that_names_something_twice_is_refused_unread() -> None:
    text = b'{"a":"\\ud800","a":"' + b"x" * 2**18 + b'"}'

    with pytest.raises(ValueError, match="too large"):
        read_members(text)


def test_large_objects_with_half_a_pair_keep_names_apart_that_hardly_differ() -> None:
    text = b'{"id":"\\ud800","ic":1,"ia":2,"long":"' + b"x" * 2**18 + b'"}'

    with pytest.raises(ValueError, match="too large"):
        read_members(text)
    assert list(read_members(text.replace(b'"ia"', b'"ie"'))) == ["id", "ic", "ie", "long"]


@pytest.mark.parametrize("wrong", [rb"d", rb'"\d"', rb"1d5", rb"nudl", rb"fdlse", rb'"\uddg0"'])
def test_half_a_pair_makes_nothing_valid_that_is_not(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_members(b'{"half":"\\ud800","wrong":' + wrong + b"}")
