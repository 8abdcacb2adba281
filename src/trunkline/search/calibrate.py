"""Scores that mean the same in any catalogue: what a tool matched, measured by what the query asked for."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib.resources import files

from trunkline.config.options import SearchSection
from trunkline.search.lexicon import is_light
from trunkline.search.tokens import is_filler, is_stop

DEFAULT_MIN_SCORE = SearchSection.min_score
"""Of real queries that a tool answers, fewer than 3 in 100 find nothing above it."""
NAMED = 1e6
"""The evidence for a tool whose name is the query: its score is 1."""

_BACKGROUND = 200
"""So many tools at large are counted with every catalogue: a word's weight in a small one is no accident."""
_POWER = 1.25
_DILUTION = 0.55
_UNKNOWN = 1.0
_STEEPNESS = 1.6
_STOP = 0.15
_FILLER = 0.3
_WHOLE_NAME = 0.12
"""What a tool gains whose name, or whose server's name, the query has whole."""
_PHRASE = 0.15
"""What a tool gains that has two words side by side as the query has them."""
_BRIEF = 0.3
"""What a tool gains at most that says little beside what was asked for."""
_SUITS = 0.13
"""What a tool gains that does what the query asks to be done."""
_DIFFERS = 0.17
"""What a tool loses that does something else."""
_LIGHT = 0.6


def rarity(term: str, tools_with_it: int, tools: int) -> float:
    """How much a term tells tools apart, 0 to 1: in this catalogue, and among tools at large."""
    total = tools + _BACKGROUND
    having = tools_with_it + _BACKGROUND * at_large().get(term, 0.0)
    return (math.log1p((total - having + 0.5) / (having + 0.5)) / math.log1p((total + 0.5) / 0.5)) ** _POWER


def emphasis(term: str) -> float:
    """How much a term counts in a query, 0 to 1."""
    return _STOP if is_stop(term) else _FILLER if is_filler(term) else _LIGHT if is_light(term) else 1.0


def gained(evidence: float, *, names: float, phrase: bool, terms: int) -> float:
    """The evidence for a tool after a closer look: at its names, at words side by side, at how many words it has."""
    return evidence * (1.0 + _WHOLE_NAME * names + _PHRASE * phrase + min(_BRIEF, evidence / terms))


def suited(evidence: float, agreement: float) -> float:
    """The evidence for a tool once it is known whether it does what was asked: 1 it does, -1 it does another thing."""
    return evidence * (1.0 + (_SUITS if agreement > 0.0 else _DIFFERS) * agreement)


def calibrated(evidence: float, known: float, unknown: float) -> float:
    """A score, 0 to 1, of the evidence for a tool and the weights of the query's words that any and that no tool has.

    A query's ideal grows slower than its length: a long prompt names what no tool knows, and words beside the point
    must not lower every score. Words of no tool count little: they are often values, such as a city's name.
    """
    ideal = known + _UNKNOWN * unknown
    return 1.0 - math.exp(-_STEEPNESS * evidence / ideal**_DILUTION) if ideal > 0.0 else 0.0


@lru_cache(maxsize=1)
def at_large() -> dict[str, float]:
    """In what share of tools at large a term stands; those of hardly any tool are not there."""
    text = (files("trunkline.search") / "at-large.txt").read_text(encoding="utf-8")
    lines = (line.partition(": ") for line in text.splitlines() if not line.startswith("#"))
    return {term: float(share) for share, _, terms in lines for term in terms.split()}
