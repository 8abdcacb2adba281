"""What a noisy user costs a quiet one: the quiet one's p50 and p99, alone and beside 50 callers of another user.

    python bench/fairness.py [--seconds 8] [--callers 50] [--share 4 ...]

The server works on four calls at once, 5 ms each, and has the others wait without saying so: the noisy user alone
saturates it. Rounds alone and beside alternate in one run, so that both have the same weather; the ratio counts.
`--share` is `running_per_server` of `[limits]`, 0 for none; several are compared. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import sys
import tempfile
import time
from pathlib import Path

from calls import HEADERS, MODERN, line_of, running
from echo import respond
from scale import SMALLEST, sized

AT_ONCE, WORK = 4, 0.005
TOKENS = {"quiet": "quiet-token-of-the-bench", "noisy": "noisy-token-of-the-bench"}
ROUNDS = sized(4, smallest=1)


def main() -> None:
    if sys.argv[1:] == ["server"]:
        asyncio.run(serve())
        return
    if sys.argv[1:2] == ["noisy"]:
        asyncio.run(crowd(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.1 if SMALLEST else 8.0, help="alone, and again beside")
    parser.add_argument("--callers", type=int, default=sized(50, smallest=3))
    parser.add_argument("--share", type=int, nargs="*", default=[4] if SMALLEST else [0, 4])
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    print(f"{'share':>6}{'alone p50':>12}{'p99':>8}{'beside p50':>12}{'p99':>8}{'p50 ×':>8}{'p99 ×':>8}{'noisy/s':>10}")
    for share in options.share:
        row = found[str(share)] = asyncio.run(measure(share, options.seconds, options.callers))
        print(
            f"{share or 'none':>6}{row['alone_p50']:>9.1f} ms{row['alone_p99']:>8.1f}{row['beside_p50']:>9.1f} ms"
            f"{row['beside_p99']:>8.1f}{row['p50_ratio']:>8.2f}{row['p99_ratio']:>8.2f}{row['noisy_per_second']:>10.0f}"
        )
    print(json.dumps(found))


async def measure(share: int, seconds: float, callers: int) -> dict[str, float]:
    alone: list[float] = []
    beside: list[float] = []
    noisy = 0
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(running([sys.executable, __file__, "server"]))
        users = "\n".join(f'{name} = "{token}"' for name, token in TOKENS.items())
        (home / "trunkline.toml").write_text(
            f"[gateway.users]\n{users}\n[limits]\nrunning_per_server = {share}\n"
            f'[servers.echo]\nurl = "http://127.0.0.1:{line_of(upstream)}/mcp"\n'
        )
        argv = [sys.executable, "-m", "trunkline", "up", "--config", str(home / "trunkline.toml"), "--port", "0"]
        process = stack.enter_context(running([*argv, "--quiet"], TRUNKLINE_HOME=str(home)))
        url = line_of(process).removeprefix("Trunkline listens at ")
        await call_on(url, "quiet", 0.1)
        for _ in range(ROUNDS):
            alone += await call_on(url, "quiet", seconds / ROUNDS)
            # In a process of its own: what its callers cost each other is not what the gateway costs the quiet one.
            crowded = [sys.executable, __file__, "noisy", url, str(callers), str(seconds / ROUNDS + 0.5)]
            with running(crowded) as loud:
                line_of(loud)
                beside += await call_on(url, "quiet", seconds / ROUNDS)
                noisy += int(line_of(loud))
    found = {"alone_p50": at(alone, 0.5), "alone_p99": at(alone, 0.99)}
    found |= {
        "beside_p50": at(beside, 0.5),
        "beside_p99": at(beside, 0.99),
        "noisy_per_second": noisy / (seconds + ROUNDS / 2),
    }
    return found | {f"{one}_ratio": found[f"beside_{one}"] / found[f"alone_{one}"] for one in ("p50", "p99")}


async def crowd(url: str, callers: int, seconds: float) -> None:
    """The noisy user; says when it began, and how often it was answered."""
    await call_on(url, "noisy", 0)
    print("begun", flush=True)
    took = await asyncio.gather(*(call_on(url, "noisy", seconds) for _ in range(callers)))
    print(sum(len(one) for one in took), flush=True)


async def call_on(url: str, user: str, seconds: float) -> list[float]:
    """Call one after another; how long each took."""
    import aiohttp

    until = time.perf_counter() + seconds
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {name.decode(): value.decode() for name, value in HEADERS.items()}
    headers["authorization"] = f"Bearer {TOKENS[user]}"
    took: list[float] = []
    async with aiohttp.ClientSession() as http:
        while not took or time.perf_counter() < until:
            began = time.perf_counter()
            async with http.post(url, data=MODERN, headers=headers) as response:
                if b"hello world" not in await response.read():
                    raise RuntimeError(f"wrong answer: {response.status}")
            took.append(time.perf_counter() - began)
    return took


def at(took: list[float], share: float) -> float:
    """A percentile, in milliseconds."""
    return sorted(took)[min(int(len(took) * share), len(took) - 1)] * 1000


async def serve() -> None:
    """The server: four at once, and the others wait inside it."""
    from trunkline.config.options import GatewayConfig
    from trunkline.gateway.http import Server
    from trunkline.gateway.request import JSON, Request

    places = asyncio.Semaphore(AT_ONCE)

    async def handle(request: Request) -> None:
        if request.method != "POST":
            request.answer(405)
            return
        status, body = respond(request.body, "")
        async with places:
            await asyncio.sleep(WORK)
        request.answer(status, body, [JSON])

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    await Server(handle, GatewayConfig()).serve(listening, asyncio.Event())


if __name__ == "__main__":
    main()
