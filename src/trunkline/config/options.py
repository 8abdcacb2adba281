"""What Trunkline can be told. An option is one field: its key, variable, flag and documentation come from there."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from trunkline.config.edge import EdgeSection
from trunkline.config.programs import ProgramsSection
from trunkline.config.records import AuditSection, CallsSection, MetricsSection, TracesSection
from trunkline.config.server import ServerSpec, TrustMode
from trunkline.config.tenancy import DiscoverySection, IssuerSpec, LimitsSection, StoreConfig
from trunkline.tool import ToolOptions

Expose = Literal["auto", "all", "search", "code"]
SearchStrategy = Literal["regex", "bm25", "semantic", "hybrid"]


@dataclass(frozen=True)
class GatewayConfig:
    """`[gateway]`: where and for whom Trunkline listens."""

    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback a `token` is required."""
    port: int = 7420
    """Port to listen on; 0 takes a free one."""
    token: str = field(default="", repr=False)
    """Bearer token that callers must send; empty asks for none. Write `${env:NAME}` to keep it out of the file."""
    public_url: str = ""
    """Where people and clients reach Trunkline, such as `https://mcp.example.org`; default is where it listens."""
    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Callers that are kept apart, each with a token of its own: `ana = "${env:ANA_TOKEN}"`."""
    allow_anonymous: bool = False
    """On loopback, let callers in without a key although there are users."""
    allow_commands: bool = False
    """Let admins register servers over the admin API that are started here; else commands stand in this file alone."""
    allow_private: bool = False
    """Let members register servers on loopback and private networks; else at public addresses alone."""
    allowed_hosts: tuple[str, ...] = ()
    """Further `Host` names to accept, such as `mcp.example.org` or `mcp.example.org:8443`; loopback ones always are."""
    allowed_origins: tuple[str, ...] = ()
    """Further web origins to accept, such as `https://app.example.org`, whose pages may then read what `/mcp` answers.
    Requests from loopback ones are always accepted, but their pages read nothing unless they are named here."""
    namespace: Literal["auto", "always", "never"] = "auto"
    """`always` shows `server__tool`, `never` the bare name, `auto` prefixes as soon as there are two servers."""
    conflicts: Literal["namespace", "first-wins", "last-wins", "error"] = "namespace"
    """What happens to equal names without a prefix: prefix those, keep the first or last server's, or show none."""
    prefer: tuple[str, ...] = ()
    """Servers that win a conflict of names, in this order, before `conflicts` is asked."""
    trust: TrustMode = "flag"
    """What becomes of definitions that servers change: served with a mark, held until approved, or followed."""
    expose: Expose = "auto"
    """`all` lists every tool, `search` those pinned with `search_tools` and `call_tool`, `code` those pinned with
    `search_tools` and `run_code`; `auto` decides by their number, and adds `run_code` where that saves tokens."""
    expose_limit: int = 30
    """Tools that `auto` lists; beyond so many, callers search."""
    pinned: tuple[str, ...] = ()
    """Tools that are listed where callers search as well, by the names they see or patterns: `github__*`."""
    page_size: int = 1000
    """Entries in one page of a list."""
    settle: float = 0.3
    """Seconds that a first list waits for servers of which nothing is known yet."""
    body_limit: int = 4 * 2**20
    """Bytes that a caller's message may have."""
    header_timeout: float = 10.0
    """Seconds in which a request's headers and body must have arrived."""
    keep_alive: float = 75.0
    """Seconds an idle connection is kept open."""
    write_timeout: float = 30.0
    """Seconds after which a caller that reads nothing of its answer is let go."""
    unsent_limit: int = 64 * 2**20
    """Bytes of answers that may wait for callers to read them, over all connections; beyond it the largest go."""
    max_connections: int = 2000
    """Connections that may be open at once; a further one takes an idle one's place, or is refused with 503."""
    max_sessions: int = 10000
    """Sessions of legacy callers; beyond it the one idle longest is ended."""
    session_idle: float = 1800.0
    """Seconds after which an idle session ends."""
    replay_events: int = 500
    """Events kept for each session, so that a caller that lost its stream can resume it."""
    console_idle: float = 3600.0
    """Seconds after which a browser that nobody uses is signed out of the console."""
    console_longest: float = 43200.0
    """Seconds after which a browser is signed out of the console in any case."""
    question_timeout: float = 300.0
    """Seconds a caller has to answer a server's question."""
    max_parked: int = 1000
    """Calls of one user that may wait for an answer to a server's question at once; modern callers."""
    drain: float = 10.0
    """Seconds that calls in flight get to finish when Trunkline is asked to stop."""
    log_format: Literal["text", "json"] = "text"
    """How the log is written: `text` for people, `json` for programs, one object on each line."""


