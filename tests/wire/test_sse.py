"""Streams of events read the same however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.wire.sse import COMMENT, Decoder, Event, TooLongError, write_event

PLENTY = 1_000_000

LINES = st.sampled_from(
    [
        b"data: one",
        b"data:two",
        b"data",
        b"data: ",
        b"id: 7",
        b"id",
        b"event: message",
        b"retry: 5",
        b": comment",
        b"",
        b"",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda parts: b"".join(line + end for line, end in parts))


def read(pieces: list[bytes], limit: int = PLENTY) -> list[Event]:
    decoder = Decoder(limit)
    return [event for piece in pieces for event in decoder.feed(piece)]


@given(STREAMS, st.lists(st.integers(0, 120), max_size=8))
def test_a_stream_reads_the_same_however_it_is_cut(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]

    assert read(pieces) == read([stream])


@given(STREAMS)
def test_a_stream_reads_the_same_byte_by_byte(stream: bytes) -> None:
    assert read([bytes([byte]) for byte in stream]) == read([stream])


def test_an_empty_line_after_a_line_end_cut_in_two_ends_the_event() -> None:
    assert read([b"data: x\r", b"\n", b"\n"]) == [Event(b"x")]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_kind_of_line_end_counts(end: bytes) -> None:
    stream = end.join([b"event: message", b"id: 1", b"data: a", b"data: b", b"", b"data: c", b"", b""])

    assert read([stream]) == [Event(b"a\nb", id="1", event="message"), Event(b"c")]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"\xef\xbb\xbfdata: x\n\n", [Event(b"x")]),
        (b"data:x\n\n", [Event(b"x")]),
        (b"data:  x\n\n", [Event(b" x")]),
        (b"data\n\n", [Event(b"")]),
        (b": comment\n\n\n", []),
        (COMMENT, []),
        (b"event: ping\n\n", []),
        (b"id: 9\n\n", [Event(id="9")]),
        (b"retry: 250\ndata: x\n\n", [Event(b"x", retry=250)]),
        (b"retry: soon\ndata: x\n\n", [Event(b"x")]),
        (b"id: a\0b\ndata: x\n\n", [Event(b"x")]),
        (b"unknown: 1\ndata: x\n\n", [Event(b"x")]),
        (b"data: never ended\n", []),
        (b"data: a:b\n\n", [Event(b"a:b")]),
    ],
)
def test_fields_mean_what_the_standard_says(stream: bytes, expected: list[Event]) -> None:
    assert read([stream]) == expected


@given(
    st.binary(max_size=200),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20).filter(
        lambda text: text == text.lstrip()
    ),
    st.sampled_from(["", "message", "endpoint"]),
    st.integers(-1, 10**6),
)
def test_what_is_written_is_read_again(data: bytes, id: str, event: str, retry: int) -> None:
    found = read([write_event(data, id=id, event=event, retry=retry)])

    assert found == [Event(data.replace(b"\r", b"\n"), id, event, retry)]


def test_the_last_id_stays_known_after_events_without_one() -> None:
    decoder = Decoder(PLENTY)

    decoder.feed(b"id: 5\ndata: a\n\ndata: b\n\n")

    assert decoder.last_id == "5"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 200],
        [b"data: " + b"x" * 200 + b"\n\n"],
        [b"x"] * 200,
        [b"data: xxxxxxxxxxxxxxx\n"] * 20,
        [b"data: xxxxxxxxxxxxxxx\n" * 20],
    ],
    ids=["no end", "one line", "byte by byte", "many lines", "many lines at once"],
)
def test_an_event_past_the_limit_is_refused(pieces: list[bytes]) -> None:
    with pytest.raises(TooLongError):
        read(pieces, limit=100)


def test_many_events_below_the_limit_pass_in_one_piece() -> None:
    found = read([b"data: " + b"x" * 80 + b"\n\n"] * 50 + [(b"data: " + b"y" * 80 + b"\n\n") * 50], limit=100)

    assert len(found) == 100
