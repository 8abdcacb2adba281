"""What the console costs, with many tools and many past calls behind it, beside one with few of both.

    python bench/console.py [--tools 10000] [--calls 100000] [--rounds 7] [--only answers|pages]

Answers: what each takes of the gateway's CPU, its bytes, and the longest step that the loop takes for it without a
pause. Pages, in a real Chromium: milliseconds from the navigation until the content is there, for a browser that has
nothing yet, for one that loads the page again, and for going from page to page within it; and for the first of these
the requests until then, how many of them wait for another, their bytes, and the CPU of the page's main thread.
Medians of rounds in which both gateways take turns; milliseconds hold what a machine does besides, the others do not.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from growth import Steps
from playwright.async_api import Browser, Page, async_playwright
from scale import SMALLEST, sized

from trunkline.config.reading import parse
from trunkline.gateway.serve import Gateway, open_gateway
from trunkline.telemetry.record import CallRecord

sys.path.append(str(Path(__file__).parents[1]))
from tests.browser import chromium

BAR = 300.0
CPU_BAR, STEP_BAR = 10.0, 20.0
FEW = (100, 1_000)
"""Tools and calls of the gateway that the other is compared with."""
ANSWERS = (
    "me", "servers", "stats", "series?range=1h", "series?range=7d", "questions", "review", "connections",
    "tools?limit=50", "tools?server=many&limit=50", "tools/many__tool_00077",
    "calls", "calls?tool=tool_00003&outcome=failed", "calls?longer=10", "calls?server=none&outcome=failed",
    "usage?by=user", "usage?by=tool", "tools?q=number%2077&limit=25",
)  # fmt: skip
"""What the pages ask for, below the address of the API; a search last, as vectors are computed from then on."""
ASKED = sized(20, smallest=2)
ASK = """
import http.client, sys
line = http.client.HTTPConnection(sys.argv[1])
for _ in range(int(sys.argv[3])):
    line.request("GET", sys.argv[2])
    body = line.getresponse().read()
