"""Scores that mean the same in any catalogue: what a tool matched, measured by what the query asked for."""

from __future__ import annotations

import math

from trunkline.catalog.search.stem import stem

DEFAULT_MIN_SCORE = 0.3
"""Of real queries that a tool answers, fewer than 3 in 100 find nothing above it."""

_BACKGROUND = 100
"""So many tools at large are counted with every catalogue: a word's weight in a small one is no accident."""
_POWER = 1.25
_DILUTION = 0.55
_UNKNOWN = 0.15
_STEEPNESS = 1.6


def rarity(term: str, tools_with_it: int, tools: int) -> float:
    """How much a term tells tools apart, 0 to 1: in this catalogue, and among tools at large."""
    total = tools + _BACKGROUND
    having = tools_with_it + _BACKGROUND * _AT_LARGE.get(term, 0.0)
    return (math.log1p((total - having + 0.5) / (having + 0.5)) / math.log1p((total + 0.5) / 0.5)) ** _POWER


def calibrated(evidence: float, known: float, unknown: float) -> float:
    """A score, 0 to 1, of the evidence for a tool and the weights of the query's words that any and that no tool has.

    A query's ideal grows slower than its length: a long prompt names what no tool knows, and words beside the point
    must not lower every score. Words of no tool count little: they are often values, such as a city's name.
    """
    ideal = known + _UNKNOWN * unknown
    return 1.0 - math.exp(-_STEEPNESS * evidence / ideal**_DILUTION) if ideal > 0.0 else 0.0


_AT_LARGE = {
    stem(word): rate
    for rate, words in (
        (0.15, "mcp get server id name return api list default number data function"),
        (
            0.08,
            "retrieve type option format information include provide base detail search user result value new path "
            "file current given endpoint time date request set code limit start",
        ),
        (
            0.04,
            "location query page identify model tool generate parameter text create url filter calculate available "
            "access content find project example key string unique end info response require title status fetch image "
            "contain address description update multiple language document category database allow property state "
            "check full valid size json add delete remove read write send",
        ),
    )
    for word in words.split()
}
