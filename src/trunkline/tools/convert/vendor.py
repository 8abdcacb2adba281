"""What all vendors have in common: the frame of a tool, the root of its schema, and names that differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from trunkline.errors import ConfigError
from trunkline.model import Entry
from trunkline.tool import Tool, fitting_examples
from trunkline.tools.convert.definition import DEFAULT_TOOL_CONVERTER_OPTIONS, object_or_none, tool_of, write
from trunkline.tools.convert.loss import Converted, Ledger, Path
from trunkline.tools.convert.mcp import from_mcp_tool
from trunkline.tools.guidance import OWN
from trunkline.tools.names import PORTABLE, NameRule, distinct, sanitize_tool_name, validate_tool_name
from trunkline.untrusted import as_object

HINTS: Mapping[str, Callable[[Any], bool]] = {
    "defer_loading": lambda value: isinstance(value, bool),
    "allowed_callers": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),  # pyright: ignore[reportUnknownVariableType] # JSON on its way through
    "input_examples": lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),  # pyright: ignore[reportUnknownVariableType] # JSON on its way through
}
"""What a definition's `_meta` may say for vendors, and when it is well said."""

_GUIDANCE = ("when_to_use", "whenToUse")


def definition_of(tool: Tool | Entry) -> dict[str, Any]:
    """The tool's definition as it stands: nothing inferred, and under its own name."""
    own = tool_of(tool)
    return write(own, own.annotations, DEFAULT_TOOL_CONVERTER_OPTIONS, Ledger()) | {"name": own.name}


def frame(
    definition: Mapping[str, Any],
    rule: NameRule,
    ledger: Ledger,
    *,
    hints: Collection[str] = (),
    members: Collection[str] = (),
) -> dict[str, Any]:
    """Name, description and the hints that the vendor takes; all else but `members` is lost."""
    name = str(definition["name"])
    safe = sanitize_tool_name(name, rule=rule)
    if safe != name:
        ledger.add(("name",), f"became {safe!r}", " ".join(validate_tool_name(name, rule=rule).errors))
    result: dict[str, Any] = {"name": safe}
    description = definition.get("description")
    if isinstance(description, str):
        result["description"] = description
    elif "description" in definition:
        ledger.add(("description",), "dropped", "It is no text.")
    for member in definition:
        if member not in ("name", "description", "inputSchema", "_meta", *members):
            ledger.add((member,), "dropped", f"{rule.format} has no place for it.")
    result.update(_hinted(definition, rule, ledger, hints, result))
    return result


def parameters_of(definition: Mapping[str, Any], ledger: Ledger) -> Schema:
    """The input schema; one for no arguments where there is none."""
    schema = object_or_none(definition.get("inputSchema"))
    if schema is None:
        ledger.add(("inputSchema",), "became a schema without members", "It is missing, or no schema.")
        return EMPTY
    return schema


def adopt(
    vendor: str,
    value: Mapping[str, Any],
    schema: Any,
    *,
    known: Collection[str],
    hints: Collection[str] = (),
    extra: Mapping[str, Any] | None = None,
) -> Converted[Tool]:
    """The tool that a vendor's definition describes; members that are about asking, not about the tool, are lost."""
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"The {vendor} tool has no name.", hint="Give it a `name` that is a text.")
    ledger = Ledger()
    for member in value:
        if member not in ("name", "description", *known, *hints):
            ledger.add((member,), "dropped", "MCP has no place for it.")
    definition: dict[str, Any] = {"name": name}
    if "description" in value:
        definition["description"] = value["description"]
    definition["inputSchema"] = EMPTY if schema is None else schema
    definition.update(extra or {})
    meta = {hint: value[hint] for hint in hints if hint in value}
    if meta:
        definition["_meta"] = meta
    tool = from_mcp_tool(definition)
    ledger.extend(tool.losses)
    return ledger.close(tool.value)


def _hinted(
    definition: Mapping[str, Any], rule: NameRule, ledger: Ledger, hints: Collection[str], so_far: dict[str, Any]
) -> dict[str, Any]:
    meta = object_or_none(definition.get("_meta"))
    if not meta and "_meta" in definition:
        ledger.add(("_meta",), "dropped", f"{rule.format} has no place for it.")
    result: dict[str, Any] = {}
    for key, value in (meta or {}).items():
        name = key.removeprefix(OWN)
        if meta and name == key and OWN + key in meta:
            ledger.add(("_meta", key), "dropped", f"`{OWN}{key}` says it.")
        elif name in hints and HINTS[name](value):
            result[name] = fitting_examples(value) if name == "input_examples" else value
            if result[name] != value:
                ledger.add(("_meta", key), "cut", "They are too many, or too large.")
        elif name in _GUIDANCE and isinstance(value, str) and value:
            text = f"{so_far.get('description', '')}\n\nWhen to use: {value}".strip()
            result["description"] = text
            ledger.add(("_meta", key), "moved into the description", f"{rule.format} has no place of its own for it.")
        else:
            why = "It is not well formed." if name in hints else f"{rule.format} has no place for it."
            ledger.add(("_meta", key), "dropped", why)
    return result


