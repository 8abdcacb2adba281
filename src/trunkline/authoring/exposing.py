"""Keeps the tools that were made of agents and workflows, and counts how their runs went."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trunkline.authoring.content import result_of
from trunkline.authoring.context import Limited
from trunkline.authoring.exposable import ExposableAgent, ExposableWorkflow, ExposureOptions, ExposureResult, SourceType
from trunkline.authoring.exposure import expose_agent_as_tool, expose_workflow_as_tool
from trunkline.errors import ConfigError
from trunkline.tool import Tool, ToolResult
from trunkline.workers import run


@dataclass(frozen=True, slots=True)
class ExposureStatistics:
    """What is exposed, and how it fared."""

    total_exposed: int
    exposed_agents: int
    exposed_workflows: int
    tool_names: tuple[str, ...]
    runs: int
    failures: int


class AgentExposureManager:
    """Agents and workflows by the names of their tools, each of which is taken once."""

    def __init__(self, options: ExposureOptions | None = None, **changes: Any) -> None:
        self.options = dataclasses.replace(options or ExposureOptions(), **changes)
        self._results: dict[str, ExposureResult] = {}
        self._runs = self._failures = 0

    def expose_agent(self, agent: ExposableAgent, **changes: Any) -> ExposureResult:
        """Make a tool of an agent; `changes` are options for it alone."""
        return self._keep(expose_agent_as_tool(agent, self.options, **changes))

    def expose_workflow(self, workflow: ExposableWorkflow, **changes: Any) -> ExposureResult:
        """Make a tool of a workflow; `changes` are options for it alone."""
        return self._keep(expose_workflow_as_tool(workflow, self.options, **changes))

    def get_exposed_tools(self) -> list[Tool]:
        """All tools: give them to `MCPServerBase.register_tools`."""
        return [result.tool for result in self._results.values()]

    def get_exposure_result(self, tool_name: str) -> ExposureResult | None:
        """Where a tool comes from, if it was made here."""
        return self._results.get(tool_name)

    def get_tools_by_source_type(self, source_type: SourceType) -> list[Tool]:
        """The tools that were made of agents, or of workflows."""
        return [result.tool for result in self._results.values() if result.source_type == source_type]

    def unexpose(self, tool_name: str) -> bool:
        """Forget a tool; false when there is none. A server that has it keeps it until `remove_tool`."""
        return self._results.pop(tool_name, None) is not None

    def clear(self) -> None:
        """Forget all tools."""
        self._results.clear()

    def get_statistics(self) -> ExposureStatistics:
        """How many there are, and how often they ran and failed."""
        return ExposureStatistics(
            len(self._results),
            len(self.get_tools_by_source_type("agent")),
            len(self.get_tools_by_source_type("workflow")),
            tuple(self._results),
            self._runs,
            self._failures,
        )

    def _keep(self, result: ExposureResult) -> ExposureResult:
        known = self._results.get(result.tool_name)
        if known is not None:
            raise ConfigError(
                f"The {known.source_type} {known.source_id!r} already has the tool name {result.tool_name!r}.",
                hint="Give one of them another name, or a `prefix` of its own.",
            )
        limit = result.tool.execute
        assert isinstance(limit, Limited), "every exposed tool has a limit"
        counted = dataclasses.replace(limit, execute=self._counted(limit.execute))
        kept = dataclasses.replace(result, tool=dataclasses.replace(result.tool, execute=counted))
        self._results[result.tool_name] = kept
        return kept

    def _counted(self, execute: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
        async def counted(given: dict[str, Any]) -> ToolResult:
            self._runs += 1
            failed = True
            try:
                result = result_of(await run(execute, given))
                failed = result.is_error
                return result
            finally:
                self._failures += failed

        return counted


global_agent_exposure_manager = AgentExposureManager()
