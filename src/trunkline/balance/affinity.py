"""Who was served where: a bounded memory of keys and their servers."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from trunkline.errors import ConfigError

MOST_SERVERS = 8
"""Servers that one key remembers."""


@dataclass(slots=True)
class AffinityRule:
    """The servers of one key, in the order it met them: the first that may take a call gets it."""

    key: str
    server_ids: tuple[str, ...]
    expires_at: float

    @property
    def server_id(self) -> str:
        """The first."""
        return self.server_ids[0]


def _nobody(key: str) -> None: ...


class Affinity:
    """Rules by key. Each use renews a rule; beyond `max_entries` the one unused longest goes."""

    def __init__(
        self,
        *,
        ttl: float = 1800.0,
        max_entries: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        expired: Callable[[str], object] = _nobody,
    ) -> None:
        if ttl <= 0 or max_entries < 1:
            raise ConfigError("Affinity cannot be kept like this.", hint="Its ttl and size must be above 0.")
        self._ttl = ttl
        self._max_entries = max_entries
        self._clock = clock
        self._expired = expired
        # All live equally long since their last use, so the order of use is the order of expiry.
        self._rules: OrderedDict[str, AffinityRule] = OrderedDict()

    def __len__(self) -> int:
        self._sweep(self._clock())
        return len(self._rules)

    def servers(self, key: str) -> tuple[str, ...]:
        """Where the key was served, the first first; empty when nothing is known. Asking renews the rule."""
        now = self._clock()
        self._sweep(now)
        rule = self._rules.get(key)
        if rule is None:
            return ()
        rule.expires_at = now + self._ttl
        self._rules.move_to_end(key)
        return rule.server_ids

    def remember(self, key: str, server: str) -> bool:
        """The key was served there; `True` if that is new."""
        known = self.servers(key)
        if server in known:
            return False
        self._keep(key, (*known[: MOST_SERVERS - 1], server))
        return True

    def pin(self, key: str, server: str) -> None:
        """The key shall be served there first."""
        others = [other for other in self.servers(key) if other != server]
        self._keep(key, (server, *others[: MOST_SERVERS - 1]))

    def forget(self, key: str) -> bool:
        """Drop the rule of a key."""
        return self._rules.pop(key, None) is not None

    def forget_server(self, server: str) -> None:
        """Nobody is served there any more."""
        for key, rule in list(self._rules.items()):
            rule.server_ids = tuple(other for other in rule.server_ids if other != server)
            if not rule.server_ids:
                del self._rules[key]

    def rules(self) -> tuple[AffinityRule, ...]:
        """All rules, the one unused longest first."""
        self._sweep(self._clock())
        return tuple(map(replace, self._rules.values()))

    def clear(self) -> None:
        """Forget everybody."""
        self._rules.clear()

    def _keep(self, key: str, servers: tuple[str, ...]) -> None:
        self._rules[key] = AffinityRule(key, servers, self._clock() + self._ttl)
        self._rules.move_to_end(key)
        if len(self._rules) > self._max_entries:
            self._rules.popitem(last=False)

    def _sweep(self, now: float) -> None:
        while self._rules:
            key = next(iter(self._rules))
            if self._rules[key].expires_at > now:
                return
            del self._rules[key]
            self._expired(key)
