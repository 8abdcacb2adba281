"""Servers in the admin API: what there is for whoever asks, and what is registered at run time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from trunkline.config.oauth import Grant, OAuthSpec
from trunkline.errors import NotFoundError, RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.api.status import described, views_of
from trunkline.identity import owner_of, server_id, unit_name
from trunkline.model import ServerView, State
from trunkline.tenancy.servers import Registration, TrustLevel, check_member_server, written_tools

if TYPE_CHECKING:
    from trunkline.config.server import ServerSpec
    from trunkline.relay import Relay


class WantedOAuth(Body, frozen=True, omit_defaults=True):
    """How to sign in to a server, as `[servers.NAME.oauth]` says it. What is changed later is changed one by one."""

    client_id: str | msgspec.UnsetType = msgspec.UNSET
    client_secret: str | msgspec.UnsetType = msgspec.UNSET
    private_key: str | msgspec.UnsetType = msgspec.UNSET
    client_metadata_url: str | msgspec.UnsetType = msgspec.UNSET
    scopes: list[str] | msgspec.UnsetType = msgspec.UNSET
    issuer: str | msgspec.UnsetType = msgspec.UNSET
    authorization_url: str | msgspec.UnsetType = msgspec.UNSET
    token_url: str | msgspec.UnsetType = msgspec.UNSET
    grant: Grant | msgspec.UnsetType = msgspec.UNSET
    assertion: str | msgspec.UnsetType = msgspec.UNSET
    idp_token_url: str | msgspec.UnsetType = msgspec.UNSET
    idp_client_id: str | msgspec.UnsetType = msgspec.UNSET
    audience: str | msgspec.UnsetType = msgspec.UNSET
    shared: bool | msgspec.UnsetType = msgspec.UNSET


class WantedServer(Body, frozen=True, omit_defaults=True):
    """A server to be registered, or what is to be changed of one."""

    name: str = ""
    url: str = ""
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    headers: dict[str, str] = {}
    oauth: WantedOAuth | None = None
    transport: str = ""
    timeout: float = 0.0
    enabled: bool = True
    trust: Literal["", "flag", "hold", "follow"] = ""
    display_name: str = ""
    description: str = ""
    trust_level: TrustLevel = ""
    tags: list[str] = []
    defer_loading: bool | None = None
    minimal_tools: list[dict[str, Any]] = []
    """Tools that it is known to have before it was ever reached, as MCP defines them."""
    tools: dict[str, dict[str, Any]] | list[dict[str, Any]] = {}
    """What is said of its tools, by name or pattern; or a list of tools given in advance, with what is said of each."""
    scope: Literal["app", "user"] = "user"
    user: str = ""


class WantedTool(Body, frozen=True):
    """What is to be said otherwise of a tool; with `null` nothing is."""

    when_to_use: str | msgspec.UnsetType | None = msgspec.UNSET
    defer_loading: bool | msgspec.UnsetType | None = msgspec.UNSET
    allowed_callers: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    input_examples: list[dict[str, Any]] | msgspec.UnsetType | None = msgspec.UNSET
    tags: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    cost_hint: float | msgspec.UnsetType | None = msgspec.UNSET


class ShownServer(TypedDict, total=False):
    """A server: how it fares, where it runs, and what was said of it, where it was registered."""

    name: str
    state: str
    reason: str
    transport: str
    address: str
    protocol: str
    tools: int
    prompts: int
    resources: int
    templates: int
    calls: int
    failures: int
    tool_errors: int
    success_rate: float
    average_seconds: float
    in_flight: int
    waiting: int
    group: dict[str, str]
    scope: Literal["app", "user"]
    user: str
    url: str
    command: str
    headers: list[str]
    oauth: dict[str, Any]
    """What was said of how to sign in; of what is secret, the names alone, in `secrets`."""
    env: list[str]
    enabled: bool
    trust: str
    held: dict[str, str]
    timeout: float
    display_name: str
    description: str
    trust_level: TrustLevel
    tags: list[str]
    defer_loading: bool | None
    minimal_tools: list[dict[str, Any]]
    tools_said: dict[str, dict[str, Any]]
    """What was said of its tools when it was registered, or since."""
    version: int
    created: float
    updated: float


def routes(relay: Relay) -> list[Route]:
    """What can be done with servers."""
    api = _Servers(relay)
    whose = ("scope", "user")
    return [
        Route(
            "GET",
            "servers",
            "Every server there is for you, and how calls went; with `scope` or `user` those that were registered",
            api.list,
            gives=ShownServer,
            query=whose,
            pages="servers",
        ),
        Route("GET", "servers/{name}", "A server", api.get, gives=ShownServer, query=whose),
        Route("POST", "servers", "Register a server", api.register, WantedServer, ShownServer, status=201),
        Route(
            "PATCH",
            "servers/{name}",
            "Change a server",
            api.change,
            WantedServer,
            ShownServer,
            query=whose,
            versioned=True,
        ),
        Route(
            "PATCH",
            "servers/{name}/tools/{tool}",
            "Say something else of a tool of a server that was registered",
            api.change_tool,
            WantedTool,
            ShownServer,
            query=whose,
            versioned=True,
        ),
        Route("DELETE", "servers/{name}", "Take a server out", api.remove, query=whose, status=204, versioned=True),
    ]


class _Servers:
    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def list(self, ask: Ask) -> Given:
        if ask.query:
            registered = await self._relay.tenancy.servers.of(self._whose(ask, change=False))
            return Given({"servers": [shown(one) for one in registered if await self._exists(ask, one)]})
        views = await views_of(self._relay, ask.scope)
        views += await self._stopped(ask, {view.name for view in views})
        body: dict[str, Any] = {"servers": [described(self._relay, view, ask.scope) for view in views]}
        if ask.scope.role == "admin" and self._relay.cache_stats is not None:
            body["cache"] = self._relay.cache_stats
        return Given(body)

    async def _stopped(self, ask: Ask, running: set[str]) -> list[ServerView]:
        """What is switched off, of what is the asker's to switch on."""
        relay, scope = self._relay, ask.scope
        if scope.role == "admin":
            specs = list(relay.config.servers.values())
        else:
            whole = scope.user and not scope.rules and not scope.profile
            specs = [one.spec for one in await relay.tenancy.servers.of(scope.user)] if whole else []
        off = [spec for spec in specs if not spec.enabled or not relay.tenants.is_on(spec)]
        return [stopped_view(spec) for spec in off if spec.name not in running]

    async def get(self, ask: Ask) -> Given:
        (user, name), scope = self._meant(ask, change=False), ask.scope
        views = [view for view in await views_of(self._relay, scope) if unit_name(view.name) == name]
        known = {view.name: view for view in views}
        view = known.get(server_id(user, name)) or known.get(name)
        try:
            if scope.role != "admin" and (not user or (scope.rules and view is None)):
                raise NotFoundError(f"There is no server {name!r}.")  # or no more is shown of it than how it fares
            kept = await self._relay.tenancy.servers.get(user, name)
        except NotFoundError:
            spec = self._relay.config.servers.get(name) if scope.role == "admin" and not user else None
            view = view or (stopped_view(spec) if spec is not None else None)
            if view is None:
                raise
            return Given(described(self._relay, view, scope))
        if not await self._exists(ask, kept):
            raise NotFoundError(f"There is no server {name!r}.")
        seen = described(self._relay, view, scope) if view is not None and view.name == kept.spec.name else {}
        return Given({**seen, **shown(kept)}, version=kept.version)

    async def register(self, ask: Ask) -> Given:
        wanted: WantedServer = ask.body
        user = owner_for(ask, wanted.scope, wanted.user)
        made = await put_server(self._relay, ask, written(wanted), user)
        return Given(shown(made), 201, made.version)

    async def change(self, ask: Ask) -> Given:
        user, name = self._registered(ask)
        kept, version = await self._relay.tenancy.servers.wanted(user, name)
        said = written(ask.body)
        if "oauth" in said:
            said["oauth"] = {**kept.get("oauth", {}), **said["oauth"]}
        wanted = {**kept, **said, "name": name}
        made = await put_server(self._relay, ask, wanted, user, version=ask.if_match or version)
        return Given(shown(made), version=made.version)

    async def change_tool(self, ask: Ask) -> Given:
        (user, name), tool = self._registered(ask), ask.names["tool"]
        kept, version = await self._relay.tenancy.servers.wanted(user, name)
        said: dict[str, Any] = {**kept.get("tools", {}).get(tool, {}), **msgspec.to_builtins(ask.body)}
        tools = {**kept.get("tools", {}), tool: {key: value for key, value in said.items() if value is not None}}
        wanted = {**kept, "tools": {key: options for key, options in tools.items() if options}, "name": name}
        made = await put_server(self._relay, ask, wanted, user, version=ask.if_match or version)
        return Given(shown(made), version=made.version)

    async def remove(self, ask: Ask) -> Given:
        user, name = self._registered(ask)
        await self._relay.tenants.unregister(name, user=user, version=ask.if_match)
        return Given(status=204)

    async def _exists(self, ask: Ask, kept: Registration) -> bool:
        """Whether what was registered is there for whoever asks: with a narrowed key, only what its view has."""
        narrowed = ask.scope.rules or ask.scope.profile
        if ask.scope.role == "admin" or (kept.user and not narrowed):
            return True
        return any(view.name == kept.spec.name for view in await views_of(self._relay, ask.scope))

    def _registered(self, ask: Ask) -> tuple[str, str]:
        """Which server is to be changed: one that stands in the file is changed there."""
        user, name = self._meant(ask)
        if not user and name in self._relay.configured():
            hint = "Change the file; `trunkline remove` takes a server out of it."
            message = f"Server {name!r} stands in the configuration, and was not registered."
            raise RefusedError(message, status=403, hint=hint)
        return user, name

    def _meant(self, ask: Ask, *, change: bool = True) -> tuple[str, str]:
        """Whose server, and its name; admins are shown those of others with the owner before it, and may say so."""
        name = ask.names["name"]
        if owner_of(name) and ask.scope.role == "admin":
            return owner_of(name), unit_name(name)
        return self._whose(ask, change=change), name

    def _whose(self, ask: Ask, *, change: bool = True) -> str:
        scope = ask.query.get("scope", "app" if ask.scope.role == "admin" and "user" not in ask.query else "user")
        if scope not in ("app", "user"):
            raise RefusedError("`scope` is `app` or `user`.", status=422)
        if scope == "app" and not change:
            return ""
        return owner_for(ask, scope, ask.query.get("user", ""))


