"""Tasks between callers and servers that others wrote."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.tasks.scene import Modern, stdio
from tests.harness import Start, gateway
from tests.real.parts import node_server

pytestmark = pytest.mark.slow

OLD_TASKS = str(Path(__file__).with_name("legacy_tasks.py"))


async def ask(old_sdk: Start, url: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Use a task with the SDK's client of the 1.x line."""
    client = old_sdk(OLD_TASKS, url, tool, json.dumps(arguments))
    process = await asyncio.create_subprocess_exec(client["command"], *client["args"], stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(process.communicate(), 30)
    return json.loads(said)


async def ended(caller: Modern, id: str) -> dict[str, Any]:
    """Follow a task to its end."""
    async with caller.listen([id]) as stream:
        await stream.next()
        while (task := (await caller.about("get", id)).result)["status"] == "working":
            await stream.next(10)
    return task


async def test_a_modern_caller_answers_the_question_of_a_task_on_the_old_sdk(
    old_sdk: Start, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"old": old_sdk(OLD_TASKS)}) as opened:
        caller = Modern(opened.url, http, elicitation={})
        id = await caller.begin("greet")
        while (task := (await caller.about("get", id)).result)["status"] == "working":
            pass
        answer = {"action": "accept", "content": {"name": "Ada"}}
        await caller.about("update", id, inputResponses=dict.fromkeys(task["inputRequests"], answer))
        text = await caller.text(id)

    assert [one["params"]["message"] for one in task["inputRequests"].values()] == ["Who are you?"]
    assert text == "Hello, Ada!"


async def test_a_task_that_breaks_on_the_old_sdk_has_failed(
    old_sdk: Start, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"old": old_sdk(OLD_TASKS)}) as opened:
        caller = Modern(opened.url, http)
        id = await caller.begin("stumble")
        while (task := (await caller.about("get", id)).result)["status"] == "working":
            pass

    assert task["status"] == "failed"
    assert "It stumbled." in task["error"]["message"]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
async def test_the_old_client_uses_tasks_of_the_old_server(old_sdk: Start, tmp_path: Path, beside: bool) -> None:
    async with gateway(
        tmp_path, {"old": old_sdk(OLD_TASKS), **({"other": stdio("modern")} if beside else {})}
    ) as opened:
        said = await ask(old_sdk, opened.url, "old__greet" if beside else "greet", {})

    assert said["asked"] == ["Who are you?"]
    assert said["text"] == "Hello, Ada!"
    assert (said["listed"], said["after"]) == (True, "completed")


@pytest.mark.parametrize("how", ["plain", "ask"])
async def test_the_old_client_uses_tasks_of_a_modern_server(old_sdk: Start, tmp_path: Path, how: str) -> None:
    async with gateway(tmp_path, {"new": stdio("modern")}) as opened:
        said = await ask(old_sdk, opened.url, "job", {"how": how})

    assert len(said["asked"]) == (how == "ask")
    assert "Ada" in said["text"] if how == "ask" else said["text"] == "Done at last – é."
    assert (said["listed"], said["after"]) == (True, "completed")


@pytest.mark.parametrize("ambiguous", [False, True])
async def test_a_modern_caller_has_research_done(tmp_path: Path, http: aiohttp.ClientSession, ambiguous: bool) -> None:
    async with gateway(tmp_path, {"everything": node_server("everything", "stdio")}, ready=20) as opened:
        caller = Modern(opened.url, http, elicitation={})
        id = await caller.begin("simulate-research-query", topic="python", ambiguous=ambiguous)
        task = await ended(caller, id)
        if ambiguous:
            answer = {"action": "accept", "content": {"interpretation": "snake"}}
            await caller.about("update", id, inputResponses=dict.fromkeys(task["inputRequests"], answer))
            task = await ended(caller, id)

    report = task["result"]["content"][0]["text"]
    assert report.startswith(f"# Research Report: python{' (snake)' if ambiguous else ''}")