Choice = Literal["round-robin", "least-loaded", "capability-based", "priority", "random", "weighted", "failover-only"]
Strategy = Literal[Choice, "affinity"]


@dataclass(frozen=True)
class GroupSpec:
    """`[groups.NAME]`: equal servers that share calls, and are shown as one under the group's name."""

    name: str = ""
    servers: tuple[str, ...] = ()
    """The servers, each with an entry of its own under `[servers]`."""
    strategy: Literal[""] | Strategy = ""
    """How one is chosen; default is `[router]`'s."""
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Share of the calls that each gets. If any is given, 50 or more means primary: destructive calls go there."""
    priorities: Mapping[str, int] = field(default_factory=dict[str, int])
    """Order with `failover-only`: the lowest that is well gets every call."""


@dataclass(frozen=True)
class ProfileSpec:
    """`[profiles.NAME]`: what callers at `/mcp/NAME` have; what it does not say is as at `/mcp`."""

    name: str = ""
    expose: Literal[""] | Expose = ""
    """How tools are shown; default is the gateway's."""
    pinned: tuple[str, ...] = ()
    """Tools that are listed where callers search as well; default is the gateway's."""
    servers: tuple[str, ...] = ()
    """Servers and groups it has, with all that they offer; default is every one."""
    hidden: tuple[str, ...] = ()
    """Tools it does not have, by the names that callers see or patterns: `*__delete_*`."""
    max_result_tokens: int | None = None
    """Tokens of a result that callers are shown whole; default is `max_tokens` of `[results]`, 0 shows all whole."""


@dataclass(frozen=True)
class RegistrySpec:
    """`[registries.NAME]`: a registry that `trunkline registry` and `install` ask, beside the official one."""

    name: str = ""
    url: str = ""
    """Where it is; it speaks the API of the official one. `[registries.official]` needs none."""
    token: str = field(default="", repr=False)
    """Bearer token that it wants. Write `${secret:NAME}` to keep it out of the file."""
    whole: bool | None = None
    """Whether all of it is read, rather than asked for words; default is yes, but for the official one."""
    enabled: bool = True
    """`false` asks it no more, which works for `official` too."""
    problem: str = ""


@dataclass(frozen=True)
class SearchSection:
    """`[search]`: how tools are found, by `search_tools`, `hub.find` and `trunkline search`."""

    strategy: SearchStrategy = "hybrid"
    """`bm25` goes by words, `semantic` by meaning, `hybrid` by both; meaning needs `trunkline[semantic]`."""
    limit: int = 5
    """Tools that `search_tools` gives for each query, unless it is asked for another number."""
    min_score: float = 0.25
    """What fits less, from 0 to 1, is not found."""
    budget: int = 4000
    """Tokens that an answer of `search_tools` may have; definitions that do not fit are shortened."""
    learn: bool = True
    """Of tools that fit alike, put those first that lately served the same user and thread."""
    query_timeout: float = 0.3
    """Seconds that a search waits for the vector of its query before it goes by words alone."""
    embeddings_url: str = ""
    """A service that makes vectors instead of the built-in model, such as `https://api.example.org/v1/embeddings`."""
    embeddings_model: str = ""
    """The model that it is asked for."""
    embeddings_token: str = field(default="", repr=False)
    """Its bearer token. Write `${env:NAME}` to keep it out of the file."""


