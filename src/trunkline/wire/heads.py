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
        head, end, body = data.partition(b"\r\n\r\n")
        before, mark, after = head.partition(_LENGTH)
        length, stop, rest = after.partition(b"\r")
        if not length.isdigit() or len(length) > 15 or int(length) != len(body) or not body:
            return None
        known = self._known.get(_without_date(b"".join((before, mark, stop, rest))))
        return (known, body) if known is not None and end else None

    def learn(self, data: bytes, known: T) -> None:
        """Remember what a parser made of the head of this message, if it is one that `find` can recognise."""
        head, end, _ = data.partition(b"\r\n\r\n")
        before, mark, after = head.partition(_LENGTH)
        length, stop, rest = after.partition(b"\r")
        if (before[-11:] + mark) in _LENGTHS and end and len(head) <= LONGEST and length.isdigit():
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[_without_date(b"".join((before, mark, stop, rest)))] = known


def _without_date(head: bytes) -> bytes:
    before, mark, after = head.partition(_DATE)
    date, rest = after[:_DATE_SIZE], after[_DATE_SIZE:]
    # A parser refuses a line feed or another control character within a value: such a head it has to see.
    if (before[-3:] + mark) in _DATES and rest[:1] == b"\r" and date.decode("latin-1").isprintable():
        return before + mark + rest
    return head
