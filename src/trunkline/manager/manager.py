"""One object for all of it: servers, threads, search and storage, for one user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from trunkline.config.options import Config, SearchStrategy
from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError
from trunkline.hub import Hub, open_hub
from trunkline.manager.config import McpServerConfig
from trunkline.manager.context import McpContextManager
from trunkline.manager.executor import ExecutionContext, ExecutionResult, ProgrammaticToolExecutor
from trunkline.manager.proxy_tool import McpProxyTool
from trunkline.manager.registry import McpRegistry, McpServerConnection
from trunkline.manager.search import ToolSearchService
from trunkline.manager.storage import McpStorage
from trunkline.search.finder import SearchConfig
from trunkline.tenancy.servers import Registration, ServerScope


@dataclass(frozen=True)
class McpManagerV2Config:
    """What a manager may be told."""

    user_id: str = ""
    """Whose manager it is; empty for a program that has no users."""
    tool_search_strategy: SearchStrategy | None = None
    """How tools are searched where the call says nothing; default is the thread's, and then `[search]`'s."""
    enable_programmatic_calling: bool = True
    """Whether `execute_from_code` calls anything."""

    def __post_init__(self) -> None:
        if self.tool_search_strategy is not None:
            SearchConfig(strategy=self.tool_search_strategy)  # says what is wrong with it


class McpManagerV2:
    """A face of a hub, its own or one that is open: `async with`, or `initialize` and `shutdown`."""

    def __init__(
        self,
        source: Hub | Config | str | Path | Iterable[ServerSpec] | None = None,
        config: McpManagerV2Config | None = None,
        **options: Any,
    ) -> None:
        self.config = _changed(config or McpManagerV2Config(), options)
        self._source, self._stack = source, AsyncExitStack()
        self._opened: tuple[McpRegistry, McpContextManager, McpStorage] | None = None
        self._executor: ProgrammaticToolExecutor | None = None
        self.tool_search = ToolSearchService()
        """Searches among tools that are given to it by hand."""

    async def initialize(self, config: McpManagerV2Config | None = None, **options: Any) -> None:
        """Open a hub, unless one was given; whoever calls this calls `shutdown`, too."""
        self.config = _changed(config or self.config, options)
        if self._opened is None:
            source = self._source
            hub = source if isinstance(source, Hub) else await self._stack.enter_async_context(open_hub(source))
            registry = McpRegistry(hub)
            self._stack.push_async_callback(registry.shutdown)
            self._opened = registry, McpContextManager(registry), McpStorage(registry)

    async def shutdown(self) -> None:
        """End what `initialize` began; a hub that was given stays open. May be said twice."""
        self._opened = self._executor = None
        await self._stack.aclose()

    async def __aenter__(self) -> McpManagerV2:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.shutdown()

    # What it joins.

    @property
    def registry(self) -> McpRegistry:
        """Servers and loaded tools, of all users."""
        return self._parts()[0]

    @property
    def context_manager(self) -> McpContextManager:
        """Threads, of all users."""
        return self._parts()[1]

    @property
    def storage(self) -> McpStorage:
        """What is kept."""
        return self._parts()[2]

    @property
    def hub(self) -> Hub:
        """What is behind all of it."""
        return self.registry.hub

    def _parts(self) -> tuple[McpRegistry, McpContextManager, McpStorage]:
        if self._opened is None:
            raise ConfigError("The manager is not open.", hint="Use `async with`, or await `initialize()` first.")
        return self._opened

    # Servers.

    async def register_server(
        self, server: McpServerConfig | Mapping[str, Any], scope: ServerScope = "user"
    ) -> Registration:
        """Take in a server as the user's own, or for everybody; the same once more changes nothing."""
        return await self.registry.register_server(server, scope, self.config.user_id)

    async def update_server(
        self, server_id: str, updates: Mapping[str, Any], scope: ServerScope = "user", *, version: int = 0
    ) -> Registration:
        """Change some fields of a server; of two who do at once, one is told."""
        return await self.registry.update_server(server_id, updates, scope, self.config.user_id, version=version)

    async def unregister_server(self, server_id: str, scope: ServerScope = "user") -> None:
        """Take a server out."""
        await self.registry.unregister_server(server_id, scope, self.config.user_id)

    async def get_or_create_connection(self, server_id: str) -> McpServerConnection:
        """Have a server connected for the user."""
        return await self.registry.get_connection(server_id, self.config.user_id)

    # Threads.

    @property
    def executor(self) -> ProgrammaticToolExecutor:
        """Calls of the user's tools from code."""
        if self._executor is None:
            self._executor = ProgrammaticToolExecutor(self.hub, ExecutionContext(user_id=self.config.user_id))
        return self._executor

    async def execute_from_code(
        self, tool_name: str, arguments: Mapping[str, Any] | None = None, context: ExecutionContext | None = None
    ) -> ExecutionResult:
        """Call a tool from code, as the user's; a failure is a result that says so."""
        if not self.config.enable_programmatic_calling:
            raise ConfigError(
                "This manager calls nothing from code.", hint="Leave out `enable_programmatic_calling=False`."
            )
        return await self.executor.execute_from_code(tool_name, arguments, context)

    async def set_thread_servers(self, thread_id: str, server_ids: Iterable[str] | None) -> None:
        """Let a thread have these servers, or with `None` all that the user has."""
        await self.context_manager.set_thread_servers(thread_id, server_ids, self.config.user_id)

    async def get_thread_tools(self, thread_id: str) -> list[McpProxyTool]:
        """Every tool that a thread has."""
        return await self.context_manager.get_thread_tools(thread_id, self.config.user_id)

    async def resolve_tools_for_prompt(
        self,
        prompt: str | Sequence[str],
        thread_id: str,
        *,
        max_results: int = 10,
        min_score: float | None = None,
        strategy: SearchStrategy | None = None,
    ) -> list[McpProxyTool]:
        """The tools of a thread that fit a prompt best; none when nothing fits."""
        return await self.context_manager.resolve_tools_for_prompt(
            prompt,
            thread_id,
            self.config.user_id,
            max_results=max_results,
            min_score=min_score,
            strategy=strategy or self.config.tool_search_strategy,
        )


_SAID_ELSEWHERE = {
    "discovery_endpoint": "`[discovery] url` names the endpoint, and `hub.services` registers what it offers.",
    "cors_proxy_url": "None is needed: servers are called from here. For browsers there is `[edge]`.",
    "enabled": "Leave the manager out where there is to be none.",
}
"""Options of ART's that are the operator's to say, or nobody's."""


def _changed(config: McpManagerV2Config, options: Mapping[str, Any]) -> McpManagerV2Config:
    """A configuration with options by name."""
    known = [one.name for one in fields(McpManagerV2Config)]
    for name in options.keys() - set(known):
        hint = _SAID_ELSEWHERE.get(name, f"There are: {', '.join(known)}.")
        raise ConfigError(f"A manager has no option {name!r}.", hint=hint)
    return replace(config, **options)
