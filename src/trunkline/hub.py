"""The library's front door: find tools and call them, in a few lines of Python."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from trunkline.call.middleware.chain import ToolMiddleware
from trunkline.callers import Edge
from trunkline.config.options import Config, SearchStrategy
from trunkline.config.reading import find_file, load
from trunkline.config.server import ServerSpec
from trunkline.control.history import History
from trunkline.control.registry import Changed
from trunkline.control.review import Review, approve, reject, reviews
from trunkline.control.tenants import ServerRegistered, ServerUnregistered
from trunkline.control.trust import ToolApproved, ToolHeld
from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.events import Emitter
from trunkline.identity import Scope, server_id
from trunkline.model import Call, Entry, Kind, ServerView, Snapshot, View
from trunkline.questions.bridge import AnswerHandler, LocalAnswers
from trunkline.questions.manager import ElicitationManager
from trunkline.relay import Relay, open_relay
from trunkline.sandbox.programs import Asks
from trunkline.sandbox.run import ProgramResult
from trunkline.tenancy.credentials import CredentialRefused
from trunkline.tenancy.limits import LimitNear, LimitReached
from trunkline.tenancy.servers import Registration, ServerScope, written
from trunkline.tenancy.tenancy import Tenancy, open_tenancy
from trunkline.tenancy.threads import ThreadChanged, check_id
from trunkline.thread import HubThread
from trunkline.tool import DIRECT, PROGRAM, Annotations, Safety, ToolResult
from trunkline.tools.names import meaning
from trunkline.upstream.connection import CLIENT_INFO
from trunkline.wire import meta
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.members import encode

if TYPE_CHECKING:
    from trunkline.authoring.server import MCPServerBase
    from trunkline.control.discovery.manager import EnhancedToolDiscovery
    from trunkline.control.search import Found
    from trunkline.install.services import ServiceDirectory


class Hub:
    """Every configured server behind one object. Open it with `open_hub`."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        """What the gateway uses: calls and snapshots as the stages have them."""
        self._local = LocalAnswers(relay.config.gateway.question_timeout)
        self._names_of_vendors: dict[str, str] = {}
        self._discovery: EnhancedToolDiscovery | None = None
        self._events = Emitter(
            *(ServerRegistered, ServerUnregistered, ThreadChanged, LimitReached, LimitNear, CredentialRefused),
            *(ToolHeld, ToolApproved),
        )
        self.on, self.off = self._events.on, self._events.off
        for kind in (ServerRegistered, ServerUnregistered):
            relay.tenants.on(kind, self._events.emit)
        for kind in (LimitReached, LimitNear):
            relay.limiter.on(kind, self._events.emit)
        relay.tenancy.vault.on(CredentialRefused, self._events.emit)
        for kind in (ToolHeld, ToolApproved):
            relay.trust.on(kind, self._events.emit)
        relay.tenancy.threads.on_change(lambda user, id: self._events.emit(ThreadChanged(id, user)))

    # Calling.

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        user: str = "",
        thread: str = "",
        program: str = "",
        timeout: float = 0.0,
        cached: bool = True,
    ) -> ToolResult:
        """Call a tool by its shown name. A failing tool is a result with `is_error`, not an exception.

        Questions meanwhile are answered by the handler of `elicitation`; `cached=False` wants a fresh answer. `program`
        is who calls where it is not the model itself, as a tool's `allowed_callers` name it.
        """
        _check_types(tool, arguments, timeout)
        scope = await self.relay.scope_of(user, thread, tool=tool)
        if program:
            scope = dataclasses.replace(scope, program=program)
        if tool not in self.relay.view(scope).snapshot.tools:
            tool = self._names_of_vendors.get(tool, tool)
        caller = self._local.caller()
        stamp = meta.Meta(MODERN_VERSIONS[0], caller.capabilities, CLIENT_INFO)
        params = meta.stamp({"name": encode(tool), "arguments": _encoded(tool, arguments or {})}, stamp)
        timeout = timeout or scope.overrides.timeout
        call = Call("tools/call", tool, params, scope=scope, caller=caller, timeout=timeout, cached=cached, whole=True)
        if caller.capabilities != b"{}":
            call.ask = partial(self._local.answer, call)
        if self.elicitation.has_handler:
            call.answer_here = self.elicitation.request
        return await self.relay.outcome(call)

    async def answer(self, asked: object, *, format: str, user: str = "", thread: str = "") -> dict[str, Any]:
        """Make the call that a model asks for, as its vendor's SDK hands it over, and answer as the vendor takes it.

        What goes wrong with the call is told to the model, not raised; `format` is that of `tools`.
        """
        from trunkline.tools.convert.model_calls import answer

        return await answer(partial(self.call, user=user, thread=thread), asked, format)

    async def run(self, code: str, *, user: str = "", thread: str = "", timeout: float = 0.0) -> ProgramResult:
        """Run a program in a sandbox, with each tool that its user may have called by programs as an async function.

        Raises `ProgramError` for one that fails, with its line. What needs a person's agreement is asked of the handler
        of `elicitation`, all at once; `timeout` is instead of `programs.timeout`. Needs `trunkline[programs]`.
        """
        _check_types(PROGRAM, {}, timeout)
        if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance] - whatever callers pass
            raise InvalidArgumentsError("A program is a text.", hint="Read the file before you run it.")
        self.relay.programs.check_length(code)
        scope = await self.relay.scope_of(user, thread)
        caller = self._local.caller()
        call = Call("tools/call", PROGRAM, {"arguments": encode({"code": code})}, scope=scope, caller=caller)
        if caller.capabilities != b"{}":
            call.ask = partial(self._local.answer, call)
        call.answer_here = self.elicitation.request if self.elicitation.has_handler else None
        outcome = await self.relay.programs.run(call, code, timeout=timeout)
        assert not isinstance(outcome, Asks), "who is asked here answers here"
        return outcome

    def use(self, middleware: ToolMiddleware) -> Hub:
        """Run `middleware` around every call of a tool, whoever makes it."""
        self.relay.middlewares.append(middleware)
        return self

    @property
    def middlewares(self) -> tuple[ToolMiddleware, ...]:
        """What `use` was given, the outermost first."""
        return tuple(self.relay.middlewares)

    @property
    def elicitation(self) -> ElicitationManager:
        """Answers questions in calls that are made here, in Python: give it a handler."""
        return self._local.elicitation

    def on_request(self, method: str, handler: AnswerHandler) -> None:
        """Answer what servers ask of callers here: `sampling/createMessage` or `roots/list`, params in, result out."""
        self._local.on_request(method, handler)

    # Looking.

    @property
    def config(self) -> Config:
        """What it was told."""
        return self.relay.config

    @property
    def snapshot(self) -> Snapshot:
        """What is known at this moment."""
        return self.relay.snapshot

    def view(self, profile: str = "") -> View:
        """What the callers of a profile have, and what lists show them; without a name, those of `/mcp`."""
        return self.relay.view(Scope(profile=profile))

    def servers(self) -> list[ServerView]:
        """Every server, and how it fares."""
        return self.relay.servers()

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
        await self.relay.settle()
        entries = list(self.snapshot.tools.values())
        if format is None:
            return [entry for entry in entries if DIRECT in entry.callers]
        from trunkline.control.model_formats import for_model

        made = for_model(entries, format, defer=defer, keep=keep).value
        self._names_of_vendors |= {name: tool.name for name, tool in made.by_name.items() if name != tool.name}
        return made.definitions

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
        strategy: SearchStrategy | None = None,
    ) -> list[Found]:
        """The tools that fit a prompt best, or each of several queries; an empty list means that nothing does.

        `strategy` is another than `[search]` says, for this time. What was found by words alone, because the query's
        meaning was not known in time, says so in `words_alone`.
        """
        scope = await self.relay.scope_of(user, thread, profile)
        await self.relay.settle(user)
        return await self.relay.find(
            query,
            self.relay.view(scope).snapshot,
            scope,
            limit=limit,
            min_score=min_score,
            servers=servers,
            safety=safety,
            strategy=strategy,
        )

    def annotations(self, tool: str) -> Annotations | None:
        """How a tool behaves, as far as is known; `None` when there is no such tool."""
        entry = meaning(tool, Kind.TOOL, self.snapshot)
        return entry.annotations if entry is not None else None

    @property
    def discovery(self) -> EnhancedToolDiscovery:
        """Every tool with its category, safety and version and how its calls went; made when first asked for."""
        if self._discovery is None:
            from trunkline.control.discovery.manager import EnhancedToolDiscovery

            self._discovery = EnhancedToolDiscovery(calls=lambda: self.relay.tallies.tools, history=self.history)
            self.relay.follow(self._discovery.follow)
        return self._discovery

    @property
    def history(self) -> History:
        """How the servers' tools changed, across restarts."""
        return self.relay.history

    async def reviews(self, server: str = "", user: str = "") -> list[Review]:
        """What servers say otherwise than was agreed to, with the difference; of one alone, or of all."""
        return await reviews(self.relay.trust, [server_id(user, server)] if server else None)

    async def approve(self, server: str, *names: str, user: str = "") -> list[str]:
        """Agree to what a server says now of these tools, prompts and templates, or of all; says of which."""
        return await approve(self.relay.trust, server_id(user, server), names, by=user)

    async def reject(self, server: str, *names: str, user: str = "") -> list[str]:
        """Hold what a server says now until it is approved, or taken back; says what."""
        return await reject(self.relay.trust, server_id(user, server), names)

    def last_words(self, server: str) -> str:
        """What a server last wrote to its standard error: for its operator, not for callers."""
        return self.relay.last_words(server)

    # Servers come and go.

    async def ready(self, seconds: float, *, downloads: bool = False) -> None:
        """Wait until every server was reached or failed once, at most so long; with `downloads`, longer for those that
        are then being downloaded: until they started or failed, by their own times."""
        await self.relay.ready(seconds, downloads=downloads)

    def on_change(self, listener: Changed) -> Callable[[], None]:
        """Hear which lists changed; call what is returned to stop."""
        return self.relay.on_change(listener)

    async def apply(self, config: Config) -> list[str]:
        """Take on another configuration; servers that did not change are not touched. Says what changed."""
        return await self.relay.apply(config)

    async def register_server(
        self,
        spec: ServerSpec | Mapping[str, Any],
        scope: ServerScope = "app",
        user: str = "",
        *,
        replace: bool = True,
    ) -> Registration:
        """Take in a server for everybody, or as a user's own, or change it; it is there after a restart too.

        A mapping has the options of `[servers.NAME]`, `name`, and what is said of a server besides (`About`). With
        `replace=False` one that is there already is a `ConfigError`.
        """
        wanted = written(spec) if isinstance(spec, ServerSpec) else spec
        return await self._register(wanted, _owner(scope, user), replace=replace)

    async def update_server(
        self, name: str, changes: Mapping[str, Any], scope: ServerScope = "app", user: str = "", *, version: int = 0
    ) -> Registration:
        """Change some of a registered server; with a version, only if nobody else did meanwhile."""
        owner = _owner(scope, user)
        kept, now = await self.relay.tenancy.servers.wanted(owner, name)
        return await self._register({**kept, **changes, "name": name}, owner, version or now)

    async def unregister_server(self, name: str, scope: ServerScope = "app", user: str = "") -> None:
        """Take a registered server out, with its connections."""
        await self.relay.tenants.unregister(name, user=_owner(scope, user))

    @property
    def services(self) -> ServiceDirectory[Registration]:
        """What the endpoint of `[discovery]` offers: `offered()` looks, `register(name)` takes one in."""
        from trunkline.install.services import ServiceDirectory

        kept = self.relay.tenancy.servers.of
        return ServiceDirectory(lambda: self.config, kept, self.relay.configured, self._register)

    async def _register(
        self, wanted: Mapping[str, Any], user: str, version: int = 0, *, replace: bool = True
    ) -> Registration:
        most = self.config.limits.servers if user else 0
        return await self.relay.tenants.register(
            wanted,
            user=user,
            version=version,
            most=most,
            taken=self.relay.configured(),
            replace=replace,
            of_user=self.relay.tenancy.people.anybody and self.relay.wants_user(user),
        )

    def thread(self, id: str, user: str = "") -> HubThread:
        """One thread of one user, to be looked at and configured."""
        check_id(id)
        return HubThread(self.relay, id, user)

    async def mount(self, server: MCPServerBase, name: str = "") -> str:
        """Take in a server of this process like any other, under its id or another `name`.

        It is started if need be; what was started here is stopped by `unmount`, or with the hub.
        """
        name = name or server.config.id
        await self.relay.mount(server, name)
        return name

    async def unmount(self, name: str) -> None:
        """Let go of a mounted server; its calls under way end."""
        await self.relay.unmount(name)


