"""One short name for equal arguments, whatever the order of their names; different arguments never share it."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

import msgspec


def digest(arguments: object) -> str:
    """The SHA-256 of Python arguments, in hex; TypeError for what has no canonical form.

    Types count: `1`, `1.0`, `True` and `"1"` differ, as do a list and a tuple. Arguments that are plain JSON have the
    digest of that JSON.
    """
    return sha256(canonical(arguments)).hexdigest()


def digest_json(text: bytes) -> str:
    """The SHA-256 of arguments that are still JSON, in hex; every digit of a number counts."""
    try:
        found = _write(_read(text))
        # What is written is never longer than what was read. Of equal length, it can have lost nothing but order; if
        # shorter, there were blanks, escapes, or a name given twice, of which two readers may take different ones.
        if len(found) != len(text):
            found = _write(_read_slowly(text.decode()))
    except (ValueError, RecursionError):
        found = b"!" + text
    return sha256(found).hexdigest()


def canonical(arguments: object) -> bytes:
    """Arguments as JSON with sorted names, and with tagged values where Python has types that JSON has not."""
    try:
        return _write(_tagged(arguments))
    except RecursionError:
        raise TypeError("The arguments contain themselves, or are nested too deeply.") from None
    except ValueError as error:
        raise TypeError("The arguments hold a text that is not Unicode, or a number too long to write.") from error


_read = msgspec.json.Decoder(float_hook=msgspec.Raw).decode
_write = msgspec.json.Encoder(order="sorted").encode

_PLAIN: frozenset[Any] = frozenset({str, int, bool, type(None)})
_WORDS: tuple[type, ...] = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, Decimal, UUID)


def _tagged(value: Any) -> Any:
    """The value as something that can be written; no tag looks like JSON, so none can be mistaken for it."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return _members(cast("Mapping[Any, Any]", value))
    if isinstance(value, list):
        return [_tagged(item) for item in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return _listed(b"tuple", [_written(item) for item in cast("tuple[Any, ...]", value)])
    if isinstance(value, AbstractSet):
        return _listed(b"set", sorted(_written(item) for item in cast("AbstractSet[Any]", value)))
    return _atom(value)


def _atom(value: Any) -> Any:
    match value:
        case float():
            return float(value) if math.isfinite(value) else _word("float", str(float(value)))
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case bytes() | bytearray():
            return _word("bytes", bytes(value).hex())
        case _:
            for kind in _WORDS:
                if isinstance(value, kind):
                    return _word(kind.__name__, str(value))
    raise TypeError(f"A value of type {type(value).__name__!r} has no canonical form; give plain data instead.")


def _members(members: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in members.items():
        if not isinstance(name, str):
            raise TypeError(f"The names of arguments are texts, not {type(name).__name__!r}.")
        try:
            found[str.__str__(name)] = _tagged(value)
        except TypeError as error:
            error.add_note(f"It is in {name!r}.")
            raise
    return found


def _written(value: object) -> bytes:
    return _write(_tagged(value))


def _listed(tag: bytes, items: list[bytes]) -> msgspec.Raw:
    return msgspec.Raw(tag + b"[" + b",".join(items) + b"]")


def _word(tag: str, text: str) -> msgspec.Raw:
    return msgspec.Raw(tag.encode() + _write(text))


def _number(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


# Every number stays as it is written, and a name that is given twice is refused.
_read_slowly = json.JSONDecoder(
    parse_int=_number, parse_float=_number, parse_constant=_refuse, object_pairs_hook=_unique
).decode
