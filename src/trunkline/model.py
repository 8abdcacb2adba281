"""The words of the product as data: scopes, calls, replies, and the snapshot that a call reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from time import monotonic
from types import MappingProxyType
from typing import Any

import msgspec

from trunkline.dialogue import PYTHON, SILENT, Answer, Ask, Caller, Listener, Parked, Question
from trunkline.identity import EVERYONE, Scope, owner_of, unit_name
from trunkline.tool import DIRECT, NO_OPTIONS, PROGRAM, UNKNOWN, Annotations, ToolOptions
from trunkline.trace import Trace

MOST_NOTES = 64
NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""Shared by all who have none: a call makes no object that it does not need."""


def _nothing() -> Mapping[Any, Any]:
    return NOTHING


class Reply(msgspec.Struct):
    """How a call ended, or what it needs before it can go on."""

    result: bytes = b""
    error: bytes = b""
    questions: Mapping[str, Question] = NOTHING
    parked: Parked | None = None
    modern: bool = True
    """The era of the server that spoke, so that an edge knows whether to translate."""
    server: str = ""
    """The server that spoke; empty for an answer that was kept."""
    asked: bool = False
    """Somebody answered questions on the way: it is theirs alone."""
    refused: tuple[Question, ...] = ()
    """With an error: what the server wanted to ask, and could not, because nobody on its connection can be asked."""
    failed: bool = False
    """The server answered that the tool itself failed."""


class Call(msgspec.Struct):  # one is made for each request, and a dataclass of so many fields takes five times as long
    """One use of a tool, a prompt or a resource, on its way down the stages."""

    method: str
    name: str
    """What the caller wants: the shown name of a tool or prompt, or the address of a resource."""
    params: dict[str, bytes]
    """The members of the params, each as it was sent."""
    scope: Scope = EVERYONE
    caller: Caller = PYTHON
    listener: Listener = SILENT
    timeout: float = 0.0
    """Seconds without a sign of life; 0 takes the server's own."""
    headers: Mapping[bytes, bytes] = NOTHING
    """`Mcp-Param-*` headers, which a relay must pass on even when it does not know them."""
    sent_headers: Mapping[bytes, bytes] | None = None
    """The headers it came with, which must agree with the arguments that they repeat; `None` where none are due."""
    snapshot: Snapshot | None = None
    """What was known when the call entered; set by the first stage, and the same until the last."""
    server: str = ""
    entry: Entry | None = None
    raw_params: bytes = b""
    """The params exactly as sent, while nothing had to be changed in them."""
    parked: Parked | None = None
    answers: Mapping[str, Answer] = NOTHING
    ask: Ask | None = None
    """Who answers questions while the call waits; without it they go to the edge, as part of the reply."""
    answer_here: Callable[[Any], Awaitable[Any]] | None = None
    """Who answers questions of the stages in this process, of whatever kind they are."""
    cached: bool = True
    """Whether an answer that is kept will do."""
    elsewhere: bool = False
    """Another server can take the call, so that a failed one need not be tried again."""
    with_tasks: bool = False
    """It goes on the connection where the tasks of its user live."""
    token: bytes = b""
    """The issuer's token of the caller, for an exchange alone: it is never sent to a server, logged or kept."""
    whole: bool = False
    """Its caller is a program that reads the result itself, however large it is."""
    by_search: bool = False
    """It came through `call_tool`: whoever made it may not have seen the tool's schema."""
    program: str = ""
    """The id of the program that makes it; empty for a call that is no program's."""
    agreed: bool = False
    """A person agreed to this very call already, and is not asked again."""
    unlisted: bool = False
    """It comes from a command of this machine, and may use what lists do not show."""
    notes: list[tuple[str, str, float]] | None = None
    """What stages noted on the way (what, how, and how long after it began), where somebody reads it."""
    began: float = 0.0
    """When it did, on the clock of this machine; set where somebody reads the notes."""
    traceparent: bytes = b""
    """What the HTTP request says of its trace; what the message says is in its `_meta`."""
    trace: Trace | None = None

    def __repr__(self) -> str:
        return f"Call({self.method!r}, {self.name!r})"  # what else it holds may be secret

    def note(self, what: str, how: str = "") -> None:
        """Say what a stage did; copies of a call have one list."""
        notes = self.notes
        if notes is not None and len(notes) < MOST_NOTES:
            notes.append((what, how, monotonic() - self.began))


