"""Questions and answers as MCP writes them: `elicitation/create` and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, cast

import msgspec

from trunkline.errors import RefusedError
from trunkline.questions.answers import answered
from trunkline.questions.fields import FileReference, FormField, Secret
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
from trunkline.questions.schema import read_property, without_null, write_property
from trunkline.questions.secrecy import looks_secret
from trunkline.wire.envelope import INVALID_PARAMS


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
    properties: Any = schema.get("properties") if isinstance(schema, Mapping) else None  # type: ignore[reportUnknownMemberType]
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
