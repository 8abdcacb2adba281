"""How much callers are shown: every tool, or a way to search."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.test_subscriptions import TOOLS, listen
from tests.harness import LegacyCaller, ModernCaller, gateway, make_config, trunkline_up, until
from tests.questions.scene import inside
from tests.search.scene import (
    AUTO,
    ERAS,
    OWN,
    SOME,
    Json,
    listed,
    plenty,
    requester,
    searched,
    servers,
    shelf,
    tool,
    used,
)
from trunkline.config.reading import load, parse
from trunkline.errors import ConfigError

TWO: Json = {"namespace": "always"}
"""One server is shown as if there were two."""


@ERAS
@pytest.mark.parametrize(("count", "searches"), [(1, False), (30, False), (31, True)])
async def test_auto_lists_thirty_tools_and_has_callers_search_beyond(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, count: int, searches: bool
) -> None:
    one = shelf(tmp_path, "one", plenty(count))
    async with gateway(tmp_path, servers(one), expose="auto", **TWO) as opened:
        names = await listed(await requester(opened, http, era))

    assert names == (AUTO if searches else [f"one__tool_{number}" for number in range(count)])


@ERAS
@pytest.mark.parametrize(("expose", "count"), [("all", 40), ("search", 2)])
async def test_the_configuration_decides_whatever_the_number(
    tmp_path: Path, http: aiohttp.ClientSession, era: str, expose: str, count: int
) -> None:
    one = shelf(tmp_path, "one", plenty(count))
    async with gateway(tmp_path, servers(one), expose=expose, **TWO) as opened:
        names = await listed(await requester(opened, http, era))

    assert (names == OWN) == (expose == "search")
    assert len(names) == (2 if expose == "search" else count)


@pytest.mark.parametrize(("words", "names"), [("", OWN), ("of many words " * 60, AUTO)])
async def test_the_limit_of_auto_is_an_option_and_programs_are_listed_where_that_is_less_to_read(
    tmp_path: Path, http: aiohttp.ClientSession, words: str, names: list[str]
) -> None:
    one = shelf(tmp_path, "one", [{**tool, "description": f"{tool['description']} {words}"} for tool in SOME])
    async with gateway(tmp_path, servers(one), expose="auto", expose_limit=2, **TWO) as opened:
        assert await listed(ModernCaller(opened.url, http)) == names


@ERAS
async def test_what_is_pinned_is_listed_by_name_and_by_pattern(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    one, two = shelf(tmp_path, "one", SOME), shelf(tmp_path, "two", SOME)
    pinned = ["one__send_letter", "two__*read", "nobody__*"]
    async with gateway(tmp_path, servers(one, two), expose="search", pinned=pinned) as opened:
        caller = await requester(opened, http, era)
        names = await listed(caller)
        direct = await caller.call("one__send_letter", {"to": "Ann"})

    assert names == [*OWN, "one__send_letter", "two__bake_bread"]
    assert direct.text == "one did send_letter"


async def test_a_profile_is_as_the_gateway_but_for_what_it_says(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    profiles: Json = {
        "same": {},
        "open": {"expose": "all"},
        "other": {"pinned": ["*geese"]},
        "none": {"hidden": ["*"]},
    }
    options: Json = {"expose": "search", "pinned": ["*bread"], **TWO}
    async with gateway(tmp_path, servers(one), sections={"profiles": profiles}, **options) as opened:
        names = {profile: await listed(await requester(opened, http, "modern", profile)) for profile in ("", *profiles)}

    assert names[""] == names["same"] == [*OWN, "one__bake_bread"]
    assert names["open"] == ["one__send_letter", "one__bake_bread", "one__count_geese"]
    assert names["other"] == [*OWN, "one__count_geese"]
    assert names["none"] == OWN


def test_the_environment_says_how_tools_are_shown(tmp_path: Path) -> None:
    env = {"TRUNKLINE_GATEWAY_EXPOSE": "search", "TRUNKLINE_GATEWAY_PINNED": "a__*,b__c", "HOME": str(tmp_path)}

    config = load(None, env=env)

    assert (config.gateway.expose, config.gateway.pinned) == ("search", ("a__*", "b__c"))


async def test_a_gateway_started_with_the_variable_has_callers_search(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", SOME)
    config = {"gateway": {"namespace": "always"}, "servers": servers(one)}
    with trunkline_up(tmp_path / "home", config, TRUNKLINE_GATEWAY_EXPOSE="search") as (url, _):
        names = await listed(ModernCaller(url, http))

    assert names == OWN


WRONG: list[tuple[Json, str]] = [
    ({"gateway": {"expose": "some"}}, "gateway.expose"),
    ({"gateway": {"expose_limit": -1}}, "gateway.expose_limit"),
    ({"gateway": {"pinned": "github__*"}}, "gateway.pinned"),
    ({"gateway": {"pined": []}}, "Did you mean 'pinned'?"),
    ({"profiles": {"a": {"expose": "some"}}}, "profiles.a.expose"),
    ({"profiles": {"a": {"hide": []}}}, "Did you mean 'hidden'?"),
    ({"profiles": {"a": {"servers": ["onne"]}}}, "Did you mean 'one'?"),
    ({"profiles": {"a": {"servers": ["left"]}}}, "Name 'pair'."),
    ({"profiles": {"a/b": {}}}, "use letters, digits and dashes"),
    ({"profiles": {"": {}}}, "use letters, digits and dashes"),
    ({"profiles": {"a": 5}}, "profiles.a must be a table"),
    ({"search": {"budget": 0}}, "search.budget must be more than 0"),
    ({"search": {"limit": 0}}, "search.limit must be more than 0"),
    ({"search": {"min_score": 2}}, "search.min_score must be at most 1"),
    ({"search": {"strategy": "luck"}}, "search.strategy"),
]


@pytest.mark.parametrize(("wrong", "told"), WRONG, ids=lambda value: str(value)[:50])
def test_a_wrong_value_is_named(wrong: Json, told: str) -> None:
    command = {"command": "true"}
    document = {
        "servers": {"one": command, "left": command, "right": command},
        "groups": {"pair": {"servers": ["left", "right"]}},
        **wrong,
    }

    with pytest.raises(ConfigError) as raised:
        parse(document, env={})

    assert told in str(raised.value)


@ERAS
async def test_searching_and_calling_change_no_list(tmp_path: Path, http: aiohttp.ClientSession, era: str) -> None:
    one = shelf(tmp_path, "one", [*SOME, *plenty(40)])
    async with gateway(tmp_path, servers(one), expose="auto", pinned=["*bread"], **TWO) as opened:
        caller = await requester(opened, http, era)
        before = [(await caller.request(method)).result for method in METHODS]
        version = opened.hub.snapshot.version
        await searched(caller, "send a letter")
        await searched(caller, names=["one__send_letter"])
        await used(caller, "one__send_letter", {"to": "Ann"})
        await used(caller, "one__nothing")
        after = [(await caller.request(method)).result for method in METHODS]

        assert opened.hub.snapshot.version == version
    assert after == before


METHODS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


async def test_a_changed_file_changes_what_is_shown_and_is_told(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    config: Json = {"gateway": {"namespace": "always", "expose": "all"}, "servers": servers(one)}
    file = tmp_path / "home" / "config.json"
    with trunkline_up(tmp_path / "home", config) as (url, _):
        legacy = await LegacyCaller(url, http).open()
        caller = ModernCaller(url, http)
        async with asyncio.timeout(20):
            while not (before := await listed(caller)):
                pass  # its server is still starting
        async with listen(url, http, TOOLS) as stream, legacy.listen() as events:
            await stream.next()
            config["gateway"]["expose"] = "search"
            file.write_text(json.dumps(config))
            told = [(await stream.next(15))["method"], (await events.next(15))["method"]]
        after = await listed(caller)

    assert before == ["one__send_letter", "one__bake_bread", "one__count_geese"]
    assert told[0] == "notifications/tools/list_changed"
    assert told[1].endswith("list_changed")
    assert after == OWN


async def changed(opened: Any, tmp_path: Path, given: Any, **options: Any) -> None:
    """Give a gateway another configuration of the same home."""
    await opened.hub.apply(make_config(tmp_path, dict(given), **options))


async def test_a_flip_to_searching_tells_of_the_new_resource_as_well(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", plenty(30))
    wanted = {"resourcesListChanged": True, **TOOLS}
    async with (
        gateway(tmp_path, servers(one), expose="auto", **TWO) as opened,
        listen(opened.url, http, wanted) as stream,
    ):
        await stream.next()
        await one.change(plenty(31))
        told = {(await stream.next())["method"], (await stream.next())["method"]}

    assert told == {"notifications/tools/list_changed", "notifications/resources/list_changed"}


async def test_a_changed_profile_is_told_to_its_callers(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", SOME)
    async with gateway(tmp_path, servers(one), sections={"profiles": {"work": {}}}, **TWO) as opened:
        caller = ModernCaller(f"{opened.url}/work", http)
        async with listen(f"{opened.url}/work", http, TOOLS) as stream:
            await stream.next()
            hidden = {"profiles": {"work": {"hidden": ["*bread"]}}}
            await changed(opened, tmp_path, servers(one), sections=hidden, **TWO)
            told = await stream.next()
        names = await listed(caller)

    assert told["method"] == "notifications/tools/list_changed"
    assert names == ["one__send_letter", "one__count_geese"]


@pytest.mark.parametrize("where", ["hidden", "elsewhere", "searching"])
async def test_a_change_that_a_caller_does_not_see_is_not_told(
    tmp_path: Path, http: aiohttp.ClientSession, where: str
) -> None:
    one, two = shelf(tmp_path, "one", SOME), shelf(tmp_path, "two", SOME)
    profiles: Json = {
        "hidden": {"hidden": ["one__new"]},
        "elsewhere": {"servers": ["two"]},
        "searching": {"expose": "search"},
    }
    async with gateway(tmp_path, servers(one, two), sections={"profiles": profiles}) as opened:
        own, everyone = listen(f"{opened.url}/{where}", http, TOOLS), listen(opened.url, http, TOOLS)
        async with own as stream, everyone as whole:
            await stream.next()
            await whole.next()
            await one.change([*SOME, tool("new")])
            heard = await whole.next()
            opened.app.drain()
            last = await stream.next()

    assert heard["method"] == "notifications/tools/list_changed"
    assert "result" in last


async def test_a_change_is_told_though_the_last_listener_had_left_before_another(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    one = shelf(tmp_path, "one", SOME)
    sections: Json = {"profiles": {"p": {}}}
    async with gateway(tmp_path, servers(one), sections=sections, **TWO) as opened:
        url = f"{opened.url}/p"
        async with listen(url, http, TOOLS) as stream:
            await stream.next()
        await until(lambda: not inside(inside(opened.app, "_subscribers"), "_all"))
        await one.change([*SOME, tool("new")])
        await until(lambda: "one__new" in opened.hub.snapshot.tools)
        async with listen(url, http, TOOLS) as stream:
            await stream.next()
            await one.change(SOME)
            told = await stream.next()

    assert told["method"] == "notifications/tools/list_changed"


async def test_a_view_follows_the_number_of_tools_up_and_down(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    one = shelf(tmp_path, "one", plenty(30))
    async with gateway(tmp_path, servers(one), expose="auto", **TWO) as opened:
        caller = ModernCaller(opened.url, http)
        seen = [len(await listed(caller))]
        for count in (31, 29):
            await one.change(plenty(count))
            await until(lambda count=count: len(opened.hub.snapshot.tools) == count)
            seen.append(len(await listed(caller)))

    assert seen == [30, 3, 29]


async def test_tools_for_apps_alone_are_not_counted(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    app = {"_meta": {"ui": {"visibility": ["app"]}}}
    one = shelf(tmp_path, "one", [*plenty(30), *(dict(one, **app) for one in plenty(20, "app"))])
    async with gateway(tmp_path, servers(one), expose="auto", **TWO) as opened:
        assert len(await listed(ModernCaller(opened.url, http))) == 30
