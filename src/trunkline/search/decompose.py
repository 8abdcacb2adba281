"""A long prompt taken apart: every step is searched for itself, and none is forgotten in the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trunkline.search.index import Hit, Index, Only
from trunkline.search.tokens import is_telling, terms

_MOST_PARTS = 8
_LONGEST_PROMPT = 10_000
_SHORT = 6
"""A prompt of so few telling words is one thing."""
_FEWEST = 2
"""Fewer telling words make no step of their own; they stay with the step before."""


def parts(prompt: str) -> list[str]:
    """The steps of a prompt: its sentences, clauses and list items; a short prompt is one."""
    prompt = prompt[:_LONGEST_PROMPT]
    if _telling(prompt) <= _SHORT:
        return [prompt]
    found: list[str] = []
    for piece in _BREAK.split(prompt):
        step = piece.strip(" \t\r\n-*•,;:")
        if not step:
            continue
        if found and _telling(step) < _FEWEST:
            found[-1] = f"{found[-1]}, {step}"
        else:
            found.append(step)
    return found[:_MOST_PARTS]


def search_each(index: Index, queries: Sequence[str], *, limit: int, min_score: float, only: Only = None) -> list[Hit]:
    """Several queries at once: the best of each in turn, then the second of each, and so on."""
    lists = [index.search(query, limit=limit, min_score=min_score, only=only) for query in queries]
    best: dict[str, Hit] = {}
    for hits in lists:
        for hit in hits:
            if hit.key not in best or hit.score > best[hit.key].score:
                best[hit.key] = hit
    turns = (hits[turn].key for turn in range(limit) for hits in lists if turn < len(hits))
    return [best[key] for key in dict.fromkeys(turns)][:limit]


def search_steps(index: Index, prompt: str, *, limit: int, min_score: float, only: Only = None) -> list[Hit]:
    """One prompt, whole and step by step: the whole decides the order, and the best tool of each step is among them."""
    whole = index.search(prompt, limit=limit, min_score=min_score, only=only)
    steps = parts(prompt)
    if len(steps) < 2:
        return whole
    firsts = [hit for step in steps for hit in index.search(step, limit=1, min_score=min_score, only=only)]
    return _with_firsts(whole, firsts, limit)


def _with_firsts(whole: list[Hit], firsts: list[Hit], limit: int) -> list[Hit]:
    """The whole's hits; from the end, up to half of them give way to the steps' best that are missing."""
    have = {hit.key for hit in whole}
    promised = {hit.key for hit in firsts}
    missing = list({hit.key: hit for hit in firsts if hit.key not in have}.values())
    missing.sort(key=lambda hit: (-hit.score, hit.key))
    kept = list(whole)
    free = limit - len(kept)
    leaving = min(max(len(missing) - free, 0), limit // 2)
    for hit in reversed(whole):
        if leaving and hit.key not in promised:
            kept.remove(hit)
            leaving -= 1
    return kept + missing[: limit - len(kept)]


def _telling(text: str) -> int:
    return len({term for term in terms(text) if is_telling(term)})


_BREAK = re.compile(
    r"""
      (?:^|\s)\d{1,2}[.)]\s | [.!?;]\s | [。！？；，、\n;] | \s[-–—*•+]\s
    | ,\s(?:and\s|then\s|or\s)? | \s(?:and|then|also|after\sthat|afterwards|finally|plus)\s
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""No sign of it repeats: a prompt is taken apart in one pass, whatever it is."""