def owner_for(ask: Ask, scope: str, user: str) -> str:
    """Whose a server is to be: everybody's are an admin's to change, others' too."""
    if scope == "app":
        ask.require()
        return ""
    owner = user or ask.scope.user
    if not owner:
        raise RefusedError("Whose server is it to be?", status=422, hint='Give `user`, or `"scope": "app"`.')
    ask.require(or_user=owner)
    return owner


async def put_server(
    relay: Relay, ask: Ask, wanted: Mapping[str, Any], user: str, *, version: int = 0, replace: bool = True
) -> Registration:
    """Register a server, or change it: the one door for what callers say is to be reached, or started here."""
    gateway = relay.config.gateway
    if ask.scope.role != "admin":
        check_member_server(wanted)
        wanted = {**wanted, "public_only": not gateway.allow_private}
    elif wanted.get("command") and not gateway.allow_commands:
        hint = "Put it into the configuration, or set `allow_commands` in [gateway]."
        raise RefusedError("Servers that are started here are not registered over the API.", status=403, hint=hint)
    return await relay.tenants.register(
        wanted,
        user=user,
        version=version,
        most=relay.config.limits.servers if user else 0,
        taken=relay.configured(),
        replace=replace,
        of_user=relay.wants_user(user),
    )


def stopped_view(spec: ServerSpec) -> ServerView:
    """A server that does not run, because somebody switched it off."""
    return ServerView(spec.name, State.STOPPED, "Switched off.", spec.kind, spec.address)


