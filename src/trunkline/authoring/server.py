"""A server of one's own: its tools, its life, what happens to it, and how it is served."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import time
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from trunkline.authoring.capabilities import Kind, ServerCapabilitiesManager
from trunkline.authoring.content import error_text
from trunkline.authoring.context import Alone, Counterpart, Notice, calling
from trunkline.authoring.events import (
    TOOL_EVENTS,
    ServerReady,
    ServerStopped,
    ToolExecuted,
    ToolFailed,
    ToolRegistered,
    ToolRemoved,
)
from trunkline.authoring.questions import Question
from trunkline.authoring.toolbox import Toolbox
from trunkline.balance.groups import CONNECTED, ServerInfo
from trunkline.errors import ConfigError, RefusedError, TrunklineError, UnknownNameError
from trunkline.events import Emitter
from trunkline.tool import UNKNOWN, Annotations, Tool, ToolResult
from trunkline.tools.annotations import requires_confirmation, validate_annotations

if TYPE_CHECKING:
    from trunkline.authoring.protocol import Protocol

log = logging.getLogger("trunkline")

AnswerHere = Callable[[Question], Any]
"""Answers a tool's question in a call from Python: `{"action": "accept", "content": {…}}`, or something to await."""

Transport = Literal["stdio", "http"]


@dataclass(frozen=True, slots=True)
class MCPServerBaseConfig:
    """The options of a server."""

    id: str
    """A short name without blanks; in a hub its tools are shown under it."""
    name: str = ""
    """A name for people; default is the id."""
    description: str = ""
    """What it is for; callers get it as instructions."""
    version: str = "1.0.0"
    category: str = "custom"
    """Category of tools that say none of their own."""
    transport: Transport = "stdio"
    """How `run()` serves unless it is told."""
    default_timeout: float = 30.0
    """Seconds that a tool, a prompt or a reader may take; waiting for a person does not count."""
    default_annotations: Annotations = UNKNOWN
    """How its tools behave where neither they nor their words say so."""
    question_timeout: float = 600.0
    """Seconds a person has to answer."""
    max_waiting: int = 1000
    """Calls that may wait for an answer at once."""

    def __post_init__(self) -> None:
        if not self.id or self.id.split() != [self.id] or len(self.id) > 64 or "/" in self.id or "\\" in self.id:
            raise ConfigError(f"A server's `id` cannot be {self.id!r}.", hint="Use 1 to 64 letters, digits or dashes.")
        if not self.name:
            object.__setattr__(self, "name", self.id)
        if not self.version:
            raise ConfigError(f"Server {self.id!r} has no version.", hint='Give it a `version` such as "1.0.0".')
        if self.transport not in get_args(Transport):
            raise ConfigError(
                f"Server {self.id!r} cannot be served by {self.transport!r}.",
                hint=f"Take one of {', '.join(get_args(Transport))}.",
            )
        for option in ("default_timeout", "question_timeout", "max_waiting"):
            if not 0 < getattr(self, option) < math.inf:
                raise ConfigError(
                    f"Server {self.id!r} needs a `{option}` above 0.", hint="Leave it out for the default."
                )
        for problem in validate_annotations(self.default_annotations):
            raise ConfigError(f"The default annotations of server {self.id!r} are wrong: {problem}")


