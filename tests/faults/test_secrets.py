"""What a server's process may see, and where secrets must never show."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.faults.scene import all_tried, descendants, get
from tests.harness import TRUNKLINE, ModernCaller, faulty, faulty_http, gateway, trunkline_up
from trunkline.upstream.process import INHERITED

CANARY = "canary-4f1d"
SECRET = "s3cret-9a7c"
TOKEN = "t0ken-5b2e-of-sixteen-or-more"


async def seen_by_server(caller: ModernCaller, tool: str = "env") -> dict[str, Any]:
    return json.loads((await caller.call(tool)).text)


async def test_a_server_gets_listed_variables_and_its_own_alone(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("LD_PRELOAD_NOT", CANARY)
    async with gateway(tmp_path, {"one": faulty(env={"API_KEY": SECRET})}) as opened:
        seen = await seen_by_server(ModernCaller(opened.url, http))

    assert seen["environ"]["API_KEY"] == SECRET
    assert set(seen["environ"]) <= {*INHERITED, "API_KEY", "TRUNKLINE_PROCESS", "LC_CTYPE"}
    assert CANARY not in json.dumps(seen)


async def test_a_server_inherits_its_three_streams_alone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    ends = os.pipe()
    for end in ends:
        os.set_inheritable(end, True)
    async with gateway(tmp_path, {f"s{number}": faulty() for number in range(3)}) as opened:
        caller = ModernCaller(opened.url, http)

        seen = [await seen_by_server(caller, f"s{number}__env") for number in range(3)]
    for end in ends:
        os.close(end)

    assert [set(one["fds"]) for one in seen] == [{"0", "1", "2"}] * 3
    assert len({pipe for one in seen for pipe in one["fds"].values()}) == 9


async def test_one_servers_secrets_do_not_reach_another(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"one": faulty(env={"API_KEY": SECRET}), "two": faulty()}
    async with gateway(tmp_path, servers) as opened:
        seen = await seen_by_server(ModernCaller(opened.url, http), "two__env")

    assert SECRET not in json.dumps(seen)


async def test_secrets_show_in_no_process_but_the_one_they_are_for(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {"one": faulty(env={"API_KEY": "${env:MY_KEY}"}), "two": faulty()}
    config = {"gateway": {"token": "${env:MY_TOKEN}"}, "servers": servers}
    with trunkline_up(tmp_path, config, MY_KEY=SECRET, MY_TOKEN=TOKEN) as (url, process):
        await all_tried(http, url, authorization=f"Bearer {TOKEN}")
        caller = ModernCaller(url, http, token=TOKEN)
        seen = await seen_by_server(caller, "one__env")
        everyone = [psutil.Process(process.pid), *descendants(process.pid)]
        words = [" ".join(one.cmdline()) for one in everyone]
        environments = [(one.pid, one.environ()) for one in everyone[1:]]

    assert seen["environ"]["API_KEY"] == SECRET
    assert not [line for line in words if SECRET in line or TOKEN in line]
    assert not [pid for pid, variables in environments if TOKEN in variables.values()]
    assert len([pid for pid, variables in environments if SECRET in variables.values()]) == 1


async def test_secrets_show_in_no_answer_log_or_file_of_the_gateways(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    home = tmp_path / "home"
    with faulty_http("--start", "refuse") as closed, faulty_http() as url:
        servers = {
            "one": faulty(env={"API_KEY": SECRET}),
            "broken": faulty("--start", "exit", env={"API_KEY": SECRET}),
            "missing": {"command": "no-such-program-anywhere", "args": ["--key", SECRET], "env": {"API_KEY": SECRET}},
            "closed": {"url": f"{closed}?key={SECRET}", "headers": {"Authorization": f"Bearer {SECRET}"}},
            "remote": {"url": f"{url}?key={SECRET}", "headers": {"Authorization": f"Bearer {SECRET}"}, "timeout": 1},
        }
        config = {"gateway": {"token": TOKEN}, "servers": servers}
        with trunkline_up(home, config) as (at, process):
            await all_tried(http, at, authorization=f"Bearer {TOKEN}")
            caller = ModernCaller(at, http, token=TOKEN)
            answers: list[Any] = [(await caller.request("tools/list")).message]
            answers += [
                (await caller.call(f"remote__{tool}")).message for tool in ("garbage", "redirect", "reset", "hang")
            ]
            answers += [(await caller.call(name)).message for name in ("one__crash", "broken__echo", "closed__echo")]
            answers.append((await caller.request("server/discover")).message)
            answers.append(await get(http, at, "/readyz", authorization=f"Bearer {TOKEN}"))
            process.terminate()
            out, err = process.communicate(timeout=15)

    kept = [path for path in home.rglob("*") if path.is_file() and path.name != "config.json"]
    assert answers[-1]["servers"]["broken"]["reason"]
    for text in (json.dumps(answers), out, err, *(path.read_text() for path in kept)):
        assert SECRET not in text
        assert TOKEN not in text


async def test_a_stranger_sees_no_servers_in_the_readiness(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {"one": faulty()}, token=TOKEN) as opened:
        shown = await get(http, opened.url, "/readyz")

    assert shown == {"status": "ready"}


def test_a_token_cannot_be_given_on_the_command_line() -> None:
    ended = subprocess.run([TRUNKLINE, "up", "--token", TOKEN], capture_output=True, text=True, timeout=30)

    assert ended.returncode != 0
