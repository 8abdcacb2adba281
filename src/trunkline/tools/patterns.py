"""Patterns that anybody may have written, matched in time that grows with the text and no faster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

# The engine is linear in the text, but its factor is the size of the pattern: both are bounded.
PATTERN_LENGTH = 1_000
PATTERN_BYTES = 2**20
TEXT_LENGTH = 100_000

_LONGEST = 200
_MOST_WAYS = 2_000
_FARTHEST = 40
_BACKTRACKS = re.compile(r"\(\?<?[=!]|\\[1-9k]")
_REPEAT = re.compile(r"\{(\d{0,6})(?:,(\d{0,6}))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]?")
_ESCAPE = re.compile(r"\\(?:[pPuxk](?:\{[^}]*\}|<[^>]*>)|.)?", re.DOTALL)


class Glob:
    """A compiled pattern: `*` stops at ':', `**` does not, `?` is one character but ':'; the rest is itself."""

    __slots__ = ("_matches", "literal", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.literal = not ("*" in pattern or "?" in pattern)
        """It has no wildcards: it matches itself and nothing else."""
        self._matches = re.compile(_regex(pattern), re.DOTALL).fullmatch

    def matches(self, text: str) -> bool:
        """Whether the pattern covers the whole text."""
        return self._matches(text) is not None

    def __repr__(self) -> str:
        return f"Glob({self.pattern!r})"


# A star's follower is taken where it first occurs and for good (an atomic group): a star cannot pass a ':', so from a
# later place nothing more could be reached. `**` is some whole parts and then a `*`, so each part is tried once. Hence
# no choice is ever taken back but the number of skipped parts, and the time is linear in the text.
_SKIP = "(?:[^:]*+:)*?"


def _regex(pattern: str) -> str:
    first, *rest = ([_piece(piece) for piece in block.split("*")] for block in re.split(r"\*\*+", pattern))
    if not rest:
        return first[0] + _ending(first[1:])
    *middle, last = rest
    found = "".join(f"(?>{_SKIP}{_earliest(block)})" for block in middle)
    return first[0] + _earliest(first[1:]) + found + (_SKIP + _ending(last) if last != [""] else ".*")


def _earliest(pieces: Sequence[str]) -> str:
    return "".join(f"(?>[^:]*?{piece})" for piece in pieces)


def _ending(pieces: Sequence[str]) -> str:
    return f"{_earliest(pieces[:-1])}[^:]*{pieces[-1]}" if pieces else ""


def _piece(text: str) -> str:
    return "".join("[^:]" if character == "?" else re.escape(character) for character in text)


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


def is_checkable(pattern: str) -> bool:
    """Whether we can match such a pattern: no lookaround, no back references, not too large."""
    return not pattern or _compiled(pattern) is not None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text, as ECMA-262 reads it; what cannot be checked does not."""
    compiled = _compiled(pattern)
    return compiled is not None and _fits(compiled, text)


def has_format(name: str, text: str) -> bool:
    """Whether the text is an email, uri, date or date-time."""
    return _fits(_formatted(name), text)


def _fits(validator: Draft202012Validator, text: str) -> bool:
    if len(text) > TEXT_LENGTH:
        return False
    try:
        return validator.is_valid(text)
    except UnicodeEncodeError:  # lone surrogates
        return False


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Draft202012Validator | None:
    if len(pattern) > PATTERN_LENGTH:
        return None
    from jsonschema_rs import Draft202012Validator, RegexOptions  # it takes a while to load

    try:
        return Draft202012Validator(
            {"type": "string", "pattern": pattern}, pattern_options=RegexOptions(size_limit=PATTERN_BYTES)
        )
    except ValueError:  # no regular expression of this engine, or no text of Unicode
        return None


@lru_cache(maxsize=16)
def _formatted(name: str) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator({"type": "string", "format": name}, validate_formats=True)


def backtracks(pattern: str) -> bool:
    """Whether a pattern looks around or back, which no engine does in linear time; or is of an absurd length."""
    return len(pattern) > PATTERN_LENGTH or _BACKTRACKS.search(pattern) is not None


def states(pattern: str) -> int:
    """About how many places of a pattern one character may have to be held against."""
    sizes = [0]
    last = at = 0
    while at < len(pattern):
        sign = pattern[at]
        end = at + 1
        if sign == "(":
            sizes.append(0)
        elif sign == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif sign == "{" and (repeat := _REPEAT.match(pattern, at)):
            end = repeat.end()
            times = max(int(repeat[2] or 0), int(repeat[1] or 0) + (repeat[2] == ""), 1)
            sizes[-1] += last * (times - 1)
            last *= times
        elif sign not in "*+?|^$":
            match = _ESCAPE.match(pattern, at) if sign == "\\" else _CLASS.match(pattern, at) if sign == "[" else None
            end = match.end() if match else end
            last = 1
            sizes[-1] += 1
        at = end
    return sum(sizes) + 1
