"""What a server asks in the middle of a task reaches the caller of that task, and nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.tasks.scene import USERS, Legacy, Modern, over_http, stdio
from tests.harness import gateway

ASKABLE: dict[str, Any] = {"elicitation": {}}


def answer(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


async def test_two_tasks_of_one_server_ask_each_its_own_user(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy")}, users=USERS) as opened:
        peers = {user: Modern(opened.url, http, user, **ASKABLE) for user in USERS}
        ids = {user: await peer.begin(how="ask") for user, peer in peers.items()}
        asked = {user: await peer.questions(ids[user]) for user, peer in peers.items()}
        for user, peer in reversed(peers.items()):
            await peer.about("update", ids[user], inputResponses=dict.fromkeys(asked[user], answer(user)))
        texts = {user: await peer.text(ids[user]) for user, peer in peers.items()}

    assert [len(questions) for questions in asked.values()] == [1, 1]
    assert all(user in text for user, text in texts.items())


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_tasks_of_callers_that_nobody_knows_are_kept_apart(
    tmp_path: Path, http: aiohttp.ClientSession, over: str
) -> None:
    with over_http("legacy") as remote:
        async with gateway(tmp_path, {"one": stdio("legacy") if over == "stdio" else remote}) as opened:
            peers = [Modern(opened.url, http, **ASKABLE) for _ in range(3)]
            ids = [await peer.begin(how="ask") for peer in peers]
            asked = [await peer.questions(id) for peer, id in zip(peers, ids, strict=True)]
            for number in (2, 0, 1):
                responses = dict.fromkeys(asked[number], answer(f"number {number}"))
                await peers[number].about("update", ids[number], inputResponses=responses)
            texts = [await peer.text(id) for peer, id in zip(peers, ids, strict=True)]

    assert [f"number {at}" in text for at, text in enumerate(texts)] == [True] * 3


async def test_a_question_is_shown_until_it_is_answered_and_once_is_enough(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy")}) as opened:
        caller = Modern(opened.url, http, **ASKABLE)
        id = await caller.begin(how="ask")
        shown = [await caller.questions(id) for _ in range(2)]
        ignored = await caller.about("update", id, inputResponses={"never asked": answer("Eve")})
        shown.append(await caller.questions(id))
        await caller.about("update", id, inputResponses=dict.fromkeys(shown[0], answer("Ada")))
        again = await caller.about("update", id, inputResponses=dict.fromkeys(shown[0], answer("Eve")))
        text = await caller.text(id)

    assert shown[0] == shown[1] == shown[2]
    assert ignored.result == again.result == {"resultType": "complete"}
    assert "Ada" in text


async def test_a_question_that_nobody_answers_is_given_up(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy")}, question_timeout=0.1) as opened:
        caller = Modern(opened.url, http, **ASKABLE)
        id = await caller.begin(how="ask")
        await caller.questions(id)
        while (state := (await caller.about("get", id)).result)["status"] == "input_required":
            pass
        text = await caller.text(id) if state["status"] == "working" else state["result"]["content"][0]["text"]

    assert "Nobody answered in time." in text


async def test_a_question_on_a_stream_that_names_no_task_is_refused(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy")}) as opened:
        heard = await Modern(opened.url, http, **ASKABLE).call("job", how="ask_first")

    assert "cannot be asked" in heard.text


async def test_a_legacy_caller_is_asked_by_a_modern_server_where_it_waits(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"one": stdio("modern")}) as opened:
        caller = Legacy(opened.url, http, **ASKABLE)
        id = await caller.begin(how="ask")
        async with caller.caller.stream("tasks/result", {"taskId": id}) as stream:
            question = await stream.next()
            await caller.caller.answer(question["id"], answer("Ada"))
            end = await stream.next()

    assert question["params"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": id}
    assert "Ada" in end["result"]["content"][0]["text"]


async def test_connections_for_tasks_are_bounded(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": stdio("legacy", processes=2)}) as opened:
        kinds: list[dict[str, Any]] = [{"elicitation": {}}, {"elicitation": {"form": {}}}, {"sampling": {}}]
        made = [await Modern(opened.url, http, **kind).call("job", key="x") for kind in kinds]
        shared = await Modern(opened.url, http, elicitation={}).call("job", key="y")

    assert [one.status for one in made] == [200, 200, 503]
    assert shared.result["resultType"] == "task"
