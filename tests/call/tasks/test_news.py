"""Modern callers that want to hear of their tasks, from servers of either era."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.tasks.scene import USERS, Legacy, Modern, over_http, stdio
from tests.harness import ModernCaller, gateway

TAG = "io.modelcontextprotocol/subscriptionId"

places = pytest.mark.parametrize(("server", "over"), [(e, o) for e in ("modern", "legacy") for o in ("stdio", "http")])


@places
async def test_two_who_listen_to_one_task_hear_its_end_once_each(
    tmp_path: Path, http: aiohttp.ClientSession, server: str, over: str
) -> None:
    with over_http(server) as remote:
        async with (
            gateway(tmp_path, {"one": stdio(server) if over == "stdio" else remote}) as opened,
            AsyncExitStack() as stack,
        ):
            caller = Modern(opened.url, http)
            id, last = await caller.begin(key="first"), await caller.begin(key="last")
            streams = [await stack.enter_async_context(caller.listen([id, last])) for _ in range(2)]
            granted = [(await stream.next())["params"]["notifications"] for stream in streams]
            for key in ("first", "last"):
                await caller.call("finish", key=key)
            news = [[await stream.next(), await stream.next()] for stream in streams]
            state = (await caller.about("get", id)).result

    assert granted == [{"taskIds": sorted([id, last])}] * 2
    for heard in news:
        assert [one["method"] for one in heard] == ["notifications/tasks"] * 2
        assert {one["params"]["taskId"] for one in heard} == {id, last}
        assert [one["params"].pop("_meta") for one in heard] == [{TAG: "mine"}] * 2
        state = {name: value for name, value in state.items() if name not in ("resultType", "_meta")}
        assert next(one["params"] for one in heard if one["params"]["taskId"] == id) == state


@pytest.mark.parametrize("server", ["modern", "legacy"])
async def test_tasks_of_others_and_tasks_that_never_were_are_not_granted(
    tmp_path: Path, http: aiohttp.ClientSession, server: str
) -> None:
    async with gateway(tmp_path, {"one": stdio(server)}, users=USERS) as opened:
        ann, bob = (Modern(opened.url, http, user) for user in USERS)
        hers, his = await ann.begin(key="a"), await bob.begin(key="b")
        async with bob.listen([hers, "tl1.invented", his]) as stream:
            granted = (await stream.next())["params"]["notifications"]
            for key in ("a", "b"):
                await ann.call("finish", key=key)
            news = (await stream.next())["params"]

    assert granted == {"taskIds": [his]}
    assert news["taskId"] == his


@pytest.mark.parametrize("wanted", [{"taskIds": ["x"]}, {"taskIds": []}])
async def test_a_caller_that_does_not_know_tasks_cannot_listen_to_them(
    tmp_path: Path, http: aiohttp.ClientSession, wanted: dict[str, Any]
) -> None:
    async with gateway(tmp_path, {"one": stdio("modern")}) as opened:
        heard = await ModernCaller(opened.url, http).request("subscriptions/listen", {"notifications": wanted})

    assert heard.error["code"] == -32021


async def test_legacy_sessions_hear_of_their_own_tasks_alone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy")}) as opened:
        one, other = Legacy(opened.url, http), Legacy(opened.url, http)
        mine, theirs = await one.begin(key="a"), await other.begin(key="b")
        async with one.caller.listen() as ear, other.caller.listen() as others:
            for key in ("b", "a"):
                await one.call("finish", key=key)
            heard = [await ear.next(), await others.next()]

    assert [news["method"] for news in heard] == ["notifications/tasks/status"] * 2
    assert [news["params"]["taskId"] for news in heard] == [mine, theirs]
