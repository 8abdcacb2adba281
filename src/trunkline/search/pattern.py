"""Patterns that cannot run away: a small language of regular expressions, with a bound on the ways to match."""

from __future__ import annotations

import re

_LONGEST = 200
_MOST_WAYS = 2_000
_FARTHEST = 40


def translated(pattern: str) -> str:
    """A pattern for `re` that is safe to run; one outside the language, or too costly, becomes its own letters.

    The language has letters, `.`, classes, `\\d \\w \\s \\b`, `^ $`, groups, `|`, and `* + ? {m,n}` after a character;
    `*` and `+` reach 40 characters far. The ways to match at one place are counted and bounded: more than these the
    engine cannot try.
    """
    if len(pattern) > _LONGEST:
        return re.escape(pattern[:_LONGEST])
    built = _build(pattern)
    return re.escape(pattern) if built is None else built


def _build(pattern: str) -> str | None:
    built: list[str] = []
    ways = _Ways()
    at = 0
    repeatable = False
    while at < len(pattern):
        match = _TOKEN(pattern, at)
        if match is None:
            return None
        text, kind = match.group(), match.lastgroup or ""
        at = match.end()
        if kind == "repeat":
            low, high = _range(text)
            if not repeatable or low > high or high > _FARTHEST:
                return None
            ways.times(high - low + 1)
            text = f"{{{low},{high}}}"
        elif not ways.read(kind):
            return None
        built.append("(?:" if kind == "open" else text)
        if ways.total() > _MOST_WAYS:
            return None
        repeatable = kind == "one"
    whole = "".join(built)
    return whole if ways.depth() == 0 and _compiles(whole) else None


class _Ways:
    """How many ways there are to match what was read: choices in a row multiply, alternatives add up."""

    def __init__(self) -> None:
        self._groups = [(0, 1)]

    def read(self, kind: str) -> bool:
        """Take a sign in; a group that was never opened cannot be closed."""
        if kind == "open":
            self._groups.append((0, 1))
        elif kind == "either":
            self._groups[-1] = (self.total(), 1)
        elif kind == "close":
            if self.depth() == 0:
                return False
            inner = self.total()
            self._groups.pop()
            self.times(inner)
        return True

    def times(self, choices: int) -> None:
        """One more choice in the row."""
        done, row = self._groups[-1]
        self._groups[-1] = (done, row * choices)

    def total(self) -> int:
        return sum(self._groups[-1])

    def depth(self) -> int:
        return len(self._groups) - 1


def _range(sign: str) -> tuple[int, int]:
    if sign in ("*", "+", "?"):
        return int(sign == "+"), 1 if sign == "?" else _FARTHEST
    low, _, high = sign[1:-1].partition(",")
    return int(low), int(high or _FARTHEST) if "," in sign else int(low)


def _compiles(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


_TOKEN = re.compile(
    r"""
      (?P<repeat> [*+?] | \{ \d{1,3} (?: , \d{0,3} )? \} )
    | (?P<open> \( (?: \?: )? ) (?! \? )
    | (?P<close> \) )
    | (?P<either> \| )
    | (?P<place> \^ | \$ | \\[bB] )
    | (?P<one> \[ \^? \]? (?: [^\]\\\[] | \\[dwsDWS\W] )+ \] | \\[dwsDWS] | \\[^\w\s] | \. | [^\\()\[\]{}|*+?^$.] )
    """,
    re.VERBOSE,
).match
