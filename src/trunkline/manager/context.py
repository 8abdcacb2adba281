"""What a thread has of what its user has, and which of its tools a prompt needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from trunkline.config.options import SearchStrategy
from trunkline.errors import ConfigError, NotFoundError, UpstreamError
from trunkline.hub import Hub
from trunkline.identity import Overrides, unit_name
from trunkline.manager.proxy_tool import McpProxyTool
from trunkline.manager.registry import McpRegistry
from trunkline.thread import HubThread, ThreadStatistics


class McpContextManager:
    """Threads by their ids: app, then user, then thread. A thread belongs to its user; another's is another thread."""

    def __init__(self, registry: McpRegistry) -> None:
        self._registry = registry

    @property
    def hub(self) -> Hub:
        """Whose threads they are."""
        return self._registry.hub

    def _thread(self, thread_id: str, user_id: str) -> HubThread:
        return self.hub.thread(thread_id, user_id)

    # What a thread has.

    async def set_thread_servers(self, thread_id: str, server_ids: Iterable[str] | None, user_id: str = "") -> None:
        """Let a thread have these servers, or with `None` all that its user has; overrides stay.

        Tools of those whose loading is not deferred are loaded, as far as they can be reached.
        """
        thread = await self._thread(thread_id, user_id).set_thread_servers(server_ids)
        await asyncio.gather(*(self._load(server, user_id) for server in thread.servers or ()))

    async def _load(self, server_id: str, user_id: str) -> None:
        config = await self._registry.get_server(server_id, user_id)
        if config is not None and config.enabled and not config.defer_loading:
            with suppress(UpstreamError):
                await self._registry.load_server_tools(server_id, user_id)

    async def get_thread_active_servers(self, thread_id: str, user_id: str = "") -> list[str]:
        """The servers that a thread has: its own choice, or what its user has."""
        snapshot = await self._registry.snapshot(user_id, thread_id)
        return sorted({unit_name(name) for name in snapshot.servers})

    async def add_server_to_thread(self, thread_id: str, server_id: str, user_id: str = "") -> None:
        """Let a thread have one server more."""
        await self._thread(thread_id, user_id).enable_server(server_id)

    async def remove_server_from_thread(self, thread_id: str, server_id: str, user_id: str = "") -> None:
        """Let a thread have a server no longer, also where it has all that its user has."""
        await self._thread(thread_id, user_id).disable_server(server_id)

    enable_server_for_thread = add_server_to_thread
    disable_server_for_thread = remove_server_from_thread

    async def set_thread_overrides(self, thread_id: str, user_id: str = "", **overrides: Any) -> None:
        """Have a thread do something otherwise than its user, configured before or not; what is not named stays."""
        await self._thread(thread_id, user_id).set_overrides(**overrides)

    async def get_thread_overrides(self, thread_id: str, user_id: str = "") -> Overrides:
        """What a thread does otherwise than its user."""
        return (await self._thread(thread_id, user_id).config()).overrides

    async def clear_thread_config(self, thread_id: str, user_id: str = "") -> None:
        """Let a thread have what its user has again."""
        with suppress(NotFoundError):
            await self._thread(thread_id, user_id).reset()

    # Its tools.

    async def get_thread_tools(self, thread_id: str, user_id: str = "") -> list[McpProxyTool]:
        """Every tool that a thread has, loaded or not."""
        entries = await self._thread(thread_id, user_id).get_thread_tools()
        return [McpProxyTool(self._registry, entry, user_id, thread_id) for entry in entries]

    async def resolve_tools_for_prompt(
        self,
        prompt: str | Sequence[str],
        thread_id: str,
        user_id: str = "",
        *,
        max_results: int = 10,
        min_score: float | None = None,
        strategy: SearchStrategy | None = None,
    ) -> list[McpProxyTool]:
        """The tools of a thread that fit a prompt best, loaded; none when nothing fits.

        A thread with `disable_tool_search` gets all that it has. Its `search_strategy` counts where none is given, and
        `[search]` of the configuration where it has none.
        """
        if (await self.get_thread_overrides(thread_id, user_id)).disable_tool_search:
            entries = await self._thread(thread_id, user_id).get_thread_tools()
        else:
            criteria: dict[str, Any] = {"limit": max_results, "min_score": min_score, "strategy": strategy}
            entries = [one.tool for one in await self.hub.find(prompt, user=user_id, thread=thread_id, **criteria)]
        return [self._registry.load(entry, user_id, thread_id) for entry in entries]

    async def get_thread_tool_stats(self, thread_id: str, user_id: str = "") -> ThreadStatistics:
        """How many of its user's tools a thread has, by server."""
        return await self._thread(thread_id, user_id).statistics()

    # Threads as such.

    async def list_active_threads(self, user_id: str = "") -> list[str]:
        """The ids of the threads that a user configured."""
        return await thread_ids(self.hub, user_id)

    async def clone_thread_config(self, source_thread_id: str, target_thread_id: str, user_id: str = "") -> None:
        """Configure another thread of the same user alike; `ConfigError` when there is one of that id."""
        await self._thread(source_thread_id, user_id).clone(target_thread_id)

    async def export_thread_config(self, thread_id: str, user_id: str = "") -> str:
        """What was said of a thread, as JSON."""
        return json.dumps(await self._thread(thread_id, user_id).export(), indent=2)

    async def import_thread_config(self, thread_id: str, document: str, user_id: str = "") -> None:
        """Have a thread be as JSON of `export_thread_config` says, all or nothing."""
        try:
            read = msgspec.json.decode(document, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"This is no document of a thread: {error}.") from None
        await self._thread(thread_id, user_id).import_(read)


async def thread_ids(hub: Hub, user_id: str) -> list[str]:
    """The ids of the threads that a user configured."""
    found: list[str] = []
    while more := await hub.relay.tenancy.threads.list(user_id, after=found[-1] if found else ""):
        found += [thread.id for thread in more]
    return found
