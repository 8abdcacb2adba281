"""Agents and workflows as data: what they do, what they take, and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trunkline.errors import ConfigError
from trunkline.tool import UNKNOWN, Annotations, Tool

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