def written(wanted: WantedServer) -> dict[str, Any]:
    """What was said of a server, without what was not."""
    said: dict[str, Any] = msgspec.to_builtins(wanted)
    return {name: value for name, value in said.items() if name not in ("scope", "user")}


def shown(registration: Registration) -> dict[str, Any]:
    """A server that was registered, for programs to read: of what may be secret, the names alone."""
    spec = registration.spec
    told: dict[str, Any] = {
        "name": unit_name(spec.name),
        "scope": registration.scope,
        "user": registration.user,
        "url": spec.url.partition("?")[0],
        "command": spec.command,
        "headers": sorted(spec.headers),
        **({"oauth": _shown_oauth(spec.oauth)} if spec.oauth != OAuthSpec() else {}),
        "env": sorted(spec.env),
        "enabled": spec.enabled,
        "trust": spec.trust,
        "timeout": spec.timeout,
        **dataclasses.asdict(registration.about),
        "defer_loading": spec.defer_loading,
        "minimal_tools": spec.minimal_tools,
        "tools_said": written_tools(spec),
        "version": registration.version,
        "created": registration.created / 1000,
        "updated": registration.updated / 1000,
    }
    return told


def _shown_oauth(oauth: OAuthSpec) -> dict[str, Any]:
    plain = {one.name: getattr(oauth, one.name) for one in dataclasses.fields(oauth) if one.repr}
    said = {name: value for name, value in plain.items() if value != getattr(OAuthSpec(), name)}
    hidden = [one.name for one in dataclasses.fields(oauth) if not one.repr and getattr(oauth, one.name)]
    return {**said, **({"secrets": hidden} if hidden else {})}