@dataclass(frozen=True)
class ResultsSection:
    """`[results]`: large results are kept aside; callers get a preview, and tools to read the rest."""

    max_tokens: int = 0
    """Tokens of a tool's result that callers are shown whole; of a larger one they get a preview. 0 shows all whole."""
    preview_tokens: int = 600
    """Tokens that a preview may have."""
    ttl: float = 3600.0
    """Seconds that a result is kept."""
    user_bytes: int = 64 * 2**20
    """Bytes that are kept of one user's results; beyond it the oldest go."""
    max_bytes: int = 512 * 2**20
    """Bytes that are kept of all together; beyond it the oldest go of whoever has most."""
    memory_bytes: int = 256 * 2**10
    """Larger ones are kept in a file below the home folder instead of in memory."""


CacheStrategy = Literal["lru", "fifo", "lfu"]


@dataclass(frozen=True)
class CacheSection:
    """`[cache]`: answers of tools that only read what does not change by itself are kept a while, for each user."""

    enabled: bool = False
    """Keep answers at all. What a server says of its answer (`ttlMs`) counts first, and for resources alone."""
    ttl: float = 30.0
    """Seconds that a tool's answer is kept if its server says nothing; 0 keeps only what servers say may be kept."""
    max_size: int = 500
    """Answers that are kept."""
    max_bytes: int = 64 * 2**20
    """Bytes that they may have together."""
    strategy: CacheStrategy = "lru"
    """Which one leaves when there are too many: least recently used, oldest, least frequently used."""
    clear_on_write: bool = True
    """Forget a server's answers when a tool of it is called that may change something."""


@dataclass(frozen=True)
class RoutingOptions:
    """What `[router]` has in common with the options of a router of one's own."""

    strategy: Strategy = "least-loaded"
    """How one is chosen, unless the group says otherwise."""
    enable_affinity: bool = False
    """Keep a session, or else a user, on the server that it had before."""
    affinity_ttl: float = 1800.0
    """Seconds after which an unused affinity is forgotten."""
    category_mapping: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Servers that calls of a category of tools go to, where they are well."""
    fallback_strategy: Choice = "round-robin"
    """How the next one is chosen after a server failed a call."""
    max_retries: int = 3
    """Further servers that a call is tried on, if nothing happened or if repeating it does no harm."""
    retry_ratio: float = 0.2
    """Share of calls that may be tried again, so that a broken server does not double the load of the others."""
    destructive_fallback: bool = False
    """Let destructive calls go to servers that are not primary (weight 50 or more) when no primary is well."""


@dataclass(frozen=True)
class RouterSection(RoutingOptions):
    """`[router]`: how calls are shared among the servers of a group."""

    eject_after: int = 5
    """Failures in a row after which a server gets no calls for a while."""
    eject_error_rate: float = 0.5
    """Share of failures, of at least ten calls, after which the same happens."""
    eject_seconds: float = 30.0
    """How long the first time; then one call is tried, and each further failure doubles it, up to five minutes."""
    slow_start: float = 30.0
    """Seconds in which a server that came back grows to its full share of the calls."""


@dataclass(frozen=True)
class BatcherSection:
    """`[batcher]`: calls that wait because their server already works on as many as its `concurrency` allows."""

    max_queue: int = 256
    """Calls that may wait for one server, each user in turn; further ones are refused at once."""
    max_wait: float = 10.0
    """Seconds that a call waits; then it is refused."""
    coalesce: bool = False
    """Let equal calls that only read, made by one user at the same time, share one answer."""


@dataclass(frozen=True)
class AnnotationsSection:
    """`[annotations]`: what is known of how tools behave."""

    auto_infer: bool = True
    """Tell from a tool's words what its server does not say; what is in doubt is never called safe."""


@dataclass(frozen=True)
class MiddlewareSection:
    """`[middleware]`: what happens around every call of a tool. Each tool may differ: `[servers.NAME.tools.TOOL]`."""

    logging: bool = False
    """One line in the log for each call: tool, server, user, duration, outcome; never arguments."""
    confirm: Literal["marked", "destructive", "writes", "never"] = "marked"
    """Calls a person must agree to: of tools that you or their server mark (`requires_confirmation`); also destructive
    ones; also all writes. How it comes out is what `hub.annotations` and `trunkline annotate` show."""
    confirm_timeout: float = 60.0
    """Seconds a person has to agree; no answer means no."""
    validate: bool = False
    """Check arguments against the tool's schema before the server sees them."""
    elicit_missing: bool = False
    """Ask for required arguments that are missing, where somebody can be asked."""
    timeout: float = 0.0
    """Seconds a call may take, questions and retries included; 0 leaves it to the server's `timeout`."""
    retries: int = 0
    """How often a call that is safe to repeat is tried again after a passing failure."""
    retry_delay: float = 1.0
    """Seconds before the first retry, at most; doubled for each further one, with jitter."""


