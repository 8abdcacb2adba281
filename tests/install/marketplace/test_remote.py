"""Registries over HTTP: pages, versions, errors, hostile entries, what is kept, and being offline."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.install.marketplace.registry_server import FakeRegistry, item, serving, with_status
from trunkline.install.marketplace.client import MCPRegistryClient, RegistryUnreached
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.options import RegistryConfig

WEATHER = "io.github.example/weather"


class Scene:
    """A registry, and clients of it that share a home and a clock."""

    def __init__(self, registry: FakeRegistry, url: str, home: Path) -> None:
        self.registry, self.url, self.home = registry, url, home
        self.now = 1_000_000.0

    def client(
        self, *, whole: bool = False, token: str = "", env: dict[str, str] | None = None, **options: Any
    ) -> MCPRegistryClient:
        config = RegistryConfig(url=self.url, auth_token=token, whole=whole, name="shop")
        return MCPRegistryClient(registries=(config,), home=self.home, env=env or {}, clock=lambda: self.now, **options)


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    """A registry with one server."""
    registry = FakeRegistry(item(WEATHER))
    async with serving(registry) as url:
        yield Scene(registry, url, tmp_path)


async def ids(client: MCPRegistryClient, query: str) -> list[str]:
    return [entry.id for entry in (await client.search(query=query)).entries]


async def test_a_search_asks_the_registry_and_merges_what_it_says(scene: Scene) -> None:
    result = await scene.client().search(query="weather")

    found = result.entries[0]
    assert scene.registry.asked == ["/v0.1/servers?search=weather&version=latest&limit=100"]
    assert (found.id, found.author, found.source, found.verified) == (WEATHER, "io.github.example", "shop", False)
    assert (found.command, found.args) == ("npx", ("-y", "@example/weather@1.0.0"))
    assert (found.required_env_vars, found.transports) == (("WEATHER_KEY",), ("stdio",))
    assert (result.unreached, result.dropped) == ((), 0)


async def test_each_word_of_a_query_is_asked_for(scene: Scene) -> None:
    scene.registry.items.append(item("io.github.example/forecast", description="Rain tomorrow", packages=[]))

    found = await ids(scene.client(), "weather forecast")

    assert len(scene.registry.asked) == 2
    assert set(found) == {WEATHER, "io.github.example/forecast"}


async def test_an_answer_is_taken_for_an_hour_then_asked_for_again(scene: Scene) -> None:
    scene.registry.etag = '"one"'
    await scene.client().search(query="weather")
    scene.now += 3599
    await scene.client().search(query="weather")
    assert len(scene.registry.asked) == 1

    scene.now += 2
    found = await ids(scene.client(), "weather")

    assert len(scene.registry.asked) == 2
    assert found == [WEATHER]
    scene.now += 3599
    await scene.client().search(query="weather")
    assert len(scene.registry.asked) == 2, "what has not changed is fresh again"


async def test_without_a_cache_every_search_asks_and_nothing_is_written(scene: Scene) -> None:
    client = scene.client(enable_cache=False)

    await client.search(query="weather")
    await client.search(query="weather")

    assert len(scene.registry.asked) == 2
    assert list(scene.home.iterdir()) == []


async def test_a_registry_that_is_away_costs_a_line_and_what_is_kept_still_answers(scene: Scene) -> None:
    await scene.client().search(query="weather")
    scene.now += 10_000
    scene.registry.status = 503
    heard: list[RegistryUnreached] = []
    client = scene.client()
    client.on(RegistryUnreached, heard.append)

    result = await client.search(query="weather")
    built_in = await client.search(query="postgres")

    assert [entry.id for entry in result.entries] == [WEATHER]
    assert result.unreached == ("shop was not reached: answered 503.",)
    assert built_in.entries[0].id == "postgres"
    assert [event.registry for event in heard] == ["shop", "shop"]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, None, "it wants a token"),
        (302, None, "sends its callers elsewhere"),
        (200, b"<html>", "did not answer with a list of servers"),
        (200, b'{"servers": {}}', "did not answer with a list of servers"),
        (200, b"[" * 100_000, "did not answer with a list of servers"),
        (200, b" " * (9 * 2**20), "more than 8388608 bytes"),
    ],
)
async def test_what_is_no_answer_is_named(scene: Scene, status: int, body: bytes | None, reason: str) -> None:
    scene.registry.status, scene.registry.body = status, body

    result = await scene.client(patience=30).search(query="weather")

    assert result.entries == ()
    assert len(result.unreached) == 1
    assert reason in result.unreached[0]


async def test_a_silent_registry_is_not_waited_for(scene: Scene) -> None:
    scene.registry.silent = True

    async with asyncio.timeout(5):
        result = await scene.client(patience=0.05).search(query="postgres")

    assert result.entries[0].id == "postgres"
    assert result.unreached == ("shop did not answer within 0.05 s.",)


async def test_a_name_server_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()

    def slow(*_: object, **__: object) -> list[Any]:
        answer.wait(30)
        raise OSError("too late")

    monkeypatch.setattr("trunkline.install.marketplace.remote.socket.getaddrinfo", slow)
    config = RegistryConfig(url="https://registry.example", whole=False, name="far")
    client = MCPRegistryClient(registries=(config,), home=tmp_path, env={}, patience=0.05)

    result = await client.search(query="postgres")
    threads = [thread for thread in threading.enumerate() if thread.name == "look up"]
    answer.set()

    assert result.unreached == ("far did not answer within 0.05 s.",)
    assert [thread.daemon for thread in threads] == [True]


async def test_nobody_listens_is_told_as_such(tmp_path: Path) -> None:
    async with serving(FakeRegistry()) as url:
        pass
    client = MCPRegistryClient(registries=(RegistryConfig(url=url, whole=False, name="gone"),), home=tmp_path, env={})

    result = await client.search(query="weather")

    assert result.unreached[0].startswith("gone was not reached: ")


async def test_offline_nobody_is_asked(scene: Scene) -> None:
    await scene.client().search(query="weather")
    scene.now += 10_000

    offline = scene.client(env={"TRUNKLINE_OFFLINE": "1"})
    result = await offline.search(query="weather")

    assert [entry.id for entry in result.entries] == [WEATHER]
    assert result.unreached == ("shop was not asked, as we are offline.",)
    assert await scene.client(offline=True).get_entry("io.github.example/other") is None
    assert len(scene.registry.asked) == 1
    assert not scene.client(env={"TRUNKLINE_OFFLINE": "0"}).offline


async def test_names_are_percent_encoded_and_one_version_is_found(scene: Scene) -> None:
    scene.registry.items.append(item(WEATHER, "0.9.0"))
    client = scene.client()

    latest = await client.get_entry(WEATHER)
    older = await client.get_entry(WEATHER, version="0.9.0")
    versions = await client.get_versions(WEATHER)

    assert scene.registry.asked[0] == "/v0.1/servers/io.github.example%2Fweather/versions/latest"
    assert latest is not None
    assert older is not None
    assert (latest.version, older.version) == ("1.0.0", "0.9.0")
    assert [entry.version for entry in versions] == ["1.0.0", "0.9.0"]
    assert await client.get_entry(WEATHER) == latest
    assert len(scene.registry.asked) == 3, "the latest is kept"
    assert await client.get_entry("io.github.example/other") is None


@pytest.mark.parametrize("name", ["nothing", "../../etc", "a/b/c", "a/b?x=1", "a/b\r\nHost: evil", ""])
async def test_what_is_no_name_of_a_registry_is_not_asked_for(scene: Scene, name: str) -> None:
    client = scene.client()

    assert await client.get_entry(name) is None
    assert await client.get_versions(name) == ()
    assert await client.get_entry(WEATHER, version="..") is None
    assert scene.registry.asked == []


async def test_a_registry_cannot_answer_with_another_server(scene: Scene) -> None:
    scene.registry.body = json.dumps(item("io.github.evil/other")).encode()

    assert await scene.client().get_entry(WEATHER) is None


async def test_a_token_goes_to_its_registry_and_what_it_showed_stays_with_the_token(scene: Scene) -> None:
    await scene.client(token="ours").search(query="weather")

    without = await ids(scene.client(offline=True), "weather")

    assert scene.registry.tokens == ["Bearer ours"]
    assert without == []
    assert "ours" not in "".join(path.read_text() for path in scene.home.rglob("*.json"))


async def test_a_registry_of_ones_own_is_read_whole_page_by_page(scene: Scene) -> None:
    scene.registry.items = [item(f"io.github.example/s{number}") for number in range(7)]
    scene.registry.page = 3
    client = scene.client(whole=True)

    entries = [entry for entry in await client.get_all_entries() if entry.source == "shop"]
    await client.get_categories()

    assert [entry.id for entry in entries] == [f"io.github.example/s{number}" for number in range(7)]
    assert [path.partition("cursor=")[2] for path in scene.registry.asked] == ["", "3", "6"]


async def test_later_only_changes_are_read_and_what_was_deleted_leaves(scene: Scene) -> None:
    one, two = item("io.github.example/one"), item("io.github.example/two", updated="2026-02-01T00:00:00Z")
    scene.registry.items = [one, two]
    await scene.client().refresh()
    scene.now += 4000
    scene.registry.items = [with_status(one, "deleted", updated="2026-03-01T00:00:00Z"), two]

    statistics = await scene.client().refresh()
    entries = await scene.client(offline=True).get_all_entries()

    assert "updated_since=2026-02-01" in scene.registry.asked[-1]
    assert [entry.id for entry in entries if entry.source == "shop"] == ["io.github.example/two"]
    assert statistics.total_entries == len(entries)


async def test_pages_without_end_are_left(scene: Scene) -> None:
    scene.registry.endless = True
    client = scene.client(whole=True)

    async with asyncio.timeout(10):
        result = await client.search(query="weather")

    assert [entry.id for entry in result.entries] == [WEATHER]
    assert result.unreached == ("shop was not read to its end: Its pages do not end.",)
    assert len(scene.registry.asked) == 2


async def test_a_deprecated_server_says_so_and_a_deleted_one_is_not_found(scene: Scene) -> None:
    scene.registry.items = [
        with_status(item(WEATHER), "deprecated", "Use version 2."),
        with_status(item("io.github.example/weather-old"), "deleted"),
    ]

    entries = (await scene.client().search(query="weather")).entries

    assert [(entry.id, entry.status) for entry in entries] == [(WEATHER, "deprecated")]
    assert "Deprecated: Use version 2." in entries[0].notes


NO_TEXT: Any = 12
HOSTILE: list[Any] = [
    "a text",
    {"name": WEATHER},
    {"server": ["a"]},
    item("io.github.example/weather\x1b[2J"),
    item("weather"),
    item("a/b/weather"),
    item("io.github.example/w1", description="\x1b]0;weather\x07"),
    item("io.github.example/w2", description="weather \u202egnp.exe"),
    item("io.github.example/w3", description="weather" * 20_000),
    item("io.github.example/w4", description=["weather"]),
    item("io.github.example/w5", websiteUrl="javascript:alert('weather')"),
    item("io.github.example/w6", repository={"url": "file:///etc/passwd", "source": "x"}),
    item("io.github.example/w7", remotes=[{"type": "streamable-http", "url": "javascript:weather"}]),
    item("io.github.example/w8", icons=[{"src": "javascript:weather"}]),
    item("io.github.example/w9", packages="weather"),
    item("io.github.example/w10", packages=[{"registryType": "npm"}]),
    item("io.github.example/w11", packages=[{"registryType": "npm", "identifier": 7, "transport": {"type": "stdio"}}]),
    item("io.github.example/w12", NO_TEXT),
    item("io.github.example/w13", repository={"url": 7}),
    {
        "server": item(WEATHER)["server"] | {"name": "io.github.example/w14"},
        "_meta": {"trunkline/catalogue": {"tags": "weather"}},
    },
    item(WEATHER, description="A second one of that name"),
]


async def test_hostile_entries_are_left_out_and_counted(scene: Scene) -> None:
    scene.registry.items += HOSTILE
    scene.registry.page = 100

    result = await scene.client().search(query="weather")
    whole = await scene.client(whole=True).search(query="weather")

    assert [entry.id for entry in result.entries] == [WEATHER]
    assert result.dropped == sum("weather" in str(one) for one in HOSTILE)
    assert [entry.id for entry in whole.entries] == [WEATHER]
    assert whole.dropped == len(HOSTILE)


async def test_a_registry_cannot_pass_off_its_entries_as_ours(scene: Scene) -> None:
    said = {"id": "git", "verified": True, "env_args": ["HOME"], "notes": ["Trust me"], "tools": ["t"], "stars": 3}
    scene.registry.items = [item(WEATHER) | {"_meta": {"trunkline/catalogue": said}}]

    found = (await scene.client().search(query="weather")).entries[0]

    assert (found.id, found.verified, found.env_args, found.notes) == (WEATHER, False, (), ())
    assert (found.tools, found.stars) == (("t",), 3)


async def test_an_entry_that_reaches_for_your_variables_cannot_be_run(scene: Scene) -> None:
    package: dict[str, Any] = {
        "registryType": "npm",
        "identifier": "w",
        "version": "1.0.0",
        "transport": {"type": "stdio"},
    }
    package["packageArguments"] = [{"type": "positional", "value": "${env:AWS_SECRET_ACCESS_KEY}"}]
    scene.registry.items = [item(WEATHER, packages=[package])]

    found = (await scene.client().search(query="weather")).entries[0]

    assert found.command == ""
    assert any("variables of yours" in note for note in found.notes)


async def test_what_is_kept_may_be_broken_or_of_somebody_else(scene: Scene) -> None:
    await scene.client().search(query="weather")
    (kept,) = scene.home.rglob("*.json")
    for content in (b"", b"{", b"[]", b'{"format": 1}', kept.read_bytes().replace(b"servers", b"sorcery")):
        kept.write_bytes(content)
        assert await ids(scene.client(), "postgres") == ["postgres"]

    assert kept.stat().st_mode & 0o077 == 0


async def test_clearing_forgets_what_is_kept(scene: Scene) -> None:
    client = scene.client()
    await client.search(query="weather")

    client.clear_cache()

    assert list(scene.home.rglob("*.json")) == []


async def test_so_many_answers_are_kept_and_no_more(scene: Scene) -> None:
    client = scene.client()

    for number in range(70):
        await client.search(query=f"word{number}")

    assert len(list(scene.home.rglob("*.json"))) == 64


async def test_the_first_registry_wins_and_all_are_asked(scene: Scene, tmp_path: Path) -> None:
    other = FakeRegistry(item(WEATHER, "2.0.0"), item("io.github.example/more-weather"))
    async with serving(other) as url:
        client = scene.client()
        client.add_registry(RegistryConfig(url=url, name="second"))
        found = {entry.id: entry for entry in (await client.search(query="weather")).entries}

    assert found[WEATHER].source == "shop"
    assert found["io.github.example/more-weather"].source == "second"


async def test_whoever_is_cancelled_leaves_nothing_running(scene: Scene) -> None:
    scene.registry.silent = True
    before = asyncio.all_tasks()
    search = asyncio.ensure_future(scene.client(patience=60).search(query="weather"))
    await scene.registry.heard.wait()

    search.cancel()

    with pytest.raises(asyncio.CancelledError):
        await search
    left = [task for task in asyncio.all_tasks() - before if "MCPRegistry" in repr(task) or "Source" in repr(task)]
    assert left == []


def test_an_entry_of_a_registry_is_an_entry_like_any_other() -> None:
    from trunkline.install.marketplace.server_json import read_entry

    found = read_entry(item(WEATHER, title="Weather"), source="shop")

    assert isinstance(found, RegistryEntry)
    assert found.name == "Weather"
    assert json.loads(found.definition)["name"] == WEATHER
