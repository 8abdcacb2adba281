"""An MCP server of the session era alone, with what the official conformance suite asks a server for.

It runs on mcp 1.30, so with another Python than the tests: `.tools/legacy/bin/python legacy_fixture.py --port N`.
With port 0 it takes a free one. It prints a line such as `PORT 3901` when callers may come.
The tools that the suite made up for 2026-07-28 are here too, where a session can do the same: they ask in mid-call.
"""

import argparse
import json
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from logging import CRITICAL, disable
from typing import Any

import anyio
import uvicorn
from mcp import types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.lowlevel.server import request_ctx
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import McpError
from mcp.shared.message import ServerMessageMetadata
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.routing import Route

PAUSE = 0.05
"""Seconds between two signs of life of a slow tool."""

RETRY = 100
"""Milliseconds after which a caller whose stream was closed should come back."""

NOT_FOUND = -32002
"""What a missing resource is called in this era."""

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
"""One red pixel."""

WAV = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"
"""Four samples of silence."""

TEMPLATE = re.compile(r"test://template/(?P<id>[^/]+)/data")

PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
"""The names of the prompts, and the arguments each requires."""

RESOURCES = {
    "test://static-text": "text/plain",
    "test://static-binary": "image/png",
    "test://watched-resource": "text/plain",
}
"""The addresses of the resources, and the type of each."""

Arguments = Mapping[str, Any]
Said = types.CallToolResult
Question = types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest


@dataclass(frozen=True)
class Tool:
    """What the fixture lists and does under a name."""

    description: str
    run: Callable[[Arguments], Awaitable[Said]]
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of 127.0.0.1; 0 takes a free one")
    chosen = parser.parse_args()
    disable(CRITICAL)  # the SDK is loud about callers who leave, as those of the suite do
    with socket.create_server(("127.0.0.1", chosen.port)) as listening:
        port = listening.getsockname()[1]
        print("PORT", port, flush=True)
        config = uvicorn.Config(app(port), log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run([listening])


def app(port: int) -> Starlette:
    """The fixture at /mcp, ready to be served."""
    hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts])
    manager = StreamableHTTPSessionManager(
        server(), event_store=Events(), security_settings=security, retry_interval=RETRY
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route("/mcp", manager.asgi_app)], lifespan=lifespan)


def server() -> Server[Any, Any]:
    fixture = Fixture("legacy-fixture", version="1.0.0", instructions="A server to test gateways with.")
    # Not by the decorators: those would turn every error of a tool into a result.
    fixture.request_handlers |= {
        types.ListToolsRequest: list_tools,
        types.CallToolRequest: call_tool,
        types.ListPromptsRequest: list_prompts,
        types.GetPromptRequest: get_prompt,
        types.ListResourcesRequest: list_resources,
        types.ListResourceTemplatesRequest: list_templates,
        types.ReadResourceRequest: read_resource,
        types.SubscribeRequest: agree,
        types.UnsubscribeRequest: agree,
        types.CompleteRequest: complete,
        types.SetLevelRequest: agree,
    }
    return fixture


