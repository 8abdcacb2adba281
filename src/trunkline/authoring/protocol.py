"""A server of one's own as the SDK serves it: MCP's requests become calls, and their outcome MCP's answers."""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ValidationError

from trunkline.authoring.capabilities import Kind
from trunkline.authoring.content import error_text, plain_json
from trunkline.authoring.context import LogMessage, Notice
from trunkline.authoring.questions import ELICIT, ROOTS, SAMPLE, Question
from trunkline.authoring.runs import Asked, Run, WaitingRuns
from trunkline.authoring.server import MCPServerBase
from trunkline.authoring.sessions import Context, News, Sessions, is_modern, wants_log
from trunkline.errors import InvalidArgumentsError, RefusedError, ServerRefusedError, TrunklineError, UnknownNameError
from trunkline.foreign import Raised, attempt
from trunkline.tasks import Tasks
from trunkline.tool import Tool, ToolResult
from trunkline.tools.convert.mcp import to_mcp_tool
from trunkline.wire.era import MISSING_CAPABILITY
from trunkline.wire.questions import may_ask

LEGACY_NOT_FOUND = -32002
"""What a missing resource was called before 2026-07-28."""
LIST_TTL = 60.0
"""Seconds that a list may be kept by who does not listen for its changes."""
MOST_COMPLETIONS = 100

_LISTS: tuple[CacheableMethod, ...] = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
)
Work = Callable[[Run], Coroutine[Any, Any, Any]]
"""Makes a call on behalf of a run."""

_CHANGES = {"tools": ToolsListChanged, "resources": ResourcesListChanged, "prompts": PromptsListChanged}


