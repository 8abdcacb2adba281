"""A tool as data: what it is called, what it takes, how it behaves; and what it answered."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from trunkline.untrusted import as_list, as_object

Safety = Literal["safe", "moderate", "dangerous"]

DIRECT = "direct"
"""The caller that is no program: a model, or whoever else calls a tool itself."""

PROGRAM = "run_code"
"""The caller that is a program of ours, as `allowed_callers` name it."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """How a tool behaves. `None`, an empty text or an empty tuple mean: nothing is known."""

    read_only_hint: bool | None = None
    """It only reads: no side effects."""
    destructive_hint: bool | None = None
    """It deletes, overwrites, or cannot be undone."""
    idempotent_hint: bool | None = None
    """Calling it twice is like calling it once."""
    open_world_hint: bool | None = None
    """It touches systems beyond the server."""
    requires_confirmation: bool | None = None
    """A person must agree before it runs."""
    title: str = ""
    """A name for people."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    estimated_duration: float | None = None
    """Seconds it usually takes."""
    rate_limit_hint: float | None = None
    """Calls in a minute that it bears; further ones are refused until there is room. 0 sets no limit."""
    cost_hint: float | None = None
    """What a call costs, in units of one's own; whoever must agree to it is told."""
    complexity: Literal["", "simple", "medium", "complex"] = ""
    """How much it does: `simple`, `medium` or `complex`."""
    security_level: Literal["", "public", "internal", "restricted"] = ""
    """Whom it is for: `public`, `internal` or `restricted`."""
    audit_required: bool | None = None
    """Every call of it is in the audit; without one, or while it cannot be written, none is made."""
    volatile_hint: bool | None = None
    """Its answers change by themselves, as a clock's do: none is kept, unless the server says for how long."""


UNKNOWN = Annotations()


@dataclass(frozen=True, slots=True)
class ToolOptions(Annotations):
    """`[servers.NAME.tools.TOOL]`: what the operator says of a tool, before what its server says.

    The same under `[tools.TOOL]` holds for tools of that name of every server. TOOL may be a pattern, such as `get_*`.
    """

    category: str = ""
    """Category it is listed under; default is told from its words."""
    cache_ttl: float | None = None
    """Seconds its answers are kept, if `[cache]` is enabled; 0 keeps none, any other number even those of a write."""
    validate: bool | None = None
    """Whether its arguments are checked against its schema; default is `[middleware]`'s."""
    timeout: float | None = None
    """Seconds a call of it may take, questions and retries included; default is `[middleware]`'s."""
    retries: int | None = None
    """How often a call of it that is safe to repeat is tried again; default is `[middleware]`'s."""
    when_to_use: str = ""
    """When a model should take it: searched, and told with the tool."""
    defer_loading: bool | None = None
    """Whether lists leave it out: it is found by `search_tools` and called by its name; default is its server's."""
    allowed_callers: tuple[str, ...] | None = None
    """Who may call it: `direct`, `run_code` (both by default), and vendors' programs, such as
    `code_execution_20250825`; its server can only narrow this."""
    input_examples: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """Arguments that it can be called with, as examples for models."""
    max_result_tokens: int | None = None
    """Tokens of its results that callers are shown whole; default is the profile's, 0 shows all whole."""


NO_OPTIONS = ToolOptions()

MOST_EXAMPLES = 20
MOST_CALLERS = 20
LARGEST_EXAMPLES = 16 * 2**10
"""Bytes that the examples of one tool may have together."""
LONGEST_GUIDANCE = 2_000


def problem_of(options: ToolOptions) -> str:
    """What is wrong with what an operator says; empty when nothing is."""
    callers, examples = options.allowed_callers or (), list(options.input_examples)
    if len(callers) > MOST_CALLERS or not all(caller.strip() for caller in callers):
        return f"`allowed_callers` are at most {MOST_CALLERS} names."
    if len(options.when_to_use) > LONGEST_GUIDANCE:
        return f"`when_to_use` has at most {LONGEST_GUIDANCE} characters."
    if len(fitting_examples(examples)) < len(examples):
        return f"`input_examples` are at most {MOST_EXAMPLES}, of {LARGEST_EXAMPLES // 2**10} KiB of JSON together."
    return ""


def fitting_examples(examples: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first of some examples that are neither too many nor too large."""
    kept: list[Mapping[str, Any]] = []
    room = LARGEST_EXAMPLES
    for example in examples[:MOST_EXAMPLES]:
        try:
            room -= len(msgspec.json.encode(example))
        except (TypeError, ValueError, RecursionError, OverflowError):
            break  # it is no JSON
        if room < 0:
            break
        kept.append(example)
    return kept


def _empty_schema() -> Mapping[str, Any]:
    return {"type": "object", "properties": {}}


@dataclass(frozen=True)
class Tool:
    """One tool: of a server, or a function of one's own (`execute`)."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=_empty_schema)
    annotations: Annotations = UNKNOWN
    server: str = ""
    category: str = ""
    execute: Callable[[dict[str, Any]], Any | Awaitable[Any]] | None = None
    output_schema: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def annotated(self, annotations: Annotations) -> Tool:
        """The same tool with other annotations."""
        return dataclasses.replace(self, annotations=annotations)


def texts_in(content: Any) -> str:
    """The blocks of a result that are text, one under the other; whatever else servers send for blocks is none."""
    blocks = map(as_object, as_list(content))
    return "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer, decoded for Python."""

    content: list[dict[str, Any]]
    structured: Any = None
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    raw: bytes = b""
    """The result exactly as the server sent it."""

    @property
    def text(self) -> str:
        """The text blocks, one under the other."""
        return texts_in(self.content)

    @classmethod
    def of(cls, value: Any) -> ToolResult:
        """The answer of a function: a result as it is, a text as text, anything else as JSON beside itself."""
        if isinstance(value, ToolResult):
            return value
        if isinstance(value, str):
            return cls([{"type": "text", "text": value}])
        return cls([{"type": "text", "text": msgspec.json.encode(value, enc_hook=str).decode()}], structured=value)

    @classmethod
    def failed(cls, text: str, **meta: Any) -> ToolResult:
        """An answer that says why there is none."""
        return cls([{"type": "text", "text": text}], is_error=True, meta=meta)
