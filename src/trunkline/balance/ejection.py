"""The ward: which members are out, who is on probation, and who comes back when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from trunkline.balance import health
from trunkline.balance.health import OUT, WELL, HealthOptions, HealthState, Phase
from trunkline.balance.member import Member


class Ejector:
    """Moves members between the phases of passive health, and keeps count so that never too many are out.

    A flag set from outside stands above all of this: whoever is flagged unhealthy gets no call.
    """

    def __init__(
        self, options: HealthOptions, clock: Callable[[], float], changed: Callable[[str, bool], object] | None
    ) -> None:
        self.options = options
        self.out: dict[str, Member] = {}
        self.warming = 0
        """Members that let some of their turns pass."""
        self.waiting: list[tuple[float, int, Member, HealthState]] = []
        """Phases that end by themselves, the next one first; outlived ones are dropped when they come up."""
        self._clock = clock
        self._changed = changed
        self._members: dict[str, Member] = {}
        self._well = 0
        """Members with a good flag that are not out."""
        self._count = 0

    def admit(self, member: Member) -> None:
        """Watch over a new member."""
        self._members[member.name] = member
        self._well += 1

    def dismiss(self, member: Member) -> None:
        """Watch no longer; what its calls come to does not matter any more."""
        del self._members[member.name]
        self.warming -= member.standing.phase is Phase.WARMING
        if self.out.pop(member.name, None) is None and member.healthy:
            self._well -= 1
        member.standing = WELL
        self._relieve()

    def is_well(self, name: str) -> bool:
        """Whether a server is flagged healthy and not out."""
        member = self._members.get(name)
        return member is not None and member.healthy and name not in self.out

    def flag(self, member: Member, healthy: bool) -> None:
        """Somebody says whether it is well."""
        if member.healthy == healthy:
            return
        member.healthy = healthy
        if member.name not in self.out:
            self._well += 1 if healthy else -1
            self._settle(member)
            self._tell(member.name, not healthy)
        elif healthy:
            # Whoever says that it is well knows more than its last calls.
            self._return(member, self._clock())
        else:
            self._settle(member)
        self._relieve()

    def judge(self, member: Member, ok: bool) -> None:
        """One of its calls ended; too many failures eject it."""
        if member.standing.phase in OUT:
            return  # it was sent before the ejection, or for want of anybody else
        now = self._clock()
        member.record.note(ok, now)
        if ok or self._members.get(member.name) is not member or not health.is_sick(member.record, self.options):
            return
        well = self._well if member.healthy else self._well + 1
        if health.may_eject(len(self._members), len(self.out), well, self.options):
            self._eject(member, now)

    def begin_probe(self, member: Member) -> None:
        """From now on one call shows whether it is well; no other goes there."""
        self._enter(member, health.probing(member.standing))

    def end_probe(self, member: Member, ok: bool | None) -> None:
        """The probe ended: the member is back, out again, or must be probed once more."""
        if self._members.get(member.name) is not member:
            return
        now = self._clock()
        if ok:
            self._return(member, now)
        else:
            self._enter(member, health.probed(member.standing, ok, self.options, now))

    def wake(self, now: float) -> None:
        """End the phases whose time is over."""
        while self.waiting and self.waiting[0][0] <= now:
            _, _, member, standing = heappop(self.waiting)
            if member.standing is standing:
                self._enter(member, health.awoken(standing))

    def _eject(self, member: Member, now: float) -> None:
        before = self.is_well(member.name)
        self._well -= before
        self.out[member.name] = member
        self._enter(member, health.ejected(member.standing, self.options, now))
        self._tell(member.name, before)

    def _return(self, member: Member, now: float) -> None:
        del self.out[member.name]
        self._well += member.healthy
        member.record.clear()
        self._enter(member, health.returned(member.standing, self.options, now))
        self._tell(member.name, False)

    def _relieve(self) -> None:
        """Let back in whom only the presence of others had allowed to eject."""
        while self.out:
            within = len(self.out) <= len(self._members) * self.options.max_ejected
            flagged_well = [member for member in self.out.values() if member.healthy]
            if within and (self._well or not flagged_well):
                return
            self._return(min(flagged_well or self.out.values(), key=soonest), self._clock())

    def _enter(self, member: Member, standing: HealthState) -> None:
        self.warming += (standing.phase is Phase.WARMING) - (member.standing.phase is Phase.WARMING)
        member.standing = standing
        if standing.until:
            self._count += 1
            heappush(self.waiting, (standing.until, self._count, member, standing))
        self._settle(member)

    def _settle(self, member: Member) -> None:
        available = member.healthy and member.standing.phase not in (Phase.EJECTED, Phase.PROBING)
        if available == member.available:
            return
        member.available = available
        for order in member.orders:
            if available:
                order.add(member)
            else:
                order.discard(member)

    def _tell(self, name: str, before: bool) -> None:
        if self._changed is not None and (after := self.is_well(name)) != before:
            self._changed(name, after)


def soonest(member: Member) -> tuple[bool, float]:
    """The best of those that are out: who returns first, but not where a probe is under way."""
    return member.standing.phase is Phase.PROBING, member.standing.until
