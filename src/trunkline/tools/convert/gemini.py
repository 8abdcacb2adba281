"""Tools to and from the function declarations of Gemini: its part of OpenAPI, or JSON Schema as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from trunkline.model import Entry
from trunkline.tool import Tool
from trunkline.tools.convert.definition import object_or_none
from trunkline.tools.convert.loss import Converted, Ledger, Path
from trunkline.tools.convert.vendor import (
    DEEPEST,
    EMPTY,
    Schema,
    adopt,
    definition_of,
    frame,
    look_up,
    parameters_of,
    plain_root,
    strings,
)
from trunkline.tools.names import GEMINI
from trunkline.untrusted import as_list, as_object


def to_gemini(tool: Tool | Entry, *, json_schema: bool = False) -> Converted[dict[str, Any]]:
    """The tool for `functionDeclarations`; with `json_schema` its schemas travel whole, where the model takes them."""
    definition = definition_of(tool)
    ledger = Ledger()
    result = frame(definition, GEMINI, ledger, members=("outputSchema",))
    schema = parameters_of(definition, ledger)
    output = object_or_none(definition.get("outputSchema"))
    if output is None and "outputSchema" in definition:
        ledger.add(("outputSchema",), "dropped", "It is no schema.")
    if json_schema:
        result["parametersJsonSchema"] = schema
        if output is not None:
            result["responseJsonSchema"] = output
        return ledger.close(result)
    # Gemini refuses an object without members; a function without arguments has no parameters.
    if schema != EMPTY:
        root = plain_root(schema, GEMINI.format, ledger, ("inputSchema",))
        result["parameters"] = GeminiSchema(root, ledger).of(root, ("inputSchema",))
    if output is not None:
        result["response"] = GeminiSchema(output, ledger).of(output, ("outputSchema",))
    return ledger.close(result)


def from_gemini(value: Mapping[str, Any]) -> Converted[Tool]:
    """The tool of one function declaration."""
    ledger = Ledger()
    whole, part = value.get("parametersJsonSchema"), value.get("parameters")
    schema = to_json_schema(part, ledger, ("parameters",)) if whole is None and part is not None else whole
    output, response = value.get("responseJsonSchema"), value.get("response")
    if output is None and response is not None:
        output = to_json_schema(response, ledger, ("response",))
    extra = {} if output is None else {"outputSchema": output}
    known = ("parameters", "parametersJsonSchema", "response", "responseJsonSchema")
    tool = adopt(GEMINI.format, value, schema, known=known, extra=extra)
    ledger.extend(tool.losses)
    return ledger.close(tool.value)


# Bounds for schemas that point to themselves, or that are made to exhaust their reader.
_MOST_INLINED = 500
_LONGEST_CHAIN = 50

_ANYTHING = ({"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"})
# Keywords that stand beside a choice of types rather than in each.
_ABOUT_ALL = ("title", "description", "default", "example")


class GeminiSchema:
    """Writes schemas of one document in Gemini's part of OpenAPI."""

    def __init__(self, root: Schema, ledger: Ledger) -> None:
        self._root = root
        self._ledger = ledger
        self._inlined = 0

    def of(self, schema: Any, path: Path, above: tuple[str, ...] = ()) -> dict[str, Any]:
        """One schema of the document; `above` are the references that led to it."""
        source = object_or_none(schema)
        if source is None:
            return self._anything({}, path, "Gemini takes no true or false as a schema.")
        if len(path) > DEEPEST:
            return self._anything({}, path, "It is nested too deep.")
        if "$ref" in source:
            return self._inline(source, path, above)
        if isinstance(source.get("allOf"), list) and len(above) <= _LONGEST_CHAIN:
            return self.of(self._merge(source, path, above), path, (*above, "allOf"))
        if isinstance(source.get("type"), list) and not _is_nullable_pair(source["type"]):
            return self._of_types(source, path, above)
        result: dict[str, Any] = {}
        for keyword, value in source.items():
            self._take(keyword, value, source, result, path, above)
        return self._completed(result, path)

    def _take(
        self, keyword: str, value: Any, source: Schema, result: dict[str, Any], path: Path, above: tuple[str, ...]
    ) -> None:
        here = (*path, keyword)
        group = object_or_none(value)
        listed = cast(list[Any], value) if isinstance(value, list) else None
        if keyword in ALIKE and ALIKE[keyword](value):
            # Choices that became words stand in the description already; bounds that were exclusive stay.
            both = keyword == "description" and keyword in result
            result[keyword] = f"{value} {result[keyword]}" if both else result.get(keyword, value)
        elif keyword == "type":
            self._take_type(value, result, here)
        elif keyword == "properties" and group is not None:
            result["properties"] = {name: self.of(about, (*here, name), above) for name, about in group.items()}
        elif keyword == "items" and group is not None:
            result["items"] = self.of(value, here, above)
        elif keyword in ("anyOf", "oneOf") and listed and "properties" not in source:
            if keyword == "oneOf":
                self._ledger.add(here, "became anyOf", "Gemini has no oneOf.")
            branches = [self.of(about, (*here, place), above) for place, about in enumerate(listed)]
            result["anyOf"] = [*result.get("anyOf", []), *branches]
        elif keyword == "required" and listed is not None:
            self._take_required(listed, source, result, here)
        elif keyword in ("enum", "const"):
            self._take_choices(keyword, [value] if keyword == "const" else listed or [], result, here)
        elif (
            keyword in ("exclusiveMinimum", "exclusiveMaximum") and is_count(value) and source.get("type") == "integer"
        ):
            bound, step = ("minimum", 1) if keyword == "exclusiveMinimum" else ("maximum", -1)
            result.setdefault(bound, int(source[keyword]) + step)
            self._ledger.add(here, f"became {bound}", f"Gemini has no {keyword}.")
        elif keyword == "nullable" and value is True:
            result["nullable"] = True
            self._ledger.add(here, "comes back as a type", "It is no keyword of JSON Schema.")
        else:
            self._ledger.add(here, "dropped", f"Gemini has no {keyword}{' of this kind' if keyword in ALIKE else ''}.")

    def _take_type(self, value: Any, result: dict[str, Any], here: Path) -> None:
        nullable = _is_nullable_pair(value)
        name = strings(value)[0] if nullable else str(value)
        if name.lower() in TYPES:
            result["type"] = name.upper()
        if nullable:
            result["nullable"] = True
        if name not in TYPES:
            became = "written otherwise" if name.lower() in TYPES else "dropped"
            self._ledger.add(here, became, f"Gemini's types are {', '.join(TYPES)}.")

    def _take_required(self, value: list[Any], source: Schema, result: dict[str, Any], here: Path) -> None:
        members = as_object(source.get("properties"))
        known = [name for name in value if isinstance(name, str) and name in members]
        if known != value:
            self._ledger.add(here, "shortened", "Gemini requires nothing but members that are described.")
        result["required"] = known

    def _take_choices(self, keyword: str, values: list[Any], result: dict[str, Any], here: Path) -> None:
        texts = [value for value in values if isinstance(value, str) and value]
        if keyword == "enum" and texts and texts == values:
            result["enum"] = texts
        elif texts and texts == [value for value in values if value not in ("", None)]:
            # An empty text or null among texts: Gemini refuses the one, and says the other apart.
            result["enum"] = texts
            if None in values:
                result["nullable"] = True
            result.setdefault("type", "STRING")
            self._ledger.add(here, "became enum", "Gemini has nothing but texts in an enum, and no const.")
        else:
            said = ", ".join(json.dumps(value) for value in values)
            result["description"] = f"{result.get('description', '')} One of: {said}.".strip()
            self._ledger.add(here, "moved into the description", "Gemini has nothing but texts in an enum.")

    def _merge(self, source: Schema, path: Path, above: tuple[str, ...]) -> dict[str, Any]:
        """The parts of an `allOf` and what stands beside it as one schema; what is said twice counts as said first."""
        self._ledger.add((*path, "allOf"), "merged", "Gemini has no allOf.")
        result = {keyword: value for keyword, value in source.items() if keyword != "allOf"}
        for part in cast(list[Any], source["allOf"]):
            given = as_object(part)
            for keyword, value in (self._target(given.get("$ref"), above) or given).items():
                if keyword == "properties":
                    result[keyword] = {**as_object(value), **as_object(result.get(keyword))}
                elif keyword == "required" and isinstance(value, list):
                    result[keyword] = [*strings(result.get(keyword)), *strings(value)]
                else:
                    result.setdefault(keyword, value)
        return result

    def _target(self, reference: Any, above: tuple[str, ...]) -> Schema | None:
        """What a reference points to, unless it has been followed far enough."""
        if reference in above or len(above) > _LONGEST_CHAIN or self._inlined >= _MOST_INLINED:
            return None
        self._inlined += 1
        return look_up(self._root, reference)

    def _inline(self, source: Schema, path: Path, above: tuple[str, ...]) -> dict[str, Any]:
        reference = source["$ref"]
        rest = {keyword: value for keyword, value in source.items() if keyword != "$ref"}
        target = self._target(reference, above)
        if target is None:
            why = "Gemini has no references, and this one goes nowhere or on and on."
            self._ledger.add((*path, "$ref"), "cut off", why)
            kind = (look_up(self._root, reference) or {}).get("type")
            return self.of({"type": kind, **rest} if kind else rest, path, (*above, "allOf"))
        self._ledger.add((*path, "$ref"), "inlined", "Gemini has no references.")
        return self.of({**target, **rest}, path, (*above, reference))

    def _of_types(self, source: Schema, path: Path, above: tuple[str, ...]) -> dict[str, Any]:
        kinds = [name for name in strings(source["type"]) if name.lower() in TYPES]
        rest = {key: value for key, value in source.items() if key != "type"}
        if len(kinds) < 2:
            self._ledger.add((*path, "type"), "written otherwise", "Gemini takes one type.")
            return self.of(rest | {"type": kinds[0]} if kinds else rest, path, above)
        if len(kinds) == 2 and kinds[0] == "null" and kinds[1] != "null":
            kind = kinds[1]
            self._ledger.add((*path, "type"), "written otherwise", "Gemini says apart whether null will do.")
            return self.of(rest | {"type": [kind, "null"]}, path, above)
        self._ledger.add((*path, "type"), "became anyOf", "Gemini takes one type.")
        about = {key: value for key, value in rest.items() if key in _ABOUT_ALL}
        each = {key: value for key, value in rest.items() if key not in _ABOUT_ALL}
        fitting = [{**_fitting(each, kind), "type": kind} for kind in kinds]
        branches = [self.of(branch, path, above) for branch in fitting]
        return self._completed(about | {"anyOf": branches}, path)

    def _completed(self, result: dict[str, Any], path: Path) -> dict[str, Any]:
        if "anyOf" in result:
            return self._alone(result, path)
        if "type" not in result:
            if "properties" in result or "items" in result or "enum" in result:
                result["type"] = "OBJECT" if "properties" in result else "ARRAY" if "items" in result else "STRING"
                self._ledger.add((*path, "type"), f"became {result['type']}", "Gemini wants a type.")
            else:
                return self._anything(result, path, "Gemini wants a type.")
        if result.get("type") == "ARRAY" and "items" not in result:
            result["items"] = self._anything({}, (*path, "items"), "Gemini wants a type for the items of a list.")
        if "enum" in result and result.get("type") != "STRING":
            self._ledger.add((*path, "enum"), "dropped", "Gemini has an enum for texts alone.")
            del result["enum"]
        if "nullable" in result and "enum" in result:
            self._ledger.add((*path, "enum"), "read otherwise", "In Gemini null will do beside every enum.")
        return result

    def _alone(self, result: dict[str, Any], path: Path) -> dict[str, Any]:
        """Alternatives without anything beside them: Gemini refuses other keywords there."""
        branches = cast(list[dict[str, Any]], result["anyOf"])
        beside = {keyword: value for keyword, value in result.items() if keyword != "anyOf"}
        others = [branch for branch in branches if branch != {"type": "NULL"}]
        if len(branches) == 2 and len(others) == 1 and "anyOf" not in others[0]:
            self._ledger.add((*path, "anyOf"), "became nullable", "Gemini says apart whether null will do.")
            return {**others[0], **beside, "nullable": True}
        if not beside:
            return result
        self._ledger.add((*path, "anyOf"), "took in what stood beside it", "Gemini takes nothing beside anyOf.")
        return {"anyOf": [{**beside, **branch} for branch in branches]}

    def _anything(self, result: dict[str, Any], path: Path, why: str) -> dict[str, Any]:
        self._ledger.add(path, "became a text, a number or a boolean", why)
        return {"anyOf": [{**result, **choice} for choice in _ANYTHING]}