@asynccontextmanager
async def open_hub(
    source: Config | str | Path | Iterable[ServerSpec] | None = None,
    *,
    edge: Edge | None = None,
    tenancy: Tenancy | None = None,
) -> AsyncGenerator[Hub]:
    """Open a hub over a configuration, a file or servers; without an argument, over the file `trunkline up` takes.

    An `edge` and `tenancy` are for those who serve callers, as the gateway does.
    """
    config = _config(source)
    async with AsyncExitStack() as stack:
        if tenancy is None:
            tenancy = await stack.enter_async_context(open_tenancy(config.store, config.home))
        yield Hub(await stack.enter_async_context(open_relay(config, edge or Edge(), tenancy)))


def _config(source: Config | str | Path | Iterable[ServerSpec] | None) -> Config:
    if isinstance(source, Config):
        return source
    if source is None:
        return load(find_file(os.environ, Path.cwd()), env=os.environ)
    if isinstance(source, (str, Path)):
        return load(Path(source), env=os.environ)
    given: Any = source
    servers: dict[str, ServerSpec] = {}
    for spec in cast("Iterable[object]", given if isinstance(given, Iterable) else [given]):
        if not isinstance(spec, ServerSpec):
            raise ConfigError(f"{type(spec).__name__} is no server and no configuration.", hint=_SOURCES)
        servers[spec.name] = spec
    return Config(servers=servers)


