"""Tools to and from the formats of OpenAI: Chat Completions and Responses, plain and strict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from trunkline.errors import ConfigError
from trunkline.model import Entry
from trunkline.tool import Tool
from trunkline.tools.convert.definition import object_or_none
from trunkline.tools.convert.loss import Converted, Ledger, Path
from trunkline.tools.convert.vendor import (
    DEEPEST,
    Schema,
    adopt,
    definition_of,
    frame,
    parameters_of,
    plain_root,
    strings,
)
from trunkline.tools.names import OPENAI
from trunkline.untrusted import as_object

OpenAIFormat = Literal["chat", "responses"]


def to_openai(
    tool: Tool | Entry, *, format: OpenAIFormat = "chat", strict: bool = False, defer_loading: bool | None = None
) -> Converted[dict[str, Any]]:
    """The tool for `tools=[...]` of Chat Completions or of Responses; only the latter can defer loading."""
    responses = format == "responses"
    if defer_loading is not None and not responses:
        raise ConfigError("Chat Completions cannot defer loading.", hint="Use `format='responses'`.")
    definition = definition_of(tool)
    ledger = Ledger()
    function = frame(definition, OPENAI, ledger, hints=("defer_loading",) if responses else ())
    schema = plain_root(parameters_of(definition, ledger), OPENAI.format, ledger, ("inputSchema",))
    for keyword in ("enum", "not"):
        if keyword in schema:
            del schema[keyword]
            ledger.add(("inputSchema", keyword), "dropped", f"OpenAI takes no {keyword} at the root.")
    function["parameters"] = strict_schema(schema, ledger, ("inputSchema",)) if strict else schema
    if defer_loading is not None:
        function["defer_loading"] = defer_loading
    if not responses:
        return ledger.close({"type": "function", "function": function | ({"strict": True} if strict else {})})
    # Responses tries strict mode where nothing is said, and so would change schemas behind our back.
    return ledger.close({"type": "function", **function, "strict": strict})


def from_openai(value: Mapping[str, Any]) -> Converted[Tool]:
    """The tool of an entry of `tools`, in either format."""
    function = object_or_none(value.get("function")) or value
    if value.get("type", "function") != "function":
        raise ConfigError(f"OpenAI's {value['type']!r} is no function.", hint="Only functions are tools of one's own.")
    known = (
        ("type", "function", "parameters") if function.get("strict") else ("type", "function", "parameters", "strict")
    )
    return adopt(OPENAI.format, function, function.get("parameters"), known=known, hints=("defer_loading",))


_KEPT = {
    *("$schema", "type", "title", "description", "enum", "const", "$ref", "pattern", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_ANYTHING: Schema = {"type": ["string", "number", "boolean", "null"]}
_TYPED = ("type", "$ref", "anyOf", "enum", "const")


def strict_schema(schema: Any, ledger: Ledger, path: Path) -> dict[str, Any]:
    """The schema within what strict mode takes: objects closed, all members required, the optional ones nullable."""
    source = object_or_none(schema)
    if source is None:
        ledger.add(path, "became a plain value", "Strict mode takes no true or false as a schema.")
        return dict(_ANYTHING)
    if len(path) > DEEPEST:
        ledger.add(path, "became a plain value", "It is nested too deep.")
        return dict(_ANYTHING)
    result: dict[str, Any] = {}
    for keyword, value in source.items():
        _take(keyword, value, result, ledger, path)
    if _is_object(result):
        _close(result, source, ledger, path)
    if not any(keyword in result for keyword in _TYPED):
        ledger.add(path, "became a plain value", "In strict mode every value has a type.")
        result |= _ANYTHING
    if "array" in _types(result) and "items" not in result:
        ledger.add((*path, "items"), "became plain values", "In strict mode the items of a list have a type.")
        result["items"] = dict(_ANYTHING)
    return result


def _take(keyword: str, value: Any, result: dict[str, Any], ledger: Ledger, path: Path) -> None:
    here = (*path, keyword)
    group = object_or_none(value)
    if keyword in _KEPT or (keyword == "format" and value in _FORMATS):
        result[keyword] = value
    elif keyword == "items" and group is not None:
        result[keyword] = strict_schema(value, ledger, here)
    elif keyword in ("properties", "$defs", "definitions") and group is not None:
        result[keyword] = {name: strict_schema(about, ledger, (*here, name)) for name, about in group.items()}
    elif keyword in ("anyOf", "oneOf") and isinstance(value, list):
        if keyword == "oneOf":
            ledger.add(here, "became anyOf", "Strict mode has no oneOf.")
        branches = [strict_schema(about, ledger, (*here, place)) for place, about in enumerate(cast(list[Any], value))]
        result["anyOf"] = [*result.get("anyOf", []), *branches]
    elif keyword == "allOf" and isinstance(value, list) and len(cast(list[Any], value)) == 1 and len(path) < DEEPEST:
        ledger.add(here, "merged", "Strict mode has no allOf.")
        for inner, about in as_object(cast(list[Any], value)[0]).items():
            _take(inner, about, result, ledger, (*here, 0))
    elif keyword not in ("required", "additionalProperties"):
        ledger.add(here, "dropped", f"Strict mode has no {keyword}{' of this kind' if keyword == 'format' else ''}.")


def _close(result: dict[str, Any], source: Schema, ledger: Ledger, path: Path) -> None:
    members: dict[str, Any] = result.setdefault("properties", {})
    if source.get("additionalProperties") is not False:
        ledger.add(
            (*path, "additionalProperties"),
            "became false",
            "In strict mode an object has no members but those it names.",
        )
    if "properties" not in source:
        ledger.add((*path, "properties"), "became empty", "In strict mode an object names its members.")
    required = strings(source.get("required"))
    for name in members:
        if name not in required:
            ledger.add((*path, "properties", name), "became required and nullable", "Strict mode requires all members.")
            members[name] = _nullable(members[name])
    if [name for name in required if name in members] != required or not isinstance(source.get("required"), list):
        ledger.add((*path, "required"), "became the list of all members", "Strict mode requires what it names.")
    known = [name for name in required if name in members]
    result["required"] = [*known, *(name for name in members if name not in known)]
    result["additionalProperties"] = False


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "null" in _types(schema) or {"type": "null"} in schema.get("anyOf", []):
        return schema
    if "type" in schema and "enum" not in schema and "const" not in schema:
        return schema | {"type": [*_types(schema), "null"]}
    if "anyOf" in schema:
        return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def _types(schema: Schema) -> list[str]:
    declared = schema.get("type")
    return [declared] if isinstance(declared, str) else strings(declared)


def _is_object(schema: Schema) -> bool:
    return "object" in _types(schema) or "properties" in schema
