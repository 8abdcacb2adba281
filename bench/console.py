"""How soon the console shows a page, with many tools and many past calls behind it, in a real Chromium.

    python bench/console.py [--tools 10000] [--calls 100000] [--rounds 7]

Milliseconds from the navigation until the page's content is there: for a browser that has nothing yet, for one that
loads the page again, and for going from page to page within it. Medians; what a machine does besides is in them.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright
from scale import SMALLEST, sized

from trunkline.config.reading import parse
from trunkline.gateway.serve import Gateway, open_gateway
from trunkline.telemetry.record import CallRecord

sys.path.append(str(Path(__file__).parents[1]))
from tests.browser import chromium

BAR = 300.0
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


async def measure(tools: int, calls: int, rounds: int) -> dict[str, float]:
    """Medians by page and by how one came there."""
    command = {"command": sys.executable, "args": [__file__, "--serve", str(tools)]}
    said = {"gateway": {"port": 0, "namespace": "always"}, "calls": {"keep": calls}, "servers": {"many": command}}
    with tempfile.TemporaryDirectory() as home:
        config = dataclasses.replace(parse(said, env=os.environ), home=Path(home))
        async with open_gateway(config) as opened, async_playwright() as playwright:
            await opened.hub.ready(60)
            await remember(opened, calls)
            path, env = chromium()
            flags = ["--no-sandbox", "--disable-dev-shm-usage"]
            browser = await playwright.chromium.launch(executable_path=path, args=flags, env={**os.environ, **env})
            try:
                return await times(browser, opened.url.removesuffix("/mcp"), rounds)
            finally:
                await browser.close()


async def times(browser: Browser, base: str, rounds: int) -> dict[str, float]:
    """How long each page took, in each way."""
    found: dict[str, list[float]] = {}
    for place, wanted in TRIED.items():
        for _ in range(rounds):
            context = await browser.new_context(reduced_motion="reduce")
            page = await context.new_page()
            await page.add_init_script(f"({WATCH})({json.dumps(wanted)})")
            for how in ("first", "again"):
                await (page.goto(f"{base}/#/{place}") if how == "first" else page.reload())
                found.setdefault(f"{how} {place}", []).append(await in_time(page.evaluate("shown(0)")))
            await page.evaluate("location.hash = '#/keys'")
            await page.reload()
            await page.locator("main .empty").wait_for()
            found.setdefault(f"moved {place}", []).append(await in_time(page.evaluate(MOVE, [f"#/{place}", wanted])))
            await context.close()
    return {name: round(statistics.median(all), 1) for name, all in found.items()}


async def in_time(shown: Awaitable[float]) -> float:
    """How long it took, unless it will never be there."""
    return await asyncio.wait_for(shown, 30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=sized(10_000, smallest=100))
    parser.add_argument("--calls", type=int, default=sized(100_000, smallest=1_000))
    parser.add_argument("--rounds", type=int, default=sized(7, smallest=1))
    parser.add_argument("--serve", type=int, default=0, help="be the server")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    found = asyncio.run(measure(options.tools, options.calls, options.rounds))
    for name, figure in found.items():
        print(f"  {name:<46}{figure:>8.1f} ms   at most {BAR:g}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
