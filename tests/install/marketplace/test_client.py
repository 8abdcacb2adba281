"""The registry client over what it knows itself: searching, browsing, entries of one's own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from trunkline.errors import ConfigError, ManifestError
from trunkline.install.marketplace.client import (
    CacheCleared,
    EntryAdded,
    MCPRegistryClient,
    RegistryAdded,
    global_mcp_registry_client,
)
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.options import MCPRegistryClientConfig, RegistryConfig, RegistrySearchOptions
from trunkline.install.marketplace.server_json import get_all_well_known_servers, get_well_known_server


@pytest.fixture
def client(tmp_path: Path) -> MCPRegistryClient:
    """One that asks nobody."""
    return MCPRegistryClient(registries=(), home=tmp_path, env={"BRAVE_API_KEY": "k", "SLACK_BOT_TOKEN": ""})


async def found(client: MCPRegistryClient, query: str = "", **options: Any) -> list[str]:
    result = await client.search(RegistrySearchOptions(query, **options))
    return [entry.id for entry in result.entries]


def entry(id: str) -> RegistryEntry:
    known = get_well_known_server(id)
    assert known is not None
    return known


async def test_words_of_ids_tools_tags_and_descriptions_find_servers(client: MCPRegistryClient) -> None:
    assert (await found(client, "brave-search"))[0] == "brave-search"
    assert "sqlite" in await found(client, "list_tables")
    assert {"postgres", "sqlite", "mongodb"} <= set(await found(client, "database"))
    assert (await found(client, "knowledge"))[0] == "memory"
    assert await found(client, "postg") == ["postgres"]
    assert await found(client, "zzz") == []


async def test_words_that_every_server_has_do_not_count(client: MCPRegistryClient) -> None:
    assert (await found(client, "the MCP server for GitHub"))[0] == "github"


async def test_what_has_most_of_the_words_is_found_when_nothing_has_all(client: MCPRegistryClient) -> None:
    assert (await found(client, "postgres zzz"))[0] == "postgres"


async def test_filters_narrow_a_search(client: MCPRegistryClient) -> None:
    assert set(await found(client, categories=("time", "location"))) == {"time", "google-maps"}
    assert await found(client, "git", tags=("vcs",)) == ["git"]
    assert await found(client, transport="http") == ["github"]
    assert "github" not in await found(client, verified_only=True, limit=100)


async def test_pages_follow_each_other_without_gaps(client: MCPRegistryClient) -> None:
    total = len(get_all_well_known_servers())
    pages = [await client.search(limit=10, offset=offset) for offset in range(0, total, 10)]

    assert [one.id for page in pages for one in page.entries] == [one.id for one in get_all_well_known_servers()]
    assert [page.page for page in pages] == list(range(1, len(pages) + 1))
    assert [page.has_more for page in pages] == [True] * (len(pages) - 1) + [False]
    assert {page.total_count for page in pages} == {total}
    assert len((await client.search(limit=0, offset=-3)).entries) == 1


async def test_sorting_changes_no_later_order(client: MCPRegistryClient) -> None:
    before = await found(client)

    by_name = await found(client, sort_by="name", sort_direction="asc", limit=100)
    client.add_custom_entry(RegistryEntry("loved", downloads=10, stars=1, last_updated="2026-01-01T00:00:00Z"))

    assert by_name == [one.id for one in sorted(get_all_well_known_servers(), key=lambda one: one.name.casefold())]
    assert (await found(client, sort_by="downloads"))[0] == "loved"
    assert (await found(client, sort_by="last_updated"))[0] == "loved"
    client.remove_custom_entry("loved")
    assert await found(client) == before


async def test_an_entry_without_a_description_breaks_no_search(client: MCPRegistryClient) -> None:
    client.add_custom_entry(RegistryEntry("plain"))

    assert await found(client, "plain") == ["plain"]
    assert "postgres" in await found(client, "database")


async def test_entries_of_ones_own_go_before_built_in_ones(client: MCPRegistryClient) -> None:
    client.add_custom_entry(RegistryEntry("git", "Our Git", command="our-git"))

    own = await client.get_entry("git")
    total = len(await client.get_all_entries())

    assert own is not None
    assert own.name == "Our Git"
    assert total == len(get_all_well_known_servers())
    assert client.remove_custom_entry("git")
    assert not client.remove_custom_entry("git")
    assert await client.get_entry("git") == get_well_known_server("git")


async def test_browsing_is_not_cut_at_a_page(client: MCPRegistryClient) -> None:
    verified = await client.get_verified_servers()
    popular = await client.get_popular_servers(3)
    statistics = await client.get_statistics()

    assert len(verified) == sum(one.verified for one in get_all_well_known_servers()) > 25
    assert [one.id for one in popular] == ["filesystem", "github", "fetch"]
    assert {one.id for one in await client.get_by_category("version-control")} == {
        "github",
        "git",
        "gitlab",
        "bitbucket",
    }
    assert [one.id for one in await client.get_by_tag("vcs")] == ["git"]
    assert "database" in await client.get_categories()
    assert list(await client.get_tags()) == sorted(await client.get_tags())
    assert statistics.total_entries == len(get_all_well_known_servers())
    assert (statistics.verified_entries, statistics.custom_entries) == (len(verified), 0)
    assert statistics.categories == len(await client.get_categories())


def test_required_variables_are_checked_and_an_empty_one_is_not_set(client: MCPRegistryClient) -> None:
    ready, missing = client.check_required_env_vars(entry("slack"))

    assert client.check_required_env_vars(entry("brave-search")).ready
    assert (ready, missing) == (False, ("SLACK_BOT_TOKEN", "SLACK_TEAM_ID"))
    assert client.check_required_env_vars(entry("postgres")).missing == ("DATABASE_URL",)


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (entry("filesystem"), "npx -y @modelcontextprotocol/server-filesystem@2026.8.31 ."),
        (entry("git"), "uvx mcp-server-git@2026.10.19"),
        (entry("postgres"), "npx -y @modelcontextprotocol/server-postgres@0.6.2 <DATABASE_URL>"),
        (entry("github"), ""),
        (RegistryEntry("a", install_command="brew install a"), "brew install a"),
        (RegistryEntry("a", npm_package="a-mcp"), "npx -y a-mcp"),
        (RegistryEntry("a", pypi_package="a-mcp", version="1.2"), "uvx a-mcp@1.2"),
        (RegistryEntry("a", command="node", args=["my server.js"]), "node 'my server.js'"),
    ],
)
def test_the_install_command_is_exact(client: MCPRegistryClient, made: RegistryEntry, line: str) -> None:
    assert client.get_install_command(made) == line


def test_an_entry_becomes_a_server_with_answers(client: MCPRegistryClient) -> None:
    files = client.to_server_spec(entry("filesystem"), {"directory": ["/a", "/b"]}, name="docs")
    github = client.to_server_spec(entry("github"), {"GITHUB_PERSONAL_ACCESS_TOKEN": "${env:GH}"})
    own = client.to_server_spec(RegistryEntry("a", command="node x.js", required_env_vars=("KEY",)), {"KEY": "k"})

    assert (files.name, files.command, files.args[-2:]) == ("docs", "npx", ("/a", "/b"))
    assert github.headers == {"Authorization": "Bearer ${env:GH}"}
    assert (own.command, own.args, own.env) == ("node", ("x.js",), {"KEY": "k"})
    for missing in (entry("slack"), RegistryEntry("a", command="x", required_env_vars=("SLACK_BOT_TOKEN",))):
        with pytest.raises(ManifestError, match="SLACK_BOT_TOKEN"):
            client.to_server_spec(missing)
    with pytest.raises(ConfigError, match="neither"):
        client.to_server_spec(RegistryEntry("nothing"))


def test_an_entry_becomes_a_server_for_groups(client: MCPRegistryClient) -> None:
    info = client.to_server_info(entry("time"))

    assert (info.id, info.transport, info.status) == ("time", "stdio", "stopped")
    assert [tool.name for tool in info.tools] == ["get_current_time", "convert_time"]


def test_listeners_hear_what_changes_and_never_a_token(client: MCPRegistryClient) -> None:
    heard: list[Any] = []
    client.on(EntryAdded, heard.append)
    client.on("entry_removed", heard.append)
    client.on(RegistryAdded, heard.append)
    client.on(CacheCleared, heard.append)

    client.add_custom_entry(RegistryEntry("a"))
    client.remove_custom_entry("a")
    client.add_registry(RegistryConfig(url="https://r.example", auth_token="hidden"))
    client.clear_cache()

    assert [event.event for event in heard] == ["entry_added", "entry_removed", "registry_added", "cache_cleared"]
    assert heard[2].config.auth_token == ""
    assert "hidden" not in repr(client.config)
    with pytest.raises(ConfigError, match=r"There is a registry 'r\.example' already"):
        client.add_registry(RegistryConfig(url="https://r.example/other"))


def test_the_original_defaults() -> None:
    config = MCPRegistryClientConfig()

    assert [one.type for one in config.registries] == ["official"]
    assert (config.enable_cache, config.default_cache_ttl, config.timeout) == (True, 3600, 10)
    assert global_mcp_registry_client.config.user_agent.startswith("trunkline/")
    assert dataclasses.replace(RegistrySearchOptions()) == RegistrySearchOptions(
        "", (), (), "", False, "", "desc", 25, 0
    )


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: RegistryConfig("npm"), "no type of registry 'npm'"),  # type: ignore[arg-type]
        (lambda: RegistryConfig(url="ftp://r.example"), "plain http address"),
        (lambda: RegistryConfig(), "plain http address"),
        (lambda: RegistryConfig(url="https://user:secret@r.example"), "plain http address"),
        (lambda: RegistryConfig(url="http://r.example", auth_token="t"), "for all to read"),
        (lambda: RegistryConfig(url="https://r.example", auth_token="a\r\nb"), "no token has"),
        (lambda: RegistryConfig(url="https://r.example", timeout=0), "more than 0"),
        (lambda: MCPRegistryClientConfig(default_cache_ttl=float("nan")), "number of seconds"),
        (lambda: MCPRegistryClientConfig(user_agent="a\nb"), "plain text"),
        (lambda: RegistrySearchOptions(sort_by="size"), "sorted by 'size'"),  # type: ignore[arg-type]
        (lambda: RegistrySearchOptions(tags="git"), "list of texts"),
        (lambda: RegistrySearchOptions(transport="pigeon"), "no transport 'pigeon'"),  # type: ignore[arg-type]
    ],
)
def test_options_that_make_no_sense_are_refused(make: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make()


def test_the_address_of_a_registry_may_carry_its_version() -> None:
    urls = ("https://r.example/", "https://r.example/v0.1", "https://r.example/v0.1/servers", "https://r.example/v0")

    assert {RegistryConfig(url=url).url for url in urls} == {"https://r.example"}
