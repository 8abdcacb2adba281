"""A slate: the members that could take a certain kind of call, in the order of one strategy."""

from __future__ import annotations

from collections.abc import Container, Sequence
from random import Random

from trunkline.balance.member import Member
from trunkline.balance.strategies import Loads, Strategy, Value, order_for


class Subset:
    """Candidates that are kept in order; it hears of every change to its members until it is closed."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        strategy: Strategy,
        weight: Value,
        priority: Value,
        health_aware: bool,
        random: Random,
    ) -> None:
        self.strategy: Strategy = strategy
        self.health_aware = health_aware
        self.weight = weight
        self.members = {member.name: member for member in members}
        self.order = order_for(strategy, members, weight=weight, priority=priority, random=random)
        for member in members:
            if isinstance(self.order, Loads):
                member.watchers.append(self.order)
            if health_aware:
                member.orders.append(self.order)
                if not member.available:
                    self.order.discard(member)

    def names(self, *, exclude: Container[str] = ()) -> tuple[str, ...]:
        """Those that may take a call now, in the order in which they would be asked."""
        return tuple(dict.fromkeys(member.name for member in self.order.walk() if member.name not in exclude))

    def close(self) -> None:
        """Hear nothing more."""
        order = self.order
        for member in self.members.values():
            if self.health_aware:
                member.orders.remove(order)
            if isinstance(order, Loads):
                member.watchers.remove(order)
