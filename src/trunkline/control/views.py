"""What the callers of each profile see: the snapshot, narrowed to what is theirs, and the list that is shown of it."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import cast

from trunkline.config.options import Config, Expose, ProfileSpec, result_limits
from trunkline.control.item import pattern, renamed
from trunkline.control.tables import Joiner, Layered
from trunkline.errors import UnknownNameError
from trunkline.identity import Rule, Scope, unit_name
from trunkline.model import NOTHING, Entry, Kind, Offer, OfferSummary, ServerView, Snapshot, View
from trunkline.tool import DIRECT
from trunkline.tools import builtin, names
from trunkline.tools.names import server_prefix
from trunkline.tools.patterns import Glob
from trunkline.tools.per_offer import PerOffer
from trunkline.wire.members import encode

MOST = 1_000
"""Kinds of callers whose views are kept; those longest unused are made anew when they come."""
MOST_SCOPES = 10_000
"""Callers of whom it is remembered what kind they are."""


@dataclass(frozen=True)
class Audience:
    """Callers who see the same: what they are told differs by nothing else."""

    profile: str = ""
    rules: tuple[Rule, ...] = ()
    lists_all: bool = False
    """They are shown every tool, and never search."""
    owner: str = ""
    """The user, where that one has servers of their own."""
    without_programs: bool = False
    """They run no programs."""
    caller: str = DIRECT
    """Who calls, as `allowed_callers` of tools name it; empty for a program where there are to be none."""
    expose: str = ""
    """How tools are shown to them; empty as their profile has it."""


class Views:
    """Makes each view once for each snapshot."""

    def __init__(self, config: Config, *, programs: bool = False) -> None:
        self._config, self._programs = config, programs
        self._seers: OrderedDict[Audience, _Seer] = OrderedDict()
        self._servers: Mapping[str, ServerView] = NOTHING
        """Everybody's, as they were when views were made last."""
        self._found: dict[Scope, View] = {}
        """The same by who sees it: most callers call again."""
        self._version = -1

    def configure(self, config: Config) -> None:
        """Show things as another configuration says."""
        self._config = config
        self._seers.clear()
        self._version = -1

    def of(self, scope: Scope, snapshot: Snapshot) -> View:
        """What a caller sees now."""
        if snapshot.version != self._version:
            if snapshot.servers is not self._servers:  # else only what users have of their own is new
                self._servers = snapshot.servers
                for seer in self._seers.values():
                    seer.forget()
            self._found.clear()
            self._version = snapshot.version
        view = self._found.get(scope)
        if view is None:
            if len(self._found) >= MOST_SCOPES:
                self._found.clear()
            view = self._found[scope] = self._seer(_audience(scope, snapshot)).view(snapshot)
        return view

    def make(self, scope: Scope, snapshot: Snapshot) -> View:
        """What a caller sees of a snapshot that is not everybody's."""
        audience = _audience(scope, snapshot)
        return self._new_seer(audience).view(snapshot)

    def prepare(self, scope: Scope, snapshot: Snapshot) -> Iterator[None]:
        """Do what costs most of a first look, step by step."""
        audience = _audience(scope, snapshot)
        if audience not in self._seers:
            yield from self._seer(audience).prepare(snapshot)

    def _seer(self, audience: Audience) -> _Seer:
        found = self._seers.get(audience)
        if found is None:
            found = self._seers[audience] = self._new_seer(audience)
            if len(self._seers) > MOST:
                self._seers.popitem(last=False)
        self._seers.move_to_end(audience)
        return found

    def _new_seer(self, audience: Audience) -> _Seer:
        programs = self._programs and self._config.programs.enabled and not audience.without_programs
        spec = self._spec(audience.profile)
        if audience.expose:
            spec = dataclasses.replace(spec, expose=cast("Expose", audience.expose))
        return _Seer(audience, spec, self._config, programs=programs and audience.caller == DIRECT)

    def _spec(self, profile: str) -> ProfileSpec:
        gateway = self._config.gateway
        spec = self._config.profiles.get(profile) if profile else ProfileSpec()
        if spec is None:
            raise UnknownNameError(f"There is no profile {profile!r}.")
        limit = self._config.results.max_tokens if spec.max_result_tokens is None else spec.max_result_tokens
        return dataclasses.replace(
            spec,
            expose=spec.expose or gateway.expose,
            pinned=spec.pinned or gateway.pinned,
            max_result_tokens=limit,
        )


