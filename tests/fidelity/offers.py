"""What the server of one era offers: the same in both eras, so that only the way between differs."""

from __future__ import annotations

import json
from typing import Any

INFO: dict[str, Any] = {
    "name": "one-era",
    "title": "Server of one era",
    "version": "1.2.3",
    "websiteUrl": "https://example.com/é",
    "icons": [{"src": "https://example.com/i.svg", "mimeType": "image/svg+xml", "sizes": ["any"], "theme": "dark"}],
}
INSTRUCTIONS = "Use `text` first.\nThen anything else – é."
EXTENSIONS: dict[str, Any] = {
    "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
    "io.modelcontextprotocol/tasks": {},
}
CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
TASKS: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability of a legacy server that has tasks."""

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
PAGE = "<!doctype html><title>App</title>"
PAGE_URI = "ui://one-era/page.html"

ANNOTATIONS: dict[str, Any] = {
    "audience": ["user", "assistant"],
    "priority": 0.5,
    "lastModified": "2026-01-02T03:04:05Z",
}
NOTE: dict[str, Any] = {"uri": "note://one", "mimeType": "text/plain", "text": "One – é\n", "_meta": {"example/n": 1}}
BLOB: dict[str, Any] = {"uri": "note://blob", "mimeType": "image/png", "blob": PNG, "_meta": {"example/n": [None]}}
FUTURE: dict[str, Any] = {"type": "hologram", "depth": 3, "layers": [{"z": None}], "_meta": {"example/k": {}}}

EXACT = (
    '"zebra":123456789012345678901234567890,"structuredContent":{"z":1.0,"a":null,"m":1E+2,"\\u006bey":-0.0},'
    '"content":[{"text":"caf\\u00e9 \\/ \\ud83d\\ude00 é","type":"text"}],"isError":false,"apple":null'
)
"""Members of a result, as text that must not be written anew."""

RESULTS: dict[str, dict[str, Any]] = {
    "text": {"content": [{"type": "text", "text": "Hello – é 😀\n", "annotations": ANNOTATIONS}]},
    "image": {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]},
    "audio": {"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]},
    "embedded": {
        "content": [
            {"type": "resource", "resource": NOTE, "annotations": ANNOTATIONS},
            {"type": "resource", "resource": BLOB},
        ]
    },
    "link": {
        "content": [
            {
                "type": "resource_link",
                "uri": "note://one",
                "name": "one",
                "title": "One",
                "mimeType": "text/plain",
                "size": 9,
                "icons": INFO["icons"],
            }
        ]
    },
    "structured": {
        "content": [{"type": "text", "text": '{"sum": 3}'}],
        "structuredContent": {"sum": 3, "parts": [1, 2], "none": None},
    },
    "failing": {"content": [{"type": "text", "text": "It did not work."}], "isError": True},
    "future": {
        "content": [FUTURE, {"type": "text", "text": "x", "colour": "red"}],
        "verdict": {"sure": True, "by": [None, 0]},
    },
    "marked": {
        "content": [{"type": "text", "text": "x", "_meta": {"example/content": {"a": [1, None]}}}],
        "_meta": {"example/result": {"b": "é"}, "com.example/flag": True},
    },
    "app_only": {"content": [{"type": "text", "text": "For the app."}], "structuredContent": {"rows": []}},
    "app": {"content": [{"type": "text", "text": "Shown in an app."}], "_meta": {"ui": {"state": 1}}},
}
"""Tools that always answer the same."""

ANYTHING: dict[str, Any] = {"type": "object"}


def said(text: str) -> dict[str, Any]:
    """A result that is one text."""
    return {"content": [{"type": "text", "text": text}]}


def dumped(value: Any) -> str:
    """JSON that a person can read."""
    return json.dumps(value, ensure_ascii=False)


def _tool(name: str, schema: dict[str, Any] = ANYTHING, **rest: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **rest}


TOOLS: list[dict[str, Any]] = [
    _tool("text", title="Text", annotations={"title": "T", "readOnlyHint": True, "openWorldHint": False}),
    _tool("image", icons=INFO["icons"]),
    _tool("audio", _meta={"example/tool": {"c": [1.5, None]}, "com.example/x": "é"}),
    _tool("embedded", annotations={"destructiveHint": False, "idempotentHint": True, "futureHint": 1}),
    _tool("link", colour="red", **{"x-unknown": {"deep": [None]}}),
    _tool(
        "structured",
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"part": {"$anchor": "part", "type": "integer"}},
            "properties": {"parts": {"type": "array", "items": {"$ref": "#/$defs/part"}}},
            "additionalProperties": False,
        },
        outputSchema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
    ),
    *(_tool(name) for name in ("failing", "future", "marked", "exact", "echo", "meta", "refuse", "broken")),
    _tool(
        "region",
        {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    ),
    *(_tool(name) for name in ("progress", "log", "wait", "was_cancelled", "change", "update")),
    *(
        _tool(name)
        for name in (
            "ask_form",
            "ask_url",
            "needs_url",
            "ask_model",
            "ask_roots",
            "ask_twice",
            "roots_changed",
            "finish",
        )
    ),
    _tool("job", execution={"taskSupport": "optional"}),
    _tool("only_job", execution={"taskSupport": "required"}),
    _tool("app", _meta={"ui": {"resourceUri": PAGE_URI, "visibility": ["model", "app"]}, "ui/resourceUri": PAGE_URI}),
    _tool("app_only", _meta={"ui": {"resourceUri": PAGE_URI, "visibility": ["app"]}}),
]

RESOURCES: list[dict[str, Any]] = [
    {
        "uri": "note://one",
        "name": "one",
        "title": "One",
        "description": "A note.",
        "mimeType": "text/plain",
        "size": 9,
        "annotations": ANNOTATIONS,
        "icons": INFO["icons"],
        "_meta": {"example/resource": 1},
        "colour": "red",
    },
    {"uri": "note://blob", "name": "blob", "mimeType": "image/png"},
    {"uri": "note://watched", "name": "watched", "mimeType": "text/plain"},
]
CONTENTS: dict[str, list[dict[str, Any]]] = {
    "note://one": [NOTE, {"uri": "note://one#2", "text": "", "future": [None]}],
    "note://blob": [BLOB],
    "note://watched": [{"uri": "note://watched", "text": "Watched."}],
    PAGE_URI: [
        {
            "uri": PAGE_URI,
            "mimeType": "text/html;profile=mcp-app",
            "text": PAGE,
            "_meta": {"ui": {"csp": {"connectDomains": ["https://example.com"]}, "prefersBorder": True}},
        }
    ],
}
TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": "note://of/{person}/{day}",
        "name": "of",
        "title": "Of a person",
        "mimeType": "text/plain",
        "annotations": ANNOTATIONS,
        "_meta": {"example/template": None},
    }
]
PROMPTS: list[dict[str, Any]] = [
    {
        "name": "greet",
        "title": "Greet",
        "description": "Greets – é.",
        "arguments": [{"name": "who", "title": "Who", "required": True, "future": 1}, {"name": "how"}],
        "icons": INFO["icons"],
        "_meta": {"example/prompt": []},
    },
    {"name": "read"},
    {"name": "asks"},
]
PEOPLE = ("ada", "adele", "bob")

FORM: dict[str, Any] = {
    "message": "Who are you – é?",
    "mode": "form",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "default": "Ada", "minLength": 1},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
        },
        "required": ["name"],
    },
    "_meta": {"example/question": [1, None]},
}
URL: dict[str, Any] = {
    "mode": "url",
    "message": "Sign in.",
    "url": "https://example.com/sign?in=1&x=é",
    "elicitationId": "e-1",
}
SAMPLE: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say é."}}],
    "systemPrompt": "Be short.",
    "maxTokens": 10,
    "temperature": 0.5,
    "stopSequences": ["."],
    "modelPreferences": {"hints": [{"name": "small"}], "speedPriority": 1.0},
    "metadata": {"deep": [None]},
}
