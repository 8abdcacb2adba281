"""How tools behave, as hints: where they come from, which wins, and what follows from them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from trunkline.tool import UNKNOWN, Annotations, Safety, Tool
from trunkline.tools.infer import infer

_FIELDS = tuple(field.name for field in dataclasses.fields(Annotations))
_STANDARD = {
    "readOnlyHint": "read_only_hint",
    "destructiveHint": "destructive_hint",
    "idempotentHint": "idempotent_hint",
    "openWorldHint": "open_world_hint",
}
_FLAGS = {
    **_STANDARD,
    "requiresConfirmation": "requires_confirmation",
    "auditRequired": "audit_required",
    "volatileHint": "volatile_hint",
}
_NUMBERS = {"estimatedDuration": "estimated_duration", "rateLimitHint": "rate_limit_hint", "costHint": "cost_hint"}
_CHOICES = {
    "complexity": ("simple", "medium", "complex"),
    "security_level": ("public", "internal", "restricted"),
}
_CONFLICT = "Tool cannot be both readOnly and destructive - these are conflicting hints"


def effective(
    declared: Annotations,
    name: str,
    description: str = "",
    schema: Mapping[str, Any] | None = None,
    *,
    configured: Annotations = UNKNOWN,
    trusted: bool = True,
) -> Annotations:
    """What to go by: the configuration, then the server's own hints, then what can be told from the words.

    A server that is not `trusted` is believed only where its hints are no milder than the words are.
    """
    inferred = infer(name, description, schema).annotations
    said = merge_annotations(declared if trusted else _sterner(declared, inferred), configured)
    return merge_annotations(_fitting(inferred, said), said)


def infer_annotations(tool: Tool) -> Annotations:
    """What can be told from a tool's name, description and arguments; its own annotations do not count."""
    return infer(tool.name, tool.description, tool.input_schema).annotations


def create_annotated_tool(
    name: str,
    description: str = "",
    *,
    input_schema: Mapping[str, Any] | None = None,
    execute: Callable[[dict[str, Any]], Any | Awaitable[Any]] | None = None,
    annotations: Annotations = UNKNOWN,
    category: str = "",
) -> Tool:
    """A tool whose given annotations are completed by inferred ones."""
    empty: Mapping[str, Any] = {"type": "object", "properties": {}}
    schema = empty if input_schema is None else input_schema
    return Tool(
        name,
        description,
        schema,
        effective(annotations, name, description, schema),
        category=category,
        execute=execute,
    )


def merge_annotations(*parts: Annotations) -> Annotations:
    """One out of several: the later wins, what says nothing erases nothing, and tags are added up in order."""
    merged: dict[str, Any] = {}
    tags: dict[str, None] = {}
    for part in parts:
        for name in _FIELDS:
            value = getattr(part, name)
            if name == "tags":
                tags.update(dict.fromkeys(value))
            elif value is not None and value != "":
                merged[name] = value
    return Annotations(**merged, tags=tuple(tags))


def get_tool_safety_level(tool: Tool | Annotations) -> Safety:
    """Dangerous if it destroys, safe if it only reads, else moderate.

    An overwriting tool that was said to need no confirmation is moderate too.
    """
    hints = _hints(tool)
    if hints.destructive_hint:
        return "moderate" if hints.requires_confirmation is False else "dangerous"
    return "safe" if hints.read_only_hint else "moderate"


def requires_confirmation(tool: Tool | Annotations) -> bool:
    """Whether a person must agree first: as it is said, or else because it destroys."""
    hints = _hints(tool)
    return bool(hints.destructive_hint) if hints.requires_confirmation is None else hints.requires_confirmation


def as_asked(known: Annotations, said: Annotations, configured: bool | None, confirm: str) -> Annotations:
    """The same, with `requires_confirmation` as it is done where `[middleware] confirm` is so.

    What somebody `said` of a tool marks it; words alone do not, or most callers could call none that deletes.
    """
    if confirm == "never" or configured is False:
        asked = False
    else:
        by_words = requires_confirmation(known) or (confirm == "writes" and known.read_only_hint is not True)
        asked = said.requires_confirmation is True or (confirm in ("destructive", "writes") and by_words)
    shown = True if asked else False if known.requires_confirmation is False else None
    return known if shown is known.requires_confirmation else dataclasses.replace(known, requires_confirmation=shown)


def only_reads(annotations: Annotations) -> bool:
    """Whether a call may be answered from the cache, shared, or made again elsewhere, whoever says that it reads."""
    return annotations.read_only_hint is True and not annotations.destructive_hint


def is_safe_to_retry(tool: Tool | Annotations) -> bool:
    """Whether a call that may have happened can be repeated: it is idempotent, or reads and destroys nothing."""
    hints = _hints(tool)
    return not hints.destructive_hint if hints.read_only_hint else bool(hints.idempotent_hint)