def _audience(scope: Scope, snapshot: Snapshot) -> Audience:
    owner = scope.user if scope.user in snapshot.owned else ""
    said = scope.overrides
    lists_all, none = said.disable_tool_search, said.disable_programmatic_calling
    return Audience(scope.profile, scope.rules, lists_all, owner, none, _calling(scope), said.expose)


def _calling(scope: Scope) -> str:
    """Who calls; nobody where a thread wants no programs."""
    if not scope.program:
        return DIRECT
    return "" if scope.overrides.disable_programmatic_calling else scope.program


# There is a summary for each of thousands of servers, and they are gone through at every look.
_SUMMARY = cast("Callable[[Offer], OfferSummary]", attrgetter("summary"))
_UNIT = cast("Callable[[OfferSummary], str]", attrgetter("unit"))
_FOR_MODELS, _SIZE, _DEFERS, _LIMITS = map(attrgetter, ("for_models", "size", "defers", "limits"))


class _Seer:
    """Makes the views of one audience; of offers that did not change it keeps what it made."""

    def __init__(self, audience: Audience, spec: ProfileSpec, config: Config, *, programs: bool) -> None:
        self._audience, self._spec, self._limit = audience, spec, config.gateway.expose_limit
        self._programs = programs and spec.expose in ("auto", "code")
        self._coding = programs and spec.expose == "code"
        self._keeps_results = bool(result_limits(config))
        self._hides, self._pinned = _matcher(spec.hidden), _matcher(spec.pinned)
        self._rules = [(rule, _matcher(rule.tools) if rule.tools else None) for rule in audience.rules]
        self._narrows = bool(spec.servers or spec.hidden or audience.rules)
        self._narrowed = PerOffer(self._permitted)
        self._facts = PerOffer(_SUMMARY)
        self._callable = PerOffer(lambda offer: all(audience.caller in callers for callers in offer.summary.callers))
        self._pins, self._loads = PerOffer(self._listed), PerOffer(self._loaded)
        self._joiner = Joiner()
        self._head: tuple[list[str], list[Entry]] = [], []
        """Our own tools as they were listed last, and for which servers."""
        self._made: tuple[Snapshot | None, View] | None = None
        """The last view, and what its user had of their own."""

    def view(self, snapshot: Snapshot) -> View:
        """What its callers see at one moment; the last view, while nothing of theirs changed."""
        owned = snapshot.owned.get(self._audience.owner) if self._audience.owner else None
        if self._made is None or self._made[0] is not owned:
            self._made = owned, self._view(snapshot, owned)
        return self._made[1]

    def forget(self) -> None:
        """What everybody has is otherwise."""
        self._made = None

    def _view(self, snapshot: Snapshot, owned: Snapshot | None) -> View:
        profile = self._spec.name
        if self._narrows or not self._calls_all(snapshot, owned):
            snapshot = self._narrow(snapshot, owned)
        elif owned is not None:
            snapshot = _with_owned(snapshot, owned)
        elif snapshot.owned:
            snapshot = dataclasses.replace(snapshot, owned=NOTHING, meant={})
        facts = self._facts.over(snapshot.offers.values())
        listed = (
            self._pins if self._searches(snapshot, facts) else self._loads if self._defers(snapshot, facts) else None
        )
        reads = self._reads_results(facts)
        own = builtin.result_definitions() if reads else []
        if listed is None:
            snapshot = _out_of_the_way(snapshot) if reads else snapshot
            tools = (*(_builtin_entry(item, "name") for item in own), *snapshot.tools.values())
            return View(self._audience, profile, snapshot, tools=tools, reads_results=reads)
        snapshot = _out_of_the_way(snapshot)
        kept = chain.from_iterable(listed.over(snapshot.offers.values()))
        programs, head = self._own_tools(facts)
        tools = [*head, *(_builtin_entry(item, "name") for item in own)]
        view = View(
            *(self._audience, profile, snapshot),
            searching=True,
            programs=programs,
            coding=self._coding,
            tools=(*tools, *kept),
            reads_results=reads,
        )
        if snapshot.bare:
            return view  # a server that stands alone speaks for itself about resources
        return dataclasses.replace(
            view,
            resources=tuple(_builtin_entry(item, "uri") for item in builtin.RESOURCES),
            templates=tuple(_builtin_entry(item, "uriTemplate") for item in builtin.TEMPLATES),
        )

    def prepare(self, snapshot: Snapshot) -> Iterator[None]:
        """Look at each offer, one at a step."""
        if self._narrows:
            for offer in self._allowed(snapshot, snapshot.owned.get(self._audience.owner)):
                self._narrowed.of(offer)
                yield

    def _own_tools(self, facts: Collection[OfferSummary]) -> tuple[bool, Sequence[Entry]]:
        """Whether there are programs, and what is listed in the place of tools; `auto` has them if that is less."""
        units = list(filter(bool, map(_UNIT, facts)))
        if units != self._head[0] or not self._head[1]:
            offered = builtin.definitions(units, programs=self._programs, coding=self._coding)
            self._head = units, [_builtin_entry(item, "name") for item in offered]
        head = self._head[1]
        if self._programs and not self._coding:
            saves = sum(map(_SIZE, facts)) > sum(len(entry.definition) for entry in head)
            return saves, head if saves else [entry for entry in head if entry.shown != builtin.RUN]
        return self._programs, head

    def _reads_results(self, facts: Iterable[OfferSummary]) -> bool:
        """Whether large results are kept aside for the audience: never for programs, which read them whole."""
        if not self._keeps_results or self._audience.caller != DIRECT:
            return False
        return bool(self._spec.max_result_tokens) or any(map(_LIMITS, facts))

    def _searches(self, snapshot: Snapshot, facts: Iterable[OfferSummary]) -> bool:
        if self._audience.lists_all:
            return False
        if self._spec.expose != "auto":
            return self._spec.expose in ("search", "code")
        return not _needs_names(snapshot) and sum(map(_FOR_MODELS, facts)) > self._limit

    def _defers(self, snapshot: Snapshot, facts: Iterable[OfferSummary]) -> bool:
        """Whether some tools are left out of the list, and searched for."""
        if self._audience.lists_all or (self._spec.expose == "auto" and _needs_names(snapshot)):
            return False
        return any(map(_DEFERS, facts))

    def _calls_all(self, snapshot: Snapshot, owned: Snapshot | None) -> bool:
        """Whether the audience may call every tool there is."""
        offers = [*snapshot.offers.values(), *(owned.offers.values() if owned is not None else ())]
        return all(self._callable.over(offers))

    def _narrow(self, snapshot: Snapshot, owned: Snapshot | None) -> Snapshot:
        """The snapshot with what the audience has. What it has not does not exist for its callers, under any name."""
        offers = self._allowed(snapshot, owned)
        reached = {server for offer in offers for server in (offer.server, *offer.members)}
        narrowed = {offer.server: offer for offer in self._narrowed.over(offers)}
        servers = _servers_with(snapshot, owned) if owned is not None else snapshot.servers
        return dataclasses.replace(
            snapshot,
            servers={name: view for name, view in servers.items() if name in reached or self._allows(unit_name(name))},
            offers=narrowed,
            **self._joiner.joined(narrowed.values()),
            owned=NOTHING,
            bare="",  # nobody answers for what the audience has not
            meant={},
        )

    def _allowed(self, snapshot: Snapshot, owned: Snapshot | None) -> list[Offer]:
        offers = _offers_with(snapshot, owned) if owned is not None else snapshot.offers
        return [offer for offer in offers.values() if self._allows(unit_name(offer.server))]

    def _allows(self, unit: str) -> bool:
        if self._spec.servers and unit not in self._spec.servers:
            return False
        return all(
            (rule.servers is None or unit in rule.servers) and unit not in rule.hidden for rule in self._audience.rules
        )

    def _permitted(self, offer: Offer) -> Offer:
        kept, held = self._allowed_tools(offer.tools), self._allowed_tools(offer.held.get(Kind.TOOL, NOTHING))
        if len(kept) == len(offer.tools) and len(held) == len(offer.held.get(Kind.TOOL, ())):
            return offer
        return Offer(offer.server, {**offer.tables, Kind.TOOL: kept}, {**offer.held, Kind.TOOL: held})

    def _allowed_tools(self, tools: Mapping[str, Entry]) -> dict[str, Entry]:
        return {name: tool for name, tool in tools.items() if not self._hidden(tool) and self._permits(tool)}

    def _permits(self, tool: Entry) -> bool:
        if self._audience.caller not in tool.callers:
            return False
        names = (tool.shown, tool.name, f"{unit_name(tool.server)}__{tool.name}")
        return all(
            (fits is None or any(map(fits, names))) and (not rule.read_only or tool.annotations.read_only_hint is True)
            for rule, fits in self._rules
        )

    def _hidden(self, tool: Entry) -> bool:
        # Names change when servers come and go; what was hidden under one must not appear under another.
        return any(map(self._hides, (tool.shown, tool.name, f"{unit_name(tool.server)}__{tool.name}")))

    def _listed(self, offer: Offer) -> list[Entry]:
        """What is listed even where callers search."""
        if not self._spec.pinned and not offer.summary.for_some:
            return []
        return [tool for tool in offer.tools.values() if tool.app_only or self._pinned(tool.shown)]

    def _loaded(self, offer: Offer) -> list[Entry]:
        """What is listed where callers search for some tools alone."""
        tools = offer.tools.values()
        return [tool for tool in tools if not tool.deferred or tool.app_only or self._pinned(tool.shown)]


