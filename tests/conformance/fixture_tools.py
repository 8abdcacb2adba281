"""The tools of the conformance fixture, and how they ask questions in both eras.

The suite fixes their names and what they ask; the table at the end has them all.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Call = types.CallToolRequestParams
Said = types.CallToolResult

PAUSE = 0.05
"""Seconds between two signs of life of a slow tool."""

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
"""One red pixel."""

WAV = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"
"""Four samples of silence."""

changes = InMemorySubscriptionBus()
"""Carries announcements from the tools to those who listen."""


@dataclass(frozen=True)
class Tool:
    """What the fixture lists and does under a name."""

    description: str
    run: Callable[[Context, Call], Awaitable[Said]]
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


async def simple_text(ctx: Context, call: Call) -> Said:
    return said("A line of text.")


async def image_content(ctx: Context, call: Call) -> Said:
    return Said(content=[image()])


async def audio_content(ctx: Context, call: Call) -> Said:
    return Said(content=[types.AudioContent(data=WAV, mime_type="audio/wav")])


async def embedded_resource(ctx: Context, call: Call) -> Said:
    return Said(content=[embedded("test://embedded-resource", "Embedded by a tool.")])


async def mixed_content(ctx: Context, call: Call) -> Said:
    return Said(content=[words("Three kinds."), image(), embedded("test://mixed-content-resource", "The third.")])


async def failure(ctx: Context, call: Call) -> Said:
    return Said(content=[words("It fails, as it should.")], is_error=True)


async def logging(ctx: Context, call: Call) -> Said:
    for step in ("started", "halfway", "done"):
        # Deprecated, and still asked for by the suite.
        await ctx.session.send_log_message("info", step, "fixture", ctx.request_id)  # pyright: ignore[reportDeprecated]
        await anyio.sleep(PAUSE)
    return said("Logged three lines.")


async def progress(ctx: Context, call: Call) -> Said:
    for percent in (0, 50, 100):
        await ctx.session.report_progress(percent, 100)
        await anyio.sleep(PAUSE)
    return said("Came to a hundred.")


async def reconnection(ctx: Context, call: Call) -> Said:
    """Hang up before the answer is there, so that a legacy caller has to come back for it."""
    if ctx.close_sse_stream:
        await anyio.sleep(PAUSE)  # else the SDK may hang up before it has said from where to come back
        await ctx.close_sse_stream()
    await anyio.sleep(PAUSE)
    return said("Welcome back.")


async def tool_change(ctx: Context, call: Call) -> Said:
    """Announce a change without making one: a list may not depend on who called what before."""
    await changes.publish(ToolsListChanged())
    await ctx.session.send_tool_list_changed()
    return said("Announced.")


async def prompt_change(ctx: Context, call: Call) -> Said:
    await changes.publish(PromptsListChanged())
    await ctx.session.send_prompt_list_changed()
    return said("Announced.")


async def echo(ctx: Context, call: Call) -> Said:
    return said(json.dumps(call.arguments))


async def ask_message(ctx: Context, call: Call) -> Said:
    text = {"type": "string"}
    return told(await ask(ctx, call, {"user": form(arguments(call)["message"], username=text, email=text)}))


async def ask_prompt(ctx: Context, call: Call) -> Said:
    return told(await ask(ctx, call, {"model": sample(arguments(call)["prompt"])}))


async def ask_defaults(ctx: Context, call: Call) -> Said:
    person = form(
        "Is this you?",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return told(await ask(ctx, call, {"person": person}))


async def ask_enums(ctx: Context, call: Call) -> Said:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"The value {n}"} for n in (1, 2, 3)]
    choice = form(
        "Which ones?",
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return told(await ask(ctx, call, {"choice": choice}))


async def ask_name(ctx: Context, call: Call) -> Said:
    return told(await ask(ctx, call, {"user_name": form("What is your name?", name={"type": "string"})}))


async def ask_model(ctx: Context, call: Call) -> Said:
    return told(await ask(ctx, call, {"capital_question": sample("What is the capital of France?")}))


async def ask_roots(ctx: Context, call: Call) -> Said:
    return told(await ask(ctx, call, {"client_roots": types.ListRootsRequest()}))


async def ask_with_state(ctx: Context, call: Call) -> Said:
    answers = await ask(ctx, call, {"confirm": form("Go on?", ok={"type": "boolean"})}, state="asked")
    return said("state-ok", written(answers))


async def ask_everything(ctx: Context, call: Call) -> Said:
    return told(await ask(ctx, call, EVERYTHING, state="asked"))


async def ask_what_is_declared(ctx: Context, call: Call) -> Said:
    return told(await ask(ctx, call, {key: one for key, one in EVERYTHING.items() if may_ask(ctx, one)}))


async def ask_twice(ctx: Context, call: Call) -> Said:
    if call.request_state != "name is known":
        name = form("First: what is your name?", name={"type": "string"})
        await ask(ctx, call, {"step1": name}, state="name is asked")
    color = form("Second: which colour do you like?", color={"type": "string"})
    return told(await ask(ctx, call, {"step2": color}, state="name is known"))


class UnansweredError(Exception):
    """Carries questions out of a tool, back to a modern caller, who calls again with the answers."""

    def __init__(self, questions: types.InputRequiredResult) -> None:
        super().__init__("The caller has questions to answer first.")
        self.questions = questions


async def ask(
    ctx: Context, call: types.InputResponseRequestParams, questions: types.InputRequests, *, state: str | None = None
) -> types.InputResponses:
    """The answers to these questions: asked for at once in a session, else taken from the call.

    Raises `UnansweredError` when a modern call brings too few answers, or another state than this.
    """
    for question in questions.values():
        if not may_ask(ctx, question):
            raise missing(KINDS[question.method].capability)
    if not is_modern(ctx):
        return {key: await put(ctx, question) for key, question in questions.items()}
    answers = call.input_responses or {}
    if call.request_state != state or not questions.keys() <= answers.keys():
        raise UnansweredError(types.InputRequiredResult(input_requests=questions, request_state=state))
    return answers


async def put(ctx: Context, question: types.InputRequest) -> types.InputResponse:
    """Send a question on the stream of the call it belongs to, and wait for the answer."""
    belongs = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(question, KINDS[question.method].answer, metadata=belongs)


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def may_ask(ctx: Context, question: types.InputRequest) -> bool:
    return ctx.session.check_client_capability(KINDS[question.method].capability)


def missing(capability: types.ClientCapabilities) -> MCPError:
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=capability)
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        "The caller did not declare what this question needs.",
        data.model_dump(by_alias=True, exclude_none=True),
    )


def form(message: str, **fields: dict[str, Any]) -> types.ElicitRequest:
    """A question to a person, whose answer has all of these fields."""
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str) -> types.CreateMessageRequest:
    """A question to the caller's model."""
    message = types.SamplingMessage(role="user", content=words(prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def arguments(call: Call) -> Mapping[str, Any]:
    """The arguments of a tool that requires some."""
    given = call.arguments or {}
    for name in TOOLS[call.name].schema["required"]:
        if name not in given:
            raise MCPError(types.INVALID_PARAMS, f"The tool {call.name!r} needs the argument {name!r}.")
    return given


def written(answers: types.InputResponses) -> str:
    plain = {key: answer.model_dump(mode="json", by_alias=True, exclude_none=True) for key, answer in answers.items()}
    return json.dumps(plain)


def told(answers: types.InputResponses) -> Said:
    return said(written(answers))


def said(*lines: str) -> Said:
    return Said(content=[words(line) for line in lines])


def words(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def image() -> types.ImageContent:
    return types.ImageContent(data=PNG, mime_type="image/png")


def embedded(uri: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type="text/plain", text=text))


@dataclass(frozen=True)
class Kind:
    """A kind of question: what a caller must have declared to be asked, and what the answer looks like."""

    capability: types.ClientCapabilities
    answer: type[types.ElicitResult | types.CreateMessageResult | types.ListRootsResult]


def needs(**properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool that requires all of these arguments."""
    return {"type": "object", "properties": properties, "required": list(properties)}


KINDS = {
    "elicitation/create": Kind(types.ClientCapabilities(elicitation=types.ElicitationCapability()), types.ElicitResult),
    "sampling/createMessage": Kind(
        types.ClientCapabilities(sampling=types.SamplingCapability()), types.CreateMessageResult
    ),
    "roots/list": Kind(types.ClientCapabilities(roots=types.RootsCapability()), types.ListRootsResult),
}

EVERYTHING: types.InputRequests = {
    "user_name": form("What is your name?", name={"type": "string"}),
    "greeting": sample("Write a greeting."),
    "client_roots": types.ListRootsRequest(),
}

VOCABULARY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "to": {"$ref": "#/$defs/address"},
        "by": {"enum": ["post", "phone"]},
        "number": {"type": "string"},
        "code": {"type": "string"},
    },
    "$defs": {"address": {"$anchor": "place", "type": "object", "properties": {"city": {"type": "string"}}}},
    "allOf": [{"anyOf": [{"required": ["number"]}, {"required": ["code"]}]}],
    "if": {"properties": {"by": {"const": "phone"}}, "required": ["by"]},
    "then": {"required": ["number"]},
    "else": {"required": ["code"]},
    "additionalProperties": False,
}

TOOLS: dict[str, Tool] = {
    # The suite calls the first tool without arguments to see whether headers are checked.
    "test_simple_text": Tool("Says a line.", simple_text),
    "test_image_content": Tool("Shows a picture.", image_content),
    "test_audio_content": Tool("Plays nothing, shortly.", audio_content),
    "test_embedded_resource": Tool("Embeds a resource.", embedded_resource),
    "test_multiple_content_types": Tool("Says, shows and embeds.", mixed_content),
    "test_error_handling": Tool("Fails.", failure),
    "test_tool_with_logging": Tool("Logs three lines.", logging),
    "test_logging_tool": Tool("Logs three lines too.", logging),
    "test_tool_with_progress": Tool("Reports its progress.", progress),
    "test_reconnection": Tool("Hangs up before it answers.", reconnection),
    "test_trigger_tool_change": Tool("Announces that the tools changed.", tool_change),
    "test_trigger_prompt_change": Tool("Announces that the prompts changed.", prompt_change),
    "test_x_mcp_header": Tool(
        "Is routed by a header.", echo, needs(region={"type": "string", "x-mcp-header": "Region"})
    ),
    "json_schema_2020_12_tool": Tool("Has a schema with many words.", echo, VOCABULARY),
    "test_elicitation": Tool("Asks what it is told to ask.", ask_message, needs(message={"type": "string"})),
    "test_elicitation_sep1034_defaults": Tool("Asks, and suggests answers.", ask_defaults),
    "test_elicitation_sep1330_enums": Tool("Asks to choose.", ask_enums),
    "test_sampling": Tool("Asks the caller's model.", ask_prompt, needs(prompt={"type": "string"})),
    "test_missing_capability": Tool("Cannot do without the caller's model.", ask_model),
    "test_streaming_elicitation": Tool("Asks for a name.", ask_name),
    "test_input_required_result_elicitation": Tool("Asks for a name.", ask_name),
    "test_input_required_result_sampling": Tool("Asks for a capital.", ask_model),
    "test_input_required_result_list_roots": Tool("Asks for the roots.", ask_roots),
    "test_input_required_result_request_state": Tool("Asks, and wants its state back.", ask_with_state),
    "test_input_required_result_tampered_state": Tool("Asks, and wants its state untouched.", ask_with_state),
    "test_input_required_result_multiple_inputs": Tool("Asks everything at once.", ask_everything),
    "test_input_required_result_capabilities": Tool("Asks what it may.", ask_what_is_declared),
    "test_input_required_result_multi_round": Tool("Asks twice.", ask_twice),
}
