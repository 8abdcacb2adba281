"""Questions and answers as MCP writes them: `elicitation/create`, its flat JSON Schema, and its result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, cast

import msgspec

from trunkline.errors import RefusedError
from trunkline.questions.answers import answered
from trunkline.questions.fields import (
    FieldType,
    FieldValidation,
    FileReference,
    FormField,
    Secret,
    SelectOption,
    TextFormat,
)
from trunkline.questions.kinds import (
    ConfirmationRequest,
    Elicitation,
    ElicitationResponse,
    FileRequest,
    FormRequest,
    MultiselectRequest,
    SecretRequest,
    SelectRequest,
    TextRequest,
    UrlRequest,
    sole_field,
)
from trunkline.untrusted import as_list, as_object
from trunkline.wire.envelope import INVALID_PARAMS

FORMATS = ("email", "uri", "date", "date-time")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS = frozenset(
    (
        *("password", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "token", "bearer"),
        *("apikey", "accesskey", "privatekey", "secretkey", "credential", "credentials"),
        *("pin", "cvv", "cvc", "csc", "otp", "totp", "ssn"),
    )
)
_PAIRS = frozenset(
    (
        *("api key", "access key", "private key", "secret key", "signing key", "encryption key", "ssh key"),
        *("card number", "security code", "recovery code", "verification code", "auth code", "seed phrase"),
    )
)
_HARMLESS_NEXT = frozenset(
    ("count", "limit", "budget", "usage", "type", "name", "id", "length", "expiry", "url", "hint", "policy")
)


@dataclass(frozen=True, slots=True)
class OnlyByUrl:
    """The question must not be asked by a form: MCP forbids it for secrets, and has no files."""

    reason: str


class Origin(TypedDict, total=False):
    """Where a question comes from, and how long it may wait."""

    id: str
    tool_name: str
    server_id: str
    timeout: float | None


def to_mcp(request: Elicitation, *, enum_names: bool = False) -> dict[str, Any] | OnlyByUrl:
    """The params of `elicitation/create`, or why only an address will do.

    `enum_names` writes the titles of options as callers of the revision 2025-06-18 know them.
    """
    if isinstance(request, UrlRequest):
        own = request.elicitation_id or request.id
        return {"mode": "url", "message": request.message, "url": request.url, "elicitationId": own}
    if isinstance(request, SecretRequest):
        return OnlyByUrl("It asks for a secret.")
    if isinstance(request, FileRequest):
        return OnlyByUrl("It asks for a file.")
    fields = _fields(request)
    if passwords := [field.name for field in fields if field.type == "password"]:
        return OnlyByUrl(f"It asks for secrets: {', '.join(passwords)}.")
    schema = {
        "type": "object",
        "properties": {field.name: write_property(field, enum_names=enum_names) for field in fields},
        "required": [field.name for field in fields if field.required],
    }
    return {"message": request.message, "requestedSchema": schema}


def from_mcp(params: Mapping[str, Any], **origin: Unpack[Origin]) -> Elicitation:
    """The question that the params of `elicitation/create` ask; `RefusedError` when they are not such.

    What looks like a secret becomes one, though MCP forbids servers to ask for it so: see `flag_secrets`.
    """
    try:
        found = msgspec.convert(params, _Params)
        if found.mode == "url":
            return UrlRequest(found.message, url=found.url, elicitation_id=found.elicitation_id, **origin)
        if found.mode != "form":
            raise RefusedError("The question is of an unknown mode.", code=INVALID_PARAMS)
        schema = found.requested_schema
        fields = [read_property(name, one, required=name in schema.required) for name, one in schema.properties.items()]
        return _question(found.message, fields, origin)
    except msgspec.ValidationError as error:
        raise RefusedError(f"The question is not of MCP: {str(error).rstrip('.')}.", code=INVALID_PARAMS) from None
    except ValueError as error:
        raise RefusedError(str(error), code=INVALID_PARAMS) from None


def answer_to_mcp(response: ElicitationResponse, request: Elicitation) -> dict[str, Any]:
    """The result of `elicitation/create`: only what a person answered is accepted, and a default is not."""
    if response.declined:
        return {"action": "decline"}
    if not response.responded or response.cancelled or response.timed_out:
        return {"action": "cancel"}
    value = response.value
    if isinstance(request, UrlRequest) or (isinstance(request, ConfirmationRequest) and not request.field_name):
        if value is not True:
            return {"action": "decline"}
        return {"action": "accept"} if isinstance(request, UrlRequest) else {"action": "accept", "content": {}}
    if isinstance(request, FormRequest):
        content = {name: _plain(one) for name, one in cast("Mapping[str, Any]", value or {}).items()}
    else:
        sole = sole_field(request)
        content = {} if value is None else {sole.name if sole else "value": _plain(value)}
    return {"action": "accept", "content": content}


def answer_from_mcp(result: Mapping[str, Any], request: Elicitation) -> ElicitationResponse:
    """What the result of `elicitation/create` says; an answer that does not fit the question is none."""
    action, content = result.get("action"), result.get("content")
    yes_or_no = isinstance(request, ConfirmationRequest | UrlRequest)
    if action == "decline":
        return ElicitationResponse(
            request.id,
            responded=yes_or_no,
            value=False if yes_or_no else None,
            declined=True,
            error="" if yes_or_no else "The person declined.",
        )
    if action == "cancel":
        return ElicitationResponse(request.id, cancelled=True, error="The person left the question.")
    if action != "accept" or not (content is None or isinstance(content, Mapping)):
        return ElicitationResponse(request.id, error="The answer is not of MCP.")
    given = cast("Mapping[str, Any]", content or {})
    if isinstance(request, UrlRequest):
        return answered(request, True)
    sole = sole_field(request)
    if sole is None:
        return answered(request, given.get("value") if isinstance(request, FileRequest) else given)
    return answered(request, given.get(sole.name) if sole.name else True)


def flag_secrets(params: Mapping[str, Any]) -> list[str]:
    """The properties by which a form asks for passwords, tokens, keys or the like, which MCP forbids."""
    if params.get("mode", "form") != "form":
        return []
    schema: Any = params.get("requestedSchema")
    properties: Any = as_object(schema).get("properties")
    if not isinstance(properties, Mapping):
        return []
    found = cast("Mapping[str, Any]", properties)
    return [
        name
        for name, one in found.items()
        if isinstance(one, Mapping) and looks_secret(name, without_null(cast("Mapping[str, Any]", one)))
    ]


class _Schema(msgspec.Struct):
    properties: dict[str, dict[str, Any]] = {}
    required: list[str] = []


class _Params(msgspec.Struct, rename="camel"):
    message: str
    mode: str = "form"
    url: str = ""
    elicitation_id: str = ""
    requested_schema: _Schema = msgspec.field(default_factory=_Schema)


def _question(message: str, fields: list[FormField], origin: Origin) -> Elicitation:
    """The kind that fits: one field of a kind that has a question of its own, or a form."""
    if not fields:
        return ConfirmationRequest(message, field_name="", **origin)
    first = fields[0]
    more: dict[str, Any] = {**origin, "field_name": first.name, "optional": not first.required}
    more["default_value"] = first.default_value
    rule = first.validation
    match first.type if len(fields) == 1 else "":
        case "boolean":
            return ConfirmationRequest(message, confirm_label=first.label or "Confirm", **more)
        case "text" | "date":
            lengths: dict[str, Any] = {"min_length": rule.min, "max_length": rule.max}
            format = "date" if first.type == "date" else first.format
            more |= {"pattern": rule.pattern, "placeholder": first.description or first.label, "format": format}
            return TextRequest(message, **lengths, **more)
        case "select":
            return SelectRequest(message, options=first.options, **more)
        case "multiselect":
            counts: dict[str, Any] = {"min_selections": rule.min, "max_selections": rule.max}
            return MultiselectRequest(message, options=first.options, **counts, **more)
        case "password":
            return SecretRequest(message, hint=first.description, **more)
        case _:
            return FormRequest(message, fields=tuple(fields), **origin)


def _fields(request: Elicitation) -> tuple[FormField, ...]:
    if isinstance(request, FormRequest):
        return request.fields
    sole = sole_field(request)
    return (sole,) if sole and sole.name else ()


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, FileReference):
        return value.uri or value.path or value.name
    return [_plain(one) for one in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


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
    choices = as_list(either)
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


def looks_secret(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a property asks for a password, a token, a key or the like, by its format, name or title."""
    if schema.get("type", "string") not in ("string", "integer", "number") or "enum" in schema or "oneOf" in schema:
        return False
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    return any(_names_secret(text) for text in (name, schema.get("title")) if isinstance(text, str))


def _names_secret(text: str) -> bool:
    words = [word.lower() for word in _WORD.findall(text)]
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if following in _HARMLESS_NEXT:  # `token_count` is no token
            continue
        if word in _WORDS or f"{word} {following}" in _PAIRS:
            return True
    return False
