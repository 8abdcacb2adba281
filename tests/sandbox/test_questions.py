"""What servers ask in calls of a program: one question with all that it wants, and data where the server lets it be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.call.stages.till import able, calls, teller
from tests.harness import Heard, ModernCaller, faulty, gateway, until
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
BOTH = """
import asyncio
async def said(work):
    try:
        return str(await work)
    except Exception as error:
        return type(error).__name__
await asyncio.gather(said(till__paint(key='door')), said(pipe__ask()), said(till__send_money(account='ann', amount=5)))
"""


def servers(folder: Path) -> Json:
    """One that asks by a result, which is data, and one that asks in the middle of a call, which is none."""
    agreed = {"send_money": {"requires_confirmation": True}}
    return {"till": teller(folder, tools=agreed), "pipe": faulty("--era", "legacy")}


async def ran(opened: Gateway, http: aiohttp.ClientSession, code: str = BOTH, **more: Any) -> Heard:
    """Run a program, or go on with one, as a caller that can be asked by forms."""
    params = {"name": "run_code", "arguments": {"code": code}, **more}
    return await ModernCaller(opened.url, http).request("tools/call", params, meta=able())


def answers(asked: Heard, **said: Json) -> Json:
    """What agrees to everything, and says who and which colour."""
    given: Json = {"colour": {"colour": "red"}, "name": {"name": "Ada"}, "call_3": {"call_3": True}, **said}
    responses: Json = {}
    for key, one in asked.result["inputRequests"].items():
        (field,) = one["params"]["requestedSchema"]["properties"]
        responses[key] = {"action": "accept", "content": given[field]}
    return {"requestState": asked.result["requestState"], "inputResponses": responses}


async def test_what_servers_ask_in_a_program_is_asked_with_what_it_wants_and_done_once(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path / "home", servers(tmp_path), expose="code", namespace="always") as opened:
        asked = await ran(opened, http)
        before = calls(tmp_path)
        misfit = await ran(opened, http, **answers(asked, colour={"colour": 5}))
        done = await ran(opened, http, **answers(asked))
        again = await ran(opened, http, **answers(asked))

    assert sorted(key.partition(".")[0] for key in asked.result["inputRequests"]) == ["call_1", "call_2", "calls"]
    assert before == ["till paint door"]
    assert misfit.error["code"] == again.error["code"] == -32602
    painted, name, sent = json.loads(done.text)
    assert (painted, "Ada" in name, "5" in sent) == ("door is red", True, True)
    assert calls(tmp_path)[1:] == ["till paint door", "till paint in red", "till send_money ann 5"]


async def test_after_a_restart_what_is_data_goes_on_and_a_call_that_was_live_fails_in_the_program(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path / "home", servers(tmp_path), expose="code", namespace="always") as opened:
        asked = await ran(opened, http)
    async with gateway(tmp_path / "home", servers(tmp_path), expose="code", namespace="always") as opened:
        done = await ran(opened, http, **answers(asked))

    painted, name, sent = json.loads(done.text)
    assert (painted, name, "5" in sent) == ("door is red", "TimeoutError", True)


async def test_a_server_is_told_when_nobody_will_answer_what_it_asked_in_a_program(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    log = tmp_path / "pipe.log"
    pipe = {"pipe": faulty("--era", "legacy", "--log", str(log))}
    async with gateway(tmp_path / "home", pipe, expose="code", namespace="always") as opened:
        await ran(opened, http, "await pipe__ask()")
        [waits] = await opened.hub.relay.programs.waiting.listed(None, after="", limit=9)
        unheard = "cancelled" not in log.read_text()
        await opened.hub.relay.programs.remove(waits.id, None)
        await until(lambda: "cancelled" in log.read_text())

    assert unheard


async def test_a_caller_that_cannot_be_asked_is_not_and_the_program_hears_of_it(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    params = {"name": "run_code", "arguments": {"code": "await pipe__ask()"}}
    async with gateway(tmp_path / "home", servers(tmp_path), expose="code", namespace="always") as opened:
        heard = await ModernCaller(opened.url, http).request("tools/call", params)

    assert "cannot be asked" in heard.text
