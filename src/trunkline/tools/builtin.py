"""The tools and resources of Trunkline itself, for callers who search instead of reading a long list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trunkline.tool import PROGRAM

SEARCH = "search_tools"
CALL = "call_tool"
RUN = PROGRAM
READ, SEARCH_RESULT, QUERY = "read_result", "search_result", "query_result"
RESULT_TOOLS = frozenset((READ, SEARCH_RESULT, QUERY))
"""The tools that read results which were too large to be shown."""
NAMES = frozenset((SEARCH, CALL, RUN)) | RESULT_TOOLS

CATALOGUE = "trunkline://tools"
"""The address of the whole catalogue, one line for each tool."""
DEFINITION = "trunkline://tools/{name}"
"""The address of one tool's whole definition."""

RESULTS = "trunkline://results/"
"""What the address of a result begins with that was kept aside."""

MOST_QUERIES = 10
MOST_TOOLS = 50
_MOST_SERVERS = 40


def definitions(servers: Sequence[str], *, programs: bool = False, coding: bool = False) -> list[dict[str, Any]]:
    """Our tools, as a list shows them; `servers` is what can be searched, `coding` has it called by programs alone."""
    if coding:
        return [_search(servers, _FOUND_FUNCTIONS), _RUN]
    return [_search(servers, _FOUND_TOOLS), _CALL, *([_RUN] if programs else [])]


def _search(servers: Sequence[str], found: str) -> dict[str, Any]:
    named = ", ".join(servers[:_MOST_SERVERS])
    if len(servers) > _MOST_SERVERS:
        named += f" and {len(servers) - _MOST_SERVERS} more"
    return {
        "name": SEARCH,
        "title": "Search tools",
        "description": (
            "Find tools by what they do. Most tools are not listed: search before you say that something cannot be "
            f"done. {found} "
            f"Searches the tools of: {named or 'no server yet'}."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you want to do, such as: open a pull request"},
                "queries": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MOST_QUERIES,
                    "description": "Several things at once: one query for each step of a task finds more than one long "
                    "query.",
                },
                "names": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MOST_QUERIES,
                    "description": "Names of tools whose whole definitions you want, where a result was shortened.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_TOOLS,
                    "description": "How many tools for each query.",
                },
                "strategy": {
                    "type": "string",
                    "enum": ["hybrid", "bm25", "semantic", "regex"],
                    "description": "How to search, if not as usual: bm25 by words, semantic by meaning, hybrid by "
                    "both, regex by a pattern.",
                },
            },
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }


_FOUND_TOOLS = f"Gives names, descriptions and input schemas; call what you find with {CALL}."
_FOUND_FUNCTIONS = f"Gives Python functions, which programs for {RUN} can await."

_RUN: dict[str, Any] = {
    "name": RUN,
    "title": "Run code",
    "description": (
        f"Run a Python program that calls tools as async functions by their names: several steps in one go, and only "
        "what you need of the results. `x = await server__tool(arg=1)`: keyword arguments alone; gives parsed data; a "
        "failure raises (RuntimeError; refused: PermissionError). At once: `await asyncio.gather(f(a=1), g(b=2))`. The "
        f"last expression is the value. Look up tools with {SEARCH} first.\n"
        "A subset of Python: json, re, datetime, math, collections, itertools, functools, csv, hashlib, base64, "
        "random, decimal. No files, network, yield, del, class inheritance, async with or for, create_task."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program; `await` works at its top level."}},
        "required": ["code"],
        "additionalProperties": False,
    },
}

_CALL: dict[str, Any] = {
    "name": CALL,
    "title": "Call tool",
    "description": f"Call a tool that {SEARCH} found, with arguments that fit its input schema.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": f"The tool's name, exactly as {SEARCH} gave it."},
            "arguments": {"type": "object", "description": "The tool's own arguments.", "additionalProperties": True},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}


def result_definitions() -> list[dict[str, Any]]:
    """The tools that read results, as a list shows them."""
    return [_READ, _SEARCH_RESULT, _QUERY]


def result_schema(name: str) -> dict[str, Any]:
    """What one of them takes."""
    return next(tool["inputSchema"] for tool in result_definitions() if tool["name"] == name)


def _of_result(
    name: str, title: str, description: str, own: dict[str, Any], required: tuple[str, ...]
) -> dict[str, Any]:
    handle = {"type": "string", "description": "The name that the preview gave."}
    part = {"type": "string", "enum": ["structured", "text"], "description": "Which part, where there are two."}
    count = {"type": "integer", "minimum": 1, "description": "How many at most."}
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"result": handle, **own, "count": count, "part": part},
            "required": ["result", *required],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }


_READ = _of_result(
    READ,
    "Read result",
    "Read on in a result that was too large and came as a preview. `next` in the answer says where to go on.",
    {
        "path": {"type": "string", "maxLength": 1000, "description": "Of JSON: what to read, such as $.items[7]"},
        "start": {
            "type": "integer",
            "minimum": 0,
            "description": "From which element on; of text, which line (from 1).",
        },
        "column": {"type": "integer", "minimum": 0, "description": "Of text: from which letter of that line on."},
    },
    (),
)
_SEARCH_RESULT = _of_result(
    SEARCH_RESULT,
    "Search result",
    "Find text in a result that came as a preview: gives paths (JSON) or lines (text).",
    {
        "text": {"type": "string", "minLength": 1, "maxLength": 1000},
        "regex": {"type": "boolean", "description": "The text is a regular expression, matched line by line."},
        "start": {"type": "integer", "minimum": 0, "description": "Where to go on, as `next` said."},
    },
    ("text",),
)
_QUERY = _of_result(
    QUERY,
    "Query result",
    "Select from a JSON result that came as a preview, by JSONPath: $.items[*].name, $.items[?@.price > 10 && "
    "@.tag == 'x'], $..id, $.items[-5:]. Gives how many match, and the values.",
    {
        "query": {"type": "string", "minLength": 1, "maxLength": 1000},
        "fields": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 50,
            "description": "Of objects that match, only these members.",
        },
        "start": {"type": "integer", "minimum": 0, "description": "From which match on."},
    },
    ("query",),
)

RESOURCES: list[dict[str, Any]] = [
    {
        "uri": CATALOGUE,
        "name": "tools",
        "title": "All tools",
        "description": "Every tool there is: name, server, and what it does in a line.",
        "mimeType": "application/json",
    }
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": DEFINITION,
        "name": "tool",
        "title": "One tool",
        "description": "The whole definition of one tool.",
        "mimeType": "application/json",
    }
]
