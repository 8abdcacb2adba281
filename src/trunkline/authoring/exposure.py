"""Makes tools of agents and workflows: with legal names, honest hints, time limits, and steps told as progress."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from trunkline.authoring.content import result_of
from trunkline.authoring.context import Limited, report_progress
from trunkline.authoring.toolbox import annotated
from trunkline.errors import ConfigError, InvalidArgumentsError, RefusedError
from trunkline.foreign import Raised, attempt
from trunkline.tool import UNKNOWN, Annotations, Tool, ToolResult
from trunkline.tools.names import distinct, sanitize_tool_name, with_prefix
from trunkline.workers import run

Execute = Callable[[dict[str, Any]], Any | Awaitable[Any]]
SourceType = Literal["agent", "workflow"]


def _anything() -> Mapping[str, Any]:
    return {"type": "object"}


@dataclass(frozen=True, slots=True)
class ExposureMetadata:
    """What is known of an agent or a workflow."""

    version: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    estimated_duration: float | None = None
    """Seconds it usually takes."""
    cost_hint: float | None = None
    """What a run costs, in units of one's own."""
    complexity: Literal["simple", "medium", "complex"] = "complex"
    idempotent: bool | None = None
    """Whether running it twice is like running it once."""
    retriable: bool = False
    """Whether it may be run again when it failed; then it is, as often as `retries` says, and callers hear so."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", tuple(self.tags))


@dataclass(frozen=True)
class ExposableAgent:
    """An agent: a function of one input, with a name and a description."""

    id: str
    name: str
    description: str
    execute: Execute
    input_schema: Mapping[str, Any] = field(default_factory=_anything)
    output_schema: Mapping[str, Any] | None = None
    metadata: ExposureMetadata = ExposureMetadata()

    def __post_init__(self) -> None:
        _check(self.id, self.name, "agent")


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """One step of a workflow."""

    id: str
    name: str = ""
    run: Callable[[dict[str, Any], Mapping[str, Any]], Any | Awaitable[Any]] | None = None
    """What it does: takes the input, and what the steps before it gave, by their ids."""
    retriable: bool = False
    """Whether it may be run again when it failed."""


@dataclass(frozen=True)
class ExposableWorkflow:
    """A workflow: steps that run one after the other, or a function that calls `enter_step` as it goes."""

    id: str
    name: str
    description: str
    execute: Execute | None = None
    """Without it every step has a `run`, and what the last one gives is the result."""
    steps: tuple[WorkflowStep, ...] = ()
    input_schema: Mapping[str, Any] = field(default_factory=_anything)
    output_schema: Mapping[str, Any] | None = None
    metadata: ExposureMetadata = ExposureMetadata()

    def __post_init__(self) -> None:
        _check(self.id, self.name, "workflow")
        object.__setattr__(self, "steps", tuple(self.steps))
        ids = [step.id for step in self.steps]
        if len(set(ids)) < len(ids):
            raise ConfigError(f"Workflow {self.id!r} has two steps of one id.", hint="Give each its own.")
        if self.execute is None and not (self.steps and all(step.run is not None for step in self.steps)):
            raise ConfigError(
                f"Workflow {self.id!r} does nothing.", hint="Give it an `execute`, or every step a `run`."
            )


@dataclass(frozen=True, slots=True)
class ExposureOptions:
    """How agents and workflows become tools."""

    prefix: str | None = None
    """What their names begin with; default is `agent` or `workflow`, and an empty one is none."""
    default_annotations: Annotations = UNKNOWN
    """How the tools behave where neither their metadata nor their words say so."""
    include_metadata_in_description: bool = True
    name_transformer: Callable[[str], str] | None = None
    """Makes a tool's name of a source's; what it gives is still made legal."""
    execution_timeout: float | None = None
    """Seconds a run may take; default is 300 for an agent and 600 for a workflow."""
    retries: int = 1
    """How often what is `retriable` is run again when it failed."""
    enable_logging: bool = True
    """One line in the log for each run; never its input."""

    def __post_init__(self) -> None:
        if self.execution_timeout is not None and not 0 < self.execution_timeout < math.inf:
            raise ConfigError("An `execution_timeout` must be above 0.", hint="Leave it out for the default.")
        if self.retries < 0:
            raise ConfigError("`retries` must be 0 or more.")


@dataclass(frozen=True)
class ExposureResult:
    """A tool that was made of an agent or a workflow."""

    tool: Tool
    source_type: SourceType
    source_id: str
    tool_name: str


def _check(id: str, name: str, what: str) -> None:
    if not id or not name:
        raise ConfigError(f"An {what} needs an id and a name.", hint="Give both.")


log = logging.getLogger("trunkline")

AGENT_TIMEOUT = 300.0
WORKFLOW_TIMEOUT = 600.0

Source = ExposableAgent | ExposableWorkflow
_steps: ContextVar[tuple[WorkflowStep, ...]] = ContextVar("trunkline steps", default=())


def expose_agent_as_tool(
    agent: ExposableAgent, options: ExposureOptions | None = None, **changes: Any
) -> ExposureResult:
    """An agent as a tool; options as an object or by name."""
    return _exposed(agent, "agent", _options(options, changes))


def expose_workflow_as_tool(
    workflow: ExposableWorkflow, options: ExposureOptions | None = None, **changes: Any
) -> ExposureResult:
    """A workflow as a tool; options as an object or by name."""
    return _exposed(workflow, "workflow", _options(options, changes))


def expose_agents_as_tools(
    agents: Iterable[ExposableAgent], options: ExposureOptions | None = None, **changes: Any
) -> list[ExposureResult]:
    """Several agents as tools; those that would have one name are told apart by their ids."""
    return _apart([expose_agent_as_tool(agent, options, **changes) for agent in agents])


def expose_workflows_as_tools(
    workflows: Iterable[ExposableWorkflow], options: ExposureOptions | None = None, **changes: Any
) -> list[ExposureResult]:
    """Several workflows as tools; those that would have one name are told apart by their ids."""
    return _apart([expose_workflow_as_tool(workflow, options, **changes) for workflow in workflows])


def enter_step(step_id: str) -> None:
    """Say from within a workflow which of its steps begins; its caller sees it as progress."""
    steps = _steps.get()
    for place, step in enumerate(steps):
        if step.id == step_id:
            report_progress(place, len(steps), step.name or step.id)
            return
    known = ", ".join(step.id for step in steps) or "none"
    raise ConfigError(f"The workflow has no step {step_id!r}.", hint=f"Its steps are: {known}.")


def _exposed(source: Source, kind: SourceType, options: ExposureOptions) -> ExposureResult:
    bare = _bare_name(source, options)
    prefix = kind if options.prefix is None else options.prefix
    name = sanitize_tool_name(with_prefix(prefix, bare))
    timeout = options.execution_timeout or (AGENT_TIMEOUT if kind == "agent" else WORKFLOW_TIMEOUT)
    tool = Tool(
        name,
        _description(source, options),
        source.input_schema,
        _annotations(source, kind, bare, options),
        category=source.metadata.category,
        execute=Limited(_runner(source, kind, name, options), timeout, f"{kind.capitalize()} {source.name!r}"),
        output_schema=source.output_schema,
    )
    return ExposureResult(tool, kind, source.id, name)


def _bare_name(source: Source, options: ExposureOptions) -> str:
    if options.name_transformer is not None:
        return options.name_transformer(source.name)
    for text in (source.name, source.id):
        plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
        if plain:
            return plain
    return sanitize_tool_name(source.name)


def _description(source: Source, options: ExposureOptions) -> str:
    about = source.metadata
    known = [
        f"v{about.version}" if about.version else "",
        f"category: {about.category}" if about.category else "",
        f"{len(source.steps)} steps" if isinstance(source, ExposableWorkflow) and source.steps else "",
        f"~{about.estimated_duration:g} s" if about.estimated_duration is not None else "",
    ]
    told = ", ".join(part for part in known if part)
    return f"{source.description} [{told}]" if told and options.include_metadata_in_description else source.description


def _annotations(source: Source, kind: SourceType, name: str, options: ExposureOptions) -> Annotations:
    about = source.metadata
    given = Annotations(
        idempotent_hint=True if about.idempotent is None and about.retriable else about.idempotent,
        tags=(kind, *about.tags),
        estimated_duration=about.estimated_duration,
        cost_hint=about.cost_hint,
        complexity=about.complexity,
    )
    # By its own words: a prefix such as `agent` is no verb.
    return annotated(given, name, source.description, source.input_schema, options.default_annotations)


def _runner(source: Source, kind: SourceType, name: str, options: ExposureOptions) -> Callable[[dict[str, Any]], Any]:
    retries = options.retries if source.metadata.retriable else 0

    async def once(given: dict[str, Any]) -> ToolResult:
        if isinstance(source, ExposableWorkflow):
            return result_of(await _worked(source, given, options.retries))
        return result_of(await run(source.execute, given))

    async def execute(given: dict[str, Any]) -> ToolResult:
        end = "failed"
        try:
            result = await _tried(lambda: once(dict(given)), retries)
            end = "failed" if result.is_error else "done"
            return result
        finally:
            if options.enable_logging:
                log.info("%s %s as %s: %s", kind, source.id, name, end)

    return execute


async def _worked(workflow: ExposableWorkflow, given: dict[str, Any], retries: int) -> Any:
    token = _steps.set(workflow.steps)
    try:
        if workflow.execute is not None:
            result = await run(workflow.execute, given)
        else:
            result = await _stepped(workflow.steps, given, retries)
    finally:
        _steps.reset(token)
    if workflow.steps:
        report_progress(len(workflow.steps), len(workflow.steps), "done")
    return result


async def _stepped(steps: tuple[WorkflowStep, ...], given: dict[str, Any], retries: int) -> Any:
    results: dict[str, Any] = {}
    for step in steps:
        enter_step(step.id)
        assert step.run is not None, "a workflow without a function has steps that do something"
        work = step.run

        async def once(work: Any = work) -> Any:
            return await run(work, dict(given), dict(results))

        results[step.id] = await _tried(once, retries if step.retriable else 0)
        if result_of(results[step.id]).is_error:
            return results[step.id]
    return results[steps[-1].id]


async def _tried(work: Callable[[], Any], retries: int) -> Any:
    """Run something, and again when it raised; what will not change by trying again is not tried again."""
    while isinstance(outcome := await attempt(work), Raised):
        if retries <= 0 or isinstance(outcome.error, (InvalidArgumentsError, RefusedError, ConfigError)):
            raise outcome.error
        retries -= 1
    return outcome


def _apart(results: list[ExposureResult]) -> list[ExposureResult]:
    names = distinct(
        [result.tool_name for result in results],
        [f"{result.source_type}\0{result.source_id}" for result in results],
    )
    return [_named(result, name) for result, name in zip(results, names, strict=True)]


def _named(result: ExposureResult, name: str) -> ExposureResult:
    return dataclasses.replace(result, tool=dataclasses.replace(result.tool, name=name), tool_name=name)


def _options(options: ExposureOptions | None, changes: Mapping[str, Any]) -> ExposureOptions:
    return dataclasses.replace(options or ExposureOptions(), **cast("dict[str, Any]", changes))


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