class State(StrEnum):
    """How a server fares, in words for people."""

    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    UNREACHABLE = "unreachable"
    NEEDS_AUTHORIZATION = "needs-authorization"
    STOPPED = "stopped"


DOWNLOADING = "being downloaded"
"""Why a server is still starting, when `npx`, `uvx` or the like must fetch it first."""


class Kind(StrEnum):
    """What a server offers; the value is the member of the list result."""

    TOOL = "tools"
    PROMPT = "prompts"
    RESOURCE = "resources"
    TEMPLATE = "resourceTemplates"


LIST_METHODS = {
    Kind.TOOL: "tools/list",
    Kind.PROMPT: "prompts/list",
    Kind.RESOURCE: "resources/list",
    Kind.TEMPLATE: "resources/templates/list",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool, prompt, resource or template, as callers see it."""

    shown: str
    """The name (or address) that callers use."""
    server: str
    name: str
    """The server's own name (or address) for it."""
    definition: bytes
    """What lists show: the server's own bytes, but for the shown name."""
    headers: Mapping[tuple[str, ...], str] = field(default_factory=_nothing)
    """Arguments that travel in headers as well."""
    safe_to_repeat: bool = False
    """The tool only reads, whoever says so, or its server or operator says that calling twice is like calling once."""
    app_only: bool = False
    """Meant for an MCP App's own use, and not for models."""
    for_askable: bool = False
    """Offered only to callers that the server may ask something."""
    page: str = ""
    """The address of the MCP App that shows the tool's results."""
    tasks: str = ""
    """Whether a call of it runs as a task, as legacy servers say it: `optional`, `required`, or empty."""
    annotations: Annotations = UNKNOWN
    """How a tool behaves: what its server and the configuration say, and what can be told from its words."""
    options: ToolOptions = NO_OPTIONS
    """What the configuration says of a tool."""
    deferred: bool = False
    """Lists leave it out where callers can search."""
    callers: tuple[str, ...] = (DIRECT, PROGRAM)
    """Who may call it."""
    members: tuple[str, ...] = ()
    """Where `server` is a group: the servers of it that offer this."""
    changed: tuple[str, ...] = ()
    """What differs from the definition that was agreed to; lists show it with a mark."""
    held: str = ""
    """Why it is held back; such an entry is in no list, and says so to whoever calls it."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a server says of itself when we connect."""

    modern: bool = True
    version: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    info: bytes = b"{}"
    instructions: str = ""
    result: bytes = b""
    """Its whole answer to `initialize` or `server/discover`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One of a server's lists, as discovered."""

    items: tuple[bytes, ...] = ()
    extras: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Other members of the list result, such as `_meta`."""
    ttl: float = 0.0
    public: bool = False
    problem: str = ""
    """Why the list is incomplete; empty when it is whole."""
    for_askable: tuple[bytes, ...] = ()
    """What a legacy server lists only to callers that it may ask something."""
    dropped: str = ""
    """What was left out because nothing can be made of it; empty when nothing was."""
    varies: bool = False
    """A legacy server lists something else to callers that it may ask something."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """One server at one moment."""

    name: str
    state: State = State.STARTING
    reason: str = ""
    transport: str = ""
    address: str = ""
    introduction: Introduction | None = None
    lists: Mapping[Kind, Listing] = field(default_factory=dict[Kind, Listing])
    known_since: float = 0.0
    """When its lists were fetched, in seconds since the epoch; 0 when it was never reached."""
    timeout: float = 60.0
    max_timeout: float = 600.0
    concurrency: int = 0
    lasting: bool = True
    """Whether it outlives a call, so that a task can go on in it."""


@dataclass(frozen=True, slots=True)
class OfferSummary:
    """What views need to know of the tools of an offer."""

    unit: str
    """The name of who offers them; empty where there are none."""
    for_models: int
    """How many of them models are shown where they need not search."""
    size: int
    """Bytes of their definitions."""
    for_some: bool
    """Some are not for every caller."""
    defers: bool
    """Lists leave some out where callers can search."""
    limits: bool
    """Some say how large their results may be."""
    callers: Set[tuple[str, ...]]
    """Who may call them: each set of callers once."""


@dataclass(frozen=True, eq=False)
class Offer:
    """What one server, or one group, offers as callers see it: the same object for as long as nothing of it changes.

    So whoever makes something of it can keep that, and makes it anew only for what changed.
    """

    server: str
    tables: Mapping[Kind, Mapping[str, Entry]] = field(default_factory=_nothing)
    """Everything of each kind, by the shown name."""
    held: Mapping[Kind, Mapping[str, Entry]] = field(default_factory=_nothing)
    """What is held back of each kind, by the server's own name: it is in none of the tables."""

    def table(self, kind: Kind) -> Mapping[str, Entry]:
        """Everything of one kind, by the shown name."""
        return self.tables.get(kind, NOTHING)

    @property
    def tools(self) -> Mapping[str, Entry]:
        """Its tools, by the shown name."""
        return self.tables.get(Kind.TOOL, NOTHING)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Of a group: the servers that offer something of it."""
        entries = (entry for table in self.tables.values() for entry in table.values())
        return tuple(dict.fromkeys(member for entry in entries for member in entry.members))

    @cached_property
    def own(self) -> Mapping[Kind, Mapping[str, Entry]]:
        """Everything of each kind, by the server's own name for it."""
        return {kind: {entry.name: entry for entry in table.values()} for kind, table in self.tables.items()}

    @cached_property
    def summary(self) -> OfferSummary:
        """What there is to say of all its tools, each of which is looked at once."""
        for_models = size = 0
        for_some = defers = limits = False
        callers = set[tuple[str, ...]]()
        for tool in self.tools.values():
            if tool.app_only or tool.for_askable:
                for_some = True
            if tool.deferred:
                defers = True
            elif not tool.app_only:
                for_models += 1
                size += len(tool.definition)
            if tool.options is not NO_OPTIONS and tool.options.max_result_tokens:
                limits = True
            callers.add(tool.callers)
        name = unit_name(self.server) if self.tools else ""
        return OfferSummary(name, for_models, size, for_some, defers, limits, callers)

    @cached_property
    def pages(self) -> Mapping[str, Entry]:
        """Resources that its tools point to: the pages of MCP Apps."""
        return {
            tool.page: Entry(tool.page, tool.server, tool.page, b"", members=tool.members)
            for tool in self.tools.values()
            if tool.page
        }


@dataclass(frozen=True)
class Snapshot:
    """What the data path knows at one moment; a call reads one from entry to exit."""

    version: int = 0
    servers: Mapping[str, ServerView] = field(default_factory=dict[str, ServerView])
    offers: Mapping[str, Offer] = field(default_factory=dict[str, Offer])
    """What there is, by the server or group that offers it."""
    tools: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    prompts: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    resources: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    templates: tuple[Entry, ...] = ()
    owned: Mapping[str, Snapshot] = field(default_factory=_nothing)
    """What users have besides, by user: in none of the other members."""
    bare: str = ""
    """The one server that is shown as itself; empty when several are merged."""
    prefixes: Set[str] = frozenset()
    """What stands before the names of tools of servers that are or were there: no other server's name begins so."""
    problems: tuple[str, ...] = ()
    """Names that could not be shown, and why."""
    meant: dict[tuple[Kind, str], Entry] = field(default_factory=dict[tuple[Kind, str], Entry], compare=False)
    """What names that are not shown were found to mean."""

    @cached_property
    def unlisted(self) -> Mapping[str, Entry]:
        """Resources that a tool points to and no list shows: the pages of MCP Apps."""
        return {page: entry for offer in self.offers.values() for page, entry in offer.pages.items()}

    @cached_property
    def tool_names(self) -> tuple[str, ...]:
        """The names of all tools, in the order of the alphabet."""
        return tuple(sorted(self.tools))

    @property
    def missing(self) -> str:
        """Whose things are not listed, or may not work, in words; empty when every server is there."""
        away = [view for view in self.servers.values() if view.state not in (State.READY, State.DEGRADED)]
        told = "; ".join(f"{unit_name(view.name)} is {view.state.value}" for view in away)
        return f"Not everything is listed: {told}." if away else ""

    def offer(self, server: str) -> Offer | None:
        """What one server of everybody's or of some user's offers."""
        part = self._part_of(server)
        return part.offers.get(server) if part is not None else None

    @cached_property
    def all_servers(self) -> Mapping[str, ServerView]:
        """Everybody's servers and those of users."""
        if not self.owned:
            return self.servers
        return {**self.servers, **{name: one for own in self.owned.values() for name, one in own.servers.items()}}

    def server(self, name: str) -> ServerView | None:
        """One server of everybody's or of some user's."""
        part = self._part_of(name)
        return part.servers.get(name) if part is not None else None

    def _part_of(self, server: str) -> Snapshot | None:
        return self.owned.get(owner_of(server)) if owner_of(server) else self

    def since(self, before: Snapshot) -> Iterator[tuple[Snapshot, Snapshot]]:
        """What is otherwise than in an earlier snapshot, everybody's part or some user's: as it was, and as it is."""
        if self.servers is not before.servers:
            yield before, self
        if self.owned is before.owned:
            return
        for owner, part in self.owned.items():
            if before.owned.get(owner) is not part:
                yield before.owned.get(owner, EMPTY_SNAPSHOT), part
        for owner in before.owned.keys() - self.owned.keys():
            yield before.owned[owner], EMPTY_SNAPSHOT

    def entries(self, kind: Kind) -> tuple[Entry, ...]:
        """Everything of one kind, in a stable order."""
        match kind:
            case Kind.TOOL:
                return tuple(self.tools.values())
            case Kind.PROMPT:
                return tuple(self.prompts.values())
            case Kind.RESOURCE:
                return tuple(self.resources.values())
            case Kind.TEMPLATE:
                return self.templates


EMPTY_SNAPSHOT = Snapshot()


@dataclass(frozen=True)
class View:
    """What callers of one kind have at one moment, and how much of it lists show."""

    audience: Hashable
    """Which kind that is."""
    profile: str
    snapshot: Snapshot
    """All that they can use."""
    searching: bool = False
    """They are shown some tools, and search for the others."""
    programs: bool = False
    """They may run programs over tools."""
    coding: bool = False
    """They call what they find by programs alone, and read tools as functions."""
    tools: tuple[Entry, ...] = ()
    """The tools that are listed."""
    resources: tuple[Entry, ...] = ()
    """Resources of our own that are listed before those of the servers."""
    templates: tuple[Entry, ...] = ()
    reads_results: bool = False
    """Large results are kept aside for them, and they have the tools that read these."""
    own: bool = False
    """It is one caller's, or that of callers who can be asked the same: others of the profile see something else."""

    def entries(self, kind: Kind) -> tuple[Entry, ...]:
        """What a list of this kind shows."""
        match kind:
            case Kind.TOOL:
                return self.tools
            case Kind.RESOURCE:
                return self.resources + self.snapshot.entries(kind)
            case Kind.TEMPLATE:
                return self.templates + self.snapshot.entries(kind)
            case Kind.PROMPT:
                return self.snapshot.entries(kind)
