"""What every way of searching offers: tools go in and out one by one, a query gives hits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trunkline.search.text import ToolText

Only = Callable[[str], bool] | Collection[str] | None
"""Which keys may be found: those that a function says yes to, those of a collection, or all (`None`)."""


MEANING, LEARNT = "(meaning)", "(used lately)"
"""What stands in the place of a word where none speaks for a hit."""


class Reason(NamedTuple):
    """One thing that speaks for a hit."""

    word: str
    """The word of the query."""
    fields: tuple[str, ...]
    """Where the tool has it, as `FIELDS` names them."""
    share: float
    """Its part of the score, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found."""

    key: str
    score: float
    """How well it fits: 0 not at all, 1 as well as can be."""
    reasons: tuple[Reason, ...] = ()
    words_alone: bool = False
    """Meaning was to count, but what the query means was not known in time."""


class Index(Protocol):
    """One way of searching, over the tools that were added."""

    def add(self, tool: ToolText) -> None:
        """Take a tool in; one with the same key is replaced."""
        ...

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        ...

    def search(self, query: str, *, limit: int, min_score: float, only: Only = None) -> list[Hit]:
        """The best tools for one query, best first; equal ones by key."""
        ...

    def __len__(self) -> int: ...


def best(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The first `limit` hits by score, equal ones by key."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.key))[: max(limit, 0)]


def admits(only: Only) -> Callable[[str], bool]:
    """Whether a key may be found."""
    if only is None:
        return lambda key: True
    return only if callable(only) else frozenset(only).__contains__
