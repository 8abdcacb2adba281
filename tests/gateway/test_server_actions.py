"""What the admin API does with servers that are there: logs, restarts, switches, the doctor, and trying an address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import faulty, faulty_http, gateway
from tests.tenancy.test_access import notes, open_house
from tests.tenancy.test_people import Admin

Json = dict[str, Any]


async def servers(admin: Admin) -> dict[str, str]:
    return {one["name"]: one["state"] for one in (await admin("GET", "servers"))[1]["servers"]}


async def test_an_admin_reads_the_log_restarts_and_switches_off_what_the_file_has(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    configured = {"shy": faulty(), "gone": {"command": "no-such-program-here"}}
    async with gateway(tmp_path, configured) as opened:
        admin = Admin(opened, http)
        await admin("POST", "tools/shy__stderr_flood/call", {"arguments": {"bytes": 4096}})
        log = await admin("GET", "servers/shy/log?lines=2")
        before = opened.hub.relay.snapshot.servers["shy"].known_since
        restarted = await admin("POST", "servers/shy/restart")
        after = opened.hub.relay.snapshot.servers["shy"].known_since
        off = await admin("POST", "servers/shy/disable")
        seen, one = await servers(admin), await admin("GET", "servers/shy")
        stopped = await admin("POST", "servers/shy/restart")
        ails = await admin("POST", "servers/shy/doctor")
        gone = await admin("POST", "servers/gone/doctor")
    async with gateway(tmp_path, configured) as again:
        admin = Admin(again, http)
        still = await servers(admin)
        on = await admin("POST", "servers/shy/enable")
        await again.hub.ready(10)
        running = await servers(admin)
        wrong = [(await admin(*asked))[0] for asked in (("GET", "servers/x/log"), ("GET", "servers/shy/log?lines=0"))]

    assert (log[0], [len(line) for line in log[1]["lines"]]) == (200, [1023, 1023])
    assert (restarted[0], restarted[1]["state"], after > before) == (200, "ready", True)
    assert (off[0], off[1]["state"], off[1]["enabled"]) == (200, "stopped", False)
    assert (seen["shy"], one[1]["state"], stopped[0]) == ("stopped", "stopped", 404)
    assert [found["fix"]["action"] for found in ails[1]["findings"]] == ["enable"]
    assert [found["code"] for found in gone[1]["findings"]] == ["TL202"]
    assert "no-such-program-here" in str(gone[1]["findings"][0])
    assert (still["shy"], on[0], running["shy"]) == ("stopped", 200, "ready")
    assert wrong == [404, 422]


async def test_no_name_leads_from_a_log_to_another_or_to_a_file(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    for place in ("shy.log", "shyer/log", "log", "../shy-canary.log", "servers/shy/log"):
        (tmp_path / "home" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / place).write_text("planted")
    async with gateway(tmp_path / "home", {"shy": faulty(), "shyer": faulty()}) as opened:
        admin = Admin(opened, http)
        await admin("POST", "tools/shyer__stderr_flood/call", {"arguments": {"bytes": 64}})
        asked = (
            "../shy-canary",
            "..%2fshy-canary.log",
            "shy%2f..%2fshyer",
            "%2e%2e",
            "/etc/passwd",
            "shy%00er",
        )
        answers = [await admin("GET", f"servers/{name}/log") for name in asked]
        own = await admin("GET", "servers/shy/log")

    assert own == (200, {"lines": []})
    assert [(status, "planted" in str(told), "lines" in told) for status, told in answers] == [
        (404, False, False)
    ] * len(asked)


async def test_members_do_it_with_their_own_servers_alone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path / "house", http) as (opened, admin), gateway(tmp_path / "far", {}) as far:
        await far.hub.mount(notes("n", "far"))
        ana, eve = Admin(opened, http, await admin.key("ana")), Admin(opened, http, await admin.key("eve"))
        reader = Admin(opened, http, await admin.key("ana", read_only=True))
        narrow = Admin(opened, http, await admin.key("ana", servers=["one"]))
        await ana("POST", "servers", {"name": "hers", "url": far.url})
        actions = [("GET", "log"), *(("POST", word) for word in ("restart", "doctor", "disable", "enable"))]
        own = [(await ana(method, f"servers/hers/{word}"))[0] for method, word in actions]
        others = [(await eve(method, f"servers/hers/{word}"))[0] for method, word in actions]
        shared = [(await ana(method, f"servers/one/{word}"))[0] for method, word in actions]
        named = [(await eve(method, f"servers/hers/{word}?user=ana"))[0] for method, word in actions]
        read_only = [(await reader(method, f"servers/hers/{word}"))[0] for method, word in actions]
        narrowed = [(await narrow(method, f"servers/hers/{word}"))[0] for method, word in actions]
        await ana("POST", "servers/hers/disable")
        off, seen = await servers(ana), await servers(eve)
        by_admin = await admin("POST", "servers/ana%2Fhers/enable")

    assert own == [200] * 5
    assert others == [404] * 5
    assert shared == [403] * 5
    assert named == [403] * 5
    assert read_only == [200, 403, 403, 403, 403]
    assert narrowed == [404, 403, 403, 403, 403]
    assert (off["hers"], "hers" in seen) == ("stopped", False)
    assert (by_admin[0], by_admin[1]["name"]) == (200, "ana/hers")


async def test_an_address_is_tried_and_nothing_of_it_kept(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with (
        open_house(tmp_path / "house", http) as (opened, admin),
        gateway(tmp_path / "far", {}) as far,
        gateway(tmp_path / "locked", {}, token="a-token-of-the-file-1") as locked,
    ):
        await far.hub.mount(notes("n", "far"))
        ana = Admin(opened, http, await admin.key("ana"))
        works = await ana("POST", "servers/check", {"url": far.url})
        asks = await ana("POST", "servers/check", {"url": locked.url})
        key = {"authorization": "Bearer a-token-of-the-file-1"}
        let_in = await ana("POST", "servers/check", {"url": locked.url, "headers": key})
        nothing = await admin("POST", "servers/check", {"url": "http://127.0.0.1:1/mcp"})
        command = await admin("POST", "servers/check", {"url": "x", "command": "touch canary"})
        odd = await admin("POST", "servers/check", {"url": "file:///etc/passwd"})
        known = await servers(admin)

    assert (works[0], works[1]["state"], works[1]["tools"], works[1]["needs_sign_in"]) == (200, "ready", 2, False)
    assert (asks[1]["state"], asks[1]["needs_sign_in"]) == ("needs-authorization", True)
    assert (let_in[1]["state"], let_in[1]["tools"]) == ("ready", 0)
    assert (nothing[1]["state"], nothing[1]["findings"][0]["code"]) == ("unreachable", "TL302")
    assert (command[0], odd[0], set(known)) == (422, 422, {"one", "two"})


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{}/mcp", "http://[::ffff:127.0.0.1]:{}/mcp", "http://localhost:{}/x"]
)
async def test_who_may_reach_public_addresses_alone_is_not_told_what_is_at_others(
    tmp_path: Path, http: aiohttp.ClientSession, target: str
) -> None:
    with faulty_http() as url:
        port = url.split(":")[2].partition("/")[0]
        async with open_house(tmp_path, http, allow_private=False) as (opened, admin):
            ana = Admin(opened, http, await admin.key("ana"))
            there = (await ana("POST", "servers/check", {"url": target.format(port)}))[1]
            nothing = (await ana("POST", "servers/check", {"url": target.format(1)}))[1]

    assert there["state"] == nothing["state"] == "unreachable"
    assert there["reason"].replace(port, "1") == nothing["reason"]
    assert "not a public address" in there["reason"]
