"""Sources: registered once, agreed to, read again, and judged by how they fare."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import descendants
from tests.harness import faulty_http
from tests.install.manifests.samples import PLUGIN, npm, plugin_folder, remote
from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError, ManifestError, RefusedError, UnknownNameError, UnreachableError
from trunkline.hub import open_hub
from trunkline.install.manifests.inventory import tools_in
from trunkline.install.manifests.sources import Sources
from trunkline.model import Listing


class Shop:
    """Stands for a server whose tools the test chooses."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {"a": "A", "b": "B"}
        self.failure = ""
        self.read: list[ServerSpec] = []
        self.time = 0.0

    async def __call__(self, spec: ServerSpec) -> Listing:
        self.read.append(spec)
        if self.failure:
            raise UnreachableError(self.failure)
        return Listing(tuple(json.dumps({"name": n, "description": d}).encode() for n, d in self.tools.items()))

    def sources(self, **options: Any) -> Sources:
        return Sources(read=self, clock=lambda: self.time, **options)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "github"
    made.mkdir()
    (made / "plugin.json").write_text(json.dumps(PLUGIN))
    return made


def agree(sources: Sources, id: str) -> None:
    sources.agree(id, sources.show(id).fingerprint)


# Registering.


def test_a_source_is_a_folder_with_a_manifest_or_a_remote_address(folder: Path, shop: Shop) -> None:
    sources = shop.sources()

    plugin = sources.register("github", folder=folder, environment={"GITHUB_TOKEN": "s3cret"})
    far = sources.register("far", url="http://cml.example:9000/mcp", environment={"X-Key": "s3cret"})

    assert sources.list() == [plugin, far]
    assert (plugin.version, plugin.variables, plugin.lifecycle) == (1, ("GITHUB_TOKEN",), "transient")
    assert sources.spec("far").headers == {"X-Key": "s3cret"}
    assert "s3cret" not in f"{sources.list()!r} {sources.show('github')!r}"


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({}, ConfigError, "a folder or a URL"),
        ({"folder": ".", "url": "http://h"}, ConfigError, "and not both"),
        ({"url": "mcp://x"}, ConfigError, "not an http address"),
        ({"url": "http://h", "lifecycle": "eternal"}, ConfigError, "transient or singleton"),
        ({"folder": "/nowhere"}, ManifestError, "There is no"),
    ],
)
def test_a_wrong_source_is_refused_and_nothing_is_kept(
    options: Any, error: type[Exception], reason: str, shop: Shop
) -> None:
    sources = shop.sources()

    with pytest.raises(error, match=reason):
        sources.register("x", **options)
    with pytest.raises(ConfigError, match="cannot be a source's id"):
        sources.register("../x", url="http://h")

    assert sources.list() == []


def test_the_same_place_is_registered_once_and_the_same_id_is_changed(folder: Path, shop: Shop) -> None:
    sources = shop.sources()
    sources.register("a", folder=folder)

    with pytest.raises(RefusedError, match="Source 'a' is the same"):
        sources.register("b", folder=folder / ".." / "github")
    changed = sources.register("a", folder=folder, lifecycle="singleton", environment={"GITHUB_TOKEN": "x"})

    assert (changed.version, changed.lifecycle, changed.variables) == (2, "singleton", ("GITHUB_TOKEN",))
    assert len(sources.list()) == 1


def test_a_change_of_another_version_is_refused(shop: Shop) -> None:
    sources = shop.sources()
    sources.register("a", url="http://h", version=0)
    sources.disable("a", version=1)

    for change in (
        lambda: sources.register("a", url="http://h", version=1),
        lambda: sources.enable("a", version=1),
        lambda: sources.remove("a", version=1),
    ):
        with pytest.raises(RefusedError) as caught:
            change()
        assert caught.value.status == 409
    sources.remove("a", version=2)
    with pytest.raises(UnknownNameError):
        sources.get("a")


# Agreeing.


async def test_nothing_runs_before_somebody_agreed_to_exactly_that_command(folder: Path, shop: Shop) -> None:
    sources = shop.sources()
    sources.register("github", folder=folder, environment={"GITHUB_TOKEN": "x"})

    shown = sources.show("github")
    with pytest.raises(RefusedError, match="Nobody agreed"):
        await sources.refresh("github")
    assert (list(sources.specs()), shop.read) == ([], [])

    sources.agree("github", shown.fingerprint)
    await sources.refresh("github")
    assert shown.argv == ("uvx", "mcp-server-github@1.0.0")
    assert (shown.variables, len(shop.read)) == (("GITHUB_TOKEN",), 1)


