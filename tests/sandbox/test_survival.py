"""What programs survive (kill -9 of the gateway), and what does not survive the gateway (their workers)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import ModernCaller, trunkline_up, until
from tests.sandbox.shop import shop_hub
from tests.sandbox.test_run_code import answered, ask
from trunkline.config.programs import ProgramsSection
from trunkline.errors import ConfigError
from trunkline.model import Call, Caller
from trunkline.sandbox import runtime
from trunkline.sandbox.programs import Asks
from trunkline.storage.store import Place

SERVER = Path(__file__).with_name("shop_server.py")
CODE = """
import asyncio
print('prices first')
prices = [(await price(item=i))['price'] for i in ('pen', 'paper')]
done = await asyncio.gather(order(item='pen'), order(item='paper'))
[prices, done]
"""


async def test_a_program_that_waits_goes_on_after_kill_9_and_does_everything_once(
    place: Place, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    orders = tmp_path / "orders"
    config: dict[str, Any] = {
        "gateway": {"expose": "code"},
        "middleware": {"confirm": "destructive"},
        "store": {} if place.file is not None else {"url": place.url},
        "servers": {"shop": {"command": sys.executable, "args": ["-S", str(SERVER), str(orders)]}},
    }
    with trunkline_up(tmp_path / "home", config) as (url, process):
        await _listed(ModernCaller(url, http))
        asked = await ask(ModernCaller(url, http), CODE)
        boxes = asked.result["inputRequests"]["calls"]["params"]["requestedSchema"]["properties"]
        process.kill()
        process.wait()
    with trunkline_up(tmp_path / "home", config) as (url, _):
        caller = ModernCaller(url, http)
        await _listed(caller)
        done = await ask(caller, CODE, answered(asked))
        again = await ask(caller, CODE, answered(asked))

    assert len(boxes) == 2
    assert json.loads(done.text) == [[3, 5], ["ordered pen", "ordered paper"]]
    assert "prices first" in done.result["content"][1]["text"]
    assert again.message["error"]["code"] == -32602
    assert sorted(orders.read_text().split()) == ["paper", "pen"]


async def _listed(caller: ModernCaller) -> None:
    """Wait until the shop is open."""
    async with asyncio.timeout(30):
        while "async def order(" not in (await caller.call("search_tools", {"names": ["order"]})).text:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_many_programs_that_wait_hold_no_worker_and_no_memory(tmp_path: Path) -> None:
    async with shop_hub(tmp_path, processes=1) as (hub, shop):
        programs = hub.relay.programs
        caller = Caller(capabilities=b'{"elicitation":{"form":{}}}')
        code = "import asyncio\nkept = 'x' * 10_000\nawait asyncio.gather(buy(item=1), buy(item=2))"

        async def waits() -> Asks:
            call = Call("tools/call", "run_code", {"arguments": json.dumps({"code": code}).encode()}, caller=caller)
            outcome = await programs.run(call, code)
            assert isinstance(outcome, Asks)
            return outcome

        await waits()
        with traced() as memory:
            before = memory()
            for _ in range(40):
                await waits()
            more = memory() - before

        assert (programs.pool.busy, programs.running(), shop.bought) == (0, [], [])
        assert more < 2 * 2**20
        assert len(await programs.waiting.listed(None, after="", limit=1000)) == 41


@contextmanager
def traced() -> Generator[Callable[[], int]]:
    """Tells the bytes that Python's own objects take, which do not depend on what the allocator keeps."""

    def taken() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        yield taken
    finally:
        tracemalloc.stop()  # everything is slower meanwhile


async def test_the_interpreter_that_was_changed_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed:
        def compare_digest(self, one: str, other: str) -> bool:
            return False

    monkeypatch.setattr(runtime, "hmac", Changed())
    async with shop_hub(tmp_path) as (hub, _):
        with pytest.raises(ConfigError, match="sha256 differs"):
            await hub.run("1")


def test_nothing_is_looked_for_by_path_or_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impostor = tmp_path / "monty"
    impostor.write_text("#!/bin/sh\nexit 1\n")
    impostor.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MONTY_BIN", str(impostor))

    found = runtime.prepare(ProgramsSection(), tmp_path / "home")

    assert str(tmp_path / "monty") not in found.launcher.read_text()


def test_without_bubblewrap_programs_run_and_it_is_said_unless_it_is_demanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "BUBBLEWRAP", (str(tmp_path / "bwrap"),))

    found = runtime.prepare(ProgramsSection(), tmp_path)

    assert (found.isolation, "bwrap" in found.reason) == ("process", True)
    with pytest.raises(ConfigError, match="No program can be run in bubblewrap"):
        runtime.prepare(ProgramsSection(isolation="bubblewrap"), tmp_path)


ONCE = """
import asyncio, sys
from pathlib import Path
from trunkline import Config, ProgramsSection, open_hub
async def main(home, forever):
    config = Config(home=Path(home), programs=ProgramsSection(compute=60.0, isolation=sys.argv[3]))
    async with open_hub(config) as hub:
        if forever:
            running = asyncio.ensure_future(hub.run("print('go')\\nwhile True:\\n    pass"))
            while not any(one.run.printed for one in hub.relay.programs.running()):
                await asyncio.sleep(0.01)
            [session] = hub.relay.programs.pool._sessions
            print(session.keeper.pid, flush=True)
            await running
        print((await hub.run("1 + 1")).value)
asyncio.run(main(sys.argv[1], sys.argv[2] == "forever"))
"""


def test_a_process_that_ran_programs_ends_with_exit_code_0(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", ONCE, str(tmp_path), "once", "auto"], check=False)

    assert run.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="what ends them with us is Linux's")
@pytest.mark.parametrize("isolation", ["auto", "process"])
async def test_a_worker_that_computes_ends_with_its_gateway_even_after_kill_9(tmp_path: Path, isolation: str) -> None:
    with subprocess.Popen(  # noqa: ASYNC220 - it is only started here
        [sys.executable, "-c", ONCE, str(tmp_path), "forever", isolation], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        keeper = int(await asyncio.to_thread(process.stdout.readline))
        family = [keeper, *_below(keeper)]

        os.kill(process.pid, signal.SIGKILL)

    assert len(family) > 1
    await until(lambda: not any(map(_runs, family)), 10)


def _below(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [one for child in found for one in (int(child), *_below(int(child)))]


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
