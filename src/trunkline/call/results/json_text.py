"""JSON that stays text: taken apart one level at a time, so that what nobody asks for is never made into objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, cast

import msgspec

from trunkline.wire.members import decode

Text = bytes | msgspec.Raw
"""One JSON value as it was written, without blanks around it."""
JsonKind = Literal["object", "array", "string", "number", "boolean", "null"]

MOST_VALUES = 1_000_000
"""Values that a document may have to be taken apart: each is an object while somebody looks at it."""
PIECE = 2**18
"""Bytes that are worked on at once: nobody else has a turn meanwhile."""

elements_of = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""The elements of an array."""
members_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""The members of an object."""

_KINDS: dict[int, JsonKind] = {
    **dict.fromkeys(b"-0123456789", "number"),
    **dict.fromkeys(b"tf", "boolean"),
    ord("{"): "object",
    ord("["): "array",
    ord('"'): "string",
    ord("n"): "null",
}


def kind_of(text: Text) -> JsonKind:
    """What a value is, judged by its first byte."""
    return _KINDS[memoryview(text)[0]]


def is_json(text: bytes) -> bool:
    """Whether a text is one object or array, from its first letter to its last, and not too deep to be read."""
    first = text[:100].lstrip()[:1]
    if first not in (b"{", b"[") or text.count(b",") > MOST_VALUES:
        return False
    try:
        (elements_of if first == b"[" else members_of)(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def value_of(text: Text) -> Any:
    """A small value, decoded."""
    return decode(bytes(text))


def string_of(text: Text) -> str:
    """What a JSON string says, decoded piece by piece."""
    return "".join(_pieces(bytes(text)))


def start_of(text: Text, characters: int) -> str:
    """How a JSON string begins; the rest of it is not read."""
    raw = bytes(memoryview(text)[: characters * 6 + 20])
    if len(raw) < len(text):
        cut = _BEFORE_ESCAPE.search(raw, len(raw) - 14)
        raw = raw[: cut.start() if cut is not None else _whole_characters(raw)] + b'"'
    return string_of(raw)[:characters]


def written(text: str) -> bytes:
    """A text as a JSON string, encoded piece by piece."""
    parts = (_encoded(text[at : at + PIECE])[1:-1] for at in range(0, len(text), PIECE))
    return b'"' + b"".join(parts) + b'"'


def named(texts: Sequence[Text], name: str) -> list[msgspec.Raw]:
    """The member of this name, of each of some objects that has it."""
    found: list[msgspec.Raw] = []
    batch: list[bytes] = []
    size = 0
    for text in texts:
        if kind_of(text) == "object":
            batch.append(bytes(text))
            size += len(text)
            if size >= PIECE:
                found += _picked(b"[" + b",".join(batch) + b"]", name)
                batch, size = [], 0
    return found + _picked(b"[" + b",".join(batch) + b"]", name)


def named_in(array: Text, name: str) -> list[msgspec.Raw]:
    """The same of the elements of an array, which is read once."""
    try:
        return _picked(array, name)
    except msgspec.ValidationError:  # not all of them are objects
        return named(elements_of(array), name)


NOTHING = object()
"""What stands where nothing does."""
Steps = tuple[str | int, ...]


def columns_of(array: Text, paths: Sequence[Steps]) -> list[Sequence[Any]]:
    """What stands at some paths in each element of an array, decoded: a column for each path."""
    if all(isinstance(step, str) for path in paths for step in path) and len({path[0] for path in paths}) == len(paths):
        decoder, getters = _reader(tuple(paths))
        try:
            rows = decoder(array)
        except msgspec.ValidationError:
            pass  # something on the way is no object everywhere
        else:
            return [list(map(getter, rows)) for getter in getters]
    values = [value_of(text) for text in elements_of(array)]
    return [[walked(value, path) for value in values] for path in paths]


def walked(value: Any, path: Steps) -> Any:
    """What stands at a path in a decoded value."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(step, NOTHING)
        elif isinstance(step, int) and isinstance(value, list):
            some = cast("list[Any]", value)
            value = some[step] if -len(some) <= step < len(some) else NOTHING
        else:
            return NOTHING
    return value


def _picked(array: Text, name: str) -> list[msgspec.Raw]:
    return [one for row in _picker(name)(array) if len(one := row.field)]


@lru_cache(maxsize=256)
def _picker(name: str) -> Any:
    field = ("field", msgspec.Raw, msgspec.field(name=name, default=msgspec.Raw(b"")))
    return msgspec.json.Decoder(list[msgspec.defstruct("Picked", [field], gc=False)]).decode  # type: ignore[valid-type]


@lru_cache(maxsize=256)
def _reader(paths: tuple[tuple[str, ...], ...]) -> tuple[Any, list[Callable[[Any], Any]]]:
    """Reads what stands at paths of names, and nothing beside it."""
    fields: list[tuple[str, Any, Any]] = []
    for number, path in enumerate(paths):
        kind, default = Any, NOTHING
        for step in reversed(path[1:]):
            kind = msgspec.defstruct(
                "Inner", [("inner", kind, msgspec.field(name=step, default=default))], gc=False, frozen=True
            )
            default = kind()
        fields.append((f"field{number}", kind, msgspec.field(name=path[0], default=default)))
    row = msgspec.defstruct("Row", fields, gc=False)
    getters = [attrgetter(f"field{at}" + ".inner" * (len(path) - 1)) for at, path in enumerate(paths)]
    return msgspec.json.Decoder(list[row]).decode, getters  # type: ignore[valid-type]


def _pieces(raw: bytes) -> Iterator[str]:
    """A JSON string in parts: cut before an escape, and never between the halves of a pair."""
    at, end = 1, len(raw) - 1
    while end - at > PIECE:
        cut = _BEFORE_ESCAPE.search(raw, at + PIECE, end)
        until = cut.start() if cut is not None else end
        yield _decoded(raw[at:until])
        at = until
    yield _decoded(raw[at:end])


def _decoded(inner: bytes) -> str:
    try:
        return msgspec.json.decode(b'"' + inner + b'"', type=str)
    except msgspec.DecodeError:  # half of a pair, which servers that cut texts do send
        return str(json.loads(b'"' + inner + b'"', strict=False)).encode("utf-8", "replace").decode()


def _encoded(text: str) -> bytes:
    return msgspec.json.encode(text)


def _whole_characters(raw: bytes) -> int:
    """Where a text that was cut anywhere, but not near an escape, may end: not inside a character."""
    at = len(raw)
    while at and raw[at - 1] & 0xC0 == 0x80:
        at -= 1
    return at - 1 if at and raw[at - 1] >= 0xC0 else at


_BEFORE_ESCAPE = re.compile(rb"(?<!\\)\\(?!u[dD][c-fC-F])")
"""The first backslash of several begins an escape, whatever came before it has ended."""
