"""The admin API as a whole: its description, what it refuses, and who may ask for what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import jsonschema
import pytest

from tests.gateway.test_console_session import Browser
from tests.harness import gateway
from tests.install.test_services import Endpoint, endpoint
from tests.tenancy.oauth.provider import bearer, browsing, provider
from tests.tenancy.test_access import notes, open_house
from tests.tenancy.test_people import Admin
from trunkline import CredentialRefused
from trunkline.gateway.api.routes import PATH, Route
from trunkline.gateway.serve import Gateway
from trunkline.identity import Scope
from trunkline.model import Call, Question
from trunkline.tools.trust.agreement import Waiting

__all__ = ["endpoint"]

Json = dict[str, Any]

FITTING: dict[str, Json] = {
    "NewUser": {"name": "x"},
    "UserChange": {"role": "member"},
    "WantedKey": {},
    "WantedServer": {"url": "http://127.0.0.1:1/mcp"},
    "WantedTool": {"tags": ["x"]},
    "WantedService": {},
    "WantedThread": {"servers": ["one"]},
    "WantedClone": {"id": "t9"},
    "WantedCall": {"arguments": {}},
    "Decision": {},
    "WantedSession": {"key": "x"},
    "WantedCheck": {"url": "http://127.0.0.1:1/mcp"},
    "WantedAnswer": {"action": "decline"},
    "WantedInstall": {},
    "WantedImport": {},
}
"""A body of each type that is taken."""


def at(route: Route, **names: str) -> str:
    """The path of a route, with names in it."""
    return route.path.format(**{part[1:-1]: names.get(part[1:-1], "x") for part in route.parts if part[:1] == "{"})


def body_of(route: Route) -> Json | None:
    return FITTING[route.body.__name__] if route.body is not None else None


async def description(opened: Gateway, http: aiohttp.ClientSession) -> Json:
    async with http.get(opened.url.removesuffix("/mcp") + PATH + "openapi.json") as response:
        assert response.status == 200
        return await response.json()


def parts_of(value: Any, key: str) -> Iterator[Any]:
    """Everything under a key, wherever it is."""
    if isinstance(value, dict):
        for name, inner in value.items():  # type: ignore[reportUnknownVariableType] - JSON
            if name == key:
                yield inner
            yield from parts_of(inner, key)
    elif isinstance(value, list):
        for inner in value:  # type: ignore[reportUnknownVariableType] - JSON
            yield from parts_of(inner, key)


async def test_every_route_is_described_with_all_it_takes(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with gateway(tmp_path, {}) as opened:
        await Admin(opened, http).key("ana")
        told = await description(opened, http)
        routes = opened.app.api.routes

    operations = {(method.upper(), path): one for path, item in told["paths"].items() for method, one in item.items()}
    assert operations.keys() == {(route.method, PATH + route.path) for route in routes}
    for route in routes:
        one = operations[route.method, PATH + route.path]
        parameters = {(parameter["in"], parameter["name"]) for parameter in one["parameters"]}
        assert {("query", name) for name in route.query} <= parameters
        assert {("path", part[1:-1]) for part in route.parts if part.startswith("{")} <= parameters
        assert (("header", "If-Match") in parameters) == route.versioned
        assert ("requestBody" in one) == (route.body is not None)
        assert ("content" in one["responses"][str(route.status)]) == (route.status != 204)
        assert ("401" in one["responses"]) == (route.path != "openapi.json")
        assert ("403" in one["responses"]) == (one.get("security") != [])
    assert len({one["operationId"] for one in operations.values()}) == len(operations)
    public = {(method, path) for (method, path), one in operations.items() if one.get("security") == []}
    assert public == {("GET", PATH + "openapi.json"), ("GET", PATH + "me"), ("POST", PATH + "session")}
    for ref in parts_of(told, "$ref"):
        found = told
        for name in ref.removeprefix("#/").split("/"):
            found = found[name]
    for schema in told["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_what_is_answered_is_as_described(
    tmp_path: Path, http: aiohttp.ClientSession, endpoint: Endpoint
) -> None:
    sections = {"discovery": {"url": endpoint.url}, "audit": {"enabled": True}}
    async with (
        provider() as protected,
        open_house(tmp_path / "house", http, sections=sections) as (opened, admin),
        gateway(tmp_path / "far", {}) as far,
    ):
        await far.hub.mount(notes("n", "far"))
        endpoint.services = [endpoint.service("sea")]
        told = await description(opened, http)
        key = await admin.key("ana")
        own = Admin(opened, http, key)
        key_id = (await own("POST", "keys", {}))[1]["id"]
        checked: set[tuple[str, str]] = set()

        async def check(asks: Admin, method: str, route: str, body: Json | None = None, query: str = "") -> Any:
            named = {"users": "ana", "servers": "far", "tools": "one__read_note", "discovery": "sea"}
            named |= {"registry": "github"}
            names = {"name": named.get(route.split("/")[0], ""), "server": "far", "client": "cursor"}
            if route.endswith("/login") or route.startswith("connections"):
                names = {"name": "git", "server": "git"}
            path = route.format(**names, tool="read_note", id=key_id if route.startswith("keys") else "t1")
            status, answer = await asks(method, path + query, body)
            operation = told["paths"][PATH + route][method.lower()]
            assert status < 300, (method, path, answer)
            promised = operation["responses"].get(str(status)) or operation["responses"]["200"]
            if status != 204:
                schema = {**promised["content"]["application/json"]["schema"], "components": told["components"]}
                jsonschema.validate(answer, schema)
                unknown = answer.keys() - schema.get("properties", answer).keys() - {"total", "cache", "unreached"}
                assert not unknown
            checked.add((method, route))
            return answer

        await check(own, "POST", "session", {"key": key})
        browser = Browser(opened, http)
        await browser.sign_in(key)
        assert (await browser("DELETE", "session"))[0] == 204
        checked.add(("DELETE", "session"))
        await check(own, "GET", "me")
        await check(own, "POST", "servers", {"name": "far", "url": far.url, "tags": ["a"]})
        await check(own, "PATCH", "servers/{name}", {"description": "d"})
        await check(own, "PATCH", "servers/{name}/tools/{tool}", {"tags": ["a"], "input_examples": [{"a": 1}]})
        made = await own("POST", "servers", {"name": "git", "url": f"{protected.url}/mcp"})
        assert made[0] == 201, made
        begun = await check(own, "POST", "servers/{name}/login")
        async with browsing() as tab, tab.get(begun["url"], headers=bearer(key)) as page:
            assert page.status == 200
        done = await check(own, "GET", "servers/{name}/login", query=f"?attempt={begun['attempt']}")
        assert done == {"state": "signed-in"}
        assert (await check(own, "POST", "servers/{name}/login")) == {"state": "signed-in"}
        assert [one["server"] for one in (await check(own, "GET", "connections"))["connections"]] == ["git"]
        for action in ("restart", "disable", "enable", "doctor"):
            await check(own, "POST", f"servers/{{name}}/{action}")
        await check(own, "GET", "servers/{name}/log", query="?lines=3")
        await check(own, "POST", "servers/check", {"url": far.url})
        await check(own, "POST", "registry/{name}/install", {"values": {"GITHUB_PERSONAL_ACCESS_TOKEN": "x"}})
        await check(admin, "POST", "clients/{client}/import", {"servers": ["x"]})
        scope = Scope(user="ana", joined=round((await own("GET", "users/ana"))[1]["created"] * 1000))
        call, asks = Call("tools/call", "one__read_note", {}, scope=scope), Question("elicitation/create", b"{}")
        opened.app.questions.add(call, "one", asks, 60.0, lambda said: "")
        [asked] = (await check(own, "GET", "questions"))["questions"]
        assert (await own("POST", f"questions/{asked['id']}", {"action": "accept"}))[0] == 200
        checked.add(("POST", "questions/{id}"))
        await check(own, "PUT", "threads/{id}", {"servers": ["one"], "overrides": {"limits": {"calls_per_hour": 3}}})
        await check(own, "POST", "threads/{id}/clone", {"id": "t2"})
        await check(own, "POST", "tools/{name}/call", {"arguments": {}})
        await check(own, "POST", "keys", {"expires": "30d"})
        await check(admin, "POST", "users", {"name": "bob"})
        await check(admin, "PATCH", "users/{name}", {"limits": {"calls_per_hour": 30}})
        await check(admin, "POST", "discovery/{name}", {})
        for route in ("discovery", "users", "users/{name}", "keys", "servers", "stats", "tools", "registry", "clients"):
            await check(admin, "GET", route)
        for route in ("calls", "series", "usage", "audit"):
            await check(admin, "GET", route)
        own_calls = await check(own, "GET", "calls", query="?tool=read_note")
        await own("GET", f"calls/{own_calls['calls'][0]['id']}")
        for route in ("servers", "servers/{name}", "tools", "tools/{name}", "threads", "threads/{id}", "stats"):
            await check(own, "GET", route)
        await check(own, "GET", "tools", query="?q=read+a+note")
        for route in ("openapi.json", "profiles", "limits", "registry/{name}"):
            await check(own, "GET", route)
        kept = opened.hub.relay.trust.kept("ana/far")
        for decision in ("reject", "approve"):
            kept.waiting["tools", "x"] = Waiting("held", b'{"name":"x"}', "0", 1.0)
            await check(own, "GET", "review")
            await check(own, "POST", f"review/{{server}}/{decision}", {})
        for route in ("threads/{id}", "connections/{server}", "servers/{name}", "keys/{id}"):
            await check(own, "DELETE", route)
        await check(admin, "DELETE", "users/{name}")

        apart = {("GET", "calls/{id}"), ("GET", "events")}  # as a page, and as a stream
        apart |= {("GET", "programs"), ("DELETE", "programs/{id}")}  # with programs
        assert checked | apart == {(route.method, route.path) for route in opened.app.api.routes}


async def test_a_body_that_does_not_fit_is_refused_with_words(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with open_house(tmp_path, http) as (opened, admin):
        await admin.key("ana")
        error = (await description(opened, http))["components"]["schemas"]["Error"]
        for route in opened.app.api.routes:
            if route.body is None:
                continue
            right = FITTING[route.body.__name__]
            fields = route.body.__struct_fields__
            wrong: list[tuple[Any, str]] = [
                ({**right, "surely_not": 1}, "surely_not"),
                *(({**right, name: {"a": [None]}}, name) for name in fields if name not in ("arguments", "content")),
                ([], "array"),
            ]
            for body, words in wrong:
                status, told = await admin(route.method, at(route), body)
                assert (status, told["error"]["code"]) == (422, "refused"), (route, body, told)
                assert words in told["error"]["message"]
                jsonschema.validate(told, error)


async def test_a_server_of_the_file_is_changed_there_and_not_said_to_be_missing(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path, {"git": {"url": "http://127.0.0.1:1/mcp"}}) as opened:
        admin = Admin(opened, http)
        for method, path, body in (
            ("PATCH", "servers/git", {"description": "x"}),
            ("PATCH", "servers/git/tools/log", {"tags": ["x"]}),
            ("DELETE", "servers/git", None),
        ):
            status, told = await admin(method, path, body)

            assert (status, told["error"]["code"]) == (403, "refused"), told
            assert "stands in the configuration" in told["error"]["message"]
        assert (await admin("GET", "servers/git"))[0] == 200
        assert (await admin("DELETE", "servers/other"))[0] == 404


async def test_a_server_whose_secrets_were_tampered_with_says_so_and_is_registered_again(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    heard: list[CredentialRefused] = []
    async with open_house(tmp_path, http) as (opened, admin):
        opened.hub.on(CredentialRefused, heard.append)
        wanted = {"name": "far", "url": "http://127.0.0.1:1/mcp", "headers": {"k": "canary-1"}, "scope": "app"}
        await admin("POST", "servers", wanted)
        await (await opened.hub.relay.tenancy.store()).fetch("UPDATE credentials SET record = ?", b"v1" + bytes(60))

        status, told = await admin("PATCH", "servers/far?scope=app", {"description": "d"})

        assert (status, told["error"]["code"], "headers for server far" in told["error"]["message"]) == (
            *(422, "credential"),
            True,
        )
        assert [str(event.name) for event in heard] == ["headers for server far"]
        status, told = await admin("GET", "servers/far?scope=app")
        assert (status, "canary" in str(told)) == (200, False)
        assert (await admin("POST", "servers", wanted))[0] == 201
        assert (await admin("PATCH", "servers/far?scope=app", {"description": "d"}))[0] == 200


@pytest.mark.parametrize("who", ["member", "reader", "read-only key", "narrow key", "admin's read-only key"])
async def test_of_another_users_things_nothing_is_seen_or_changed_on_any_route(
    tmp_path: Path, http: aiohttp.ClientSession, who: str
) -> None:
    async with open_house(tmp_path / "house", http) as (opened, admin), gateway(tmp_path / "far", {}) as far:
        await far.hub.mount(notes("n", "canary"))
        ana = Admin(opened, http, await admin.key("ana", name="canary"))
        await ana("POST", "servers", {"name": "hers", "url": far.url, "description": "canary"})
        await ana("PUT", "threads/t1", {"servers": ["hers"], "tools": ["*", "canary"]})
        assert "canary" in str(await ana("POST", "tools/hers__read_note/call", {"thread": "t1"}))
        rights = {"read-only key": {"read_only": True}, "narrow key": {"servers": ["one"]}}
        key = await admin.key("eve", **rights.get(who.removeprefix("admin's "), {}))
        role = "admin" if who.startswith("admin") else "reader" if who == "reader" else "member"
        await admin("PATCH", "users/eve", {"role": role})
        eve = Admin(opened, http, key)
        before = await everything(admin, ana)
        key_id = before[0][1]["keys"][0]["id"]
        names = {"users": "ana", "servers": "hers", "tools": "hers__read_note"}

        for route in opened.app.api.routes:
            if route.streams:
                continue
            id = key_id if route.parts[0] == "keys" else "t1"
            path = at(route, name=names.get(route.parts[0], ""), id=id)
            for query in ("", "?user=ana") if "user" in route.query else ("",):
                body = body_of(route)
                hers = bool(query) or route.path.startswith(("users", "keys/", "tools/"))
                if route.path in ("keys", "servers") and body is not None:
                    body, hers = {**body, "user": "ana", "name": "hers"}, True
                status, told = await eve(route.method, path + query, body)
                assert "canary" not in str(told), (route, told)
                assert not hers or status in (403, 404), (route, query, told)
                changes = route.method != "GET" and not route.public and route.needs != "any key"
                if changes and who != "member" and not (who == "narrow key" and route.parts[0] == "threads"):
                    assert status == 403, (route, told)

        assert await everything(admin, ana) == before
        assert "hers" not in str([await eve("GET", path) for path in ("stats", "servers", "tools", "tools?q=note")])
        async with http.get(
            opened.url.removesuffix("mcp") + "readyz", headers={"authorization": f"Bearer {key}"}
        ) as ready:
            assert "hers" not in await ready.text()


@pytest.mark.parametrize("who", ["nobody", "reader", "member", "admin"])
async def test_no_route_leads_from_a_request_to_a_command(
    tmp_path: Path, http: aiohttp.ClientSession, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary, home = tmp_path / "canary", tmp_path / "person"
    command: Json = {"command": "/bin/sh", "args": ["-c", f"touch {canary}"]}
    (home / ".cursor").mkdir(parents=True)
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"x": command, "evil": command}}))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TRUNKLINE_OFFLINE", "1")
    async with open_house(tmp_path / "house", http) as (opened, admin):
        key = await admin.key("eve")
        await admin("PATCH", "users/eve", {"role": who if who != "nobody" else "member"})
        eve = Admin(opened, http, "no-key" if who == "nobody" else key)
        url = "http://127.0.0.1:1/mcp"
        await eve("POST", "servers", {"name": "x", "url": url, **({"scope": "app"} if who == "admin" else {})})
        planted: list[Json] = [
            {**command, "name": "evil"},
            {"name": "evil", "url": f"$(touch {canary})", "cwd": "/", "env": {"PATH": f"; touch {canary}"}},
            {"values": {"path": f"; touch {canary}", "directories": f"$(touch {canary})"}, "name": "evil"},
            {"arguments": command},
            {"servers": ["evil"]},
        ]
        for route in opened.app.api.routes:
            if route.path in ("openapi.json", "session") or (route.streams and who != "nobody"):
                continue
            for name in ("x", "evil", "filesystem", f"; touch {canary}"):
                path = quote_names(at(route, name=name, client="cursor", server=name, id=name, tool=name))
                bodies: list[Json | None] = [None]
                if route.body is not None:
                    fields, right = route.body.__struct_fields__, FITTING[route.body.__name__]
                    bodies = [{**right, **{key: one[key] for key in one if key in fields}} for one in planted]
                    bodies += [{**right, **one} for one in planted]
                for body in bodies:
                    status, _ = await eve(route.method, path, body)
                    assert status < 500 or status in (502, 504), (route, body)
                    if who == "nobody" and not route.public:
                        assert status == 401, route
        started = [name for name in opened.hub.relay.config.servers if opened.hub.relay.config.servers[name].command]

    assert not canary.exists()
    assert started == []


def quote_names(path: str) -> str:
    return quote(path, safe="/%")


async def everything(admin: Admin, ana: Admin) -> list[Any]:
    """What there is of a user, as far as calls do not change it."""
    asked = [await ana("GET", path) for path in ("keys", "threads/t1", "servers/hers", "users/ana")]
    server = asked[2][1]
    for name in ("calls", "failures", "tool_errors", "success_rate", "average_seconds", "state", "reason"):
        server.pop(name, None)
    users = (await admin("GET", "users"))[1]["users"]
    return [*asked, [user["name"] for user in users]]
