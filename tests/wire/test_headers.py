"""The headers of a modern request repeat what its body says, or the request is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import RefusedError
from trunkline.wire.headers import (
    check_headers,
    check_param_headers,
    decode_value,
    encode_value,
    header_map,
    param_headers,
    read_said,
)
from trunkline.wire.members import Members

VERSION = "2026-07-28"


@given(st.text() | st.sampled_from(["", " ", "=?base64??=", "=?base64?Zm9v?=", "a\r\nX-Evil: 1", "é", "\x7f"]))
def test_any_text_survives_a_header(value: str) -> None:
    encoded = encode_value(value)

    assert decode_value(encoded) == value
    assert all(0x20 <= byte <= 0x7E for byte in encoded)
    assert encoded == encoded.strip()


@pytest.mark.parametrize(
    ("sent", "meaning"),
    [
        (b"echo", "echo"),
        (b"", ""),
        (b"=?base64?ZWNobw==?=", "echo"),
        (b"=?base64??=", ""),
        (b"=?base64?w6k=?=", "é"),
        (b"=?base64?ZWNobw?=", None),
        (b"=?base64?ZWNobx==?=", None),
        (b"=?base64?ZWN obw==?=", None),
        (b"=?base64?_-_-?=", None),
        (b"=?base64?/w==?=", None),
        (b"\xc3\xa9", None),
        (b"=?base64?ZWNobw==", "=?base64?ZWNobw=="),
    ],
)
def test_a_header_value_has_one_meaning_or_none(sent: bytes, meaning: str | None) -> None:
    assert decode_value(sent) == meaning


def headers(**given: str | None) -> dict[bytes, bytes]:
    sent = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "echo"}
    changed = {**sent, **{name.replace("_", "-"): value for name, value in given.items()}}
    return {name.encode(): value.encode() for name, value in changed.items() if value is not None}


CALL: Members = {"name": b'"echo"'}


@pytest.mark.parametrize("sent", [headers(), headers(mcp_name="=?base64?ZWNobw==?=")])
def test_headers_that_repeat_the_body_pass(sent: dict[bytes, bytes]) -> None:
    assert check_headers(read_said(sent), version=VERSION, method="tools/call", params=CALL) == "echo"


@pytest.mark.parametrize(
    "sent",
    [
        headers(mcp_method=None),
        headers(mcp_method="tools/list"),
        headers(mcp_method="TOOLS/CALL"),
        headers(mcp_method=""),
        headers(mcp_name=None),
        headers(mcp_name="Echo"),
        headers(mcp_name="echo2"),
        headers(mcp_name="=?base64?ZWNobw?="),
        headers(mcp_name="=?base64?ZXZpbA==?="),
        headers(mcp_protocol_version=None),
        headers(mcp_protocol_version="2025-11-25"),
    ],
)
def test_headers_that_say_something_else_are_refused(sent: dict[bytes, bytes]) -> None:
    with pytest.raises(RefusedError) as refused:
        check_headers(read_said(sent), version=VERSION, method="tools/call", params=CALL)

    assert (refused.value.code, refused.value.status) == (-32020, 400)


def test_a_header_that_means_another_name_is_refused_though_it_looks_the_same() -> None:
    disguised = "=?base64?ZWNobw==?="

    with pytest.raises(RefusedError):
        check_headers(
            read_said(headers(mcp_name=disguised)),
            version=VERSION,
            method="tools/call",
            params={"name": json.dumps(disguised).encode()},
        )


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def header(name: Any, type: Any = "string") -> dict[str, Any]:
    return {"type": type, "x-mcp-header": name}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        (schema(a={"type": "string"}), {}),
        (schema(a=header("Region")), {("a",): "region"}),
        (schema(a=header("N", "integer"), b=header("B", "boolean")), {("a",): "n", ("b",): "b"}),
        (schema(a=schema(b=header("Deep"))), {("a", "b"): "deep"}),
        (schema(properties=header("Odd")), {("properties",): "odd"}),
        ({**schema(), "default": {"x-mcp-header": 5}}, {}),
        ({**schema(), "examples": [{"x-mcp-header": "A"}]}, {}),
        (schema(a={"enum": [{"x-mcp-header": "A"}]}), {}),
        (True, {}),
        (None, {}),
    ],
)
def test_a_schema_says_which_arguments_become_headers(given: Any, expected: dict[tuple[str, ...], str]) -> None:
    assert header_map(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        schema(a=header("")),
        schema(a=header("with space")),
        schema(a=header("a:b")),
        schema(a=header("a\r\nb")),
        schema(a=header("é")),
        schema(a=header(5)),
        schema(a=header(None)),
        schema(a=header("A", "number")),
        schema(a=header("A", "object")),
        schema(a=header("A", "array")),
        schema(a=header("A", ["string", "null"])),
        schema(a={"x-mcp-header": "A"}),
        schema(a=header("Same"), b=header("same")),
        {"x-mcp-header": "A", "type": "string"},
        schema(a={"type": "array", "items": header("A")}),
        schema(a={"anyOf": [header("A")]}),
        {"oneOf": [schema(a=header("A"))]},
        {"$defs": {"x": header("A")}},
        {"patternProperties": {"^x": header("A")}},
        {"additionalProperties": header("A")},
        {"if": schema(a=header("A"))},
    ],
)
def test_a_schema_with_a_bad_header_is_a_value_error(given: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - that it is one is the point
        header_map(given)


def test_a_schema_nested_without_end_is_walked_without_recursion() -> None:
    nested: dict[str, Any] = header("Deep")
    for _ in range(5000):
        nested = {"type": "object", "properties": {"a": nested}}

    assert list(header_map(nested).values()) == ["deep"]


WANTED = {("s",): "s", ("n",): "n", ("b",): "b", ("o", "x"): "x"}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, {}),
        ({"s": "text"}, {"s": "text"}),
        ({"s": "é"}, {"s": "=?base64?w6k=?="}),
        ({"s": ""}, {"s": ""}),
        ({"s": "42"}, {"s": "42"}),
        ({"n": 42}, {"n": "42"}),
        ({"n": 42}, {"n": "42.0"}),
        ({"n": 42.0}, {"n": "42"}),
        ({"n": -1}, {"n": "-1"}),
        ({"n": 2**53}, {"n": str(2**53)}),
        ({"b": True}, {"b": "true"}),
        ({"b": False}, {"b": "false"}),
        ({"o": {"x": "deep"}}, {"x": "deep"}),
        ({"o": "no object"}, {}),
        ({"s": None}, {}),
        ({"s": "a"}, {"s": "a", "unknown": "passes"}),
    ],
)
def test_param_headers_that_repeat_the_arguments_pass(arguments: Any, sent: dict[str, str]) -> None:
    given = {b"mcp-param-" + name.encode(): value.encode() for name, value in sent.items()}

    check_param_headers(given, WANTED, json.dumps(arguments).encode())


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"s": "text"}, {}),
        ({"s": "text"}, {"s": "Text"}),
        ({"s": "text"}, {"s": ""}),
        ({"s": "42"}, {"s": "42.0"}),
        ({"s": "é"}, {"s": "=?base64?w6k?="}),
        ({}, {"s": "text"}),
        ({"s": None}, {"s": "null"}),
        ({"n": 42}, {"n": "43"}),
        ({"n": 42}, {"n": "42.5"}),
        ({"n": 42}, {"n": "042x"}),
        ({"n": 42.5}, {"n": "42"}),
        ({"n": 1}, {"n": "true"}),
        ({"b": True}, {"b": "1"}),
        ({"b": True}, {"b": "True"}),
        ({"o": {"x": "a"}}, {"x": "b"}),
    ],
)
def test_param_headers_that_say_something_else_are_refused(arguments: Any, sent: dict[str, str]) -> None:
    given = {b"mcp-param-" + name.encode(): value.encode() for name, value in sent.items()}

    with pytest.raises(RefusedError) as refused:
        check_param_headers(given, WANTED, json.dumps(arguments).encode())

    assert refused.value.code == -32020


@given(st.fixed_dictionaries({}, optional={"s": st.text(), "n": st.integers(-(2**53), 2**53), "b": st.booleans()}))
def test_the_headers_that_we_make_are_those_that_we_accept(arguments: dict[str, Any]) -> None:
    text = json.dumps(arguments).encode()

    made = param_headers(WANTED, text)

    assert len(made) == len(arguments)
    check_param_headers(made, WANTED, text)


def test_an_argument_with_half_a_surrogate_is_refused_and_not_a_crash() -> None:
    with pytest.raises(RefusedError):
        check_param_headers({b"mcp-param-s": b"x"}, WANTED, b'{"s":"\\ud83d"}')
