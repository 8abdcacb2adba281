"""The relay: joins the data path and the control path, and owns everything that lives."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from trunkline.balance.failover import RetryBudget
from trunkline.call.lanes import Lane, Lanes, Limits
from trunkline.call.links import Links
from trunkline.call.middleware.chain import ToolMiddleware
from trunkline.call.middleware.policy import Policy
from trunkline.call.results.kept import KeptResults
from trunkline.call.stage import Handler, Stage, join
from trunkline.call.stages.batch import BatchStage
from trunkline.call.stages.builtin import BuiltinStage, unwrap
from trunkline.call.stages.cache import CacheStage
from trunkline.call.stages.elicit import ElicitStage
from trunkline.call.stages.entry import EntryStage
from trunkline.call.stages.limits import LimitStage
from trunkline.call.stages.middleware import MiddlewareStage, outcome_of
from trunkline.call.stages.results import ResultsStage
from trunkline.call.stages.route import RouteStage
from trunkline.call.stages.send import SendStage
from trunkline.call.stages.tasks import TaskStage
from trunkline.call.suspended import Suspended
from trunkline.call.tasks.log import TaskLog
from trunkline.callers import Callers, Edge
from trunkline.config.options import Config, result_limits
from trunkline.config.server import ServerSpec
from trunkline.config.tenancy import LimitsSection
from trunkline.control.fleet import Fleet
from trunkline.control.history import History
from trunkline.control.item import options_of
from trunkline.control.list_store import ListStore
from trunkline.control.own_lists import OwnLists
from trunkline.control.own_subscriptions import OwnSubscriptions
from trunkline.control.registry import Changed, OwnedChanged, Registry
from trunkline.control.signing_in import SigningIn
from trunkline.control.tenants import Tenants
from trunkline.control.views import Views
from trunkline.errors import ConfigError, ServerRefusedError, StoreError, UpstreamError
from trunkline.finding import Finding
from trunkline.following import Following
from trunkline.identity import Scope
from trunkline.model import Answer, Call, Caller, Introduction, Parked, Reply, ServerView, Snapshot
from trunkline.recording import Recording
from trunkline.sandbox.programs import Programs
from trunkline.sandbox.runtime import is_installed
from trunkline.storage.files import seal_key
from trunkline.storage.store import Change
from trunkline.tasks import Tasks, open_tasks
from trunkline.telemetry.savings import Savings
from trunkline.telemetry.tally import Tallies
from trunkline.tenancy.limits import Limiter
from trunkline.tenancy.tenancy import Tenancy
from trunkline.tool import NO_OPTIONS, ToolOptions, ToolResult
from trunkline.tools.builtin import CALL
from trunkline.upstream.connection import Connection
from trunkline.upstream.connection_key import ConnectionKey
from trunkline.upstream.exchange import Exchange
from trunkline.upstream.local import Mounted
from trunkline.upstream.pool import Pool, PoolEvents, open_pool
from trunkline.wire.questions import not_asked, read_input_required
from trunkline.wire.seal import Seal

if TYPE_CHECKING:
    from trunkline.authoring.server import MCPServerBase

Heard = Callable[[str, str, str, bytes], None]
"""Takes what a server said outside a call: server, owner of the connection or empty, method, params."""

_CHANGES = ("list_changed", "resources/updated")
"""After these, what a server said before may no longer be true."""


class Relay:
    """Every configured server behind one line of stages. Open it with `open_relay`."""

    def __init__(self, config: Config, tasks: Tasks, edge: Edge, tenancy: Tenancy) -> None:
        self.config, self.tenancy, self._tasks, self._edge = config, tenancy, tasks, edge
        self._mounted: dict[str, ServerSpec] = {}
        self._added: dict[str, ServerSpec] = {}  # what was mounted or registered
        self._applying, self._links = asyncio.Lock(), Links()
        self._registry = Registry(config, tasks, self._learn, lambda: tenancy.opened)
        self._views, self.trust = Views(config, programs=is_installed()), self._registry.trust
        self._fleet = Fleet(self._registry, ListStore(config.home), tasks)
        self._own_lists = OwnLists(self._fleet, self._views, tasks, self._registry)
        self.own_subscriptions = OwnSubscriptions(self._fleet, tasks)
        """What callers follow on connections of their own."""
        self.signing_in = SigningIn(tenancy.sign_ins, self._fleet, self._own_lists, tasks)
        """Signs callers in to servers."""
        self.tenants = Tenants(tenancy.servers, self._fleet, self._registry, lambda: self.config, self.apply)
        """Servers that were registered at run time, and the users who are here."""
        self.limiter = Limiter(config.limits)
        """What callers used of what they may."""
        seen, came = (self._registry, self._fleet, self._views, self._own_lists), self.limiter.learn
        self._callers = callers = Callers(lambda: self.config, tenancy, self.tenants, self.signing_in, seen, came)
        self.knows, self.welcome, self.settle = callers.knows, callers.welcome, callers.settle
        self.scope_of, self.in_thread, self.wants_user = callers.scope_of, callers.in_thread, callers.wants_user
        self.view, self.view_for, self.listed_for = callers.view, callers.view_for, callers.listed_for
        following = Following(callers, self._fleet, self._own_lists, self.own_subscriptions, self._links)
        self.watch, self.unwatch = following.watch, following.unwatch
        self.follow_task, self.unfollow_task = following.follow_task, following.unfollow_task
        self.finding = Finding(lambda: self.config, callers, lambda: self.snapshot, tasks)
        """Finds tools for callers, and learns from what they call."""
        self.find, self.keep_index = self.finding.find, self.finding.keep_index
        self._hearers, self._followers = list[Heard](), list[Callable[[Snapshot], None]]()
        self.history = History(config.home / "history", tasks=tasks)
        """How the servers' tools changed, across restarts."""
        self.middlewares: list[ToolMiddleware] = []
        """What runs around every call of a tool, the outermost first."""
        self.tallies = Tallies(time.monotonic)
        """How calls went, by server and by tool."""
        self.savings = Savings()
        """What callers were spared who search."""
        self.recording = Recording(config, self.savings, watched=edge.watched)
        """What is known of calls that run, and of those that ended."""
        self.programs = Programs(lambda: self.config, self, callers, tenancy, tasks, self.savings)
        """Runs programs over tools."""
        self._cache: CacheStage | None = None
        self.results = KeptResults(config.home)
        """Results that were too large to be shown."""
        self._routes, self._lanes = RouteStage({}, config.router), Lanes(self._limits)
        self.task_log = TaskLog(Seal(lambda: seal_key(config.home)))
        self._task_stage = TaskStage(
            self.task_log, tasks, most=config.gateway.max_parked, seconds=config.gateway.question_timeout
        )

    def _join(self) -> None:
        """Join the stages: the one place where their order is written. Calls under way keep those they began with."""
        config, fleet = self.config, self._fleet
        if (config.groups, config.router) != (self._routes.groups, self._routes.config):
            self._routes = RouteStage(config.groups, config.router)
        self._cache = CacheStage(config.cache, self._unit, self._identity) if config.cache.enabled else None
        budget = RetryBudget(ratio=config.router.retry_ratio)
        policy = Policy(config.middleware, self.middlewares, budget, self.recording.require)
        self._lanes.refresh()
        self.results.configure(config.results)
        self.stages: tuple[Stage, ...] = (
            *self.recording.stages(),
            *((ResultsStage(config, self.results, self.view_for, self.savings),) if result_limits(config) else ()),
            BuiltinStage(self.view_for, self.finding.find_for, config, self.savings, self.programs.answer),
            EntryStage(self.view_for, self._callers.settle_for, self._options, self._links),
            *((LimitStage(self.limiter),) if self.tenancy.is_open or config.limits != LimitsSection() else ()),
            MiddlewareStage(policy, self._tasks, self._edge.open_page),
            *((self._cache,) if self._cache is not None else ()),
            *((self._routes,) if config.groups else ()),
            ElicitStage(self.withdraw, self.tenancy.sign_ins.wait, self._tasks),
            self._task_stage,
            BatchStage(self._lanes, coalesce=config.batcher.coalesce),
            SendStage(fleet.pool, fleet.specs, fleet.report, self.tallies, self.finding.learn, self.signing_in.needed),
        )
        self.handle: Handler = join(self.stages)
        """Passes one call through the stages."""

    # Calls.

    def enter(self, call: Call) -> Call:
        """Take a call as its caller means it: one of `call_tool` is a call of the tool that it names."""
        if call.name == CALL:
            unwrap(call, self.view_for(call.scope, call.caller))
        return call

    async def outcome(self, call: Call) -> ToolResult:
        """Take a call of a tool to its end; questions that nobody in it answers are refused."""
        reply = await self.handle(call)
        while reply.questions and reply.parked is not None:
            refused = {key: not_asked(question) for key, question in reply.questions.items()}
            reply = await self.resume(call, reply.parked, refused)
        if reply.modern and read_input_required(reply.result) is not None:
            raise ServerRefusedError(f"Tool {call.name!r} asks a question, and nobody is there to answer.", code=-32603)
        return outcome_of(reply)

    async def resume(self, call: Call, parked: Parked, answers: Mapping[str, Answer]) -> Reply:
        """Give a call that asked something its answers."""
        call.parked, call.answers = parked, answers
        return await self.handle(call)

    def withdraw(self, parked: Parked | None) -> None:
        """Nobody will answer: the server is told that the call is off."""
        if isinstance(parked, Suspended):
            parked.withdraw()
        elif isinstance(parked, Exchange):
            connection = cast("Connection", parked.connection)
            connection.cancel(parked, "Nobody answered the question.")
            self._fleet.pool.give_back(connection, clean=False)

    # What is known.

    @property
    def snapshot(self) -> Snapshot:
        """What is known at this moment."""
        return self._registry.snapshot

    def servers(self) -> list[ServerView]:
        """Every server, those of users included, and how it fares."""
        return list(self.snapshot.all_servers.values())

    async def ready(self, seconds: float, *, downloads: bool = False) -> None:
        """Wait until every server was reached or failed once, at most so long; longer for what is being downloaded."""
        await self._fleet.ready(seconds, downloads=downloads)
        await self._registry.published()

    async def introduction_for(self, scope: Scope, caller: Caller) -> Introduction | None:
        """What the one server of bare mode says of itself to such a caller; `None` when nothing is known of it."""
        view, spec = self.snapshot.servers.get(self.snapshot.bare), self._fleet.specs.get(self.snapshot.bare)
        if spec is None or view is None:
            return None
        if spec.lifecycle == "transient":
            return view.introduction
        try:
            return (await self._fleet.pool.take(spec, scope, caller)).introduction
        except UpstreamError:
            return view.introduction

    def last_words(self, server: str) -> str:
        """What a server last wrote to its standard error: for its operator, not for callers."""
        return self._fleet.last_words(server)

    def lane(self, server: str) -> Lane:
        """How many calls a server has, and how many wait."""
        return self._lanes.of(server)

    def group_of(self, server: str) -> dict[str, str]:
        """The group that a server is in, and how it fares there; empty when it is in none."""
        for name, router in self._routes.routers.items():
            state = router.states().get(server)
            if state is not None:
                return {"name": name, "health": state.phase.value}
        return {}

    @property
    def cache_stats(self) -> dict[str, Any] | None:
        """How well the cache does; `None` when there is none."""
        return dataclasses.asdict(self._cache.cache.get_stats()) if self._cache is not None else None

    # What happens outside calls.

    def on_change(self, listener: Changed) -> Callable[[], None]:
        """Hear which lists changed; call what is returned to stop."""
        return self._registry.listen(listener)

    def on_owned_change(self, listener: OwnedChanged) -> Callable[[], None]:
        """Hear whose own lists changed, and which; call what is returned to stop."""
        return self._registry.listen_owned(listener)

    def on_heard(self, listener: Heard) -> Callable[[], None]:
        """Hear what servers say outside calls; call what is returned to stop."""
        self._hearers.append(listener)
        return lambda: self._hearers.remove(listener) if listener in self._hearers else None

    def follow(self, follower: Callable[[Snapshot], None]) -> Callable[[], None]:
        """Have every snapshot from now on, and the present one; call what is returned to stop."""
        self._followers.append(follower)
        follower(self.snapshot)
        return lambda: self._followers.remove(follower) if follower in self._followers else None

    def notify_session(self, session: str, method: str, params: bytes) -> None:
        """Tell the servers on the connections of a session something, such as that its roots changed."""
        for connection in self._fleet.pool.of_session(session):
            connection.notify(method, params)

    async def end_session(self, session: str) -> None:
        """A caller left for good, and with it the connections that were its own."""
        await self._fleet.pool.end_session(session)

    # Servers come and go.

    async def apply(self, config: Config | None = None) -> list[str]:
        """Take on another configuration, or what was registered since; two at once wait for each other."""
        async with self._applying:
            return await self._take_on(config or self.config)

    async def _take_on(self, config: Config) -> list[str]:
        """Leave servers alone that did not change; what the configuration has counts more than what was registered."""
        own = {name: spec for name, spec in config.servers.items() if spec is not self._added.get(name)}
        registered, said = self.tenants.everybodys(config), self.config.tools
        self._added = {**registered, **self._mounted}
        config = dataclasses.replace(config, servers={**registered, **own, **self._mounted})
        wanted = {name: spec for name, spec in config.servers.items() if self.tenants.is_on(spec)}
        left = await self._fleet.dismiss(wanted)
        for name in left:
            self.tallies.forget(name)
        await self._registry.published()  # whoever comes back under its name starts afresh
        self.config = config
        self.finding.configure()
        self.recording.configure(config)
        came = await self._fleet.enlist(wanted)
        self._join()
        self._views.configure(config)
        self.limiter.configure(config.limits)
        self.programs.configure()
        self._registry.configure(config)
        if config.tools != said:
            await self.tenants.reconsider()
        await self._registry.published()
        news = [f"{'changed' if name in wanted else 'removed'} {name}" for name in left]
        return news + [f"added {name}" for name in came if name not in left]

    def configured(self) -> set[str]:
        """Names that the configuration has taken."""
        own = {name for name, spec in self.config.servers.items() if spec is not self._added.get(name)}
        return own | self._mounted.keys() | self.config.groups.keys()

    async def mount(self, server: MCPServerBase, name: str) -> None:
        """Take in a server of this process; what was started here is stopped when it is unmounted."""
        if name in self.config.servers or name in self.config.groups:
            raise ConfigError(f"There already is a server or a group {name!r}.", hint="Mount it under another `name`.")
        ran = server.running
        await server.start()
        self._mounted[name] = ServerSpec(name, local=Mounted(server, stops=not ran))
        await self.apply()
        supervisor = self._fleet.supervisor(name)
        if supervisor is not None:  # nobody unmounted it meanwhile
            await supervisor.first_try.wait()
            await self._registry.published()

    async def unmount(self, name: str) -> None:
        """Let go of a mounted server; its calls under way end."""
        spec = self._mounted.pop(name, None)
        if spec is None:
            raise ConfigError(f"No server {name!r} is mounted.", hint="`mount` says under which name it was.")
        mounted: Mounted = spec.local
        mounted.gone = True
        await self.apply()
        if mounted.stops:
            await mounted.server.stop("It was unmounted.")

    # What the stages and the control path want to know.

    def _learn(self, snapshot: Snapshot) -> None:
        self._routes.learn(snapshot)
        self.finding.follow()
        self.history.follow(snapshot)
        for follower in tuple(self._followers):
            follower(snapshot)

    def _options(self, server: str, tool: str) -> ToolOptions:
        spec = self._fleet.specs.get(server)
        return options_of(tool, spec.tools) if spec is not None else NO_OPTIONS

    def _unit(self, server: str) -> str:
        """The name that a server is shown under: its group's, or its own."""
        return next((group.name for group in self.config.groups.values() if server in group.servers), server)

    def _identity(self, name: str) -> str:
        """Changes with the configuration of a server, or of any in a group."""
        group = self.config.groups.get(name)
        specs = [self._fleet.specs.get(server) for server in (group.servers if group else (name,))]
        return " ".join(spec.fingerprint for spec in specs if spec is not None)

    def _limits(self, server: str) -> Limits:
        spec, batcher = self._fleet.specs.get(server), self.config.batcher
        per_user = self.config.limits.running_per_server
        return Limits(spec.concurrency if spec else 1, batcher.max_queue, batcher.max_wait, per_user)

    def _hear(self, key: ConnectionKey, method: str, params: bytes) -> None:
        """A server said something outside a call."""
        if self._cache is not None and method.startswith("notifications/") and method.endswith(_CHANGES):
            self._cache.forget(key.server)
        self._fleet.hear(key, method, params)
        self._own_lists.hear(key, method)
        for hearer in list(self._hearers):
            hearer(key.server, key.owner, method, params)

    def _woke(self, key: ConnectionKey) -> None:
        self._fleet.woke(key)
        self.own_subscriptions.woke(key)

    # Called by `open_relay`.

    def events(self) -> PoolEvents:
        """What the pool tells us."""
        idle = lambda: self.config.gateway.session_idle  # noqa: E731
        quota = self._fleet.quota(self.limiter.connections, self.limiter.no_connection)
        came = self._fleet.downloading, idle, self._own_lists.forget, quota, self.recording.process_started
        return PoolEvents(self._hear, self._woke, self._edge.ask_session, *came)

    def attach(self, pool: Pool) -> None:
        """Calls go to the servers of this pool."""
        self.pool = pool
        self._fleet.attach(pool)
        self._join()

    async def start(self) -> None:
        """Run what was registered, and hear of what is registered from now on."""
        self.tenancy.on_change(self._tenancy_changed)
        self.tenancy.people.on_change(self._admissions_changed)
        self.tenancy.sign_ins.replaced = lambda server: self._cache and self._cache.forget(server)
        self._tasks.start(self.limiter.keep(self.tenancy.store, lambda: self.tenancy.is_open), name="limits")
        self._tasks.start(self.results.sweep(), name="results that were left")
        self._tasks.start(self.tenants.sweep(self._edge.is_present), name="users who left")
        if self.tenancy.is_open:
            await self._tenancy_changed(None)

    def _admissions_changed(self, user: str, key: str, now: Scope | None) -> None:
        """Somebody who is gone leaves nothing to whoever is given the name next."""
        self.limiter.learn(now or Scope(user=user))
        if not key:
            memories = self.tallies, self.savings, self.limiter, self._links, self.finding, self._cache, self.recording
            for memory in (*memories, self.programs, self.results):
                if memory is not None:
                    memory.forget_user(user)
            self._tasks.start(self.tenants.forget(user), name="a user left")
            self._tasks.start(self._fleet.pool.end_user(user), name="a user's connections")

    async def _tenancy_changed(self, changes: Sequence[Change] | None) -> None:
        if changes is None:
            self._join()
            await self.limiter.load(await self.tenancy.store())
        await self.tenants.follow(changes)

    async def close(self) -> None:
        """End what is our own, and the servers that were mounted."""
        await self.programs.close()
        self.own_subscriptions.close()
        self.results.close()
        if self.tenancy.is_open:
            with suppress(StoreError):
                await self.limiter.save(await self.tenancy.store())
        for name in list(self._mounted):
            await self.unmount(name)
        await asyncio.gather(self.history.close(), self.trust.close(), self.recording.close())


@asynccontextmanager
async def open_relay(config: Config, edge: Edge, tenancy: Tenancy) -> AsyncGenerator[Relay]:
    """A relay for the body; with it end all servers."""
    async with open_tasks() as tasks:
        relay = Relay(config, tasks, edge, tenancy)
        async with open_pool(relay.events(), tenancy.sign_ins.authorize) as pool:
            relay.recording.start(tasks, tenancy)
            relay.attach(pool)
            await relay.tenants.look_at_switches()
            await relay.apply(config)
            await relay.start()
            try:
                yield relay
            finally:
                await relay.close()
                await tasks.close()
