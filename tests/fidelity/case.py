"""One cell of the table: a pair of eras and a transport, with the way through Trunkline and the direct one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.fidelity.callers import PREFIX, Peer, open_peer
from tests.harness import Heard

CACHE = ("ttlMs", "cacheScope")
CACHED = ("tools", "prompts", "resources", "resourceTemplates", "contents")
"""Members by which a result is known that must say how long it may be kept."""
ONLY_MODERN = ("resultType", *CACHE)

ASKABLE: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
}

Look = Callable[[Peer], Awaitable[Any]]
"""What a caller does, and what it sees."""


@dataclass(frozen=True)
class Column:
    """Who calls whom, and over what."""

    caller: str
    server: str
    transport: str

    @property
    def pair(self) -> str:
        return f"{self.caller}-{self.server}"

    def __str__(self) -> str:
        return f"{self.pair}-{self.transport}"


COLUMNS = [
    Column(caller, server, transport)
    for caller in ("modern", "legacy")
    for server in ("modern", "legacy")
    for transport in ("stdio", "http")
]


@dataclass(frozen=True)
class Case:
    """A cell: the same caller can look at the server through Trunkline, and at one of its own era directly."""

    column: Column
    through: str
    direct: str
    http: aiohttp.ClientSession

    @property
    def bridged(self) -> bool:
        """Whether caller and server speak different eras."""
        return self.column.caller != self.column.server

    async def same(self, look: Look, capabilities: dict[str, Any] | None = None) -> Any:
        """What a caller sees directly, when it sees the same through Trunkline."""
        direct = await self.see(self.direct, look, capabilities or {})
        through = await self.see(self.through, look, capabilities or {})
        assert through == direct
        return direct

    async def see(self, url: str, look: Look, capabilities: dict[str, Any]) -> Any:
        """What a caller sees at an address, as far as the other era could say it too."""
        modern = self.column.caller == "modern"
        async with open_peer(url, self.http, modern=modern, capabilities=capabilities) as peer:
            seen = await look(peer)
        if isinstance(seen, list):
            return [self._seen(one) for one in seen]  # type: ignore[reportUnknownVariableType]
        return self._seen(seen)

    def _seen(self, seen: Any) -> Any:
        if isinstance(seen, Heard):
            seen = {**seen.message, "before": seen.before}
            seen.pop("id", None)
        if not isinstance(seen, dict):
            return seen
        if isinstance(seen.get("result"), dict):  # type: ignore[reportUnknownMemberType]
            written_for(seen["result"], modern=self.column.caller == "modern")  # type: ignore[reportUnknownArgumentType]
        return common(seen) if self.bridged else seen  # type: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def written_for(result: dict[str, Any], *, modern: bool) -> None:
    """Check that a result is in the form of the caller's era."""
    if modern:
        assert "resultType" in result
        assert all(name in result for name in CACHE) or not any(name in result for name in CACHED)
    else:
        assert not [name for name in ONLY_MODERN if name in result]
        assert not [name for name in result.get("_meta", {}) if name.startswith(PREFIX)]


def common(value: Any) -> Any:
    """What both eras can say: without the words that only a modern result has."""
    if isinstance(value, list):
        return [common(one) for one in value]  # type: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, one in value.items():  # type: ignore[reportUnknownVariableType]
        if name == "result" and isinstance(one, dict):
            one = {key: part for key, part in one.items() if key not in ONLY_MODERN}  # type: ignore[reportUnknownVariableType]
        if name == "_meta" and isinstance(one, dict):
            one = {key: part for key, part in one.items() if not key.startswith(PREFIX)}  # type: ignore[reportUnknownVariableType]
            if not one:
                continue
        kept[str(name)] = common(one)  # type: ignore[reportUnknownArgumentType]
    return kept