@dataclass(frozen=True, slots=True)
class ModelTools:
    """Tools as a model is given them."""

    definitions: list[dict[str, Any]]
    by_name: dict[str, Tool]
    """Whom a model means when it calls a name."""


def batch_convert(tools: Iterable[Tool], convert: Callable[[Tool], Converted[dict[str, Any]]]) -> Converted[ModelTools]:
    """All tools by one converter, such as `to_anthropic`; names that would meet are told apart by a stable hash."""
    listed = list(tools)
    ledger = Ledger()
    definitions = [ledger.take(place, convert(tool)) for place, tool in enumerate(listed)]
    wanted = [str(_named(definition)["name"]) for definition in definitions]
    names = distinct(wanted, [tool.name for tool in listed], [tool.server for tool in listed], rule=PORTABLE)
    for place, name in enumerate(names):
        if name != wanted[place]:
            ledger.add((place, "name"), f"{wanted[place]!r} became {name!r}", "Another tool would get the same name.")
            definitions[place] = _renamed(definitions[place], name)
    return ledger.close(ModelTools(definitions, dict(zip(names, listed, strict=True))))


def _named(definition: dict[str, Any]) -> dict[str, Any]:
    return dict(object_or_none(definition.get("function")) or definition)


def _renamed(definition: dict[str, Any], name: str) -> dict[str, Any]:
    if "function" in definition:
        return definition | {"function": definition["function"] | {"name": name}}
    return definition | {"name": name}


Schema = Mapping[str, Any]
EMPTY: Schema = {"type": "object", "properties": {}}
DEEPEST = 100
"""The longest path into a schema that is followed."""


def look_up(root: Schema, reference: Any) -> Schema | None:
    """The schema that a `$ref` inside `root` points to, or nothing if it points elsewhere."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and part.isdecimal() and int(part) < len(cast(list[Any], found)):
            found = cast(list[Any], found)[int(part)]
        else:
            found = as_object(found).get(part)
    return object_or_none(found)


def plain_root(schema: Schema, vendor: str, ledger: Ledger, path: Path) -> dict[str, Any]:
    """The schema as an object whose members stand at the root, as every vendor wants it.

    The members of `allOf`, `anyOf` and `oneOf` are gathered; of alternatives only what all require stays required.
    """
    result = _gathered(schema, schema, set(), f"{vendor} takes no such thing at the root.", ledger, path)
    if result.get("type") != "object":
        ledger.add((*path, "type"), "became 'object'", f"{vendor} takes nothing but objects.")
        result["type"] = "object"
    return result


def _gathered(schema: Schema, root: Schema, seen: set[str], why: str, ledger: Ledger, path: Path) -> dict[str, Any]:
    """The schema without alternatives; each reference is followed once, so that no schema can make this go on."""
    result = dict(schema)
    target = look_up(root, result.get("$ref"))
    if target is not None and result["$ref"] not in seen and len(seen) < DEEPEST:
        seen.add(result.pop("$ref"))
        ledger.add((*path, "$ref"), "inlined", why)
        result = _gathered(target, root, seen, why, ledger, path) | result
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = result.get(keyword)
        if isinstance(branches, list) and len(path) < DEEPEST:
            del result[keyword]
            ledger.add((*path, keyword), "gathered into one object", why)
            listed = [as_object(branch) for branch in cast(list[Any], branches)]
            plain = [
                _gathered(branch, root, seen, why, Ledger(), (*path, keyword, place))
                for place, branch in enumerate(listed)
            ]
            _gather(result, plain, every=keyword == "allOf")
    return result


def _gather(result: dict[str, Any], branches: list[dict[str, Any]], *, every: bool) -> None:
    members: dict[str, list[Any]] = {name: [about] for name, about in as_object(result.get("properties")).items()}
    needs: list[set[str]] = []
    for branch in branches:
        for name, about in as_object(branch.get("properties")).items():
            if about not in members.setdefault(name, []):
                members[name].append(about)
        needs.append(set(strings(branch.get("required"))))
    needed = (set[str]().union(*needs) if every else set[str].intersection(*needs)) if needs else set[str]()
    if members:
        result["properties"] = {
            name: about[0] if len(about) == 1 else {"anyOf": about} for name, about in members.items()
        }
    required = dict.fromkeys((*strings(result.get("required")), *sorted(needed)))
    if required:
        result["required"] = list(required)
    result.setdefault("type", "object")


def strings(value: Any) -> list[str]:
    """The texts of a list; anything else counts as none."""
    if not isinstance(value, list | tuple):
        return []
    return [item for item in cast("list[Any] | tuple[Any, ...]", value) if isinstance(item, str)]
