"""What a modern request says about itself in `_meta`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import RefusedError
from trunkline.wire import meta
from trunkline.wire.members import Members, read_members, write_members

VERSION = "2026-07-28"
OWN = meta.Meta(VERSION, b'{"elicitation":{}}', b'{"name":"x","version":"1"}', "debug")

NAMES = st.text().filter(lambda name: not name.startswith(meta.PREFIX))
METAS = st.none() | st.dictionaries(NAMES, st.integers() | st.text() | st.none(), min_size=1, max_size=4)


@given(METAS, st.dictionaries(NAMES.filter(lambda name: name != "_meta"), st.integers(), max_size=3))
def test_what_is_stamped_can_be_read_and_taken_off_again(inner: dict[str, Any] | None, rest: dict[str, int]) -> None:
    document = {**rest, **({"_meta": inner} if inner is not None else {})}
    params = read_members(json.dumps(document).encode())

    stamped = meta.stamp(params, OWN)

    assert meta.read_meta(stamped) == OWN
    assert json.loads(write_members(meta.unstamp(stamped))) == document


def test_what_the_caller_put_into_meta_stays_byte_for_byte() -> None:
    params: Members = {"_meta": b'{"traceparent":"00-\\u0061","n":1.0}'}

    stamped = meta.stamp(params, OWN)

    assert read_members(stamped["_meta"])["traceparent"] == b'"00-\\u0061"'
    assert read_members(stamped["_meta"])["n"] == b"1.0"


def test_params_without_modern_fields_are_not_touched() -> None:
    params: Members = {"_meta": b'{ "progressToken" : 1 }'}

    assert meta.unstamp(params) is params


def complete(**changes: Any) -> bytes:
    fields: dict[str, Any] = {meta.VERSION: VERSION, meta.CAPABILITIES: {}}
    changed = {**fields, **{meta.PREFIX + name: value for name, value in changes.items()}}
    return json.dumps({name: value for name, value in changed.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", -32602),
        (b"null", -32602),
        (b"[]", -32602),
        (b"{}", -32602),
        (complete(protocolVersion=...), -32602),
        (complete(clientCapabilities=...), -32602),
        (complete(protocolVersion=5), -32602),
        (complete(protocolVersion=""), -32602),
        (complete(clientCapabilities=None), -32602),
        (complete(clientCapabilities=[]), -32602),
        (complete()[:-1] + b',"a":1,"a":2}', -32600),
        (complete()[:-1] + b',"' + meta.VERSION.encode() + b'":"2025-11-25"}', -32600),
    ],
)
def test_incomplete_or_ambiguous_metadata_is_refused(text: bytes, code: int) -> None:
    with pytest.raises(RefusedError) as refused:
        meta.read_meta({"_meta": text})

    assert (refused.value.code, refused.value.status) == (code, 400)


def test_long_metadata_is_read_like_short() -> None:
    text = complete(clientInfo={"name": "x" * 10_000})

    found = meta.read_meta({"_meta": text})

    assert found.version == VERSION
    assert len(found.client_info) > 10_000


@pytest.mark.parametrize(
    "said",
    [
        {"clientCapabilities": {"experimental": {"x": "x" * 20_000}}},
        {"clientInfo": {"name": "x" * 70_000}},
        {"logLevel": "x" * 5_000},
    ],
    ids=["capabilities", "info", "level"],
)
def test_a_caller_that_says_more_of_itself_than_is_worth_remembering_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(RefusedError) as refused:
        meta.read_meta({"_meta": complete(**said)})

    assert (refused.value.code, refused.value.status) == (-32602, 400)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-29", "", "draft"])
def test_a_version_that_we_do_not_speak_is_refused_with_those_that_we_do(version: str) -> None:
    with pytest.raises(RefusedError) as refused:
        meta.check_version(version)

    assert refused.value.code == -32022
    assert refused.value.data == {"supported": [VERSION], "requested": version}


@pytest.mark.parametrize(
    ("text", "token"),
    [
        (b"", b""),
        (b"{}", b""),
        (b"null", b""),
        (b'{"progressToken":7}', b"7"),
        (b'{ "progressToken" : "a\\u0062" }', b'"a\\u0062"'),
        (b'{"other":"progressToken"}', b""),
        (b'{"inner":{"progressToken":1}}', b""),
        (b'{"\\u0070rogressToken":7}', b"7"),
    ],
)
def test_the_progress_token_is_found_however_it_is_written(text: bytes, token: bytes) -> None:
    assert meta.progress_token({"_meta": text}) == token


@given(METAS, st.integers(0, 10**9))
def test_another_progress_token_takes_the_place_of_the_first(inner: dict[str, Any] | None, number: int) -> None:
    params: Members = {"_meta": json.dumps(inner).encode()} if inner is not None else {}

    changed = meta.with_progress_token(params, b"%d" % number)

    assert meta.progress_token(changed) == b"%d" % number
    assert json.loads(changed["_meta"]) == {**(inner or {}), "progressToken": number}


def test_modern_metadata_is_recognised_even_when_its_name_is_written_with_escapes() -> None:
    assert meta.is_modern({"_meta": b'{"io.modelcontextprotocol\\/protocolVersion":"2026-07-28"}'})


def test_a_legacy_call_that_only_talks_about_modern_metadata_stays_legacy() -> None:
    assert not meta.is_modern({"arguments": b'{"text":"io.modelcontextprotocol/protocolVersion"}'})
    assert not meta.is_modern({"_meta": b'{"note":"io.modelcontextprotocol/protocolVersion"}'})