def _is_nullable_pair(types: Any) -> bool:
    pair = as_list(types)
    return len(pair) == 2 and pair[1] == "null" and pair[0] in TYPES[:-1]


# Which keywords say something about one type alone.
_OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern", "format", "enum", "const"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "const"},
    "array": {"items", "minItems", "maxItems", "uniqueItems"},
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
}
_OF_TYPE["integer"] = _OF_TYPE["number"]
_OF_ANY_TYPE = set[str]().union(*_OF_TYPE.values())


def _fitting(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    own = _OF_TYPE.get(kind, set[str]())
    return {key: value for key, value in schema.items() if key in own or key not in _OF_ANY_TYPE}


TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_FORMATS = {"date-time", "enum", "float", "double", "int32", "int64"}


def to_json_schema(schema: Any, ledger: Ledger, path: Path) -> dict[str, Any]:
    """A schema of Gemini's as JSON Schema."""
    if len(path) > DEEPEST:
        ledger.add(path, "dropped", "It is nested too deep.")
        return {}
    result: dict[str, Any] = {}
    for keyword, value in as_object(schema).items():
        here = (*path, keyword)
        if keyword == "type" and isinstance(value, str) and value.lower() in TYPES:
            result[keyword] = value.lower()
        elif keyword == "properties":
            members = as_object(value).items()
            result[keyword] = {name: to_json_schema(about, ledger, (*here, name)) for name, about in members}
        elif keyword == "items":
            result[keyword] = to_json_schema(value, ledger, here)
        elif keyword == "anyOf" and isinstance(value, list):
            branches = enumerate(cast(list[Any], value))
            result[keyword] = [to_json_schema(about, ledger, (*here, place)) for place, about in branches]
        elif keyword in ALIKE or keyword in ("enum", "required"):
            result[keyword] = value
        elif keyword != "nullable":
            ledger.add(here, "dropped", "It is no keyword of JSON Schema.")
    if as_object(schema).get("nullable") is True:
        _admit_null(result)
    return result


def _admit_null(result: dict[str, Any]) -> None:
    if isinstance(result.get("enum"), list):
        result["enum"] = [*result["enum"], None]
    if isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]
    elif "anyOf" in result:
        result["anyOf"] = [*result["anyOf"], {"type": "null"}]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """A whole number, 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast(list[Any], value))


def _is_anything(value: Any) -> bool:
    return True


# Keywords that both sides write alike, and what their values look like.
ALIKE: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "pattern"), _is_text),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), is_count),
    **dict.fromkeys(("default", "example"), _is_anything),
    "propertyOrdering": _is_list_of_texts,
    "format": lambda value: isinstance(value, str) and value in _FORMATS,
}
