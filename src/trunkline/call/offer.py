"""What a caller can be told of a tool: as much of its definition as can be read."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from trunkline.model import Entry
from trunkline.tools.brief import complete, one_line
from trunkline.tools.check.checker import MAX_DEPTH, measured
from trunkline.wire.envelope import read_string
from trunkline.wire.members import Members, decode_bounded, decode_object, read_members


def definition_of(entry: Entry) -> dict[str, Any]:
    """What a tool says of itself, but for what is too large or too deep to be read."""
    try:
        found = decode_bounded(entry.definition)
    except ValueError:
        found = {}
    if entry.definition.count(b"{") + entry.definition.count(b"[") > MAX_DEPTH:  # else it cannot be deep
        found = {name: value for name, value in found.items() if measured({name: value}).depth <= MAX_DEPTH}
    if _SURROGATE.search(entry.definition):  # half of a pair JSON can write, but UTF-8 cannot
        found = decode_object(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    if not {"description", "inputSchema"} <= found.keys():
        members = members_of(entry)
        found["shortened"] = not members or any(name not in found for name in _SAID if name in members)
    return {**found, "name": entry.shown}


def whole(entry: Entry) -> dict[str, Any]:
    """All that a tool says to a model; what cannot be read goes as it is."""
    definition, members = definition_of(entry), members_of(entry)
    unread = [name for name in _SAID if name in members and name not in definition]
    return complete(definition | {name: msgspec.Raw(members[name]) for name in unread})


def members_of(entry: Entry) -> Members:
    """Empty where they are nested deeper than can be read from here."""
    try:
        return read_members(entry.definition)
    except ValueError:
        return {}


def line_of(entry: Entry) -> dict[str, str]:
    """A tool in a line, as the catalogue lists it."""
    read = {name: read_string(text) for name, text in members_of(entry).items() if name in ("description", "title")}
    return {"name": entry.shown, "server": entry.server, "description": one_line(read)}


_SAID = ("description", "inputSchema", "outputSchema")
_SURROGATE = re.compile(rb"(?i)\\ud[89a-f]")