@pytest.mark.parametrize(
    "change",
    [
        {"command": ["mcp-server-evil"]},
        {"environment_variables": [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]},
        {"environment_variables": [{"name": "GITHUB_TOKEN", "value": "one of theirs"}]},
        {"args": ["--upload"]},
    ],
)
async def test_a_manifest_that_changed_must_be_agreed_to_again(change: Any, folder: Path, shop: Shop) -> None:
    sources = shop.sources()
    sources.register("github", folder=folder, environment={"GITHUB_TOKEN": "x"})
    seen = sources.show("github").fingerprint
    sources.agree("github", seen)

    changed = {**PLUGIN, "packages": [{**PLUGIN["packages"][0], **change}]}
    (folder / "plugin.json").write_text(json.dumps(changed))

    with pytest.raises(RefusedError, match="Nobody agreed"):
        await sources.refresh("github")
    with pytest.raises(RefusedError, match="not the one that was shown"):
        sources.agree("github", seen)


async def test_an_override_that_changes_the_command_wants_another_agreement(tmp_path: Path, shop: Shop) -> None:
    arguments = [{"type": "positional", "valueHint": "path", "default": "/data"}]
    (tmp_path / "server.json").write_text(json.dumps(npm(packageArguments=arguments)))
    sources = shop.sources()
    sources.register("a", folder=tmp_path)
    agree(sources, "a")

    with pytest.raises(RefusedError, match="Nobody agreed"):
        await sources.refresh("a", overrides={"path": "/"})


# Variables.


def test_variables_come_from_overrides_secrets_configuration_and_the_system(folder: Path, shop: Shop) -> None:
    secrets: dict[str, str] = {}
    sources = shop.sources(secrets=secrets.get, system={"GITHUB_TOKEN": "system"})
    sources.register("github", folder=folder)
    agree(sources, "github")

    def token(**overrides: str) -> str:
        return sources.spec("github", overrides=overrides).env.get("GITHUB_TOKEN", "")

    refused = sources.spec("github").problem
    sources.register("github", folder=folder, allow_system=True)
    system = token()
    sources.register("github", folder=folder, environment={"GITHUB_TOKEN": "configuration"}, allow_system=True)
    configuration = token()
    secrets["github.GITHUB_TOKEN"] = "secret"

    assert refused == "It needs GITHUB_TOKEN."
    assert (system, configuration, token()) == ("system", "configuration", "secret")
    assert token(GITHUB_TOKEN="override") == "override"


def test_a_kept_secret_never_becomes_an_argument(tmp_path: Path, shop: Shop) -> None:
    arguments = [{"type": "named", "name": "--key", "valueHint": "key"}]
    (tmp_path / "server.json").write_text(json.dumps(npm(packageArguments=arguments)))
    sources = shop.sources(secrets={"a.--key": "s3cret"}.get)
    sources.register("a", folder=tmp_path)

    assert sources.show("a").argv == ("npx", "-y", "@acme/weather@1.2.3")


async def test_a_missing_variable_makes_a_server_that_cannot_be_reached_with_that_reason(folder: Path) -> None:
    sources = Sources()
    sources.register("github", folder=folder)
    shown = sources.show("github")
    sources.agree("github", shown.fingerprint)

    with pytest.raises(UnreachableError, match="It needs GITHUB_TOKEN"):
        await sources.refresh("github")

    assert shown.missing == ("GITHUB_TOKEN",)
    assert sources.health("github") == "degraded"


def test_a_manifest_with_a_remote_is_reached_there(tmp_path: Path, shop: Shop) -> None:
    header = {"name": "X-Key", "isSecret": True, "isRequired": True}
    manifest = remote("https://{t}.h.example/mcp", variables={"t": {}}, headers=[header])
    (tmp_path / "server.json").write_text(json.dumps(manifest))
    sources = shop.sources()
    sources.register("a", folder=tmp_path)
    open_spec = sources.spec("a")
    sources.register("a", folder=tmp_path, environment={"t": "acme", "X-Key": "k"})

    spec = sources.spec("a")

    assert open_spec.problem == "It needs t, X-Key."
    assert (spec.url, spec.headers, spec.problem) == ("https://acme.h.example/mcp", {"X-Key": "k"}, "")


def test_one_broken_manifest_hides_no_other_source(folder: Path, shop: Shop) -> None:
    sources = shop.sources()
    sources.register("github", folder=folder)
    sources.register("far", url="http://h")
    sources.register("off", url="http://off")
    sources.disable("off")
    (folder / "plugin.json").write_text("{")

    broken, far = sources.specs()

    assert "is not JSON" in broken.problem
    assert (far.name, far.problem) == ("far", "")


