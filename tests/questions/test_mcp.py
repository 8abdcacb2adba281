"""Questions and answers keep their meaning on the way to MCP and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from trunkline.errors import RefusedError
from trunkline.questions.fields import FieldValidation, FormField, Secret, SelectOption
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
)
from trunkline.questions.mcp import OnlyByUrl, answer_from_mcp, answer_to_mcp, flag_secrets, from_mcp, to_mcp

TITLED = (SelectOption("dev", "Development"), SelectOption("prod", "Production"))
BARE = (SelectOption("dev"), SelectOption("prod"))
EVERYTHING = FormRequest(
    "Deploy",
    fields=(
        FormField("region", "Region", "select", True, options=TITLED, default_value="dev"),
        FormField("zones", type="multiselect", options=TITLED, validation=FieldValidation(1, 2)),
        FormField("replicas", type="integer", required=True, default_value=3, validation=FieldValidation(1, 9)),
        FormField("share", type="number", validation=FieldValidation(0, 0.5)),
        FormField("notify", type="boolean", default_value=False),
        FormField("mail", format="email", description="Who hears of it", validation=FieldValidation(3, 50)),
        FormField("day", type="date"),
        FormField("code", validation=FieldValidation(pattern="^[A-Z]+$")),
    ),
)


def asking(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The params of a question in a form."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"message": "Well?", "requestedSchema": schema}


def form_params(request: Elicitation) -> dict[str, Any]:
    """Its params, which must be those of a form."""
    params = to_mcp(request)
    assert isinstance(params, dict)
    return params


@pytest.mark.parametrize(
    "request_",
    [
        ConfirmationRequest("Delete?", confirm_label="Yes"),
        ConfirmationRequest("Delete?", field_name=""),
        TextRequest("Name?", placeholder="a name", min_length=1, max_length=9, pattern="^a", default_value="ab"),
        TextRequest("Mail?", format="email", optional=True),
        TextRequest("Day?", format="date"),
        SelectRequest("Where?", options=TITLED, default_value="dev"),
        SelectRequest("Where?", options=BARE, field_name="place"),
        MultiselectRequest("Where?", options=BARE, min_selections=1, max_selections=2, default_value=["dev"]),
        MultiselectRequest("Where?", options=TITLED),
        EVERYTHING,
        UrlRequest("Pay", url="https://example.org/pay", elicitation_id="e1"),
    ],
)
def test_a_question_comes_back_from_mcp_as_it_was(request_: Elicitation) -> None:
    back = from_mcp(form_params(request_), id=request_.id, tool_name=request_.tool_name)

    assert back == request_


@pytest.mark.parametrize(
    "request_", [ConfirmationRequest("Delete?"), EVERYTHING, SelectRequest("Where?", options=TITLED)]
)
def test_what_we_write_is_a_question_to_the_sdk(request_: Elicitation) -> None:
    read = ElicitRequestFormParams.model_validate(form_params(request_))

    assert read.message == request_.message


def test_an_address_is_a_question_to_the_sdk() -> None:
    read = ElicitRequestURLParams.model_validate(form_params(UrlRequest("Pay", id="q", url="https://example.org/")))

    assert (read.url, read.elicitation_id) == ("https://example.org/", "q")


def test_a_confirmation_carries_no_default_that_a_client_could_take_for_a_yes() -> None:
    params = form_params(ConfirmationRequest("Delete?", default_value=True))

    assert params["requestedSchema"]["properties"] == {"confirmed": {"type": "boolean", "title": "Confirm"}}
    assert params["requestedSchema"]["required"] == ["confirmed"]


def test_options_that_are_disabled_are_not_offered() -> None:
    params = form_params(SelectRequest("Where?", options=(*BARE, SelectOption("mars", disabled=True))))

    assert params["requestedSchema"]["properties"]["value"] == {"type": "string", "enum": ["dev", "prod"]}


def test_titles_can_be_written_for_older_callers() -> None:
    request = SelectRequest("Where?", options=TITLED)
    params = to_mcp(request, enum_names=True)

    assert isinstance(params, dict)
    assert params["requestedSchema"]["properties"]["value"] == {
        "type": "string",
        "enum": ["dev", "prod"],
        "enumNames": ["Development", "Production"],
    }
    assert from_mcp(params, id=request.id) == request


@pytest.mark.parametrize(
    "request_",
    [
        SecretRequest("Key?"),
        FileRequest("Which?"),
        FormRequest("Log in", fields=(FormField("user"), FormField("word", type="password"))),
    ],
)
def test_secrets_and_files_must_go_by_url(request_: Elicitation) -> None:
    assert isinstance(to_mcp(request_), OnlyByUrl)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "boolean"}, ConfirmationRequest),
        ({"type": "string"}, TextRequest),
        ({"type": "string", "enum": ["a"]}, SelectRequest),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, SelectRequest),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, MultiselectRequest),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, MultiselectRequest),
        ({"type": "integer"}, FormRequest),
        ({"type": "number"}, FormRequest),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, TextRequest),
        ({"type": "string", "format": "password"}, SecretRequest),
    ],
)
def test_one_property_makes_the_kind_that_fits(schema: dict[str, Any], kind: type[Elicitation]) -> None:
    request = from_mcp(asking({"x": schema}, "x"), server_id="s", timeout=5)

    assert type(request) is kind
    assert (request.server_id, request.timeout, request.optional) == ("s", 5, False)


def test_nothing_to_fill_in_is_a_question_of_yes_or_no() -> None:
    request = from_mcp(asking({}))

    assert isinstance(request, ConfirmationRequest)
    assert answer_to_mcp(ElicitationResponse("", True, True), request) == {"action": "accept", "content": {}}
    assert answer_to_mcp(ElicitationResponse("", True, False), request) == {"action": "decline"}
    assert answer_from_mcp({"action": "accept"}, request).confirmed


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"message": 5},
        {"message": "?", "mode": "telepathy"},
        {"message": "?", "mode": "url"},
        {"message": "?", "mode": "url", "url": "file:///etc/passwd"},
        {"message": "?", "requestedSchema": []},
        asking({"x": {"type": "object"}}),
        asking({"x": {"type": "array"}}),
        asking({"x": {"type": "string", "enum": []}}),
        asking({"x": {"type": "string", "enum": [1, 2]}}),
        asking({"x": {"type": "string", "minLength": 5, "maxLength": 1}}),
        asking({"x": 5}),
        asking({"": {"type": "integer"}}),
    ],
)
def test_a_question_that_is_not_of_mcp_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(RefusedError) as refused:
        from_mcp(params)

    assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("request_", "value", "content"),
    [
        (ConfirmationRequest("?", field_name="sure"), True, {"sure": True}),
        (ConfirmationRequest("?", field_name="sure"), False, {"sure": False}),
        (TextRequest("?", field_name="name"), "Ana", {"name": "Ana"}),
        (TextRequest("?", optional=True), None, {}),
        (MultiselectRequest("?", options=BARE), ["dev"], {"value": ["dev"]}),
        (FormRequest("?", fields=(FormField("a", type="integer"),)), {"a": 1}, {"a": 1}),
        (SecretRequest("?", field_name="key"), Secret("k"), {"key": "k"}),
    ],
)
def test_an_answer_comes_back_from_mcp_as_it_was(request_: Elicitation, value: Any, content: dict[str, Any]) -> None:
    given = ElicitationResponse(request_.id, responded=True, value=value)

    result = answer_to_mcp(given, request_)
    back = answer_from_mcp(result, request_)

    assert result == {"action": "accept", "content": content}
    assert ElicitResult.model_validate(result).action == "accept"
    assert dataclasses.replace(back, timestamp=given.timestamp) == given


def test_only_what_a_person_answered_is_accepted() -> None:
    request = TextRequest("Name?", id="q", default_value="x")

    assert answer_to_mcp(ElicitationResponse("q", value="x", timed_out=True), request) == {"action": "cancel"}
    assert answer_to_mcp(ElicitationResponse("q", cancelled=True), request) == {"action": "cancel"}
    assert answer_to_mcp(ElicitationResponse("q", error="broken"), request) == {"action": "cancel"}
    assert answer_to_mcp(ElicitationResponse("q", declined=True), request) == {"action": "decline"}


def test_going_to_an_address_is_agreed_to_or_declined() -> None:
    request = UrlRequest("Pay", id="q", url="https://example.org")

    assert answer_to_mcp(ElicitationResponse("q", True, True), request) == {"action": "accept"}
    assert answer_to_mcp(ElicitationResponse("q", True, False), request) == {"action": "decline"}
    assert answer_from_mcp({"action": "accept"}, request).confirmed
    assert not answer_from_mcp({"action": "decline"}, request).confirmed


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"action": "agree"},
        {"action": "accept"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": {"confirmed": "true"}},
        {"action": "accept", "content": {"other": True}},
        {"action": "decline", "content": {"confirmed": True}},
        {"action": "cancel", "content": {"confirmed": True}},
    ],
)
def test_no_result_but_an_accepted_true_confirms(result: dict[str, Any]) -> None:
    assert not answer_from_mcp(result, ConfirmationRequest("Delete?")).confirmed


def test_declining_and_leaving_are_told_apart() -> None:
    request = TextRequest("Name?")

    declined, left = answer_from_mcp({"action": "decline"}, request), answer_from_mcp({"action": "cancel"}, request)

    assert (declined.responded, declined.declined, declined.cancelled) == (False, True, False)
    assert (left.responded, left.declined, left.cancelled) == (False, False, True)
    assert answer_from_mcp({"action": "decline"}, ConfirmationRequest("Go?")).responded


@pytest.mark.parametrize(
    "name",
    [
        *("password", "Password", "api_key", "apiKey", "APIKey", "api-key", "access_token", "token", "client_secret"),
        *(
            "pin",
            "cvv",
            "dbPassword",
            "OPENAI_API_KEY",
            "sshPrivateKey",
            "card_number",
            "user passphrase",
            "oauth2Token",
        ),
    ],
)
def test_a_form_that_asks_for_a_secret_is_flagged(name: str) -> None:
    params = asking({"user": {"type": "string"}, name: {"type": "string"}})

    assert flag_secrets(params) == [name]
    request = from_mcp(params)
    assert isinstance(request, FormRequest)
    assert request.fields[1].type == "password"


@pytest.mark.parametrize(
    ("schema", "flagged"),
    [
        ({"type": "string", "format": "password"}, True),
        ({"type": "string", "title": "Your API key"}, True),
        ({"type": "string", "writeOnly": True}, True),
        ({"type": "integer", "title": "PIN"}, True),
        ({"anyOf": [{"type": "string", "format": "password"}, {"type": "null"}]}, True),
        ({"type": "boolean", "title": "Rotate the password"}, False),
        ({"type": "string", "enum": ["token", "basic"], "title": "Token"}, False),
    ],
)
def test_a_secret_is_told_by_format_and_title_too(schema: dict[str, Any], flagged: bool) -> None:
    assert flag_secrets(asking({"x": schema})) == (["x"] if flagged else [])


@pytest.mark.parametrize("name", ["name", "max_tokens", "token_count", "keyboard", "pinned", "shipping", "secretary"])
def test_a_harmless_name_is_not_flagged(name: str) -> None:
    assert flag_secrets(asking({name: {"type": "string"}})) == []


@pytest.mark.parametrize(
    "params",
    [{}, {"requestedSchema": 5}, {"requestedSchema": {"properties": []}}, {"mode": "url", "url": "https://x/password"}],
)
def test_what_is_no_form_has_no_flags(params: dict[str, Any]) -> None:
    assert flag_secrets(params) == []
