"""Servers of which one is chosen by one strategy: all of them, or those that a test names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from trunkline.balance.balancer import Balancer, Lease, Subset
from trunkline.balance.strategies import Strategy


class Circle(Balancer):
    """A balancer that keeps one subset for every set of names."""

    def __init__(self, members: Iterable[str], *, strategy: Strategy = "round-robin", **options: Any) -> None:
        super().__init__(**options)
        for name in members:
            self.add(name)
        self._strategy: Strategy = strategy
        self._sets: dict[tuple[str, ...], Subset] = {}

    def subset(self, only: Collection[str] | None = None) -> Subset:
        """The members of these names, in order."""
        names = self.names() if only is None else tuple(name for name in self.names() if name in only)
        found = self._sets.get(names)
        if found is None:
            found = self._sets[names] = Subset(names, self._strategy)
        if found not in self._open:
            self.open(found)
        return found

    def find(self, *, only: Collection[str] | None = None, exclude: Collection[str] = ()) -> Lease | None:
        """A server for a call, if there is one."""
        return self.take(self.subset(only), exclude=exclude)

    def choose(self, *, only: Collection[str] | None = None, exclude: Collection[str] = ()) -> Lease:
        """A server for a call."""
        lease = self.find(only=only, exclude=exclude)
        assert lease is not None
        return lease
