"""Tools found by a pattern, in bounded time whatever the pattern is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from trunkline.search.calibrate import DEFAULT_MIN_SCORE
from trunkline.search.index import Hit, Only, Reason, admits, best
from trunkline.search.text import FIELDS, ToolText
from trunkline.tools.patterns import translated

_WORTH: dict[str, float] = dict(zip(FIELDS, (0.85, 0.8, 0.6, 0.6, 0.5, 0.4, 0.6, 0.7, 0.4), strict=True))
_LONGEST_TEXT = 500
_PLAIN = re.compile(r"[\w\s\-/.:@#]*").fullmatch
_MOST_WORDS = 20


class RegexIndex:
    """Tools found by a pattern, or by words that stand in them as they are; upper and lower case are one.

    A pattern that could take long is looked for letter by letter instead. After `deadline` seconds the answer is
    what was found so far.
    """

    def __init__(self, *, deadline: float = 0.25, clock: Callable[[], float] = time.monotonic) -> None:
        self._tools: dict[str, str] = {}
        self._deadline = deadline
        self._clock = clock

    def __len__(self) -> int:
        return len(self._tools)

    def add(self, tool: ToolText) -> None:
        """Take a tool in; one with the same key is replaced."""
        lines = [""] * len(FIELDS)
        for position, text in tool.fields():
            lines[position] = " ".join(text[:_LONGEST_TEXT].splitlines())
        self._tools[tool.key] = "\n".join(lines)

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        self._tools.pop(key, None)

    def search(
        self, query: str, *, limit: int = 10, min_score: float = DEFAULT_MIN_SCORE, only: Only = None
    ) -> list[Hit]:
        """The best tools for one pattern, best first; equal ones by key."""
        patterns = _patterns(query)
        if not patterns:
            return []
        admitted = admits(only)
        end = self._clock() + self._deadline
        hits: list[Hit] = []
        for key, lines in self._tools.items():
            if not admitted(key):
                continue
            hit = _matched(key, lines, patterns)
            if hit is not None and hit.score >= min_score:
                hits.append(hit)
            if self._clock() > end:
                break
        return best(hits, limit)


def _patterns(query: str) -> list[tuple[str, re.Pattern[str]]]:
    """One pattern; or, if the query has none of a pattern's signs, each of its words at the start of a word."""
    query = query.strip()
    if _PLAIN(query):
        words = list(dict.fromkeys(re.findall(r"[^\W_]+", query.casefold())))[:_MOST_WORDS]
        return [(word, re.compile(rf"(?:\b|_|(?<=[a-z])(?=[A-Z]))(?i:{re.escape(word)})")) for word in words]
    return [(query, re.compile(translated(query), re.IGNORECASE | re.MULTILINE))]


def _matched(key: str, lines: str, patterns: list[tuple[str, re.Pattern[str]]]) -> Hit | None:
    total = 0.0
    found: list[tuple[str, tuple[str, ...], float]] = []
    for word, pattern in patterns:
        # One look at all fields first: most tools have nothing.
        if not pattern.search(lines):
            continue
        fields = lines.split("\n")
        where = tuple(field for field, text in zip(FIELDS, fields, strict=True) if text and pattern.search(text))
        if where:
            whole = where[0] == "name" and pattern.fullmatch(fields[0]) is not None
            worth = 1.0 if whole else max(_WORTH[field] for field in where)
            found.append((word, where, worth))
            total += worth
    if not found:
        return None
    return Hit(key, total / len(patterns), tuple(Reason(word, where, worth / total) for word, where, worth in found))