class MCPServerBase:
    """A server to derive from: register tools in `__init__`, and give `on_init`, `on_start` or `on_stop` a body.

    Its options are those of `MCPServerBaseConfig`, as an object or by name.
    """

    def __init__(
        self,
        config: MCPServerBaseConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.config = dataclasses.replace(config, **options) if config is not None else MCPServerBaseConfig(**options)
        self.capabilities = ServerCapabilitiesManager(timeout=self.config.default_timeout, clock=clock)
        """Its resources and prompts."""
        self._box = Toolbox(self.config.id, self.config.category, self.config.default_annotations)
        self._clock = clock
        self._events = Emitter(*TOOL_EVENTS)
        self.on, self.off = self._events.on, self._events.off
        self._changing = asyncio.Lock()
        self._initialised = self._running = False
        self._protocol: Protocol | None = None

    # To be given a body.

    async def on_init(self) -> None:
        """Runs once, before the first start."""

    async def on_start(self) -> None:
        """Runs at every start."""

    async def on_stop(self) -> None:
        """Runs at every stop; its questions are withdrawn by then, and calls that waited for them cancelled."""

    # Life.

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._running

    async def init(self) -> None:
        """Make it ready; however many ask, `on_init` runs once."""
        async with self._changing:
            await self._init()

    async def start(self) -> None:
        """Start it; however many ask, `on_start` runs once. One that runs stays as it is."""
        async with self._changing:
            await self._init()
            if not self._running:
                await self.on_start()
                self._running = True

    async def stop(self, reason: str = "") -> None:
        """Stop it, if it runs; it may be started again."""
        async with self._changing:
            if not self._running:
                return
            self._running = False
            protocol, self._protocol = self._protocol, None
            try:
                if protocol is not None:
                    await protocol.close()
                await self.on_stop()
            finally:
                self._events.emit(ServerStopped(reason))

    async def _init(self) -> None:
        if not self._initialised:
            await self.on_init()
            self._initialised = True
            self._events.emit(ServerReady(tuple(tool.name for tool in self._box.tools)))

    # Tools.

    def register_tool(self, tool: Tool | Callable[..., Any], **options: Any) -> Tool:
        """Add a tool, or a function with the options of `create_tool_from_function`; the tool as it is offered."""
        added = self._box.add(tool, **options)
        self._events.emit(ToolRegistered(added.name, added))
        self._changed("tools")
        return added

    def register_tools(self, tools: Iterable[Tool | Callable[..., Any]]) -> list[Tool]:
        """Add several tools."""
        return [self.register_tool(tool) for tool in tools]

    def remove_tool(self, name: str) -> bool:
        """Take a tool away; false when there is none."""
        removed = self._box.remove(name)
        if removed:
            self._events.emit(ToolRemoved(name))
            self._changed("tools")
        return removed

    async def execute_tool(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        tell: Callable[[Notice], object] | None = None,
        answer: AnswerHere | None = None,
    ) -> ToolResult:
        """Call a tool from Python. Nothing is raised: whatever goes wrong is a result with `is_error`.

        `tell` hears of its progress and log messages, `answer` answers its questions.
        """
        started = self._clock()
        try:
            result = await self.perform(name, params or {}, Alone(tell=tell, answer=answer), timeout=timeout)
        except TrunklineError as error:
            result = ToolResult.failed(str(error))
        about = {"tool": name, "server": self.config.id, "duration": self._clock() - started}
        return dataclasses.replace(result, meta={**result.meta, **about})

    async def perform(
        self, name: str, arguments: Mapping[str, Any], counterpart: Counterpart, *, timeout: float | None = None
    ) -> ToolResult:
        """Call a tool on behalf of somebody.

        Raises `UnknownNameError` where there is no such tool, and `RefusedError` where it has to ask and cannot; any
        other failure is a result.
        """
        tool = self._box.find(name)
        if tool is None:
            raise UnknownNameError(f"Server {self.config.id!r} has no tool {name!r}.")
        started, failed = self._clock(), "It was cancelled."
        try:
            async with calling(counterpart, timeout or self._box.limit(tool, self.config.default_timeout)):
                result = await self._box.call(tool, arguments)
            failed = (result.text or "It failed.") if result.is_error else ""
            return result
        except RefusedError as error:
            failed = str(error)
            raise
        except (Exception, SystemExit) as error:  # the tool is somebody else's code, and its failure is an answer
            failed = error_text(error)
            if not isinstance(error, TrunklineError | ValueError):
                log.error("Tool %s failed.", name, exc_info=error)
            return ToolResult.failed(failed)
        finally:
            if failed:
                self._events.emit(ToolFailed(name, failed))
            self._events.emit(ToolExecuted(name, self._clock() - started, not failed))

    def get_tools(self) -> list[Tool]:
        """All tools, in the order they came."""
        return self._box.tools

    list_tools = get_tools

    def get_tool(self, name: str) -> Tool | None:
        """One tool, if there is one of that name."""
        return self._box.find(name)

    def has_tool(self, name: str) -> bool:
        """Whether there is such a tool."""
        return self._box.find(name) is not None

    def get_tools_by_annotation(self, annotation: str, value: Any) -> list[Tool]:
        """The tools with that value of an annotation; for `tags` one in common is enough."""
        if isinstance(value, list | tuple | set | frozenset):
            wanted = set(cast("Iterable[Any]", value))
            return [tool for tool in self._box.tools if wanted & set(_listed(tool, annotation))]
        return [tool for tool in self._box.tools if getattr(tool.annotations, annotation) == value]

    def get_read_only_tools(self) -> list[Tool]:
        """Those that only read."""
        return self.get_tools_by_annotation("read_only_hint", True)

    def get_destructive_tools(self) -> list[Tool]:
        """Those that delete or overwrite."""
        return self.get_tools_by_annotation("destructive_hint", True)

    def get_idempotent_tools(self) -> list[Tool]:
        """Those that may be called twice."""
        return self.get_tools_by_annotation("idempotent_hint", True)

    def get_tools_requiring_confirmation(self) -> list[Tool]:
        """Those that a person must agree to."""
        return [tool for tool in self._box.tools if requires_confirmation(tool)]

    def to_server_info(self) -> ServerInfo:
        """The server as a `MultiServerManager` or a `ToolRouter` takes it."""
        config = self.config
        status = CONNECTED if self._running else "stopped"
        return ServerInfo(config.id, config.name, config.description, config.transport, status, self.get_tools())

    # Serving.

    def run(
        self, transport: Transport | None = None, *, host: str = "127.0.0.1", port: int = 8000, token: str = ""
    ) -> None:
        """Serve until the caller is gone (stdio), SIGTERM or Ctrl-C; the program's last line.

        Over HTTP it says its address on standard error; port 0 takes a free one. Beyond this machine a `token` that
        callers must send is required.
        """
        from trunkline.authoring.running import run

        run(self, transport or self.config.transport, host=host, port=port, token=token)

    async def serve_lines(self, lines: AsyncIterable[bytes], write: Callable[[bytes], object]) -> None:
        """Serve one caller, whose messages are lines, until it has no more; a hub talks to a mounted server so."""
        # The SDK takes a second to import: in a thread, so that a hub's calls go on meanwhile.
        await asyncio.to_thread(import_module, "trunkline.authoring.serving")
        from trunkline.authoring.serving import serve_lines

        await serve_lines(await self.protocol(), lines, write)

    async def protocol(self) -> Protocol:
        """The server as the SDK serves it, started."""
        from trunkline.authoring.protocol import Protocol

        await self.start()
        if self._protocol is None:
            self._protocol = Protocol(self)
        return self._protocol

    def _changed(self, kind: Kind) -> None:
        if self._protocol is not None:
            self._protocol.changed(kind)


def _listed(tool: Tool, annotation: str) -> Iterable[Any]:
    found = getattr(tool.annotations, annotation)
    return cast("Iterable[Any]", found) if isinstance(found, tuple) else (found,)
