"""What the callers of each profile see: the snapshot, narrowed to what is theirs, and the list that is shown of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from trunkline.config.options import Config, ProfileSpec
from trunkline.control.item import pattern, renamed
from trunkline.control.merging import Joiner
from trunkline.errors import UnknownNameError
from trunkline.model import Entry, Kind, Offer, PerOffer, Snapshot, View
from trunkline.tools import builtin, names
from trunkline.tools.patterns import Glob
from trunkline.wire.members import encode


class Views:
    """Makes each view once for each snapshot."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._profiles: dict[str, _Profile] = {}
        self._made: dict[str, View] = {}
        self._version = -1

    def configure(self, config: Config) -> None:
        """Show things as another configuration says."""
        self._config = config
        self._profiles.clear()
        self._version = -1

    def of(self, profile: str, snapshot: Snapshot) -> View:
        """What callers of a profile see now; the empty name stands for `/mcp` itself."""
        if snapshot.version != self._version:
            self._made.clear()
            self._version = snapshot.version
        view = self._made.get(profile)
        if view is None:
            found = self._profiles.get(profile)
            if found is None:
                found = self._profiles[profile] = _Profile(self._spec(profile), self._config.gateway.expose_limit)
            view = self._made[profile] = found.view(snapshot)
        return view

    def make(self, profile: str, snapshot: Snapshot) -> View:
        """What callers of a profile see of a snapshot that is not everybody's."""
        return _Profile(self._spec(profile), self._config.gateway.expose_limit).view(snapshot)

    def _spec(self, profile: str) -> ProfileSpec:
        gateway = self._config.gateway
        spec = self._config.profiles.get(profile) if profile else ProfileSpec()
        if spec is None:
            raise UnknownNameError(f"There is no profile {profile!r}.")
        return dataclasses.replace(spec, expose=spec.expose or gateway.expose, pinned=spec.pinned or gateway.pinned)


class _Profile:
    """Makes the views of one profile; of offers that did not change it keeps what it made."""

    def __init__(self, spec: ProfileSpec, limit: int) -> None:
        self._spec, self._limit = spec, limit
        self._allowed, self._hides, self._pinned = frozenset(spec.servers), _matcher(spec.hidden), _matcher(spec.pinned)
        self._narrowed = PerOffer(self._without_hidden)
        self._kept = PerOffer(self._listed)
        self._joiner = Joiner()

    def view(self, snapshot: Snapshot) -> View:
        """What its callers see at one moment."""
        spec = self._spec
        if spec.servers or spec.hidden:
            snapshot = self._narrow(snapshot)
        if not self._searches(snapshot):
            return View(spec.name, snapshot, tools=tuple(snapshot.tools.values()))
        snapshot = _out_of_the_way(snapshot)
        kept = [entry for found in self._kept.over(snapshot.offers.values()) for entry in found]
        units = [offer.server for offer in snapshot.offers.values() if offer.tools]
        tools = [_own(item, "name") for item in builtin.definitions(units)]
        view = View(spec.name, snapshot, searching=True, tools=(*tools, *kept))
        if snapshot.bare:
            return view  # a server that stands alone speaks for itself about resources
        return dataclasses.replace(
            view,
            resources=tuple(_own(item, "uri") for item in builtin.RESOURCES),
            templates=tuple(_own(item, "uriTemplate") for item in builtin.TEMPLATES),
        )

    def _searches(self, snapshot: Snapshot) -> bool:
        if self._spec.expose != "auto":
            return self._spec.expose == "search"
        if snapshot.bare and not builtin.NAMES.isdisjoint(snapshot.tools):
            return False  # its own tools keep their names, however many there are
        return sum(offer.for_models for offer in snapshot.offers.values()) > self._limit

    def _narrow(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what the profile has. What it has not does not exist for its callers, under any name."""
        allowed = self._allowed
        offers = [offer for offer in snapshot.offers.values() if not allowed or offer.server in allowed]
        reached = {server for offer in offers for server in (offer.server, *offer.members)}
        narrowed = {offer.server: offer for offer in self._narrowed.over(offers)}
        return dataclasses.replace(
            snapshot,
            servers={
                name: view
                for name, view in snapshot.servers.items()
                if not allowed or name in allowed or name in reached
            },
            offers=narrowed,
            **self._joiner.joined(narrowed.values()),
            bare="",  # nobody answers for what the profile has not
            meant={},
        )

    def _without_hidden(self, offer: Offer) -> Offer:
        kept = {name: tool for name, tool in offer.tools.items() if not self._hidden(tool)}
        return offer if len(kept) == len(offer.tools) else Offer(offer.server, {**offer.tables, Kind.TOOL: kept})

    def _hidden(self, tool: Entry) -> bool:
        # Names change when servers come and go; what was hidden under one must not appear under another.
        return any(map(self._hides, (tool.shown, tool.name, f"{tool.server}__{tool.name}")))

    def _listed(self, offer: Offer) -> list[Entry]:
        """What is listed even where callers search."""
        if not self._spec.pinned and not offer.for_some:
            return []
        return [tool for tool in offer.tools.values() if tool.app_only or self._pinned(tool.shown)]


def _out_of_the_way(snapshot: Snapshot) -> Snapshot:
    """A server that stands alone may have tools that are called as ours: then they get its name before theirs."""
    clashing = builtin.NAMES & snapshot.tools.keys()
    if not clashing:
        return snapshot
    offers: dict[str, Offer] = {}
    for server, offer in snapshot.offers.items():
        moved: dict[str, Entry] = {}
        for name, entry in offer.tools.items():
            shown = names.prefixed(entry.server, entry.name) if name in clashing else name
            if shown != name:
                entry = dataclasses.replace(entry, shown=shown, definition=renamed(entry.definition, shown))
            moved[shown] = entry
        offers[server] = Offer(server, {**offer.tables, Kind.TOOL: moved})
    tools = {name: entry for offer in offers.values() for name, entry in offer.tools.items()}
    return dataclasses.replace(snapshot, offers=offers, tools=tools, meant={})


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    globs: list[Glob] = [pattern(text) for text in patterns]
    return lambda name: any(glob.matches(name) for glob in globs)


def _own(item: dict[str, object], key: str) -> Entry:
    name = str(item[key])
    return Entry(name, "", name, encode(item))
