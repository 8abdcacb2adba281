"""`trunkline registry`, as a stranger uses it: the catalogue at once, registries when they answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.inside import Inside
from tests.install.marketplace.registry_server import FakeRegistry, item, serving, with_status


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """An empty home."""
    return Inside(tmp_path, monkeypatch)


@pytest.fixture
def offline(cli: Inside) -> Inside:
    """An empty home in which nobody is asked."""
    cli.set(TRUNKLINE_OFFLINE="1")
    return cli


def use_registry(home: Path, url: str, more: str = "") -> None:
    """Ask this registry instead of the official one."""
    text = f'[registries.official]\nenabled = false\n[registries.shop]\nurl = "{url}"\n{more}'
    (home / "trunkline.toml").write_text(text)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("search", "database"), "mongodb"),
        (("search", "brave-search"), "brave-search"),
        (("search", "describe_table"), "sqlite"),
        (("search", "-c", "version-control", "-t", "vcs", "--verified"), "git"),
        (("list",), "filesystem"),
        (("list", "--category", "time", "--limit", "1"), "time"),
        (("popular", "--limit", "1"), "filesystem"),
        (("categories",), "api"),
        (("info", "postgres"), "postgres 0.6.2 npx -y @modelcontextprotocol/server-postgres@0.6.2 <DATABASE_URL>"),
    ],
)
def test_every_command_answers_from_an_empty_home_in_every_format(
    words: tuple[str, ...], first: str, offline: Inside
) -> None:
    compact = offline.run("registry", *words, "--format", "compact")
    table = offline.run("registry", *words)
    told = json.loads(offline.run("registry", *words, "--format", "json").stdout)

    assert (compact.returncode, table.returncode) == (0, 0), compact.stderr + table.stderr
    assert compact.stdout.splitlines()[0] == first
    assert first.split()[0] in table.stdout
    assert first.split()[0] in json.dumps(told)


def test_offline_a_search_says_in_one_line_that_the_registry_was_not_asked(offline: Inside) -> None:
    done = offline.run("registry", "search", "database")
    told = json.loads(offline.run("registry", "search", "database", "--format", "json").stdout)

    assert done.stderr.count("was not asked, as we are offline") == 1
    assert len(told["unreached"]) == 1
    assert offline.run("registry", "list").stderr.count("was not asked") == 0


def test_servers_that_nobody_maintains_are_marked_wherever_they_are_shown(offline: Inside) -> None:
    listed = json.loads(offline.run("registry", "list", "--limit", "100", "--format", "json").stdout)["servers"]
    archived = [entry for entry in listed if "servers-archived" in entry.get("repository", "")]
    table = offline.run("registry", "search", "slack").stdout
    info = offline.run("registry", "info", "slack").stdout

    assert len(archived) == 7
    assert [entry["id"] for entry in listed if entry["status"] == "archived"] == [entry["id"] for entry in archived]
    assert next(line for line in table.splitlines() if "slack" in line).split()[1] == "archived"
    assert "verified: we started this version, and its tools are these, archived" in info


def test_info_shows_what_a_server_wants_and_what_to_know(offline: Inside) -> None:
    told = json.loads(offline.run("registry", "info", "slack", "--format", "json").stdout)
    offline.set(SLACK_TEAM_ID="T1")
    slack = offline.run("registry", "info", "slack").stdout

    assert "✗ SLACK_BOT_TOKEN (required, secret)" in slack
    assert "✓ SLACK_TEAM_ID (required)" in slack
    assert "slack_post_message" in slack
    assert "note:       Archived" in slack
    assert (told["ready"], told["missing"]) == (False, ["SLACK_BOT_TOKEN", "SLACK_TEAM_ID"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("search", "zzz"), 1, "0 of 0 servers"),
        (("info", "postgers"), 1, "Did you mean 'postgres'?"),
        (("info", "io.github.x/y"), 3, "is not known here"),
        (("nonsense",), 2, "invalid choice"),
        ((), 2, "required"),
    ],
)
def test_exit_codes_say_how_it_went(words: tuple[str, ...], code: int, said: str, offline: Inside) -> None:
    done = offline.run("registry", *words)

    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_registry_of_the_configuration_is_asked_and_remembered(cli: Inside) -> None:
    registry = FakeRegistry(item("com.shop/ledger", description="Our ledger"), item("com.shop/evil\x1b[2J"))
    async with serving(registry) as url:
        use_registry(cli.home, url, 'token = "${env:SHOP_TOKEN}"\n')
        cli.set(SHOP_TOKEN="t")
        found = await asyncio.to_thread(cli.run, "registry", "search", "ledger")
        listed = await asyncio.to_thread(cli.run, "registry", "list", "--limit", "100", "--format", "compact")
    later = await asyncio.to_thread(cli.run, "registry", "info", "com.shop/ledger")

    assert found.returncode == 0
    assert "com.shop/ledger" in found.stdout
    assert "\x1b" not in found.stdout
    assert "1 entries of registries were left out" in found.stderr
    assert "com.shop/ledger" in listed.stdout
    assert registry.tokens == ["Bearer t"]
    assert "npx -y @example/weather@1.0.0" in later.stdout
    assert "not verified" in later.stdout


async def test_a_registry_whose_token_is_missing_is_not_asked(cli: Inside) -> None:
    registry = FakeRegistry()
    async with serving(registry) as url:
        use_registry(cli.home, url, 'token = "${env:SHOP_TOKEN}"\n')
        done = await asyncio.to_thread(cli.run, "registry", "search", "git")

    assert done.returncode == 0
    assert "'shop' is not asked: the environment variable SHOP_TOKEN is not set" in done.stderr
    assert registry.asked == []


async def test_a_deprecated_server_is_marked(cli: Inside) -> None:
    async with serving(FakeRegistry(with_status(item("com.shop/ledger"), "deprecated", "Use ours."))) as url:
        use_registry(cli.home, url)
        done = await asyncio.to_thread(cli.run, "registry", "info", "com.shop/ledger")

    assert "deprecated" in done.stdout
    assert "Deprecated: Use ours." in done.stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[registries.a]\n", "Registry 'a' has no address"),
        ('[registries.a]\nurl = "ftp://x"\n', "plain http address"),
        ('[registries.a]\nurl = "https://x"\nkey = 1\n', "no option 'key'"),
    ],
)
def test_a_wrong_registry_is_explained(text: str, complaint: str, offline: Inside) -> None:
    (offline.home / "trunkline.toml").write_text(text)

    done = offline.run("registry", "list")

    assert done.returncode == 2
    assert complaint in done.stderr
