"""Reads the tools of any MCP client, page by page, without trusting its server to stop."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args, get_type_hints

from trunkline.errors import ProtocolError

MOST_PAGES = 1_000
MOST_TOOLS = 20_000

Listed = Callable[[str | None], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ToolPages:
    """What a client listed."""

    tools: tuple[Any, ...]
    """Definitions as mappings, or as the objects of an SDK."""
    problem: str = ""
    """Why there may be more; empty when the list is whole."""


async def read_pages(client: Any) -> ToolPages:
    """Every tool of a client that has `list_tools`; ProtocolError when it answers something else."""
    list_tools = _paged(client.list_tools)
    tools: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        page, cursor = _page(await list_tools(cursor))
        tools += page
        if cursor is None:
            return ToolPages(tuple(tools))
        if cursor in seen or len(tools) > MOST_TOOLS:
            break
        seen.add(cursor)
    return ToolPages(tuple(tools[:MOST_TOOLS]), "Its tools do not end; only the first pages are known.")


def as_definition(tool: Any) -> Mapping[str, Any]:
    """A listed tool as an MCP definition; ProtocolError when it is none."""
    if isinstance(tool, Mapping):
        return cast("Mapping[str, Any]", tool)
    if not hasattr(tool, "model_dump"):
        raise ProtocolError(f"A tool is listed as {type(tool).__name__!r}, which is no definition.")
    return tool.model_dump(by_alias=True, exclude_none=True, mode="json")


def version_of(client: Any) -> str:
    """The version of the server behind a client, if it knows it."""
    version = getattr(getattr(client, "server_info", None), "version", "")
    return version if isinstance(version, str) else ""


def _page(answer: Any) -> tuple[list[Any], str | None]:
    if isinstance(answer, list):  # some clients follow the pages themselves
        return cast("list[Any]", answer), None
    if isinstance(answer, Mapping):
        members = cast("Mapping[str, Any]", answer)
        tools, cursor = members.get("tools"), members.get("nextCursor")
    else:
        tools = getattr(answer, "tools", None)
        cursor = getattr(answer, "next_cursor", None) or getattr(answer, "nextCursor", None)
    if not isinstance(tools, list | tuple):
        raise ProtocolError("No tools returned from server.")
    return list(cast("list[Any]", tools)), cursor if isinstance(cursor, str) else None


def _paged(method: Callable[..., Awaitable[Any]]) -> Listed:
    """The client's method as a function of the cursor, however the client spells that."""
    try:
        names = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return method
    # A client that keeps lists must ask its server: what is old is known already.
    fresh = {"cache_mode": "refresh"} if "cache_mode" in names else {}
    if "cursor" in names:
        return lambda cursor: method(cursor=cursor, **fresh)
    if "params" in names:
        made = _params_type(method)
        return lambda cursor: method(params=made(cursor=cursor) if cursor else None)
    return lambda cursor: method(cursor) if names else method()


def _params_type(method: Callable[..., Any]) -> Callable[..., Any]:
    """The SDK's own class of params, as the method's types name it; without any, a mapping."""
    try:
        hint = get_type_hints(getattr(method, "__func__", method)).get("params")
    except (NameError, TypeError):
        return dict
    return next((kind for kind in get_args(hint) if kind is not type(None)), None) or dict
