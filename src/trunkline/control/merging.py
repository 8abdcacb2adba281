"""Joins what the servers offer, under the names that callers see, into one frozen snapshot."""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import is_
from sys import intern
from typing import Any

from trunkline.config.options import Config
from trunkline.control.item import (
    NAMED_BY,
    definition_of,
    marked,
    name_of,
    options_of,
    renamed,
    said_over,
    spec_options,
    tool_of,
)
from trunkline.control.tables import Joiner, Table, differing
from trunkline.control.trust import AGREED, Trust
from trunkline.identity import unit_name
from trunkline.model import NOTHING, Entry, Kind, Listing, Offer, ServerView, Snapshot, State
from trunkline.tool import NO_OPTIONS, ToolOptions
from trunkline.tools import builtin, names


def join_servers(views: Mapping[str, ServerView], config: Config, version: int, trust: Trust | None = None) -> Snapshot:
    """What there is at this moment. A group is shown as one server; what any of its members offers, it offers."""
    return Catalogue(trust, own=True).join(views, config, version)


class Catalogue:
    """What the servers offer, joined after every change; what comes of servers that did not change stays.

    What is not trusted is held back here, and so nowhere to be found; `own` lists are not everybody's.
    """

    def __init__(self, trust: Trust | None = None, *, own: bool = False) -> None:
        self._trust, self._own = trust, own
        self._units: dict[str, _Unit] = {}
        self._places: dict[str, int] = {}
        """Where each unit stands among them."""
        self._views: Mapping[str, ServerView] = {}
        """What was prepared last."""
        self._lists: dict[str, Mapping[Kind, Listing]] = {}
        self._plan = _Plan((), Config())
        self._changed: set[Kind] = set()
        """Kinds of which something is to be joined anew."""
        self._touched: set[str] = set()
        """Units of which something changed since all were joined."""
        self._columns: dict[Kind, _Column] = {}
        self._offers: dict[str, Offer] = {}
        self._problems: dict[Kind, list[str]] = {}
        self._renames: dict[Kind, dict[str, dict[str, str]]] = {}
        self._renamed: set[str] = set()
        self._prefixes: frozenset[str] = frozenset()
        self._plain, self._final = Joiner(), Joiner()
        self._tables: dict[Kind, Table] = {}

    def prepare(self, views: Mapping[str, ServerView], config: Config) -> Iterator[None]:
        """Make the entries that are new, one at each step, for one unit after the other; `join` does what is left."""
        lists = self._lists_of(views)
        if self._plan.config is config and list(lists) == list(self._lists):
            changed = {self._plan.shown_as(name) for name in differing(self._lists, lists)}
        else:
            self._plan = _Plan(lists, config)
            changed = self._plan.units.keys()
            self._units = {name: self._units.get(name) or self._unit(name) for name in changed}
            self._places = {name: place for place, name in enumerate(self._units)}
            self._columns.clear()
            self._offers.clear()
            self._changed.update(Kind)
            known = map(names.server_prefix, (*changed, *config.servers, *config.groups))
            self._prefixes = self._prefixes.union(known)
        for name in changed:
            self._touched.add(name)
            members = [(member, lists[member]) for member in self._plan.units[name]]
            yield from self._units[name].update(members, self._plan, self._changed)
            _ = self._units[name].offer(NOTHING).summary  # made here, it keeps nobody waiting at a first look
            if self._trust is not None and not self._own:
                for member, found in members:
                    self._trust.seen(member, found.values())
            yield  # there may be many that list nothing yet
        self._views, self._lists = views, lists

    def _lists_of(self, views: Mapping[str, ServerView]) -> dict[str, Mapping[Kind, Listing]]:
        """What the servers list that are not stopped. Those that are as before are not looked at: they may be many."""
        lists = dict(self._lists)
        if list(views) == list(self._views):
            moved = [views[name] for name in differing(self._views, views)]
            if all((one.state is State.STOPPED) == (one.name not in lists) for one in moved):
                return lists | {view.name: view.lists for view in moved if view.name in lists}
        return {name: view.lists for name, view in views.items() if view.state is not State.STOPPED}

    def _unit(self, name: str) -> _Unit:
        return _Unit(name, self._trust, own=self._own)

    def join(self, views: Mapping[str, ServerView], config: Config, version: int) -> Snapshot:
        """What there is at this moment, as one snapshot."""
        if self._views is not views or self._plan.config is not config:
            deque(self.prepare(views, config), maxlen=0)
        for kind in self._changed:
            column = self._columns[kind] = self._column(kind)
            clashes, self._renames[kind] = self._settle(kind, column, self._plan)
            odd = sorted(column.problems, key=self._places.__getitem__)
            self._problems[kind] = clashes + [problem for name in odd for problem in column.problems[name]]
        offers = self._offer()
        for kind in self._changed:
            tables = [offer.table(kind) for offer in offers.values()] if self._renames[kind] else ()
            self._tables[kind] = (self._final if tables else self._plain).table(
                kind, tables or self._columns[kind].tables
            )
        self._changed.clear()
        self._touched.clear()
        return Snapshot(
            version=version,
            servers=dict(views),
            offers=offers,
            **self._final.members(self._tables),
            bare=self._plan.bare,
            prefixes=self._prefixes,
            problems=tuple(problem for kind in Kind for problem in self._problems.get(kind, ())),
        )

    def _column(self, kind: Kind) -> _Column:
        """What all units have of a kind; those that nothing was heard of are not looked at."""
        known = self._columns.get(kind) or _Column([NOTHING] * len(self._units), [0] * len(self._units), {})
        column = _Column(known.tables.copy(), known.counts.copy(), known.problems)
        for name in self._touched if kind in self._columns else self._units:
            unit, place = self._units[name], self._places[name]
            column.tables[place] = unit.tables.get(kind) or NOTHING
            column.counts[place] = len(unit.entries.get(kind, ()))
            if unit.problems.get(kind):
                column.problems[name] = unit.problems[kind]
            else:
                column.problems.pop(name, None)
        return column

    def _offer(self) -> dict[str, Offer]:
        """What each unit offers; those that nothing was heard of offer the same."""
        renames: dict[str, dict[Kind, dict[str, str]]] = {}
        for kind, found in self._renames.items():
            for unit, shown in found.items():
                renames.setdefault(unit, {})[kind] = shown
        looked_at = self._touched | self._renamed | renames.keys() if self._offers else self._units
        offers = self._offers | {name: self._units[name].offer(renames.get(name, NOTHING)) for name in looked_at}
        self._offers, self._renamed = offers, set(renames)
        return dict(offers)

    def _settle(self, kind: Kind, column: _Column, plan: _Plan) -> tuple[list[str], dict[str, dict[str, str]]]:
        """What cannot be shown, and under which names those are, by unit and own name, whose own several want."""
        named = NAMED_BY[kind] == "name"
        reserved = builtin.NAMES if kind is Kind.TOOL and not plan.bare and not plan.prefix else frozenset[str]()
        table = self._plain.table(kind, column.tables)
        several, units = len(table) < sum(column.counts), self._units.values()
        wanted = _wanted_by_several(units, kind) if several else set[str]()
        wanted |= {name for name in reserved if name in table}
        if not wanted:
            return [], {}
        # Addresses are not renamed: what a server links to must stay reachable. The first to offer one has it.
        gateway = plan.config.gateway
        conflicts = gateway.conflicts if named else "first-wins"
        while True:
            clashing = {
                unit.name: [entry.name for entry in unit.entries[kind] if entry.shown in wanted]
                for unit in units
                if not wanted.isdisjoint(unit.tables.get(kind, ()))
            }
            shown, problems = names.show(
                clashing,
                namespace="always" if named and plan.prefix else "never",
                conflicts=conflicts,
                prefer=gateway.prefer,
                legalise=named and not plan.bare,
                reserved=reserved,
            )
            more = {name for name in shown.values() if name in table} - wanted
            if not more:
                break
            wanted |= more  # what a name was made is another's own
        return problems, {unit: {name: shown.get((unit, name), "") for name in own} for unit, own in clashing.items()}


