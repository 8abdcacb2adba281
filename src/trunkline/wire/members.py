"""The members of a JSON object, each kept as the bytes that were sent."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from trunkline.errors import RefusedError
from trunkline.untrusted import as_object

Members = dict[str, bytes]
"""Name to value, in the order of the text; values are JSON as it was written."""

MOST_MEMBERS = 10_000
"""Names that one object of a caller may have, where we read it; what is inside arguments is not counted."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_scanner = json.JSONDecoder(parse_constant=lambda name: _refuse(f"{name} is not JSON"))


def read_members(text: bytes) -> Members:
    """Split one JSON object; ValueError when it is not one. A repeated name keeps its last value."""
    try:
        found = _decode(text)
    except msgspec.DecodeError:
        # msgspec refuses lone surrogates ("\\ud83d"), which truncating servers do send; the slow scanner takes them.
        return dict(scan_members(text))
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    return {name: bytes(value) for name, value in found.items()}


def read_unambiguous(text: bytes) -> Members:
    """Split an object that must not name anything twice, lest two readers of it disagree."""
    if len(text) > _LARGE and _crowded(text):
        raise RefusedError(f"More than {MOST_MEMBERS} names in one JSON object.", code=-32600)
    try:
        found = _decode(text)
    except msgspec.DecodeError:
        pairs = scan_members(text)
        members, once = dict(pairs), len(pairs)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    else:
        if len(found) > MOST_MEMBERS:
            raise RefusedError(f"More than {MOST_MEMBERS} names in one JSON object.", code=-32600)
        members = dict(zip(found, map(bytes, found.values()), strict=True))
        once = len(members) if _plainly_unique(members, text) or _named_once(members, text) else -1
    if once != len(members):
        raise RefusedError("A name occurs twice in one JSON object.", code=-32600)
    return members


def write_members(members: Members) -> bytes:
    """Join members into an object, each value as it was."""
    return b"{" + b",".join([_quoted(name) + b":" + value for name, value in members.items()]) + b"}"


def scan_members(text: bytes) -> list[tuple[str, bytes]]:
    """Every name and value of an object, repeated names included; lenient about surrogates alone."""
    try:
        if not text.isascii():
            text.decode()
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    found = _between_halves(text)
    if found is not None:
        return found
    if len(text) > _LARGEST_SCAN:
        raise ValueError("it is too large to be read letter by letter")
    try:
        return _scan(text.decode())
    except (IndexError, RecursionError, StopIteration) as error:
        raise ValueError("not a JSON object") from error


def is_object(value: bytes) -> bool:
    """Whether a JSON value is an object, judged by its first byte."""
    return value[:1] == b"{"


def decode(value: bytes) -> Any:
    """Read a JSON value wholly; ValueError when it is not JSON."""
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    try:
        return _scanner.decode(value.decode())
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def decode_bounded(value: bytes, largest: int = 2**18) -> dict[str, Any]:
    """Read an object wholly if it is not too large, else without those of its members that are."""
    if len(value) <= largest:
        return decode_object(value)
    read: dict[str, Any] = {}
    for name, part in read_members(value).items():
        if len(part) <= largest:
            try:
                read[name] = decode(part)
            except ValueError:
                continue  # nested too deeply
    return read


def decode_object(value: bytes) -> dict[str, Any]:
    """Read a JSON object wholly; empty when the value is absent, broken or something else."""
    try:
        found: Any = decode(value) if value else {}
    except ValueError:
        return {}
    return as_object(found)


def encode(value: Any) -> bytes:
    """Write a JSON value."""
    return msgspec.json.encode(value)


