"""One thread of one user: what it has, set and read from Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trunkline.errors import ConfigError, NotFoundError, VersionConflictError
from trunkline.identity import unit_name
from trunkline.model import Entry, Snapshot
from trunkline.relay import Relay
from trunkline.tenancy.threads import Thread, check_count

FORMAT = "trunkline-thread"


@dataclass(frozen=True)
class ThreadStatistics:
    """How much of what its user has a thread has."""

    total_available: int
    """Tools that the user has."""
    total_loaded: int
    """Tools that the thread has, of those."""
    server_breakdown: Mapping[str, int]
    """The same by server."""


class HubThread:
    """A thread, which has what its user has until it is told otherwise. `Hub.thread` gives it."""

    def __init__(self, relay: Relay, id: str, user: str) -> None:
        self._relay, self.id, self.user = relay, id, user

    async def config(self) -> Thread:
        """What was said of it; for a thread that nobody configured, nothing."""
        found = await self._relay.tenancy.threads.find(self.user, self.id)
        return found if found is not None else Thread(self.id, self.user)

    async def set_thread_servers(self, servers: Iterable[str] | None) -> Thread:
        """Let it have these servers of its user's, or with `None` all; tools and overrides stay as they are."""
        wanted = None if servers is None else tuple(dict.fromkeys(servers))
        await self._check(wanted or ())
        return await self._change(lambda thread: dataclasses.replace(thread, servers=wanted))

    async def set_thread_tools(self, patterns: Iterable[str]) -> Thread:
        """Let it have the tools that fit one of these patterns, of its servers' tools; without one, all."""
        wanted = tuple(patterns)
        return await self._change(lambda thread: dataclasses.replace(thread, tools=wanted))

    async def enable_server(self, name: str) -> Thread:
        """Let it have one server more."""
        await self._check([name])
        return await self._change(lambda thread: _enabled(thread, name))

    async def disable_server(self, name: str) -> Thread:
        """Let it have a server no longer."""
        await self._check([name])
        return await self._change(lambda thread: _disabled(thread, name))

    async def set_overrides(self, **overrides: Any) -> Thread:
        """Have it do something otherwise than its user; what is not named stays. `limits` is a dict."""
        if isinstance(overrides.get("limits"), Mapping):
            overrides["limits"] = tuple(sorted(overrides["limits"].items()))
        unknown = overrides.keys() - set(_OVERRIDES)
        if unknown:
            raise ConfigError(
                f"A thread cannot override {', '.join(sorted(unknown))}.", hint=f"There are: {', '.join(_OVERRIDES)}."
            )
        return await self._change(
            lambda thread: dataclasses.replace(thread, overrides=dataclasses.replace(thread.overrides, **overrides))
        )

    async def get_thread_tools(self) -> list[Entry]:
        """The tools it has."""
        return list((await self._snapshot(self.id)).tools.values())

    async def statistics(self) -> ThreadStatistics:
        """How much of what its user has it has."""
        available, own = await self._snapshot(""), await self._snapshot(self.id)
        tools = [unit_name(entry.server) for entry in own.tools.values()]
        return ThreadStatistics(
            len(available.tools), len(tools), {name: tools.count(name) for name in sorted({*tools})}
        )

    async def clone(self, id: str) -> HubThread:
        """Another thread of the same user that is configured alike; there must be none of that id."""
        await self._relay.tenancy.threads.clone(self.user, self.id, id, of_user=self._of_user)
        return HubThread(self._relay, id, self.user)

    async def export(self) -> dict[str, Any]:
        """What was said of it as a document; whose it is, is not in it."""
        built: dict[str, Any] = msgspec.to_builtins(await self.config())
        said = {name: built[name] for name in ("servers", "tools", "disabled", "overrides")}
        return {"format": FORMAT, "version": 1, "thread": said}

    async def import_(self, document: Mapping[str, Any]) -> Thread:
        """Be as a document of `export` says, all or nothing; servers that its user has not are refused."""
        if document.get("format") != FORMAT or document.get("version") != 1:
            raise ConfigError("This is no document of a thread.", hint="Give what `export` gave.")
        content = document.get("thread")
        if not isinstance(content, dict):
            raise ConfigError("This is no document of a thread.", hint="Give what `export` gave.")
        wanted = self._relay.tenancy.threads.read(self.user, self.id, content)  # type: ignore[reportUnknownArgumentType]
        await self._check([*(wanted.servers or ()), *wanted.disabled])
        return await self._change(lambda thread: dataclasses.replace(wanted, version=thread.version))

    async def reset(self) -> None:
        """Let it have what its user has again."""
        await self._relay.tenancy.threads.remove(self.user, self.id)

    @property
    def _of_user(self) -> bool:
        return self._relay.tenancy.people.anybody and self._relay.wants_user(self.user)

    async def _snapshot(self, thread: str) -> Snapshot:
        scope = await self._relay.scope_of(self.user, thread)
        await self._relay.settle(self.user)
        return self._relay.view(scope).snapshot

    async def _check(self, servers: Iterable[str]) -> None:
        """Refuse servers that the user has not: another's is an unknown one."""
        snapshot = await self._snapshot("")
        known = {unit_name(name) for name in (*snapshot.servers, *snapshot.offers)}
        missing = [name for name in servers if name not in known]
        if missing:
            raise NotFoundError(f"There is no server {missing[0]!r}.", hint=f"There are: {', '.join(sorted(known))}.")

    async def _change(self, change: Callable[[Thread], Thread]) -> Thread:
        while True:
            wanted = change(await self.config())
            check_count(wanted.servers, self._relay.config.limits.servers_per_thread)
            try:
                return await self._relay.tenancy.threads.put(wanted, of_user=self._of_user)
            except VersionConflictError:  # somebody else was faster: the same change to what it is now
                continue


_OVERRIDES = ("search_strategy", "disable_tool_search", "disable_programmatic_calling", "timeout", "limits", "expose")


def _enabled(thread: Thread, name: str) -> Thread:
    servers = thread.servers
    if servers is not None and name not in servers:
        servers = (*servers, name)
    return dataclasses.replace(
        thread, servers=servers, disabled=tuple(other for other in thread.disabled if other != name)
    )


def _disabled(thread: Thread, name: str) -> Thread:
    if thread.servers is None:
        return dataclasses.replace(thread, disabled=tuple(dict.fromkeys((*thread.disabled, name))))
    return dataclasses.replace(thread, servers=tuple(other for other in thread.servers if other != name))
