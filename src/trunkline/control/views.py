"""What the callers of each profile see: the snapshot, narrowed to what is theirs, and the list that is shown of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from trunkline.config.options import Config, ProfileSpec
from trunkline.control.merging import pattern, renamed
from trunkline.errors import UnknownNameError
from trunkline.model import Entry, Snapshot, View
from trunkline.tools import builtin, names
from trunkline.tools.patterns import Glob
from trunkline.wire.members import encode


class Views:
    """Makes each view once for each snapshot."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[str, View] = {}
        self._version = -1

    def configure(self, config: Config) -> None:
        """Show things as another configuration says."""
        self._config = config
        self._version = -1

    def of(self, profile: str, snapshot: Snapshot) -> View:
        """What callers of a profile see now; the empty name stands for `/mcp` itself."""
        if snapshot.version != self._version:
            self._made.clear()
            self._version = snapshot.version
        view = self._made.get(profile)
        if view is None:
            view = self._made[profile] = self.make(profile, snapshot)
        return view

    def make(self, profile: str, snapshot: Snapshot) -> View:
        """What callers of a profile see of a snapshot that is not everybody's."""
        return _view(self._spec(profile), snapshot, self._config)

    def _spec(self, profile: str) -> ProfileSpec:
        gateway = self._config.gateway
        spec = self._config.profiles.get(profile) if profile else ProfileSpec()
        if spec is None:
            raise UnknownNameError(f"There is no profile {profile!r}.")
        return dataclasses.replace(spec, expose=spec.expose or gateway.expose, pinned=spec.pinned or gateway.pinned)


def _view(spec: ProfileSpec, snapshot: Snapshot, config: Config) -> View:
    snapshot = _narrowed(spec, snapshot)
    if not _searches(spec, snapshot, config.gateway.expose_limit):
        return View(spec.name, snapshot, tools=tuple(snapshot.tools.values()))
    snapshot = _out_of_the_way(snapshot)
    pinned = _matcher(spec.pinned)
    kept = [entry for entry in snapshot.tools.values() if entry.app_only or pinned(entry.shown)]
    units = dict.fromkeys(entry.server for entry in snapshot.tools.values())
    tools = [_own(item, "name") for item in builtin.definitions(list(units))]
    view = View(spec.name, snapshot, searching=True, tools=(*tools, *kept))
    if snapshot.bare:
        return view  # a server that stands alone speaks for itself about resources
    return dataclasses.replace(
        view,
        resources=tuple(_own(item, "uri") for item in builtin.RESOURCES),
        templates=tuple(_own(item, "uriTemplate") for item in builtin.TEMPLATES),
    )


def _searches(spec: ProfileSpec, snapshot: Snapshot, limit: int) -> bool:
    if spec.expose != "auto":
        return spec.expose == "search"
    if snapshot.bare and not builtin.NAMES.isdisjoint(snapshot.tools):
        return False  # its own tools keep their names, however many there are
    return sum(not entry.app_only for entry in snapshot.tools.values()) > limit


def _narrowed(spec: ProfileSpec, snapshot: Snapshot) -> Snapshot:
    """The snapshot with what the profile has. What it has not does not exist for its callers, under any name."""
    if not spec.servers and not spec.hidden:
        return snapshot
    hides = _matcher(spec.hidden)
    allowed = frozenset(spec.servers)

    def has(entry: Entry) -> bool:
        return not allowed or entry.server in allowed

    def hidden(tool: Entry) -> bool:
        # Names change when servers come and go; what was hidden under one must not appear under another.
        return any(map(hides, (tool.shown, tool.name, f"{tool.server}__{tool.name}")))

    tools = {name: tool for name, tool in snapshot.tools.items() if has(tool) and not hidden(tool)}
    kept = {id(tool) for tool in tools.values()}
    pages = {tool.page for tool in tools.values()}
    reached = {server for entry in snapshot.tools.values() if has(entry) for server in (entry.server, *entry.members)}
    return dataclasses.replace(
        snapshot,
        servers={
            name: view for name, view in snapshot.servers.items() if not allowed or name in allowed or name in reached
        },
        tools=tools,
        prompts=_those(snapshot.prompts, has),
        resources=_those(snapshot.resources, has),
        templates=tuple(entry for entry in snapshot.templates if has(entry)),
        aliases=_those(snapshot.aliases, lambda entry: id(entry) in kept),
        unlisted={uri: entry for uri, entry in snapshot.unlisted.items() if uri in pages},
        bare="",  # nobody answers for what the profile has not
    )


def _those(entries: Mapping[str, Entry], has: Callable[[Entry], bool]) -> dict[str, Entry]:
    return {name: entry for name, entry in entries.items() if has(entry)}


def _out_of_the_way(snapshot: Snapshot) -> Snapshot:
    """A server that stands alone may have tools that are called as ours: then they get its name before theirs."""
    clashing = builtin.NAMES & snapshot.tools.keys()
    if not clashing:
        return snapshot
    tools: dict[str, Entry] = {}
    for name, entry in snapshot.tools.items():
        shown = names.prefixed(entry.server, entry.name) if name in clashing else name
        if shown != name:
            entry = dataclasses.replace(entry, shown=shown, definition=renamed(entry.definition, shown))
        tools[shown] = entry
    return dataclasses.replace(snapshot, tools=tools)


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    globs: list[Glob] = [pattern(text) for text in patterns]
    return lambda name: any(glob.matches(name) for glob in globs)


def _own(item: dict[str, object], key: str) -> Entry:
    name = str(item[key])
    return Entry(name, "", name, encode(item))