def validate_annotations(annotations: Annotations | Mapping[str, Any]) -> list[str]:
    """What is wrong with them, one sentence each; nothing if they are good."""
    values = (
        {name: getattr(annotations, name) for name in _FIELDS} if isinstance(annotations, Annotations) else annotations
    )
    found = [f"There is no annotation {name!r}." for name in values if name not in _FIELDS]
    if values.get("read_only_hint") is True and values.get("destructive_hint") is True:
        found.append(_CONFLICT)
    for name in _FLAGS.values():
        if not isinstance(values.get(name), bool | None):
            found.append(f"{name} must be true or false, not {values[name]!r}.")
    for name in _NUMBERS.values():
        if values.get(name) is not None and not _is_amount(values[name]):
            found.append(f"{name} must be a finite number, 0 or more, not {values[name]!r}.")
    for name, choices in _CHOICES.items():
        if values.get(name, "") not in ("", *choices):
            found.append(f"{name} must be one of {', '.join(choices)}, not {values[name]!r}.")
    if not isinstance(values.get("title", ""), str):
        found.append(f"title must be a text, not {values['title']!r}.")
    return found + _wrong_tags(values.get("tags", ()))


def from_mcp(hints: Mapping[str, Any]) -> Annotations:
    """A server's `annotations` object; members of the wrong type say nothing. Its durations are in milliseconds."""
    known: dict[str, Any] = {
        ours: hints[theirs] for theirs, ours in _FLAGS.items() if isinstance(hints.get(theirs), bool)
    }
    known |= {ours: float(hints[theirs]) for theirs, ours in _NUMBERS.items() if _is_amount(hints.get(theirs))}
    if "estimated_duration" in known:
        known["estimated_duration"] /= 1000
    if isinstance(hints.get("title"), str):
        known["title"] = hints["title"]
    for theirs, ours in (("complexity", "complexity"), ("securityLevel", "security_level")):
        if hints.get(theirs) in _CHOICES[ours]:
            known[ours] = hints[theirs]
    tags = hints.get("tags")
    if isinstance(tags, list):
        known["tags"] = tuple(dict.fromkeys(tag for tag in cast(list[Any], tags) if isinstance(tag, str) and tag))
    return Annotations(**known)


def to_mcp(annotations: Annotations) -> dict[str, Any]:
    """The `annotations` object of the protocol: the title and the four standard hints, where they are known."""
    title = {"title": annotations.title} if annotations.title else {}
    known = {theirs: getattr(annotations, ours) for theirs, ours in _STANDARD.items()}
    return title | {theirs: value for theirs, value in known.items() if value is not None}


def filter_tools_by_annotations(tools: Iterable[Tool], predicate: Callable[[Annotations], bool]) -> list[Tool]:
    """The tools whose annotations the predicate accepts."""
    return [tool for tool in tools if predicate(tool.annotations)]


def get_annotation_summary(annotations: Annotations) -> str:
    """One line for people: `[DESTRUCTIVE | requires confirmation | simple complexity]`."""
    hints = annotations
    parts = [
        hints.title,
        "read-only" if hints.read_only_hint else "",
        "DESTRUCTIVE" if hints.destructive_hint else "",
        "idempotent" if hints.idempotent_hint else "",
        "volatile" if hints.volatile_hint else "",
        "requires confirmation" if hints.requires_confirmation else "",
        f"{hints.complexity} complexity" if hints.complexity else "",
        f"~{hints.estimated_duration:g}s" if hints.estimated_duration is not None else "",
        f"costs {hints.cost_hint:g}" if hints.cost_hint else "",
        f"at most {hints.rate_limit_hint:g} a minute" if hints.rate_limit_hint else "",
        f"tags: {', '.join(hints.tags)}" if hints.tags else "",
    ]
    return f"[{' | '.join(part for part in parts if part) or 'no annotations'}]"


def _hints(tool: Tool | Annotations) -> Annotations:
    return tool.annotations if isinstance(tool, Tool) else tool


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _wrong_tags(tags: Any) -> list[str]:
    if not isinstance(tags, list | tuple):
        return [f"tags must be a list of texts, not {tags!r}."]
    return [
        f"tags must be texts that are not empty, not {tag!r}."
        for tag in cast("list[Any] | tuple[Any, ...]", tags)
        if not isinstance(tag, str) or not tag.strip()
    ]


def _fitting(inferred: Annotations, said: Annotations) -> Annotations:
    """Of what was inferred, only what does not contradict what was said."""
    drop: dict[str, Any] = {}
    if said.read_only_hint is True or said.destructive_hint is False:
        drop |= {"destructive_hint": None, "requires_confirmation": None}
    if said.read_only_hint is False and inferred.read_only_hint is True:
        drop |= {"destructive_hint": None, "idempotent_hint": None}
    if said.destructive_hint is True:
        # Whether a person need not be asked was told from the words; now the server says that it destroys.
        drop |= {"read_only_hint": False, "requires_confirmation": None}
        drop |= {"idempotent_hint": None} if inferred.read_only_hint else {}
    return dataclasses.replace(inferred, **drop) if drop else inferred


def _sterner(declared: Annotations, inferred: Annotations) -> Annotations:
    """Of an untrusted server's hints, those by which a tool looks milder than its words are left out."""
    drop: dict[str, Any] = {}
    if declared.read_only_hint is True and inferred.read_only_hint is not True:
        drop["read_only_hint"] = None
    if declared.destructive_hint is False and inferred.destructive_hint is not False:
        drop["destructive_hint"] = None
    if declared.idempotent_hint is True and inferred.idempotent_hint is not True:
        drop["idempotent_hint"] = None
    if declared.volatile_hint is False and inferred.volatile_hint is not False:
        drop["volatile_hint"] = None
    if declared.requires_confirmation is False:
        drop["requires_confirmation"] = None
    return dataclasses.replace(declared, **drop) if drop else declared
