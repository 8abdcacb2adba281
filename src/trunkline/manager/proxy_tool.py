"""A tool for one user, as a model is shown it and as it is called."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from trunkline.errors import RefusedError, UnknownNameError
from trunkline.identity import unit_name
from trunkline.model import Entry, Kind
from trunkline.telemetry.tally import Tally
from trunkline.tool import DIRECT, Tool, ToolResult
from trunkline.tools.convert.definition import origin, tool_of
from trunkline.tools.guidance import said_in

if TYPE_CHECKING:
    from trunkline.manager.config import McpServerConfig
    from trunkline.manager.registry import McpRegistry


class McpProxyTool:
    """One tool of one user, in one thread where there is one. Registries and context managers give it."""

    def __init__(self, registry: McpRegistry, entry: Entry, user_id: str = "", thread_id: str = "") -> None:
        self._registry = registry
        self.entry = entry
        """The tool as the hub has it."""
        self.user_id, self.thread_id = user_id, thread_id

    # What it is.

    @property
    def name(self) -> str:
        """The name that it is called by, the same everywhere: no two tools have one."""
        return self.entry.shown

    @property
    def server_id(self) -> str:
        """The server or group that has it."""
        return unit_name(self.entry.server)

    @property
    def is_loaded(self) -> bool:
        """Whether it was resolved for a prompt, loaded or called."""
        return self._registry.is_loaded(self)

    @cached_property
    def tool(self) -> Tool:
        """The same as converters take it, `to_anthropic(proxy.tool)`; its `execute` is this one's."""
        return dataclasses.replace(tool_of(self.entry), execute=self.execute)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """What ART's agents read; what is not known is left out."""
        tool = self.tool
        said = {
            "name": self.name,
            "description": tool.description or f"Tool {self.entry.name} from {self.server_id}",
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            **_facets(self.entry, tool),
        }
        return {key: value for key, value in said.items() if value is not None}

    @property
    def allowed_callers(self) -> tuple[str, ...]:
        """Who may call it; where nothing is said, whoever calls directly."""
        said = self.schema.get("allowed_callers")
        return (DIRECT,) if said is None else tuple(cast("list[str]", said))

    @property
    def tally(self) -> Tally:
        """How its user's calls of it went, through whichever door."""
        tools, found = self._registry.hub.relay.tallies.of(self.user_id).tools, Tally()
        for server in self.entry.members or (self.entry.server,):
            found.add(tools.get((server, self.entry.name), Tally()))
        return found

    def get_original_tool_name(self) -> str:
        """The server's own name for it."""
        return self.entry.name

    def get_tool_definition(self) -> dict[str, Any]:
        """The definition as lists show it."""
        return dict(origin(self.tool) or {})

    async def get_server_config(self) -> McpServerConfig | None:
        """Its server as it was registered; `None` for one of the configuration."""
        return await self._registry.get_server(self.server_id, self.user_id)

    # What it does.

    async def execute(
        self, arguments: Mapping[str, Any] | None = None, *, caller: str = DIRECT, timeout: float = 0.0
    ) -> ToolResult:
        """Call it for its user; the first time it is loaded. A failing tool is a result with `is_error`.

        A `caller` that the tool does not allow is refused, before anything is sent.
        """
        self._check(caller)
        program = "" if caller == DIRECT else caller
        await self.load(program)
        began = time.monotonic()
        try:
            return await self._registry.hub.call(
                self.name, arguments, user=self.user_id, thread=self.thread_id, program=program, timeout=timeout
            )
        finally:
            self._registry.called(self, time.monotonic() - began)

    def _check(self, caller: str) -> None:
        if caller not in self.allowed_callers:
            raise RefusedError(
                f"Tool {self.name!r} may not be called by {caller!r}.",
                status=403,
                hint=f"It may be called by: {', '.join(self.allowed_callers) or 'nobody'}.",
            )

    async def load(self, program: str = "") -> None:
        """Be as the tool is now: it may be named otherwise, or described more fully, than when it was found."""
        offer = (await self._registry.snapshot(self.user_id, self.thread_id, program)).offers.get(self.entry.server)
        entry = offer.own.get(Kind.TOOL, {}).get(self.entry.name) if offer is not None else None
        if entry is None:
            raise UnknownNameError(f"There is no tool {self.name!r} any more.")
        if entry is not self.entry:
            self.entry = entry
            for made in ("tool", "schema"):
                self.__dict__.pop(made, None)
        self._registry.load(entry, self.user_id)


def _facets(entry: Entry, tool: Tool) -> dict[str, Any]:
    """What is said of a tool for those who choose and call it, by the operator or its server; `None` for nothing."""
    callers, known = said_in(tool.meta, "allowed_callers"), entry.annotations
    return {
        "when_to_use": said_in(tool.meta, "when_to_use"),
        "input_examples": said_in(tool.meta, "input_examples"),
        # What cannot be understood allows nobody.
        "allowed_callers": callers if callers is None or isinstance(callers, list) else [],
        "defer_loading": said_in(tool.meta, "defer_loading"),
        "tags": list(known.tags) or None,
        "estimated_cost": known.cost_hint if known.cost_hint is not None else said_in(tool.meta, "cost_hint"),
    }
