"""Tools of the hub in the formats of the vendors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trunkline.control.model_formats import FORMATS, for_model, formatted
from trunkline.errors import ConfigError
from trunkline.model import Entry

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def entry(shown: str, *, app_only: bool = False, **members: Any) -> Entry:
    definition = {"name": shown, "description": "Reads a file.", "inputSchema": SCHEMA, **members}
    server, _, name = shown.partition("__")
    return Entry(shown, server, name, json.dumps(definition).encode(), app_only=app_only)


READ = entry("files__read", title="Read", icons=[{"src": "https://example.org/i.png"}])
WRITE = entry("files__write")


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("anthropic", {"name": "files__write", "description": "Reads a file.", "input_schema": SCHEMA}),
        (
            "openai",
            {
                "type": "function",
                "name": "files__write",
                "description": "Reads a file.",
                "parameters": SCHEMA,
                "strict": False,
            },
        ),
        (
            "openai-chat",
            {
                "type": "function",
                "function": {"name": "files__write", "description": "Reads a file.", "parameters": SCHEMA},
            },
        ),
        ("mcp", {"name": "files__write", "description": "Reads a file.", "inputSchema": SCHEMA}),
    ],
)
def test_each_format_gets_the_shown_name_the_description_and_the_schema(format: str, expected: dict[str, Any]) -> None:
    assert formatted([WRITE], format) == [expected]


def test_gemini_gets_a_function_declaration() -> None:
    (made,) = formatted([WRITE], "gemini")

    assert made["name"] == "files__write"
    assert made["parameters"]["required"] == ["path"]


def test_for_mcp_a_definition_is_what_the_server_sent() -> None:
    assert formatted([READ], "mcp") == [json.loads(READ.definition)]


@pytest.mark.parametrize("format", ["anthropic", "openai"])
def test_deferring_spares_the_tools_that_are_kept(format: str) -> None:
    made = formatted([READ, WRITE], format, defer=True, keep=("files__read", "files__gone"))

    assert [tool["defer_loading"] for tool in made] == [False, True]


def test_a_tool_that_is_kept_is_loaded_even_if_its_server_would_defer_it() -> None:
    shy = entry("files__list", _meta={"defer_loading": True})

    assert formatted([shy], "anthropic")[0]["defer_loading"] is True
    assert formatted([shy], "anthropic", defer=True, keep=["files__list"])[0]["defer_loading"] is False


@pytest.mark.parametrize("format", [format for format in FORMATS if format not in ("anthropic", "openai")])
def test_a_format_that_cannot_defer_says_which_can(format: str) -> None:
    with pytest.raises(ConfigError, match="anthropic, openai"):
        formatted([READ], format, defer=True)


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="mcp, anthropic, openai, openai-chat, gemini"):
        formatted([], "claude")


def test_what_a_server_says_for_vendors_in_its_metadata_is_passed_on() -> None:
    meta = {
        "input_examples": [{"path": "/a"}],
        "allowed_callers": ["code_execution"],
        "when_to_use": "For short files.",
    }

    (made,) = formatted([entry("files__read", _meta=meta)], "anthropic")

    assert made["input_examples"] == [{"path": "/a"}]
    assert made["allowed_callers"] == ["code_execution"]
    assert made["description"] == "Reads a file.\n\nWhen to use: For short files."


def test_what_is_lost_is_named_with_its_place() -> None:
    losses = for_model([WRITE, READ], "anthropic").losses

    assert {loss.path for loss in losses} == {"/1/title", "/1/icons"}


def test_a_name_that_the_vendor_refuses_leads_back_to_the_shown_one() -> None:
    made = for_model([entry("files__a.b"), entry("files__a_b")], "openai").value

    assert len(made.by_name) == 2
    assert all(len(name) <= 64 and "." not in name for name in made.by_name)
    assert sorted(tool.name for tool in made.by_name.values()) == ["files__a.b", "files__a_b"]
    assert [tool["name"] for tool in made.definitions] == list(made.by_name)


@pytest.mark.parametrize("format", FORMATS)
def test_tools_for_an_apps_own_use_are_not_for_models(format: str) -> None:
    assert len(formatted([READ, entry("files__click", app_only=True)], format)) == 1
