"""MCP's words for what a server of one's own offers, answers and asks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ValidationError

from trunkline.authoring.content import plain_json
from trunkline.authoring.questions import ELICIT, ROOTS, SAMPLE, Question
from trunkline.authoring.runs import Asked
from trunkline.authoring.sessions import Context
from trunkline.errors import InvalidArgumentsError, RefusedError, ServerRefusedError, TrunklineError
from trunkline.tool import Tool, ToolResult
from trunkline.tools.convert.mcp import to_mcp_tool
from trunkline.wire.questions import may_ask as declared


def listed_tool(tool: Tool, revision: str) -> types.Tool:
    """A tool as it is listed under a revision; one member too many would cost the caller the whole list."""
    return types.Tool.model_validate(to_mcp_tool(tool, infer_annotations=False, revision=revision).value)


def tool_result(result: ToolResult, *, modern: bool) -> types.CallToolResult:
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


def valid(kind: type[BaseModel], value: dict[str, Any]) -> BaseModel:
    """A result of a prompt or a reader; what MCP does not have is the server's own fault."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        # As it is, the SDK would take it for a mistake of the caller's.
        raise MCPError(types.INTERNAL_ERROR, "The server made something that MCP does not have.") from error


def input_required(asked: Asked) -> types.InputRequiredResult:
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


async def asked_now(ctx: Context, question: Question) -> Mapping[str, Any]:
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


def may_ask(ctx: Context, question: Question) -> bool:
    """Whether whoever made a request said that it can be asked such a thing."""
    has = ctx.session.client_capabilities
    return has is not None and declared(
        question.on_wire, has.model_dump_json(by_alias=True, exclude_none=True).encode()
    )


def refused(error: TrunklineError) -> MCPError:
    """An error of ours as one of the protocol."""
    return MCPError(error.code, str(error), error.data if isinstance(error, RefusedError) else None)
