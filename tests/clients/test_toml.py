"""TOML, changed in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from trunkline.clients.document import Document
from trunkline.errors import ConfigError

PATH = ("mcp_servers", "t")


def document(text: str) -> Document:
    return Document(Path("config.toml"), "toml", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = 1",
        "a = 1\r\n[b]\r\nc = 2 # why\r\n",
        '[mcp_servers.a]\ncommand = "x"\n\n[tui]\n\n[mcp_servers.b]\ncommand = "y"\n# end\n',
        '[mcp_servers]\na = { command = "x" }\n\n[z]\n',
        'a = """\n[mcp_servers.t]\n"""\n',
        "[[profiles]]\nname = 'x'\n",
    ],
)
def test_a_table_is_put_behind_everything_and_no_line_before_it_changes(text: str) -> None:
    after = document(text).with_entry(PATH, {"url": "http://x"})

    assert after.text.startswith(text)
    assert after.value()["mcp_servers"]["t"] == {"url": "http://x"}
    assert ("\r\n" in text) == ("\r\n" in after.text)
    assert "\n" not in after.text.replace("\r\n", "") or "\r\n" not in text


def test_a_table_that_is_there_is_replaced() -> None:
    after = document('[mcp_servers.t]\nurl = "http://old"\n\n[b]\nc = 1\n').with_entry(PATH, {"url": "http://new"})

    assert after.value() == {"mcp_servers": {"t": {"url": "http://new"}}, "b": {"c": 1}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "a = 1\n\n[mcp_servers.t]\nx = 1\n\n[mcp_servers.t.env]\nK = 'v'\n\n# about b\n[b]\n",
            "a = 1\n\n# about b\n[b]\n",
        ),
        ("[mcp_servers.t]\nx = 1\n\n[b]\n\n[mcp_servers.t.env]\nK = 1\n", "[b]\n\n"),
        ("[mcp_servers]\nt = { x = 1 }\nu = { x = 2 }\n", "[mcp_servers]\nu = { x = 2 }\n"),
        ('[ mcp_servers . "t" ] # mine\nx = "]"\n[b]\n', "[b]\n"),
        ("[mcp_servers.tt]\nx = 1\n", "[mcp_servers.tt]\nx = 1\n"),
    ],
)
def test_a_table_is_taken_with_what_is_below_it_and_comments_of_its_neighbours_stay(before: str, after: str) -> None:
    assert document(before).without_entry(PATH).text == after


def test_what_would_be_lost_is_refused() -> None:
    text = '[mcp_servers.t]\nx = """\n[b]\n"""\ny = 1\n[c]\n'

    with pytest.raises(ConfigError, match="without losing something"):
        document(text).without_entry(PATH)
