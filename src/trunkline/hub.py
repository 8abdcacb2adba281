"""The library's front door: joins the data path and the control path, and owns everything that lives."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from trunkline.balance.budget import RetryBudget
from trunkline.call.lanes import Lane, Lanes, Limits
from trunkline.call.middleware.chain import ToolMiddleware
from trunkline.call.middleware.policy import Policy
from trunkline.call.stage import Stage, join
from trunkline.call.stages.batch import BatchStage
from trunkline.call.stages.builtin import BuiltinStage, unwrap
from trunkline.call.stages.cache import CacheStage
from trunkline.call.stages.elicit import ElicitStage
from trunkline.call.stages.entry import EntryStage, find_resource, unknown
from trunkline.call.stages.middleware import MiddlewareStage, result_of
from trunkline.call.stages.route import RouteStage
from trunkline.call.stages.send import SendStage
from trunkline.call.stages.tasks import TaskStage
from trunkline.call.suspended import Suspended
from trunkline.call.tasks.log import At, Task, TaskLog
from trunkline.config.options import Config, ServerSpec
from trunkline.config.reading import find_file, load
from trunkline.control.fleet import Fleet
from trunkline.control.history import History
from trunkline.control.list_store import ListStore
from trunkline.control.merging import options_of
from trunkline.control.registry import Changed, Registry
from trunkline.control.search import Found, ToolSearch
from trunkline.control.supervisor import Supervisor
from trunkline.control.views import Views
from trunkline.errors import ConfigError, ServerRefusedError, UpstreamError
from trunkline.model import (
    Answer,
    Call,
    Caller,
    Entry,
    Introduction,
    Parked,
    Reply,
    Scope,
    ServerView,
    Snapshot,
    State,
    View,
)
from trunkline.questions.bridge import OpenPage
from trunkline.questions.local import AnswerHandler, LocalAnswers
from trunkline.questions.manager import ElicitationManager
from trunkline.storage.keyfile import seal_key
from trunkline.tasks import Tasks, open_tasks
from trunkline.telemetry.savings import Savings
from trunkline.telemetry.tally import Tallies
from trunkline.tool import NO_OPTIONS, Annotations, Safety, ToolOptions, ToolResult
from trunkline.tools.builtin import CALL, CATALOGUE
from trunkline.upstream.connection import CLIENT_INFO, Connection
from trunkline.upstream.exchange import Exchange
from trunkline.upstream.local import Mounted
from trunkline.upstream.pool import ConnectionKey, Pool, PoolEvents, askable, open_pool
from trunkline.wire import meta
from trunkline.wire.envelope import error_object
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.members import decode, encode
from trunkline.wire.questions import not_asked, read_input_required
from trunkline.wire.seal import Seal

if TYPE_CHECKING:
    from trunkline.authoring.server import MCPServerBase
    from trunkline.control.discovery.manager import EnhancedToolDiscovery

log = logging.getLogger("trunkline")

Heard = Callable[[str, str, str, bytes], None]
"""Takes what a server said outside a call: server, owner of the connection or empty, method, params."""

AskOwner = Callable[[str, str, bytes], asyncio.Future[Answer]]

_CHANGES = ("list_changed", "resources/updated")
"""After these, what a server said before may no longer be true."""


class Hub:
    """Every configured server behind one object. Open it with `open_hub`."""

    def __init__(self, config: Config, tasks: Tasks) -> None:
        self.config = config
        self._tasks = tasks
        self._mounted: dict[str, ServerSpec] = {}
        self._registry = Registry(config, self._learn)
        self._views = Views(config)
        self._fleet = Fleet(self._registry, ListStore(config.home), tasks)
        self._searching = ToolSearch(config.search, config.home, tasks)
        self._hearers: list[Heard] = []
        self._names_of_vendors: dict[str, str] = {}
        self._news = asyncio.Event()
        self._discovery: EnhancedToolDiscovery | None = None
        self.history = History(config.home / "history", tasks=tasks)
        """How the servers' tools changed, across restarts."""
        self.ask_owner: AskOwner = _nobody
        """How the gateway is asked on behalf of a server that asks outside a call."""
        self.open_page: OpenPage | None = None
        """How the gateway lets a person answer what must not pass the caller."""
        self._here = LocalAnswers(config.gateway.question_timeout)
        self._middleware: list[ToolMiddleware] = []
        self.tallies = Tallies(time.monotonic)
        """How calls went, by server and by tool."""
        self.savings = Savings()
        """What callers were spared who search."""
        self._cache: CacheStage | None = None
        self._routes = RouteStage({}, config.router)
        self._lanes = Lanes(self._limits)
        self.task_log = TaskLog(Seal(lambda: seal_key(config.home)))
        self._task_stage = TaskStage(
            self.task_log, tasks, most=config.gateway.max_parked, seconds=config.gateway.question_timeout
        )

    # Calling.

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        user: str = "",
        thread: str = "",
        timeout: float = 0.0,
        cached: bool = True,
    ) -> ToolResult:
        """Call a tool by its shown name. A failing tool is a result with `is_error`, not an exception.

        Questions meanwhile are answered by the handler of `elicitation`; `cached=False` wants a fresh answer.
        """
        if tool not in self.snapshot.tools:
            tool = self._names_of_vendors.get(tool, tool)
        caller = self._here.caller(user)
        stamp = meta.Meta(MODERN_VERSIONS[0], caller.capabilities, CLIENT_INFO)
        params = meta.stamp({"name": encode(tool), "arguments": encode(dict(arguments or {}))}, stamp)
        scope = Scope(user=user, thread=thread)
        call = Call("tools/call", tool, params, scope=scope, caller=caller, timeout=timeout, cached=cached)
        if caller.capabilities != b"{}":
            call.ask = partial(self._here.answer, call)
        if self.elicitation.has_handler:
            call.answer_here = self.elicitation.request
        reply = await self.relay(call)
        while reply.questions and reply.parked is not None:
            told = {key: not_asked(question) for key, question in reply.questions.items()}
            reply = await self.resume(call, reply.parked, told)
        if reply.modern and read_input_required(reply.result) is not None:
            raise ServerRefusedError(f"Tool {tool!r} asks a question, and nobody is there to answer.", code=-32603)
        if reply.error:
            error = decode(reply.error)
            raise ServerRefusedError(str(error.get("message", "")), code=error.get("code", 0), data=error.get("data"))
        return result_of(reply.result)

    async def answer(self, asked: object, *, format: str, user: str = "", thread: str = "") -> dict[str, Any]:
        """Make the call that a model asks for, as its vendor's SDK hands it over, and answer as the vendor takes it.

        What goes wrong with the call is told to the model, not raised; `format` is that of `tools`.
        """
        from trunkline.tools.convert.model_calls import answer

        return await answer(partial(self.call, user=user, thread=thread), asked, format)

    def use(self, middleware: ToolMiddleware) -> Hub:
        """Run `middleware` around every call of a tool, whoever makes it."""
        self._middleware.append(middleware)
        return self

    @property
    def middlewares(self) -> tuple[ToolMiddleware, ...]:
        """What `use` was given, the outermost first."""
        return tuple(self._middleware)

    @property
    def elicitation(self) -> ElicitationManager:
        """Answers questions in calls that are made here, in Python: give it a handler."""
        return self._here.elicitation

    def on_request(self, method: str, handler: AnswerHandler) -> None:
        """Answer what servers ask of callers here: `sampling/createMessage` or `roots/list`, params in, result out."""
        self._here.on_request(method, handler)

    async def relay(self, call: Call) -> Reply:
        """Pass one call through the stages, as the gateway does."""
        return await self._handler(call)

    async def resume(self, call: Call, parked: Parked, answers: Mapping[str, Answer]) -> Reply:
        """Give a call that asked something its answers."""
        call.parked, call.answers = parked, answers
        return await self._handler(call)

    async def introduction_for(self, caller: Caller) -> Introduction | None:
        """What the one server of bare mode says of itself to such a caller; `None` when nothing is known of it."""
        view = self.snapshot.servers.get(self.snapshot.bare)
        spec = self._fleet.specs.get(self.snapshot.bare)
        if spec is None or view is None:
            return None
        if spec.lifecycle == "transient":
            return view.introduction
        try:
            return (await self._fleet.pool.take(spec, caller)).introduction
        except UpstreamError:
            return view.introduction

    def withdraw(self, parked: Parked | None) -> None:
        """Nobody will answer: the server is told that the call is off."""
        if isinstance(parked, Suspended):
            parked.withdraw()
        elif isinstance(parked, Exchange):
            connection = cast("Connection", parked.connection)
            connection.cancel(parked, "Nobody answered the question.")
            self._fleet.pool.give_back(connection, clean=False)

    # Looking.

    @property
    def snapshot(self) -> Snapshot:
        """What is known at this moment."""
        return self._registry.snapshot

    @overload
    async def tools(self) -> list[Entry]: ...
    @overload
    async def tools(self, *, format: str, defer: bool = False, keep: Collection[str] = ()) -> list[dict[str, Any]]: ...
    async def tools(
        self, *, format: str | None = None, defer: bool = False, keep: Collection[str] = ()
    ) -> list[Entry] | list[dict[str, Any]]:
        """Every tool that can be called, after a moment for servers that only just start.

        With a `format` they are as a model's vendor wants them; with `defer`, all but those in `keep` are for the
        vendor's own search of tools, and no model reads them before they are found.
        """
        await self.settle()
        entries = list(self.snapshot.tools.values())
        if format is None:
            return entries
        from trunkline.control.model_formats import for_model

        made = for_model(entries, format, defer=defer, keep=keep).value
        self._names_of_vendors |= {name: tool.name for name, tool in made.by_name.items() if name != tool.name}
        return made.definitions

    def view(self, profile: str = "") -> View:
        """What the callers of a profile have, and what lists show them; without a name, those of `/mcp`."""
        return self._views.of(profile, self.snapshot)

    def enter(self, call: Call) -> Call:
        """Take a call as its caller means it: one of `call_tool` is a call of the tool that it names."""
        if call.name == CALL:
            unwrap(call, self.view(call.profile))
        return call

    async def find(
        self,
        query: str | Sequence[str],
        *,
        user: str = "",
        thread: str = "",
        profile: str = "",
        limit: int = 10,
        min_score: float | None = None,
        servers: Collection[str] = (),
        safety: Safety | None = None,
    ) -> list[Found]:
        """The tools that fit a prompt best, or each of several queries; an empty list means that nothing does."""
        await self.settle()
        return await self._searching.find(
            query,
            self.view(profile).snapshot,
            newest=self.snapshot,
            limit=limit,
            min_score=min_score,
            servers=servers,
            safety=safety,
            user=user,
            thread=thread,
        )

    async def _find(self, call: Call, query: str, snapshot: Snapshot, limit: int) -> list[Found]:
        return await self._searching.find(
            query,
            snapshot,
            newest=self.snapshot,
            limit=limit,
            askable=askable(call.caller.capabilities) != b"{}",
            user=call.scope.user,
            thread=call.scope.thread or call.caller.owner,
        )

    async def keep_index(self) -> None:
        """Have tools ready to be found before anybody searches, for as long as some profile searches; run as a task."""
        while True:
            self._news.clear()
            snapshot = self.snapshot
            if any(self.view(profile).searching for profile in ("", *self.config.profiles)):
                await self._searching.prepare(snapshot)
            await self._news.wait()

    def _taught(self, call: Call, well: bool) -> None:
        if call.entry is not None and call.method == "tools/call":
            self._searching.learn(call.scope.user, call.scope.thread or call.caller.owner, call.entry, well=well)

    @property
    def discovery(self) -> EnhancedToolDiscovery:
        """Every tool with its category, safety and version and how its calls went; made when first asked for."""
        if self._discovery is None:
            from trunkline.control.discovery.manager import EnhancedToolDiscovery

            self._discovery = EnhancedToolDiscovery(calls=lambda: self.tallies.tools, history=self.history)
            self._discovery.follow(self.snapshot)
        return self._discovery

    def annotations(self, tool: str) -> Annotations | None:
        """How a tool behaves, as far as is known; `None` when there is no such tool."""
        entry = self.snapshot.tools.get(tool)
        return entry.annotations if entry is not None else None

    def servers(self) -> list[ServerView]:
        """Every server, and how it fares."""
        return list(self.snapshot.servers.values())

    def lane(self, server: str) -> Lane:
        """How many calls a server has, and how many wait."""
        return self._lanes.of(server)

    def standing(self, server: str) -> dict[str, str]:
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

    async def ready(self, seconds: float) -> None:
        """Wait until every server was reached or failed once, at most so long."""
        await self._fleet.ready(seconds)

    async def settle(self) -> None:
        """Wait a moment for servers of which nothing is known yet, and have stale lists read again."""
        await self._registry.settle(self.config.gateway.settle)
        await self._fleet.refresh()

    def last_words(self, server: str) -> str:
        """What a server last wrote to its standard error: for its operator, not for callers."""
        return self._fleet.last_words(server)

    # Hearing.

    def on_change(self, listener: Changed) -> Callable[[], None]:
        """Hear which lists changed; call what is returned to stop."""
        return self._registry.listen(listener)

    def on_heard(self, listener: Heard) -> Callable[[], None]:
        """Hear what servers say outside calls; call what is returned to stop."""
        self._hearers.append(listener)
        return lambda: self._hearers.remove(listener) if listener in self._hearers else None

    async def watch(self, uri: str, profile: str = "") -> Reply:
        """Follow a resource that a profile has; its changes reach `on_heard`."""
        if uri == CATALOGUE and self.view(profile).resources:
            return Reply(result=b"{}")  # whoever hears of changed lists hears of it
        return await self._supervisor_of(uri, "resources/subscribe", self.view(profile).snapshot).watch(uri)

    async def unwatch(self, uri: str) -> Reply:
        """Stop following a resource."""
        if uri == CATALOGUE and find_resource(uri, self.snapshot) is None:
            return Reply(result=b"{}")
        return await self._supervisor_of(uri, "resources/unsubscribe", self.snapshot).unwatch(uri)

    async def follow_task(self, task: Task) -> bool:
        """Follow a task; its news reach `on_heard`. Legacy servers tell of their tasks unasked, or never."""
        found = self._fleet.supervisor(task.server)
        return found is not None and (task.at is At.LEGACY or await found.follow_task(task.own))

    def unfollow_task(self, task: Task) -> None:
        """Stop following a task."""
        found = self._fleet.supervisor(task.server)
        if found is not None and task.at is At.MODERN:
            found.unfollow_task(task.own)

    def notify_owner_lines(self, owner: str, method: str, params: bytes) -> None:
        """Tell the servers on a caller's own connections something, such as that its roots changed."""
        for connection in self._fleet.pool.owned(owner):
            connection.notify(method, params)

    async def end_owner(self, owner: str) -> None:
        """A caller left for good, and with it the connections that were its own."""
        await self._fleet.pool.end_owner(owner)

    # Servers come and go.

    async def apply(self, config: Config) -> list[str]:
        """Take on another configuration; servers that did not change are not touched. Says what changed."""
        config = dataclasses.replace(config, servers={**config.servers, **self._mounted})
        wanted = {name: spec for name, spec in config.servers.items() if spec.enabled}
        left = await self._fleet.dismiss(wanted)
        for name in left:
            self.tallies.forget(name)
        self._searching = self._searching.configured(config.search)
        self.config = config
        came = self._fleet.enlist(wanted)
        self._join()
        self._views.configure(config)
        self._registry.configure(config)
        news = [f"{'changed' if name in wanted else 'removed'} {name}" for name in left]
        return news + [f"added {name}" for name in came if name not in left]

    async def mount(self, server: MCPServerBase, name: str = "") -> str:
        """Take in a server of this process like any other, under its id or another `name`.

        It is started if need be; what was started here is stopped by `unmount`, or with the hub.
        """
        name = name or server.config.id
        if name in self.config.servers or name in self.config.groups:
            raise ConfigError(f"There already is a server or a group {name!r}.", hint="Mount it under another `name`.")
        ran = server.running
        await server.start()
        self._mounted[name] = ServerSpec(name, local=Mounted(server, stops=not ran))
        await self.apply(self.config)
        supervisor = self._fleet.supervisor(name)
        if supervisor is not None:  # nobody unmounted it meanwhile
            await supervisor.first_try.wait()
        return name

    async def unmount(self, name: str) -> None:
        """Let go of a mounted server; its calls under way end."""
        spec = self._mounted.pop(name, None)
        if spec is None:
            raise ConfigError(f"No server {name!r} is mounted.", hint="`mount` says under which name it was.")
        mounted: Mounted = spec.local
        mounted.gone = True
        rest = {other: kept for other, kept in self.config.servers.items() if other != name}
        await self.apply(dataclasses.replace(self.config, servers=rest))
        if mounted.stops:
            await mounted.server.stop("It was unmounted.")

    def _supervisor_of(self, uri: str, method: str, snapshot: Snapshot) -> Supervisor:
        entry = find_resource(uri, snapshot)
        server = (entry.members or (entry.server,))[0] if entry is not None else snapshot.bare
        found = self._fleet.supervisor(server)
        if found is None:
            raise unknown(Call(method, uri, {}), snapshot)
        return found

    # Called by `open_hub`.

    async def close(self) -> None:
        """End what is the hub's own, and the servers that were mounted."""
        for name in list(self._mounted):
            await self.unmount(name)
        await self.history.close()

    def attach(self, pool: Pool) -> None:
        """Calls go to the servers of this pool."""
        self._fleet.attach(pool)
        self._join()

    def _join(self) -> None:
        """Join the stages: the one place where their order is written. Calls under way keep those they began with."""
        config = self.config
        if (config.groups, config.router) != (self._routes.groups, self._routes.config):
            self._routes = RouteStage(config.groups, config.router)
        self._cache = CacheStage(config.cache, self._unit, self._identity) if config.cache.enabled else None
        policy = Policy(config.middleware, self._middleware, RetryBudget(ratio=config.router.retry_ratio))
        self._lanes.refresh()
        self.stages: tuple[Stage, ...] = (
            BuiltinStage(self.view, self._find, config, self.savings),
            EntryStage(
                self._snapshot_of,
                lambda: self._registry.settle(self.config.gateway.settle),
                self._options,
            ),
            MiddlewareStage(policy, self._tasks, lambda: self.open_page),
            *((self._cache,) if self._cache is not None else ()),
            *((self._routes,) if config.groups else ()),
            ElicitStage(self.withdraw),
            self._task_stage,
            BatchStage(self._lanes, coalesce=config.batcher.coalesce),
            SendStage(self._fleet.pool, self._fleet.specs, self._fleet.report, self.tallies, self._taught),
        )
        self._handler = join(self.stages)

    def _snapshot_of(self, profile: str) -> Snapshot:
        return self._views.of(profile, self._registry.snapshot).snapshot

    def _learn(self, snapshot: Snapshot) -> None:
        self._routes.learn(snapshot)
        self._news.set()
        self.history.follow(snapshot)
        if self._discovery is not None:
            self._discovery.follow(snapshot)

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
        spec = self._fleet.specs.get(server)
        batcher = self.config.batcher
        return Limits(spec.concurrency if spec else 1, batcher.max_queue, batcher.max_wait)

    def hear(self, line: ConnectionKey, method: str, params: bytes) -> None:
        """A server said something outside a call."""
        if self._cache is not None and method.startswith("notifications/") and method.endswith(_CHANGES):
            self._cache.forget(line.server)
        self._fleet.hear(line, method, params)
        for hearer in list(self._hearers):
            hearer(line.server, line.owner, method, params)

    def ask(self, owner: str, method: str, params: bytes) -> asyncio.Future[Answer]:
        """A server asks the owner of its connection something outside a call."""
        return self.ask_owner(owner, method, params)

    def woke(self, line: ConnectionKey) -> None:
        """A connection was opened, or ended by itself."""
        self._fleet.woke(line)


@asynccontextmanager
async def open_hub(source: Config | str | Path | Iterable[ServerSpec] | None = None) -> AsyncGenerator[Hub]:
    """Open a hub over a configuration, a file or servers; without an argument, over the file `trunkline up` takes."""
    config = _config(source)
    async with open_tasks() as tasks:
        hub = Hub(config, tasks)
        async with open_pool(PoolEvents(hub.hear, hub.woke, hub.ask)) as pool:
            hub.attach(pool)
            await hub.apply(config)
            try:
                yield hub
            finally:
                await hub.close()
                await tasks.close()


def _config(source: Config | str | Path | Iterable[ServerSpec] | None) -> Config:
    if isinstance(source, Config):
        return source
    if source is None:
        return load(find_file(os.environ, Path.cwd()), env=os.environ)
    if isinstance(source, (str, Path)):
        return load(Path(source), env=os.environ)
    return Config(servers={spec.name: spec for spec in source})


def _nobody(owner: str, method: str, params: bytes) -> asyncio.Future[Answer]:
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    future.set_result(Answer(error=error_object(-32601, f"Nobody can be asked {method!r}.")))
    return future


__all__ = ["Caller", "Hub", "State", "open_hub"]
