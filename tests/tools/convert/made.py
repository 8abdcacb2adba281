"""Definitions made by hand and by chance, for the conversions to prove themselves on."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

FULL: dict[str, Any] = {
    "name": "issues.create",
    "title": "Create an issue",
    "description": "Create an issue in a repository.",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 1},
            "labels": {"type": "array", "items": {"$ref": "#/$defs/Label"}, "uniqueItems": True},
            "due": {"oneOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {"Label": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    },
    "outputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    "annotations": {"title": "Create", "readOnlyHint": False, "x-vendor": {"a": 1}},
    "icons": [{"src": "https://example.org/icon.png", "sizes": ["48x48"]}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"example.org/team": "core", "tags": ["issues"], "category": "version-control"},
    "x-unknown": [1, {"two": None}],
}
"""Everything that a definition can have."""

PLAIN: dict[str, Any] = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "inputSchema": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "A city."}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    },
}
"""What every format can say."""

_names = st.sampled_from(["a", "b", "city", "x-y", "$filter", "müll", "9"])
_texts = st.text(max_size=6)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=4,
)
_types = st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "null", "STRING", "date"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(_names, inner, max_size=3)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "type": _types | st.lists(_types, max_size=3),
        "title": _texts,
        "description": _texts | st.integers(),
        "default": _json,
        "enum": st.lists(_texts, max_size=3) | st.lists(_json, max_size=2),
        "const": _json,
        "properties": members,
        "required": st.lists(_names, max_size=2),
        "additionalProperties": st.booleans() | inner,
        "items": inner,
        "anyOf": st.lists(inner, max_size=3),
        "oneOf": st.lists(inner, max_size=2),
        "allOf": st.lists(inner, max_size=2),
        "not": inner,
        "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "https://example.org/s", "#/no"]),
        "$defs": members,
        "nullable": st.booleans(),
        "minimum": st.integers(-3, 3) | st.booleans(),
        "exclusiveMinimum": st.integers(-3, 3) | st.booleans(),
        "minLength": st.integers(-1, 3),
        "format": st.sampled_from(["date-time", "date", "uuid", "int32"]),
        "pattern": st.just("^a"),
        "x-mcp-header": _texts,
    }
    # A few keywords at a time, so that some schemas are simple enough to be lossless.
    return st.sets(st.sampled_from(sorted(optional)), max_size=5).flatmap(
        lambda keys: st.fixed_dictionaries({key: optional[key] for key in sorted(keys)})
    )


_simple = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean"])},
    optional={"description": _texts, "title": _texts, "default": _json},
)
_mild = st.one_of(
    _simple,
    st.fixed_dictionaries({"type": st.sampled_from([["string", "null"], ["integer", "null"], "null"])}),
    st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(st.sampled_from("xyz"), min_size=1)}),
    st.fixed_dictionaries({"type": st.just("integer"), "minimum": st.integers(), "maximum": st.integers()}),
)


def _mild_objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects open or closed, their members required or not: each vendor can say some of them."""
    members = st.dictionaries(st.sampled_from(["a", "b", "city"]), inner, min_size=1, max_size=3)
    return st.builds(_mild_object, members, st.booleans(), st.booleans())


def _mild_object(named: dict[str, Any], needed: bool, closed: bool) -> dict[str, Any]:
    required = {"required": list(named)} if needed else {}
    return {"type": "object", "properties": named, **required, **({"additionalProperties": False} if closed else {})}


_nested = st.recursive(
    _mild,
    lambda inner: st.one_of(
        _mild_objects(inner),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=2, max_size=3)}),
    ),
    max_leaves=4,
)
_mild_definitions = st.fixed_dictionaries(
    {"name": st.just("get_weather"), "inputSchema": _mild_objects(_nested)}, optional={"description": _texts}
)
schemas = st.recursive(_simple | st.booleans(), _schemas, max_leaves=8)
_wild_definitions = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["get_weather", "a.b", "do it", "9lives"]) | st.text(min_size=1, max_size=80),
        "inputSchema": _mild_objects(_nested) | _schemas(schemas) | _json,
    },
    optional={
        "description": _texts | st.none(),
        "title": _texts,
        "outputSchema": _mild_objects(_nested) | schemas,
        "annotations": st.dictionaries(st.sampled_from(["title", "readOnlyHint", "tags", "x"]), _json, max_size=2),
        "_meta": st.dictionaries(
            st.sampled_from(["defer_loading", "allowed_callers", "input_examples", "when_to_use", "tags", "category"]),
            _json | st.booleans() | st.lists(_texts, max_size=2),
            max_size=3,
        )
        | st.none(),
        "icons": st.lists(_json, max_size=1),
        "x-unknown": _json,
    },
)
definitions: st.SearchStrategy[dict[str, Any]] = _mild_definitions | _wild_definitions
"""Half of them such that most vendors lose nothing, half such that nobody should send them."""