# Refreshing.


async def test_a_refresh_counts_what_is_new_changed_gone_and_back(shop: Shop) -> None:
    sources = shop.sources()
    sources.register("a", url="http://h")

    def counts(found: Any) -> tuple[int, ...]:
        return found.discovered, found.created, found.updated, found.deprecated, found.restored

    first = await sources.refresh("a")
    same = await sources.refresh("a")
    shop.tools = {"b": "B changed", "c": "C"}
    second = await sources.refresh("a")
    shop.tools = {"c": "C", "b": "B changed", "a": "A"}
    third = await sources.refresh("a", force=True)

    assert counts(first) == (2, 2, 0, 0, 0)
    assert (counts(same), same.unchanged, same.hash == first.hash) == ((2, 0, 0, 0, 0), True, True)
    assert counts(second) == (2, 1, 1, 1, 0)
    assert counts(third) == (3, 0, 0, 0, 1)
    assert len({first.hash, second.hash, third.hash}) == 3
    assert [(change.tool, change.what[0]) for change in third.changes] == [("a", "restored")]


async def test_health_follows_failures_and_one_success_heals_even_if_nothing_changed(shop: Shop) -> None:
    sources = shop.sources()
    sources.register("a", url="http://h")
    words = [sources.health("a")]
    await sources.refresh("a")
    words.append(sources.health("a"))
    shop.failure = "It is down."
    for _ in range(3):
        with pytest.raises(UnreachableError, match="It is down"):
            await sources.refresh("a", force=True)
        words.append(sources.health("a"))
    shop.failure = ""

    healed = await sources.refresh("a", force=True)

    assert words == ["unknown", "healthy", "degraded", "degraded", "unhealthy"]
    assert (sources.health("a"), sources.reason("a"), healed.unchanged) == ("healthy", "", True)


async def test_a_source_that_failed_is_left_alone_for_a_growing_while_unless_forced(shop: Shop) -> None:
    sources = shop.sources()
    sources.register("a", url="http://h")
    shop.failure = "It is down."
    pauses: list[float] = []
    for _ in range(8):
        with pytest.raises(UnreachableError):
            await sources.refresh("a", force=True)
        start = shop.time
        while True:
            shop.time += 0.5
            tried = len(shop.read)
            with pytest.raises(UnreachableError):
                await sources.refresh("a")
            if len(shop.read) > tried:
                break
        pauses.append(shop.time - start)
        sources.report("a")
        for _ in range(len(pauses)):
            sources.report("a", "It is down.")

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, 60.0)


def test_calls_that_fail_count_against_a_source_too(shop: Shop) -> None:
    sources = shop.sources()
    sources.register("a", url="http://h")

    for _ in range(3):
        sources.report("a", "The call timed out.")
    failed = sources.health("a"), sources.reason("a")
    sources.report("a")

    assert failed == ("unhealthy", "The call timed out.")
    assert sources.health("a") == "healthy"


async def test_a_disabled_or_unknown_source_is_not_read(shop: Shop) -> None:
    sources = shop.sources()
    sources.register("a", url="http://h")
    sources.disable("a")

    with pytest.raises(RefusedError, match="is disabled"):
        await sources.refresh("a")
    with pytest.raises(UnknownNameError, match="There are: a"):
        await sources.refresh("b")
    sources.enable("a")
    await sources.refresh("a")

    assert len(shop.read) == 1


async def test_a_source_is_read_once_at_a_time(shop: Shop) -> None:
    running: list[int] = [0, 0]

    async def slow(spec: ServerSpec) -> Listing:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0)
        running[0] -= 1
        return Listing()

    sources = Sources(read=slow)
    sources.register("a", url="http://h")

    await asyncio.gather(*(sources.refresh("a") for _ in range(5)))

    assert running == [0, 1]


# With real servers.


async def test_a_plugin_is_really_read_to_the_last_page_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    variable = {"name": "KEY", "required": True}
    folder = plugin_folder(tmp_path / "p", environment_variables=[variable])
    sources = Sources()
    sources.register("echo", folder=folder, environment={"KEY": "v"})
    agree(sources, "echo")
    before = {child.pid for child in descendants(os.getpid())}

    found = [await sources.refresh("echo") for _ in range(3)]

    assert found[0].discovered == found[0].created > 1
    assert [one.unchanged for one in found[1:]] == [True, True]
    assert {child.pid for child in descendants(os.getpid())} <= before