@dataclass(frozen=True)
class Config:
    """Everything Trunkline was told."""

    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    servers: Mapping[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    groups: Mapping[str, GroupSpec] = field(default_factory=dict[str, GroupSpec])
    profiles: Mapping[str, ProfileSpec] = field(default_factory=dict[str, ProfileSpec])
    registries: Mapping[str, RegistrySpec] = field(default_factory=dict[str, RegistrySpec])
    tools: Mapping[str, ToolOptions] = field(default_factory=dict[str, ToolOptions])
    """What is said of tools of every server; the servers of the file have it among their own."""
    discovery: DiscoverySection = field(default_factory=DiscoverySection)
    issuers: Mapping[str, IssuerSpec] = field(default_factory=dict[str, IssuerSpec])
    search: SearchSection = field(default_factory=SearchSection)
    annotations: AnnotationsSection = field(default_factory=AnnotationsSection)
    middleware: MiddlewareSection = field(default_factory=MiddlewareSection)
    cache: CacheSection = field(default_factory=CacheSection)
    results: ResultsSection = field(default_factory=ResultsSection)
    router: RouterSection = field(default_factory=RouterSection)
    batcher: BatcherSection = field(default_factory=BatcherSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    calls: CallsSection = field(default_factory=CallsSection)
    traces: TracesSection = field(default_factory=TracesSection)
    edge: EdgeSection = field(default_factory=EdgeSection)
    programs: ProgramsSection = field(default_factory=ProgramsSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    audit: AuditSection = field(default_factory=AuditSection)
    store: StoreConfig = field(default_factory=StoreConfig)
    home: Path = field(default_factory=lambda: default_home(os.environ))
    source: Path | None = None


SECTIONS: Mapping[str, type[Any]] = {
    "gateway": GatewayConfig,
    "search": SearchSection,
    "annotations": AnnotationsSection,
    "middleware": MiddlewareSection,
    "cache": CacheSection,
    "results": ResultsSection,
    "router": RouterSection,
    "batcher": BatcherSection,
    "discovery": DiscoverySection,
    "limits": LimitsSection,
    "calls": CallsSection,
    "traces": TracesSection,
    "edge": EdgeSection,
    "programs": ProgramsSection,
    "metrics": MetricsSection,
    "audit": AuditSection,
    "store": StoreConfig,
}
"""Tables of the file that hold options of their own; each is a field of `Config`."""

HIDDEN_FIELDS = ("name", "problem", "local")
"""Fields that are not options."""


def default_home(env: Mapping[str, str]) -> Path:
    """Where state lives."""
    return Path(env.get("TRUNKLINE_HOME") or Path(env.get("HOME", "~")).expanduser() / ".local/share/trunkline")


def result_limits(config: Config) -> list[int]:
    """Every limit to what is shown of a result; none where all are shown whole."""
    said = [config.results.max_tokens, *(profile.max_result_tokens for profile in config.profiles.values())]
    tools = (*config.tools.values(), *(tool for spec in config.servers.values() for tool in spec.tools.values()))
    return [limit for limit in (*said, *(tool.max_result_tokens for tool in tools)) if limit]


def options(section: type[Any]) -> list[tuple[dataclasses.Field[Any], str]]:
    """The options of a section with their documentation, which stands below each field."""
    import ast
    import inspect

    bodies = (ast.parse(inspect.getsource(part)).body[0] for part in section.__mro__[-2::-1])
    documents: dict[str, str] = {}
    for here, below in (pair for body in bodies for pair in itertools.pairwise(cast("ast.ClassDef", body).body)):
        if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name) and isinstance(below, ast.Expr):
            documents[here.target.id] = " ".join(str(cast("ast.Constant", below.value).value).split())
    return [(f, documents.get(f.name, "")) for f in dataclasses.fields(section) if f.name not in HIDDEN_FIELDS]
