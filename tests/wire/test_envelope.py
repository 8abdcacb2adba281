"""JSON-RPC messages: what is written is read again, and what could be read in two ways is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import RefusedError
from trunkline.wire.envelope import (
    Message,
    error_object,
    guess_number,
    read_caller_message,
    read_message,
    read_params,
    read_string,
    write_error,
    write_notification,
    write_request,
    write_result,
)

IDS = st.integers(-(10**20), 10**20).map(lambda number: b"%d" % number) | st.text().map(
    lambda text: json.dumps(text).encode()
)
METHODS = st.text(min_size=1)
OBJECTS: st.SearchStrategy[bytes] = st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=4).map(
    lambda value: json.dumps(value).encode()
)


@given(IDS, METHODS, OBJECTS)
def test_a_request_is_read_as_it_was_written(id: bytes, method: str, params: bytes) -> None:
    text = write_request(id, method, params)

    assert read_message(text) == read_caller_message(text) == Message(id, method, params)
    assert json.loads(text)["jsonrpc"] == "2.0"


@given(METHODS, OBJECTS | st.just(b""))
def test_a_notification_is_read_as_it_was_written(method: str, params: bytes) -> None:
    text = write_notification(method, params)

    assert read_message(text) == read_caller_message(text) == Message(method=method, params=params)


@given(IDS, OBJECTS)
def test_a_response_is_read_as_it_was_written(id: bytes, payload: bytes) -> None:
    result, error = write_result(id, payload), write_error(id, payload)

    assert read_message(result) == read_caller_message(result) == Message(id, result=payload)
    assert read_message(error) == read_caller_message(error) == Message(id, error=payload)


def test_an_error_without_a_known_id_answers_null() -> None:
    assert json.loads(write_error(b"", error_object(-32700, "No."))) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "No."},
    }


REFUSED: list[tuple[bytes, int]] = [
    (b"", -32700),
    (b"{", -32700),
    (b"hello", -32700),
    (b"42", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', -32700),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":Infinity}}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}", -32700),
    (b"[]", -32600),
    (b' \n[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    (b"{}", -32600),
    (b'{"id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1e2,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":""}', -32600),
    (b'{"jsonrpc":"2.0","id":1}', -32600),
    (b'{"jsonrpc":"2.0","result":{}}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","\\u006dethod":"tools/call"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}', -32600),
    (b'{"jsonrpc":"2.0","ID":1,"method":"ping"}', -32600),
    (b'{"JSONRPC":"2.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","PARAMS":{}}', -32600),
]


@pytest.mark.parametrize(("text", "code"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_a_message_that_can_be_misread_is_refused(text: bytes, code: int) -> None:
    with pytest.raises(RefusedError) as refused:
        read_caller_message(text)

    assert (refused.value.code, refused.value.status) == (code, 400)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"method":"ping","id":"a","jsonrpc":"2.0"}', Message(b'"a"', "ping")),
        (b' {"jsonrpc": "2.0", "id": -5, "method": "ping"}\n', Message(b"-5", "ping")),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', Message(b"1", "ping")),
        (b'{"jsonrpc":"2.0","id":1,"method":"p\\u0069ng","vendor":1}', Message(b"1", "ping")),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', Message(b"1", result=b"null")),
    ],
)
def test_a_plain_message_is_accepted_in_any_style(text: bytes, message: Message) -> None:
    assert read_caller_message(text) == message


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"42", b"{not json", b"\x00\xff\xfe", b'{"id":1,"method":5}', b'{"id":1,"result":{"a":"\xff"}}'],
)
def test_what_a_server_sent_and_is_no_message_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - that it is one is the point
        read_message(text)


def test_half_a_surrogate_from_a_server_passes_unchanged() -> None:
    text = b'{"jsonrpc":"2.0","id":3,"result":{"text":"cut off \\ud83d"}}'

    assert read_message(text) == Message(b"3", result=b'{"text":"cut off \\ud83d"}')


def test_deep_nesting_from_a_server_is_kept_or_refused_but_never_crashes() -> None:
    nested = b"[" * 100_000 + b"]" * 100_000

    with pytest.raises(ValueError):  # noqa: PT011 - that it is one is the point
        read_message(b'{"id":3,"result":' + nested + b"}")


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (b'{"name":"a","name":"b"}', -32600),
        (b'{"name": "a", "name": "b"}', -32600),
        (b'{"_meta":{},"_meta":{}}', -32600),
    ],
)
def test_params_name_nothing_twice(params: bytes, code: int) -> None:
    with pytest.raises(RefusedError) as refused:
        read_params(Message(b"1", "tools/call", params))

    assert refused.value.code == code


@given(st.text(), st.booleans())
def test_a_string_is_read_whatever_is_in_it(text: str, escaped: bool) -> None:
    assert read_string(json.dumps(text, ensure_ascii=escaped).encode()) == text


@pytest.mark.parametrize("value", [b"", b"5", b"null", b"{}", b'"\\ud83d"'])
def test_what_is_no_string_reads_as_empty(value: bytes) -> None:
    assert read_string(value) == ""


@pytest.mark.parametrize(
    ("id", "number"), [(b"7", 7), (b"0", 0), (b'"7"', -1), (b"-7", -1), (b"7.0", -1), (b"", -1), (b"9" * 40, -1)]
)
def test_only_ids_of_our_own_are_numbers(id: bytes, number: int) -> None:
    assert Message(id).number == number


@pytest.mark.parametrize(
    ("head", "tail", "number"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{"content":', b"", 12),
        (b'{"result":{"content":', b'"},"id":34,"jsonrpc":"2.0"}', 34),
        (b'{"result":{"content":', b'{"id":1}]},"id": 35}', 35),
        (b"garbage", b"garbage", -1),
        (b"", b"", -1),
    ],
)
def test_the_request_that_an_unreadable_answer_belongs_to_is_guessed(head: bytes, tail: bytes, number: int) -> None:
    assert guess_number(head, tail) == number


@given(st.binary(max_size=80))
def test_no_bytes_of_a_caller_raise_anything_but_a_refusal(text: bytes) -> None:
    code, found = 0, Message()
    try:
        found = read_caller_message(text)
    except RefusedError as refused:
        code = refused.code

    assert code in (-32700, -32600) or found.method or found.id


_MEMBERS = {"jsonrpc": '"2.0"', "id": "1", "method": '"tools/call"', "params": '{"name": "ø"}'}


@pytest.mark.parametrize("colon", [":", ": "])
@pytest.mark.parametrize("comma", [",", ", ", " ,"])
@pytest.mark.parametrize("order", [("jsonrpc", "id", "method", "params"), ("method", "params", "jsonrpc", "id")])
def test_a_request_is_read_alike_in_every_style_and_no_member_can_hide_in_one(
    colon: str, comma: str, order: tuple[str, ...]
) -> None:
    def written(names: tuple[str, ...], **other: str) -> bytes:
        members = {**_MEMBERS, **other}
        return ("{" + comma.join(f'"{name}"{colon}{members[name]}' for name in names) + "}").encode()

    read = read_caller_message(written(order))

    assert (read.id, read.method, read.params) == (b"1", "tools/call", '{"name": "ø"}'.encode())
    for wrong in (
        *(written((*order, name)) for name in order),
        *(written((name, *order), **{name: '"x"'}) for name in order),
        written((*order, "Id"), Id="2"),
        written(order, jsonrpc='"1.0"'),
        written(order, id="1.5"),
        written(order, method='""'),
        written(order, params="[]"),
        written(order).replace("ø".encode(), b"\xf8"),
    ):
        with pytest.raises(RefusedError):
            read_caller_message(wrong)
