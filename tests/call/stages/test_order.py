"""A call passes the stages once, in the order that the hub says: the traceback of one that fails shows it."""

from __future__ import annotations

import asyncio
import itertools
import traceback
from contextlib import AsyncExitStack
from pathlib import Path
from types import CoroutineType, TracebackType
from typing import Any

import aiohttp
import pytest

from tests.call.stages.till import Json, teller
from tests.harness import LegacyCaller, ModernCaller, faulty, faulty_http, gateway, make_config, until
from trunkline.call.stages.batch import BatchStage
from trunkline.call.stages.builtin import BuiltinStage
from trunkline.call.stages.cache import CacheStage
from trunkline.call.stages.elicit import ElicitStage
from trunkline.call.stages.entry import EntryStage
from trunkline.call.stages.middleware import MiddlewareStage
from trunkline.call.stages.route import RouteStage
from trunkline.call.stages.send import SendStage
from trunkline.call.stages.tasks import TaskStage
from trunkline.errors import UpstreamError
from trunkline.hub import Hub, open_hub
from trunkline.questions.kinds import Elicitation

RENT: Json = {"account": "rent"}
EVERYTHING: Json = {
    "cache": {"enabled": True},
    "batcher": {"coalesce": True},
    "groups": {"bank": {"servers": ["till"]}},
    "middleware": {"logging": True, "confirm": "writes", "validate": True, "timeout": 30.0, "retries": 1},
}


def passed(trace: TracebackType | None) -> list[str]:
    """The modules of the stages that a traceback shows, from the outermost."""
    modules = (str(frame.f_globals["__name__"]) for frame, _ in traceback.walk_tb(trace))
    return [
        name for name, _ in itertools.groupby(name for name in modules if name.startswith("trunkline.call.stages."))
    ]


def in_order(hub: Hub, shown: list[str]) -> list[str]:
    """Those of them that are stages of the hub, once and in its order."""
    return [name for stage in hub.relay.stages if (name := type(stage).__module__) in shown]


def chosen(sections: Json) -> list[str]:
    return [name for name in ("cache", "groups", "middleware", "batcher") if name in sections]


WORKING = {"cache": CacheStage, "groups": RouteStage, "middleware": MiddlewareStage}
"""Stages that have something to do in the calls below where their section is there."""

SOME = [
    {name: EVERYTHING[name] for name in names}
    for count in range(5)
    for names in itertools.combinations(EVERYTHING, count)
    if count in (0, 1, 4)
]


@pytest.mark.parametrize("sections", SOME, ids=lambda sections: "+".join(chosen(sections)) or "nothing")
@pytest.mark.parametrize("tool", ["crash_after_payment", "crash_at_first"])
async def test_the_traceback_of_a_call_shows_each_stage_that_has_something_to_do_once_and_in_order(
    tmp_path: Path, tool: str, sections: Json
) -> None:
    spec = teller(tmp_path, tools={"crash_at_first": {"cache_ttl": 60.0, "read_only_hint": True}})
    arguments = RENT if tool == "crash_after_payment" else {"key": "k", "times": 9}

    async def agree(request: Elicitation) -> object:
        return True

    async with open_hub(make_config(tmp_path / "home", {"till": spec}, sections=sections)) as hub:
        await hub.ready(10)
        hub.elicitation.register_handler(agree)
        with pytest.raises(UpstreamError) as caught:
            await hub.call(tool, arguments)

        shown = passed(caught.value.__traceback__)
        busy = [BatchStage, SendStage, *(WORKING[name] for name in chosen(sections) if name in WORKING)]
        assert shown == in_order(hub, shown)
        assert not {stage.__module__ for stage in busy} - {*shown}


async def test_it_does_so_in_a_call_that_runs_in_a_task_of_its_own(tmp_path: Path) -> None:
    sections: Json = {**EVERYTHING, "middleware": {"logging": True}}
    async with open_hub(make_config(tmp_path / "home", {"till": teller(tmp_path)}, sections=sections)) as hub:
        await hub.ready(10)
        with pytest.raises(UpstreamError) as caught:
            await hub.call("crash_after_payment", RENT)

        shown = passed(caught.value.__traceback__)
        assert shown == in_order(hub, shown)
        assert MiddlewareStage.__module__ in shown


def frames_of(task: asyncio.Task[Any]) -> list[str]:
    """Our own functions that a waiting task is in, from the outermost."""
    found: list[str] = []
    waiting: Any = task.get_coro()
    while isinstance(waiting, CoroutineType):
        code = waiting.cr_code
        if "/trunkline/" in code.co_filename:
            found.append(code.co_qualname)
        waiting = waiting.cr_await
    return found


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_call_is_followed_from_the_endpoint_to_the_connection_in_fifteen_frames(
    tmp_path: Path, era: str, transport: str
) -> None:
    async with AsyncExitStack() as stack:
        remote = transport == "http"
        server: Json = {"url": stack.enter_context(faulty_http())} if remote else faulty()
        opened = await stack.enter_async_context(gateway(tmp_path, {"slow": server}))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        caller = ModernCaller(opened.url, http) if era == "modern" else await LegacyCaller(opened.url, http).open()
        calling = asyncio.create_task(caller.call("hang"))

        def under_way() -> list[str]:
            each = [frames_of(task) for task in asyncio.all_tasks()]
            found = (frames for frames in each if "App.__call__" in frames and "SendStage.__call__" in frames)
            return next(found, list[str]())

        await until(lambda: any(name.endswith("Connection.request") for name in under_way()))
        frames = under_way()
        calling.cancel()
        path = frames[frames.index("App.__call__") :]
        connection = next(number for number, name in enumerate(path) if name.endswith("Connection.request"))

        assert connection < 15, path


async def test_a_question_is_put_above_the_lanes_and_a_kept_answer_found_before_a_server_is_chosen(
    tmp_path: Path,
) -> None:
    def kinds(hub: Hub) -> list[type[Any]]:
        return [type(stage) for stage in hub.relay.stages if not isinstance(stage, TaskStage)]

    servers = {"till": teller(tmp_path)}
    async with open_hub(make_config(tmp_path / "home", servers, sections=EVERYTHING)) as hub:
        everything = kinds(hub)
        await hub.apply(make_config(tmp_path / "home", servers))
        least = kinds(hub)

    stages = [BuiltinStage, EntryStage, MiddlewareStage, CacheStage, RouteStage, ElicitStage, BatchStage, SendStage]
    assert everything == stages
    assert least == [stage for stage in stages if stage not in (CacheStage, RouteStage)]