def _owner(scope: str, user: str) -> str:
    """Whose a server is; empty for everybody's."""
    if scope not in ("app", "user"):
        raise ConfigError(f"There is no scope {scope!r}.", hint="Everybody's is `app`, one user's own is `user`.")
    if (scope == "user") != bool(user):
        what = "Whose server is it to be?" if scope == "user" else "What is everybody's has no user."
        raise ConfigError(what, hint='Give `scope="user"` and `user` together.')
    return user


_SOURCES = "Give a `Config`, the path of a file, or a list of `ServerSpec`."


def _check_types(tool: object, arguments: object, timeout: object) -> None:
    if not isinstance(tool, str):
        hint = "Give its shown name, such as `entry.shown` of what `hub.tools()` gives."
        raise InvalidArgumentsError(f"A tool is called by its name, not by {type(tool).__name__}.", hint=hint)
    if not isinstance(arguments, Mapping | None):
        raise InvalidArgumentsError(f"The arguments of tool {tool!r} have no names.", hint="Pass a dict.")
    if not isinstance(timeout, int | float) or not timeout >= 0:
        raise InvalidArgumentsError("The `timeout` of a call is a number of seconds.", hint="0 takes the server's own.")


def _encoded(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """The arguments as JSON; what is wrong is named, never its value."""
    for name, value in arguments.items():
        try:
            encode({name: value})
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            what = f"The argument {name!r} of tool {tool!r} cannot be written as JSON."
            raise InvalidArgumentsError(what, hint=f"It is, or holds, a {type(value).__name__}.") from error
    return encode(dict(arguments))
