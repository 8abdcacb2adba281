"""Server-sent events, written and read piece by piece."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Event:
    """One event; `data` is empty for one that only carries an id or a delay."""

    data: bytes = b""
    id: str = ""
    event: str = ""
    retry: int = -1


def write_event(data: bytes, *, id: str = "", event: str = "", retry: int = -1) -> bytes:
    """One event; a payload of several lines becomes several data lines."""
    parts: list[bytes] = []
    if event:
        parts.append(b"event: " + event.encode() + b"\n")
    if id:
        parts.append(b"id: " + id.encode() + b"\n")
    if retry >= 0:
        parts.append(b"retry: %d\n" % retry)
    if b"\n" in data or b"\r" in data:
        # Line ends in JSON stand between tokens only, so that where they were does not matter.
        parts.extend(b"data: " + line + b"\n" for line in data.replace(b"\r", b"\n").split(b"\n"))
    else:
        parts.append(b"data: " + data + b"\n")
    parts.append(b"\n")
    return b"".join(parts)


COMMENT = b": keep-alive\n\n"


class TooLongError(ValueError):
    """An event grew past the limit."""


class Decoder:
    """Reads a stream as its pieces arrive; its cost is linear, its memory bounded by `limit` bytes an event."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._after_cr = False
        self._first = True
        self._data: list[bytes] = []
        self._size = 0
        self._event = Event()
        self.last_id = ""

    def feed(self, piece: bytes) -> list[Event]:
        """The events that this piece completes."""
        if not piece:
            return []
        after_cr, self._after_cr = self._after_cr, piece.endswith(b"\r")
        if after_cr and piece[:1] == b"\n":
            piece = piece[1:]
        events: list[Event] = []
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._line += piece[start:end]
            start = end + 1
            line = bytes(self._line)
            self._line.clear()
            self._take(line, events)
        self._line += piece[start:]
        if len(self._line) + self._size > self._limit:
            raise TooLongError(f"an event is longer than {self._limit} bytes")
        return events

    def _take(self, line: bytes, events: list[Event]) -> None:
        if self._first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._first = False
        if not line:
            self._finish(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._limit:
                raise TooLongError(f"an event is longer than {self._limit} bytes")
        elif field == b"id" and b"\0" not in value:
            self._event.id = value.decode(errors="replace")
            self.last_id = self._event.id
        elif field == b"event":
            self._event.event = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self._event.retry = int(value)

    def _finish(self, events: list[Event]) -> None:
        event, data = self._event, self._data
        if data or event.id or event.retry >= 0:
            event.data = data[0] if len(data) == 1 else b"\n".join(data)
            events.append(event)
        self._event, self._data, self._size = Event(), [], 0
