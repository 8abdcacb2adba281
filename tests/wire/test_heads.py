"""Heads that were read before are recognised, and never understood otherwise than a parser understands them."""

from __future__ import annotations

import httptools  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.wire.heads import LONGEST, Heads

REQUEST = (
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\n"
    b"Content-Length: 5\r\nMcp-Name: echo\r\n\r\nhello"
)
DATE = b"Sun, 06 Nov 1994 08:49:37 GMT"
ANSWER = b"HTTP/1.1 200 OK\r\ndate: " + DATE + b"\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\nhello"


def knowing(*messages: bytes) -> Heads[str]:
    heads: Heads[str] = Heads(16)
    for message in messages:
        heads.learn(message, "known")
    return heads


def test_a_head_is_known_again_whatever_its_length_and_date_are() -> None:
    heads = knowing(REQUEST, ANSWER)
    longer = REQUEST.replace(b"Length: 5", b"Length: 11").replace(b"hello", b"hello world")
    later = ANSWER.replace(b"08:49:37", b"08:49:38")

    assert heads.find(longer) == ("known", b"hello world")
    assert heads.find(later) == ("known", b"hello")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(REQUEST.replace(b"Bearer one", b"Bearer two"), id="another token"),
        pytest.param(REQUEST.replace(b"Mcp-Name: echo", b"Mcp-Name: ech"), id="another name"),
        pytest.param(REQUEST + b"POST", id="something behind it"),
        pytest.param(REQUEST[:-1], id="a byte is missing"),
        pytest.param(REQUEST.replace(b": 5", b": +5"), id="a sign before the length"),
        pytest.param(REQUEST.replace(b": 5", b": 5 "), id="a space behind the length"),
        pytest.param(REQUEST.replace(b": 5", b": "), id="no length"),
        pytest.param(REQUEST.replace(b": 5", b": 5\r\nTransfer-Encoding: chunked"), id="a further header"),
        pytest.param(REQUEST.replace(b": 5", b": 5\r\nContent-Length: 5"), id="two lengths"),
        pytest.param(REQUEST.partition(b"\r\n\r\n")[0], id="no end"),
        pytest.param(ANSWER.replace(b"Sun, 06 Nov", b"Sun\r\nx: y"), id="a line break in the date"),
        pytest.param(ANSWER.replace(DATE, b"\nTransfer-Encoding: chunked  "), id="a header in the date"),
        pytest.param(ANSWER.replace(DATE, DATE[:-1] + b"\0"), id="a control character in the date"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_whatever_else_differs_goes_to_the_parser(other: bytes) -> None:
    assert knowing(REQUEST, ANSWER).find(other) is None


def test_a_head_without_an_end_is_not_known_however_well_its_length_fits() -> None:
    head = REQUEST.partition(b"\r\n\r\n")[0] + b"x"
    fitting = head.replace(b"Length: 5", b"Length: %d" % (len(head) - 1))

    assert knowing(REQUEST).find(fitting) is None


def test_only_heads_that_say_how_long_their_body_is_are_learnt() -> None:
    strange = REQUEST.replace(b"Content-Length", b"X-Strength")
    large = REQUEST.replace(b"one", b"o" * LONGEST)

    heads = knowing(strange, large, REQUEST.partition(b"\r\n\r\n")[0])

    assert (heads.find(strange), heads.find(large)) == (None, None)


def test_no_more_heads_are_kept_than_there_is_room_for() -> None:
    heads: Heads[int] = Heads(3)
    messages = [REQUEST.replace(b"one", b"%d" % number) for number in range(10)]
    for number, message in enumerate(messages):
        heads.learn(message, number)

    assert [heads.find(message) is not None for message in messages].count(True) <= 3
    assert heads.find(messages[-1]) == (9, b"hello")


class Read:
    """What a parser makes of bytes."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body, self.whole = b"", 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.whole += 1


def parsed(data: bytes, *, answer: bool) -> Read:
    read = Read()
    (httptools.HttpResponseParser if answer else httptools.HttpRequestParser)(read).feed_data(data)
    return read


def varying(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, b"" if name in (b"date", b"content-length") else value) for name, value in headers]


pieces = st.sampled_from(
    [
        b"",
        b"5",
        b"0",
        b"\r",
        b"\n",
        b"\r\n",
        b"\r\n\r\n",
        b" ",
        b":",
        b"x",
        b"Content-Length: 5",
        b"\r\nDate: ",
        b"ength: ",
    ]
)
edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 40), pieces), max_size=3)
dates = st.binary(min_size=len(DATE), max_size=len(DATE))


@given(edits, dates, st.booleans())
def test_what_is_known_is_what_the_parser_would_have_read(
    edits: list[tuple[int, int, bytes]], date: bytes, answer: bool
) -> None:
    first = ANSWER if answer else REQUEST
    data = first.replace(DATE, date)
    for at, size, piece in edits:
        data = data[:at] + piece + data[at + size :]

    found = knowing(first).find(data)

    if found is not None:
        read = parsed(data, answer=answer)
        assert (read.whole, read.body) == (1, found[1])
        assert varying(read.headers) == varying(parsed(first, answer=answer).headers)
