"""Patterns for names with parts, such as `user:*`, matched in linear time."""

from __future__ import annotations

import re
from collections.abc import Sequence


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