class Protocol:
    """One server for any number of callers, in both eras; `sdk` is what the SDK's transports take."""

    def __init__(self, server: MCPServerBase) -> None:
        self._server = server
        self._capabilities = server.capabilities
        self._sessions = Sessions()
        self._waiting = WaitingRuns(server.config.max_waiting)
        self._tasks = Tasks()
        self._bus = News()
        self._listening = ListenHandler(self._bus)
        self._loop = asyncio.get_running_loop()
        self._changed: set[Kind] = set()
        server.capabilities.list_changed = self.changed
        server.capabilities.updated = self._updated
        self.sdk = self._sdk_server()

    @property
    def options(self) -> InitializationOptions:
        """How it introduces itself to legacy callers."""
        changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return self.sdk.create_initialization_options(changing)

    def end_listening(self) -> None:
        """Tell those who listen that there will be no more news."""
        self._listening.close()

    async def close(self) -> None:
        """End all that goes on."""
        self.end_listening()
        await self._tasks.close()

    def changed(self, kind: Kind) -> None:
        """Tell everybody that a list changed, once for all changes of this moment; from any thread."""
        self._loop.call_soon_threadsafe(self._note, kind)

    def _note(self, kind: Kind) -> None:
        if not self._changed:
            self._tasks.start(self._announce(), name="list changed")
        self._changed.add(kind)

    async def _announce(self) -> None:
        await asyncio.sleep(0)
        changed, self._changed = sorted(self._changed), set()
        for kind in changed:
            await self._bus.publish(_CHANGES[kind]())
            for session in self._sessions:
                await session.connection.notify(f"notifications/{kind}/list_changed", None)

    def _updated(self, uri: str) -> None:
        self._loop.call_soon_threadsafe(lambda: self._tasks.start(self._tell_updated(uri), name="resource updated"))

    async def _tell_updated(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri=uri))
        for session in self._sessions:
            if uri in session.followed:
                await session.connection.send_resource_updated(uri)

    def _sdk_server(self) -> Server[Any]:
        config, has = self._server.config, self._capabilities.config
        sdk: Server[Any] = Server(
            config.id,
            version=config.version,
            title=config.name,
            instructions=config.description or None,
            cache_hints={method: CacheHint(ttl_ms=int(LIST_TTL * 1000), scope="public") for method in _LISTS},
            get_tool_input_schema=self._schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listening,
        )
        add: Callable[[str, type[Any], Callable[[Context, Any], Awaitable[Any]]], None] = sdk.add_request_handler
        if has.prompts:
            add("prompts/list", types.PaginatedRequestParams, self._list_prompts)
            add("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        if has.resources:
            add("resources/list", types.PaginatedRequestParams, self._list_resources)
            add("resources/templates/list", types.PaginatedRequestParams, self._list_templates)
            add("resources/read", types.ReadResourceRequestParams, self._read_resource)
        if has.resources and has.resource_subscriptions:
            add("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
            add("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        if self._capabilities.completes:
            add("completion/complete", types.CompleteRequestParams, self._complete)
        add("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        sdk.add_notification_handler("notifications/initialized", types.NotificationParams, self._greet)
        # Without it a state would be whatever a caller says it is.
        sdk.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=config.id))
        return sdk

    # Calls, which may ask.

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        try:
            outcome = await self._attended(
                ctx,
                params,
                f"tool {params.name}",
                lambda run: self._server.perform(params.name, params.arguments or {}, run),
            )
        except TrunklineError as error:
            if error.code != MISSING_CAPABILITY or is_modern(ctx):
                raise _mcp_error(error) from error
            outcome = ToolResult.failed(str(error))
        if isinstance(outcome, ToolResult):
            return _tool_result(outcome, modern=is_modern(ctx))
        return _input_required(outcome)

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        try:
            outcome = await self._answered(
                ctx,
                params,
                f"prompt {params.name}",
                lambda run: self._capabilities.get_prompt(params.name, params.arguments, counterpart=run),
            )
        except UnknownNameError as error:
            raise _mcp_error(error) from error
        if isinstance(outcome, Asked):
            return _input_required(outcome)
        messages = [message.to_mcp() for message in outcome.messages]
        return _validated(types.GetPromptResult, {"messages": messages, "description": outcome.description or None})

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        try:
            outcome = await self._answered(
                ctx,
                params,
                f"resource {params.uri}",
                lambda run: self._capabilities.read_resource(params.uri, counterpart=run),
            )
        except UnknownNameError as error:
            code = types.INVALID_PARAMS if is_modern(ctx) else LEGACY_NOT_FOUND
            raise MCPError(code, str(error), {"uri": params.uri}) from error
        if isinstance(outcome, Asked):
            return _input_required(outcome)
        return _validated(types.ReadResourceResult, {"contents": [content.to_mcp() for content in outcome]})

    async def _answered(self, ctx: Context, params: types.InputResponseRequestParams, name: str, work: Work) -> Any:
        """The same as `_attended`, where every failure but an unknown name is an error of the protocol."""
        outcome = await attempt(self._attended, ctx, params, name, work)
        if not isinstance(outcome, Raised):
            return outcome
        error = outcome.error
        if isinstance(error, UnknownNameError):
            raise error
        if isinstance(error, TrunklineError):
            raise _mcp_error(error) from error
        raise MCPError(types.INTERNAL_ERROR, error_text(error)) from error  # the caller should see what failed

    async def _attended(self, ctx: Context, params: types.InputResponseRequestParams, name: str, work: Work) -> Any:
        """Run a call to its end, or to questions that another request has to answer."""
        said = {key: plain_json(answer) for key, answer in (params.input_responses or {}).items()}
        if params.request_state is not None:
            run = self._waiting.take(params.request_state)
            run.may_ask = functools.partial(_may_ask, ctx)
            run.answer(said)
        else:
            run = self._begun(ctx, said)
            run.work.start(work(run), self._tasks, name=name)
        outcome = await run.attend(self._sender(ctx))
        return self._waiting.put(run) if outcome is None else outcome

    def _begun(self, ctx: Context, said: Mapping[str, Mapping[str, Any]]) -> Run:
        async def ask_now(question: Question) -> Mapping[str, Any]:
            return await _asked_now(ctx, question)

        # Only keys that an author chose mean the same question in every call.
        early = {key: answer for key, answer in said.items() if not key.startswith("question-")}
        return Run(
            functools.partial(_may_ask, ctx),
            ask_now=None if is_modern(ctx) else ask_now,
            early=early,
            patience=self._server.config.question_timeout,
        )

    def _sender(self, ctx: Context) -> Callable[[Notice], Awaitable[None]]:
        wants = wants_log(ctx, self._sessions)

        async def send(notice: Notice) -> None:
            if not isinstance(notice, LogMessage):
                await ctx.session.report_progress(notice.progress, notice.total, notice.message or None)
            elif wants(notice.level):
                line = types.LoggingMessageNotificationParams(
                    level=notice.level, data=plain_json(notice.data), logger=notice.logger or None
                )
                await ctx.session.send_notification(types.LoggingMessageNotification(params=line), ctx.request_id)

        return send

    # Lists, and the rest.

    def _schema(self, tool: str) -> Mapping[str, Any] | None:
        found = self._server.get_tool(tool)
        return found.input_schema if found is not None else None

    async def _list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_listed_tool(tool, ctx.protocol_version) for tool in self._server.get_tools()]
        )

    async def _list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        found = [types.Prompt.model_validate(prompt.to_mcp()) for prompt in self._capabilities.list_prompts()]
        return types.ListPromptsResult(prompts=found)

    async def _list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        found = [types.Resource.model_validate(resource.to_mcp()) for resource in self._capabilities.list_resources()]
        return types.ListResourcesResult(resources=found)

    async def _list_templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        listed = self._capabilities.list_resource_templates()
        found = [types.ResourceTemplate.model_validate(template.to_mcp()) for template in listed]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        reference = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        others = params.context.arguments if params.context is not None else None
        values = await self._capabilities.complete(reference, params.argument.name, params.argument.value, others)
        shown = types.Completion(
            values=values[:MOST_COMPLETIONS], total=len(values), has_more=len(values) > MOST_COMPLETIONS
        )
        return types.CompleteResult(completion=shown)

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        if not self._capabilities.can_read(params.uri):
            raise MCPError(LEGACY_NOT_FOUND, f"There is no resource {params.uri!r}.", {"uri": params.uri})
        self._sessions.of(ctx).followed.add(params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._sessions.of(ctx).followed.discard(params.uri)
        return types.EmptyResult()

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._sessions.of(ctx).level = params.level
        return types.EmptyResult()

    async def _greet(self, ctx: Context, params: Any) -> None:
        if not is_modern(ctx):
            self._sessions.of(ctx)


def _listed_tool(tool: Tool, revision: str) -> types.Tool:
    """A tool as it is listed under a revision; one member too many would cost the caller the whole list."""
    return types.Tool.model_validate(to_mcp_tool(tool, infer_annotations=False, revision=revision).value)


def _tool_result(result: ToolResult, *, modern: bool) -> types.CallToolResult:
    """What a tool answered, as far as the caller's era has words for it."""
    members: dict[str, Any] = {"content": result.content, "isError": result.is_error}
    # Before 2026-07-28 only an object was structured content.
    structured: Any = result.structured
    if structured is not None and (modern or isinstance(structured, dict)):
        members["structuredContent"] = structured
    if result.meta:
        members["_meta"] = result.meta
    try:
        return types.CallToolResult.model_validate(members)
    except ValidationError:
        failed = ToolResult.failed("The tool answered something that MCP does not have.")
        return types.CallToolResult.model_validate({"content": failed.content, "isError": True})


def _validated(kind: type[BaseModel], value: dict[str, Any]) -> BaseModel:
    """A result of a prompt or a reader; what MCP does not have is the server's own fault."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        # As it is, the SDK would take it for a mistake of the caller's.
        raise MCPError(types.INTERNAL_ERROR, "The server made something that MCP does not have.") from error


def _input_required(asked: Asked) -> types.InputRequiredResult:
    """Questions as the answer to a modern request."""
    requests = {key: _request(question) for key, question in asked.questions.items()}
    return types.InputRequiredResult(input_requests=requests, request_state=asked.state)


_REQUESTS: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    ELICIT: (types.ElicitRequest, types.ElicitResult),
    SAMPLE: (types.CreateMessageRequest, types.CreateMessageResult),
    ROOTS: (types.ListRootsRequest, types.ListRootsResult),
}


def _request(question: Question) -> Any:
    params = dict(question.params)
    return _REQUESTS[question.method][0].model_validate({"method": question.method, "params": params or None})


async def _asked_now(ctx: Context, question: Question) -> Mapping[str, Any]:
    """Ask a legacy caller, on the stream of its request."""
    request = _request(question)
    if question.by_page:
        request.params.elicitation_id = secrets.token_urlsafe(8)
    belongs = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        result = await ctx.session.send_request(request, _REQUESTS[question.method][1], metadata=belongs)
    except MCPError as error:
        raise ServerRefusedError(f"The caller did not answer: {error.message}", code=error.code) from error
    except ValidationError as error:
        raise InvalidArgumentsError("The caller answered something that is no answer.") from error
    return cast("Mapping[str, Any]", plain_json(result))


def _may_ask(ctx: Context, question: Question) -> bool:
    """Whether whoever made a request said that it can be asked such a thing."""
    has = ctx.session.client_capabilities
    return has is not None and may_ask(question.on_wire, has.model_dump_json(by_alias=True, exclude_none=True).encode())


def _mcp_error(error: TrunklineError) -> MCPError:
    """An error of ours as one of the protocol."""
    return MCPError(error.code, str(error), error.data if isinstance(error, RefusedError) else None)
