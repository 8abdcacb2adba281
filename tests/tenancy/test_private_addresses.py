"""Addresses that members give: none of them leads into our own network, at whichever door (CHECKS A09)."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import aiohttp

from tests.harness import gateway
from tests.tenancy.test_access import open_house
from tests.upstream.test_egress import HERE, canary, was_touched

__all__ = ["canary"]


OAUTH = ("issuer", "authorization_url", "token_url", "idp_token_url", "client_metadata_url")


async def test_every_field_of_the_api_that_takes_an_address_is_tried_here(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with (
        gateway(tmp_path, {}) as opened,
        http.get(opened.url.removesuffix("/mcp") + "/api/v1/openapi.json") as answer,
    ):
        schemas = (await answer.json())["components"]["schemas"]
    taken = {
        f"{name}.{field}"
        for name, schema in schemas.items()
        if name.startswith("Wanted")
        for field in schema["properties"]
        if re.search("ur[il]|issuer|endpoint|address|host", field)
    }

    assert taken == {"WantedServer.url", "WantedCheck.url", *(f"WantedOAuth.{field}" for field in OAUTH)}


async def test_no_address_of_a_members_server_reaches_this_machine(
    tmp_path: Path, http: aiohttp.ClientSession, canary: socket.socket
) -> None:
    port, statuses = canary.getsockname()[1], dict[str, set[int]]()
    async with open_house(tmp_path, http, allow_private=False) as (opened, admin):
        key = await admin.key("ana")
        base, headers = opened.url.removesuffix("/mcp"), {"authorization": f"Bearer {key}"}
        for number, host in enumerate(HERE):
            url = f"http://{host}:{port}/mcp"
            for path, body in {
                "servers/check": {"url": url},
                "servers": {"name": f"s{number}", "url": url, "oauth": {"client_id": "c", **dict.fromkeys(OAUTH, url)}},
                f"servers/s{number}/login": {},
                f"servers/s{number}/restart": {},
            }.items():
                async with http.post(f"{base}/api/v1/{path}", json=body, headers=headers) as answer:
                    statuses.setdefault(path.rpartition("/")[2], set()).add(answer.status)

    assert not was_touched(canary)
    # It is kept, as its address may lead elsewhere tomorrow; what was tried says that it cannot be reached.
    assert statuses == {"check": {200}, "servers": {201}, "login": {422}, "restart": {200}}