async def test_two_remotes_are_told_apart(tmp_path: Path) -> None:
    with faulty_http() as one, faulty_http() as two:
        sources = Sources()
        sources.register("one", url=one)
        sources.register("two", url=two)

        found = [await sources.refresh(id) for id in ("one", "two")]

    assert [refresh.source for refresh in found] == ["one", "two"]
    assert all(refresh.discovered for refresh in found)


async def test_a_hub_runs_the_sources_and_what_it_knows_is_not_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    sources = Sources()
    sources.register("echo", folder=plugin_folder(tmp_path / "p"), lifecycle="singleton")
    agree(sources, "echo")
    config = Config(servers={spec.name: spec for spec in sources.specs()}, home=tmp_path / "home")
    async with open_hub(config) as hub:
        await hub.ready(10)
        known = Sources(read=tools_in(lambda: hub.snapshot))
        known.register("echo", folder=tmp_path / "p", lifecycle="singleton")
        agree(known, "echo")

        found = await known.refresh("echo")
        said = await hub.call("echo", {"text": "hello"})
        await hub.apply(dataclasses.replace(config, servers={}))
        with pytest.raises(UnreachableError, match="cannot be read now"):
            await known.refresh("echo")

    assert found.discovered > 1
    assert said.text == "hello"


BOTH: dict[str, Any] = npm(packageArguments=[{"type": "positional", "value": "old"}]) | {
    "remotes": [{"type": "streamable-http", "url": "https://h/mcp"}, {"type": "sse", "url": "https://h/sse"}]
}
USUAL = ("npx", "-y", "@acme/weather@1.2.3", "old")
OVERRIDES: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "nothing": ({}, USUAL, ""),
    "a program": ({"command": ["greet", "--fast"]}, ("greet", "--fast"), ""),
    "one text": ({"command": "greet 'me too'"}, ("greet", "me too"), ""),
    "a program and its arguments": ({"command": "greet", "args": ["a b"]}, ("greet", "a b"), ""),
    "arguments": ({"args": ["--all", "{x}"]}, (*USUAL[:3], "--all", "{x}"), ""),
    "no arguments": ({"args": []}, USUAL[:3], ""),
    "a runtime": ({"runtime": "docker"}, ("docker", "run", "-i", "--rm", "acme/weather:1.2.3", "old"), ""),
    "a transport": ({"transport": "stdio"}, USUAL, ""),
    "another transport": ({"transport": "streamable_http"}, (), "https://h/mcp"),
    "the older transport": ({"transport": "sse"}, (), "https://h/sse"),
}


@pytest.mark.parametrize("what", OVERRIDES)
def test_what_is_said_at_a_source_counts_before_its_manifest_and_wants_a_new_agreement(
    shop: Shop, tmp_path: Path, what: str
) -> None:
    given, argv, url = OVERRIDES[what]
    package = {"identifier": "acme/weather"} if "runtime" in given else {}
    manifest = {**BOTH, "packages": [{**BOTH["packages"][0], **package}]}
    (tmp_path / "server.json").write_text(json.dumps(manifest))
    sources = shop.sources()
    sources.register("one", folder=tmp_path)
    agree(sources, "one")

    sources.register("one", folder=tmp_path, **given)

    shown = sources.show("one")
    assert (shown.argv, shown.url) == (argv, url)
    assert shown.agreed == (argv in (USUAL, ()))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"url": "https://h/", "command": "x"}, "nothing is started"),
        ({"url": "https://h/", "args": []}, "nothing is started"),
        ({"url": "https://h/", "runtime": "npx"}, "nothing is started"),
        ({"url": "https://h/", "transport": "stdio"}, "nothing is started"),
        ({"url": "https://h/", "transport": "pigeon"}, "stdio, http or sse"),
        ({"runtime": "perl"}, "'perl'"),
        ({"transport": "sse"}, "neither packages nor remotes"),
    ],
)
def test_an_override_that_cannot_be_is_refused_and_nothing_is_registered(
    shop: Shop, folder: Path, given: dict[str, Any], complaint: str
) -> None:
    sources = shop.sources()
    place: dict[str, Any] = {} if "url" in given else {"folder": folder}

    with pytest.raises((ConfigError, ManifestError), match=complaint):
        sources.register("one", **place, **given)

    assert sources.list() == []


def test_a_remote_source_is_reached_by_the_transport_that_was_said(shop: Shop) -> None:
    sources = shop.sources()
    sources.register("one", url="https://h/mcp", transport="sse")

    assert sources.spec("one").transport == "sse"
