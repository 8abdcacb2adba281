"""Finds what a path means in a document that stays text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import msgspec

from trunkline.call.results.json_path import Condition, Segment, Selector
from trunkline.call.results.json_text import Text, columns_of, elements_of, kind_of, members_of, named, named_in
from trunkline.errors import InvalidArgumentsError

MOST_NODES = 1_000_000
"""Values that a path may lead to, at each of its steps."""


@dataclass(frozen=True, slots=True)
class _Spread:
    """All elements of an array, which is not taken apart before somebody wants that."""

    array: Text


_Nodes = Sequence[Text | _Spread]


def find(segments: Sequence[Segment], document: bytes) -> list[Text]:
    """The values that a path leads to, in the order of the document."""
    nodes: _Nodes = [document]
    for segment in segments:
        if segment.below:
            nodes = list(_below(_each(nodes)))
            _bounded(nodes)
        nodes = [found for selector in segment.selectors for found in _step(nodes, selector)]
        _bounded(nodes)
    return list(_each(nodes))


def _step(nodes: _Nodes, selector: Selector) -> Iterator[Text | _Spread]:
    if isinstance(selector, str):
        for spread, some in groupby(nodes, lambda node: isinstance(node, _Spread)):
            if spread:
                yield from (found for node in some for found in named_in(cast("_Spread", node).array, selector))
            else:
                yield from named(cast("list[Text]", list(some)), selector)
        return
    for node in _each(nodes):
        kind = kind_of(node)
        if selector is None and kind == "array":
            yield _Spread(node)
        elif selector is None and kind == "object":
            yield from members_of(node).values()
        elif isinstance(selector, Condition):
            yield from _fulfilling(node, selector)
        elif kind == "array" and isinstance(selector, int):
            elements = elements_of(node)
            if -len(elements) <= selector < len(elements):
                yield elements[selector]
        elif kind == "array" and isinstance(selector, slice):
            yield from elements_of(node)[selector]


def _fulfilling(node: Text, condition: Condition) -> Iterator[Text]:
    kind = kind_of(node)
    if kind == "object":
        values = list(members_of(node).values())
        columns = columns_of(b"[" + b",".join(map(bytes, values)) + b"]", condition.paths)
    elif kind == "array":
        values, columns = elements_of(node), columns_of(node, condition.paths)
    else:
        return
    holds = condition.holds
    yield from (value for value, row in zip(values, zip(*columns, strict=True), strict=True) if holds(row))


def _below(nodes: Iterator[Text]) -> Iterator[Text]:
    """Every value that has others in it, from the outside in."""
    waiting = list(nodes)
    waiting.reverse()
    while waiting:
        node = waiting.pop()
        kind = kind_of(node)
        if kind == "array":
            inner = elements_of(node)
        elif kind == "object":
            inner = list(members_of(node).values())
        else:
            continue
        yield node
        waiting += [value for value in reversed(inner) if memoryview(value)[0] in b"{["]
        _bounded(waiting)


def _each(nodes: _Nodes) -> Iterator[Text]:
    for node in nodes:
        if isinstance(node, _Spread):
            yield from elements_of(node.array)
        else:
            yield node


def _bounded(nodes: Sequence[object]) -> None:
    if len(nodes) > MOST_NODES:
        raise InvalidArgumentsError(f"The path leads to more than {MOST_NODES:,} values.", hint="Narrow it down.")


def projected(value: Text, fields: Sequence[str]) -> bytes:
    """Of an object only some members; anything else as it is."""
    if kind_of(value) != "object":
        return bytes(value)
    members = members_of(value)
    kept = (msgspec.json.encode(name) + b":" + bytes(members[name]) for name in fields if name in members)
    return b"{" + b",".join(kept) + b"}"