class Fixture(Server[Any, Any]):
    """A server that says what it can do: by itself the SDK promises neither changes nor subscriptions."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        options = super().create_initialization_options(changing, experimental_capabilities)
        options.capabilities.resources = types.ResourcesCapability(subscribe=True, listChanged=True)
        return options


async def list_tools(_: types.ListToolsRequest) -> types.ServerResult:
    tools = [
        types.Tool(name=name, description=tool.description, inputSchema=tool.schema) for name, tool in TOOLS.items()
    ]
    return types.ServerResult(types.ListToolsResult(tools=tools))


async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
    tool, given = TOOLS.get(request.params.name), request.params.arguments or {}
    if tool is None:
        raise failed(types.INVALID_PARAMS, f"There is no tool {request.params.name!r}.")
    for name in tool.schema.get("required", ()):
        if name not in given:
            raise failed(types.INVALID_PARAMS, f"The tool {request.params.name!r} needs the argument {name!r}.")
    return types.ServerResult(await tool.run(given))


async def simple_text(given: Arguments) -> Said:
    return said("A line of text.")


async def image_content(given: Arguments) -> Said:
    return Said(content=[image()])


async def audio_content(given: Arguments) -> Said:
    return Said(content=[types.AudioContent(type="audio", data=WAV, mimeType="audio/wav")])


async def embedded_resource(given: Arguments) -> Said:
    return Said(content=[embedded("test://embedded-resource", "Embedded by a tool.")])


async def mixed_content(given: Arguments) -> Said:
    return Said(content=[words("Three kinds."), image(), embedded("test://mixed-content-resource", "The third.")])


async def failure(given: Arguments) -> Said:
    return Said(content=[words("It fails, as it should.")], isError=True)


async def logging(given: Arguments) -> Said:
    context = request_ctx.get()
    for step in ("started", "halfway", "done"):
        await context.session.send_log_message("info", step, "fixture", context.request_id)
        await anyio.sleep(PAUSE)
    return said("Logged three lines.")


async def progress(given: Arguments) -> Said:
    context = request_ctx.get()
    token = context.meta.progressToken if context.meta else None
    for percent in (0, 50, 100):
        if token is not None:
            await context.session.send_progress_notification(
                token, percent, 100, related_request_id=str(context.request_id)
            )
        await anyio.sleep(PAUSE)
    return said("Came to a hundred.")


async def reconnection(given: Arguments) -> Said:
    """Hang up before the answer is there, so that the caller has to come back for it."""
    hang_up = request_ctx.get().close_sse_stream
    if hang_up:
        await anyio.sleep(PAUSE)  # else the SDK may hang up before it has said from where to come back
        await hang_up()
    await anyio.sleep(PAUSE)
    return said("Welcome back.")


async def tool_change(given: Arguments) -> Said:
    await request_ctx.get().session.send_tool_list_changed()
    return said("Announced.")


async def prompt_change(given: Arguments) -> Said:
    await request_ctx.get().session.send_prompt_list_changed()
    return said("Announced.")


async def echo(given: Arguments) -> Said:
    return said(json.dumps(given))


async def ask_message(given: Arguments) -> Said:
    text = {"type": "string"}
    return said(await ask(form(given["message"], username=text, email=text)))


async def ask_prompt(given: Arguments) -> Said:
    return said(await ask(sample(given["prompt"])))


async def ask_defaults(given: Arguments) -> Said:
    person = form(
        "Is this you?",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return said(await ask(person))


async def ask_enums(given: Arguments) -> Said:
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
    return said(await ask(choice))


async def ask_name(given: Arguments) -> Said:
    return said(await ask(NAME))


async def ask_model(given: Arguments) -> Said:
    return said(await ask(sample("What is the capital of France?")))


async def ask_roots(given: Arguments) -> Said:
    return said(await ask(types.ListRootsRequest()))


async def ask_to_go_on(given: Arguments) -> Said:
    return said("state-ok", await ask(form("Go on?", ok={"type": "boolean"})))


async def ask_everything(given: Arguments) -> Said:
    return said(*await ask_at_once(*EVERYTHING))


async def ask_what_is_declared(given: Arguments) -> Said:
    may = request_ctx.get().session.check_client_capability
    return said(*await ask_at_once(*(one for one in EVERYTHING if may(capability_for(one)))))


async def ask_twice(given: Arguments) -> Said:
    name = await ask(form("First: what is your name?", name={"type": "string"}))
    color = await ask(form("Second: which colour do you like?", color={"type": "string"}))
    return said(name, color)


async def ask_at_once(*questions: Question) -> list[str]:
    """The answers to several questions, none of which waits for another."""
    answers = [""] * len(questions)

    async def put(at: int, question: Question) -> None:
        answers[at] = await ask(question)

    async with anyio.create_task_group() as tasks:
        for at, question in enumerate(questions):
            tasks.start_soon(put, at, question)
    return answers


async def ask(question: Question) -> str:
    """Send a question on the stream of the call it belongs to, and write down the answer."""
    context = request_ctx.get()
    belongs = ServerMessageMetadata(related_request_id=context.request_id)
    kind = ANSWERS[question.method]
    answer = await context.session.send_request(types.ServerRequest(question), kind, metadata=belongs)
    return answer.model_dump_json(by_alias=True, exclude_none=True)


def capability_for(question: Question) -> types.ClientCapabilities:
    """What a caller must have declared to be asked this."""
    match question:
        case types.ElicitRequest():
            return types.ClientCapabilities(elicitation=types.ElicitationCapability())
        case types.CreateMessageRequest():
            return types.ClientCapabilities(sampling=types.SamplingCapability())
        case types.ListRootsRequest():
            return types.ClientCapabilities(roots=types.RootsCapability())


def form(message: str, **fields: dict[str, Any]) -> types.ElicitRequest:
    """A question to a person, whose answer has all of these fields."""
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requestedSchema=schema))


def sample(prompt: str) -> types.CreateMessageRequest:
    """A question to the caller's model."""
    message = types.SamplingMessage(role="user", content=words(prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], maxTokens=100))