def _wanted_by_several(units: Iterable[_Unit], kind: Kind) -> set[str]:
    seen: set[str] = set()
    wanted: set[str] = set()
    for unit in units:
        table = unit.tables.get(kind, NOTHING)
        wanted |= seen.intersection(table)
        seen.update(table)
        entries = unit.entries.get(kind, ())
        if len(entries) > len(table):
            counts = Counter(entry.shown for entry in entries)
            wanted.update(name for name, count in counts.items() if count > 1)
    return wanted


@dataclasses.dataclass(frozen=True)
class _Column:
    """What all units have of one kind, in their order, as it is shown if nobody else wants the names."""

    tables: list[Table]
    counts: list[int]
    """How many entries each has; more than its table where two of them want one name."""
    problems: dict[str, list[str]]
    """What cannot be shown, by unit; of those alone that have some."""


class _Plan:
    """Who is shown as one, and in which form names are shown."""

    def __init__(self, servers: Collection[str], config: Config) -> None:
        self.config = config
        self._groups = {member: group.name for group in config.groups.values() for member in group.servers}
        self.units: dict[str, list[str]] = {}
        for name in servers:
            self.units.setdefault(self.shown_as(name), []).append(name)
        alone = len(self.units) == 1
        namespace = config.gateway.namespace
        self.prefix = not alone if namespace == "auto" else namespace == "always"
        itself = alone and not self.prefix and self._groups.keys().isdisjoint(servers)
        self.bare = next(iter(servers)) if itself else ""
        self.form = self.prefix, bool(self.bare), config.annotations.auto_infer, config.middleware.confirm

    def shown_as(self, server: str) -> str:
        """The name of the unit that a server belongs to: its group's, or its own."""
        return self._groups.get(server, server)

    def shown(self, unit: str, name: str) -> str:
        """The name that a tool or a prompt has if nobody else wants it."""
        if self.prefix:
            return names.prefixed(unit_name(unit), name)
        return name if self.bare else names.legal(name)


