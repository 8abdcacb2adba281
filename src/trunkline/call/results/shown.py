"""Takes a large result apart into what is kept and what is passed on, and writes what its caller is shown instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from trunkline.call.results import preview
from trunkline.call.results.json_text import Text, elements_of, is_json, kind_of, members_of, string_of
from trunkline.tools import builtin
from trunkline.tools.check.checker import checker_for
from trunkline.tools.tokens import estimated, estimated_roughly
from trunkline.wire.members import decode, encode, read_members, write_members

PREVIEW = "dev.trunkline/preview"
"""Where a result says in its `_meta` that it is a preview, and of what."""
LINKS_SINCE = "2025-06-18"
"""The first version with links to resources in results."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A result, taken apart."""

    members: dict[str, bytes]
    documents: dict[str, tuple[bytes, bool]]
    """What is kept: `structured`, `text` or both, and whether it is JSON."""
    tokens: int
    beside: tuple[bytes, ...] = ()
    """Blocks that are no text, such as images: they are passed on as they are."""
    before: tuple[bytes, ...] = ()
    """Blocks of text that are small enough to be passed on."""

    @property
    def size(self) -> int:
        """Bytes of what is kept."""
        return sum(len(data) for data, _ in self.documents.values())


@dataclass(frozen=True, slots=True)
class PreviewFacts:
    """What a preview says of the result beside its contents."""

    handle: str
    ttl: float
    budget: int
    version: str = ""


def take(result: bytes, limit: int) -> Taken | None:
    """Take a result apart; `None` for one that is small enough, a question, or nothing that we understand."""
    try:
        members = read_members(result)
        blocks = elements_of(members["content"]) if "content" in members else []
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    if members.get("resultType", b'"complete"') != b'"complete"':
        return None
    structured = members.get("structuredContent", b"")
    texts: list[Text] = []
    told: list[Text] = []
    beside: list[Text] = []
    for block in blocks:
        text = _text_of(block)
        if text is None:
            beside.append(block)
        else:
            told.append(block)
            texts.append(text)
    length = sum(map(len, texts))
    if max(len(structured), length) <= limit:  # it is mostly images, or the like
        return None
    same = structured and len(texts) == 1 and bytes(memoryview(texts[0])[1:2]) in (b"{", b"[")
    documents: dict[str, tuple[bytes, bool]] = {}
    if structured and kind_of(structured) in ("object", "array") and is_json(structured):
        documents["structured"] = structured, True
    before: list[bytes] = []
    if not (same and documents) and texts:
        if documents and length <= limit // _SHARE:
            before = [bytes(block) for block in told]
        else:
            text = "\n".join(string_of(text) for text in texts).encode("utf-8", "replace")
            documents["text"] = text, is_json(text)
    tokens = max((estimated_roughly(data) for data, _ in documents.values()), default=0)
    if tokens <= limit:
        return None
    return Taken(members, documents, tokens, tuple(map(bytes, beside)), tuple(before))


def show(taken: Taken, frame: PreviewFacts, schema: Mapping[str, Any]) -> bytes:
    """The result that a caller gets in its place: a preview in words, a link, and structured content cut alike."""
    size = sum(len(data) for data, _ in taken.documents.values())
    head = (
        f"This result is too large to be shown whole ({size:,} bytes, about {taken.tokens:,} tokens). It is kept for "
        f'{max(1, round(frame.ttl / 60))} minutes as "{frame.handle}": read parts of it with {builtin.READ}, find text '
        f'in it with {builtin.SEARCH_RESULT}, select from it with {builtin.QUERY} (result: "{frame.handle}").'
    )
    if len(taken.documents) > 1:
        head += f" It has two parts: {' and '.join(taken.documents)}."
    left = (max(frame.budget, LEAST) - estimated(head) - _LINK) // len(taken.documents)
    members, sections = dict(taken.members), [head]
    for name, (data, json) in taken.documents.items():
        if json:
            sample = preview.sampled(data.strip())
            told, level = preview.tell_json(sample, left)
        else:
            sample, level, told = None, preview.LEVELS[-1], preview.tell_text(data, left)
        sections.append(f"Part {name}. {told}" if len(taken.documents) > 1 else told)
        if name == "structured" and sample is not None:
            members["structuredContent"] = _fitting(sample, level, schema, members["structuredContent"])
    if "structuredContent" in members and "structured" not in taken.documents:
        del members["structuredContent"]
    blocks = [*taken.before, encode({"type": "text", "text": "\n\n".join(sections)})]
    if not frame.version or frame.version >= LINKS_SINCE:
        blocks.append(_link(taken, frame, size))
    members["content"] = b"[" + b",".join((*blocks, *taken.beside)) + b"]"
    meta = read_members(members["_meta"]) if members.get("_meta", b"")[:1] == b"{" else {}
    said = {"result": frame.handle, "uri": builtin.RESULTS + frame.handle, "bytes": size, "tokens": taken.tokens}
    members["_meta"] = write_members({**meta, PREVIEW: encode(said)})
    return write_members(_for_a_while(members, frame.ttl))


LEAST = 200
"""Tokens of the smallest preview that says something."""
_LINK = 80
_SHARE = 8
"""The part of what is shown whole that text beside structured content may take."""


def _text_of(block: Text) -> Text | None:
    """The text of a block, as a JSON string; `None` for an image, sound, a link, or a file that is no text."""
    if kind_of(block) != "object":
        return None
    members = members_of(block)
    kind = bytes(members.get("type", msgspec.Raw(b"")))
    if kind == b'"resource"' and "resource" in members and kind_of(members["resource"]) == "object":
        members = members_of(members["resource"])
    elif kind != b'"text"':
        return None
    text = members.get("text")
    return text if text is not None and kind_of(text) == "string" else None


def _fitting(sample: preview.Sample, level: preview.Level, schema: Mapping[str, Any], whole: bytes) -> bytes:
    """Structured content that is cut as the text is, or less if the tool's schema wants more of it.

    Callers check it against the schema, and take nothing that does not fit: then all of it is passed on.
    """
    everything = 2**31
    for way in (
        level,
        preview.Level(level.first, level.last, level.letters, everything, everything, 0),
        preview.Level(level.first, level.last, everything, everything, everything, 0),
        preview.Level(everything, everything, level.letters, everything, everything, 0),
    ):
        cut = encode(preview.shortened(sample, way))
        if not schema or _fits(schema, cut):
            return cut
    return whole


def _fits(schema: Mapping[str, Any], value: bytes) -> bool:
    checker, read = checker_for(schema), decode(value)
    if not isinstance(read, dict):
        return False
    found = cast("dict[str, Any]", read)
    return checker.checks(found) and not checker.problems(found)


def _link(taken: Taken, frame: PreviewFacts, size: int) -> bytes:
    json = all(json for _, json in taken.documents.values())
    return encode(
        {
            "type": "resource_link",
            "uri": builtin.RESULTS + frame.handle,
            "name": "result",
            "description": "The whole result.",
            "mimeType": "application/json" if json else "text/plain",
            "size": size,
        }
    )


def _for_a_while(members: dict[str, bytes], ttl: float) -> dict[str, bytes]:
    """A preview is its owner's alone, and of no use when what it is of is gone."""
    said = members.get("ttlMs", b"")
    if said.isdigit():
        members["ttlMs"] = b"%d" % min(int(said), round(ttl * 1000))
    if "cacheScope" in members:
        members["cacheScope"] = b'"private"'
    return members
