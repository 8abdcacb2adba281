"""HTTP/1.1 read as strictly as RFC 9112 allows: what two readers could understand differently is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") +([\x21-\x7e\x80-\xff]+) +HTTP/1\.([01])")
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([^\r\n]*))?")  # nobody reads the words
FIELD = re.compile(
    rb"(" + TOKEN + rb"):[ \t]*([\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?[ \t]*"
)
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t \x21-\x7e\x80-\xff]*)?")


class BadError(Exception):
    """It is not HTTP/1.1, or not so that everybody reads it alike."""


class ShortError(Exception):
    """More is to come."""


@dataclass
class Message:
    """One request, or one response that is not an interim one."""

    first: tuple[bytes, ...]
    """Method and target, or the status."""
    fields: dict[bytes, bytes]
    body: bytes
    end: int
    """Where the next one begins."""
    until_close: bool = False
    """Whether it must be the last on its connection."""


@dataclass
class Reading:
    """What a strict reader makes of some bytes."""

    messages: list[Message] = field(default_factory=list[Message])
    bad: bool = False
    """Whether what follows them cannot be read."""


def read_requests(data: bytes) -> Reading:
    """All whole requests, one behind the other."""
    reading, at = Reading(), 0
    try:
        while True:
            at = len(data) - len(data[at:].lstrip(b"\r\n"))  # lines before a request change nothing about it
            if at >= len(data):
                return reading
            line, behind = _line(data, at)
            found = REQUEST_LINE.fullmatch(line)
            if found is None:
                raise BadError(line)
            fields, behind = _fields(data, behind)
            body, behind = _body(data, behind, fields, old=found[3] == b"0")
            reading.messages.append(Message((found[1], found[2]), fields, body, behind))
            at = behind
    except ShortError:
        return reading
    except BadError:
        reading.bad = True
        return reading


def read_response(data: bytes, *, ended: bool) -> Reading:
    """The answer to one request, behind however many interim ones; `ended` when no more will come."""
    reading, at = Reading(), 0
    try:
        while True:
            at = len(data) - len(data[at:].lstrip(b"\r\n"))
            line, behind = _line(data, at)
            found = STATUS_LINE.fullmatch(line)
            if found is None or found[2] == b"101":
                raise BadError(line)
            fields, behind = _fields(data, behind)
            status = int(found[2])
            if status < 200:
                at = behind
                continue
            empty = status in (204, 304)
            framed = b"content-length" in fields or b"transfer-encoding" in fields
            if empty or framed:
                # From an old server chunks are read, too, and the connection is not used again.
                old = found[1] == b"0" and b"transfer-encoding" in fields
                body, behind = (b"", behind) if empty else _body(data, behind, fields, old=False)
                reading.messages.append(Message((found[2],), fields, body, behind, until_close=old))
            elif ended:
                reading.messages.append(Message((found[2],), fields, data[behind:], len(data), until_close=True))
            return reading
    except ShortError:
        return reading
    except BadError:
        reading.bad = True
        return reading


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    """A line without its end, and where the next begins; a CR or LF by itself is an error."""
    end = re.compile(rb"[\r\n]").search(data, at)
    if end is None or data[end.start() :] == b"\r":
        raise ShortError
    if data[end.start() : end.start() + 2] != b"\r\n":
        raise BadError(data[at : end.start() + 2])
    return data[at : end.start()], end.start() + 2


def _fields(data: bytes, at: int, *, trailers: bool = False) -> tuple[dict[bytes, bytes], int]:
    fields: dict[bytes, bytes] = {}
    while True:
        line, at = _line(data, at)
        if not line:
            return fields, at
        found = FIELD.fullmatch(line)
        if found is None:
            raise BadError(line)
        name, value = found[1].lower(), found[2] or b""
        if not trailers and name in fields and name in (b"content-length", b"transfer-encoding"):
            raise BadError(line)
        fields[name] = value


def _body(data: bytes, at: int, fields: dict[bytes, bytes], *, old: bool) -> tuple[bytes, int]:
    coding, length = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    if coding is not None:
        if old or length is not None or coding.lower() != b"chunked":
            raise BadError(coding)
        return _chunks(data, at)
    if length is not None and not re.fullmatch(rb"[0-9]{1,18}", length):
        raise BadError(length)
    end = at + int(length or b"0")
    if len(data) < end:
        raise ShortError
    return data[at:end], end


def _chunks(data: bytes, at: int) -> tuple[bytes, int]:
    parts: list[bytes] = []
    while True:
        line, at = _line(data, at)
        found = CHUNK.fullmatch(line)
        if found is None:
            raise BadError(line)
        size = int(found[1], 16)
        if not size:
            return b"".join(parts), _fields(data, at, trailers=True)[1]
        if len(data) >= at + size + 2 and data[at + size : at + size + 2] != b"\r\n":
            raise BadError(data[at : at + size + 2])
        if len(data) < at + size + 2:
            raise ShortError
        parts.append(data[at : at + size])
        at += size + 2
