"""Requests that schemathesis makes from the description of the admin API: each is answered as described."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.harness import gateway
from tests.tenancy.test_access import notes, open_house
from tests.tenancy.test_api import description
from tests.tenancy.test_people import Admin

# The gateway is in this process, and draws the lengths of its pauses while a request is made up in another thread.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@pytest.mark.timeout(300)
async def test_whatever_is_asked_by_whomever_is_answered_as_described(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing schemathesis takes seconds, which every worker would wait for that only collects this.
    from tests.gateway.described import MADE, Sender, send_all

    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("TRUNKLINE_OFFLINE", "1")
    audit = {"audit": {"enabled": True}}
    async with open_house(tmp_path / "house", http, sections=audit) as (opened, admin), gateway(tmp_path, {}) as far:
        await far.hub.mount(notes("n", "canary"))
        ana, bob = await admin.key("ana"), await admin.key("bob")
        await admin.key("zoe")
        her = Admin(opened, http, ana)
        await her("POST", "servers", {"name": "hers", "url": far.url, "description": "canary"})
        await her("PUT", "threads/t1", {"servers": ["hers"], "tools": ["*", "canary"]})
        await admin("POST", "servers", {"name": "everybodys", "url": "http://127.0.0.1:1/mcp", "scope": "app"})
        told = await description(opened, http)
        keys = {"nobody": "", "another": bob, "owner": ana, "admin": opened.key}
        senders = {who: Sender(opened.url.removesuffix("/mcp"), key) for who, key in keys.items()}

        # Whose a request is, its sender says: no keys are made up.
        made = await asyncio.to_thread(send_all, {**told, "security": []}, senders)
        watched = {who: await asyncio.to_thread(sender.watch) for who, sender in senders.items()}

        for sender in senders.values():
            sender.close()

    operations = {
        f"{method.upper()} {path}": one for path, item in told["paths"].items() for method, one in item.items()
    }
    public = {name for name, one in operations.items() if "security" in one}
    assert {name for name, found in senders["nobody"].statuses().items() if found != {401}} <= public
    assert made == {label: expected for label, _, _, expected in MADE}
    stream = (200, "text/event-stream", 'data: {"type":"hello"}')
    assert (watched.pop("nobody")[0], set(watched.values())) == (401, {stream})
    assert list(operations["GET /api/v1/events"]["responses"]["200"]["content"]) == ["text/event-stream"]
    assert "canary" in str(senders["owner"].answers)
    for who in ("nobody", "another"):
        assert not [one for one in senders[who].answers if "canary" in one.text]
    assert senders["admin"].statuses().keys() == operations.keys() - {"GET /api/v1/events"}
    assert {who: sender.problems for who, sender in senders.items() if sender.problems} == {}
