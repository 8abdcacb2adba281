"""A tool as the catalogue knows it: what it is, how it behaves, which version it has, how its calls went."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from trunkline.model import NOTHING, Entry
from trunkline.tool import Annotations, Safety, Tool
from trunkline.tools.annotations import effective, get_tool_safety_level, requires_confirmation
from trunkline.tools.categories import GENERAL, infer_category
from trunkline.tools.convert.definition import read, tool_from
from trunkline.tools.convert.loss import Ledger
from trunkline.tools.convert.mcp import to_mcp_tool
from trunkline.untrusted import as_object, as_text, as_texts
from trunkline.wire.members import decode_object, encode


@dataclass(frozen=True, slots=True)
class ToolStats:
    """How the calls of a tool went; times are in seconds."""

    total_calls: int = 0
    successful_calls: int = 0
    failed_calls: int = 0
    average_execution_time: float = 0.0
    last_execution_time: float = 0.0

    @property
    def success_rate(self) -> float:
        """Share of calls that ended well; 1 while there were none."""
        return self.successful_calls / self.total_calls if self.total_calls else 1.0


NO_CALLS = ToolStats()


@dataclass(frozen=True, slots=True)
class EnhancedToolInfo:
    """An entry at one moment. What is read from `definition` is made anew each time, so nobody can change it here."""

    # These two are the entry's: whole lists of tools are gone through by them, and the way by the entry costs a third.
    name: str
    server_id: str
    """The server, or the group, that offers it."""
    entry: Entry = field(repr=False)
    """What is known of it wherever tools are listed."""
    description: str = ""
    category: str = GENERAL
    version: str = ""
    """Its own, or else its server's; empty when neither is known."""
    deprecated: bool = False
    is_available: bool = True
    """Whether its server can be reached."""
    stats: ToolStats = NO_CALLS

    @property
    def shown(self) -> str:
        """The name to call it by; differs from `name` in a hub of several servers."""
        return self.entry.shown

    @property
    def annotations(self) -> Annotations:
        """How it behaves."""
        return self.entry.annotations

    @property
    def definition(self) -> bytes:
        """What its server says of it, as JSON."""
        return self.entry.definition

    @property
    def safety(self) -> Safety:
        """`safe`, `moderate` or `dangerous`: one of them."""
        return get_tool_safety_level(self.annotations)

    @property
    def needs_confirmation(self) -> bool:
        """Whether it is wise to ask a person first: it is marked so, or it destroys."""
        return requires_confirmation(self.annotations)

    @property
    def input_schema(self) -> dict[str, Any]:
        """What it takes."""
        return self._member("inputSchema")

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """What it answers, if it says so."""
        return self._member("outputSchema") or None

    @property
    def metadata(self) -> dict[str, Any]:
        """Its `_meta`."""
        return self._member("_meta")

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names that its server gives it."""
        return as_texts(self.metadata.get("aliases"))

    @property
    def compatible_with(self) -> tuple[str, ...]:
        """Versions that it serves besides its own, as its server says."""
        return as_texts(self.metadata.get("compatibleWith"))

    @property
    def examples(self) -> tuple[Any, ...]:
        """Examples of its use, as its server gives them."""
        found = self.metadata.get("examples")
        return tuple(cast("list[Any]", found)) if isinstance(found, list) else ()

    def as_tool(self) -> Tool:
        """The same as a `Tool`."""
        return replace(_tool(self.entry, decode_object(self.definition)), category=self.category)

    def annotated(self, annotations: Annotations) -> EnhancedToolInfo:
        """The same with other annotations."""
        return replace(self, entry=replace(self.entry, annotations=annotations))

    def at(self, stats: ToolStats, *, available: bool) -> EnhancedToolInfo:
        """The same at another moment; spelled out, since `replace` takes four times as long."""
        return EnhancedToolInfo(
            self.name,
            self.server_id,
            self.entry,
            self.description,
            self.category,
            self.version,
            self.deprecated,
            available,
            stats,
        )

    def _member(self, name: str) -> dict[str, Any]:
        return as_object(decode_object(self.definition).get(name))


def read_definition(server_id: str, definition: Mapping[str, Any], *, server_version: str = "") -> EnhancedToolInfo:
    """The tool of an MCP definition; its server's own hints outrank what its words tell. ConfigError without a name."""
    return _outside(read(definition, Ledger()), server_id, definition, server_version)


