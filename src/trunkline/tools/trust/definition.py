"""One definition as its server wrote it: what is remembered of it once it is agreed to, and how another differs."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, cast

import msgspec

from trunkline.tools.annotations import from_mcp
from trunkline.tools.digest import digest_json
from trunkline.tools.infer import infer
from trunkline.untrusted import as_object, as_text

PARTS = {
    "title": "title",
    "description": "description",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "annotations": "annotations",
    "arguments": "arguments",
    "icons": "icons",
    "execution": "execution",
    "_meta": "meta",
}
"""The parts of a definition that are told of by name, as the history of tools calls them; the rest is `other`."""
_DIGEST, _PART = 16, 4
_NONE = bytes(_PART)

SignCode = Literal[
    "hidden-characters",
    "hidden-text",
    "instructions",
    "look-alike",
    "claims-tool",
    "risk",
    "identity",
    "unreadable",
    "too-many",
    "too-long",
]


@dataclass(frozen=True)
class Sign:
    """One reason not to trust a definition."""

    code: SignCode
    words: str
    """What it is, for everybody: never in the server's own words, which may be the very instructions."""
    evidence: str = ""
    """Where it was seen, for whoever reviews it; what cannot be seen is written out."""
    holds: bool = True
    """False for what is only marked."""


BIDI = "\u202a-\u202e\u2066-\u2069"
_ZERO_WIDTH = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
)
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = "\U000e0000-\U000e007f"
UNSEEN_LETTERS = f"{BIDI}{_ZERO_WIDTH}{_SELECTORS}{_TAGS}"
UNSEEN = re.compile(f"[{UNSEEN_LETTERS}]+")
"""What a person does not see and a model reads."""

# What a definition is.


class Definition:
    """A tool, prompt or template as its server wrote it, read once."""

    def __init__(self, item: bytes) -> None:
        self.item = item
        self.members = _read(item)

    @property
    def name(self) -> str:
        return as_text(self.members.get("name"))

    @property
    def hints(self) -> dict[str, Any]:
        return as_object(self.members.get("annotations"))

    @cached_property
    def texts(self) -> Sequence[tuple[str, str]]:
        """Every text in it that a model reads, with where it stands."""
        return tuple(_texts(self.members, ""))

    @cached_property
    def prose(self) -> Sequence[tuple[str, str]]:
        """Of these, what can be a sentence, as a model understands it: without what cannot be seen."""
        found = [(where, text) for where, text in self.texts if " " in text or "<" in text or not text.isascii()]
        return [
            (where, text if text.isascii() else UNSEEN.sub("", unicodedata.normalize("NFKC", text)))
            for where, text in found
        ]

    @cached_property
    def lowered(self) -> str:
        """Every sentence of it in one text, to see at once what need not be looked for."""
        return "\n".join(text for _, text in self.prose).lower()

    def arguments(self) -> Collection[str]:
        return as_object(as_object(self.members.get("inputSchema")).get("properties"))


def _read(item: bytes) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(item)
    except (msgspec.DecodeError, RecursionError):
        try:
            found = json.loads(item)  # lone surrogates are read the slow way
        except (ValueError, RecursionError):
            found = {}
    return as_object(found)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            where = f"{path}.{name}" if path else name
            if path:  # the names of arguments are read as well; those of the protocol are not the server's
                yield where, name
            yield from _texts(inner, where)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner, path)


# Pins: what was agreed to, in a few bytes.


PIN_SIZE = 2 * _DIGEST + 1 + _PART * (len(PARTS) + 1)


@dataclass(frozen=True, slots=True)
class Pin:
    """The digest of an agreed definition, and what must be known of it once it changes."""

    packed: bytes

    @classmethod
    def each(cls, packed: bytes) -> list[Pin]:
        """Those that stand one behind the other."""
        return [cls(packed[at : at + PIN_SIZE]) for at in range(0, len(packed), PIN_SIZE)]

    @property
    def raw(self) -> bytes:
        """Of the very bytes."""
        return self.packed[:_DIGEST]

    @property
    def canonical(self) -> bytes:
        """Of the definition, whatever the order of its members."""
        return self.packed[_DIGEST : 2 * _DIGEST]

    @property
    def risk(self) -> int:
        return self.packed[2 * _DIGEST]

    def changed(self, other: Pin) -> tuple[str, ...]:
        """The parts that differ."""
        if self.canonical == other.canonical:
            return ()
        start = 2 * _DIGEST + 1
        mine, theirs = self.packed[start:], other.packed[start:]
        found = [
            name
            for at, name in enumerate((*PARTS.values(), "other"))
            if mine[at * _PART : (at + 1) * _PART] != theirs[at * _PART : (at + 1) * _PART]
        ]
        return tuple(found) or ("other",)


