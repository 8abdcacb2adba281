"""Rankings for measuring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trunkline.cli.bench import rank_file
from trunkline.errors import ConfigError


def test_a_file_of_queries_becomes_a_file_of_rankings(tmp_path: Path) -> None:
    tools, queries, out = tmp_path / "tools", tmp_path / "queries", tmp_path / "out"
    tools.write_text(
        '{"key": "a/read", "server": "a", "name": "read_file", "description": "Read a file."}\n'
        '{"key": "a/send", "server": "a", "name": "send_mail", "description": "Send a mail."}\n\n'
    )
    queries.write_text('{"id": "1", "query": "read a file"}\n{"id": "2", "query": "xyzzy"}\n')

    assert rank_file(tools, queries, "bm25", 10, out) == 2

    first, second = (json.loads(line) for line in out.read_text().splitlines())
    assert (first["id"], first["ranked"][0]) == ("1", "a/read")
    assert len(first["scores"]) == len(first["ranked"])
    assert first["ms"] >= 0
    assert second["ranked"] == []


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.write_text('{"key": "a", "name": "a"}\nnonsense\n')

    with pytest.raises(ConfigError, match="Line 2"):
        rank_file(tools, tools, "bm25", 10, tmp_path / "out")