async def list_prompts(_: types.ListPromptsRequest) -> types.ServerResult:
    prompts = [
        types.Prompt(
            name=name,
            description=f"The prompt {name} of the suite.",
            arguments=[types.PromptArgument(name=argument, required=True) for argument in arguments],
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ServerResult(types.ListPromptsResult(prompts=prompts))


async def get_prompt(request: types.GetPromptRequest) -> types.ServerResult:
    given = request.params.arguments or {}
    match request.params.name:
        case "test_simple_prompt":
            return prompted(words("Say something simple."))
        case "test_prompt_with_arguments":
            return prompted(words(f"The first is {given.get('arg1')}, the second is {given.get('arg2')}."))
        case "test_prompt_with_embedded_resource":
            return prompted(embedded(given.get("resourceUri", ""), "Embedded by a prompt."), words("Read it."))
        case "test_prompt_with_image":
            return prompted(image(), words("Describe it."))
        case "test_input_required_result_prompt":
            return prompted(words(await ask(form("What is it about?", context={"type": "string"}))))
        case unknown:
            raise failed(types.INVALID_PARAMS, f"There is no prompt {unknown!r}.")


def prompted(*contents: types.ContentBlock) -> types.ServerResult:
    messages = [types.PromptMessage(role="user", content=content) for content in contents]
    return types.ServerResult(types.GetPromptResult(messages=messages))


async def list_resources(_: types.ListResourcesRequest) -> types.ServerResult:
    resources = [
        types.Resource(
            uri=AnyUrl(uri), name=uri.removeprefix("test://"), description="Of the suite.", mimeType=mime_type
        )
        for uri, mime_type in RESOURCES.items()
    ]
    return types.ServerResult(types.ListResourcesResult(resources=resources))


async def list_templates(_: types.ListResourceTemplatesRequest) -> types.ServerResult:
    template = types.ResourceTemplate(
        uriTemplate="test://template/{id}/data", name="template", description="Says its id.", mimeType="text/plain"
    )
    return types.ServerResult(types.ListResourceTemplatesResult(resourceTemplates=[template]))


async def read_resource(request: types.ReadResourceRequest) -> types.ServerResult:
    uri = str(request.params.uri)
    if uri == "test://static-binary":
        content = types.BlobResourceContents(uri=AnyUrl(uri), mimeType="image/png", blob=PNG)
    elif found := TEMPLATE.fullmatch(uri):
        content = text_of(uri, f"The data of {found['id']}.")
    elif uri in RESOURCES:
        content = text_of(uri, f"The text of {uri}.")
    else:
        raise failed(NOT_FOUND, f"There is no resource {uri!r}.", {"uri": uri})
    return types.ServerResult(types.ReadResourceResult(contents=[content]))


async def complete(request: types.CompleteRequest) -> types.ServerResult:
    start = request.params.argument.value
    values = [word for word in ("test", "testimony", "paris", "park") if word.startswith(start)]
    completion = types.Completion(values=values, total=len(values), hasMore=False)
    return types.ServerResult(types.CompleteResult(completion=completion))


async def agree(_: types.SubscribeRequest | types.UnsubscribeRequest | types.SetLevelRequest) -> types.ServerResult:
    return types.ServerResult(types.EmptyResult())


def failed(code: int, message: str, data: Any = None) -> McpError:
    return McpError(types.ErrorData(code=code, message=message, data=data))


def said(*lines: str) -> Said:
    return Said(content=[words(line) for line in lines])


def words(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mimeType="image/png")


def embedded(uri: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(type="resource", resource=text_of(uri, text))


def text_of(uri: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=AnyUrl(uri), mimeType="text/plain", text=text)


def needs(**properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool that requires all of these arguments."""
    return {"type": "object", "properties": properties, "required": list(properties)}


class Events(EventStore):
    """Remembers what was sent on each stream, for callers who come back after their stream was closed.

    The SDK names a stream by the id of its request alone, so two sessions may share a name. A request's stream
    ends with its answer: what comes later under its name belongs to somebody else.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[str, types.JSONRPCMessage | None]] = []
        self.more = anyio.Event()

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self.sent.append((stream_id, message))
        self.more.set()
        self.more = anyio.Event()
        return str(len(self.sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what followed and wait for the rest: what comes between a replay and its return, the SDK loses."""
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self.sent):
            return None
        position = int(last_event_id)
        wanted, _ = self.sent[position - 1]
        while True:
            while position == len(self.sent):
                await self.more.wait()
            stream, message = self.sent[position]
            position += 1
            if stream == wanted and message is not None:
                await send_callback(EventMessage(message, str(position)))
                if isinstance(message.root, types.JSONRPCResponse | types.JSONRPCError):
                    return None


ANSWERS: dict[str, type[types.ElicitResult | types.CreateMessageResult | types.ListRootsResult]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
"""What the answer to each kind of question looks like."""

NAME = form("What is your name?", name={"type": "string"})

EVERYTHING: tuple[Question, ...] = (NAME, sample("Write a greeting."), types.ListRootsRequest())

VOCABULARY: dict[str, Any] = {
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
    "test_input_required_result_request_state": Tool("Asks, and goes on.", ask_to_go_on),
    "test_input_required_result_tampered_state": Tool("Asks, and goes on.", ask_to_go_on),
    "test_input_required_result_multiple_inputs": Tool("Asks everything at once.", ask_everything),
    "test_input_required_result_capabilities": Tool("Asks what it may.", ask_what_is_declared),
    "test_input_required_result_multi_round": Tool("Asks twice.", ask_twice),
}

if __name__ == "__main__":
    main()
