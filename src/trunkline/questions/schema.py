"""A form's fields as the flat JSON Schema of MCP's questions, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from trunkline.errors import RefusedError
from trunkline.questions.fields import FieldType, FieldValidation, FormField, SelectOption, TextFormat
from trunkline.questions.secrecy import looks_secret
from trunkline.wire.envelope import INVALID_PARAMS

FORMATS = ("email", "uri", "date", "date-time")


def write_property(field: FormField, *, enum_names: bool = False) -> dict[str, Any]:
    """The schema of one field; `enum_names` writes titles of options as the revision 2025-06-18 knows them."""
    schema: dict[str, Any] = {}
    rule = field.validation
    match field.type:
        case "boolean":
            schema["type"] = "boolean"
        case "number" | "integer":
            schema |= {"type": field.type, "minimum": rule.min, "maximum": rule.max}
        case "select":
            schema |= {"type": "string", **_write_options(field.options, "enumNames" if enum_names else "oneOf")}
        case "multiselect":
            items = {"type": "string", **_write_options(field.options, "anyOf")}
            if "anyOf" in items:
                del items["type"]
            schema |= {"type": "array", "items": items, "minItems": rule.min, "maxItems": rule.max}
        case "date":
            schema |= {"type": "string", "format": "date"}
        case "text" | "password":
            schema |= {"type": "string", "minLength": rule.min, "maxLength": rule.max}
            schema |= {"pattern": rule.pattern or None, "format": field.format or None}
    schema |= {"title": field.label or None, "description": field.description or field.placeholder or None}
    if field.type != "password":
        schema["default"] = field.default_value
    return {name: value for name, value in schema.items() if value is not None}


def read_property(name: str, schema: Mapping[str, Any], *, required: bool) -> FormField:
    """The field that a schema asks for, a password where it looks like one; `RefusedError` when no form can ask it."""
    try:
        plain = without_null(schema)
        found = msgspec.convert(plain, _Property)
    except msgspec.ValidationError as error:
        raise RefusedError(f"Property {name!r} is not of MCP: {error}.", code=INVALID_PARAMS) from None
    type_, least, most, options = _read_type(name, found)
    if type_ == "text" and looks_secret(name, plain):
        type_ = "password"
    try:
        return FormField(
            name,
            found.title,
            type_,
            required,
            default_value=None if type_ == "password" else found.default,
            options=options,
            validation=FieldValidation(least, most, found.pattern),
            description=found.description,
            format=cast("TextFormat", found.format) if type_ == "text" and found.format in FORMATS else "",
        )
    except ValueError as error:
        raise RefusedError(str(error), code=INVALID_PARAMS) from None


def without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """`anyOf` something and null, as Python servers write what may be left out, is that something."""
    either: Any = schema.get("anyOf")
    choices = cast("list[Any]", either) if isinstance(either, list) else []
    real = [cast("Mapping[str, Any]", one) for one in choices if isinstance(one, Mapping) and one != {"type": "null"}]
    if len(real) != 1:
        return schema
    return {**real[0], **{name: value for name, value in schema.items() if name != "anyOf"}}


class _Choice(msgspec.Struct):
    const: str
    title: str = ""


class _Items(msgspec.Struct, rename="camel"):
    enum: list[str] | None = None
    any_of: list[_Choice] | None = None
    one_of: list[_Choice] | None = None


class _Property(msgspec.Struct, rename="camel"):
    type: str = "string"
    title: str = ""
    description: str = ""
    default: Any = None
    enum: list[str] | None = None
    enum_names: list[str] | None = None
    one_of: list[_Choice] | None = None
    items: _Items | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    pattern: str = ""
    format: str = ""


_Read = tuple[FieldType, int | float | None, int | float | None, tuple[SelectOption, ...]]


def _read_type(name: str, found: _Property) -> _Read:
    match found.type:
        case "boolean":
            return "boolean", None, None, ()
        case "integer":
            return "integer", found.minimum, found.maximum, ()
        case "number":
            return "number", found.minimum, found.maximum, ()
        case "array" if found.items:
            items = found.items
            return (
                "multiselect",
                found.min_items,
                found.max_items,
                _options(items.enum, [], items.any_of or items.one_of),
            )
        case "string" if found.enum is not None or found.one_of is not None:
            return "select", None, None, _options(found.enum, found.enum_names or [], found.one_of)
        case "string" if found.format == "date":
            return "date", None, None, ()
        case "string":
            return "text", found.min_length, found.max_length, ()
        case _:
            raise RefusedError(f"Property {name!r} is of a type that no form can ask.", code=INVALID_PARAMS)


def _options(values: list[str] | None, names: list[str], choices: list[_Choice] | None) -> tuple[SelectOption, ...]:
    if choices is not None:
        return tuple(SelectOption(choice.const, choice.title) for choice in choices)
    labels = names + [""] * (len(values or []) - len(names))
    return tuple(SelectOption(value, label) for value, label in zip(values or [], labels, strict=False))


def _write_options(options: tuple[SelectOption, ...], titled: str) -> dict[str, Any]:
    open_ones = [option for option in options if not option.disabled]
    values = [option.value for option in open_ones]
    titles = [option.title for option in open_ones]
    if titles == values:
        return {"enum": values}
    if titled == "enumNames":
        return {"enum": values, "enumNames": titles}
    return {titled: [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]}
