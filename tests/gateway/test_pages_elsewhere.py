"""A real browser: a page of a named origin speaks MCP with the gateway, and through `/edge` with a server elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.browser import browser
from tests.gateway.test_edge_proxy import Target
from tests.harness import META, VERSION, faulty, gateway

KEY = "correct-horse-battery-staple"

SPEAK = """async ([url, key, message]) => {
  const answer = await fetch(url, {
    method: "POST",
    credentials: "include",
    headers: {
      "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
      "Authorization": `Bearer ${key}`, "MCP-Protocol-Version": message.version, "Mcp-Method": message.body.method,
    },
    body: JSON.stringify(message.body),
  }).catch(error => error);
  return answer instanceof Error ? String(answer) : [answer.status, await answer.json()];
}"""
PLAIN = SPEAK.replace('    credentials: "include",\n', "")
REACH = """async ([edge, target, key]) => {
  const answer = await fetch(`${edge}?url=${encodeURIComponent(target)}`, {
    headers: {"Trunkline-Key": key, "Authorization": "Bearer of-the-target", "Last-Event-ID": "7"},
  }).catch(error => error);
  if (answer instanceof Error) return String(answer);
  const shown = ["mcp-session-id", "x-secret-header", "set-cookie"].map(name => answer.headers.get(name));
  return [answer.status, shown, await answer.text()];
}"""


async def test_a_page_of_a_named_origin_does_in_a_browser_what_others_may_not(tmp_path: Path) -> None:
    target, there, pages = Target(), web.Application(), web.Application()
    there.router.add_route("*", "/{path:.*}", target.answer)

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>page</title>", content_type="text/html")

    pages.router.add_get("/", page)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    message = {"version": VERSION, "body": listing}
    async with TestServer(there, host="127.0.0.1") as elsewhere, TestServer(pages, host="127.0.0.1") as served:
        named = str(served.make_url("/")).rstrip("/")
        other = named.replace("127.0.0.1", "localhost")
        address = str(elsewhere.make_url("/mcp"))
        edge: dict[str, Any] = {"origins": [named], "targets": [address], "allow_private": True}
        options: dict[str, Any] = {"token": KEY, "allowed_origins": [named], "sections": {"edge": edge}}
        async with gateway(tmp_path, {"one": faulty()}, **options) as opened, browser() as chromium:
            at_edge = [opened.url.removesuffix("/mcp") + "/edge", address, KEY]
            tab = await chromium.new_page()
            await tab.goto(named)
            status, listed = await tab.evaluate(PLAIN, [opened.url, KEY, message])
            refused = await tab.evaluate(PLAIN, [opened.url, "wrong", message])
            with_cookies = await tab.evaluate(SPEAK, [opened.url, KEY, message])
            reached = await tab.evaluate(REACH, at_edge)
            await tab.goto(other)
            stranger = [await tab.evaluate(PLAIN, [opened.url, KEY, message]), await tab.evaluate(REACH, at_edge)]

    assert status == 200
    assert listed["result"]["tools"]
    assert refused[0] == 401
    assert with_cookies == "TypeError: Failed to fetch"
    assert (reached[0], reached[1], json.loads(reached[2])) == (200, ["s1", None, None], {"ok": True})
    assert stranger == ["TypeError: Failed to fetch"] * 2
    ((_, _, headers, _),) = target.heard
    assert (headers["authorization"], headers["last-event-id"]) == ("Bearer of-the-target", "7")