print(len(body))
"""
"""Asks so often, on one connection: a process of its own, which needs nothing of ours."""
PLACES = {
    "overview": ".figures .plot",
    "servers": "tbody tr",
    "tools": ".rows.tools li",
    "tools?q=number 77": ".ranking li",
    "tools/many__tool_00077": ".card.try",
    "calls": "tbody tr",
    "calls?tool=tool_00003&outcome=failed": "tbody tr",
    "calls?longer=10": "tbody tr",
    "usage": "tbody tr",
}
"""Where pages are, and what is there once one is shown."""
TRIED = dict(list(PLACES.items())[-2:]) if SMALLEST else PLACES
WATCH = """(wanted) => {
    window.shown = (since) => new Promise((resolve) => {
        const look = () => document.querySelector(wanted) && !document.querySelector("main .loading");
        const end = () => { seen.disconnect(); resolve(performance.now() - since); };
        const seen = new MutationObserver(() => { if (look()) end(); });
        seen.observe(document, { childList: true, subtree: true });
        if (look()) end();
    });
}"""
TIMINGS = """() => performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
    .filter((one) => !one.name.endsWith("/events"))
    .map((one) => [one.startTime, one.responseEnd, one.transferSize])"""
WAYS = ("first", "again", "moved", "requests", "rounds", "kB", "main")
SPAWNED = 0.003
"""Seconds of our own CPU that it takes to start another process."""
MOVE = """([place, wanted]) => new Promise((resolve) => {
    const since = performance.now(), left = document.querySelector("main h1");
    const look = () => document.querySelector("main h1") !== left
        && document.querySelector(wanted) && !document.querySelector("main .loading");
    const seen = new MutationObserver(() => {
        if (look()) { seen.disconnect(); resolve(performance.now() - since); }
    });
    seen.observe(document, { childList: true, subtree: true });
    location.hash = place;
})"""


def serve(count: int) -> None:
    """A server over stdio that offers so many tools."""
    text = {"type": "object", "properties": {"text": {"type": "string", "description": "What to do it with."}}}
    tools = [
        {"name": f"tool_{number:05}", "description": f"Does what number {number} does.", "inputSchema": text}
        for number in range(count)
    ]
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        result: dict[str, Any] = {}
        if asked["method"] == "initialize":
            info = {"name": "many", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif asked["method"] == "tools/list":
            result = {"tools": tools}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


async def remember(opened: Gateway, count: int) -> None:
    """Let so many calls have been made."""
    recording, now = opened.hub.relay.recording, time.time()
    store = await opened.hub.relay.tenancy.store()
    recording.past.keep_all()
    for first in range(0, count, 10_000):
        part = [record(number, now - count + number) for number in range(first, min(count, first + 10_000))]
        recording.past.read(part)
        recording.usage.read(part)
        await recording.past.store(store)


def record(number: int, when: float) -> CallRecord:
    """One of them."""
    tool, failed = f"tool_{number % 50:05}", number % 20 == 3
    return CallRecord(
        f"{int(when * 1000):011x}bench{number:06}", when, "", "", "", "", "", "", "bench", "tools/call",
        f"many__{tool}", "many", tool, True, "failed" if failed else "answered", 12.0 if number % 997 == 0 else 0.02,
        path=[("entry", "many", 0.0), ("send", "many", 0.01), ("answer", "many", 0.02)],
    )  # fmt: skip


@asynccontextmanager
async def gateway(tools: int, calls: int) -> AsyncGenerator[Gateway]:
    """One with so many tools and past calls."""
    command = {"command": sys.executable, "args": [__file__, "--serve", str(tools)]}
    said = {"gateway": {"port": 0, "namespace": "always"}, "calls": {"keep": calls}, "servers": {"many": command}}
    with tempfile.TemporaryDirectory() as home:
        config = dataclasses.replace(parse(said, env=os.environ), home=Path(home))
        async with open_gateway(config) as opened:
            await opened.hub.ready(60)
            await remember(opened, calls)
            # As `trunkline up` does: what is there for good is not looked through again and again.
            gc.collect()
            gc.freeze()
            yield opened


async def answers(both: dict[str, str]) -> dict[str, float]:
    """What each answer costs at each gateway: ms of CPU, the longest step in ms, bytes."""
    steps, found = Steps(), dict[str, float]()
    print(f"{'answers: CPU and longest step in ms, bytes':<46}" + "".join(f"{name:>28}" for name in both))
    for path in ANSWERS[::6] if SMALLEST else ANSWERS:
        line = f"  {path:<44}"
        for name, base in both.items():
            await ask(base, path, 1)  # what is made once is not of this
            steps.longest()
            before = time.process_time()
            size = await ask(base, path, ASKED)
            cpu, longest = (time.process_time() - before - SPAWNED) * 1000 / ASKED, steps.longest()
            found |= {f"cpu {name} {path}": round(cpu, 2), f"step {name} {path}": round(longest, 2)}
            line += f"{cpu:>12.2f}{longest:>7.1f}{size:>9}"
        print(line, flush=True)
    return found


async def ask(base: str, path: str, times: int) -> int:
    """Have another process ask so often; the bytes of the answer."""
    command = [sys.executable, "-S", "-c", ASK, base.removeprefix("http://"), f"/api/v1/{path}", str(times)]
    asker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    said, _ = await asker.communicate()
    return int(said)


async def pages(both: dict[str, str], rounds: int) -> dict[str, float]:
    """How long each page took at each gateway, in each way, and what it took."""
    path, env = chromium()
    flags = ["--no-sandbox", "--disable-dev-shm-usage"]
    found: defaultdict[str, list[float]] = defaultdict(list)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=flags, env={**os.environ, **env})
        try:
            for place, wanted in TRIED.items():
                for _ in range(rounds):
                    for name, base in both.items():
                        for what, figure in (await visit(browser, base, place, wanted)).items():
                            found[f"{what} {name} {place}"].append(figure)
                report(place, list(both), found)
        finally:
            await browser.close()
    return {name: round(statistics.median(all), 1) for name, all in found.items()}


async def visit(browser: Browser, base: str, place: str, wanted: str) -> dict[str, float]:
    """One browser that comes for the first time, again, and from another page."""
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    spent = await context.new_cdp_session(page)
    await spent.send("Performance.enable", {"timeDomain": "threadTicks"})
    await page.add_init_script(f"({WATCH})({json.dumps(wanted)})")
    await page.goto(f"{base}/#/{place}")
    found = {"first": await in_time(page.evaluate("shown(0)"))}
    metrics = {one["name"]: one["value"] for one in (await spent.send("Performance.getMetrics"))["metrics"]}
    found |= await requests(page, found["first"]) | {"main": metrics["TaskDuration"] * 1000}
    await page.reload()
    found["again"] = await in_time(page.evaluate("shown(0)"))
    await page.evaluate("location.hash = '#/keys'")
    await page.reload()
    await page.locator("main .empty").wait_for()
    found["moved"] = await in_time(page.evaluate(MOVE, [f"#/{place}", wanted]))
    await context.close()
    return found


async def requests(page: Page, until: float) -> dict[str, float]:
    """How many requests there were until a moment, how long their longest chain is, and their bytes."""
    told: list[tuple[float, float, float]] = await page.evaluate(TIMINGS)
    made = sorted(one for one in told if one[0] < until)
    depths: list[tuple[float, int]] = []
    for began, ended, _ in made:
        depths.append((ended, 1 + max((depth for end, depth in depths if end <= began), default=0)))
    return {
        "requests": len(made),
        "rounds": max(depth for _, depth in depths),
        "kB": sum(size for _, _, size in made) / 1000,
    }


def report(place: str, names: list[str], found: dict[str, list[float]]) -> None:
    """Print what was found of a page."""
    for name in names:
        figures = {what: statistics.median(found[f"{what} {name} {place}"]) for what in WAYS}
        line = "  ".join(f"{what} {figure:.0f}" for what, figure in figures.items())
        print(f"  {place:<40}{name:<6}{line}", flush=True)


async def measure(tools: int, calls: int, rounds: int, only: str) -> dict[str, float]:
    """All of it."""
    async with AsyncExitStack() as stack:
        both = {
            name: (await stack.enter_async_context(gateway(*sizes))).url.removesuffix("/mcp")
            for name, sizes in {"few": FEW, "many": (tools, calls)}.items()
        }
        found = await answers(both) if only != "pages" else {}
        return found | (await pages(both, rounds) if only != "answers" else {})


async def in_time(shown: Awaitable[float]) -> float:
    """How long it took, unless it will never be there."""
    return await asyncio.wait_for(shown, 30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=sized(10_000, smallest=100))
    parser.add_argument("--calls", type=int, default=sized(100_000, smallest=1_000))
    parser.add_argument("--rounds", type=int, default=sized(7, smallest=1))
    parser.add_argument("--serve", type=int, default=0, help="be the server")
    parser.add_argument("--only", choices=("answers", "pages"), default="")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
    else:
        found = asyncio.run(measure(options.tools, options.calls, options.rounds, options.only))
        print(f"at most: an answer {CPU_BAR:g} ms of CPU, a step {STEP_BAR:g} ms, a page {BAR:g} ms")
        print(json.dumps(found))


if __name__ == "__main__":
    main()
