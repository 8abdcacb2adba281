"""Which servers are the same, what they are called, and which are Trunkline itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trunkline.clients.server import Server, candidates, is_trunkline, same, same_address


def server(client: str, name: str, **spec: Any) -> Server:
    return Server(client, Path(f"/{client}.json"), ("mcpServers", name), spec)


def test_a_server_that_several_clients_have_is_one() -> None:
    found = candidates(
        [
            server("cursor", "github", command="npx", args=["gh"]),
            server("zed", "gh", command="npx", args=["gh"]),
            server("goose", "docs", url="https://docs.example/mcp"),
        ],
        {},
    )

    assert [(one.name, one.clients) for one in found] == [("github", ("cursor", "zed")), ("docs", ("goose",))]


def test_different_servers_of_one_name_get_names_of_their_own() -> None:
    found = candidates(
        [
            server("cursor", "github", command="a"),
            server("zed", "github", command="b"),
            server("zed", "github", command="c"),
            server("zed", "@my server/${x}", command="d"),
            server("zed", "taken", command="e"),
        ],
        {},
        taken=("taken",),
    )

    assert [one.name for one in found] == ["github", "github-zed", "github-zed-2", "my-server-x", "taken-zed"]


def test_what_trunkline_has_already_is_known_by_its_name_there() -> None:
    known = {"gh": {"command": "npx", "args": ["gh"], "env": {"TOKEN": "${env:TOKEN}"}}, "docs": {"command": "other"}}

    found = candidates(
        [
            server("cursor", "github", command="npx", args=["gh"], env={"TOKEN": "secret"}),
            server("cursor", "docs", url="https://docs.example/mcp"),
        ],
        known,
    )

    assert [(one.name, one.known) for one in found] == [("gh", "gh"), ("docs-cursor", "")]


@pytest.mark.parametrize(
    "other",
    [
        {"command": "y"},
        {"command": "x", "args": ["-v"]},
        {"command": "x", "env": {"ACCOUNT": "two"}},
        {"command": "x", "env": {"OTHER": "one"}},
        {"command": "x", "cwd": "/elsewhere"},
        {"url": "https://x"},
    ],
)
def test_servers_that_differ_in_what_they_do_are_not_the_same(other: dict[str, Any]) -> None:
    assert not same({"command": "x", "env": {"ACCOUNT": "one"}}, other)


@pytest.mark.parametrize(
    ("spec", "ours"),
    [
        ({"url": "http://127.0.0.1:7420/mcp"}, True),
        ({"url": "http://localhost:7420/mcp/careful"}, True),
        ({"url": "http://[::1]:7420/mcp"}, True),
        ({"command": "npx", "args": ["-y", "mcp-remote", "http://localhost:7420/mcp"]}, True),
        ({"command": "/opt/bin/trunkline", "args": ["up"]}, True),
        ({"url": "http://127.0.0.1:7421/mcp"}, False),
        ({"url": "https://127.0.0.1:7420/mcp"}, False),
        ({"url": "http://[broken"}, False),
        ({"command": "uvx", "args": ["trunkline-notes"]}, False),
    ],
)
def test_an_entry_that_leads_here_is_trunkline(spec: dict[str, Any], ours: bool) -> None:
    assert is_trunkline(spec, ["http://127.0.0.1:7420/mcp"]) is ours


def test_addresses_are_the_same_by_any_name_of_this_machine() -> None:
    assert same_address("http://localhost:1/mcp", "http://127.0.0.1:1/mcp")
    assert not same_address("http://localhost:1/mcp", "http://127.0.0.1:1/mcp/other")
    assert not same_address("", "")