def _offers_with(snapshot: Snapshot, owned: Snapshot) -> dict[str, Offer]:
    """Everybody's offers with a user's own, which stand before one of everybody's that has the same name."""
    names = set(map(unit_name, owned.offers))
    return {**owned.offers, **{name: offer for name, offer in snapshot.offers.items() if name not in names}}


def _servers_with(snapshot: Snapshot, owned: Snapshot) -> dict[str, ServerView]:
    """A user's servers, and everybody's but those of the same names."""
    names = set(map(unit_name, owned.servers))
    return {**{name: view for name, view in snapshot.servers.items() if name not in names}, **owned.servers}


def _with_owned(snapshot: Snapshot, owned: Snapshot) -> Snapshot:
    """What a user has: what everybody has, and over it what is theirs, without a copy of the former."""
    offers = _offers_with(snapshot, owned)
    hidden = [offer for name, offer in snapshot.offers.items() if name not in offers]
    names = set(map(unit_name, owned.servers))

    def layered(kind: Kind, top: Mapping[str, Entry], base: Mapping[str, Entry]) -> Layered:
        return Layered(top, base, frozenset(name for offer in hidden for name in offer.table(kind)))

    gone = {id(entry) for offer in hidden for entry in offer.table(Kind.TEMPLATE).values()}
    return dataclasses.replace(
        snapshot,
        servers=_servers_with(snapshot, owned),
        offers=offers,
        tools=layered(Kind.TOOL, owned.tools, snapshot.tools),
        prompts=layered(Kind.PROMPT, owned.prompts, snapshot.prompts),
        resources=layered(Kind.RESOURCE, owned.resources, snapshot.resources),
        templates=(*owned.templates, *(entry for entry in snapshot.templates if id(entry) not in gone)),
        owned=NOTHING,
        bare="",
        prefixes=snapshot.prefixes | {server_prefix(name) for name in names},
        meant={},
    )


def _needs_names(snapshot: Snapshot) -> bool:
    """Whether a server that stands alone has tools that are called as ours: they keep their names."""
    return bool(snapshot.bare) and any(name in snapshot.tools for name in builtin.NAMES)


def _out_of_the_way(snapshot: Snapshot) -> Snapshot:
    """A server that stands alone may have tools that are called as ours: then they get its name before theirs."""
    clashing = {name for name in builtin.NAMES if name in snapshot.tools}
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
        offers[server] = Offer(server, {**offer.tables, Kind.TOOL: moved}, offer.held)
    tools = {name: entry for offer in offers.values() for name, entry in offer.tools.items()}
    return dataclasses.replace(snapshot, offers=offers, tools=tools, meant={})


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    globs: list[Glob] = [pattern(text) for text in patterns]
    return lambda name: any(glob.matches(name) for glob in globs)


def _builtin_entry(item: dict[str, object], key: str) -> Entry:
    name = str(item[key])
    return Entry(name, "", name, encode(item))
