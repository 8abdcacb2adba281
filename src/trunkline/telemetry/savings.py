"""What models are spared: definitions that they search for instead, and results that others read, or they in part."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from zlib import crc32

from trunkline.model import Entry, Offer
from trunkline.tools.per_offer import PerOffer
from trunkline.tools.tokens import estimated
from trunkline.wire.members import read_members, write_members

SAMPLE = 32_768
"""Bytes of a list that are weighed. Of a longer one a sample stands for all, as the loop must not wait: of 300 real
tools it is within 5% for two samples in three."""


@dataclass(slots=True)
class Saved:
    """The lists and searches of one kind of caller."""

    lists: int = 0
    """Lists that showed a few tools in the place of all."""
    avoided: int = 0
    """Tokens of the tools that those lists did not show."""
    searches: int = 0
    spent: int = 0
    """Tokens of what `search_tools` answered."""
    programs: int = 0
    read: int = 0
    """Tokens of results that programs read, and no model had to."""
    answered: int = 0
    """Tokens of what the programs gave."""
    previews: int = 0
    """Results that were shown as a preview."""
    kept_aside: int = 0
    """Tokens of those results that the previews did not show."""
    reads: int = 0
    """Parts of such results that were read."""
    read_back: int = 0
    """Tokens of what reading, searching and querying them gave."""

    @property
    def tokens(self) -> int:
        """What is left when all of it is paid; less than nothing where it cost more than it saved."""
        gained = self.avoided + self.read + self.kept_aside
        return gained - self.spent - self.answered - self.read_back

    def add(self, other: Saved) -> None:
        """Count another's as well."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Savings:
    """What was saved, by profile and user."""

    MOST = 10_000

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Saved] = {}

    def listed(self, profile: str, user: str, avoided: int) -> None:
        """A list was shown that left so many tokens out."""
        saved = self._of(profile, user)
        saved.lists += 1
        saved.avoided += avoided

    def searched(self, profile: str, user: str, answer: bytes) -> None:
        """A search was answered."""
        saved = self._of(profile, user)
        saved.searches += 1
        saved.spent += tokens_of(answer)

    def ran(self, profile: str, user: str, read: int, answer: bytes) -> None:
        """A program ended that had read so many tokens."""
        saved = self._of(profile, user)
        saved.programs += 1
        saved.read += read
        saved.answered += tokens_of(answer)

    def previewed(self, profile: str, user: str, tokens: int, preview: bytes) -> None:
        """A result of so many tokens was shown as a preview."""
        saved = self._of(profile, user)
        saved.previews += 1
        saved.kept_aside += max(0, tokens - tokens_of(preview))

    def read_back_part(self, profile: str, user: str, answer: bytes) -> None:
        """A part of such a result was read."""
        saved = self._of(profile, user)
        saved.reads += 1
        saved.read_back += tokens_of(answer)

    def each(self, user: str = "") -> Iterator[tuple[str, str, Saved]]:
        """Profile, user and what they saved; with a user only theirs."""
        return ((profile, own, saved) for (profile, own), saved in self._found.items() if not user or own == user)

    def total(self, user: str = "") -> Saved:
        """All of it together; with a user only theirs."""
        found = Saved()
        for _, _, saved in self.each(user):
            found.add(saved)
        return found

    def forget_user(self, user: str) -> None:
        """Somebody is gone, and who comes under that name is somebody else."""
        for place in [place for place in self._found if place[1] == user]:
            del self._found[place]

    def _of(self, profile: str, user: str) -> Saved:
        saved = self._found.get((profile, user))
        if saved is None:
            if len(self._found) >= self.MOST:
                user = ""  # of so many only the sum is known
            saved = self._found.setdefault((profile, user), Saved())
        return saved


def weight(tools: Iterable[Entry]) -> int:
    """About how many tokens a list of these tools takes of a model's context."""
    return _estimate([_Measured(tools)])


class Weights:
    """What the tools of a catalogue weigh together; only offers that changed are looked at again."""

    def __init__(self) -> None:
        self._askable = PerOffer(lambda offer: _Measured(offer.tools.values()))
        self._other = PerOffer(lambda offer: _Measured(tool for tool in offer.tools.values() if not tool.for_askable))

    def of(self, offers: Iterable[Offer], *, askable: bool) -> int:
        """About how many tokens they take, as callers see them that can be asked something, or not."""
        return _estimate((self._askable if askable else self._other).over(offers))


class _Measured:
    """How long definitions are together, and each with a mark by which some of them are picked."""

    def __init__(self, tools: Iterable[Entry]) -> None:
        # Marked by what they are, not where they stand: a list that changes a little is mostly weighed already.
        shown = [tool for tool in tools if not tool.app_only]
        self.total = sum(len(tool.definition) for tool in shown)
        self.marked = sorted((crc32(tool.shown.encode()), tool.definition) for tool in shown)

    def sample(self, below: int) -> list[tuple[int, bytes]]:
        """The definitions whose mark is below."""
        return self.marked[: bisect_left(self.marked, (below, b""))]


def _estimate(parts: Collection[_Measured]) -> int:
    total = sum(part.total for part in parts)
    share = 1 << max(0, (total - 1) // SAMPLE).bit_length()
    sample = [marked for part in parts for marked in part.sample(2**32 // share)]
    if not sample:
        sample = [min(part.marked for part in parts if part.marked)[0]] if total else []
    weighed = sum(len(text) for _, text in sample)
    return round(sum(_tokens(text) for _, text in sample) * total / weighed) if weighed else 0


@lru_cache(maxsize=1024)
def _tokens(definition: bytes) -> int:
    """Of a tool models read the name, the description and the schema of its arguments."""
    try:
        members = read_members(definition)
    except ValueError:
        return tokens_of(definition)
    return tokens_of(write_members({key: members[key] for key in _TOLD if key in members}))


def tokens_of(text: bytes) -> int:
    """About how many tokens a text takes; of a long one, a sample stands for all."""
    part = text[:SAMPLE]
    return round(estimated(part) * len(text) / len(part)) if part else 0


class Sampled:
    """About how many tokens several texts take together: a little of each stands for all."""

    def __init__(self, before: int = 0) -> None:
        self._before, self._length, self._sample = before, 0, ""

    def add(self, text: str, length: int = 0) -> None:
        """One more of them, or a piece of one that is so long."""
        self._length += length or len(text)
        if len(self._sample) < _SAMPLED:
            self._sample += text[:_OF_EACH]

    @property
    def tokens(self) -> int:
        """Those before, and those of the texts since."""
        return self._before + (round(estimated(self._sample) * self._length / len(self._sample)) if self._sample else 0)


_OF_EACH, _SAMPLED = 128, 512
_TOLD = ("name", "description", "inputSchema")
