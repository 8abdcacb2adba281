"""An MCP server that has everything the official conformance suite asks a server for, in both eras.

Run it with `--port N` (streamable HTTP at /mcp, sessions and stateless calls on one address) or with `--stdio`.
With `--era modern` there are no sessions on that address. With port 0 it takes a free one. Either way it prints a
line such as `PORT 3901` when callers may come.
The suite fixes the names of tools, prompts and resources; a tool that asks a question works in both eras.
"""

import argparse
import re
import socket
import warnings

import anyio
import mcp_types as types
from fixture_tools import (
    PNG,
    TOOLS,
    Context,
    UnansweredError,
    ask,
    changes,
    embedded,
    form,
    image,
    is_modern,
    words,
    written,
)
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Receive, Scope, Send

RETRY = 100
"""Milliseconds after which a caller whose stream was closed should come back."""

VERSION_HEADER = b"mcp-protocol-version"

LEGACY_NOT_FOUND = -32002
"""What a missing resource was called before 2026-07-28."""

LASTING: tuple[CacheableMethod, ...] = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
"""What may be kept by whoever reads it."""

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--port", type=int, help="serve streamable HTTP on this port of 127.0.0.1; 0 takes a free one")
    way.add_argument("--stdio", action="store_true", help="serve one caller on standard input and output")
    parser.add_argument("--era", choices=("modern", "both"), default="both", help="over HTTP")
    chosen = parser.parse_args()
    # Logging and sampling are deprecated, and the suite still asks for them.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    if chosen.stdio:
        anyio.run(serve_stdio)
    else:
        import uvicorn  # which takes a tenth of a second that a server on standard input need not wait

        app = server().streamable_http_app(event_store=Events(), retry_interval=RETRY)
        served = modern_only(app) if chosen.era == "modern" else app
        # httptools leaves the blanks around a header's value, and the suite sends some.
        config = uvicorn.Config(served, http="h11", log_level="warning", timeout_graceful_shutdown=1)
        with socket.create_server(("127.0.0.1", chosen.port)) as listening:
            print("PORT", listening.getsockname()[1], flush=True)
            uvicorn.Server(config).run([listening])


def modern_only(app: ASGIApp) -> ASGIApp:
    """The same without sessions: the SDK starts one for whoever names a version that has them, or none at all."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            rest = [(name, value) for name, value in scope["headers"] if name != VERSION_HEADER]
            named = [value.decode("latin-1") for name, value in scope["headers"] if name == VERSION_HEADER]
            if not named or named[0] in HANDSHAKE_PROTOCOL_VERSIONS:
                scope = {**scope, "headers": [*rest, (VERSION_HEADER, b"")]}
        await app(scope, receive, send)

    return serve


async def serve_stdio() -> None:
    fixture = server()
    changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    async with stdio_server() as (reading, writing):
        await fixture.run(reading, writing, fixture.create_initialization_options(changing))


def server() -> Server:
    """The fixture, ready to be served."""
    fixture = Server(
        "conformance-fixture",
        version="1.0.0",
        instructions="A server to test gateways with.",
        cache_hints={method: CacheHint(ttl_ms=60_000, scope="public") for method in LASTING},
        get_tool_input_schema=lambda name: TOOLS[name].schema if name in TOOLS else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=agree,
        on_unsubscribe_resource=agree,
        on_subscriptions_listen=ListenHandler(changes),
        on_completion=complete,
    )
    # As an argument of the server it would warn at every start.
    fixture.add_request_handler("logging/setLevel", types.SetLevelRequestParams, agree)
    fixture.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=fixture.name))
    return fixture


async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=tool.description, input_schema=tool.schema)
            for name, tool in TOOLS.items()
        ]
    )


async def call_tool(
    ctx: Context, call: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    if call.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"There is no tool {call.name!r}.")
    try:
        return await TOOLS[call.name].run(ctx, call)
    except UnansweredError as unanswered:
        return unanswered.questions


async def list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=f"The prompt {name} of the suite.",
                arguments=[types.PromptArgument(name=argument, required=True) for argument in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(
    ctx: Context, call: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = call.arguments or {}
    match call.name:
        case "test_simple_prompt":
            return prompted(words("Say something simple."))
        case "test_prompt_with_arguments":
            return prompted(words(f"The first is {given.get('arg1')}, the second is {given.get('arg2')}."))
        case "test_prompt_with_embedded_resource":
            return prompted(embedded(given.get("resourceUri", ""), "Embedded by a prompt."), words("Read it."))
        case "test_prompt_with_image":
            return prompted(image(), words("Describe it."))
        case "test_input_required_result_prompt":
            question = form("What is it about?", context={"type": "string"})
            try:
                answers = await ask(ctx, call, {"user_context": question})
            except UnansweredError as unanswered:
                return unanswered.questions
            return prompted(words(f"Asked and answered: {written(answers)}"))
        case _:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {call.name!r}.")


def prompted(*contents: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in contents])


async def list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri.removeprefix("test://"), description="Of the suite.", mime_type=mime_type)
            for uri, mime_type in RESOURCES.items()
        ]
    )


async def list_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="template", description="Says its id.", mime_type="text/plain"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = params.uri
    if uri == "test://static-binary":
        return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)])
    if found := TEMPLATE.fullmatch(uri):
        text = f"The data of {found['id']}."
    elif uri in RESOURCES:
        text = f"The text of {uri}."
    else:
        code = types.INVALID_PARAMS if is_modern(ctx) else LEGACY_NOT_FOUND
        raise MCPError(code, f"There is no resource {uri!r}.", {"uri": uri})
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)])


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [word for word in ("test", "testimony", "paris", "park") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def agree(ctx: Context, params: types.RequestParams) -> types.EmptyResult:
    return types.EmptyResult()


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

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> None:
        """Send what followed and wait for the rest: what comes between a replay and its return, the SDK loses."""
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self.sent):
            return
        position = int(last_event_id)
        wanted, _ = self.sent[position - 1]
        while True:
            while position == len(self.sent):
                await self.more.wait()
            stream, message = self.sent[position]
            position += 1
            if stream == wanted and message is not None:
                await send_callback(EventMessage(message, str(position)))
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    return


if __name__ == "__main__":
    main()