def read_tool(server_id: str, tool: Tool) -> EnhancedToolInfo:
    """The tool of a server that is described in Python."""
    return _outside(tool, server_id, to_mcp_tool(tool, infer_annotations=False).value | {"name": tool.name}, "")


def read_entry(entry: Entry, *, server_version: str = "") -> EnhancedToolInfo:
    """A tool of the hub, as the snapshot has it."""
    return _info(entry, decode_object(entry.definition), server_version)


def _outside(tool: Tool, server_id: str, definition: Mapping[str, Any], version: str) -> EnhancedToolInfo:
    """A tool that is in no hub, by the entry that it would have in one."""
    hints = effective(tool.annotations, tool.name, tool.description, tool.input_schema)
    entry = Entry(tool.name, server_id, tool.name, _encoded(definition), NOTHING, annotations=hints)
    return _info(entry, definition, version)


def _info(entry: Entry, definition: Mapping[str, Any], version: str) -> EnhancedToolInfo:
    tool = _tool(entry, definition)
    # Servers say so here or there, with `true` or with a text about what to use instead.
    deprecated = definition.get("deprecated") or _meta_value(tool.meta, "deprecated")
    return EnhancedToolInfo(
        entry.name,
        entry.server,
        entry,
        tool.description,
        tool.category or infer_category(tool.name, tool.description),
        as_text(_meta_value(tool.meta, "version")) or version,
        deprecated is True or bool(as_text(deprecated)),
    )


def _tool(entry: Entry, definition: Mapping[str, Any]) -> Tool:
    hints, category = entry.annotations, entry.options.category
    return tool_from(definition, entry.name, hints, server=entry.server, category=category)


def _meta_value(meta: Mapping[str, Any], word: str) -> Any:
    """What `_meta` says under a word, with or without the prefix that MCP wants there."""
    if word in meta:
        return meta[word]
    return next((value for key, value in meta.items() if key.endswith(f"/{word}")), None)


def _encoded(definition: Mapping[str, Any]) -> bytes:
    try:
        return encode(definition)
    except (TypeError, ValueError):  # half a surrogate pair, or a value that only Python knows
        return json.dumps(definition, default=str).encode()


@dataclass(frozen=True, slots=True)
class CompatibilityCheckResult:
    """`compatible` unless there are issues; warnings and recommendations are for people."""

    compatible: bool
    issues: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()


def check_tool(tool: EnhancedToolInfo, target_version: str = "") -> CompatibilityCheckResult:
    """Another major version does not fit; an older minor one, an unknown one or a deprecated tool deserve a warning."""
    issues, warnings = _compared(tool, target_version) if target_version else ([], [])
    recommendations: list[str] = []
    if not tool.is_available:
        warnings.append(f"Server '{tool.server_id}' cannot be reached now")
    if tool.deprecated:
        warnings.append("This tool is marked as deprecated")
        recommendations.append("Consider using an alternative tool if available")
    if tool.annotations.security_level == "restricted":
        recommendations.append("This tool requires elevated permissions")
    return CompatibilityCheckResult(not issues, tuple(issues), tuple(warnings), tuple(recommendations))


def parse_version(text: str) -> tuple[int, int, int, bool] | None:
    """Major, minor, patch, and whether it is a release; `None` for what is no version. Such numbers can be compared."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    major, minor, patch, before = found.groups()
    return int(major), int(minor or 0), int(patch or 0), before is None


_VERSION = re.compile(
    r"[vV]?([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?(?:\.[0-9]{1,9})*(-?[A-Za-z][\w.-]*|-[\w.-]+)?(?:\+[\w.-]+)?"
)


def _compared(tool: EnhancedToolInfo, target: str) -> tuple[list[str], list[str]]:
    if not tool.version:
        return [], [f"The version of tool '{tool.name}' is not known, so it was not compared with v{target}"]
    have, want = parse_version(tool.version), parse_version(target)
    if have is None or want is None:
        return [], [f"Non-standard version format: tool={tool.version}, target={target}"]
    if any(parse_version(also) == want for also in tool.compatible_with):
        return [], []
    spelled = f"tool is v{tool.version.lstrip('vV')}, target is v{target.lstrip('vV')}"
    if have[0] != want[0]:
        return [f"Major version mismatch: {spelled}"], []
    if have[1] < want[1]:
        return [], [f"Minor version mismatch: {spelled}"]
    if have[:3] == want[:3] and have < want:
        return [], [f"The tool's version is not released yet: {spelled}"]
    return [], []
