"""What is kept for everybody, for each user and for each thread, in the hub's store."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trunkline.errors import ConfigError, NotFoundError
from trunkline.hub import Hub
from trunkline.identity import owner_of
from trunkline.manager.config import McpServerConfig, config_of
from trunkline.manager.context import thread_ids
from trunkline.manager.proxy_tool import McpProxyTool
from trunkline.manager.registry import PATIENCE, McpRegistry
from trunkline.storage import documents
from trunkline.tenancy import portable
from trunkline.tenancy.portable import Preview
from trunkline.tenancy.servers import ServerScope
from trunkline.tenancy.sign_ins import Connected, Credentials
from trunkline.tenancy.threads import Thread
from trunkline.thread import FORMAT, HubThread


@dataclass(frozen=True)
class McpAppConfig:
    """What everybody has; limits and defaults are the operator's, in the configuration."""

    servers: tuple[McpServerConfig, ...] = ()


@dataclass(frozen=True)
class McpUserConfig:
    """What one user has, may use, and used."""

    user_id: str
    servers: tuple[McpServerConfig, ...] = ()
    cost_limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """By the names of `[limits]`, such as `calls_per_hour`; what is not said is as it is there."""
    total_calls: int = 0
    """Calls since the start, to be read."""


class McpStorage:
    """Reads and writes the store of a hub; what is written here runs at once, and what is one user's stays theirs."""

    def __init__(self, registry: McpRegistry) -> None:
        self._registry = registry

    @property
    def hub(self) -> Hub:
        """Whose store it is."""
        return self._registry.hub

    async def init(self) -> None:
        """Open the store and bring it to the newest schema, which its first use does as well."""
        await self.hub.relay.tenancy.store()

    # For everybody, and for each user.

    async def get_app_config(self) -> McpAppConfig:
        """The servers that were registered for everybody."""
        return McpAppConfig(await self._servers(""))

    async def set_app_config(self, config: McpAppConfig) -> None:
        """Have these servers registered for everybody, and no others; nothing is changed if one cannot be."""
        await self._put("", config.servers)

    async def get_user_config(self, user_id: str) -> McpUserConfig:
        """A user's own servers, and what they may use; empty where there is nothing."""
        limits: Mapping[str, float] = {}
        with suppress(NotFoundError):
            limits = (await self.hub.relay.tenancy.people.user(user_id)).limits
        calls = self.hub.relay.tallies.of(user_id).total().calls if user_id else 0
        return McpUserConfig(user_id, await self._servers(_whose(user_id)), dict(limits), calls)

    async def set_user_config(self, user_id: str, config: McpUserConfig) -> None:
        """Have a user have these servers, and no others, and these limits; limits are for users that were added."""
        before = await self.get_user_config(user_id)
        if config.user_id != user_id:
            raise ConfigError(f"This is the configuration of {config.user_id!r}.", hint=f"It is set for {user_id!r}.")
        await self._check(user_id, config.servers)
        if dict(config.cost_limits) != dict(before.cost_limits):
            await self.hub.relay.tenancy.people.update_user(user_id, limits=config.cost_limits)
        await self._put(user_id, config.servers)

    async def delete_user_config(self, user_id: str) -> None:
        """Take out all servers of a user with their credentials, and forget all threads; the user stays."""
        await self._put(_whose(user_id), ())
        for id in await self.list_thread_ids(user_id):
            await self.delete_thread_config(id, user_id)

    async def set_user_credentials(
        self, user_id: str, server_id: str, credentials: Credentials | Mapping[str, Any]
    ) -> None:
        """Keep a sign-in that a user made elsewhere, sealed; calls use it, and it is renewed, as one made here."""
        try:
            given = msgspec.convert(msgspec.to_builtins(credentials), Credentials)
        except msgspec.ValidationError as error:
            raise ConfigError(f"These are no credentials: {error}.") from None
        relay = self.hub.relay
        spec = relay.signing_in.spec(await relay.scope_of(_whose(user_id)), server_id)
        await relay.tenancy.sign_ins.adopt(spec, user_id, given)
        if owner_of(spec.name):
            await relay.tenants.restart(spec.name, PATIENCE)
        else:
            await relay.signing_in.arrive(user_id, PATIENCE)

    async def get_user_credentials(self, user_id: str, server_id: str) -> Connected | None:
        """What is known of a user's sign-in, without its tokens; `None` where there is none."""
        found = await self.hub.relay.tenancy.sign_ins.connections(_whose(user_id))
        return next((one for one in found if one.server == server_id), None)

    async def delete_user_credentials(self, user_id: str, server_id: str) -> None:
        """Forget a user's sign-in, and have its tokens revoked where that can be."""
        relay = self.hub.relay
        spec = relay.signing_in.spec(await relay.scope_of(_whose(user_id)), server_id)
        await relay.tenancy.sign_ins.sign_out(user_id, spec.name)

    async def list_user_ids(self) -> list[str]:
        """Everybody who was added, or has servers or threads."""
        tenancy = self.hub.relay.tenancy
        if not tenancy.is_open:
            return []
        return sorted({*await self._added(), *await documents.owners(await tenancy.store())})

    async def _added(self) -> set[str]:
        found: list[str] = []
        while more := await self.hub.relay.tenancy.people.users(after=found[-1] if found else ""):
            found += [user.name for user in more]
        return set(found)

    # For each thread.

    async def get_thread_config(self, thread_id: str, user_id: str = "") -> Thread | None:
        """What was said of a user's thread; `None` when nothing was, and for another user's."""
        return await self.hub.relay.tenancy.threads.find(user_id, thread_id)

    async def set_thread_config(self, thread_id: str, config: Thread, user_id: str = "") -> None:
        """Have a user's thread be so; servers that the user has not are refused."""
        said = dataclasses.replace(config, id=thread_id, user=user_id)
        named = {name: getattr(said, name) for name in ("servers", "tools", "disabled", "overrides")}
        content: Any = msgspec.to_builtins(named)
        await self._thread(thread_id, user_id).import_({"format": FORMAT, "version": 1, "thread": content})

    async def delete_thread_config(self, thread_id: str, user_id: str = "") -> None:
        """Let a thread have what its user has again."""
        with suppress(NotFoundError):
            await self._thread(thread_id, user_id).reset()

    async def list_thread_ids(self, user_id: str = "") -> list[str]:
        """The threads that a user configured."""
        return await thread_ids(self.hub, user_id)

    def _thread(self, thread_id: str, user_id: str) -> HubThread:
        return self.hub.thread(thread_id, user_id)

    # Tools that are found when they are needed.

    async def get_deferred_tools(self, user_id: str = "") -> dict[str, McpProxyTool]:
        """Every tool that a user has, by the name it is called by: everybody's and their own, never another's."""
        entries = (await self._registry.snapshot(user_id)).tools
        return {name: McpProxyTool(self._registry, entry, user_id) for name, entry in entries.items()}

    async def get_deferred_tools_for_server(self, server_id: str, user_id: str = "") -> list[McpProxyTool]:
        """The tools of one server that a user has."""
        return await self._registry.get_server_tools(server_id, user_id)

    async def search_deferred_tools(self, query: str, limit: int = 50, *, user_id: str = "") -> list[McpProxyTool]:
        """The tools that a user has and that fit best; nothing is loaded."""
        found = await self.hub.find(query, user=user_id, limit=limit)
        return [McpProxyTool(self._registry, one.tool, user_id) for one in found]

    # All of it.

    async def clear(self) -> None:
        """Take out every server that was registered, and every thread, of everybody; people and keys stay."""
        for user in ("", *await self.list_user_ids()):
            await self._put(user, ())
            for id in await self.list_thread_ids(user):
                await self.delete_thread_config(id, user)

    async def export(self, passphrase: str = "") -> str:
        """The whole store as one JSON document, without secrets, or with them sealed by a passphrase."""
        lost = sorted({*await self.list_user_ids()} - await self._added())
        if lost:
            hint = "Add the user, such as with `trunkline user add`; documents hold the things of users alone."
            raise ConfigError(f"There are things of {lost[0]!r}, who is no user.", hint=hint)
        await self.hub.relay.trust.saved()
        return (await portable.export(self.hub.relay.tenancy, passphrase)).decode()

    async def import_(
        self, document: str, passphrase: str = "", *, allow_commands: bool = False, allow_held: bool = False
    ) -> Preview:
        """Bring in a document of `export`, all of it or nothing; says what that added and changed."""
        tenancy, read = self.hub.relay.tenancy, portable.read(document.encode())
        taken = portable.Import(tenancy, read, passphrase, commands=allow_commands, held=allow_held)
        found = await taken.preview()
        await taken.take()
        await tenancy.people.follow(None)
        tenancy.threads.follow(None)
        await self.hub.relay.tenants.follow(None)
        await self.hub.relay.trust.follow(None)
        return found

    async def _servers(self, owner: str) -> tuple[McpServerConfig, ...]:
        return tuple(config_of(one) for one in await self.hub.relay.tenancy.servers.of(owner))

    async def _put(self, owner: str, servers: Sequence[McpServerConfig]) -> None:
        """Have an owner have these servers; all of them are checked before the first is kept."""
        scope: ServerScope = "user" if owner else "app"
        have = await self._check(owner, servers)
        for name in have.keys() - {one.id for one in servers}:
            await self._registry.unregister_server(name, scope, owner)
        for one in servers:
            if one.id not in have:
                await self._registry.register_server(one, scope, owner)
            elif have[one.id] != one:
                await self._registry.update_server(one.id, vars(one), scope, owner)

    async def _check(self, owner: str, servers: Sequence[McpServerConfig]) -> dict[str, McpServerConfig]:
        """Refuse what cannot be kept; the servers that an owner has now."""
        have = {one.id: one for one in await self._servers(owner)}
        if len({one.id for one in servers}) < len(servers):
            raise ConfigError("Two servers have the same id.", hint="Leave one out, or name it otherwise.")
        for one in servers:
            if have.get(one.id) != one:
                self.hub.relay.tenancy.servers.checked(one.written(), owner)
        return have


def _whose(user_id: str) -> str:
    if not user_id:
        raise ConfigError("Whose configuration is it?", hint="Give `user_id`; everybody's is the app's.")
    return user_id