def encode_sorted(value: Any) -> bytes:
    """JSON in one spelling, whatever the order of names was."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _plainly_unique(members: Members, text: bytes) -> bool:
    # What is left of the text beside its distinct members is too short for a second copy of any, an empty one even.
    least = 1 + 4 * len(members) + len("".join(members).encode()) + sum(map(len, members.values()))
    if members and len(text) - least < min(map(len, members)) + 5:
        return True
    # Python's own style, compared letter by letter.
    pairs = [b'"' + name.encode() + b'": ' + value for name, value in members.items()]
    return b"{" + b", ".join(pairs) + b"}" == text


class _Roomy(msgspec.Struct):
    """The members in which callers send much; whatever else a large object has is small."""

    params: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    arguments: msgspec.Raw = msgspec.Raw(b"")
    inputResponses: msgspec.Raw = msgspec.Raw(b"")
    ref: msgspec.Raw = msgspec.Raw(b"")
    context: msgspec.Raw = msgspec.Raw(b"")
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="_meta")


_LARGE = 2**16
_roomy = msgspec.json.Decoder(_Roomy).decode


def _crowded(text: bytes) -> bool:
    """Whether a large object has more names than any message: seen without making an object of each."""
    colons = text.count(b":")
    if colons <= MOST_MEMBERS:
        return False
    try:
        found = _roomy(text.translate(_WITHOUT_HALVES[0]) if b"\\" in text else text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return colons - sum(bytes(value).count(b":") for value in msgspec.structs.astuple(found)) > MOST_MEMBERS


def _named_once(members: Members, text: bytes) -> bool:
    """Whether an object that was read has each name once, however it is spaced; no value is read again."""
    return _places(members, text) is not None


def _places(members: Members, text: bytes) -> list[tuple[slice, slice]] | None:
    """Where the names and values of an object stand that was read; `None` if some name stands there twice."""
    at, seen, places = _skip_bytes(text, 0), set[str](), list[tuple[slice, slice]]()
    while text[(at := _skip_bytes(text, at + 1))] != _CLOSE:
        start, end = at, _name_end(text, at)
        try:
            name = str(msgspec.json.decode(text[at:end], type=str))
        except msgspec.DecodeError:
            return None
        at = _skip_bytes(text, _skip_bytes(text, end) + 1)
        value = members.get(name, b"")
        if name in seen or not text.startswith(value, at):
            return None
        seen.add(name)
        places.append((slice(start, end), slice(at, at + len(value))))
        at = _skip_bytes(text, at + len(value))
        if text[at] == _CLOSE:
            break
        if text[at] != _COMMA:
            return None
    return places if len(seen) == len(members) else None


def _skip_bytes(text: bytes, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found is not None else at


def _name_end(text: bytes, at: int) -> int:
    found = _NAME.match(text, at)
    return found.end() if found is not None else at


_CLOSE, _COMMA = b"},"
_BLANK, _NAME = re.compile(rb"[ \t\n\r]*"), re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def _quoted(name: str) -> bytes:
    try:
        return msgspec.json.encode(name)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can write and UTF-8 cannot
        return json.dumps(name).encode()


_LARGEST_SCAN = 2**18
"""Bytes that are read letter by letter, where an object has half surrogate pairs and a name twice or is broken."""


_WITHOUT_HALVES = bytes.maketrans(b"dD", b"cC"), bytes.maketrans(b"dD", b"aA")
"""Make another letter of every `\\udXXX`. Escapes and literals have no `c`: the first copy is JSON if the text is.

In each copy some names may become one; in both only those that are, or an odd few.
"""


def _between_halves(text: bytes) -> list[tuple[str, bytes]] | None:
    """The members of an object with half surrogate pairs; `None` if a name occurs twice, or it is no object.

    It is taken apart where a copy without them has its parts, and no part is read.
    """
    for table in _WITHOUT_HALVES:
        smooth = text.translate(table)
        try:
            found = _decode(smooth)
        except (msgspec.DecodeError, RecursionError):
            return None
        if len(found) > MOST_MEMBERS:
            raise ValueError(f"more than {MOST_MEMBERS} names in one object")
        places = _places({name: bytes(value) for name, value in found.items()}, smooth)
        if places is not None:
            return [(str(_scanner.decode(text[name].decode())), text[value]) for name, value in places]
    return None


def _refuse(reason: str) -> Any:
    raise ValueError(reason)


_SPACE = re.compile(r"[ \t\n\r]*")


def _scan(source: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    at = _skip(source, 0)
    if source[at] != "{":
        raise ValueError("not a JSON object")
    at = _skip(source, at + 1)
    while source[at] != "}":
        if found:
            if source[at] != ",":
                raise ValueError("a comma is missing")
            at = _skip(source, at + 1)
        if source[at] != '"':
            raise ValueError("a name is missing")
        name, at = _scanner.raw_decode(source, at)
        at = _skip(source, at)
        if source[at] != ":":
            raise ValueError("a colon is missing")
        start = _skip(source, at + 1)
        _, at = _scanner.raw_decode(source, start)
        found.append((name, source[start:at].encode()))
        if len(found) > MOST_MEMBERS:
            raise ValueError(f"more than {MOST_MEMBERS} names in one object")
        at = _skip(source, at)
    if _skip(source, at + 1) != len(source):
        raise ValueError("text after the object")
    return found


def _skip(source: str, at: int) -> int:
    found = _SPACE.match(source, at)
    return found.end() if found is not None else at
