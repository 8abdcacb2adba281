"""Heads of HTTP messages that were read before: whoever sends the same one again is spared a second reading.

A peer says the same in every head, but for how long the body is and what day it is. So a message whose head is known
apart from these, and which came whole with nothing behind it, is understood without a parser; any other goes to one.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

LONGEST = 4096
"""Bytes of a head that is remembered."""

_LENGTH = b"ength: "
_LENGTHS = frozenset((b"\r\nContent-Length: ", b"\r\ncontent-length: "))
_DATE = b"ate: "
_DATES = frozenset((b"\r\nDate: ", b"\r\ndate: "))
_DATE_SIZE = len("Sun, 06 Nov 1994 08:49:37 GMT")


class Heads(Generic[T]):
    """What a parser made of heads, for those that come again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[bytes, T] = {}

    def find(self, data: bytes) -> tuple[T, bytes] | None:
        """What is known of this message's head, and its body, which is as long as the head says."""
        end = data.find(b"\r\n\r\n")
        at = data.find(_LENGTH, 0, end) + len(_LENGTH)
        stop = data.find(b"\r", at, end + 1)
        known = self._known.get(_without_date(data[:at] + data[stop:end]))
        if known is None or end < 0:
            return None
        length, body = data[at:stop], data[end + 4 :]
        if not length.isdigit() or len(length) > 15 or int(length) != len(body) or not body:
            return None
        return known, body

    def learn(self, data: bytes, known: T) -> None:
        """Remember what a parser made of the head of this message, if it is one that `find` can recognise."""
        end = data.find(b"\r\n\r\n")
        at = data.find(_LENGTH, 0, end) + len(_LENGTH)
        stop = data.find(b"\r", at, end + 1)
        if data[at - 18 : at] in _LENGTHS and 0 < end <= LONGEST and data[at:stop].isdigit():
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[_without_date(data[:at] + data[stop:end])] = known


def _without_date(head: bytes) -> bytes:
    at = head.find(_DATE) + len(_DATE)
    stop = at + _DATE_SIZE
    # A parser refuses a line feed or another control character within a value: such a head it has to see.
    if head[at - 8 : at] in _DATES and head.find(b"\r", at) == stop and head[at:stop].decode("latin-1").isprintable():
        return head[:at] + head[stop:]
    return head