def raw_digest(item: bytes) -> bytes:
    """The digest of a definition as it was sent; equal ones need not be looked at again."""
    return blake2b(item, digest_size=_DIGEST).digest()


def pin_of(definition: Definition) -> Pin:
    """What is remembered of a definition that is agreed to."""
    members = definition.members
    parts = [_short(members[member]) if member in members else _NONE for member in PARTS]
    rest = {name: value for name, value in members.items() if name not in PARTS}
    canonical = bytes.fromhex(digest_json(definition.item))[:_DIGEST]
    risk = bytes((risk_of(definition),))
    return Pin(b"".join((raw_digest(definition.item), canonical, risk, *parts, _short(rest))))


def unread_pin(item: bytes) -> Pin:
    """What is remembered of a definition that is too long to be read: its very bytes, and nothing of its parts."""
    return Pin(raw_digest(item) * 2 + bytes(PIN_SIZE - 2 * _DIGEST))


def _short(value: Any) -> bytes:
    return bytes.fromhex(digest_json(json.dumps(value, separators=(",", ":")).encode()))[:_PART]


_READS, _SPARES, _DESTROYS = 1, 2, 4


def risk_of(definition: Definition) -> int:
    """What a tool's server says of how it behaves, and whether its words call it destructive."""
    said = from_mcp(definition.hints)
    destroys = said.destructive_hint
    if destroys is None and said.read_only_hint is not True:
        text = definition.members.get("description")
        destroys = infer(definition.name, text if isinstance(text, str) else "", {}).annotations.destructive_hint
    return (
        (_READS if said.read_only_hint is True else 0)
        | (_SPARES if said.destructive_hint is False else 0)
        | (_DESTROYS if destroys else 0)
    )


def signs_of_risk(before: int, after: int) -> list[Sign]:
    """Why a changed tool can do more harm than the one that was agreed to."""
    found: list[Sign] = []
    if before & _READS and not after & _READS:
        found.append(Sign("risk", "it is no longer said to only read", "readOnlyHint"))
    if after & _DESTROYS and not before & _DESTROYS:
        found.append(Sign("risk", "it became destructive", "destructiveHint"))
    elif before & _SPARES and not after & _SPARES and not after & _READS:
        found.append(Sign("risk", "it is no longer said to destroy nothing", "destructiveHint"))
    return found


# What changed, for people.


def diff(before: bytes, after: bytes) -> list[str]:
    """How two definitions differ, line by line; what cannot be seen in them is written out."""
    return [
        line
        for line in difflib.unified_diff(_lines(before), _lines(after), "agreed", "now", lineterm="", n=1)
        if not line.startswith("@@")
    ]


def _lines(item: bytes) -> Sequence[str]:
    if not item:
        return []
    # Text that runs over lines is shown as such, and what is not ASCII and not printable as its code.
    lines: list[str] = []
    for line in json.dumps(_read(item), indent=2, ensure_ascii=False, sort_keys=True).splitlines():
        lines += line.replace("\\n", "\n      ").split("\n")
    return ["".join(one if one.isprintable() else f"\\u{{{ord(one):x}}}" for one in line) for line in lines]


def describe(signs: Iterable[Sign], changed: Sequence[str] = ()) -> str:
    """Why something is held, in one sentence without a full stop."""
    said = [sign.words for sign in signs if sign.holds]
    if not said and "added" in changed:
        said = ["it is new since its server was agreed to"]
    elif not said and changed:
        said = [f"its {', '.join(part.replace('_', ' ') for part in changed)} changed since it was agreed to"]
    return "; ".join(said)
