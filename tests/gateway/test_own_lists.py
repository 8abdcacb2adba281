"""What a caller does on its own connection is what its lists, reads and subscriptions show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fidelity.callers import LegacyPeer, ModernPeer, Peer
from tests.harness import Heard, LegacyCaller, gateway, until
from tests.questions.scene import FORMS, Pair, asking, pairs
from trunkline.model import Kind

TO_LEGACY = pairs(server="legacy")
MERGED = pytest.mark.parametrize("merged", [False, True], ids=["alone", "merged"])


@asynccontextmanager
async def shop(folder: Path, pair: Pair, *flags: str, merged: bool = True) -> AsyncGenerator[str]:
    """The address of a gateway before a server whose sessions have a state, alone or beside another."""
    with (
        asking(pair.server, pair.transport, folder / "log", *flags) as spec,
        asking("legacy", "stdio", folder / "other") as other,
    ):
        async with gateway(folder / "home", {"shop": spec, **({"other": other} if merged else {})}) as opened:
            if flags:  # it looks once with the eyes of callers that can be asked anything
                await until(lambda: opened.hub.relay.snapshot.servers["shop"].lists[Kind.TOOL].varies)
            yield opened.url


async def peer(url: str, http: aiohttp.ClientSession, pair: Pair, capabilities: dict[str, Any] = FORMS) -> Peer:
    if pair.caller == "modern":
        return ModernPeer(url, http, capabilities)
    return LegacyPeer(await LegacyCaller(url, http, capabilities=capabilities).open())


async def call(caller: Peer, tool: str, merged: bool) -> Heard:
    return await caller.request("tools/call", {"name": f"shop__{tool}" if merged else tool, "arguments": {}})


async def names(caller: Peer, kind: str = "tools") -> list[str]:
    return [one["name"].removeprefix("shop__") for one in (await caller.request(f"{kind}/list")).result[kind]]


@TO_LEGACY
@MERGED
async def test_what_appears_after_a_call_is_listed_and_works_for_its_caller_alone(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, merged: bool
) -> None:
    async with shop(tmp_path, pair, merged=merged) as url:
        ann = await peer(url, http, pair)
        bob = await peer(url, http, pair, {"elicitation": {}, "sampling": {}})
        eve = await peer(url, http, pair, {})
        before = await names(ann)
        await call(ann, "unlock", merged)
        seen = [await names(one) for one in (ann, bob, eve)]
        resources = [await names(one, "resources") for one in (ann, bob, eve)]
        used = await call(ann, "vault", merged)
        read = [await one.request("resources/read", {"uri": "shop://mine"}) for one in (ann, bob, eve)]

    assert "vault" not in before
    assert ["vault" in one for one in seen] == [True, False, False]
    assert resources == [["mine"], [], []]
    assert used.text.startswith("vault")
    assert ["result" in one.message for one in read] == [True, False, False]


@TO_LEGACY
async def test_what_appears_after_a_call_can_be_used_though_nobody_listed_it(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    async with shop(tmp_path, pair) as url:
        ann = await peer(url, http, pair)
        await call(ann, "unlock", merged=True)
        read = await ann.request("resources/read", {"uri": "shop://mine"})
        used = await call(ann, "vault", merged=True)

    assert "result" in read.message, read.message
    assert used.text.startswith("vault")


@TO_LEGACY
@MERGED
async def test_changes_on_a_callers_own_connection_are_heard_by_that_caller_alone(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair, merged: bool
) -> None:
    uri = "shop://order/tea"
    async with shop(tmp_path, pair, merged=merged) as url:
        ann = await peer(url, http, pair)
        bob = await peer(url, http, pair, {"elicitation": {}, "sampling": {}})
        async with ann.listening("tools", "resources", uri=uri) as hers, bob.listening("tools", uri=uri) as his:
            await call(ann, "unlock", merged)
            await call(ann, "touch", merged)
            heard = [(await hers.next())["method"] for _ in range(3)]
            await call(bob, "touch", merged)
            other = await his.next()

    assert sorted(heard) == [
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ]
    assert other["method"] == "notifications/resources/updated"
    assert other["params"]["uri"] == uri


@pairs(caller="modern", server="legacy", transport="stdio")
async def test_a_subscription_lives_on_when_a_call_that_was_given_up_ends_the_connection(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    uri = "shop://order/tea"
    async with shop(tmp_path, pair) as url:
        ann = await peer(url, http, pair)
        async with ann.listening(uri=uri) as stream:
            log = tmp_path / "log"
            started = log.read_text().count("start")
            with pytest.raises(TimeoutError):
                await given_up(ann, tmp_path / "never")
            await until(lambda: log.read_text().count("start") > started)
            heard: dict[str, Any] = {}
            while not heard:  # the new process may not have been told yet what is followed
                await call(ann, "touch", merged=True)
                try:
                    heard = await stream.next(0.2)
                except TimeoutError:
                    continue

    assert heard["method"] == "notifications/resources/updated"


async def given_up(caller: Peer, never: Path) -> None:
    async with asyncio.timeout(0.3):
        await caller.request("tools/call", {"name": "shop__later", "arguments": {"after": str(never)}})


@TO_LEGACY
async def test_callers_see_what_a_server_lists_to_those_who_can_be_asked_the_same(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    choices = ("former", "sampler", "mute")
    sets: list[dict[str, Any]] = [{}, {"elicitation": {}}, {"sampling": {}}, {"elicitation": {}, "sampling": {}}]
    async with shop(tmp_path, pair, "--choosy") as url:
        seen: list[list[str]] = []
        for capabilities in sets:
            caller = await peer(url, http, pair, capabilities)
            seen.append([name for name in await names(caller) if name in choices])
        starts = (tmp_path / "log").read_text().count("start")
        again = [await names(await peer(url, http, pair, capabilities)) for capabilities in sets]

    assert seen == [["mute"], ["former"], ["sampler"], ["former", "sampler"]]
    assert [[name for name in one if name in choices] for one in again] == seen
    assert (tmp_path / "log").read_text().count("start") == starts


@TO_LEGACY
async def test_a_link_that_an_answer_had_can_be_read_by_whoever_got_it(
    tmp_path: Path, http: aiohttp.ClientSession, pair: Pair
) -> None:
    link = {"uri": "shop://linked/tea"}
    async with shop(tmp_path, pair) as url:
        ann = await peer(url, http, pair, {})
        before = await ann.request("resources/read", link)
        said = await call(ann, "link", merged=True)
        read = await ann.request("resources/read", link)

    assert "Unknown resource" in before.error["message"]
    assert said.result["content"][0]["uri"] == link["uri"]
    assert read.result["contents"][0]["text"].startswith("tea")
