"""What each stage of the call path adds to a call, in CPU microseconds, at defaults and with everything switched on."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from scale import sized

from trunkline.call.stage import Handler, join
from trunkline.config.options import CacheSection, Config, MiddlewareSection
from trunkline.config.server import ServerSpec
from trunkline.hub import Hub, open_hub
from trunkline.model import Call, Reply
from trunkline.wire.members import encode

SERVER = Path(__file__).parents[1] / "tests" / "faulty" / "stdio_server.py"
CALLS, ROUNDS = sized(3000, smallest=10), sized(7, smallest=1)
RESULT = b'{"content":[{"type":"text","text":"x"}],"resultType":"complete"}'
ALL = {
    "middleware": MiddlewareSection(logging=True, confirm="writes", validate=True, timeout=30, retries=2),
    "cache": CacheSection(enabled=True),
}


async def answer(call: Call, call_next: Handler) -> Reply:
    return Reply(result=RESULT)


def made(number: int) -> Call:
    meta = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
    arguments = encode({"text": f"{number}"})
    return Call("tools/call", "echo", {"name": b'"echo"', "arguments": arguments, "_meta": meta}, raw_params=b"{}")


async def measure(hub: Hub) -> None:
    before = 0.0
    for count in range(len(hub.relay.stages)):
        handler = join([*hub.relay.stages[:count], answer])
        best = min([await spent(handler) for _ in range(ROUNDS)])
        name = type(hub.relay.stages[count - 1]).__name__ if count else "(nothing)"
        print(f"  {name:18} {best:7.2f} µs   +{max(best - before, 0):.2f}")
        before = best


async def spent(handler: Handler) -> float:
    calls = [made(number) for number in range(CALLS)]
    started = time.process_time()
    for call in calls:
        await handler(call)
    return (time.process_time() - started) / CALLS * 1e6


async def main() -> None:
    for title, sections in (("at defaults", {}), ("with middleware and cache, every call new", ALL)):
        spec = ServerSpec("echo", command=sys.executable, args=(str(SERVER),))
        home = Path(tempfile.mkdtemp())
        async with open_hub(Config(servers={"echo": spec}, home=home, **sections)) as hub:  # type: ignore[arg-type]
            await hub.ready(30)
            print(f"all stages but the sending itself, {title}:")
            await measure(hub)


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.ERROR)
    asyncio.run(main())
