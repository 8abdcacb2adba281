"""Who may take a call at all: by the tool, its server, its category, its annotations, and what it requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from trunkline.balance.balancer import Subset, own_weight
from trunkline.balance.groups import ServerWeight
from trunkline.balance.strategies import Member, Strategy, Value
from trunkline.tool import Annotations, Tool

ORDINARY_WEIGHT = 50.0
"""What a server weighs for which no weight is written down."""
PRIMARY_WEIGHT = 50.0
"""From this weight on a server counts as primary, and may take destructive calls."""
CACHING = "caching"
"""The category that idempotent tools prefer."""
CATEGORY_BONUS = 0.5
MOST_KINDS = 1024
"""Kinds of calls whose candidates are remembered."""


class Candidates:
    """What is known about the servers' abilities, and who follows from it for each kind of call."""

    def __init__(
        self,
        categories: Mapping[str, Iterable[str]],
        weights: Mapping[str, ServerWeight],
        *,
        strategy: Strategy,
        fallback_strategy: Strategy,
        destructive_fallback: bool,
    ) -> None:
        self._mapped = {category: frozenset(servers) for category, servers in categories.items()}
        self._weights = weights
        self._strategy: Strategy = strategy
        self._fallback_strategy: Strategy = fallback_strategy
        self._destructive_fallback = destructive_fallback
        self._capabilities: dict[str, frozenset[str]] = {}
        self._tools: dict[str, frozenset[str] | None] = {}
        """What servers have; `None` where that was not said, and any tool is possible."""
        self._holders: dict[str, frozenset[str]] | None = None
        self._anything: frozenset[str] | None = None
        """Servers that may have any tool; `None` means all of them."""
        self._kinds: dict[object, tuple[Subset, ...]] = {}

    def add(self, server: str, capabilities: Iterable[str], tools: Iterable[str] | None) -> None:
        """Learn of a server, or learn anew."""
        written = self._weights.get(server)
        self._capabilities[server] = frozenset(capabilities).union(written.capabilities if written else ())
        self._tools[server] = None if tools is None else frozenset(tools)
        self._forget()

    def remove(self, server: str) -> None:
        """Forget a server."""
        self._capabilities.pop(server, None)
        self._tools.pop(server, None)
        self._forget()

    def subsets(self, tool: Tool, capabilities: tuple[str, ...], *, again: bool) -> tuple[Subset, ...]:
        """Candidates from the closest to the widest; calls of the same kind share them, and their turns.

        The tool itself, the required capabilities and the ban on destructive calls bind. The tool's own server and
        its category give way when none of those servers can take the call. `again` asks for the next server after a
        failed attempt: then they give way only to servers that are known to have the tool.
        """
        behaviour = _behaviour(tool.annotations)
        kind = (tool.server, tool.category, behaviour, capabilities, self._holders_of(tool.name), again)
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            found = self._kinds[kind] = tuple(self._subsets(tool, capabilities, again))
        return found

    def having(self, tool: Tool) -> list[str]:
        """Servers that may have the tool."""
        holders = self._holders_of(tool.name)
        return [name for name in self._tools if holders is None or name in holders]

    def in_category(self, servers: Iterable[str], category: str) -> list[str]:
        """Those of a category: mapped to it, or with a capability of that name."""
        mapped = self._mapped.get(category, frozenset())
        return [name for name in servers if name in mapped or category in self._capabilities[name]]

    def able(self, servers: Iterable[str], required: Iterable[str]) -> list[str]:
        """Those that can do all that is required."""
        found = list(servers)
        for capability in required:
            found = self.in_category(found, capability)
        return found

    def primary(self, servers: Sequence[str]) -> Sequence[str]:
        """Those that may take destructive calls; all of them where no weights are written down."""
        if not self._weights:
            return servers
        return [name for name in servers if name in self._weights and self._weights[name].weight >= PRIMARY_WEIGHT]

    def layers(self, servers: Sequence[str], annotations: Annotations) -> list[Sequence[str]]:
        """What annotations make of candidates: the first layer that can take the call does."""
        match _behaviour(annotations):
            case "destructive":
                primary = self.primary(servers)
                return [primary, servers] if self._destructive_fallback else [primary]
            case "idempotent":
                return [self.in_category(servers, CACHING), servers]
            case _:
                return [servers]

    def _subsets(self, tool: Tool, capabilities: tuple[str, ...], again: bool) -> Iterator[Subset]:
        strategy = self._fallback_strategy if again else self._strategy
        plain, favoured = (_score, _score_in_category) if strategy == "capability-based" else (own_weight, own_weight)
        layers = self.layers(self.able(self.having(tool), capabilities), tool.annotations)
        scopes: list[tuple[Value, list[Sequence[str]]]] = []
        if tool.server:
            scopes.append((plain, [[name for name in layer if name == tool.server] for layer in layers]))
        if tool.category:
            scopes.append((favoured, [self.in_category(layer, tool.category) for layer in layers]))
        scopes.append((plain, layers))
        scopes = [(weight, found) for weight, layers in scopes if (found := [names for names in layers if names])]
        for place, (weight, layers) in enumerate(scopes):
            for names in layers:
                if again and place:
                    names = [name for name in names if tool.name in (self._tools[name] or ())]
                if names:
                    yield Subset(names, strategy, weight=weight)

    def _holders_of(self, tool_name: str) -> frozenset[str] | None:
        """Servers that may have a tool; `None` means all."""
        if self._holders is None:
            self._index()
        return self._holders.get(tool_name, self._anything) if self._holders else self._anything

    def _index(self) -> None:
        anything = frozenset(name for name, tools in self._tools.items() if tools is None)
        declared: dict[str, set[str]] = {}
        for name, tools in self._tools.items():
            for tool in tools or ():
                declared.setdefault(tool, set()).add(name)
        # Tools of the same servers share one set, and with it one order.
        shared: dict[frozenset[str], frozenset[str]] = {}
        found = {tool: anything | names for tool, names in declared.items()}
        self._holders = {tool: shared.setdefault(names, names) for tool, names in found.items()}
        self._anything = None if len(anything) == len(self._tools) else anything

    def _forget(self) -> None:
        self._holders = None
        self._kinds.clear()


def _behaviour(annotations: Annotations) -> Literal["", "destructive", "idempotent"]:
    if annotations.destructive_hint:
        return "destructive"
    return "idempotent" if annotations.idempotent_hint and not annotations.read_only_hint else ""


def _score(member: Member) -> float:
    return 1.0 + member.weight / 100.0


def _score_in_category(member: Member) -> float:
    return _score(member) + CATEGORY_BONUS
