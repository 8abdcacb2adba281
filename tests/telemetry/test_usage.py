"""Usage: tokens of lists, searches, arguments and answers, and cost, against what was counted by hand."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from tests.call.stages.till import USERS, Till, teller
from tests.gateway.test_calls import ADMIN, get
from tests.harness import TRUNKLINE, Heard, gateway
from trunkline.tools.tokens import estimated

Json = dict[str, Any]
COSTS = {"till": {"get_balance": 0.25, "get_wrong": 2.0}, "shop": {"get_balance": 1.5}}
COUNTED = ("calls", "errors", "tokens_in", "tokens_out", "list_tokens", "search_tokens", "cost")


def result_in(heard: Heard) -> bytes:
    """The bytes of a result, as they stand in the answer."""
    return heard.raw.partition(b'"result":')[2].removesuffix(b"}")


class Hand:
    """Counts by hand what each call should have used."""

    def __init__(self, at: Till) -> None:
        self._at = at
        self.of: dict[tuple[str, str, str, str], Counter[str]] = {}

    def _add(self, user: str, thread: str, server: str, tool: str, **used: float) -> None:
        place = self.of.setdefault((user, thread, server, tool), Counter())
        for name, amount in used.items():
            place[name] += amount  # type: ignore[reportArgumentType] - a Counter adds floats as well

    async def call(self, user: str, thread: str, server: str, tool: str, account: str) -> None:
        """Call a tool of a server."""
        arguments = json.dumps({"account": account})
        headers = {"trunkline-thread": thread} if thread else {}
        heard = await self._at.modern(user).call(f"{server}__{tool}", {"account": account}, headers=headers)
        out = estimated(result_in(heard))
        used = {"tokens_in": estimated(arguments), "tokens_out": out, "cost": COSTS[server].get(tool, 0)}
        self._add(user, thread, server, tool, calls=1, errors=heard.result.get("isError", False), **used)

    async def find(self, user: str, words: str) -> None:
        """Search for tools."""
        heard = await self._at.modern(user).call("search_tools", {"query": words})
        used = {"tokens_in": estimated(json.dumps({"query": words})), "search_tokens": estimated(result_in(heard))}
        self._add(user, "", "", "search_tools", calls=1, **used)

    async def list(self, user: str) -> None:
        """Have the tools listed."""
        heard = await self._at.modern(user).request("tools/list")
        self._add(user, "", "", "tools/list", list_tokens=estimated(result_in(heard)))

    def by(self, *names: str, user: str = "") -> dict[tuple[str, ...], dict[str, float]]:
        """What there should be, summed by some of user, thread, server and tool."""
        sums: dict[tuple[str, ...], Counter[str]] = {}
        for place, used in self.of.items():
            named: dict[str, str] = dict(zip(("user", "thread", "server", "tool"), place, strict=True))
            if user in ("", named["user"]):
                sums.setdefault(tuple(named[name] for name in names), Counter()).update(used)
        return {place: {name: used[name] for name in COUNTED} for place, used in sums.items()}


def told(answer: Json, *names: str) -> dict[tuple[str, ...], dict[str, float]]:
    return {tuple(one[name] for name in names): {name: one[name] for name in COUNTED} for one in answer["usage"]}


def close(found: dict[Any, dict[str, float]], counted: dict[Any, dict[str, float]]) -> bool:
    """Alike, but for tokens: those of a tool's calls are told from its first ones, and may be off by a little."""
    same = ("calls", "errors", "cost", "list_tokens", "search_tokens")
    return found.keys() == counted.keys() and all(
        all(found[key][name] == counted[key][name] for name in same)
        and all(
            abs(found[key][name] - counted[key][name]) <= found[key]["calls"] for name in ("tokens_in", "tokens_out")
        )
        for key in found
    )


async def test_what_was_used_is_what_was_counted_by_hand(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    servers = {
        name: teller(tmp_path, name, tools={tool: {"cost_hint": cost} for tool, cost in costs.items()})
        for name, costs in COSTS.items()
    }
    limits = {"limits": {"calls_per_hour": 100, "cost_per_day": 50}}
    options: Json = {"sections": limits, "users": USERS, "token": ADMIN, "expose": "search"}
    async with gateway(tmp_path / "home", servers, **options) as opened:
        at = Till(opened, http, tmp_path)
        hand = Hand(at)
        for account in ("rent", "food"):
            await hand.call("ana", "", "till", "get_balance", account)
        await hand.call("ana", "plans", "shop", "get_balance", "rent")
        await hand.call("ana", "plans", "till", "get_wrong", "rent")
        for _ in range(2):
            await hand.call("bob", "", "till", "get_balance", "rent")
        await hand.find("ana", "what is left on an account")
        await hand.list("bob")
        await hand.list("bob")
        found = {by: await get(at, f"/api/v1/usage?by={by}") for by in ("user", "thread", "server", "tool")}
        own = await get(at, "/api/v1/usage?by=tool", USERS["ana"])
        env = {**os.environ, "TRUNKLINE_HOME": str(tmp_path / "elsewhere"), "TRUNKLINE_TOKEN": ADMIN}
        words = [TRUNKLINE, "usage", "--by", "server", "--format", "compact", "--url", opened.url]
        (tmp_path / "token.json").write_text(json.dumps({"gateway": {"token": USERS["ana"]}}))
        printed = await asyncio.to_thread(
            subprocess.run, [*words, "--config", str(tmp_path / "token.json")], capture_output=True, text=True, env=env
        )

    assert close(told(found["user"], "user"), hand.by("user"))
    assert close(told(found["thread"], "user", "thread"), hand.by("user", "thread"))
    assert close(told(found["server"], "server"), hand.by("server"))
    assert close(told(found["tool"], "server", "tool"), hand.by("server", "tool"))
    assert close(told(own, "server", "tool"), hand.by("server", "tool", user="ana"))
    assert told(found["user"], "user")["ana",]["cost"] == 0.25 * 2 + 1.5 + 2.0
    budgets = {name: (one["used"], one["left"], one["limit"]) for name, one in own["limits"].items()}
    assert budgets == {"calls_per_hour": (4, 96, 100), "cost_per_day": (4.0, 46.0, 50)}  # searches are not limited
    assert sorted(line.split()[:3] for line in printed.stdout.splitlines()) == [
        ["-", "1", "0"], ["shop", "1", "0"], ["till", "3", "1"],
    ], printed.stderr  # fmt: skip
