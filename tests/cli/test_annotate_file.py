"""Tools in a file get inferred hints, one line each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trunkline.cli.annotate import infer_file
from trunkline.errors import ConfigError

TOOLS: list[dict[str, Any]] = [
    {"server": "a", "name": "get_user", "description": "Get a user", "annotations": {"readOnlyHint": False}},
    {"server": "b", "name": "delete_user", "inputSchema": {"properties": {}}},
]


def run(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    (tmp_path / "tools").write_text(text, encoding="utf-8")
    assert infer_file(tmp_path / "tools", tmp_path / "out") == 0
    return [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(json.dumps(tool) for tool in TOOLS) + "\n\n",
        json.dumps(TOOLS),
        json.dumps({"tools": TOOLS}, indent=2),
        json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS}}),
    ],
    ids=["lines", "list", "result", "response"],
)
def test_every_shape_of_file_gives_one_line_for_each_tool(tmp_path: Path, text: str) -> None:
    lines = run(tmp_path, text)

    assert [(line["server"], line["name"]) for line in lines] == [("a", "get_user"), ("b", "delete_user")]
    assert lines[0]["annotations"]["readOnlyHint"] is True, "the declared hints are not looked at"
    assert lines[1]["annotations"] == {"readOnlyHint": False, "destructiveHint": True}


def test_one_tool_alone_is_a_file_of_one_line(tmp_path: Path) -> None:
    assert [line["name"] for line in run(tmp_path, json.dumps(TOOLS[0]))] == ["get_user"]


def test_a_file_without_tools_gives_an_empty_one(tmp_path: Path) -> None:
    assert run(tmp_path, "[]") == []
    assert run(tmp_path, "") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "a"}\nnonsense', "line 2 is not JSON"),
        ("3", "holds no list of tools"),
        ("[3]", "tool 1 is not a tool"),
        ('[{"name": ""}]', "tool 1 has no name"),
        ('[{"name": "a", "description": 3}]', "description of 'a' is not a text"),
        ('[{"name": "a", "inputSchema": []}]', "inputSchema of 'a' is not an object"),
        ('[{"name": "a", "server": 3}]', "server of 'a' is not a text"),
    ],
)
def test_a_bad_file_is_told_by_place_and_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, text)

    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        infer_file(tmp_path / "none", tmp_path / "out")
    (tmp_path / "tools").write_text("[]")
    with pytest.raises(ConfigError, match="cannot be written"):
        infer_file(tmp_path / "tools", tmp_path / "no" / "out")
