"""What a source offers: its tools read once, and how they differ from those that it had."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from trunkline.config.server import ServerSpec
from trunkline.control.change import Chronicle, ToolChange
from trunkline.control.listing import discover
from trunkline.errors import UnreachableError, UpstreamError
from trunkline.model import Kind, Listing, Snapshot, State
from trunkline.tools.digest import digest_json
from trunkline.upstream.pool import PoolEvents, open_pool

ReadTools = Callable[[ServerSpec], Awaitable[Listing]]
"""Gives the tools of a server; UpstreamError when it cannot."""


@dataclass(frozen=True)
class Refresh:
    """What reading a source again brought."""

    source: str
    discovered: int
    """Tools that it has now."""
    created: int
    updated: int
    deprecated: int
    """Tools that it had, and has no longer."""
    restored: int
    hash: str
    """The SHA-256 of all definitions; the order of tools does not count."""
    duration: float
    changes: tuple[ToolChange, ...] = field(default=(), repr=False)
    warning: str = ""

    @property
    def unchanged(self) -> bool:
        """Whether everything is as it was."""
        return not (self.created or self.updated or self.deprecated or self.restored)


def compare(chronicle: Chronicle, listing: Listing, *, now: float, duration: float) -> Refresh:
    """Compare a list with what is remembered, and remember it; what an incomplete one lacks is not gone."""
    first = not chronicle.begun
    items = (*listing.items, *listing.for_askable)
    changes = chronicle.note(items, now, whole=not listing.problem)
    there = sum(not version.removed for version in chronicle.tools.values())
    counts = {"added": there if first else 0, "removed": 0, "restored": 0, "updated": 0}
    for change in changes:
        counts[change.what[0] if change.what[0] in counts else "updated"] += 1
    return Refresh(
        chronicle.server,
        there,
        counts["added"],
        counts["updated"],
        counts["removed"],
        counts["restored"],
        hash_of(items),
        duration,
        tuple(changes),
        listing.problem,
    )


def hash_of(items: Sequence[bytes]) -> str:
    """One name for a set of definitions."""
    return sha256("\n".join(sorted(digest_json(item) for item in items)).encode()).hexdigest()


async def read_tools(spec: ServerSpec) -> Listing:
    """Start or reach a server, read its tools to the last page, and leave nothing behind."""
    async with open_pool(PoolEvents()) as pool:
        return _listed(spec, await discover(await pool.open(spec), spec, (Kind.TOOL,)))


def tools_in(snapshot: Callable[[], Snapshot]) -> ReadTools:
    """Tools as a hub knows them already, so that nothing is started twice: `tools_in(lambda: hub.snapshot)`."""

    async def read(spec: ServerSpec) -> Listing:
        view = snapshot().servers.get(spec.name)
        if view is None or view.state not in (State.READY, State.DEGRADED):
            reason = view.reason if view is not None else "The hub does not have it."
            raise UnreachableError(f"Server {spec.name!r} cannot be read now.", hint=reason)
        return _listed(spec, dict(view.lists))

    return read


def _listed(spec: ServerSpec, lists: dict[Kind, Listing]) -> Listing:
    found = lists.get(Kind.TOOL, Listing())
    if found.problem and not found.items:
        raise UpstreamError(f"The tools of server {spec.name!r} cannot be read.", hint=found.problem)
    return found