class _Unit:
    """One server, or one group: the entries made of its lists, as they are shown if nobody else wants their names."""

    def __init__(self, name: str, trust: Trust | None, *, own: bool) -> None:
        self.name = name
        self._trust, self._own = trust, own
        self.held: dict[Kind, Table] = {}
        """What is held back, by the server's own name."""
        self.entries: dict[Kind, Collection[Entry]] = {}
        self.tables: dict[Kind, Table] = {}
        """By the shown name."""
        self.problems: dict[Kind, list[str]] = {}
        self._made: dict[Kind, dict[bytes, Entry]] = {}
        """By what the server listed."""
        self._read: dict[Kind, list[tuple[str, Listing]]] = {}
        self._form: tuple[bool | str, ...] = ()
        self._said: list[Mapping[str, ToolOptions]] = []
        self._offer: tuple[Mapping[Kind, Mapping[str, str]], Offer] | None = None

    def update(
        self, members: Sequence[tuple[str, Mapping[Kind, Listing]]], plan: _Plan, changed: set[Kind]
    ) -> Iterator[None]:
        """Take over what the members list now; what they listed before is not read again. Adds the kinds that changed.

        What was done is remembered at the end: who stops midway begins again.
        """
        config = plan.config
        servers = config.groups[self.name].servers if self.name in config.groups else (self.name,)
        said = [spec_options(config.servers[one]) for one in servers if one in config.servers]
        stale, anew = self._form != plan.form, self._said != said or self._form[2:] != plan.form[2:]
        self._said = said
        for kind in Kind:
            read = [(name, lists[kind]) for name, lists in members if kind in lists]
            if stale or (anew and kind is Kind.TOOL) or not _same(self._read.get(kind, []), read):
                changed.add(kind)
                yield from self._update(
                    kind, read, plan, {} if anew and kind is Kind.TOOL else self._made.get(kind, {})
                )
        self._form = plan.form

    def _update(
        self, kind: Kind, read: list[tuple[str, Listing]], plan: _Plan, made: dict[bytes, Entry]
    ) -> Iterator[None]:
        listed: dict[str, list[_Listed]] = {}
        for member, listing in read:
            own: list[str] = []
            for items, for_askable in ((listing.items, False), (listing.for_askable, True)):
                for item in items:
                    known = made.get(item)
                    name = known.name if known is not None else intern(name_of(item, kind))
                    if name:
                        listed.setdefault(name, []).append((member, item, for_askable))
                        own.append(name)
                    yield
            if self._trust is not None and not self._own and kind is Kind.TOOL:
                yield from self._trust.know(member, own)
        entries: dict[str, Entry] = {}
        offered: dict[str, _Item] = {}
        held: dict[str, Entry] = {}
        problems: list[str] = []
        for name, several in listed.items():
            shown = plan.shown(self.name, name) if NAMED_BY[kind] == "name" else name
            item = self._trusted(name, several, kind)
            if isinstance(item, str):
                held[name] = Entry(shown, self.name, name, b"", held=item)
                yield
                continue
            offered[name] = item
            entry = self._entry(name, shown, item, kind, made.get(item.text), plan.config)
            if isinstance(entry, str):
                problems.append(entry)
            else:
                entries[name] = entry
            yield
        self._read[kind], self.problems[kind] = read, problems
        if held != self.held.get(kind, {}):
            self.held = {**self.held, kind: held}
            self._offer = None
        before = self.entries.get(kind, ())
        if len(before) == len(entries) and all(map(is_, before, entries.values())):
            return
        table = self.tables[kind] = {entry.shown: entry for entry in entries.values()}
        self.entries[kind] = table.values() if len(table) == len(entries) else tuple(entries.values())
        self._made[kind] = {offered[name].text: entry for name, entry in entries.items()}
        self._offer = None

    def _trusted(self, name: str, listed: Sequence[_Listed], kind: Kind) -> _Item | str:
        """What is shown of a name, and whose it is; or why it is held back, where nobody's is trusted."""
        found: _Item | None = None
        why = ""
        for member, text, for_askable in listed:
            trust = self._trust
            verdict = trust.judge(member, kind, name, text, own=self._own) if trust is not None else AGREED
            if verdict.held:
                why = why or verdict.held
                continue
            if found is None:
                found = _Item(text, for_askable, [], verdict.changed)
            if member not in found.members:
                found.members.append(member)
        return found if found is not None else why

    def _entry(
        self, name: str, shown: str, item: _Item, kind: Kind, known: Entry | None, config: Config
    ) -> Entry | str:
        """One entry as shown, or why it cannot be: one odd definition must hide no other."""
        members = () if item.members == [self.name] else tuple(item.members)
        try:
            if known is not None:
                wanted = shown, members, item.for_askable, item.changed
                if (known.shown, known.members, known.for_askable, known.changed) == wanted:
                    return known
                entry = dataclasses.replace(
                    known, shown=shown, definition=definition_of(item.text, name, shown, known.options)
                )
            elif kind is Kind.TOOL:
                entry = tool_of(self.name, name, shown, item.text, self._options(name), config)
            else:
                entry = Entry(shown, self.name, name, definition_of(item.text, name, shown))
            if (entry.members, entry.for_askable, entry.changed) == (members, item.for_askable, item.changed) == _PLAIN:
                return entry
            changes: dict[str, Any] = {"members": members, "for_askable": item.for_askable, "changed": item.changed}
            return dataclasses.replace(entry, definition=marked(entry.definition, item.changed), **changes)
        except ValueError as error:
            return f"{name!r} of server {self.name!r} is not shown: {error}."

    def _options(self, tool: str) -> ToolOptions:
        """In a group, what is said of one server's tool is said of all: it must not depend on who is there just now."""
        found = NO_OPTIONS
        for said in reversed(self._said):
            options = options_of(tool, said) if said else NO_OPTIONS
            if options is not NO_OPTIONS:
                found = said_over(found, options)
        return found

    def offer(self, changes: Mapping[Kind, Mapping[str, str]]) -> Offer:
        """What is shown of it; some under other names, and those not at all whose name became empty."""
        if self._offer is None or self._offer[0] != changes:
            tables: dict[Kind, Table] = {kind: table for kind, table in self.tables.items() if table}
            for kind, shown in changes.items():
                moved = (_shown_as(entry, shown.get(entry.name, entry.shown), kind) for entry in self.entries[kind])
                tables[kind] = {entry.shown: entry for entry in moved if entry.shown}
            held = {kind: table for kind, table in self.held.items() if table}
            self._offer = changes, Offer(self.name, tables, held or NOTHING)
        return self._offer[1]


@dataclasses.dataclass(slots=True)
class _Item:
    """What one server lists, or several of a group."""

    text: bytes
    for_askable: bool
    members: list[str]
    changed: tuple[str, ...] = ()


_Listed = tuple[str, bytes, bool]
"""Who lists something, what, and whether for callers that may be asked alone."""
_PLAIN = (), False, ()


def _same(before: Sequence[tuple[str, object]], now: Sequence[tuple[str, object]]) -> bool:
    return len(before) == len(now) and all(
        one == other and known is found for (one, known), (other, found) in zip(before, now, strict=True)
    )


def _shown_as(entry: Entry, shown: str, kind: Kind) -> Entry:
    if entry.shown == shown:
        return entry
    named = shown and NAMED_BY[kind] == "name"
    definition = renamed(entry.definition, shown) if named else entry.definition
    return dataclasses.replace(entry, shown=shown, definition=definition)
